// Numbers with broadcasting: + - * / ** // %, comparisons, functions of one number.
#include <cmath>
#include <numbers>

#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/integers.h"
#include "ops/ops.h"
#include "ops/runs.h"

namespace qkv::ops {
namespace {

const char* name_of(Binary op) {
  switch (op) {
    case Binary::add:
      return "add";
    case Binary::subtract:
      return "subtract";
    case Binary::multiply:
    case Binary::gradient_times:
      return "multiply";
    case Binary::divide:
    case Binary::gradient_over:
      return "divide";
    case Binary::power:
      return "power";
    case Binary::maximum:
      return "maximum";
    case Binary::minimum:
      return "minimum";
    case Binary::floor_divide:
      return "floor_divide";
    case Binary::remainder:
      return "remainder";
  }
  return "binary";
}

template <class T> Array compute(Binary op, const Array& a, const Array& b, const Shape& shape) {
  Array y(shape, dtype_v<T>);
  for_each_run<T, T, T>(y, a, b, [op](T* out, const T* p, Index sp, const T* q, Index sq, Index n) {
    kernels::kernels<T>().elementwise.binary(op, out, p, sp, q, sq, n);
  });
  return y;
}

Array compute(Binary op, const Array& a, const Array& b) {
  const Shape shape = broadcast_or_fail(name_of(op), a.shape(), b.shape());
  return visit_floating(a.dtype(), [&](auto tag) { return compute<decltype(tag)>(op, a, b, shape); });
}

Array negated(const Array& x) { return compute(Binary::multiply, x, Array::full({}, x.dtype(), -1.0)); }

}  // namespace

Tensor floating(const Tensor& x) { return is_floating(x.dtype()) ? x : cast(x, DType::float32); }

DType promoted(std::initializer_list<std::reference_wrapper<const Tensor>> inputs) {
  for (const Tensor& t : inputs)
    if (t.defined() && t.dtype() == DType::float64) return DType::float64;
  return DType::float32;
}

Tensor scalar_like(const Tensor& x, double value) {
  return Tensor(Array::full({}, is_floating(x.dtype()) ? x.dtype() : DType::float32, value));
}

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Array y = x.data().cast(dtype);
  if (!is_floating(dtype) || !wants_gradient({x})) return Tensor(std::move(y));
  return record(
      std::move(y), {x}, [from = x.dtype()](const Array& dy, Gradients& dx) { dx.add(0, dy.cast(from)); },
      [from = x.dtype()](const Tensor& dy, TensorGradients& dx) { dx.add(0, cast(dy, from)); });
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Axes axes;
  const Index extra = x.rank() - shape.rank();
  for (Index axis = 0; axis < x.rank(); ++axis)
    if (axis < extra || (shape.dim(axis - extra) == 1 && x.dim(axis) != 1)) axes.push_back(axis);
  return reshape(sum(x, axes), shape);
}

Array sum_to(const Array& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const NoGrad quiet;
  return sum_to(Tensor(x), shape).data();
}

namespace {

// The derivations of the operations below.
void derive_product(const Tensor& dy, TensorGradients& dx) {
  if (dx.wants(0)) dx.add(0, sum_to(multiply(dy, dx.input(1)), dx.shape(0)));
  if (dx.wants(1)) dx.add(1, sum_to(multiply(dy, dx.input(0)), dx.shape(1)));
}

void derive_quotient(const Tensor& dy, TensorGradients& dx) {
  const Tensor quotient = divide(dy, dx.input(1));
  if (dx.wants(0)) dx.add(0, sum_to(quotient, dx.shape(0)));
  if (!dx.wants(1)) return;
  const Tensor slope = divide(dx.input(0), dx.input(1));
  dx.add(1, sum_to(unary(Unary::negate, multiply(quotient, slope)), dx.shape(1)));
}

void derive_power(const Tensor& dy, TensorGradients& dx) {
  const Tensor &p = dx.input(0), &q = dx.input(1);
  const Tensor zero = scalar_like(p, 0), one = scalar_like(p, 1);
  if (dx.wants(0)) {  // q p^(q-1), and 0 for q = 0, where p^0 stands for p^-1
    const Tensor less = subtract(where(compare(Compare::equal, q, zero), one, q), one);
    dx.add(0, sum_to(multiply(dy, multiply(q, binary(Binary::power, p, less))), dx.shape(0)));
  }
  if (dx.wants(1)) {  // p^q log p, and 0 where p = 0
    const Tensor logarithm = unary(Unary::logarithm, where(compare(Compare::equal, p, zero), one, p));
    dx.add(1, sum_to(multiply(dy, multiply(binary(Binary::power, p, q), logarithm)), dx.shape(1)));
  }
}

// Of the maximum and, with Compare::less, the minimum: who wins gets the gradient, equal numbers share it.
void derive_extreme(Compare wins, const Tensor& dy, TensorGradients& dx) {
  const Tensor equal = scaled(indicator(compare(Compare::equal, dx.input(0), dx.input(1)), dy.dtype()), 0.5);
  for (Index i = 0; i < 2; ++i) {
    if (!dx.wants(i)) continue;
    const Tensor alone = indicator(compare(wins, dx.input(i), dx.input(1 - i)), dy.dtype());
    dx.add(i, sum_to(multiply(dy, add(alone, equal)), dx.shape(i)));
  }
}

void derive_unary(Unary op, const Tensor& dy, TensorGradients& dx) {
  const Tensor& x = dx.input(0);
  const auto slope = [&]() -> Tensor {
    switch (op) {
      case Unary::negate:
        return scalar_like(x, -1);
      case Unary::absolute: {
        const Tensor zero = scalar_like(x, 0);
        return subtract(indicator(compare(Compare::greater, x, zero), x.dtype()),
                        indicator(compare(Compare::less, x, zero), x.dtype()));
      }
      case Unary::exponential:
        return unary(Unary::exponential, x);
      case Unary::logarithm:
        return divide(scalar_like(x, 1), x);
      case Unary::square_root:
        return divide(scalar_like(x, 0.5), unary(Unary::square_root, x));
      case Unary::sine:
        return unary(Unary::cosine, x);
      case Unary::cosine:
        return unary(Unary::negate, unary(Unary::sine, x));
      case Unary::error_function:
        return scaled(unary(Unary::exponential, unary(Unary::negate, multiply(x, x))), 2 * std::numbers::inv_sqrtpi);
    }
    return {};
  };
  dx.add(0, multiply(dy, slope()));
}

}  // namespace

std::span<const UnaryFunction> unary_functions() {
  static constexpr UnaryFunction all[] = {{"exp", Unary::exponential},  {"log", Unary::logarithm},
                                          {"sqrt", Unary::square_root}, {"sin", Unary::sine},
                                          {"cos", Unary::cosine},       {"erf", Unary::error_function}};
  return all;
}

// Whether an exponent is the number 2, and nothing that a gradient is wanted of.
bool is_two(const Tensor& exponent) {
  if (exponent.rank() != 0 || wants_gradient({exponent})) return false;
  return visit_floating(exponent.dtype(), [&](auto tag) { return *exponent.ptr<decltype(tag)>() == 2; });
}

Tensor binary(Binary op, const Tensor& left, const Tensor& right) {
  if (!is_floating(left.dtype()) && !is_floating(right.dtype()))
    return Tensor(
        integer_binary(op, left.data(), right.data(), broadcast_or_fail(name_of(op), left.shape(), right.shape())));
  const DType dtype = promoted({left, right});
  Tensor a = cast(left, dtype), b = cast(right, dtype);
  if (op == Binary::power && is_two(b)) return binary(Binary::multiply, a, a);  // forty times as fast
  Array y = compute(op, a.data(), b.data());
  if (!wants_gradient({a, b})) return Tensor(std::move(y));
  if (op != Binary::add && op != Binary::subtract) {
    a = owned(std::move(a));
    b = owned(std::move(b));
  }
  switch (op) {
    case Binary::add:
    case Binary::subtract:
      return record(
          std::move(y), {a, b},
          [op, sa = a.shape(), sb = b.shape()](const Array& dy, Gradients& dx) {
            if (dx.wants(0)) dx.add(0, sum_to(dy, sa));
            if (dx.wants(1)) dx.add(1, sum_to(op == Binary::add ? dy : negated(dy), sb));
          },
          [op](const Tensor& dy, TensorGradients& dx) {
            if (dx.wants(0)) dx.add(0, sum_to(dy, dx.shape(0)));
            if (dx.wants(1)) dx.add(1, sum_to(op == Binary::add ? dy : unary(Unary::negate, dy), dx.shape(1)));
          });
    case Binary::multiply:
      return record(
          std::move(y), {a, b},
          [p = Saved(a), q = Saved(b)](const Array& dy, Gradients& dx) {
            if (dx.wants(0)) dx.add(0, sum_to(compute(Binary::gradient_times, dy, q.get()), p.get().shape()));
            if (dx.wants(1)) dx.add(1, sum_to(compute(Binary::gradient_times, dy, p.get()), q.get().shape()));
          },
          derive_product);
    case Binary::divide:
      return record(
          std::move(y), {a, b},
          [p = Saved(a), q = Saved(b)](const Array& dy, Gradients& dx) {
            const Array quotient = compute(Binary::gradient_over, dy, q.get());
            if (dx.wants(0)) dx.add(0, sum_to(quotient, p.get().shape()));
            if (!dx.wants(1)) return;
            const Array slope = compute(Binary::divide, p.get(), q.get());
            dx.add(1, sum_to(negated(compute(Binary::gradient_times, quotient, slope)), q.get().shape()));
          },
          derive_quotient);
    case Binary::power:
      return record(
          Array(y), {a, b},
          [p = Saved(a), q = Saved(b), y = Saved(y)](const Array& dy, Gradients& dx) {
            if (dx.wants(0)) {  // q p^(q-1), and 0 for q = 0
              const Array one = Array::full({}, dy.dtype(), 1.0);
              const Array power = compute(Binary::power, p.get(), compute(Binary::subtract, q.get(), one));
              Array slope = compute(Binary::multiply, q.get(), power);
              const NoGrad quiet;
              const Tensor zero(Array::full({}, dy.dtype(), 0.0));
              slope = where(compare(Compare::equal, Tensor(q.get()), zero), zero, Tensor(slope)).data();
              dx.add(0, sum_to(compute(Binary::gradient_times, dy, slope), p.get().shape()));
            }
            if (dx.wants(1)) {  // y log p, and 0 where p = 0
              const NoGrad quiet;
              const Tensor base(p.get()), zero(Array::full({}, dy.dtype(), 0.0));
              const Tensor slope = where(compare(Compare::equal, base, zero), zero,
                                         multiply(Tensor(y.get()), unary(Unary::logarithm, base)));
              dx.add(1, sum_to(compute(Binary::gradient_times, dy, slope.data()), q.get().shape()));
            }
          },
          derive_power);
    case Binary::maximum:
    case Binary::minimum: {
      const Compare wins = op == Binary::maximum ? Compare::greater : Compare::less;
      return record(
          std::move(y), {a, b},
          [wins, p = Saved(a), q = Saved(b)](const Array& dy, Gradients& dx) {
            const NoGrad quiet;  // equal numbers share the gradient
            const Tensor first(p.get()), second(q.get()), zero(Array::full({}, dy.dtype(), 0.0));
            const Tensor half = multiply(Tensor(dy), Tensor(Array::full({}, dy.dtype(), 0.5)));
            const Tensor equal = compare(Compare::equal, first, second);
            const auto share = [&](const Tensor& mine, const Tensor& other) {
              return where(equal, half, where(compare(wins, mine, other), Tensor(dy), zero)).data();
            };
            if (dx.wants(0)) dx.add(0, sum_to(share(first, second), first.shape()));
            if (dx.wants(1)) dx.add(1, sum_to(share(second, first), second.shape()));
          },
          [wins](const Tensor& dy, TensorGradients& dx) { derive_extreme(wins, dy, dx); });
    }
    case Binary::floor_divide:  // constant but for jumps
      return record(
          std::move(y), {a, b},
          [](const Array&, Gradients& dx) {
            for (Index i = 0; i < 2; ++i)
              if (dx.wants(i)) dx.of(i);
          },
          [](const Tensor&, TensorGradients& dx) {
            for (Index i = 0; i < 2; ++i)
              if (dx.wants(i)) dx.add(i, Tensor(Array::zeros(dx.shape(i), dx.input(i).dtype())));
          });
    case Binary::remainder:  // a - b * floor(a / b)
      return record(
          std::move(y), {a, b},
          [p = Saved(a), q = Saved(b)](const Array& dy, Gradients& dx) {
            if (dx.wants(0)) dx.add(0, sum_to(dy, p.get().shape()));
            if (!dx.wants(1)) return;
            const Array quotient = negated(compute(Binary::floor_divide, p.get(), q.get()));
            dx.add(1, sum_to(compute(Binary::gradient_times, dy, quotient), q.get().shape()));
          },
          [](const Tensor& dy, TensorGradients& dx) {
            if (dx.wants(0)) dx.add(0, sum_to(dy, dx.shape(0)));
            if (!dx.wants(1)) return;
            const Tensor quotient = binary(Binary::floor_divide, dx.input(0), dx.input(1));
            dx.add(1, sum_to(unary(Unary::negate, multiply(dy, quotient)), dx.shape(1)));
          });
    case Binary::gradient_times:
    case Binary::gradient_over:
      break;  // of pull-backs alone
  }
  return Tensor(std::move(y));
}

Tensor unary(Unary op, const Tensor& input) {
  if (!is_floating(input.dtype()) && (op == Unary::negate || op == Unary::absolute))
    return Tensor(integer_unary(op, input.data()));
  const Tensor x = floating(input);
  Array y(x.shape(), x.dtype());
  visit_floating(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    parallel_for(0, x.numel(), grain_for(4), [&](Index begin, Index end) {
      kernels::kernels<T>().elementwise.unary(op, y.data<T>() + begin, x.ptr<T>() + begin, end - begin);
    });
  });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(
      Array(y), {x},
      [op, x = Saved(x), y = Saved(y)](const Array& dy, Gradients& dx) {
        visit_floating(dy.dtype(), [&](auto tag) {
          using T = decltype(tag);
          const Array slope = dx.fresh(0);
          T* out = slope.data<T>();
          const T *py = y.data<T>(), *px = x.data<T>();
          parallel_for(0, dy.numel(), grain_for(4), [&](Index b, Index e) {
            kernels::kernels<T>().elementwise.unary_backward(op, out + b, dy.data<T>() + b, py + b, px + b, e - b);
          });
          dx.add(0, slope);
        });
      },
      [op](const Tensor& dy, TensorGradients& dx) { derive_unary(op, dy, dx); });
}

Tensor compare(Compare op, const Tensor& left, const Tensor& right) {
  const Shape shape = broadcast_or_fail("compare", left.shape(), right.shape());
  const bool whole = !is_floating(left.dtype()), other_whole = !is_floating(right.dtype());
  if (whole && other_whole) return Tensor(integer_compare(op, left.data(), right.data(), shape));
  const DType dtype =
      whole || other_whole ? DType::float64 : promoted({left, right});  // integers beside floats as in NumPy
  const Array a = left.data().cast(dtype), b = right.data().cast(dtype);
  Array y(shape, DType::boolean);
  visit_floating(dtype, [&](auto tag) {
    using T = decltype(tag);
    for_each_run<bool, T, T>(y, a, b, [op](bool* out, const T* p, Index sp, const T* q, Index sq, Index n) {
      kernels::kernels<T>().elementwise.compare(op, out, p, sp, q, sq, n);
    });
  });
  return Tensor(std::move(y));
}

}  // namespace qkv::ops
