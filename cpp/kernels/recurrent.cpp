#include "kernels/recurrent.h"

#include "kernels/simd/family.h"
#include "kernels/simd/fused.h"
#include "kernels/simd/math.h"
#include "kernels/simd/sums.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// Sequences whose sums stay in registers: three vectors each, beside the three vectors of weights.
#if defined(__AVX512F__)
constexpr int kRows = 8;
#else
constexpr int kRows = 4;
#endif
constexpr Index kGates = 3, kPair = 2;  // vectors of a panel: one of each gate; two neighbours

constexpr Index panels_of(Index columns, Index width) { return (columns + width - 1) / width; }

template <class T> Index packed_gates(Index hidden) {
  return panels_of(hidden, kLanes<T>) * hidden * kGates * kLanes<T>;
}

template <class T> Index packed_columns(Index depth, Index columns) {
  constexpr Index width = kPair * kLanes<T>;
  return panels_of(columns, width) * depth * width;
}

// A panel holds some columns of b, row after row; columns that do not exist are zeros.
template <class T>
void pack_panel(T* packed, const T* b, Index row_step, Index column_step, Index first, Index depth, Index columns,
                Index width, Index stride) {
  for (Index j = 0; j < width; ++j)
    for (Index k = 0; k < depth; ++k) {
      const Index row = k + first < depth ? k + first : k + first - depth;
      packed[k * stride + j] = j < columns ? b[row * row_step + j * column_step] : T(0);
    }
}

template <class T> void pack_gates(T* packed, const T* weight, Index hidden) {
  constexpr Index width = kLanes<T>, stride = kGates * width;
  for (Index j = 0; j < hidden; j += width, packed += hidden * stride)
    for (Index gate = 0; gate < kGates; ++gate)
      pack_panel(packed + gate * width, weight + (gate * hidden + j) * hidden, Index{1}, hidden, Index{0}, hidden,
                 hidden - j, width, stride);
}

template <class T>
void pack_columns(T* packed, const T* b, Index row_step, Index column_step, Index first, Index depth, Index columns) {
  constexpr Index width = kPair * kLanes<T>;
  for (Index j = 0; j < columns; j += width, packed += depth * width)
    pack_panel(packed, b + j * column_step, row_step, column_step, first, depth, columns - j, width, width);
}

// sum[r][v] = a[r] . column v of a panel of V vectors.
template <class T, int R, int V>
inline void panel_sums(Vec<T> (&sum)[R][V], const T* const* a, const T* panel, Index depth) {
  const T* row[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    row[r] = a[r];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[r][v] = Vec<T>{};
  }
  for (Index k = 0; k < depth; ++k, panel += V * kLanes<T>) {
    Vec<T> right[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) right[v] = load(panel + v * kLanes<T>);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec<T> left = splat<T>(row[r][k]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sum[r][v] = fused(left, right[v], sum[r][v]);
    }
  }
}

// h = (1 - z) n + z h_before with n = tanh(n_input + r s), for the units of one vector.
template <class T, class At>
inline void finish(T* h, T* gates, const T* before, const Vec<T> (&sum)[kGates], const T* bias, bool keep, Index hidden,
                   At at) {
  const Vec<T> r = sigmoid_of<T>(at(gates + hidden) + sum[0]);
  const Vec<T> z = sigmoid_of<T>(at(gates + 2 * hidden) + sum[1]);
  const Vec<T> s = sum[2] + at(bias);
  const Vec<T> n = tanh_of<T>(fused(r, s, at(gates + 3 * hidden)));
  at.put(h, fused(z, at(before) - n, n));
  if (!keep) return;
  at.put(gates, s);
  at.put(gates + hidden, r);
  at.put(gates + 2 * hidden, z);
  at.put(gates + 3 * hidden, n);
}

template <class T, int R>
void step_rows(T* const* h, T* const* gates, const T* const* before, const T* panel, const T* bias, bool keep, Index j,
               Index hidden) {
  Vec<T> sum[R][kGates];
  for (int r = 0; r < R; ++r) {  // what follows the sums arrives while they are made
    for (Index gate = 1; gate <= kGates; ++gate) __builtin_prefetch(gates[r] + gate * hidden + j);
    __builtin_prefetch(h[r] + j, 1);
  }
  panel_sums<T>(sum, before, panel, hidden);
  for (int r = 0; r < R; ++r) {
    if (j + kLanes<T> <= hidden)
      finish(h[r] + j, gates[r] + j, before[r] + j, sum[r], bias + j, keep, hidden, Whole<T>{});
    else finish(h[r] + j, gates[r] + j, before[r] + j, sum[r], bias + j, keep, hidden, Part<T>{hidden - j});
  }
}

template <class T, int R>
void product_rows(T* const* c, const T* const* a, const T* panel, Index j, Index depth, Index columns) {
  Vec<T> sum[R][kPair];
  panel_sums<T>(sum, a, panel, depth);
  for (int r = 0; r < R; ++r)
    for (Index v = 0; v < kPair; ++v) {
      const Index from = j + v * kLanes<T>;
      if (from + kLanes<T> <= columns) store(c[r] + from, load(c[r] + from) + sum[r][v]);
      else if (from < columns)
        store_part(c[r] + from, load_part(c[r] + from, columns - from) + sum[r][v], columns - from);
    }
}

// f(Rows<R>, first row) for groups of at most kRows rows.
template <int R> struct Rows {
  static constexpr int value = R;
};
template <class F> inline void each_group(Index rows, F f) {
  Index i = 0;
  for (; i + kRows <= rows; i += kRows) f(Rows<kRows>{}, i);
  switch (rows - i) {
#if defined(__AVX512F__)
    case 7:
      return f(Rows<7>{}, i);
    case 6:
      return f(Rows<6>{}, i);
    case 5:
      return f(Rows<5>{}, i);
    case 4:
      return f(Rows<4>{}, i);
#endif
    case 3:
      return f(Rows<3>{}, i);
    case 2:
      return f(Rows<2>{}, i);
    case 1:
      return f(Rows<1>{}, i);
    default:
      return;
  }
}

template <class T>
void gru_step(T* const* h, T* const* gates, const T* const* before, const T* packed, const T* bias, bool keep,
              Index rows, Index hidden) {
  for (Index j = 0; j < hidden; j += kLanes<T>, packed += hidden * kGates * kLanes<T>)
    each_group(rows, [&](auto count, Index i) {
      step_rows<T, decltype(count)::value>(h + i, gates + i, before + i, packed, bias, keep, j, hidden);
    });
}

template <class T> void gru_backward(T* dgates, T* dh, const T* gates, const T* before, Index hidden) {
  each_vector<T>(hidden, [&](Index j, auto at) {
    const Vec<T> one = splat<T>(1), g = at(dh + j);
    const Vec<T> s = at(gates + j), r = at(gates + hidden + j), z = at(gates + 2 * hidden + j),
                 n = at(gates + 3 * hidden + j);
    const Vec<T> dn = g * (one - z) * fused(-n, n, one);
    at.put(dgates + j, dn * r);
    at.put(dgates + hidden + j, dn * s * r * (one - r));
    at.put(dgates + 2 * hidden + j, g * (at(before + j) - n) * z * (one - z));
    at.put(dgates + 3 * hidden + j, dn);
    at.put(dh + j, g * z);
  });
}

template <class T>
void add_product(T* const* c, const T* const* a, const T* packed, Index rows, Index depth, Index columns) {
  constexpr Index width = kPair * kLanes<T>;
  for (Index j = 0; j < columns; j += width, packed += depth * width)
    each_group(rows, [&](auto count, Index i) {
      product_rows<T, decltype(count)::value>(c + i, a + i, packed, j, depth, columns);
    });
}

}  // namespace

QKV_FAMILY(Recurrent, packed_gates<T>, packed_columns<T>, pack_gates<T>, pack_columns<T>, gru_step<T>, gru_backward<T>,
           add_product<T>)

}  // namespace qkv::kernels::QKV_ISA
