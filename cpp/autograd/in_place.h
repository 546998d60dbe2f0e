// Changes of a Tensor in place.
//
// Without recording the numbers are overwritten, and the version of their memory rises. Recorded, the Tensor becomes
// the result of the change, a new place in the graph, and so does the base that it is a view of: nodes made before keep
// the history that the Tensor had. Memory that nobody else can look at is not overwritten but left to those nodes.
#pragma once

#include "autograd/tensor.h"

namespace qkv {

// x as operand of what t is to become: x itself, or its numbers elsewhere with its history if the change will overwrite
// them. (t is an operand, too.)
Tensor before_change(const Tensor& t, const Tensor& x);

// What was computed, in t's shape and dtype, becomes t. Call where no computation runs in other threads if the
// change is recorded (result.requires_grad()).
void change(const char* operation, const Tensor& t, const Tensor& result);

// A base that only this view still holds cannot be read by anything else: the view becomes a base itself. Call where no
// other thread uses it.
void forget_hidden_base(const Tensor& t);

// Refuses what may not be changed: with gradients on, a leaf that requires one and views of it.
void check_changeable(const char* operation, const Tensor& t);
// Refuses memory that overlaps itself, where the result would depend on the order of writing.
void check_not_overlapping(const char* operation, const Tensor& t);

}  // namespace qkv
