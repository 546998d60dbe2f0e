#include "nn/observer.h"

#include <algorithm>

#include "autograd/tensor.h"

namespace qkv::nn {

void Observer::record(Index key, const ModulePtr& module, Point point) {
  Asked& asked = asked_[module.get()];
  asked.module = module;
  asked.key = key;
  asked.recorded.set(static_cast<std::size_t>(point));
}

void Observer::change(const ModulePtr& module, Point point, Change change) {
  Asked& asked = asked_[module.get()];
  asked.module = module;
  asked.changed.set(static_cast<std::size_t>(point));
  asked.changes[static_cast<std::size_t>(point)] = std::move(change);
}

Index Observer::candidates() {
  Index most = -1;
  for (const Observer* at = innermost_; at != nullptr; at = at->outer_) most = std::max(most, at->candidates_);
  return most;
}

void Observer::stepped(const Tensors& about) {
  for (Observer* at = innermost_; at != nullptr; at = at->outer_)
    if (at->candidates_ >= 0) at->seen_.push_back({-1, Point::output, about, nullptr});
}

void Observer::enter() {
  if (entered_) return;
  entered_ = true;
  outer_ = std::exchange(innermost_, this);
}

void Observer::leave() {
  if (!std::exchange(entered_, false)) return;
  for (Observer** at = &innermost_; *at != nullptr; at = &(*at)->outer_)
    if (*at == this) {
      *at = outer_;
      break;
    }
}

const Observer::Asked* Observer::of(const Module& module) const {
  const auto found = asked_.find(&module);
  return found == asked_.end() ? nullptr : &found->second;
}

void Watch::look() {
  for (const Observer* at = Observer::innermost_; at != nullptr; at = at->outer_)
    if (const Observer::Asked* asked = at->of(module_)) {
      wanted_ |= asked->recorded | asked->changed;
      moved_ |= asked->changed;
      if (at->keep_graph_) moved_ |= asked->recorded;
    }
}

template <class See> void Watch::recorded(Point point, See see) const {
  for (Observer* at = Observer::innermost_; at != nullptr; at = at->outer_)
    if (const Observer::Asked* asked = at->of(module_); asked != nullptr && asked->recorded[index(point)])
      at->seen_.push_back(see(*asked, at->keep_graph_));
}

Tensor Watch::through(Point point, const Tensor& x) const {
  Tensor y = x;
  Tensor* const result = &y;
  through(point, std::span(&result, 1));
  return y;
}

void Watch::through(Point point, std::span<Tensor* const> results) const {
  if (!wants(point)) return;
  Tensor& first = *results.front();
  std::vector<const Observer::Change*> changes;  // the inner ones first
  for (const Observer* at = Observer::innermost_; at != nullptr; at = at->outer_)
    if (const Observer::Asked* asked = at->of(module_); asked != nullptr && asked->changed[index(point)])
      changes.push_back(&asked->changes[index(point)]);
  for (auto change = changes.rbegin(); change != changes.rend(); ++change) first = (**change)(first);
  recorded(point, [&](const Observer::Asked& asked, bool keep_graph) {
    Tensors values;
    for (const Tensor* value : results)
      if (value->defined()) values.push_back(keep_graph ? *value : Tensor(cloned(value->data())));
    return Observer::Observation{asked.key, point, std::move(values), nullptr};
  });
}

void Watch::record(Point point, const std::shared_ptr<const KeptAttention>& kept) const {
  recorded(point,
           [&](const Observer::Asked& asked, bool) { return Observer::Observation{asked.key, point, {}, kept}; });
}

}  // namespace qkv::nn
