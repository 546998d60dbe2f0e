#include "kernels/softmax.h"

#include <math.h>

#include "kernels/simd_math.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// The lanes before n.
template <class T> inline Mask<T> first_lanes(Index n) {
  Mask<T> lane;
  for (int i = 0; i < static_cast<int>(kLanes<T>); ++i) lane[i] = i;
  return lane < static_cast<typename VectorTypes<T>::Integer>(n);
}

// The sum of f(vector number j) over n numbers; f(j, part) gives those of the last, incomplete vector, whose lanes behind
// the end do not count. Two running sums, because one addition takes longer than the next one needs to start.
template <class T, class F, class Tail> inline T sum_vectors(Index n, F f, Tail tail) {
  Vec<T> even = {}, odd = {};
  Index j = 0;
  for (; j + 2 * kLanes<T> <= n; j += 2 * kLanes<T>) {
    even += f(j);
    odd += f(j + kLanes<T>);
  }
  if (j + kLanes<T> <= n) {
    even += f(j);
    j += kLanes<T>;
  }
  if (j < n) odd += select(first_lanes<T>(n - j), tail(j, n - j), Vec<T>{});
  return horizontal_sum<T>(even + odd);
}

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

template <class T> T log_of_number(T x) { return log_of<T>(splat<T>(x))[0]; }

// A NaN in a row makes the sum NaN, and that every number of the row.
template <class T> bool forward(T* y, const T* x, T scale, bool empty_is_zero, Index rows, Index n) {
  bool found_nan = false;
  for (Index i = 0; i < rows; ++i, y += n, x += n) {
    const T top = largest(x, n);
    if (empty_is_zero && top == -static_cast<T>(INFINITY) && !has_nan(x, n)) {
      for (Index j = 0; j < n; ++j) y[j] = 0;
      continue;
    }
    const Vec<T> tops = splat<T>(top), scales = splat<T>(scale);
    const T total = sum_vectors<T>(
        n,
        [&](Index j) {
          const Vec<T> e = exp_of<T>(scales * (load(x + j) - tops));
          store(y + j, e);
          return e;
        },
        [&](Index j, Index part) {
          const Vec<T> e = exp_of<T>(scales * (load_part(x + j, part) - tops));
          store_part(y + j, e, part);
          return e;
        });
    found_nan |= total != total;
    const T factor = 1 / total;
    for (Index j = 0; j < n; ++j) y[j] *= factor;
  }
  return found_nan;
}

template <class T> void backward(T* dx, const T* dy, const T* y, T scale, bool skip_zeros, Index rows, Index n) {
  const Vec<T> zero = {};
  for (Index i = 0; i < rows; ++i, dx += n, dy += n, y += n) {
    const auto product = [=](Vec<T> weight, Vec<T> flow) {
      return skip_zeros ? select(weight == zero, zero, weight * flow) : weight * flow;
    };
    const T mean = sum_vectors<T>(
        n, [&](Index j) { return product(load(y + j), load(dy + j)); },
        [&](Index j, Index part) { return product(load_part(y + j, part), load_part(dy + j, part)); });
    if (skip_zeros) {
      for (Index j = 0; j < n; ++j) dx[j] += y[j] == 0 ? T(0) : scale * y[j] * (dy[j] - mean);
    } else {
      for (Index j = 0; j < n; ++j) dx[j] += scale * y[j] * (dy[j] - mean);
    }
  }
}

// logsumexp(scale * x) - scale * top.
template <class T> T log_total(const T* x, T top, T scale, Index n) {
  const Vec<T> tops = splat<T>(top), scales = splat<T>(scale);
  return log_of_number(sum_vectors<T>(
      n, [&](Index j) { return exp_of<T>(scales * (load(x + j) - tops)); },
      [&](Index j, Index part) { return exp_of<T>(scales * (load_part(x + j, part) - tops)); }));
}

template <class T> void log_forward(T* y, const T* x, T scale, Index rows, Index n) {
  for (Index i = 0; i < rows; ++i, y += n, x += n) {
    const T top = largest(x, n), rest = log_total(x, top, scale, n);
    for (Index j = 0; j < n; ++j) y[j] = scale * (x[j] - top) - rest;
  }
}

template <class T> void log_backward(T* dx, const T* dy, const T* y, T scale, Index rows, Index n) {
  const Vec<T> scales = splat<T>(scale);
  for (Index i = 0; i < rows; ++i, dx += n, dy += n, y += n) {
    const Vec<T> total = splat<T>(sum_vectors<T>(
        n, [&](Index j) { return load(dy + j); }, [&](Index j, Index part) { return load_part(dy + j, part); }));
    Index j = 0;
    for (; j + kLanes<T> <= n; j += kLanes<T>)
      store(dx + j, load(dx + j) + scales * (load(dy + j) - exp_of<T>(load(y + j)) * total));
    if (const Index part = n - j; part > 0)
      store_part(dx + j, load_part(dx + j, part) + scales * (load_part(dy + j, part) - exp_of<T>(load_part(y + j, part)) * total), part);
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

template <class T> void logsumexp(T* lse, const T* x, Index rows, Index n) {
  for (Index i = 0; i < rows; ++i, x += n) {
    const T top = largest(x, n);
    lse[i] = top + log_total(x, top, T(1), n);
  }
}

template <class T> void add_softmax(T* dx, const T* x, T lse, T a, const T* weight, T b, Index n) {
  const Vec<T> shift = splat<T>(lse), factor = splat<T>(a), constant = splat<T>(b);
  Index j = 0;
  for (; j + kLanes<T> <= n; j += kLanes<T>) {
    const Vec<T> less = weight == nullptr ? constant : constant * load(weight + j);
    store(dx + j, load(dx + j) + (factor * exp_of<T>(load(x + j) - shift) - less));
  }
  if (const Index part = n - j; part > 0) {
    const Vec<T> less = weight == nullptr ? constant : constant * load_part(weight + j, part);
    store_part(dx + j, load_part(dx + j, part) + (factor * exp_of<T>(load_part(x + j, part) - shift) - less), part);
  }
}

template <class T> double sum_centred(const T* x, T lse, const T* weight, Index n) {
  double part[16] = {};
  const auto term = [=](Index j) {
    return static_cast<double>(x[j] - lse) * (weight == nullptr ? 1.0 : static_cast<double>(weight[j]));
  };
  Index j = 0;
  for (; j + 16 <= n; j += 16)
    for (Index k = 0; k < 16; ++k) part[k] += term(j + k);
  for (Index k = 0; j < n; ++j, ++k) part[k] += term(j);
  for (Index width = 8; width > 0; width /= 2)
    for (Index k = 0; k < width; ++k) part[k] += part[k + width];
  return part[0];
}

}  // namespace

template <class T> Softmax<T> softmax_kernels() {
  return {forward<T>, backward<T>, log_forward<T>, log_backward<T>, exclude<T>, logsumexp<T>, add_softmax<T>,
          sum_centred<T>};
}

template Softmax<float> softmax_kernels<float>();
template Softmax<double> softmax_kernels<double>();

}  // namespace qkv::kernels::QKV_ISA
