// Attention: what a score function needs around it, and the memory that every attention layer has of its last call.
#pragma once

#include <optional>

#include "core/locks.h"
#include "nn/basic.h"
#include "ops/attention/attention.h"

namespace qkv::nn {

// While one lives on this thread, layers remember nothing.
class NoAttentionRecord {
 public:
  static bool active() { return active_; }
  static void set(bool active) { active_ = active; }

 private:
  static thread_local bool active_;
};

// The attention weights of a layer's last call, which other threads may read or replace at any time.
class AttentionRecord {
 public:
  // What one call leaves behind. It does not change any more, and nobody can write to what it holds.
  class Kept {
   public:
    virtual ~Kept() = default;
    virtual Array weights() const = 0;
  };
  // The axes under which weights are shown: those that the call's inputs had.
  struct Axes {
    bool batch = true, heads = true;
  };

  // The fused path does not need the weights, so what they are made of is kept, and they are computed when somebody
  // reads them. Heads side by side: query (B, Lq, H * D), key (B, rows, Hkv * D). Null while NoAttentionRecord lives.
  static std::shared_ptr<const Kept> of(const Array& query, const Array& key, ops::Heads heads,
                                        ops::AttentionOptions options, Axes axes);
  static std::shared_ptr<const Kept> of(const Array& weights, Axes axes);

  void keep(std::shared_ptr<const Kept> kept) { kept_.set(std::move(kept)); }
  void clear() { kept_.set(nullptr); }
  Array weights() const;  // not defined before the first call

 private:
  mutable Published<Kept> kept_;
};

// The arguments of a call that say which keys count. An integer array of lengths, a mask, an explicit dropout.
struct Restriction {
  Array valid_lens;
  Tensor attn_mask;
  Array dropout_keep;
};

// The array as it is now, for layers that record it: one copy for all layers of a call, none while NoAttentionRecord
// lives.
Array snapshot(const Array& array);

// Softmax(score(queries, keys)) @ values. A subclass defines the score.
class Attention : public Module {
 public:
  explicit Attention(double dropout = 0, std::optional<double> masked_value = {});
  std::string class_name() const override { return "Attention"; }
  Config config() const override;

  // queries (B, Lq, Mq), keys (B, Lk, Mk) to (B, Lq, Lk).
  virtual Tensor score(const Tensor& queries, const Tensor& keys);
  // Makes what a call with such inputs needs and the layer has not yet. Not by several threads at once: Python's lock
  // is held.
  virtual void prepare(const Tensor& queries, const Tensor& keys, const Tensor& values);
  // values (B, Lk, Dv) to (B, Lq, Dv).
  virtual Tensor attend(const Tensor& queries, const Tensor& keys, const Tensor& values,
                        const Restriction& restriction);

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
  Tensor attend(const Tensor& queries, const Tensor& keys, const Tensor& values,
                const Restriction& restriction) override;
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
