// A formula's arrays, checked, as the kernels read them.
#include <algorithm>

#include "core/error.h"
#include "ops/attention/formula/formula.h"

namespace qkv::ops {
namespace {

Index size_of(LeafLevel level, const PairSizes& n) {
  switch (level) {
    case LeafLevel::head:
      return 1;
    case LeafLevel::query:
      return n.queries;
    case LeafLevel::key:
      return n.keys;
    default:
      return std::max<Index>(0, n.queries + n.keys - 1);
  }
}

void check_integers(const char* op, const std::int64_t* x, Index n) {
  constexpr std::int64_t half = std::int64_t{1} << 31;
  std::uint64_t all = 0;  // bits of 32 and more are 0 if all fit
  for (Index i = 0; i < n; ++i) all |= static_cast<std::uint64_t>(x[i]) + half;
  if (all >> 32 == 0) return;
  const auto fits = [](std::int64_t v) { return -half <= v && v < half; };
  const std::int64_t* bad = std::find_if_not(x, x + n, fits);
  if (bad != x + n)  // another thread may have changed it since
    fail_value(op, ": integers of a formula must fit 32 bits where they meet pairs of a query and a key; got ", *bad);
}

// Integers or conditions as the kernels read them.
template <class T> Array converted(const char* op, const Array& x) {
  constexpr Index kAtOnce = 4096;  // numbers that stay in the first-level cache between check and conversion
  Array y(x.shape(), dtype_v<T>);
  const auto convert = [&](const auto* from) {
    for (Index i = 0; i < x.numel(); i += kAtOnce) {
      const Index end = std::min(x.numel(), i + kAtOnce);
      if constexpr (std::is_same_v<decltype(from), const std::int64_t*>) check_integers(op, from + i, end - i);
      std::transform(from + i, from + end, y.data<T>() + i, [](auto v) { return in_place_of<T>(v); });
    }
  };
  if (x.dtype() == DType::boolean) convert(x.data<bool>());
  else convert(x.data<std::int64_t>());
  return y;
}

template <class T> kernels::FormulaProgram<T> bound(const CompiledProgram& program) {
  const auto size = [](const auto& x) { return static_cast<Index>(x.size()); };
  const auto& constants = std::get<std::vector<T>>(program.in_place);
  return {program.instructions.data(), size(program.instructions), program.first,
          program.registers,           constants.data(),           size(constants)};
}

}  // namespace

template <class T>
BoundFormula<T>::BoundFormula(std::shared_ptr<const Formula> formula, const PairSizes& n, const char* op, bool records,
                              const std::vector<bool>& wanted)
    : formula_(std::move(formula)), operation_(op) {
  const FormulaProgram& program = *formula_->program;
  if (formula_->leaves.size() != program.graph().leaves.size())
    fail_value(op, ": a formula with ", program.graph().leaves.size(), " leaves got ", formula_->leaves.size());
  leaves_.reserve(formula_->leaves.size());
  for (std::size_t i = 0; i < formula_->leaves.size(); ++i) leaves_.push_back(leaf(i, n));
  static const auto forward_only = std::make_shared<const FormulaProgram::Backward>();
  backward_ = records ? program.backward(wanted) : forward_only;
  const auto tables = [](const LeafKind& leaf) { return is_table(leaf.level); };
  if (std::ranges::any_of(program.graph().leaves, tables)) bind_rows(n, wanted);
  view_.leaves = leaves_.data();
  view_.leaf_count = static_cast<Index>(leaves_.size());
  view_.score = bound<T>(program.score);
  view_.split_score = bound<T>(program.split_score);
  view_.mask = bound<T>(program.mask);
  view_.derived = bound<T>(backward_->derived);
  view_.split_derived = bound<T>(backward_->split_derived);
  view_.gradient = bound<T>(backward_->gradient);
  view_.keeps_scores = backward_->keeps_scores;
  view_.excludes = program.excludes;
  outside_.resize(program.graph().checks.size());
  view_.outside = outside_.data();
  if (!formula_->some.defined()) return;
  const auto blocks = [](Index size) { return (size + kernels::kFormulaBlock - 1) / kernels::kFormulaBlock; };
  const Array &some = formula_->some, &every = formula_->every;
  if (some.rank() != 4 || !every.defined() || some.shape() != every.shape() ||
      (some.dim(0) != 1 && some.dim(0) != n.batches) || (some.dim(1) != 1 && some.dim(1) != n.heads) ||
      some.dim(2) != blocks(n.queries) || some.dim(3) != blocks(n.keys))
    fail_value(op, ": blocks of a formula's mask must be (B or 1, H or 1, ", blocks(n.queries), ", ", blocks(n.keys),
               "); got ", some.shape());
  view_.some = some.data<bool>();
  view_.every = every.data<bool>();
  view_.block_line = some.dim(3);
  view_.block_head = some.dim(1) == 1 ? 0 : some.dim(2) * some.dim(3);
  view_.block_batch = some.dim(0) == 1 ? 0 : some.dim(1) * some.dim(2) * some.dim(3);
}

template <class T> kernels::FormulaLeaf<T> BoundFormula<T>::leaf(std::size_t number, const PairSizes& n) {
  const FormulaGraph& graph = formula_->program->graph();
  const auto [level, type] = graph.leaves[number];
  const Array& x = formula_->leaves[number].data();
  const DType wanted = type == NumberType::floating  ? dtype_v<T>
                       : type == NumberType::integer ? DType::int64
                                                     : DType::boolean;
  if (x.dtype() != wanted)
    fail_value(operation_, ": leaf ", number, " of a formula must be ", wanted, "; got ", x.dtype());
  kernels::FormulaLeaf<T> result;
  result.level = level;
  const bool table = is_table(level), per_head = level == LeafLevel::head_table;
  result.size = table ? x.numel() : size_of(level, n);
  if (!table) {
    if (x.rank() != 3 || (x.dim(0) != 1 && x.dim(0) != n.batches) || (x.dim(1) != 1 && x.dim(1) != n.heads) ||
        x.dim(2) != result.size)
      fail_value(operation_, ": leaf ", number, " of a formula must be (B or 1, H or 1, ", result.size, "); got ",
                 x.shape());
    const auto reads = [&](const FormulaNode& node) {
      return node.op == FormulaOp::rows && graph[node.args[0]].leaf == static_cast<int>(number);
    };
    if (std::any_of(graph.nodes.begin(), graph.nodes.end(), reads))
      result.begins = arrays_.emplace_back(x.clone()).template data<std::int64_t>();  // others could change them
  }
  if (level != LeafLevel::table) {
    const Index line = per_head ? x.numel() / std::max<Index>(1, x.dim(0) * x.dim(1)) : result.size;
    result.head = x.dim(1) == 1 ? 0 : line;
    result.batch = x.dim(0) == 1 ? 0 : x.dim(1) * line;
  }
  if (result.begins != nullptr) return result;
  result.data =
      type == NumberType::floating ? x.data<T>() : arrays_.emplace_back(converted<T>(operation_, x)).template data<T>();
  return result;
}

// What rows of tables are read must lie inside. Rows that have nothing in common, or all, make gradients independent.
template <class T> void BoundFormula<T>::bind_rows(const PairSizes& n, const std::vector<bool>& wanted) {
  const FormulaGraph& graph = formula_->program->graph();
  std::vector<std::vector<std::int64_t>> begins(leaves_.size());
  std::vector<bool> gathered(leaves_.size()), heads_differ(leaves_.size()), batches_differ(leaves_.size());
  for (const FormulaNode& node : graph.nodes) {
    const auto table = static_cast<std::size_t>(node.leaf);
    if (node.op == FormulaOp::gather) gathered[table] = true;
    if (node.op != FormulaOp::rows) continue;
    const auto leaf = static_cast<std::size_t>(graph[node.args[0]].leaf);
    const Shape& shape = formula_->leaves[leaf].shape();
    const std::int64_t *first = leaves_[leaf].begins, *last = first + shape.numel();
    if (first == last) continue;
    const auto [low, high] = std::minmax_element(first, last);
    if (*low < 0 || *high + n.keys > leaves_[table].size)
      fail_value(operation_, ": rows of a formula's table must lie inside its ", leaves_[table].size,
                 " numbers; got numbers ", *low, " to ", *high + n.keys - 1);
    if (!wanted.empty() && wanted[table]) begins[table].insert(begins[table].end(), first, last);
    heads_differ[table] = shape.dim(1) == n.heads;
    batches_differ[table] = shape.dim(0) == n.batches;
  }
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    auto& rows = begins[i];
    if (!std::is_sorted(rows.begin(), rows.end())) std::sort(rows.begin(), rows.end());
    const auto overlap = [&](std::int64_t a, std::int64_t b) { return a != b && b - a < n.keys; };
    leaves_[i].apart = !gathered[i] && std::adjacent_find(rows.begin(), rows.end(), overlap) == rows.end();
    if (formula_->program->graph().leaves[i].level == LeafLevel::head_table) {
      const Shape& shape = formula_->leaves[i].shape();
      leaves_[i].heads_alone = shape.dim(1) == n.heads;
      leaves_[i].batches_alone = shape.dim(0) == n.batches;
      continue;
    }
    const bool alone = leaves_[i].apart && std::adjacent_find(rows.begin(), rows.end()) == rows.end();
    leaves_[i].heads_alone = alone && heads_differ[i];
    leaves_[i].batches_alone = alone && batches_differ[i];
  }
}

template <class T> void BoundFormula<T>::check_indices() const {
  for (std::size_t i = 0; i < outside_.size(); ++i)
    if (outside_[i] != 0) throw IndexError(text(operation_, ": ", formula_->program->graph().checks[i]));
}

template class BoundFormula<float>;
template class BoundFormula<double>;

}  // namespace qkv::ops
