// The index page of the kernels: loops on raw pointers, one family a file.
//
// A family is a struct of function pointers, declared and documented in its header and filled by its .cpp, which is
// compiled once per instruction set. kernels<T>() gives those of the chosen level:
//
//     kernels<float>().softmax.forward(y, x, rows, n);
//
// A kernel knows nothing but its arguments: it neither allocates nor checks nor throws nor starts threads. Arguments
// stand in the order outputs, saved values, inputs, parameters, sizes. Backward kernels add into their outputs.
// Matrix products have a page of their own: kernels/gemm.h.
#pragma once

#include "kernels/elementwise.h"

namespace qkv::kernels {

template <class T> struct Kernels {
  Elementwise<T> elementwise;  // arithmetic and functions of one or two numbers
};

template <class T> const Kernels<T>& kernels();

}  // namespace qkv::kernels
