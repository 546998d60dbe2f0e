#include "ops/attention/weight_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "kernels/kernels.h"
#include "ops/attention/allowed.h"
#include "ops/attention/arguments.h"
#include "ops/attention/parallel.h"
#include "ops/checked_integers.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

using kernels::AttentionPiece;

// part(i) of n numbers in `parts` parts: where it begins.
Index begin_of(Index part, Index parts, Index n) { return n / parts * part + n % parts * part / parts; }

// Adds each measure that one query has to `sums`, and 1 to how many have it (2, 8). `logs` (n) is scratch.
template <class T>
void measure(double* sums, const T* w, T* logs, Index n, Index batch, Index query, const MeasureInputs& in) {
  const auto add = [sums](Index place, double x) {
    sums[place] += x;
    sums[kMeasures + place] += 1;
  };
  for (Index j = 0; j < n; ++j) logs[j] = std::max(w[j], std::numeric_limits<T>::min());
  kernels::kernels<T>().elementwise.unary(kernels::Unary::logarithm, logs, logs, n);
  const Index at = in.offset + query;
  double entropy = 0, distance = 0, total = 0, separators = 0;
  bool separated = false;
  const bool* separator = in.separator.defined() ? in.separator.data<bool>() + batch * n : nullptr;
  for (Index j = 0; j < n; ++j) {
    const double weight = static_cast<double>(w[j]);
    entropy -= weight * static_cast<double>(logs[j]);
    distance += weight * static_cast<double>(at < j ? j - at : at - j);
    total += weight;
    if (separator != nullptr && separator[j]) separators += weight, separated = true;
  }
  if (total == 0) return;  // no key
  add(0, entropy);
  add(4, static_cast<double>(w[0]));
  if (separated) add(7, separators);
  if (in.cross) return;
  add(1, distance);
  if (at > 0 && at <= n) add(2, static_cast<double>(w[at - 1]));
  if (at >= 0 && at < n) add(3, static_cast<double>(w[at]));
  if (!in.earlier.defined() || at < 0 || at >= n) return;
  const std::int64_t* earlier = in.earlier.data<std::int64_t>() + batch * n;
  const Index last = static_cast<Index>(earlier[at]);
  if (last < 0) return;
  double duplicate = 0;
  for (Index j = last; j >= 0; j = static_cast<Index>(earlier[j])) duplicate += static_cast<double>(w[j]);
  add(5, duplicate);
  add(6, static_cast<double>(w[last + 1]));
}

// The inputs for weights of this shape, with numbers that nobody else can change.
MeasureInputs checked(const MeasureInputs& given, Index batches, Index queries, Index keys) {
  const auto fits = [](const char* name, const Array& x, const Shape& shape) {
    if (x.defined() && x.shape() != shape)
      fail_value("measures: ", name, " must be ", shape, " to match the weights; got ", name, " ", x.shape());
  };
  fits("earlier", given.earlier, {batches, keys});
  fits("separators", given.separator, {batches, keys});
  fits("real", given.real, {batches, queries});
  MeasureInputs in = given;
  if (!in.earlier.defined()) return in;
  const auto fail = [](std::int64_t place, Index at) {
    fail_value("measures: earlier must be earlier places, or -1; got ", place, " at number ", at);
  };
  in.earlier = checked_integers(given.earlier, -1, keys - 1, fail);
  for (Index i = 0; i < in.earlier.numel(); ++i)
    if (const auto place = in.earlier.data<std::int64_t>()[i]; place >= i % keys) fail(place, i);
  return in;
}

// Sums (2, 8, H) of the weights that rows_of(piece, memory) gives, those of each tile of `size` rows, with so much
// scratch.
template <class T, class RowsOf>
Array measures(const AttentionProblem<T>& p, const MeasureInputs& given, Index size, Index scratch, RowsOf rows_of) {
  const MeasureInputs in = checked(given, p.batches, p.queries, p.keys);
  const Index group = p.heads / std::max<Index>(1, p.kv_heads), tiles = (group * p.queries + size - 1) / size;
  // In an order that does not depend on threads: first by tiles, then the tiles.
  const Array sums = Array::zeros({p.batches * tiles, p.heads, 2, kMeasures}, DType::float64);
  const Index cost = size * p.keys * (p.key_size + 32) / 16;
  for_tiles(p, size, cost, scratch + p.keys, [&](AttentionPiece piece, Index tile, T* memory) {
    const T* weights = rows_of(piece, memory);
    for (Index row = piece.begin; row < piece.end; ++row, weights += p.keys) {
      const Index query = row % p.queries, head = piece.kv_head * group + row / p.queries;
      if (in.real.defined() && !in.real.data<bool>()[piece.batch * p.queries + query]) continue;
      measure(sums.data<double>() + ((piece.batch * tiles + tile) * p.heads + head) * 2 * kMeasures, weights,
              memory + scratch, p.keys, piece.batch, query, in);
    }
  });
  const Array y = Array::zeros({2, kMeasures, p.heads}, DType::float64);
  for (Index at = 0, each = 2 * kMeasures; at < sums.numel(); ++at)
    y.data<double>()[at % each * p.heads + at / each % p.heads] += sums.data<double>()[at];
  return y;
}

// The weights of up to `size` rows (head, query) at a time, in memory of a thread.
template <class T> class PanelWeights {
 public:
  explicit PanelWeights(const AttentionProblem<T>& p) : problem_(p) {
    AttentionResult<T> asked;
    T some = 0;
    asked.weights.data = &some;
    scratch_ = attention_.forward_scratch(asked, p);
  }
  static constexpr Index size = 64;
  Index elements() const { return scratch_ + size * problem_.keys; }

  // Of the piece's rows, (rows, keys).
  const T* rows(AttentionPiece piece, T* memory) const {
    const AttentionProblem<T>& p = problem_;
    T* weights = memory + scratch_;
    AttentionResult<T> result;
    // Row (head, query) of the piece lies at its place after the piece's first row.
    const Index before = piece.kv_head * (p.heads / p.kv_heads) * p.queries + piece.begin;
    result.weights = {weights - before * p.keys, 0, p.queries * p.keys, p.keys, 1};
    attention_.forward(result, p, piece, memory);
    return weights;
  }

 private:
  const AttentionProblem<T>& problem_;
  const kernels::Attention<T>& attention_ = kernels::kernels<T>().attention;
  Index scratch_;
};

void check_rows(const HeadRows& rows, const Shape& weights) {
  const auto [batch, head, begin, end] = rows;
  if (batch < 0 || batch >= weights[0] || head < 0 || head >= weights[1] || begin < 0 || begin > end ||
      end > weights[2])
    fail_value("rows: batch, head, begin and end must lie in weights ", weights, "; got ", batch, ", ", head, ", ",
               begin, ", ", end);
}

// Not defined where all weights are computed by another kernel, for little.
template <class T> Array computed_rows(const AttentionProblem<T>& p, const HeadRows& wanted) {
  check_rows(wanted, {p.batches, p.heads, p.queries, p.keys});
  if (kernels::is_plain(p) && kernels::kernels<T>().attention.is_short(p)) return {};
  const PanelWeights<T> panel(p);
  const Array y({wanted.end - wanted.begin, p.keys}, dtype_v<T>);
  if (y.numel() == 0) return y;
  // Among the rows of the heads that share keys; tiles begin where those of all weights do, for the same bits.
  const Index group = p.heads / p.kv_heads, before = wanted.head % group * p.queries;
  const Index begin = before + wanted.begin, end = before + wanted.end, first = begin / panel.size;
  const Index tiles = (end + panel.size - 1) / panel.size - first, cost = panel.size * p.keys * (p.key_size + 32) / 16;
  parallel_for(0, tiles, grain_for(cost), [&](Index from, Index to) {
    const Scratch memory(static_cast<std::size_t>(panel.elements()) * sizeof(T));
    for (Index tile = first + from; tile < first + to; ++tile) {
      const Index at = tile * panel.size, last = std::min(group * p.queries, at + panel.size);
      const T* weights = panel.rows({wanted.batch, wanted.head / group, at, last}, memory.as<T>());
      const Index low = std::max(at, begin), high = std::min(last, end);
      std::copy_n(weights + (low - at) * p.keys, (high - low) * p.keys, y.data<T>() + (low - begin) * p.keys);
    }
  });
  return y;
}

template <class T> Array computed_measures(AttentionProblem<T> p, const MeasureInputs& in) {
  const Array copies = adjoin_rows(p);
  const PanelWeights<T> panel(p);
  return measures(p, in, panel.size, panel.elements(),
                  [&](AttentionPiece piece, T* memory) { return panel.rows(piece, memory); });
}

// Pixels of weights (B, H, Lq, Lk): no more than there are queries and keys.
struct Grid {
  Index first_row, rows, height, width;
  std::vector<Index> starts;  // of the columns, and the end of the last
  bool largest;

  Grid(const ImageOptions& image, Index queries, Index keys) : largest(image.largest) {
    const auto [row_begin, row_end] = image.rows.value_or(std::pair<Index, Index>(0, queries));
    const auto [column_begin, column_end] = image.columns.value_or(std::pair<Index, Index>(0, keys));
    first_row = row_begin;
    rows = row_end - row_begin;
    height = std::min(image.height, rows);
    width = std::min(image.width, column_end - column_begin);
    for (Index x = 0; x <= width; ++x) starts.push_back(column_begin + begin_of(x, width, column_end - column_begin));
  }
  Index row(Index y) const { return first_row + begin_of(y, height, rows); }
  // (B, H, height, width) at the size that was asked for: several pixels show one weight.
  Array enlarged(const Array& shown, const ImageOptions& image) const {
    if (height == image.height && width == image.width) return shown;
    const auto places = [](Index count, Index size) {
      const Array at({size}, DType::int64);
      for (Index i = 0; i < size; ++i) at.data<std::int64_t>()[i] = i * count / size;
      return at;
    };
    return entries(entries(shown, 2, places(height, image.height)), 3, places(width, image.width));
  }
};

// The largest or the sum of the weights from `begin` to `end`; NaN where one of them is.
template <class T> T reduced(const T* begin, const T* end, bool largest) {
  T most = 0, sum = 0;
  if (end - begin > 32) {
    const auto& kernel = kernels::kernels<T>().reduce;
    (largest ? kernel.max_of_rows : kernel.sum_of_rows)(&sum, begin, 1, end - begin);
    return sum;
  }
  for (; begin != end; ++begin) {
    most = *begin > most ? *begin : most;
    sum += *begin;
  }
  return largest && sum == sum ? most : sum;
}

// Rows of pixels [y_begin, y_end) of one head; to (height, width) holds zeros, line (keys) is scratch.
// rows(begin, end): those rows of weights (keys), at most `together` of them.
template <class T, class Rows>
void draw_rows(T* to, T* line, const Grid& grid, Index y_begin, Index y_end, Index together, Index keys, Rows rows) {
  const auto& kernel = kernels::kernels<T>().reduce;
  const Index width = grid.width;
  Index y = y_begin;
  for (Index begin = grid.row(y_begin), last = grid.row(y_end), end; begin < last; begin = end) {
    end = std::min(last, begin + together);
    const T* weights = rows(begin, end);
    for (Index row = begin, next; row < end; weights += (next - row) * keys, row = next) {
      while (row >= grid.row(y + 1)) ++y;
      next = std::min(end, grid.row(y + 1));
      // First all rows of weights of these pixels, in vectors; then their columns.
      const T* all = next - row == 1 ? weights : line;
      if (all == line)
        (grid.largest ? kernel.max_of_columns : kernel.sum_of_columns)(line, weights, keys, next - row, keys);
      const Index* starts = grid.starts.data();
      for (Index x = 0; x < width; ++x) {
        const T part = reduced(all + starts[x], all + starts[x + 1], grid.largest);
        T& pixel = to[y * width + x];
        pixel = !grid.largest ? pixel + part : part <= pixel || pixel != pixel ? pixel : part;
      }
    }
  }
  for (y = y_begin; !grid.largest && y < y_end; ++y)
    for (Index x = 0; x < width; ++x) {
      const auto at = static_cast<std::size_t>(x);
      to[y * width + x] /= static_cast<T>((grid.row(y + 1) - grid.row(y)) * (grid.starts[at + 1] - grid.starts[at]));
    }
}

template <class T> Array drawn(AttentionProblem<T> p, const ImageOptions& image) {
  const Array copies = adjoin_rows(p);
  const Grid grid(image, p.queries, p.keys);
  Array shown = Array::zeros({p.batches, p.heads, grid.height, grid.width}, dtype_v<T>);
  const PanelWeights<T> panel(p);
  // Whole rows of pixels, of at least a panel of queries together.
  const Index together = std::max<Index>(1, panel.size * grid.height / std::max<Index>(1, grid.rows));
  const Index pieces = (grid.height + together - 1) / together, matrices = p.batches * p.heads;
  const Index cost = (grid.rows / std::max<Index>(1, pieces) + 1) * p.keys * (p.key_size + 32);
  parallel_for(0, matrices * pieces, grain_for(cost / 16), [&](Index first, Index last) {
    const Scratch memory(static_cast<std::size_t>(panel.elements() + p.keys) * sizeof(T));
    T* line = memory.as<T>() + panel.elements();
    for (Index at = first; at < last; ++at) {
      const Index matrix = at / pieces, y = at % pieces * together, head = matrix % p.heads;
      const Index group = p.heads / p.kv_heads, before = head % group * p.queries;
      draw_rows(shown.data<T>() + matrix * grid.height * grid.width, line, grid, y, std::min(grid.height, y + together),
                panel.size, p.keys, [&](Index begin, Index end) {
                  return panel.rows({matrix / p.heads, head / group, before + begin, before + end}, memory.as<T>());
                });
    }
  });
  return grid.enlarged(shown, image);
}

void check_range(const char* op, const char* name, const std::optional<std::pair<Index, Index>>& range, Index n) {
  if (range && !(range->first >= 0 && range->first < range->second && range->second <= n))
    fail_value(op, ": ", name, " must be (begin, end) with 0 <= begin < end <= ", n, "; got (", range->first, ", ",
               range->second, ")");
}

void check_image(const char* op, const ImageOptions& image, Index queries, Index keys) {
  if (image.height < 1 || image.width < 1)
    fail_value(op, ": size must be (height, width) of at least 1 pixel each; got (", image.height, ", ", image.width,
               ")");
  if (queries == 0 || keys == 0)
    fail_value(op, ": query and key must have at least one row because a picture of nothing has no pixels; got Lq = ",
               queries, ", Lk = ", keys);
  check_range(op, "rows", image.rows, queries);
  check_range(op, "columns", image.columns, keys);
}

}  // namespace

Array attention_image(const Array& query, const Array& key, const AttentionOptions& options,
                      const ImageOptions& image) {
  Shape values = key.shape();
  if (!values.empty()) values.back() = 0;
  const Geometry g = plain_geometry(query.shape(), key.shape(), values, options);
  check_image(options.operation, image, g.queries, g.keys);
  const Array y =
      with_call(query, key, g, options, [&](const auto& call, const Tensors&) { return drawn(call.problem(), image); });
  return y.reshaped(g.shaped(y.shape()));
}

Array packed_attention_image(const Array& query, const Array& key, Heads heads, const AttentionOptions& options,
                             const ImageOptions& image) {
  return with_packed_call(query, key, heads, options, [&](const auto& call, const Tensors&) {
    check_image("attention_image", image, call.geometry.queries, call.geometry.keys);
    return drawn(call.problem(), image);
  });
}

Array image_of(const Array& given, const ImageOptions& image) {
  const Array weights = packed(given);
  const Index B = weights.dim(0), H = weights.dim(1), Lq = weights.dim(2), Lk = weights.dim(3);
  check_image("attention_image", image, Lq, Lk);
  const Grid grid(image, Lq, Lk);
  return visit_floating(weights.dtype(), [&]<class T>(T) {
    Array shown = Array::zeros({B, H, grid.height, grid.width}, dtype_v<T>);
    std::vector<T> line(static_cast<std::size_t>(Lk));
    for (Index matrix = 0; matrix < B * H; ++matrix)
      draw_rows(shown.data<T>() + matrix * grid.height * grid.width, line.data(), grid, 0, grid.height, Lq, Lk,
                [&](Index row, Index) { return weights.data<T>() + (matrix * Lq + row) * Lk; });
    return grid.enlarged(shown, image);
  });
}

Array packed_attention_measures(const Array& query, const Array& key, Heads heads, const AttentionOptions& options,
                                const MeasureInputs& inputs) {
  return with_packed_call(query, key, heads, options,
                          [&](const auto& call, const Tensors&) { return computed_measures(call.problem(), inputs); });
}

Array packed_attention_rows(const Array& query, const Array& key, Heads heads, const AttentionOptions& options,
                            const HeadRows& rows) {
  const Array y = with_packed_call(query, key, heads, options, [&](const auto& call, const Tensors&) {
    return computed_rows(call.problem(), rows);
  });
  return y.defined() ? y : rows_of(packed_attention_weights(query, key, heads, options), rows);
}

Array rows_of(const Array& given, const HeadRows& rows) {
  check_rows(rows, given.shape());
  const Tensor matrix = slice(slice(Tensor(given), 0, rows.batch, rows.batch + 1), 1, rows.head, rows.head + 1);
  return cloned(slice(matrix, 2, rows.begin, rows.end).data()).reshaped({rows.end - rows.begin, given.dim(3)});
}

Array unpadded(const AttentionOptions& o, const Shape& weights) {
  const Index B = weights[0], Lk = weights[3];
  const bool by_length = o.valid_lens.defined() && o.valid_lens.numel() == B && o.valid_lens.dim(0) == B;
  const Tensor& mask = o.attn_mask;
  const bool by_mask = mask.defined() && mask.dtype() == DType::boolean && mask.rank() > 2 && mask.dim(-2) == 1 &&
                       mask.dim(-1) == Lk && mask.numel() == mask.dim(0) * Lk && (mask.dim(0) == B || mask.dim(0) == 1);
  if (!by_length && !by_mask) return {};
  AttentionOptions keys;
  if (by_length) keys.valid_lens = o.valid_lens.reshaped({B});
  if (by_mask) keys.attn_mask = reshape(mask, {mask.dim(0), 1, Lk});
  return Allowed({B, 1, Lk}, DType::float32, keys).array().reshaped({B, Lk});
}

Array measures_of(const Array& given, const MeasureInputs& inputs) {
  const Array weights = packed(given);
  return visit_floating(weights.dtype(), [&]<class T>(T) {
    AttentionProblem<T> p;
    p.batches = weights.dim(0);
    p.heads = p.kv_heads = weights.dim(1);
    p.queries = weights.dim(2);
    p.keys = weights.dim(3);
    return measures(p, inputs, std::max<Index>(1, p.queries), 0, [&](AttentionPiece piece, T*) {
      return weights.data<T>() + (piece.batch * p.heads + piece.kv_head) * p.queries * p.keys;
    });
  });
}

}  // namespace qkv::ops
