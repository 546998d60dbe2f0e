#include "nn/watched_attention.h"

#include "core/error.h"
#include "nn/ragged_rows.h"
#include "ops/ops.h"

namespace qkv::nn {

Tensor Watched::through(Point point, const Tensor& x) const {
  if (!watch_.wants(point)) return x;
  const Tensor y = watch_.through(point, shown_weights(x, axes_));
  return watch_.moves(point) ? ops::reshape(y, x.shape()) : x;
}

ops::ScoreChanges Watched::changes() const {
  return {[this](const Tensor& scores) { return through(Point::scores, scores); },
          [this](const Tensor& weights) { return through(Point::weights, weights); }};
}

Tensor Watched::heads_through(Point point, const Tensor& x, Index heads) const {
  if (!watch_.wants(point)) return x;
  const Shape split{x.dim(0), x.dim(1), heads, x.dim(2) / heads};
  const Tensor y = through(point, ops::swapaxes(ops::reshape(x, split), 1, 2));
  return watch_.moves(point) ? ops::reshape(ops::swapaxes(y, 1, 2), x.shape()) : x;
}

void Watched::refuse(const char* op, Point point, const char* because) {
  fail_value(op, ": ", kPointNames[static_cast<std::size_t>(point)], " must not be recorded or changed because ",
             because);
}

void Watched::project(Projections& p) const {
  p.queries = heads_through(Point::queries, p.queries, p.heads.query_heads);
  p.keys = heads_through(Point::keys, p.keys, p.heads.kv_heads);
  p.values = heads_through(Point::values, p.values, p.heads.kv_heads);
}

Watched::Result Watched::attention(Projections p, ops::AttentionOptions o) const {
  Result result;
  const bool ragged = p.rows != nullptr && !watch_.moves();
  if (ragged) result.outputs.output = ragged_attention(p.queries, p.keys, p.values, *p.rows, p.heads, o);
  if (p.rows != nullptr) {  // seen as the padded batch
    const auto padded = [&](const Tensor& x) { return unpacked(ops::reshape(x, {x.dim(1), x.dim(2)}), *p.rows); };
    p.queries = padded(p.queries);
    p.keys = padded(p.keys);
    p.values = padded(p.values);
    o.attn_mask = Tensor(kept_pairs(*p.rows));
  }
  if (p.heads.length >= 0) {  // a cache has more rows
    const auto used = [&](const Tensor& x) { return ops::slice(x, 1, 0, p.heads.length); };
    if (watch_.wants(Point::keys) || watch_.wants(Point::values)) {
      p.keys = used(p.keys);
      p.values = used(p.values);
      p.heads.length = -1;
      p.lasting = false;
    }
  }
  project(p);
  if (moves_scores()) {
    const ops::ScoreChanges changes = this->changes();
    ops::AttentionOptions changed = o;
    changed.changes = &changes;
    changed.return_weights = true;
    result.outputs = ops::packed_attention(p.queries, p.keys, p.values, p.heads, changed);
    result.kept = AttentionRecord::of(result.outputs.weights.data(), axes_);
  } else {
    if (!ragged) result.outputs = ops::packed_attention(p.queries, p.keys, p.values, p.heads, o);
    // Queries and keys may be the caller's, who may change them before the weights are read. Those of a cache are kept
    // once for all steps.
    const Array keys = p.lasting && !watch_.wants(Point::keys) ? p.keys.data() : cloned(p.keys.data());
    const auto kept = AttentionRecord::always_of(cloned(p.queries.data()), keys, p.heads, o, axes_);
    watch_.record(Point::scores, kept);
    watch_.record(Point::weights, kept);
    if (!NoAttentionRecord::active()) result.kept = kept;
  }
  Tensor& y = result.outputs.output;
  if (ragged) {
    heads_through(Point::heads, unpacked(ops::reshape(y, {y.dim(1), y.dim(2)}), *p.rows), p.heads.query_heads);
    return result;
  }
  y = heads_through(Point::heads, y, p.heads.query_heads);
  if (p.rows != nullptr) y = ops::reshape(kept_rows(y, *p.rows), {1, p.rows->kept.numel(), y.dim(2)});
  return result;
}

}  // namespace qkv::nn
