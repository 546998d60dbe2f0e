#pragma once

// How a file hands in the kernels of a family, for the instruction set that it is compiled for.

namespace qkv::kernels::QKV_ISA {

template <class Family> Family kernels_of();

}  // namespace qkv::kernels::QKV_ISA

// The kernels in the order of the family's fields; T is the type of their numbers.
#define QKV_FAMILY(Family, ...)             \
  template <> Family<float> kernels_of() {  \
    using T = float;                        \
    return {__VA_ARGS__};                   \
  }                                         \
  template <> Family<double> kernels_of() { \
    using T = double;                       \
    return {__VA_ARGS__};                   \
  }
