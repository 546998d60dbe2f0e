// Matrix products with gradients.
#include <algorithm>
#include <optional>
#include <tuple>

#include "autograd/saving.h"
#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/integers.h"
#include "ops/matmul/gemm.h"
#include "ops/matmul/linear.h"
#include "ops/matmul/packed_weight.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

// The axes before the matrix.
Shape batch_of(const Shape& s) { return Shape(s.begin(), s.end() - 2); }

constexpr Index kAlone = Index{1} << 31;

// Matrices that gemm can read, which takes any distance between rows that it is told: those of x, turned around if it
// is their columns whose numbers are one after the other, or else those of a packed copy.
struct Matrices {
  Matrices(const Array& x, bool transposed) : array(x), turned(transposed) {
    const Index rows = x.dim(-2), columns = x.dim(-1);
    ld = columns;
    if (!x.is_packed()) {
      batch = x.strides();
      const Index along = batch.back(), down = batch[batch.size() - 2];
      if ((along == 1 || columns == 1) && (down >= columns || rows == 1)) {
        ld = rows == 1 ? columns : down;
      } else if ((down == 1 || rows == 1) && (along >= rows || columns == 1)) {
        ld = columns == 1 ? rows : along;
        turned = !turned;
      } else {
        array = gathered(x);
      }
    }
    if (array.is_packed()) batch = row_major(x.shape());
    batch.resize(batch.size() - 2);
  }

  Array array;
  bool turned;
  Index ld;
  Strides batch;
};

// c (..., m, n) = a' @ b' with batches read through strides (0 where an operand is broadcast). `gradient` names the
// operand that is one, if any: see gradient_gemm.
Array batched(const Array& a, bool ta, const Array& b, bool tb, const Shape& batch,
              std::optional<GradientSide> gradient = {}) {
  const Index m = a.dim(ta ? -1 : -2), k = a.dim(ta ? -2 : -1), n = b.dim(tb ? -2 : -1);
  Shape shape = batch;
  shape.push_back(m);
  shape.push_back(n);
  Array c(shape, a.dtype());
  const Matrices left(a, ta), right(b, tb);
  const Strides sa = broadcast_strides(batch_of(a.shape()), batch, left.batch),
                sb = broadcast_strides(batch_of(b.shape()), batch, right.batch);
  const Index count = batch.numel();
  visit_floating(a.dtype(), [&]<class T>(T) {
    const auto one = [&](Index i, auto product) {
      product(c.data<T>() + i * m * n, n, left.array.first_as<T>() + offset_of(i, batch, sa), left.ld, left.turned,
              right.array.first_as<T>() + offset_of(i, batch, sb), right.ld, right.turned, false, m, n, k);
    };
    const auto multiply = [&](auto... args) { gradient ? gradient_gemm<T>(*gradient, args...) : gemm<T>(args...); };
    // Products that take some 10 ms and more are cut, each by itself, for the pool and for interrupts.
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

// a' @ b', one of which is a gradient: a number of it that is 0 passes over what it is multiplied with. In its own
// rule the zeros of both the old gradient and the new one count, and the side stays unless a transposed operand swaps
// the factors.
Tensor gradient_matmul(GradientSide side, const Tensor& a, bool ta, const Tensor& b, bool tb, const Shape& batch) {
  if (a.dim(ta ? -2 : -1) == 1) {  // each number with each
    const Tensor left = ta ? swapaxes(a, -1, -2) : a, right = tb ? swapaxes(b, -1, -2) : b;
    return side == GradientSide::left ? times(left, right) : times(right, left);
  }
  Array product = batched(a.data(), ta, b.data(), tb, batch, side);
  if (!wants_gradient({a, b})) return Tensor(std::move(product));
  return record(std::move(product), {a, b},
                [side, ta, tb, batch, p = Saved(a), q = Saved(b)](const Tensor& d, TensorGradients& dx) {
                  const Tensor x = p.tensor(), y = q.tensor();
                  const GradientSide other = side == GradientSide::left ? GradientSide::right : GradientSide::left;
                  dx.add(0, [&] {
                    return sum_to(ta ? gradient_matmul(other, y, tb, d, true, batch)
                                     : gradient_matmul(side, d, false, y, !tb, batch),
                                  x.shape());
                  });
                  dx.add(1, [&] {
                    return sum_to(tb ? gradient_matmul(other, d, true, x, ta, batch)
                                     : gradient_matmul(side, x, !ta, d, false, batch),
                                  y.shape());
                  });
                });
}

}  // namespace

Tensor matmul(const Tensor& left, const Tensor& right) {
  if (left.rank() == 0 || right.rank() == 0)
    fail_value("matmul: a and b must have at least one axis; got a ", left.shape(), ", b ", right.shape());
  const bool whole = !is_floating(left.dtype()) && !is_floating(right.dtype());
  const DType dtype = whole ? DType::int64 : promoted({left, right});
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
  const bool fold = b.rank() == 2 && a.rank() > 2 && a.dim(-1) > 0;
  const auto product = [&] {
    if (whole) return integer_matmul(packed(a.data()), packed(b.data()), batch);
    if (!fold) return batched(a.data(), false, b.data(), false, batch);
    return batched(packed(a.data()).reshaped({a.numel() / a.dim(-1), a.dim(-1)}), false, b.data(), false, {});
  };
  Shape full = batch;
  full.push_back(a.dim(-2));
  full.push_back(b.dim(-1));
  Array y = product().reshaped(full);
  // Of booleans: whether any pair is true.
  if (left.dtype() == DType::boolean && right.dtype() == DType::boolean) y = y.cast(DType::boolean);
  if (!wants_gradient({a, b})) {
    result = Tensor(std::move(y));
  } else {
    result =
        record(std::move(y), {a, b},
               [p = saved_for(b, a), q = saved_for(a, b), batch](const Tensor& given, TensorGradients& dx) {
                 const Tensor dy = packed(given);
                 dx.add(0, [&] {
                   return sum_to(gradient_matmul(GradientSide::left, dy, false, q.tensor(), true, batch), dx.shape(0));
                 });
                 dx.add(1, [&] {
                   const Tensor one = p.tensor();
                   if (dx.shape(1).rank() == 2 && one.dim(-1) > 0 && dy.dim(-1) > 0)  // of many rows against one matrix
                     return gradient_matmul(GradientSide::right, as_rows(one), true, as_rows(dy), false, {});
                   return sum_to(gradient_matmul(GradientSide::right, one, true, dy, false, batch), dx.shape(1));
                 });
               });
  }
  if (!row && !column) return result;
  Shape squeezed = batch;
  if (!row) squeezed.push_back(a.dim(-2));
  if (!column) squeezed.push_back(b.dim(-1));
  return reshape(result, squeezed);
}

namespace {

void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (weight.rank() != 2) fail_value("Linear: weight must be (out_features, in_features); got weight ", weight.shape());
  if (bias.defined() && bias.shape() != Shape{weight.dim(0)})
    fail_value("Linear: bias must be (out_features,) = (", weight.dim(0), ",); got bias ", bias.shape());
  const Index in = weight.dim(1);
  if (x.rank() == 0 || x.dim(-1) != in)
    fail_value("Linear: x must be (..., ", in, ") because in_features = ", in, "; got x ", x.shape());
}

}  // namespace

Tensors linears(const Tensor& input, std::span<const LinearLayer> layers) {
  const auto packs = [&](const LinearLayer& l) {
    return can_pack(l.weight.layout()) && l.weight.dtype() == layers[0].weight.dtype() &&
           !wants_gradient({input, l.weight, l.bias});
  };
  if (std::all_of(layers.begin(), layers.end(), packs)) {
    for (const LinearLayer& layer : layers) check_linear(input, layer.weight, layer.bias);
    return packed_linears(packed_as(input, layers[0].weight.dtype()), layers);
  }
  Tensors results;
  for (const LinearLayer& layer : layers) {
    const Tensor y = linear(input, layer.weight, layer.bias);
    results.push_back(layer.activation ? activated(y, *layer.activation) : y);
  }
  return results;
}

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& given_bias) {
  check_linear(input, weight, given_bias);
  const Tensor x = packed_as(input, weight.dtype()),
               bias = given_bias.defined() ? packed_as(given_bias, weight.dtype()) : given_bias;
  const Index in = weight.dim(1), out = weight.dim(0);
  const Index rows = x.shape().product(0, x.rank() - 1);
  Shape shape = x.shape();
  shape.back() = out;
  Array y(shape, x.dtype());
  visit_floating(x.dtype(), [&]<class T>(T) {
    const Matrices w(weight.data(), true);
    gemm<T>(y.data<T>(), out, x.ptr<T>(), in, false, w.array.first_as<T>(), w.ld, w.turned, false, rows, out, in,
            bias.defined() ? bias.ptr<T>() : nullptr);
  });
  if (!wants_gradient({x, weight, bias})) return Tensor(std::move(y));
  return record(std::move(y), {x, weight, bias},
                [x = saved_for(weight, x), w = saved_for(x, weight)](const Tensor& given, TensorGradients& dx) {
                  const Tensor dy = packed(given);
                  dx.add(0, [&] { return matmul(dy, w.tensor()); });
                  dx.add(1, [&] {
                    return gradient_matmul(GradientSide::left, as_rows(dy), true, as_rows(x.tensor()), false, {});
                  });
                  dx.add(2, [&] { return sum(as_rows(dy), Axes{0}); });
                });
}

}  // namespace qkv::ops
