// What the core answers itself of the class derived from Tensor: functions number by number, matrix products, and
// filled ones, each with the name that the class shows of it.
#include <algorithm>

#include "bindings/direct_call.h"
#include "bindings/promotion.h"
#include "ops/ops.h"

namespace qkv::bindings::direct {
namespace {

using ops::Unary;

template <Unary op> Tensor of_one(const Tensor& x) { return ops::unary(op, x); }

Tensor reciprocal(const Tensor& x) { return ops::divide(ops::scalar_like(x, 1), x); }
Tensor square(const Tensor& x) { return ops::multiply(x, x); }
Tensor reciprocal_root(const Tensor& x) { return reciprocal(ops::unary(Unary::square_root, x)); }
Tensor gelu(const Tensor& x) { return ops::gelu(x, false); }
// In place it is left to Python.
Tensor silu(const Tensor& x, bool in_place) { return in_place ? Tensor() : ops::silu(x); }
Tensor relu(const Tensor& x, bool in_place) { return in_place ? Tensor() : ops::relu(x); }
Tensor leaky_relu(const Tensor& x, std::optional<double> slope, bool in_place) {
  return in_place ? Tensor() : ops::leaky_relu(x, slope.value_or(0.01));
}

Tensor elu(const Tensor& x, std::optional<double> alpha, bool in_place) {
  return in_place ? Tensor() : ops::elu(x, alpha.value_or(1));
}
// x itself where beta x is above the threshold.
Tensor softplus(const Tensor& x, std::optional<double> beta, std::optional<double> threshold) {
  const double b = beta.value_or(1), limit = threshold.value_or(20);
  if (x.dtype() == DType::float32 && b > 0 && limit >= 20) return ops::softplus(x, b);  // it is x up to rounding there
  const Tensor scaled = ops::multiply(x, ops::scalar_like(x, b));
  return ops::where(ops::compare(ops::Compare::greater, scaled, ops::scalar_like(x, limit)), x, ops::softplus(x, b));
}
Tensor log_sigmoid(const Tensor& x) {
  return ops::unary(Unary::negate, ops::softplus(ops::unary(Unary::negate, x), 1));
}

// Of packed numbers, which stand in the order of the draws.
Tensor dropout(const Tensor& x, std::optional<double> p, std::optional<bool> training, bool in_place) {
  const double share = p.value_or(0.5);
  if (in_place || !training.value_or(true) || !x.data().is_packed() || !(share > 0 && share <= 1)) return {};
  return ops::dropout(x, share, default_generator());
}

// Without a number of classes the largest id is the last.
PyObject* one_hot(const Given&, const Operand& ids, std::optional<Index> classes) {
  if (ids.kind->height != 1) fail_runtime("one_hot: tensor must hold whole numbers; got ", ids.kind->text());
  if (classes.value_or(-1) == -1) classes.reset();
  const Array numbers = packed(ids.in(kind_of(DType::int64)).data());
  if (!classes && numbers.numel() == 0)
    fail_runtime("one_hot: num_classes must be given because the Tensor is empty; got -1");
  return result(Tensor(ops::one_hot(numbers, classes)));
}

// Pairs from the last axis backwards; negative ones cut off.
PyObject* padded(const Given& given, const Typed& own, py::handle widths, PyObject* mode, PyObject* value) {
  Tensor x = own.tensor;
  if (PyTuple_Check(widths.ptr()) == 0 && PyList_CheckExact(widths.ptr()) == 0) return nullptr;
  if (mode != nullptr && (PyUnicode_Check(mode) == 0 || PyUnicode_CompareWithASCIIString(mode, "constant") != 0))
    return nullptr;
  const Shape pairs = shape_from(widths, "", "");
  const Index count = pairs.rank() / 2, rank = x.rank();
  if (pairs.rank() % 2 != 0 || count > rank)
    fail_runtime("pad: pad must hold a pair for each of the last axes; got ", pairs.rank(), " numbers");
  double number = 0;  // as in PyTorch, also of whole ones
  const bool plain = value == nullptr || value == Py_None || read(value, number);
  const Tensor filling = plain ? Tensor(Array::full({}, x.dtype(), number)) : operand_of(value).in(*own.kind);
  Shape before, behind;
  for (Index axis = 0; axis < rank; ++axis) {
    const bool covered = rank - 1 - axis < count;
    const Index first = covered ? pairs.dim(2 * (rank - 1 - axis)) : 0, n = x.dim(axis),
                last = covered ? pairs.dim(2 * (rank - 1 - axis) + 1) : 0;
    before.push_back(std::max<Index>(first, 0));
    behind.push_back(std::max<Index>(last, 0));
    const Index begin = std::min(std::max<Index>(-first, 0), n);
    if (first < 0 || last < 0) x = ops::slice(x, axis, begin, std::max(begin, n - std::max<Index>(-last, 0)));
  }
  return result(without_gil(x.numel(), [&] { return ops::pad(x, before, behind, filling); }), given.entry.label,
                *own.kind);
}

// A new Tensor of these sizes.
template <int value> PyObject* filled(const Given& given) {
  IndexList sizes;
  if (given.count == 0 || given.names != nullptr || !read_numbers(given, 0, sizes)) return nullptr;
  double numbers = 1;
  for (const Index size : sizes) {
    if (size < 0) return nullptr;
    numbers *= static_cast<double>(size);
  }
  return result(without_gil(static_cast<Index>(std::min(numbers, 1e18)), [&] {
    return Tensor(Array::full(Shape(sizes.begin(), sizes.end()), default_dtype, value));
  }));
}

PyObject* clone(const Given& given, const Tensor& x) {
  return view_of(given.values[0], without_gil(x.numel(), [&] { return ops::copy(x); }), given.entry.label);
}

// Of operands of one dtype.
Operand product(const Operand& x, const Operand& y) {
  if (x.kind != y.kind)
    fail_runtime("expected both Tensors of a product to have the same dtype; got ", x.kind->text(), " and ",
                 y.kind->text());
  const Tensor z = without_gil([&] { return ops::matmul(x.tensor, y.tensor); });
  return {nullptr, z, x.kind->narrow() ? x.kind : &kind_of(z.dtype())};
}

PyObject* any_product(const Given&, const Typed& x, const Operand& y) {
  if (!y.tensor.defined()) return nullptr;
  const Index a = x.tensor.rank(), b = y.tensor.rank();
  const Operand z = product(x, y);
  return result(z.tensor,
                a == 1 && b == 1   ? "DotBackward0"
                : a == 2 && b == 1 ? "MvBackward0"
                : a == 2 && b == 2 ? "MmBackward0"
                : a == 1 || b == 1 ? "SqueezeBackward4"
                                   : "UnsafeViewBackward0",
                *z.kind);
}

// Of two Tensors with so many axes, of equal batches.
template <Index first, Index second> Operand product_of_axes(const char* name, const Operand& x, const Operand& y) {
  const Shape &a = x.tensor.shape(), &b = y.tensor.shape();
  if (a.rank() != first || b.rank() != second || (first == 3 && a.dim(0) != b.dim(0)))
    fail_runtime(name, ": input and other must have ", first, " and ", second, " axes and equal batches; got ", a,
                 " and ", b);
  return product(x, y);
}

template <Index first, Index second> PyObject* product_of(const Given& given, const Typed& x, const Typed& y) {
  const Operand z = product_of_axes<first, second>(given.entry.names, x, y);
  return result(z.tensor, given.entry.label, *z.kind);
}

// beta start + alpha x @ y
template <Index first, Index second>
PyObject* plus_product(const Given& given, const Typed& start, const Typed& x, const Typed& y, PyObject* beta,
                       PyObject* alpha) {
  const auto times = [](const Operand& t, PyObject* factor) {
    double number = 1;
    return factor == nullptr || (read(factor, number) && number == 1)
               ? t
               : compute(ops::Binary::multiply, t, operand_of(factor));
  };
  const Operand z = times(product_of_axes<first, second>(given.entry.names, x, y), alpha);
  const Operand sum = compute(ops::Binary::add, times(start, beta), z);
  return result(sum.tensor, given.entry.label, *sum.kind);
}

// Of matrices, of one dtype.
PyObject* linear(const Given&, const Floats& x, const Tensor& weight, PyObject* more) {
  const bool plain = more == nullptr || more == Py_None;
  const Tensor bias = plain ? Tensor() : tensor_of(more);
  if (x.rank() < 2 || weight.rank() != 2 || x.dtype() != weight.dtype() ||
      (!plain && (!bias.defined() || bias.dtype() != x.dtype())))
    return nullptr;
  const char* label =
      x.rank() > 2 ? (plain ? "UnsafeViewBackward0" : "ViewBackward0") : (plain ? "MmBackward0" : "AddmmBackward0");
  return result(without_gil([&] { return ops::linear(x, weight, bias); }), label);
}

// The mean of the losses, of equal shape and dtype.
template <Tensor (*loss)(const Tensor&, const Tensor&, ops::Reduction)>
Tensor mean_loss(const Tensor& x, const Tensor& y) {
  if (y.dtype() != x.dtype() || y.shape() != x.shape() || x.numel() == 0) return {};
  return loss(x, y, ops::Reduction::mean);
}

Tensor cross_entropy(const Tensor& logits, const Array& targets, Index ignored) {
  return ops::cross_entropy(logits, targets, {}, ignored, 0, ops::Reduction::mean);
}
Tensor nll_loss(const Tensor& log_probs, const Array& targets, Index ignored) {
  return ops::nll_loss(log_probs, targets, {}, ignored, ops::Reduction::mean);
}

// The same of rows and the numbers of their classes, of which some must count.
template <Tensor (*loss)(const Tensor&, const Array&, Index)>
Tensor mean_loss_of_classes(const Tensor& x, const Tensor& y) {
  constexpr Index kIgnored = -100;
  if (y.dtype() != DType::int64 || x.rank() != 2 || y.shape() != Shape{x.dim(0)}) return {};
  const Array targets = packed(y.data());
  const auto* first = targets.data<std::int64_t>();
  if (std::all_of(first, first + targets.numel(), [](std::int64_t id) { return id == kIgnored; })) return {};
  return loss(x, targets, kIgnored);
}

// Bounds in another order, or none, are left to Python.
Tensor clamped(const Tensor& x, std::optional<double> low, std::optional<double> high) {
  const bool legal = low && high ? *low <= *high : low || high;
  return legal ? ops::clip(x, low, high) : Tensor();
}

}  // namespace

std::span<const Entry> number_entries() {
  static constexpr Entry all[] = {
      {"exp", computed<of_one<Unary::exponential>>, "ExpBackward0"},
      {"expm1", computed<of_one<Unary::exponential_less_one>>, "Expm1Backward0"},
      {"log", computed<of_one<Unary::logarithm>>, "LogBackward0"},
      {"log1p", computed<of_one<Unary::logarithm_of_one_more>>, "Log1PBackward0"},
      {"log2", computed<of_one<Unary::logarithm_2>>, "Log2Backward0"},
      {"log10", computed<of_one<Unary::logarithm_10>>, "Log10Backward0"},
      {"square", computed<square>, "PowBackward0"},
      {"reciprocal", computed<reciprocal>, "ReciprocalBackward0"},
      {"rsqrt", computed<reciprocal_root>, "RsqrtBackward0"},
      {"gelu", computed<gelu>, "GeluBackward0"},
      {"silu", "inplace", computed<silu>, "SiluBackward0"},
      {"leaky_relu", "negative_slope, inplace", computed<leaky_relu>, "LeakyReluBackward0"},
      {"dropout", "p, training, inplace", computed<dropout>, "MulBackward0"},
      {"pad", "pad, mode, value", call<padded>, "ConstantPadNdBackward0"},
      {"one_hot", "num_classes", call<one_hot>},
      {"elu", "alpha, inplace", computed<elu>, "EluBackward0"},
      {"softplus", "beta, threshold", computed<softplus>, "SoftplusBackward0"},
      {"logsigmoid", computed<log_sigmoid>, "LogSigmoidBackward0"},
      {"exp2", computed<ops::exp2>, "Exp2Backward0"},
      {"sqrt", computed<of_one<Unary::square_root>>, "SqrtBackward0"},
      {"sin", computed<of_one<Unary::sine>>, "SinBackward0"},
      {"cos", computed<of_one<Unary::cosine>>, "CosBackward0"},
      {"tan", computed<of_one<Unary::tangent>>, "TanBackward0"},
      {"sinh", computed<of_one<Unary::hyperbolic_sine>>, "SinhBackward0"},
      {"cosh", computed<of_one<Unary::hyperbolic_cosine>>, "CoshBackward0"},
      {"erf", computed<of_one<Unary::error_function>>, "ErfBackward0"},
      {"floor", computed<of_one<Unary::floor>>, "FloorBackward0"},
      {"ceil", computed<of_one<Unary::ceiling>>, "CeilBackward0"},
      {"trunc", computed<of_one<Unary::truncation>>, "TruncBackward0"},
      {"round", computed<of_one<Unary::rounding>>, "RoundBackward0"},
      {"sign", computed<of_one<Unary::sign>>, "SignBackward0"},
      {"neg", computed<of_one<Unary::negate>>, "NegBackward0"},
      {"abs", computed<of_one<Unary::absolute>>, "AbsBackward0"},
      {"tanh", computed<ops::tanh>, "TanhBackward0"},
      {"sigmoid", computed<ops::sigmoid>, "SigmoidBackward0"},
      {"relu", "inplace", computed<relu>, "ReluBackward0"},
      {"clone", call<clone>, "CloneBackward0"},
      {"matmul __matmul__", call<any_product>},
      {"mm", call<product_of<2, 2>>, "MmBackward0"},
      {"bmm", call<product_of<3, 3>>, "BmmBackward0"},
      {"mv", call<product_of<2, 1>>, "MvBackward0"},
      {"dot", call<product_of<1, 1>>, "DotBackward0"},
      {"addmm", "a, b, beta, alpha", call<plus_product<2, 2>>, "AddmmBackward0"},
      {"baddbmm", "a, b, beta, alpha", call<plus_product<3, 3>>, "BaddbmmBackward0"},
      {"addmv", "a, b, beta, alpha", call<plus_product<2, 1>>, "AddmvBackward0"},
      {"mse_loss", computed<mean_loss<ops::mse>>, "MseLossBackward0"},
      {"l1_loss", computed<mean_loss<ops::l1>>, "MeanBackward0"},
      {"cross_entropy", computed<mean_loss_of_classes<cross_entropy>>, "NllLossBackward0"},
      {"nll_loss", computed<mean_loss_of_classes<nll_loss>>, "NllLossBackward0"},
      {"linear", call<linear>},
      {"zeros", filled<0>},
      {"ones", filled<1>},
      {"clamp clip", "min, max", computed<clamped>, "ClampBackward1"},
  };
  return all;
}

}  // namespace qkv::bindings::direct
