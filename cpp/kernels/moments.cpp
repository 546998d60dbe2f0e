#include "kernels/moments.h"

#include "kernels/simd/family.h"
#include "kernels/simd/sums.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// Sums of distances, which were 0 of the exact mean, correct what its rounding adds to the squares: of float64 numbers
// alone, as a mean in double is exact beside the distances of float32 ones.
Spread corrected(double mean, double distances, double squares, Index n) {
  const double count = static_cast<double>(n), rest = squares - distances * distances / count;
  return {mean + distances / count, rest < 0 ? 0 : rest};
}

template <class T> constexpr bool kCorrected = sizeof(T) == sizeof(double);

template <class T> void of_rows(Spread* spread, const T* x, bool centred, Index rows, Index n) {
  for (Index i = 0; i < rows; ++i, x += n) {
    const auto number = [=](Index j) { return static_cast<double>(x[j]); };
    const double mean = !centred || n == 0 ? 0 : sum_sixteen<double>(n, number) / static_cast<double>(n);
    const auto distance = [=](Index j) { return number(j) - mean; };
    const double squares = sum_sixteen<double>(n, [=](Index j) { return distance(j) * distance(j); });
    if (kCorrected<T> && centred && n > 0) spread[i] = corrected(mean, sum_sixteen<double>(n, distance), squares, n);
    else spread[i] = {mean, squares};
  }
}

// Narrow rows next to each other are taken several at a time, as one row.
template <class T> void of_columns(Spread* spread, const T* x, bool centred, Index step, Index rows, Index n) {
  constexpr Index kBlock = 256;
  for (Index begin = 0; begin < n; begin += kBlock, x += kBlock, spread += kBlock) {
    const Index count = n - begin < kBlock ? n - begin : kBlock, together = step == n && n < kBlock ? kBlock / n : 1;
    const Index width = together * count, whole = rows / together;
    double mean[kBlock] = {}, distances[kBlock] = {}, squares[kBlock] = {};
    // add(place in a row of `width`, numbers) for all numbers, and sums of such places by column.
    const auto each = [=](auto add) {
      const Index apart = together * step;
      Index i = 0;
      for (; i + 4 <= whole; i += 4)  // so that sums are read and written once for four numbers
        for (Index j = 0; j < width; ++j) {
          const T* p = x + i * apart + j;
          add(j, p[0], p[apart], p[2 * apart], p[3 * apart]);
        }
      for (; i < whole; ++i)
        for (Index j = 0; j < width; ++j) add(j, x[i * apart + j]);
      for (i = whole * together; i < rows; ++i)
        for (Index j = 0; j < count; ++j) add(j, x[i * step + j]);
    };
    const auto join = [=](double* sums) {
      for (Index j = count; j < width; ++j) sums[j % count] += sums[j];
    };
    if (centred) {
      each([&](Index j, auto... numbers) { mean[j] += (static_cast<double>(numbers) + ...); });
      join(mean);
      for (Index j = 0; j < count; ++j) mean[j] /= static_cast<double>(rows);
      for (Index j = count; j < width; ++j) mean[j] = mean[j - count];
    }
    each([&](Index j, auto... numbers) {
      const double at = mean[j];
      if (kCorrected<T>) distances[j] += ((static_cast<double>(numbers) - at) + ...);
      const auto square = [=](double number) { return (number - at) * (number - at); };
      squares[j] += (square(static_cast<double>(numbers)) + ...);
    });
    join(distances);
    join(squares);
    for (Index j = 0; j < count; ++j)
      spread[j] =
          kCorrected<T> && centred ? corrected(mean[j], distances[j], squares[j], rows) : Spread{mean[j], squares[j]};
  }
}

}  // namespace

QKV_FAMILY(Moments, of_rows<T>, of_columns<T>)

}  // namespace qkv::kernels::QKV_ISA
