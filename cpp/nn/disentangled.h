// DeBERTa's relative positions: what a query asks of a distance, and what a distance asks of a key.
#pragma once

#include "nn/module.h"
#include "ops/attention/formula/formula.h"

namespace qkv::nn {

// The distance q - k has row `span` + its bucket of a table (2 span, M): the distances themselves up to half of
// `buckets`, and logarithmically growing ones up to max_distance; without buckets all up to the span.
struct Disentangled {
  Index span = 0, buckets = 0, max_distance = 0;
  bool content_to_position = true, position_to_content = true;
  bool operator==(const Disentangled&) const = default;
};
template <FieldsOf<Disentangled> Options, class F> void for_fields(Options& o, F field) {
  field("span", o.span);
  field("buckets", o.buckets);
  field("max_distance", o.max_distance);
  field("content_to_position", o.content_to_position);
  field("position_to_content", o.position_to_content);
}

inline Value value_of(const Disentangled& o) {
  Fields fields;
  for_fields(o, [&](const char* name, const auto& value) { fields.emplace_back(name, value); });
  return fields;
}

// Rows [first, end) of the table, and int64 (2 L - 1,) which of them the distances -(L - 1) .. L - 1 have.
struct DistanceRows {
  Index first = 0, end = 0;
  Array of_distance = {};
};
DistanceRows distance_rows(const Disentangled& options, Index length);

// Adds both to the scores, times `scale`. queries, keys (B, L, H * D), heads side by side; (end - first, H * D) the
// projections of the rows. Nothing of (L, L) is stored.
std::shared_ptr<const ops::Formula> disentangled_formula(const Disentangled& options, const DistanceRows& rows,
                                                         const Tensor& queries, const Tensor& keys,
                                                         const Tensor& row_queries, const Tensor& row_keys, Index heads,
                                                         double scale);

}  // namespace qkv::nn
