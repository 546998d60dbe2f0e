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
        kernels::kernels<T>().elementwise.binary(kernels::Binary::add, z + begin, x + begin, 1, y + begin, 1,
                                                 end - begin);
      });
    });
    if (replace(before, std::move(sum))) return;  // otherwise another thread's part is to be added, too
  }
}

bool LeafGradient::replace(const Array& before, Array array) {
  const Lock lock(mutex_of(this));
  if (array_.buffer() != before.buffer()) return false;
  std::swap(array_, array);
  return true;
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
    throw std::runtime_error(
        text("backward: a Tensor of shape ", array_.shape(),
             " that a gradient needs was changed by copy_, load_state_dict or an optimizer after the forward pass, "
             "or through a NumPy or DLPack view of it"));
  return array_;
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

Tensors record_step(std::vector<Array> outputs, Tensors inputs, std::unique_ptr<const Step> step) {
  std::shared_ptr<Node> node;
  Tensors results;
  results.reserve(outputs.size());
  if (std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.defined() && t.requires_grad(); })) {
    node = std::make_shared<Node>();
    for (const Tensor& input : inputs) {
      if (!input.defined()) continue;
      node->versions += input.data().version();
      node->lacks_history = node->lacks_history || input.impl()->lacks_history;
    }
    node->inputs = std::move(inputs);
    node->step = std::move(step);
    node->sequence = next_sequence.fetch_add(1, std::memory_order_relaxed);
  }
  for (Array& output : outputs) {
    if (node) node->output_shapes.push_back(output.shape());
    Tensor result(std::move(output));
    result.impl()->lacks_history = !node;
    result.impl()->node = node;
    result.impl()->output = static_cast<Index>(results.size());
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace qkv
