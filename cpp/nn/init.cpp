#include "nn/init.h"

#include <cmath>

#include "core/error.h"

namespace qkv::nn {

thread_local bool SkipInit::active_ = false;

Fans fans_of(const Shape& shape, const char* operation) {
  if (shape.rank() < 2) fail_value(operation, ": tensor must have at least two axes, (out, in); got ", shape);
  const auto field = static_cast<double>(shape.product(2, shape.rank()));
  return {static_cast<double>(shape.dim(1)) * field, static_cast<double>(shape.dim(0)) * field};
}

void fill_uniform(const Array& array, double low, double high, Generator& generator) {
  visit_floating(array.dtype(), [&]<class T>(T) { generator.uniform(array.data<T>(), array.numel(), low, high); });
}

void fill_normal(const Array& array, double mean, double std, Generator& generator) {
  visit_floating(array.dtype(), [&]<class T>(T) { generator.normal(array.data<T>(), array.numel(), mean, std); });
}

void fill_xavier_uniform(const Array& array, double gain, Generator& generator) {
  const Fans fans = fans_of(array.shape(), "xavier_uniform");
  const double bound = std::sqrt(3.0) * (gain * std::sqrt(2.0 / (fans.in + fans.out)));
  fill_uniform(array, -bound, bound, generator);
}

void fill_xavier_normal(const Array& array, double gain, Generator& generator) {
  const Fans fans = fans_of(array.shape(), "xavier_normal");
  fill_normal(array, 0, gain * std::sqrt(2.0 / (fans.in + fans.out)), generator);
}

void fill_kaiming_uniform(const Array& array, double a, Generator& generator) {
  const Fans fans = fans_of(array.shape(), "kaiming_uniform");
  const double bound = std::sqrt(3.0) * (std::sqrt(2.0 / (1 + a * a)) / std::sqrt(fans.in));
  fill_uniform(array, -bound, bound, generator);
}

namespace {

// Parameters are drawn in float32, as PyTorch's are.
template <class Draw> Tensor drawn(Shape shape, Draw draw) {
  Array array(std::move(shape), DType::float32);
  if (!SkipInit::active()) draw(array);
  return make_parameter(std::move(array));
}

}  // namespace

Tensor uniform_parameter(Shape shape, double low, double high) {
  return drawn(std::move(shape), [&](const Array& a) { fill_uniform(a, low, high); });
}

Tensor kaiming_parameter(Shape shape) {
  return drawn(std::move(shape), [](const Array& a) {
    if (a.numel() > 0) fill_kaiming_uniform(a, std::sqrt(5.0));
  });
}

Tensor normal_parameter(Shape shape, double mean, double std) {
  return drawn(std::move(shape), [&](const Array& a) { fill_normal(a, mean, std); });
}

Tensor constant_parameter(Shape shape, double value) {
  return make_parameter(Array::full(std::move(shape), DType::float32, value));
}

}  // namespace qkv::nn
