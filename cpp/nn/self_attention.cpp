#include "nn/self_attention.h"

#include "core/error.h"

namespace qkv::nn {
namespace {

constexpr MultiHeadAttention::Names kSelfAttentionNames{.layer = "SelfAttention",
                                                        .queries = "x",
                                                        .keys = "context",
                                                        .values = "context",
                                                        .widths = {"in_features", "in_features", "in_features"},
                                                        .heads = false};

MultiHeadAttention::Arguments checked(Index in, Index out) {
  if (in < 1 || out < 1)
    fail_value("SelfAttention: in_features and out_features must be at least 1; got in_features = ", in,
               ", out_features = ", out);
  MultiHeadAttention::Arguments a;
  a.embed_dim = in;
  a.head_dim = out;
  a.out_dim = 0;
  return a;
}

}  // namespace

SelfAttention::SelfAttention(Index in, Index out, bool bias, std::optional<double> scale, double dropout,
                             ops::Causal causal, std::optional<double> masked_value)
    : MultiHeadAttention(kSelfAttentionNames, [&] {
        Arguments a = checked(in, out);
        a.bias = bias;
        a.dropout = dropout;
        a.causal = causal;
        a.scores.scale = scale;
        a.scores.masked_value = masked_value;
        return a;
      }()) {}

Config SelfAttention::config() const {
  Config config{{"in_features", arguments.embed_dim},
                {"out_features", head_dim},
                {"bias", arguments.bias},
                {"dropout", arguments.dropout},
                {"is_causal", value_of(arguments.causal)}};
  add_differing(config, arguments.scores);
  return config;
}

}  // namespace qkv::nn
