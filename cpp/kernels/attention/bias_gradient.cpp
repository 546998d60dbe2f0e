// The gradient of attention's float mask.
#include "kernels/attention/score_gradient.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// dbias of the block's rows and keys [key, key + n) += dscores, summed over the axes whose stride is 0.
template <class T>
void add_tile(WeightsView<T> dbias, GradientScratch<T>& scratch, const RowBlock<T>& rows, Index key, Index n) {
  const Index width = rows.width;
  if (dbias.query == 0) {
    T total = 0;
    for (Index j = 0; j < n; ++j) {
      Vec<T> sum = {};
      for (Index lane = 0; lane < width; lane += kLanes<T>) sum += load(scratch.dscores + j * width + lane);
      const T line = horizontal_sum<T>(sum);
      if (dbias.key != 0) *dbias.at(rows.batch, rows.head[0], 0, key + j) += line;
      total += line;
    }
    if (dbias.key == 0) *dbias.at(rows.batch, rows.head[0], 0, 0) += total;
    return;
  }
  alignas(64) T ones[kPanelWidth<T>];
  for (T& one : ones) one = 1;
  T* lines[kPanelWidth<T>];
  for (Index row = 0; row < rows.rows; ++row) lines[row] = scratch.tiles.scratch + row * kBlockKeys;
  rows_from_columns(lines, scratch.dscores, width, ones, rows.rows, n);
  for (Index row = 0; row < rows.rows; ++row) {
    T* to = dbias.at(rows.batch, rows.head[row], rows.query[row], key);
    for (Index j = 0; j < n; ++j) to[j * dbias.key] += lines[row][j];
  }
}

template <class T>
void bias_gradient(WeightsView<T> dbias, const T* delta, const AttentionSaved<T>& saved, const AttentionProblem<T>& p,
                   Index batch, Index head, Index begin, Index end, Index keys_begin, Index keys_end, T* memory) {
  GradientScratch<T> scratch(memory, p, 1);
  GradientBlock<T> block;
  KeyStep parts;
  const RowBlock<T>& rows = block.rows;
  const Index group = p.heads / p.kv_heads, origin = head % group * p.queries;
  for (Index row = begin; row < end; row += kPanelWidth<T>) {
    const Index stop = row + kPanelWidth<T> < end ? row + kPanelWidth<T> : end;
    set_rows(block.rows, p, batch, head / group, origin + row, origin + stop);
    const Index from = rows.first > keys_begin ? rows.first : keys_begin;
    const Index to = rows.last < keys_end ? rows.last : keys_end;
    if (from >= to) continue;
    load_gradient_rows(block, scratch, delta, saved);
    const Index step = key_step(p);
    for (Index key = from; key < to; key += step) {
      const Index n = to - key < step ? to - key : step;
      if (is_excluded(rows, key, n)) continue;
      score_gradient(scratch, parts, block, saved, key, n);
      formula_gradient(scratch, parts, rows, key, n, static_cast<const LeafGradient<T>*>(nullptr));
      add_tile(dbias, scratch, rows, key, n);
    }
  }
}

}  // namespace

template <class T> void set_bias_gradient_kernel(Attention<T>& table) { table.bias_gradient = bias_gradient<T>; }

template void set_bias_gradient_kernel(Attention<float>&);
template void set_bias_gradient_kernel(Attention<double>&);

}  // namespace qkv::kernels::QKV_ISA
