// Changes of a Tensor in place: +=, t[index] = value, copy_. What they mean is autograd/in_place.h's.
#include "autograd/in_place.h"
#include "autograd/views.h"
#include "bindings/interpreter.h"
#include "bindings/tensor_class.h"
#include "nn/parameter.h"
#include "ops/ops.h"

namespace qkv::bindings {

using ops::Binary;
using Impl = std::shared_ptr<TensorImpl>;

void set_in_place(const char* operation, const Tensor& t, const Tensor& result) {
  if (!result.requires_grad()) return without_gil(t.numel(), [&] { change(operation, t, result); });
  for (const TensorImpl* impl : {t.impl().get(), t.impl()->base.get()})
    if (dynamic_cast<const ParameterImpl*>(impl) != nullptr)
      fail_runtime(
          "Tensor: a Parameter must be changed under qkv.no_grad() because it can not be the result of an operation");
  const ExclusiveAccess alone;  // no computation reads what changes
  change(operation, t, result);
}

Tensor replaced(const Tensor& t, const py::tuple& items, const Tensor& value) {
  const Array at = places_of(t.shape(), items);
  Shape least = value.shape();  // leading axes of size 1 may be too many, as in NumPy
  while (least.rank() > at.rank() && least.front() == 1) least.erase(least.begin());
  const Index count = at.numel();
  const Tensor values = ops::reshape(ops::broadcast_to(ops::reshape(value, least), at.shape()), {count});
  const Tensor all = ops::reshape(t, {t.numel()});
  return ops::reshape(ops::scatter({"Tensor", "index"}, all, at.reshaped({count}), values, 0, false), t.shape());
}

Tensor replacement(const Tensor& t, const Tensor& value) {
  const Tensor whole = ops::broadcast_to(value, t.shape());
  if (!wants_gradient({t, value})) return whole;
  return record(cloned(whole.data()), {t, whole}, [](const Tensor& dy, TensorGradients& dx) {
    dx.add(0, [&] { return Tensor(Array::zeros(dy.shape(), dy.dtype())); });
    dx.add(1, dy);
  });
}

namespace {

// Booleans < integers < floats: a change in place keeps the dtype, so it may not need a higher kind.
int kind(DType dtype) { return dtype == DType::boolean ? 0 : dtype == DType::int64 ? 1 : 2; }

template <class Compute>
py::object updated(const char* operation, const py::object& self, const std::optional<Tensor>& o, Compute computed) {
  const Tensor t = self.cast<Tensor>();
  if (!o) return py::reinterpret_borrow<py::object>(Py_NotImplemented);
  check_changeable(operation, t);
  const Tensor result = without_gil(work_of(t, *o), [&] {
    const Tensor y = computed(before_change(t, t), before_change(t, *o));
    if (y.shape() != t.shape())
      fail_value(operation, ": other must broadcast to the Tensor's shape ", t.shape(),
                 " because it is changed in place; got other ", o->shape());
    if (kind(y.dtype()) > kind(t.dtype()))
      fail_type(operation, ": the result must be ", t.dtype(), " because the Tensor is changed in place; got ",
                y.dtype());
    return ops::cast(y, t.dtype());
  });
  set_in_place(operation, t, result);
  return self;
}

// value in the Tensor's dtype, with its history.
Tensor value_for(const Tensor& t, py::handle value) {
  const auto given = operand("Tensor", t, value);
  if (!given) fail_type("Tensor: value must be a number or an array; got ", type_name(value));
  // Integers may mean booleans, as in NumPy; what would be cut off or rounded away may not be written.
  if (kind(given->dtype()) > std::max(kind(t.dtype()), 1))
    fail_type("Tensor: value must hold ", t.dtype(), " because the Tensor is changed in place; got ", given->dtype());
  return ops::cast(*given, t.dtype());
}

Tensor placed(const char* operation, const char* name, const Tensor& part, Tensor value) {
  while (value.rank() > part.rank() && value.dim(0) == 1)  // leading axes of size 1 may be too many, as in NumPy
    value = ops::reshape(value, Shape(value.shape().begin() + 1, value.shape().end()));
  Shape shape;
  if (!broadcast(value.shape(), part.shape(), shape) || shape != part.shape())
    fail_value(operation, ": ", name, " must broadcast to the Tensor's shape ", part.shape(), "; got ", name, " ",
               value.shape());
  return replacement(part, value);
}

// Writes into the memory that everybody who holds this Tensor sees.
void copy_into(const Tensor& t, py::handle values) {
  Call call("copy_");
  const Tensor source = call.any(values, "values");
  const GradMode mode(grad_enabled() && !(t.is_leaf() && t.requires_grad()));  // a parameter is given other numbers
  check_changeable("copy_", t);
  set_in_place("copy_", t, without_gil(t.numel(), [&] {
                 return placed("copy_", "values", before_change(t, t), ops::cast(before_change(t, source), t.dtype()));
               }));
}

}  // namespace

void set_item(const Tensor& t, const py::object& index, py::handle given) {
  check_changeable("Tensor", t);
  const Tensor value = value_for(t, given);
  if (const auto part = part_of(t, index)) {
    set_in_place("Tensor", *part, placed("Tensor", "value", before_change(*part, *part), before_change(t, value)));
    return;
  }
  const py::tuple items = selection_from(index).items;
  if (wants_gradient({t, value})) {
    set_in_place("Tensor", t, replaced(before_change(t, t), items, before_change(t, value)));
    return;
  }
  check_not_overlapping("Tensor", t);
  py::object view = to_numpy(t.data(), true, false);
  view[items] = to_numpy(value.data(), false);
  t.data().buffer()->raise_version();
}

void def_in_place(TensorClass& tensor) {
  const auto define = [&](const char* method, auto op, auto other_of, auto compute) {
    tensor.def(method, [=](const py::object& self, py::handle other) {
      return updated(ops::name_of(op), self, other_of(self.cast<Tensor>(), other),
                     [=](const Tensor& a, const Tensor& b) { return compute(op, a, b); });
    });
  };
  const auto arithmetic = [&](const char* method, Binary op) {
    define(
        method, op, [op](const Tensor& t, py::handle other) { return operand(ops::name_of(op), t, other); },
        ops::binary);
  };
  arithmetic("__iadd__", Binary::add);
  arithmetic("__isub__", Binary::subtract);
  arithmetic("__imul__", Binary::multiply);
  arithmetic("__itruediv__", Binary::divide);
  arithmetic("__ipow__", Binary::power);
  arithmetic("__ifloordiv__", Binary::floor_divide);
  arithmetic("__imod__", Binary::remainder);
  define("__iand__", ops::Bitwise::bit_and, bits_operand, ops::bitwise);
  define("__ior__", ops::Bitwise::bit_or, bits_operand, ops::bitwise);
  define("__ixor__", ops::Bitwise::bit_xor, bits_operand, ops::bitwise);
  tensor
      .def("__setitem__",
           [](const Impl& t, const py::object& index, py::handle given) { set_item(Tensor(t), index, given); })
      .def("copy_(values)", "Overwrite the numbers in place; raises the version.",
           [](const py::object& self, py::handle values) {
             copy_into(self.cast<Tensor>(), values);
             return self;
           });
}

}  // namespace qkv::bindings
