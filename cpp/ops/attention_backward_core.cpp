// The backward pass of attention in pieces. Every sum has one order, given by the shape alone.
#include <algorithm>

#include "core/buffer.h"
#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/attention_core.h"

namespace qkv::ops {
namespace {

using kernels::AttentionPiece;

template <class T> const kernels::Attention<T>& table() { return kernels::kernels<T>().attention; }

Index pieces(Index n, Index size) { return (n + size - 1) / size; }

template <class T> void row_shift(T* shift, const AttentionSaved<T>& saved, const AttentionProblem<T>& p) {
  const Index rows = p.heads / p.kv_heads * p.queries, size = table<T>().block_rows, blocks = pieces(rows, size);
  const Index scratch = saved.dweights.data != nullptr ? table<T>().backward_scratch(p, 0) : 0;
  const Index cost = size * (p.value_size / 8 + 8 + (saved.dweights.data != nullptr ? p.keys * p.key_size / 16 : 0));
  parallel_for(0, p.batches * p.kv_heads * blocks, grain_for(cost), [&](Index begin, Index end) {
    const Scratch memory(static_cast<std::size_t>(scratch) * sizeof(T));
    for (Index at = begin; at < end; ++at) {
      const Index matrix = at / blocks, row = at % blocks * size;
      table<T>().row_shift(shift, saved, p,
                           AttentionPiece{matrix / p.kv_heads, matrix % p.kv_heads, row, std::min(rows, row + size)},
                           memory.as<T>());
    }
  });
}

// One task per key/value head and range of keys. The first range adds to dquery itself, the others each to a copy of
// their own, and the copies are added in order.
template <class T>
void queries_keys_values(const AttentionGradients<T>& gradients, const T* shift, const AttentionSaved<T>& saved,
                         const AttentionProblem<T>& p) {
  constexpr Index kTasks = 16, kFewestKeys = 256;
  const Index matrices = p.batches * p.kv_heads;
  const Index ranges = std::clamp<Index>(pieces(kTasks, matrices), 1, std::max<Index>(1, p.keys / kFewestKeys));
  const Index range = pieces(p.keys, ranges);
  const Index rows = p.batches * p.heads * p.queries;
  const bool copies = ranges > 1 && gradients.dquery.data != nullptr;
  const Scratch copied(copies ? static_cast<std::size_t>((ranges - 1) * rows * p.key_size) * sizeof(T) : 0);
  const auto copy = [&](Index r) { return copied.as<T>() + (r - 1) * rows * p.key_size; };
  const Index cost = p.heads / p.kv_heads * p.queries * range * (p.key_size + p.value_size) / 12;
  parallel_for(0, matrices * ranges, grain_for(cost), [&](Index begin, Index end) {
    const Scratch memory(static_cast<std::size_t>(table<T>().backward_scratch(p, range)) * sizeof(T));
    for (Index at = begin; at < end; ++at) {
      const Index matrix = at / ranges, r = at % ranges, batch = matrix / p.kv_heads, kv_head = matrix % p.kv_heads;
      AttentionGradients<T> mine = gradients;
      if (copies && r > 0) {
        const Index head = p.queries * p.key_size, group = p.heads / p.kv_heads;
        mine.dquery = {copy(r), p.heads * head, head, p.key_size};
        std::fill_n(mine.dquery.at(batch, kv_head * group, 0), group * head, T(0));
      }
      table<T>().backward(mine, shift, saved, p, batch, kv_head, std::min(p.keys, r * range),
                          std::min(p.keys, (r + 1) * range), memory.as<T>());
    }
  });
  if (!copies) return;
  parallel_for(0, rows, grain_for(p.key_size * ranges / 8 + 1), [&](Index begin, Index end) {
    for (Index row = begin; row < end; ++row) {
      const Index matrix = row / p.queries;
      T* to = gradients.dquery.at(matrix / p.heads, matrix % p.heads, row % p.queries);
      for (Index r = 1; r < ranges; ++r)
        for (Index i = 0; i < p.key_size; ++i) to[i] += copy(r)[row * p.key_size + i];
    }
  });
}

// The mask's gradient by itself, because broadcast axes cross the borders of the tasks above: one task per element of
// the mask's own batch and head axes, and per range of queries or, if these are broadcast, of keys.
template <class T>
void bias(const AttentionGradients<T>& gradients, const T* shift, const AttentionSaved<T>& saved,
          const AttentionProblem<T>& p) {
  const WeightsView<T>& d = gradients.dbias;
  const Index own_batches = d.batch != 0 ? p.batches : 1, own_heads = d.head != 0 ? p.heads : 1;
  const Index query_step = table<T>().block_rows, key_step = table<T>().block_keys;
  const bool by_queries = d.query != 0, by_keys = !by_queries && d.key != 0;
  const Index ranges = by_queries ? pieces(p.queries, query_step) : by_keys ? pieces(p.keys, key_step) : 1;
  const Index cost = p.queries * p.keys / ranges * (p.key_size + p.value_size) / 16;
  parallel_for(0, own_batches * own_heads * ranges, grain_for(cost), [&](Index begin, Index end) {
    const Scratch memory(static_cast<std::size_t>(table<T>().backward_scratch(p, 0)) * sizeof(T));
    for (Index at = begin; at < end; ++at) {
      const Index matrix = at / ranges, r = at % ranges, own_batch = matrix / own_heads, own_head = matrix % own_heads;
      const Index first_query = by_queries ? r * query_step : 0, first_key = by_keys ? r * key_step : 0;
      const Index last_query = by_queries ? std::min(p.queries, first_query + query_step) : p.queries;
      const Index last_key = by_keys ? std::min(p.keys, first_key + key_step) : p.keys;
      for (Index batch = own_batch; batch < p.batches; batch += own_batches)
        for (Index head = own_head; head < p.heads; head += own_heads)
          table<T>().bias_gradient(d, shift, saved, p, batch, head, first_query, last_query, first_key, last_key,
                                   memory.as<T>());
    }
  });
}

}  // namespace

template <class T>
void attention_backward(const AttentionGradients<T>& gradients, const AttentionSaved<T>& saved,
                        const AttentionProblem<T>& p) {
  if (p.batches == 0 || p.heads == 0 || p.queries == 0) return;
  const Scratch shifts(static_cast<std::size_t>(p.batches * p.heads * p.queries) * sizeof(T));
  T* shift = shifts.as<T>();
  row_shift(shift, saved, p);
  if (gradients.dsinks != nullptr)
    parallel_for(0, p.heads, grain_for(p.batches * p.queries * 8), [&](Index begin, Index end) {
      for (Index head = begin; head < end; ++head) table<T>().sink_gradient(gradients.dsinks, shift, saved, p, head);
    });
  if (p.keys == 0) return;
  if (gradients.dquery.data != nullptr || gradients.dkey.data != nullptr || gradients.dvalue.data != nullptr)
    queries_keys_values(gradients, shift, saved, p);
  if (gradients.dbias.data != nullptr) bias(gradients, shift, saved, p);
}

template void attention_backward(const AttentionGradients<float>&, const AttentionSaved<float>&,
                                 const AttentionProblem<float>&);
template void attention_backward(const AttentionGradients<double>&, const AttentionSaved<double>&,
                                 const AttentionProblem<double>&);

}  // namespace qkv::ops
