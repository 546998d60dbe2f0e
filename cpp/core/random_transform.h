// What becomes of the words of the random engine: pure loops without state, the same bits on every machine.
#pragma once

#include <cstdint>

#include "core/index.h"

namespace qkv::random_transform {

// state: (624). Advances the Mersenne Twister by one block of 624 words.
void twist(std::uint32_t* state);
// out, state: (624). The words that the engine shows for a state.
void temper(std::uint32_t* out, const std::uint32_t* state);

// out: (n). u * (high - low) + low with one rounding for u in [0, 1); a value that rounds to high becomes low.
// words: (n) for float (24 bits each), (2 n) for double (53 bits of a pair, the high word first).
void uniform(float* out, const std::uint32_t* words, Index n, float low, float high);
void uniform(double* out, const std::uint32_t* words, Index n, double low, double high);

// out: (n), 1 where the 53-bit uniform of a pair of words is below p, else 0. words: (2 n).
void bernoulli(float* out, const std::uint32_t* words, Index n, double p);
void bernoulli(double* out, const std::uint32_t* words, Index n, double p);
void bernoulli(bool* out, const std::uint32_t* words, Index n, double p);

// values: (blocks, 16), uniforms in [0, 1) on entry, normals on return. In each block the elements j and j + 8
// are one pair of the Box-Muller transform. float uses polynomials only, double the mathematics library.
void normal_blocks(float* values, Index blocks, float mean, float std);
void normal_blocks(double* values, Index blocks, double mean, double std);

}  // namespace qkv::random_transform
