// Rules that save less than all of their operation's inputs.
#pragma once

#include "autograd/tensor.h"

namespace qkv {

// x for the gradient of another input: nothing is saved for one that has no gradient.
inline Saved saved_for(const Tensor& other, const Tensor& x) { return other.requires_grad() ? Saved(x) : Saved(); }

// A fused operation whose parts, pull_back(dys, dx) and derive(dys, dx) of its one dy, read its output, which they
// save, and no input.
template <class PullBack, class Derive>
Tensor record_by_output(Array output, const Tensors& inputs, PullBack pull_back, Derive derive) {
  return record_step(std::move(output), inputs,
                     std::make_unique<FusedStep<PullBack, Derive>>(Tensors{}, std::move(pull_back), std::move(derive)));
}

}  // namespace qkv
