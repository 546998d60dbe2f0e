// A formula of attention's scores and of its allowed pairs: a graph of what is computed for each pair of a query and a
// key, compiled to programs for the kernels (kernels/attention/formula.h), and the arrays that it reads.
#pragma once

#include <array>
#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "autograd/tensor.h"
#include "core/recent.h"
#include "kernels/attention/formula.h"
#include "ops/attention/attention.h"

namespace qkv::ops {

using kernels::FormulaOp;
using kernels::LeafLevel;

enum class NumberType { floating, integer, boolean };

inline bool same_bits(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

struct FormulaNode {
  FormulaOp op;
  NumberType type;
  std::array<int, 3> args = {-1, -1, -1};        // numbers of nodes before it
  int leaf = -1;                                 // a leaf, or a table that is read, or which check of an index
  double number = 0;                             // a constant, or the size of a checked index's axis
  bool operator==(const FormulaNode& o) const {  // -0 is not 0, and NaN is NaN
    return op == o.op && type == o.type && args == o.args && leaf == o.leaf && same_bits(number, o.number);
  }
};

struct LeafKind {
  LeafLevel level;
  NumberType type;
};

// Nodes in an order in which each comes after its arguments. Equal ones are one.
class FormulaGraph {
 public:
  explicit FormulaGraph(std::vector<LeafKind> kinds) : leaves(std::move(kinds)) {}
  int add(const FormulaNode& node);
  // By the name that Python gives an operation, checked. `number`: a constant or the size of an index's axis; `leaf`:
  // the leaf of leaf, gather and rows. `type` of a constant. `where`: a line of source.
  int add(const std::string& name, const std::vector<int>& args, int leaf, double number, NumberType type,
          const std::string& where);
  const FormulaNode& operator[](int node) const { return nodes[static_cast<std::size_t>(node)]; }
  bool depends(int node, int on) const;

  std::vector<FormulaNode> nodes;
  std::vector<LeafKind> leaves;
  std::vector<std::string> checks;  // where each index that may lie outside was written, with its axis' size
};

// The derivative of a node, as nodes after it.
struct FormulaDerivative {
  struct Part {
    int leaf, node;  // what is added to the gradient of which leaf
    int place;       // of a table: the node of its index, or of where its rows begin; else -1
    bool rows;
  };
  std::vector<Part> parts;
  int score = -1;  // by the score; -1: 0
};
// `wanted` leaves; seed: the node of what arrives.
FormulaDerivative derivative(FormulaGraph& graph, int of, int seed, const std::vector<bool>& wanted);

struct CompiledProgram {
  std::vector<kernels::FormulaInstruction> instructions;
  Index first = 0, registers = 0;
  std::vector<double> constants;
  std::vector<NumberType> types;                                   // of these
  std::tuple<std::vector<float>, std::vector<double>> in_place{};  // the constants as kernels of each dtype read them
};

// An integer, or a condition, in the place of a number.
template <class T> T in_place_of(std::int64_t x) {
  using Integer = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  return std::bit_cast<T>(static_cast<Integer>(x));
}
template <class T> T in_place_of(bool x) { return in_place_of<T>(std::int64_t{x ? -1 : 0}); }

// What options do to scores: the numbers, then sums. Their leaves come after the formula's own.
struct ScoreSteps : ScoreNumbers {
  bool alibi = false;                  // slopes of heads, distances of diagonals times -1
  bool distance_bias = false;          // of diagonals
  std::optional<LeafLevel> mask = {};  // a float mask's; that of a table is followed by where its rows begin
  bool operator==(const ScoreSteps&) const = default;
};

class FormulaProgram {
 public:
  // Nodes of the graph: the new score (the "score" node itself: as it is) and which pairs are allowed.
  FormulaProgram(FormulaGraph graph, std::optional<int> score, std::optional<int> mask);

  struct Backward {
    CompiledProgram derived, split_derived, gradient;
    bool keeps_scores = false;
  };
  std::shared_ptr<const Backward> backward(const std::vector<bool>& wanted) const;
  // The same of scores that the steps have changed.
  std::shared_ptr<const FormulaProgram> behind(const ScoreSteps& steps) const;

  const FormulaGraph& graph() const { return graph_; }
  const std::optional<int> score_node, mask_node;
  CompiledProgram score, split_score, mask;
  bool excludes;  // a score that it makes -inf

 private:
  Backward made_backward(const std::vector<bool>& wanted) const;
  FormulaGraph graph_;
  Recent<std::vector<bool>, Backward> backward_;
  Recent<ScoreSteps, FormulaProgram> behind_;
};

// One call's formula.
struct Formula {
  std::shared_ptr<const FormulaProgram> program;
  Tensors leaves;     // (B or 1, H or 1, n), tables of any shape
  Array some, every;  // boolean (B or 1, H or 1, blocks of queries, blocks of keys), or undefined
};

// The call's formula of scores that its options change: numbers, slopes, distances and a float mask, its leaves packed
// and those of floats in the dtype. Options as checked; null if nothing changes them.
std::shared_ptr<const Formula> with_options(const AttentionOptions& options, const PairSizes& sizes, DType dtype);

// Where the numbers of a float mask are in its leaf, which holds all memory from its first number to its last.
Region places_of(const Array& mask);

// The formula as the kernels of one dtype read it. Floating leaves have that dtype and stay as long as this.
template <class T> class BoundFormula {
 public:
  // `records`: there is a backward pass, which is to give the gradients of the leaves that are `wanted`.
  // Else that may be empty.
  BoundFormula(std::shared_ptr<const Formula> formula, const PairSizes& sizes, const char* operation, bool records,
               const std::vector<bool>& wanted);
  BoundFormula(const BoundFormula&) = delete;
  const kernels::Formula<T>& view() const { return view_; }
  // An IndexError if an index of an allowed pair lay outside.
  void check_indices() const;

 private:
  kernels::FormulaLeaf<T> leaf(std::size_t number, const PairSizes& sizes);
  void bind_rows(const PairSizes& sizes, const std::vector<bool>& wanted);

  const std::shared_ptr<const Formula> formula_;
  const char* operation_;
  std::shared_ptr<const FormulaProgram::Backward> backward_;
  std::vector<kernels::FormulaLeaf<T>> leaves_;
  std::vector<Array> arrays_;
  mutable std::vector<std::int32_t> outside_;
  kernels::Formula<T> view_;
};

// What the nodes give for all pairs, by recorded operations; scores (B, H, Lq, Lk).
Tensor formula_scores(const Formula& formula, const Tensor& scores);
// The allowed pairs, boolean, broadcasting to (B, H, Lq, Lk); undefined if the formula says nothing of them. `dtype`:
// of the scores.
Tensor formula_mask(const Formula& formula, const PairSizes& sizes, DType dtype);

}  // namespace qkv::ops
