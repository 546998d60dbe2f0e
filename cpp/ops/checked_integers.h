// Integers that say where memory is read or written.
#pragma once

#include <algorithm>

#include "autograd/strided.h"

namespace qkv::ops {

// Whether int64 numbers in memory of our own are from `low` to `high`; fail(number, place) throws for the first that is
// not.
template <class Fail> void check_integers(const Array& own, Index low, Index high, Fail fail) {
  const std::int64_t *first = own.data<std::int64_t>(), *last = first + own.numel();
  const auto outside = [=](std::int64_t number) { return number < low || number > high; };
  bool any = false;  // of all together: a loop that may end anywhere is not vectorised
  for (const std::int64_t* number = first; number != last; ++number) any |= outside(*number);
  if (!any) return;
  const std::int64_t* bad = std::find_if(first, last, outside);
  fail(*bad, static_cast<Index>(bad - first));
}

// A copy of them that has been checked. Only the copy may be used: another thread can write to a caller's memory
// between a check and a use.
template <class Fail> Array checked_integers(const Array& given, Index low, Index high, Fail fail) {
  Array copy = cloned(given);
  check_integers(copy, low, high, fail);
  return copy;
}

}  // namespace qkv::ops
