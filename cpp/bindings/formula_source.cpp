#include "bindings/formula_source.h"

#include "bindings/call_python.h"

namespace qkv::bindings {
namespace {

// Holds what qkv._formulas makes of the functions: an object of one call, which traces them once.
class TracedFormula final : public ops::FormulaSource {
 public:
  explicit TracedFormula(py::handle traced)
      : traced_(keep_alive(traced)), changes_scores_(!traced.attr("score_mod").is_none()) {}

  Mask mask(const Pairs& pairs) const override {
    const InPython python;
    const py::tuple found = call_python(traced().attr("mask"), arguments(pairs));
    const auto array = [&](int i) { return found[i].is_none() ? Array() : copy_of(found[i], py::none(), "mask_mod"); };
    const Array allowed = array(2);
    return {found[0].cast<std::pair<Index, Index>>(), array(1), allowed.defined() ? Tensor(allowed) : Tensor()};
  }
  bool changes_scores() const override { return changes_scores_; }
  Tensor score(const Tensor& scores, const Tensor& allowed, const Pairs& pairs) const override {
    const InPython python;
    return call_python(traced().attr("score"), py::make_tuple(scores, allowed) + arguments(pairs)).cast<Tensor>();
  }
  py::handle traced() const { return static_cast<PyObject*>(traced_.get()); }

 private:
  static py::tuple arguments(const Pairs& p) {
    return py::make_tuple(py::make_tuple(p.batches, p.heads, p.queries, p.keys),
                          p.offsets.defined() ? py::object(to_numpy(p.offsets, false)) : py::none());
  }

  const std::shared_ptr<void> traced_;
  const bool changes_scores_;
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
