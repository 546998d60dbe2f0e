// Tensor = Array + gradient + the operation that made it.
//
// An operation computes its output Array and, if anyone wants a gradient, records a pull-back:
//
//     Tensor exp(const Tensor& x) {
//       Array y = ...;
//       if (!wants_gradient({x})) return Tensor(y);
//       return record(y, {x}, [y = Saved(y)](const Array& dy, Gradients& dx) { ... add into dx.of(0) ... });
//     }
//
// A pull-back captures data (Saved), never the Tensor that it made: that would be a cycle.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/array.h"

namespace qkv {

struct Node;

// The sum of what backward passes left for a leaf. Several may add to it at once, while others read or replace it.
class LeafGradient {
 public:
  LeafGradient() = default;
  LeafGradient(const LeafGradient& other) : array_(other.get()) {}
  Array get() const;  // not defined before the first backward
  void set(Array array);
  void add(Array part);  // whose memory is nobody else's

 private:
  Array array_;
};

struct TensorImpl {
  explicit TensorImpl(Array d) : data(std::move(d)) {}
  virtual ~TensorImpl() = default;

  Array data;
  LeafGradient grad;           // of leaves
  bool requires_grad = false;  // a leaf that collects its gradient
  std::shared_ptr<Node> node;  // what made it; null for leaves
  Index output = 0;            // which of the node's outputs it is
};

// A handle; copies mean the same Tensor.
class Tensor {
 public:
  Tensor() = default;  // no Tensor at all: defined() is false
  explicit Tensor(Array data, bool requires_grad = false);
  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}

  bool defined() const { return impl_ != nullptr; }
  const Array& data() const { return impl_->data; }
  const Shape& shape() const { return impl_->data.shape(); }
  DType dtype() const { return impl_->data.dtype(); }
  Index rank() const { return shape().rank(); }
  Index dim(Index axis) const { return shape().dim(axis); }
  Index numel() const { return impl_->data.numel(); }
  template <class T> T* ptr() const { return impl_->data.data<T>(); }

  bool is_leaf() const { return impl_->node == nullptr; }
  bool requires_grad() const { return impl_->requires_grad || impl_->node != nullptr; }
  const std::shared_ptr<TensorImpl>& impl() const { return impl_; }

  // The same data without a history.
  Tensor detach() const { return Tensor(impl_->data); }

  // Adds the gradients of this Tensor to the leaves that want them. `gradient` may be left out for one number.
  void backward(const Array& gradient = {}, bool retain_graph = false) const;

 private:
  std::shared_ptr<TensorImpl> impl_;
};

using Tensors = std::vector<Tensor>;

// The gradients of `output` with respect to `inputs`, which need not be leaves; zeros for an input that has no part in
// it. Adds to nobody's grad.
std::vector<Array> gradients_of(const Tensor& output, const Tensors& inputs, const Array& gradient = {},
                                bool retain_graph = false);

// Where a pull-back puts the gradients of its node's inputs.
class Gradients {
 public:
  explicit Gradients(const Tensors& inputs) : inputs_(inputs), arrays_(inputs.size()) {}
  bool wants(Index input) const;
  // Array of zeros in the shape of the input, or what was there before: add into it.
  Array& of(Index input);
  // Memory of that shape whose numbers the caller writes, all of them, before it asks for another: where nothing came
  // before, filling with zeros and adding would pass through memory twice more. `add` hands it in.
  Array fresh(Index input) const;
  // Adds an Array, which may be shared with others (dy itself, say).
  void add(Index input, Array gradient);
  std::vector<Array>& arrays() { return arrays_; }

 private:
  const Tensors& inputs_;
  std::vector<Array> arrays_;
};

// dys has one entry per output; an entry is not defined if that output was never used.
using PullBack = std::function<void(std::span<const Array> dys, Gradients& dx)>;

struct Node {
  Tensors inputs;
  PullBack pull_back;
  std::vector<Shape> output_shapes;
  DType dtype = DType::float32;
  std::uint64_t sequence = 0;  // rises with every recorded operation, so it orders them
  bool freed = false;
  int visits = 0;  // of passes that are using the members above
  ~Node();
};

// A backward pass at a node. Threads may be at one node together, unless one of them is to free it: that one is then the
// last to come, and what the pull-back holds goes when all have left.
class Visit {
 public:
  Visit(Node& node, bool frees);
  ~Visit();
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  void succeeded() { succeeded_ = true; }  // otherwise the node stays as it was

 private:
  Node& node_;
  const bool frees_;
  bool succeeded_ = false;
};

// An Array that a pull-back needs. Memory that belongs to somebody else is copied, since its owner may change it, and a
// change made through copy_, load_state_dict or an optimizer is noticed.
class Saved {
 public:
  Saved() = default;
  explicit Saved(const Array& array);
  explicit Saved(const Tensor& tensor) : Saved(tensor.defined() ? tensor.data() : Array()) {}
  bool defined() const { return array_.defined(); }
  const Array& get() const;
  template <class T> T* data() const { return get().data<T>(); }

 private:
  Array array_;
  std::uint64_t version_ = 0;
};

bool grad_enabled();
void set_grad_enabled(bool enabled);  // of this thread

class NoGrad {
 public:
  NoGrad() : before_(grad_enabled()) { set_grad_enabled(false); }
  ~NoGrad() { set_grad_enabled(before_); }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};

// True if an operation on these inputs (undefined ones do not count) is to be recorded.
bool wants_gradient(std::initializer_list<std::reference_wrapper<const Tensor>> inputs);
bool wants_gradient(const Tensors& inputs);

Tensors record_many(std::vector<Array> outputs, Tensors inputs, PullBack pull_back);

// For operations with one output.
template <class F> Tensor record(Array output, Tensors inputs, F pull_back) {
  return record_many({std::move(output)}, std::move(inputs),
                     [pull_back = std::move(pull_back)](std::span<const Array> dys, Gradients& dx) {
                       pull_back(dys[0], dx);
                     })[0];
}

// y += x for arrays of equal shape and dtype; leaves others that share y's memory alone.
void accumulate(Array& y, const Array& x);

}  // namespace qkv
