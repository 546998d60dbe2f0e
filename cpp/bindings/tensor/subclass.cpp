// What a Python class derived from Tensor is built on: its own objects around a Tensor of the core, and changes in
// place beneath them, for any Tensor. Rules (leaves, gradients) are the class's.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "autograd/in_place.h"
#include "autograd/strided.h"
#include "bindings/bindings.h"
#include "bindings/call/warning.h"
#include "bindings/tensor/derived_class.h"
#include "bindings/tensor/promotion.h"
#include "bindings/tensor/tensor_class.h"
#include "ops/ops.h"
#include "ops/shaping.h"

namespace qkv::bindings {
namespace {

// The leaf holds the memory of `other` from now on. Its gradient stays if it still fits.
void set_data(const Tensor& t, const Tensor& other) {
  const bool fits = t.shape() == other.shape() && t.dtype() == other.dtype();
  if (!fits && !t.is_leaf())
    fail_runtime("set_data: data of a computed Tensor must keep its shape ", t.shape(), " and dtype; got ",
                 other.shape(), " of ", other.dtype());
  own_numbers(other);
  t.current();
  const ExclusiveAccess alone;
  TensorImpl& impl = *t.impl();
  if (impl.array.buffer() != other.data().buffer()) {  // it is no view any more
    impl.base.reset();
    impl.under_no_grad = false;
  }
  impl.set(other.data());
  if (!fits) impl.grad.set({});
}

// A leaf without gradient from now on.
void detach_in_place(const Tensor& t) {
  t.current();
  const ExclusiveAccess alone;
  TensorImpl& impl = *t.impl();
  impl.node.reset();
  impl.base.reset();
  impl.requires_grad = impl.lacks_history = false;
}

// What the results of a call with this argument are, by its `_result_class`; null: the core's.
py::object result_class(py::handle argument) {
  static const py::handle core = py::type::of<TensorImpl>().release();
  const py::handle type = py::type::handle_of(argument);
  return type.is(core) || !is_tensor(argument) ? py::object() : py::getattr(type, "_result_class", py::object());
}

py::object in_class(const py::type& cls, const py::object& result) {
  if (Py_TYPE(result.ptr()) == reinterpret_cast<PyTypeObject*>(py::type::of<TensorImpl>().ptr()))
    return py::reinterpret_steal<py::object>(
        derived::instance_of(reinterpret_cast<PyTypeObject*>(cls.ptr()), result.cast<Tensor>()));
  if (!py::isinstance<py::tuple>(result) && !py::isinstance<py::list>(result)) return result;
  py::list parts;
  for (const py::handle part : result) parts.append(in_class(cls, py::reinterpret_borrow<py::object>(part)));
  return with_parts(result, parts);
}

// Nodes keep the address, and may outlive the interpreter.
const char* kept(const std::string& label) {
  static auto* labels = new std::set<std::string>;
  return labels->insert(label).first->c_str();
}

const derived::Kind& kind_from(py::handle dtype) {
  const derived::Kind* kind = derived::kind_named(dtype.ptr());
  if (kind == nullptr) fail_type("expected a dtype such as torch.float32; got ", described(dtype));
  return *kind;
}

std::vector<derived::Operand> operands_from(const py::args& values) {
  std::vector<derived::Operand> all;
  for (const py::handle value : values) all.push_back(derived::operand_of(value.ptr()));
  return all;
}

// A view of the numbers of a packed Tensor, by steps from its first one; every number of it lies within, and none is
// there more often than in the memory.
Tensor windowed(const Tensor& memory, Index offset, py::handle sizes, py::handle steps) {
  const Shape shape = shape_from(sizes, "windowed", "shape"), strides = shape_from(steps, "windowed", "strides");
  const Index count = shape.numel(), all = memory.numel();
  bool fits = memory.data().is_packed() && shape.size() == strides.size() && offset >= 0 && offset < all && count > 0 &&
              count <= all;
  Index last = offset;
  for (std::size_t axis = 0; fits && axis < shape.size(); ++axis) {
    Index reach = 0;
    fits = strides[axis] >= 0 && !__builtin_mul_overflow(shape[axis] - 1, strides[axis], &reach) && reach < all - last;
    last += reach;
  }
  if (!fits)
    fail_value("windowed: offset, shape and strides must stay in a memory of ", all, " numbers; got ", offset, ", ",
               shape, ", ", strides);
  return Tensor(memory.data().view({shape, Strides(strides.begin(), strides.end()), offset}));
}

py::object object_of(const derived::Kind& kind) { return py::reinterpret_borrow<py::object>(kind.object); }

}  // namespace

py::object with_parts(const py::object& parts, const py::list& others) {
  return py::hasattr(parts, "_make") ? parts.attr("_make")(others) : py::type::of(parts)(others);
}

py::object in_class_of(const py::args& args, const py::kwargs& kwargs, py::object result) {
  py::object cls;
  for (const py::handle argument : args)
    if (!cls) cls = result_class(argument);
  for (const auto& [name, argument] : kwargs)
    if (!cls) cls = result_class(argument);
  return cls ? in_class(cls, result) : result;
}

void bind_subclass(Functions& m) {
  m.def("mark_parameter(t)", [](const Tensor& t) { t.impl()->is_parameter = true; });
  m.def("set_in_place(operation, t, result)", set_in_place);
  m.def("check_changeable(operation, t)", check_changeable);
  // None if x itself will do.
  m.def("before_change(t, x)", [](const Tensor& t, const Tensor& x) {
    Tensor before = before_change(t, x);
    return before.impl() == x.impl() ? std::optional<Tensor>() : before;
  });
  m.def("is_same(a, b)", [](const Tensor& a, const Tensor& b) { return a.impl() == b.impl(); });
  // Let a Tensor itself be the gradient, if it has the shape and dtype.
  m.def("share_grad(t, gradient)", [](const Tensor& t, const Tensor& gradient) {
    const bool fits = gradient.shape() == t.shape() && gradient.dtype() == t.dtype();
    if (fits) t.impl()->grad.share(gradient.impl());
    return fits;
  });
  m.def("detach_in_place(t)", detach_in_place);
  m.def("set_data(t, other)", set_data);
  m.def("expanded(t, shape)",
        [](const Tensor& t, py::handle shape) { return ops::expand(t, shape_from(shape, "expand", "shape")); });
  m.def("deep_copied(t, memo)", deep_copied);
  m.def("unfold(t, axis, size, step)", ops::unfold);
  m.def("windowed(memory, offset, shape, strides)", windowed);
  m.def("strides(t)", [](const Tensor& t) { return shape_tuple(t.data().strides()); });
  m.def("warn_caller(message)", warn_caller);
  m.def("is_packed(t)", [](const Tensor& t) { return t.data().is_packed(); });
  m.def("history_name(t)", [](const Tensor& t) -> std::optional<std::string> {
    const TensorImpl& now = t.current();
    if (now.node == nullptr || now.node->name == nullptr) return {};
    return now.node->name;
  });
  m.def("address(t)", [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.data().first()); });
  m.def("in_panels(t)", [](const Tensor& t) { return t.impl()->in_panels.load(); });
  m.def("fixed_address(t)", [](const Tensor& t) {
    t.data().buffer()->fix();
    return reinterpret_cast<std::uintptr_t>(t.data().first());
  });
  m.def("derived_class(cls)",
        [](const py::type& cls) { derived::tensor_class = reinterpret_cast<PyTypeObject*>(cls.inc_ref().ptr()); });
  m.def("set_derived_default(double_precision)",
        [](bool double_precision) { derived::default_dtype = double_precision ? DType::float64 : DType::float32; });
  m.def("instance_of(cls, t)", [](const py::type& cls, const Tensor& t) {
    auto* type = reinterpret_cast<PyTypeObject*>(cls.ptr());
    if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(py::type::of<TensorImpl>().ptr())) == 0)
      fail_type("instance_of: cls must be derived from Tensor; got ", std::string(py::str(cls.attr("__name__"))));
    return py::reinterpret_steal<py::object>(derived::instance_of(type, t));
  });
  m.def("set_derived_dtypes(dtypes)", [](const py::list& dtypes) {
    std::deque<derived::Kind>& all = derived::kinds();
    for (const py::handle one : dtypes) {
      const auto core = one.attr("core").cast<std::string>();
      const derived::Kind made{one.inc_ref().ptr(), core.empty() ? DType::float32 : dtype_from(one.attr("core"), ""),
                               one.attr("kind").cast<int>(), one.attr("itemsize").cast<int>(),
                               one.attr("is_signed").cast<bool>()};
      // Of a module that is imported again results have the new dtypes; Tensors may still have the old ones.
      const auto known = std::ranges::find(all, made.text(), &derived::Kind::text);
      all.push_back(known == all.end() ? made : std::exchange(*known, made));
    }
  });
  m.def("common_dtype(a, b)",
        [](py::handle a, py::handle b) { return object_of(derived::common(kind_from(a), kind_from(b))); });
  m.def("result_dtype",
        [](const py::args& operands) { return object_of(derived::result_kind(operands_from(operands))); });
  // Tensors of the core of both operands, and the dtype.
  m.def("promoted", [](const py::args& operands) {
    const auto all = operands_from(operands);
    const derived::Kind& kind = derived::result_kind(all);
    py::list found;
    for (const derived::Operand& one : all) found.append(py::cast(one.in(kind)));
    found.append(object_of(kind));
    return found;
  });
  // PyTorch's, which NumPy has in no such form.
  m.def("extreme(x, axis, keepdims, largest)", [](const Tensor& x, Index axis, bool keepdims, bool largest) {
    return without_gil(x.numel(), [&] { return ops::extreme(x, axis, keepdims, largest); });
  });
  m.def("gather(operation, x, index, axis)", [](const std::string& operation, const Tensor& x, const Tensor& index,
                                                Index axis) {
    const Array places = packed(index.data());
    return without_gil(places.numel(), [&] { return ops::gather({operation.c_str(), "index"}, x, places, axis); });
  });
  m.def("scatter(operation, x, index, values, axis, add, word='src')",
        [](const std::string& operation, const Tensor& x, const Tensor& index, const Tensor& values, Index axis,
           bool add, const std::string& word) {
          const Array places = packed(index.data());
          return without_gil(x.numel(), [&] {
            return ops::scatter({operation.c_str(), "index", false, word.c_str()}, x, places, values, axis, add);
          });
        });
  m.def("entries_along(index, x, axis)", [](const Tensor& index, const Tensor& x, Index axis) {
    return Tensor(cloned(ops::entries_along(packed(index.data()), x.shape(), axis)));
  });
  m.def("replacement(t, value)", replacement);
  // One number everywhere, also where several places are one in memory.
  m.def("fill(t, value)",
        [](const Tensor& t, const Tensor& value) { write(t.data(), ops::broadcast_to(value, t.shape()).data()); });
  // In the memory of the array, where that can be.
  m.def("shared(array)", [](const py::array& array) -> std::optional<Tensor> {
    if (!array.writeable()) return {};
    if (auto numbers = shared_with(array, Buffer::share)) return Tensor(*std::move(numbers));
    return {};
  });
  // What of numbers has no derivative: an error where one is asked for.
  m.def("without_derivative(operation, x, operands)",
        [](const std::string& operation, const Tensor& x, const Tensors& operands) {
          if (!wants_gradient(operands)) return x;
          return record(Array(x.data()), operands, [name = kept(operation)](const Tensor&, TensorGradients&) {
            fail_runtime("backward: ", name, " has no derivative; detach() its operands, or its result");
          });
        });
  // Numbers that do not change with the operands: their gradients are 0.
  m.def("constant_in(x, operands)", [](const Tensor& x, const Tensors& operands) {
    if (!wants_gradient(operands)) return x;
    return record(Array(x.data()), operands, [](const Tensor& dy, TensorGradients& dx) {
      for (Index i = 0; i < dx.count(); ++i) dx.add(i, Tensor(Array::zeros(dx.shape(i), dy.dtype())));
    });
  });
  // A Tensor, an array or a number as a Tensor of a dtype; itself if it is one.
  m.def("cast(value, dtype)", [](py::handle value, py::handle dtype) {
    const derived::Operand operand = derived::operand_of(value.ptr());
    const derived::Kind& kind = kind_from(dtype);
    if (operand.kind == &kind && derived::tensor_of(value.ptr()).defined())
      return py::reinterpret_borrow<py::object>(value);
    return py::reinterpret_steal<py::object>(derived::result(
        without_gil(operand.tensor.defined() ? operand.tensor.numel() : 1, [&] { return operand.in(kind); }),
        "ToCopyBackward0", kind));
  });
  m.def("wrap(t, label='', dtype=None)", [](const Tensor& t, const std::string& label, py::handle dtype) {
    if (!label.empty()) derived::set_label(t, kept(label));
    return py::reinterpret_steal<py::object>(
        derived::result(t, nullptr, dtype.is_none() ? derived::kind_of(t.dtype()) : kind_from(dtype)));
  });
  m.def("set_label(t, label)", [](const Tensor& t, const std::string& label) { derived::set_label(t, kept(label)); });
}

}  // namespace qkv::bindings
