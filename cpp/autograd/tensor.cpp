#include "autograd/tensor.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <queue>
#include <unordered_map>

#include "core/locks.h"
#include "core/parallel.h"
#include "kernels/kernels.h"

namespace qkv {
namespace {

thread_local bool gradients_enabled = true;
std::atomic<std::uint64_t> next_sequence{1};

}  // namespace

bool grad_enabled() { return gradients_enabled; }
void set_grad_enabled(bool enabled) { gradients_enabled = enabled; }

Tensor::Tensor(Array data, bool requires_grad) : impl_(std::make_shared<TensorImpl>(std::move(data))) {
  impl_->requires_grad = requires_grad;
}

void accumulate(Array& y, const Array& x) {
  y.make_unique();
  visit_floating(y.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* sum = y.data<T>();
    const T* part = x.data<T>();
    parallel_for(0, y.numel(), grain_for(1), [&](Index begin, Index end) {
      kernels::kernels<T>().elementwise.add_scaled(sum + begin, part + begin, T(1), end - begin);
    });
  });
}

// Gradients may be passed on without a copy, so several sums can start as the same memory.
static void merge(Array& sum, Array part) {
  if (sum.defined()) accumulate(sum, part);
  else sum = std::move(part);
}

Array LeafGradient::get() const {
  const Lock lock(mutex_of(this));
  return array_;
}

void LeafGradient::set(Array array) {
  const Lock lock(mutex_of(this));
  std::swap(array_, array);  // the old one ends behind the lock
}

void LeafGradient::add(Array part) {
  while (true) {
    Array before;
    {
      const Lock lock(mutex_of(this));
      if (!array_.defined()) {
        array_ = std::move(part);
        return;
      }
      before = array_;
    }
    Array sum(before.shape(), before.dtype());
    visit_floating(sum.dtype(), [&](auto tag) {
      using T = decltype(tag);
      const T *x = before.data<T>(), *y = part.data<T>();
      T* z = sum.data<T>();
      parallel_for(0, sum.numel(), grain_for(1), [&](Index begin, Index end) {
        kernels::kernels<T>().elementwise.binary(kernels::Binary::add, z + begin, x + begin, 1, y + begin, 1, end - begin);
      });
    });
    const Lock lock(mutex_of(this));
    if (array_.buffer() != before.buffer()) continue;  // another thread was faster: its part is to be added, too
    std::swap(array_, sum);
    return;
  }
}

Visit::Visit(Node& node, bool frees) : node_(node), frees_(frees) {
  const Lock lock(mutex_of(&node));
  if (node.freed)
    throw std::runtime_error(
        "backward: the graph was freed by an earlier backward; pass retain_graph=True there to go through it twice");
  node.freed = frees;
  ++node.visits;
}

Visit::~Visit() {
  PullBack pull_back;
  Tensors inputs;
  const Lock lock(mutex_of(&node_));
  if (frees_ && !succeeded_) node_.freed = false;
  if (--node_.visits > 0 || !node_.freed) return;
  pull_back.swap(node_.pull_back);
  inputs.swap(node_.inputs);
}

// A long chain of nodes would otherwise be released by recursion as deep as the chain.
Node::~Node() {
  Tensors pending = std::move(inputs);
  while (!pending.empty()) {
    Tensor last = std::move(pending.back());
    pending.pop_back();
    if (!last.defined() || last.impl().use_count() > 1 || last.impl()->node.use_count() != 1) continue;
    Tensors& deeper = last.impl()->node->inputs;
    std::move(deeper.begin(), deeper.end(), std::back_inserter(pending));
    deeper.clear();
  }
}

Saved::Saved(const Array& array) {
  if (!array.defined()) return;
  array_ = array.buffer()->borrowed() ? array.clone() : array;
  version_ = array_.version();
}

const Array& Saved::get() const {
  if (array_.version() != version_)
    throw std::runtime_error(text(
        "backward: a Tensor of shape ", array_.shape(),
        " that a gradient needs was changed by copy_, load_state_dict or an optimizer after the forward pass, "
        "or through a NumPy or DLPack view of it"));
  return array_;
}

bool wants_gradient(std::initializer_list<std::reference_wrapper<const Tensor>> inputs) {
  if (!gradients_enabled) return false;
  return std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.defined() && t.requires_grad(); });
}

bool wants_gradient(const Tensors& inputs) {
  if (!gradients_enabled) return false;
  return std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.defined() && t.requires_grad(); });
}

Tensors record_many(std::vector<Array> outputs, Tensors inputs, PullBack pull_back) {
  auto node = std::make_shared<Node>();
  node->inputs = std::move(inputs);
  node->pull_back = std::move(pull_back);
  node->dtype = outputs.front().dtype();
  node->sequence = next_sequence.fetch_add(1, std::memory_order_relaxed);
  Tensors results;
  results.reserve(outputs.size());
  for (Array& output : outputs) {
    node->output_shapes.push_back(output.shape());
    Tensor result(std::move(output));
    result.impl()->node = node;
    result.impl()->output = static_cast<Index>(results.size());
    results.push_back(std::move(result));
  }
  return results;
}

bool Gradients::wants(Index input) const {
  const Tensor& t = inputs_[static_cast<std::size_t>(input)];
  return t.defined() && t.requires_grad();
}

Array& Gradients::of(Index input) {
  Array& array = arrays_[static_cast<std::size_t>(input)];
  const Tensor& t = inputs_[static_cast<std::size_t>(input)];
  if (!array.defined()) array = Array::zeros(t.shape(), t.dtype());
  else array.make_unique();
  return array;
}

Array Gradients::fresh(Index input) const {
  const Tensor& t = inputs_[static_cast<std::size_t>(input)];
  return Array(t.shape(), t.dtype());
}

void Gradients::add(Index input, Array gradient) {
  Array& array = arrays_[static_cast<std::size_t>(input)];
  merge(array, std::move(gradient));
}

namespace {

// One run through the graph, from the newest operation to the oldest.
class Backward {
 public:
  Backward(const Tensor& output, const Array& gradient, bool retain_graph) : retain_graph_(retain_graph) {
    if (!output.requires_grad())
      throw std::runtime_error("backward: this Tensor has no gradient because nothing that it was made of requires one");
    send(output, seed(output, gradient));
  }

  // Gradients that arrive at this Tensor are kept for the caller.
  void watch(const Tensor& tensor) { watched_.emplace(key(tensor), Array()); }

  void run() {
    while (!waiting_.empty()) {
      throw_if_interrupted();
      const std::shared_ptr<Node> node = waiting_.top();
      waiting_.pop();
      std::vector<Array> dys = std::move(arriving_.at(node.get()));
      arriving_.erase(node.get());
      for (std::size_t i = 0; i < dys.size(); ++i) {
        const auto watched = watched_.find({node.get(), static_cast<Index>(i)});
        if (watched != watched_.end()) watched->second = dys[i];
      }
      Visit visit(*node, !retain_graph_);
      Gradients dx(node->inputs);
      node->pull_back(dys, dx);
      for (std::size_t i = 0; i < node->inputs.size(); ++i)
        if (dx.arrays()[i].defined() && dx.wants(static_cast<Index>(i))) send(node->inputs[i], std::move(dx.arrays()[i]));
      visit.succeeded();
    }
  }

  Array& watched(const Tensor& tensor) { return watched_.at(key(tensor)); }
  auto& leaves() { return leaves_; }

 private:
  using Key = std::pair<const void*, Index>;
  static Key key(const Tensor& t) {
    return t.is_leaf() ? Key{t.impl().get(), -1} : Key{t.impl()->node.get(), t.impl()->output};
  }

  static Array seed(const Tensor& output, const Array& gradient) {
    if (gradient.defined()) {
      if (gradient.shape() != output.shape())
        fail_value("backward: gradient must be ", output.shape(), " because the Tensor is; got gradient ", gradient.shape());
      return gradient.cast(output.dtype());
    }
    if (output.numel() != 1)
      throw std::runtime_error(text("backward: gradient must be given because the Tensor has more than one element; got a Tensor ",
                                    output.shape(), " and no gradient"));
    return Array::full(output.shape(), output.dtype(), 1.0);
  }

  void send(const Tensor& to, Array gradient) {
    const auto& node = to.impl()->node;
    if (node == nullptr) {
      const auto watched = watched_.find(key(to));
      if (watched != watched_.end()) merge(watched->second, gradient);
      auto& [leaf, sum] = leaves_[to.impl().get()];
      leaf = to;
      merge(sum, std::move(gradient));
      return;
    }
    const auto [entry, first] = arriving_.try_emplace(node.get(), node->output_shapes.size());
    if (first) waiting_.push(node);
    merge(entry->second[static_cast<std::size_t>(to.impl()->output)], std::move(gradient));
  }

  struct Older {
    bool operator()(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) const { return a->sequence < b->sequence; }
  };

  bool retain_graph_;
  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>, Older> waiting_;
  std::unordered_map<const Node*, std::vector<Array>> arriving_;
  std::unordered_map<const TensorImpl*, std::pair<Tensor, Array>> leaves_;
  std::map<Key, Array> watched_;
};

}  // namespace

void Tensor::backward(const Array& gradient, bool retain_graph) const {
  Backward pass(*this, gradient, retain_graph);
  pass.run();
  const Uninterrupted whole;  // all leaves or none
  for (auto& [impl, entry] : pass.leaves()) {
    auto& [leaf, sum] = entry;
    sum.make_unique();
    leaf.impl()->grad.add(std::move(sum));
  }
}

std::vector<Array> gradients_of(const Tensor& output, const Tensors& inputs, const Array& gradient, bool retain_graph) {
  Backward pass(output, gradient, retain_graph);
  for (const Tensor& input : inputs) pass.watch(input);
  pass.run();
  std::vector<Array> results;
  for (const Tensor& input : inputs) {
    const Array& found = pass.watched(input);
    results.push_back(found.defined() ? found : Array::zeros(input.shape(), input.dtype()));
  }
  return results;
}

}  // namespace qkv
