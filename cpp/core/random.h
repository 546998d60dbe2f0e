// The random generator: the stream of PyTorch's CPU generator (on machines with AVX2), to the bit.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/index.h"
#include "core/noncopyable.h"
#include "core/turns.h"

namespace qkv {

// A Mersenne Twister and the distributions over it. Every member may be called from several threads at once; a call
// is then one piece of the stream, into which only the handler of a signal may draw. Long ones can be interrupted.
// Fills write n contiguous elements; T is float or double. Arguments outside their range are a ValueError before a word
// is drawn.
class Generator : NonCopyable {
 public:
  // Seeded from the system's entropy.
  Generator();
  explicit Generator(std::uint64_t seed);

  // Only the low 32 bits of the seed matter. Forgets the kept normal.
  void manual_seed(std::uint64_t seed);

  // The next 32-bit word, or the next two with the first as the high half.
  std::uint32_t random();
  std::uint64_t random64();

  // In [low, high), both rounded to T first. float: 24 random bits, one word each; double: 53 bits, two words.
  template <class T> void uniform(T* out, Index n, double low, double high);

  // n < 16: pairs by the mathematics library in double, the second of a pair is kept for a later call of any type.
  // n >= 16: blocks of 16; if 16 does not divide n, the last 16 elements are drawn once more.
  template <class T> void normal(T* out, Index n, double mean, double std);

  // In [low, high), by a remainder: one word each, two if the range is 2^28 or more.
  void randint(std::int64_t* out, Index n, std::int64_t low, std::int64_t high);

  // A permutation of 0 .. n - 1; n - 1 words, from n = 214748364 on 2 n words.
  void randperm(std::int64_t* out, Index n);

  // 1 with probability p, else 0; two words each, for any T (float, double or bool).
  template <class T> void bernoulli(T* out, Index n, double p);
  // The same for a piece of a longer array, whose elements before and after it are passed over.
  template <class T> void bernoulli_piece(T* out, Index n, double p, Index before, Index behind);

  // 1 with probability p[i]; the uniforms have the width of T.
  template <class T> void bernoulli(T* out, const T* p, Index n);

  // Density rate * exp(-rate * x); two words each.
  template <class T> void exponential(T* out, Index n, double rate);

  // out: (rows, samples), p: (rows, n) weights that need not sum to 1. Each row holds indices drawn with probability
  // proportional to p, with or without replacement.
  template <class T>
  void multinomial(std::int64_t* out, const T* p, Index rows, Index n, Index samples, bool replacement);

  // Everything that decides the future of the stream, kStateSize words.
  static constexpr Index kStateSize = 628;
  std::vector<std::uint32_t> state() const;
  void set_state(const std::vector<std::uint32_t>& state);

 private:
  static constexpr Index kWords = 624;
  static constexpr Index kSlice = Index{1} << 16;  // numbers between two looks whether to stop

  // f(first, count) for slices of n numbers, with a pause between two.
  template <class F> void in_slices(Index n, F f) {
    for (Index first = 0; first < n; first += kSlice) {
      if (first > 0) turns_.pause();
      f(first, n - first < kSlice ? n - first : kSlice);
    }
  }

  void seed_engine(std::uint64_t seed);
  std::uint32_t next();
  std::uint64_t next64();
  void fill_words(std::uint32_t* out, Index n);
  void skip_words(Index n);
  template <class T, class Transform> void fill_from_words(T* out, Index n, Index words_each, Transform transform);
  template <class T> void fill_uniform(T* out, Index n, T low, T high);
  template <class T> void fill_exponential(T* out, Index n, double rate);
  double small_normal();

  mutable Turns turns_;
  std::uint32_t state_[kWords];
  std::uint32_t shown_[kWords];  // the words of state_ as the engine shows them
  Index position_ = kWords;      // the next element of shown_
  std::optional<double> kept_normal_;
};

// The generator that is used where none is passed.
Generator& default_generator();

}  // namespace qkv
