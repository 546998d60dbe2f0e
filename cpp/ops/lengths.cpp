#include "ops/lengths.h"

#include "core/error.h"
#include "ops/checked_integers.h"

namespace qkv::ops {

Array checked_lengths(const char* operation, const Array& lens, const Shape& one, const Shape& each, Index most,
                      LengthNames names) {
  if (lens.shape() != one && lens.shape() != each) {
    const std::string first = one.rank() == 0 ? "one number" : text("(B,) = ", one);
    const std::string second = one == each        ? ""
                               : each.rank() == 1 ? text(" or (", names.queries, ",) = ", each)
                                                  : text(" or (B, ", names.queries, ") = ", each);
    fail_value(operation, ": ", names.lengths, " must be ", first, second, "; got ", names.lengths, " ", lens.shape());
  }
  return checked_integers(lens, 0, most, [&](std::int64_t length, Index) {
    fail_value(operation, ": ", names.lengths, " must be from 0 to ", names.keys, " = ", most, "; got ", length);
  });
}

}  // namespace qkv::ops
