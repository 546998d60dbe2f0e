// What can be said of the weights without storing them: they are computed a few rows at a time, by the kernels, and
// read while they are in the caches.
#pragma once

#include "ops/attention/attention.h"

namespace qkv::ops {

// Columns and rows of a heatmap of weights. Pixel (y, x) shows the largest or the mean of the weights of the queries
// [rows * y / height, rows * (y + 1) / height) and keys [columns * x / width, columns * (x + 1) / width), at least one.
struct ImageOptions {
  Index height = 0, width = 0;
  std::optional<std::pair<Index, Index>> rows, columns;  // [begin, end); all
  bool largest = true;
};

// (B, H, height, width), without the axes that query lacks. Needs memory for a few rows of weights at a time.
Array attention_image(const Array& query, const Array& key, const AttentionOptions& options, const ImageOptions& image);

// Of heads side by side, and of weights that are stored: with all axes.
Array packed_attention_image(const Array& query, const Array& key, Heads heads, const AttentionOptions& options,
                             const ImageOptions& image);
Array image_of(const Array& weights, const ImageOptions& image);

// What a query's weights are measured against; each may be undefined.
struct MeasureInputs {
  Array earlier;       // int64 (B, L): the last earlier place of the same token, -1 where there is none
  Array separator;     // boolean (B, Lk)
  Array real;          // boolean (B, Lq): queries that count
  Index offset = 0;    // query i is at key offset + i
  bool cross = false;  // queries and keys are of different sequences
};

// Sums over the real queries of what each measure is for them, and how many have it: float64 (2, 8, H), in the order
// entropy, distance, previous, self, first, duplicate, induction, separators.
inline constexpr Index kMeasures = 8;
Array packed_attention_measures(const Array& query, const Array& key, Heads heads, const AttentionOptions& options,
                                const MeasureInputs& inputs);
// Rows [begin, end) of the weights of one head of a batch entry.
struct HeadRows {
  Index batch, head, begin, end;
};
Array packed_attention_rows(const Array& query, const Array& key, Heads heads, const AttentionOptions& options,
                            const HeadRows& rows);
Array rows_of(const Array& weights, const HeadRows& rows);
// Keys (B, Lk) that lengths of batch entries, or a boolean mask that is one for all queries, leave; undefined if there
// is neither.
Array unpadded(const AttentionOptions& options, const Shape& weights);
// Of weights (B, H, Lq, Lk) that are stored.
Array measures_of(const Array& weights, const MeasureInputs& inputs);

}  // namespace qkv::ops
