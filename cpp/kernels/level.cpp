// Gathers the kernels of one instruction set.
#include "kernels/kernels.h"

namespace qkv::kernels::QKV_ISA {

template <class T> Elementwise<T> elementwise_kernels();

template <class T> void fill(Kernels<T>& table) {
  table.elementwise = elementwise_kernels<T>();
}

template void fill<float>(Kernels<float>&);
template void fill<double>(Kernels<double>&);

}  // namespace qkv::kernels::QKV_ISA
