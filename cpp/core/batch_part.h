// Which items of a larger batch the arrays of this thread hold: the others are computed elsewhere.
//
// Random masks are drawn for the whole batch, and each process takes its items' part, so that several processes draw
// what one would. The axis of the items comes first, alone or joined with others: (B, L, M), (B * L, M).
#pragma once

#include "core/index.h"

namespace qkv {

struct BatchPart {
  Index first = 0, count = 0, total = 0;  // items [first, first + count) of total
};

// The whole batch at first, for which count is 0. Of this thread.
BatchPart batch_part();
void set_batch_part(BatchPart part);

// How many elements of an array of so many are before and after this process's in that of the whole batch; 0 and 0
// for arrays that items do not divide evenly.
struct Outside {
  Index before = 0, behind = 0;
};
Outside outside_of_part(Index elements);

}  // namespace qkv
