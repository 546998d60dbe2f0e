// Arguments that several attention functions and layers share.
#pragma once

#include "bindings/values/convert.h"
#include "nn/attention.h"
#include "ops/attention/attention.h"
#include "ops/attention/weight_rows.h"

namespace qkv::bindings {

// False, True, "upper_left" or "lower_right".
ops::Causal causal_from(py::handle value, const char* operation);
// None or (left, right).
std::optional<std::pair<Index, Index>> window_from(py::handle value, const char* operation);
// A finite or infinite number, or nothing for None.
// Refuses a Tensor that records in the place of a number, which takes no gradient.
void check_constant(py::handle value, const char* operation, const char* name, const char* advice = "");
std::optional<double> number_from(py::handle value, const char* operation, const char* name);
double required_number_from(py::handle value, const char* operation, const char* name);
// Warns (UserWarning) of a float mask in which only 0 and 1 occur, both of them, as most likely a boolean one was
// meant, and of lengths that are a mask. A mask that takes a gradient is a learned bias and is left alone. Either may
// be undefined.
void warn_of_swapped(const char* operation, const ops::MaskSpec& mask_spec, Index keys);
// Warns of lengths (B, Lq) that hold 0 and 1 alone: both, or ones where there are as many queries as keys. Not where
// there is one key: they can be nothing else.
void warn_of_mask_as_lengths(const char* operation, const char* name, const Array& lengths, Index keys);
// How many keys (..., Lk, D) holds; undefined, or of any other shape, which an error will name, none.
Index count_of(const Tensor& keys);
// (height, width, rows, columns, largest) of an image of weights.
ops::ImageOptions image_from(py::handle image);
// What decoders call those of the memory.
constexpr ops::MaskNames kMemoryNames{"memory_valid_lens", "memory_attn_mask"};

}  // namespace qkv::bindings
