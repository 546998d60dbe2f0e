// The three kinds of errors that reach a caller, and how their texts are put together.
//
// Form of a text: "operation: argument must be SHAPE because ...; got argument SHAPE".
#pragma once

#include <charconv>
#include <memory>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>

#include "core/types.h"

namespace qkv {

// The caller's mistake in a shape or value (ValueError), or in a type (TypeError); Python's names are used
// because these are what the caller sees.
struct ValueError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};
struct TypeError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};
struct IndexError : std::out_of_range {
  using std::out_of_range::out_of_range;
};
// More memory than there is (MemoryError).
class MemoryError : public std::bad_alloc {
 public:
  explicit MemoryError(std::string what) : what_(std::make_shared<const std::string>(std::move(what))) {}
  const char* what() const noexcept override { return what_->c_str(); }

 private:
  std::shared_ptr<const std::string> what_;  // exceptions must be copied without throwing
};
// Asked of an interface whose subclass does not do it (NotImplementedError).
struct NotImplemented : std::logic_error {
  using std::logic_error::logic_error;
};

namespace detail {
inline void put(std::ostream& out, const Shape& shape) { out << shape.str(); }
inline void put(std::ostream& out, DType dtype) { out << name(dtype); }
// As many digits as tell the number from its neighbours, so that 1.0000001 does not read as 1.
inline void put(std::ostream& out, double value) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.write(digits, end - digits);
}
inline void put(std::ostream& out, float value) { put(out, static_cast<double>(value)); }
template <class T> void put(std::ostream& out, const T& value) { out << value; }
}  // namespace detail

// Joins its arguments to one text; shapes and dtypes print as in Python.
template <class... Parts> std::string text(const Parts&... parts) {
  std::ostringstream out;
  (detail::put(out, parts), ...);
  return out.str();
}

template <class... Parts> [[noreturn]] void fail_value(const Parts&... parts) { throw ValueError(text(parts...)); }
template <class... Parts> [[noreturn]] void fail_type(const Parts&... parts) { throw TypeError(text(parts...)); }
template <class... Parts> [[noreturn]] void fail_runtime(const Parts&... parts) {
  throw std::runtime_error(text(parts...));
}

}  // namespace qkv
