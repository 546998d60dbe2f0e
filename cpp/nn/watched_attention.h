// The points of an attention between its projections and its output.
#pragma once

#include "nn/attention.h"
#include "nn/observer.h"

namespace qkv::nn {

// What observers ask of a call of an attention, whose values they see under the axes that its weights have.
class Watched {
 public:
  Watched(const Module& module, AttentionRecord::Axes axes) : watch_(module), axes_(axes) {}
  explicit operator bool() const { return static_cast<bool>(watch_); }

  // x (B, [H,] L, size) as the observers leave it.
  Tensor through(Point point, const Tensor& x) const;
  // attend(options) of scores that are no kernel's, where scores and weights are seen. `scores()` are (B, [H,] Lq, Lk).
  template <class Scores, class F>
  ops::AttentionOutputs composed(const ops::AttentionOptions& options, Scores scores, F attend) const {
    if (moves_scores()) {
      const ops::ScoreChanges changes = this->changes();
      ops::AttentionOptions changed = options;
      changed.changes = &changes;
      return attend(changed);
    }
    if (watch_.wants(Point::scores)) {
      const NoGrad off;
      through(Point::scores, ops::final_scores(scores(), options));
    }
    ops::AttentionOutputs outputs = attend(options);
    through(Point::weights, outputs.weights);
    return outputs;
  }

  // ops::packed_attention, or that of ragged rows, with all points but input and output. It leaves the kernels where
  // scores or weights move.
  struct Projections {
    Tensor queries, keys, values;
    ops::Heads heads;
    const RaggedRows* rows = nullptr;
    bool lasting = false;  // nobody writes to the rows of keys any more
  };
  struct Result {
    ops::AttentionOutputs outputs;
    std::shared_ptr<const KeptAttention> kept;
  };
  Result attention(Projections projections, ops::AttentionOptions options) const;
  // attend(projections), whose scores and weights cannot be seen, for the reason `because`.
  template <class F> Tensor without_weights(const char* op, Projections p, const char* because, F attend) const {
    for (const Point point : {Point::scores, Point::weights})
      if (watch_.wants(point)) refuse(op, point, because);
    project(p);
    return heads_through(Point::heads, attend(p), p.heads.query_heads);
  }

 private:
  [[noreturn]] static void refuse(const char* op, Point point, const char* because);
  // Queries, keys and values as the observers leave them.
  void project(Projections& p) const;
  bool moves_scores() const { return watch_.moves(Point::scores) || watch_.moves(Point::weights); }
  ops::ScoreChanges changes() const;
  // (B, L, heads * size) by heads, and back.
  Tensor heads_through(Point point, const Tensor& x, Index heads) const;

  const Watch watch_;
  const AttentionRecord::Axes axes_;
};

}  // namespace qkv::nn
