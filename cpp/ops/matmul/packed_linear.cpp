#include "ops/matmul/packed_linear.h"

#include "ops/matmul/packed_pieces.h"
#include "ops/ops.h"

namespace qkv::ops {

Array PackedWeight::get(const Array& weight, bool bfloat16) const {
  const std::uint64_t version = weight.version();
  if (const auto kept = packed_.get(); kept && kept->of.lock() == weight.buffer() && kept->at == weight.raw() &&
                                       kept->version == version && kept->bfloat16 == bfloat16)
    return kept->numbers;
  const Index out = weight.dim(0), in = weight.dim(1);
  Array packed;
  visit_floating(weight.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const Index panel = kernels::kernels<T>().packed_product.panel;
    if constexpr (std::is_same_v<T, float>) {
      if (bfloat16) {
        packed = Array({(out + panel - 1) / panel, (in + 1) / 2, panel}, weight.dtype());  // of words
        kernels::kernels<T>().packed_bfloat16.pack(static_cast<std::uint32_t*>(packed.raw()),
                                                   {weight.data<T>(), in, false}, out, in);
        return;
      }
    }
    packed = Array({(out + panel - 1) / panel, in, panel}, weight.dtype());
    pack_panels<T>(packed.data<T>(), {weight.data<T>(), in, false}, out, in);
  });
  packed_.set(std::make_shared<const Packed>(Packed{weight.buffer(), weight.raw(), version, bfloat16, packed}));
  return packed;
}

Tensors packed_linears(const Tensor& x, std::span<const LinearLayer> layers) {
  Tensors results;
  visit_floating(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    std::vector<PackedTask<T>> tasks;
    std::vector<Array> packed;  // kept for as long as they are read
    for (const LinearLayer& layer : layers) {
      const Index in = layer.weight.dim(1), out = layer.weight.dim(0), rows = x.shape().product(0, x.rank() - 1);
      Shape shape = x.shape();
      shape.back() = out;
      Array y(shape, x.dtype());
      if (y.numel() > 0) {
        const bool bfloat16 = layer.bfloat16 && std::is_same_v<T, float>;
        packed.push_back(layer.packed->get(layer.weight.data(), bfloat16));
        const kernels::Finish<T> finish{layer.bias.defined() ? layer.bias.ptr<T>() : nullptr,
                                        layer.activation.has_value(),
                                        layer.activation.value_or(kernels::Activation::relu)};
        tasks.push_back(
            {y.data<T>(), out, {x.ptr<T>(), in, false}, packed.back().template data<T>(), finish, rows, out, in});
        if (bfloat16) tasks.back().bfloat16 = static_cast<const std::uint32_t*>(packed.back().raw());
      }
      results.emplace_back(std::move(y));
    }
    multiply_packed<T>(tasks);
  });
  return results;
}

}  // namespace qkv::ops
