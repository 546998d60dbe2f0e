// Which pairs of a step of keys are excluded, and which keys need not be visited at all.
#pragma once

#include <math.h>

#include "kernels/attention/query_tile.h"
#include "kernels/simd/bytes.h"

namespace qkv::kernels::QKV_ISA {
// Line `lane` of a boolean array, from key `key` on; keys [from, to) are valid. `copy` serves where they do not adjoin.
template <class T>
const uint8_t* line_of(const WeightsView<const bool>& rows, const RowBlock<T>& block, Index lane, Index key, Index from,
                       Index to, uint8_t* copy) {
  const bool* line = rows.at(block.batch, block.head[lane], block.query[lane], key);
  if (rows.key == 1) return reinterpret_cast<const uint8_t*>(line);
  for (Index j = from; j < to; ++j) copy[j] = line[j * rows.key];
  return copy;
}

// Leaves the keys that the mask allows to some row of the part, and says where it does not allow them to all.
template <class T> void narrow_by_mask(StepPart& part, const RowBlock<T>& block, Index key) {
  const WeightsView<const bool>& mask = block.problem->mask;
  const Index rows = mask.query == 0 && (block.same_head || mask.head == 0) ? 1 : kLanes<T>;
  uint8_t copies[kLanes<T>][kBlockKeys], some[kBlockKeys], every[kBlockKeys];
  const uint8_t* lines[kLanes<T>];
  for (Index i = 0; i < rows; ++i)
    lines[i] = line_of(mask, block, part.vector * kLanes<T> + i, key, part.from, part.to, copies[i]);
  constexpr Index w = kVectorBytes;
  Index j = part.from;
  for (; j + w <= part.to; j += w) {
    bytes::Vector<w> any_row = {}, all_rows = any_row - 1, line;
    for (Index i = 0; i < rows; ++i) {
      __builtin_memcpy(&line, lines[i] + j, w);
      any_row |= line;
      all_rows &= line;
    }
    __builtin_memcpy(some + j, &any_row, w);
    __builtin_memcpy(every + j, &all_rows, w);
  }
  for (; j < part.to; ++j) {
    some[j] = 0;
    every[j] = 255;
    for (Index i = 0; i < rows; ++i) {
      some[j] |= lines[i][j];
      every[j] &= lines[i][j];
    }
  }
  if (!block.problem->fill) {
    narrow(part, [&](Index at) { return some[at] != 0; });
    if (part.from < part.to) part.from -= part.from % 4;
  }
  uint8_t none = 0;
  for (j = part.from; j < part.to; ++j) none |= every[j] == 0;
  part.masked |= none != 0;
}

// Of the keys from `begin` on, upwards (or downwards, those before it) to `end`, the first that the bias allows, in
// whole vectors; `end` if there is none.
template <Index Step, class T> Index first_allowed(const T* line, Index stride, Index begin, Index end) {
  const T lowest = static_cast<T>(-INFINITY);
  constexpr Index vector = Step > 0 ? 0 : -kLanes<T>;
  Index j = begin;
  if (stride == 1) {
    while (Step * (end - j) >= kLanes<T> && !any(load(line + j + vector) != splat<T>(lowest))) j += Step * kLanes<T>;
    if (Step * (end - j) >= kLanes<T>) return j;
  }
  while (Step * (end - j) > 0 && line[(Step > 0 ? j : j - 1) * stride] == lowest) j += Step;
  return j;
}

// Drops keys from both ends that a bias of -inf excludes for all rows of the part.
template <class T> void narrow_by_bias(StepPart& part, const RowBlock<T>& block, Index key) {
  const WeightsView<const T>& bias = block.problem->bias;
  const Index rows = bias.query == 0 && (block.same_head || bias.head == 0) ? 1 : kLanes<T>;
  Index from = part.to, to = part.from;                                          // what the rows so far need
  for (Index i = rows - 1; i >= 0 && (from > part.from || to < part.to); --i) {  // in causal order the last sees most
    const Index lane = part.vector * kLanes<T> + i;
    const T* line = bias.at(block.batch, block.head[lane], block.query[lane], key);
    to = first_allowed<-1>(line, bias.key, part.to, to);
    from = first_allowed<1>(line, bias.key, part.from, from);
  }
  part.from = from - from % 4;
  part.to = from < to ? to : part.from;
}

// Time of a key for so many vectors of rows, relative: wide tiles do more for each number that they load. Measured with
// windows, whose first and last keys make parts of every width.
constexpr Index time_of_key(Index vectors) {
  constexpr Index of_32_registers[] = {0, 20, 28, 39, 50}, of_16_registers[] = {0, 12, 20};
  return kRegisters == 32 ? of_32_registers[vectors] : of_16_registers[vectors];
}

// The smallest part that holds those of the vectors [begin, end), in stairs if their keys end one after the other.
inline StepPart joined(const StepPart* each, Index begin, Index end, bool stairs) {
  constexpr Index least = 8;  // keys of a stair
  StepPart all = each[begin];
  all.vectors = end - begin;
  bool same = true;
  for (Index v = begin + 1; v < end; ++v) {
    const StepPart& next = each[v];
    same &= next.from == all.from && next.to == all.to;
    stairs &= next.from == all.from && next.to >= all.to;
    all.masked |= next.masked;
    if (next.keys() <= 0) continue;
    const bool empty = all.keys() <= 0;
    all.from = empty || next.from < all.from ? next.from : all.from;
    all.to = empty || next.to > all.to ? next.to : all.to;
  }
  all.masked |= !same;
  for (Index v = end - 1, last = all.to; v >= begin; all.keys_of[v--] = last - all.from)
    if (stairs && each[v].to <= last - least) last = each[v].to;
  return all;
}

// Joins neighbouring vectors to the parts that take least time. Few rows stay together.
template <class T> void join_parts(KeyStep& step, const StepPart* each, const RowBlock<T>& block) {
  // A formula's program and decoding run on all pairs of a part.
  const bool stairs = block.problem->formula == nullptr && !block.is_decode();
  // Sums of a formula's gradients are made of 64 bytes of queries at a time.
  const bool together = block.is_decode() || (block.problem->formula != nullptr && kMaxVectors == kParts);
  Index time[kMaxVectors + 1] = {}, next[kMaxVectors];  // of the best parts of the vectors from here on; of the second
  for (Index from = block.vectors - 1; from >= 0; --from)
    for (Index end = block.vectors; end > from; --end) {
      Index total = time[end];
      joined(each, from, end, stairs).each_stair([&](Index, Index count, Index first, Index last) {
        total += (last - first) * time_of_key(count);
      });
      if (end < block.vectors && (total >= time[from] || together)) continue;
      time[from] = total;
      next[from] = end;
    }
  for (Index from = 0; from < block.vectors; from = next[from])
    if (const StepPart part = joined(each, from, next[from], stairs); part.keys() > 0) step.part[step.count++] = part;
}

// Bytes of a vector of rows, 0 where a pair is excluded.
template <class T> struct LaneBytes {
  typedef int8_t Vector __attribute__((vector_size(kLanes<T>)));
};

// allowed &= what is inside (0 or all bits), or = if this is the first.
template <class T> inline void allow(uint8_t* allowed, typename LaneBytes<T>::Vector inside, bool first) {
  if (!first) {
    typename LaneBytes<T>::Vector before;
    __builtin_memcpy(&before, allowed, sizeof before);
    inside &= before != 0;
  }
  __builtin_memcpy(allowed, &inside, sizeof inside);
}

// The same of the rows' limits.
template <class T>
void allow_limits(uint8_t* allowed, const StepPart& part, const RowBlock<T>& block, Index key, bool first) {
  using Lanes = typename LaneBytes<T>::Vector;
  static_assert(kBlockKeys <= 128);
  for (Index v = part.vector; v < part.vector + part.vectors; ++v) {
    int8_t before[kLanes<T>], last[kLanes<T>];  // of the keys from low to high - 1
    for (Index i = 0; i < kLanes<T>; ++i) {
      before[i] = static_cast<int8_t>(clamped(block.low[v * kLanes<T> + i] - key, 0, kBlockKeys) - 1);
      last[i] = static_cast<int8_t>(clamped(block.high[v * kLanes<T> + i] - key, 0, kBlockKeys) - 1);
    }
    Lanes low, high;
    __builtin_memcpy(&low, before, sizeof low);
    __builtin_memcpy(&high, last, sizeof high);
    for (Index j = part.from; j < part.to; ++j) {
      const Lanes at = static_cast<int8_t>(j) - Lanes{};
      allow<T>(allowed + j * block.width + v * kLanes<T>, (at > low) & (at <= high), first);
    }
  }
}

// Leaves a formula's mask of the keys that the vectors' parts hold in tiles.scratch. Keys that it excludes for all rows
// of a vector are dropped from both ends.
template <class T>
void narrow_by_formula(StepPart* each, const ScoreTiles<T>& tiles, const RowBlock<T>& block, Index key) {
  const AttentionProblem<T>& p = *block.problem;
  const StepPart all = joined(each, 0, block.vectors, false);
  if (all.keys() <= 0) return;
  run_formula(p.formula->mask, 0, p.formula->mask.count, {tiles.scratch, tiles.second, tiles.formula, nullptr}, all,
              block, key);
  for (Index v = 0; v < block.vectors; ++v) {
    StepPart& part = each[v];
    const auto line = [&](Index j) { return bits(load(tiles.scratch + j * block.width + v * kLanes<T>)); };
    if (!p.fill) {
      narrow(part, [&](Index at) { return any(line(at)); });
      if (part.from < part.to) part.from -= part.from % 4;
    }
    Mask<T> every = Mask<T>{} - 1;
    for (Index j = part.from; j < part.to; ++j) every &= line(j);
    part.masked |= any(~every);
  }
}

// The same of a mask in a tile.
template <class T> void allow_formula(uint8_t* allowed, const T* tile, const StepPart& part, Index width, bool first) {
  for (Index v = part.vector; v < part.vector + part.vectors; ++v)
    for (Index j = part.from; j < part.to; ++j) {
      const Index at = j * width + v * kLanes<T>;
      const auto inside = __builtin_convertvector(bits(load(tile + at)), typename LaneBytes<T>::Vector);
      allow<T>(allowed + at, inside, first);
    }
}

// to[j * width + lane] = pair (row `lane`, key + j) of a boolean array, for the pairs of a part.
template <class T>
void bytes_from_rows(uint8_t* to, const WeightsView<const bool>& rows, const RowBlock<T>& block, const StepPart& part,
                     Index key) {
  uint8_t copies[kPanelWidth<T>][kBlockKeys];
  const uint8_t* lines[kPanelWidth<T> < 16 ? 16 : kPanelWidth<T>];  // taken 16 at a time, as the compiler sees it
  const Index lanes = part.vectors * kLanes<T>, lane = part.vector * kLanes<T>;
  for (Index i = 0; i < lanes; ++i) lines[i] = line_of(rows, block, lane + i, key, part.from, part.to, copies[i]);
  transpose_bytes(to + lane, block.width, lines, lanes, part.from, part.to);
}

// Sets the parts of a step, and `allowed` of those that need it.
template <class T>
void set_step(KeyStep& step, const ScoreTiles<T>& tiles, const RowBlock<T>& block, Index key, Index n) {
  const AttentionProblem<T>& p = *block.problem;
  uint8_t* allowed = tiles.allowed;
  const Coverage coverage = formula_coverage(block, key, n);
  step.key = key;
  step.n = n;
  step.count = 0;
  if (coverage == Coverage::none && !p.fill) return;
  const bool by_formula = coverage != Coverage::all;
  step.by_bytes = p.mask.data != nullptr || p.fill || by_formula;
  const bool fill_scores = p.fill && (p.bias.data != nullptr || p.formula != nullptr);  // of -inf
  StepPart each[kMaxVectors] = {};
  for (Index v = 0; v < block.vectors; ++v) {
    StepPart& part = each[v];
    part = {v, 1, 0, n, fill_scores, {}};
    if (!p.fill) {
      part.from = clamped(block.any[v].low - key, 0, n);
      part.from -= part.from % 4;  // sums over keys start at the same place for all rows, and at every level
      part.to = clamped(block.any[v].high - key, part.from, n);
    }
    if (p.mask.data != nullptr) narrow_by_mask(part, block, key);
    if (p.bias.data != nullptr && !p.fill) narrow_by_bias(part, block, key);
  }
  if (by_formula) narrow_by_formula(each, tiles, block, key);
  join_parts(step, each, block);
  for (Index i = 0; i < step.count; ++i) {
    StepPart& part = step.part[i];
    bool limited = false;
    for (Index v = part.vector; v < part.vector + part.vectors; ++v)
      limited |= key + part.from < block.all[v].low || key + part.to > block.all[v].high;
    const bool by_mask = part.masked && p.mask.data != nullptr, by_tile = part.masked && by_formula;
    part.masked |= limited;
    if (by_mask) bytes_from_rows(allowed, p.mask, block, part, key);
    if (by_tile) allow_formula(allowed, tiles.scratch, part, block.width, !by_mask);
    const bool first = !by_mask && !by_tile;
    if (part.masked && (limited || first) && step.by_bytes) allow_limits(allowed, part, block, key, first);
  }
}

}  // namespace qkv::kernels::QKV_ISA
