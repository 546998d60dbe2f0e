// Attention on raw memory, cut into pieces for the thread pool: what is between the kernels
// (kernels/attention/problem.h, where the structs with all the options are documented) and the differentiable operation
// (ops/attention/attention.h).
//
// No checks here: sizes, strides and lengths must be right. Any size may be 0. The results are the same bits for any
// number of threads, and out is the same bits whether or not weights, lse and statistics are asked for.
//
//     AttentionProblem<float> p;
//     p.query = {q, Lq * H * D, D, H * D};     // (B, Lq, H * D) read as (B, H, Lq, D): strides of batch, head,
//     position
//     ...                                      // (B, H, Lq, D) contiguous: {q, H * Lq * D, Lq * D, D}
//     p.valid_lens = lens; p.valid_batch = 1;  // (B)
//     attention_forward(result, p);
#pragma once

#include <algorithm>

#include "core/array.h"
#include "core/buffer.h"
#include "core/parallel.h"
#include "kernels/attention/problem.h"

namespace qkv::ops {

using kernels::AttentionGradients;
using kernels::AttentionProblem;
using kernels::AttentionResult;
using kernels::AttentionSaved;

// Multiplications of one piece of work at most: about 20 ms of a core, so that an interrupt is soon noticed.
constexpr Index kLargestPiece = Index{1} << 30;

// Writes every element of out, and of weights, lse and statistics where these are given.
template <class T> void attention_forward(const AttentionResult<T>& result, const AttentionProblem<T>& problem);

// Adds the gradients of those arguments whose pointer in `gradients` is not null. `saved` holds what the forward pass
// gave and what flows into its results: dout (required; zeros where only the weights or lse were used), dweights and
// dlse where these results were used. problem must be that of the forward pass, with the same dropout_key.
template <class T>
void attention_backward(const AttentionGradients<T>& gradients, const AttentionSaved<T>& saved,
                        const AttentionProblem<T>& problem);

// Keys and values become copies whose rows adjoin, in the memory that is returned, where the given ones lie apart and
// are read often.
template <class T> Array adjoin_rows(AttentionProblem<T>& problem);

// Calls body(piece, tile, memory) for tiles of `size` rows, each of query heads that read the same keys. A tile costs
// `cost` (see grain_for) and has so much scratch.
template <class T, class Body>
void for_tiles(const AttentionProblem<T>& p, Index size, Index cost, Index scratch_elements, Body&& body) {
  const Index rows = p.heads / std::max<Index>(1, p.kv_heads) * p.queries, tiles = (rows + size - 1) / size;
  parallel_for(0, p.batches * p.kv_heads * tiles, grain_for(cost), [&](Index first, Index last) {
    const Scratch memory(static_cast<std::size_t>(scratch_elements) * sizeof(T));
    for (Index at = first; at < last; ++at) {
      const Index matrix = at / tiles, tile = at % tiles, begin = tile * size;
      body(kernels::AttentionPiece{matrix / p.kv_heads, matrix % p.kv_heads, begin, std::min(rows, begin + size)}, tile,
           memory.as<T>());
    }
  });
}

}  // namespace qkv::ops
