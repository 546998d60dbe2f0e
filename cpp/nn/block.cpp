#include "nn/block.h"

#include <algorithm>
#include <string_view>

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

// Windows, positions and scores are the self-attention's, except for a scale that the block says.
MultiHeadAttention::Arguments to_memory(const MultiHeadAttention::Arguments& own, const std::optional<double>& scale) {
  MultiHeadAttention::Arguments a = own;
  a.causal = ops::Causal::none;
  a.scores = {};
  a.scores.scale = scale;
  return a;
}

constexpr const char* kOutput = "self_attn.out_proj";
constexpr const char* kProjections[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
bool is_projection(std::string_view role) { return std::ranges::find(kProjections, role) != std::end(kProjections); }
std::string last_name(const std::string& path) { return path.substr(path.rfind('.') + 1); }

constexpr const char* kPlacements[] = {"post", "pre", "sandwich", "parallel"};

}  // namespace

Placement placement_named(const char* owner, const std::string& name) {
  for (std::size_t i = 0; i < std::size(kPlacements); ++i)
    if (name == kPlacements[i]) return static_cast<Placement>(i);
  fail_value(owner, ": placement must be \"post\", \"pre\", \"sandwich\" or \"parallel\"; got \"", name, "\"");
}

const char* name_of(Placement placement) { return kPlacements[static_cast<std::size_t>(placement)]; }

// Names are paths through containers: of what a block cannot do without, of the others that it has, and of the
// projections, of which the one after the heads is outside of the attention then.
void check_names(const char* layer, const BlockOptions& o) {
  static constexpr const char* kNeeded[] = {"self_attn", "linear1", "linear2", "dropout1"};
  static constexpr const char* kOthers[] = {kOutput, "norm1", "norm2", "dropout2"};
  const auto among = [](const auto& list, std::string_view role) {
    return std::ranges::find(list, role) != std::end(list);
  };
  if (o.names.empty()) return;
  if (o.memory || o.gated || o.placement == Placement::parallel || o.placement == Placement::sandwich)
    fail_value(layer, ": names must be {} with memory, gated, or such a placement; got some");
  for (const char* role : kNeeded)
    if (!o.names.has(role)) fail_value(layer, ": names must have a path of ", role, "; got none");
  for (const auto& [role, path] : o.names.pairs)
    if (path.empty() || !(among(kNeeded, role) || among(kOthers, role) || is_projection(role)))
      fail_value(layer, ": names must be paths of parts that have one; got \"", path, "\" for ", role);
}

const BlockOptions& checked(const char* layer, const BlockOptions& o) {
  const auto& [width, heads] = std::pair(o.attention.embed_dim, o.attention.num_heads);
  if (width < 1 || heads < 1 || o.inner < 1)
    fail_value(layer, ": d_model, nhead and dim_feedforward must be at least 1; got d_model = ", width,
               ", nhead = ", heads, ", dim_feedforward = ", o.inner);
  if (!o.attention.head_dim && width % heads != 0)
    fail_value(layer, ": d_model must be divisible by nhead; got d_model = ", width, ", nhead = ", heads);
  checked_probability(layer, "dropout", o.dropout);
  checked_probability(layer, "inner_dropout", o.inner_dropout);
  check_names(layer, o);
  if (o.memory && o.placement == Placement::parallel)
    fail_value(layer, ": placement must not be \"parallel\" because a block with memory is not; got both");
  return o;
}

// f(member) for the part of that role.
template <class Parts, class F> void with_role(Parts& p, std::string_view role, F f) {
  const auto number = static_cast<std::size_t>(role.back() - '1');  // of norms and dropouts
  if (role == "self_attn") f(p.self_attn);
  else if (role == "multihead_attn") f(p.multihead_attn);
  else if (role == kOutput) f(p.attention_output);
  else if (role == "linear1") f(p.linear1);
  else if (role == "linear2") f(p.linear2);
  else if (role == "linear_gate") f(p.linear_gate);
  else if (role == "inner_dropout") f(p.inner_dropout);
  else if (role.starts_with("norm")) f(p.norms[number]);
  else if (role.starts_with("post_norm")) f(p.post_norms[number]);
  else f(p.dropouts[role == "dropout" ? 0 : number]);
}

ModulePtr Block::made(std::string_view role, const ModulePtr& attention) const {
  const BlockOptions& o = options;
  const Index width = o.attention.embed_dim;
  const auto number = static_cast<std::size_t>(role.back() - '1');
  const std::size_t sublayers = o.memory ? 3 : 2;
  if (role == "self_attn") {
    if (attention) return attention;
    MultiHeadAttention::Arguments a = o.attention;
    if (o.names.has(kOutput)) a.out_dim = 0;
    for (const char* part : kProjections)
      if (o.names.has(part)) a.names.pairs.emplace_back(last_name(part), last_name(o.names.of(part)));
    return std::make_shared<MultiHeadAttention>(a);
  }
  if (role == "multihead_attn")
    return o.memory ? std::make_shared<MultiHeadAttention>(to_memory(o.attention, o.memory_scale)) : nullptr;
  if (role == kOutput)
    return std::make_shared<Linear>(
        o.attention.head_dim.value_or(width / o.attention.num_heads) * o.attention.num_heads, width,
        o.attention.out_bias.value_or(o.attention.bias));
  if (role == "linear1") return std::make_shared<Linear>(width, o.inner, o.bias);
  if (role == "linear2") return std::make_shared<Linear>(o.inner, width, o.bias);
  if (role == "linear_gate") return o.gated ? std::make_shared<Linear>(width, o.inner, o.bias) : nullptr;
  if (role == "inner_dropout") return std::make_shared<Dropout>(o.inner_dropout);
  if (role != "dropout" && number >= sublayers) return nullptr;
  if (role.starts_with("dropout")) return std::make_shared<Dropout>(o.dropout);
  if (role.starts_with("post") ? o.placement != Placement::sandwich : number == 0 && !o.attention_norm) return nullptr;
  return make_norm(o.norm, width, o.norm_eps, o.norm_bias);
}

Block::Block(const BlockNames& names, const BlockOptions& o, ModulePtr attention)
    : options(checked(names.block, o)),
      names_(names),
      activation_(activation_named(names.block, "activation", o.activation)) {
  for (const auto& [role, path] : o.names.pairs)
    if (!is_projection(role)) place(path, made(role, attention));
  if (!o.names.empty()) return;
  const bool each = std::ranges::find(names.parts, std::string_view("dropout1")) != names.parts.end();
  for (const std::string_view part : names.parts) {
    const std::string_view role = each && part == "dropout" ? "inner_dropout" : part;
    if (role == "inner_dropout" && !each && o.inner_dropout == 0) continue;
    if (const ModulePtr module = made(role, attention))
      with_role(own_, role, [&]<class M>(std::shared_ptr<M>& member) {
        own_module(std::string(part), member, std::dynamic_pointer_cast<M>(module));
      });
  }
}

void Block::place(const std::string& path, ModulePtr part) {
  Module* owner = this;
  std::size_t begin = 0;
  for (std::size_t dot; (dot = path.find('.', begin)) != path.npos; begin = dot + 1) {
    const std::string name = path.substr(begin, dot - begin);
    if (owner->find(name) == nullptr) owner->register_module(name, std::make_shared<Module>());
    owner = owner->find(name)->module.get();
  }
  owner->register_module(path.substr(begin), std::move(part));
}

ModulePtr Block::at(const std::string& path) const {
  ModulePtr found;
  const Module* owner = this;
  for (std::size_t begin = 0, dot = 0; owner != nullptr && dot != path.npos; begin = dot + 1) {
    dot = path.find('.', begin);
    const std::string_view name = std::string_view(path).substr(begin, dot == path.npos ? dot : dot - begin);
    const auto entries = owner->snapshot();
    const auto entry = std::find_if(entries->begin(), entries->end(), [&](const Entry& e) { return e.name == name; });
    found = entry == entries->end() ? nullptr : entry->module;
    owner = found.get();
  }
  return found;
}

Block::Parts Block::parts() const {
  if (options.names.empty()) return own_;
  Parts found;
  for (const auto& name : options.names.pairs) {
    if (is_projection(name.first)) continue;
    with_role(found, name.first, [&, &path = name.second]<class M>(std::shared_ptr<M>& member) {
      const ModulePtr module = at(path);
      member = std::dynamic_pointer_cast<M>(module);
      if (!member)
        fail_type(names_.block, ": ", path, " must be of its own kind because the layer computes with it; got ",
                  module ? module->class_name() : "None");
    });
  }
  return found;
}

ModulePtr Block::shown_attention() const {
  const Parts p = parts();
  return p.multihead_attn ? p.multihead_attn : p.self_attn;
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

const char* Block::made_by(std::size_t number) const {
  const bool last = number + 1 == (options.memory ? 3 : 2);  // the feed-forward network
  return *(last ? names_.sublayers.end() - 1 : names_.sublayers.begin() + number);
}

template <class F> Tensor Block::sublayer(const Parts& p, std::size_t number, const Tensor& x, F f) {
  const std::shared_ptr<Norm>& norm = p.norms[number];
  if (options.placement == Placement::post) {
    const Tensor y = p.dropout(number).forward(f(x));
    return norm ? norm->forward(names_.block, made_by(number), x, y) : residual(names_.block, made_by(number), x, y);
  }
  Tensor y = f(norm ? norm->forward(x) : x);
  if (p.post_norms[number]) y = p.post_norms[number]->forward(names_.block, y);
  return residual(names_.block, made_by(number), x, p.dropout(number).forward(y));
}

Tensor Block::self_attention(const Parts& p, const Tensor& x, const BlockCall& call) {
  AttentionCall attention{.mask_spec = call.self, .causal = call.causal, .cache = call.cache, .rows = call.rows};
  attention.shared = SharedPositions::of(this, call.shared);
  attention.whole = call.cache != nullptr;
  if (!options.memory) attention.weights = call.weights;
  const Tensor y = attend(names_.block, *p.self_attn, x, Tensor(), attention);
  return p.attention_output ? p.attention_output->forward(y) : y;
}

Tensor Block::memory_attention(const Parts& p, const Tensor& x, const Tensor& memory, const BlockCall& call) {
  const Tensor queries = call.rows != nullptr ? unpacked(x, *call.rows) : x;
  const Tensor y = attend(names_.block, *p.multihead_attn, queries, memory,
                          {.mask_spec = call.memory,
                           .memory = call.projected,
                           .record = call.cross,
                           .weights = call.weights,
                           .whole = call.cache != nullptr});
  return call.rows != nullptr ? kept_rows(y, *call.rows) : y;
}

Tensor Block::feed_forward(const Parts& p, const Tensor& x) {
  Tensor inner;
  if (p.linear_gate) {
    const Tensors both = Linear::forward_each({p.linear_gate.get(), p.linear1.get()}, x, activation_);
    inner = ops::multiply(both[0], both[1]);
  } else {
    inner = p.linear1->forward(x, activation_);
  }
  return p.linear2->forward(p.inner_dropout ? p.inner_dropout->forward(inner) : inner);
}

Tensor Block::forward(const Tensor& x) { return options.memory ? Module::forward(x) : Block::forward(x, Tensor(), {}); }

Tensor Block::forward(const Tensor& given, const Tensor& memory, const BlockCall& call) {
  if (const Observed seen(*this); seen)
    return seen.call(given, [&](const Tensor& y) { return Block::forward(y, memory, call); });
  check_sequence(names_.input, given);
  if (options.memory) {
    check_sequence("memory", memory);
    if (memory.rank() != given.rank() && call.rows == nullptr)
      fail_value(names_.block, ": memory must have as many axes as ", names_.input, " ", given.shape(), "; got memory ",
                 memory.shape());
  }
  const Parts p = parts();
  const Tensor x = as_dtype_of(given, p.linear1->weight);
  const auto fed = [&](const Tensor& y) { return feed_forward(p, y); };
  const auto attended = [&](const Tensor& y) { return self_attention(p, y, call); };
  if (options.placement == Placement::parallel) {
    const Tensor a = p.dropout(0).forward(attended(p.norms[0] ? p.norms[0]->forward(x) : x));
    const Tensor f = p.dropout(1).forward(fed(p.norms[1]->forward(x)));
    return residual(names_.block, made_by(0), residual(names_.block, made_by(1), x, f), a);
  }
  const Tensor y = sublayer(p, 0, x, attended);
  if (!options.memory) return sublayer(p, 1, y, fed);
  return sublayer(p, 2, sublayer(p, 1, y, [&](const Tensor& z) { return memory_attention(p, z, memory, call); }), fed);
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
               ModelCache* cache, Tensors* weights, Tensors* states) {
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
    if (states != nullptr) states->push_back(x);
  }
  return x;
}

}  // namespace qkv::nn
