// A formula of the scores, and of which pairs are allowed, as programs that run on a tile of scores. What depends on
// less than the pair comes as arrays, its leaves; an instruction is run on a strip of pairs at a time.
#pragma once

#include <stdint.h>

#include "core/index.h"

// Instructions on numbers, on integers (as wide as the scores) and on masks (integers of all bits or none); reads of
// tables; in the backward pass sums of gradients. add_mask is a sum, but -inf where its second number is. exp, tanh,
// sigmoid and one_minus_square, 1 - x^2, are f(a * b) * c. select_less and its like choose c or d by comparing a and b.
// clang-format off
#define QKV_FORMULA_INSTRUCTIONS(X)                                                                                   \
  X(copy) X(add) X(add_mask) X(subtract) X(multiply) X(divide) X(multiply_add) X(negative) X(absolute) X(minimum)                 \
  X(maximum) X(power) X(floor_divide) X(remainder) X(exp) X(log) X(tanh) X(sigmoid) X(one_minus_square) X(sqrt) X(sin) X(cos) X(erf) X(floor) X(less)              \
  X(less_equal) X(equal) X(integer_add) X(integer_subtract) X(integer_multiply) X(integer_negative)                   \
  X(integer_absolute) X(integer_minimum) X(integer_maximum) X(integer_less) X(integer_less_equal)                     \
  X(integer_equal) X(integer_power) X(integer_floor_divide) X(integer_remainder) X(left_shift) X(right_shift) X(bit_and) X(bit_or) X(bit_xor)          \
  X(bit_not) X(select) X(select_less) X(select_less_equal) X(select_equal) X(to_float) X(to_integer) X(one_or_zero) X(gather) X(rows) X(index) X(where_nonzero)           \
  X(scatter) X(scatter_rows) X(add_lanes) X(add_keys) X(add_diagonals)
// clang-format on

namespace qkv::kernels {

enum class FormulaOp : int32_t {
#define X(name) name,
  QKV_FORMULA_INSTRUCTIONS(X)
#undef X
  // What is in a graph and is no instruction.
  score,
  leaf,
  constant,
  gradient
};

// What a leaf (B or 1, H or 1, n) has a number for. A diagonal is the pairs of one difference of query and key: that of
// query i and key j is i - j + Lk - 1. A table is read by its place; a head_table has one for each (batch and) head.
enum class LeafLevel : uint8_t { head, query, key, diagonal, table, head_table };
static constexpr bool is_table(LeafLevel level) { return level >= LeafLevel::table; }

template <class T> struct FormulaLeaf {
  LeafLevel level = LeafLevel::head;
  const T* data = nullptr;          // numbers, or integers or masks in their place
  const int64_t* begins = nullptr;  // instead: where rows of a table begin
  Index batch = 0, head = 0;        // strides; 0 broadcasts
  Index size = 0;                   // n
  bool apart = false;               // of a table: what two queries read is one row or has nothing in common
  bool heads_alone = false, batches_alone = false;  // and queries of different heads, or batch entries, read no one row
};

// Values are numbered: leaves, constants, the scores' tile, a second tile, registers.
struct FormulaInstruction {
  FormulaOp op;
  int32_t out = -1, a = -1, b = -1, c = -1, d = -1;  // -1: none, or a factor 1
  int32_t leaf = -1;  // table that is read, leaf or table whose gradient is added to, or which check of an index
  double size = 0;    // of a checked index's axis
};

template <class T> struct FormulaProgram {
  const FormulaInstruction* instructions = nullptr;
  Index count = 0;
  Index first = 0;  // so many run before the product, which is added to what they leave in the tile
  Index registers = 0;
  const T* constants = nullptr;
  Index constant_count = 0;
};

// Blocks of the mask: pairs of kFormulaBlock queries and as many keys.
constexpr Index kFormulaBlock = 128;

template <class T> struct Formula {
  const FormulaLeaf<T>* leaves = nullptr;
  Index leaf_count = 0;
  // The score after the product alone, and in two parts.
  FormulaProgram<T> score, split_score;
  // In the backward pass: the same, leaving the derivative of the new score by the old one in the second tile. Empty
  // where that is 1, or where `keeps_scores`.
  FormulaProgram<T> derived, split_derived;
  // On the gradient of the new scores in the second tile, which becomes that of the old ones: sums of leaves'
  // gradients. If it keeps_scores, the old scores are in the tile, and all is done here; else the first instructions
  // run before the gradient is multiplied with the derivative, the others after it.
  FormulaProgram<T> gradient;
  bool keeps_scores = false;
  bool excludes = false;   // what it makes -inf is excluded, and filled if excluded pairs are
  FormulaProgram<T> mask;  // leaves a mask in the tile
  // Whether some, and every, pair of a block is allowed; null: not known.
  const bool *some = nullptr, *every = nullptr;
  Index block_batch = 0, block_head = 0, block_line = 0;  // strides
  int32_t* outside = nullptr;                             // of each check whether an allowed pair has an index outside
};

// Where gradients of leaves are added: in a leaf's own shape, or with all batches and heads. Null where not wanted.
template <class T> struct LeafGradient {
  T* data = nullptr;
  Index batch = 0, head = 0;
};

// Bounds of a program, so that running one needs no memory but its scratch.
constexpr Index kMostFormulaInstructions = 256, kMostFormulaValues = 512;

}  // namespace qkv::kernels
