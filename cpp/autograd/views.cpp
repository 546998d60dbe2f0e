#include "autograd/views.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/locks.h"

namespace qkv {
namespace {

bool is_whole(const Region& region, const Shape& shape) {
  return region.offset == 0 && region.shape == shape && region.strides == row_major(shape);
}

// The least and the largest place of a region, which must have one.
std::pair<Index, Index> range_of(const Region& region) {
  Index least = region.offset, largest = region.offset;
  for (std::size_t axis = 0; axis < region.shape.size(); ++axis) {
    const Index reach = region.strides[axis] * (region.shape[axis] - 1);
    (reach < 0 ? least : largest) += reach;
  }
  return {least, largest};
}

}  // namespace

Tensor shown(Tensor view, const Tensor& x) {
  TensorImpl& impl = *view.impl();
  impl.base = x.impl()->base != nullptr ? x.impl()->base : x.impl();
  impl.seen_version.store(impl.base->history_version, std::memory_order_relaxed);
  impl.under_no_grad = x.impl()->under_no_grad || !grad_enabled();
  impl.lacks_history = impl.lacks_history || x.impl()->lacks_history;
  return view;
}

namespace {

// The strides of memory with these under another shape of as many numbers, at least one; nothing if there are none.
// From the last axis to the first: neighbouring axes that one stride runs through make a run, and each run must be cut
// by whole axes of the new shape.
std::optional<Strides> strides_under(const Shape& shape, const Strides& strides, const Shape& wanted) {
  Strides found(wanted.size());
  std::size_t next = wanted.size();  // axes of the new shape from here on are done
  Index run = 1, step = 1;           // numbers of the run so far, and the stride of its last axis
  const auto cut = [&] {
    Index covered = 1;
    for (; next > 0 && (covered < run || wanted[next - 1] == 1); --next) {
      found[next - 1] = covered * step;
      covered *= wanted[next - 1];
    }
    return covered == run;
  };
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] == 1) continue;
    if (run == 1) step = strides[axis];
    else if (strides[axis] != run * step) {
      if (!cut()) return {};
      run = 1;
      step = strides[axis];
    }
    run *= shape[axis];
  }
  if (!cut()) return {};
  return found;
}

}  // namespace

Tensor reshaped(const Tensor& x, const Shape& shape) {
  const auto rule = [](const Tensor& dy, TensorGradients& dx) { dx.add(0, reshaped(dy, dx.shape(0))); };
  const Array& numbers = x.data();
  if (numbers.is_packed()) return view_by(x, numbers.reshaped(shape), rule);
  if (const auto strides = strides_under(x.shape(), numbers.strides(), shape))
    return view_by(x, numbers.view({shape, *strides}), rule);
  Array y = gathered(numbers).reshaped(shape);
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(std::move(y), {x}, rule);
}

Tensor strided(const Tensor& given, const Region& region) {
  const Tensor x = packed(given);
  return view_by(x, x.data().view(region), [region](const Tensor& dy, TensorGradients& dx) {
    dx.add(0, [&] { return scattered(dy, dx.shape(0), region); });
  });
}

Tensor scattered(const Tensor& numbers, const Shape& shape, const Region& region) {
  if (is_whole(region, shape)) return numbers;
  Array y = Array::zeros(shape, numbers.dtype());
  add_to(y.view(region), numbers.data());
  if (!wants_gradient({numbers})) return Tensor(std::move(y));
  return record(std::move(y), {numbers},
                [region](const Tensor& dy, TensorGradients& dx) { dx.add(0, [&] { return strided(dy, region); }); });
}

Tensor without(const Tensor& x, const Region& region) {
  Array y = cloned(x.data());
  write(y.view(region), Array::zeros({}, x.dtype()).view({region.shape, Strides(region.shape.size(), 0)}));
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(std::move(y), {x},
                [region](const Tensor& dy, TensorGradients& dx) { dx.add(0, [&] { return without(dy, region); }); });
}

Span::Span(const Array& w, const Array& p)
    : whole{w.shape(), w.strides()},
      part{p.shape(), p.strides(),
           (static_cast<char*>(p.first()) - static_cast<char*>(w.first())) / item_size(w.dtype())} {
  if (p.numel() == 0) part.offset = 0;
  length = 0;
  if (w.numel() > 0) {
    const auto [least, largest] = range_of(whole);
    whole.offset -= least;
    part.offset -= least;
    length = largest - least + 1;
  }
  gapless = w.is_packed();
}

Tensor Span::row_of(const Tensor& x) const { return gapless ? reshaped(x, {length}) : scattered(x, {length}, whole); }

Tensor Span::whole_of(const Tensor& row) const { return gapless ? reshaped(row, whole.shape) : strided(row, whole); }

void Tensor::renew() const {
  TensorImpl& t = *impl_;
  const Tensor base(t.base);
  const std::uint32_t history_version = base.impl()->history_version;
  std::shared_ptr<Node> node;
  Index output = 0;
  if (!t.under_no_grad && t.array.buffer() == base.layout().buffer()) {
    const GradMode recording(true);
    const Span span(base.data(), t.data());
    if (wants_gradient({base})) {
      const Tensor now = record(Array(t.data()), {base}, [span](const Tensor& dy, TensorGradients& dx) {
        dx.add(0, [&] { return span.whole_of(scattered(dy, {span.length}, span.part)); });
      });
      node = now.impl()->node;
      node->name = "AsStridedBackward0";
      output = now.impl()->output;
    }
  }
  const Lock lock(mutex_of(&t));
  if (t.seen_version.load(std::memory_order_relaxed) == history_version) return;
  t.node.swap(node);
  t.output = output;
  t.seen_version.store(history_version, std::memory_order_release);
}

}  // namespace qkv
