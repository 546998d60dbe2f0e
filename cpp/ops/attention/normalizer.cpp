#include "ops/attention/normalizer.h"

#include <iterator>
#include <limits>
#include <string>

#include "core/error.h"
#include "ops/entmax.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

using kernels::kNormalizers;

// Weights of scores (..., Lk) where `allowed`; one without it does not compile.
template <Normalizer> struct Composed;

template <> struct Composed<Normalizer::softmax> {
  static Tensor weights(const Tensor& scores, const Tensor& allowed) { return masked_softmax(scores, allowed); }
};
template <> struct Composed<Normalizer::sigmoid> {
  static Tensor weights(const Tensor& scores, const Tensor& allowed) {
    return where(allowed, sigmoid(scores), scalar_like(scores, 0));
  }
};
template <> struct Composed<Normalizer::relu> {
  static Tensor weights(const Tensor& scores, const Tensor& allowed) {
    return where(allowed, relu(scores), scalar_like(scores, 0));
  }
};
Tensor entmax_where(const Tensor& scores, const Tensor& allowed, double alpha) {
  const Tensor none = scalar_like(scores, -std::numeric_limits<double>::infinity());
  return where(allowed, entmax("attention", where(allowed, scores, none), alpha, -1), scalar_like(scores, 0));
}
template <> struct Composed<Normalizer::sparsemax> {
  static Tensor weights(const Tensor& scores, const Tensor& allowed) { return entmax_where(scores, allowed, 2); }
};
template <> struct Composed<Normalizer::entmax15> {
  static Tensor weights(const Tensor& scores, const Tensor& allowed) { return entmax_where(scores, allowed, 1.5); }
};

}  // namespace

Normalizer normalizer_named(const char* operation, const std::string& name) {
  for (std::size_t i = 0; i < std::size(kNormalizers); ++i)
    if (name == kNormalizers[i].name) return static_cast<Normalizer>(i);
  std::string known;
  for (std::size_t i = 0; i < std::size(kNormalizers); ++i)
    known += text(i == 0 ? "" : i + 1 < std::size(kNormalizers) ? ", " : " or ", '"', kNormalizers[i].name, '"');
  fail_value(operation, ": normalizer must be ", known, "; got \"", name, "\"");
}

const char* name_of(Normalizer normalizer) { return kernels::facts_of(normalizer).name; }

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
  Tensor weights;
  switch (normalizer) {
#define X(name, sum, zeros)                                         \
  case Normalizer::name:                                            \
    weights = Composed<Normalizer::name>::weights(scores, allowed); \
    break;
    QKV_NORMALIZERS(X)
#undef X
  }
  return weights;
}

}  // namespace qkv::ops
