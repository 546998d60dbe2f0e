// Attention: what a score function needs around it, and the memory that every attention layer has of its last call.
#pragma once

#include <optional>

#include "core/locks.h"
#include "core/noncopyable.h"
#include "nn/basic.h"
#include "nn/kv_cache.h"
#include "nn/observer.h"
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
  using Kept = KeptAttention;
  // The axes under which weights are shown: those that the call's inputs had.
  struct Axes {
    bool batch = true, heads = true;
  };

  // The fused path does not need the weights, so what they are made of is kept, and they are computed when they are
  // read. Heads side by side: query (B, Lq, H * D), key (B, rows, Hkv * D). Null while NoAttentionRecord lives.
  static std::shared_ptr<const Kept> of(const Array& query, const Array& key, ops::Heads heads,
                                        ops::AttentionOptions options, Axes axes);
  static std::shared_ptr<const Kept> of(const Array& weights, Axes axes);
  // The first of them whether or not a NoAttentionRecord lives.
  static std::shared_ptr<const Kept> always_of(const Array& query, const Array& key, ops::Heads heads,
                                               ops::AttentionOptions options, Axes axes);

  // Of a call of ops::attention: query (B, H, Lq, D) and key (B, Hkv, Lk, D), or with less axes. Both are copied.
  static std::shared_ptr<const Kept> of_call(const Tensor& query, const Tensor& key, ops::AttentionOptions options);

  // While one lives: what this thread keeps in a record, apart from what other threads keep there.
  class Capture : NonCopyable {
   public:
    explicit Capture(const AttentionRecord* record) : record_(record), outer_(std::exchange(innermost_, this)) {}
    ~Capture() { innermost_ = outer_; }
    Array weights() const { return kept_ ? kept_->weights() : Array(); }
    const std::shared_ptr<const Kept>& kept() const { return kept_; }

   private:
    friend class AttentionRecord;
    const AttentionRecord* const record_;
    Capture* const outer_;
    std::shared_ptr<const Kept> kept_;
    static inline constinit thread_local Capture* innermost_ = nullptr;
  };

  void keep(std::shared_ptr<const Kept> kept) {
    for (Capture* own = Capture::innermost_; own != nullptr; own = own->outer_)
      if (own->record_ == this) own->kept_ = kept;
    kept_.set(std::move(kept));
  }
  void clear() { kept_.set(nullptr); }
  Array weights() const;  // not defined before the first call

 private:
  mutable Published<Kept> kept_;
};

using ops::MaskSpec;

// Puts the arguments of a call into `o`, whose operation is set. Dropout runs in training, or where the call says what
// is dropped.
void set_mask_spec(ops::AttentionOptions& o, MaskSpec mask_spec, double dropout, bool training);

// "upper_left" and True are one; "lower_right" the other; False is none.
Value value_of(ops::Causal causal);

// The array as it is now, for layers that record it: one copy for all layers of a call, none while NoAttentionRecord
// lives.
Array snapshot(const Array& array);

struct Disentangled;
struct DistanceRows;
struct RaggedRows;
class RotaryTables;

// What the self-attentions of a model share in one call.
struct SharedPositions {
  Array positions = {};  // float64 (L,) or (B, L), or (R,) of ragged rows: those that rotary positions turn by
  RotaryTables* tables = nullptr;  // of those positions
  Tensor distance_bias = {};       // (Lq + Lk - 1, H), instead of a layer's own
  // DeBERTa's: what stands for distances, (rows, M), which each layer projects.
  const Disentangled* disentangled = nullptr;
  const DistanceRows* distance_rows = nullptr;
  Tensor relative_states = {};

  // While one lives: what calls of this module on this thread share, which a forward of Python does not pass on.
  class Scope : NonCopyable {
   public:
    Scope(const Module* to, const SharedPositions* shared)
        : to_(to), shared_(shared), outer_(std::exchange(innermost_, this)) {}
    ~Scope() { innermost_ = outer_; }

   private:
    friend struct SharedPositions;
    const Module* const to_;
    const SharedPositions* const shared_;
    Scope* const outer_;
    static inline constinit thread_local Scope* innermost_ = nullptr;
  };
  // `given`, or what is lent to the module.
  static const SharedPositions* of(const Module* module, const SharedPositions* given) {
    for (const Scope* lent = Scope::innermost_; given == nullptr && lent != nullptr; lent = lent->outer_)
      if (lent->to_ == module) given = lent->shared_;
    return given;
  }
};

// What a call of an attention says, and its state: none, or one of a cache, a memory and ragged rows.
struct AttentionCall {
  MaskSpec mask_spec = {};
  std::optional<ops::Causal> causal = {};  // the constructor's
  KVCache* cache = nullptr;
  ProjectedMemory* memory = nullptr;  // is used instead of keys and values once it is filled
  const RaggedRows* rows = nullptr;   // the queries (R, M) are the kept rows of a batch, and its keys
  AttentionRecord* record = nullptr;  // of this call alone, while others may use the layer
  Tensor* weights = nullptr;          // gets those of the call, with their history
  const SharedPositions* shared = nullptr;
  bool whole = false;  // the inputs are whole sequences, even where the layer's are parts of them
};

// A module that can replace the attention of a block.
class AnyAttention {
 public:
  virtual ~AnyAttention() = default;
  // keys undefined: queries; values undefined: keys.
  virtual Tensor forward(const Tensor& queries, const Tensor& keys, const Tensor& values,
                         const AttentionCall& call) = 0;
  virtual const AttentionRecord* last_call() const { return nullptr; }
};

// A normaliser of the user's own: weights of scores (..., Lq, Lk), -inf where they are excluded.
class ScoreNormalizer {
 public:
  virtual ~ScoreNormalizer() = default;
  virtual Tensor weights(const Tensor& scores) const = 0;
};

struct LayerNormalizer {
  ops::Normalizer kind = ops::Normalizer::softmax;
  std::shared_ptr<const ScoreNormalizer> own = {};  // instead
};
inline Value value_of(const LayerNormalizer& normalizer) { return std::string(ops::name_of(normalizer.kind)); }

struct AttentionArguments {
  double dropout = 0;
  std::optional<double> masked_value = {};
  std::optional<Index> num_heads = {};  // without: one, and no axis of heads
  ops::Causal causal = ops::Causal::none;
  std::optional<std::pair<Index, Index>> window = {};
  LayerNormalizer normalizer = {};
};

template <FieldsOf<AttentionArguments> Arguments, class F> void for_fields(Arguments& a, F field) {
  field("dropout", a.dropout);
  field("masked_value", a.masked_value);
  field("num_heads", a.num_heads);
  field("is_causal", a.causal);
  field("window", a.window);
  field("normalizer", a.normalizer);
}

// Softmax(score(queries, keys)) @ values. A subclass defines the score.
class Attention : public Module, public AnyAttention {
 public:
  using Call = AttentionCall;

  explicit Attention(AttentionArguments arguments = {});
  std::string class_name() const override { return "Attention"; }
  Config config() const override;

  // queries (B, Lq, Mq), keys (B, Lk, Mk), values (B, Lk, Dv) to (B, Lq, Dv); all three may lack B.
  Tensor forward(const Tensor& queries, const Tensor& keys, const Tensor& values, const Call& call) override;
  const AttentionRecord* last_call() const override { return &record; }
  using Module::forward;
  // queries (B, Lq, Mq), keys (B, Lk, Mk) to (B, Lq, Lk); with heads (B, H, Lq, Mq / H), (B, H, Lk, Mk / H) to
  // (B, H, Lq, Lk).
  virtual Tensor score(const Tensor& queries, const Tensor& keys);
  // Weights of scores, both (B, [H,] Lq, Lk), as is `allowed`, which says what masks, lengths, causal order and window
  // leave and is undefined if that is all: by the arguments' normaliser, over the allowed keys of a row. The others get
  // 0 anyway.
  virtual Tensor normalize(const Tensor& scores, const Tensor& allowed);
  // Weights (B, [H,] Lq, Lk) times values (B, [H,] Lk, Dv).
  virtual Tensor pool(const Tensor& weights, const Tensor& values);
  // Makes what a call with such inputs needs and the layer has not yet. Not by several threads at once: Python's lock
  // is held.
  virtual void prepare(const Tensor& queries, const Tensor& keys, const Tensor& values);

  const AttentionArguments arguments;
  AttentionRecord record;

 protected:
  // Of inputs with a batch, checked. Keeps the record, whose axes are `axes`.
  virtual ops::AttentionOutputs attend(const Tensor& queries, const Tensor& keys, const Tensor& values,
                                       const ops::AttentionOptions& options, AttentionRecord::Axes axes);
  // Whether normalize or pool is the user's own.
  virtual bool own_steps() const { return arguments.normalizer.own != nullptr; }
  // By those two.
  ops::AttentionOutputs pooled_by_steps(const Tensor& scores, const Tensor& values,
                                        const ops::AttentionOptions& options);
  ops::AttentionOptions options(const Call& call) const;
  Index heads() const { return arguments.num_heads.value_or(1); }
  // (B, L, H * D) as (B, H, L, D), and back, where there are heads.
  Tensor split(const char* name, const Tensor& x) const;
  Tensor joined(const Tensor& x) const;
  // The inputs, checked, with a batch of one where all three have none (alone).
  struct Inputs {
    Tensor queries, keys, values;
    bool alone;
  };
  Inputs checked_inputs(const Tensor& queries, const Tensor& keys, const Tensor& values) const;
};

// Adds the axis of a batch of one where a layer was given (L, M); unbatched() removes it from (1, ...).
struct Batched {
  Tensor tensor;
  bool added = false;
};
Batched batched(const char* layer, const char* name, const Tensor& x);
Tensor unbatched(const Tensor& y, bool added);
// What a call says of its keys, with the axes of weights (B, H, Lq, Lk), or (B, Lq, Lk) in a layer without heads, and
// refused in the shape that the caller gave. `axes` are those of the caller's weights. Masks: (Lq, Lk), (B, Lq, Lk) for
// all heads or (B, H, Lq, Lk), and without a batch (Lq, Lk) or (H, Lq, Lk), whose lengths are () or (Lq,). Masks are
// not checked if Lk is -1, which stands for a number that is not known here.
MaskSpec aligned(const char* layer, const MaskSpec& mask_spec, const Shape& weights, AttentionRecord::Axes axes);
// Weights (B, H, Lq, Lk) with the axes that the caller knows of.
Tensor shown_weights(const Tensor& weights, AttentionRecord::Axes axes);

}  // namespace qkv::nn
