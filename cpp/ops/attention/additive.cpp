#include "ops/attention/additive.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/parallel.h"
#include "core/reproducible.h"
#include "core/strides.h"
#include "kernels/kernels.h"
#include "ops/attention/allowed.h"
#include "ops/lengths.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

constexpr Index kBlock = 4;  // queries that are scored together

struct AdditiveSizes {
  Index batches, queries, keys, features, stride;
  kernels::KeyRules rules = {};

  // The same with lengths: (B), (B, Lq) or undefined.
  AdditiveSizes seeing(const Array& lens) const {
    AdditiveSizes n = *this;
    if (lens.defined()) set_lengths(n.rules, lens, lens.numel() != batches, queries);
    return n;
  }
};

// How many keys row `i` of batch `b` sees.
Index length_of(const AdditiveSizes& n, Index b, Index i) { return kernels::keys_of(n.rules, b, i, n.keys).high; }

Index longest(const AdditiveSizes& n, Index b, Index begin, Index end) {
  Index result = 0;
  for (Index i = begin; i < end; ++i) result = std::max(result, length_of(n, b, i));
  return result;
}

// Rows of exp(2 x), and whether products of them stay in range.
template <class T> struct Prepared {
  Scratch memory, flags;
  Prepared(Index rows, Index stride)
      : memory(static_cast<std::size_t>(rows * stride) * sizeof(T)), flags(static_cast<std::size_t>(rows)) {}
  T* row(Index i, const AdditiveSizes& n) const { return memory.as<T>() + i * n.stride; }
  bool moderate(Index i) const { return flags.as<bool>()[i]; }
  void fill(const T* x, Index begin, Index end, const AdditiveSizes& n) const {
    kernels::kernels<T>().additive.prepare(row(begin, n), flags.as<bool>() + begin, x + begin * n.features, end - begin,
                                           n.features, n.stride);
  }
};

// Everything that both passes need of queries, keys and score weight.
template <class T> struct AdditiveProblem {
  AdditiveSizes n;
  const T *q, *k;
  Prepared<T> queries, keys;
  std::vector<T> weight, weight4, ones;  // (stride); 4 w turns what the kernel sums into gradients

  AdditiveProblem(const AdditiveSizes& sizes, const T* q_, const T* k_, const T* w)
      : n(sizes),
        q(q_),
        k(k_),
        queries(n.batches * n.queries, n.stride),
        keys(n.batches * n.keys, n.stride),
        weight(static_cast<std::size_t>(n.stride)),
        weight4(weight),
        ones(static_cast<std::size_t>(n.stride), T(1)) {
    std::copy_n(w, n.features, weight.begin());
    std::transform(w, w + n.features, weight4.begin(), [](T x) { return 4 * x; });
    parallel_for(0, n.batches * n.queries, grain_for(2 * n.stride),
                 [&](Index b, Index e) { queries.fill(q, b, e, n); });
    // Keys that nobody sees are left alone. Pieces go across the batches: those of one may be too few for two threads.
    parallel_for(0, n.batches * n.keys, grain_for(2 * n.stride), [&](Index first, Index last) {
      for (Index b = first / n.keys; b * n.keys < last; ++b) {
        const Index end = std::min(last, b * n.keys + longest(n, b, 0, n.queries));
        if (const Index begin = std::max(first, b * n.keys); begin < end) keys.fill(k, begin, end, n);
      }
    });
  }

  // exp(2 (q + k)) of one pair that is out of the range of products.
  void pair(T* e, Index query, Index key) const {
    kernels::kernels<T>().additive.pair(e, q + query * n.features, k + key * n.features, n.features);
  }
};

template <class T> void score_block(T* s, const AdditiveProblem<T>& p, T* scratch, Index b, Index begin, Index end) {
  const auto& kernel = kernels::kernels<T>().additive;
  const AdditiveSizes& n = p.n;
  const Index first = b * n.queries + begin, used = longest(n, b, begin, end);
  s += first * n.keys;
  kernel.scores(s, n.keys, p.queries.row(first, n), p.keys.row(b * n.keys, n), p.weight.data(), end - begin, used,
                n.features, n.stride);
  for (Index i = begin; i < end; ++i, s += n.keys) {
    const Index query = b * n.queries + i, length = length_of(n, b, i);
    for (Index j = 0; j < length; ++j) {
      if (p.queries.moderate(query) && p.keys.moderate(b * n.keys + j)) continue;
      p.pair(scratch, query, b * n.keys + j);
      kernel.scores(s + j, n.keys, scratch, p.ones.data(), p.weight.data(), 1, 1, n.features, n.stride);
    }
    std::fill(s + length, s + n.keys, T(0));
  }
}

// One query in each batch.
template <class T> void score_one(T* s, const T* q, const T* k, const T* w, const AdditiveSizes& n) {
  parallel_for(0, n.batches, grain_for(n.keys * n.features), [&](Index first, Index last) {
    for (Index b = first; b < last; ++b) {
      const Index length = length_of(n, b, 0);
      kernels::kernels<T>().additive.direct(s + b * n.keys, q + b * n.features, k + b * n.keys * n.features, w, length,
                                            n.features);
      std::fill(s + b * n.keys + length, s + (b + 1) * n.keys, T(0));
    }
  });
}

// Gradients from a piece of the keys, which are its own, and the piece's share of what all pieces add to.
template <class T> struct Share {
  T *dq, *dr;  // (Lq, stride), (stride)
  double total = 0;
};

template <class T>
void backward_piece(T* dk, Share<T>& share, const T* g, const AdditiveProblem<T>& p, Index b, Index begin, Index end) {
  const auto& kernel = kernels::kernels<T>().additive;
  const AdditiveSizes& n = p.n;
  const auto count = static_cast<std::size_t>(end - begin);
  const Array sums = Array::zeros({end - begin, n.stride}, dtype_v<T>);
  const Scratch pair(static_cast<std::size_t>(n.stride) * sizeof(T));
  std::vector<const T*> rows(count);
  std::vector<T*> targets(count);
  std::vector<T> dscores(count);
  for (Index i = 0; i < n.queries; ++i) {
    const Index query = b * n.queries + i;
    T* dq = share.dq + i * n.stride;
    Index used = 0;
    for (Index j = begin; j < end; ++j) {
      const T dscore = g[query * n.keys + j];
      if (dscore == 0) continue;  // excluded keys are never read
      share.total += static_cast<double>(dscore);
      T* target = sums.data<T>() + (j - begin) * n.stride;
      if (p.queries.moderate(query) && p.keys.moderate(b * n.keys + j)) {
        const auto at = static_cast<std::size_t>(used++);
        rows[at] = p.keys.row(b * n.keys + j, n);
        targets[at] = target;
        dscores[at] = dscore;
      } else {
        p.pair(pair.as<T>(), query, b * n.keys + j);
        const T* one = p.ones.data();
        kernel.backward(dq, share.dr, &target, &dscore, pair.as<T>(), &one, 1, n.features);
      }
    }
    kernel.backward(dq, share.dr, targets.data(), dscores.data(), p.queries.row(query, n), rows.data(), used,
                    n.features);
  }
  if (dk == nullptr) return;
  for (Index j = begin; j < end; ++j)
    kernels::kernels<T>().elementwise.add_product(dk + (b * n.keys + j) * n.features, p.weight4.data(),
                                                  sums.data<T>() + (j - begin) * n.stride, n.features);
}

// Adds the gradients of the scores with respect to queries, keys and weight; null where not wanted.
template <class T> void backward(T* dq, T* dk, T* dw, const T* g, const AdditiveProblem<T>& p) {
  const AdditiveSizes& n = p.n;
  constexpr Index kInvariantLength = 64;
  const Index wanted = n.batches >= 8 ? 1 : std::clamp<Index>(n.keys / 16, 1, 8);
  const Index length = reproducible() ? kInvariantLength : std::max<Index>(1, (n.keys + wanted - 1) / wanted);
  const Index pieces = std::max<Index>(1, (n.keys + length - 1) / length);
  const Index size = (n.queries + 1) * n.stride, shares = n.batches * pieces;
  const Array sums = Array::zeros({shares, size}, dtype_v<T>);
  T* sum = sums.data<T>();
  std::vector<double> totals(static_cast<std::size_t>(shares));
  parallel_for(0, shares, grain_for(n.queries * length * n.features), [&](Index first, Index last) {
    for (Index s = first; s < last; ++s) {
      Share<T> share{sum + s * size, sum + s * size + n.queries * n.stride};
      const Index begin = s % pieces * length;
      backward_piece(dk, share, g, p, s / pieces, begin, std::min(n.keys, begin + length));
      totals[static_cast<std::size_t>(s)] = share.total;
    }
  });
  if (dq != nullptr)
    parallel_for(0, n.batches * n.queries, grain_for(pieces * n.features), [&](Index first, Index last) {
      for (Index row = first; row < last; ++row)
        for (Index s = row / n.queries * pieces; s < (row / n.queries + 1) * pieces; ++s)
          kernels::kernels<T>().elementwise.add_product(dq + row * n.features, p.weight4.data(),
                                                        sum + s * size + row % n.queries * n.stride, n.features);
    });
  if (dw != nullptr)  // sum of g tanh = sum of g - 2 sum of g r
    for (Index s = 0; s < shares; ++s)
      for (Index m = 0; m < n.features; ++m)
        dw[m] += static_cast<T>(totals[static_cast<std::size_t>(s)]) - 2 * sum[s * size + n.queries * n.stride + m];
}

void check_shapes(const char* op, const Shape& q, const Shape& k, const Shape& w, const Shape& v) {
  if (q.rank() != 2 && q.rank() != 3) fail_value(op, ": queries must be (B, Lq, M) or (Lq, M); got queries ", q);
  const bool alone = q.rank() == 2;
  if (k.rank() != q.rank() || (!alone && k.dim(0) != q.dim(0)) || k.dim(-1) != q.dim(-1))
    fail_value(op, ": keys must be ", alone ? "(Lk, M)" : "(B, Lk, M)", " with the ", alone ? "M" : "B and M",
               " of queries because they are added to these; got queries ", q, ", keys ", k);
  if (w != Shape{q.dim(-1)})
    fail_value(op, ": score_weight must be (M,) with M = ", q.dim(-1), " to match queries ", q, "; got score_weight ",
               w);
  if (v.rank() != q.rank() || (!alone && v.dim(0) != q.dim(0)) || v.dim(-2) != k.dim(-2))
    fail_value(op, ": values must be ", alone ? "(Lk, Dv)" : "(B, Lk, Dv)", " with one row for each of the keys ", k,
               "; got values ", v);
}

// The scores of recorded operations, which holds (B, Lq, Lk, M) numbers. `arriving`, the gradient of the scores: a pair
// that holds NaN or infinity and whose gradient is 0 was excluded later.
Tensor composed_scores(const Tensors& inputs, const AdditiveSizes& n, const Array& lens, const Array& arriving) {
  const Tensor q = reshape(inputs[0], {n.batches, n.queries, 1, n.features}),
               k = reshape(inputs[1], {n.batches, 1, n.keys, n.features});
  const Tensor sums = add(q, k);
  AttentionOptions lengths;
  if (lens.defined())
    lengths.valid_lens = lens.reshaped(lens.numel() == n.batches ? Shape{n.batches} : Shape{n.batches, n.queries});
  const Tensor seen(Allowed(arriving.shape(), q.dtype(), lengths).array()), zero = scalar_like(sums, 0);
  const Tensor finite = compare(Compare::equal, reshape(infinite_rows(sums), arriving.shape()), zero);
  const Tensor arrived = compare(Compare::not_equal, Tensor(arriving), zero);
  const Tensor counted = bitwise(Bitwise::bit_and, seen, bitwise(Bitwise::bit_or, finite, arrived));
  const Tensor t = tanh(where(reshape(counted, {n.batches, n.queries, n.keys, 1}), sums, zero));
  const Tensor scores = sum(multiply(t, inputs[2]), Axes{-1});
  return where(counted, scores, zero);
}

}  // namespace

Tensor additive_scores(const Tensor& queries, const Tensor& keys, const Tensor& score_weight, const Array& valid_lens) {
  const DType dtype = promoted({queries, keys, score_weight});
  const Tensor q = packed_as(queries, dtype), k = packed_as(keys, dtype), w = packed_as(score_weight, dtype);
  const AdditiveSizes n =
      AdditiveSizes{q.dim(0), q.dim(1), k.dim(1), q.dim(2), kernels::additive_stride(q.dim(2))}.seeing(valid_lens);
  Array y({n.batches, n.queries, n.keys}, dtype);
  visit_floating(dtype, [&]<class T>(T) {
    if (n.queries == 1 && !reproducible()) return score_one<T>(y.data<T>(), q.ptr<T>(), k.ptr<T>(), w.ptr<T>(), n);
    const AdditiveProblem<T> problem(n, q.ptr<T>(), k.ptr<T>(), w.ptr<T>());
    const Index blocks = (n.queries + kBlock - 1) / kBlock;
    parallel_for(0, n.batches * blocks, grain_for(kBlock * n.keys * n.features), [&](Index first, Index last) {
      const Scratch scratch(static_cast<std::size_t>(n.stride) * sizeof(T));
      for (Index block = first; block < last; ++block) {
        const Index begin = block % blocks * kBlock;
        score_block(y.data<T>(), problem, scratch.as<T>(), block / blocks, begin, std::min(n.queries, begin + kBlock));
      }
    });
  });
  if (!wants_gradient({q, k, w})) return Tensor(std::move(y));
  const Saved kept_lens(valid_lens);
  return record_fused(
      std::move(y), {owned(q), owned(k), owned(w)},
      [kept_lens, n](const Array& dy, Gradients& dx) {
        visit_floating(dy.dtype(), [&]<class T>(T) {
          const AdditiveProblem<T> problem(n.seeing(kept_lens.get()), dx.input(0).data<T>(), dx.input(1).data<T>(),
                                           dx.input(2).data<T>());
          const auto target = [&](Index input) { return dx.wants(input) ? dx.of(input).data<T>() : nullptr; };
          backward(target(0), target(1), target(2), dy.data<T>(), problem);
        });
      },
      [kept_lens, n](const Tensor& dy, TensorGradients& dx) {
        derive_composed({&dy, 1}, dx, [&](const Tensors& inputs) -> Tensors {
          return {composed_scores(inputs, n, kept_lens.get(), dy.data())};
        });
      });
}

AttentionOutputs additive_attention(const Tensor& queries, const Tensor& keys, const Tensor& score_weight,
                                    const Tensor& values, const AttentionOptions& given) {
  AttentionOptions options = given;
  const char* op = options.operation;
  check_shapes(op, queries.shape(), keys.shape(), score_weight.shape(), values.shape());
  const bool alone = queries.rank() == 2;
  const Index rows = queries.dim(-2), batches = queries.dim(0);
  if (options.valid_lens.defined())
    options.valid_lens = checked_lengths(op, options.valid_lens, alone ? Shape{} : Shape{batches},
                                         alone ? Shape{rows} : Shape{batches, rows}, keys.dim(-2),
                                         {.lengths = options.names.valid_lens});
  const DType dtype = promoted({queries, keys, score_weight, values});
  const auto input = [&](const Tensor& x) { return cast(alone ? reshape(x, {1, x.dim(0), x.dim(1)}) : x, dtype); };
  Tensor scores =
      additive_scores(input(queries), input(keys), cast(score_weight, dtype), options.valid_lens);  // (B, Lq, Lk)
  if (alone) scores = reshape(scores, {rows, keys.dim(0)});
  return composed_attention(scores, values, options);
}

}  // namespace qkv::ops
