// What a call's options do to scores, as a formula, after which the call's own comes.
#include <algorithm>
#include <cstdlib>

#include "autograd/views.h"
#include "ops/attention/formula/formula.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

// Nodes of the steps, in front of a graph's own.
class StepNodes {
 public:
  explicit StepNodes(FormulaGraph& graph) : graph_(graph) {}

  int score(const ScoreSteps& steps) {
    int s = graph_.add("score", {}, -1, 0, kFloat, "");
    if (steps.softcap > 0) {
      const int t = node("tanh", {node("multiply", {s, number(1 / steps.softcap)})});
      s = node("multiply", {t, number(steps.softcap)});
    }
    if (steps.alibi) {
      const int slopes = leaf(LeafLevel::head);
      sum_ = node("multiply", {slopes, leaf(LeafLevel::diagonal)});
    }
    if (steps.distance_bias) add_to_sum(leaf(LeafLevel::diagonal));
    if (!steps.mask) return sum_ < 0 ? s : node("add", {s, sum_});
    if (*steps.mask != LeafLevel::table) {
      add_to_sum(leaf(*steps.mask));
    } else {
      const int table = kind(LeafLevel::table, kFloat), begins = leaf(LeafLevel::query, NumberType::integer);
      add_to_sum(graph_.add("rows", {begins}, table, 0, kFloat, ""));
    }
    return graph_.add({FormulaOp::add_mask, kFloat, {s, sum_, -1}});
  }

 private:
  static constexpr NumberType kFloat = NumberType::floating;
  int kind(LeafLevel level, NumberType type) {
    graph_.leaves.push_back({level, type});
    return static_cast<int>(graph_.leaves.size()) - 1;
  }
  int leaf(LeafLevel level, NumberType type = kFloat) {
    return graph_.add("leaf", {}, kind(level, type), 0, kFloat, "");
  }
  int node(const char* name, const std::vector<int>& args) { return graph_.add(name, args, -1, 0, kFloat, ""); }
  int number(double x) { return graph_.add("constant", {}, -1, x, kFloat, ""); }
  void add_to_sum(int n) { sum_ = sum_ < 0 ? n : node("add", {sum_, n}); }

  FormulaGraph& graph_;
  int sum_ = -1;  // of what is added to the scores
};

// A mask's shape with all four axes, and what its numbers belong to.
Shape four_axes(Shape shape) {
  while (shape.rank() < 4) shape.insert(shape.begin(), 1);
  return shape;
}
LeafLevel level_of(const Shape& mask) {
  if (mask.dim(2) == 1) return mask.dim(3) == 1 ? LeafLevel::head : LeafLevel::key;
  return mask.dim(3) == 1 ? LeafLevel::query : LeafLevel::table;
}

// (B or 1, 1, Lq + Lk - 1): -|p - j| for each difference of a query's and a key's number; offsets (B) or undefined.
Array negative_distances(const Array& offsets, const PairSizes& n, DType dtype) {
  const std::int64_t zero = 0, *first = offsets.defined() ? offsets.data<std::int64_t>() : &zero;
  const bool equal = !offsets.defined() || std::count(first, first + n.batches, *first) == n.batches;
  Array y({equal ? 1 : n.batches, 1, std::max<Index>(0, n.queries + n.keys - 1)}, dtype);
  visit_floating(dtype, [&]<class T>(T) {
    for (Index batch = 0; batch < y.dim(0); ++batch) {
      T* to = y.data<T>() + batch * y.dim(2);
      for (Index i = 0; i < y.dim(2); ++i) to[i] = static_cast<T>(-std::abs(first[batch] + i - (n.keys - 1)));
    }
  });
  return y;
}

// Where the rows of a mask with all four axes begin.
Array begins_of(const Region& mask) {
  const Shape shape{mask.shape[0], mask.shape[1], mask.shape[2]};
  Array y(shape, DType::int64);
  const Strides strides{mask.strides[0], mask.strides[1], mask.strides[2]};
  for (Index i = 0; i < y.numel(); ++i) y.data<std::int64_t>()[i] = mask.offset + offset_of(i, shape, strides);
  return y;
}

}  // namespace

Region places_of(const Array& mask) { return Span(mask, mask).whole; }

std::shared_ptr<const FormulaProgram> FormulaProgram::behind(const ScoreSteps& steps) const {
  return behind_.of(steps, [&] {
    FormulaGraph graph(graph_.leaves);
    graph.checks = graph_.checks;
    const int changed = StepNodes(graph).score(steps);
    std::vector<int> numbers;
    for (FormulaNode node : graph_.nodes) {
      for (int& a : node.args)
        if (a >= 0) a = numbers[static_cast<std::size_t>(a)];
      numbers.push_back(node.op == FormulaOp::score ? changed : graph.add(node));
    }
    const auto now = [&](std::optional<int> node) -> std::optional<int> {
      if (!node) return {};
      return numbers[static_cast<std::size_t>(*node)];
    };
    FormulaProgram result(std::move(graph), score_node ? now(score_node) : changed, now(mask_node));
    result.excludes = excludes;
    return result;
  });
}

std::shared_ptr<const Formula> with_options(const AttentionOptions& o, const PairSizes& n, DType dtype) {
  static const auto nothing = std::make_shared<const FormulaProgram>(FormulaGraph({}), std::nullopt, std::nullopt);
  const bool masked = o.has_bias();
  const Shape mask = masked ? four_axes(o.attn_mask.shape()) : Shape{};
  ScoreSteps steps{o, o.alibi_slopes.defined(), o.distance_bias.defined(), {}};
  if (masked) steps.mask = level_of(mask);
  const bool changed = steps != ScoreSteps();
  if (!changed && o.formula == nullptr) return nullptr;
  auto y = std::make_shared<Formula>(o.formula != nullptr ? *o.formula : Formula{nothing, {}, {}, {}});
  for (Tensor& x : y->leaves) x = is_floating(x.dtype()) ? packed_as(x, dtype) : packed(x);
  if (!changed) return y;
  y->program = y->program->behind(steps);
  y->leaves.reserve(y->program->graph().leaves.size());
  const auto leaf = [&](const Tensor& x) { y->leaves.push_back(packed(x)); };
  if (steps.alibi) {
    leaf(reshape(o.alibi_slopes, {1, n.heads, 1}));
    leaf(Tensor(negative_distances(o.q_offset, n, dtype)));
  }
  if (steps.distance_bias) {
    const Tensor by_head = transpose(cast(o.distance_bias, dtype), {1, 0});
    leaf(reshape(by_head, {1, n.heads, by_head.dim(1)}));
  }
  if (!masked) return y;
  if (steps.mask != LeafLevel::table) {
    leaf(reshape(o.attn_mask, {mask.dim(0), mask.dim(1), mask.dim(2) * mask.dim(3)}));
    return y;
  }
  const Tensor whole = reshape(o.attn_mask, mask);
  const Span memory(whole.data(), whole.data());
  leaf(memory.gapless ? whole : Tensor(whole.data().view({{memory.length}, {1}, -memory.whole.offset})));
  leaf(Tensor(begins_of(memory.whole)));
  return y;
}

}  // namespace qkv::ops
