// Layers that everything is built of: Linear, Embedding, norms, dropout, activations, containers.
#pragma once

#include <optional>
#include <typeinfo>

#include "nn/observer.h"
#include "ops/matmul/linear.h"

namespace qkv::nn {

// Whether the forward of a part may be passed over: it is of the class L itself, as a subclass may have one of its own,
// and nobody changes what goes in or out.
template <class L> bool plain(const L& part) { return typeid(part) == typeid(L) && !called_alone(part); }

// x + y of a residual connection, where y is what the named parts of a layer made of x.
Tensor residual(const char* layer, const char* parts, const Tensor& x, const Tensor& y);

// A ValueError that names the argument of a size below 1; those that are not given are passed over.
void check_positive(const char* layer, std::initializer_list<std::pair<const char*, std::optional<Index>>> sizes);
// p; a ValueError that names the layer's own argument if it is no probability.
double checked_probability(const char* layer, const char* name, double p);

class Linear : public Module {
 public:
  Linear(Index in_features, Index out_features, bool bias = true);
  std::string class_name() const override { return "Linear"; }
  Config config() const override;
  Tensor forward(const Tensor& x) override;
  // activation(forward(x)), in one pass where it can.
  Tensor forward(const Tensor& x, kernels::Activation activation);
  // forward(x) of layers that share an input, as one piece of work where it can be; the first may have an activation
  // after it.
  static Tensors forward_each(std::initializer_list<Linear*> layers, const Tensor& x,
                              std::optional<kernels::Activation> of_first = {});

  const Index in_features, out_features;
  Tensor weight, bias;  // (out, in), (out,)

 private:
  ops::LinearLayer layer(std::optional<kernels::Activation> activation = {});
};

class Embedding : public Module {
 public:
  Embedding(Index num_embeddings, Index embedding_dim, std::optional<Index> padding_idx = {});
  std::string class_name() const override { return "Embedding"; }
  Config config() const override;
  Tensor forward(const Tensor& ids) override;
  Tensor forward_ids(const Array& ids);
  // x @ weight^T + bias, as a Linear layer whose weight is the table.
  Tensor logits(const Tensor& x, const Tensor& bias = {});

  const Index num_embeddings, embedding_dim;
  const std::optional<Index> padding_idx;
  Tensor weight;  // (V, M)
};

class Norm : public Module {
 public:
  using Module::forward;
  // forward(x) in the shape of x; messages name `layer`.
  Tensor forward(const char* layer, const Tensor& x);
  // forward(x + residual), in one pass where it can. The parts of `layer` that are named made the residual of x.
  virtual Tensor forward(const char* layer, const char* parts, const Tensor& x, const Tensor& residual);
};

class LayerNorm : public Norm {
 public:
  explicit LayerNorm(Shape normalized_shape, double eps = 1e-5, bool elementwise_affine = true, bool bias = true);
  std::string class_name() const override { return "LayerNorm"; }
  Config config() const override;
  Tensor forward(const Tensor& x) override;
  Tensor forward(const char* layer, const char* parts, const Tensor& x, const Tensor& residual) override;

  const Shape normalized_shape;
  const double eps;
  Tensor weight, bias;

 private:
  const bool affine_, with_bias_;
};

class RMSNorm : public Norm {
 public:
  using Norm::forward;
  explicit RMSNorm(Shape normalized_shape, double eps = 1e-6);
  std::string class_name() const override { return "RMSNorm"; }
  Config config() const override;
  Tensor forward(const Tensor& x) override;

  const Shape normalized_shape;
  const double eps;
  Tensor weight;
};

class Dropout : public Module {
 public:
  explicit Dropout(double p = 0.5);
  std::string class_name() const override { return "Dropout"; }
  Config config() const override;
  Tensor forward(const Tensor& x) override;

  const double p;
};

class ReLU : public Module {
 public:
  std::string class_name() const override { return "ReLU"; }
  Tensor forward(const Tensor& x) override;
};

class GELU : public Module {
 public:
  explicit GELU(std::string approximate = "none");
  std::string class_name() const override { return "GELU"; }
  Config config() const override;
  Tensor forward(const Tensor& x) override;

 private:
  const std::string approximate_;
};

class Tanh : public Module {
 public:
  std::string class_name() const override { return "Tanh"; }
  Tensor forward(const Tensor& x) override;
};

// Modules under the names "0", "1", ...
class ModuleList : public Module {
 public:
  explicit ModuleList(std::vector<ModulePtr> modules = {});
  std::string class_name() const override { return "ModuleList"; }
  void append(ModulePtr module);
  Index length() const { return static_cast<Index>(entries().size()); }
  ModulePtr at(Index index) const;
};

class Sequential : public ModuleList {
 public:
  using ModuleList::ModuleList;
  std::string class_name() const override { return "Sequential"; }
  Tensor forward(const Tensor& x) override;
};

// A float of another width is cast to the dtype of the parameter.
Tensor as_dtype_of(const Tensor& x, const Tensor& parameter);

}  // namespace qkv::nn
