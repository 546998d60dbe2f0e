#include "ops/matmul/gemm.h"

#include <algorithm>
#include <optional>

#include "core/array.h"
#include "core/parallel.h"
#include "core/reproducible.h"
#include "kernels/matmul/blas.h"
#include "ops/matmul/packed_pieces.h"

namespace qkv::ops {
namespace {

// How a product is computed.
enum class Method {
  vector,  // one row or one column: the matrix is read once
  blas,    // small: OpenBLAS on the calling thread
  direct,  // of few rows, or small in the packed product's order: on b' as it is, or packed on the calling thread
  packed,  // large: panels of b', packed first, on the pool
};

// Whether m rows are too few for b' to be packed, however large it is; one row reads it as it lies, and a few rows do
// where its lines (the numbers that meet one number of a') are side by side.
bool reads_once(Index m, bool lines) {
  constexpr Index kFewRows = 4;
  return m == 1 || (m <= kFewRows && lines);
}

Method method_for(Index m, Index n, Index k, bool lines) {
  constexpr Index kSmall = Index{1} << 22;  // multiply-adds, some 50 us
  const bool read_once = reads_once(m, lines), many = m * n * k >= kSmall;
  if (m * n * k == 0) return Method::blas;
  if (reproducible()) return read_once || !many ? Method::direct : Method::packed;
  if (m == 1 || n == 1) return Method::vector;
  if (read_once) return Method::direct;
  return many ? Method::packed : Method::blas;
}

// Numbers that are `step` apart, side by side.
template <class T> class Contiguous {
 public:
  Contiguous(const T* x, Index step, Index n) : data_(x) {
    if (step == 1) return;
    T* copy = copy_.emplace(static_cast<std::size_t>(n) * sizeof(T)).template as<T>();
    for (Index i = 0; i < n; ++i) copy[i] = x[i * step];
    data_ = copy;
  }
  const T* data() const { return data_; }

 private:
  std::optional<Scratch> copy_;
  const T* data_;
};

// y (count; step_y) = or += matrix (count, k) @ x (k; step_x), cut by the rows of the result.
template <class T>
void matrix_times_vector(T* y, Index step_y, const kernels::Operand<T>& matrix, const T* x, Index step_x, bool adds,
                         Index count, Index k) {
  const auto& kernel = kernels::kernels<T>().gemv;
  if (!matrix.transposed || count == 1) {
    const Contiguous<T> vector(x, step_x, k), row(matrix.data, count == 1 && matrix.transposed ? matrix.stride : 1, k);
    return parallel_for(0, count, grain_for(k / 4), [&](Index begin, Index end) {
      kernel.rows(y + begin * step_y, step_y, row.data() + begin * matrix.stride, matrix.stride, vector.data(), adds,
                  end - begin, k);
    });
  }
  std::optional<Scratch> sums;
  T* to = step_y == 1 ? y : sums.emplace(static_cast<std::size_t>(count) * sizeof(T)).template as<T>();
  parallel_for(0, count, std::max<Index>(512, grain_for(k / 4)), [&](Index begin, Index end) {
    kernel.columns(to + begin, x, step_x, matrix.data + begin, matrix.stride, adds && step_y == 1, k, end - begin);
  });
  for (Index i = 0; i < count && step_y != 1; ++i) y[i * step_y] = adds ? y[i * step_y] + to[i] : to[i];
}

template <class T>
void vector_gemm(T* c, Index ldc, const kernels::Operand<T>& a, const kernels::Operand<T>& b, bool adds, Index m,
                 Index n, Index k) {
  const auto step = [](const kernels::Operand<T>& vector) { return vector.transposed ? vector.stride : Index{1}; };
  if (m == 1) matrix_times_vector(c, 1, b, a.data, step(a), adds, n, k);
  else matrix_times_vector(c, ldc, a, b.data, step(b), adds, m, k);
}

// Numbers that are packed at a time: 4 MB of floats stay in the last cache while the rows pass by.
constexpr Index kPackedNumbers = Index{1} << 20;
// Steps that are packed at a time: the result is read and written once for each such part.
constexpr Index kPackedDepth = 4096;

// c = c * adds + a' @ b', with panels of b' packed: at 1024^3 119 to 124 GFLOP/s where OpenBLAS gives 98 to 105
// (Cascade Lake, one thread).
template <class T>
void packed_gemm(T* c, Index ldc, kernels::Operand<T> a, kernels::Operand<T> b, bool adds, const T* bias, Index m,
                 Index n, Index k) {
  const Index panel = kernels::kernels<T>().packed_product.panel;
  const Index depth = std::min(k, kPackedDepth);
  const Index width = std::max<Index>(1, kPackedNumbers / (depth * panel)) * panel;
  const Index most = std::min(width, (n + panel - 1) / panel * panel);
  const Scratch packed(static_cast<std::size_t>(depth * most) * sizeof(T));
  for (Index step = 0; step < k; step += depth)
    for (Index column = 0; column < n; column += width) {
      const Index steps = std::min(depth, k - step), columns = std::min(width, n - column);
      pack_panels<T>(packed.as<T>(), {b.at(column, step), b.stride, b.transposed}, columns, steps);
      kernels::Epilogue<T> epilogue;
      epilogue.adds = adds || step > 0;
      if (bias != nullptr && step + steps == k) epilogue.bias = bias + column;
      const kernels::Operand<T> from{a.at(0, step), a.stride, a.transposed};
      const PackedTask<T> task{c + column, ldc, from, packed.as<T>(), epilogue, m, columns, steps};
      multiply_packed<T>({&task, 1});
    }
}

// The same without the pool, but of few rows, whose columns are cut.
template <class T>
void small_gemm(T* c, Index ldc, const kernels::Operand<T>& a, const kernels::Operand<T>& b, bool adds, const T* bias,
                Index m, Index n, Index k) {
  if (reads_once(m, b.transposed))
    return parallel_for(0, n, std::max<Index>(512, grain_for(k * m / 4)), [&](Index begin, Index end) {
      kernels::kernels<T>().small_product.multiply(c + begin, ldc, a, {b.at(begin, 0), b.stride, b.transposed}, adds,
                                                   bias == nullptr ? bias : bias + begin, m, end - begin, k);
    });
  constexpr Index kUnpacked = Index{1} << 20;  // multiply-adds up to which packing does not pay
  if (b.transposed && m * n * k < kUnpacked)
    return kernels::kernels<T>().small_product.multiply(c, ldc, a, b, adds, bias, m, n, k);
  const auto& kernel = kernels::kernels<T>().packed_product;
  const Index panels = (n + kernel.panel - 1) / kernel.panel, numbers = panels * kernel.panel * k;
  const Scratch memory(static_cast<std::size_t>(numbers + kernel.scratch) * sizeof(T));
  kernel.pack(memory.as<T>(), b, n, k);
  kernels::Epilogue<T> epilogue;
  epilogue.adds = adds;
  epilogue.bias = bias;
  kernel.multiply(c, ldc, a, memory.as<T>(), epilogue, memory.as<T>() + numbers, m, n, k, 0, panels, nullptr);
}

// One column as one row, since lanes of a row are other columns: c' (1, m) = b' (1, k) @ a'.
template <class T>
void small_column(T* c, Index ldc, const kernels::Operand<T>& a, const kernels::Operand<T>& b, bool adds, const T* bias,
                  Index m, Index k) {
  const Contiguous<T> row(b.data, b.transposed ? b.stride : 1, k);
  std::optional<Scratch> column;
  T* to = ldc == 1 ? c : column.emplace(static_cast<std::size_t>(m) * sizeof(T)).template as<T>();
  for (Index i = 0; adds && ldc != 1 && i < m; ++i) to[i] = c[i * ldc];
  small_gemm<T>(to, m, {row.data(), k, false}, {a.data, a.stride, a.transposed}, adds, nullptr, 1, m, k);
  for (Index i = 0; i < m && (ldc != 1 || bias != nullptr); ++i) c[i * ldc] = bias == nullptr ? to[i] : to[i] + *bias;
}

}  // namespace

template <class T>
void gemm(T* c, Index ldc, const T* a, Index lda, bool transpose_a, const T* b, Index ldb, bool transpose_b, bool adds,
          Index m, Index n, Index k, const T* bias) {
  const kernels::Operand<T> left{a, lda, transpose_a}, right{b, ldb, !transpose_b};
  switch (n == 1 && reproducible() ? method_for(n, m, k, transpose_a) : method_for(m, n, k, !transpose_b)) {
    case Method::packed:
      return packed_gemm<T>(c, ldc, left, right, adds, bias, m, n, k);
    case Method::direct:
      if (n == 1) return small_column<T>(c, ldc, left, right, adds, bias, m, k);
      return small_gemm<T>(c, ldc, left, right, adds, bias, m, n, k);
    case Method::vector:
      vector_gemm<T>(c, ldc, left, right, adds, m, n, k);
      break;
    case Method::blas:
      kernels::gemm(c, ldc, a, lda, transpose_a, b, ldb, transpose_b, adds, m, n, k);
  }
  if (bias == nullptr) return;
  for (Index i = 0; i < m; ++i) kernels::kernels<T>().elementwise.add_scaled(c + i * ldc, bias, T(1), n);
}

template void gemm(float*, Index, const float*, Index, bool, const float*, Index, bool, bool, Index, Index, Index,
                   const float*);
template void gemm(double*, Index, const double*, Index, bool, const double*, Index, bool, bool, Index, Index, Index,
                   const double*);

namespace {

// Whether all numbers of a matrix are finite.
template <class T> bool finite(const T* x, Index ld, Index rows, Index columns) {
  const auto& kernel = kernels::kernels<T>().weighted_values;
  if (ld == columns) return kernel.finite(x, rows * columns);
  for (Index i = 0; i < rows; ++i)
    if (!kernel.finite(x + i * ld, columns)) return false;
  return true;
}

// A matrix whose slice s is what meets step s of the sum.
template <class T> struct Slices {
  const T* data;
  Index ld, count, size;
  bool columns;  // slices are in the matrix's columns
  T at(Index s, Index i) const { return columns ? data[i * ld + s] : data[s * ld + i]; }
  bool all_finite() const { return columns ? finite(data, ld, size, count) : finite(data, ld, count, size); }
};

// c (m, n) += sum of left slice s times right slice s, over slices of `other` that are not finite, where the gradient
// is not 0; and a copy of `other` without them.
template <class T>
Array without_infinite(T* c, Index ldc, const Slices<T>& gradient, const Slices<T>& other, bool gradient_left) {
  Array rest({other.count, other.size}, dtype_v<T>);
  for (Index s = 0; s < other.count; ++s) {
    T* line = rest.data<T>() + s * other.size;
    for (Index i = 0; i < other.size; ++i) line[i] = other.at(s, i);
    if (finite(line, other.size, 1, other.size)) continue;
    for (Index g = 0; g < gradient.size; ++g) {
      const T weight = gradient.at(s, g);
      if (weight == 0) continue;
      for (Index i = 0; i < other.size; ++i) c[gradient_left ? g * ldc + i : i * ldc + g] += weight * line[i];
    }
    std::fill_n(line, other.size, T(0));
  }
  return rest;
}

}  // namespace

template <class T>
void gradient_gemm(GradientSide side, T* c, Index ldc, const T* a, Index lda, bool transpose_a, const T* b, Index ldb,
                   bool transpose_b, bool adds, Index m, Index n, Index k) {
  const bool left = side == GradientSide::left;
  const Slices<T> lefts{a, lda, k, m, !transpose_a}, rights{b, ldb, k, n, transpose_b};
  const Slices<T>& other = left ? rights : lefts;
  // The smaller of the other operand and the result is searched.
  const bool first = adds || other.count * other.size <= m * n;
  if (!first || other.all_finite()) {
    gemm<T>(c, ldc, a, lda, transpose_a, b, ldb, transpose_b, adds, m, n, k);
    if (first || finite(c, ldc, m, n) || other.all_finite()) return;
  }
  if (!adds)
    for (Index i = 0; i < m; ++i) std::fill_n(c + i * ldc, n, T(0));
  const Array rest = without_infinite(c, ldc, left ? lefts : rights, other, left);
  if (left) gemm<T>(c, ldc, a, lda, transpose_a, rest.data<T>(), n, false, true, m, n, k);
  else gemm<T>(c, ldc, rest.data<T>(), m, true, b, ldb, transpose_b, true, m, n, k);
}

template void gradient_gemm(GradientSide, float*, Index, const float*, Index, bool, const float*, Index, bool, bool,
                            Index, Index, Index);
template void gradient_gemm(GradientSide, double*, Index, const double*, Index, bool, const double*, Index, bool, bool,
                            Index, Index, Index);

}  // namespace qkv::ops
