#include "ops/moments.h"

#include <cmath>

namespace qkv::ops {
namespace {

using kernels::Spread;

// Of numbers that are `scale` times as large.
struct Scaled {
  Spread spread;
  double scale = 1;
};

bool squares_in_range(double sum) { return sum > 1e-280 && sum < 1e300; }

// Of n numbers `step` apart. Squares of float64 numbers that leave its range are computed of numbers that the power of
// two of the largest divides.
template <class T> Scaled within_range(const Spread& found, const T* x, Index step, Index n, bool centred) {
  if (sizeof(T) == sizeof(float) || squares_in_range(found.squares)) return {found};
  double largest = 0;
  for (Index i = 0; i < n; ++i) largest = std::max(largest, std::abs(static_cast<double>(x[i * step])));
  if (!(largest > 0) || !std::isfinite(largest)) return {found};
  const int power = std::ilogb(largest);
  std::vector<double> numbers(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i)
    numbers[static_cast<std::size_t>(i)] = std::scalbn(static_cast<double>(x[i * step]), -power);
  Scaled result{{}, std::scalbn(1.0, power)};
  kernels::kernels<double>().moments.of_rows(&result.spread, numbers.data(), centred, 1, n);
  return result;
}

double distance(const Scaled& s, Distance which, double count) {
  if (which == Distance::length) return std::sqrt(s.spread.squares) * s.scale;
  const double mean = s.spread.squares / count;
  return which == Distance::stddev ? std::sqrt(mean) * s.scale : mean * s.scale * s.scale;
}

// The spread of na numbers and nb others together.
Spread joined(const Spread& a, Index na, const Spread& b, Index nb) {
  const double apart = b.mean - a.mean, share = static_cast<double>(nb) / static_cast<double>(na + nb);
  return {a.mean + apart * share, a.squares + b.squares + apart * apart * share * static_cast<double>(na)};
}

// The spread of a row of n numbers of which these are the pieces'.
Spread joined(const Spread* pieces, Index n) {
  Spread all = pieces[0];
  for (Index before = kPiece; before < n; before += kPiece)
    all = joined(all, before, *++pieces, std::min(kPiece, n - before));
  return all;
}

Array of_repeated(const Array& x, const ReducedAxes& p, Distance which, double ddof) {
  const auto pieces = static_cast<std::size_t>(pieces_of_row(p));
  std::vector<Spread> parts(static_cast<std::size_t>(p.rows) * pieces);
  each_repeated(x, p, [&]<class T>(Index piece, Index row, Index count, const T* numbers, Index n) {
    kernels::kernels<T>().moments.of_rows(
        &parts[static_cast<std::size_t>(row) * pieces + static_cast<std::size_t>(piece)], numbers,
        which != Distance::length, count, n);
  });
  Array y(p.result, x.dtype());
  const double count = std::max(0.0, static_cast<double>(p.length) - ddof);
  for (std::size_t row = 0; row < static_cast<std::size_t>(p.rows); ++row) {
    const Spread all = joined(&parts[row * pieces], p.length);
    if (x.dtype() == DType::float64 && !squares_in_range(all.squares)) return distances(packed(x), p, which, ddof);
    visit_floating(x.dtype(), [&]<class T>(T) { y.data<T>()[row] = static_cast<T>(distance({all}, which, count)); });
  }
  return y;
}

}  // namespace

Array distances(const Array& input, const ReducedAxes& p, Distance which, double ddof) {
  if (repeats_numbers(input)) return of_repeated(input, p, which, ddof);
  Run run(input.shape(), p.reduced);
  const bool one_run = run.n == p.length && run.outer * run.inner == p.rows;
  const Array x = one_run ? input : rows_of(input, p);
  if (!one_run) {
    run.outer = p.rows;
    run.n = p.length;
    run.inner = 1;
  }
  const bool centred = which != Distance::length;
  const double count = std::max(0.0, static_cast<double>(p.length) - ddof);
  Array y(p.result, x.dtype());
  visit_floating(x.dtype(), [&]<class T>(T) {
    const auto& kernel = kernels::kernels<T>().moments;
    const auto result = [=](const Spread& spread, const T* from, Index step, Index n) {
      return static_cast<T>(distance(within_range(spread, from, step, n, centred), which, count));
    };
    if (!keeps_items_alike(p) && is_long_row(p)) {
      std::vector<Spread> parts(pieces_of(x));
      each_piece(x, [&](Index piece, const auto* from, Index n) {
        using U = std::remove_cvref_t<decltype(*from)>;
        kernels::kernels<U>().moments.of_rows(&parts[static_cast<std::size_t>(piece)], from, centred, 1, n);
      });
      *y.data<T>() = result(joined(parts.data(), p.length), x.data<T>(), 1, p.length);
      return;
    }
    constexpr Index kTogether = 256;
    each_line(
        y.data<T>(), x.data<T>(), run,
        [=](T* to, const T* from, Index rows, Index n) {
          Spread spreads[kTogether];
          for (Index i = 0; i < rows; i += kTogether) {
            const Index some = std::min(kTogether, rows - i);
            kernel.of_rows(spreads, from + i * n, centred, some, n);
            for (Index j = 0; j < some; ++j) to[i + j] = result(spreads[j], from + (i + j) * n, 1, n);
          }
        },
        [=](T* to, const T* from, Index step, Index n, Index width) {
          Spread spreads[kTogether];
          for (Index i = 0; i < width; i += kTogether) {
            const Index some = std::min(kTogether, width - i);
            kernel.of_columns(spreads, from + i, centred, step, n, some);
            for (Index j = 0; j < some; ++j) to[i + j] = result(spreads[j], from + i + j, step, n);
          }
        });
  });
  return y;
}

}  // namespace qkv::ops
