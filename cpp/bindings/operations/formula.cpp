// Formulas of attention, as what traces them hands them over.
#include <algorithm>
#include <span>

#include "bindings/bindings.h"
#include "bindings/call/interpreter.h"
#include "bindings/operations/formula_source.h"
#include "bindings/values/class.h"
#include "ops/attention/formula/formula.h"

namespace qkv::bindings {
namespace {

// Holds what qkv._formulas makes of the functions: an object of one call, which traces them once.
struct TracedFormula final : OfPython<ops::FormulaSource> {
  using OfPython::OfPython;

  Bound bind(const Pairs& p) const override {
    const InPython python;
    const py::tuple sizes = py::make_tuple(p.batches, p.heads, p.queries, p.keys);
    const py::tuple found =
        call_python(object().attr("bind"), py::make_tuple(sizes, numpy_or_none(p.offsets, false), name(p.dtype)));
    const Array lengths = found[1].is_none() ? Array() : copy_of(found[1], py::none(), "mask_mod");
    return {found[0].cast<std::pair<Index, Index>>(), lengths, formula_value_from(found[2])};
  }
};

// In the order of the enumerations.
constexpr const char *kTypes[] = {"float", "integer", "boolean"},
                     *kLevels[] = {"head", "query", "key", "diagonal", "table", "head_table"};

template <class E> E named(std::span<const char* const> names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    fail_value("formula_program: leaves must have levels and types that formulas know; got ", name);
  return static_cast<E>(found - names.begin());
}

// (operation, numbers of nodes, constant or leaf or size, [where]). `numbers`: what the nodes are in the graph, where
// equal ones are one.
int add_node(ops::FormulaGraph& graph, const std::vector<int>& numbers, const py::tuple& node) {
  const auto name = node[0].cast<std::string>();
  const py::object attribute = node[2];
  const bool leaf = name == "leaf" || name == "gather" || name == "rows";
  const auto type = py::isinstance<py::bool_>(attribute)  ? ops::NumberType::boolean
                    : py::isinstance<py::int_>(attribute) ? ops::NumberType::integer
                                                          : ops::NumberType::floating;
  auto args = node[1].cast<std::vector<int>>();
  const auto known = static_cast<int>(numbers.size());
  for (int& a : args) a = a >= 0 && a < known ? numbers[static_cast<std::size_t>(a)] : -1;
  return graph.add(name, args, leaf ? attribute.cast<int>() : -1,
                   leaf || attribute.is_none() ? 0.0 : attribute.cast<double>(), type,
                   node.size() > 3 ? node[3].cast<std::string>() : "");
}

}  // namespace

std::shared_ptr<const ops::FormulaSource> formula_source_from(const char* operation, py::handle score_mod,
                                                              py::handle mask_mod, FormulaNames names) {
  if (score_mod.is_none() && mask_mod.is_none()) return nullptr;
  return std::make_shared<const TracedFormula>(
      callback("traced_formula")(operation, score_mod, mask_mod, names.score, names.mask));
}

void add_formula(Keywords& keywords, const std::shared_ptr<const ops::FormulaSource>& formula, FormulaNames names) {
  const auto* known = dynamic_cast<const TracedFormula*>(formula.get());
  if (known == nullptr) return;
  for (const auto& [keyword, attribute] : {std::pair(names.score, "score_mod"), std::pair(names.mask, "mask_mod")})
    if (const py::object function = known->object().attr(attribute); !function.is_none())
      keywords.add(keyword, function);
}

std::shared_ptr<const ops::Formula> formula_value_from(py::handle object) {
  return object.is_none() ? nullptr : object.cast<std::shared_ptr<ops::Formula>>();
}

void bind_formula(Functions& m) {
  // Values of C++ that Python only passes on.
  Class<ops::FormulaProgram, std::shared_ptr<ops::FormulaProgram>>(m, "FormulaProgram");
  Class<ops::Formula, std::shared_ptr<ops::Formula>>(m, "Formula");
  m.def("formula_program(nodes, leaves, score=None, mask=None)",
        [](const py::list& nodes, const std::vector<std::pair<std::string, std::string>>& leaves,
           std::optional<int> score, std::optional<int> mask) {
          std::vector<ops::LeafKind> kinds;
          for (const auto& [level, type] : leaves)
            kinds.push_back({named<ops::LeafLevel>(kLevels, level), named<ops::NumberType>(kTypes, type)});
          ops::FormulaGraph graph(std::move(kinds));
          std::vector<int> numbers;
          for (const py::handle node : nodes)
            numbers.push_back(add_node(graph, numbers, py::reinterpret_borrow<py::tuple>(node)));
          for (std::optional<int>* result : {&score, &mask})
            if (*result) *result = numbers.at(static_cast<std::size_t>(**result));
          return std::make_shared<ops::FormulaProgram>(std::move(graph), score, mask);
        });
  m.def("formula(program, arrays, some=None, every=None)",
        [](const std::shared_ptr<ops::FormulaProgram>& program, const py::list& arrays, py::handle some,
           py::handle every) {
          Call call("formula");
          const auto result = std::make_shared<ops::Formula>(ops::Formula{program, {}, {}, {}});
          for (const py::handle array : arrays) result->leaves.push_back(call.any(array, "leaf"));
          result->some = call.booleans_or_none(some, "some");
          result->every = call.booleans_or_none(every, "every");
          return result;
        });
}

}  // namespace qkv::bindings
