#include "ops/attention/weight_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/buffer.h"
#include "core/error.h"
#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/attention/arguments.h"
#include "ops/attention/composed.h"
#include "ops/attention/parallel.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

using kernels::AttentionPiece;

// part(i) of n numbers in `parts` parts: where it begins.
Index begin_of(Index part, Index parts, Index n) { return n / parts * part + n % parts * part / parts; }

// Each measure of one query.
struct RowMeasures {
  std::array<double, kMeasures> value;
  std::array<bool, kMeasures> given{};
  void set(std::size_t i, double x) {
    value[i] = x;
    given[i] = true;
  }
};

// `logs` (n) is scratch.
template <class T>
RowMeasures measured(const T* w, T* logs, Index n, Index batch, Index query, const MeasureInputs& in) {
  RowMeasures m;
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
  if (total == 0) return m;  // no key
  m.set(0, entropy);
  m.set(4, static_cast<double>(w[0]));
  if (separated) m.set(7, separators);
  if (in.cross) return m;
  m.set(1, distance);
  if (at > 0 && at <= n) m.set(2, static_cast<double>(w[at - 1]));
  if (at >= 0 && at < n) m.set(3, static_cast<double>(w[at]));
  if (!in.earlier.defined() || at < 0 || at >= n) return m;
  const std::int64_t* earlier = in.earlier.data<std::int64_t>() + batch * n;
  const Index last = static_cast<Index>(earlier[at]);
  if (last < 0) return m;
  double duplicate = 0;
  for (Index j = last; j >= 0; j = static_cast<Index>(earlier[j])) duplicate += static_cast<double>(w[j]);
  m.set(5, duplicate);
  m.set(6, static_cast<double>(w[last + 1]));
  return m;
}

// Sums (2, 8, H) of what rows say, in an order that does not depend on threads: first by pieces, then the pieces.
class Sums {
 public:
  Sums(Index heads, Index pieces) : heads_(heads), of_(static_cast<std::size_t>(pieces * heads)) {}
  void add(Index piece, Index head, const RowMeasures& m) {
    auto& to = of_[static_cast<std::size_t>(piece * heads_ + head)];
    for (std::size_t i = 0; i < m.value.size(); ++i)
      if (m.given[i]) to.sum[i] += m.value[i], to.count[i] += 1;
  }
  Array array() const {
    Array y = Array::zeros({2, kMeasures, heads_}, DType::float64);
    for (std::size_t at = 0; at < of_.size(); ++at)
      for (std::size_t i = 0; i < kMeasures; ++i) {
        const Index place = static_cast<Index>(i) * heads_ + static_cast<Index>(at) % heads_;
        y.data<double>()[place] += of_[at].sum[i];
        y.data<double>()[kMeasures * heads_ + place] += of_[at].count[i];
      }
    return y;
  }

 private:
  struct Each {
    std::array<double, kMeasures> sum{}, count{};
  };
  const Index heads_;
  std::vector<Each> of_;
};

bool counts(const MeasureInputs& in, Index batch, Index query, Index queries) {
  return !in.real.defined() || in.real.data<bool>()[batch * queries + query];
}

template <class T> Array measures(const AttentionProblem<T>& given, const MeasureInputs& in) {
  const AdjoiningRows<T> adjoining(without_values(given));
  const AttentionProblem<T>& p = adjoining.problem;
  const auto& attention = kernels::kernels<T>().attention;
  const Index group = p.heads / std::max<Index>(1, p.kv_heads), rows = group * p.queries, size = attention.panel_rows;
  const Index tiles = (rows + size - 1) / size, all = p.batches * p.kv_heads * tiles;
  Sums sums(p.heads, p.batches * tiles);
  AttentionResult<T> with_weights;
  T some = 0;
  with_weights.weights.data = &some;
  const Index scratch = attention.forward_scratch(with_weights, p), cost = size * p.keys * (p.key_size + 32);
  parallel_for(0, all, grain_for(cost / 16), [&](Index first, Index last) {
    const Scratch memory(static_cast<std::size_t>(scratch + (size + 1) * p.keys) * sizeof(T));
    T* weights = memory.as<T>() + scratch;
    for (Index at = first; at < last; ++at) {
      const Index matrix = at / tiles, batch = matrix / p.kv_heads, kv_head = matrix % p.kv_heads;
      const Index begin = at % tiles * size, end = std::min(rows, begin + size);
      AttentionResult<T> result;
      // Row (head, query) of the piece lies at its place behind `begin`.
      result.weights = {weights - (kv_head * rows + begin) * p.keys, 0, p.queries * p.keys, p.keys, 1};
      attention.forward(result, p, AttentionPiece{batch, kv_head, begin, end}, memory.as<T>());
      for (Index row = begin; row < end; ++row) {
        const Index query = row % p.queries;
        if (!counts(in, batch, query, p.queries)) continue;
        const RowMeasures m =
            measured(weights + (row - begin) * p.keys, weights + size * p.keys, p.keys, batch, query, in);
        sums.add(batch * tiles + at % tiles, kv_head * group + row / p.queries, m);
      }
    }
  });
  return sums.array();
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
  // pixels (width) = theirs and those of one more row of weights, of which `reduced` are the columns.
  template <class T> void add(T* pixels, const T* reduced) const {
    for (Index x = 0; x < width; ++x) pixels[x] = largest ? std::max(pixels[x], reduced[x]) : pixels[x] + reduced[x];
  }
  // Rows of pixels [y_begin, y_end), summed, as means.
  template <class T> void average(T* pixels, Index y_begin, Index y_end) const {
    for (Index y = y_begin; y < y_end; ++y)
      for (Index x = 0; x < width; ++x)
        pixels[y * width + x] /= static_cast<T>(
            (row(y + 1) - row(y)) * (starts[static_cast<std::size_t>(x) + 1] - starts[static_cast<std::size_t>(x)]));
  }
  // (B, H, height, width) at the size that was asked for: several pixels show one weight.
  template <class T> Array enlarged(const Array& shown, const ImageOptions& image) const {
    if (height == image.height && width == image.width) return shown;
    Array y({shown.dim(0), shown.dim(1), image.height, image.width}, dtype_v<T>);
    for (Index line = 0; line < shown.dim(0) * shown.dim(1) * image.height; ++line) {
      const Index matrix = line / image.height, from = line % image.height * height / image.height;
      const T* source = shown.data<T>() + (matrix * height + from) * width;
      for (Index x = 0; x < image.width; ++x) y.data<T>()[line * image.width + x] = source[x * width / image.width];
    }
    return y;
  }
};

// Rows of pixels [y_begin, y_end) of one head, by one thread; to (height, width) holds zeros.
template <class T>
void draw_rows(T* to, const AttentionProblem<T>& p, const Grid& grid, Index batch, Index head, Index y_begin,
               Index y_end, T* memory) {
  const auto& attention = kernels::kernels<T>().attention;
  const Index group = p.heads / p.kv_heads, before = head % group * p.queries;
  AttentionResult<T> result;
  result.columns = {{}, grid.starts.data(), grid.width, grid.largest};
  T* reduced = memory + attention.forward_scratch(result, p);
  Index y = y_begin;
  for (Index begin = grid.row(y_begin); begin < grid.row(y_end); begin += attention.tile_rows) {
    const Index end = std::min(grid.row(y_end), begin + attention.tile_rows);
    result.columns.to = {reduced - begin * grid.width, 0, 0, grid.width, 1};
    attention.forward(result, p, AttentionPiece{batch, head / group, before + begin, before + end}, memory);
    for (Index row = begin; row < end; ++row) {
      while (row >= grid.row(y + 1)) ++y;
      grid.add(to + y * grid.width, reduced + (row - begin) * grid.width);
    }
  }
  if (!grid.largest) grid.average(to, y_begin, y_end);
}

template <class T> Array drawn(const AttentionProblem<T>& given, const ImageOptions& image) {
  const AdjoiningRows<T> adjoining(without_values(given));
  const AttentionProblem<T>& p = adjoining.problem;
  const Grid grid(image, p.queries, p.keys);
  Array shown = Array::zeros({p.batches, p.heads, grid.height, grid.width}, dtype_v<T>);
  const auto& attention = kernels::kernels<T>().attention;
  AttentionResult<T> result;
  result.columns.count = grid.width;
  const Index scratch = attention.forward_scratch(result, p) + attention.tile_rows * grid.width;
  // Whole rows of pixels, of at least a tile of queries together.
  const Index together = std::max<Index>(1, attention.tile_rows * grid.height / std::max<Index>(1, grid.rows));
  const Index pieces = (grid.height + together - 1) / together, matrices = p.batches * p.heads;
  const Index cost = (grid.rows / std::max<Index>(1, pieces) + 1) * p.keys * (p.key_size + 32);
  parallel_for(0, matrices * pieces, grain_for(cost / 16), [&](Index first, Index last) {
    const Scratch memory(static_cast<std::size_t>(scratch) * sizeof(T));
    for (Index at = first; at < last; ++at) {
      const Index matrix = at / pieces, y = at % pieces * together;
      draw_rows(shown.data<T>() + matrix * grid.height * grid.width, p, grid, matrix / p.heads, matrix % p.heads, y,
                std::min(grid.height, y + together), memory.as<T>());
    }
  });
  return grid.enlarged<T>(shown, image);
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
    std::vector<T> reduced(static_cast<std::size_t>(grid.width));
    for (Index matrix = 0; matrix < B * H; ++matrix) {
      T* to = shown.data<T>() + matrix * grid.height * grid.width;
      for (Index y = 0; y < grid.height; ++y)
        for (Index row = grid.row(y); row < grid.row(y + 1); ++row) {
          const T* from = weights.data<T>() + (matrix * Lq + row) * Lk;
          for (std::size_t x = 0; x < reduced.size(); ++x) {
            const T *begin = from + grid.starts[x], *end = from + grid.starts[x + 1];
            reduced[x] = grid.largest ? *std::max_element(begin, end) : std::accumulate(begin, end, T(0));
          }
          grid.add(to + y * grid.width, reduced.data());
        }
      if (!grid.largest) grid.average(to, 0, grid.height);
    }
    return grid.enlarged<T>(shown, image);
  });
}

Array packed_attention_measures(const Array& query, const Array& key, Heads heads, const AttentionOptions& options,
                                const MeasureInputs& inputs) {
  return with_packed_call(query, key, heads, options,
                          [&](const auto& call, const Tensors&) { return measures(call.problem(), inputs); });
}

Array unpadded(const AttentionOptions& o, const Shape& weights) {
  const Index B = weights[0], Lk = weights[3];
  const bool by_length = o.valid_lens.defined() && o.valid_lens.numel() == B && o.valid_lens.dim(0) == B;
  const Tensor& mask = o.attn_mask;
  const bool by_mask = mask.defined() && mask.dtype() == DType::boolean && mask.rank() > 2 && mask.dim(-2) == 1 &&
                       mask.dim(-1) == Lk && mask.numel() == mask.dim(0) * Lk && (mask.dim(0) == B || mask.dim(0) == 1);
  if (!by_length && !by_mask) return {};
  Array real({B, Lk}, DType::boolean);
  const Array open = by_mask ? packed(mask.data()) : Array();
  for (Index b = 0; b < B; ++b)
    for (Index j = 0; j < Lk; ++j)
      real.data<bool>()[b * Lk + j] = (!by_length || j < o.valid_lens.data<std::int64_t>()[b]) &&
                                      (!by_mask || open.data<bool>()[(mask.dim(0) == 1 ? 0 : b * Lk) + j]);
  return real;
}

Array measures_of(const Array& given, const MeasureInputs& inputs) {
  const Array weights = packed(given);
  const Index B = weights.dim(0), H = weights.dim(1), Lq = weights.dim(2), Lk = weights.dim(3);
  Sums sums(H, B);
  visit_floating(weights.dtype(), [&]<class T>(T) {
    parallel_for(0, B * H, 1, [&](Index first, Index last) {
      const Scratch memory(static_cast<std::size_t>(Lk) * sizeof(T));
      for (Index at = first; at < last; ++at)
        for (Index i = 0; i < Lq; ++i)
          if (counts(inputs, at / H, i, Lq))
            sums.add(at / H, at % H,
                     measured(weights.data<T>() + (at * Lq + i) * Lk, memory.as<T>(), Lk, at / H, i, inputs));
    });
  });
  return sums.array();
}

}  // namespace qkv::ops
