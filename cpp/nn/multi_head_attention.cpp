#include "nn/multi_head_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "nn/disentangled.h"
#include "nn/watched_attention.h"
#include "ops/ops.h"
#include "ops/position_tables.h"

namespace qkv::nn {
namespace {

using Arguments = MultiHeadAttention::Arguments;

constexpr const char* kParts[] = {"q_proj", "k_proj", "v_proj", "out_proj"};

void check_names(const char* op, const PartNames& names) {
  for (auto pair = names.pairs.begin(); pair != names.pairs.end(); ++pair) {
    const auto& [own, other] = *pair;
    if (std::ranges::find(kParts, own) == std::end(kParts))
      fail_value(op, ": names must be of q_proj, k_proj, v_proj and out_proj; got one of ", own);
    const bool again = std::any_of(names.pairs.begin(), pair, [&](const auto& p) { return p.second == pair->second; });
    if (again || other.empty() || other.find('.') != other.npos ||
        (!names.has(other) && std::ranges::find(kParts, other) != std::end(kParts)))
      fail_value(op, ": names must be distinct names without dots; got \"", other, "\" for ", own);
  }
}

const Arguments& checked(const char* op, const Arguments& a) {
  check_positive(op, {{"embed_dim", a.embed_dim},
                      {"num_heads", a.num_heads},
                      {"kdim", a.kdim},
                      {"vdim", a.vdim},
                      {"num_kv_heads", a.num_kv_heads},
                      {"head_dim", a.head_dim},
                      {"out_dim", a.out_dim == 0 ? std::nullopt : a.out_dim}});
  check_names(op, a.names);
  if (!a.head_dim && a.embed_dim % a.num_heads != 0)
    fail_value(op, ": embed_dim must be divisible by num_heads; got embed_dim = ", a.embed_dim,
               ", num_heads = ", a.num_heads);
  if (a.num_kv_heads && a.num_heads % *a.num_kv_heads != 0)
    fail_value(op, ": num_heads must be divisible by num_kv_heads; got num_heads = ", a.num_heads,
               ", num_kv_heads = ", *a.num_kv_heads);
  checked_probability(op, "dropout", a.dropout);
  checked(op, a.scores);
  const Index head_dim = a.head_dim.value_or(a.embed_dim / a.num_heads);
  if (a.scores.rotary_base && !a.scores.rotary_dim && head_dim % 2 != 0)
    fail_value(op,
               ": head_dim must be even because rotary positions turn pairs of features; got head_dim = ", head_dim);
  if (a.scores.rotary_dim.value_or(0) > head_dim)
    fail_value(op, ": rotary_dim must be at most head_dim = ", head_dim, "; got ", *a.scores.rotary_dim);
  return a;
}

constexpr MultiHeadAttention::Names kNames;
constexpr const char* kNoWholeRows = "comm splits the sequence, and no rank has whole rows of weights";

// (1, R, M) to (B, L, M).
Tensor whole(const Tensor& x, const RaggedRows& rows) { return unpacked(ops::reshape(x, {x.dim(1), x.dim(2)}), rows); }

}  // namespace

bool PartNames::has(std::string_view own) const {
  return std::ranges::find(pairs, own, &std::pair<std::string, std::string>::first) != pairs.end();
}

std::string PartNames::of(std::string_view own) const {
  const auto found = std::ranges::find(pairs, own, &std::pair<std::string, std::string>::first);
  return found == pairs.end() ? std::string(own) : found->second;
}

Value value_of(const PartNames& names) {
  if (names.empty()) return {};
  return nn::Fields(names.pairs.begin(), names.pairs.end());
}

MultiHeadAttention::MultiHeadAttention(const Arguments& a, std::shared_ptr<const SplitSequence> split)
    : MultiHeadAttention(kNames, a) {
  split_sequence.set(std::move(split));
}

MultiHeadAttention::MultiHeadAttention(const Names& names, const Arguments& a)
    : arguments(checked(names.layer, a)),
      kv_heads(a.num_kv_heads.value_or(a.num_heads)),
      head_dim(a.head_dim.value_or(a.embed_dim / a.num_heads)),
      names_(names),
      slopes_(a.scores.alibi ? Tensor(ops::alibi_slopes(a.num_heads)) : Tensor()) {
  const auto own = [&](const char* name, std::shared_ptr<Linear>& member, Index in, Index out, bool bias) {
    own_module(a.names.of(name), member, std::make_shared<Linear>(in, out, bias));
  };
  own(kParts[0], q_proj, a.embed_dim, a.num_heads * head_dim, a.bias);
  own(kParts[1], k_proj, a.kdim.value_or(a.embed_dim), kv_heads * head_dim, a.bias);
  own(kParts[2], v_proj, a.vdim.value_or(a.embed_dim), kv_heads * head_dim, a.bias);
  if (a.out_dim != 0)
    own(kParts[3], out_proj, a.num_heads * head_dim, a.out_dim.value_or(a.embed_dim), a.out_bias.value_or(a.bias));
  if (a.scores.qk_norm) {
    own_module("q_norm", q_norm, make_norm(*a.scores.qk_norm, head_dim, a.scores.qk_norm_eps));
    own_module("k_norm", k_norm, make_norm(*a.scores.qk_norm, head_dim, a.scores.qk_norm_eps));
  }
  if (a.scores.sinks) own_parameter("sinks", sinks, constant_parameter({a.num_heads}, 0));
  if (a.scores.relative_bias) {
    own_module("relative_bias", relative_bias,
               std::make_shared<Embedding>(a.scores.relative_bias->num_buckets, a.num_heads));
    if (!SkipInit::active())
      fill_normal(relative_bias->weight.data(), 0, 1 / std::sqrt(static_cast<double>(a.embed_dim)));
  }
}

Config MultiHeadAttention::config() const {
  Config config = config_of(arguments);
  add_differing(config, arguments.scores);
  return config;
}

// PyTorch keeps the three input projections in one matrix, or under other names where sizes differ.
void MultiHeadAttention::adapt_state(StateDict& state, const std::string& prefix) {
  const Index rows[] = {q_proj->out_features, k_proj->out_features, v_proj->out_features};
  const auto split = [&](const std::string& joined, const char* kind) {
    const auto found = state.find(prefix + joined);
    if (found == state.end()) return;
    const Array whole = found->second;
    if (whole.rank() < 1 || whole.dim(0) != rows[0] + rows[1] + rows[2]) return;  // reported as an unexpected name
    Index row = 0;
    for (std::size_t i = 0; i < 3; row += rows[i++])
      state[prefix + arguments.names.of(kParts[i]) + kind] =
          packed(ops::slice(Tensor(whole), 0, row, row + rows[i]).data());
    state.erase(prefix + joined);
  };
  split("in_proj_weight", ".weight");
  split("in_proj_bias", ".bias");
  for (const char* name : kParts) {
    const auto found = state.find(prefix + name + "_weight");
    if (found == state.end()) continue;
    state[prefix + arguments.names.of(name) + ".weight"] = found->second;
    state.erase(found);
  }
}

void MultiHeadAttention::torch_names(NamedTensors& state, const std::string& prefix) const {
  // Where the three are; fewer where another kind of module replaces one, which PyTorch's has not.
  const auto places = [&](const char* kind) {
    std::vector<std::ptrdiff_t> found;
    for (int i = 0; i < 3; ++i) {
      const auto entry =
          std::ranges::find(state, prefix + arguments.names.of(kParts[i]) + kind, &NamedTensors::value_type::first);
      if (entry != state.end()) found.push_back(entry - state.begin());
    }
    return found;
  };
  const auto join = [&](const char* joined, const std::vector<std::ptrdiff_t>& from) {
    Tensors parts;
    for (const auto i : from) parts.emplace_back(state[i].second.data());
    state[from[0]] = {prefix + joined, ops::concatenate(parts, 0)};
    for (const auto i : {from[2], from[1]}) state.erase(state.begin() + i);
  };
  if (const auto biases = places(".bias"); biases.size() == 3) join("in_proj_bias", biases);
  const auto weights = places(".weight");
  if (weights.size() < 3) return;
  const auto shape = [&](int i) { return state[weights[i]].second.shape(); };
  if (shape(1)[0] != shape(0)[0])
    fail_value("state_dict: ", state[weights[1]].first, " must have ", shape(0)[0],
               " rows because PyTorch's heads do not share keys and values; got ", shape(1));
  if (shape(0) == shape(1) && shape(1) == shape(2)) return join("in_proj_weight", weights);
  for (int i = 0; i < 3; ++i) state[weights[i]].first = prefix + kParts[i] + "_weight";
}

// What a call gives, checked: (B, L, width) each, of which keys and values are not looked at if they are projected
// already.
MultiHeadAttention::Inputs MultiHeadAttention::checked_inputs(const Tensor& queries, const Tensor& keys,
                                                              const Tensor& values, const Call& call) const {
  const char* op = names_.layer;
  Inputs in;
  in.projected = call.memory != nullptr && call.memory->keys.defined();
  in.alone = !keys.defined() && !values.defined();
  const Batched from = batched(op, names_.queries, queries);
  in.queries = from.tensor;
  in.lifted = from.added;
  in.keys = keys.defined() && !in.projected ? batched(op, names_.keys, keys).tensor : in.queries;
  in.values = values.defined() && !in.projected ? batched(op, names_.values, values).tensor : in.keys;
  const auto check = [&](const char* name, const Tensor& x, const char* size_name, Index size) {
    if (x.dim(2) != size)
      fail_value(op, ": ", name, " must be (B, L, ", size, ") because ", size_name, " = ", size, "; got ", name, " ",
                 x.shape());
    if (x.dim(0) != in.queries.dim(0))
      fail_value(op, ": ", name, " must have the batch size of ", names_.queries, " ", in.queries.shape(), "; got ",
                 name, " ", x.shape());
  };
  check(names_.queries, in.queries, names_.widths[0], arguments.embed_dim);
  if (!in.projected) {
    check(names_.keys, in.keys, names_.widths[1], k_proj->in_features);
    check(names_.values, in.values, names_.widths[2], v_proj->in_features);
  }
  if (in.keys.dim(1) != in.values.dim(1))
    fail_value(op, ": ", names_.values, " must be (B, Lk, ", names_.widths[2], ") with Lk = ", in.keys.dim(1),
               " to match ", names_.keys, " ", in.keys.shape(), "; got ", names_.values, " ", in.values.shape());
  return in;
}

MultiHeadAttention::Projections MultiHeadAttention::projected(const Inputs& in, const Call& call) const {
  Projections p;
  if (in.projected) {
    p = {q_proj->forward(in.queries), call.memory->keys, call.memory->values};
  } else if (in.alone) {  // one piece of work
    Tensors all = Linear::forward_each({q_proj.get(), k_proj.get(), v_proj.get()}, in.queries);
    p = {std::move(all[0]), std::move(all[1]), std::move(all[2])};
  } else {
    p = {q_proj->forward(in.queries), k_proj->forward(in.keys), v_proj->forward(in.values)};
  }
  if (q_norm) p.queries = normalized(q_norm, p.queries, arguments.num_heads);
  if (k_norm && !in.projected) p.keys = normalized(k_norm, p.keys, kv_heads);
  if (call.memory != nullptr) *call.memory = {p.keys, p.values};
  return p;
}

Tensor MultiHeadAttention::normalized(const std::shared_ptr<Norm>& norm, const Tensor& x, Index heads) const {
  return ops::reshape(norm->forward(names_.layer, ops::reshape(x, {x.dim(0), x.dim(1), heads, head_dim})), x.shape());
}

Array MultiHeadAttention::positions(const Call& call, const SplitSequence* sequence, ops::Causal causal, Index offset,
                                    Index rows) const {
  if (sequence != nullptr) return sequence->positions(rows, causal);
  if (call.shared != nullptr && call.shared->positions.defined()) return call.shared->positions;
  return ops::consecutive(offset, rows).cast(DType::float64);
}

void MultiHeadAttention::rotate(Projections& p, const Call& call, const SplitSequence* sequence, ops::Causal causal,
                                Index offset) const {
  RotaryTables own;
  RotaryTables& tables = call.shared != nullptr && call.shared->tables != nullptr ? *call.shared->tables : own;
  const auto turned = [&](const Tensor& x, Index heads) {
    const auto [cos, sin] = tables.of(positions(call, sequence, causal, offset, x.dim(1)),
                                      arguments.scores.rotary_dim.value_or(head_dim), arguments.scores, x.dtype());
    const Tensor split = ops::reshape(x, {x.dim(0), x.dim(1), heads, head_dim});
    return ops::reshape(ops::apply_rotary(split, cos, sin, false), x.shape());
  };
  p.queries = turned(p.queries, arguments.num_heads);
  p.keys = turned(p.keys, kv_heads);
}

Tensor MultiHeadAttention::across(const SplitSequence& sequence, const Projections& p,
                                  const ops::AttentionOptions& options) const {
  const auto by_heads = [&](const Tensor& x, Index heads) {
    return ops::swapaxes(ops::reshape(x, {x.dim(0), x.dim(1), heads, head_dim}), 1, 2);
  };
  const Tensor y = sequence.attention(by_heads(p.queries, arguments.num_heads), by_heads(p.keys, kv_heads),
                                      by_heads(p.values, kv_heads), options);
  return ops::reshape(ops::swapaxes(y, 1, 2), {y.dim(0), y.dim(2), arguments.num_heads * head_dim});
}

ops::AttentionOptions MultiHeadAttention::options(MaskSpec mask_spec, const Call& call, Index offset, Index queries,
                                                  Index keys) const {
  const Arguments& a = arguments;
  ops::AttentionOptions o;
  o.operation = names_.layer;
  set_mask_spec(o, std::move(mask_spec), a.dropout, training());
  o.causal = call.causal.value_or(a.causal);
  static_cast<ops::SharedOptions&>(o) = a.scores;
  o.alibi_slopes = slopes_;
  o.sinks = sinks;
  if (o.causal == ops::Causal::lower_right) offset = keys - queries;
  else if (offset > 0) o.q_offset = Array::full({}, DType::int64, offset);
  if (call.shared != nullptr && call.shared->distance_bias.defined()) o.distance_bias = call.shared->distance_bias;
  else if (relative_bias)
    o.distance_bias = relative_bias->forward_ids(distance_buckets(*a.scores.relative_bias, queries, keys, offset));
  o.return_weights = call.weights != nullptr;
  return o;
}

Tensor MultiHeadAttention::forward(const Tensor& queries, const Tensor& keys, const Tensor& values, const Call& given) {
  if (const Observed seen(*this); seen)
    return seen.call(queries, [&](const Tensor& y) { return MultiHeadAttention::forward(y, keys, values, given); });
  const char* op = names_.layer;
  std::optional<Call> lent;
  if (const SharedPositions* shared = SharedPositions::of(this, given.shared); shared != given.shared)
    lent.emplace(given).shared = shared;
  const Call& call = lent ? *lent : given;
  const Inputs in = checked_inputs(queries, keys, values, call);
  const std::shared_ptr<const SplitSequence> sequence = call.whole ? nullptr : split_sequence.get();
  if (sequence && call.cache != nullptr)
    fail_value(op, ": cache must not be given because comm splits the sequence; got both");
  if (sequence && call.weights != nullptr) fail_value(op, ": return_weights must be False because ", kNoWholeRows);
  if (sequence && relative_bias)
    fail_value(op, ": relative_bias must be None because comm splits the sequence; got both");
  std::optional<KVCache::Step> step;
  if (call.cache != nullptr) step.emplace(*call.cache);
  const Index offset = call.cache != nullptr ? call.cache->length() : 0;
  const Index all_keys = sequence ? -1 : offset + (in.projected ? call.memory->keys : in.keys).dim(1);
  const AttentionRecord::Axes axes{!in.lifted, names_.heads};
  Shape weights{in.queries.dim(0), in.queries.dim(1), all_keys};
  if (axes.heads) weights.insert(weights.begin() + 1, arguments.num_heads);
  MaskSpec mask_spec = aligned(op, call.mask_spec, weights, axes);
  Projections p = projected(in, call);       // (B, Lq, H * D), (B, Lk, Hkv * D) twice
  const bool ragged = call.rows != nullptr;  // items attend to themselves
  ops::AttentionOptions o = options(std::move(mask_spec), call, offset, ragged ? call.rows->length : in.queries.dim(1),
                                    ragged ? call.rows->length : all_keys);
  if (arguments.scores.rotary_base) rotate(p, call, sequence.get(), o.causal, offset);
  if (call.shared != nullptr && call.shared->relative_states.defined()) {
    const Tensor& states = call.shared->relative_states;
    o.formula = disentangled_formula(*call.shared->disentangled, *call.shared->distance_rows, p.queries, p.keys,
                                     q_proj->forward(states), k_proj->forward(states), arguments.num_heads,
                                     o.scale.value_or(1 / std::sqrt(static_cast<double>(head_dim))));
  }
  const auto result = [&](const Tensor& y) { return unbatched(out_proj ? out_proj->forward(y) : y, in.lifted); };
  ops::Heads heads{arguments.num_heads, kv_heads, -1};
  if (sequence) {
    record.clear();
    const Watched watch(*this, axes);
    return result(watch.without_weights(op, {p.queries, p.keys, p.values, heads}, kNoWholeRows, [&](const auto& seen) {
      return across(*sequence, {seen.queries, seen.keys, seen.values}, o);
    }));
  }
  if (call.cache != nullptr && ragged) {
    call.cache->append(whole(p.keys, *call.rows), whole(p.values, *call.rows));
  } else if (call.cache != nullptr) {
    const KVCache::Contents all = call.cache->append(p.keys, p.values);
    p.keys = all.keys;
    p.values = all.values;
    heads.length = call.cache->length();
  }
  ops::AttentionOutputs outputs;
  std::shared_ptr<const KeptAttention> kept;
  // Rows are shown as the batch that they are of.
  if (const Watched watch(*this, ragged ? AttentionRecord::Axes{true, names_.heads} : axes); watch) {
    const bool lasting = in.projected || (call.cache != nullptr && !ragged);
    auto seen = watch.attention({p.queries, p.keys, p.values, heads, call.rows, lasting}, std::move(o));
    outputs = std::move(seen.outputs);
    kept = std::move(seen.kept);
  } else if (ragged) {
    outputs.output = ragged_attention(p.queries, p.keys, p.values, *call.rows, heads, o);
    kept = ragged_record(packed(p.queries.data()), packed(p.keys.data()), *call.rows, heads, o);
  } else {
    outputs = ops::packed_attention(p.queries, p.keys, p.values, heads, o);
    kept = AttentionRecord::of(packed(p.queries.data()), packed(p.keys.data()), heads, std::move(o), axes);
  }
  if (call.weights != nullptr) *call.weights = shown_weights(outputs.weights, axes);  // (B, H, Lq, Lk)
  record.keep(kept);
  if (call.record != nullptr) call.record->keep(kept);
  const Tensor y = result(outputs.output);
  if (step) step->commit();
  return y;
}

}  // namespace qkv::nn
