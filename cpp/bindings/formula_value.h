// Formulas as values, between Python and C++.
#pragma once

#include <memory>

#include "bindings/convert.h"
#include "ops/attention/formula.h"

namespace qkv::bindings {

// What `_core.formula` made; null for None.
std::shared_ptr<const ops::Formula> formula_value_from(py::handle object);

}  // namespace qkv::bindings
