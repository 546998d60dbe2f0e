// Backward passes: from the newest operation to the oldest.
#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "autograd/tensor.h"
#include "core/locks.h"
#include "core/noncopyable.h"
#include "core/parallel.h"

namespace qkv {

void fail_without_history() {
  fail_runtime(
      "backward: a result of qkv.grad took part, which has no history, so the derivative would lack what flows through "
      "it; "
      "pass create_graph=True to that qkv.grad, or take its result as a constant by detach()");
}

namespace {

// Nodes between two looks for an interrupt; a long pull-back looks by itself.
constexpr unsigned kBetweenChecks = 16;

// A backward pass at a node. Threads may be at one node together, unless one of them is to free it: that one is then
// the last to come, and what the pull-back holds goes when all have left.
class Visit : NonCopyable {
 public:
  Visit(Node& node, bool frees) : node_(node), frees_(frees) {
    const Lock lock(mutex_of(&node));
    if (node.freed)
      fail_runtime(
          "backward: the graph was freed by an earlier backward; pass retain_graph=True there to go through it twice");
    node.freed = frees;
    last_ = ++node.visits == 1 && frees;
  }
  ~Visit() {
    std::unique_ptr<const Step> step;
    std::vector<Edge> inputs;
    std::unique_lock<Mutex> lock;
    if (!last_ || !succeeded_) lock = std::unique_lock(mutex_of(&node_));  // others may be here or may come
    if (frees_ && !succeeded_) node_.freed = false;
    if (--node_.visits > 0 || !node_.freed) return;
    step.swap(node_.step);
    inputs.swap(node_.inputs);
  }
  void succeeded() { succeeded_ = true; }  // otherwise the node stays as it was

 private:
  Node& node_;
  const bool frees_;
  bool last_ = false, succeeded_ = false;  // last_: nobody else is here, and nobody can come
};

void merge(Array& sum, Array part) {
  // Gradients may be passed on without a copy, so several sums can start as the same memory.
  if (sum.defined()) accumulate(sum, part);
  else sum = std::move(part);
}

void merge(Tensor& sum, Tensor part) {
  if (!sum.defined()) {
    sum = std::move(part);
    return;
  }
  if (!wants_gradient({sum, part})) {
    if (sum.impl().use_count() > 1) sum = Tensor(sum.data());  // others hold this Tensor
    accumulate(sum.impl()->array, part.data());
    return;
  }
  Array total = sum.data();
  accumulate(total, part.data());
  sum = record(std::move(total), {sum, part}, [](const Tensor& dy, TensorGradients& dx) {
    for (Index i = 0; i < 2; ++i) dx.add(i, dy);
  });
}

}  // namespace

Array& Gradients::of(Index input) {
  Array& array = arrays_[static_cast<std::size_t>(input)];
  const Edge& edge = edges_[static_cast<std::size_t>(input)];
  if (!array.defined()) array = Array::zeros(edge.shape, edge.dtype);
  else array.make_unique();
  return array;
}

Array Gradients::fresh(Index input) const {
  const Edge& edge = edges_[static_cast<std::size_t>(input)];
  return Array(edge.shape, edge.dtype);
}

void Gradients::add(Index input, Array gradient) {
  merge(arrays_[static_cast<std::size_t>(input)], std::move(gradient));
}

void TensorGradients::add(Index input, Tensor gradient) {
  if (wants(input)) merge(tensors_[static_cast<std::size_t>(input)], std::move(gradient));
}

namespace {

void give(const Tensor& leaf, Tensor sum) {
  Array numbers = packed(sum.data());
  sum = {};
  leaf.impl()->grad.add(std::move(numbers));
}

// One run through the graph, from the newest operation to the oldest; the rules are recorded, or not.
class Backward {
 public:
  Backward(bool retain_graph, bool recorded) : retain_graph_(retain_graph), recorded_(recorded) {}

  void start(const Tensor& output, Tensor gradient) {
    if (output.impl()->lacks_history) fail_without_history();
    if (!output.requires_grad())
      fail_runtime("backward: this Tensor has no gradient because nothing that it was made of requires one");
    send(Edge(output), std::move(gradient));
  }

  // Gradients that arrive at this Tensor are kept for the caller.
  void watch(const Tensor& tensor) { watched_.emplace(key(tensor), Tensor()); }
  // Each leaf gets its gradient, and is passed on, when the last operation that it took part in was differentiated.
  void call_when_finished(const std::function<void(const Tensor& leaf)>& finished) { finished_ = &finished; }
  // Nothing flows past this Tensor.
  void stop_at(const Tensor& tensor) { stops_.insert(key(tensor)); }

  void run() {
    const bool some = !watched_.empty();  // what flows elsewhere is not computed
    if (some) find_needed();
    if (finished_ != nullptr) count_uses();
    std::vector<bool> wanted;
    for (unsigned count = 1; !arriving_.empty(); ++count) {
      if (count % kBetweenChecks == 0) throw_if_interrupted();
      const auto newest = std::prev(arriving_.end());
      const std::shared_ptr<Node> node = std::move(newest->second.node);
      const Tensors dys = std::move(newest->second.dys);
      arriving_.erase(newest);
      for (std::size_t i = 0; !watched_.empty() && i < dys.size(); ++i) {
        const auto watched = watched_.find({node.get(), static_cast<Index>(i)});
        if (watched != watched_.end()) watched->second = dys[i];
      }
      if (node->lacks_history) fail_without_history();
      Visit visit(*node, !retain_graph_);
      wanted.clear();
      if (some)
        for (const Edge& input : node->inputs) wanted.push_back(leads_to_watched(input));
      TensorGradients dx(node, some ? &wanted : nullptr);
      {
        const GradMode mode(recorded_);
        node->step->backward(dys, dx);
        for (std::size_t i = 0; i < node->inputs.size(); ++i)
          if (dx.results()[i].defined()) send(node->inputs[i], std::move(dx.results()[i]));
      }
      visit.succeeded();
      if (finished_ != nullptr) finish_leaves_of(*node);
    }
  }

  Tensor& watched(const Tensor& tensor) { return watched_.at(key(tensor)); }
  auto& leaves() { return leaves_; }

 private:
  using Key = std::pair<const void*, Index>;
  static Key key(const Tensor& t) {
    const TensorImpl& now = t.current();
    return now.node == nullptr ? Key{&now, -1} : Key{now.node.get(), now.output};
  }
  static Key key(const Edge& edge) {
    return edge.node == nullptr ? Key{edge.leaf.get(), -1} : Key{edge.node.get(), edge.output};
  }

  bool leads_to_watched(const Edge& edge) const {
    if (!edge.collects()) return false;
    if (watched_.contains(key(edge))) return true;
    const auto behind = needed_.find(edge.node.get());
    return behind != needed_.end() && behind->second;
  }

  // The nodes whose gradients flow on to what is watched. Those of others, say of all weights where only that of the
  // input is asked for, would be useless.
  void find_needed() {
    struct Found {
      std::uint64_t sequence;
      bool* needed;
      std::size_t begin, end;  // of its inputs' nodes
    };
    std::vector<Found> found;
    std::vector<std::shared_ptr<Node>> ahead;  // alive, even if another pass frees it
    const auto come_to = [&](const Node& node) {
      const auto [entry, first] = needed_.try_emplace(&node, false);
      if (!first) return;
      const std::size_t begin = ahead.size();
      const Lock lock(mutex_of(&node));  // another pass may be about to free it
      entry->second = node.freed;        // where it leads is not known any more: the pass is to come to it and to fail
      for (const Edge& input : node.inputs) {
        entry->second = entry->second || leads_to_watched(input);
        if (input.node != nullptr && !stops_.contains(key(input))) ahead.push_back(input.node);
      }
      found.push_back({node.sequence, &entry->second, begin, ahead.size()});
    };
    for (const auto& [sequence, start] : arriving_) come_to(*start.node);
    for (std::size_t i = 0; i < ahead.size(); ++i) come_to(*std::shared_ptr<Node>(ahead[i]));
    std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.sequence < b.sequence; });
    for (const Found& node : found)  // inputs before what they made
      for (std::size_t i = node.begin; i < node.end && !*node.needed; ++i) *node.needed = needed_[ahead[i].get()];
  }

  // How many inputs of operations each leaf is.
  void count_uses() {
    std::unordered_set<const Node*> seen;
    std::vector<const Node*> ahead;
    for (const auto& [sequence, start] : arriving_) ahead.push_back(start.node.get());
    while (!ahead.empty()) {
      const Node& node = *ahead.back();
      ahead.pop_back();
      if (!seen.insert(&node).second) continue;
      const Lock lock(mutex_of(&node));  // another pass may be about to free it
      for (const Edge& input : node.inputs) {
        if (!input.collects()) continue;
        if (input.node == nullptr) ++uses_[input.leaf.get()];
        else ahead.push_back(input.node.get());
      }
    }
  }

  void finish_leaves_of(const Node& node) {
    for (const Edge& input : node.inputs) {
      if (input.node != nullptr || !input.collects()) continue;
      if (--uses_[input.leaf.get()] > 0) continue;
      auto done = leaves_.extract(input.leaf.get());
      if (done.empty()) continue;
      const Tensor leaf(input.leaf);
      give(leaf, std::move(done.mapped().second));
      (*finished_)(leaf);
    }
  }

  void send(const Edge& to, Tensor gradient) {
    const bool stops = !stops_.empty() && stops_.contains(key(to));
    if ((to.node == nullptr || stops) && !watched_.empty()) {
      const auto watched = watched_.find(key(to));
      if (watched != watched_.end()) merge(watched->second, gradient);
    }
    if (stops) return;
    if (to.node == nullptr) {
      auto& [leaf, sum] = leaves_[to.leaf.get()];
      if (!leaf.defined()) leaf = Tensor(to.leaf);
      merge(sum, std::move(gradient));
      return;
    }
    Arriving& arriving = arriving_[to.node->sequence];
    if (arriving.node == nullptr) {
      arriving.node = to.node;
      arriving.dys.resize(static_cast<std::size_t>(to.node->outputs));
    }
    merge(arriving.dys[static_cast<std::size_t>(to.output)], std::move(gradient));
  }

  struct Arriving {
    std::shared_ptr<Node> node;
    Tensors dys;  // of its outputs
  };

  const bool retain_graph_, recorded_;
  std::map<std::uint64_t, Arriving> arriving_;  // by age
  std::map<const TensorImpl*, std::pair<Tensor, Tensor>> leaves_;
  std::map<Key, Tensor> watched_;
  std::set<Key> stops_;
  std::unordered_map<const Node*, bool> needed_;  // nodes that the pass may come to
  const std::function<void(const Tensor& leaf)>* finished_ = nullptr;
  std::unordered_map<const TensorImpl*, Index> uses_;
};

// What flows into the output: `gradient`, or 1 for one number.
Tensor seed(const Tensor& output, const Array& gradient) {
  if (gradient.defined()) {
    if (gradient.shape() != output.shape())
      fail_value("backward: gradient must be ", output.shape(), " because the Tensor is; got gradient ",
                 gradient.shape());
    return Tensor(packed(gradient).cast(output.dtype()));
  }
  if (!output.requires_grad()) return {};
  if (output.numel() != 1)
    fail_runtime("backward: gradient must be given because the Tensor has more than one element; got a Tensor ",
                 output.shape(), " and no gradient");
  return Tensor(Array::full(output.shape(), output.dtype(), 1.0));
}

}  // namespace

void Tensor::backward(const Array& gradient, bool retain_graph,
                      const std::function<void(const Tensor& leaf)>& finished) const {
  Backward pass(retain_graph, false);
  if (finished) pass.call_when_finished(finished);
  // A copy: what arrives at one leaf may be the memory of another's gradient otherwise, which is added to.
  pass.start(*this, seed(*this, gradient.defined() ? cloned(gradient) : gradient));
  pass.run();
  {
    const Uninterrupted whole;  // all leaves or none
    for (auto& [impl, entry] : pass.leaves()) give(entry.first, std::move(entry.second));
  }
  if (finished)
    for (const auto& [impl, entry] : pass.leaves()) finished(entry.first);  // where a use was never come to
}

std::vector<Array> gradients_of(const Tensor& output, const Tensors& inputs, const Array& gradient, bool retain_graph) {
  Backward pass(retain_graph, false);
  for (const Tensor& input : inputs) pass.watch(input);
  pass.start(output, seed(output, gradient));
  pass.run();
  std::vector<Array> results;
  for (const Tensor& input : inputs) {
    const Tensor& found = pass.watched(input);
    if (!found.defined()) results.emplace_back();
    else results.push_back(fills_memory(found.data()) ? found.data() : packed(found.data()));
  }
  return results;
}

Tensors recorded_gradients_of(const Tensor& output, const Tensors& inputs, const Tensor& gradient) {
  const GradMode recording(true);
  Backward pass(true, true);
  for (const Tensor& input : inputs) pass.watch(input);
  const bool keeps_history =
      gradient.defined() && gradient.dtype() == output.dtype() && gradient.shape() == output.shape();
  pass.start(output, keeps_history ? gradient : seed(output, gradient.defined() ? gradient.data() : Array()));
  pass.run();
  Tensors results;
  for (const Tensor& input : inputs) results.push_back(pass.watched(input));
  return results;
}

Tensors leaves(const Tensor& output) {
  Tensors found;
  std::unordered_set<const void*> seen;
  std::vector<std::shared_ptr<Node>> waiting;
  const auto arrive = [&](const History& at) {
    if (at.leaf && at.leaf->requires_grad && seen.insert(at.leaf.get()).second) found.emplace_back(at.leaf);
    if (at.node && seen.insert(at.node.get()).second) waiting.push_back(at.node);
  };
  arrive(History(output));
  while (!waiting.empty()) {
    const std::shared_ptr<Node> node = std::move(waiting.back());
    waiting.pop_back();
    std::vector<Edge> edges;
    {
      const Lock lock(mutex_of(node.get()));  // a pass may be about to free it
      edges = node->inputs;
    }
    for (const Edge& edge : edges) arrive(edge);
  }
  return found;
}

void derive_composed(std::span<const Tensor> dys, TensorGradients& dx,
                     const std::function<Tensors(const Tensors& inputs)>& compose) {
  // Differentiated with respect to substitutes of the inputs, where the pass stops; their own history is the inputs.
  // What is composed is recorded in any case, its derivative only if it is differentiated again.
  const bool recorded = grad_enabled();
  const GradMode recording(true);
  const auto pass_on = [](const Tensor& dy, TensorGradients& gradients) { gradients.add(0, dy); };
  Tensors inputs;
  Backward pass(recorded, recorded);
  for (Index i = 0; i < dx.count(); ++i) {
    const Tensor input = dx.input(i);
    const bool constant = !input.defined() || !input.requires_grad();
    inputs.push_back(constant ? input : record(Array(input.data()), {input}, pass_on));
    if (!constant) pass.stop_at(inputs.back());
    if (dx.wants(i)) pass.watch(inputs.back());
  }
  const Tensors outputs = compose(inputs);
  for (std::size_t i = 0; i < dys.size(); ++i)
    if (dys[i].defined() && outputs[i].requires_grad()) pass.start(outputs[i], dys[i]);
  pass.run();
  for (Index i = 0; i < dx.count(); ++i)
    if (dx.wants(i))
      if (const Tensor& found = pass.watched(inputs[static_cast<std::size_t>(i)]); found.defined()) dx.add(i, found);
}

}  // namespace qkv
