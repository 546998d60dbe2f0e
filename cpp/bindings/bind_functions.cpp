// Elementwise functions, selection and joining at the top level.
#include "bindings/bindings.h"
#include "bindings/operation.h"
#include "bindings/tensor_class.h"
#include "ops/ops.h"
#include "ops/shaping.h"

namespace qkv::bindings {
namespace {

bool holds_integers(py::handle value) { return is_tensor(value) && !is_floating(value.cast<Tensor>().dtype()); }

bool is_number(py::handle value) { return PyFloat_Check(value.ptr()) != 0 || PyLong_Check(value.ptr()) != 0; }

// Numbers; of a Tensor's integers as they are.
Tensor whole_or_floating(Call& call, py::handle value, const char* name) {
  return holds_integers(value) ? call.any(value, name) : call.floating(value, name);
}
using WholeOrFloating = As<whole_or_floating>;

// Two sides of a choice: a Tensor of integers keeps them integers, and a number of Python's takes the other side's
// dtype.
std::pair<Tensor, Tensor> beside_each_other(Call& call, py::handle a, py::handle b) {
  const bool whole = holds_integers(a) || holds_integers(b);
  const auto side = [&](py::handle value, const char* name) {
    return whole ? call.any(value, name) : call.floating(value, name);
  };
  if (is_number(a) && !is_number(b)) {
    const Tensor q = side(b, "b");
    return {*operand(call.operation(), q, a), q};
  }
  const Tensor p = side(a, "a");
  return {p, is_number(b) && !is_number(a) ? *operand(call.operation(), p, b) : side(b, "b")};
}

void def_of_two(Functions& m, const char* name, ops::Binary operation) {
  op(m, text(name, "(a, b)"), [operation](py::handle a, py::handle b, Call& call) {
    const auto [p, q] = beside_each_other(call, a, b);
    return without_gil(work_of(p, q), [&, &p = p, &q = q] { return ops::binary(operation, p, q); });
  });
}

void def_joining(Functions& m, const char* name, Tensor (*join)(const Tensors&, Index)) {
  op(m, text(name, "(tensors, axis=0)"), [join](const py::sequence& tensors, Index axis, Call& call) {
    Tensors parts;
    Index work = 0;
    for (const py::object part : tensors) work += parts.emplace_back(call.any(part, "tensors")).numel();
    return without_gil(work, [&] { return join(parts, axis); });
  });
}

}  // namespace

void bind_functions(Functions& m) {
  for (const auto& [name, f] : ops::unary_functions())
    op(m, text(name, "(x)"), [f = f](const Tensor& x) { return ops::unary(f, x); });
  op(m, "safe_sqrt(x)", ops::safe_sqrt);
  op(m, "exp2(x)", [](const Tensor& x) { return ops::exp2(x); });
  op<WholeOrFloating>(m, "abs(x)", [](const Tensor& x) { return ops::unary(ops::Unary::absolute, x); });
  op<WholeOrFloating, py::handle, py::handle>(
      m, "clip(x, low, high)", [](const Tensor& x, py::handle low, py::handle high, Call& call) {
        const auto lowest = number_from(low, "clip", "low"), highest = number_from(high, "clip", "high");
        const auto whole = [](py::handle bound) { return bound.is_none() || PyLong_Check(bound.ptr()) != 0; };
        if (!is_floating(x.dtype()) && whole(low) && whole(high)) {
          const auto bound = [&](py::handle number) {
            return number.is_none() ? Tensor() : *operand(call.operation(), x, number);
          };
          return ops::clip(x, bound(low), bound(high));
        }
        return without_gil(x.numel(), [&] { return ops::clip(x, lowest, highest); });
      });
  op<Floating, Axes, bool>(m, "logsumexp(x, axis, keepdims)", ops::logsumexp);
  op<Any, py::handle, py::handle>(
      m, "where(condition, a, b)", [](const Tensor& condition, py::handle a, py::handle b, Call& call) {
        const auto [p, q] = beside_each_other(call, a, b);
        const Index work = std::max(work_of(p, q), condition.numel());
        return without_gil(work, [&, &p = p, &q = q] { return ops::where(condition, p, q); });
      });
  def_of_two(m, "maximum", ops::Binary::maximum);
  def_of_two(m, "minimum", ops::Binary::minimum);
  def_of_two(m, "fmod", ops::Binary::fmod);
  // y = x @ weight^T + bias
  op<Self, Self, FloatingOrNone>(
      m, "linear(x, weight, bias=None)",
      [](const Tensor& x, const Tensor& weight, const Tensor& bias) { return ops::linear(x, weight, bias); });
  op<Any, Any>(m, "matmul(a, b)", ops::matmul);
  op<Viewed, Axes>(m, "flip(t, axis=None)", ops::flip);
  op<Viewed, Sizes, Sizes>(m, "moveaxis(t, source, destination)", ops::moveaxis);
  def_joining(m, "concatenate", ops::concatenate);
  def_joining(m, "stack", ops::stack);
}

}  // namespace qkv::bindings
