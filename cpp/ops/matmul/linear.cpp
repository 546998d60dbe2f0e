#include "ops/matmul/linear.h"

#include "ops/matmul/packed_pieces.h"
#include "ops/ops.h"

namespace qkv::ops {

Array packed_weight(const WeightCache& cache, const Array& given, bool bfloat16) {
  const Index out = given.dim(0), in = given.dim(1);
  const auto pack = [&](const Array& weight) {
    return visit_floating(weight.dtype(), [&]<class T>(T) {
      const Index panel = kernels::kernels<T>().packed_product.panel, panels = (out + panel - 1) / panel;
      if constexpr (std::is_same_v<T, float>)
        if (bfloat16) {
          Array words({panels, (in + 1) / 2, panel}, weight.dtype());
          kernels::kernels<T>().packed_bfloat16.pack(static_cast<std::uint32_t*>(words.raw()),
                                                     {weight.data<T>(), in, false}, out, in);
          return words;
        }
      Array packed({panels, in, panel}, weight.dtype());
      pack_panels<T>(packed.data<T>(), {weight.data<T>(), in, false}, out, in);
      return packed;
    });
  };
  return cache.get(given, pack, bfloat16 ? 1 : 0);
}

Tensors packed_linears(const Tensor& x, std::span<const LinearLayer> layers) {
  Tensors results;
  visit_floating(x.dtype(), [&]<class T>(T) {
    std::vector<PackedTask<T>> tasks;
    std::vector<Array> packed;  // kept for as long as they are read
    Tensors biases;             // those that are converted
    for (const LinearLayer& layer : layers) {
      const Index in = layer.weight.dim(1), out = layer.weight.dim(0), rows = x.shape().product(0, x.rank() - 1);
      Shape shape = x.shape();
      shape.back() = out;
      Array y(shape, x.dtype());
      if (y.numel() > 0) {
        const bool bfloat16 = layer.bfloat16 && std::is_same_v<T, float>;
        packed.push_back(packed_weight(*layer.packed, layer.weight.data(), bfloat16));
        const T* bias = nullptr;
        if (const Tensor& b = layer.bias; b.defined())
          bias = b.dtype() == x.dtype() && b.data().is_packed() ? b.ptr<T>()
                                                                : biases.emplace_back(packed_as(b, x.dtype())).ptr<T>();
        const kernels::Epilogue<T> epilogue{bias, layer.activation.has_value(),
                                            layer.activation.value_or(kernels::Activation::relu)};
        tasks.push_back(
            {y.data<T>(), out, {x.ptr<T>(), in, false}, packed.back().template data<T>(), epilogue, rows, out, in});
        if (bfloat16) tasks.back().bfloat16 = static_cast<const std::uint32_t*>(packed.back().raw());
      }
      results.emplace_back(std::move(y));
    }
    multiply_packed<T>(tasks);
  });
  return results;
}

}  // namespace qkv::ops
