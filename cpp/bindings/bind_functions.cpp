// Elementwise functions, selection and joining at the top level.
#include "bindings/bindings.h"
#include "bindings/convert.h"
#include "ops/ops.h"

namespace qkv::bindings {

void bind_functions(py::module_& m) {
  using ops::Unary;
  const auto unary = [&](const char* name, Unary op) {
    m.def(name, [name, op](py::handle x) {
      Call call(name);
      return call.result(ops::unary(op, call.floating(x, "x")));
    });
  };
  unary("exp", Unary::exponential);
  unary("log", Unary::logarithm);
  unary("sqrt", Unary::square_root);
  unary("sin", Unary::sine);
  unary("cos", Unary::cosine);
  unary("abs", Unary::absolute);

  m.def("clip", [](py::handle x, std::optional<double> low, std::optional<double> high) {
    Call call("clip");
    return call.result(ops::clip(call.floating(x, "x"), low, high));
  });
  m.def("logsumexp", [](py::handle x, py::handle axis, bool keepdims) {
    Call call("logsumexp");
    return call.result(ops::logsumexp(call.floating(x, "x"), axes_from(axis, "logsumexp"), keepdims));
  });
  m.def("where", [](py::handle condition, py::handle a, py::handle b) {
    Call call("where");
    const Tensor c = call.any(condition, "condition"), p = call.floating(a, "a"), q = call.floating(b, "b");
    return call.result(ops::where(c, p, q));
  });
  m.def("matmul", [](py::handle a, py::handle b) {
    Call call("matmul");
    const Tensor p = call.floating(a, "a"), q = call.floating(b, "b");
    return call.result(without_gil([&] { return ops::matmul(p, q); }));
  });
  const auto join = [&](const char* name, Tensor (*f)(const Tensors&, Index)) {
    m.def(name, [name, f](const py::sequence& tensors, Index axis) {
      Call call(name);
      Tensors parts;
      for (const py::object part : tensors) parts.push_back(call.any(part, "tensors"));
      return call.result(f(parts, axis));
    });
  };
  join("concatenate", ops::concatenate);
  join("stack", ops::stack);
}

}  // namespace qkv::bindings
