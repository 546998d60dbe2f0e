// Runs the programs of formulas on tiles of scores: each instruction on a strip of keys that stays in the first-level
// cache, then the next strip. Operands are read where they lie, no matter what they belong to.
#include "kernels/attention/formula.h"

#include <math.h>

#include "kernels/attention/formula_sums.h"
#include "kernels/simd/division.h"
#include "kernels/simd/fast_tanh.h"
#include "kernels/simd/trigonometry.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// Rounded down; 0 for a divisor of 0. The quotient of integers of 32 bits in double never reaches the next integer.
template <class T> inline Mask<T> quotient_of(Mask<T> a, Mask<T> b) {
  typedef double Wide __attribute__((vector_size(kLanes<T> * 8)));
  const Mask<T> none = (Mask<T>)(b == 0), divisor = b - none;
  const Mask<T> q =
      __builtin_convertvector(__builtin_convertvector(a, Wide) / __builtin_convertvector(divisor, Wide), Mask<T>);
  const Mask<T> rest = a - q * divisor;
  return (q + ((Mask<T>)(rest != 0) & (Mask<T>)((rest ^ divisor) < 0))) & ~none;
}

template <class T> inline Vec<T> gathered(const T* table, Vec<T> at) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return (Vec<T>)_mm512_mask_i32gather_ps((__m512)Vec<T>{}, 0xffff, (__m512i)at, table, 4);
  else return (Vec<T>)_mm512_mask_i64gather_pd((__m512d)Vec<T>{}, 0xff, (__m512i)at, table, 8);
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4)
    return (Vec<T>)_mm256_i32gather_ps(reinterpret_cast<const float*>(table), (__m256i)at, 4);
  else return (Vec<T>)_mm256_i64gather_pd(reinterpret_cast<const double*>(table), (__m256i)at, 8);
#else
  const Mask<T> index = bits(at);
  Vec<T> y;
  for (Index i = 0; i < kLanes<T>; ++i) y[i] = table[index[i]];
  return y;
#endif
}

#if defined(__AVX512F__)
constexpr Index kShortTable = 32;
// Two registers hold a table of n <= kShortTable numbers: a third of a gather's time.
inline Vec<float> gathered_short(Vec<float> low, Vec<float> high, Vec<float> at) {
  return (Vec<float>)_mm512_permutex2var_ps((__m512)low, (__m512i)at, (__m512)high);
}
#endif

template <class T> void read_table(const BoundInstruction<T>& s, const FormulaRun<T>& r) {
  const FormulaLeaf<T>& leaf = r.formula->leaves[s.in->leaf];
  const auto table = [&](Index lane) {
    return leaf.data + r.block->batch * leaf.batch + r.block->head[lane] * leaf.head;
  };
  const bool one_table = r.block->same_head || leaf.head == 0;
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    const Index n = table_size(leaf), w = kLanes<T>;
    if (one_table && n <= kShortTable) {
      const T* first = table(0);
      const Vec<T> low = n < w ? load_part(first, n) : load(first), high = n > w ? load_part(first + w, n - w) : low;
      return each_pair(s, r, [=](Vec<T> a) { return gathered_short(low, high, a); }, s.a);
    }
  }
#endif
  if (one_table) return each_pair(s, r, [first = table(0)](Vec<T> a) { return gathered<T>(first, a); }, s.a);
  for (Index v = 0; v < r.part->vectors; ++v)
    for (Index l = 0; l < r.lines; ++l) {
      const Mask<T> at = bits(load(s.a.p + v * s.a.vector + l * s.a.line));
      for (Index i = 0; i < kLanes<T>; ++i)
        s.out[l * r.block->width + v * kLanes<T> + i] = table(r.lane() + v * kLanes<T> + i)[at[i]];
    }
}

template <class T> void read_rows(const BoundInstruction<T>& s, const FormulaRun<T>& r) {
  const FormulaLeaf<T>& begins = r.formula->leaves[s.in->a];
  const T* table = r.formula->leaves[s.in->leaf].data + r.key + r.line;
  for (Index v = 0; v < r.part->vectors; ++v) {
    const T* rows[kLanes<T>];
    for (Index i = 0; i < kLanes<T>; ++i) rows[i] = table + row_begin(begins, *r.block, r.lane() + v * kLanes<T> + i);
    columns_from_far_rows(s.out + v * kLanes<T>, r.block->width, rows, r.lines);
  }
}

// Notes that an index lies outside, unless all such pairs are excluded.
template <class T> void note_outside(const BoundInstruction<T>& s, const FormulaRun<T>& r) {
  const RowBlock<T>& block = *r.block;
  const auto& mask = block.problem->mask;
  const auto size = static_cast<Index>(s.in->size);
  for (Index l = 0; l < r.lines; ++l)
    for (Index i = 0; i < r.rows(); ++i) {
      const T* vector = s.a.p + l * s.a.line + i / kLanes<T> * s.a.vector;
      const auto at = static_cast<Index>(bits(load(vector))[i % kLanes<T>]);
      if (at >= -size && at < size) continue;
      const Index lane = r.lane() + i, j = r.line + l;
      if (r.key + j < block.low[lane] || r.key + j >= block.high[lane]) continue;
      if (mask.data != nullptr && !*mask.at(block.batch, block.head[lane], block.query[lane], r.key + j)) continue;
      if (r.allowed != nullptr && !r.allowed[j * block.width + lane]) continue;
      __atomic_store_n(r.formula->outside + s.in->leaf, 1, __ATOMIC_RELAXED);
      return;
    }
}

template <class T, FormulaOp OP> void execute(const BoundInstruction<T>& s, const FormulaRun<T>& r) {
  using N = Vec<T>;
  using M = Mask<T>;
  using Op = FormulaOp;
  using Integer = typename VectorTypes<T>::Integer;
  const auto one = [&](auto f) { each_pair(s, r, f, s.a); };
  const auto two = [&](auto f) { each_pair(s, r, f, s.a, s.b); };
  const auto three = [&](auto f) { each_pair(s, r, f, s.a, s.b, s.c); };
  const auto four = [&](auto f) { each_pair(s, r, f, s.a, s.b, s.c, s.d); };
  // Of integers and masks; a comparison's type is not the same for all compilers.
  const auto integer = [&](auto f) { one([f](N a) { return from_bits((M)f(bits(a))); }); };
  const auto integers = [&](auto f) { two([f](N a, N b) { return from_bits((M)f(bits(a), bits(b))); }); };
  const auto comparison = [&](auto f) { two([f](N a, N b) { return from_bits((M)f(a, b)); }); };
  const N unit = splat<T>(1), lowest = splat<T>(static_cast<T>(-INFINITY));
  if constexpr (OP == Op::copy) one([](N a) { return a; });
  if constexpr (OP == Op::add) two([](N a, N b) { return a + b; });
  if constexpr (OP == Op::add_mask) two([=](N a, N b) { return select(b == lowest, lowest, a + b); });
  if constexpr (OP == Op::subtract) two([](N a, N b) { return a - b; });
  if constexpr (OP == Op::multiply) two([](N a, N b) { return a * b; });
  if constexpr (OP == Op::divide) two([](N a, N b) { return a / b; });
  if constexpr (OP == Op::multiply_add) three([](N a, N b, N c) { return fused(a, b, c); });
  if constexpr (OP == Op::negative) one([](N a) { return -a; });
  if constexpr (OP == Op::absolute) one([](N a) { return absolute(a); });
  if constexpr (OP == Op::minimum) two([](N a, N b) { return select(a != a, a, minimum(a, b)); });
  if constexpr (OP == Op::maximum) two([](N a, N b) { return select(a != a, a, maximum(a, b)); });
  if constexpr (OP == Op::power) two([](N a, N b) { return power_of<T>(a, b); });
  if constexpr (OP == Op::floor_divide) two([](N a, N b) { return floor_quotient<T>(a, b); });
  if constexpr (OP == Op::remainder) two([](N a, N b) { return floor_remainder<T>(a, b); });
  if constexpr (OP == Op::exp) three([](N a, N b, N c) { return c * exp_of<T>(a * b); });
  if constexpr (OP == Op::log) one([](N a) { return log_of<T>(a); });
  if constexpr (OP == Op::tanh) three([](N a, N b, N c) { return c * fast_tanh_of(a * b); });
  if constexpr (OP == Op::sigmoid) three([=](N a, N b, N c) { return c / (unit + exp_of<T>(-a * b)); });
  if constexpr (OP == Op::one_minus_square)
    three([](N a, N b, N c) {
      const N x = a * b;
      return fused(-(c * x), x, c);
    });
  if constexpr (OP == Op::sqrt) one([](N a) { return sqrt_of(a); });
  if constexpr (OP == Op::sin) one([](N a) { return sin_of<T>(a); });
  if constexpr (OP == Op::cos) one([](N a) { return cos_of<T>(a); });
  if constexpr (OP == Op::erf) one([](N a) { return erf_of<T>(a); });
  if constexpr (OP == Op::floor)
    one([](N a) {
      for (Index i = 0; i < kLanes<T>; ++i) a[i] = static_cast<T>(__builtin_floor(a[i]));
      return a;
    });
  if constexpr (OP == Op::less) comparison([](N a, N b) { return a < b; });
  if constexpr (OP == Op::less_equal) comparison([](N a, N b) { return a <= b; });
  if constexpr (OP == Op::equal) comparison([](N a, N b) { return a == b; });
  if constexpr (OP == Op::integer_add) integers([](M a, M b) { return a + b; });
  if constexpr (OP == Op::integer_subtract) integers([](M a, M b) { return a - b; });
  if constexpr (OP == Op::integer_multiply) integers([](M a, M b) { return a * b; });
  if constexpr (OP == Op::integer_negative) integer([](M a) { return -a; });
  if constexpr (OP == Op::integer_absolute) integer([](M a) { return a < 0 ? -a : a; });
  if constexpr (OP == Op::integer_minimum) integers([](M a, M b) { return a < b ? a : b; });
  if constexpr (OP == Op::integer_maximum) integers([](M a, M b) { return a > b ? a : b; });
  if constexpr (OP == Op::integer_less) integers([](M a, M b) { return a < b; });
  if constexpr (OP == Op::integer_less_equal) integers([](M a, M b) { return a <= b; });
  if constexpr (OP == Op::integer_equal) integers([](M a, M b) { return a == b; });
  if constexpr (OP == Op::integer_power)
    integers([](M a, M b) {
      M y = M{} + 1;
      for (int i = 0; i < 31 && any((M)(b > 0)); ++i, a *= a, b >>= 1) y *= (M)((b & 1) != 0) ? a : M{} + 1;
      return y;
    });
  if constexpr (OP == Op::integer_floor_divide) integers([](M a, M b) { return quotient_of<T>(a, b); });
  if constexpr (OP == Op::integer_remainder)
    integers([](M a, M b) { return (a - quotient_of<T>(a, b) * b) & ~(M)(b == 0); });
  // As NumPy's: all bits are moved out by a count that is negative or too large.
  const auto inside = [](M count) { return (M)((count >= 0) & (count < static_cast<Integer>(sizeof(T) * 8))); };
  if constexpr (OP == Op::left_shift) integers([=](M a, M b) { return (a << (b & inside(b))) & inside(b); });
  if constexpr (OP == Op::right_shift)
    integers([=](M a, M b) { return a >> ((b & inside(b)) | (static_cast<Integer>(sizeof(T) * 8 - 1) & ~inside(b))); });
  if constexpr (OP == Op::bit_and) integers([](M a, M b) { return a & b; });
  if constexpr (OP == Op::bit_or) integers([](M a, M b) { return a | b; });
  if constexpr (OP == Op::bit_xor) integers([](M a, M b) { return a ^ b; });
  if constexpr (OP == Op::bit_not) integer([](M a) { return ~a; });
  if constexpr (OP == Op::select) three([](N m, N a, N b) { return select(bits(m) < 0, a, b); });
  if constexpr (OP == Op::select_less) four([](N a, N b, N c, N d) { return select(a < b, c, d); });
  if constexpr (OP == Op::select_less_equal) four([](N a, N b, N c, N d) { return select(a <= b, c, d); });
  if constexpr (OP == Op::select_equal) four([](N a, N b, N c, N d) { return select(a == b, c, d); });
  if constexpr (OP == Op::to_float) one([](N a) { return __builtin_convertvector(bits(a), N); });
  if constexpr (OP == Op::to_integer)  // what 32 bits do not hold is their least number
    one([](N a) {
      const M fits = (M)(absolute(a) < splat<T>(static_cast<T>(0x1p31)));
      const M least = M{} + static_cast<Integer>(INT32_MIN);
      return from_bits((M)((__builtin_convertvector(select(fits, a, N{}), M) & fits) | (least & ~fits)));
    });
  if constexpr (OP == Op::one_or_zero) integer([](M a) { return a & 1; });
  if constexpr (OP == Op::gather) read_table(s, r);
  if constexpr (OP == Op::rows) read_rows(s, r);
  if constexpr (OP == Op::index) {  // negative ones count from the end
    const M size = M{} + static_cast<Integer>(s.in->size), last = size - 1, zero = {};
    M wrong = {};
    integer([&](M a) {
      const M at = a + ((M)(a < 0) & size), inside = at < 0 ? zero : at > last ? last : at;
      wrong |= at ^ inside;
      return inside;
    });
    if (any(wrong)) note_outside(s, r);
  }
  if constexpr (OP == Op::where_nonzero) two([](N a, N b) { return select(b == N{}, N{}, a); });
  if constexpr (OP == Op::scatter) add_to_table(s, r);
  if constexpr (OP == Op::scatter_rows) add_to_rows(s, r);
  if constexpr (OP == Op::add_lanes) add_to_lanes(s, r);
  if constexpr (OP == Op::add_keys) add_to_keys(s, r);
  if constexpr (OP == Op::add_diagonals) add_to_diagonals(s, r);
}

template <class T>
constexpr void (*kExecute[])(const BoundInstruction<T>&, const FormulaRun<T>&) = {
#define X(name) execute<T, FormulaOp::name>,
    QKV_FORMULA_INSTRUCTIONS(X)
#undef X
};

constexpr bool adds(FormulaOp op) { return op >= FormulaOp::scatter; }

// A leaf as an operand of a part; `to` is memory for a tile of it.
template <class T>
FormulaOperand<T> leaf_operand(T* to, const FormulaLeaf<T>& leaf, const RowBlock<T>& block, const StepPart& part,
                               Index key) {
  const Index lane = part.vector * kLanes<T>, lanes = part.vectors * kLanes<T>, first = key + part.from;
  const auto of_head = [&](Index head) { return leaf.data + block.batch * leaf.batch + head * leaf.head; };
  if (leaf.level == LeafLevel::head && block.same_head) {
    store(to, splat<T>(*of_head(block.head[0])));
    return {to, 0, 0, 0};
  }
  if (leaf.level == LeafLevel::head || leaf.level == LeafLevel::query) {
    for (Index i = 0; i < lanes; ++i)
      to[i] = of_head(block.head[lane + i])[leaf.level == LeafLevel::query ? block.query[lane + i] : 0];
    return {to, 0, kLanes<T>, 0};
  }
  const bool diagonal = leaf.level == LeafLevel::diagonal;
  const Index step = diagonal ? -1 : 1;
  const auto of_lane = [&](Index i) {  // and key `first`
    const T* x = of_head(block.head[i]);
    return diagonal ? x + block.query[i] - first + block.problem->keys - 1 : x + first;
  };
  if (diagonal && block.same_head) {
    const T* x = of_lane(lane);
    const Index before = part.keys() - 1, some = block.rows - lane;
    if (some >= lanes) return {x, -1, kLanes<T>, -1};
    memcpy(to, x - before, sizeof(T) * static_cast<size_t>(before + some));
    for (Index i = some; i < lanes; ++i) to[before + i] = to[before + some - 1];
    return {to + before, -1, kLanes<T>, -1};
  }
  if ((block.same_head || leaf.head == 0) && (!diagonal || block.problem->queries == 1)) {
    const T* x = of_lane(lane);
    for (Index j = 0; j < part.keys(); ++j) store(to + j * kLanes<T>, splat<T>(x[j * step]));
    return {to, kLanes<T>, 0, kLanes<T>};
  }
  for (Index i = 0; i < lanes; ++i) {  // rows of several heads
    const T* x = of_lane(lane + i);
    if (diagonal && i % kLanes<T> == 0 &&
        block.query[lane + i] + kLanes<T> - 1 == block.query[lane + i + kLanes<T> - 1]) {
      for (Index j = 0; j < part.keys(); ++j) store(to + j * kPanelWidth<T> + i, load(x - j));
      i += kLanes<T> - 1;
      continue;
    }
    for (Index j = 0; j < part.keys(); ++j) to[j * kPanelWidth<T> + i] = x[j * step];
  }
  return {to, kPanelWidth<T>, kLanes<T>, kPanelWidth<T>};
}

// Of one program.
template <class T> Index program_scratch(const Formula<T>& f, const FormulaProgram<T>& program) {
  return program.registers * kStrip<T> + (program.constant_count + 1) * kLanes<T> + f.leaf_count * kTileElements<T>;
}

}  // namespace

template <class T> Index formula_scratch(const AttentionProblem<T>& p) {
  if (p.formula == nullptr) return 0;
  const Formula<T>& f = *p.formula;
  Index most = 0, sums = 0;
  const FormulaProgram<T>* const programs[] = {&f.score,         &f.split_score, &f.derived,
                                               &f.split_derived, &f.gradient,    &f.mask};
  for (const FormulaProgram<T>* program : programs) most = at_least(most, program_scratch(f, *program));
  for (Index i = 0; i < f.gradient.count; ++i) sums += adds(f.gradient.instructions[i].op);
  static_assert(kTableCopies * 256 <= kLineNumbers<T> * kDiagonals<T>);
  return most + sums * kLineNumbers<T> * kDiagonals<T>;
}

template <class T>
void run_formula(const FormulaProgram<T>& program, Index begin, Index end, const FormulaTiles<T>& tiles,
                 const StepPart& part, const RowBlock<T>& block, Index key, const LeafGradient<T>* dleaves) {
  if (begin == end) return;
  const Formula<T>& f = *block.problem->formula;
  const Index width = block.width;
  FormulaOperand<T> value[kMostFormulaValues];
  T* free = tiles.scratch;
  const auto take = [&free](Index n) {
    T* taken = free;
    free += n;
    return taken;
  };
  for (Index i = 0; i < f.leaf_count; ++i)
    if (const FormulaLeaf<T>& leaf = f.leaves[i]; !is_table(leaf.level) && leaf.begins == nullptr)
      value[i] = leaf_operand(take(kTileElements<T>), leaf, block, part, key);
  Index count = f.leaf_count;
  const auto number = [&](T x) {
    T* lanes = take(kLanes<T>);
    store(lanes, splat<T>(x));
    return FormulaOperand<T>{lanes, 0, 0, 0};
  };
  for (Index i = 0; i < program.constant_count; ++i) value[count++] = number(program.constants[i]);
  const FormulaOperand<T> one = number(1);
  const Index at = part.from * width + part.vector * kLanes<T>;
  T* const both[] = {tiles.scores, tiles.second};
  for (T* tile : both) value[count++] = {tile == nullptr ? nullptr : tile + at, width, kLanes<T>, width};
  for (Index i = 0; i < program.registers; ++i) value[count++] = {take(kStrip<T>), width, kLanes<T>, 0};

  BoundInstruction<T> bound[kMostFormulaInstructions];
  Index steps = 0;
  for (Index i = begin; i < end; ++i) {
    const FormulaInstruction& in = program.instructions[i];
    if (adds(in.op) && dleaves == nullptr) continue;
    const auto of = [&](int32_t v) { return v < 0 ? one : value[v]; };
    const FormulaOperand<T> out = of(in.out);
    BoundInstruction<T>& s = bound[steps++];
    const bool by_rows = in.op == FormulaOp::rows || in.op == FormulaOp::scatter_rows;  // a: where they begin
    s = {&in, const_cast<T*>(out.p), out.advance, of(by_rows ? -1 : in.a), of(in.b), of(in.c), of(in.d), nullptr};
    if (!adds(in.op)) continue;
    s.sums = take(kLineNumbers<T> * kDiagonals<T>);
    const Index used = in.op == FormulaOp::add_diagonals ? kLineNumbers<T> * kDiagonals<T>
                       : has_copies(in, f, block)        ? kTableCopies * table_size(f.leaves[in.leaf])
                                                         : kPanelWidth<T>;
    memset(s.sums, 0, sizeof(T) * static_cast<size_t>(used));
  }
  // What is written to a tile alone needs no strips, and rows of tables are read faster without.
  const Index strip = steps == 1 && bound[0].advance != 0 ? part.keys() : kStrip<T> / width;
  FormulaRun<T> run{&f, &block, &part, tiles.allowed, dleaves, key, part.from, 0};
  for (; run.line < part.to; run.line += strip) {
    run.lines = at_most(strip, part.to - run.line);
    for (Index i = 0; i < steps; ++i) {
      BoundInstruction<T>& s = bound[i];
      kExecute<T>[static_cast<int>(s.in->op)](s, run);
      s.out += run.lines * s.advance;
      s.a.p += run.lines * s.a.advance;
      s.b.p += run.lines * s.b.advance;
      s.c.p += run.lines * s.c.advance;
      s.d.p += run.lines * s.d.advance;
    }
  }
  for (Index i = 0; i < steps; ++i) finish_sums(bound[i], run);
}

#define QKV_INSTANTIATE(T)                                                                                   \
  template Index formula_scratch(const AttentionProblem<T>&);                                                \
  template void run_formula(const FormulaProgram<T>&, Index, Index, const FormulaTiles<T>&, const StepPart&, \
                            const RowBlock<T>&, Index, const LeafGradient<T>*);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)

}  // namespace qkv::kernels::QKV_ISA
