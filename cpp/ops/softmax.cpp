// Softmax, its logarithm, its Jacobian, and softmax over allowed entries.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/in_range.h"
#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/ops.h"
#include "ops/strides.h"

namespace qkv::ops {
namespace {

struct Rows {
  Index count, n;
};

Rows last_axis(const Array& x) { return {x.shape().product(0, x.rank() - 1), x.dim(-1)}; }

void check_temperature(const char* operation, double temperature, DType dtype) {
  if (!(temperature > 0))
    fail_value(operation, ": temperature must be above 0 because x is divided by it; got temperature = ", temperature);
  if (dtype == DType::float32 && !std::isfinite(static_cast<float>(1 / temperature)))
    fail_value(
        operation,
        ": temperature must be at least 3e-39 because x is divided by it in float32; got temperature = ", temperature);
}

// body(rows, begin of the numbers of these rows) in parallel.
template <class Body> void for_rows(const Rows& rows, Body body) {
  if (rows.n == 0) return;  // however many they are
  parallel_for(0, rows.count, grain_for(8 * rows.n),
               [&](Index begin, Index end) { body(end - begin, begin * rows.n); });
}

}  // namespace

namespace {

// p (dy - sum of p dy): the gradient of a softmax p over the last axis.
Tensor softmax_gradient(const Tensor& p, const Tensor& dy) {
  return multiply(p, subtract(dy, sum(multiply(p, dy), Axes{-1}, true)));
}

}  // namespace

Tensor softmax(const Tensor& input, Index axis, double temperature) {
  const Tensor x = floating(input);
  check_temperature("softmax", temperature, x.dtype());
  axis = checked_axis("softmax", axis, x.rank());
  if (axis != x.rank() - 1) return swapaxes(softmax(swapaxes(x, axis, -1), -1, temperature), axis, -1);
  Array y(x.shape(), x.dtype());
  const Rows rows = last_axis(y);
  visit_floating(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    for_rows(rows, [&](Index count, Index at) {
      kernels::kernels<T>().softmax.forward(y.data<T>() + at, x.ptr<T>() + at, static_cast<T>(1 / temperature), false,
                                            count, rows.n, rows.n);
    });
  });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(
      Array(y), {x},
      [y = Saved(y), temperature, rows](const Array& dy, Gradients& dx) {
        visit_floating(dy.dtype(), [&](auto tag) {
          using T = decltype(tag);
          const Array slope = dx.fresh(0);
          T* out = slope.data<T>();
          const T* saved = y.data<T>();
          for_rows(rows, [&](Index count, Index at) {
            kernels::kernels<T>().softmax.backward(out + at, dy.data<T>() + at, saved + at,
                                                   static_cast<T>(1 / temperature), false, count, rows.n);
          });
          dx.add(0, slope);
        });
      },
      [temperature](const Tensor& dy, TensorGradients& dx) {
        dx.add(0, scaled(softmax_gradient(softmax(dx.input(0), -1, temperature), dy), 1 / temperature));
      });
}

Tensor log_softmax(const Tensor& input, Index axis, double temperature) {
  const Tensor x = floating(input);
  check_temperature("log_softmax", temperature, x.dtype());
  axis = checked_axis("log_softmax", axis, x.rank());
  if (axis != x.rank() - 1) return swapaxes(log_softmax(swapaxes(x, axis, -1), -1, temperature), axis, -1);
  Array y(x.shape(), x.dtype());
  const Rows rows = last_axis(y);
  visit_floating(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    for_rows(rows, [&](Index count, Index at) {
      kernels::kernels<T>().softmax.log_forward(y.data<T>() + at, x.ptr<T>() + at, static_cast<T>(1 / temperature),
                                                count, rows.n);
    });
  });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(
      Array(y), {x},
      [y = Saved(y), temperature, rows](const Array& dy, Gradients& dx) {
        visit_floating(dy.dtype(), [&](auto tag) {
          using T = decltype(tag);
          const Array slope = dx.fresh(0);
          T* out = slope.data<T>();
          const T* saved = y.data<T>();
          for_rows(rows, [&](Index count, Index at) {
            kernels::kernels<T>().softmax.log_backward(out + at, dy.data<T>() + at, saved + at,
                                                       static_cast<T>(1 / temperature), count, rows.n);
          });
          dx.add(0, slope);
        });
      },
      [temperature](const Tensor& dy, TensorGradients& dx) {
        const Tensor p = softmax(dx.input(0), -1, temperature);
        dx.add(0, scaled(subtract(dy, multiply(p, sum(dy, Axes{-1}, true))), 1 / temperature));
      });
}

Tensor softmax_jacobian(const Tensor& x) {
  const Tensor p = softmax(x, -1, 1.0);  // (..., n)
  const Index n = p.dim(-1);
  Shape column = p.shape(), row = p.shape();
  column.push_back(1);
  row.insert(row.end() - 1, 1);
  Array eye = Array::zeros({n, n}, p.dtype());
  visit_floating(p.dtype(), [&](auto tag) {
    for (Index i = 0; i < n; ++i) eye.data<decltype(tag)>()[i * n + i] = 1;
  });
  const Tensor left = reshape(p, column), right = reshape(p, row);      // (..., n, 1), (..., 1, n)
  return subtract(multiply(left, Tensor(eye)), multiply(left, right));  // (..., n, n)
}

namespace {

// Which entries of scores ([B, [H,]] Lq, Lk) are excluded by lengths and a mask.
class Exclusions {
 public:
  Exclusions(const Tensor& scores, const Array& valid_lens, const Tensor& mask) : shape_(scores.shape()) {
    const Index rank = shape_.rank();
    if (rank < 2 || rank > 4)
      fail_value("masked_softmax: scores must be (Lq, Lk), (B, Lq, Lk) or (B, H, Lq, Lk); got scores ", shape_);
    queries_ = shape_.dim(-2);
    if (valid_lens.defined()) take_lengths(valid_lens);
    if (mask.defined()) take_mask(mask, scores.dtype());
  }

  Index keys() const { return shape_.dim(-1); }
  Index length(Index row) const {
    if (!lengths_.defined()) return keys();
    const Index batch = row / rows_per_batch_;
    return static_cast<Index>(lengths_.data<std::int64_t>()[per_query_ ? batch * queries_ + row % queries_ : batch]);
  }
  bool has_mask() const { return mask().defined(); }
  bool has_bias() const { return has_mask() && mask().dtype() != DType::boolean; }

  // For use after the call: holds memory that nobody else may change.
  void keep() {
    if (lengths_.defined()) lengths_.make_unique();
    saved_ = Saved(mask_);
    mask_ = Array();
  }

  // Which entries are allowed, in the shape of the scores.
  Array allowed() const {
    const Index rows = shape_.product(0, shape_.rank() - 1);
    const DType dtype = has_bias() ? mask().dtype() : DType::float32;
    const Array kept = Array::full(shape_, dtype, 1);
    visit_floating(dtype, [&](auto tag) {
      using T = decltype(tag);
      for (Index row = 0; row < rows; ++row) exclude(kept.data<T>() + row * keys(), row, T(0));
    });
    return kept.cast(DType::boolean);
  }

  // y + mask, for a mask that is added.
  template <class T> void add_bias(T* y, Index row) const {
    const T* bias = mask().data<T>() + mask_offset(row);
    kernels::kernels<T>().elementwise.binary(kernels::Binary::add, y, y, 1, bias, mask_strides_.back(), keys());
  }

  template <class T> void exclude(T* y, Index row, T value) const {
    const bool* allowed = has_mask() && !has_bias() ? mask().data<bool>() + mask_offset(row) : nullptr;
    const T* bias = has_bias() ? mask().data<T>() + mask_offset(row) : nullptr;
    const Index step = has_mask() ? mask_strides_.back() : 0;
    kernels::kernels<T>().softmax.exclude(y, allowed, step, bias, step, length(row), value, keys());
  }

 private:
  void take_lengths(const Array& lens) {
    const Index rank = shape_.rank(), batch = rank == 2 ? 1 : shape_.dim(0);
    const Shape one = rank == 2 ? Shape{} : Shape{batch};
    const Shape each = rank == 2 ? Shape{queries_} : Shape{batch, queries_};
    if (lens.dtype() != DType::int64)
      fail_type("masked_softmax: valid_lens must be integers because they count keys; got ", lens.dtype());
    if (lens.shape() != one && lens.shape() != each)
      fail_value("masked_softmax: valid_lens must be ", one, " or ", each, " because scores are ", shape_,
                 "; got valid_lens ", lens.shape());
    per_query_ = lens.shape() != one;
    rows_per_batch_ = rank == 4 ? shape_.dim(1) * queries_ : queries_;
    for (Index i = 0; i < lens.numel(); ++i)
      if (lens.data<std::int64_t>()[i] < 0 || lens.data<std::int64_t>()[i] > keys())
        fail_value("masked_softmax: valid_lens must be in 0..", keys(), " because scores are ", shape_,
                   "; got valid_lens ", lens.data<std::int64_t>()[i]);
    lengths_ = lens;
  }

  void take_mask(const Tensor& mask, DType dtype) {
    if (mask.dtype() == DType::int64)
      fail_type(
          "masked_softmax: mask must be boolean (True = may attend) or float (added to the scores) because an "
          "integer could mean either; got ",
          mask.dtype());
    Shape common;
    if (!broadcast(mask.shape(), shape_, common) || common != shape_)
      fail_value("masked_softmax: mask must broadcast to scores ", shape_, "; got mask ", mask.shape());
    mask_ = mask.dtype() == DType::boolean ? mask.data() : mask.data().cast(dtype);
    mask_strides_ = broadcast_strides(mask.shape(), shape_);
  }

  const Array& mask() const { return saved_.defined() ? saved_.get() : mask_; }

  Index mask_offset(Index row) const {
    Index offset = 0;
    for (Index axis = shape_.rank() - 2; axis >= 0; --axis) {
      offset += row % shape_.dim(axis) * mask_strides_[static_cast<std::size_t>(axis)];
      row /= shape_.dim(axis);
    }
    return offset;
  }

  Shape shape_;
  Index queries_ = 0, rows_per_batch_ = 1;
  Array lengths_;
  bool per_query_ = false;
  Array mask_;
  Saved saved_;
  Strides mask_strides_;
};

template <class T>
void masked_rows(T* y, const T* x, const Exclusions& excluded, std::optional<double> masked_value, Index begin,
                 Index end) {
  const auto& kernel = kernels::kernels<T>().softmax;
  const Index n = excluded.keys();
  const T fill =
      masked_value ? in_range<T>("masked_softmax", "masked_value", *masked_value) : -std::numeric_limits<T>::infinity();
  for (Index row = begin; row < end; ++row) {
    T* out = y + row * n;
    if (!masked_value && !excluded.has_mask()) {
      const Index length = excluded.length(row);
      kernel.forward(out, x + row * n, T(1), true, 1, length, n);
      std::fill(out + length, out + n, T(0));
      continue;
    }
    // Behind the length nothing is read; with a value to fill in, the whole row takes part.
    const Index used = masked_value ? n : excluded.length(row);
    std::memcpy(out, x + row * n, static_cast<std::size_t>(n) * sizeof(T));
    if (excluded.has_bias()) excluded.add_bias(out, row);
    excluded.exclude(out, row, fill);
    const bool found_nan = kernel.forward(out, out, T(1), true, 1, used, n);
    std::fill(out + used, out + n, T(0));
    if (found_nan && !masked_value) excluded.exclude(out, row, T(0));
  }
}

}  // namespace

Tensor masked_softmax(const Tensor& input, const Array& valid_lens, const Tensor& mask,
                      std::optional<double> masked_value) {
  const Tensor scores = floating(input);
  Exclusions excluded(scores, valid_lens, mask);
  Array y(scores.shape(), scores.dtype());
  const Rows rows = last_axis(y);
  visit_floating(scores.dtype(), [&](auto tag) {
    using T = decltype(tag);
    parallel_for(0, rows.count, grain_for(8 * rows.n), [&](Index begin, Index end) {
      masked_rows(y.data<T>(), scores.ptr<T>(), excluded, masked_value, begin, end);
    });
  });
  const Tensor bias = excluded.has_bias() ? mask : Tensor();
  if (!wants_gradient({scores, bias})) return Tensor(std::move(y));
  excluded.keep();
  const auto kept = std::make_shared<const Exclusions>(std::move(excluded));
  return record(
      Array(y), {owned(scores), owned(bias)},
      [y = Saved(y), kept, rows, filled = masked_value.has_value(),
       mask_shape = bias.defined() ? bias.shape() : Shape{},
       mask_dtype = bias.defined() ? bias.dtype() : DType::float32](const Array& dy, Gradients& dx) {
        Array dscores(dy.shape(), dy.dtype());
        visit_floating(dy.dtype(), [&](auto tag) {
          using T = decltype(tag);
          const T* saved = y.data<T>();
          parallel_for(0, rows.count, grain_for(8 * rows.n), [&](Index begin, Index end) {
            for (Index row = begin; row < end; ++row) {
              T* out = dscores.data<T>() + row * rows.n;
              const Index used = filled ? rows.n : kept->length(row);
              kernels::kernels<T>().softmax.backward(out, dy.data<T>() + row * rows.n, saved + row * rows.n, T(1), true,
                                                     1, used);
              std::fill(out + used, out + rows.n, T(0));
              if (filled) kept->exclude(out, row, T(0));
            }
          });
        });
        if (dx.wants(1)) dx.add(1, sum_to(dscores, mask_shape).cast(mask_dtype));
        if (dx.wants(0)) dx.add(0, std::move(dscores));
      },
      [kept, masked_value](const Tensor& dy, TensorGradients& dx) {
        const Tensor allowed(kept->allowed()), zero = scalar_like(dy, 0);
        Tensor x = dx.input(0);
        if (const Tensor& added = dx.input(1); added.defined()) {
          const Tensor none =
              compare(Compare::equal, added, scalar_like(added, -std::numeric_limits<double>::infinity()));
          x = add(x, cast(where(none, scalar_like(added, 0), added), x.dtype()));
        }
        const Tensor p = masked_softmax(x, {}, allowed, masked_value);
        // What flows into a weight of 0 may come from a value that nobody may read.
        const Tensor arriving = where(compare(Compare::equal, p, zero), zero, dy);
        const Tensor dscores = where(allowed, softmax_gradient(p, arriving), zero);
        if (dx.wants(1)) dx.add(1, cast(sum_to(dscores, dx.shape(1)), dx.input(1).dtype()));
        dx.add(0, dscores);
      });
}

}  // namespace qkv::ops
