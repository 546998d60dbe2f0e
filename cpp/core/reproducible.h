// Whether results are the same bits on every CPU with fused multiply-add, and for an item in any batch.
//
// Off, results differ between CPUs where OpenBLAS multiplies, and kernels are chosen by the size of the whole work. On,
// no product is OpenBLAS's, and kernels are chosen by nothing but the sizes of one item, so that its result is the same
// bits alone and in any batch, with gradients recorded or not.
#pragma once

namespace qkv {

// At first what QKV_REPRODUCIBLE says: 1 is on; 0, empty or unset is off.
bool reproducible();
// A RuntimeError on a CPU without fused multiply-add, or held to such a level.
void set_reproducible(bool on);

}  // namespace qkv
