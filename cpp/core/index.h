// The type of sizes and positions. Apart from the other types so that kernels need no standard-library header.
#pragma once

#include <cstddef>

namespace qkv {

using Index = std::ptrdiff_t;

}  // namespace qkv
