#include "ops/position_tables.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "ops/numbers.h"

namespace qkv::ops {
namespace {

double frequency(Index pair, Index dim, double base) {
  return power_of(base, -static_cast<double>(2 * pair) / static_cast<double>(dim));
}

void check(const char* operation, Index dim, double base, bool even) {
  if (dim < 0) fail_value(operation, ": dim must be at least 0 because it is a size; got dim = ", dim);
  if (even && dim % 2 != 0) fail_value(operation, ": dim must be even because features turn in pairs; got dim = ", dim);
  if (!(base > 0))
    fail_value(operation, ": base must be above 0 because frequencies are its powers; got base = ", base);
}

constexpr const char* kScalings[] = {"default", "linear", "dynamic", "yarn", "llama3"};
using Kind = RotaryScaling::Kind;

// Dynamic: a larger base where a sequence is longer than those in training.
double lengthened(const RotaryScaling& s, Index dim, double base, double length) {
  const double ratio = std::max(length / *s.original_max_position_embeddings, 1.0), d = static_cast<double>(dim);
  return dim <= 2 ? base : base * power_of(s.factor * ratio - (s.factor - 1), d / (d - 2));
}

// Yarn: the share of w that stays as it is, 1 for features that turn often in the length of training, then falling.
double unscaled_share(const RotaryScaling& s, Index pair, Index dim, double base) {
  const auto feature = [&](double turns) {  // that turns so often
    return static_cast<double>(dim) * log_of(*s.original_max_position_embeddings / (turns * 2 * std::numbers::pi)) /
           (2 * log_of(base));
  };
  double low = feature(s.beta_fast), high = feature(s.beta_slow);
  if (s.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dim - 1));
  if (low == high) high += 0.001;
  return 1 - std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
}

double scaled_frequency(const RotaryScaling& s, Index pair, Index dim, double base) {
  const double w = frequency(pair, dim, base), slow = w / s.factor;
  if (s.rope_type == Kind::linear) return slow;
  if (s.rope_type == Kind::yarn) {
    const double share = unscaled_share(s, pair, dim, base);
    return slow * (1 - share) + w * share;
  }
  if (s.rope_type == Kind::llama3) {
    const double turns = *s.original_max_position_embeddings * w / (2 * std::numbers::pi);
    const double share = (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
    return share < 0 ? slow : share > 1 ? w : slow * (1 - share) + w * share;
  }
  return w;
}

double attention_factor(const RotaryScaling& s) {
  if (s.rope_type != Kind::yarn) return 1;
  if (s.attention_factor) return *s.attention_factor;
  const auto scale = [&](double m) { return s.factor <= 1 ? 1.0 : 0.1 * m * log_of(s.factor) + 1; };
  return s.mscale && s.mscale_all_dim ? scale(*s.mscale) / scale(*s.mscale_all_dim) : scale(1);
}

template <class F> std::vector<double> frequencies(Index pairs, F f) {
  std::vector<double> w;
  for (Index j = 0; j < pairs; ++j) w.push_back(f(j));
  return w;
}

// Cosines and sines of a position times each frequency.
void turn(double* cosines, double* sines, double position, const std::vector<double>& w) {
  const auto& kernel = kernels::kernels<double>().elementwise;
  const auto n = static_cast<Index>(w.size());
  for (std::size_t j = 0; j < w.size(); ++j) sines[j] = position * w[j];
  kernel.unary(kernels::Unary::cosine, cosines, sines, n);
  kernel.unary(kernels::Unary::sine, sines, sines, n);
}

}  // namespace

Array consecutive(Index first, Index count) {
  Array numbers({count}, DType::int64);
  for (Index i = 0; i < count; ++i) numbers.data<std::int64_t>()[i] = first + i;
  return numbers;
}

Array sinusoidal_positions(Index max_len, Index dim, double base) {
  check("sinusoidal_positions", dim, base, false);
  if (max_len < 0)
    fail_value("sinusoidal_positions: max_len must be at least 0 because it is a size; got max_len = ", max_len);
  Array table({max_len, dim}, DType::float64);
  double* p = table.data<double>();
  const Index pairs = (dim + 1) / 2;
  const std::vector<double> w = frequencies(pairs, [&](Index j) { return frequency(j, dim, base); });
  parallel_for(0, max_len, grain_for(pairs * 10), [&](Index begin, Index end) {
    std::vector<double> sines(w.size()), cosines(w.size());
    for (Index i = begin; i < end; ++i) {
      turn(cosines.data(), sines.data(), static_cast<double>(i), w);
      for (Index j = 0; j < dim; ++j) p[i * dim + j] = (j % 2 == 0 ? sines : cosines)[static_cast<std::size_t>(j / 2)];
    }
  });
  return table;
}

Array relative_rotation(Index offset, Index dim, double base) {
  check("relative_rotation", dim, base, true);
  Array matrix = Array::zeros({dim, dim}, DType::float64);
  double* r = matrix.data<double>();
  const std::vector<double> w = frequencies(dim / 2, [&](Index j) { return frequency(j, dim, base); });
  std::vector<double> sines(w.size()), cosines(w.size());
  turn(cosines.data(), sines.data(), static_cast<double>(offset), w);
  for (Index j = 0; j < dim / 2; ++j) {
    const double c = cosines[static_cast<std::size_t>(j)], s = sines[static_cast<std::size_t>(j)];
    double *upper = r + 2 * j * dim + 2 * j, *lower = upper + dim;
    upper[0] = c;
    upper[1] = s;
    lower[0] = -s;
    lower[1] = c;
  }
  return matrix;
}

const char* name_of(RotaryScaling::Kind kind) { return kScalings[static_cast<std::size_t>(kind)]; }

RotaryScaling::Kind rotary_scaling_named(const char* operation, const std::string& name) {
  for (std::size_t i = 0; i < std::size(kScalings); ++i)
    if (name == kScalings[i]) return static_cast<RotaryScaling::Kind>(i);
  fail_value(operation,
             ": scaling must have the rope_type \"default\", \"linear\", \"dynamic\", \"yarn\" or \"llama3\"; got \"",
             name, "\"");
}

const RotaryScaling& checked(const char* operation, const RotaryScaling& s) {
  const auto positive = [&](const char* name, std::optional<double> value) {
    if (value && !(*value > 0 && std::isfinite(*value)))
      fail_value(operation, ": scaling must have a positive ", name, "; got ", *value);
  };
  for_fields(s, [&]<class T>(const char* name, const T& value) {
    if constexpr (std::is_convertible_v<T, std::optional<double>> && !std::is_same_v<T, bool>) positive(name, value);
  });
  if (s.rope_type != Kind::none && s.rope_type != Kind::linear && !s.original_max_position_embeddings)
    fail_value(operation, ": scaling must have original_max_position_embeddings because ", name_of(s.rope_type),
               " compares with the length in training; got none");
  if (s.rope_type == Kind::llama3 && !(s.low_freq_factor < s.high_freq_factor))
    fail_value(operation, ": scaling must have a low_freq_factor below its high_freq_factor; got ", s.low_freq_factor,
               " and ", s.high_freq_factor);
  return s;
}

std::pair<Array, Array> rotary_tables(const Array& positions, Index dim, double base, const RotaryScaling& given) {
  check("rotary_tables", dim, base, true);
  const RotaryScaling& s = checked("rotary_tables", given);
  const Index half = dim / 2, count = positions.numel();
  const double* position = positions.data<double>();
  Shape shape = positions.shape();
  shape.push_back(half);
  Array cosines(shape, DType::float64), sines(shape, DType::float64);
  if (count == 0) return {cosines, sines};
  const double used =
      s.rope_type == Kind::dynamic ? lengthened(s, dim, base, *std::max_element(position, position + count) + 1) : base;
  const double size = attention_factor(s);
  const std::vector<double> w = frequencies(half, [&](Index j) { return scaled_frequency(s, j, dim, used); });
  for (Index i = 0; i < count; ++i) {
    double *c = cosines.data<double>() + i * half, *sine = sines.data<double>() + i * half;
    turn(c, sine, position[i], w);
    for (Index j = 0; j < half; ++j) c[j] *= size, sine[j] *= size;
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
        h < power ? power_of(2, -8.0 * static_cast<double>(h + 1) / static_cast<double>(power))
                  : power_of(2, -4.0 * static_cast<double>(2 * (h - power) + 1) / static_cast<double>(power));
  return slopes;
}

}  // namespace qkv::ops
