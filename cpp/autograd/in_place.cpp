#include "autograd/in_place.h"

#include <cstddef>

#include "autograd/views.h"

namespace qkv {
namespace {

// Whether others than this Tensor, and what the graph has saved, hold its memory.
bool is_shared(const Array& numbers) {
  const Buffer& buffer = *numbers.buffer();
  return numbers.buffer().use_count() > 1 + buffer.savers() || !buffer.own() || buffer.is_viewed();
}

void take_history(TensorImpl& t, const TensorImpl& result) {
  t.node = result.node;
  t.output = result.output;
  t.requires_grad = result.requires_grad;
  t.lacks_history = result.lacks_history;
  t.grad.set({});
}

// Where the graph has saved the memory of a base and its only view, which nobody else looks at, it keeps that memory:
// base and view move to a copy, which the change will overwrite.
void leave_saved_memory(TensorImpl& base, TensorImpl& view) {
  const Array old = base.data();
  const Buffer& buffer = *old.buffer();
  if (buffer.savers() == 0 || !buffer.own() || buffer.is_viewed() || !old.is_packed()) return;
  if (old.buffer().use_count() > 3 + buffer.savers()) return;  // `old`, too
  base.set(cloned(old));
  const Array part = view.data();
  const auto offset = static_cast<std::byte*>(part.first()) - static_cast<std::byte*>(old.first());
  view.set(Array(part.shape(), part.strides(), part.dtype(), base.array.buffer(),
                 static_cast<std::byte*>(base.array.first()) + offset));
}

// The base's history once the view's part of it holds `result`.
void rebase(const Tensor& base, const Tensor& view, const Tensor& result) {
  const Span span(base.data(), view.data());
  const auto rule = [span](const Tensor& dy, TensorGradients& dx) {
    dx.add(0, [&] { return span.whole_of(without(span.row_of(dy), span.part)); });
    dx.add(1, [&] { return strided(span.row_of(dy), span.part); });
  };
  const GradMode recording(true);
  take_history(*base.impl(), *record(Array(base.data()), {base, result}, rule).impl());
  base.impl()->node->name = "CopySlices";
  view.impl()->seen_version.store(++base.impl()->history_version, std::memory_order_release);
}

}  // namespace

void forget_hidden_base(const Tensor& t) {
  TensorImpl& impl = *t.impl();
  if (impl.base == nullptr || impl.base.use_count() > 1) return;
  t.current();
  impl.base = nullptr;
  impl.under_no_grad = false;
}

void check_changeable(const char* operation, const Tensor& t) {
  if (!grad_enabled()) return;
  const auto wants = [](const Tensor& x) { return x.is_leaf() && x.requires_grad(); };
  const bool whole = wants(t);
  if (whole || (t.impl()->base != nullptr && wants(Tensor(t.impl()->base))))
    fail_runtime(operation, whole ? ": a leaf" : ": a view of a leaf",
                 " that requires a gradient must be changed under qkv.no_grad() because the graph needs "
                 "its numbers; got a Tensor ",
                 t.shape(), " with gradients on");
}

void check_not_overlapping(const char* operation, const Tensor& t) {
  if (overlaps_itself(t.data()))
    fail_runtime(operation,
                 ": a Tensor some of whose numbers are one in memory (broadcast, unfolded) must be "
                 "cloned before it is changed in place; got a Tensor ",
                 t.shape());
}

Tensor before_change(const Tensor& t, const Tensor& x) {
  if (!grad_enabled() || x.data().buffer() != t.data().buffer()) return x;
  forget_hidden_base(t);
  if (!is_shared(t.data())) return x;
  const History history(x);
  if (history.leaf != nullptr) return x;
  Array numbers = cloned(x.data());
  if (history.node != nullptr) return with_history(numbers, history.node, history.output);
  Tensor copy(std::move(numbers));
  copy.impl()->lacks_history = x.impl()->lacks_history;
  return copy;
}

void change(const char* operation, const Tensor& t, const Tensor& result) {
  TensorImpl& impl = *t.impl();
  check_not_overlapping(operation, t);
  if (!result.requires_grad()) {
    write(impl.data(), result.data());
    for (TensorImpl* changed : {&impl, impl.base.get()})
      if (changed != nullptr) changed->lacks_history = changed->lacks_history || result.impl()->lacks_history;
    return;
  }
  forget_hidden_base(t);
  if (impl.base == nullptr) {
    if (is_shared(impl.data())) write(impl.data(), result.data());
    else
      impl.set(result.impl().use_count() > 1 || is_shared(result.data()) ? cloned(result.data())
                                                                         : packed(result.data()));
    take_history(impl, *result.impl());
    ++impl.history_version;
    return;
  }
  if (impl.under_no_grad)
    fail_runtime(
        operation,
        ": a view that was made under qkv.no_grad() must be changed under it because its base would need the history; "
        "make the view again with gradients on");
  const Tensor base(impl.base);
  if (base.layout().buffer() != impl.array.buffer())
    fail_runtime(operation,
                 ": a view whose base was given other memory since must not be changed with gradients on; make the "
                 "view again");
  if (overlaps_itself(base.data()))
    fail_runtime(
        operation,
        ": a view of a Tensor some of whose numbers are one in memory must be cloned before it is changed in place");
  t.current();
  leave_saved_memory(*impl.base, impl);
  write(impl.data(), result.data());
  rebase(base, t, result);
  take_history(impl, *result.impl());
  impl.node->name = "AsStridedBackward0";
}

}  // namespace qkv
