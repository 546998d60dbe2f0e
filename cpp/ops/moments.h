// How far numbers lie from their mean, or from 0, over axes.
#pragma once

#include "ops/reductions.h"

namespace qkv::ops {

// The sum of squared distances from the mean over the count less ddof (below 0: over 0), its root, and the root of the
// sum of squares.
enum class Distance { variance, stddev, length };

// Right wherever the result is in the range of x's dtype, though squares may leave it.
Array distances(const Array& x, const ReducedAxes& p, Distance which, double ddof = 0);

}  // namespace qkv::ops
