#include "ops/attention/parallel.h"

#include <cstring>

#include "kernels/kernels.h"

namespace qkv::ops {
namespace {

using kernels::AttentionPiece;

// `to` (B, H, Lk, size) = the rows of each head side by side.
template <class T>
kernels::HeadsView<const T> copied(T* to, const kernels::HeadsView<const T>& from, Index batches, Index heads,
                                   Index rows, Index size) {
  parallel_for(0, batches * heads * rows, grain_for(size / 8 + 1), [&](Index begin, Index end) {
    for (Index at = begin; at < end; ++at) {
      const Index matrix = at / rows;
      std::memcpy(to + at * size, from.at(matrix / heads, matrix % heads, at % rows),
                  static_cast<std::size_t>(size) * sizeof(T));
    }
  });
  return {to, heads * rows * size, rows * size, size};
}

// Calls body(piece, memory) for all tiles of query rows, in pieces worth waking a thread for and none that keeps an
// interrupt waiting. Rows of the query heads that read the same keys are put together. The last rows come first: in
// causal order they take longest.
template <class T, class Body> void for_query_tiles(const AttentionProblem<T>& p, Index scratch_elements, Body&& body) {
  const kernels::Attention<T>& attention = kernels::kernels<T>().attention;
  const Index rows = p.heads / p.kv_heads * p.queries, matrices = p.batches * p.kv_heads;
  const auto tiles_of = [rows](Index size) { return (rows + size - 1) / size; };
  const auto products_of = [&](Index size) {
    return (std::min(rows, size) + 8) * (p.keys + 1) * (p.key_size + p.value_size);
  };
  // Smaller tiles where some threads would have none, or where one would take long.
  Index size = attention.tile_rows;
  while (size > attention.panel_rows &&
         (matrices * tiles_of(size) < 4 * num_threads() || products_of(size) > kLargestPiece))
    size /= 2;
  const Index tiles = tiles_of(size), all = matrices * tiles, products = products_of(size);
  const Index most = std::max<Index>(1, kLargestPiece / std::max<Index>(1, products));
  parallel_for(0, all, std::min(most, grain_for(products / 32)), [&](Index first, Index last) {
    const Scratch memory(static_cast<std::size_t>(scratch_elements) * sizeof(T));
    for (Index begin = all - last; begin < all - first;) {
      const Index matrix = begin / tiles, tile = begin % tiles;
      const Index count = std::min(all - first - begin, tiles - tile);
      body(AttentionPiece{matrix / p.kv_heads, matrix % p.kv_heads, tile * size, std::min(rows, (tile + count) * size)},
           memory.as<T>());
      begin += count;
    }
  });
}

}  // namespace

template <class T> Array adjoin_rows(AttentionProblem<T>& p) {
  // Rows of one head in (B, L, H * D) lie a multiple of some KiB apart and map onto a few sets of the caches, so each
  // tile of queries would fetch them from far away again.
  const bool apart = p.key.position != p.key_size || p.value.position != p.value_size;
  if (!apart || p.heads / p.kv_heads * p.queries <= 2 * kernels::kernels<T>().attention.tile_rows) return {};
  const Index rows = p.batches * p.kv_heads * p.keys;
  Array copies({rows, p.key_size + p.value_size}, dtype_v<T>);
  T* memory = copies.data<T>();
  p.key = copied(memory, p.key, p.batches, p.kv_heads, p.keys, p.key_size);
  if (p.value_size > 0)
    p.value = copied(memory + rows * p.key_size, p.value, p.batches, p.kv_heads, p.keys, p.value_size);
  return copies;
}

template <class T> void attention_forward(const AttentionResult<T>& to, const AttentionProblem<T>& problem) {
  const auto& attention = kernels::kernels<T>().attention;
  if (kernels::is_plain(problem) && attention.is_short(problem)) {
    const Index cost = problem.queries * problem.keys * (problem.key_size + problem.value_size + 32) / 16;
    parallel_for(0, problem.batches * problem.heads, grain_for(cost),
                 [&](Index begin, Index end) { attention.forward_short(to, problem, begin, end); });
    return;
  }
  if (problem.batches == 0 || problem.heads == 0 || problem.queries == 0) return;
  AttentionProblem<T> p = problem;
  const Array copies = adjoin_rows(p);
  const std::size_t heads = static_cast<std::size_t>(p.batches * p.kv_heads);
  const Scratch not_finite(heads);
  AttentionResult<T> result = to;
  result.not_finite = not_finite.as<uint8_t>();
  std::memset(result.not_finite, 0, heads);
  for_query_tiles(p, attention.forward_scratch(result, p),
                  [&](AttentionPiece piece, T* memory) { attention.forward(result, p, piece, memory); });
}

template Array adjoin_rows(AttentionProblem<float>&);
template Array adjoin_rows(AttentionProblem<double>&);
template void attention_forward(const AttentionResult<float>&, const AttentionProblem<float>&);
template void attention_forward(const AttentionResult<double>&, const AttentionProblem<double>&);

}  // namespace qkv::ops
