#include "ops/attention/normalizer.h"

#include <array>
#include <limits>

#include "core/error.h"
#include "ops/entmax.h"

namespace qkv::ops {
namespace {

constexpr std::array<const char*, 5> kNames = {"softmax", "sigmoid", "relu", "sparsemax", "entmax15"};

}  // namespace

Normalizer normalizer_named(const char* operation, const std::string& name) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (name == kNames[i]) return static_cast<Normalizer>(i);
  fail_value(operation,
             ": normalizer must be \"softmax\", \"sigmoid\", \"relu\", \"sparsemax\" or \"entmax15\"; got \"", name,
             "\"");
}

const char* name_of(Normalizer normalizer) { return kNames[static_cast<std::size_t>(normalizer)]; }

void check_normalizer(const AttentionOptions& o) {
  if (o.normalizer == Normalizer::softmax) return;
  const char* name = name_of(o.normalizer);
  if (o.return_lse)
    fail_value(o.operation, ": return_lse must be False because only softmax has a sum of exponentials; got True with ",
               "normalizer \"", name, "\"");
  if (o.sinks.defined())
    fail_value(o.operation, ": sinks must be None because they belong to the sum of a softmax; got both sinks and ",
               "normalizer \"", name, "\"");
}

Tensor normalized(Normalizer normalizer, const Tensor& scores, const Tensor& allowed) {
  const Tensor zero = scalar_like(scores, 0);
  if (normalizer == Normalizer::sigmoid) return where(allowed, sigmoid(scores), zero);
  if (normalizer == Normalizer::relu) return where(allowed, relu(scores), zero);
  const Tensor none = scalar_like(scores, -std::numeric_limits<double>::infinity());
  const double alpha = normalizer == Normalizer::sparsemax ? 2 : 1.5;
  return where(allowed, entmax("attention", where(allowed, scores, none), alpha, -1), zero);
}

}  // namespace qkv::ops
