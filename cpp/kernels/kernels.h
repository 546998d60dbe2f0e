// The index page of the kernels: loops on raw pointers, one family a file.
//
// A family is a struct of function pointers, declared and documented in its header and filled by its .cpp, which is
// compiled once per instruction set. kernels<T>() gives those of the chosen level:
//
//     kernels<float>().softmax.forward(y, x, rows, n);
//
// A kernel knows nothing but its arguments: it neither allocates nor checks nor throws nor starts threads. Arguments
// are in the order outputs, saved values, inputs, parameters, sizes. Backward kernels add into their outputs.
// Matrix products have a page of their own: kernels/matmul/blas.h.
#pragma once

#include "kernels/activation.h"
#include "kernels/additive.h"
#include "kernels/attention/problem.h"
#include "kernels/distances.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/kernel_pooling.h"
#include "kernels/layout.h"
#include "kernels/matmul/gemv.h"
#include "kernels/matmul/packed_bfloat16.h"
#include "kernels/matmul/packed_product.h"
#include "kernels/matmul/small_product.h"
#include "kernels/moments.h"
#include "kernels/norm.h"
#include "kernels/optimizer.h"
#include "kernels/recurrent.h"
#include "kernels/reduce.h"
#include "kernels/rotary.h"
#include "kernels/scan.h"
#include "kernels/softmax.h"
#include "kernels/weighted_values.h"

namespace qkv::kernels {

template <class T> struct Kernels {
  Elementwise<T> elementwise;         // arithmetic and functions of one or two numbers
  Additive<T> additive;               // scores of additive attention
  Activations<T> activation;          // relu, gelu, tanh, sigmoid
  Attention<T> attention;             // scaled dot-product attention, fused
  Distances<T> distances;             // distances of an order
  Dropout<T> dropout;                 // with a given mask
  Gemv<T> gemv;                       // products of a matrix and a vector
  KernelPooling<T> kernel_pooling;    // Nadaraya-Watson
  Layout<T> layout;                   // transposes
  Moments<T> moments;                 // means and squared distances from them
  Norm<T> norm;                       // layer and root-mean-square normalisation
  Optimizers<T> optimizer;            // steps of SGD and Adam
  PackedBfloat16 packed_bfloat16;     // the same with bfloat16 weights
  PackedBfloat16 widened_bfloat16;    // the same without the CPU's own products of such numbers
  PackedProduct<T> packed_product;    // matrix products, with a packed operand
  SmallProduct<T> small_product;      // the same without packing
  Recurrent<T> recurrent;             // steps of gated recurrent units
  Reduce<T> reduce;                   // sums, products, extremes of rows and columns
  Rotary<T> rotary;                   // rotation of pairs of features
  Scan<T> scan;                       // running sums, products and linear recurrences
  Softmax<T> softmax;                 // softmax, log-softmax and the loss on them
  WeightedValues<T> weighted_values;  // dropout of attention weights
};

template <class T> const Kernels<T>& kernels();

}  // namespace qkv::kernels
