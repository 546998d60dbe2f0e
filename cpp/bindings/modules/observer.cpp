// What qkv.look is made of.
#include "bindings/bindings.h"
#include "bindings/call/interpreter.h"
#include "bindings/modules/defined_call.h"
#include "bindings/operations/attention_options.h"
#include "bindings/tensor/derived_class.h"
#include "bindings/tensor/tensor_class.h"
#include "bindings/values/class.h"
#include "bindings/values/fields.h"
#include "bindings/values/options.h"
#include "core/error.h"
#include "nn/attention.h"
#include "nn/linear_attention.h"
#include "nn/self_attention.h"

namespace qkv::bindings {
namespace {

using nn::Observer;
using nn::Point;

Point point_from(const std::string& name) {
  for (std::size_t i = 0; i < nn::kPointNames.size(); ++i)
    if (name == nn::kPointNames[i]) return static_cast<Point>(i);
  fail_value("Observer: point must be one of the words of qkv.look; got ", name);
}

// An argument as a Tensor, if it is one or an array of numbers.
std::optional<Tensor> numbers_of(py::handle value) {
  if (is_tensor(value)) return value.cast<Tensor>();
  if (value.is_none() || py::isinstance<py::str>(value)) return {};
  try {
    return Call("look").any(value, "input");
  } catch (const std::exception&) {  // not of numbers
    PyErr_Clear();
    return {};
  }
}

// The Tensors of a result: itself, or those in it.
std::vector<py::handle> tensors_in(const py::object& result) {
  std::vector<py::handle> found;
  if (is_tensor(result)) found.push_back(result);
  else if (py::isinstance<py::tuple>(result) || py::isinstance<py::list>(result))
    for (const py::handle part : result)
      if (is_tensor(part)) found.push_back(part);
  return found;
}

// The result with `tensor`, in the class of the Tensor `first`, in its place.
py::object with_first(const py::object& result, py::handle first, const Tensor& tensor) {
  auto* type = Py_TYPE(first.ptr());
  const bool core = type == reinterpret_cast<PyTypeObject*>(py::type::of<TensorImpl>().ptr());
  py::object made = core ? py::cast(tensor) : py::reinterpret_steal<py::object>(derived::instance_of(type, tensor));
  if (result.is(first)) return made;
  py::list parts;
  for (const py::handle part : result) parts.append(part.is(first) ? made : py::reinterpret_borrow<py::object>(part));
  return with_parts(result, parts);
}

py::object shown(const Array& array) { return to_numpy(array, false); }

py::object shown(const Observer::Observation& seen, bool keep_graph) {
  if (seen.kept) return py::cast(std::const_pointer_cast<nn::KeptAttention>(seen.kept));
  py::list values;
  for (const Tensor& value : seen.values) values.append(keep_graph ? py::cast(value) : shown(value.data()));
  return values.size() == 1 ? py::object(values[0]) : py::object(py::tuple(values));
}

ops::MeasureInputs measure_inputs(py::handle earlier, py::handle separators, py::handle real, Index offset,
                                  bool cross) {
  Call call("measures");
  const auto own = [](const Array& x) { return x.defined() ? packed(x) : x; };
  return {own(call.integers_or_none(earlier, "earlier")), own(call.booleans_or_none(separators, "separators")),
          own(call.booleans_or_none(real, "real")), offset, cross};
}

}  // namespace

py::object observed_call(const py::object& self, const py::args& arguments,
                         const std::function<py::object(const py::args&)>& run) {
  const nn::Module& module = self.cast<nn::Module&>();
  const nn::Observed seen(module);
  // A call of the core's with keywords alone shows its input there.
  if (!seen || (arguments.empty() && !defined_call(self))) return run(arguments);
  py::args given = arguments;
  if (const auto input = arguments.empty() ? std::optional<Tensor>() : numbers_of(arguments[0])) {
    const Tensor changed = seen.watch().through(Point::input, *input);
    if (seen.watch().moves(Point::input)) {
      py::list all(arguments);
      all[0] = is_tensor(arguments[0]) ? with_first(arguments[0], arguments[0], changed) : py::cast(changed);
      given = py::args(py::tuple(all));
    }
  }
  py::object result;
  {
    const nn::Observed::Inside here(&module);
    result = run(given);
  }
  const std::vector<py::handle> found = tensors_in(result);
  if (found.empty()) return result;
  Tensors values;
  std::vector<Tensor*> places;
  for (const py::handle tensor : found) values.push_back(tensor.cast<Tensor>());
  for (Tensor& value : values) places.push_back(&value);
  const auto before = values.front().impl();
  seen.watch().through(Point::output, places);
  return values.front().impl() == before ? result : with_first(result, found.front(), values.front());
}

void bind_observer(Functions& m) {
  Class<nn::KeptAttention, std::shared_ptr<nn::KeptAttention>>(
      m, "KeptAttention", "What a call of an attention leaves behind; weights and scores are computed when asked for.")
      .def("weights", [](const nn::KeptAttention& self) { return shown(without_gil([&] { return self.weights(); })); })
      .def("scores", [](const nn::KeptAttention& self) { return shown(without_gil([&] { return self.scores(); })); })
      .def_property("shape", [](const nn::KeptAttention& self) { return shape_tuple(self.shape()); })
      .def_property("offset", &nn::KeptAttention::offset)
      .def("image", [](const nn::KeptAttention& self,
                       As<image_from> image) { return shown(without_gil([&] { return self.image(image); })); })
      .def("rows(batch, head, begin, end)", "Those of the weights of one head (end - begin, Lk), at no other's cost.",
           [](const nn::KeptAttention& self, Index batch, Index head, Index begin, Index end) {
             return shown(without_gil([&] { return self.rows({batch, head, begin, end}); }));
           })
      .def("real_keys", [](const nn::KeptAttention& self) { return numpy_or_none(self.real_keys(), false); })
      .def("measures(earlier, separators, real, offset, cross)",
           [](const nn::KeptAttention& self, py::handle earlier, py::handle separators, py::handle real, Index offset,
              bool cross) {
             const ops::MeasureInputs inputs = measure_inputs(earlier, separators, real, offset, cross);
             return shown(without_gil([&] { return self.measures(inputs); }));
           });
  op(m, "kept_attention(query, key, options)",
     "What is kept of a call of attention with these options: its weights are computed when they are read. Query and "
     "key are copied, and arrays among the options that others own.",
     [](const Tensor& query, const Tensor& key, const py::dict& options, Call& call) {
       ops::AttentionOptions o = attention_options_from(call, options);
       auto kept = without_gil([&] { return nn::AttentionRecord::of_call(query, key, std::move(o)); });
       return py::cast(std::const_pointer_cast<nn::KeptAttention>(std::move(kept)));
     });
  m.def("attention_image: image_of(weights, image)", [](Floating weights, As<image_from> image) {
    return shown(without_gil([&] { return ops::image_of(weights.data(), image); }));
  });
  m.def("measures: measures_of(weights, earlier, separators, real, offset, cross)",
        [](Floating weights, py::handle earlier, py::handle separators, py::handle real, Index offset, bool cross) {
          const ops::MeasureInputs inputs = measure_inputs(earlier, separators, real, offset, cross);
          return shown(without_gil([&] { return ops::measures_of(weights.data(), inputs); }));
        });

  Class<Observer> observer(m, "Observer",
                           "Sees and changes points of modules in the calls of the thread that entered it.");
  def_init<bool>(observer, "keep_graph");
  observer
      .def("record(key, module, point)", [](Observer& self, Index key, const nn::ModulePtr& module,
                                            const std::string& point) { self.record(key, module, point_from(point)); })
      .def("change(module, point, f)",
           [](Observer& self, const nn::ModulePtr& module, const std::string& point, const py::function& f) {
             self.change(module, point_from(point), [own = keep_alive(f)](const Tensor& x) {
               const InPython python;
               return call_python(py::handle(static_cast<PyObject*>(own.get())), py::make_tuple(x)).cast<Tensor>();
             });
           })
      .def("record_steps(candidates)", [](Observer& self, Index candidates) { self.record_steps(candidates); })
      .def("enter", &Observer::enter)
      .def("leave", &Observer::leave)
      .def("seen(keep_graph)", [](const Observer& self, bool keep_graph) {
        py::list all;
        for (const Observer::Observation& seen : self.seen())
          all.append(
              py::make_tuple(seen.key, nn::kPointNames[static_cast<std::size_t>(seen.point)], shown(seen, keep_graph)));
        return all;
      });
  m.def("watched(module, point, x)", "x as the observers of a module's point leave it.",
        [](const nn::ModulePtr& module, const std::string& point, const Tensor& x) {
          return nn::Watch(*module).through(point_from(point), x);
        });
  m.def("observed", "Whether an observer looks at the calls of this thread.", [] { return Observer::any(); });
  m.def(
      "observed_call(module, function, arguments, keywords)",
      "function(*arguments, **keywords), as what a call of the module does.",
      [](const py::object& module, const py::function& function, const py::tuple& arguments, const py::dict& keywords) {
        return observed_call(module, py::args(arguments),
                             [&](const py::args& given) { return call_python(function, given, keywords); });
      });
  // How many heads the weights of an attention have, None without an axis of heads; nothing of a module that is none,
  // and -1 of one that has no weights.
  m.def("attention_heads(module)", [](const nn::ModulePtr& module) -> py::object {
    if (dynamic_cast<const nn::LinearAttention*>(module.get()) != nullptr) return py::make_tuple(-1);
    if (dynamic_cast<const nn::SelfAttention*>(module.get()) != nullptr) return py::make_tuple(py::none());
    if (const auto* heads = dynamic_cast<const nn::MultiHeadAttention*>(module.get()))
      return py::make_tuple(heads->arguments.num_heads);
    if (const auto* attention = dynamic_cast<const nn::Attention*>(module.get()))
      return py::make_tuple(attention->arguments.num_heads);
    return py::getattr(py::cast(module), "_attention_heads", py::tuple());  // of one that is written in Python
  });
}

}  // namespace qkv::bindings
