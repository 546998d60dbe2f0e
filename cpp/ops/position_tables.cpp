#include "ops/position_tables.h"

#include <cmath>

#include "core/parallel.h"

namespace qkv::ops {
namespace {

double frequency(Index pair, Index dim, double base) {
  return std::pow(base, -static_cast<double>(2 * pair) / static_cast<double>(dim));
}

void check(const char* operation, Index dim, double base, bool even) {
  if (dim < 0) fail_value(operation, ": dim must be at least 0 because it is a size; got dim = ", dim);
  if (even && dim % 2 != 0) fail_value(operation, ": dim must be even because features turn in pairs; got dim = ", dim);
  if (!(base > 0))
    fail_value(operation, ": base must be above 0 because frequencies are its powers; got base = ", base);
}

}  // namespace

Array sinusoidal_positions(Index max_len, Index dim, double base) {
  check("sinusoidal_positions", dim, base, false);
  if (max_len < 0)
    fail_value("sinusoidal_positions: max_len must be at least 0 because it is a size; got max_len = ", max_len);
  Array table({max_len, dim}, DType::float64);
  double* p = table.data<double>();
  parallel_for(0, max_len == 0 ? 0 : (dim + 1) / 2, grain_for(max_len * 20), [&](Index begin, Index end) {
    for (Index j = begin; j < end; ++j) {
      const double w = frequency(j, dim, base);
      for (Index i = 0; i < max_len; ++i) {
        const double angle = static_cast<double>(i) * w;
        p[i * dim + 2 * j] = std::sin(angle);
        if (2 * j + 1 < dim) p[i * dim + 2 * j + 1] = std::cos(angle);
      }
    }
  });
  return table;
}

Array relative_rotation(Index offset, Index dim, double base) {
  check("relative_rotation", dim, base, true);
  Array matrix = Array::zeros({dim, dim}, DType::float64);
  double* r = matrix.data<double>();
  for (Index j = 0; j < dim / 2; ++j) {
    const double angle = static_cast<double>(offset) * frequency(j, dim, base), c = std::cos(angle),
                 s = std::sin(angle);
    double *upper = r + 2 * j * dim + 2 * j, *lower = upper + dim;
    upper[0] = c;
    upper[1] = s;
    lower[0] = -s;
    lower[1] = c;
  }
  return matrix;
}

std::pair<Array, Array> rotary_tables(const Array& positions, Index dim, double base) {
  check("rotary_tables", dim, base, true);
  const Index half = dim / 2;
  Shape shape = positions.shape();
  shape.push_back(half);
  Array cosines(shape, DType::float64), sines(shape, DType::float64);
  for (Index j = 0; j < half && positions.numel() > 0; ++j) {
    const double w = frequency(j, dim, base);
    for (Index i = 0; i < positions.numel(); ++i) {
      const double angle = positions.data<double>()[i] * w;
      cosines.data<double>()[i * half + j] = std::cos(angle);
      sines.data<double>()[i * half + j] = std::sin(angle);
    }
  }
  return {cosines, sines};
}

Array alibi_slopes(Index num_heads) {
  if (num_heads < 1) fail_value("alibi_slopes: num_heads must be at least 1; got num_heads = ", num_heads);
  Index power = 1;
  while (power <= num_heads / 2) power *= 2;
  Array slopes({num_heads}, DType::float64);
  for (Index h = 0; h < num_heads; ++h)
    slopes.data<double>()[h] =
        h < power ? std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(power))
                  : std::exp2(-4.0 * static_cast<double>(2 * (h - power) + 1) / static_cast<double>(power));
  return slopes;
}

}  // namespace qkv::ops
