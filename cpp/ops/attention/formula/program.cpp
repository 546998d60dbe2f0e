// Programs of a formula's graph: which nodes a program needs, what one instruction does at once, registers.
#include <algorithm>
#include <map>

#include "core/error.h"
#include "ops/attention/formula/formula.h"

namespace qkv::ops {
namespace {

using kernels::FormulaInstruction;

// Values before a program's constants and registers are counted; leaves have their numbers.
constexpr int kNowhere = -1, kConstant = 1 << 20, kTile = 2 << 20, kSecond = kTile + 1, kRegister = 3 << 20;

// Whether it is f(a * b) * c.
bool has_factors(FormulaOp op) {
  return op == FormulaOp::exp || op == FormulaOp::tanh || op == FormulaOp::sigmoid || op == FormulaOp::one_minus_square;
}
// What chooses by such a comparison itself, or none.
std::optional<FormulaOp> select_by(FormulaOp comparison) {
  if (comparison == FormulaOp::less) return FormulaOp::select_less;
  if (comparison == FormulaOp::less_equal) return FormulaOp::select_less_equal;
  if (comparison == FormulaOp::equal) return FormulaOp::select_equal;
  return {};
}
bool reads_rows(FormulaOp op) { return op == FormulaOp::rows || op == FormulaOp::scatter_rows; }

// A node that is to be in a tile at the end, or whose sum is to be added to the gradient of a leaf.
struct Target {
  int node, tile;
};
struct Added {
  FormulaOp op;
  int leaf, place, node;  // place: a node, or the leaf of where rows begin
};

// One program, or one of its two parts.
class Compiler {
 public:
  // What the tiles hold at first. `fuses`: a product may be added before it is rounded.
  Compiler(const FormulaGraph& graph, CompiledProgram& program, int in_tile, int in_second, bool fuses = true)
      : graph_(graph), program_(program), in_tile_(in_tile), in_second_(in_second), fuses_(fuses) {}

  void compile(const std::vector<Target>& targets, const std::vector<Added>& sums) {
    const auto count = graph_.nodes.size();
    uses_.assign(count, 0);
    needed_.assign(count, false);
    for (const Target& t : targets) need(t.node);
    for (const Added& s : sums) {
      need(s.node);
      if (s.op == FormulaOp::scatter) need(s.place);
    }
    for (std::size_t n = 0; n < count; ++n)
      if (needed_[n]) forms_[static_cast<int>(n)] = form_of(static_cast<int>(n));
    // First nodes stand for values, then places.
    std::vector<FormulaInstruction> code;
    for (const auto& [n, form] : forms_)
      if (std::find(merged_.begin(), merged_.end(), n) == merged_.end()) {
        code.push_back(form);
        code.back().out = n;
      }
    for (const Added& s : sums) {
      const bool rows = s.op == FormulaOp::scatter_rows, table = rows || s.op == FormulaOp::scatter;
      code.push_back({.op = s.op, .a = table ? s.place : s.node, .b = table ? s.node : kNowhere, .leaf = s.leaf});
    }
    const auto sums_end = code.size();
    // What is to be in a tile is computed there if nothing reads what was there before.
    std::vector<Target> copies;
    for (const Target& t : targets) {
      if (t.node == (t.tile == kTile ? in_tile_ : in_second_)) continue;
      if (!computed_in_place(code, t, targets)) copies.push_back(t);
      else place_[t.node] = t.tile;
    }
    // The second tile first: it may get what is in the first.
    std::sort(copies.begin(), copies.end(), [](const Target& a, const Target& b) { return a.tile > b.tile; });
    for (const Target& t : copies) code.push_back({.op = FormulaOp::copy, .out = t.tile, .a = t.node});
    assign(code, sums_end);
    program_.instructions.insert(program_.instructions.end(), code.begin(), code.end());
  }

 private:
  bool is_given(int n) const {
    const FormulaOp op = graph_[n].op;
    return n == in_tile_ || n == in_second_ || op == FormulaOp::leaf || op == FormulaOp::constant;
  }
  void need(int n) {
    ++uses_[static_cast<std::size_t>(n)];
    if (is_given(n) || needed_[static_cast<std::size_t>(n)]) return;
    needed_[static_cast<std::size_t>(n)] = true;
    const FormulaNode& node = graph_[n];
    if (node.op == FormulaOp::rows) return;  // read by itself
    for (const int a : node.args)
      if (a >= 0) need(a);
  }
  // Whether the node's value is used by one other alone, which may do its work.
  bool can_merge(int n) const {
    return n >= 0 && !is_given(n) && uses_[static_cast<std::size_t>(n)] == 1 &&
           std::find(merged_.begin(), merged_.end(), n) == merged_.end();
  }
  // The instruction of a node, with what it takes over from others.
  FormulaInstruction form_of(int n) {
    const FormulaNode& node = graph_[n];
    const auto& args = node.args;
    FormulaInstruction form{.op = node.op, .a = args[0], .b = args[1], .c = args[2], .leaf = node.leaf};
    if (node.op == FormulaOp::rows) form.a = graph_[args[0]].leaf;
    if (node.op == FormulaOp::index) form.size = node.number;
    const auto is_product = [&](int m) { return can_merge(m) && forms_.at(m).op == FormulaOp::multiply; };
    if (has_factors(node.op) && is_product(args[0])) {
      form.a = forms_.at(args[0]).a;
      form.b = forms_.at(args[0]).b;
      merged_.push_back(args[0]);
    } else if (node.op == FormulaOp::select && can_merge(args[0])) {
      const FormulaInstruction& by = forms_.at(args[0]);
      const auto op = select_by(by.op);
      if (!op) return form;
      form = {.op = *op, .a = by.a, .b = by.b, .c = args[1], .d = args[2]};
      merged_.push_back(args[0]);
    } else if (node.op == FormulaOp::multiply || node.op == FormulaOp::add) {
      for (const bool swapped : {false, true}) {
        const int f = args[swapped], other = args[!swapped];
        if (node.op == FormulaOp::add && fuses_ && is_product(f))
          form = {.op = FormulaOp::multiply_add, .a = forms_.at(f).a, .b = forms_.at(f).b};
        else if (node.op == FormulaOp::multiply && can_merge(f) && has_factors(forms_.at(f).op) && forms_.at(f).c < 0)
          form = forms_.at(f);
        else continue;
        form.c = other;
        merged_.push_back(f);
        break;
      }
    }
    return form;
  }

  // Its operands, except for the leaf of where rows begin.
  static std::vector<int32_t*> operands(FormulaInstruction& in) {
    if (reads_rows(in.op)) return {&in.b};
    return {&in.a, &in.b, &in.c, &in.d};
  }
  static bool reads(FormulaInstruction in, int n) {
    const auto all = operands(in);
    return std::any_of(all.begin(), all.end(), [n](const int32_t* a) { return *a == n; });
  }
  bool computed_in_place(const std::vector<FormulaInstruction>& code, const Target& t,
                         const std::vector<Target>& targets) const {
    const int before = t.tile == kTile ? in_tile_ : in_second_;
    const auto at =
        std::find_if(code.begin(), code.end(), [&](const FormulaInstruction& in) { return in.out == t.node; });
    if (at == code.end() || place_.contains(t.node)) return false;
    if (before < 0) return true;
    return std::none_of(at + 1, code.end(), [&](const FormulaInstruction& in) { return reads(in, before); }) &&
           std::none_of(targets.begin(), targets.end(), [&](const Target& o) { return o.node == before; });
  }

  int constant(int n) {
    const FormulaNode& node = graph_[n];
    for (std::size_t i = 0; i < program_.constants.size(); ++i)
      if (same_bits(program_.constants[i], node.number) && program_.types[i] == node.type)
        return kConstant + static_cast<int>(i);
    program_.constants.push_back(node.number);
    program_.types.push_back(node.type);
    return kConstant + static_cast<int>(program_.constants.size()) - 1;
  }
  int place_of(int n) {
    if (n < 0) return kNowhere;
    if (n == in_tile_) return kTile;
    if (n == in_second_) return kSecond;
    if (graph_[n].op == FormulaOp::leaf) return graph_[n].leaf;
    if (graph_[n].op == FormulaOp::constant) return constant(n);
    return place_.at(n);
  }
  // Nodes become places. A place is free again at the last instruction that reads it: one writes where it reads, but
  // for index, which looks at its operand again. A tile serves as well, from when nothing reads what it holds at first
  // until it gets its result. The last instructions, from `copies` on, have their tile already.
  void assign(std::vector<FormulaInstruction>& code, std::size_t copies) {
    std::map<int, std::size_t> last, result;  // of nodes: where they are read; of tiles: where they get theirs
    for (std::size_t i = 0; i < code.size(); ++i) {
      for (const int32_t* a : operands(code[i])) last[*a] = i;
      const int out = code[i].out;
      if (i >= copies) result[out] = i;
      else if (place_.contains(out)) result[place_.at(out)] = i;
    }
    std::vector<int> free;
    int count = 0;
    for (std::size_t i = 0; i < code.size(); ++i) {
      FormulaInstruction& in = code[i];
      std::vector<int> freed;
      for (const auto& [tile, at] : result) {
        const auto read = last.find(tile == kTile ? in_tile_ : in_second_);
        if (i < at && i == (read == last.end() || read->first < 0 ? 0 : read->second)) freed.push_back(tile);
      }
      for (const auto& [n, at] : last)
        if (const auto place = place_.find(n); at == i && place != place_.end())
          if (place->second >= kRegister || i < result.at(place->second)) freed.push_back(place->second);
      for (int32_t* a : operands(in)) *a = place_of(*a);
      if (in.op != FormulaOp::index) free.insert(free.end(), freed.begin(), freed.end());
      if (const int node = in.out; node >= 0 && i < copies) {
        if (!place_.contains(node)) {
          const auto serves = [&](int p) { return p >= kRegister || last.at(node) <= result.at(p); };
          auto found = std::find_if(free.begin(), free.end(), [&](int p) { return p < kRegister && serves(p); });
          if (found == free.end()) found = std::find_if(free.begin(), free.end(), serves);
          if (found == free.end()) found = free.insert(free.end(), kRegister + count++);
          place_[node] = *found;
          free.erase(found);
        }
        in.out = place_.at(node);
      }
      if (in.op == FormulaOp::index) free.insert(free.end(), freed.begin(), freed.end());
    }
    program_.registers = std::max<Index>(program_.registers, count);
  }

  const FormulaGraph& graph_;
  CompiledProgram& program_;
  const int in_tile_, in_second_;
  const bool fuses_;
  std::vector<int> uses_, merged_;
  std::vector<bool> needed_;
  std::map<int, FormulaInstruction> forms_;  // of nodes, in their order; operands are nodes
  std::map<int, int> place_;
};

template <class T> void put_in_place(CompiledProgram& program) {
  for (std::size_t i = 0; i < program.constants.size(); ++i) {
    const double x = program.constants[i];
    std::get<std::vector<T>>(program.in_place)
        .push_back(program.types[i] == NumberType::floating  ? static_cast<T>(x)
                   : program.types[i] == NumberType::integer ? in_place_of<T>(static_cast<std::int64_t>(x))
                                                             : in_place_of<T>(x != 0));
  }
}

// Numbers all values, now that constants and registers are counted.
CompiledProgram finished(CompiledProgram program, const FormulaGraph& graph) {
  const auto leaves = static_cast<int>(graph.leaves.size());
  const int tile = leaves + static_cast<int>(program.constants.size());
  const auto number = [&](int32_t& v) {
    if (v >= kRegister) v += tile + 2 - kRegister;
    else if (v >= kTile) v += tile - kTile;
    else if (v >= kConstant) v += leaves - kConstant;
  };
  for (FormulaInstruction& in : program.instructions)
    for (int32_t* v : {&in.out, &in.a, &in.b, &in.c, &in.d}) number(*v);
  if (static_cast<Index>(program.instructions.size()) > kernels::kMostFormulaInstructions ||
      tile + 2 + program.registers > kernels::kMostFormulaValues)
    fail_value("formula: must have at most ", kernels::kMostFormulaInstructions,
               " operations on pairs of a query and a key; got ", program.instructions.size());
  put_in_place<float>(program);
  put_in_place<double>(program);
  return program;
}

// A node score + rest, if that is all that reads the score: rest can be there before the product is. The node, and
// rest. If rest is a mask, a score of NaN makes it NaN.
std::optional<std::pair<int, int>> added_to_score(FormulaGraph& graph, int score, const std::vector<int>& results) {
  std::vector<bool> needed(graph.nodes.size());
  for (const int r : results)
    if (r >= 0) needed[static_cast<std::size_t>(r)] = true;
  std::optional<int> reader;
  int count = std::count(results.begin(), results.end(), score) > 0;
  for (int n = static_cast<int>(graph.nodes.size()) - 1; n >= 0; --n) {
    if (!needed[static_cast<std::size_t>(n)]) continue;
    for (const int a : graph[n].args) {
      if (a < 0) continue;
      needed[static_cast<std::size_t>(a)] = true;
      if (a != score) continue;
      ++count;
      reader = n;
    }
  }
  if (count != 1 || !reader) return {};
  const FormulaNode node = graph[*reader];
  if (node.op == FormulaOp::add || node.op == FormulaOp::add_mask)
    return std::pair{*reader, node.args[node.args[0] == score]};
  if (node.op != FormulaOp::subtract || node.args[0] != score) return {};
  const int rest = graph.add({FormulaOp::negative, NumberType::floating, {node.args[1], -1, -1}, -1, 0});
  return std::pair{*reader, rest};
}

int node_of(const FormulaGraph& graph, FormulaOp op) {
  const auto found =
      std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const FormulaNode& n) { return n.op == op; });
  return found == graph.nodes.end() ? -1 : static_cast<int>(found - graph.nodes.begin());
}

// The program that leaves the new score in the tile and, if it is not -1, another node in the second.
CompiledProgram score_program(FormulaGraph& graph, int result, int second, bool split) {
  const int score = node_of(graph, FormulaOp::score);
  CompiledProgram program;
  int in_tile = score;
  if (split)
    if (const auto sum = added_to_score(graph, score, {result, second})) {
      Compiler(graph, program, -1, -1).compile({{sum->second, kTile}}, {});
      program.first = static_cast<Index>(program.instructions.size());
      in_tile = sum->first;
    }
  std::vector<Target> targets = {{result, kTile}};
  if (second >= 0) targets.push_back({second, kSecond});
  Compiler(graph, program, in_tile, -1).compile(targets, {});
  return finished(std::move(program), graph);
}

FormulaOp sum_of(LeafLevel level) {
  if (level == LeafLevel::key) return FormulaOp::add_keys;
  return level == LeafLevel::diagonal ? FormulaOp::add_diagonals : FormulaOp::add_lanes;
}

}  // namespace

FormulaProgram::FormulaProgram(FormulaGraph graph, std::optional<int> new_score, std::optional<int> new_mask)
    : score_node(new_score), mask_node(new_mask), excludes(new_score.has_value()), graph_(std::move(graph)) {
  const auto check = [&](std::optional<int> node, NumberType type, const char* name) {
    if (node && (*node < 0 || *node >= static_cast<int>(graph_.nodes.size()) || graph_[*node].type != type))
      fail_value("formula: ", name, " must be a node ", type == NumberType::boolean ? "of conditions" : "of numbers");
  };
  check(score_node, NumberType::floating, "score");
  check(mask_node, NumberType::boolean, "mask");
  if (score_node && graph_[*score_node].op != FormulaOp::score) {
    score = score_program(graph_, *score_node, -1, false);
    split_score = score_program(graph_, *score_node, -1, true);
  }
  if (mask_node) {
    // A mask decides as its blocks are classified, and as NumPy would: each operation is rounded.
    Compiler(graph_, mask, -1, -1, false).compile({{*mask_node, kTile}}, {});
    mask = finished(std::move(mask), graph_);
  }
}

std::shared_ptr<const FormulaProgram::Backward> FormulaProgram::backward(const std::vector<bool>& wanted) const {
  return backward_.of(wanted, [&] { return made_backward(wanted); });
}

FormulaProgram::Backward FormulaProgram::made_backward(const std::vector<bool>& wanted) const {
  Backward result;
  if (score.instructions.empty()) return result;
  FormulaGraph graph = graph_;
  const int seed = graph.add({FormulaOp::gradient, NumberType::floating, {-1, -1, -1}, -1, 0});
  const int one = graph.add({FormulaOp::constant, NumberType::floating, {-1, -1, -1}, -1, 1});
  const FormulaDerivative d = derivative(graph, *score_node, seed, wanted);
  const int score_at = node_of(graph, FormulaOp::score);
  // What arrives may be multiplied with anything where it is 0.
  const auto guarded = [&](int n) {
    if (n == seed) return n;
    return graph.add({FormulaOp::where_nonzero, NumberType::floating, {n, seed, -1}, -1, 0});
  };
  const auto added = [&](const FormulaDerivative::Part& p, int node) {
    const LeafLevel level = graph.leaves[static_cast<std::size_t>(p.leaf)].level;
    if (!is_table(level)) return Added{sum_of(level), p.leaf, -1, node};
    if (p.rows) return Added{FormulaOp::scatter_rows, p.leaf, graph[p.place].leaf, node};
    return Added{FormulaOp::scatter, p.leaf, p.place, node};
  };
  const auto depends = [&](int n) { return score_at >= 0 && graph.depends(n, score_at); };
  // If no gradient of a leaf asks for the score, its derivative by the old one is all that is kept of it.
  std::vector<Added> before, behind;
  for (const auto& p : d.parts) {
    if (p.node == d.score && p.node != seed) behind.push_back(added(p, seed));
    else before.push_back(added(p, guarded(p.node)));
    result.keeps_scores |= (p.node != d.score && depends(p.node)) || (p.place >= 0 && depends(p.place));
  }
  if (result.keeps_scores) {
    std::vector<Added> all;
    for (const auto& p : d.parts) all.push_back(added(p, guarded(p.node)));
    const int zero = graph.add({FormulaOp::constant, NumberType::floating, {-1, -1, -1}, -1, 0});
    const int dscore = d.score < 0 ? zero : guarded(d.score);
    Compiler(graph, result.gradient, score_at, seed).compile({{dscore, kSecond}}, all);
  } else {
    const FormulaDerivative by_score = derivative(graph, *score_node, one, std::vector<bool>(wanted.size()));
    if (by_score.score != one) {
      const int factor = by_score.score < 0
                             ? graph.add({FormulaOp::constant, NumberType::floating, {-1, -1, -1}, -1, 0})
                             : by_score.score;
      result.derived = score_program(graph, *score_node, factor, false);
      result.split_derived = score_program(graph, *score_node, factor, true);
    }
    Compiler(graph, result.gradient, -1, seed).compile({}, before);
    result.gradient.first = static_cast<Index>(result.gradient.instructions.size());
    Compiler(graph, result.gradient, -1, seed).compile({}, behind);
  }
  result.gradient = finished(std::move(result.gradient), graph);
  return result;
}

}  // namespace qkv::ops
