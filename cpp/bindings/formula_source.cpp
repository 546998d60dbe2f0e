#include "bindings/formula_source.h"

#include "bindings/call_python.h"

namespace qkv::bindings {
namespace {

// Holds what qkv._formulas makes of the functions: an object of one call, which traces them once.
class TracedFormula final : public ops::FormulaSource {
 public:
  explicit TracedFormula(py::handle traced) : traced_(keep_alive(traced)) {}

  Bound bind(const Pairs& p) const override {
    const InPython python;
    const py::tuple sizes = py::make_tuple(p.batches, p.heads, p.queries, p.keys);
    const py::tuple found = call_python(traced().attr("bind"), py::make_tuple(sizes, numpy_or_none(p.offsets, false)));
    const Array lengths = found[1].is_none() ? Array() : copy_of(found[1], py::none(), "mask_mod");
    return {found[0].cast<std::pair<Index, Index>>(), lengths, formula_value_from(found[2])};
  }
  py::handle traced() const { return static_cast<PyObject*>(traced_.get()); }

 private:
  const std::shared_ptr<void> traced_;
};

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
    if (const py::object function = known->traced().attr(attribute); !function.is_none())
      keywords.add(keyword, function);
}

}  // namespace qkv::bindings
