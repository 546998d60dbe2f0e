// Gathers the kernels of one instruction set.
#include "kernels/kernels.h"
#include "kernels/simd/family.h"

namespace qkv::kernels::QKV_ISA {

template <class Family> static void take(Family& family) { family = kernels_of<Family>(); }

template <class T> void fill(Kernels<T>& table) {
  take(table.elementwise);
  take(table.additive);
  take(table.activation);
  take(table.attention);
  take(table.distances);
  take(table.dropout);
  take(table.gemv);
  take(table.kernel_pooling);
  take(table.layout);
  take(table.moments);
  take(table.norm);
  take(table.optimizer);
  take(table.packed_bfloat16);
  take(table.widened_bfloat16);
  take(table.packed_product);
  take(table.small_product);
  take(table.recurrent);
  take(table.reduce);
  take(table.rotary);
  take(table.scan);
  take(table.softmax);
  take(table.weighted_values);
}

template void fill<float>(Kernels<float>&);
template void fill<double>(Kernels<double>&);

}  // namespace qkv::kernels::QKV_ISA
