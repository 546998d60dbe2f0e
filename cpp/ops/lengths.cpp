#include "ops/lengths.h"

#include "core/error.h"

namespace qkv::ops {

void check_lengths(const char* operation, const Array& lens, const Shape& one, const Shape& each, Index most,
                   LengthNames names) {
  if (lens.shape() != one && lens.shape() != each) {
    const std::string first = one.rank() == 0 ? "one number" : text("(B,) = ", one);
    const std::string second = one == each        ? ""
                               : each.rank() == 1 ? text(" or (", names.queries, ",) = ", each)
                                                  : text(" or (B, ", names.queries, ") = ", each);
    fail_value(operation, ": ", names.lengths, " must be ", first, second, "; got ", names.lengths, " ", lens.shape());
  }
  const std::int64_t* values = lens.data<std::int64_t>();
  for (Index i = 0; i < lens.numel(); ++i)
    if (values[i] < 0 || values[i] > most)
      fail_value(operation, ": ", names.lengths, " must be from 0 to ", names.keys, " = ", most, "; got ", values[i]);
}

}  // namespace qkv::ops
