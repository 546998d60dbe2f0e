#include "kernels/attention_gradient.h"

namespace qkv::kernels::QKV_ISA {

template <class T>
void set_gradient_rows(GradientBlock<T>& block, GradientScratch<T>& scratch, const T* shift,
                       const AttentionSaved<T>& saved, const AttentionProblem<T>& p, Index batch, Index kv_head,
                       Index begin, Index end) {
  RowBlock<T>& rows = block.rows;
  set_rows(rows, p, batch, kv_head, begin, end);
  const T* dout[kBlockRows<T>];
  const T largest = static_cast<T>(1e38);  // exp(score - largest) = 0
  for (Index lane = 0; lane < rows.width; ++lane) {
    const Index row = (batch * p.heads + rows.head[lane]) * p.queries + rows.query[lane];
    const bool real = lane < rows.rows;
    block.base[lane] = real ? saved.statistics[2 * row] : largest;
    block.inverse[lane] = real ? saved.statistics[2 * row + 1] : T(0);
    block.shift[lane] = shift != nullptr ? shift[row] : T(0);
    dout[lane] = saved.dout.at(batch, rows.head[lane], rows.query[lane]);
  }
  load_queries(scratch.queries, rows);
  columns_from_rows(scratch.dout, rows.width, dout, rows.rows, p.value_size);
}

template <class T> void block_weights(GradientScratch<T>& scratch, const GradientBlock<T>& block, Index key, Index n) {
  const Index width = block.rows.width;
  block_scores(scratch.tiles, block.rows, scratch.queries, key, n);
  for (Index lane = 0; lane < width; lane += kLanes<T>) {
    const Vec<T> base = load(block.base + lane), inverse = load(block.inverse + lane);
    for (Index j = 0; j < n; ++j) {
      T* s = scratch.tiles.scores + j * width + lane;
      store(s, weight_of<T>(load(s) - base) * inverse);
    }
  }
}

template <class T>
void load_dweights(T* tile, const RowBlock<T>& rows, const AttentionSaved<T>& saved, Index key, Index n) {
  const auto at = [&](Index lane) { return saved.dweights.at(rows.batch, rows.head[lane], rows.query[lane], key); };
  if (saved.dweights.key == 1) {
    const T* lines[kBlockRows<T>];
    for (Index lane = 0; lane < rows.rows; ++lane) lines[lane] = at(lane);
    columns_from_rows(tile, rows.width, lines, rows.rows, n);
  } else {
    for (Index j = 0; j < n; ++j)
      for (Index lane = 0; lane < rows.width; ++lane)
        tile[j * rows.width + lane] = lane < rows.rows ? at(lane)[j * saved.dweights.key] : T(0);
  }
}

template <class T>
void score_gradient(GradientScratch<T>& scratch, const GradientBlock<T>& block, const AttentionSaved<T>& saved,
                    Index key, Index n) {
  const RowBlock<T>& rows = block.rows;
  const AttentionProblem<T>& p = *rows.problem;
  const Index width = rows.width, count = n * width;
  const Vec<T> zero = {};
  T* weights = scratch.tiles.scores;
  T* dscores = scratch.dscores;
  T* factors = scratch.factors;
  block_weights(scratch, block, key, n);
  product(Into::replace, dscores, width, static_cast<const T*>(nullptr), rows.value(key), p.value.position,
          scratch.dout, width, n, p.value_size, rows.vectors);
  const bool dropped = drops(p);
  if (dropped) {
    for (Index i = 0; i < count; i += kLanes<T>) store(factors + i, splat<T>(1));
    block_dropout(factors, rows, key, n);
    for (Index i = 0; i < count; i += kLanes<T>) store(dscores + i, load(dscores + i) * load(factors + i));
  }
  if (saved.dweights.data != nullptr) {
    load_dweights(scratch.tiles.scratch, rows, saved, key, n);
    for (Index i = 0; i < count; i += kLanes<T>)
      store(dscores + i, load(dscores + i) + load(scratch.tiles.scratch + i));
  }
  for (Index lane = 0; lane < width; lane += kLanes<T>) {
    const Vec<T> shift = load(block.shift + lane);
    for (Index i = lane; i < count; i += width) {
      const Vec<T> w = load(weights + i);
      store(dscores + i, select(w == zero, zero, w * (load(dscores + i) - shift)));
    }
  }
  if (p.fill && !scratch.tiles.all_allowed) {
    for (Index i = 0; i < count; i += kLanes<T>) {
      Mask<T> mask;
      __builtin_memcpy(&mask, scratch.tiles.allowed + i, sizeof mask);
      store(dscores + i, select(mask, load(dscores + i), zero));
    }
  }
  if (dropped)
    for (Index i = 0; i < count; i += kLanes<T>) store(weights + i, load(weights + i) * load(factors + i));
}

#define QKV_INSTANTIATE(T)                                                                                    \
  template void set_gradient_rows(GradientBlock<T>&, GradientScratch<T>&, const T*, const AttentionSaved<T>&, \
                                  const AttentionProblem<T>&, Index, Index, Index, Index);                    \
  template void block_weights(GradientScratch<T>&, const GradientBlock<T>&, Index, Index);                    \
  template void load_dweights(T*, const RowBlock<T>&, const AttentionSaved<T>&, Index, Index);                \
  template void score_gradient(GradientScratch<T>&, const GradientBlock<T>&, const AttentionSaved<T>&, Index, Index);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)

}  // namespace qkv::kernels::QKV_ISA
