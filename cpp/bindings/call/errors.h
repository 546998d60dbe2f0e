// Exceptions of C++ as Python's errors.
#pragma once

#include <exception>

namespace qkv::bindings {

// Python's error becomes what the exception that is being handled says.
void set_error();
// `translate` sets the error of an exception of the core, and throws any other again.
void translate_errors(void (*translate)(std::exception_ptr));

}  // namespace qkv::bindings
