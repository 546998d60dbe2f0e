// Numbers of Python's are doubles; the work may be done in float32.
#pragma once

#include <cmath>

#include "core/error.h"

namespace qkv {

// value in T, or an error in the operation's name if it is finite and T, which is then float, makes it infinite.
template <class T> T in_range(std::string_view operation, const char* argument, double value) {
  const T result = static_cast<T>(value);
  if (std::isfinite(value) && !std::isfinite(result))
    fail_value(operation, ": ", argument, " must be from -3.4e38 to 3.4e38 because the work is done in float32; got ",
               value);
  return result;
}

// The same for numbers that are divided by, or that 0 gives another meaning: only 0 itself may become 0.
template <class T> T in_range_above_zero(std::string_view operation, const char* argument, double value) {
  const T result = in_range<T>(operation, argument, value);
  if (result == 0 && value != 0)
    fail_value(operation, ": ", argument, " must be 0 or at least 1.4e-45 because the work is done in float32; got ",
               value);
  return result;
}

}  // namespace qkv
