// Whether an item's result may depend on what it is computed together with.
//
// Off, kernels are chosen by the size of the whole work: a product of many rows is summed in another order than one of
// few. On, they are chosen by nothing but the sizes of one item, so that the result of an item is the same bits alone
// and in any batch, with gradients recorded or not. It costs speed where the usual choice would be another one.
#pragma once

namespace qkv {

// At first what QKV_BATCH_INVARIANT says: 1 is on; 0, empty or unset is off.
bool batch_invariant();
void set_batch_invariant(bool on);

}  // namespace qkv
