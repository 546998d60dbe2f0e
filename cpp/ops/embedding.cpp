// Rows of a table by number.
#include <algorithm>
#include <cstring>

#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/ops.h"
#include "ops/positions.h"

namespace qkv::ops {

Tensor embedding(const Tensor& table, const Array& ids, std::optional<Index> padding_idx) {
  const Tensor weight = floating(table);
  if (weight.rank() != 2) fail_value("embedding: weight must be (V, M); got weight ", weight.shape());
  if (ids.dtype() != DType::int64)
    fail_type("embedding: ids must be integers because they are row numbers; got ids of ", ids.dtype());
  const Index V = weight.dim(0), M = weight.dim(1), count = ids.numel();
  if (padding_idx && (*padding_idx < -V || *padding_idx >= V))
    fail_value("embedding: padding_idx must be in ", -V, "..", V - 1, " because weight is ", weight.shape(),
               "; got padding_idx = ", *padding_idx);
  const Index skipped = !padding_idx ? -1 : *padding_idx < 0 ? *padding_idx + V : *padding_idx;
  const std::int64_t* id = ids.data<std::int64_t>();
  for (Index i = 0; i < count; ++i)
    if (id[i] < 0 || id[i] >= V)
      fail_value("embedding: ids must be in 0..", V - 1, " because weight is ", weight.shape(), "; got id ", id[i],
                 " at position ", position_in(ids.shape(), i));
  Shape shape = ids.shape();
  shape.push_back(M);
  Array y(shape, weight.dtype());
  visit_floating(weight.dtype(), [&](auto tag) {
    using T = decltype(tag);
    parallel_for(0, count, grain_for(M), [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i)
        std::memcpy(y.data<T>() + i * M, weight.ptr<T>() + id[i] * M, static_cast<std::size_t>(M) * sizeof(T));
    });
  });
  if (!wants_gradient({weight})) return Tensor(std::move(y));
  return record(std::move(y), {weight}, [ids = Saved(ids), count, M, skipped](const Array& dy, Gradients& dx) {
    visit_floating(dy.dtype(), [&](auto tag) {
      using T = decltype(tag);
      T* out = dx.of(0).data<T>();
      const std::int64_t* rows = ids.data<std::int64_t>();
      // Each piece owns some columns of all rows, so that equal ids are added in their order.
      parallel_for(0, M, std::max<Index>(64, grain_for(count)), [&](Index begin, Index end) {
        for (Index i = 0; i < count; ++i)
          if (rows[i] != skipped)
            kernels::kernels<T>().elementwise.add_scaled(out + rows[i] * M + begin, dy.data<T>() + i * M + begin, T(1), end - begin);
      });
    });
  });
}

}  // namespace qkv::ops
