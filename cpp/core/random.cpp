// Compiled with -ffp-contract=off: a multiplication and an addition are fused exactly where std::fma is called.
#include "core/random.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#if defined(_WIN32)
#include <random>
#else
#include <sys/random.h>
#include <unistd.h>
#endif

#include "core/error.h"
#include "core/random_transform.h"

namespace qkv {
namespace {

// From here on the remainder of a 32-bit word by n would be noticeably uneven, so 64 bits are drawn.
constexpr Index kLongPermutation = 0xffffffff / 20;
constexpr std::uint64_t kLongRange = std::uint64_t{1} << 28;

void check_count(const char* operation, Index n) {
  if (n < 0) fail_value(operation, ": n must be at least 0 because it counts elements; got n = ", n);
}

std::uint64_t entropy() {
#if defined(_WIN32)
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
#else
  // Not std::random_device: linked into the extension it asks for a function of glibc 2.36.
  std::uint64_t seed = 0;
  if (getentropy(&seed, sizeof seed) == 0) return seed;
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());  // an old kernel
#endif
}

}  // namespace

Generator::Generator() { seed_engine(entropy()); }

Generator::Generator(std::uint64_t seed) { seed_engine(seed); }

void Generator::manual_seed(std::uint64_t seed) {
  const Turn turn(turns_);
  seed_engine(seed);
}

void Generator::seed_engine(std::uint64_t seed) {
  state_[0] = static_cast<std::uint32_t>(seed);
  for (Index i = 1; i < kWords; ++i) {
    const std::uint32_t previous = state_[i - 1];
    state_[i] = 1812433253u * (previous ^ (previous >> 30)) + static_cast<std::uint32_t>(i);
  }
  random_transform::temper(shown_, state_);
  position_ = kWords;
  kept_normal_.reset();
}

std::uint32_t Generator::next() {
  if (position_ == kWords) {
    random_transform::twist(state_);
    random_transform::temper(shown_, state_);
    position_ = 0;
  }
  return shown_[position_++];
}

std::uint64_t Generator::next64() {
  const std::uint64_t high = next();
  return (high << 32) | next();
}

std::uint32_t Generator::random() {
  const Turn turn(turns_);
  return next();
}

std::uint64_t Generator::random64() {
  const Turn turn(turns_);
  return next64();
}

void Generator::fill_words(std::uint32_t* out, Index n) {
  while (n > 0) {
    *out++ = next();
    const Index count = std::min(--n, kWords - position_);
    std::copy_n(shown_ + position_, count, out);
    position_ += count;
    out += count;
    n -= count;
  }
}

void Generator::skip_words(Index n) {
  for (Index block = 1; n > kWords - position_; ++block) {
    if (block % 1024 == 0) turns_.pause();
    n -= kWords - position_;
    random_transform::twist(state_);
    position_ = 0;
    if (n <= kWords) random_transform::temper(shown_, state_);
  }
  position_ += n;
}

template <class T, class Transform>
void Generator::fill_from_words(T* out, Index n, Index words_each, Transform transform) {
  constexpr Index kChunk = 512;
  std::uint32_t words[2 * kChunk];
  in_slices(n, [&](Index first, Index size) {
    for (Index done = first; done < first + size; done += kChunk) {
      const Index count = std::min(kChunk, first + size - done);
      fill_words(words, count * words_each);
      transform(out + done, words, count);
    }
  });
}

template <class T> void Generator::fill_uniform(T* out, Index n, T low, T high) {
  fill_from_words(out, n, sizeof(T) / sizeof(std::uint32_t), [=](T* chunk, const std::uint32_t* words, Index count) {
    random_transform::uniform(chunk, words, count, low, high);
  });
}

template <class T> void Generator::uniform(T* out, Index n, double low, double high) {
  check_count("uniform", n);
  const T first = static_cast<T>(low);
  const T last = static_cast<T>(high);
  if (!(low <= high) || !std::isfinite(last - first)) {
    fail_value(
        "uniform: low must not be above high, and both must be finite, because they bound an interval; got low = ", low,
        ", high = ", high);
  }
  const Turn turn(turns_);
  fill_uniform(out, n, first, last);
}

double Generator::small_normal() {
  if (kept_normal_) return *std::exchange(kept_normal_, std::nullopt);
  double u[2];
  fill_uniform(u, 2, 0.0, 1.0);
  const double radius = std::sqrt(-2.0 * std::log1p(-u[1]));
  const double angle = 6.283185307179586 * u[0];
  kept_normal_ = radius * std::sin(angle);
  return radius * std::cos(angle);
}

template <class T> void Generator::normal(T* out, Index n, double mean, double std) {
  check_count("normal", n);
  if (!(std >= 0.0)) fail_value("normal: std must be at least 0 because it is a standard deviation; got std = ", std);
  const Turn turn(turns_);
  if (n < 16) {
    for (Index i = 0; i < n; ++i) out[i] = static_cast<T>(std::fma(small_normal(), std, mean));
    return;
  }
  const T center = static_cast<T>(mean);
  const T spread = static_cast<T>(std);
  fill_uniform(out, n, T(0), T(1));
  in_slices(n / 16 * 16, [&](Index first, Index count) {
    random_transform::normal_blocks(out + first, count / 16, center, spread);
  });
  if (n % 16 != 0) {
    fill_uniform(out + n - 16, 16, T(0), T(1));
    random_transform::normal_blocks(out + n - 16, 1, center, spread);
  }
}

void Generator::randint(std::int64_t* out, Index n, std::int64_t low, std::int64_t high) {
  check_count("randint", n);
  if (low >= high) {
    fail_value("randint: low must be below high because high is exclusive; got low = ", low, ", high = ", high);
  }
  const std::uint64_t start = static_cast<std::uint64_t>(low);
  const std::uint64_t range = static_cast<std::uint64_t>(high) - start;
  const Turn turn(turns_);
  if (range >= kLongRange) {
    in_slices(n, [&](Index first, Index count) {
      for (Index i = first; i < first + count; ++i) out[i] = static_cast<std::int64_t>(start + next64() % range);
    });
  } else {
    const std::uint32_t narrow = static_cast<std::uint32_t>(range);
    in_slices(n, [&](Index first, Index count) {
      for (Index i = first; i < first + count; ++i) out[i] = static_cast<std::int64_t>(start + next() % narrow);
    });
  }
}

void Generator::randperm(std::int64_t* out, Index n) {
  check_count("randperm", n);
  const Turn turn(turns_);
  std::iota(out, out + n, std::int64_t{0});
  if (n < kLongPermutation) {
    in_slices(n - 1, [&](Index first, Index count) {
      for (Index i = first; i < first + count; ++i) std::swap(out[i], out[i + static_cast<Index>(next()) % (n - i)]);
    });
    return;
  }
  in_slices(n, [&](Index first, Index count) {
    for (Index i = first; i < first + count; ++i)
      std::swap(out[i], out[static_cast<Index>(next64() % static_cast<std::uint64_t>(i + 1))]);
  });
}

template <class T> void Generator::bernoulli(T* out, Index n, double p) { bernoulli_piece(out, n, p, 0, 0); }

template <class T> void Generator::bernoulli_piece(T* out, Index n, double p, Index before, Index behind) {
  check_count("bernoulli", n);
  if (!(p >= 0.0 && p <= 1.0)) fail_value("bernoulli: p must be in [0, 1] because it is a probability; got p = ", p);
  constexpr Index kWordsEach = 2;
  const Turn turn(turns_);
  skip_words(before * kWordsEach);
  fill_from_words(out, n, kWordsEach, [=](T* chunk, const std::uint32_t* words, Index count) {
    random_transform::bernoulli(chunk, words, count, p);
  });
  skip_words(behind * kWordsEach);
}

template <class T> void Generator::bernoulli(T* out, const T* p, Index n) {
  check_count("bernoulli", n);
  for (Index i = 0; i < n; ++i) {
    if (!(p[i] >= 0 && p[i] <= 1)) {
      fail_value("bernoulli: p must be in [0, 1] because it is a probability; got ", p[i], " at element ", i);
    }
  }
  const Turn turn(turns_);
  fill_uniform(out, n, T(0), T(1));
  for (Index i = 0; i < n; ++i) out[i] = static_cast<T>(out[i] < p[i]);
}

template <class T> void Generator::fill_exponential(T* out, Index n, double rate) {
  const double scale = -1.0 / rate;
  in_slices(n, [&](Index first, Index count) {
    for (Index i = first; i < first + count; ++i) {
      double u;
      fill_uniform(&u, 1, 0.0, 1.0);
      out[i] = static_cast<T>(scale * std::log1p(-u));
    }
  });
}

template <class T> void Generator::exponential(T* out, Index n, double rate) {
  check_count("exponential", n);
  if (!(rate > 0.0)) fail_value("exponential: rate must be above 0 because it is an inverse mean; got rate = ", rate);
  const Turn turn(turns_);
  fill_exponential(out, n, rate);
}

template <class T>
void Generator::multinomial(std::int64_t* out, const T* p, Index rows, Index n, Index samples, bool replacement) {
  check_count("multinomial", rows);
  check_count("multinomial", n);
  if (samples < 1 || (!replacement && samples > n)) {
    fail_value(
        "multinomial: num_samples must be at least 1 and, without replacement, at most the number of weights; got ",
        samples, " samples of ", n, " weights");
  }
  for (Index row = 0; row < rows; ++row) {
    T sum = 0;
    Index positive = 0;
    for (Index i = 0; i < n; ++i) {
      const T weight = p[row * n + i];
      if (!(weight >= 0) || !std::isfinite(weight)) {
        fail_value("multinomial: p must be finite and at least 0 because it holds weights; got ", weight, " at row ",
                   row, ", column ", i);
      }
      sum += weight;
      positive += weight > 0;
    }
    const Index needed = replacement ? 1 : samples;
    if (positive < needed || !std::isfinite(sum)) {
      fail_value("multinomial: p must have a finite sum and at least ", needed,
                 " weights above 0 in a row because that many different indices are drawn; got sum ", sum, " and ",
                 positive, " weights above 0 in row ", row);
    }
  }
  const Turn turn(turns_);
  if (!replacement || samples == 1) {
    // Exponential races: the largest p / exponential wins.
    std::vector<T> score(static_cast<std::size_t>(rows * n));
    fill_exponential(score.data(), rows * n, 1.0);
    std::vector<std::int64_t> order(static_cast<std::size_t>(n));
    for (Index row = 0; row < rows; ++row) {
      T* const s = score.data() + row * n;
      for (Index i = 0; i < n; ++i) s[i] = p[row * n + i] / s[i];
      std::iota(order.begin(), order.end(), std::int64_t{0});
      std::partial_sort(order.begin(), order.begin() + samples, order.end(),
                        [s](std::int64_t a, std::int64_t b) { return s[a] > s[b] || (s[a] == s[b] && a < b); });
      std::copy_n(order.begin(), samples, out + row * samples);
    }
    return;
  }
  std::vector<T> cumulative(static_cast<std::size_t>(n));
  for (Index row = 0; row < rows; ++row) {
    std::partial_sum(p + row * n, p + (row + 1) * n, cumulative.begin());
    const T total = cumulative.back();
    for (T& value : cumulative) value /= total;
    cumulative.back() = 1;
    in_slices(samples, [&](Index first, Index count) {
      for (Index sample = first; sample < first + count; ++sample) {
        double u;
        fill_uniform(&u, 1, 0.0, 1.0);
        const auto found = std::lower_bound(cumulative.begin(), cumulative.end(), u);
        out[row * samples + sample] = found - cumulative.begin();
      }
    });
  }
}

// 624 words, the position, whether a normal is kept, and its bits.
std::vector<std::uint32_t> Generator::state() const {
  const Turn turn(turns_);
  const std::uint64_t kept = std::bit_cast<std::uint64_t>(kept_normal_.value_or(0.0));
  std::vector<std::uint32_t> result(state_, state_ + kWords);
  result.push_back(static_cast<std::uint32_t>(position_));
  result.push_back(kept_normal_.has_value() ? 1u : 0u);
  result.push_back(static_cast<std::uint32_t>(kept));
  result.push_back(static_cast<std::uint32_t>(kept >> 32));
  return result;
}

void Generator::set_state(const std::vector<std::uint32_t>& state) {
  if (static_cast<Index>(state.size()) != kStateSize) {
    fail_value("set_state: state must have ", kStateSize, " words because that is what state() returns; got ",
               state.size());
  }
  if (state[kWords] > kWords || state[kWords + 1] > 1) {
    fail_value("set_state: state must come from state() because its position is at most ", kWords,
               " and its flag 0 or 1; got position ", state[kWords], " and flag ", state[kWords + 1]);
  }
  const Turn turn(turns_);
  std::copy_n(state.begin(), kWords, state_);
  random_transform::temper(shown_, state_);
  position_ = static_cast<Index>(state[kWords]);
  kept_normal_.reset();
  if (state[kWords + 1] == 1) {
    kept_normal_ = std::bit_cast<double>((std::uint64_t{state[kWords + 3]} << 32) | state[kWords + 2]);
  }
}

// Never destroyed: a thread may draw while the process ends.
Generator& default_generator() {
  static auto* const generator = new Generator;
  return *generator;
}

template void Generator::uniform<float>(float*, Index, double, double);
template void Generator::uniform<double>(double*, Index, double, double);
template void Generator::normal<float>(float*, Index, double, double);
template void Generator::normal<double>(double*, Index, double, double);
template void Generator::bernoulli<float>(float*, Index, double);
template void Generator::bernoulli<double>(double*, Index, double);
template void Generator::bernoulli<bool>(bool*, Index, double);
template void Generator::bernoulli_piece<bool>(bool*, Index, double, Index, Index);
template void Generator::bernoulli<float>(float*, const float*, Index);
template void Generator::bernoulli<double>(double*, const double*, Index);
template void Generator::exponential<float>(float*, Index, double);
template void Generator::exponential<double>(double*, Index, double);
template void Generator::multinomial<float>(std::int64_t*, const float*, Index, Index, Index, bool);
template void Generator::multinomial<double>(std::int64_t*, const double*, Index, Index, Index, bool);

}  // namespace qkv
