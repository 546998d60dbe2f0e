// Initial values, drawn in place.
#include "bindings/bindings.h"
#include "bindings/class.h"
#include "bindings/convert.h"
#include "core/error.h"
#include "nn/init.h"

namespace qkv::bindings {

namespace {
struct EnteredSkipInit {
  std::optional<nn::SkipInit> skip;
};
}  // namespace

void bind_init(Functions& m) {
  m.def("fill", [](const Tensor& t, const std::string& kind, double a, double b, Generator& generator) {
    if (!t.is_leaf() || !is_floating(t.dtype()))
      fail_value(kind, ": tensor must be a leaf that holds floating numbers; got ", t.is_leaf() ? "" : "a computed ",
                 "Tensor of dtype ", t.dtype());
    const Array& array = t.data();
    without_gil([&] {
      if (kind == "uniform") nn::fill_uniform(array, a, b, generator);
      else if (kind == "normal") nn::fill_normal(array, a, b, generator);
      else if (kind == "xavier_uniform") nn::fill_xavier_uniform(array, a, generator);
      else if (kind == "xavier_normal") nn::fill_xavier_normal(array, a, generator);
      else nn::fill_kaiming_uniform(array, a, generator);
    });
    array.buffer()->raise_version();
  });
  Class<EnteredSkipInit>(m, "SkipInit", "Parameters made while it is entered have no values, and nothing is drawn.")
      .def(py::init<>())
      .def("__enter__", [](EnteredSkipInit& self) { self.skip.emplace(); })
      .def("__exit__(kind, value, traceback)",
           [](EnteredSkipInit& self, py::handle, py::handle, py::handle) { self.skip.reset(); });
}

}  // namespace qkv::bindings
