// Changes of a Tensor in place: +=, t[index] = value, copy_.
//
// Without a history the numbers are overwritten, and their version rises. With one the Tensor becomes the result of the
// change, a new place in the graph: the nodes before it hold the history and the numbers that the Tensor had.
#include "bindings/interpreter.h"
#include "bindings/tensor_class.h"
#include "nn/parameter.h"
#include "ops/ops.h"

namespace qkv::bindings {

using ops::Binary;
using Impl = std::shared_ptr<TensorImpl>;

void become(TensorImpl& t, const TensorImpl& result) {
  const Alone alone;  // no computation reads what changes
  t.data = result.data;
  t.node = result.node;
  t.output = result.output;
  t.requires_grad = result.requires_grad;
  t.lacks_history = result.lacks_history;
  t.grad.set({});
}

Tensor replaced(const Tensor& t, const py::tuple& items, const Tensor& value) {
  const py::module_ numpy = py::module_::import("numpy");
  const py::object places = numpy.attr("arange")(t.numel()).attr("reshape")(shape_tuple(t.shape()))[items];
  const Shape shape = Call("Tensor").any(places, "index").shape();
  Shape least = value.shape();  // leading axes of size 1 may be too many, as in NumPy
  while (least.rank() > shape.rank() && least.front() == 1) least.erase(least.begin());
  const Tensor values = ops::broadcast_to(ops::reshape(value, least), shape);
  py::object source = numpy.attr("full")(t.numel(), -1);  // which of the values stands at each place
  source[numpy.attr("ravel")(places)] = numpy.attr("arange")(values.numel());
  Call call("Tensor");
  const Tensor from = call.any(source.attr("reshape")(shape_tuple(t.shape())), "index");
  const Tensor zero(Array::full({}, DType::int64, 0));
  if (values.numel() == 0) return ops::reshape(t, t.shape());
  const Tensor chosen = ops::take_flat(values, ops::binary(Binary::maximum, from, zero).data(), t.shape());
  return ops::where(ops::compare(ops::Compare::less, from, zero), t, chosen);
}

namespace {

bool records(const Tensor& t) { return grad_enabled() && t.requires_grad(); }

// Booleans < integers < floats: a change in place keeps the dtype, so it may not need a higher kind.
int kind(DType dtype) { return dtype == DType::boolean ? 0 : dtype == DType::int64 ? 1 : 2; }

void check_leaf(const char* operation, const TensorImpl& impl) {
  if (impl.node == nullptr && impl.requires_grad && grad_enabled())
    throw std::runtime_error(
        text(operation,
             ": a leaf that requires a gradient must be changed under qkv.no_grad() because the graph needs "
             "its numbers; got a Tensor ",
             impl.data.shape(), " with gradients on"));
}

// What looks like a view in NumPy must not take a change that the other Tensor would not see. (`t[index] += u` is fine:
// its last step is t[index] = value.)
void check_whole(const char* operation, const TensorImpl& impl) {
  if (impl.excerpt)
    throw std::runtime_error(
        text(operation,
             ": t[index][other] = value and t.T[index] = value would change a copy only; write t[index, other] "
             "= value, or keep the copy by qkv.tensor(t[index])"));
}

void check_not_parameter(const TensorImpl& impl) {
  if (dynamic_cast<const ParameterImpl*>(&impl) != nullptr)
    throw std::runtime_error(
        "Tensor: a Parameter must be changed under qkv.no_grad() because it can not be the result of an operation");
}

void write(TensorImpl& impl, const Array& numbers) {
  std::memmove(impl.data.raw(), numbers.raw(), static_cast<std::size_t>(numbers.bytes()));
  impl.data.buffer()->raise_version();
}

template <class Compute>
py::object change(const char* operation, const py::object& self, const std::optional<Tensor>& o, Compute computed) {
  const Impl impl = self.cast<Impl>();
  const Tensor t(impl);
  if (!o) return py::reinterpret_borrow<py::object>(Py_NotImplemented);
  const auto compute = [&] { return without_gil(work_of(t, *o), [&] { return computed(t, *o); }); };
  check_leaf(operation, *impl);
  const Tensor result = compute();
  if (result.shape() != t.shape())
    fail_value(operation, ": other must broadcast to the Tensor's shape ", t.shape(),
               " because it is changed in place; got other ", o->shape());
  if (kind(result.dtype()) > kind(t.dtype()))
    fail_type(operation, ": the result must be ", t.dtype(), " because the Tensor is changed in place; got ",
              result.dtype());
  if (result.requires_grad()) {
    check_not_parameter(*impl);
    become(*impl, *ops::cast(result, t.dtype()).impl());
    return self;
  }
  without_gil(t.numel(), [&] { write(*impl, result.data().cast(t.dtype())); });
  impl->lacks_history = impl->lacks_history || result.impl()->lacks_history;
  return self;
}

// value in the Tensor's dtype, with its history.
Tensor value_for(const Tensor& t, py::handle value) {
  const auto given = operand("Tensor", t, value);
  if (!given)
    fail_type("Tensor: value must be a number or an array; got ",
              std::string(py::str(py::type::handle_of(value).attr("__name__"))));
  // Integers may mean booleans, as in NumPy; what would be cut off or rounded away may not be written.
  if (kind(given->dtype()) > std::max(kind(t.dtype()), 1))
    fail_type("Tensor: value must hold ", t.dtype(), " because the Tensor is changed in place; got ", given->dtype());
  return ops::cast(*given, t.dtype());
}

void set_item(const py::object& self, const py::object& index, py::handle given) {
  const Impl impl = self.cast<Impl>();
  const Tensor t(impl);
  const py::tuple items = selection_from(index).items;
  check_leaf("Tensor", *impl);
  check_whole("Tensor", *impl);
  const Tensor value = value_for(t, given);
  if (impl->node == nullptr && !records(value)) {
    py::object view = to_numpy(impl->data, true, false);
    view[items] = to_numpy(value.data(), false);
    impl->data.buffer()->raise_version();
    impl->lacks_history = impl->lacks_history || (grad_enabled() && value.impl()->lacks_history);
    return;
  }
  check_not_parameter(*impl);
  become(*impl, *replaced(t, items, value).impl());
}

// Writes into the memory that everybody who holds this Tensor sees.
void copy_into(TensorImpl& impl, py::handle values) {
  Call call("copy_");
  const Tensor source = call.any(values, "values");
  Shape shape;
  if (!broadcast(source.shape(), impl.data.shape(), shape) || shape != impl.data.shape())
    fail_value("copy_: values must broadcast to the Tensor's shape ", impl.data.shape(), "; got values ",
               source.shape());
  check_whole("copy_", impl);
  if (impl.node != nullptr)
    throw std::runtime_error(
        "copy_: the Tensor must be a leaf because others are computed, not stored; got a computed Tensor");
  without_gil(impl.data.numel(), [&] {
    const NoGrad quiet;
    write(impl, ops::broadcast_to(Tensor(source.data().cast(impl.data.dtype())), impl.data.shape()).data());
  });
}

}  // namespace

void def_in_place(TensorClass& tensor) {
  const auto arithmetic = [&](const char* method, const char* operation, Binary op) {
    tensor.def(method, [operation, op](const py::object& self, py::handle other) {
      const auto o = operand(operation, self.cast<Tensor>(), other);
      return change(operation, self, o, [op](const Tensor& a, const Tensor& b) { return ops::binary(op, a, b); });
    });
  };
  arithmetic("__iadd__", "add", Binary::add);
  arithmetic("__isub__", "subtract", Binary::subtract);
  arithmetic("__imul__", "multiply", Binary::multiply);
  arithmetic("__itruediv__", "divide", Binary::divide);
  arithmetic("__ipow__", "power", Binary::power);
  arithmetic("__ifloordiv__", "floor_divide", Binary::floor_divide);
  arithmetic("__imod__", "remainder", Binary::remainder);
  const auto bits = [&](const char* method, const char* operation, ops::Bitwise op) {
    tensor.def(method, [operation, op](const py::object& self, py::handle other) {
      const auto o = bits_operand(self.cast<Tensor>(), other);
      return change(operation, self, o, [op](const Tensor& a, const Tensor& b) { return ops::bitwise(op, a, b); });
    });
  };
  bits("__iand__", "bitwise_and", ops::Bitwise::conjunction);
  bits("__ior__", "bitwise_or", ops::Bitwise::disjunction);
  bits("__ixor__", "bitwise_xor", ops::Bitwise::exclusive);
  tensor.def("__setitem__", set_item)
      .def(
          "copy_",
          [](const py::object& self, py::handle values) {
            copy_into(self.cast<TensorImpl&>(), values);
            return self;
          },
          py::arg("values"), "Overwrite the numbers in place; raises the version.");
}

}  // namespace qkv::bindings
