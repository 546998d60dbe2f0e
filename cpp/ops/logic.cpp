// Booleans, and integers bit by bit.
#include <cstring>
#include <functional>

#include "ops/reductions.h"
#include "ops/runs.h"

namespace qkv::ops {
namespace {

using Byte = std::uint8_t;  // a boolean, 0 or 1
Byte* bytes(bool* x) { return reinterpret_cast<Byte*>(x); }
const Byte* bytes(const bool* x) { return reinterpret_cast<const Byte*>(x); }

template <class N> void combine(Bitwise op, N* y, const N* a, Index sa, const N* b, Index sb, Index n) {
  const auto run = [=](auto f) { each_of_run(y, a, sa, b, sb, n, [f](N p, N q) { return static_cast<N>(f(p, q)); }); };
  switch (op) {
    case Bitwise::bit_and:
      return run(std::bit_and());
    case Bitwise::bit_or:
      return run(std::bit_or());
    case Bitwise::bit_xor:
      break;
  }
  run(std::bit_xor());
}

void check_dtype(const char* operation, const Tensor& x) {
  if (is_floating(x.dtype()))
    fail_type(operation, ": operands must be booleans or integers because bits of floating numbers mean nothing; got ",
              x.dtype());
}

}  // namespace

const char* name_of(Bitwise op) {
  constexpr const char* names[] = {"bitwise_and", "bitwise_or", "bitwise_xor"};
  return names[static_cast<std::size_t>(op)];
}

Tensor bitwise(Bitwise op, const Tensor& a, const Tensor& b) {
  check_dtype(name_of(op), a);
  check_dtype(name_of(op), b);
  const Shape shape = broadcast_or_fail(name_of(op), a.shape(), b.shape());
  if (a.dtype() == DType::boolean && b.dtype() == DType::boolean) {
    Array y(shape, DType::boolean);
    for_each_run<bool, bool, bool>(y, a.data(), b.data(),
                                   [op](bool* out, const bool* p, Index sp, const bool* q, Index sq, Index n) {
                                     combine(op, bytes(out), bytes(p), sp, bytes(q), sq, n);
                                   });
    return Tensor(std::move(y));
  }
  using I = std::int64_t;
  Array y(shape, DType::int64);
  for_each_run<I, I, I>(
      y, packed_as(a, DType::int64).data(), packed_as(b, DType::int64).data(),
      [op](I* out, const I* p, Index sp, const I* q, Index sq, Index n) { combine(op, out, p, sp, q, sq, n); });
  return Tensor(std::move(y));
}

Tensor invert(const Tensor& x) {
  check_dtype("invert", x);
  const Array ones = x.dtype() == DType::boolean ? Array::full({}, DType::boolean, true)
                                                 : Array::full({}, DType::int64, std::int64_t{-1});
  return bitwise(Bitwise::bit_xor, x, Tensor(ones));
}

namespace {

// Whether all, or any, of n numbers are not 0; ends at the first block that decides.
template <class T> bool truth_of_row(const T* x, Index n, bool all) {
  constexpr Index kBlock = 64;
  Index i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    int zeros = 0;
    for (Index k = 0; k < kBlock; ++k) zeros += static_cast<int>(x[i + k] == T{});
    if (zeros != (all ? 0 : kBlock)) return !all;
  }
  while (i < n && (x[i] != T{}) == all) ++i;
  return (i == n) == all;
}
bool truth_of_row(const bool* x, Index n, bool all) {
  return (std::memchr(x, all ? 0 : 1, static_cast<std::size_t>(n)) == nullptr) == all;
}

// y and x, or y or x. Not by combine(), whose loops are vectors only where y is no operand.
void truth_of_columns(bool* y, const bool* x, Index n, bool all) {
  Byte* to = bytes(y);
  const Byte* from = bytes(x);
  if (all)
    for (Index i = 0; i < n; ++i) to[i] &= from[i];
  else
    for (Index i = 0; i < n; ++i) to[i] |= from[i];
}

Tensor truth(const char* operation, const Tensor& x, const std::optional<Axes>& axes, bool keepdims, bool all) {
  const ReducedAxes p = reduced_axes(operation, x.shape(), axes, keepdims);
  const Array result = by_runs(packed(x.data()), p, [&](Array from, const Run& run, const Shape& shape) {
    const Array y = Array::full(shape, DType::boolean, all);
    const Index n = run.n, inner = run.inner;
    if (inner > 1) from = from.cast(DType::boolean);
    visit_any(from.dtype(), [&]<class T>(T) {
      parallel_for(0, run.outer, grain_for(n * inner), [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) {
          const T* rows = from.data<T>() + i * n * inner;
          bool* to = y.data<bool>() + i * inner;
          if (inner == 1) to[0] = truth_of_row(rows, n, all);
          if constexpr (std::is_same_v<T, bool>)
            for (Index row = 0; inner > 1 && row < n; ++row) truth_of_columns(to, rows + row * inner, inner, all);
        }
      });
    });
    return y;
  });
  return Tensor(result.cast(DType::boolean));
}

}  // namespace

Tensor all(const Tensor& x, const std::optional<Axes>& axes, bool keepdims) {
  return truth("all", x, axes, keepdims, true);
}

Tensor any(const Tensor& x, const std::optional<Axes>& axes, bool keepdims) {
  return truth("any", x, axes, keepdims, false);
}

}  // namespace qkv::ops
