#include "nn/positional.h"

#include "core/error.h"
#include "ops/ops.h"
#include "ops/position_tables.h"

namespace qkv::nn {
namespace {

Array checked_table(Index num_hiddens, Index max_len) {
  if (num_hiddens < 1 || max_len < 1)
    fail_value("PositionalEncoding: num_hiddens and max_len must be at least 1; got num_hiddens = ", num_hiddens,
               ", max_len = ", max_len);
  return ops::sinusoidal_positions(max_len, num_hiddens, 10000.0).reshaped({1, max_len, num_hiddens});
}

}  // namespace

PositionalEncoding::PositionalEncoding(Index hiddens, double p, Index length)
    : num_hiddens(hiddens), max_len(length), table(checked_table(hiddens, length)) {
  own_module("dropout", dropout, std::make_shared<Dropout>(checked_probability("PositionalEncoding", "dropout", p)));
}

Config PositionalEncoding::config() const {
  return {{"num_hiddens", num_hiddens}, {"dropout", dropout->p}, {"max_len", max_len}};
}

Tensor PositionalEncoding::forward(const Tensor& x, Index offset) {
  if (const Observed seen(*this); seen)
    return seen.call(x, [&](const Tensor& y) { return PositionalEncoding::forward(y, offset); });
  if (x.rank() < 2 || x.dim(-1) != num_hiddens)
    fail_value("PositionalEncoding: x must be (B, L, ", num_hiddens, ") because num_hiddens = ", num_hiddens,
               "; got x ", x.shape());
  const Index length = x.dim(-2);
  if (offset + length > max_len)
    fail_value("PositionalEncoding: x must have at most max_len = ", max_len, " positions; got x ", x.shape(),
               offset > 0 ? text(" behind ", offset, " others") : "");
  const Tensor input = ops::floating(x);
  const Tensor rows = ops::slice(Tensor(table.reshaped({max_len, num_hiddens})), 0, offset, offset + length);
  return dropout->forward(ops::add(input, ops::cast(rows, input.dtype())));
}

}  // namespace qkv::nn
