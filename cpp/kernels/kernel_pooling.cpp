#include "kernels/kernel_pooling.h"

#include "kernels/simd_math.h"

namespace qkv::kernels::QKV_ISA {
namespace {

template <class T> T sum_of(const T* x, Index n) {
  Vec<T> sum = {};
  Index i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) sum += load(x + i);
  if (i < n) sum += load_part(x + i, n - i);
  return horizontal_sum<T>(sum);
}

template <class T> T dot(const T* x, const T* y, Index n) {
  Vec<T> sum = {};
  Index i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) sum += load(x + i) * load(y + i);
  if (i < n) sum += load_part(x + i, n - i) * load_part(y + i, n - i);
  return horizontal_sum<T>(sum);
}

double smallest(const double* x, Index n) {
  if (n == 0) return 0;
  Vec<double> low = splat(x[0]);
  Index i = 0;
  for (; i + kLanes<double> <= n; i += kLanes<double>) low = minimum(load(x + i), low);
  double result = -horizontal_max<double>(-low);
  for (; i < n; ++i) result = x[i] < result ? x[i] : result;
  return result;
}

template <class T> void distances(double* squares, const T* q, const T* kt, Index ld, Index features, Index n) {
  for (Index j = 0; j < n; ++j) squares[j] = 0;
  for (Index f = 0; f < features; ++f, kt += ld) {
    const double at = static_cast<double>(q[f]);
    for (Index j = 0; j < n; ++j) {
      const double d = at - static_cast<double>(kt[j]);
      squares[j] += d * d;
    }
  }
}

template <class T> double weights(T* w, const double* squares, Kernel kernel, double bandwidth, Index n) {
  const double inverse = 1 / bandwidth;
  switch (kernel) {
    case Kernel::gaussian: {
      const double nearest = smallest(squares, n);
      for (Index j = 0; j < n; ++j) w[j] = static_cast<T>((squares[j] - nearest) * inverse * inverse * -0.5);
      map_vectors(w, w, n, [](auto v) { return exp_of<T>(v); });
      break;
    }
    case Kernel::boxcar:
      for (Index j = 0; j < n; ++j) w[j] = __builtin_sqrt(squares[j]) / bandwidth < 1 ? T(1) : T(0);
      break;
    case Kernel::constant:
      for (Index j = 0; j < n; ++j) w[j] = squares[j] < static_cast<double>(INFINITY) ? T(1) : T(0);
      break;
    case Kernel::epanechnikov:
      for (Index j = 0; j < n; ++j) {
        const double y = 1 - squares[j] * inverse * inverse;
        w[j] = y < 0 ? T(0) : static_cast<T>(y);
      }
      break;
    case Kernel::triangular:
      for (Index j = 0; j < n; ++j) {
        const double y = 1 - __builtin_sqrt(squares[j]) * inverse;
        w[j] = y < 0 ? T(0) : static_cast<T>(y);
      }
      break;
  }
  const double total = static_cast<double>(sum_of(w, n));
  if (total == 0) return 0;
  const T scale = static_cast<T>(1 / total);
  for (Index j = 0; j < n; ++j) w[j] *= scale;
  return 1 / total;
}

template <class T> void pool(T* out, const T* w, const T* vt, Index ld, Index features, Index n) {
  for (Index c = 0; c < features; ++c, vt += ld) out[c] = dot(w, vt, n);
}

template <class T>
void pool_backward(T* dw, T* dvt, const T* dout, const T* w, const T* vt, Index ld, Index features, Index n) {
  for (Index c = 0; c < features; ++c, vt += ld) {
    const T slope = dout[c];
    for (Index j = 0; j < n; ++j) dw[j] += slope * vt[j];
    if (dvt == nullptr) continue;
    T* target = dvt + c * ld;
    for (Index j = 0; j < n; ++j) target[j] += slope * w[j];
  }
}

template <class T>
double weights_backward(double* slope, const T* dw, const T* w, double reciprocal, const double* squares, Kernel kernel,
                        double bandwidth, Index n) {
  // A weight of 0 has no slope: the gaussian's because it is negligible, the others' because it lies outside.
  double mean = 0, dbandwidth = 0;
  for (Index j = 0; j < n; ++j) mean += w[j] != 0 ? static_cast<double>(w[j]) * static_cast<double>(dw[j]) : 0.0;
  const double inverse = 1 / bandwidth, inverse2 = inverse * inverse;
  const double nearest = kernel == Kernel::gaussian ? smallest(squares, n) : 0.0;
  for (Index j = 0; j < n; ++j) {
    slope[j] = 0;
    if (w[j] == 0) continue;
    const double centred = static_cast<double>(dw[j]) - mean;
    switch (kernel) {
      case Kernel::gaussian: {
        const double ds = static_cast<double>(w[j]) * centred;
        slope[j] = -ds * inverse2;
        dbandwidth += ds * (squares[j] - nearest) * inverse2 * inverse;  // the sum of ds is 0
        break;
      }
      case Kernel::boxcar:
      case Kernel::constant: break;
      case Kernel::epanechnikov: {
        const double dk = centred * reciprocal;
        slope[j] = -2 * dk * inverse2;
        dbandwidth += 2 * dk * squares[j] * inverse2 * inverse;
        break;
      }
      case Kernel::triangular: {
        const double dk = centred * reciprocal, distance = __builtin_sqrt(squares[j]);
        slope[j] = distance > 0 ? -dk * inverse / distance : 0.0;
        dbandwidth += dk * distance * inverse2;
        break;
      }
    }
  }
  return dbandwidth;
}

template <class T>
void distances_backward(T* dq, T* dkt, const double* slope, const T* q, const T* kt, Index ld, Index features, Index n) {
  for (Index f = 0; f < features; ++f, kt += ld, dkt += ld) {
    const double at = static_cast<double>(q[f]);
    double part[8] = {};
    Index j = 0;
    for (; j + 8 <= n; j += 8)
      for (Index lane = 0; lane < 8; ++lane) {
        const double step = slope[j + lane] * (at - static_cast<double>(kt[j + lane]));
        part[lane] += step;
        dkt[j + lane] -= static_cast<T>(step);
      }
    for (; j < n; ++j) {
      const double step = slope[j] * (at - static_cast<double>(kt[j]));
      part[j % 8] += step;
      dkt[j] -= static_cast<T>(step);
    }
    dq[f] += static_cast<T>(((part[0] + part[4]) + (part[1] + part[5])) + ((part[2] + part[6]) + (part[3] + part[7])));
  }
}

template <class T> T size_of(T x) { return x < 0 ? -x : x; }

template <class T> void values(T* y, const T* u, Kernel kernel, Index n) {
  switch (kernel) {
    case Kernel::gaussian:
      return map_vectors(y, u, n, [](auto v) { return exp_of<T>(v * v * splat<T>(static_cast<T>(-0.5))); });
    case Kernel::boxcar: for (Index i = 0; i < n; ++i) y[i] = size_of(u[i]) < 1 ? T(1) : T(0); return;
    case Kernel::constant: for (Index i = 0; i < n; ++i) y[i] = 1; return;
    case Kernel::epanechnikov: for (Index i = 0; i < n; ++i) y[i] = 1 - u[i] * u[i] < 0 ? T(0) : 1 - u[i] * u[i]; return;
    case Kernel::triangular: for (Index i = 0; i < n; ++i) y[i] = 1 - size_of(u[i]) < 0 ? T(0) : 1 - size_of(u[i]); return;
  }
}

template <class T> void values_backward(T* du, const T* dy, const T* u, Kernel kernel, Index n) {
  switch (kernel) {
    case Kernel::gaussian:
      for (Index i = 0; i < n; ++i) du[i] -= dy[i] * u[i] * static_cast<T>(exp(static_cast<double>(u[i] * u[i]) * -0.5));
      return;
    case Kernel::boxcar:
    case Kernel::constant: return;
    case Kernel::epanechnikov:
      for (Index i = 0; i < n; ++i) du[i] -= size_of(u[i]) < 1 ? 2 * u[i] * dy[i] : T(0);
      return;
    case Kernel::triangular:
      for (Index i = 0; i < n; ++i) du[i] -= size_of(u[i]) < 1 ? (u[i] > 0 ? dy[i] : u[i] < 0 ? -dy[i] : T(0)) : T(0);
      return;
  }
}

}  // namespace

template <class T> KernelPooling<T> kernel_pooling_kernels() {
  return {distances<T>, weights<T>, pool<T>, pool_backward<T>, weights_backward<T>, distances_backward<T>, values<T>, values_backward<T>};
}

template KernelPooling<float> kernel_pooling_kernels<float>();
template KernelPooling<double> kernel_pooling_kernels<double>();

}  // namespace qkv::kernels::QKV_ISA
