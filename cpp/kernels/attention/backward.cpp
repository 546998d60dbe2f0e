// The backward pass of attention: gradients of queries, keys, values and sinks. With weights P = softmax(S), O = P V
// and the row sums delta = dO . O,
//     dV = P^T dO,   dS = P * (dO V^T - delta),   dQ = scale dS K,   dK = scale dS^T Q.
// With other normalisers dS = P' * (dO V^T - delta), where P' are the derivatives of the weights and delta is 0, or
// with a threshold dO . (P' V) / (sum of P').
#include "kernels/attention/score_gradient.h"
#include "kernels/simd/math.h"
#include "kernels/simd/sums.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// Panels per pass: keys and values come from the second-level cache once for all of them, and the products for dkey and
// dvalue, whose depth is the number of queries, are as deep.
template <class T> constexpr Index kGradientPanels = kMostPanels<T>;

// Scratch after GradientScratch's: rows of the panels as they are, and the gradients that are being summed.
template <class T> struct Sums {
  Index key_width, value_width;  // D and Dv, rounded up to whole vectors
  T* queries;                    // (rows, key_width), times scale
  T* dout;                       // (rows, value_width)
  T* dkey;                       // (keys, key_width)
  T* dvalue;                     // (keys, value_width)
  T* tile;                       // sums of one tile of queries and step of keys: of both

  Sums(T* memory, const AttentionProblem<T>& p, Index keys)
      : key_width(padded<T>(p.key_size)), value_width(padded<T>(p.value_size)) {
    constexpr Index rows = kTileQueries;
    queries = memory;
    dout = queries + rows * key_width;
    dkey = dout + rows * value_width;
    dvalue = dkey + keys * key_width;
    tile = dvalue + keys * value_width;
  }
  static Index elements(const AttentionProblem<T>& p, Index keys) {
    constexpr Index rows = kTileQueries;
    return (rows + keys + kBlockKeys) * (padded<T>(p.key_size) + padded<T>(p.value_size));
  }
};

template <class T> Index backward_scratch(const AttentionProblem<T>& p, Index keys) {
  return GradientScratch<T>::elements(p, kGradientPanels<T>) + Sums<T>::elements(p, keys);
}

template <class T> void zero(T* x, Index n) { memset(x, 0, sizeof(T) * n); }

// to (rows, width): a panel's queries or gradients of its results, times scale, zeros after n.
template <class T>
void copy_rows(T* to, Index width, HeadsView<const T> from, const RowBlock<T>& rows, T scale, Index n) {
  for (Index row = 0; row < rows.rows; ++row) {
    const T* x = from.at(rows.batch, rows.head[row], rows.query[row]);
    each_vector<T>(n, [=](Index i, auto at) { store(to + row * width + i, at(x + i) * splat<T>(scale)); });
  }
}

// A tile of queries and what is done with it.
template <class T> struct GradientTile {
  GradientBlock<T> panel[kGradientPanels<T>];
  KeyStep step[kGradientPanels<T>];
  Index count;
  static constexpr Index height = kPanelWidth<T>;
  bool skip_queries;  // their rows or gradients hold infinity or NaN: weights of 0 must not be multiplied with them

  // The part that holds a whole panel, or null.
  const StepPart* whole(Index i) const {
    const StepPart& part = step[i].part[0];
    const bool one = step[i].count == 1 && part.vectors == panel[i].rows.vectors && !part.has_stairs();
    return one && panel[i].rows.rows == height ? step[i].part : nullptr;
  }
};

// dvalue += weights^T dout and dkey += dscores^T queries, of panels i to i + groups and keys [from, to) of the step,
// `depth` queries of each from `lane` on.
template <class T>
void add_to_keys(StoreMode mode, const Sums<T>& sums, T* dkey, T* dvalue, GradientScratch<T>& scratch,
                 const GradientTile<T>& tile, Index i, Index groups, Index lane, Index depth, Index from, Index to) {
  scratch.use(i);
  const Index width = tile.panel[i].rows.width;
  const Index at = from * width + lane, row = i * tile.height + lane, jump = kTileElements<T>;
  const auto add = [&](T* sum, Index size, const T* weights, const T* rows) {
    add_product<T>({mode, sum + from * size, size, nullptr, weights + at, width, rows + row * size, size, depth,
                    nullptr, groups, jump, depth * size},
                   to - from, size, tile.skip_queries);
  };
  add(dvalue, sums.value_width, scratch.tiles.scores, sums.dout);
  add(dkey, sums.key_width, scratch.dscores, sums.queries);
}

// The same of all panels. For each key the queries of a tile make one sum, in their order, however wide the panels are
// and whichever of them have parts; this is then added as a whole. Neighbouring whole panels come in one product.
template <class T>
void add_step_to_keys(const Sums<T>& sums, GradientScratch<T>& scratch, const GradientTile<T>& tile, Index origin) {
  Index key = 0, least = kBlockKeys, most = 0;
  bool alike = true;  // one product does: all panels are whole over the same keys
  const StepPart* first = nullptr;
  for (Index i = 0; i < tile.count; ++i) {
    const StepPart* part = tile.whole(i);
    if (i == 0) first = part;
    alike = alike && part != nullptr && first != nullptr && part->from == first->from && part->to == first->to;
    if (tile.step[i].count == 0) continue;
    key = tile.step[i].key;
    for (Index at = 0; at < tile.step[i].count; ++at) {
      least = at_most(least, tile.step[i].part[at].from);
      most = at_least(most, tile.step[i].part[at].to);
    }
  }
  if (least >= most) return;
  T *dkey = sums.dkey + (key - origin) * sums.key_width, *dvalue = sums.dvalue + (key - origin) * sums.value_width;
  if (alike && !tile.skip_queries)
    return add_to_keys(StoreMode::accumulate, sums, dkey, dvalue, scratch, tile, 0, tile.count, 0, tile.height,
                       first->from, first->to);
  T *tile_key = sums.tile, *tile_value = sums.tile + kBlockKeys * sums.key_width;
  const Index keys = most - least;
  memset(tile_key + least * sums.key_width, 0, sizeof(T) * static_cast<size_t>(keys * sums.key_width));
  memset(tile_value + least * sums.value_width, 0, sizeof(T) * static_cast<size_t>(keys * sums.value_width));
  for (Index i = 0, groups; i < tile.count; i += groups) {
    groups = 1;
    if (const StepPart* part = tile.whole(i)) {
      const auto same = [&](Index next) {
        const StepPart* other = next < tile.count ? tile.whole(next) : nullptr;
        return other != nullptr && other->from == part->from && other->to == part->to;
      };
      while (same(i + groups)) ++groups;
      add_to_keys(StoreMode::resume, sums, tile_key, tile_value, scratch, tile, i, groups, 0, tile.height, part->from,
                  part->to);
      continue;
    }
    const RowBlock<T>& rows = tile.panel[i].rows;
    for (Index at = 0; at < tile.step[i].count; ++at) {
      const StepPart& part = tile.step[i].part[at];
      part.each_stair([&](Index v, Index count, Index from, Index to) {
        const Index lane = v * kLanes<T>, lanes = at_most(count * kLanes<T>, rows.rows - lane);
        add_to_keys(StoreMode::resume, sums, tile_key, tile_value, scratch, tile, i, 1, lane, lanes, from, to);
      });
    }
  }
  const auto add_whole = [&](T* to, const T* from, Index width) {
    for (Index i = least * width; i < most * width; i += kLanes<T>) store(to + i, load(to + i) + load(from + i));
  };
  add_whole(dkey, tile_key, sums.key_width);
  add_whole(dvalue, tile_value, sums.value_width);
}

// Adds a panel's part to its dquery (D, width) and leaves its weights and dscores of keys [key, key + n).
template <class T>
void run_panel(GradientScratch<T>& scratch, KeyStep& step, const GradientBlock<T>& panel,
               const AttentionSaved<T>& saved, const LeafGradient<T>* dleaves, Index key, Index n, bool skip_keys) {
  const RowBlock<T>& rows = panel.rows;
  const AttentionProblem<T>& p = *rows.problem;
  const Index width = rows.width;
  score_gradient(scratch, step, panel, saved, key, n);
  formula_gradient(scratch, step, rows, key, n, dleaves);
  for (Index i = 0; i < step.count; ++i) {
    const StepPart& part = step.part[i];
    const Index lane = part.vector * kLanes<T>, at = part.from * width + lane;
    const auto multiply = skip_keys ? multiply_skipping<T> : multiply_transposed<T>;
    multiply({StoreMode::accumulate, scratch.dquery + lane, width, nullptr, rows.key(key + part.from), p.key.position,
              scratch.dscores + at, width, part.keys(), part.has_stairs() ? part.keys_of + part.vector : nullptr},
             p.key_size, part.vectors, scratch.tiles.queue, nullptr);
  }
}

// Adds what a tile contributes to the sums of dkey and dvalue, which start at key `origin`, and to each panel's dquery.
template <class T>
void run_tile(const Sums<T>& sums, GradientScratch<T>& scratch, GradientTile<T>& tile, const AttentionSaved<T>& saved,
              const LeafGradient<T>* dleaves, Index from, Index to, Index origin) {
  const RowBlock<T>& first = tile.panel[0].rows;
  const AttentionProblem<T>& p = *first.problem;
  const Index size = key_step(p);
  for (Index key = from; key < to; key += size) {
    const Index n = at_most(to - key, size), next = key + n, more = at_most(to - next, size);
    const auto passed_over = [&](Index i) {
      const RowBlock<T>& rows = tile.panel[i].rows;
      return key + n <= rows.first || key >= rows.last || is_excluded(rows, key, n);
    };
    Index passed = 0;
    while (passed < tile.count && passed_over(passed)) ++passed;
    if (passed == tile.count) continue;
    PrefetchQueue& queue = scratch.queue;
    queue.clear();
    queue.add(first.key(next), more, p.key.position, p.key_size);
    queue.add(first.value(next), more, p.value.position, p.value_size);
    queue.add(sums.dkey + (next - origin) * sums.key_width, more, sums.key_width, sums.key_width);
    queue.add(sums.dvalue + (next - origin) * sums.value_width, more, sums.value_width, sums.value_width);
    for (Index i = 0; i < tile.count; ++i) fetch_tables(queue, tile.panel[i].rows, key, n);
    queue.spread(tile.count * (2 * tiles_of(n, kMaxVectors) + tiles_of(p.key_size, kMaxVectors)));
    for (Index i = 0; i < tile.count; ++i) {
      tile.step[i].count = 0;
      if (passed_over(i)) continue;
      scratch.use(i);
      run_panel(scratch, tile.step[i], tile.panel[i], saved, dleaves, key, n, false);
    }
    add_step_to_keys(sums, scratch, tile, origin);
  }
}

template <class T> void add_rows(T* to, Index stride, const T* from, Index width, Index rows, Index n) {
  for (Index row = 0; row < rows; ++row)
    for (Index i = 0; i < n; ++i) to[row * stride + i] += from[row * width + i];
}

// Sets the first panel of a piece's rows; `seen` grows by the keys that they may see.
template <class T>
void widen(KeyRange& seen, RowBlock<T>& rows, const AttentionProblem<T>& p, const AttentionPiece& piece) {
  set_rows(rows, p, piece.batch, piece.kv_head, piece.begin, at_most(piece.begin + kPanelWidth<T>, piece.end));
  if (rows.first < rows.last) seen = {at_most(seen.low, rows.first), at_least(seen.high, rows.last)};
}

template <class T>
void backward(const AttentionGradients<T>& gradients, const T* delta, const AttentionSaved<T>& saved,
              const AttentionProblem<T>& p, AttentionPiece piece, Index keys_begin, Index keys_end, T* memory) {
  const Index batch = piece.batch, kv_head = piece.kv_head;
  GradientTile<T> tile;
  KeyRange all{keys_end, keys_begin};  // far fewer than those given, perhaps, with a window
  for (Index row = piece.begin; row < piece.end; row += kPanelWidth<T>)
    widen(all, tile.panel[0].rows, p, {batch, kv_head, row, piece.end});
  keys_begin = at_least(keys_begin, all.low);
  keys_end = at_most(keys_end, all.high);
  if (keys_begin >= keys_end) return;
  const Index n = keys_end - keys_begin;
  GradientScratch<T> scratch(memory, p, kGradientPanels<T>);
  const Sums<T> sums(scratch.rest, p, n);
  alignas(64) T scale[kPanelWidth<T>];
  for (T& factor : scale) factor = p.scale;
  zero(sums.dkey, n * sums.key_width);
  zero(sums.dvalue, n * sums.value_width);
  constexpr Index most = kTileQueries;
  for (Index begin = piece.begin; begin < piece.end; begin += most) {
    const Index end = at_most(begin + most, piece.end);
    KeyRange seen{keys_end, keys_begin};
    tile.count = 0;
    for (Index row = begin; row < end; row += kPanelWidth<T>)
      widen(seen, tile.panel[tile.count++].rows, p, {batch, kv_head, row, end});
    const Index from = at_least(seen.low, keys_begin), to = at_most(seen.high, keys_end);
    if (from >= to) continue;
    // Infinity and NaN must not spread through weights of 0: neither from queries into keys that they may not see ...
    tile.skip_queries = false;
    for (Index i = 0; i < tile.count; ++i) {
      GradientBlock<T>& panel = tile.panel[i];
      scratch.use(i);
      load_gradient_rows(panel, scratch, delta, saved);
      T* queries = sums.queries + i * tile.height * sums.key_width;
      T* dout = sums.dout + i * tile.height * sums.value_width;
      copy_rows(queries, sums.key_width, p.query, panel.rows, p.scale, p.key_size);
      copy_rows(dout, sums.value_width, saved.dout, panel.rows, T(1), p.value_size);
      tile.skip_queries |=
          !finite(queries, panel.rows.rows * sums.key_width) || !finite(dout, panel.rows.rows * sums.value_width);
      zero(scratch.dquery, p.key_size * panel.rows.width);
    }
    run_tile(sums, scratch, tile, saved, gradients.dleaves, from, to, keys_begin);
    if (gradients.dquery.data == nullptr) continue;
    for (Index i = 0; i < tile.count; ++i) {
      const GradientBlock<T>& panel = tile.panel[i];
      const RowBlock<T>& rows = panel.rows;
      scratch.use(i);
      // ... nor from keys into queries.
      if (!finite_lines(scratch.dquery, p.key_size, rows.width, rows.vectors)) {
        zero(scratch.dquery, p.key_size * rows.width);
        scratch.queue.clear();
        const Index size = key_step(p);
        for (Index key = from; key < to; key += size)
          run_panel(scratch, tile.step[i], panel, saved, static_cast<const LeafGradient<T>*>(nullptr), key,
                    at_most(to - key, size), true);
      }
      T* lines[kPanelWidth<T>];
      for (Index row = 0; row < rows.rows; ++row) lines[row] = sums.queries + row * sums.key_width;
      rows_from_columns(lines, scratch.dquery, rows.width, scale, rows.rows, p.key_size);
      for (Index row = 0; row < rows.rows; ++row)
        add_rows(gradients.dquery.at(batch, rows.head[row], rows.query[row]), 0, lines[row], 0, 1, p.key_size);
    }
  }
  if (gradients.dkey.data != nullptr)
    add_rows(gradients.dkey.at(batch, kv_head, keys_begin), gradients.dkey.position, sums.dkey, sums.key_width, n,
             p.key_size);
  if (gradients.dvalue.data != nullptr)
    add_rows(gradients.dvalue.at(batch, kv_head, keys_begin), gradients.dvalue.position, sums.dvalue, sums.value_width,
             n, p.value_size);
}

template <class T>
void row_delta(T* delta, const AttentionSaved<T>& saved, const AttentionProblem<T>& p, AttentionPiece piece,
               T* memory) {
  GradientScratch<T> scratch(memory, p, 1);
  GradientBlock<T> block;
  const RowBlock<T>& rows = block.rows;
  KeyStep parts;
  alignas(64) T extra[kPanelWidth<T>] = {}, derivatives[kPanelWidth<T>] = {};
  if (facts_of(p.normalizer).sum == RowSum::free) {
    for (Index row = piece.begin; row < piece.end; ++row)
      delta[p.row(piece.batch, piece.kv_head * (p.heads / p.kv_heads), row)] = 0;
    return;
  }
  for (Index begin = piece.begin; begin < piece.end; begin += kPanelWidth<T>) {
    set_rows(block.rows, p, piece.batch, piece.kv_head, begin, at_most(begin + kPanelWidth<T>, piece.end));
    if (saved.dweights.data != nullptr) {
      load_gradient_rows(block, scratch, static_cast<const T*>(nullptr), saved);
      for (T& sum : extra) sum = 0;
      for (T& sum : derivatives) sum = 0;
      const Index step = key_step(p);
      for (Index key = rows.first; key < rows.last; key += step) {
        const Index n = at_most(rows.last - key, step);
        block_weights(scratch, parts, block, key, n);
        load_dweights(scratch.dscores, rows, saved, key, n);
        with_normalizer(p.normalizer, [&]<Normalizer normalizer>() {
          for (Index i = 0; i < n * rows.width; i += kLanes<T>) {
            const Vec<T> w = load(scratch.tiles.scores + i), derivative = Rule<normalizer>::template derivative<T>(w);
            T* sum = extra + i % rows.width;
            T* total = derivatives + i % rows.width;
            store(sum, select(w == Vec<T>{}, load(sum), fused(derivative, load(scratch.dscores + i), load(sum))));
            store(total, load(total) + derivative);
          }
        });
      }
    }
    for (Index row = 0; row < rows.rows; ++row) {
      const Index at = p.row(piece.batch, rows.head[row], rows.query[row]);
      const T* dout = saved.dout.at(piece.batch, rows.head[row], rows.query[row]);
      const T* out = saved.out.at(piece.batch, rows.head[row], rows.query[row]);
      if (has_threshold(p.normalizer) && derivatives[row] != 0) extra[row] /= derivatives[row];
      const T product =
          sum_vectors<T>(p.value_size, [=](Index i, auto read) { return Product<T>{read(dout + i), read(out + i)}; });
      delta[at] = product + extra[row] - (saved.dlse != nullptr ? saved.dlse[at] : T(0));
    }
  }
}

template <class T>
void sink_gradient(T* dsinks, const T* delta, const AttentionSaved<T>& saved, const AttentionProblem<T>& p,
                   Index head) {
  T sum = 0;
  for (Index batch = 0; batch < p.batches; ++batch)
    for (Index i = 0; i < p.queries; ++i) {
      const Index row = p.row(batch, head, i);
      if (!(delta[row] - delta[row] == 0) && !has_gradient(saved, p, batch, head, i)) continue;
      const T weight = exp_of_number(p.sinks[head] - saved.statistics[2 * row]) * saved.statistics[2 * row + 1];
      sum = fused(-weight, delta[row], sum);
    }
  dsinks[head] += sum;
}

}  // namespace

template <class T> void set_backward_kernels(Attention<T>& table) {
  table.backward_scratch = backward_scratch<T>;
  table.row_delta = row_delta<T>;
  table.backward = backward<T>;
  table.sink_gradient = sink_gradient<T>;
}

template void set_backward_kernels(Attention<float>&);
template void set_backward_kernels(Attention<double>&);

}  // namespace qkv::kernels::QKV_ISA
