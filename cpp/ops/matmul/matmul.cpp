// Matrix products with gradients.
#include <algorithm>
#include <optional>
#include <tuple>

#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/matmul/gemm.h"
#include "ops/matmul/linear.h"
#include "ops/ops.h"
#include "ops/strides.h"

namespace qkv::ops {
namespace {

// The axes before the matrix.
Shape batch_of(const Shape& s) { return Shape(s.begin(), s.end() - 2); }

constexpr Index kAlone = Index{1} << 31;

// c (..., m, n) = a' @ b' with batches read through strides (0 where an operand is broadcast). `gradient` names the
// operand that is one, if any: see gradient_gemm.
Array batched(const Array& a, bool ta, const Array& b, bool tb, const Shape& batch,
              std::optional<GradientSide> gradient = {}) {
  const Index m = a.dim(ta ? -1 : -2), k = a.dim(ta ? -2 : -1), n = b.dim(tb ? -2 : -1);
  Shape shape = batch;
  shape.push_back(m);
  shape.push_back(n);
  Array c(shape, a.dtype());
  const Strides sa = broadcast_strides(batch_of(a.shape()), batch), sb = broadcast_strides(batch_of(b.shape()), batch);
  const Index count = batch.numel();
  const Index size_a = a.dim(-1) * a.dim(-2), size_b = b.dim(-1) * b.dim(-2);
  visit_floating(a.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const auto one = [&](Index i, auto product) {
      Index rest = i, at_a = 0, at_b = 0;
      for (std::size_t axis = batch.size(); axis-- > 0;) {
        at_a += rest % batch[axis] * sa[axis];
        at_b += rest % batch[axis] * sb[axis];
        rest /= batch[axis];
      }
      product(c.data<T>() + i * m * n, n, a.data<T>() + at_a * size_a, a.dim(-1), ta, b.data<T>() + at_b * size_b,
              b.dim(-1), tb, false, m, n, k);
    };
    const auto multiply = [&](auto... args) { gradient ? gradient_gemm<T>(*gradient, args...) : gemm<T>(args...); };
    // Products that take some 10 ms and more are cut, each by itself, for the pool and for whoever interrupts.
    if (count == 1 || m * n * k >= kAlone) {
      for (Index i = 0; i < count; ++i) one(i, multiply);
      return;
    }
    parallel_for(0, count, grain_for(m * n * std::max<Index>(k, 1) / 8), [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) one(i, multiply);
    });
  });
  return c;
}

// The matrices of all batches below each other.
Tensor as_rows(const Tensor& x) { return reshape(x, {x.shape().product(0, x.rank() - 1), x.dim(-1)}); }

void derive_matmul(const Tensor& dy, TensorGradients& dx) {
  const Tensor &a = dx.input(0), &b = dx.input(1);
  if (dx.wants(0)) dx.add(0, sum_to(matmul(dy, transposed(b)), a.shape()));
  if (!dx.wants(1)) return;
  if (b.rank() == 2) dx.add(1, matmul(transposed(as_rows(a)), as_rows(dy)));
  else dx.add(1, sum_to(matmul(transposed(a), dy), b.shape()));
}

void derive_linear(const Tensor& dy, TensorGradients& dx) {
  if (dx.wants(0)) dx.add(0, matmul(dy, dx.input(1)));
  if (dx.wants(1)) dx.add(1, matmul(transposed(as_rows(dy)), as_rows(dx.input(0))));
  if (dx.wants(2)) dx.add(2, sum(as_rows(dy), Axes{0}));
}

}  // namespace

Tensor matmul(const Tensor& left, const Tensor& right) {
  if (left.rank() == 0 || right.rank() == 0)
    fail_value("matmul: a and b must have at least one axis; got a ", left.shape(), ", b ", right.shape());
  const DType dtype = promoted({left, right});
  // A vector is a matrix of one row (left) or one column (right), which is dropped again at the end.
  const bool row = left.rank() == 1, column = right.rank() == 1;
  Tensor a = row ? reshape(cast(left, dtype), {1, left.dim(0)}) : cast(left, dtype);
  Tensor b = column ? reshape(cast(right, dtype), {right.dim(0), 1}) : cast(right, dtype);
  Shape batch;
  if (a.dim(-1) != b.dim(-2) || !broadcast(batch_of(a.shape()), batch_of(b.shape()), batch))
    fail_value("matmul: b must be (..., K, N) with K = ", a.dim(-1), " to match a ", left.shape(), "; got b ",
               right.shape());
  Tensor result;
  // Many rows against one matrix are one product.
  const bool fold = b.rank() == 2 && a.rank() > 2;
  const Array folded = fold ? a.data().reshaped({a.numel() / std::max<Index>(a.dim(-1), 1), a.dim(-1)}) : a.data();
  Array y = fold && a.dim(-1) > 0 ? batched(folded, false, b.data(), false, {})
                                  : batched(a.data(), false, b.data(), false, batch);
  Shape full = batch;
  full.push_back(a.dim(-2));
  full.push_back(b.dim(-1));
  y = y.reshaped(full);
  if (!wants_gradient({a, b})) {
    result = Tensor(std::move(y));
  } else {
    a = owned(std::move(a));
    b = owned(std::move(b));
    result = record(
        std::move(y), {a, b},
        [a = Saved(a), b = Saved(b), batch](const Array& dy, Gradients& dx) {
          if (dx.wants(0))
            dx.add(0, sum_to(batched(dy, false, b.get(), true, batch, GradientSide::left), a.get().shape()));
          if (!dx.wants(1)) return;
          const Array& saved_a = a.get();
          if (b.get().rank() == 2 && saved_a.dim(-1) > 0 && dy.dim(-1) > 0) {
            const Index rows = saved_a.numel() / saved_a.dim(-1);
            dx.add(1, batched(saved_a.reshaped({rows, saved_a.dim(-1)}), true, dy.reshaped({rows, dy.dim(-1)}), false,
                              {}, GradientSide::right));
          } else {
            dx.add(1, sum_to(batched(saved_a, true, dy, false, batch, GradientSide::right), b.get().shape()));
          }
        },
        derive_matmul);
  }
  if (!row && !column) return result;
  Shape squeezed = batch;
  if (!row) squeezed.push_back(a.dim(-2));
  if (!column) squeezed.push_back(b.dim(-1));
  return reshape(result, squeezed);
}

namespace {

// x and bias in the dtype of the weight.
std::pair<Tensor, Tensor> linear_operands(const Tensor& input, const Tensor& weight, const Tensor& given_bias) {
  if (weight.rank() != 2) fail_value("Linear: weight must be (out_features, in_features); got weight ", weight.shape());
  if (given_bias.defined() && given_bias.shape() != Shape{weight.dim(0)})
    fail_value("Linear: bias must be (out_features,) = (", weight.dim(0), ",); got bias ", given_bias.shape());
  const Tensor x = cast(input, weight.dtype()),
               bias = given_bias.defined() ? cast(given_bias, weight.dtype()) : given_bias;
  const Index in = weight.dim(1);
  if (x.rank() == 0 || x.dim(-1) != in)
    fail_value("Linear: x must be (..., ", in, ") because in_features = ", in, "; got x ", x.shape());
  return {x, bias};
}

}  // namespace

Tensors linears(const Tensor& input, std::span<const LinearLayer> layers) {
  // Nobody notices a change of somebody else's memory: a weight that lies there is not packed.
  const auto can_pack = [&](const LinearLayer& l) {
    return !l.weight.data().buffer()->borrowed() && l.weight.dtype() == layers[0].weight.dtype() &&
           !wants_gradient({input, l.weight, l.bias});
  };
  if (std::all_of(layers.begin(), layers.end(), can_pack)) {
    std::vector<LinearLayer> checked(layers.begin(), layers.end());
    Tensor x;
    for (LinearLayer& layer : checked) std::tie(x, layer.bias) = linear_operands(input, layer.weight, layer.bias);
    return packed_linears(x, checked);
  }
  Tensors results;
  for (const LinearLayer& layer : layers) {
    const Tensor y = linear(input, layer.weight, layer.bias);
    results.push_back(layer.activation ? activated(y, *layer.activation) : y);
  }
  return results;
}

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& given_bias) {
  const auto operands = linear_operands(input, weight, given_bias);
  Tensor x = operands.first;
  const Tensor& bias = operands.second;
  const Index in = weight.dim(1), out = weight.dim(0);
  const Index rows = x.shape().product(0, x.rank() - 1);
  Shape shape = x.shape();
  shape.back() = out;
  Array y(shape, x.dtype());
  visit_floating(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    gemm<T>(y.data<T>(), out, x.ptr<T>(), in, false, weight.ptr<T>(), in, true, false, rows, out, in,
            bias.defined() ? bias.ptr<T>() : nullptr);
  });
  if (!wants_gradient({x, weight, bias})) return Tensor(std::move(y));
  x = owned(std::move(x));
  return record(
      std::move(y), {x, owned(weight), bias},
      [x = Saved(x), w = Saved(weight), rows, in, out](const Array& dy, Gradients& dx) {
        visit_floating(dy.dtype(), [&](auto tag) {
          using T = decltype(tag);
          if (dx.wants(0)) {
            const Array result = dx.fresh(0);
            gemm<T>(result.data<T>(), in, dy.data<T>(), out, false, w.data<T>(), in, false, false, rows, in, out);
            dx.add(0, result);
          }
          if (dx.wants(1)) {
            const Array result = dx.fresh(1);
            gradient_gemm<T>(GradientSide::left, result.data<T>(), in, dy.data<T>(), out, true, x.data<T>(), in, false,
                             false, out, in, rows);
            dx.add(1, result);
          }
        });
        if (dx.wants(2)) dx.add(2, sum_to(dy.reshaped({rows, out}), {out}));
      },
      derive_linear);
}

}  // namespace qkv::ops
