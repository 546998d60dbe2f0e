#include "nn/multi_head_attention.h"

#include <cmath>
#include <cstring>

#include "core/error.h"
#include "nn/self_attention.h"
#include "ops/ops.h"
#include "ops/position_tables.h"

namespace qkv::nn {
namespace {

using Arguments = MultiHeadAttention::Arguments;

const Arguments& checked(const Arguments& a) {
  const char* op = "MultiHeadAttention";
  const auto positive = [&](const char* name, Index value) {
    if (value < 1) fail_value(op, ": ", name, " must be at least 1; got ", value);
  };
  positive("embed_dim", a.embed_dim);
  positive("num_heads", a.num_heads);
  if (a.kdim) positive("kdim", *a.kdim);
  if (a.vdim) positive("vdim", *a.vdim);
  if (a.num_kv_heads) positive("num_kv_heads", *a.num_kv_heads);
  if (a.head_dim) positive("head_dim", *a.head_dim);
  if (a.out_dim) positive("out_dim", *a.out_dim);
  if (!a.head_dim && a.embed_dim % a.num_heads != 0)
    fail_value(op, ": embed_dim must be divisible by num_heads; got embed_dim = ", a.embed_dim,
               ", num_heads = ", a.num_heads);
  if (a.num_kv_heads && a.num_heads % *a.num_kv_heads != 0)
    fail_value(op, ": num_heads must be divisible by num_kv_heads; got num_heads = ", a.num_heads,
               ", num_kv_heads = ", *a.num_kv_heads);
  checked_probability(op, "dropout", a.dropout);
  if (a.scale && !std::isfinite(*a.scale)) fail_value(op, ": scale must be a finite number; got ", *a.scale);
  if (a.rotary_base && !(*a.rotary_base > 0))
    fail_value(op, ": rotary_base must be a positive number; got ", *a.rotary_base);
  const Index head_dim = a.head_dim.value_or(a.embed_dim / a.num_heads);
  if (a.rotary_base && head_dim % 2 != 0)
    fail_value(op,
               ": head_dim must be even because rotary positions turn pairs of features; got head_dim = ", head_dim);
  return a;
}

Array consecutive(Index first, Index count) {
  Array positions(Shape{count}, DType::float64);
  for (Index i = 0; i < count; ++i) positions.data<double>()[i] = static_cast<double>(first + i);
  return positions;
}

}  // namespace

void ProjectedMemory::reorder(const Array& indices) {
  if (!keys.defined()) return;
  keys = Tensor(ops::embedding(ops::reshape(keys, {keys.dim(0), -1}), indices, {})
                    .data()
                    .reshaped({indices.numel(), keys.dim(1), keys.dim(2)}));
  values = Tensor(ops::embedding(ops::reshape(values, {values.dim(0), -1}), indices, {})
                      .data()
                      .reshaped({indices.numel(), values.dim(1), values.dim(2)}));
}

MultiHeadAttention::MultiHeadAttention(const Arguments& a)
    : arguments(checked(a)),
      kv_heads(a.num_kv_heads.value_or(a.num_heads)),
      head_dim(a.head_dim.value_or(a.embed_dim / a.num_heads)) {
  const auto linear = [](Index in, Index out, bool bias) { return std::make_shared<Linear>(in, out, bias); };
  own_module("q_proj", q_proj, linear(a.embed_dim, a.num_heads * head_dim, a.bias));
  own_module("k_proj", k_proj, linear(a.kdim.value_or(a.embed_dim), kv_heads * head_dim, a.bias));
  own_module("v_proj", v_proj, linear(a.vdim.value_or(a.embed_dim), kv_heads * head_dim, a.bias));
  own_module("out_proj", out_proj,
             linear(a.num_heads * head_dim, a.out_dim.value_or(a.embed_dim), a.out_bias.value_or(a.bias)));
}

Config MultiHeadAttention::config() const {
  const auto optional = [](const auto& x) { return x ? Value(*x) : Value(); };
  const Arguments& a = arguments;
  Value window;
  if (a.window) window = std::vector<Index>{a.window->first, a.window->second};
  return {{"embed_dim", a.embed_dim},
          {"num_heads", a.num_heads},
          {"dropout", a.dropout},
          {"bias", a.bias},
          {"out_bias", optional(a.out_bias)},
          {"kdim", optional(a.kdim)},
          {"vdim", optional(a.vdim)},
          {"num_kv_heads", optional(a.num_kv_heads)},
          {"head_dim", optional(a.head_dim)},
          {"out_dim", optional(a.out_dim)},
          {"is_causal", causal_value(a.causal)},
          {"scale", optional(a.scale)},
          {"masked_value", optional(a.masked_value)},
          {"window", window},
          {"rotary_base", optional(a.rotary_base)}};
}

// PyTorch keeps the three input projections in one matrix, or under other names where sizes differ.
void MultiHeadAttention::adapt_state(StateDict& state, const std::string& prefix) {
  const char* names[] = {"q_proj", "k_proj", "v_proj"};
  const Index rows[] = {q_proj->out_features, k_proj->out_features, v_proj->out_features};
  const auto split = [&](const std::string& joined, const char* kind) {
    const auto found = state.find(prefix + joined);
    if (found == state.end()) return;
    const Array whole = found->second;
    if (whole.rank() < 1 || whole.dim(0) != rows[0] + rows[1] + rows[2]) return;  // reported as an unexpected name
    Index row = 0;
    const Index row_bytes = whole.dim(0) == 0 ? 0 : whole.bytes() / whole.dim(0);
    for (int i = 0; i < 3; ++i) {
      Shape shape = whole.shape();
      shape[0] = rows[i];
      Array part(shape, whole.dtype());
      std::memcpy(part.raw(), static_cast<const char*>(whole.raw()) + row * row_bytes,
                  static_cast<std::size_t>(part.bytes()));
      state[prefix + names[i] + kind] = part;
      row += rows[i];
    }
    state.erase(prefix + joined);
  };
  split("in_proj_weight", ".weight");
  split("in_proj_bias", ".bias");
  for (const char* name : names) {
    const auto found = state.find(prefix + name + "_weight");
    if (found == state.end()) continue;
    state[prefix + name + ".weight"] = found->second;
    state.erase(found);
  }
}

Tensor MultiHeadAttention::rotated(const Tensor& x, Index heads, const Array& positions) const {
  const Index length = x.dim(1);
  const auto [cos, sin] = ops::rotary_tables(positions, head_dim, *arguments.rotary_base);  // (L, D / 2), float64
  const Shape table{length, 1, head_dim / 2};
  const Tensor split = ops::reshape(x, {x.dim(0), length, heads, head_dim});
  const Tensor turned =
      ops::apply_rotary(split, cos.reshaped(table).cast(x.dtype()), sin.reshaped(table).cast(x.dtype()), false);
  return ops::reshape(turned, x.shape());
}

Tensor MultiHeadAttention::across(const SplitSequence& sequence, const Tensor& q, const Tensor& k, const Tensor& v,
                                  const ops::AttentionOptions& options) const {
  const auto by_heads = [&](const Tensor& x, Index heads) {
    return ops::swapaxes(ops::reshape(x, {x.dim(0), x.dim(1), heads, head_dim}), 1, 2);
  };
  const Tensor y =
      sequence.attention(by_heads(q, arguments.num_heads), by_heads(k, kv_heads), by_heads(v, kv_heads), options);
  return ops::reshape(ops::swapaxes(y, 1, 2), {q.dim(0), q.dim(1), arguments.num_heads * head_dim});
}

Tensor MultiHeadAttention::forward(const Tensor& queries, const Tensor& keys, const Tensor& values, const Call& call) {
  const char* op = "MultiHeadAttention";
  const Arguments& a = arguments;
  const Batched from = batched(op, "queries", queries);
  const bool known = call.memory != nullptr && call.memory->keys.defined();  // keys and values are not looked at then
  const Batched to = keys.defined() && !known ? batched(op, "keys", keys) : from;
  const Batched what = values.defined() && !known ? batched(op, "values", values) : to;
  const auto check = [&](const char* name, const Tensor& x, const char* size_name, Index size) {
    if (x.dim(2) != size)
      fail_value(op, ": ", name, " must be (B, L, ", size, ") because ", size_name, " = ", size, "; got ", name, " ",
                 x.shape());
    if (x.dim(0) != from.tensor.dim(0))
      fail_value(op, ": ", name, " must have the batch size of queries ", from.tensor.shape(), "; got ", name, " ",
                 x.shape());
  };
  check("queries", from.tensor, "embed_dim", a.embed_dim);
  if (!known) {
    check("keys", to.tensor, "kdim", k_proj->in_features);
    check("values", what.tensor, "vdim", v_proj->in_features);
  }
  if (to.tensor.dim(1) != what.tensor.dim(1))
    fail_value(op, ": values must be (B, Lk, vdim) with Lk = ", to.tensor.dim(1), " to match keys ", to.tensor.shape(),
               "; got values ", what.tensor.shape());

  std::optional<KVCache::Use> one_thread;
  if (call.cache != nullptr) one_thread.emplace(*call.cache);
  const Index offset = call.cache != nullptr ? call.cache->length() : 0;
  const std::shared_ptr<const SplitSequence> sequence = split_sequence.get();
  const Index all_keys = sequence ? -1 : offset + (known ? call.memory->keys : to.tensor).dim(1);
  const AttentionRecord::Axes axes{!from.added, true};
  const Restriction restriction =
      aligned(op, call.restriction, {from.tensor.dim(0), a.num_heads, from.tensor.dim(1), all_keys}, axes);
  Tensor q, k, v;  // (B, Lq, H * D), (B, Lk, Hkv * D) twice
  if (known) {
    q = q_proj->forward(from.tensor);
    k = call.memory->keys;
    v = call.memory->values;
  } else if (!keys.defined() && !values.defined()) {
    Tensors projected = Linear::forward_each({q_proj.get(), k_proj.get(), v_proj.get()}, from.tensor);
    q = std::move(projected[0]);
    k = std::move(projected[1]);
    v = std::move(projected[2]);
  } else {
    q = q_proj->forward(from.tensor);
    k = k_proj->forward(to.tensor);
    v = v_proj->forward(what.tensor);
  }
  if (!known && call.memory != nullptr) *call.memory = {k, v};
  const ops::Causal causal = call.causal.value_or(a.causal);
  if (sequence && call.cache != nullptr)
    fail_value(op, ": cache must not be given because comm splits the sequence; got both");
  if (a.rotary_base) {
    const auto positions = [&](Index rows) {
      return sequence ? sequence->positions(rows, causal) : consecutive(offset, rows);
    };
    q = rotated(q, a.num_heads, positions(q.dim(1)));
    k = rotated(k, kv_heads, positions(k.dim(1)));
  }
  ops::Heads heads{a.num_heads, kv_heads, -1};
  ops::AttentionOptions o;
  o.operation = op;
  set_restriction(o, restriction, a.dropout, training());  // before the cache grows, as it may refuse
  if (call.cache != nullptr) {
    const KVCache::Contents all = call.cache->append(k, v);
    k = all.keys;
    v = all.values;
    heads.length = call.cache->length();
    o.q_offset = Array::full({}, DType::int64, offset);
  }
  o.causal = causal;
  if (o.causal == ops::Causal::lower_right) o.q_offset = {};
  o.scale = a.scale;
  o.window = a.window;
  o.masked_value = a.masked_value;
  if (sequence) {
    if (call.weights != nullptr)
      fail_value(
          op, ": return_weights must be False because comm splits the sequence, and no rank has whole rows of weights");
    record.clear();
    return unbatched(out_proj->forward(across(*sequence, q, k, v, o)), from.added);
  }
  o.return_weights = call.weights != nullptr;
  ops::AttentionOutputs outputs;  // (B, Lq, H * D), (B, H, Lq, Lk)
  try {
    outputs = ops::packed_attention(q, k, v, heads, o);
  } catch (...) {  // a call that failed leaves the cache as it was
    if (call.cache != nullptr) call.cache->truncate(offset);
    throw;
  }
  if (call.weights != nullptr) *call.weights = shown_weights(outputs.weights, axes);
  const auto kept = AttentionRecord::of(packed(q.data()), packed(k.data()), heads, o, axes);
  record.keep(kept);
  if (call.record != nullptr) call.record->keep(kept);
  return unbatched(out_proj->forward(outputs.output), from.added);
}

}  // namespace qkv::nn
