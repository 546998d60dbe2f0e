#include "kernels/softmax.h"

#include "kernels/simd/family.h"
#include "kernels/simd/fused.h"
#include "kernels/simd/math.h"
#include "kernels/simd/sums.h"
#include "kernels/simd/weight_of.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// The largest number that is not NaN; -inf if there is none.
template <class T> T largest(const T* x, Index n) {
  const Vec<T> none = splat<T>(-static_cast<T>(INFINITY));
  Vec<T> even = none, odd = none;
  Index j = 0;
  for (; j + 2 * kLanes<T> <= n; j += 2 * kLanes<T>) {
    even = maximum(load(x + j), even);
    odd = maximum(load(x + j + kLanes<T>), odd);
  }
  if (j + kLanes<T> <= n) {
    even = maximum(load(x + j), even);
    j += kLanes<T>;
  }
  if (j < n) odd = maximum(select(first_lanes<T>(n - j), load_part(x + j, n - j), none), odd);
  return horizontal_max<T>(maximum(even, odd));
}

template <class T> bool has_nan(const T* x, Index n) {
  bool found = false;
  for (Index j = 0; j < n; ++j) found |= x[j] != x[j];
  return found;
}

// Passes over a row in memory wait for it in the first and for the lines of the result where they are written, while
// the exponentials hardly use memory: so with them come the next row, which is `step` away, unless it is so long that
// rows would evict each other from the first cache, and lines of the result. A softmax of a large array takes 1.3
// times as long without.
template <class T> inline void fetch_ahead(const T* y, const T* x, Index j, Index step) {
  __builtin_prefetch(x + (step <= 2048 ? step : 0) + j);
  __builtin_prefetch(y + 256 + j);
}

// A NaN in a row makes the sum NaN, and that every number of the row.
template <class T> bool forward(T* y, const T* x, T scale, bool empty_is_zero, Index rows, Index n, Index step) {
  bool found_nan = false;
  for (Index i = 0; i < rows; ++i, y += step, x += step) {
    const T top = largest(x, n);
    if (empty_is_zero && top == -static_cast<T>(INFINITY) && !has_nan(x, n)) {
      for (Index j = 0; j < n; ++j) y[j] = 0;
      continue;
    }
    const Vec<T> tops = splat<T>(top), scales = splat<T>(scale);
    const T total = sum_vectors<T>(n, [&](Index j, auto at) {
      fetch_ahead(y, x, j, step);
      const Vec<T> e = exp_of_negative<T>(scales * (at(x + j) - tops));
      at.put(y + j, e);
      return e;
    });
    found_nan |= total != total;
    const Vec<T> factor = splat<T>(1 / total);
    each_vector<T>(n, [=](Index j, auto at) { at.put(y + j, at(y + j) * factor); });
  }
  return found_nan;
}

// Whether a row of NaN or infinity is left alone, because no gradient reaches it. `total` is a sum over what it holds.
template <class T> bool passes_over(T* dx, const T* dy, T total, Index n) {
  if (total - total == 0) return false;
  for (Index j = 0; j < n; ++j)
    if (dy[j] != 0) return false;
  for (Index j = 0; j < n; ++j) dx[j] = 0;
  return true;
}

template <class T, bool skip_zeros> void row_backward(T* dx, const T* dy, const T* y, T scale, Index n) {
  const Vec<T> zero = {}, scales = splat<T>(scale);
  const auto weighted = [=](Vec<T> weight, Vec<T> v) {
    return skip_zeros ? select(weight == zero, zero, weight * v) : weight * v;
  };
  const T sum = sum_vectors<T>(n, [&](Index j, auto at) {
    if constexpr (skip_zeros) return weighted(at(y + j), at(dy + j));
    else return Product<T>{at(y + j), at(dy + j)};
  });
  if (passes_over(dx, dy, sum, n)) return;
  const Vec<T> mean = splat<T>(sum);
  each_vector<T>(n, [&](Index j, auto at) { at.put(dx + j, scales * weighted(at(y + j), at(dy + j) - mean)); });
}

template <class T> void backward(T* dx, const T* dy, const T* y, T scale, bool skip_zeros, Index rows, Index n) {
  for (Index i = 0; i < rows; ++i, dx += n, dy += n, y += n) {
    if (skip_zeros) row_backward<T, true>(dx, dy, y, scale, n);
    else row_backward<T, false>(dx, dy, y, scale, n);
  }
}

template <class T> void log_forward(T* y, const T* x, T scale, Index rows, Index n) {
  for (Index i = 0; i < rows; ++i, y += n, x += n) {
    const Vec<T> tops = splat<T>(largest(x, n)), scales = splat<T>(scale);
    const T total = sum_vectors<T>(n, [=](Index j, auto at) {
      fetch_ahead(y, x, j, n);
      return weight_of<T>(scales * (at(x + j) - tops));
    });
    const Vec<T> rests = splat<T>(log_of_number(total));
    each_vector<T>(n, [=](Index j, auto at) { at.put(y + j, fused(scales, at(x + j) - tops, -rests)); });
  }
}

template <class T> void log_backward(T* dx, const T* dy, const T* y, T scale, Index rows, Index n) {
  const Vec<T> scales = splat<T>(scale);
  for (Index i = 0; i < rows; ++i, dx += n, dy += n, y += n) {
    const T sum = sum_vectors<T>(n, [&](Index j, auto at) { return at(dy + j); });
    if (n > 0 && passes_over(dx, dy, sum + y[0], n)) continue;  // all of y is NaN or infinite, or nothing is
    const Vec<T> total = splat<T>(sum);
    each_vector<T>(n, [&](Index j, auto at) {
      at.put(dx + j, scales * fused(-exp_of_negative<T>(at(y + j)), total, at(dy + j)));
    });
  }
}

template <class T>
void exclude(T* y, const bool* allowed, Index allowed_step, const T* bias, Index bias_step, Index length, T value,
             Index n) {
  if (allowed != nullptr) {
    if (allowed_step == 0 && !*allowed) length = 0;
    if (allowed_step != 0)
      for (Index j = 0; j < length; ++j) y[j] = allowed[j] ? y[j] : value;
  }
  const T none = -static_cast<T>(INFINITY);
  if (bias != nullptr) {
    if (bias_step == 0 && *bias == none) length = 0;
    if (bias_step != 0)
      for (Index j = 0; j < length; ++j) y[j] = bias[j] == none ? value : y[j];
  }
  for (Index j = length; j < n; ++j) y[j] = value;
}

// Block by block, so that a long row is read from memory once: a larger number rescales the sum before it. The next
// block is fetched during the exponentials: the search for the largest number would wait for it twice as long as they
// take.
template <class T> void logsumexp(T* lse, const T* x, Index rows, Index n) {
  const Index blocks = (n + 1023) / 1024, equal = blocks == 0 ? 0 : (n + blocks - 1) / blocks;
  const Index block = (equal + kLineNumbers<T> - 1) / kLineNumbers<T> * kLineNumbers<T>;
  const T none = -static_cast<T>(INFINITY);
  for (Index i = 0; i < rows; ++i, x += n) {
    T top = none;
    double total = 0;
    for (Index j = 0; j < n; j += block) {
      const Index count = n - j < block ? n - j : block;
      const T here = largest(x + j, count);
      if (here == none && !has_nan(x + j, count)) continue;
      if (here > top) {
        total *= exp_of_number(static_cast<double>(top) - static_cast<double>(here));
        top = here;
      }
      if (top == static_cast<T>(INFINITY)) {  // exp(x - top) would be NaN
        total = has_nan(x, n) ? static_cast<double>(NAN) : 1.0;
        break;
      }
      const Vec<T> tops = splat<T>(top);
      total += static_cast<double>(sum_vectors<T>(count, [=](Index k, auto at) {
        __builtin_prefetch(x + j + k + block);
        return weight_of<T>(at(x + j + k) - tops);
      }));
    }
    lse[i] = static_cast<T>(static_cast<double>(top) + log_of_number(total));
  }
}

// Columns are taken so many at a time that what is kept of each stays in the first cache, while whole stretches of a
// row are read: f(first column, number of columns).
constexpr Index kColumns = 1024;
template <class F> inline void each_block_of_columns(Index n, F f) {
  for (Index j = 0; j < n; j += kColumns) f(j, n - j < kColumns ? n - j : kColumns);
}

template <class T> void clear(T* x, Index n) {
  for (Index j = 0; j < n; ++j) x[j] = 0;
}

// For each of at most kColumns columns the largest number that is not NaN, -inf if there is none, and the sum of
// exp(scale * (x - top)). Some rows at a time, so that memory is read once: a larger number rescales the sum before it.
template <class T> void sums_of_columns(T* top, double* total, const T* x, T scale, Index step, Index rows, Index n) {
  constexpr Index kRows = 32;
  const Vec<T> scales = splat<T>(scale);
  T before[kColumns], part[kColumns];
  for (Index j = 0; j < n; ++j) top[j] = -static_cast<T>(INFINITY);
  clear(total, n);
  for (Index i = 0; i < rows; i += kRows) {
    const Index last = rows - i < kRows ? rows : i + kRows;
    __builtin_memcpy(before, top, static_cast<size_t>(n) * sizeof(T));
    for (Index k = i; k < last; ++k)
      each_vector<T>(n, [=](Index j, auto at) {
        __builtin_prefetch(x + (k + 1) * step + j);  // no prefetcher of the CPU's follows from row to row
        at.put(top + j, maximum(at(x + k * step + j), at(top + j)));
      });
    for (Index j = 0; j < n; ++j)
      if (before[j] != top[j]) total[j] *= exp_of_number(static_cast<double>(scale * (before[j] - top[j])));
    clear(part, n);
    for (Index k = i; k < last; ++k)
      each_vector<T>(n, [&](Index j, auto at) {
        const Vec<T> v = at(x + k * step + j), tops = at(top + j);
        const Vec<T> distance = select(v == tops, Vec<T>{}, v - tops);  // an infinite one has none from itself
        at.put(part + j, at(part + j) + weight_of<T>(scales * distance));
      });
    for (Index j = 0; j < n; ++j) total[j] += static_cast<double>(part[j]);
  }
}

// An infinite number leaves nothing to be divided: the column becomes NaN, as a row does.
template <class T> double checked_total(T top, double total) {
  return top == static_cast<T>(INFINITY) ? static_cast<double>(NAN) : total;
}

// y = value(scale * (x - top), c) of each column, c = constant(its sum of exponentials).
template <class T, class Constant, class Value>
void forward_columns_by(T* y, const T* x, T scale, Index step, Index rows, Index n, Constant constant, Value value) {
  T top[kColumns], c[kColumns];
  double total[kColumns];
  const Vec<T> scales = splat<T>(scale);
  each_block_of_columns(n, [&](Index first, Index width) {
    sums_of_columns(top, total, x + first, scale, step, rows, width);
    for (Index j = 0; j < width; ++j) c[j] = static_cast<T>(constant(checked_total(top[j], total[j])));
    for (Index i = 0; i < rows; ++i)
      each_vector<T>(width, [&](Index j, auto at) {
        const Index k = first + i * step + j;
        __builtin_prefetch(x + k + step);
        __builtin_prefetch(y + k + step);
        at.put(y + k, value(scales * (at(x + k) - at(top + j)), at(c + j)));
      });
  });
}

template <class T> void forward_columns(T* y, const T* x, T scale, Index step, Index rows, Index n) {
  forward_columns_by(
      y, x, scale, step, rows, n, [](double total) { return 1 / total; },
      [](Vec<T> d, Vec<T> factor) { return exp_of_negative<T>(d) * factor; });
}

template <class T> void log_forward_columns(T* y, const T* x, T scale, Index step, Index rows, Index n) {
  forward_columns_by(
      y, x, scale, step, rows, n, [](double total) { return log_of_number(total); },
      [](Vec<T> d, Vec<T> rest) { return d - rest; });
}

// dx = scale * value(dy, y, the column's sum); with each row the sum becomes term(sum so far, dy, y). A column to which
// no gradient arrives gets none, even if it holds NaN: 0 times what is there is not looked at.
template <class T, class Term, class Value>
void backward_columns_by(T* dx, const T* dy, const T* y, T scale, Index step, Index rows, Index n, Term term,
                         Value value) {
  T sum[kColumns], any[kColumns];
  const Vec<T> scales = splat<T>(scale), zero = {};
  each_block_of_columns(n, [&](Index first, Index width) {
    clear(sum, width);
    clear(any, width);
    for (Index i = 0; i < rows; ++i)
      each_vector<T>(width, [&](Index j, auto at) {
        const Index k = first + i * step + j;
        const Vec<T> gradient = at(dy + k);
        at.put(sum + j, term(at(sum + j), gradient, at(y + k)));
        at.put(any + j, select(gradient == zero, at(any + j), splat<T>(1)));
      });
    for (Index i = 0; i < rows; ++i)
      each_vector<T>(width, [&](Index j, auto at) {
        const Index k = first + i * step + j;
        const Vec<T> gradient = scales * value(at(dy + k), at(y + k), at(sum + j));
        at.put(dx + k, select(at(any + j) == zero, zero, gradient));
      });
  });
}

template <class T> void backward_columns(T* dx, const T* dy, const T* y, T scale, Index step, Index rows, Index n) {
  backward_columns_by(
      dx, dy, y, scale, step, rows, n, [](Vec<T> sum, Vec<T> g, Vec<T> p) { return fused(p, g, sum); },
      [](Vec<T> g, Vec<T> p, Vec<T> sum) { return p * (g - sum); });
}

template <class T> void log_backward_columns(T* dx, const T* dy, const T* y, T scale, Index step, Index rows, Index n) {
  backward_columns_by(
      dx, dy, y, scale, step, rows, n, [](Vec<T> sum, Vec<T> g, Vec<T>) { return sum + g; },
      [](Vec<T> g, Vec<T> log_p, Vec<T> sum) { return fused(-exp_of_negative<T>(log_p), sum, g); });
}

template <class T> void logsumexp_columns(T* lse, const T* x, Index step, Index rows, Index n) {
  T top[kColumns];
  double total[kColumns];
  each_block_of_columns(n, [&](Index first, Index width) {
    sums_of_columns(top, total, x + first, T(1), step, rows, width);
    for (Index j = 0; j < width; ++j)
      lse[first + j] = static_cast<T>(static_cast<double>(top[j]) + log_of_number(total[j]));
  });
}

template <class T> void loss_gradients(T* dx, const T* x, T lse, T a, const T* weight, T b, Index n) {
  const Vec<T> shift = splat<T>(lse), factor = splat<T>(a), constant = splat<T>(b);
  each_vector<T>(n, [=](Index j, auto at) {
    const Vec<T> less = weight == nullptr ? constant : constant * at(weight + j);
    at.put(dx + j, fused(factor, exp_of_negative<T>(at(x + j) - shift), -less));
  });
}

template <class T> double sum_centred(const T* x, T lse, const T* weight, Index n) {
  return sum_sixteen<double>(n, [=](Index j) {
    return static_cast<double>(x[j] - lse) * (weight == nullptr ? 1.0 : static_cast<double>(weight[j]));
  });
}

}  // namespace

QKV_FAMILY(Softmax, forward<T>, backward<T>, log_forward<T>, log_backward<T>, forward_columns<T>, backward_columns<T>,
           log_forward_columns<T>, log_backward_columns<T>, exclude<T>, logsumexp<T>, logsumexp_columns<T>,
           loss_gradients<T>, sum_centred<T>)

}  // namespace qkv::kernels::QKV_ISA
