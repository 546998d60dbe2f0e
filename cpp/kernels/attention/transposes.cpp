#include "kernels/attention/transposes.h"

#include "kernels/simd/transpose.h"

namespace qkv::kernels::QKV_ISA {
namespace {

template <class T> inline void store_first(T* p, Vec<T> v, Index n) {
  if (n >= kLanes<T>) store(p, v);
  else store_part(p, v, n);
}
template <class T> inline Vec<T> load_first(const T* p, Index n) { return n >= kLanes<T> ? load(p) : load_part(p, n); }

template <class T, bool far, class F>
void columns(T* to, Index width, const T* const* from, Index lanes, Index count, Index n, F f) {
  constexpr Index w = kLanes<T>;
  Vec<T> v[w];
  for (Index lane = 0; lane < lanes; lane += w) {
    Index j = 0;
    for (; lane + w <= count && j + w <= n; j += w) {
      if constexpr (far) {
#pragma GCC unroll 16
        for (Index i = 0; i < w; ++i) v[i] = load(from[lane + i] + j);
        transpose<T>(v);
      } else {
        load_transposed<T>(v, from + lane, j);
      }
#pragma GCC unroll 16
      for (Index i = 0; i < w; ++i) store(to + (j + i) * width + lane, f(v[i]));
    }
    for (; j < n; j += w) {
      for (Index i = 0; i < w; ++i) v[i] = lane + i < count ? load_first(from[lane + i] + j, n - j) : Vec<T>{};
      transpose<T>(v);
      for (Index i = 0; i < w && j + i < n; ++i) store(to + (j + i) * width + lane, f(v[i]));
    }
  }
}

}  // namespace

template <class T>
void columns_from_rows(T* to, Index width, const T* const* from, Index lanes, Index count, Index n, T factor) {
  columns<T, false>(to, width, from, lanes, count, n, [scale = splat<T>(factor)](Vec<T> x) { return x * scale; });
}

template <class T> void columns_from_far_rows(T* to, Index width, const T* const* from, Index n) {
  columns<T, true>(to, width, from, kLanes<T>, kLanes<T>, n, [](Vec<T> x) { return x; });
}

template <class T> void DeferredRows<T>::some(Index patches) {
  constexpr Index w = kLanes<T>;
  while (written_ < ready_) write_line();
  written_ = ready_ = 0;
  for (; patches > 0 && lane_ < count; --patches) {
    // Copies, because the compiler must assume that the stores change members.
    const Index j = j_, step = width, at = ready_;
    const T* columns = from + j * step + lane_;
    T* const* rows = to + lane_;
    Vec<T> v[w];
    const Vec<T> scale = load(factor + lane_);
    const bool whole = j + w <= n && lane_ + w <= count;
    if (whole) {
#pragma GCC unroll 16
      for (Index i = 0; i < w; ++i) v[i] = load(columns + i * step) * scale;
    } else {
      for (Index i = 0; i < w; ++i) v[i] = j + i < n ? load(columns + i * step) * scale : Vec<T>{};
    }
    transpose<T>(v);
    if (!whole) {
      for (Index i = 0; i < w && lane_ + i < count; ++i) store_first(rows[i] + j, v[i], n - j);
    } else if (past_caches && at + w <= kMostReady) {
      T* line = line_ + at * w;
      T** target = target_ + at;
#pragma GCC unroll 16
      for (Index i = 0; i < w; ++i) store(line + i * w, v[i]);
#pragma GCC unroll 16
      for (Index i = 0; i < w; ++i) target[i] = rows[i] + j;
      ready_ = at + w;
    } else {
#pragma GCC unroll 16
      for (Index i = 0; i < w; ++i) store(rows[i] + j, v[i]);
    }
    j_ = j + w;
    if (j_ >= n) {
      j_ = 0;
      lane_ += w;
    }
  }
}

template <class T> void DeferredRows<T>::finish() {
  while (lane_ < count) some(kMostReady / kLanes<T>);
  while (written_ < ready_) write_line();
}

template <class T>
void rows_from_columns(T* const* to, const T* from, Index width, const T* factor, Index count, Index n) {
  constexpr Index w = kLanes<T>;
  Vec<T> v[w];
  const T* at[w];
  for (Index lane = 0; lane < count; lane += w) {
    const T* columns = from + lane;
    T* const* rows = to + lane;
    const Vec<T> scale = factor == nullptr ? splat<T>(1) : load(factor + lane);
    alignas(64) T scales[w];
    store(scales, scale);
    Index j = 0;
    if (lane + w <= count)
      for (; j + w <= n; j += w) {
#pragma GCC unroll 16
        for (Index i = 0; i < w; ++i) at[i] = columns + (j + i) * width;
        load_transposed<T>(v, at, 0);
#pragma GCC unroll 16
        for (Index i = 0; i < w; ++i) store(rows[i] + j, v[i] * splat<T>(scales[i]));
      }
    for (; j < n; j += w) {
      for (Index i = 0; i < w; ++i) v[i] = j + i < n ? load(columns + (j + i) * width) * scale : Vec<T>{};
      transpose<T>(v);
      for (Index i = 0; i < w && lane + i < count; ++i) store_first(rows[i] + j, v[i], n - j);
    }
  }
}

#define QKV_INSTANTIATE(T)                                                             \
  template struct DeferredRows<T>;                                                     \
  template void columns_from_rows(T*, Index, const T* const*, Index, Index, Index, T); \
  template void columns_from_far_rows(T*, Index, const T* const*, Index);              \
  template void rows_from_columns(T* const*, const T*, Index, const T*, Index, Index);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)

}  // namespace qkv::kernels::QKV_ISA
