#include <algorithm>

#include "bindings/call_options.h"
#include "bindings/formula_source.h"
#include "bindings/options.h"
#include "bindings/warning.h"
#include "core/error.h"
#include "ops/ops.h"

namespace qkv::bindings {
namespace {

constexpr std::string_view kMemory = "memory_";
constexpr const char* kNames[] = {"valid_lens", "attn_mask", "dropout_keep", "score_mod",
                                  "mask_mod",   "is_causal", "cache",        "return_weights"};

void settle(const char* operation, ops::MaskSpec& mask_spec, Index keys) {
  warn_of_swapped(operation, mask_spec, keys);
  if (Tensor& mask = mask_spec.attn_mask; mask.defined()) {  // one copy for the records of all layers
    if (!mask.requires_grad()) mask = Tensor(nn::snapshot(mask.data()));
    else if (mask.is_leaf() && !nn::NoAttentionRecord::active()) mask = ops::copy(mask);
  }
}

nn::KVCache* settled(const Call& call, ops::MaskSpec& mask_spec, py::handle cache, Index keys) {
  nn::KVCache* own = cache_from(cache, call.operation(), "cache must be a KVCache");
  settle(call.operation(), mask_spec, keys + (own == nullptr ? 0 : own->length()));
  return own;
}

// Whether x holds 0 and 1, both of them, and nothing else. Ends at the first block with another number.
template <class T> bool zeros_and_ones(const T* x, Index n) {
  constexpr Index kBlock = 64;
  Index ones = 0;
  for (Index begin = 0; begin < n; begin += kBlock) {
    const Index end = std::min(n, begin + kBlock);
    int others = 0, found = 0;
    for (Index i = begin; i < end; ++i) {
      const int one = x[i] == T(1);
      others += 1 - one - static_cast<int>(x[i] == T(0));
      found += one;
    }
    if (others > 0) return false;
    ones += found;
  }
  return ones > 0 && ones < n;
}

}  // namespace

void CallOptions::describe(Parameter& p, std::string_view name) {
  if (name.starts_with(kMemory)) name.remove_prefix(kMemory.size());
  if (std::ranges::find(kNames, name) == std::end(kNames)) throw std::logic_error(text("no option ", name));
  p.kind = name == "return_weights" ? kind_of<bool> : Argument<Floating>::kind;
}

std::size_t CallOptions::take(Call& call, PyObject* const* values, std::span<const Parameter> parameters) {
  struct Functions {
    py::handle score = Py_None, mask = Py_None;
  } own_functions, memory_functions;
  memory.names = kMemoryNames;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const py::handle value = values[i];
    if (value.is(parameters[i].fallback)) continue;
    const char* name = PyUnicode_AsUTF8(parameters[i].name.ptr());
    std::string_view option = name;
    const bool of_memory = option.starts_with(kMemory);
    if (of_memory) option.remove_prefix(kMemory.size());
    ops::MaskSpec& mask_spec = of_memory ? memory : self;
    Functions& functions = of_memory ? memory_functions : own_functions;
    if (option == "valid_lens") mask_spec.valid_lens = nn::snapshot(call.integers_or_none(value, name));
    else if (option == "attn_mask") mask_spec.attn_mask = call.mask(value, name);
    else if (option == "dropout_keep") mask_spec.dropout_keep = call.booleans_or_none(value, name);
    else if (option == "score_mod") functions.score = value;
    else if (option == "mask_mod") functions.mask = value;
    else if (option == "is_causal") causal = causal_from(value, call.operation());
    else if (option == "cache") cache = value;
    else if (const auto flag = flag_or_none(value)) return_weights = *flag;
    else return i;
  }
  self.formula_source = formula_source_from(call.operation(), own_functions.score, own_functions.mask);
  memory.formula_source =
      formula_source_from(call.operation(), memory_functions.score, memory_functions.mask, kMemoryFormulas);
  return parameters.size();
}

nn::AttentionCall CallOptions::of_attention(const Call& call, Index keys) {
  nn::KVCache* own = settled(call, self, cache, keys);
  return {.mask_spec = std::move(self), .causal = causal, .cache = own};
}

nn::BlockCall CallOptions::of_block(const Call& call, Index keys, Index memory_keys) {
  nn::KVCache* own = settled(call, self, cache, keys);
  settle(call.operation(), memory, memory_keys);
  return {.self = std::move(self), .memory = std::move(memory), .causal = causal, .cache = own};
}

nn::KVCache* cache_from(py::handle cache, const char* layer, const char* wanted) {
  if (cache.is_none()) return nullptr;
  if (!py::isinstance<nn::KVCache>(cache)) fail_type(layer, ": ", wanted, "; got ", described(cache));
  return cache.cast<nn::KVCache*>();
}

ops::Causal causal_from(py::handle value, const char* operation) {
  if (PyBool_Check(value.ptr()) != 0) return value.cast<bool>() ? ops::Causal::upper_left : ops::Causal::none;
  if (py::isinstance<py::str>(value)) {
    const auto name = value.cast<std::string>();
    if (name == "upper_left") return ops::Causal::upper_left;
    if (name == "lower_right") return ops::Causal::lower_right;
    fail_value(operation, ": is_causal must be False, True, \"upper_left\" or \"lower_right\"; got ", described(value));
  }
  fail_type(operation, ": is_causal must be False, True, \"upper_left\" or \"lower_right\"; got ", described(value));
}

std::optional<std::pair<Index, Index>> window_from(py::handle value, const char* operation) {
  if (value.is_none()) return {};
  const Shape sides = PyIndex_Check(value.ptr()) != 0 ? Shape{} : shape_from(value, operation, "window");
  if (sides.rank() != 2)
    fail_value(operation, ": window must be (left, right), the keys that a query sees before and behind itself; got ",
               described(value));
  if (sides[0] < -1 || sides[1] < -1)
    fail_value(operation, ": window must be (left, right) with -1 for unlimited or numbers from 0; got ",
               described(value));
  return std::pair(sides[0], sides[1]);
}

void check_constant(py::handle value, const char* operation, const char* name, const char* advice) {
  if (!PyFloat_CheckExact(value.ptr()) && is_tensor(value) && wants_gradient({value.cast<Tensor>()}))
    fail_type(operation, ": ", name, " must be a number because it takes no gradient; got a Tensor that requires one",
              advice);
}

std::optional<double> number_from(py::handle value, const char* operation, const char* name) {
  if (value.is_none()) return {};
  if (PyFloat_CheckExact(value.ptr())) return PyFloat_AS_DOUBLE(value.ptr());
  check_constant(value, operation, name, ", detach() it");
  if (PyNumber_Check(value.ptr()) == 0 || py::isinstance<py::str>(value))
    fail_type(operation, ": ", name, " must be a number; got ", described(value));
  PyObject* number = PyNumber_Float(value.ptr());
  if (number == nullptr) {
    PyErr_Clear();
    fail_type(operation, ": ", name, " must be a number; got ", described(value));
  }
  return py::reinterpret_steal<py::float_>(number).cast<double>();
}

double required_number_from(py::handle value, const char* operation, const char* name) {
  if (value.is_none()) fail_type(operation, ": ", name, " must be a number; got None");
  return *number_from(value, operation, name);
}

Index count_of(const Tensor& keys) { return !keys.defined() || keys.rank() < 2 ? 0 : keys.dim(-2); }

void warn_of_swapped(const char* operation, const ops::MaskSpec& mask_spec, Index keys) {
  const Tensor& mask = mask_spec.attn_mask;
  const Array& valid_lens = mask_spec.valid_lens;
  if (mask.defined() && is_floating(mask.dtype()) && !mask.requires_grad() &&
      visit_floating(mask.dtype(), [&]<class T>(T) { return zeros_and_ones(mask.ptr<T>(), mask.numel()); }))
    warn_caller(std::string(operation) +
                ": a float mask is added to the scores, and this one holds only 0 and 1, so it excludes "
                "nothing; pass a boolean mask (True = may attend) to exclude");
  if (keys != 1 && valid_lens.defined() && valid_lens.rank() == 2 &&
      zeros_and_ones(valid_lens.data<std::int64_t>(), valid_lens.numel()))
    warn_caller(std::string(operation) + ": " + mask_spec.names.valid_lens +
                " counts keys, and this array of two axes holds only 0 and 1, as a mask of padding "
                "does; pass the mask as a boolean one, or the number of real keys per item");
}

ops::ImageOptions image_from(py::handle image) {
  using Range = std::optional<std::pair<Index, Index>>;
  const auto [height, width, rows, columns, largest] = image.cast<std::tuple<Index, Index, Range, Range, bool>>();
  return {height, width, rows, columns, largest};
}

}  // namespace qkv::bindings
