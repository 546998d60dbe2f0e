// Entries of the class derived from Tensor by number: gather, scatter and their kin, as PyTorch has them.
#include "bindings/direct_call.h"
#include "bindings/promotion.h"
#include "ops/ops.h"

namespace qkv::bindings::direct {
namespace {

// What of (t, dim, index) is asked for; a Tensor without axes counts as one of size 1.
struct Places {
  Tensor x;
  const Kind* kind;
  Array given, index;  // as it came, and into x
  Index axis;
  bool scalar;
};

std::optional<Places> read_places(const char* name, const Typed& own, py::handle dim, const Operand& numbers,
                                  bool entries) {
  Index axis = 0;
  if (!read(dim.ptr(), axis)) return {};
  const Tensor& t = own.tensor;
  axis = axis_from_front(name, axis, t.rank());
  if (!numbers.tensor.defined()) fail_type(name, ": index must be a Tensor; got ", described(numbers.value));
  if (numbers.kind->height != 1 && numbers.tensor.numel() > 0)
    fail_runtime(name, ": index must hold whole numbers; got dtype ", numbers.kind->text());
  const Array index = packed(numbers.in(kind_of(DType::int64)).data());
  const Tensor x = t.rank() > 0 ? t : ops::reshape(t, {1});
  if (entries && index.rank() > 1)
    throw py::index_error(text(name, ": index must have one axis; got shape ", index.shape()));
  return Places{
      x,
      own.kind,
      index,
      entries ? ops::entries_along(index, x.shape(), axis) : t.rank() > 0 ? index : index.reshaped({index.numel()}),
      axis,
      t.rank() == 0};
}

template <bool entries> PyObject* picked(const Given& given, const Typed& own, py::handle dim, const Operand& index) {
  const Entry& entry = given.entry;
  const auto places = read_places(entry.names, own, dim, index, entries);
  if (!places) return nullptr;
  Tensor y = without_gil(places->index.numel(),
                         [&] { return ops::gather({entry.names, "index"}, places->x, places->index, places->axis); });
  if (places->scalar) y = ops::reshape(y, entries ? Shape{} : places->given.shape());
  return result(y, entry.label, *places->kind);
}

// Values for the places: a Tensor of the dtype, of which as much counts as the index has, or a number where the entry
// has a label for one.
template <bool entries, bool add>
PyObject* put(const Given& given, const Typed& own, py::handle dim, const Operand& index, const Operand& operand) {
  const Entry& entry = given.entry;
  const char *name = entry.names, *word = entries ? "source" : "src";
  const auto places = read_places(name, own, dim, index, entries);
  if (!places) return nullptr;
  const bool number = entry.other_label != nullptr && !operand.tensor.defined();
  if (!number && !is_tensor(operand.value))
    fail_type(name, ": the values must be a Tensor; got ", described(operand.value));
  if (!number && operand.kind != places->kind)
    fail_runtime(name, ": the values must have the Tensor's dtype ", places->kind->text(), "; got ",
                 operand.kind->text());
  Tensor values = operand.in(*places->kind);
  const Shape& wanted = places->given.shape();
  if (!entries && !number && values.shape() != wanted) {
    if (values.rank() != wanted.rank())
      fail_runtime(name, ": src must have as many axes as index ", wanted, "; got ", values.shape());
    for (Index axis = 0; axis < wanted.rank(); ++axis)
      values = ops::slice(values, axis, 0, std::min(wanted.dim(axis), values.dim(axis)));
  }
  Tensor y = without_gil(places->x.numel(), [&] {
    return ops::scatter({name, "index", false, word}, places->x, places->index, values, places->axis, add);
  });
  if (places->scalar) y = ops::reshape(y, {});
  return result(y, number ? entry.other_label : entry.label, *places->kind);
}

}  // namespace

std::span<const Entry> place_entries() {
  static constexpr Entry all[] = {
      {"gather", call<picked<false>>, "GatherBackward0"},
      {"index_select", call<picked<true>>, "IndexSelectBackward0"},
      {"scatter", call<put<false, false>>, "ScatterBackward0", "ScatterBackward1"},
      {"scatter_add", call<put<false, true>>, "ScatterAddBackward0"},
      {"index_copy", call<put<true, false>>, "IndexCopyBackward0"},
      {"index_add", call<put<true, true>>, "IndexAddBackward0"},
  };
  return all;
}

}  // namespace qkv::bindings::direct
