// Softmax, its logarithm and its Jacobian.
#include <algorithm>
#include <cmath>

#include "autograd/saving.h"
#include "ops/reductions.h"

namespace qkv::ops {
namespace {

void check_temperature(const char* operation, double temperature, DType dtype) {
  if (!(temperature > 0))
    fail_value(operation, ": temperature must be above 0 because x is divided by it; got temperature = ", temperature);
  if (dtype == DType::float32 && !std::isfinite(static_cast<float>(1 / temperature)))
    fail_value(
        operation,
        ": temperature must be at least 3e-39 because x is divided by it in float32; got temperature = ", temperature);
}

// In parallel: rows(count, begin) for rows of n numbers where these lie next to each other, else columns(width, begin).
template <class Rows, class Columns> void for_each_line(const StridedLoop& a, Rows rows, Columns columns) {
  constexpr Index kColumns = 1024;
  if (a.n == 0) return;  // however many they are
  if (a.inner == 1)
    return parallel_for(0, a.outer, grain_for(8 * a.n),
                        [&](Index begin, Index end) { rows(end - begin, begin * a.n); });
  const Index blocks = (a.inner + kColumns - 1) / kColumns;
  parallel_for(0, a.outer * blocks, grain_for(8 * a.n * std::min(a.inner, kColumns)), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const Index column = i % blocks * kColumns;
      columns(std::min(kColumns, a.inner - column), i / blocks * a.n * a.inner + column);
    }
  });
}

Tensor normalised(const char* operation, bool logarithm, const Tensor& input, Index axis, double temperature) {
  if (input.rank() == 0)  // one number, as a row of one
    return reshape(normalised(operation, logarithm, reshape(input, {1}), axis, temperature), {});
  const Tensor x = floating(input);
  check_temperature(operation, temperature, x.dtype());
  axis = checked_axis(operation, axis, x.rank());
  Array y(x.shape(), x.dtype());
  const StridedLoop loop(x.shape(), axis);
  visit_floating(x.dtype(), [&]<class T>(T) {
    const auto& kernel = kernels::kernels<T>().softmax;
    const T scale = static_cast<T>(1 / temperature), *from = x.ptr<T>();
    T* to = y.data<T>();
    for_each_line(
        loop,
        [&](Index rows, Index at) {
          if (logarithm) kernel.log_forward(to + at, from + at, scale, rows, loop.n);
          else kernel.forward(to + at, from + at, scale, false, rows, loop.n, loop.n);
        },
        [&](Index width, Index at) {
          const auto columns = logarithm ? kernel.log_forward_columns : kernel.forward_columns;
          columns(to + at, from + at, scale, loop.inner, loop.n, width);
        });
  });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record_by_output(
      Array(y), {x},
      [y = Saved(y), logarithm, temperature, loop](std::span<const Array> dys, Gradients& dx) {
        const Array& dy = dys[0];
        visit_floating(dy.dtype(), [&]<class T>(T) {
          const auto& kernel = kernels::kernels<T>().softmax;
          const Array gradient = dx.fresh(0);
          const T scale = static_cast<T>(1 / temperature), *saved = y.data<T>(), *from = dy.data<T>();
          T* to = gradient.data<T>();
          for_each_line(
              loop,
              [&](Index rows, Index at) {
                if (logarithm) kernel.log_backward(to + at, from + at, saved + at, scale, rows, loop.n);
                else kernel.backward(to + at, from + at, saved + at, scale, false, rows, loop.n);
              },
              [&](Index width, Index at) {
                const auto columns = logarithm ? kernel.log_backward_columns : kernel.backward_columns;
                columns(to + at, from + at, saved + at, scale, loop.inner, loop.n, width);
              });
          dx.add(0, gradient);
        });
      },
      [y = Saved(y), logarithm, axis, temperature](std::span<const Tensor> dys, TensorGradients& dx) {
        const Tensor& dy = dys[0];
        const Tensor p = logarithm ? unary(Unary::exponential, dx.output(y)) : dx.output(y);
        const Tensor gradient =
            logarithm ? subtract(dy, multiply(p, sum(dy, Axes{axis}, true))) : softmax_gradient(p, dy, axis);
        dx.add(0, scaled(gradient, 1 / temperature));
      });
}

}  // namespace

Tensor softmax_gradient(const Tensor& p, const Tensor& dy, Index axis) {
  return multiply(p, subtract(dy, sum(multiply(p, dy), Axes{axis}, true)));
}

Tensor softmax(const Tensor& x, Index axis, double temperature) {
  return normalised("softmax", false, x, axis, temperature);
}

Tensor log_softmax(const Tensor& x, Index axis, double temperature) {
  return normalised("log_softmax", true, x, axis, temperature);
}

Tensor softmax_jacobian(const Tensor& x) {
  checked_axis("softmax", -1, x.rank());
  const Tensor p = softmax(x, -1, 1.0);  // (..., n)
  const Index n = p.dim(-1);
  Shape column = p.shape(), row = p.shape();
  column.push_back(1);
  row.insert(row.end() - 1, 1);
  Array eye = Array::zeros({n, n}, p.dtype());
  visit_floating(p.dtype(), [&]<class T>(T) {
    for (Index i = 0; i < n; ++i) eye.data<T>()[i * n + i] = 1;
  });
  const Tensor left = reshape(p, column), right = reshape(p, row);      // (..., n, 1), (..., 1, n)
  return subtract(multiply(left, Tensor(eye)), multiply(left, right));  // (..., n, n)
}

}  // namespace qkv::ops
