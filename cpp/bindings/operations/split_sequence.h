// Attention of layers to sequences that MPI ranks hold in parts: what is said to the core of a communicator.
#pragma once

#include "bindings/values/convert.h"
#include "nn/multi_head_attention.h"

namespace qkv::bindings {

// Nothing for None; a TypeError if `comm` is no communicator. Messages name `layer`.
std::shared_ptr<const nn::SplitSequence> split_sequence_from(py::handle comm, const char* layer);
// What stands for a communicator in the state of a module: copies of the module have the same one.
py::object shared_communicator(const py::object& comm);
// The communicator that it was made of, or None.
py::object communicator_of(const std::shared_ptr<const nn::SplitSequence>& split);

}  // namespace qkv::bindings
