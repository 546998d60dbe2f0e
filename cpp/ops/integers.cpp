#include "ops/integers.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/runs.h"

namespace qkv::ops {
namespace {

using I = std::int64_t;
using U = std::uint64_t;  // wraps where int64 would be undefined

I wrapped(U value) { return static_cast<I>(value); }

I power(I base, I exponent) {
  U result = 1, square = static_cast<U>(base);
  for (; exponent > 0; exponent >>= 1, square *= square)
    if ((exponent & 1) != 0) result *= square;
  return wrapped(result);
}

I floor_quotient(I a, I b) {
  if (b == 0) return 0;
  if (b == -1) return wrapped(-static_cast<U>(a));  // of -2^63 it wraps
  return a / b - static_cast<I>(a % b != 0 && (a < 0) != (b < 0));
}

I floor_remainder(I a, I b) {
  if (b == 0 || b == -1) return 0;
  const I rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

template <class N = I, class F>
Array each_pair(const Array& left, const Array& right, const Shape& shape, DType dtype, F f) {
  using Y = std::invoke_result_t<F, N, N>;
  const Array a = left.cast(dtype_v<N>), b = right.cast(dtype_v<N>);
  Array y(shape, dtype);
  for_each_run<Y, N, N>(y, a, b, [f](Y* out, const N* p, Index sp, const N* q, Index sq, Index n) {
    each_of_run(out, p, sp, q, sq, n, f);
  });
  return y;
}

// How many of them are true: eight at a time, whose bytes a product adds up in its highest one.
I count(const bool* x, Index n) {
  U total = 0, word;
  Index i = 0;
  for (; i + 8 <= n; i += 8) {
    std::memcpy(&word, x + i, sizeof word);
    total += word * 0x0101010101010101u >> 56;
  }
  for (; i < n; ++i) total += static_cast<U>(x[i]);
  return wrapped(total);
}

// f of all numbers over the reduced axes, in any order, from `start`. f takes a row of booleans, too, if it can.
template <class F> Array folded(const Array& input, const ReducedAxes& p, I start, F f) {
  const Array y = by_runs(packed(input), p, [&](const Array& x, const Run& run, const Shape& shape) {
    Array part(shape, DType::int64);
    const auto fold = [&]<class N>(const N* from) {
      const auto row = [=](const N* numbers, Index n) {
        if constexpr (std::is_invocable_v<F, const N*, Index>) return f(numbers, n);
        I totals[4] = {start, start, start, start};  // none waits for the one before
        Index k = 0;
        for (; k + 4 <= n; k += 4)
          for (Index i = 0; i < 4; ++i) totals[i] = f(totals[i], static_cast<I>(numbers[k + i]));
        for (; k < n; ++k) totals[0] = f(totals[0], static_cast<I>(numbers[k]));
        return f(f(totals[0], totals[1]), f(totals[2], totals[3]));
      };
      each_line(
          part.data<I>(), from, run,
          [=](I* to, const N* numbers, Index count, Index n) {
            for (Index i = 0; i < count; ++i) to[i] = row(numbers + i * n, n);
          },
          [=](I* to, const N* numbers, Index step, Index n, Index width) {
            std::fill_n(to, width, start);
            for (Index k = 0; k < n; ++k, numbers += step)
              for (Index j = 0; j < width; ++j) to[j] = f(to[j], static_cast<I>(numbers[j]));
          });
    };
    if (x.dtype() == DType::boolean) fold(x.data<bool>());
    else fold(x.data<I>());
    return part;
  });
  return y.cast(DType::int64);
}

struct Sum {
  I operator()(I a, I b) const { return wrapped(static_cast<U>(a) + static_cast<U>(b)); }
  I operator()(const bool* x, Index n) const { return count(x, n); }
};

}  // namespace

Array integer_binary(Binary op, const Array& a, const Array& b, const Shape& shape) {
  const auto pairs = [&](auto f) { return each_pair(a, b, shape, DType::int64, f); };
  switch (op) {
    case Binary::add:
      return pairs([](I p, I q) { return wrapped(static_cast<U>(p) + static_cast<U>(q)); });
    case Binary::subtract:
      return pairs([](I p, I q) { return wrapped(static_cast<U>(p) - static_cast<U>(q)); });
    case Binary::multiply:
      return pairs([](I p, I q) { return wrapped(static_cast<U>(p) * static_cast<U>(q)); });
    case Binary::maximum:
      return pairs([](I p, I q) { return std::max(p, q); });
    case Binary::minimum:
      return pairs([](I p, I q) { return std::min(p, q); });
    case Binary::floor_divide:
      return pairs(floor_quotient);
    case Binary::remainder:
      return pairs(floor_remainder);
    case Binary::fmod:
      return pairs([](I p, I q) { return q == 0 || q == -1 ? I{0} : p % q; });
    case Binary::power: {
      const Array exponents = b.cast(DType::int64);
      if (std::any_of(exponents.data<I>(), exponents.data<I>() + exponents.numel(), [](I e) { return e < 0; }))
        fail_value(
            "power: exponents of integers must not be negative because the result would be no integer; got a negative "
            "one");
      return pairs(power);
    }
    case Binary::divide:
    case Binary::gradient_times:  // of floating gradients alone
    case Binary::gradient_over:
      break;
  }
  // As in NumPy, each number is rounded to float64 before the division.
  const auto quotient = [](I p, I q) { return static_cast<double>(p) / static_cast<double>(q); };
  return each_pair(a, b, shape, DType::float64, quotient);
}

Array integer_compare(Compare op, const Array& a, const Array& b, const Shape& shape) {
  const bool of_booleans = a.dtype() == DType::boolean && b.dtype() == DType::boolean;
  const auto pairs = [&](auto f) {
    return of_booleans ? each_pair<bool>(a, b, shape, DType::boolean, f) : each_pair(a, b, shape, DType::boolean, f);
  };
  switch (op) {
    case Compare::equal:
      return pairs([](auto p, auto q) { return p == q; });
    case Compare::not_equal:
      return pairs([](auto p, auto q) { return p != q; });
    case Compare::less:
      return pairs([](auto p, auto q) { return p < q; });
    case Compare::less_equal:
      return pairs([](auto p, auto q) { return p <= q; });
    case Compare::greater:
      return pairs([](auto p, auto q) { return p > q; });
    case Compare::greater_equal:
      break;
  }
  return pairs([](auto p, auto q) { return p >= q; });
}

Array integer_unary(Unary op, const Array& input) {
  const Array x = input.cast(DType::int64);
  Array y(x.shape(), DType::int64);
  const bool negate = op == Unary::negate;
  std::transform(x.data<I>(), x.data<I>() + x.numel(), y.data<I>(), [negate](I value) {
    const U turned = negate || value < 0 ? ~U{0} : 0;  // all bits, of numbers that change their sign
    return wrapped((static_cast<U>(value) ^ turned) - turned);
  });
  return y;
}

Array cut_to_width(const Array& x, int bytes, bool has_sign) {
  const int above = 64 - 8 * bytes;
  const auto cut = [=](I value) {
    const U shifted = static_cast<U>(value) << above;
    return has_sign ? wrapped(shifted) >> above : wrapped(shifted >> above);
  };
  const Array numbers = packed(x);
  const I* p = numbers.data<I>();
  const U half = has_sign ? U{1} << (8 * bytes - 1) : 0;
  U beyond = 0;  // of all together, because a loop that may end anywhere takes three times as long
  if (above > 0)
    for (Index i = 0; i < x.numel(); ++i) beyond |= (static_cast<U>(p[i]) + half) >> (8 * bytes);
  if (beyond == 0) return x;
  Array y(x.shape(), DType::int64);
  std::transform(p, p + x.numel(), y.data<I>(), cut);
  return y;
}

Array integer_matmul(const Array& a, const Array& b, const Shape& batch) {
  const Index m = a.dim(-2), k = a.dim(-1), n = b.dim(-1);
  Shape shape = batch;
  shape.push_back(m);
  shape.push_back(n);
  Array y = Array::zeros(shape, DType::int64);
  const auto strides = [&](const Array& x) {
    return broadcast_strides(Shape(x.shape().begin(), x.shape().end() - 2), batch);
  };
  const Strides sa = strides(a), sb = strides(b);
  parallel_for(0, y.numel() == 0 ? 0 : batch.numel() * m, grain_for(k * n), [&](Index begin, Index end) {
    for (Index row = begin; row < end; ++row) {
      const I* p = a.data<I>() + (offset_of(row / m, batch, sa) * m + row % m) * k;
      const I* q = b.data<I>() + offset_of(row / m, batch, sb) * k * n;
      I* out = y.data<I>() + row * n;
      for (Index i = 0; i < k; ++i, q += n)
        for (Index j = 0; j < n; ++j)
          out[j] = wrapped(static_cast<U>(out[j]) + static_cast<U>(p[i]) * static_cast<U>(q[j]));
    }
  });
  return y;
}

Array integer_sum(const Array& x, const ReducedAxes& p) { return folded(x, p, 0, Sum()); }

Array integer_product(const Array& x, const ReducedAxes& p) {
  return folded(x, p, 1, [](I a, I b) { return wrapped(static_cast<U>(a) * static_cast<U>(b)); });
}

Array integer_extreme(bool largest, const Array& x, const ReducedAxes& p) {
  using Limits = std::numeric_limits<I>;
  if (largest) return folded(x, p, Limits::min(), [](I a, I b) { return std::max(a, b); });
  return folded(x, p, Limits::max(), [](I a, I b) { return std::min(a, b); });
}

Array integer_place(bool largest, const Array& rows, Index length, const Shape& result) {
  const Array numbers = rows.cast(DType::int64).reshaped({result.numel(), length});
  const Array best = integer_extreme(largest, numbers, reduced_axes("argmax", numbers.shape(), Axes{1}, false));
  Array y(result, DType::int64);
  parallel_for(0, y.numel(), grain_for(length), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const I* row = numbers.data<I>() + i * length;
      y.data<I>()[i] = std::find(row, row + length, best.data<I>()[i]) - row;
    }
  });
  return y;
}

}  // namespace qkv::ops
