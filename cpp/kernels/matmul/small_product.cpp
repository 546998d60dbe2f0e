#include "kernels/matmul/small_product.h"

#include "kernels/matmul/packed_panels.h"
#include "kernels/simd/family.h"
#include "kernels/simd/sums.h"
#include "kernels/simd/transpose.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// Rows of a tile of V vectors.
constexpr int height_of(int vectors) { return vectors == 1 ? static_cast<int>(tile_height(1)) : kTileRows; }

// The first n numbers of p, at most a vector, then zeros.
template <class T> inline Vec<T> load_first(const T* p, Index n) {
#if defined(__AVX2__)
  return load_part(p, n);  // without a branch
#else
  return load_some(p, n);
#endif
}

// c (R, columns <= V vectors) = a (R, depth) @ lines of b, finished.
template <class T, int R, int V, Reads A>
void tile(T* c, Index ldc, const T* a, Index lda, const T* b, Index ldb, Index depth, Index columns, bool added,
          const T* bias) {
  const Index last = columns - (V - 1) * kLanes<T>;
  Vec<T> sum[R][V] = {};
  multiply_group<T, R, V, A>(sum, a, lda, b, ldb, depth, nothing, [=](const T* line, int v) {
    return v + 1 < V ? load(line + v * kLanes<T>) : load_first(line + v * kLanes<T>, last);
  });
  store_tile<T, R, V>(c, ldc, sum, columns, added, bias);
}

template <class T> using Tile = void (*)(T*, Index, const T*, Index, const T*, Index, Index, Index, bool, const T*);
template <class T, int V, Reads A> Tile<T> tile_of(Index rows) {
  constexpr int most = height_of(V);
#define QKV_TILE(R) tile<T, (R < most ? R : most), V, A>
  static constexpr Tile<T> all[12] = {QKV_TILE(1), QKV_TILE(2), QKV_TILE(3), QKV_TILE(4),  QKV_TILE(5),  QKV_TILE(6),
                                      QKV_TILE(7), QKV_TILE(8), QKV_TILE(9), QKV_TILE(10), QKV_TILE(11), QKV_TILE(12)};
#undef QKV_TILE
  return all[rows - 1];
}
template <class T, Reads A> Tile<T> tile_for(Index rows, Index vectors) {
  if (vectors == 1) return tile_of<T, 1, A>(rows);
  if constexpr (kMaxVectors == 4) {
    if (vectors == 2) return tile_of<T, 2, A>(rows);
    if (vectors == 3) return tile_of<T, 3, A>(rows);
  }
  return tile_of<T, kMaxVectors, A>(rows);
}

#if defined(__AVX512F__)
// The last columns, if half a vector holds them: many CPUs take half the time for it.
template <class T> struct Half;
template <> struct Half<float> {
  using Values = __m256;
  static Values load(const float* p, Index n) { return _mm256_maskz_loadu_ps(static_cast<__mmask8>((1u << n) - 1), p); }
  static Values fused(float a, Values b, Values c) { return _mm256_fmadd_ps(_mm256_set1_ps(a), b, c); }
  static Vec<float> whole(Values v) { return (Vec<float>)_mm512_zextps256_ps512(v); }
};
template <> struct Half<double> {
  using Values = __m256d;
  static Values load(const double* p, Index n) {
    return _mm256_maskz_loadu_pd(static_cast<__mmask8>((1u << n) - 1), p);
  }
  static Values fused(double a, Values b, Values c) { return _mm256_fmadd_pd(_mm256_set1_pd(a), b, c); }
  static Vec<double> whole(Values v) { return (Vec<double>)_mm512_zextpd256_pd512(v); }
};

template <class T, int R>
void half_tile(T* c, Index ldc, const T* a, Index row_step, Index step, const T* b, Index ldb, Index depth,
               Index columns, bool added, const T* bias) {
  typename Half<T>::Values half[R] = {};
  for (Index k = 0; k < depth; ++k) {
    const auto right = Half<T>::load(b + k * ldb, columns);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) half[r] = Half<T>::fused(a[r * row_step + k * step], right, half[r]);
  }
  Vec<T> sum[R][1];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) sum[r][0] = Half<T>::whole(half[r]);
  store_tile<T, R, 1>(c, ldc, sum, columns, added, bias);
}

template <class T>
void half_lines(T* c, Index ldc, const T* a, Index row_step, Index step, const T* b, Index ldb, bool added,
                const T* bias, Index m, Index n, Index depth) {
  Index i = 0;
  const auto some = [&]<int R>() {
    half_tile<T, R>(c + i * ldc, ldc, a + i * row_step, row_step, step, b, ldb, depth, n, added, bias);
    i += R;
  };
  while (i + 11 <= m) some.template operator()<11>();
  while (i + 4 <= m) some.template operator()<4>();
  while (i < m) some.template operator()<1>();
}
#endif

// c = a @ lines of b of one stretch of the depth.
template <class T, Reads A>
void by_lines(T* c, Index ldc, const T* a, Index lda, const T* b, Index ldb, bool added, const T* bias, Index m,
              Index n, Index depth) {
  for (Index j = 0, width; j < n; j += width) {
    Index vectors = (n - j + kLanes<T> - 1) / kLanes<T>;
    if (vectors > kMaxVectors) vectors = kMaxVectors;
#if defined(__AVX512F__)
    const Index rest = n % kLanes<T>, row_step = A == Reads::rows ? lda : 1, step = A == Reads::rows ? 1 : lda;
    if (rest > 0 && rest <= kLanes<T> / 2 && n - j <= kMaxVectors * kLanes<T>) {
      if (--vectors == 0)
        return half_lines<T>(c + j, ldc, a, row_step, step, b + j, ldb, added, bias == nullptr ? bias : bias + j, m,
                             rest, depth);
    }
#endif
    width = vectors * kLanes<T> < n - j ? vectors * kLanes<T> : n - j;
    const Index most = height_of(static_cast<int>(vectors)), tiles = (m + most - 1) / most;
    for (Index t = 0; t < tiles; ++t) {  // of nearly equal height
      const Index row = m * t / tiles, rows = m * (t + 1) / tiles - row;
      tile_for<T, A>(rows, vectors)(c + row * ldc + j, ldc, a + row * (A == Reads::rows ? lda : 1), lda, b + j, ldb,
                                    depth, width, added, bias == nullptr ? bias : bias + j);
    }
  }
}

// The same of one row: eight lines of b at a time, read in their order, while the sums are in the first cache.
template <class T>
void row_by_lines(T* c, const T* a, Index step, const T* b, Index ldb, bool added, const T* bias, Index n,
                  Index depth) {
  constexpr Index kColumns = 2048;
  T sums[kColumns];
  for (Index first = 0; first < n; first += kColumns) {
    const Index width = n - first < kColumns ? n - first : kColumns;
    T *y = c + first, *sum = added || bias != nullptr ? sums : y;
    const auto lines = [&]<int N>(Index k, auto sum_of) __attribute__((always_inline)) {
      Vec<T> factor[N];
#pragma GCC unroll 8
      for (int r = 0; r < N; ++r) factor[r] = splat<T>(a[(k + r) * step]);
      const T* from = b + k * ldb + first;
      each_vector<T>(width, [&](Index j, auto at) {
        Vec<T> total = sum_of(j, at);
#pragma GCC unroll 8
        for (int r = 0; r < N; ++r) total = fused(factor[r], at(from + r * ldb + j), total);
        at.put(sum + j, total);
      });
    };
    const auto fresh = [](Index, auto) { return Vec<T>{}; };
    const auto kept = [&](Index j, auto at) { return at(sum + j); };
    Index k = 0;
    if (depth >= 8) {
      lines.template operator()<8>(0, fresh);
      k = 8;
    } else {
      for (Index j = 0; j < width; ++j) sum[j] = 0;
    }
    for (; k + 8 <= depth; k += 8) lines.template operator()<8>(k, kept);
    for (; k < depth; ++k) lines.template operator()<1>(k, kept);
    if (sum == y) continue;
    each_vector<T>(width, [&](Index j, auto at) {
      const Vec<T> total = added ? at(y + j) + at(sums + j) : at(sums + j);
      at.put(y + j, bias == nullptr ? total : total + at(bias + first + j));
    });
  }
}

// c (columns) = a (depth) @ columns of b; the numbers of a column are side by side. They are turned in registers,
// several vectors of columns at a time, because each waits for its own sums.
template <class T>
void row_by_columns(T* c, const T* a, Index step, const T* b, Index ldb, bool added, const T* bias, Index n,
                    Index depth) {
  constexpr Index L = kLanes<T>, together = 2 * kParts;
  for (Index j = 0; j < n; j += together * L) {
    const Index columns = n - j < together * L ? n - j : together * L;
    const T* from[together * L];
    for (Index i = 0; i < together * L; ++i) from[i] = b + (j + (i < columns ? i : columns - 1)) * ldb;
    Vec<T> sum[1][together] = {}, v[L];
    Index k = 0;
    for (; k + L <= depth; k += L)
#pragma GCC unroll 8
      for (int block = 0; block < together; ++block) {
        load_transposed<T>(v, from + block * L, k);
#pragma GCC unroll 16
        for (Index i = 0; i < L; ++i) sum[0][block] = fused(splat<T>(a[(k + i) * step]), v[i], sum[0][block]);
      }
    for (int block = 0; k < depth && block < together; ++block) {
      for (Index i = 0; i < L; ++i) v[i] = load_part(from[block * L + i] + k, depth - k);
      transpose<T>(v);
      for (Index i = 0; k + i < depth; ++i) sum[0][block] = fused(splat<T>(a[(k + i) * step]), v[i], sum[0][block]);
    }
    store_tile<T, 1, together>(c + j, 0, sum, columns, added, bias == nullptr ? bias : bias + j);
  }
}

template <class T>
void multiply(T* c, Index ldc, const Operand<T>& a, const Operand<T>& b, bool adds, const T* bias, Index m, Index n,
              Index k) {
  for (Index step = 0; step < k || step == 0; step += kDepth) {
    const Index depth = k - step < kDepth ? k - step : kDepth;
    const bool added = adds || step > 0;
    const T* shift = step + depth >= k ? bias : nullptr;
    const Operand<T> left{a.at(0, step), a.stride, a.transposed};
    const T* from = b.at(0, step);
    const Index along = a.transposed ? a.stride : 1;
    for (Index i = 0; i < m && !b.transposed; ++i)
      row_by_columns<T>(c + i * ldc, left.at(i, 0), along, from, b.stride, added, shift, n, depth);
    if (!b.transposed) continue;
    if (m == 1) row_by_lines<T>(c, left.data, along, from, b.stride, added, shift, n, depth);
    else if (a.transposed)
      by_lines<T, Reads::columns>(c, ldc, left.data, a.stride, from, b.stride, added, shift, m, n, depth);
    else by_lines<T, Reads::rows>(c, ldc, left.data, a.stride, from, b.stride, added, shift, m, n, depth);
  }
}

}  // namespace

QKV_FAMILY(SmallProduct, multiply<T>)

}  // namespace qkv::kernels::QKV_ISA
