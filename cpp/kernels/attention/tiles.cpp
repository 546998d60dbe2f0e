#include "kernels/attention/tiles.h"

namespace qkv::kernels::QKV_ISA {

template <class T>
void multiply_panel(StoreMode mode, T* c, Index ldc, const T* a, Index stride, const T* b, Index ldb, Index rows,
                    Index depth, Index vectors, PrefetchQueue* queue, bool cold) {
  Nothing nothing;
  const Index height = tile_height(vectors), line = 64 / static_cast<Index>(sizeof(T)), end = cold ? depth : line;
  multiply_rows<Reads::rows, kFixedWidth>(
      TileProduct<T>{mode, c, ldc, nullptr, a, stride, b, ldb, depth}, rows, vectors,
      [&](const T* next) {
        if (queue != nullptr) queue->before_tile();
        for (Index r = 0; r < height; ++r)
          for (Index k = 0; k < end; k += line) __builtin_prefetch(next + r * stride + k);
      },
      nothing);
}

template <class T>
void multiply_transposed(StoreMode mode, T* c, Index ldc, const T* factor, const T* a, Index stride, const T* b,
                         Index ldb, Index rows, Index depth, Index vectors, PrefetchQueue* queue,
                         DeferredRows<T>* deferred) {
  const TileProduct<T> product{mode, c, ldc, factor, a, stride, b, ldb, depth};
  if (deferred == nullptr) {
    Nothing nothing;
    return multiply_rows<Reads::columns, kFixedWidth>(
        product, rows, vectors,
        [&](const T*) {
          if (queue != nullptr) queue->before_tile();
        },
        nothing);
  }
  const Index tiles = rows > 0 ? tiles_of(rows, vectors) : 0;
  const auto one = [deferred]() { deferred->one(); };
  multiply_rows<Reads::columns, kFixedWidth>(product, rows, vectors, [&](const T*) { deferred->prepare(tiles); }, one);
}

template <class T>
void multiply_skipping(StoreMode mode, T* c, Index ldc, const T* factor, const T* a, Index stride, const T* b,
                       Index ldb, Index rows, Index depth, Index vectors, PrefetchQueue*, DeferredRows<T>* deferred) {
  if (deferred != nullptr) deferred->finish();
  for (Index r = 0; r < rows; ++r) {
    for (Index v = 0; v < vectors; ++v) {
      Vec<T> sum = {};
      for (Index k = 0; k < depth; ++k) {
        const Vec<T> right = load(b + k * ldb + v * kLanes<T>);
        sum = select(right == Vec<T>{}, sum, sum + splat<T>(a[k * stride + r]) * right);
      }
      T* to = c + r * ldc + v * kLanes<T>;
      if (mode == StoreMode::rescale) sum = load(to) * load(factor + v * kLanes<T>) + sum;
      if (mode == StoreMode::accumulate) sum = load(to) + sum;
      store(to, sum);
    }
  }
}

template <class T>
void add_product(T* c, Index ldc, const T* a, Index stride, Index a_jump, const T* b, Index ldb, Index rows,
                 Index depth, Index groups, Index columns, bool skipping) {
  if (skipping) {
    for (Index r = 0; r < rows; ++r)
      for (Index group = 0; group < groups; ++group)
        for (Index k = 0; k < depth; ++k)
          if (const T left = a[group * a_jump + r * stride + k]; left != 0)
            for (Index i = 0; i < columns; ++i) c[r * ldc + i] += left * b[(group * depth + k) * ldb + i];
    return;
  }
  Nothing nothing;
  const Index vectors = columns / kLanes<T>, stripes = (vectors + kMaxVectors - 1) / kMaxVectors;
  for (Index stripe = 0, from = 0; stripe < stripes; ++stripe) {
    const Index count = vectors / stripes + (stripe < vectors % stripes ? 1 : 0);
    T* to = c + from * kLanes<T>;
    multiply_rows<Reads::rows, false>(
        TileProduct<T>{StoreMode::accumulate, to, ldc, nullptr, a, stride, b + from * kLanes<T>, ldb, depth, groups,
                       a_jump, depth * ldb},
        rows, count, [](const T*) {}, nothing);
    from += count;
  }
}

#define QKV_INSTANTIATE(T)                                                                                          \
  template void multiply_panel(StoreMode, T*, Index, const T*, Index, const T*, Index, Index, Index, Index,         \
                               PrefetchQueue*, bool);                                                               \
  template void multiply_transposed(StoreMode, T*, Index, const T*, const T*, Index, const T*, Index, Index, Index, \
                                    Index, PrefetchQueue*, DeferredRows<T>*);                                       \
  template void multiply_skipping(StoreMode, T*, Index, const T*, const T*, Index, const T*, Index, Index, Index,   \
                                  Index, PrefetchQueue*, DeferredRows<T>*);                                         \
  template void add_product(T*, Index, const T*, Index, Index, const T*, Index, Index, Index, Index, Index, bool);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)

}  // namespace qkv::kernels::QKV_ISA
