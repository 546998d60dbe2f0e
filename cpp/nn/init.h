// Initial values of parameters, drawn as PyTorch draws them.
#pragma once

#include "core/noncopyable.h"
#include "core/random.h"
#include "nn/parameter.h"

namespace qkv::nn {

// Draws with these go to the default generator unless another is given. While a SkipInit lives on this thread, nothing
// is drawn and parameters hold what their memory held, which is not even touched: a copy of a module, or a
// module that is loaded, is filled anyway.
class SkipInit : NonCopyable {
 public:
  SkipInit() : before_(active_) { active_ = true; }
  ~SkipInit() { active_ = before_; }
  static bool active() { return active_; }

 private:
  bool before_;
  static thread_local bool active_;
};

struct Fans {
  double in, out;
};
// Of a weight (out, in, ...); axes after the second multiply both. At least two axes.
Fans fans_of(const Shape& shape, const char* operation);

void fill_uniform(const Array& array, double low, double high, Generator& generator = default_generator());
void fill_normal(const Array& array, double mean, double std, Generator& generator = default_generator());
void fill_xavier_uniform(const Array& array, double gain = 1, Generator& generator = default_generator());
void fill_xavier_normal(const Array& array, double gain = 1, Generator& generator = default_generator());
void fill_kaiming_uniform(const Array& array, double a, Generator& generator = default_generator());

Tensor uniform_parameter(Shape shape, double low, double high);
Tensor kaiming_parameter(Shape shape);  // a = sqrt(5): uniform in +-1 / sqrt(fan in)
Tensor normal_parameter(Shape shape, double mean, double std);
Tensor constant_parameter(Shape shape, double value);

}  // namespace qkv::nn
