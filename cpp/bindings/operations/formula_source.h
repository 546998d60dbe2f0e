// score_mod and mask_mod, functions of Python's, as the core knows them.
#pragma once

#include "bindings/operations/keywords.h"

namespace qkv::bindings {

// What a caller calls the two.
struct FormulaNames {
  const char *score = "score_mod", *mask = "mask_mod";
};
constexpr FormulaNames kMemoryFormulas{"memory_score_mod", "memory_mask_mod"};

// Nothing for two Nones. Messages name `operation` and its arguments.
std::shared_ptr<const ops::FormulaSource> formula_source_from(const char* operation, py::handle score_mod,
                                                              py::handle mask_mod, FormulaNames names = {});
// What `_core.formula` made; null for None.
std::shared_ptr<const ops::Formula> formula_value_from(py::handle object);
// Adds the functions that a formula was made of to the keywords of a call.
void add_formula(Keywords& keywords, const std::shared_ptr<const ops::FormulaSource>& formula, FormulaNames names = {});

}  // namespace qkv::bindings
