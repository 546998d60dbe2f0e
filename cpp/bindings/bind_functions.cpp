// Elementwise functions, selection and joining at the top level.
#include "bindings/bindings.h"
#include "bindings/options.h"
#include "bindings/tensor_class.h"
#include "ops/ops.h"

namespace qkv::bindings {
namespace {

bool holds_integers(py::handle value) { return is_tensor(value) && !is_floating(value.cast<Tensor>().dtype()); }

bool is_number(py::handle value) { return PyFloat_Check(value.ptr()) != 0 || PyLong_Check(value.ptr()) != 0; }

// Two sides of a choice: a Tensor of integers keeps them integers, and a number of Python's takes the other side's
// dtype.
std::pair<Tensor, Tensor> beside_each_other(Call& call, const char* operation, py::handle a, py::handle b) {
  const bool whole = holds_integers(a) || holds_integers(b);
  const auto side = [&](py::handle value, const char* name) {
    return whole ? call.any(value, name) : call.floating(value, name);
  };
  if (is_number(a) && !is_number(b)) {
    const Tensor q = side(b, "b");
    return {*operand(operation, q, a), q};
  }
  const Tensor p = side(a, "a");
  return {p, is_number(b) && !is_number(a) ? *operand(operation, p, b) : side(b, "b")};
}

Tensor clip_integers(const Tensor& input, const Tensor& low, const Tensor& high) {
  using ops::Compare;
  if (low.defined() && high.defined() && *low.ptr<std::int64_t>() > *high.ptr<std::int64_t>())
    fail_value("clip: low must not be above high; got low = ", *low.ptr<std::int64_t>(),
               ", high = ", *high.ptr<std::int64_t>());
  Tensor x = input;
  if (low.defined()) x = ops::where(ops::compare(Compare::less, x, low), low, x);
  if (high.defined()) x = ops::where(ops::compare(Compare::greater, x, high), high, x);
  return x;
}

}  // namespace

void bind_functions(Functions& m) {
  using ops::Unary;
  for (const auto& [name, op] : ops::unary_functions())
    m.def(text(name, "(x)"), [name = name, op = op](py::handle x) {
      Call call(name);
      const Tensor input = call.floating(x, "x");
      return call.result(without_gil(input.numel(), [&] { return ops::unary(op, input); }));
    });
  m.def("abs(x)", [](py::handle x) {
    Call call("abs");
    const Tensor input = holds_integers(x) ? call.any(x, "x") : call.floating(x, "x");
    return call.result(without_gil(input.numel(), [&] { return ops::unary(Unary::absolute, input); }));
  });

  m.def("clip(x, low, high)", [](py::handle x, py::handle low, py::handle high) {
    Call call("clip");
    const auto lowest = number_from(low, "clip", "low"), highest = number_from(high, "clip", "high");
    const Tensor input = holds_integers(x) ? call.any(x, "x") : call.floating(x, "x");
    const auto whole = [](py::handle bound) { return bound.is_none() || PyLong_Check(bound.ptr()) != 0; };
    if (!is_floating(input.dtype()) && whole(low) && whole(high)) {
      const auto bound = [&](py::handle number) {
        return number.is_none() ? Tensor() : *operand("clip", input, number);
      };
      return call.result(clip_integers(input, bound(low), bound(high)));
    }
    return call.result(without_gil(input.numel(), [&] { return ops::clip(input, lowest, highest); }));
  });
  m.def("logsumexp(x, axis, keepdims)", [](py::handle x, py::handle axis, bool keepdims) {
    Call call("logsumexp");
    const Tensor input = call.floating(x, "x");
    const auto axes = axes_from(axis, "logsumexp");
    return call.result(without_gil(input.numel(), [&] { return ops::logsumexp(input, axes, keepdims); }));
  });
  m.def("where(condition, a, b)", [](py::handle condition, py::handle a, py::handle b) {
    Call call("where");
    const Tensor c = call.any(condition, "condition");
    const auto [p, q] = beside_each_other(call, "where", a, b);
    const Index work = std::max(work_of(p, q), c.numel());
    return call.result(without_gil(work, [&, &p = p, &q = q] { return ops::where(c, p, q); }));
  });
  const auto of_two = [&](const char* name, ops::Binary op) {
    m.def(text(name, "(a, b)"), [name, op](py::handle a, py::handle b) {
      Call call(name);
      const auto [p, q] = beside_each_other(call, name, a, b);
      return call.result(without_gil(work_of(p, q), [&, &p = p, &q = q] { return ops::binary(op, p, q); }));
    });
  };
  of_two("maximum", ops::Binary::maximum);
  of_two("minimum", ops::Binary::minimum);
  // y = x @ weight^T + bias
  m.def("linear(x, weight, bias=None)", [](const Tensor& x, const Tensor& weight, py::handle bias) {
    Call call("linear");
    const Tensor b = call.optional(bias, "bias");
    return without_gil([&] { return ops::linear(x, weight, b); });
  });
  m.def("matmul(a, b)", [](py::handle a, py::handle b) {
    Call call("matmul");
    const Tensor p = call.any(a, "a"), q = call.any(b, "b");
    return call.result(without_gil([&] { return ops::matmul(p, q); }));
  });
  const auto join = [&](const char* name, Tensor (*f)(const Tensors&, Index)) {
    m.def(text(name, "(tensors, axis)"), [name, f](const py::sequence& tensors, Index axis) {
      Call call(name);
      Tensors parts;
      for (const py::object part : tensors) parts.push_back(call.any(part, "tensors"));
      Index work = 0;
      for (const Tensor& part : parts) work += part.numel();
      return call.result(without_gil(work, [&] { return f(parts, axis); }));
    });
  };
  join("concatenate", ops::concatenate);
  join("stack", ops::stack);
}

}  // namespace qkv::bindings
