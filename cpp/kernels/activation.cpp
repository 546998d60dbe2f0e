#include "kernels/activation.h"

#include <math.h>

#include "kernels/simd/family.h"
#include "kernels/simd/math.h"
#include "kernels/simd/sums.h"

namespace qkv::kernels::QKV_ISA {
namespace {

constexpr double kRootHalf = 0.70710678118654752440;       // sqrt(1/2)
constexpr double kRootTwoOverPi = 0.79788456080286535588;  // sqrt(2/pi)
constexpr double kNormal = 0.39894228040143267794;         // 1/sqrt(2 pi)
constexpr double kCubic = 0.044715;

template <class T> inline Vec<T> all(double x) { return splat<T>(static_cast<T>(x)); }

// Below this 1 + erf and 1 + tanh lose their digits to the 1.
constexpr double kTail = -3;

// exp(x^2 / 2) times the distribution function of the normal distribution at -x, in a / (a + x): relative error 6e-8 up
// to 14.6, of double 5e-16 up to 38.7, where the function vanishes.
template <class T> struct NormalTail;
template <> struct NormalTail<float> {
  static constexpr float kApart = 3;
  static constexpr float kTerms[7] = {-9.7853954e-06f, 0.133221537f, 0.130489901f,  0.132253096f,
                                      0.0421028361f,   0.138823897f, -0.0774925649f};
};
template <> struct NormalTail<double> {
  static constexpr double kApart = 4;
  static constexpr double kTerms[17] = {
      -4.11785961790961e-12, 0.09973557039764361,  0.09973556030348849,  0.09350229261616956,   0.0810324999940155,
      0.06352934909797825,   0.043057167898028575, 0.02443350334706328,  0.0028143151795925535, 0.011129774746596858,
      -0.04176673038656314,  0.0601554110638217,   -0.08765914951444616, 0.07980765808176932,   -0.03395258162916772,
      0.0031644393024487087, 0.0012844649238595344};
};

// Whether any lane is below kTail, in as few instructions as there are.
inline bool reaches_tail(Vec<float> x) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(static_cast<float>(kTail)), _CMP_LT_OQ) != 0;
#elif defined(__AVX2__)
  return _mm256_movemask_ps(_mm256_cmp_ps((__m256)x, _mm256_set1_ps(static_cast<float>(kTail)), _CMP_LT_OQ)) != 0;
#else
  return any(x < all<float>(kTail));
#endif
}
inline bool reaches_tail(Vec<double> x) {
#if defined(__AVX512F__)
  return _mm512_cmp_pd_mask((__m512d)x, _mm512_set1_pd(kTail), _CMP_LT_OQ) != 0;
#elif defined(__AVX2__)
  return _mm256_movemask_pd(_mm256_cmp_pd((__m256d)x, _mm256_set1_pd(kTail), _CMP_LT_OQ)) != 0;
#else
  return any(x < all<double>(kTail));
#endif
}

// f(x), but in lanes below kTail that of `tail`, which most vectors do without.
template <class T, class F, class Tail> inline Vec<T> with_tail(Vec<T> x, F f, Tail tail) {
  const Vec<T> y = f(x);
  if (__builtin_expect(!reaches_tail(x), 1)) return y;
  return select(x < all<T>(kTail), tail(x), y);
}

// The distribution function of the normal distribution.
template <class T> __attribute__((noinline)) Vec<T> normal_tail(Vec<T> x) {
  using C = NormalTail<T>;
  const Vec<T> apart = splat<T>(C::kApart);
  return exp_of_negative<T>(all<T>(-0.5) * x * x) * math::polynomial<T>(apart / (apart - x), C::kTerms);
}
template <class T> inline Vec<T> normal_cdf(Vec<T> x) {
  return with_tail<T>(
      x, [](Vec<T> v) { return fused(all<T>(0.5), erf_of<T>(v * all<T>(kRootHalf)), all<T>(0.5)); },
      [](Vec<T> v) { return normal_tail<T>(v); });
}

// The polynomial whose (1 + tanh) / 2 approximates the distribution function in gelu's approximate form.
template <class T> inline Vec<T> inner_of(Vec<T> x) {
  return all<T>(kRootTwoOverPi) * fused(all<T>(kCubic) * x * x, x, x);
}
template <class T> inline Vec<T> inner_derivative(Vec<T> x) {
  return all<T>(kRootTwoOverPi) * fused(all<T>(3 * kCubic) * x, x, all<T>(1));
}
template <class T> inline Vec<T> approximate_cdf(Vec<T> x) {
  return with_tail<T>(
      x, [](Vec<T> v) { return fused(all<T>(0.5), tanh_of<T>(inner_of<T>(v)), all<T>(0.5)); },
      [](Vec<T> v) { return sigmoid_of<T>(all<T>(2) * inner_of<T>(v)); });
}

template <class T> inline Vec<T> softplus_of(Vec<T> x) {
  return maximum(x, Vec<T>{}) + log1p_of<T>(exp_of_negative<T>(-absolute(x)));
}

// x, cut at -a and a.
template <class T> inline Vec<T> cut(Vec<T> x, T a) {
  return select(x > splat<T>(a), splat<T>(a), select(x < splat<T>(-a), splat<T>(-a), x));
}

template <class T> void forward(Activation f, T* y, const T* x, T a, Index n) {
  // x times a share that vanishes at -inf, where the product would be NaN.
  const auto times_share = [=](auto share) {
    const Vec<T> lowest = -splat<T>(static_cast<T>(INFINITY)), zero = {};
    map_vectors(y, x, n, [=](Vec<T> v) { return select(v == lowest, zero, v * share(v)); });
  };
  switch (f) {
    case Activation::relu:
      return map_vectors(y, x, n, [](Vec<T> v) { return select(v <= Vec<T>{}, Vec<T>{}, v); });
    case Activation::gelu:
      return times_share([](Vec<T> v) { return normal_cdf<T>(v); });
    case Activation::gelu_tanh:
      return times_share([](Vec<T> v) { return approximate_cdf<T>(v); });
    case Activation::tanh:
      return map_vectors(y, x, n, [](Vec<T> v) { return tanh_of<T>(v); });
    case Activation::sigmoid:
      return map_vectors(y, x, n, [](Vec<T> v) { return sigmoid_of<T>(v); });
    case Activation::silu:
      return times_share([](Vec<T> v) { return sigmoid_of<T>(v); });
    case Activation::leaky_relu:
      return map_vectors(y, x, n, [=](Vec<T> v) { return select(v > Vec<T>{}, v, v * splat<T>(a)); });
    case Activation::elu:
      return map_vectors(
          y, x, n, [=](Vec<T> v) { return select(v > Vec<T>{}, v, splat<T>(a) * expm1_of<T>(minimum(Vec<T>{}, v))); });
    case Activation::softplus:
      return map_vectors(y, x, n, [=](Vec<T> v) { return softplus_of<T>(v * splat<T>(a)) / splat<T>(a); });
    case Activation::huber:
      return map_vectors(y, x, n, [=](Vec<T> v) { return cut<T>(v, a) * fused(all<T>(-0.5), cut<T>(v, a), v); });
  }
}

template <class T> void backward(Activation f, T* dx, const T* dy, const T* saved, T a, Index n) {
  switch (f) {
    case Activation::relu:
      return each_vector<T>(n, [&](Index i, auto at) {
        const Vec<T> zero = {};
        at.put(dx + i, select(at(saved + i) <= zero, zero, at(dy + i)));
      });
    case Activation::gelu:  // Phi(x) + x phi(x)
      return put_gradients(dx, dy, saved, n, [](Vec<T> x) {
        return fused(x, all<T>(kNormal) * exp_of_negative<T>(all<T>(-0.5) * x * x), normal_cdf<T>(x));
      });
    case Activation::gelu_tanh:
      return put_gradients(dx, dy, saved, n, [](Vec<T> x) {
        const Vec<T> share = approximate_cdf<T>(x);       // (1 + t) / 2, whose derivative is (1 + t) (1 - t) / 2
        const Vec<T> rest = share * (all<T>(1) - share);  // where it is 0, the other factors may be infinite
        return select(rest == Vec<T>{}, share, fused(all<T>(2) * x * rest, inner_derivative<T>(x), share));
      });
    case Activation::tanh:
      return put_gradients(dx, dy, saved, n, [](Vec<T> y) { return fused(-y, y, all<T>(1)); });
    case Activation::sigmoid:
      return put_gradients(dx, dy, saved, n, [](Vec<T> y) { return y * (all<T>(1) - y); });
    case Activation::silu:
      return put_gradients(dx, dy, saved, n, [](Vec<T> x) {
        const Vec<T> s = sigmoid_of<T>(x);
        return fused(x, s * sigmoid_of<T>(-x), s);
      });
    case Activation::leaky_relu:
      return put_gradients(dx, dy, saved, n, [=](Vec<T> x) { return select(x > Vec<T>{}, all<T>(1), splat<T>(a)); });
    case Activation::elu:
      return put_gradients(dx, dy, saved, n, [=](Vec<T> x) {
        return select(x > Vec<T>{}, all<T>(1), splat<T>(a) * exp_of<T>(minimum(Vec<T>{}, x)));
      });
    case Activation::softplus:
      return put_gradients(dx, dy, saved, n, [=](Vec<T> x) { return sigmoid_of<T>(x * splat<T>(a)); });
    case Activation::huber:
      return put_gradients(dx, dy, saved, n, [=](Vec<T> x) { return cut<T>(x, a); });
  }
}

}  // namespace

QKV_FAMILY(Activations, forward<T>, backward<T>)

}  // namespace qkv::kernels::QKV_ISA
