#include "nn/transformer.h"

#include "core/error.h"
#include "ops/ops.h"

namespace qkv::nn {
namespace {

constexpr BlockNames kEncoder{
    "TransformerEncoderLayer",
    "src",
    {"self_attn", "linear1", "linear_gate", "dropout", "linear2", "norm1", "norm2", "dropout1", "dropout2"},
    {"self_attn and dropout1", "linear1, dropout, linear2 and dropout2"}};
constexpr BlockNames kDecoder{
    "TransformerDecoderLayer",
    "tgt",
    {"self_attn", "multihead_attn", "linear1", "linear_gate", "dropout", "linear2", "norm1", "norm2", "norm3",
     "dropout1", "dropout2", "dropout3"},
    {"self_attn and dropout1", "multihead_attn and dropout2", "linear1, dropout, linear2 and dropout3"}};

Config config_of(const BlockOptions& o) {
  const MultiHeadAttention::Arguments& a = o.attention;
  Config config{{"d_model", a.embed_dim},
                {"nhead", a.num_heads},
                {"dim_feedforward", o.inner},
                {"dropout", o.dropout},
                {"activation", o.activation},
                {"layer_norm_eps", o.norm_eps},
                {"norm_first", o.placement == Placement::pre},
                {"bias", o.bias}};
  if (o.gated) config.emplace_back("gated", true);
  if (o.norm != NormKind::layer) config.emplace_back("norm", std::string(name_of(o.norm)));
  add_differing(config, a.scores);
  return config;
}

BlockOptions with_memory(BlockOptions options) {
  options.memory = true;
  return options;
}

}  // namespace

PositionWiseFFN::PositionWiseFFN(Index d_model, Index dim_feedforward, double p, std::string activation)
    : name_(std::move(activation)), activation_(activation_named("PositionWiseFFN", "activation", name_)) {
  if (p > 1)  // in some textbooks the third argument is the size of the output
    fail_value("PositionWiseFFN: dropout, the third argument, must be from 0 to 1 because the output has d_model = ",
               d_model, " features without being told; got ", p);
  own_module("linear1", linear1, std::make_shared<Linear>(d_model, dim_feedforward));
  own_module("dropout", dropout, std::make_shared<Dropout>(checked_probability("PositionWiseFFN", "dropout", p)));
  own_module("linear2", linear2, std::make_shared<Linear>(dim_feedforward, d_model));
}

Config PositionWiseFFN::config() const {
  return {{"d_model", linear1->in_features},
          {"dim_feedforward", linear1->out_features},
          {"dropout", dropout->p},
          {"activation", name_}};
}

Tensor PositionWiseFFN::forward(const Tensor& x) {
  if (const Observed seen(*this); seen)
    return seen.call(x, [&](const Tensor& y) { return PositionWiseFFN::forward(y); });
  return linear2->forward(dropout->forward(linear1->forward(x, activation_)));
}

AddNorm::AddNorm(Shape normalized_shape, double p, double eps) {
  own_module("dropout", dropout, std::make_shared<Dropout>(checked_probability("AddNorm", "dropout", p)));
  own_module("norm", norm, std::make_shared<LayerNorm>(std::move(normalized_shape), eps));
}

Config AddNorm::config() const {
  return {{"normalized_shape", value_of(norm->normalized_shape)}, {"dropout", dropout->p}, {"eps", norm->eps}};
}

Tensor AddNorm::forward(const Tensor& x, const Tensor& y) {
  if (const Observed seen(*this); seen) return seen.call(x, [&](const Tensor& z) { return AddNorm::forward(z, y); });
  if (x.shape() != y.shape()) fail_value("AddNorm: y must have the shape of x ", x.shape(), "; got y ", y.shape());
  return norm->forward("AddNorm", "dropout", x, dropout->forward(y));
}

TransformerEncoderLayer::TransformerEncoderLayer(const BlockOptions& options, ModulePtr attention)
    : Block(kEncoder, options, std::move(attention)) {}
TransformerDecoderLayer::TransformerDecoderLayer(const BlockOptions& options, ModulePtr attention)
    : Block(kDecoder, with_memory(options), std::move(attention)) {}

Config TransformerEncoderLayer::config() const { return config_of(options); }
Config TransformerDecoderLayer::config() const { return config_of(options); }

template <class L> TransformerStack<L>::TransformerStack(const std::vector<std::shared_ptr<L>>& parts, ModulePtr last) {
  auto list = std::make_shared<ModuleList>();
  for (const auto& part : parts) list->append(part);
  own_module("layers", layers, std::move(list));
  own_module("norm", norm, std::move(last), Absent::allowed);
}

template <class L> Tensor TransformerStack<L>::forward(const Tensor& x) {
  return std::is_same_v<L, TransformerDecoderLayer> ? Module::forward(x)
                                                    : TransformerStack::forward(x, Tensor(), BlockCall());
}

template <class L>
Tensor TransformerStack<L>::forward(const Tensor& x, const Tensor& memory, const BlockCall& call, ModelCache* cache,
                                    Tensors* weights) {
  if (const Observed seen(*this); seen)
    return seen.call(x, [&](const Tensor& y) { return TransformerStack::forward(y, memory, call, cache, weights); });
  const auto blocks = parts();
  CacheStep step(cache, class_name().c_str(), blocks.size());
  Tensor y = through(blocks, x, memory, call, cache, weights);
  if (norm) y = norm->forward(y);
  step.commit();
  return y;
}

template class TransformerStack<TransformerEncoderLayer>;
template class TransformerStack<TransformerDecoderLayer>;

}  // namespace qkv::nn
