#include "nn/transformer.h"

#include "core/error.h"
#include "core/parallel.h"
#include "ops/ops.h"

namespace qkv::nn {
namespace {

Config config_of(const TransformerArguments& a) {
  return {{"d_model", a.d_model},
          {"nhead", a.nhead},
          {"dim_feedforward", a.dim_feedforward},
          {"dropout", a.dropout},
          {"activation", a.activation},
          {"layer_norm_eps", a.layer_norm_eps},
          {"norm_first", a.norm_first},
          {"bias", a.bias}};
}

const TransformerArguments& checked(const char* layer, const TransformerArguments& a) {
  if (a.d_model < 1 || a.nhead < 1 || a.dim_feedforward < 1)
    fail_value(layer, ": d_model, nhead and dim_feedforward must be at least 1; got d_model = ", a.d_model,
               ", nhead = ", a.nhead, ", dim_feedforward = ", a.dim_feedforward);
  if (a.d_model % a.nhead != 0)
    fail_value(layer, ": d_model must be divisible by nhead; got d_model = ", a.d_model, ", nhead = ", a.nhead);
  checked_probability(layer, "dropout", a.dropout);
  return a;
}

std::shared_ptr<MultiHeadAttention> attention_of(const TransformerArguments& a) {
  MultiHeadAttention::Arguments attention;
  attention.embed_dim = a.d_model;
  attention.num_heads = a.nhead;
  attention.dropout = a.dropout;
  attention.bias = a.bias;
  return std::make_shared<MultiHeadAttention>(attention);
}

std::shared_ptr<LayerNorm> norm_of(const TransformerArguments& a) {
  return std::make_shared<LayerNorm>(Shape{a.d_model}, a.layer_norm_eps, true, a.bias);
}

void check_sequence(const char* layer, const char* name, const Tensor& x, Index d_model) {
  if ((x.rank() != 3 && x.rank() != 2) || x.dim(-1) != d_model)
    fail_value(layer, ": ", name, " must be (B, L, ", d_model, ") or (L, ", d_model, ") because d_model = ", d_model,
               "; got ", name, " ", x.shape());
}

}  // namespace

Activation activation_named(const char* layer, const std::string& name) {
  if (name == "relu") return Activation::relu;
  if (name == "gelu") return Activation::gelu;
  fail_value(layer, ": activation must be \"relu\" or \"gelu\"; got \"", name, "\"");
}

PositionWiseFFN::PositionWiseFFN(Index d_model, Index dim_feedforward, double p, std::string activation)
    : name_(std::move(activation)), activation_(activation_named("PositionWiseFFN", name_)) {
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
  if (x.shape() != y.shape()) fail_value("AddNorm: y must have the shape of x ", x.shape(), "; got y ", y.shape());
  return norm->forward("AddNorm", "dropout", x, dropout->forward(y));
}

TransformerEncoderLayer::TransformerEncoderLayer(const TransformerArguments& a)
    : arguments(checked("TransformerEncoderLayer", a)),
      activation_(activation_named("TransformerEncoderLayer", a.activation)) {
  own_module("self_attn", self_attn, attention_of(a));
  own_module("linear1", linear1, std::make_shared<Linear>(a.d_model, a.dim_feedforward, a.bias));
  own_module("dropout", dropout, std::make_shared<Dropout>(a.dropout));
  own_module("linear2", linear2, std::make_shared<Linear>(a.dim_feedforward, a.d_model, a.bias));
  own_module("norm1", norm1, norm_of(a));
  own_module("norm2", norm2, norm_of(a));
  own_module("dropout1", dropout1, std::make_shared<Dropout>(a.dropout));
  own_module("dropout2", dropout2, std::make_shared<Dropout>(a.dropout));
}

Config TransformerEncoderLayer::config() const { return config_of(arguments); }

Tensor TransformerEncoderLayer::attention_block(const Tensor& x, const MultiHeadAttention::Call& call) {
  return dropout1->forward(self_attn->forward(x, Tensor(), Tensor(), call));
}

Tensor TransformerEncoderLayer::feed_forward_block(const Tensor& x) {
  return dropout2->forward(linear2->forward(dropout->forward(linear1->forward(x, activation_))));
}

Tensor TransformerEncoderLayer::forward(const Tensor& src, const Restriction& restriction, ops::Causal causal,
                                        Tensor* weights) {
  check_sequence("TransformerEncoderLayer", "src", src, arguments.d_model);
  MultiHeadAttention::Call call;
  call.restriction = restriction;
  call.causal = causal;
  call.weights = weights;
  const Tensor x = as_dtype_of(src, linear1->weight);
  const char *layer = "TransformerEncoderLayer", *attention = "self_attn and dropout1",
             *inner = "linear1, dropout, linear2 and dropout2";
  if (arguments.norm_first) {
    const Tensor y = residual(layer, attention, x, attention_block(norm1->forward(x), call));
    return residual(layer, inner, y, feed_forward_block(norm2->forward(y)));
  }
  const Tensor y = norm1->forward(layer, attention, x, attention_block(x, call));
  return norm2->forward(layer, inner, y, feed_forward_block(y));
}

TransformerDecoderLayer::TransformerDecoderLayer(const TransformerArguments& a)
    : arguments(checked("TransformerDecoderLayer", a)),
      activation_(activation_named("TransformerDecoderLayer", a.activation)) {
  own_module("self_attn", self_attn, attention_of(a));
  own_module("multihead_attn", multihead_attn, attention_of(a));
  own_module("linear1", linear1, std::make_shared<Linear>(a.d_model, a.dim_feedforward, a.bias));
  own_module("dropout", dropout, std::make_shared<Dropout>(a.dropout));
  own_module("linear2", linear2, std::make_shared<Linear>(a.dim_feedforward, a.d_model, a.bias));
  own_module("norm1", norm1, norm_of(a));
  own_module("norm2", norm2, norm_of(a));
  own_module("norm3", norm3, norm_of(a));
  own_module("dropout1", dropout1, std::make_shared<Dropout>(a.dropout));
  own_module("dropout2", dropout2, std::make_shared<Dropout>(a.dropout));
  own_module("dropout3", dropout3, std::make_shared<Dropout>(a.dropout));
}

Config TransformerDecoderLayer::config() const { return config_of(arguments); }

Tensor TransformerDecoderLayer::forward(const Tensor& tgt, const Tensor& memory, const Call& call) {
  check_sequence("TransformerDecoderLayer", "tgt", tgt, arguments.d_model);
  check_sequence("TransformerDecoderLayer", "memory", memory, arguments.d_model);
  if (memory.rank() != tgt.rank())
    fail_value("TransformerDecoderLayer: memory must have as many axes as tgt ", tgt.shape(), "; got memory ",
               memory.shape());
  const auto self_block = [&](const Tensor& x) {
    MultiHeadAttention::Call attention;
    attention.restriction = call.self;
    attention.causal = call.causal;
    attention.cache = call.cache;
    return dropout1->forward(self_attn->forward(x, Tensor(), Tensor(), attention));
  };
  const auto cross_block = [&](const Tensor& x) {
    MultiHeadAttention::Call attention;
    attention.restriction = call.memory;
    attention.memory = call.projected;
    attention.record = call.cross;
    attention.weights = call.weights;
    return dropout2->forward(multihead_attn->forward(x, memory, memory, attention));
  };
  const auto feed_forward = [&](const Tensor& x) {
    return dropout3->forward(linear2->forward(dropout->forward(linear1->forward(x, activation_))));
  };
  Tensor x = as_dtype_of(tgt, linear1->weight);
  const char *layer = "TransformerDecoderLayer", *own = "self_attn and dropout1",
             *cross = "multihead_attn and dropout2", *inner = "linear1, dropout, linear2 and dropout3";
  if (arguments.norm_first) {
    x = residual(layer, own, x, self_block(norm1->forward(x)));
    x = residual(layer, cross, x, cross_block(norm2->forward(x)));
    return residual(layer, inner, x, feed_forward(norm3->forward(x)));
  }
  x = norm1->forward(layer, own, x, self_block(x));
  x = norm2->forward(layer, cross, x, cross_block(x));
  return norm3->forward(layer, inner, x, feed_forward(x));
}

template <class L> TransformerStack<L>::TransformerStack(std::vector<std::shared_ptr<L>> parts, ModulePtr last) {
  auto list = std::make_shared<ModuleList>();
  for (auto& part : parts) list->append(std::move(part));
  own_module("layers", layers, std::move(list));
  own_module("norm", norm, std::move(last), Absent::allowed);
}

template <class L> std::vector<std::shared_ptr<L>> TransformerStack<L>::parts() const {
  std::vector<std::shared_ptr<L>> found;
  const auto entries = layers->snapshot();
  for (const Entry& entry : *entries) {
    auto part = std::dynamic_pointer_cast<L>(entry.module);
    if (!part)
      fail_type(class_name(), ": layers must hold layers of its kind; got ",
                entry.module ? entry.module->class_name() : "None");
    found.push_back(std::move(part));
  }
  return found;
}

template class TransformerStack<TransformerEncoderLayer>;
template class TransformerStack<TransformerDecoderLayer>;

Tensor TransformerEncoder::forward(const Tensor& src, const Restriction& restriction, ops::Causal causal,
                                   Tensors* weights) {
  Tensor x = src, own;
  for (const auto& layer : parts()) {
    throw_if_interrupted();
    x = layer->forward(x, restriction, causal, weights == nullptr ? nullptr : &own);
    if (weights != nullptr) weights->push_back(own);
  }
  return finished(x);
}

Tensor TransformerDecoder::forward(const Tensor& tgt, const Tensor& memory, const TransformerDecoderLayer::Call& given,
                                   std::span<LayerState> states, Tensors* weights) {
  TransformerDecoderLayer::Call call = given;
  Tensor x = tgt, own;
  if (weights != nullptr) call.weights = &own;
  std::size_t i = 0;
  for (const auto& layer : parts()) {
    throw_if_interrupted();
    if (!states.empty()) {
      call.cache = states[i].cache.get();
      call.projected = &states[i].projected;
      call.cross = &states[i].cross;
      ++i;
    }
    x = layer->forward(x, memory, call);
    if (weights != nullptr) weights->push_back(own);
  }
  return finished(x);
}

}  // namespace qkv::nn
