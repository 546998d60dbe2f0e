#include "kernels/attention/tiles.h"

namespace qkv::kernels::QKV_ISA {

template <class T>
void multiply_panel(const TileProduct<T>& p, Index rows, Index vectors, PrefetchQueue* queue, bool cold) {
  const Index height = tile_height(vectors), line = 64 / static_cast<Index>(sizeof(T));
  // With 16 registers fetching costs more than it saves: 1 to 3 % at L = 64, nothing at L = 1024, on a Zen 3 core.
  const Index end = kRegisters == 16 ? 0 : cold ? p.depth : line;
  multiply_rows<Reads::rows, kFixedWidth>(
      p, rows, vectors,
      [=, stride = p.stride](const T* next) {
        if (queue != nullptr) queue->before_tile();
        for (Index r = 0; r < height; ++r)
          for (Index k = 0; k < end; k += line) __builtin_prefetch(next + r * stride + k);
      },
      nothing);
}

template <class T>
void multiply_transposed(const TileProduct<T>& product, Index rows, Index vectors, PrefetchQueue* queue,
                         DeferredRows<T>* deferred) {
  if (deferred == nullptr) {
    const auto before = [&](const T*) {
      if (queue != nullptr) queue->before_tile();
    };
    if (product.depths != nullptr)
      return multiply_rows<Reads::stairs, kFixedWidth>(product, rows, vectors, before, nothing);
    return multiply_rows<Reads::columns, kFixedWidth>(product, rows, vectors, before, nothing);
  }
  const Index tiles = rows > 0 ? tiles_of(rows, vectors) : 0;
  const auto one = [deferred]() { deferred->one(); };
  multiply_rows<Reads::columns, kFixedWidth>(product, rows, vectors, [&](const T*) { deferred->prepare(tiles); }, one);
}

template <class T>
void multiply_skipping(const TileProduct<T>& p, Index rows, Index vectors, PrefetchQueue*, DeferredRows<T>* deferred) {
  if (deferred != nullptr) deferred->finish();
  for (Index r = 0; r < rows; ++r) {
    for (Index v = 0; v < vectors; ++v) {
      T* to = p.c + r * p.ldc + v * kLanes<T>;
      Vec<T> sum = p.mode == StoreMode::resume ? load(to) : Vec<T>{};
      for (Index k = 0; k < p.depth; ++k) {
        const Vec<T> right = load(p.b + k * p.ldb + v * kLanes<T>);
        sum = select(right == Vec<T>{}, sum, fused(splat<T>(p.a[k * p.stride + r]), right, sum));
      }
      if (p.mode == StoreMode::rescale) sum = fused(load(to), load(p.factor + v * kLanes<T>), sum);
      if (p.mode == StoreMode::accumulate) sum = load(to) + sum;
      store(to, sum);
    }
  }
}

template <class T> void add_product(const TileProduct<T>& p, Index rows, Index columns, bool skipping) {
  if (skipping) {
    for (Index r = 0; r < rows; ++r)
      for (Index group = 0; group < p.groups; ++group)
        for (Index k = 0; k < p.depth; ++k)
          if (const T left = p.a[group * p.a_jump + r * p.stride + k]; left != 0)
            for (Index i = 0; i < columns; ++i)
              p.c[r * p.ldc + i] = fused(left, p.b[group * p.b_jump + k * p.ldb + i], p.c[r * p.ldc + i]);
    return;
  }
  const Index vectors = columns / kLanes<T>, stripes = (vectors + kMaxVectors - 1) / kMaxVectors;
  for (Index stripe = 0, from = 0; stripe < stripes; ++stripe) {
    const Index count = vectors / stripes + (stripe < vectors % stripes ? 1 : 0);
    TileProduct<T> part = p;
    part.c += from * kLanes<T>;
    part.b += from * kLanes<T>;
    multiply_rows<Reads::rows, false>(part, rows, count, [](const T*) {}, nothing);
    from += count;
  }
}

#define QKV_INSTANTIATE(T)                                                                                  \
  template void multiply_panel(const TileProduct<T>&, Index, Index, PrefetchQueue*, bool);                  \
  template void multiply_transposed(const TileProduct<T>&, Index, Index, PrefetchQueue*, DeferredRows<T>*); \
  template void multiply_skipping(const TileProduct<T>&, Index, Index, PrefetchQueue*, DeferredRows<T>*);   \
  template void add_product(const TileProduct<T>&, Index, Index, bool);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)

}  // namespace qkv::kernels::QKV_ISA
