#include "ops/kernel_pooling.h"

#include <cmath>
#include <limits>

#include "ops/kernel_composed.h"
#include "ops/kernel_rows.h"

namespace qkv::ops {
namespace {

struct PoolingProblem {
  PoolingSizes n;
  Allowed lens;
  Kernel kernel;
  double bandwidth;
};

// Squared distances of q to the keys, and the smallest of them. Where all are infinite in double, but no number is, the
// gaussian's weight is the nearest keys' alone: these are at 0.
template <class T>
double distances(const RowScratch<T>& row, const T* q, const T* kt, Index ld, Index features, Kernel kernel,
                 Index used) {
  const double nearest = kernels::kernels<T>().kernel_pooling.distances(row.squares, q, kt, ld, features, used);
  if (kernel != Kernel::gaussian || !std::isinf(nearest)) return nearest;
  std::vector<double> far(static_cast<std::size_t>(used));
  kernels::kernels<T>().distances.forward(far.data(), row.coefficient, q, kt, ld, features, 2, used);
  const double least = *std::min_element(far.begin(), far.end());
  if (!std::isfinite(least)) return nearest;
  for (Index j = 0; j < used; ++j) row.squares[j] = far[static_cast<std::size_t>(j)] == least ? 0 : nearest;
  return 0;
}

template <class T> void forward(T* out, T* weights, const T* q, const T* kt, const T* vt, const PoolingProblem& p) {
  const auto& kernel = kernels::kernels<T>().kernel_pooling;
  const PoolingSizes& n = p.n;
  const Index grain = grain_for(n.keys * (n.features + n.value_features + 4) / 16);  // a sixteenth: vectors
  parallel_for(0, n.batches * n.queries, grain, [&](Index first, Index last) {
    const RowScratch<T> row(n.keys);
    for (Index i = first; i < last; ++i) {
      const Index b = i / n.queries, used = p.lens.range(i).high;
      const double nearest =
          distances(row, q + i * n.features, kt + b * n.features * n.keys, n.keys, n.features, p.kernel, used);
      const double reciprocal = kernel.weights(row.w, row.squares, nearest, p.kernel, p.bandwidth, used);
      kernel.pool(out + i * n.value_features, row.w, reciprocal, vt + b * n.value_features * n.keys, n.keys,
                  n.value_features, used);
      if (weights == nullptr) continue;
      std::fill_n(weights + i * n.keys, n.keys, T(0));
      kernels::kernels<T>().elementwise.add_scaled(weights + i * n.keys, row.w, static_cast<T>(reciprocal), used);
    }
  });
}

// Null pointers where a gradient is not wanted (dq, dk, dv) or did not arrive (dout, dweights). Returns that of the
// bandwidth.
template <class T>
double backward(T* dq, T* dk, T* dv, const T* dout, const T* dweights, const T* q, const T* kt, const T* vt,
                const PoolingProblem& p) {
  const auto& kernel = kernels::kernels<T>().kernel_pooling;
  const PoolingSizes& n = p.n;
  const Index pieces = n.batches * pieces_of(n), key_size = n.features * n.keys, value_size = n.value_features * n.keys;
  const Zeros<T> dkt(pieces * key_size), dvt(pieces * value_size), moved(n.batches * n.queries * n.features);
  std::vector<double> dbandwidth(static_cast<std::size_t>(pieces));
  for_pieces(n, n.features + n.value_features + 8, [&](Index piece, Index b, Index begin, Index end) {
    const RowScratch<T> row(n.keys);
    for (Index i = begin; i < end; ++i) {
      const Index used = p.lens.range(i).high;
      const T *dout_row = dout == nullptr ? nullptr : dout + i * n.value_features,
              *dweights_row = dweights == nullptr ? nullptr : dweights + i * n.keys;
      if (!arrived(dout_row, n.value_features) && !arrived(dweights_row, used)) continue;
      const double nearest = distances(row, q + i * n.features, kt + b * key_size, n.keys, n.features, p.kernel, used);
      const double reciprocal = kernel.weights(row.w, row.squares, nearest, p.kernel, p.bandwidth, used);
      if (dweights_row != nullptr) std::copy_n(dweights_row, used, row.dw);
      else std::fill_n(row.dw, used, T(0));
      if (dout_row != nullptr)
        kernel.pool_backward(row.dw, dvt.template as<T>() + piece * value_size, dout_row, row.w, reciprocal,
                             vt + b * value_size, n.keys, n.value_features, used);
      dbandwidth[static_cast<std::size_t>(piece)] += kernel.weights_backward(
          row.coefficient, row.dw, row.w, reciprocal, row.squares, nearest, p.kernel, p.bandwidth, used);
      kernel.distances_backward(moved.template as<T>() + i * n.features, dkt.template as<T>() + piece * key_size,
                                row.coefficient, q + i * n.features, kt + b * key_size, n.keys, n.features, used);
    }
  });
  if (dq != nullptr)
    kernels::kernels<T>().elementwise.add_scaled(dq, moved.template as<T>(), T(1), n.batches * n.queries * n.features);
  if (dk != nullptr) add_pieces(dk, dkt.template as<T>(), n.batches, pieces_of(n), n.keys, n.features);
  if (dv != nullptr) add_pieces(dv, dvt.template as<T>(), n.batches, pieces_of(n), n.keys, n.value_features);
  double total = 0;
  for (const double part : dbandwidth) total += part;
  return total;
}

}  // namespace

AttentionOutputs kernel_attention(const Tensor& queries, const Tensor& keys, const Tensor& values, Kernel kernel,
                                  const Tensor& bandwidth, const Array& valid_lens, bool with_weights) {
  Layout layout = point_layout(queries.shape(), keys.shape());
  add_values(layout, values.shape());
  const PoolingProblem problem{layout.n, lengths(valid_lens, layout), kernel, bandwidth_of(bandwidth)};
  const DType dtype = promoted({queries, keys, values});
  const Tensor q = layout.points(packed_as(queries, dtype)), k = layout.points(packed_as(keys, dtype)),
               v = layout.values(packed_as(values, dtype));
  const PoolingSizes& n = layout.n;
  Array y({n.batches, n.queries, n.value_features}, dtype);
  Array w = with_weights ? Array({n.batches, n.queries, n.keys}, dtype) : Array();
  visit_floating(dtype, [&]<class T>(T) {
    forward(y.data<T>(), with_weights ? w.data<T>() : nullptr, q.ptr<T>(), features_first(k.data()).template data<T>(),
            features_first(v.data()).template data<T>(), problem);
  });
  const auto shaped = [&](const Tensor& out, const Tensor& weights) {
    return AttentionOutputs{reshape(out, layout.output_shape()),
                            weights.defined() ? reshape(weights, layout.weights_shape()) : Tensor()};
  };
  if (!wants_gradient({q, k, v, bandwidth}))
    return shaped(Tensor(std::move(y)), with_weights ? Tensor(std::move(w)) : Tensor());
  std::vector<Array> outputs{std::move(y)};
  if (with_weights) outputs.push_back(std::move(w));
  const auto kept = std::make_shared<const PoolingProblem>(problem);
  const Tensors results = record_many(
      std::move(outputs), {owned(q), owned(k), owned(v), owned(bandwidth)},
      [kept, dtype, width = bandwidth.dtype()](std::span<const Array> dys, Gradients& dx) {
        visit_floating(dtype, [&]<class T>(T) {
          const auto target = [&](Index input) { return dx.wants(input) ? dx.of(input).data<T>() : nullptr; };
          const auto arrived = [&](std::size_t i) -> const T* {
            return i < dys.size() && dys[i].defined() ? dys[i].template data<T>() : nullptr;
          };
          const double dbandwidth = backward<T>(target(0), target(1), target(2), arrived(0), arrived(1),
                                                dx.input(0).data<T>(), features_first(dx.input(1)).template data<T>(),
                                                features_first(dx.input(2)).template data<T>(), *kept);
          if (dx.wants(3))
            visit_floating(width, [&]<class U>(U) { *dx.of(3).data<U>() += static_cast<U>(dbandwidth); });
        });
      },
      [kept](std::span<const Tensor> dys, TensorGradients& dx) {
        const Tensor allowed(kept->lens.array());
        derive_composed(dys, dx, [&](const Tensors& in) {
          return composed_pooling(kept->kernel, in[0], in[1], in[2], in[3], allowed);
        });
      });
  return shaped(results[0], with_weights ? results[1] : Tensor());
}

AttentionOutputs pool_by_kernel(const Tensor& kernel_values, const Tensor& values, const Array& valid_lens) {
  Layout layout;
  const Shape& s = kernel_values.shape();
  layout.batch = s.rank() == 3;
  layout.n = {layout.batch ? s.dim(0) : 1, s.dim(-2), s.dim(-1), 1, 0};
  add_values(layout, values.shape());
  const Allowed lens = lengths(valid_lens, layout);
  const PoolingSizes n = layout.n;
  const DType dtype = promoted({kernel_values, values});
  const Tensor k = reshape(packed_as(kernel_values, dtype), {n.batches, n.queries, n.keys}),
               v = layout.values(packed_as(values, dtype));
  Array w = Array::zeros(k.shape(), dtype), totals({n.batches * n.queries}, dtype);
  visit_floating(dtype, [&]<class T>(T) {
    for (Index i = 0; i < n.batches * n.queries; ++i) {
      const T* x = k.ptr<T>() + i * n.keys;
      const T total = kernels::kernels<T>().reduce.sum(x, lens.range(i).high);
      totals.data<T>()[i] = total;
      if (total == 0) continue;
      for (Index j = 0; j < lens.range(i).high; ++j) w.data<T>()[i * n.keys + j] = x[j] / total;
    }
  });
  Tensor weights(w);
  if (wants_gradient({k})) {
    const auto kept = std::make_shared<const Allowed>(lens);
    weights = record_fused(
        Array(w), {k},
        [w = Saved(w), totals, kept, n](const Array& dw, Gradients& dx) {
          visit_floating(dw.dtype(), [&]<class T>(T) {
            T* dk = dx.of(0).data<T>();
            for (Index i = 0; i < n.batches * n.queries; ++i) {
              const T *gradient = dw.data<T>() + i * n.keys, *weight = w.data<T>() + i * n.keys;
              const T total = totals.data<T>()[i];
              if (total == 0 || !arrived(gradient, kept->range(i).high)) continue;
              T mean = 0;
              for (Index j = 0; j < kept->range(i).high; ++j) mean += weight[j] != 0 ? weight[j] * gradient[j] : T(0);
              for (Index j = 0; j < kept->range(i).high; ++j) dk[i * n.keys + j] += (gradient[j] - mean) / total;
            }
          });
        },
        derived_from([kept](const Tensors& in) { return composed_weights(in[0], Tensor(kept->array())); }));
  }
  return {reshape(weighted_values(weights, v), layout.output_shape()), reshape(weights, layout.weights_shape())};
}

std::vector<double> leave_one_out_errors(const Array& points, const Array& values, Kernel kernel,
                                         const std::vector<double>& bandwidths, const Array& sample_weight) {
  const Index n = points.dim(0), features = points.dim(1), value_features = values.dim(1),
              count = static_cast<Index>(bandwidths.size());
  for (const double bandwidth : bandwidths)
    if (!(bandwidth > 0))
      fail_value(
          "leave_one_out_errors: bandwidths must be above 0 because distances are divided by them; got bandwidth ",
          bandwidth);
  const double* factor = sample_weight.defined() ? sample_weight.data<double>() : nullptr;
  std::vector<double> each(static_cast<std::size_t>(n * count));
  const Array numbers = values.cast(DType::float64);
  std::vector<double> mean(static_cast<std::size_t>(value_features));  // where no other point has weight
  for (Index i = 0; i < n; ++i)
    for (Index c = 0; c < value_features; ++c)
      mean[static_cast<std::size_t>(c)] +=
          (factor ? factor[i] : 1) * numbers.data<double>()[i * value_features + c] / static_cast<double>(n);
  visit_floating(points.dtype(), [&]<class T>(T) {
    const auto& k = kernels::kernels<T>().kernel_pooling;
    const Array kt = features_first(points.reshaped({1, n, features})),
                vt = features_first(values.reshaped({1, n, value_features}));
    parallel_for(0, n, grain_for(n * (features + count * (value_features + 4))), [&](Index first, Index last) {
      const RowScratch<T> row(n);
      std::vector<T> prediction(static_cast<std::size_t>(value_features));
      for (Index i = first; i < last; ++i) {
        k.distances(row.squares, points.data<T>() + i * features, kt.data<T>(), n, features, n);
        row.squares[i] = std::numeric_limits<double>::infinity();
        const double nearest = *std::min_element(row.squares, row.squares + n);
        for (Index h = 0; h < count; ++h) {
          const double bandwidth = bandwidths[static_cast<std::size_t>(h)];
          double reciprocal = std::isinf(nearest) ? 0 : k.weights(row.w, row.squares, nearest, kernel, bandwidth, n);
          if (factor != nullptr && reciprocal != 0) {
            double total = 0;
            for (Index j = 0; j < n; ++j) total += static_cast<double>(row.w[j] *= static_cast<T>(factor[j]));
            reciprocal = total > 0 ? 1 / total : 0;
          }
          if (reciprocal != 0) k.pool(prediction.data(), row.w, reciprocal, vt.data<T>(), n, value_features, n);
          double error = 0;
          for (Index c = 0; c < value_features; ++c) {
            const auto at = static_cast<std::size_t>(c);
            const double found = reciprocal == 0 ? mean[at] : static_cast<double>(prediction[at]);
            const double d = numbers.data<double>()[i * value_features + c] - found;
            error += d * d;
          }
          each[static_cast<std::size_t>(i * count + h)] = factor == nullptr ? error : error * factor[i];
        }
      }
    });
  });
  std::vector<double> result(static_cast<std::size_t>(count));
  for (std::size_t at = 0; at < each.size(); ++at) result[at % result.size()] += each[at];
  for (double& sum : result) sum /= static_cast<double>(std::max<Index>(1, n * value_features));
  return result;
}

}  // namespace qkv::ops
