// Functions of one number by the kernels: the mathematics library of each system rounds in its own way.
#pragma once

#include "kernels/kernels.h"

namespace qkv::ops {

inline double log_of(double x) {
  double y;
  kernels::kernels<double>().elementwise.unary(kernels::Unary::logarithm, &y, &x, 1);
  return y;
}
inline double power_of(double base, double exponent) {
  double y;
  kernels::kernels<double>().elementwise.binary(kernels::Binary::power, &y, &base, 0, &exponent, 0, 1);
  return y;
}

}  // namespace qkv::ops
