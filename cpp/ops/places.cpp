// Where the largest and smallest numbers are.
#include "ops/integers.h"
#include "ops/reductions.h"

namespace qkv::ops {
namespace {

Tensor place(const char* operation, const Tensor& x, std::optional<Index> axis, bool keepdims, bool largest) {
  const std::optional<Axes> axes = axis ? std::optional(Axes{*axis}) : std::nullopt;
  const ReducedAxes p = reduced_axes(operation, x.shape(), axes, keepdims);
  if (p.length == 0) fail_value(operation, ": x must have at least one number on the reduced axis; got x ", x.shape());
  const Array rows = rows_of(x.data(), p);
  if (!is_floating(x.dtype())) return Tensor(integer_place(largest, rows, p.length, p.result));
  Array y(p.result, DType::int64);
  visit_floating(x.dtype(), [&]<class T>(T) {
    const auto& kernel = kernels::kernels<T>().reduce;
    parallel_for(0, p.rows, grain_for(p.length), [&](Index begin, Index end) {
      (largest ? kernel.argmax : kernel.argmin)(y.data<std::int64_t>() + begin, rows.data<T>() + begin * p.length,
                                                end - begin, p.length);
    });
  });
  return Tensor(std::move(y));
}

}  // namespace

Tensor argmax(const Tensor& x, std::optional<Index> axis, bool keepdims) {
  return place("argmax", x, axis, keepdims, true);
}

Tensor argmin(const Tensor& x, std::optional<Index> axis, bool keepdims) {
  return place("argmin", x, axis, keepdims, false);
}

}  // namespace qkv::ops
