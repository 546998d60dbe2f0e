// Arrays whose numbers are not one after the other: read in order, written, added to.
#pragma once

#include "core/array.h"

namespace qkv {

// The Array itself if it is packed, else its numbers in memory of their own.
Array gathered(const Array& x);
inline Array packed(const Array& x) { return x.is_packed() ? x : gathered(x); }
// A copy in memory of its own, packed.
inline Array cloned(const Array& x) { return x.is_packed() ? x.clone() : gathered(x); }
// x, with one number along the axes on which a stride of 0 repeats it.
Array without_repeats(const Array& x);
// The memory of y, which is packed and new, with all axes but the last in the order that those of `like` have.
Array laid_out(const Array& y, const Array& like);
// y = x, number by number; both have one shape and dtype, and their memory may overlap. The version of y's memory
// rises.
void write(const Array& y, const Array& x);
// y += x, number by number; where y has one place several times, all are added.
void add_to(const Array& y, const Array& x);
// Whether two of its indices may mean one place of memory.
bool overlaps_itself(const Array& x);
// Whether its memory holds its numbers, each once, and nothing else.
bool fills_memory(const Array& x);

}  // namespace qkv
