// Softmax, its logarithm, its Jacobian, and softmax over allowed entries.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/in_range.h"
#include "core/parallel.h"
#include "core/strides.h"
#include "kernels/kernels.h"
#include "ops/lengths.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

// An axis of an array: `outer` times n numbers, each `inner` numbers behind the one before.
struct Along {
  Index outer, n, inner;
  Along(const Shape& shape, Index axis)
      : outer(shape.product(0, axis)), n(shape.dim(axis)), inner(shape.product(axis + 1, shape.rank())) {}
};

void check_temperature(const char* operation, double temperature, DType dtype) {
  if (!(temperature > 0))
    fail_value(operation, ": temperature must be above 0 because x is divided by it; got temperature = ", temperature);
  if (dtype == DType::float32 && !std::isfinite(static_cast<float>(1 / temperature)))
    fail_value(
        operation,
        ": temperature must be at least 3e-39 because x is divided by it in float32; got temperature = ", temperature);
}

// In parallel: rows(count, begin) for rows of n numbers where these lie next to each other, else columns(width, begin).
template <class Rows, class Columns> void for_each_line(const Along& a, Rows rows, Columns columns) {
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

// p (dy - sum of p dy): the gradient of a softmax p over an axis.
Tensor softmax_gradient(const Tensor& p, const Tensor& dy, Index axis) {
  return multiply(p, subtract(dy, sum(multiply(p, dy), Axes{axis}, true)));
}

Tensor normalised(const char* operation, bool logarithm, const Tensor& input, Index axis, double temperature) {
  const Tensor x = floating(input);
  check_temperature(operation, temperature, x.dtype());
  axis = checked_axis(operation, axis, x.rank());
  Array y(x.shape(), x.dtype());
  const Along along(x.shape(), axis);
  visit_floating(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const auto& kernel = kernels::kernels<T>().softmax;
    const T scale = static_cast<T>(1 / temperature), *from = x.ptr<T>();
    T* to = y.data<T>();
    for_each_line(
        along,
        [&](Index rows, Index at) {
          if (logarithm) kernel.log_forward(to + at, from + at, scale, rows, along.n);
          else kernel.forward(to + at, from + at, scale, false, rows, along.n, along.n);
        },
        [&](Index width, Index at) {
          const auto columns = logarithm ? kernel.log_forward_columns : kernel.forward_columns;
          columns(to + at, from + at, scale, along.inner, along.n, width);
        });
  });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record_fused(
      Array(y), {x},
      [y = Saved(y), logarithm, temperature, along](const Array& dy, Gradients& dx) {
        visit_floating(dy.dtype(), [&](auto tag) {
          using T = decltype(tag);
          const auto& kernel = kernels::kernels<T>().softmax;
          const Array slope = dx.fresh(0);
          const T scale = static_cast<T>(1 / temperature), *saved = y.data<T>(), *from = dy.data<T>();
          T* to = slope.data<T>();
          for_each_line(
              along,
              [&](Index rows, Index at) {
                if (logarithm) kernel.log_backward(to + at, from + at, saved + at, scale, rows, along.n);
                else kernel.backward(to + at, from + at, saved + at, scale, false, rows, along.n);
              },
              [&](Index width, Index at) {
                const auto columns = logarithm ? kernel.log_backward_columns : kernel.backward_columns;
                columns(to + at, from + at, saved + at, scale, along.inner, along.n, width);
              });
          dx.add(0, slope);
        });
      },
      [logarithm, axis, temperature](const Tensor& dy, TensorGradients& dx) {
        const Tensor p = softmax(dx.input(0), axis, temperature);
        const Tensor slope =
            logarithm ? subtract(dy, multiply(p, sum(dy, Axes{axis}, true))) : softmax_gradient(p, dy, axis);
        dx.add(0, scaled(slope, 1 / temperature));
      });
}

}  // namespace

Tensor softmax(const Tensor& x, Index axis, double temperature) {
  return normalised("softmax", false, x, axis, temperature);
}

Tensor log_softmax(const Tensor& x, Index axis, double temperature) {
  return normalised("log_softmax", true, x, axis, temperature);
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

void check_mask_dtype(const char* operation, const char* name, DType dtype) {
  if (dtype == DType::int64)
    fail_type(operation, ": ", name,
              " must be boolean (True = may attend) or floating (added to the scores); got dtype ", dtype);
}

namespace {

// Which entries of scores ([B, [H,]] Lq, Lk) are excluded by lengths and a mask.
class Exclusions {
 public:
  Exclusions(const Tensor& scores, const Array& valid_lens, const Tensor& mask, SoftmaxCaller caller)
      : caller_(caller), shape_(scores.shape()) {
    const Index rank = shape_.rank();
    if (rank < 2 || rank > 4)
      fail_value(caller_.operation, ": scores must be (Lq, Lk), (B, Lq, Lk) or (B, H, Lq, Lk); got scores ", shape_);
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
  const char* operation() const { return caller_.operation; }
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
      fail_type(caller_.operation, ": ", caller_.valid_lens, " must be integers because they count keys; got ",
                lens.dtype());
    check_lengths(caller_.operation, lens, one, each, keys(), {.lengths = caller_.valid_lens});
    per_query_ = lens.shape() != one;
    rows_per_batch_ = rank == 4 ? shape_.dim(1) * queries_ : queries_;
    lengths_ = lens;
  }

  void take_mask(const Tensor& mask, DType dtype) {
    check_mask_dtype(caller_.operation, caller_.mask, mask.dtype());
    Shape common;
    if (!broadcast(mask.shape(), shape_, common) || common != shape_)
      fail_value(caller_.operation, ": ", caller_.mask, " must broadcast to the scores' shape ", shape_, "; got ",
                 caller_.mask, " ", mask.shape());
    mask_ = packed(mask.data());
    if (mask.dtype() != DType::boolean) mask_ = mask_.cast(dtype);
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

  SoftmaxCaller caller_;
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
  const T fill = masked_value ? in_range<T>(excluded.operation(), "masked_value", *masked_value)
                              : -std::numeric_limits<T>::infinity();
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
                      std::optional<double> masked_value, SoftmaxCaller caller) {
  const Tensor scores = floating(input);
  Exclusions excluded(scores, valid_lens, mask, caller);
  Array y(scores.shape(), scores.dtype());
  const Along rows(y.shape(), y.rank() - 1);
  visit_floating(scores.dtype(), [&](auto tag) {
    using T = decltype(tag);
    parallel_for(0, rows.outer, grain_for(8 * rows.n), [&](Index begin, Index end) {
      masked_rows(y.data<T>(), scores.ptr<T>(), excluded, masked_value, begin, end);
    });
  });
  const Tensor bias = excluded.has_bias() ? mask : Tensor();
  if (!wants_gradient({scores, bias})) return Tensor(std::move(y));
  excluded.keep();
  const auto kept = std::make_shared<const Exclusions>(std::move(excluded));
  return record_fused(
      Array(y), {owned(scores), owned(bias)},
      [y = Saved(y), kept, rows, filled = masked_value.has_value(),
       mask_shape = bias.defined() ? bias.shape() : Shape{},
       mask_dtype = bias.defined() ? bias.dtype() : DType::float32](const Array& dy, Gradients& dx) {
        Array dscores(dy.shape(), dy.dtype());
        visit_floating(dy.dtype(), [&](auto tag) {
          using T = decltype(tag);
          const T* saved = y.data<T>();
          parallel_for(0, rows.outer, grain_for(8 * rows.n), [&](Index begin, Index end) {
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
        const Tensor dscores = where(allowed, softmax_gradient(p, arriving, -1), zero);
        if (dx.wants(1)) dx.add(1, cast(sum_to(dscores, dx.shape(1)), dx.input(1).dtype()));
        dx.add(0, dscores);
      });
}

}  // namespace qkv::ops
