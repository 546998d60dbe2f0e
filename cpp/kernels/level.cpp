// Gathers the kernels of one instruction set.
#include "kernels/kernels.h"

namespace qkv::kernels::QKV_ISA {

template <class T> Elementwise<T> elementwise_kernels();
template <class T> Activations<T> activation_kernels();
template <class T> Attention<T> attention_kernels();
template <class T> Dropout<T> dropout_kernels();
template <class T> Gemv<T> gemv_kernels();
template <class T> Layout<T> layout_kernels();
template <class T> Norm<T> norm_kernels();
template <class T> Optimizers<T> optimizer_kernels();
PackedBfloat16 packed_bfloat16_kernels();
template <class T> PackedProduct<T> packed_product_kernels();
template <class T> Recurrent<T> recurrent_kernels();
template <class T> Reduce<T> reduce_kernels();
template <class T> Rotary<T> rotary_kernels();
template <class T> Softmax<T> softmax_kernels();
template <class T> Additive<T> additive_kernels();
template <class T> KernelPooling<T> kernel_pooling_kernels();
template <class T> WeightedValues<T> weighted_values_kernels();

template <class T> void fill(Kernels<T>& table) {
  table.elementwise = elementwise_kernels<T>();
  table.activation = activation_kernels<T>();
  table.attention = attention_kernels<T>();
  table.dropout = dropout_kernels<T>();
  table.gemv = gemv_kernels<T>();
  table.layout = layout_kernels<T>();
  table.norm = norm_kernels<T>();
  table.optimizer = optimizer_kernels<T>();
  table.packed_bfloat16 = packed_bfloat16_kernels();
  table.packed_product = packed_product_kernels<T>();
  table.recurrent = recurrent_kernels<T>();
  table.reduce = reduce_kernels<T>();
  table.rotary = rotary_kernels<T>();
  table.softmax = softmax_kernels<T>();
  table.additive = additive_kernels<T>();
  table.kernel_pooling = kernel_pooling_kernels<T>();
  table.weighted_values = weighted_values_kernels<T>();
}

template void fill<float>(Kernels<float>&);
template void fill<double>(Kernels<double>&);

}  // namespace qkv::kernels::QKV_ISA
