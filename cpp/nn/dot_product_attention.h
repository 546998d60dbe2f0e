// Scores that are products of queries and keys.
#pragma once

#include "nn/attention.h"

namespace qkv::nn {

// score = scale * q.k, or of the cosine of q and k, by the fused path.
class DotProductAttention : public Attention {
 public:
  // Without a scale: 1 / sqrt(D), and 1 of cosines.
  explicit DotProductAttention(AttentionArguments arguments = {}, bool cosine = false,
                               std::optional<double> scale = {});
  std::string class_name() const override { return "DotProductAttention"; }
  Config config() const override;
  Tensor score(const Tensor& queries, const Tensor& keys) override;

  const bool cosine;
  const std::optional<double> scale;

 protected:
  ops::AttentionOutputs attend(const Tensor& queries, const Tensor& keys, const Tensor& values,
                               const ops::AttentionOptions& options, AttentionRecord::Axes axes) override;
  const char* operation_ = "DotProductAttention";  // who complains
  // What the products are of: the inputs of each head, or their directions.
  virtual Tensor asked(const Tensor& queries) const { return cosine ? directions(queries) : queries; }
  Tensor directions(const Tensor& x) const;
};

// score = q W k, which is asked(q) k.
class BilinearAttention : public DotProductAttention {
 public:
  BilinearAttention(Index query_size, Index key_size, AttentionArguments arguments = {});  // of one head
  std::string class_name() const override { return "BilinearAttention"; }
  Config config() const override;

  const Index query_size, key_size;
  Tensor weight;  // (query_size, key_size)

 protected:
  Tensor asked(const Tensor& queries) const override;
};

}  // namespace qkv::nn
