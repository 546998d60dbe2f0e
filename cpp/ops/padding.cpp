// Numbers around an array, and zeros in a triangle of it.
#include <algorithm>

#include "autograd/views.h"
#include "core/parallel.h"
#include "ops/ops.h"

namespace qkv::ops {

Tensor pad(const Tensor& x, const IndexList& before, const IndexList& behind, const Tensor& value) {
  Shape shape;
  for (Index axis = 0; axis < x.rank(); ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    constexpr Index kMost = Index{1} << 60;  // so that sums of three do not overflow
    if (before[at] < 0 || behind[at] < 0 || before[at] > kMost || behind[at] > kMost)
      fail_value("pad: pad_width must hold numbers from 0 to 2^60; got (", before[at], ", ", behind[at], ") for axis ",
                 axis);
    shape.push_back(before[at] + x.dim(axis) + behind[at]);
  }
  Region inner{x.shape(), row_major(shape)};
  for (std::size_t axis = 0; axis < shape.size(); ++axis) inner.offset += before[axis] * inner.strides[axis];
  const Array number = value.data().cast(x.dtype());
  Array y = visit_any(x.dtype(), [&]<class T>(T) {
    const T filling = *number.data<T>();
    return filling == T{} ? Array::zeros(shape, x.dtype()) : Array::full(shape, x.dtype(), filling);
  });
  write(y.view(inner), x.data());
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(std::move(y), {x},
                [inner](const Tensor& dy, TensorGradients& dx) { dx.add(0, [&] { return strided(dy, inner); }); });
}

namespace {

// Which triangle, and how far it reaches.
struct Triangle {
  const char* operation;
  bool lower;
  Index k;
};

Tensor triangle(const Tensor& given, Triangle t) {
  const Tensor x = packed(given);
  if (x.rank() < 2) fail_value(t.operation, ": x must be (..., rows, columns); got x ", x.shape());
  const Index rows = x.dim(-2), columns = x.dim(-1);
  t.k = std::clamp<Index>(t.k, -rows - 1, columns);
  Array y(x.shape(), x.dtype());
  if (x.numel() > 0)
    visit_any(x.dtype(), [&]<class T>(T) {
      parallel_for(0, x.numel() / columns, grain_for(columns), [&](Index begin, Index end) {
        for (Index row = begin; row < end; ++row) {
          const T* from = x.ptr<T>() + row * columns;
          T* to = y.data<T>() + row * columns;
          const Index i = row % rows, edge = t.lower ? i + t.k + 1 : i + t.k;
          const Index left = std::clamp<Index>(edge, 0, columns);  // the columns before it, which are kept or not
          if (t.lower) std::fill(std::copy_n(from, left, to), to + columns, T{});
          else std::copy(from + left, from + columns, std::fill_n(to, left, T{}));
        }
      });
    });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(std::move(y), {x}, [t](const Tensor& dy, TensorGradients& dx) { dx.add(0, triangle(dy, t)); });
}

}  // namespace

Tensor lower_triangle(const Tensor& x, Index k) { return triangle(x, {"tril", true, k}); }
Tensor upper_triangle(const Tensor& x, Index k) { return triangle(x, {"triu", false, k}); }

}  // namespace qkv::ops
