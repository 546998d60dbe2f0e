// x + P, where P holds sines and cosines of the position: the same for every sequence, learned by nobody.
#pragma once

#include "nn/basic.h"

namespace qkv::nn {

class PositionalEncoding : public Module {
 public:
  explicit PositionalEncoding(Index num_hiddens, double dropout = 0, Index max_len = 1000);
  std::string class_name() const override { return "PositionalEncoding"; }
  Config config() const override;
  Tensor forward(const Tensor& x) override { return PositionalEncoding::forward(x, 0); }  // (B, L, M)
  virtual Tensor forward(const Tensor& x, Index offset);  // the first of x is at position `offset`

  const Index num_hiddens, max_len;
  const Array table;  // (1, max_len, M), float64
  std::shared_ptr<Dropout> dropout;
};

}  // namespace qkv::nn
