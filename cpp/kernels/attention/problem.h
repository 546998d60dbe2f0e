// Scaled dot-product attention, fused: scores, softmax and the product with the values, block by block, so that
// nothing of size (Lq, Lk) is stored unless the weights are asked for. All options, in one path.
//
// Functions have internal linkage or are always inlined: a kernel for any instruction set includes this, and the linker
// could keep its copy of any other for all.
#pragma once

#include <stdint.h>

#include "kernels/attention/formula.h"
#include "kernels/attention/key_rules.h"

namespace qkv::kernels {

// A (B, H, L, D) array by its strides in elements; D is contiguous.
template <class T> struct HeadsView {
  T* data = nullptr;
  Index batch = 0, head = 0, position = 0;
  [[gnu::always_inline]] T* at(Index b, Index h, Index i) const { return data + b * batch + h * head + i * position; }
};

// A (B, H, Lq, Lk) array by its strides in elements; 0 broadcasts. data is null where there is none.
template <class T> struct WeightsView {
  T* data = nullptr;
  Index batch = 0, head = 0, query = 0, key = 0;
  [[gnu::always_inline]] T* at(Index b, Index h, Index i, Index j) const {
    return data + b * batch + h * head + i * query + j * key;
  }
  [[gnu::always_inline]] bool operator==(const WeightsView&) const = default;
};

// The place of the first weight of a problem that is a part of a larger one.
struct DropoutOrigin {
  Index batch = 0, query = 0, key = 0;
  [[gnu::always_inline]] bool operator==(const DropoutOrigin&) const = default;
};

struct DropoutOptions {
  double p = 0;                  // probability of dropping a weight; with `keep` only the factor 1 / (1 - p)
  uint64_t key = 0;              // of the counter-based stream (core/counter_random.h)
  DropoutOrigin origin;          // where the problem's weights lie in the matrices that the stream is for
  WeightsView<const bool> keep;  // replaces the stream if given
  [[gnu::always_inline]] bool operator==(const DropoutOptions&) const = default;
};

// How the scores of a row become weights, of which an excluded pair has 0: the name, what gives the weights of a row
// their sum, and whether allowed pairs may have 0, too. What each computes is its Rule (normalizer.h) and, of recorded
// operations, its Composed (ops/attention/normalizer.cpp).
enum class RowSum { division, free, threshold };
// clang-format off
#define QKV_NORMALIZERS(X)      \
  X(softmax, division, false)   \
  X(sigmoid, free, false)       \
  X(relu, free, true)           \
  X(sparsemax, threshold, true) \
  X(entmax15, threshold, true)
// clang-format on
enum class Normalizer {
#define X(name, sum, zeros) name,
  QKV_NORMALIZERS(X)
#undef X
};
struct NormalizerFacts {
  const char* name;
  RowSum sum;
  bool zeros;
};
static constexpr NormalizerFacts kNormalizers[] = {
#define X(name, sum, zeros) {#name, RowSum::sum, zeros},
    QKV_NORMALIZERS(X)
#undef X
};
static constexpr const NormalizerFacts& facts_of(Normalizer n) { return kNormalizers[static_cast<int>(n)]; }
// Whether weights sum to 1 by a threshold, below which scores have none.
static constexpr bool has_threshold(Normalizer n) { return facts_of(n).sum == RowSum::threshold; }

// What a call asks for beyond plain attention. Each option has a default that asks for nothing. A kernel for special
// cases runs only where the options that it does not support equal their defaults: it compares the whole struct, so
// that an option which it does not know of makes it step aside.
template <class T> struct ProblemOptions : KeyRules {
  WeightsView<const T> bias;     // float mask, which the formula adds: keys of -inf are passed over
  WeightsView<const bool> mask;  // true = may attend
  const T* sinks = nullptr;      // (H): one more logit in each row's sum, without key or value; or null
  bool fill = false;             // give excluded pairs the score masked_value instead of skipping them
  T masked_value = 0;
  DropoutOptions dropout;
  Normalizer normalizer = Normalizer::softmax;  // others have neither sinks nor lse
  const Formula<T>* formula = nullptr;          // of the scores and of allowed pairs; or null
  // Each row of the result is computed as it would be alone: no kernel is chosen by how many rows or batches there are.
  bool reproducible = false;
  [[gnu::always_inline]] bool operator==(const ProblemOptions&) const = default;
};

// How many pairs of a query and a key there are.
struct PairSizes {
  Index batches = 1, heads = 1, queries = 0, keys = 0;  // B, H, Lq, Lk
};
struct AttentionSizes : PairSizes {
  Index kv_heads = 1, key_size = 0, value_size = 0;  // Hkv, D, Dv
};

// What to compute. Query head h reads key/value head h / (heads / kv_heads). The score of a query and a key is
// scale * q.k, changed by the formula. A pair that the rules, the mask or the formula exclude has weight exactly 0,
// even if its key and value hold NaN, or, with fill, the score masked_value.
template <class T> struct AttentionProblem : ProblemOptions<T>, AttentionSizes {
  HeadsView<const T> query;  // (B, H, Lq, D)
  HeadsView<const T> key;    // (B, Hkv, Lk, D)
  HeadsView<const T> value;  // (B, Hkv, Lk, Dv)
  T scale = 1;
  // The place of a row among those of (B, H, Lq).
  [[gnu::always_inline]] Index row(Index b, Index h, Index i) const { return (b * heads + h) * queries + i; }
};

// Whether a call is plain attention, for kernels that support no option.
template <class T> constexpr bool is_plain(const AttentionProblem<T>& p) {
  return static_cast<const ProblemOptions<T>&>(p) == ProblemOptions<T>{} && p.heads == p.kv_heads;
}

template <class T> struct AttentionResult {
  HeadsView<T> out;        // (B, H, Lq, Dv); rows without an allowed key are 0
  WeightsView<T> weights;  // (B, H, Lq, Lk), key stride 1, before dropout; or null data
  T* lse = nullptr;        // (B, H, Lq) contiguous: log of the sum of exp(score), sink included; -inf for empty rows
  // Of normalisers with a threshold, (B, H, Lq, Dv): the values averaged by the derivatives of the row's weights, after
  // dropout; null data if not wanted.
  HeadsView<T> averages;
  // (B, H, Lq, 2) contiguous: the row's largest score and 1 / sum of exp(score - largest), both 0 for empty rows. The
  // backward pass needs it; it is not lse because -1e9 + log(n) is -1e9 in float32. Null if not wanted. With a
  // threshold it is the largest score and the threshold less that, of sigmoid and relu 0 and 1.
  T* statistics = nullptr;
  // (B, Hkv) zeros, which become 1 where values that are not finite were found, for the pieces that follow; or null.
  uint8_t* not_finite = nullptr;
};

// Inputs of the backward pass.
template <class T> struct AttentionSaved {
  HeadsView<const T> dout;        // (B, H, Lq, Dv)
  HeadsView<const T> out;         // as computed; of normalisers with a threshold their averages
  const T* statistics = nullptr;  // as computed
  WeightsView<const T> dweights;  // or null data; key stride 1
  const T* dlse = nullptr;        // (B, H, Lq), or null
};

// Gradients, added to what they hold; null data where not wanted.
template <class T> struct AttentionGradients {
  HeadsView<T> dquery, dkey, dvalue;
  T* dsinks = nullptr;                       // (H)
  const LeafGradient<T>* dleaves = nullptr;  // of the formula, one for each leaf
};

// A piece of work: rows [begin, end) of the (heads / kv_heads * Lq) query rows that read key/value head kv_head, the
// heads one after the other. Pieces that start at multiples of panel_rows give the same bits however they are cut.
struct AttentionPiece {
  Index batch, kv_head, begin, end;
};

template <class T> struct Attention {
  Index panel_rows;  // query rows that are computed together
  Index tile_rows;   // query rows that share a pass over the keys, some panels
  // Elements of scratch (64-byte aligned) that forward needs for what the result asks for.
  Index (*forward_scratch)(const AttentionResult<T>& result, const AttentionProblem<T>& problem);
  void (*forward)(const AttentionResult<T>& result, const AttentionProblem<T>& problem, AttentionPiece piece,
                  T* scratch);

  // Whether there are few queries and keys. Plain attention over these needs no scratch: heads [begin, end) of (B * H).
  bool (*is_short)(const AttentionProblem<T>& problem);
  void (*forward_short)(const AttentionResult<T>& result, const AttentionProblem<T>& problem, Index begin, Index end);

  // The backward pass. First delta (B, H, Lq) = dout . out + weights . dweights - dlse, for the rows of a piece (with a
  // threshold, the same of averages and derivatives; of sigmoid and relu 0); then,
  // in any order, what is wanted of the other two. Elements of scratch that any of them needs for a range of n keys:
  Index (*backward_scratch)(const AttentionProblem<T>& problem, Index keys);
  void (*row_delta)(T* delta, const AttentionSaved<T>& saved, const AttentionProblem<T>& problem, AttentionPiece piece,
                    T* scratch);
  // Adds what the rows of a piece and keys [keys_begin, keys_end) contribute to dquery, dkey and dvalue.
  void (*backward)(const AttentionGradients<T>& gradients, const T* delta, const AttentionSaved<T>& saved,
                   const AttentionProblem<T>& problem, AttentionPiece piece, Index keys_begin, Index keys_end,
                   T* scratch);
  void (*sink_gradient)(T* dsinks, const T* delta, const AttentionSaved<T>& saved, const AttentionProblem<T>& problem,
                        Index head);
};

}  // namespace qkv::kernels
