#include "nn/dot_product_attention.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "nn/init.h"
#include "nn/watched_attention.h"
#include "ops/ops.h"

namespace qkv::nn {

DotProductAttention::DotProductAttention(AttentionArguments a, bool by_cosine, std::optional<double> s)
    : Attention(std::move(a)), cosine(by_cosine), scale(cosine && !s ? 1.0 : s) {
  if (scale && !std::isfinite(*scale)) fail_value("DotProductAttention: scale must be a finite number; got ", *scale);
}

Config DotProductAttention::config() const {
  Config config = Attention::config();
  if (cosine) config.emplace_back("cosine", true);
  if (scale && !(cosine && *scale == 1)) config.emplace_back("scale", *scale);
  return config;
}

Tensor DotProductAttention::directions(const Tensor& x) const {  // of each head, also where heads are side by side
  if (x.rank() == 4 || heads() == 1) return ops::normalize(x, 2, ops::Axes{-1}, 1e-12);
  const Tensor split = ops::reshape(x, {x.dim(0), x.dim(1), heads(), x.dim(2) / heads()});
  return ops::reshape(ops::normalize(split, 2, ops::Axes{-1}, 1e-12), x.shape());
}

Tensor DotProductAttention::score(const Tensor& queries, const Tensor& keys) {
  const Tensor q = asked(queries), k = cosine ? directions(keys) : keys;
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(q.dim(-1))));
  return ops::scaled(ops::matmul(q, ops::swapaxes(k, -1, -2)), factor);
}

ops::AttentionOutputs DotProductAttention::attend(const Tensor& queries, const Tensor& keys, const Tensor& values,
                                                  const ops::AttentionOptions& options, AttentionRecord::Axes axes) {
  ops::AttentionOptions given = options;
  const char* name = operation_;
  given.operation = name;
  given.scale = scale;
  if (arguments.num_heads && (queries.dim(2) % heads() != 0 || values.dim(2) % heads() != 0))
    fail_value(name, ": queries, keys and values must be (B, L, M) with M divisible by num_heads = ", heads(),
               "; got queries ", queries.shape(), ", values ", values.shape());
  const DType dtype = ops::promoted({queries, keys, values});
  const Tensor asks = asked(ops::cast(queries, dtype)), v = ops::cast(values, dtype);
  if (asks.dim(2) != keys.dim(2))
    fail_value(name, ": keys must be (B, Lk, D) with D = ", asks.dim(2), " to match queries ", queries.shape(),
               "; got keys ", keys.shape());
  const Tensor k = cosine ? directions(ops::cast(keys, dtype)) : ops::cast(keys, dtype);
  const ops::Heads side_by_side{heads(), heads(), -1};
  if (const Watched watch(*this, axes); watch) {
    const auto [outputs, kept] = watch.attention({asks, k, v, side_by_side}, given);
    record.keep(kept);
    return outputs;
  }
  const ops::AttentionOutputs outputs = ops::packed_attention(asks, k, v, side_by_side, given);
  if (NoAttentionRecord::active()) {
    record.clear();
  } else {  // queries and keys are the caller's
    const Array kept_q = cloned(asks.data());
    const bool same = k.data().is(asks.data());
    record.keep(AttentionRecord::of(kept_q, same ? kept_q : cloned(k.data()), side_by_side, given, axes));
  }
  return outputs;
}

BilinearAttention::BilinearAttention(Index q, Index k, AttentionArguments a)
    : DotProductAttention(std::move(a), false, 1.0), query_size(q), key_size(k) {
  operation_ = "BilinearAttention";
  check_positive(operation_, {{"query_size", q}, {"key_size", k}});
  const double bound = 1 / std::sqrt(static_cast<double>(q));
  own_parameter("weight", weight, uniform_parameter({q, k}, -bound, bound));
}

Config BilinearAttention::config() const {
  Config config = Attention::config();
  config.insert(config.begin(), {{"query_size", query_size}, {"key_size", key_size}});
  std::erase_if(config, [](const auto& entry) { return entry.first == "num_heads"; });
  return config;
}

Tensor BilinearAttention::asked(const Tensor& queries) const {
  if (queries.dim(-1) != query_size)
    fail_value("BilinearAttention: queries must be (B, Lq, ", query_size, ") because query_size = ", query_size,
               "; got queries ", queries.shape());
  return ops::matmul(as_dtype_of(queries, weight), weight);
}

}  // namespace qkv::nn
