// What an instruction of a formula is run with: its operands, a strip of pairs, and loops over these.
#pragma once

#include "kernels/attention/query_tile.h"

namespace qkv::kernels::QKV_ISA {

// Numbers of a strip. Calling an instruction takes 19 ns, and rows of tables are read faster the more of a row comes at
// once: distances of a graph cost 1.60 of plain attention by 4 KB, 1.50 by 8, 1.47 by 16, which other formulas notice.
template <class T> constexpr Index kStrip = 8192 / static_cast<Index>(sizeof(T));
// Differences of query and key in one tile, and a vector more: where sums of diagonals are.
template <class T> constexpr Index kDiagonals = kBlockKeys + kPanelWidth<T> + kLanes<T>;

// A value: the number of a line (key) and vector (of rows) is at p + line * its stride + vector * its stride.
template <class T> struct FormulaOperand {
  const T* p;
  Index line, vector;
  Index advance;  // per line of the tile, from strip to strip; 0 for registers
};

template <class T> struct BoundInstruction {
  const FormulaInstruction* in;
  T* out;
  Index advance;
  FormulaOperand<T> a, b, c, d;
  T* sums;  // of this part, in the tile's order
};

// What all instructions of a part see.
template <class T> struct FormulaRun {
  const Formula<T>* formula;
  const RowBlock<T>* block;
  const StepPart* part;
  const uint8_t* allowed;  // bytes of the step, or null
  const LeafGradient<T>* dleaves;
  Index key;          // of the step
  Index line, lines;  // of the strip, counted from the step's first key
  Index lane() const { return part->vector * kLanes<T>; }
  Index rows() const {  // real ones of the part
    return at_most(part->vectors * kLanes<T>, block->rows - lane());
  }
};

// Operands that are the same in all lines stay in registers; the others move from line to line.
template <class T, int N> struct Fixed {
  Vec<T> x[N];
  explicit Fixed(const FormulaOperand<T>& a) {
    for (int v = 0; v < N; ++v) x[v] = load(a.p + v * a.vector);
  }
  Vec<T> operator()(int v) const { return x[v]; }
  void next() {}
};
template <class T, int N> struct Moving {
  const T* p;
  Index line, vector;
  explicit Moving(const FormulaOperand<T>& a) : p(a.p), line(a.line), vector(a.vector) {}
  Vec<T> operator()(int v) const { return load(p + v * vector); }
  void next() { p += line; }
};

// Where lines adjoin, or all numbers are one.
template <class T> struct Adjoining {
  const T* p;
  Index moves;  // bits of an index that count
  explicit Adjoining(const FormulaOperand<T>& a) : p(a.p), moves(a.line == 0 ? 0 : -1) {}
  static bool holds(const FormulaOperand<T>& a, Index width) {
    return a.line == width || (a.line == 0 && a.vector == 0);
  }
  Vec<T> operator()(Index i) const { return load(p + (i & moves)); }
};

template <class T, class F, class... A> inline void each_vector(T* out, Index n, F f, A... a) {
#pragma GCC unroll 4
  for (Index i = 0; i < n; i += kLanes<T>) store(out + i, f(a(i)...));
}
template <class T, int N, class F, class... A> inline void each_line(T* out, Index width, Index lines, F f, A... a) {
#pragma GCC unroll 2
  for (Index l = 0; l < lines; ++l, out += width) {
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) store(out + v * kLanes<T>, f(a(v)...));
    (a.next(), ...);
  }
}

template <class T> inline FormulaOperand<T> from_vector(FormulaOperand<T> a, Index vectors) {
  a.p += vectors * a.vector;
  return a;
}

// A number that is known when this is compiled.
template <int N> struct Constant {
  static constexpr int value = N;
};

// g(number of vectors, first one), as many at once as there are.
template <class T, class G> inline void by_vectors(Index vectors, G g) {
  if (vectors == 4) return g(Constant<4>(), Index{0});
  if (vectors == 2) return g(Constant<2>(), Index{0});
  for (Index v = 0; v < vectors; ++v) g(Constant<1>(), v);
}

// out = f(operands) on a strip.
template <class T, class F, class... A>
inline void each_pair(const BoundInstruction<T>& s, const FormulaRun<T>& r, F f, const A&... a) {
  const Index width = r.block->width, vectors = r.part->vectors;
  if (vectors * kLanes<T> == width && (Adjoining<T>::holds(a, width) && ...))
    return each_vector(s.out, r.lines * width, f, Adjoining<T>(a)...);
  by_vectors<T>(vectors, [&](auto n, Index v) {
    constexpr int N = n.value;
    T* out = s.out + v * kLanes<T>;
    const auto run = [&](auto... operand) { each_line<T, N>(out, width, r.lines, f, operand...); };
    using M = Moving<T, N>;
    using X = Fixed<T, N>;
    if constexpr (sizeof...(A) == 2) {
      const auto two = [&](FormulaOperand<T> p, FormulaOperand<T> q) {
        if (q.line == 0) return run(M(p), X(q));
        if (p.line == 0) return run(X(p), M(q));
        run(M(p), M(q));
      };
      two(from_vector(a, v)...);
    } else {
      run(M(from_vector(a, v))...);
    }
  });
}

}  // namespace qkv::kernels::QKV_ISA
