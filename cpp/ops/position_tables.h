// Tables of positions, in float64: whoever uses one rounds it once to the dtype it computes in.
#pragma once

#include <utility>

#include "core/array.h"

namespace qkv::ops {

// (max_len, dim): sin(i w_j) in column 2j, cos(i w_j) in column 2j + 1, w_j = base^(-2j / dim).
Array sinusoidal_positions(Index max_len, Index dim, double base);
// R (dim, dim), dim even, with P[i + offset] = R P[i] for every row i of that table.
Array relative_rotation(Index offset, Index dim, double base);
// cos and sin (..., dim / 2), dim even, of positions[...] * w_j; positions are float64.
std::pair<Array, Array> rotary_tables(const Array& positions, Index dim, double base);
// (num_heads): 2^(-8 h / H) for h = 1 .. H if the number H of heads is a power of two; else those of the power of two
// below, then every second one of twice that power.
Array alibi_slopes(Index num_heads);

}  // namespace qkv::ops
