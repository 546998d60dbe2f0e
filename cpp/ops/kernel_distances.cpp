// Distances of each query to each key.
#include <cmath>

#include "ops/kernel_composed.h"
#include "ops/kernel_pooling.h"
#include "ops/kernel_rows.h"

namespace qkv::ops {
namespace {

struct DistanceProblem {
  PoolingSizes n;
  Allowed lens;
};

// row.squares (used) = the distances of q; row.coefficient is scratch.
template <class T>
void distances(const RowScratch<T>& row, const T* q, const T* kt, Index ld, Index features, double order, Index used) {
  const auto of_order = [&](double* to, const T* keys, Index count) {
    kernels::kernels<T>().distances.forward(to, row.coefficient, q, keys, ld, features, order, count);
  };
  if (order != 2) return of_order(row.squares, kt, used);
  kernels::kernels<T>().kernel_pooling.distances(row.squares, q, kt, ld, features, used);
  for (Index j = 0; j < used; ++j)
    if (const double square = row.squares[j]; square > 1e-280 && square < 1e300) row.squares[j] = std::sqrt(square);
    else of_order(row.squares + j, kt + j, 1);  // its squares may have left the range
}

}  // namespace

Tensor scaled_distances(const Tensor& queries, const Tensor& keys, const Tensor& bandwidth, const Array& valid_lens,
                        double order) {
  const Layout layout = point_layout(queries.shape(), keys.shape());
  bandwidth_of(bandwidth);  // checks it
  const DistanceProblem p{layout.n, lengths(valid_lens, layout)};
  const DType dtype = promoted({queries, keys});
  const Tensor q = layout.points(packed_as(queries, dtype)), k = layout.points(packed_as(keys, dtype));
  const PoolingSizes& n = layout.n;
  Array y({n.batches, n.queries, n.keys}, dtype);
  visit_floating(dtype, [&]<class T>(T) {
    const Array kt = features_first(k.data());
    for_pieces(n, n.features + 4, [&](Index, Index b, Index begin, Index end) {
      const RowScratch<T> row(n.keys);
      for (Index i = begin; i < end; ++i) {
        const Index used = p.lens.range(i).high;
        distances(row, q.ptr<T>() + i * n.features, kt.data<T>() + b * n.features * n.keys, n.keys, n.features, order,
                  used);
        for (Index j = 0; j < n.keys; ++j)
          y.data<T>()[i * n.keys + j] = j < used ? static_cast<T>(row.squares[j]) : T(1);
      }
    });
  });
  Tensor distance(y);
  if (wants_gradient({q, k})) {
    const auto kept = std::make_shared<const DistanceProblem>(p);
    distance = record_fused(
        Array(y), {owned(q), owned(k)},
        [y = Saved(y), kept, order](const Array& dy, Gradients& dx) {
          visit_floating(dy.dtype(), [&]<class T>(T) {
            const PoolingSizes& sizes = kept->n;
            const Index size = sizes.features * sizes.keys;
            const Array kt = features_first(dx.input(1));
            const T* points = dx.input(0).data<T>();
            const Zeros<T> dkt(sizes.batches * pieces_of(sizes) * size),
                moved(sizes.batches * sizes.queries * sizes.features);
            for_pieces(sizes, sizes.features + 4, [&](Index piece, Index b, Index begin, Index end) {
              const RowScratch<T> row(sizes.keys);
              for (Index i = begin; i < end; ++i) {
                const Index used = kept->lens.range(i).high;
                const T* gradient = dy.data<T>() + i * sizes.keys;
                if (!arrived(gradient, used)) continue;
                T *dq = moved.template as<T>() + i * sizes.features, *dk = dkt.template as<T>() + piece * size;
                const T *point = points + i * sizes.features, *others = kt.data<T>() + b * size;
                if (order != 2) {
                  distances(row, point, others, sizes.keys, sizes.features, order, used);
                  kernels::kernels<T>().distances.backward(dq, dk, row.coefficient, gradient, row.squares, point,
                                                           others, sizes.keys, sizes.features, order, used);
                  continue;
                }
                for (Index j = 0; j < used; ++j) {
                  const T d = y.data<T>()[i * sizes.keys + j];
                  row.coefficient[j] = d == 0 ? 0.0 : static_cast<double>(gradient[j]) / static_cast<double>(d);
                }
                kernels::kernels<T>().kernel_pooling.distances_backward(dq, dk, row.coefficient, point, others,
                                                                        sizes.keys, sizes.features, used);
              }
            });
            if (dx.wants(0))
              kernels::kernels<T>().elementwise.add_scaled(dx.of(0).data<T>(), moved.template as<T>(), T(1),
                                                           sizes.batches * sizes.queries * sizes.features);
            if (dx.wants(1))
              add_pieces(dx.of(1).data<T>(), dkt.template as<T>(), sizes.batches, pieces_of(sizes), sizes.keys,
                         sizes.features);
          });
        },
        derived_from([kept, order](const Tensors& in) {
          return composed_distances(in[0], in[1], Tensor(kept->lens.array()), order);
        }));
  }
  return reshape(divide(distance, cast(bandwidth, dtype)), layout.weights_shape());
}

}  // namespace qkv::ops
