#include "nn/gru.h"

#include <cmath>

#include "core/batch_part.h"
#include "core/error.h"
#include "core/parallel.h"
#include "core/random.h"
#include "nn/basic.h"
#include "nn/init.h"
#include "ops/lengths.h"
#include "ops/ops.h"

namespace qkv::nn {
namespace {

// Dropout between layers. PyTorch draws its mask with the steps outermost.
Tensor dropped(const Tensor& x, double p) {
  const Index B = x.dim(0), T = x.dim(1), H = x.dim(2);
  Array keep(x.shape(), DType::boolean);
  if (p < 1) {
    Array drawn({T, B, H}, DType::boolean);
    const Outside outside = outside_of_part(B * H);
    for (Index t = 0; t < T; ++t)
      default_generator().bernoulli_piece(drawn.data<bool>() + t * B * H, B * H, 1.0 - p, outside.before,
                                          outside.behind);
    for (Index b = 0; b < B; ++b)
      for (Index t = 0; t < T; ++t)
        std::copy_n(drawn.data<bool>() + (t * B + b) * H, H, keep.data<bool>() + (b * T + t) * H);
  }
  return ops::dropout_with_mask(x, keep, p);
}

}  // namespace

GRU::GRU(Index input, Index hidden, Index count, bool with_bias, double p)
    : input_size(input), hidden_size(hidden), num_layers(count), bias(with_bias), dropout(p) {
  check_positive("GRU", {{"input_size", input}, {"hidden_size", hidden}, {"num_layers", count}});
  checked_probability("GRU", "dropout", p);
  layers_ = std::vector<Layer>(static_cast<std::size_t>(count));
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  const Index gates = Shape{3, hidden}.numel();
  for (Index i = 0; i < count; ++i) {
    throw_if_interrupted();  // a million layers take a minute
    ops::GruParameters& own = layers_[static_cast<std::size_t>(i)].parameters;
    const std::string end = text("_l", i);
    own_parameter("weight_ih" + end, own.weight_ih, uniform_parameter({gates, i == 0 ? input : hidden}, -bound, bound));
    own_parameter("weight_hh" + end, own.weight_hh, uniform_parameter({gates, hidden}, -bound, bound));
    if (!bias) continue;
    own_parameter("bias_ih" + end, own.bias_ih, uniform_parameter({gates}, -bound, bound));
    own_parameter("bias_hh" + end, own.bias_hh, uniform_parameter({gates}, -bound, bound));
  }
}

Config GRU::config() const {
  return {{"input_size", input_size},
          {"hidden_size", hidden_size},
          {"num_layers", num_layers},
          {"bias", bias},
          {"dropout", dropout}};
}

// A sequence without a batch axis, as a batch of one.
GRU::Output GRU::alone(const Tensor& x, const Tensor& initial, const Array& valid_lens) {
  const Shape expected{num_layers, hidden_size};
  if (initial.defined() && initial.shape() != expected)
    fail_value("GRU: state must be (num_layers, hidden_size) = ", expected, " because x ", x.shape(),
               " has no batch axis; got state ", initial.shape());
  if (valid_lens.defined() && valid_lens.numel() != 1)
    fail_value("GRU: valid_lens must be one number because x ", x.shape(), " has no batch axis; got valid_lens ",
               valid_lens.shape());
  const Tensor start = initial.defined() ? ops::reshape(initial, {num_layers, 1, hidden_size}) : initial;
  const Array lens = valid_lens.defined() ? valid_lens.reshaped({1}) : valid_lens;
  const Output y = GRU::forward(ops::reshape(x, {1, x.dim(0), x.dim(1)}), start, lens);
  return {ops::reshape(y.outputs, {x.dim(0), hidden_size}), ops::reshape(y.state, expected)};
}

GRU::Output GRU::forward(const Tensor& x, const Tensor& initial, const Array& given_lens) {
  if (const Observed seen(*this); seen)
    return seen.call(x, [&](const Tensor& y) { return GRU::forward(y, initial, given_lens); },
                     {&Output::outputs, &Output::state});
  if ((x.rank() != 3 && x.rank() != 2) || x.dim(-1) != input_size)
    fail_value("GRU: x must be (B, T, ", input_size, ") or (T, ", input_size, ") because input_size = ", input_size,
               "; got x ", x.shape());
  if (x.rank() == 2) return alone(x, initial, given_lens);
  const Index B = x.dim(0), T = x.dim(1);
  const Shape expected{num_layers, B, hidden_size};
  if (initial.defined() && initial.shape() != expected)
    fail_value("GRU: state must be (num_layers, B, hidden_size) = ", expected, "; got state ", initial.shape());
  Array valid_lens;
  if (given_lens.defined())
    valid_lens = ops::checked_lengths("GRU", given_lens, {B}, {B}, T, {.queries = "", .keys = "T"});
  Tensor y = as_dtype_of(x, layers_.front().parameters.weight_ih);
  Tensors states;
  for (Index i = 0; i < num_layers; ++i) {
    throw_if_interrupted();
    Layer& layer = layers_[static_cast<std::size_t>(i)];
    if (i > 0 && training() && dropout > 0) y = dropped(y, dropout);
    const Tensor start =
        initial.defined() ? ops::reshape(ops::slice(initial, 0, i, i + 1), {B, hidden_size}) : Tensor();
    const ops::GruOutput result =
        ops::gru_layer({hidden_size, i}, y, start, layer.parameters, valid_lens, layer.caches);
    y = result.outputs;
    states.push_back(result.state);
  }
  return {y, ops::stack(states, 0)};
}

}  // namespace qkv::nn
