// Warnings of Python's.
#pragma once

#include <string>

namespace qkv::bindings {
// A UserWarning at the line of the user's program that called qkv, however many of qkv's own functions are between.
void warn_caller(const std::string& message);
}  // namespace qkv::bindings
