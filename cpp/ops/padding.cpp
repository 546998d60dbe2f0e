// Numbers around an array, and zeros in a triangle of it.
#include "core/parallel.h"
#include "ops/ops.h"
#include "ops/strides.h"

namespace qkv::ops {

Tensor pad(const Tensor& x, const IndexList& before, const IndexList& behind, const Tensor& value) {
  Shape shape;
  Index offset = 0;
  for (Index axis = 0; axis < x.rank(); ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    if (before[at] < 0 || behind[at] < 0)
      fail_value("pad: pad_width must hold numbers from 0; got (", before[at], ", ", behind[at], ") for axis ", axis);
    shape.push_back(before[at] + x.dim(axis) + behind[at]);
  }
  const Strides strides = row_major(shape);
  for (std::size_t axis = 0; axis < strides.size(); ++axis) offset += before[axis] * strides[axis];
  const Array number = value.data().cast(x.dtype());
  const Array y = visit_any(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T filling = *number.data<T>();
    return filling == T{} ? Array::zeros(shape, x.dtype()) : Array::full(shape, x.dtype(), filling);
  });
  if (x.numel() > 0) {
    const Loops<2> loops(x.shape(), {strides, row_major(x.shape())});
    visit_any(x.dtype(), [&](auto tag) {
      using T = decltype(tag);
      T* to = y.data<T>() + offset;
      const T* from = x.ptr<T>();
      const Index n = loops.run();
      parallel_for(0, loops.rows(), grain_for(n), [&](Index begin, Index end) {
        loops.each_row(begin, end, [&](const std::array<Index, 2>& at) { std::copy_n(from + at[1], n, to + at[0]); });
      });
    });
  }
  if (!wants_gradient({x})) return Tensor(y);
  return record(
      y, {x},
      [from = x.shape(), strides, offset](const Array& dy, Gradients& dx) {
        const NoGrad quiet;
        dx.add(0, strided(Tensor(dy), from, strides, offset).data());
      },
      [strides, offset](const Tensor& dy, TensorGradients& dx) {
        dx.add(0, strided(dy, dx.shape(0), strides, offset));
      });
}

namespace {

Tensor triangle(const char* operation, const Tensor& x, Index k, bool lower) {
  if (x.rank() < 2) fail_value(operation, ": x must be (..., rows, columns); got x ", x.shape());
  const Index rows = x.dim(-2), columns = x.dim(-1);
  Array kept({rows, columns}, DType::boolean);
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < columns; ++j) kept.data<bool>()[i * columns + j] = lower ? j - i <= k : j - i >= k;
  return where(Tensor(kept), x, Tensor(Array::zeros({}, x.dtype())));
}

}  // namespace

Tensor lower_triangle(const Tensor& x, Index k) { return triangle("tril", x, k, true); }
Tensor upper_triangle(const Tensor& x, Index k) { return triangle("triu", x, k, false); }

}  // namespace qkv::ops
