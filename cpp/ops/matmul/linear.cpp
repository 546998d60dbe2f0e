#include "ops/matmul/linear.h"

#include "ops/matmul/packed_pieces.h"
#include "ops/matmul/packed_weight.h"
#include "ops/ops.h"

namespace qkv::ops {

Tensors packed_linears(const Tensor& given, std::span<const LinearLayer> layers) {
  Tensors results;
  const Array& x = given.data();
  const auto held = x.buffer();  // x may be a weight, which keeps its memory then
  visit_floating(x.dtype(), [&]<class T>(T) {
    std::vector<PackedTask<T>> tasks;
    std::vector<PackedMatrixPtr> packed;  // kept for as long as they are read
    Tensors biases;                       // those that are converted
    for (const LinearLayer& layer : layers) {
      const Index in = layer.weight.dim(1), out = layer.weight.dim(0), rows = x.shape().product(0, x.rank() - 1);
      Shape shape = x.shape();
      shape.back() = out;
      Array y(shape, x.dtype());
      if (y.numel() > 0) {
        const Array& panels = packed.emplace_back(packed_weight(layer.weight, layer.bfloat16))->numbers;
        const T* bias = nullptr;
        if (const Tensor& b = layer.bias; b.defined())
          bias = b.dtype() == x.dtype() && b.data().is_packed() ? b.ptr<T>()
                                                                : biases.emplace_back(packed_as(b, x.dtype())).ptr<T>();
        const kernels::Epilogue<T> epilogue{bias, layer.activation.has_value(),
                                            layer.activation.value_or(kernels::Activation::relu)};
        tasks.push_back({y.data<T>(), out, {x.data<T>(), in, false}, panels.data<T>(), epilogue, rows, out, in});
        if (packed.back()->bfloat16) tasks.back().bfloat16 = static_cast<const std::uint32_t*>(panels.raw());
      }
      results.emplace_back(std::move(y));
    }
    multiply_packed<T>(tasks);
  });
  return results;
}

}  // namespace qkv::ops
