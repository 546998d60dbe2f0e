#include "autograd/tensor.h"

#include <algorithm>
#include <atomic>

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

void add_packed(const Array& y, const Array& x) {
  visit_floating(y.dtype(), [&]<class T>(T) {
    T* sum = y.data<T>();
    const T* part = x.data<T>();
    parallel_for(0, y.numel(), grain_for(1), [&](Index begin, Index end) {
      kernels::kernels<T>().elementwise.add_scaled(sum + begin, part + begin, T(1), end - begin);
    });
  });
}

void accumulate(Array& y, const Array& x) {
  if (!y.is_packed()) y = gathered(y);
  y.make_unique();
  add_packed(y, packed(x));
}

History::History(const Tensor& t) {
  if (!t.defined()) return;
  const TensorImpl& now = t.current();
  node = now.node;
  output = now.output;
  if (node == nullptr && now.requires_grad) leaf = t.impl();
}

// A long chain of nodes would otherwise be released by recursion as deep as the chain: each step's own references to
// older nodes go while the edges still hold these.
Node::~Node() {
  step.reset();
  std::vector<Edge> pending = std::move(inputs);
  while (!pending.empty()) {
    const std::shared_ptr<Node> last = std::move(pending.back().node);
    pending.pop_back();
    if (last == nullptr || last.use_count() != 1) continue;
    last->step.reset();
    std::move(last->inputs.begin(), last->inputs.end(), std::back_inserter(pending));
    last->inputs.clear();
  }
}

namespace {

[[noreturn]] void fail_changed(const Shape& shape) {
  fail_runtime("backward: a Tensor of shape ", shape,
               " that a gradient needs was changed by copy_, load_state_dict or an optimizer after the forward pass, "
               "or through a NumPy or DLPack view of it");
}

}  // namespace

Tensor with_history(const Array& numbers, const std::shared_ptr<Node>& node, Index output) {
  Tensor t(numbers);
  t.impl()->node = node;
  t.impl()->output = output;
  return t;
}

Tensor packed_copy(const Tensor& x) {
  const History history(x);
  Array numbers = gathered(x.data());
  if (history.none()) {
    Tensor copy(std::move(numbers));
    copy.impl()->lacks_history = x.impl()->lacks_history;
    return copy;
  }
  if (history.node != nullptr) return with_history(numbers, history.node, history.output);
  if (!wants_gradient({x})) return Tensor(std::move(numbers));
  return record(std::move(numbers), {x}, [](const Tensor& dy, TensorGradients& dx) { dx.add(0, dy); });
}

Saved::Saved(const Array& array, History history) : history_(std::move(history)) {
  if (!array.defined()) return;
  // A small part would keep the whole memory. (A leaf is recognised by its memory.)
  const bool part = history_.leaf == nullptr && 4 * array.bytes() < static_cast<Index>(array.buffer()->bytes());
  array_ = part || array.buffer()->borrowed() ? cloned(array) : array;
  saver_ = Buffer::Saver(*array_.buffer());
  version_ = array_.version();
}

Saved::Saved(const Array& array) : Saved(array.defined() ? packed(array) : array, History()) {}
Saved::Saved(const Tensor& tensor) : Saved(tensor.defined() ? tensor.data() : Array(), History(tensor)) {}

const Array& Saved::get() const {
  if (array_.version() != version_) fail_changed(array_.shape());
  return array_;
}

Tensor Saved::tensor() const {
  if (!defined()) return {};
  const Array& numbers = get();
  if (!grad_enabled() || history_.none()) return Tensor(numbers);
  if (history_.node != nullptr) return with_history(numbers, history_.node, history_.output);
  if (!history_.leaf->array.is(numbers)) fail_changed(numbers.shape());
  return Tensor(history_.leaf);
}

TensorGradients::TensorGradients(std::shared_ptr<Node> node, const std::vector<bool>* wanted)
    : node_(std::move(node)), wanted_(wanted), tensors_(node_->inputs.size()) {}

const Edge& TensorGradients::edge(Index input) const { return node_->inputs[static_cast<std::size_t>(input)]; }

Tensor TensorGradients::output(const Saved& numbers) const {
  return grad_enabled() ? with_history(numbers.get(), node_, 0) : Tensor(numbers.get());
}

void run_pull_back(std::span<const Tensor> dys, TensorGradients& dx, Gradients gradients,
                   const std::function<void(std::span<const Array>, Gradients&)>& pull_back, bool by_strides) {
  std::vector<Array> arriving;
  arriving.reserve(dys.size());
  for (const Tensor& dy : dys) arriving.push_back(!dy.defined() ? Array() : by_strides ? dy.data() : packed(dy.data()));
  pull_back(arriving, gradients);
  for (Index i = 0; i < dx.count(); ++i)
    if (Array& found = gradients.results()[static_cast<std::size_t>(i)]; found.defined())
      dx.add(i, Tensor(std::move(found)));
}

namespace {

// Operations on gradients without history are recorded as far as record_step, which passes on what they are.
template <class List> bool any_wants(const List& inputs) {
  return gradients_enabled && std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) {
           return t.defined() && (t.requires_grad() || t.impl()->lacks_history);
         });
}

}  // namespace

bool wants_gradient(std::initializer_list<std::reference_wrapper<const Tensor>> inputs) { return any_wants(inputs); }
bool wants_gradient(const Tensors& inputs) { return any_wants(inputs); }

namespace {

// Null if no input has a gradient.
std::shared_ptr<Node> new_node(std::span<const Tensor> inputs, std::unique_ptr<const Step> step, Index outputs) {
  if (std::none_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.defined() && t.requires_grad(); }))
    return nullptr;
  auto node = std::make_shared<Node>();
  node->inputs.reserve(inputs.size());
  for (const Tensor& input : inputs) {
    node->inputs.emplace_back(input);
    node->lacks_history = node->lacks_history || (input.defined() && input.impl()->lacks_history);
  }
  node->step = std::move(step);
  node->sequence = next_sequence.fetch_add(1, std::memory_order_relaxed);
  node->outputs = outputs;
  return node;
}

Tensor result_of(std::shared_ptr<Node> node, Index output, Array numbers) {
  Tensor result(std::move(numbers));
  TensorImpl& impl = *result.impl();
  impl.lacks_history = node == nullptr;
  impl.node = std::move(node);
  impl.output = output;
  return result;
}

}  // namespace

Tensors record_step(std::vector<Array> outputs, const Tensors& inputs, std::unique_ptr<const Step> step) {
  const auto node = new_node(inputs, std::move(step), static_cast<Index>(outputs.size()));
  Tensors results;
  results.reserve(outputs.size());
  for (Array& output : outputs)
    results.push_back(result_of(node, static_cast<Index>(results.size()), std::move(output)));
  return results;
}

Tensor record_step(Array output, std::span<const Tensor> inputs, std::unique_ptr<const Step> step) {
  return result_of(new_node(inputs, std::move(step), 1), 0, std::move(output));
}

}  // namespace qkv
