#include "kernels/moments.h"

#include "kernels/simd/family.h"
#include "kernels/simd/sums.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// Sums of distances, which were 0 of the exact mean, correct what its rounding adds to the squares.
Spread corrected(double mean, double distances, double squares, Index n) {
  const double count = static_cast<double>(n), rest = squares - distances * distances / count;
  return {mean + distances / count, rest < 0 ? 0 : rest};
}

// Sixteen running sums of each, as sum_sixteen has.
template <class T> Spread around(double mean, const T* x, Index n) {
  double distances[16] = {}, squares[16] = {};
  const auto add = [&](Index j, Index k) {
    const double d = static_cast<double>(x[j + k]) - mean;
    distances[k] += d;
    squares[k] += d * d;
  };
  Index j = 0;
  for (; j + 16 <= n; j += 16)
    for (Index k = 0; k < 16; ++k) add(j, k);
  for (Index k = 0; j + k < n; ++k) add(j, k);
  for (Index width = 8; width > 0; width /= 2)
    for (Index k = 0; k < width; ++k) {
      distances[k] += distances[k + width];
      squares[k] += squares[k + width];
    }
  return corrected(mean, distances[0], squares[0], n);
}

template <class T> void of_rows(Spread* spread, const T* x, bool centred, Index rows, Index n) {
  for (Index i = 0; i < rows; ++i, x += n) {
    const auto number = [=](Index j) { return static_cast<double>(x[j]); };
    if (!centred || n == 0) spread[i] = {0, sum_sixteen<double>(n, [=](Index j) { return number(j) * number(j); })};
    else spread[i] = around(sum_sixteen<double>(n, number) / static_cast<double>(n), x, n);
  }
}

// Narrow rows next to each other are taken several at a time, as one row.
template <class T> void of_columns(Spread* spread, const T* x, bool centred, Index step, Index rows, Index n) {
  constexpr Index kBlock = 256;
  for (Index begin = 0; begin < n; begin += kBlock, x += kBlock, spread += kBlock) {
    const Index count = n - begin < kBlock ? n - begin : kBlock, together = step == n && n < kBlock ? kBlock / n : 1;
    const Index width = together * count, whole = rows / together;
    double mean[kBlock] = {}, distances[kBlock] = {}, squares[kBlock] = {};
    // add(number, place in a row of `width`) for all numbers, and sums of such places by column.
    const auto each = [=](auto add) {
      for (Index i = 0; i < whole; ++i)
        for (Index j = 0; j < width; ++j) add(static_cast<double>(x[i * together * step + j]), j);
      for (Index i = whole * together; i < rows; ++i)
        for (Index j = 0; j < count; ++j) add(static_cast<double>(x[i * step + j]), j);
    };
    const auto join = [=](double* sums) {
      for (Index j = count; j < width; ++j) sums[j % count] += sums[j];
    };
    if (centred) {
      each([&](double number, Index j) { mean[j] += number; });
      join(mean);
      for (Index j = 0; j < count; ++j) mean[j] /= static_cast<double>(rows);
      for (Index j = count; j < width; ++j) mean[j] = mean[j - count];
    }
    each([&](double number, Index j) {
      const double d = number - mean[j];
      distances[j] += d;
      squares[j] += d * d;
    });
    join(distances);
    join(squares);
    for (Index j = 0; j < count; ++j)
      spread[j] = centred ? corrected(mean[j], distances[j], squares[j], rows) : Spread{0, squares[j]};
  }
}

}  // namespace

QKV_FAMILY(Moments, of_rows<T>, of_columns<T>)

}  // namespace qkv::kernels::QKV_ISA
