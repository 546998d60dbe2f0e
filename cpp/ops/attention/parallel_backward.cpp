// The backward pass of attention in pieces. Every sum has one order, given by the shape alone.
#include "kernels/kernels.h"
#include "ops/attention/formula/leaf_sums.h"
#include "ops/attention/parallel.h"

namespace qkv::ops {
namespace {

using kernels::AttentionPiece;

template <class T> const kernels::Attention<T>& table() { return kernels::kernels<T>().attention; }

Index pieces(Index n, Index size) { return (n + size - 1) / size; }

template <class T> void row_delta(T* delta, const AttentionSaved<T>& saved, const AttentionProblem<T>& p) {
  const Index size = table<T>().tile_rows;
  const bool weights = saved.dweights.data != nullptr;
  const Index cost = size * (p.value_size / 8 + 8 + (weights ? p.keys * p.key_size / 16 : 0));
  for_tiles(p, size, cost, weights ? table<T>().backward_scratch(p, 0) : 0,
            [&](AttentionPiece piece, Index, T* memory) { table<T>().row_delta(delta, saved, p, piece, memory); });
}

// How many keys a row may attend to at most.
template <class T> Index longest_row(const AttentionProblem<T>& p) {
  const Index ahead = kernels::keys_ahead(p);
  if (p.fill || p.left < 0 || ahead < 0) return p.keys;
  return kernels::at_most(kernels::at_most(p.left, p.keys) + 1 + kernels::at_most(ahead, p.keys), p.keys);
}

// The keys that rows [begin, end) of the heads that share keys may attend to, and some more.
template <class T> kernels::KeyRange keys_of_rows(const AttentionProblem<T>& p, Index begin, Index end) {
  if (p.fill) return {0, p.keys};
  const bool one_head = begin / p.queries == (end - 1) / p.queries;
  const Index first = one_head ? begin % p.queries : 0, last = one_head ? (end - 1) % p.queries : p.queries - 1;
  kernels::KeyRange found{p.keys, 0};
  for (Index batch = 0; batch < (p.q_offset != nullptr ? p.batches : 1); ++batch) {
    const Index low = kernels::keys_at(p, kernels::query_position(p, batch, first), p.keys).low;
    const Index high = kernels::keys_at(p, kernels::query_position(p, batch, last), p.keys).high;
    found = {std::min(found.low, low), std::max(found.high, high)};
  }
  return found;
}

// One task per key/value head and range of keys, of as many rows as do not take long; then come the next rows. The
// first range adds to dquery itself, the others each to a copy of these rows, and the copies are added in order. With
// large tables of a formula not all matrices come at the same time.
template <class T>
void queries_keys_values(const AttentionGradients<T>& gradients, const T* delta, const AttentionSaved<T>& saved,
                         const AttentionProblem<T>& p) {
  constexpr Index kTasks = 16, kFewestKeys = 256;
  constexpr Index kFewestRows = 2048;  // of windows; so many rows share the ends of ranges, and more need more copies
  constexpr Index kInvariantKeys = 1024;  // of uniform rows borders must not depend on the number of keys or batches
  const Index matrices = p.batches * p.kv_heads, group = p.heads / p.kv_heads, all = group * p.queries;
  const Index size = table<T>().tile_rows, longest = longest_row(p);
  LeafSums<T> leaves(gradients.dleaves, p, std::max(matrices, kTasks));
  const Index together = leaves.together();
  const auto range_of = [&](Index rows) {
    if (!leaves.apart()) return p.keys;
    if (p.reproducible) return std::min(p.keys, kInvariantKeys);
    const Index keys = std::min(p.keys, longest == p.keys ? longest : longest + rows);
    return pieces(keys, std::clamp<Index>(pieces(kTasks, together), 1, std::max<Index>(1, keys / kFewestKeys)));
  };
  const Index products =
      size * (p.reproducible ? kInvariantKeys : range_of(size)) * (3 * p.key_size + 2 * p.value_size);
  const Index some = longest == p.keys ? all : std::min(all, pieces(std::max(2 * longest, kFewestRows), size) * size);
  const Index most = std::min(some, size * std::max<Index>(1, kLargestPiece / std::max<Index>(1, products)));
  const Index range = range_of(most), line = p.key_size;
  // The ranges that the rows from `row` on need: the first one's first key, and how many.
  const auto ranges_of = [&](Index row) -> std::pair<Index, Index> {
    const kernels::KeyRange keys = keys_of_rows(p, row, std::min(all, row + most));
    const Index origin = keys.low / range * range;
    return {origin, keys.low < keys.high ? pieces(keys.high - origin, range) : 0};
  };
  Index most_ranges = 0;
  for (Index row = 0; row < all; row += most) most_ranges = std::max(most_ranges, ranges_of(row).second);
  leaves.allocate(most_ranges);
  // Rows from `row` on of `together` matrices, the first of which is `from`.
  const auto run = [&](Index row, Index from) {
    const Index end = std::min(all, row + most);
    const std::pair<Index, Index> span = ranges_of(row);
    const Index origin = span.first, ranges = span.second;
    if (ranges == 0) return;
    const bool copies = ranges > 1 && gradients.dquery.data != nullptr;
    const Scratch copied(copies ? static_cast<std::size_t>((ranges - 1) * together * most * line) * sizeof(T) : 0);
    const auto copy = [&](Index r, Index matrix) {
      return copied.as<T>() + ((r - 1) * together + matrix - from) * most * line;
    };
    const Index cost = (end - row) * range * (p.key_size + p.value_size) / 12;
    parallel_for(0, together * ranges, grain_for(cost), [&](Index first, Index last) {
      const Scratch memory(static_cast<std::size_t>(table<T>().backward_scratch(p, range)) * sizeof(T));
      for (Index at = first; at < last; ++at) {
        const Index matrix = from + at / ranges, r = at % ranges;
        const Index batch = matrix / p.kv_heads, kv_head = matrix % p.kv_heads;
        AttentionGradients<T> mine = gradients;
        mine.dleaves = leaves.of(matrix, r);
        if (copies && r > 0) {
          // Row `row` of this matrix's heads, one after the other, is the copy's first.
          const Index head = p.queries * line, before = kv_head * group * head + row * line;
          mine.dquery = {copy(r, matrix) - before, 0, head, line};
          std::fill_n(copy(r, matrix), (end - row) * line, T(0));
        }
        const Index begin = origin + r * range;
        table<T>().backward(mine, delta, saved, p, AttentionPiece{batch, kv_head, row, end}, begin,
                            std::min(begin + range, p.keys), memory.as<T>());
      }
    });
    if (!copies) return;
    parallel_for(0, together * (end - row), grain_for(line * ranges / 8 + 1), [&](Index first, Index last) {
      for (Index at = first; at < last; ++at) {
        const Index matrix = from + at / (end - row), in_copy = at % (end - row), in_group = row + in_copy;
        T* to = gradients.dquery.at(matrix / p.kv_heads, matrix % p.kv_heads * group + in_group / p.queries,
                                    in_group % p.queries);
        for (Index r = 1; r < ranges; ++r)
          for (Index i = 0; i < line; ++i) to[i] += copy(r, matrix)[in_copy * line + i];
      }
    });
  };
  for (Index row = 0; row < all; row += most)
    for (Index from = 0; from < matrices; from += together) run(row, from);
  leaves.add_up();
}

}  // namespace

template <class T>
void attention_backward(const AttentionGradients<T>& gradients, const AttentionSaved<T>& saved,
                        const AttentionProblem<T>& p) {
  if (p.batches == 0 || p.heads == 0 || p.queries == 0) return;
  const Scratch shifts(static_cast<std::size_t>(p.batches * p.heads * p.queries) * sizeof(T));
  T* delta = shifts.as<T>();
  row_delta(delta, saved, p);
  if (gradients.dsinks != nullptr)
    parallel_for(0, p.heads, grain_for(p.batches * p.queries * 8), [&](Index begin, Index end) {
      for (Index head = begin; head < end; ++head) table<T>().sink_gradient(gradients.dsinks, delta, saved, p, head);
    });
  if (p.keys == 0) return;
  if (gradients.dquery.data != nullptr || gradients.dkey.data != nullptr || gradients.dvalue.data != nullptr ||
      gradients.dleaves != nullptr) {
    AttentionProblem<T> adjoining = p;
    const Array copies = adjoin_rows(adjoining);
    queries_keys_values(gradients, delta, saved, adjoining);
  }
}

template void attention_backward(const AttentionGradients<float>&, const AttentionSaved<float>&,
                                 const AttentionProblem<float>&);
template void attention_backward(const AttentionGradients<double>&, const AttentionSaved<double>&,
                                 const AttentionProblem<double>&);

}  // namespace qkv::ops
