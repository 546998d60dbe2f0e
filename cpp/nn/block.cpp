#include "nn/block.h"

#include "core/error.h"
#include "core/parallel.h"
#include "ops/ops.h"

namespace qkv::nn {
namespace {

// A part that is no attention but a module of one argument, which takes no restrictions.
Tensor plain_part(const char* block, Module& part, const Tensor& x, const AttentionCall& call) {
  const MaskSpec& r = call.mask_spec;
  if (r.valid_lens.defined() || r.attn_mask.defined() || r.formula_source || call.weights != nullptr ||
      call.causal.value_or(ops::Causal::none) != ops::Causal::none)
    fail_type(block,
              ": its attention must be one of qkv.nn or a subclass of qkv.nn.Module with a forward of its own, "
              "because masks, lengths, formulas, is_causal and return_weights are passed to it; got ",
              part.class_name());
  if (call.cache == nullptr) return part.forward(x);
  return behind_inputs(part.class_name(), *call.cache, x, [&](const Tensor& all) { return part.forward(all); });
}

Tensor attend(const char* block, Module& part, const Tensor& x, const Tensor& memory, const AttentionCall& call) {
  if (auto* attention = dynamic_cast<AnyAttention*>(&part)) return attention->forward(x, memory, memory, call);
  if (memory.defined()) fail_type(block, ": multihead_attn must be an attention; got ", part.class_name());
  return plain_part(block, part, x, call);
}

// Windows, positions and scores are the self-attention's.
MultiHeadAttention::Arguments to_memory(const MultiHeadAttention::Arguments& own) {
  MultiHeadAttention::Arguments a;
  a.embed_dim = own.embed_dim;
  a.num_heads = own.num_heads;
  a.dropout = own.dropout;
  a.bias = own.bias;
  return a;
}

}  // namespace

const BlockOptions& checked(const char* layer, const BlockOptions& o) {
  const auto& [width, heads] = std::pair(o.attention.embed_dim, o.attention.num_heads);
  if (width < 1 || heads < 1 || o.inner < 1)
    fail_value(layer, ": d_model, nhead and dim_feedforward must be at least 1; got d_model = ", width,
               ", nhead = ", heads, ", dim_feedforward = ", o.inner);
  if (width % heads != 0)
    fail_value(layer, ": d_model must be divisible by nhead; got d_model = ", width, ", nhead = ", heads);
  checked_probability(layer, "dropout", o.dropout);
  return o;
}

Block::Block(const BlockNames& names, const BlockOptions& o, ModulePtr attention)
    : options(checked(names.block, o)),
      names_(names),
      activation_(activation_named(names.block, "activation", o.activation)) {
  const Index width = o.attention.embed_dim;
  for (const std::string name : names.parts) {
    const auto number = static_cast<std::size_t>(name.back() - '0');  // of norms and dropouts
    if (name == "self_attn")
      own_module(name, self_attn, attention ? attention : std::make_shared<MultiHeadAttention>(o.attention));
    else if (name == "multihead_attn")
      own_module(name, multihead_attn, ModulePtr(std::make_shared<MultiHeadAttention>(to_memory(o.attention))));
    else if (name == "linear1") own_module(name, linear1, std::make_shared<Linear>(width, o.inner, o.bias));
    else if (name == "linear2") own_module(name, linear2, std::make_shared<Linear>(o.inner, width, o.bias));
    else if (name.starts_with("norm"))
      own_module(name, norms_[number - 1], make_norm(o.norm, width, o.norm_eps, o.bias));
    else own_module(name, dropouts_[name == "dropout" ? 0 : number], std::make_shared<Dropout>(o.dropout));
  }
}

const AttentionRecord* Block::shown_record() const {
  const auto* attention = dynamic_cast<const AnyAttention*>(shown_attention().get());
  return attention == nullptr ? nullptr : attention->last_call();
}

void Block::check_sequence(const char* name, const Tensor& x) const {
  const Index width = options.attention.embed_dim;
  if ((x.rank() != 3 && x.rank() != 2) || x.dim(-1) != width)
    fail_value(names_.block, ": ", name, " must be (B, L, ", width, ") or (L, ", width, ") because d_model = ", width,
               "; got ", name, " ", x.shape());
}

template <class F> Tensor Block::sublayer(std::size_t number, const Tensor& x, F f) {
  Norm& norm = *norms_[number];
  const char* made_by = names_.sublayers.begin()[number];
  Dropout& dropout = *dropouts_[dropouts_[1] ? number + 1 : 0];
  if (options.norm_first) return residual(names_.block, made_by, x, dropout.forward(f(norm.forward(x))));
  return norm.forward(names_.block, made_by, x, dropout.forward(f(x)));
}

Tensor Block::forward(const Tensor& x) { return multihead_attn ? Module::forward(x) : Block::forward(x, Tensor(), {}); }

Tensor Block::forward(const Tensor& given, const Tensor& memory, const BlockCall& call) {
  if (const Observed seen(*this); seen)
    return seen.call(given, [&](const Tensor& y) { return Block::forward(y, memory, call); });
  check_sequence(names_.input, given);
  if (multihead_attn) {
    check_sequence("memory", memory);
    if (memory.rank() != given.rank())
      fail_value(names_.block, ": memory must have as many axes as ", names_.input, " ", given.shape(), "; got memory ",
                 memory.shape());
  }
  Tensor x = as_dtype_of(given, linear1->weight);
  std::size_t number = 0;
  x = sublayer(number++, x, [&](const Tensor& y) {
    AttentionCall attention{.mask_spec = call.self, .causal = call.causal, .cache = call.cache};
    attention.whole = call.cache != nullptr;
    if (!multihead_attn) attention.weights = call.weights;
    return attend(names_.block, *self_attn, y, Tensor(), attention);
  });
  if (multihead_attn)
    x = sublayer(number++, x, [&](const Tensor& y) {
      return attend(names_.block, *multihead_attn, y, memory,
                    {.mask_spec = call.memory,
                     .memory = call.projected,
                     .record = call.cross,
                     .weights = call.weights,
                     .whole = call.cache != nullptr});
    });
  return sublayer(number, x, [&](const Tensor& y) {
    const Tensor inner = linear1->forward(y, activation_);
    return linear2->forward(dropouts_[1] ? dropouts_[0]->forward(inner) : inner);
  });
}

ModelCache::ModelCache(const std::vector<std::shared_ptr<KVCache>>& caches) : layers(caches.size()) {
  for (std::size_t i = 0; i < caches.size(); ++i) layers[i].cache = caches[i];
}

void ModelCache::reorder(const Array& indices, bool all) {
  for (Layer& layer : layers) {
    layer.cache->reorder(indices);
    if (all) layer.projected.reorder(indices);
  }
}

CacheStep::CacheStep(ModelCache* cache, const char* model, std::size_t count) : cache_(cache) {
  if (cache == nullptr) return;
  if (model != nullptr && cache->layers.size() != count)
    fail_value(model, ": cache must hold one KVCache for each of the ", count, " layers; got ", cache->layers.size());
  if (!cache->layers.empty()) one_thread_.emplace(*cache->layers.front().cache);
  before_ = cache->length();
  if (model == nullptr) return;
  for (const ModelCache::Layer& layer : cache->layers)
    if (layer.cache->length() != before_)
      fail_value(model, ": cache must hold KVCaches of one length because all layers have seen the same tokens; got ",
                 before_, " and ", layer.cache->length());
}

CacheStep::~CacheStep() {
  if (cache_ == nullptr) return;
  for (const ModelCache::Layer& layer : cache_->layers)
    if (layer.cache->length() > before_) layer.cache->truncate(before_);
}

void CacheStep::commit() { cache_ = nullptr; }

void wrong_part(const Module& owner, const char* list, const ModulePtr& part) {
  fail_type(owner.class_name(), ": ", list, " must hold layers of its kind; got ", part ? part->class_name() : "None");
}

Tensor through(const std::vector<std::shared_ptr<Block>>& blocks, Tensor x, const Tensor& memory, BlockCall call,
               ModelCache* cache, Tensors* weights) {
  Tensor own;
  if (weights != nullptr) call.weights = &own;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    throw_if_interrupted();
    if (cache != nullptr) {
      ModelCache::Layer& layer = cache->layers[i];
      call.cache = layer.cache.get();
      call.projected = &layer.projected;
      call.cross = &layer.cross;
    }
    x = blocks[i]->forward(x, memory, call);
    if (weights != nullptr) weights->push_back(own);
  }
  return x;
}

}  // namespace qkv::nn
