// DeBERTa's relative positions: what a query asks of a distance, and what a distance asks of a key.
#pragma once

#include "nn/module.h"
#include "ops/attention/attention.h"

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

// int64 (2 L - 1,): the rows of the distances -(L - 1) .. L - 1.
Array disentangled_rows(const Disentangled& options, Index length);
// (B, H, L, L) to be added to scores times `scale`. queries, keys (B, L, H * D), side by side; by distance (2 L - 1,
// H * D) the projections of the table.
Tensor disentangled_scores(const Disentangled& options, const Tensor& queries, const Tensor& keys,
                           const Tensor& distance_queries, const Tensor& distance_keys, Index heads, double scale);

}  // namespace qkv::nn
