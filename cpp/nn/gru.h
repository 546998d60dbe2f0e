// Gated recurrent units.
#pragma once

#include "nn/module.h"
#include "ops/recurrent.h"

namespace qkv::nn {

class GRU : public Module {
 public:
  GRU(Index input_size, Index hidden_size, Index num_layers = 1, bool bias = true, double dropout = 0);
  std::string class_name() const override { return "GRU"; }
  Config config() const override;

  struct Output {
    Tensor outputs, state;  // (B, T, H), (layers, B, H)
  };
  using Module::forward;
  // x (B, T, M); state (layers, B, H) or undefined for zeros; valid_lens int64 (B) or undefined. All may lack B.
  virtual Output forward(const Tensor& x, const Tensor& state, const Array& valid_lens = {});

  const Index input_size, hidden_size, num_layers;
  const bool bias;
  const double dropout;

 private:
  struct Layer {
    ops::GruParameters parameters;
    std::shared_ptr<const ops::GruCaches> caches = std::make_shared<ops::GruCaches>();
  };
  Output alone(const Tensor& x, const Tensor& state, const Array& valid_lens);

  std::vector<Layer> layers_;
};

}  // namespace qkv::nn
