// Random numbers, and initial values drawn in place.
#include "core/random.h"
#include "bindings/bindings.h"
#include "bindings/values/class.h"
#include "bindings/values/convert.h"
#include "bindings/values/fields.h"
#include "core/error.h"
#include "nn/init.h"

namespace qkv::bindings {
namespace {

// The low 64 bits of a Python integer, negative ones in two's complement.
std::uint64_t seed_from(const py::object& seed) {
  if (!PyIndex_Check(seed.ptr())) {
    fail_type("manual_seed: seed must be an integer because it sets the engine's state; got ", type_name(seed));
  }
  const py::object integer = py::reinterpret_steal<py::object>(PyNumber_Index(seed.ptr()));
  if (!integer) throw py::error_already_set();
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(integer.ptr(), &overflow);
  if (overflow == 0) return static_cast<std::uint64_t>(value);
  if (overflow > 0) {
    const unsigned long long large = PyLong_AsUnsignedLongLong(integer.ptr());
    if (!PyErr_Occurred()) return large;
    PyErr_Clear();
  }
  fail_value("manual_seed: seed must be in [-2^63, 2^64) because it has 64 bits; got ",
             py::cast<std::string>(py::str(integer)));
}

// A new array whose elements fill(pointer, count) writes without the interpreter's lock.
template <class T, class Sizes, class Fill> py::array filled(const Sizes& shape, Fill fill) {
  const Array result(Shape(shape), dtype_v<T>);
  without_gil([&] { fill(result.data<T>(), result.numel()); });
  return to_numpy(result, true, false);
}

DType floating_named(const std::string& name) { return name == "float64" ? DType::float64 : DType::float32; }

Array probabilities(const py::array& p) { return packed(Call("random").floating(p, "p").data()); }

// A method (a, ..., shape, dtype): an array that the generator's `fill` fills by those numbers.
template <class... Numbers, class Fill> auto drawing(Fill fill) {
  return [fill](Generator& self, Numbers... numbers, const std::vector<Index>& shape, const std::string& dtype) {
    return visit_floating(floating_named(dtype), [&]<class T>(T) {
      return filled<T>(shape, [&](T* out, Index n) { fill(self, out, n, numbers...); });
    });
  };
}

py::array generator_state(const Generator& generator) {
  const std::vector<std::uint32_t> state = without_gil([&] { return generator.state(); });
  return py::array_t<std::uint32_t>(static_cast<Index>(state.size()), state.data());
}

void set_state_array(Generator& generator, const py::array& state) {
  if (state.ndim() != 1 || !state.dtype().equal(py::dtype::of<std::uint32_t>())) {
    fail_type("set_state: state must be a uint32 array with one axis because that is what get_state() returns; got ",
              py::cast<std::string>(py::str(state.dtype())), " with ", state.ndim(), " axes");
  }
  const py::array_t<std::uint32_t, py::array::c_style | py::array::forcecast> words(state);
  const std::vector<std::uint32_t> copies(words.data(), words.data() + words.size());
  without_gil([&] { generator.set_state(copies); });
}

constexpr const char* kGeneratorDoc = R"(Generator(seed=None)

A stream of random numbers of its own, to be passed as ``rng=``.

The engine is the 32-bit Mersenne Twister, and with the same seed every function
that takes ``rng=`` gives the digits of PyTorch's CPU generator.

Parameters
----------
seed : int, optional
    In [-2**63, 2**64). Only the low 32 bits matter, as in PyTorch. Without a
    seed the system's entropy is used (PyTorch: a fixed seed).

Raises
------
TypeError
    If the seed is not an integer.
ValueError
    If the seed has more than 64 bits.

Notes
-----
Generators can be pickled and deep-copied; the copy continues the stream where
the original stood. Calls from several threads are safe, each call is one
uninterrupted piece of the stream.

Examples
--------
>>> import qkv
>>> rng = qkv.Generator(789)
>>> qkv.randint(1, 8, (2, 3), rng=rng).shape
(2, 3)
)";

struct EnteredSkipInit {
  std::optional<nn::SkipInit> skip;
};

}  // namespace

void bind_random(Functions& m) {
  Class<Generator> generator(m, "Generator", kGeneratorDoc);
  def_init<py::object>(generator, "seed=None", [](auto, const py::object& seed) {
    return seed.is_none() ? std::make_unique<Generator>() : std::make_unique<Generator>(seed_from(seed));
  });
  def_pickle<py::array>(generator, generator_state, [](const py::array& state) {
    auto restored = std::make_unique<Generator>(0);
    set_state_array(*restored, state);
    return restored;
  });
  generator
      .def("manual_seed(seed)", "Restart the stream at its beginning for ``seed``; returns the generator.",
           [](Generator& self, const py::object& seed) -> Generator& {
             const std::uint64_t number = seed_from(seed);
             without_gil([&] { self.manual_seed(number); });
             return self;
           })
      .def("random64", "The next 64 random bits as an integer (two words of the engine, the first is the high half).",
           [](Generator& self) { return without_gil([&] { return self.random64(); }); })
      .def("get_state", "Everything that decides the future of the stream, a uint32 array of shape (628,).",
           &generator_state)
      .def("set_state(state)", "Continue where the generator stood whose ``get_state()`` returned ``state``.",
           &set_state_array)
      .def("__repr__",
           [](const Generator& self) {
             std::uint32_t mixed = 2166136261;  // two generators in the same state print the same
             for (const std::uint32_t word : without_gil([&] { return self.state(); }))
               mixed = (mixed ^ word) * 16777619;
             return py::str("Generator(state {:08x})").format(mixed);
           })
      .def("_uniform", drawing<double, double>([](Generator& g, auto* out, Index n, double low, double high) {
             g.uniform(out, n, low, high);
           }))
      .def("_normal", drawing<double, double>([](Generator& g, auto* out, Index n, double mean, double std) {
             g.normal(out, n, mean, std);
           }))
      .def("_exponential",
           drawing<double>([](Generator& g, auto* out, Index n, double rate) { g.exponential(out, n, rate); }))
      .def("_bernoulli",
           [](Generator& self, double p, const std::vector<Index>& shape, const std::string& dtype) {
             const auto fill = [&](auto* out, Index n) { self.bernoulli(out, n, p); };
             if (dtype == "bool") return filled<bool>(shape, fill);
             return visit_floating(floating_named(dtype), [&]<class T>(T) { return filled<T>(shape, fill); });
           })
      .def("_bernoulli_each",
           [](Generator& self, const py::array& p) {
             const Array given = probabilities(p);
             return visit_floating(given.dtype(), [&]<class T>(T) {
               return filled<T>(given.shape(), [&](T* out, Index n) { self.bernoulli(out, given.data<T>(), n); });
             });
           })
      .def("_multinomial",
           [](Generator& self, const py::array& p, Index num_samples, bool replacement) {  // p: (n,) or (rows, n)
             const Array given = probabilities(p);
             Shape shape = given.shape();
             const Index n = shape.back(), rows = shape.rank() == 2 ? shape.front() : 1;
             shape.back() = std::max<Index>(num_samples, 0);
             return visit_floating(given.dtype(), [&]<class T>(T) {
               return filled<std::int64_t>(shape, [&](std::int64_t* out, Index) {
                 self.multinomial(out, given.data<T>(), rows, n, num_samples, replacement);
               });
             });
           })
      .def("_randint",
           [](Generator& self, std::int64_t low, std::int64_t high, const std::vector<Index>& shape) {
             return filled<std::int64_t>(shape, [&](std::int64_t* out, Index n) { self.randint(out, n, low, high); });
           })
      .def("_randperm", [](Generator& self, Index n) {
        return filled<std::int64_t>(Shape{n}, [&](std::int64_t* out, Index count) { self.randperm(out, count); });
      });
  m.def("default_generator", [] { return py::cast(&default_generator(), py::return_value_policy::reference); });
  m.def("fill", [](const Tensor& t, const std::string& kind, double a, double b, Generator& stream) {
    if (!t.is_leaf() || !is_floating(t.dtype()))
      fail_value(kind, ": tensor must be a leaf that holds floating numbers; got ", t.is_leaf() ? "" : "a computed ",
                 "Tensor of dtype ", t.dtype());
    const Array& array = t.data();
    without_gil([&] {
      if (kind == "uniform") nn::fill_uniform(array, a, b, stream);
      else if (kind == "normal") nn::fill_normal(array, a, b, stream);
      else if (kind == "xavier_uniform") nn::fill_xavier_uniform(array, a, stream);
      else if (kind == "xavier_normal") nn::fill_xavier_normal(array, a, stream);
      else nn::fill_kaiming_uniform(array, a, stream);
    });
    array.buffer()->raise_version();
  });
  Class<EnteredSkipInit> skip_init(m, "SkipInit",
                                   "Parameters made while it is entered have no values, and nothing is drawn.");
  def_init(skip_init, "");
  skip_init.def("__enter__", [](EnteredSkipInit& self) { self.skip.emplace(); })
      .def("__exit__(kind, value, traceback)",
           [](EnteredSkipInit& self, py::handle, py::handle, py::handle) { self.skip.reset(); });
}

}  // namespace qkv::bindings
