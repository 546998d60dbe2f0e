// The lengths that a call may give for its sequences.
#pragma once

#include "core/array.h"

namespace qkv::ops {

// Names in messages: of the argument, and of the axes of the queries and of what the lengths count.
struct LengthNames {
  const char* lengths = "valid_lens";
  const char* queries = "Lq";
  const char* keys = "Lk";
};

// A copy of lengths (int64) of the shape `one`, a number for each sequence, or `each`, one for each query; from 0 to
// `most`.
Array checked_lengths(const char* operation, const Array& lens, const Shape& one, const Shape& each, Index most,
                      LengthNames names = {});

}  // namespace qkv::ops
