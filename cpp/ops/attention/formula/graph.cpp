// The graph of a formula: its operations by name, and reverse mode.
#include <algorithm>
#include <numbers>
#include <optional>

#include "core/error.h"
#include "ops/attention/formula/formula.h"

namespace qkv::ops {
namespace {

constexpr NumberType kFloat = NumberType::floating, kInteger = NumberType::integer, kBoolean = NumberType::boolean;

// An operation on arguments of one type, and the type of its result.
struct NamedOperation {
  const char* name;
  int count;
  NumberType argument;
  FormulaOp op;
  NumberType result;
};

constexpr NamedOperation kOperations[] = {
    {"add", 2, kFloat, FormulaOp::add, kFloat},
    {"subtract", 2, kFloat, FormulaOp::subtract, kFloat},
    {"multiply", 2, kFloat, FormulaOp::multiply, kFloat},
    {"divide", 2, kFloat, FormulaOp::divide, kFloat},
    {"negative", 1, kFloat, FormulaOp::negative, kFloat},
    {"absolute", 1, kFloat, FormulaOp::absolute, kFloat},
    {"minimum", 2, kFloat, FormulaOp::minimum, kFloat},
    {"maximum", 2, kFloat, FormulaOp::maximum, kFloat},
    {"power", 2, kFloat, FormulaOp::power, kFloat},
    {"floor_divide", 2, kFloat, FormulaOp::floor_divide, kFloat},
    {"remainder", 2, kFloat, FormulaOp::remainder, kFloat},
    {"exp", 1, kFloat, FormulaOp::exp, kFloat},
    {"log", 1, kFloat, FormulaOp::log, kFloat},
    {"tanh", 1, kFloat, FormulaOp::tanh, kFloat},
    {"sigmoid", 1, kFloat, FormulaOp::sigmoid, kFloat},
    {"sqrt", 1, kFloat, FormulaOp::sqrt, kFloat},
    {"sin", 1, kFloat, FormulaOp::sin, kFloat},
    {"cos", 1, kFloat, FormulaOp::cos, kFloat},
    {"erf", 1, kFloat, FormulaOp::erf, kFloat},
    {"floor", 1, kFloat, FormulaOp::floor, kFloat},
    {"less", 2, kFloat, FormulaOp::less, kBoolean},
    {"less_equal", 2, kFloat, FormulaOp::less_equal, kBoolean},
    {"equal", 2, kFloat, FormulaOp::equal, kBoolean},
    {"integer", 1, kFloat, FormulaOp::to_integer, kInteger},
    {"add", 2, kInteger, FormulaOp::integer_add, kInteger},
    {"subtract", 2, kInteger, FormulaOp::integer_subtract, kInteger},
    {"multiply", 2, kInteger, FormulaOp::integer_multiply, kInteger},
    {"negative", 1, kInteger, FormulaOp::integer_negative, kInteger},
    {"absolute", 1, kInteger, FormulaOp::integer_absolute, kInteger},
    {"minimum", 2, kInteger, FormulaOp::integer_minimum, kInteger},
    {"maximum", 2, kInteger, FormulaOp::integer_maximum, kInteger},
    {"power", 2, kInteger, FormulaOp::integer_power, kInteger},
    {"floor_divide", 2, kInteger, FormulaOp::integer_floor_divide, kInteger},
    {"remainder", 2, kInteger, FormulaOp::integer_remainder, kInteger},
    {"left_shift", 2, kInteger, FormulaOp::left_shift, kInteger},
    {"right_shift", 2, kInteger, FormulaOp::right_shift, kInteger},
    {"and", 2, kInteger, FormulaOp::bit_and, kInteger},
    {"or", 2, kInteger, FormulaOp::bit_or, kInteger},
    {"xor", 2, kInteger, FormulaOp::bit_xor, kInteger},
    {"not", 1, kInteger, FormulaOp::bit_not, kInteger},
    {"less", 2, kInteger, FormulaOp::integer_less, kBoolean},
    {"less_equal", 2, kInteger, FormulaOp::integer_less_equal, kBoolean},
    {"equal", 2, kInteger, FormulaOp::integer_equal, kBoolean},
    {"float", 1, kInteger, FormulaOp::to_float, kFloat},
    {"index", 1, kInteger, FormulaOp::index, kInteger},
    {"and", 2, kBoolean, FormulaOp::bit_and, kBoolean},
    {"or", 2, kBoolean, FormulaOp::bit_or, kBoolean},
    {"xor", 2, kBoolean, FormulaOp::bit_xor, kBoolean},
    {"not", 1, kBoolean, FormulaOp::bit_not, kBoolean},
    {"integer", 1, kBoolean, FormulaOp::one_or_zero, kInteger},
};

constexpr FormulaNode node_of(FormulaOp op, NumberType type, std::array<int, 3> args = {-1, -1, -1}) {
  return {op, type, args, -1, 0};
}

}  // namespace

int FormulaGraph::add(const FormulaNode& node) {
  const auto found = std::find(nodes.begin(), nodes.end(), node);
  const auto at = static_cast<int>(found - nodes.begin());
  if (found == nodes.end()) nodes.push_back(node);
  return at;
}

int FormulaGraph::add(const std::string& name, const std::vector<int>& args, int leaf, double number, NumberType type,
                      const std::string& where) {
  const auto wrong = [&](const char* what) { fail_value("formula: node ", name, " ", what); };
  const auto count = args.size();
  for (const int a : args)
    if (a < 0 || a >= static_cast<int>(nodes.size())) wrong("must have earlier nodes as arguments");
  const auto kind = [&](bool table) {
    if (leaf < 0 || leaf >= static_cast<int>(leaves.size())) wrong("names no leaf");
    const LeafKind result = leaves[static_cast<std::size_t>(leaf)];
    if (is_table(result.level) != table) wrong(table ? "must name a table" : "must not name a table");
    return result;
  };
  const auto of = [&](std::size_t i) { return (*this)[args[i]].type; };
  if (name == "score" && count == 0) return add(node_of(FormulaOp::score, kFloat));
  if (name == "constant" && count == 0) return add({FormulaOp::constant, type, {-1, -1, -1}, -1, number});
  if (name == "leaf" && count == 0) return add({FormulaOp::leaf, kind(false).type, {-1, -1, -1}, leaf, 0});
  if ((name == "gather" || name == "rows") && count == 1 && of(0) == kInteger) {
    const bool rows = name == "rows";
    const FormulaNode& begins = (*this)[args[0]];
    if (rows &&
        (begins.op != FormulaOp::leaf || leaves[static_cast<std::size_t>(begins.leaf)].level > LeafLevel::query))
      wrong("must have a leaf of queries or heads as argument");
    return add({rows ? FormulaOp::rows : FormulaOp::gather, kind(true).type, {args[0], -1, -1}, leaf, 0});
  }
  if (name == "where" && count == 3 && of(0) == kBoolean && of(1) == of(2))
    return add(node_of(FormulaOp::select, of(1), {args[0], args[1], args[2]}));
  if (name == "float" && count == 1 && of(0) == kBoolean)
    return add(
        node_of(FormulaOp::to_float, kFloat, {add(node_of(FormulaOp::one_or_zero, kInteger, {args[0], -1, -1}))}));
  for (const NamedOperation& o : kOperations) {
    if (name != o.name || static_cast<std::size_t>(o.count) != count || of(0) != o.argument ||
        of(count - 1) != o.argument)
      continue;
    FormulaNode node = node_of(o.op, o.result);
    std::copy(args.begin(), args.end(), node.args.begin());
    if (o.op == FormulaOp::index) {
      node.number = number;
      node.leaf = static_cast<int>(checks.size());
      checks.push_back(text("an index is out of bounds for an axis of size ", static_cast<Index>(number),
                            where.empty() ? "" : " in ", where));
    }
    return add(node);
  }
  fail_value("formula: unknown node ", name, " of ", count, " such arguments");
}

bool FormulaGraph::depends(int node, int on) const {
  std::vector<bool> found(nodes.size());
  found[static_cast<std::size_t>(on)] = true;
  for (int n = on + 1; n <= node; ++n) {
    const auto& args = (*this)[n].args;
    found[static_cast<std::size_t>(n)] =
        std::any_of(args.begin(), args.end(), [&](int a) { return a >= 0 && found[static_cast<std::size_t>(a)]; });
  }
  return found[static_cast<std::size_t>(node)];
}

namespace {

// Builds derivatives: constants meet, and 1 disappears.
class DerivativeBuilder {
 public:
  explicit DerivativeBuilder(FormulaGraph& graph) : graph_(graph) {}

  int constant(double x) { return graph_.add({FormulaOp::constant, kFloat, {-1, -1, -1}, -1, x}); }
  int node(FormulaOp op, int a, int b = -1, int c = -1, NumberType type = kFloat) {
    return graph_.add(node_of(op, type, {a, b, c}));
  }
  int multiply(int a, int b) {
    const auto x = number(a), y = number(b);
    if (x && y) return constant(*x * *y);
    if (x) return multiply(b, a);
    if (y && *y == 1) return a;
    for (const bool swapped : {false, true}) {  // constants are outside of products
      const FormulaNode inner = graph_[swapped ? b : a];
      if (inner.op != FormulaOp::multiply || !number(inner.args[1])) continue;
      const int other = swapped ? a : b;
      if (const auto factor = number(other)) return multiply(inner.args[0], constant(*factor * *number(inner.args[1])));
      return multiply(multiply(inner.args[0], other), inner.args[1]);
    }
    return node(FormulaOp::multiply, a, b);
  }
  int negative(int a) { return multiply(a, constant(-1)); }
  int add(int a, int b) { return a < 0 ? b : node(FormulaOp::add, a, b); }
  int where(int condition, int a, int b) { return node(FormulaOp::select, condition, a, b); }
  int but_at_zero(int x, int y) { return where(node(FormulaOp::equal, x, constant(0), -1, kBoolean), constant(0), y); }
  // The share of the first of two that are compared: all, half of equal ones, or nothing.
  int larger_share(int smaller, int larger, int g) {
    return where(node(FormulaOp::less, smaller, larger, -1, kBoolean), g,
                 where(node(FormulaOp::equal, smaller, larger, -1, kBoolean), multiply(g, constant(0.5)), constant(0)));
  }

  // What arrives at the arguments of node n when g arrives there; -1: nothing.
  std::array<int, 3> arriving(int n, int g) {
    const FormulaNode at = graph_[n];
    const int a = at.args[0], b = at.args[1];
    switch (at.op) {
      case FormulaOp::add:
      case FormulaOp::add_mask:
        return {g, g, -1};
      case FormulaOp::subtract:
        return {g, negative(g), -1};
      case FormulaOp::multiply:
        return {multiply(g, b), multiply(g, a), -1};
      case FormulaOp::divide: {
        const auto divisor = number(b);
        const int da = divisor ? multiply(g, constant(1 / *divisor)) : node(FormulaOp::divide, g, b);
        return {da, divisor ? -1 : negative(multiply(da, n)), -1};
      }
      case FormulaOp::negative:
        return {negative(g), -1, -1};
      case FormulaOp::absolute:
        return {where(node(FormulaOp::less, a, constant(0), -1, kBoolean), negative(g),
                      where(node(FormulaOp::equal, a, constant(0), -1, kBoolean), constant(0), g)),
                -1, -1};
      case FormulaOp::minimum:
        return {larger_share(a, b, g), larger_share(b, a, g), -1};
      case FormulaOp::maximum:
        return {larger_share(b, a, g), larger_share(a, b, g), -1};
      case FormulaOp::power: {
        const int before = node(FormulaOp::power, a, node(FormulaOp::subtract, b, constant(1)));
        return {but_at_zero(b, multiply(g, multiply(b, before))),
                but_at_zero(a, multiply(g, multiply(n, node(FormulaOp::log, a)))), -1};
      }
      case FormulaOp::remainder:
        return {g, negative(multiply(g, node(FormulaOp::floor_divide, a, b))), -1};
      case FormulaOp::exp:
        return {multiply(g, n), -1, -1};
      case FormulaOp::log:
        return {node(FormulaOp::divide, g, a), -1, -1};
      case FormulaOp::tanh:
        return {multiply(g, node(FormulaOp::one_minus_square, n)), -1, -1};
      case FormulaOp::sigmoid:
        return {multiply(g, multiply(n, node(FormulaOp::subtract, constant(1), n))), -1, -1};
      case FormulaOp::sqrt:
        return {node(FormulaOp::divide, multiply(g, constant(0.5)), n), -1, -1};
      case FormulaOp::sin:
        return {multiply(g, node(FormulaOp::cos, a)), -1, -1};
      case FormulaOp::cos:
        return {negative(multiply(g, node(FormulaOp::sin, a))), -1, -1};
      case FormulaOp::erf: {
        const int bell = node(FormulaOp::exp, negative(multiply(a, a)));
        return {multiply(g, multiply(bell, constant(2 * std::numbers::inv_sqrtpi))), -1, -1};
      }
      case FormulaOp::select:
        return {-1, where(a, g, constant(0)), where(a, constant(0), g)};
      default:  // floor, floor_divide, and anything but floating numbers
        return {-1, -1, -1};
    }
  }

 private:
  std::optional<double> number(int n) const {
    if (graph_[n].op != FormulaOp::constant) return {};
    return graph_[n].number;
  }
  FormulaGraph& graph_;
};

}  // namespace

FormulaDerivative derivative(FormulaGraph& graph, int of, int seed, const std::vector<bool>& wanted) {
  const auto count = static_cast<std::size_t>(of) + 1;
  std::vector<bool> needs(count);  // a node through which something is reached
  for (std::size_t i = 0; i < count; ++i) {
    const FormulaNode& n = graph.nodes[i];
    const bool reads = n.op == FormulaOp::leaf || n.op == FormulaOp::gather || n.op == FormulaOp::rows;
    needs[i] = n.type == kFloat && (n.op == FormulaOp::score || (reads && wanted[static_cast<std::size_t>(n.leaf)]) ||
                                    std::any_of(n.args.begin(), n.args.end(), [&](int a) {
                                      return !reads && a >= 0 && needs[static_cast<std::size_t>(a)];
                                    }));
  }
  DerivativeBuilder build(graph);
  FormulaDerivative result;
  std::vector<int> arriving(count, -1);
  arriving.back() = seed;
  for (int n = of; n >= 0; --n) {
    const int g = arriving[static_cast<std::size_t>(n)];
    if (g < 0 || !needs[static_cast<std::size_t>(n)]) continue;
    const FormulaNode at = graph[n];
    if (at.op == FormulaOp::score) {
      result.score = g;
    } else if (at.op == FormulaOp::leaf) {
      result.parts.push_back({at.leaf, g, -1, false});
    } else if (at.op == FormulaOp::gather || at.op == FormulaOp::rows) {
      result.parts.push_back({at.leaf, g, at.args[0], at.op == FormulaOp::rows});
    } else {
      const auto parts = build.arriving(n, g);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const int a = at.args[i];
        if (a < 0 || parts[i] < 0 || !needs[static_cast<std::size_t>(a)]) continue;
        int& sum = arriving[static_cast<std::size_t>(a)];
        sum = build.add(sum, parts[i]);
      }
    }
  }
  return result;
}

}  // namespace qkv::ops
