#include "nn/basic.h"

#include <cmath>

#include "core/error.h"
#include "core/noncopyable.h"
#include "nn/init.h"
#include "ops/ops.h"

namespace qkv::nn {
namespace {

void check_normalized(const char* layer, const Shape& shape, double eps) {
  if (shape.empty()) fail_value(layer, ": normalized_shape must be a number or a tuple with at least one; got ()");
  for (const Index size : shape)
    if (size < 1) fail_value(layer, ": normalized_shape must hold numbers from 1; got ", shape);
  if (!(eps >= 0) || std::isinf(eps)) fail_value(layer, ": eps must be a number from 0; got ", eps);
}

}  // namespace

Tensor as_dtype_of(const Tensor& x, const Tensor& parameter) { return ops::cast(x, parameter.dtype()); }

Tensor residual(const char* layer, const char* parts, const Tensor& x, const Tensor& y) {
  if (x.shape() != y.shape())  // broadcasting would hide it
    fail_value(layer, ": ", parts, " must keep the shape ", x.shape(), " of the residual connection; got ", y.shape());
  return ops::add(x, y);
}

void check_positive(const char* layer, std::initializer_list<std::pair<const char*, std::optional<Index>>> sizes) {
  for (const auto& [name, size] : sizes)
    if (size && *size < 1) fail_value(layer, ": ", name, " must be at least 1; got ", *size);
}

double checked_probability(const char* layer, const char* name, double p) {
  if (!(p >= 0 && p <= 1)) fail_value(layer, ": ", name, " must be from 0 to 1; got ", p);
  return p;
}

Linear::Linear(Index in, Index out, bool with_bias) : in_features(in), out_features(out) {
  check_positive("Linear", {{"in_features", in}, {"out_features", out}});
  own_parameter("weight", weight, kaiming_parameter({out, in}));
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  own_parameter("bias", bias, with_bias ? uniform_parameter({out}, -bound, bound) : Tensor(), Absent::allowed);
}

Config Linear::config() const {
  return {{"in_features", in_features}, {"out_features", out_features}, {"bias", bias.defined()}};
}

ops::LinearLayer Linear::layer(std::optional<kernels::Activation> activation) {
  return {weight, bias, activation, in_bfloat16()};
}

Tensor Linear::forward(const Tensor& x) {
  if (const Observed seen(*this); seen) return seen.call(x, [&](const Tensor& y) { return Linear::forward(y); });
  const ops::LinearLayer own = layer();
  return std::move(ops::linears(x, {&own, 1}).front());
}

Tensor Linear::forward(const Tensor& x, kernels::Activation f) {
  if (!plain(*this)) return ops::activated(forward(x), f);
  if (const Observed seen(*this); seen) {  // the product alone, which is not made below
    const NoGrad off;
    forward(x);
  }
  const ops::LinearLayer own = layer(f);
  return std::move(ops::linears(x, {&own, 1}).front());
}

Tensors Linear::forward_each(std::initializer_list<Linear*> layers, const Tensor& x,
                             std::optional<kernels::Activation> of_first) {
  std::vector<ops::LinearLayer> parts;
  Tensors results;
  for (Linear* linear : layers)
    if (plain(*linear)) parts.push_back(linear->layer(parts.empty() ? of_first : std::nullopt));
  // What is seen of the first is before its activation.
  const bool apart = of_first && static_cast<bool>(Observed(**layers.begin()));
  if (parts.size() == layers.size() && !apart) {
    results = ops::linears(x, parts);
    std::size_t i = 0;
    for (Linear* linear : layers) {
      if (const Observed seen(*linear); seen) seen.call(x, [&](const Tensor&) { return results[i]; });
      ++i;
    }
    return results;
  }
  for (Linear* linear : layers)
    results.push_back(results.empty() && of_first ? linear->forward(x, *of_first) : linear->forward(x));
  return results;
}

Embedding::Embedding(Index num, Index dim, std::optional<Index> padding)
    : num_embeddings(num), embedding_dim(dim), padding_idx(padding && *padding < 0 ? *padding + num : padding) {
  check_positive("Embedding", {{"num_embeddings", num}, {"embedding_dim", dim}});
  if (padding && (*padding < -num || *padding >= num))
    fail_value("Embedding: padding_idx must be from ", -num, " to ", num - 1, " because there are ", num, " rows; got ",
               *padding);
  Tensor table = normal_parameter({num, dim}, 0, 1);
  if (padding_idx) std::fill_n(table.ptr<float>() + *padding_idx * dim, dim, 0.0f);
  own_parameter("weight", weight, table);
}

Config Embedding::config() const {
  return {{"num_embeddings", num_embeddings}, {"embedding_dim", embedding_dim}, {"padding_idx", value_of(padding_idx)}};
}

Tensor Embedding::forward(const Tensor& ids) {
  if (const Observed seen(*this); seen) return seen.call(ids, [&](const Tensor& y) { return Embedding::forward(y); });
  if (ids.dtype() != DType::int64) fail_type("Embedding: ids must hold integers; got dtype ", ids.dtype());
  return ops::embedding(weight, ids.data(), padding_idx);
}

Tensor Embedding::forward_ids(const Array& ids) {
  if (plain(*this) && !Observer::any()) return ops::embedding(weight, ids, padding_idx);
  const Tensor y = forward(Tensor(ids));
  Shape expected = ids.shape();
  expected.push_back(y.rank() > 0 ? y.dim(-1) : embedding_dim);
  if (y.shape() != expected)
    fail_value("Embedding: forward must return (..., embedding_dim) for ids ", ids.shape(), "; got ", y.shape());
  return y;
}

Tensor Embedding::logits(const Tensor& x, const Tensor& bias) {
  if (x.rank() == 0 || x.dim(-1) != embedding_dim)
    fail_value("Embedding: x must be (..., ", embedding_dim, ") because embedding_dim = ", embedding_dim, "; got x ",
               x.shape());
  if (bias.defined() && bias.shape() != Shape{num_embeddings})
    fail_value("Embedding: bias must be (num_embeddings,) = (", num_embeddings, ",); got bias ", bias.shape());
  const ops::LinearLayer own{weight, bias, {}, in_bfloat16()};
  return std::move(ops::linears(x, {&own, 1}).front());
}

Tensor Norm::forward(const char* layer, const Tensor& x) {
  const Tensor z = forward(x);
  if (z.shape() != x.shape())
    fail_value(layer, ": its norm must keep the shape ", x.shape(), " of its input; got ", z.shape());
  return z;
}

Tensor Norm::forward(const char* layer, const char* parts, const Tensor& x, const Tensor& y) {
  return forward(layer, residual(layer, parts, x, y));
}

LayerNorm::LayerNorm(Shape shape, double e, bool affine, bool with_bias)
    : normalized_shape(std::move(shape)), eps(e), affine_(affine), with_bias_(with_bias) {
  check_normalized("LayerNorm", normalized_shape, eps);
  own_parameter("weight", weight, affine ? constant_parameter(normalized_shape, 1) : Tensor(), Absent::allowed);
  own_parameter("bias", bias, affine && with_bias ? constant_parameter(normalized_shape, 0) : Tensor(),
                Absent::allowed);
}

Config LayerNorm::config() const {
  return {{"normalized_shape", value_of(normalized_shape)},
          {"eps", eps},
          {"elementwise_affine", affine_},
          {"bias", with_bias_}};
}

Tensor LayerNorm::forward(const Tensor& x) {
  if (const Observed seen(*this); seen) return seen.call(x, [&](const Tensor& y) { return LayerNorm::forward(y); });
  return ops::layer_norm(weight.defined() ? as_dtype_of(x, weight) : ops::floating(x), weight, bias, normalized_shape,
                         eps);
}

Tensor LayerNorm::forward(const char* layer, const char* parts, const Tensor& x, const Tensor& y) {
  // Sums of mixed widths have rounding of their own.
  const DType dtype = weight.defined() ? weight.dtype() : x.dtype();
  const bool alike = x.shape() == y.shape() && x.dtype() == dtype && y.dtype() == dtype && is_floating(dtype);
  if (!plain(*this) || !alike) return Norm::forward(layer, parts, x, y);
  const Tensor z = ops::add_layer_norm(x, y, weight, bias, normalized_shape, eps);
  if (const Observed seen(*this); seen) {
    const NoGrad off;
    seen.call(ops::add(x, y), [&](const Tensor&) { return z; });
  }
  return z;
}

RMSNorm::RMSNorm(Shape shape, double e) : normalized_shape(std::move(shape)), eps(e) {
  check_normalized("RMSNorm", normalized_shape, eps);
  own_parameter("weight", weight, constant_parameter(normalized_shape, 1));
}

Config RMSNorm::config() const { return {{"normalized_shape", value_of(normalized_shape)}, {"eps", eps}}; }

Tensor RMSNorm::forward(const Tensor& x) {
  if (const Observed seen(*this); seen) return seen.call(x, [&](const Tensor& y) { return RMSNorm::forward(y); });
  return ops::rms_norm(as_dtype_of(x, weight), weight, normalized_shape, eps);
}

Dropout::Dropout(double probability) : p(checked_probability("Dropout", "p", probability)) {}

Config Dropout::config() const { return {{"p", p}}; }

Tensor Dropout::forward(const Tensor& x) {
  if (const Observed seen(*this); seen) return seen.call(x, [&](const Tensor& y) { return Dropout::forward(y); });
  const Tensor input = ops::floating(x);
  return training() && p > 0 ? ops::dropout(input, p, default_generator()) : input;
}

Tensor ReLU::forward(const Tensor& x) {
  if (const Observed seen(*this); seen) return seen.call(x, [&](const Tensor& y) { return ReLU::forward(y); });
  return ops::relu(x);
}

GELU::GELU(std::string approximate) : approximate_(std::move(approximate)) {
  if (approximate_ != "none" && approximate_ != "tanh")
    fail_value("GELU: approximate must be \"none\" or \"tanh\"; got \"", approximate_, "\"");
}

Config GELU::config() const { return {{"approximate", approximate_}}; }

Tensor GELU::forward(const Tensor& x) {
  if (const Observed seen(*this); seen) return seen.call(x, [&](const Tensor& y) { return GELU::forward(y); });
  return ops::gelu(x, approximate_ == "tanh");
}

Tensor Tanh::forward(const Tensor& x) {
  if (const Observed seen(*this); seen) return seen.call(x, [&](const Tensor& y) { return Tanh::forward(y); });
  return ops::tanh(x);
}

ModuleList::ModuleList(std::vector<ModulePtr> modules) {
  for (ModulePtr& module : modules) append(std::move(module));
}

void ModuleList::append(ModulePtr module) { register_module(std::to_string(length()), std::move(module)); }

ModulePtr ModuleList::at(Index index) const {
  const Index n = length();
  if (index < -n || index >= n)
    throw IndexError(text(class_name(), ": index must be from ", -n, " to ", n - 1, "; got ", index));
  return entries()[static_cast<std::size_t>(index < 0 ? index + n : index)].module;
}

namespace {

// A call of Sequentials within Sequentials takes a part of the stack for each.
class Depth : NonCopyable {
 public:
  Depth() {
    if (++depth_ > kDeepest) {
      --depth_;
      fail_runtime("Sequential: modules must be nested at most ", kDeepest,
                   " deep because a call needs stack for each; got more");
    }
  }
  ~Depth() { --depth_; }

 private:
  static constexpr int kDeepest = 1000;
  static thread_local int depth_;
};

thread_local int Depth::depth_ = 0;

}  // namespace

Tensor Sequential::forward(const Tensor& x) {
  if (const Observed seen(*this); seen) return seen.call(x, [&](const Tensor& y) { return Sequential::forward(y); });
  const Depth depth;
  const auto parts = snapshot();  // a part may append to this module, or remove from it
  Tensor y = x;
  for (const Entry& entry : *parts) {
    if (!entry.module) fail_type(class_name(), ": its parts must be modules to be called; got None as ", entry.name);
    y = entry.module->forward(y);
  }
  return y;
}

}  // namespace qkv::nn
