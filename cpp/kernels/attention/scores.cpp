// The scores of a step of keys, with formula and exclusions; dropout of its weights.
#include "kernels/attention/decode.h"
#include "kernels/attention/line_dropout.h"
#include "kernels/attention/masking.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// f(j, lane, address) for the vectors of a part, j counted from the step's first key.
template <class T, class F> inline void for_vectors(T* tile, Index width, const StepPart& part, F f) {
  for (Index v = part.vector; v < part.vector + part.vectors; ++v)
    for (Index j = part.from; j < part.from + part.keys_of[v]; ++j)
      f(j, v * kLanes<T>, tile + j * width + v * kLanes<T>);
}

// Where only the limits of rows exclude: then only keys at both ends need a look.
template <class T> void exclude_by_limits(T* scores, const StepPart& part, const RowBlock<T>& block, Index key) {
  using Integer = typename VectorTypes<T>::Integer;
  const Vec<T> lowest = splat<T>(static_cast<T>(-INFINITY));
  for (Index v = part.vector; v < part.vector + part.vectors; ++v) {
    Mask<T> low, high;
    for (Index i = 0; i < kLanes<T>; ++i) {
      low[i] = static_cast<Integer>(clamped(block.low[v * kLanes<T> + i] - key, 0, kBlockKeys));
      high[i] = static_cast<Integer>(clamped(block.high[v * kLanes<T> + i] - key, 0, kBlockKeys));
    }
    const auto look = [&](Index begin, Index end) {
      for (Index j = begin; j < end; ++j) {
        T* s = scores + j * block.width + v * kLanes<T>;
        const Mask<T> at = static_cast<Integer>(j) - Mask<T>{};
        store(s, select((at >= low) & (at < high), load(s), lowest));
      }
    };
    const Index end = part.from + part.keys_of[v], all_low = clamped(block.all[v].low - key, part.from, end);
    look(part.from, all_low);
    look(clamped(block.all[v].high - key, all_low, end), end);
  }
}

template <class T> void exclude(ScoreTiles<T>& tiles, const StepPart& part, const RowBlock<T>& block) {
  const AttentionProblem<T>& p = *block.problem;
  const Vec<T> otherwise = splat<T>(p.fill ? p.masked_value : static_cast<T>(-INFINITY));
  const T* scores = tiles.scores;
  const uint8_t* allowed = tiles.allowed;
  for_vectors(tiles.scores, block.width, part,
              [=](Index, Index, T* s) { store(s, select_by(allowed + (s - scores), load(s), otherwise)); });
}

// If excluded pairs are filled, -inf excludes a pair.
template <class T> void exclude_lowest(ScoreTiles<T>& tiles, const StepPart& part, Index width) {
  for_vectors(tiles.scores, width, part, [&](Index, Index, T* s) {
    for (Index i = 0; i < kLanes<T>; ++i)
      if (s[i] == static_cast<T>(-INFINITY)) tiles.allowed[s - tiles.scores + i] = 0;
  });
}

// The program that changes the scores of a step, or null. `first`: it may run in two parts.
template <class T>
const FormulaProgram<T>* score_program(const ScoreTiles<T>& tiles, const AttentionProblem<T>& p, bool first) {
  const Formula<T>* f = p.formula;
  if (f == nullptr || f->score.count == 0) return nullptr;
  if (tiles.second != nullptr && f->keeps_scores) return &f->score;
  if (tiles.second != nullptr && f->derived.count > 0) return first ? &f->split_derived : &f->derived;
  return first ? &f->split_score : &f->score;
}

}  // namespace

template <class T> void fetch_tables(PrefetchQueue& queue, const RowBlock<T>& block, Index key, Index n) {
  const AttentionProblem<T>& p = *block.problem;
  const bool other = key + n >= block.last;
  if (p.formula == nullptr || (other && block.next == 0)) return;
  const Index next = other ? block.first : key + n, more = p.keys - next < n ? p.keys - next : n;
  const auto query = [&](Index row) { return block.query[row] + (other ? block.next : 0); };
  const FormulaProgram<T>& program = p.formula->score;
  for (Index i = 0; i < program.count; ++i) {
    if (program.instructions[i].op != FormulaOp::rows) continue;
    const FormulaLeaf<T>& begins = p.formula->leaves[program.instructions[i].a];
    const T* table = p.formula->leaves[program.instructions[i].leaf].data + next;
    for (Index row = 0; row < block.rows; ++row)
      queue.add(table + begins.begins[block.batch * begins.batch + block.head[row] * begins.head +
                                      (begins.level == LeafLevel::query ? query(row) : 0)],
                1, 0, more);
  }
}

template <class T>
void block_scores(ScoreTiles<T>& tiles, KeyStep& step, const RowBlock<T>& block, const T* queries, Index key, Index n,
                  bool nan_safe) {
  const AttentionProblem<T>& p = *block.problem;
  const Index width = block.width;
  set_step(step, tiles, block, key, n);
  const bool exact = nan_safe && nan_safe_differs(p);
  const FormulaProgram<T>* formula = score_program(tiles, p, !exact && !block.is_decode());
  for (Index i = 0; i < step.count; ++i) {
    const StepPart& part = step.part[i];
    const FormulaTiles<T> formula_tiles = {tiles.scores, tiles.second, tiles.formula,
                                           part.masked && step.by_bytes ? tiles.allowed : nullptr};
    const bool formula_first = formula != nullptr && formula->first > 0;
    if (formula_first) run_formula(*formula, 0, formula->first, formula_tiles, part, block, key);
    if (block.is_decode())
      decode_scores(tiles.scores + part.from * width, width, queries, block.key(key + part.from), p.key.position,
                    block.rows, part.keys(), p.key_size);
    else
      multiply_part(formula_first ? StoreMode::accumulate : StoreMode::overwrite, tiles.scores, block.key(key),
                    p.key.position, queries, width, p.key_size, part, tiles);
    if (formula != nullptr) {
      if (tiles.second != nullptr && p.formula->keeps_scores)
        for_vectors(tiles.scores, width, part,
                    [&](Index, Index, T* s) { store(tiles.second + (s - tiles.scores), load(s)); });
      run_formula(*formula, formula->first, formula->count, formula_tiles, part, block, key);
      if (p.fill && p.formula->excludes) exclude_lowest(tiles, part, width);
    }
    if (part.masked && !step.by_bytes) exclude_by_limits(tiles.scores, part, block, key);
    else if (part.masked) exclude(tiles, part, block);
  }
}

template <class T>
void block_dropout(T* to, const T* weights, uint8_t* bytes, const RowBlock<T>& block, Index key, Index n) {
  const AttentionProblem<T>& p = *block.problem;
  const Index width = block.width;
  if (p.dropout.keep.data != nullptr) {
    const StepPart all = {0, block.vectors, 0, n, true, {}};
    bytes_from_rows(bytes, p.dropout.keep, block, all, key);
    const Vec<T> kept = splat<T>(kept_factor(p));
    for (Index i = 0; i < n * width; i += kLanes<T>)
      store(to + i, select_by(bytes + i, load(weights + i) * kept, Vec<T>{}));
    return;
  }
  const LineDropout<T> dropout(block);
  for (Index j = 0; j < n; ++j) dropout.line(to + j * width, weights + j * width, key + j, 0, width);
}

#define QKV_INSTANTIATE(T)                                                                                \
  template void fetch_tables(PrefetchQueue&, const RowBlock<T>&, Index, Index);                           \
  template void block_scores(ScoreTiles<T>&, KeyStep&, const RowBlock<T>&, const T*, Index, Index, bool); \
  template void block_dropout(T*, const T*, uint8_t*, const RowBlock<T>&, Index, Index);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)

}  // namespace qkv::kernels::QKV_ISA
