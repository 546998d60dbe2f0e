// Activation functions.
#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

namespace qkv::ops {

using kernels::Activation;

Tensor activated(const Tensor& input, Activation f) {
  const Tensor x = floating(input);
  Array y(x.shape(), x.dtype());
  const Index grain = grain_for(f == Activation::relu ? 1 : 8);
  visit_floating(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    parallel_for(0, x.numel(), grain, [&](Index begin, Index end) {
      kernels::kernels<T>().activation.forward(f, y.data<T>() + begin, x.ptr<T>() + begin, end - begin);
    });
  });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  const Saved saved(kernels::needs_result(f) ? y : x.data());
  return record(std::move(y), {x}, [f, grain, saved](const Array& dy, Gradients& dx) {
    visit_floating(dy.dtype(), [&](auto tag) {
      using T = decltype(tag);
      const Array slope = dx.fresh(0);
      T* out = slope.data<T>();
      const T* kept = saved.data<T>();
      parallel_for(0, dy.numel(), grain, [&](Index begin, Index end) {
        kernels::kernels<T>().activation.backward(f, out + begin, dy.data<T>() + begin, kept + begin, end - begin);
      });
      dx.add(0, slope);
    });
  });
}

Tensor relu(const Tensor& x) { return activated(x, Activation::relu); }
Tensor gelu(const Tensor& x, bool approximate) { return activated(x, approximate ? Activation::gelu_tanh : Activation::gelu); }
Tensor tanh(const Tensor& x) { return activated(x, Activation::tanh); }
Tensor sigmoid(const Tensor& x) { return activated(x, Activation::sigmoid); }

}  // namespace qkv::ops
