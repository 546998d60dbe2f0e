// The vocabulary of sizes: no other header of qkv is needed to speak of a shape.
#pragma once

#include <cstdint>
#include <string>

#include "core/index_list.h"

namespace qkv {

enum class DType : std::uint8_t { float32, float64, int64, boolean };

Index item_size(DType dtype);
const char* name(DType dtype);
inline bool is_floating(DType dtype) { return dtype == DType::float32 || dtype == DType::float64; }

template <class T> struct dtype_of;
template <> struct dtype_of<float> {
  static constexpr DType value = DType::float32;
};
template <> struct dtype_of<double> {
  static constexpr DType value = DType::float64;
};
template <> struct dtype_of<std::int64_t> {
  static constexpr DType value = DType::int64;
};
template <> struct dtype_of<bool> {
  static constexpr DType value = DType::boolean;
};
template <class T> inline constexpr DType dtype_v = dtype_of<T>::value;

// The sizes of an array's axes, outermost first.
class Shape : public IndexList {
 public:
  using IndexList::IndexList;

  Index rank() const { return static_cast<Index>(size()); }
  Index numel() const;  // product of all
  // Size of an axis; negative axes count from the end.
  Index dim(Index axis) const { return (*this)[static_cast<std::size_t>(axis < 0 ? axis + rank() : axis)]; }
  // Product of the sizes of the axes [begin, end). A negative size, or more than an Index
  // holds where sizes of 0 do not count (as in NumPy: other products of these sizes are then safe), is a ValueError.
  Index product(Index begin, Index end) const;
  std::string str() const;  // "(2, 3)", "(2,)", "()"
};

// Shape of two arrays combined by NumPy's rules; false if they do not fit.
bool broadcast(const Shape& a, const Shape& b, Shape& result);

}  // namespace qkv
