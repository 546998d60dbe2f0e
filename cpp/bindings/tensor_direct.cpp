// What the core answers itself of the class derived from Tensor: functions number by number, matrix products, and
// filled ones, each with the name that the class shows of it.
#include <algorithm>
#include <array>
#include <numbers>
#include <stdexcept>

#include "bindings/direct_call.h"
#include "ops/ops.h"

namespace qkv::bindings::direct {
namespace {

using ops::Binary;
using ops::Unary;

template <Unary op> Tensor of_one(const Tensor& x) { return ops::unary(op, x); }

Tensor reciprocal(const Tensor& x) { return ops::divide(ops::scalar_like(x, 1), x); }
Tensor square(const Tensor& x) { return ops::multiply(x, x); }
Tensor reciprocal_root(const Tensor& x) { return reciprocal(ops::unary(Unary::square_root, x)); }
template <int base> Tensor logarithm(const Tensor& x) {
  return ops::divide(ops::unary(Unary::logarithm, x),
                     ops::scalar_like(x, base == 2 ? std::numbers::ln2 : std::numbers::ln10));
}
Tensor gelu(const Tensor& x) { return ops::gelu(x, false); }
// In place it is left to Python.
Tensor silu(const Tensor& x, bool in_place) { return in_place ? Tensor() : ops::silu(x); }
Tensor leaky_relu(const Tensor& x, std::optional<double> slope, bool in_place) {
  return in_place ? Tensor() : ops::leaky_relu(x, slope.value_or(0.01));
}

// A new Tensor of these sizes.
template <int value> PyObject* filled(const Given& given, const Entry&) {
  IndexList sizes;
  if (given.count == 0 || given.names != nullptr || !read_numbers(given, 0, sizes)) return nullptr;
  double numbers = 1;
  for (const Index size : sizes) {
    if (size < 0) return nullptr;
    numbers *= static_cast<double>(size);
  }
  return result(without_gil(static_cast<Index>(std::min(numbers, 1e18)), [&] {
    return Tensor(Array::full(Shape(sizes.begin(), sizes.end()), default_dtype(), value));
  }));
}

PyObject* clone(const Given& given, const Entry& entry) {
  const Tensor x = given.by_position(1) ? tensor_of(given.values[0]) : Tensor();
  if (!x.defined()) return nullptr;
  return view_of(given.values[0], without_gil(x.numel(), [&] { return ops::copy(x); }), entry.label);
}

PyObject* product(const Given& given, const Entry&) {
  if (!given.by_position(2)) return nullptr;
  const Tensor x = floating_of(given.values[0]), y = tensor_of(given.values[1]);
  if (!x.defined() || !y.defined() || x.dtype() != y.dtype()) return nullptr;
  const Index a = x.rank(), b = y.rank();
  const char* label = a == 1 && b == 1   ? "DotBackward0"
                      : a == 2 && b == 1 ? "MvBackward0"
                      : a == 2 && b == 2 ? "MmBackward0"
                      : a == 1 || b == 1 ? "SqueezeBackward4"
                                         : "UnsafeViewBackward0";
  return result(without_gil([&] { return ops::matmul(x, y); }), label);
}

// Of two Tensors with so many axes, of equal batches.
template <Index first, Index second> PyObject* product_of(const Given& given, const Entry& entry) {
  if (!given.by_position(2)) return nullptr;
  const Tensor x = floating_of(given.values[0]), y = tensor_of(given.values[1]);
  if (!x.defined() || !y.defined() || x.dtype() != y.dtype() || x.rank() != first || y.rank() != second ||
      (first == 3 && x.dim(0) != y.dim(0)))
    return nullptr;
  return result(without_gil([&] { return ops::matmul(x, y); }), entry.label);
}

// (x, weight, bias=None) of matrices, of one dtype.
PyObject* linear(const Given& given, const Entry&) {
  if (given.names != nullptr || given.count < 2 || given.count > 3) return nullptr;
  const Tensor x = floating_of(given.values[0]), weight = tensor_of(given.values[1]);
  const bool plain = given.count == 2 || given.values[2] == Py_None;
  const Tensor bias = plain ? Tensor() : tensor_of(given.values[2]);
  if (!x.defined() || !weight.defined() || x.rank() < 2 || weight.rank() != 2 || x.dtype() != weight.dtype() ||
      (!plain && (!bias.defined() || bias.dtype() != x.dtype())))
    return nullptr;
  const char* label =
      x.rank() > 2 ? (plain ? "UnsafeViewBackward0" : "ViewBackward0") : (plain ? "MmBackward0" : "AddmmBackward0");
  return result(without_gil([&] { return ops::linear(x, weight, bias); }), label);
}

// Bounds in another order, or none, are left to Python.
Tensor clamped(const Tensor& x, std::optional<double> low, std::optional<double> high) {
  if ((!low && !high) || (low && high && !(*low <= *high))) throw std::invalid_argument("clamp");
  return ops::clip(x, low, high);
}

}  // namespace

std::span<const Entry> number_entries() {
  static constexpr Entry all[] = {
      {"exp", computed<of_one<Unary::exponential>>, "ExpBackward0"},
      {"log", computed<of_one<Unary::logarithm>>, "LogBackward0"},
      {"log2", computed<logarithm<2>>, "Log2Backward0"},
      {"log10", computed<logarithm<10>>, "Log10Backward0"},
      {"square", computed<square>, "PowBackward0"},
      {"reciprocal", computed<reciprocal>, "ReciprocalBackward0"},
      {"rsqrt", computed<reciprocal_root>, "RsqrtBackward0"},
      {"gelu", computed<gelu>, "GeluBackward0"},
      {"silu", computed<silu, bool>, "SiluBackward0", nullptr, {{{"inplace"}}}},
      {"leaky_relu",
       computed<leaky_relu, std::optional<double>, bool>,
       "LeakyReluBackward0",
       nullptr,
       {{{"negative_slope"}, {"inplace"}}}},
      {"exp2", computed<ops::exp2>, "Exp2Backward0"},
      {"sqrt", computed<of_one<Unary::square_root>>, "SqrtBackward0"},
      {"sin", computed<of_one<Unary::sine>>, "SinBackward0"},
      {"cos", computed<of_one<Unary::cosine>>, "CosBackward0"},
      {"erf", computed<of_one<Unary::error_function>>, "ErfBackward0"},
      {"neg", computed<of_one<Unary::negate>>, "NegBackward0"},
      {"abs", computed<of_one<Unary::absolute>>, "AbsBackward0"},
      {"tanh", computed<ops::tanh>, "TanhBackward0"},
      {"sigmoid", computed<ops::sigmoid>, "SigmoidBackward0"},
      {"relu", computed<ops::relu>, "ReluBackward0"},
      {"clone", clone, "CloneBackward0"},
      {"matmul __matmul__", product},
      {"mm", product_of<2, 2>, "MmBackward0"},
      {"bmm", product_of<3, 3>, "BmmBackward0"},
      {"mv", product_of<2, 1>, "MvBackward0"},
      {"dot", product_of<1, 1>, "DotBackward0"},
      {"linear", linear},
      {"zeros", filled<0>},
      {"ones", filled<1>},
      {"clamp clip",
       computed<clamped, std::optional<double>, std::optional<double>>,
       "ClampBackward1",
       nullptr,
       {{{"min"}, {"max"}}}},
  };
  return all;
}

}  // namespace qkv::bindings::direct
