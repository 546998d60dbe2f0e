#include "ops/packed_linear.h"

#include "ops/ops.h"
#include "ops/packed_product.h"

namespace qkv::ops {

Array PackedWeight::get(const Array& weight) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t version = weight.version();
  if (packed_.defined() && of_.lock() == weight.buffer() && at_ == weight.raw() && version_ == version) return packed_;
  const Index out = weight.dim(0), in = weight.dim(1);
  visit_floating(weight.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const Index panel = kernels::kernels<T>().packed_product.panel;
    packed_ = Array({(out + panel - 1) / panel, in, panel}, weight.dtype());
    pack_panels<T>(packed_.data<T>(), {weight.data<T>(), in, false}, out, in);
  });
  of_ = weight.buffer();
  at_ = weight.raw();
  version_ = version;
  return packed_;
}

void PackedWeight::clear() {
  const std::lock_guard lock(mutex_);
  packed_ = Array();
  of_.reset();
}

Tensor packed_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, std::optional<kernels::Activation> activation,
                     PackedWeight& cache) {
  const Index in = weight.dim(1), out = weight.dim(0), rows = x.shape().product(0, x.rank() - 1);
  Shape shape = x.shape();
  shape.back() = out;
  Array y(shape, x.dtype());
  if (y.numel() == 0) return Tensor(std::move(y));
  const Array packed = cache.get(weight.data());
  visit_floating(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const kernels::Finish<T> finish{bias.defined() ? bias.ptr<T>() : nullptr, activation.has_value(), activation.value_or(kernels::Activation::relu)};
    multiply_packed<T>(y.data<T>(), out, {x.ptr<T>(), in, false}, packed.data<T>(), finish, rows, out, in);
  });
  return Tensor(std::move(y));
}

}  // namespace qkv::ops
