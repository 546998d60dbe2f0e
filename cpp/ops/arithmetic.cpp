// Numbers with broadcasting: + - * / ** // %, comparisons, functions of one number.
#include <cmath>
#include <numbers>

#include "autograd/saving.h"
#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/integers.h"
#include "ops/ops.h"
#include "ops/runs.h"

namespace qkv::ops {
namespace {

template <class T> Array compute(Binary op, const Array& a, const Array& b, const Shape& shape) {
  Array y(shape, dtype_v<T>);
  for_each_run<T, T, T>(y, a, b, [op](T* out, const T* p, Index sp, const T* q, Index sq, Index n) {
    kernels::kernels<T>().elementwise.binary(op, out, p, sp, q, sq, n);
  });
  return y;
}

Array compute(Binary op, const Array& a, const Array& b) {
  const Shape shape = broadcast_or_fail(name_of(op), a.shape(), b.shape());
  return visit_floating(a.dtype(), [&]<class T>(T) { return compute<T>(op, a, b, shape); });
}

}  // namespace

const char* name_of(Binary op) {
  constexpr const char* names[] = {"add",     "subtract",     "multiply",  "divide", "power",    "maximum",
                                   "minimum", "floor_divide", "remainder", "fmod",   "multiply", "divide"};
  return names[static_cast<std::size_t>(op)];
}

Tensor floating(const Tensor& x) { return is_floating(x.dtype()) ? packed(x) : cast(x, DType::float32); }

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
  Array y = packed(x.data()).cast(dtype);
  if (!is_floating(dtype) || !wants_gradient({x})) return Tensor(std::move(y));
  return record(std::move(y), {x}, [](const Tensor& dy, TensorGradients& dx) { dx.add(0, cast(dy, dx.dtype(0))); });
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

// A product of gradients, 0 where either is, even if the other one is NaN.
Tensor of_both(const Tensor& dy, const Tensor& d) {
  const Tensor zero = scalar_like(d, 0);
  return where(compare(Compare::equal, d, zero), zero, times(dy, d));
}

// f''(x): where x has none, 0.
Tensor second_derivative(Unary op, const Tensor& x) {
  if (op == Unary::sine) return negative(unary(Unary::sine, x));
  if (op == Unary::cosine) return negative(unary(Unary::cosine, x));
  if (op == Unary::error_function)
    return multiply(scaled(x, -4 * std::numbers::inv_sqrtpi), unary(Unary::exponential, negative(multiply(x, x))));
  return scalar_like(x, 0);
}

// dy f'(x).
Tensor unary_backward(Unary op, const Tensor& given, const Tensor& x) {
  const Tensor dy = packed(given);
  Array result(x.shape(), x.dtype());
  visit_floating(x.dtype(), [&]<class T>(T) {
    parallel_for(0, x.numel(), grain_for(4), [&](Index b, Index e) {
      kernels::kernels<T>().elementwise.unary_backward(op, result.data<T>() + b, dy.ptr<T>() + b, x.ptr<T>() + b,
                                                       e - b);
    });
  });
  if (!wants_gradient({dy, x})) return Tensor(std::move(result));
  return record(std::move(result), {dy, x}, [op, dy = Saved(dy), x = Saved(x)](const Tensor& d, TensorGradients& dx) {
    dx.add(0, [&] { return unary_backward(op, d, x.tensor()); });
    dx.add(1, [&] { return times(of_both(dy.tensor(), d), second_derivative(op, x.tensor())); });
  });
}

}  // namespace

std::span<const UnaryFunction> unary_functions() {
  static constexpr UnaryFunction all[] = {{"exp", Unary::exponential},      {"expm1", Unary::exponential_less_one},
                                          {"log", Unary::logarithm},        {"log1p", Unary::logarithm_of_one_more},
                                          {"log2", Unary::logarithm_2},     {"log10", Unary::logarithm_10},
                                          {"sqrt", Unary::square_root},     {"sin", Unary::sine},
                                          {"cos", Unary::cosine},           {"tan", Unary::tangent},
                                          {"sinh", Unary::hyperbolic_sine}, {"cosh", Unary::hyperbolic_cosine},
                                          {"erf", Unary::error_function},   {"floor", Unary::floor},
                                          {"ceil", Unary::ceiling},         {"trunc", Unary::truncation},
                                          {"round", Unary::rounding}};
  return all;
}

// Whether an exponent is the number 2, and nothing that a gradient is wanted of.
bool is_two(const Tensor& exponent) {
  if (exponent.rank() != 0 || wants_gradient({exponent})) return false;
  return visit_floating(exponent.dtype(), [&]<class T>(T) { return *exponent.ptr<T>() == 2; });
}

// What y = a op b passes on to its operands.
static void binary_rule(Binary op, const Tensor& dy, const Tensor& a, const Tensor& b, const Saved& y,
                        TensorGradients& dx) {
  const auto to = [&](Index input, auto gradient) {
    dx.add(input, [&] { return sum_to(gradient(), dx.shape(input)); });
  };
  switch (op) {
    case Binary::divide:
    case Binary::gradient_over: {
      const Tensor quotient = over(dy, b);
      to(0, [&] { return quotient; });
      to(1, [&] {
        return negative(op == Binary::divide ? times(quotient, divide(a, b)) : over(of_both(a, quotient), b));
      });
      return;
    }
    case Binary::gradient_times:  // a is the gradient: where it is 0, so is all that follows
      to(0, [&] { return times(dy, b); });
      to(1, [&] { return of_both(a, dy); });
      return;
    case Binary::power: {
      const Tensor zero = scalar_like(a, 0);
      const auto but_at_zero = [&](const Tensor& x, const Tensor& derivative) {
        return times(dy, where(compare(Compare::equal, x, zero), zero, derivative));
      };
      to(0, [&] { return but_at_zero(b, multiply(b, binary(Binary::power, a, subtract(b, scalar_like(a, 1))))); });
      to(1, [&] { return but_at_zero(a, multiply(dx.output(y), unary(Unary::logarithm, a))); });
      return;
    }
    case Binary::maximum:
    case Binary::minimum: {  // equal numbers share the gradient
      const Compare wins = op == Binary::maximum ? Compare::greater : Compare::less;
      const Tensor zero = scalar_like(a, 0), half = scaled(dy, 0.5), equal = compare(Compare::equal, a, b);
      to(0, [&] { return where(equal, half, where(compare(wins, a, b), dy, zero)); });
      to(1, [&] { return where(equal, half, where(compare(wins, b, a), dy, zero)); });
      return;
    }
    case Binary::floor_divide:  // constant except for jumps
      for (Index input = 0; input < 2; ++input)
        dx.add(input, [&] { return Tensor(Array::zeros(dx.shape(input), dx.dtype(input))); });
      return;
    case Binary::remainder:  // a - b * floor(a / b)
      to(0, [&] { return dy; });
      to(1, [&] { return times(dy, negative(binary(Binary::floor_divide, a, b))); });
      return;
    case Binary::fmod:  // a - b * n, n = (a - fmod) / b
      to(0, [&] { return dy; });
      to(1, [&] { return times(dy, divide(subtract(dx.output(y), a), b)); });
      return;
    case Binary::add:
    case Binary::subtract:
    case Binary::multiply:
      return;  // recorded by themselves
  }
}

Tensor binary(Binary op, const Tensor& left, const Tensor& right) {
  if (!is_floating(left.dtype()) && !is_floating(right.dtype()))
    return Tensor(integer_binary(op, packed(left.data()), packed(right.data()),
                                 broadcast_or_fail(name_of(op), left.shape(), right.shape())));
  const DType dtype = promoted({left, right});
  Tensor a = cast(left, dtype), b = cast(right, dtype);
  if (op == Binary::power && is_two(b)) return binary(Binary::multiply, a, a);  // forty times as fast
  Array y = compute(op, a.data(), b.data());
  if (!wants_gradient({a, b})) return Tensor(std::move(y));
  if (op == Binary::add || op == Binary::subtract)
    return record(std::move(y), {a, b}, [op](const Tensor& dy, TensorGradients& dx) {
      dx.add(0, [&] { return sum_to(dy, dx.shape(0)); });
      dx.add(1, [&] { return sum_to(op == Binary::add ? dy : negative(dy), dx.shape(1)); });
    });
  if (op == Binary::multiply && a.impl() == b.impl())  // a square
    return record(std::move(y), {a}, [x = Saved(a)](const Tensor& dy, TensorGradients& dx) {
      dx.add(0, scaled(times(dy, x.tensor()), 2));
    });
  if (op == Binary::multiply)
    return record(std::move(y), {a, b},
                  [p = saved_for(b, a), q = saved_for(a, b)](const Tensor& dy, TensorGradients& dx) {
                    dx.add(0, [&] { return sum_to(times(dy, q.tensor()), dx.shape(0)); });
                    dx.add(1, [&] { return sum_to(times(dy, p.tensor()), dx.shape(1)); });
                  });
  const bool of_left = op == Binary::power || op == Binary::maximum || op == Binary::minimum;
  const Saved p = of_left ? Saved(a) : saved_for(b, a);
  const Saved result = op == Binary::power || op == Binary::fmod ? saved_for(b, Tensor(y)) : Saved();
  return record(std::move(y), {a, b}, [op, p, q = Saved(b), result](const Tensor& dy, TensorGradients& dx) {
    binary_rule(op, dy, p.tensor(), q.tensor(), result, dx);
  });
}

// y, whose derivative is this function of x.
static Tensor times_function(Unary derivative, Array y, const Tensor& x) {
  return record(std::move(y), {x}, [derivative, x = Saved(x)](const Tensor& dy, TensorGradients& dx) {
    dx.add(0, times(dy, unary(derivative, x.tensor())));
  });
}

Tensor unary(Unary op, const Tensor& input) {
  if (!is_floating(input.dtype()) && (op == Unary::negate || op == Unary::absolute))
    return Tensor(integer_unary(op, packed(input.data())));
  const Tensor x = floating(input);
  Array y(x.shape(), x.dtype());
  visit_floating(x.dtype(), [&]<class T>(T) {
    parallel_for(0, x.numel(), grain_for(4), [&](Index begin, Index end) {
      kernels::kernels<T>().elementwise.unary(op, y.data<T>() + begin, x.ptr<T>() + begin, end - begin);
    });
  });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  // Each saves only what its derivative is of.
  switch (op) {
    case Unary::negate:
      return record(std::move(y), {x}, [](const Tensor& dy, TensorGradients& dx) { dx.add(0, negative(dy)); });
    case Unary::exponential:
      return record(Array(y), {x},
                    [y = Saved(y)](const Tensor& dy, TensorGradients& dx) { dx.add(0, times(dy, dx.output(y))); });
    case Unary::square_root:
      return record(Array(y), {x}, [y = Saved(y)](const Tensor& dy, TensorGradients& dx) {
        dx.add(0, over(dy, scaled(dx.output(y), 2)));
      });
    case Unary::logarithm:
      return record(std::move(y), {x},
                    [x = Saved(x)](const Tensor& dy, TensorGradients& dx) { dx.add(0, over(dy, x.tensor())); });
    case Unary::logarithm_2:
    case Unary::logarithm_10:
      return record(std::move(y), {x}, [op, x = Saved(x)](const Tensor& dy, TensorGradients& dx) {
        dx.add(0, over(dy, scaled(x.tensor(), op == Unary::logarithm_2 ? std::numbers::ln2 : std::numbers::ln10)));
      });
    case Unary::tangent:
      return record(Array(y), {x}, [y = Saved(y)](const Tensor& dy, TensorGradients& dx) {
        const Tensor t = dx.output(y);
        dx.add(0, times(dy, add(multiply(t, t), scalar_like(t, 1))));
      });
    case Unary::exponential_less_one:
      return times_function(Unary::exponential, std::move(y), x);
    case Unary::hyperbolic_sine:
      return times_function(Unary::hyperbolic_cosine, std::move(y), x);
    case Unary::hyperbolic_cosine:
      return times_function(Unary::hyperbolic_sine, std::move(y), x);
    case Unary::logarithm_of_one_more:
      return record(std::move(y), {x}, [x = Saved(x)](const Tensor& dy, TensorGradients& dx) {
        dx.add(0, over(dy, add(x.tensor(), scalar_like(dy, 1))));
      });
    case Unary::floor:  // constant except for jumps
    case Unary::ceiling:
    case Unary::truncation:
    case Unary::rounding:
      return record(std::move(y), {x}, [](const Tensor&, TensorGradients& dx) {
        dx.add(0, Tensor(Array::zeros(dx.shape(0), dx.dtype(0))));
      });
    case Unary::absolute:
    case Unary::sine:
    case Unary::cosine:
    case Unary::error_function:
      break;
  }
  return record(std::move(y), {x}, [op, x = Saved(x)](const Tensor& dy, TensorGradients& dx) {
    dx.add(0, unary_backward(op, dy, x.tensor()));
  });
}

Tensor compare(Compare op, const Tensor& left, const Tensor& right) {
  const Shape shape = broadcast_or_fail("compare", left.shape(), right.shape());
  const bool whole = !is_floating(left.dtype()), other_whole = !is_floating(right.dtype());
  if (whole && other_whole) return Tensor(integer_compare(op, packed(left.data()), packed(right.data()), shape));
  const DType dtype =
      whole || other_whole ? DType::float64 : promoted({left, right});  // integers beside floats as in NumPy
  const NoGrad quiet;
  const Tensor a = cast(left, dtype), b = cast(right, dtype);
  Array y(shape, DType::boolean);
  visit_floating(dtype, [&]<class T>(T) {
    for_each_run<bool, T, T>(y, a.data(), b.data(),
                             [op](bool* out, const T* p, Index sp, const T* q, Index sq, Index n) {
                               kernels::kernels<T>().elementwise.compare(op, out, p, sp, q, sq, n);
                             });
  });
  return Tensor(std::move(y));
}

}  // namespace qkv::ops
