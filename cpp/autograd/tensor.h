// Tensor: an Array that remembers how it was computed, so that gradients can flow back.
//
// An operation computes its result and, if an input wants a gradient, records a rule:
//
//     Tensor exp(const Tensor& x) {
//       Array y = ...;
//       if (!wants_gradient({x})) return Tensor(y);
//       return record(Array(y), {x}, [y = Saved(y)](const Tensor& dy, TensorGradients& dx) {
//         dx.add(0, times(dy, dx.output(y)));
//       });
//     }
//
// The rule consists of operations on Tensors. backward() and grad() run it without recording, create_graph with: there
// is one statement of each derivative, and both give the same bits. A fused operation has two parts instead
// (record_fused): a pull-back of Arrays, as fast as can be, and a derivation of recorded operations, most often the
// whole operation composed of others (derive_composed), for gradients that are differentiated again.
//
// Rules capture what they need (Saved), never the Tensor that the operation made: that would be a cycle. A node keeps
// where gradients go (Edge), not its inputs: numbers that no rule needs are free.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "autograd/leaf_gradient.h"
#include "autograd/strided.h"
#include "core/locks.h"
#include "core/noncopyable.h"

namespace qkv {

struct Node;
struct PackedMatrix;
struct TensorImpl;
class Tensor;

struct TensorImpl {
  explicit TensorImpl(Array d) : array(std::move(d)) {}
  virtual ~TensorImpl() = default;
  // The numbers, in `array` again if they were in `panels` alone.
  const Array& data() {
    if (in_panels.load(std::memory_order_acquire)) [[unlikely]]
      unpack();
    return array;
  }
  // Makes it another Array, while no other thread computes.
  void set(Array data);

  // What every operation asks is together.
  std::shared_ptr<Node> node;  // what made it; null for leaves
  // Of a view: the Tensor whose memory it shows, which is never a view itself; the latter's `history_version` when
  // `node` was taken; and whether gradients were off when it was made, so that none flow through it.
  std::shared_ptr<TensorImpl> base;
  std::atomic<std::uint32_t> seen_version{0};
  std::uint32_t history_version = 0;  // how often its history has changed: its views then have another one, too
  bool requires_grad = false;         // a leaf that collects its gradient
  // Of a matrix (autograd/packed_matrix.h): its numbers are in `panels` alone; they were, and were asked back.
  std::atomic<bool> in_panels{false}, asked_back{false};
  // A gradient that was computed without its history, or made of such: to differentiate it is an error, as the result
  // would lack what flows through that history.
  bool lacks_history = false;
  bool under_no_grad = false;
  bool is_parameter = false;    // what a module learns, where it is assigned to one
  bool follows_module = false;  // a parameter made without a dtype: the module that it is assigned to decides
  Index output = 0;             // which of the node's outputs it is
  Array array;
  LeafGradient grad;  // of leaves
  Published<PackedMatrix> panels;

 private:
  void unpack();
};

// A handle; copies mean the same Tensor.
class Tensor {
 public:
  Tensor() = default;  // no Tensor at all: defined() is false
  explicit Tensor(Array data, bool requires_grad = false);
  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}

  bool defined() const { return impl_ != nullptr; }
  // The numbers as they lie in memory: of a view perhaps strided, which operations that cannot read such exclude by
  // packed().
  const Array& data() const { return impl_->data(); }
  // The same for those who read no numbers: shape, strides, dtype, whose memory it is.
  const Array& layout() const { return impl_->array; }
  const Shape& shape() const { return impl_->array.shape(); }
  DType dtype() const { return impl_->array.dtype(); }
  Index rank() const { return shape().rank(); }
  Index dim(Index axis) const { return shape().dim(axis); }
  Index numel() const { return impl_->array.numel(); }
  template <class T> T* ptr() const { return data().data<T>(); }  // of packed numbers

  bool is_leaf() const { return current().node == nullptr; }
  bool requires_grad() const { return current().requires_grad || impl_->node != nullptr; }
  const std::shared_ptr<TensorImpl>& impl() const { return impl_; }
  bool operator==(const Tensor& other) const = default;  // the same Tensor
  // With the history that it has now: that of a view follows its base's.
  const TensorImpl& current() const {
    if (impl_->base != nullptr && impl_->seen_version.load(std::memory_order_acquire) != impl_->base->history_version)
      renew();
    return *impl_;
  }

  // The same data without a history.
  Tensor detach() const { return Tensor(data()); }

  // Adds the gradients of this Tensor to the leaves that want them. `gradient` may be left out for one number. With
  // `finished` each leaf has its gradient as soon as nothing more can arrive there, and is then passed to it, while the
  // pass continues; without, all leaves get theirs at the end, or none if the pass fails.
  void backward(const Array& gradient = {}, bool retain_graph = false,
                const std::function<void(const Tensor& leaf)>& finished = {}) const;

 private:
  void renew() const;

  std::shared_ptr<TensorImpl> impl_;
};

// The Tensor itself, or a copy, recorded, if it is a view whose numbers are not one after the other: for
// operations that read them so.
Tensor packed_copy(const Tensor& x);
inline Tensor packed(const Tensor& x) { return x.layout().is_packed() ? x : packed_copy(x); }
// Numbers that stand for what an output of a node is.
Tensor with_history(const Array& numbers, const std::shared_ptr<Node>& node, Index output);

using Tensors = std::vector<Tensor>;

// The gradients of `output` with respect to `inputs`, which need not be leaves; undefined for an input that has no part
// in it. Adds to nobody's grad.
std::vector<Array> gradients_of(const Tensor& output, const Tensors& inputs, const Array& gradient = {},
                                bool retain_graph = false);
// The same as functions of all that they were computed from, `gradient` included: they can be differentiated again. The
// graph is retained, as that of the results leads into it.
Tensors recorded_gradients_of(const Tensor& output, const Tensors& inputs, const Tensor& gradient = {});

// The leaves that require a gradient and that gradients of the output flow to.
Tensors leaves(const Tensor& output);

// The error for a Tensor that lacks its history.
[[noreturn]] void fail_without_history();

// What a Tensor was computed by: an operation, or nothing for a leaf, of which only one that requires a gradient
// counts.
struct History {
  History() = default;
  explicit History(const Tensor& t);

  std::shared_ptr<Node> node;
  Index output = 0;                  // which of the node's outputs it is
  std::shared_ptr<TensorImpl> leaf;  // that requires a gradient
  bool none() const { return node == nullptr && leaf == nullptr; }
};

// Where the gradient of an operation's input goes, as the input was when the operation was recorded.
struct Edge : History {
  Edge() = default;  // an input that is not there
  explicit Edge(const Tensor& input) : History(input) {
    if (!input.defined()) return;
    shape = input.shape();
    dtype = input.dtype();
  }
  bool collects() const { return node != nullptr || (leaf != nullptr && leaf->requires_grad); }

  Shape shape;
  DType dtype = DType::float32;
};

// An Array that a rule needs, and the history of the Tensor that it was, for rules that are recorded. Memory that
// has another owner is copied, since its owner may change it, and a change made through copy_, load_state_dict
// or an optimizer is noticed.
class Saved {
 public:
  Saved() = default;
  explicit Saved(const Array& array);
  explicit Saved(const Tensor& tensor);
  bool defined() const { return array_.defined(); }
  const Array& get() const;
  template <class T> T* data() const { return get().data<T>(); }
  // With its history where operations are recorded.
  Tensor tensor() const;

 private:
  Saved(const Array& array, History history);

  Array array_;
  Buffer::Saver saver_;  // ends before the Array does
  std::uint64_t version_ = 0;
  History history_;
};

// Where a pull-back puts the gradients of its node's inputs.
class Gradients {
 public:
  // Without `wanted` all gradients are that are collected.
  Gradients(const std::vector<Edge>& edges, const std::vector<Saved>& inputs, const std::vector<bool>* wanted)
      : edges_(edges), inputs_(inputs), wanted_(wanted), arrays_(edges.size()) {}
  bool wants(Index input) const {
    const auto i = static_cast<std::size_t>(input);
    return wanted_ == nullptr ? edges_[i].collects() : (*wanted_)[i];
  }
  // An input as it was in the forward pass; undefined where the operation had none.
  const Array& input(Index input) const { return inputs_[static_cast<std::size_t>(input)].get(); }
  // Array of zeros in the shape of the input, or what was there before: add into it.
  Array& of(Index input);
  // Memory of that shape whose numbers the caller writes, all of them, before it asks for another: where nothing came
  // before, filling with zeros and adding would pass through memory twice more. `add` hands it in.
  Array fresh(Index input) const;
  // Adds an Array, which may be shared with others (dy itself, say).
  void add(Index input, Array gradient);
  std::vector<Array>& results() { return arrays_; }

 private:
  const std::vector<Edge>& edges_;
  const std::vector<Saved>& inputs_;
  const std::vector<bool>* const wanted_;
  std::vector<Array> arrays_;
};

// Where a rule puts them, and what it reads.
class TensorGradients {
 public:
  // `wanted` as of Gradients.
  explicit TensorGradients(std::shared_ptr<Node> node, const std::vector<bool>* wanted = nullptr);
  bool wants(Index input) const {
    return wanted_ == nullptr ? edge(input).collects() : (*wanted_)[static_cast<std::size_t>(input)];
  }
  const Shape& shape(Index input) const { return edge(input).shape; }
  DType dtype(Index input) const { return edge(input).dtype; }
  Index count() const { return static_cast<Index>(tensors_.size()); }
  // An input of a fused operation as it was in the forward pass; undefined where the operation had none.
  Tensor input(Index input) const { return (*inputs_)[static_cast<std::size_t>(input)].tensor(); }
  // The node's own (first) output, whose numbers the rule has saved.
  Tensor output(const Saved& numbers) const;
  void add(Index input, Tensor gradient);
  // The same, of what is computed only if it is wanted.
  template <class Compute>
    requires std::is_invocable_v<Compute>
  void add(Index input, Compute&& compute) {
    if (wants(input)) add(input, Tensor(compute()));
  }
  std::vector<Tensor>& results() { return tensors_; }

 private:
  template <class PullBack, class Derive> friend struct FusedStep;
  template <class Compose> friend struct ComposedStep;
  const Edge& edge(Index input) const;

  const std::shared_ptr<Node> node_;
  const std::vector<bool>* const wanted_;
  std::vector<Tensor> tensors_;
  const std::vector<Saved>* inputs_ = nullptr;  // of a fused operation
};

// What one recorded operation does in a backward pass. dys has one entry per output; an entry is not defined if that
// output was never used. Recorded, or not, as the thread's mode says.
struct Step {
  virtual ~Step() = default;
  virtual void backward(std::span<const Tensor> dys, TensorGradients& dx) const = 0;
};

template <class Rule> struct RuleStep final : Step {
  explicit RuleStep(Rule r) : rule(std::move(r)) {}
  void backward(std::span<const Tensor> dys, TensorGradients& dx) const override { rule(dys[0], dx); }
  Rule rule;
};

struct Node {
  std::vector<Edge> inputs;
  std::unique_ptr<const Step> step;
  Index outputs = 1;
  std::uint64_t sequence = 0;  // rises with every recorded operation, so it orders them
  const char* name = nullptr;  // where it is not that of the operation that a caller knows
  bool lacks_history = false;  // of one of the inputs
  bool freed = false;
  int visits = 0;  // of passes that are using the members above
  ~Node();
};

// Runs a pull-back: gradients come as Arrays, packed unless it reads them by their strides, and go as such.
void run_pull_back(std::span<const Tensor> dys, TensorGradients& dx, Gradients gradients,
                   const std::function<void(std::span<const Array>, Gradients&)>& pull_back, bool by_strides);

template <class PullBack, class Derive> struct FusedStep final : Step {
  FusedStep(const Tensors& inputs, PullBack p, Derive d)
      : inputs_(inputs.begin(), inputs.end()), pull_back_(std::move(p)), derive_(std::move(d)) {}
  void backward(std::span<const Tensor> dys, TensorGradients& dx) const override;

  std::vector<Saved> inputs_;
  PullBack pull_back_;
  Derive derive_;
};

bool grad_enabled();
void set_grad_enabled(bool enabled);  // of this thread

class GradMode : NonCopyable {
 public:
  explicit GradMode(bool enabled) : before_(grad_enabled()) { set_grad_enabled(enabled); }
  ~GradMode() { set_grad_enabled(before_); }

 private:
  bool before_;
};

struct NoGrad : GradMode {
  NoGrad() : GradMode(false) {}
};

// True if an operation on these inputs (undefined ones do not count) is to be recorded.
bool wants_gradient(std::initializer_list<std::reference_wrapper<const Tensor>> inputs);
bool wants_gradient(const Tensors& inputs);

Tensors record_step(std::vector<Array> outputs, const Tensors& inputs, std::unique_ptr<const Step> step);
Tensor record_step(Array output, std::span<const Tensor> inputs, std::unique_ptr<const Step> step);

template <class PullBack, class Derive>
void FusedStep<PullBack, Derive>::backward(std::span<const Tensor> dys, TensorGradients& dx) const {
  if (grad_enabled()) {
    dx.inputs_ = &inputs_;
    derive_(dys, dx);
  } else {
    constexpr bool kByStrides = requires { PullBack::kReadsStrides; };
    run_pull_back(dys, dx, {dx.node_->inputs, inputs_, dx.wanted_}, std::cref(pull_back_), kByStrides);
  }
}

// An operation with one output and one rule(dy, dx). The output is a reference, so that the rule of the same call may
// still capture what is moved into it: compilers differ in which argument they make first.
template <class Rule> Tensor record(Array&& output, const Tensors& inputs, Rule rule) {
  return record_step(std::move(output), inputs, std::make_unique<RuleStep<Rule>>(std::move(rule)));
}
template <class Rule> Tensor record(Array&& output, std::initializer_list<Tensor> inputs, Rule rule) {
  return record_step(std::move(output), {inputs.begin(), inputs.size()},
                     std::make_unique<RuleStep<Rule>>(std::move(rule)));
}

// Fused: pull_back(dys, dx) and derive(dys, dx), with spans of Arrays (also strided: kReadsStrides) and of Tensors.
template <class PullBack, class Derive>
Tensors record_many(std::vector<Array> outputs, const Tensors& inputs, PullBack pull_back, Derive derive) {
  return record_step(std::move(outputs), inputs,
                     std::make_unique<FusedStep<PullBack, Derive>>(inputs, std::move(pull_back), std::move(derive)));
}

// With one output: dy instead of dys.
template <class PullBack, class Derive>
Tensor record_fused(Array output, const Tensors& inputs, PullBack pull_back, Derive derive) {
  auto first_back = [pull_back = std::move(pull_back)](std::span<const Array> dys, Gradients& dx) {
    pull_back(dys[0], dx);
  };
  auto first_derived = [derive = std::move(derive)](std::span<const Tensor> dys, TensorGradients& dx) {
    derive(dys[0], dx);
  };
  return record_step(std::move(output), inputs,
                     std::make_unique<FusedStep<decltype(first_back), decltype(first_derived)>>(
                         inputs, std::move(first_back), std::move(first_derived)));
}

// For a derivation: records the outputs again as `compose` makes them of the inputs, and differentiates that.
void derive_composed(std::span<const Tensor> dys, TensorGradients& dx,
                     const std::function<Tensors(const Tensors& inputs)>& compose);

// The same as the derivation of an operation with one output, which `compose` makes of the inputs.
template <class Compose> auto derived_from(Compose compose) {
  return [compose = std::move(compose)](const Tensor& dy, TensorGradients& dx) {
    derive_composed({&dy, 1}, dx, [&](const Tensors& inputs) { return Tensors{compose(inputs)}; });
  };
}

// An operation whose rule is the derivative of what `compose` makes of the same inputs.
template <class Compose> struct ComposedStep final : Step {
  ComposedStep(const Tensors& inputs, Compose c) : inputs_(inputs.begin(), inputs.end()), compose_(std::move(c)) {}
  void backward(std::span<const Tensor> dys, TensorGradients& dx) const override {
    dx.inputs_ = &inputs_;
    derive_composed(dys, dx, [&](const Tensors& inputs) { return Tensors{compose_(inputs)}; });
  }
  std::vector<Saved> inputs_;
  Compose compose_;
};

template <class Compose> Tensor record_composed(Array output, const Tensors& inputs, Compose compose) {
  return record_step(std::move(output), inputs, std::make_unique<ComposedStep<Compose>>(inputs, std::move(compose)));
}
// With several outputs, of which `compose` makes as many.
template <class Compose> Tensors record_composed(std::vector<Array> outputs, const Tensors& inputs, Compose compose) {
  return record_step(std::move(outputs), inputs, std::make_unique<ComposedStep<Compose>>(inputs, std::move(compose)));
}

// For inputs that a derivation reads: the Tensor itself, or a copy of numbers that another owner may change.
inline Tensor owned(Tensor t) { return t.defined() && t.layout().buffer()->borrowed() ? Tensor(cloned(t.data())) : t; }

// y += x, both packed and of equal shape and dtype, in the memory that y has.
void add_packed(const Array& y, const Array& x);
// y += x for arrays of equal shape and dtype; leaves others that share y's memory alone.
void accumulate(Array& y, const Array& x);

}  // namespace qkv
