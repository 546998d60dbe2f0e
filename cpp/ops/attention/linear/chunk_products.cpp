// What a chunk of linear attention needs: products of rows whose features fade at different rates, and the inverse of a
// triangular matrix.
#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/attention/linear/linear_attention.h"
#include "ops/matmul/gemm.h"

namespace qkv::ops {
namespace {

// Steps that are taken pair by pair. A product over earlier ones is one of matrices, of rows that were faded to the
// first of these steps: no exponent is above 0 then, so none overflows (Yang et al., Gated Linear Attention, 2023,
// section 4).
constexpr Index kPairs = 8;

// Groups of rows q (groups, C, D), keys k and sums of decays (C, D), and where numbers are faded.
template <class T> class Chunk {
 public:
  Chunk(const T* q, const T* k, const T* total, const ProductSizes& n, T* room)
      : q_(q),
        k_(k),
        total_(total),
        n_(n),
        keys_(room),
        rows_(keys_ + n.steps * n.features),
        factors_(rows_ + kPairs * n.features),
        pair_(factors_ + n.steps * n.features) {}
  static Index room(const ProductSizes& n) { return (2 * n.steps + 2 * kPairs) * n.features; }

  void forward(T* y) {
    const Index C = n_.steps, D = n_.features, groups = n_.rows / C;
    for (Index begin = 0; begin < C; begin += kPairs) {
      const Index end = std::min(C, begin + kPairs);
      for (Index g = 0; g < groups && begin > 0; ++g) {
        fade_rows(g, begin, end);
        gemm<T>(y + (g * C + begin) * C, C, rows_, D, false, keys_, D, true, false, end - begin, begin, D);
      }
      // The keys of these steps, faded to each row in turn.
      T* keys = keys_ + begin * D;
      for (Index i = begin; i < end; ++i) {
        if (i > begin) fade(keys, i - begin, i, i - 1);
        std::copy_n(k_ + i * D, D, keys + (i - begin) * D);
        gemm<T>(y + i * C + begin, C * C, q_ + i * D, C * D, false, keys, D, true, false, groups, i - begin + 1, D);
        for (Index g = 0; g < groups; ++g) std::fill(y + (g * C + i) * C + i + 1, y + (g * C + i + 1) * C, T(0));
      }
      if (end == C) return;
      fade(keys_, begin, end, begin);
      fade(keys, end - begin, end, end - 1);
    }
  }

  // Adds to dq and dk.
  void backward(T* dq, T* dk, const T* dy) {
    const Index C = n_.steps, D = n_.features, groups = n_.rows / C;
    for (Index begin = 0; begin < C; begin += kPairs) {
      const Index end = std::min(C, begin + kPairs), count = end - begin;
      for (Index j = 0; j < begin; ++j) set_factors(factors_ + j * D, begin, j);
      for (Index g = 0; g < groups; ++g) {
        const T* of_rows = dy + (g * C + begin) * C;
        T* drows = dq + (g * C + begin) * D;
        if (begin > 0) {
          for (Index at = 0; at < begin * D; ++at) keys_[at] = k_[at] * factors_[at];
          gemm<T>(pair_, D, of_rows, C, false, keys_, D, false, false, count, D, begin);
          for (Index i = 0; i < count; ++i) {
            set_factors(rows_, begin + i, begin);
            for (Index d = 0; d < D; ++d) drows[i * D + d] += pair_[i * D + d] * rows_[d];
          }
          fade_rows(g, begin, end);
          gemm<T>(keys_, D, of_rows, C, true, rows_, D, false, false, begin, D, count);
          for (Index at = 0; at < begin * D; ++at) dk[at] += keys_[at] * factors_[at];
        }
        for (Index i = begin; i < end; ++i)
          for (Index j = begin; j <= i; ++j) {
            set_factors(pair_, i, j);
            const T dyij = dy[(g * C + i) * C + j];
            const T *row = q_ + (g * C + i) * D, *key = k_ + j * D;
            T *drow = dq + (g * C + i) * D, *dkey = dk + j * D;
            for (Index d = 0; d < D; ++d) {
              drow[d] += dyij * pair_[d] * key[d];
              dkey[d] += dyij * pair_[d] * row[d];
            }
          }
      }
    }
  }

 private:
  // to[d] = exp(total[i][d] - total[j][d])
  void set_factors(T* to, Index i, Index j) const {
    for (Index d = 0; d < n_.features; ++d) to[d] = total_[i * n_.features + d] - total_[j * n_.features + d];
    kernels::kernels<T>().elementwise.unary(kernels::Unary::exponential, to, to, n_.features);
  }
  // x (count, D) from step j to step i.
  void fade(T* x, Index count, Index i, Index j) {
    if (count == 0) return;
    set_factors(pair_, i, j);
    for (Index row = 0; row < count; ++row)
      for (Index d = 0; d < n_.features; ++d) x[row * n_.features + d] *= pair_[d];
  }
  // rows_ = the rows [begin, end) of a group, faded from `begin`.
  void fade_rows(Index group, Index begin, Index end) {
    const Index D = n_.features;
    for (Index i = begin; i < end; ++i) {
      T* row = rows_ + (i - begin) * D;
      set_factors(row, i, begin);
      for (Index d = 0; d < D; ++d) row[d] *= q_[(group * n_.steps + i) * D + d];
    }
  }

  const T *q_, *k_, *total_;
  const ProductSizes& n_;
  T *keys_, *rows_, *factors_, *pair_;
};

// f(chunk, number of the block) for each block.
template <class T, class F>
void for_blocks(const Array& q, const Array& k, const Array& total, const ProductSizes& n, const F& f) {
  const Index size = n.steps * n.features;
  parallel_for(0, n.blocks, grain_for(n.rows * n.features * kPairs), [&](Index begin, Index end) {
    const Scratch scratch(static_cast<std::size_t>(Chunk<T>::room(n)) * sizeof(T));
    for (Index m = begin; m < end; ++m) {
      Chunk<T> chunk(q.data<T>() + m * n.rows * n.features, k.data<T>() + m * size, total.data<T>() + m * size, n,
                     scratch.as<T>());
      f(chunk, m);
    }
  });
}

Tensor composed(const Tensors& inputs, const ProductSizes& n) {
  const Index groups = n.rows / n.steps, M = n.blocks, C = n.steps, D = n.features;
  const Tensor q = reshape(inputs[0], {M, groups, C, 1, D}), k = reshape(inputs[1], {M, 1, 1, C, D}), total = inputs[2];
  Array reaches = Array::full({C, C, 1}, DType::boolean, true);
  for (Index i = 0; i < C; ++i)
    for (Index j = i + 1; j < C; ++j) reaches.data<bool>()[i * C + j] = false;
  const Tensor lower(reaches), zero = scalar_like(q, 0);
  const Tensor apart = subtract(reshape(total, {M, 1, C, 1, D}), reshape(total, {M, 1, 1, C, D}));
  const Tensor factor = unary(kernels::Unary::exponential, where(lower, apart, zero));
  return reshape(sum(where(lower, multiply(multiply(q, k), factor), zero), Axes{-1}), {M, n.rows, C});
}

}  // namespace

template <class T> Index decayed_products_scratch(const ProductSizes& n) { return Chunk<T>::room(n); }

template <class T>
void decayed_products(T* y, const T* q, const T* k, const T* total, const ProductSizes& n, T* scratch) {
  Chunk<T>(q, k, total, n, scratch).forward(y);
}

template Index decayed_products_scratch<float>(const ProductSizes&);
template Index decayed_products_scratch<double>(const ProductSizes&);
template void decayed_products(float*, const float*, const float*, const float*, const ProductSizes&, float*);
template void decayed_products(double*, const double*, const double*, const double*, const ProductSizes&, double*);

Tensor decayed_products(const Tensor& given_q, const Tensor& given_k, const Tensor& given_total) {
  const Tensor q = packed(given_q), k = packed(given_k), total = packed(given_total);
  const ProductSizes n{q.dim(0), q.dim(1), k.dim(1), q.dim(2)};
  Array y({n.blocks, n.rows, n.steps}, q.dtype());
  visit_floating(y.dtype(), [&]<class T>(T) {
    for_blocks<T>(q.data(), k.data(), total.data(), n,
                  [&](Chunk<T>& chunk, Index m) { chunk.forward(y.data<T>() + m * n.rows * n.steps); });
  });
  if (!wants_gradient({q, k, total})) return Tensor(std::move(y));
  return record_fused(
      std::move(y), {owned(q), owned(k), owned(total)},
      [n](const Array& dy, Gradients& dx) {
        const Array &rows = dx.input(0), &keys = dx.input(1);
        Array dq = Array::zeros(rows.shape(), rows.dtype()), dk = Array::zeros(keys.shape(), keys.dtype());
        visit_floating(dy.dtype(), [&]<class T>(T) {
          for_blocks<T>(rows, keys, dx.input(2), n, [&](Chunk<T>& chunk, Index m) {
            chunk.backward(dq.data<T>() + m * n.rows * n.features, dk.data<T>() + m * n.steps * n.features,
                           dy.data<T>() + m * n.rows * n.steps);
          });
          if (!dx.wants(2)) return;
          // An exponent belongs to its row and, with the other sign, to its key.
          Array& dtotal = dx.of(2);
          const Index size = n.steps * n.features;
          for (Index at = 0; at < dq.numel(); ++at)
            dtotal.data<T>()[at / (n.rows * n.features) * size + at % size] += rows.data<T>()[at] * dq.data<T>()[at];
          for (Index at = 0; at < dk.numel(); ++at) dtotal.data<T>()[at] -= keys.data<T>()[at] * dk.data<T>()[at];
        });
        if (dx.wants(0)) dx.add(0, dq);
        if (dx.wants(1)) dx.add(1, dk);
      },
      derived_from([n](const Tensors& inputs) { return composed(inputs, n); }));
}

Tensor unit_lower_inverse(const Tensor& given) {
  const Tensor x = packed(given);
  const Index C = x.dim(-1), matrices = C == 0 ? 0 : x.numel() / (C * C);
  Array y = Array::zeros(x.shape(), x.dtype());
  visit_floating(y.dtype(), [&]<class T>(T) {
    parallel_for(0, matrices, grain_for(C * C * C / 6), [&](Index begin, Index end) {
      for (Index m = begin; m < end; ++m) {
        const T* from = x.ptr<T>() + m * C * C;
        T* to = y.data<T>() + m * C * C;
        for (Index i = 0; i < C; ++i) {
          T* row = to + i * C;
          for (Index j = 0; j < i; ++j)
            for (Index c = 0; c <= j; ++c) row[c] -= from[i * C + j] * to[j * C + c];
          row[i] = 1;
        }
      }
    });
  });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(Array(y), {x}, [y = Saved(y)](const Tensor& dy, TensorGradients& dx) {
    const Tensor upper = transposed(dx.output(y));
    dx.add(0, negative(lower_triangle(matmul(matmul(upper, dy), upper), -1)));
  });
}

}  // namespace qkv::ops
