// Attention: what a score function needs around it, and the memory that every attention layer has of its last call.
#pragma once

#include <optional>

#include "nn/basic.h"
#include "ops/attention.h"

namespace qkv::nn {

// While one lives on this thread, layers remember nothing.
class NoAttentionRecord {
 public:
  static bool active() { return active_; }
  static void set(bool active) { active_ = active; }

 private:
  static thread_local bool active_;
};

// The attention weights of a layer's last call. The fused path does not need them, so the projected queries and keys
// are kept as they were, and the weights are computed when somebody reads them.
class AttentionRecord {
 public:
  // Heads side by side: query (B, Lq, H * D), key (B, rows, Hkv * D). They must not change afterwards.
  void keep(const Array& query, const Array& key, ops::Heads heads, ops::AttentionOptions options);
  void keep_weights(const Array& weights);
  void clear();
  // The shape under which weights are shown, without axes that the call's inputs did not have.
  void show_as(bool with_batch, bool with_heads) {
    with_batch_ = with_batch;
    with_heads_ = with_heads;
  }
  Array weights();  // not defined before the first call

 private:
  Array query_, key_, weights_;
  ops::Heads heads_;
  ops::AttentionOptions options_;
  bool with_batch_ = true, with_heads_ = true;
};

// The arguments of a call that say which keys count. An integer array of lengths, a mask, an explicit dropout.
struct Restriction {
  Array valid_lens;
  Tensor attn_mask;
  Array dropout_keep;
};

// Softmax(score(queries, keys)) @ values. A subclass defines the score.
class Attention : public Module {
 public:
  explicit Attention(double dropout = 0, std::optional<double> masked_value = {});
  std::string class_name() const override { return "Attention"; }
  Config config() const override;

  // queries (B, Lq, Mq), keys (B, Lk, Mk) to (B, Lq, Lk).
  virtual Tensor score(const Tensor& queries, const Tensor& keys);
  // values (B, Lk, Dv) to (B, Lq, Dv).
  virtual Tensor attend(const Tensor& queries, const Tensor& keys, const Tensor& values, const Restriction& restriction);

  const double dropout;
  const std::optional<double> masked_value;
  AttentionRecord record;

 protected:
  ops::AttentionOptions options(const Restriction& restriction) const;
  void check_inputs(const Tensor& queries, const Tensor& keys, const Tensor& values) const;
};

// score = q.k / sqrt(D), by the fused path.
class DotProductAttention : public Attention {
 public:
  using Attention::Attention;
  std::string class_name() const override { return "DotProductAttention"; }
  Tensor score(const Tensor& queries, const Tensor& keys) override;
  Tensor attend(const Tensor& queries, const Tensor& keys, const Tensor& values, const Restriction& restriction) override;
};

// A mask (B, 1, Lq, Lk) without the axis of heads, for layers that have none; others as they are.
Tensor without_heads(const Tensor& mask);

// Adds the axes of a batch of one where a layer was given (L, M); take() removes them again.
struct Batched {
  Tensor tensor;
  bool added = false;
};
Batched batched(const char* layer, const char* name, const Tensor& x);
Tensor unbatched(const Tensor& y, bool added);

}  // namespace qkv::nn
