// Sums, products and extremes of rows and of columns.
#pragma once

#include <stdint.h>

#include "core/index.h"

namespace qkv::kernels {

template <class T> struct Reduce {
  // The sum of n numbers, in an order that depends on n alone.
  T (*sum)(const T* x, Index n);
  // y (rows): the sum of each row of x (rows, n), as by `sum`.
  void (*sum_of_rows)(T* y, const T* x, Index rows, Index n);
  // y (n): the sum of each column of x (rows, n), whose rows lie `step` apart. The order of a column's sum depends on
  // the number of rows, and on n where rows lie next to each other and n is below 64.
  void (*sum_of_columns)(T* y, const T* x, Index step, Index rows, Index n);
  // The same for products.
  void (*product_of_rows)(T* y, const T* x, Index rows, Index n);
  void (*product_of_columns)(T* y, const T* x, Index step, Index rows, Index n);
  // The same for the largest and the smallest numbers, of rows and columns that are not empty; NaN where there is one.
  void (*max_of_rows)(T* y, const T* x, Index rows, Index n);
  void (*max_of_columns)(T* y, const T* x, Index step, Index rows, Index n);
  void (*min_of_rows)(T* y, const T* x, Index rows, Index n);
  void (*min_of_columns)(T* y, const T* x, Index step, Index rows, Index n);
  // at (rows): where each row's first largest or smallest number is, or its first NaN. Rows are not empty.
  void (*argmax)(int64_t* at, const T* x, Index rows, Index n);
  void (*argmin)(int64_t* at, const T* x, Index rows, Index n);
};

}  // namespace qkv::kernels
