#include "ops/attention_core.h"

#include <algorithm>

#include "core/buffer.h"
#include "core/parallel.h"
#include "kernels/kernels.h"

namespace qkv::ops {
namespace {

using kernels::AttentionPiece;

// Calls body(piece, memory) for all blocks of rows, in pieces worth waking a thread for; about 64 of them where there
// is much to do, because a piece may have to copy its keys, and none that keeps an interrupt waiting. Rows of the query
// heads that read the same keys are put together. The last rows come first: in causal order they take longest.
template <class T, class Body> void for_row_blocks(const AttentionProblem<T>& p, Index scratch_elements, Body&& body) {
  if (p.batches == 0 || p.heads == 0 || p.queries == 0) return;
  const Index block_rows = kernels::kernels<T>().attention.block_rows;
  const Index rows = p.heads / p.kv_heads * p.queries;
  const Index blocks = (rows + block_rows - 1) / block_rows, all = p.batches * p.kv_heads * blocks;
  const Index products = (std::min(rows, block_rows) + 8) * (p.keys + 1) * (p.key_size + p.value_size);
  const Index most = std::max<Index>(1, kLargestPiece / std::max<Index>(1, products));
  const Index grain = std::min(most, std::max(grain_for(products / 32), std::min(blocks, all / 64)));
  parallel_for(0, all, grain, [&](Index first, Index last) {
    const Scratch memory(static_cast<std::size_t>(scratch_elements) * sizeof(T));
    for (Index begin = all - last; begin < all - first;) {
      const Index matrix = begin / blocks, block = begin % blocks;
      const Index count = std::min(all - first - begin, blocks - block);
      body(AttentionPiece{matrix / p.kv_heads, matrix % p.kv_heads, block * block_rows,
                          std::min(rows, (block + count) * block_rows)},
           memory.as<T>());
      begin += count;
    }
  });
}

}  // namespace

template <class T> void attention_forward(const AttentionResult<T>& result, const AttentionProblem<T>& problem) {
  const auto& attention = kernels::kernels<T>().attention;
  if (attention.is_small(problem)) {
    const Index cost = problem.queries * problem.keys * (problem.key_size + problem.value_size + 32) / 16;
    parallel_for(0, problem.batches * problem.heads, grain_for(cost),
                 [&](Index begin, Index end) { attention.small(result, problem, begin, end); });
    return;
  }
  for_row_blocks(problem, attention.forward_scratch(problem, result.weights.data != nullptr),
                 [&](AttentionPiece piece, T* memory) { attention.forward(result, problem, piece, memory); });
}

template <class T> void attention_weights(WeightsView<T> weights, const AttentionProblem<T>& problem) {
  AttentionProblem<T> without_values = problem;
  without_values.value = {};
  without_values.value_size = 0;
  without_values.dropout = 0;
  without_values.dropout_keep = {};
  AttentionResult<T> result;
  result.weights = weights;
  attention_forward(result, without_values);
}

template void attention_forward(const AttentionResult<float>&, const AttentionProblem<float>&);
template void attention_forward(const AttentionResult<double>&, const AttentionProblem<double>&);
template void attention_weights(WeightsView<float>, const AttentionProblem<float>&);
template void attention_weights(WeightsView<double>, const AttentionProblem<double>&);

}  // namespace qkv::ops
