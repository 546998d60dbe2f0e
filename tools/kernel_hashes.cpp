// Prints a hash of what each kernel computes, at the level that this is compiled for:
//
//     cmake --build build/editable --target kernel_hashes_avx2 && build/editable/kernel_hashes_avx2
//
// Every level with fused multiply-add prints the same lines, which tests/bits/kernels.txt holds. It needs nothing but
// the kernels, so that it runs in an emulator in seconds.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/simd/family.h"

namespace {

using namespace qkv;
using namespace qkv::kernels;

template <class Family> Family family() { return kernels::QKV_ISA::kernels_of<Family>(); }

// Numbers from -size to size.
template <class T> std::vector<T> draw(Index n, double size = 3) {
  static std::uint64_t state = 88172645463325252ull;
  std::vector<T> v(static_cast<std::size_t>(n));
  for (T& x : v) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    x = static_cast<T>((static_cast<double>(state >> 40) / (1 << 24) * 2 - 1) * size);
  }
  return v;
}

template <class T> std::uint64_t hash(const T* p, Index n, std::uint64_t h = 1469598103934665603ull) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(p);
  for (std::size_t i = 0; i < static_cast<std::size_t>(n) * sizeof(T); ++i) h = (h ^ bytes[i]) * 1099511628211ull;
  return h;
}
template <class T> std::uint64_t hash(const std::vector<T>& v) { return hash(v.data(), static_cast<Index>(v.size())); }

template <class T> class Report {
 public:
  void operator()(const std::string& name, std::uint64_t h) const {
    std::printf("%016llx  %s %s\n", static_cast<unsigned long long>(h), sizeof(T) == 4 ? "float" : "double",
                name.c_str());
  }
};

template <class T> std::vector<T> zeros(Index n) { return std::vector<T>(static_cast<std::size_t>(n)); }

template <class T> void elementwise(const Report<T>& report) {
  constexpr Index n = 3737;
  const auto activations = family<Activations<T>>();
  const auto kernel = family<Elementwise<T>>();
  const std::vector<T> x = draw<T>(n), dy = draw<T>(n);
  std::vector<T> y(x), positive(x);
  for (T& p : positive) p = p < 0 ? -p : p;
  for (int i = 0; i <= static_cast<int>(Activation::huber); ++i) {
    const auto f = static_cast<Activation>(i);
    const std::string name = "activation " + std::to_string(i);
    activations.forward(f, y.data(), x.data(), static_cast<T>(0.7), n);
    report(name, hash(y));
    std::vector<T> dx(x);
    activations.backward(f, dx.data(), dy.data(), needs_result(f) ? y.data() : x.data(), static_cast<T>(0.7), n);
    report(name + " backward", hash(dx));
  }
  for (int i = 0; i <= static_cast<int>(Unary::rounding); ++i) {
    kernel.unary(static_cast<Unary>(i), y.data(), x.data(), n);
    for (T& v : y) v = v != v ? T(0) : v;  // the sign of NaN is not promised
    report("unary " + std::to_string(i), hash(y));
  }
  for (int i = 0; i <= static_cast<int>(Binary::gradient_over); ++i) {
    const auto op = static_cast<Binary>(i);
    kernel.binary(op, y.data(), op == Binary::power ? positive.data() : x.data(), 1, dy.data(), 1, n);
    report("binary " + std::to_string(i), hash(y));
  }
}

template <class T> void rows(const Report<T>& report, Index n) {
  const Index rows = 3737 / n, few = std::min<Index>(4, rows);
  const std::string size = " of " + std::to_string(n);
  const std::vector<T> x = draw<T>(3737), dy = draw<T>(3737), w = draw<T>(n), b = draw<T>(n);
  std::vector<T> y = zeros<T>(rows * n), dx = y, row = zeros<T>(rows), column = zeros<T>(n),
                 statistics = zeros<T>(rows * 3);
  const auto softmax = family<Softmax<T>>();
  softmax.forward(y.data(), x.data(), static_cast<T>(1.3), false, rows, n, n);
  report("softmax" + size, hash(y));
  softmax.backward(dx.data(), dy.data(), y.data(), static_cast<T>(1.3), false, rows, n);
  report("softmax backward" + size, hash(dx));
  softmax.log_forward(y.data(), x.data(), static_cast<T>(1.3), rows, n);
  report("log_softmax" + size, hash(y));
  softmax.log_backward(dx.data(), dy.data(), y.data(), static_cast<T>(1.3), rows, n);
  report("log_softmax backward" + size, hash(dx));
  softmax.forward_columns(y.data(), x.data(), T(1), n, rows, n);
  report("softmax of columns" + size, hash(y));
  softmax.backward_columns(dx.data(), dy.data(), y.data(), T(1), n, rows, n);
  report("softmax of columns backward" + size, hash(dx));
  softmax.logsumexp(row.data(), x.data(), rows, n);
  report("logsumexp" + size, hash(row));
  softmax.logsumexp_columns(column.data(), x.data(), n, rows, n);
  report("logsumexp of columns" + size, hash(column));
  softmax.loss_gradients(dx.data(), x.data(), static_cast<T>(0.3), static_cast<T>(0.7), w.data(), static_cast<T>(0.1),
                         n);
  report("loss" + size, hash(dx.data(), n));

  const auto reduce = family<Reduce<T>>();
  reduce.sum_of_rows(row.data(), x.data(), rows, n);
  report("sum of rows" + size, hash(row));
  reduce.sum_of_columns(column.data(), x.data(), n, rows, n);
  report("sum of columns" + size, hash(column));
  reduce.product_of_rows(row.data(), x.data(), rows, n);
  report("product of rows" + size, hash(row));

  const auto norm = family<Norm<T>>();
  std::vector<T> dweight = zeros<T>(n), dbias = zeros<T>(n);
  norm.layer_forward(y.data(), statistics.data(), x.data(), w.data(), b.data(), static_cast<T>(1e-5), rows, n);
  report("layer norm" + size, hash(y));
  norm.layer_backward(dx.data(), dweight.data(), dbias.data(), dy.data(), x.data(), statistics.data(), w.data(), rows,
                      n);
  report("layer norm backward" + size, hash(dx) ^ hash(dweight) * 3 ^ hash(dbias) * 7);
  norm.rms_forward(y.data(), statistics.data(), x.data(), w.data(), static_cast<T>(1e-5), rows, n);
  report("rms norm" + size, hash(y));

  const auto gemv = family<Gemv<T>>();
  gemv.rows(row.data(), 1, x.data(), n, w.data(), false, rows, n);
  report("matrix and vector" + size, hash(row));
  gemv.columns(column.data(), dy.data(), 1, x.data(), n, false, rows, n);
  report("vector and matrix" + size, hash(column));

  const auto additive = family<Additive<T>>();
  const Index stride = additive_stride(n);
  std::vector<T> weight(w), prepared = zeros<T>(rows * stride), scores = zeros<T>(rows * rows);
  weight.resize(static_cast<std::size_t>(stride), T(0));
  const std::unique_ptr<bool[]> moderate(new bool[static_cast<std::size_t>(rows)]);
  additive.prepare(prepared.data(), moderate.get(), x.data(), rows, n, stride);
  additive.scores(scores.data(), rows, prepared.data(), prepared.data(), weight.data(), rows, rows, n, stride);
  report("additive scores" + size, hash(scores));
  additive.direct(row.data(), dy.data(), x.data(), w.data(), rows, n);
  report("additive scores of one query" + size, hash(row));

  const auto pooling = family<KernelPooling<T>>();
  std::vector<double> squares = zeros<double>(n);
  const double nearest = pooling.distances(squares.data(), dy.data(), x.data(), n, 3, n);
  for (int k = 0; k < 5; ++k) {
    const double total = pooling.weights(column.data(), squares.data(), nearest, static_cast<Kernel>(k), 2.0, n);
    report("kernel " + std::to_string(k) + size, hash(column) ^ hash(&total, 1));
    pooling.pool(row.data(), column.data(), total, x.data(), n, few, n);
    report("pooling by kernel " + std::to_string(k) + size, hash(row.data(), few));
  }
}

// x (rows, n) @ b (n, 33), packed, and by lines and columns where they are.
template <class T> void products(const Report<T>& report, Index n) {
  constexpr Index columns = 33;
  const auto packed = family<PackedProduct<T>>();
  const auto small = family<SmallProduct<T>>();
  const Index rows = 3737 / n, panels = (columns + packed.panel - 1) / packed.panel;
  const std::vector<T> x = draw<T>(3737), b = draw<T>(n * columns), bias = draw<T>(columns);
  const Operand<T> left{x.data(), n, false}, lines{b.data(), columns, true}, across{b.data(), n, false};
  std::vector<T> memory = zeros<T>(panels * n * packed.panel + 64), scratch = zeros<T>(packed.scratch + 64);
  std::vector<T> y = zeros<T>(rows * columns);
  Epilogue<T> epilogue;
  epilogue.bias = bias.data();
  packed.pack(memory.data(), lines, columns, n);
  packed.multiply(y.data(), columns, left, memory.data(), epilogue, scratch.data(), rows, columns, n, 0, panels,
                  nullptr);
  const std::string size = " of " + std::to_string(n);
  report("product" + size, hash(y));
  small.multiply(y.data(), columns, left, lines, false, bias.data(), rows, columns, n);
  report("product of lines" + size, hash(y));
  small.multiply(y.data(), columns, left, across, true, bias.data(), rows, columns, n);
  report("product of columns" + size, hash(y));
  small.multiply(y.data(), columns, {x.data(), rows, true}, lines, false, nullptr, rows, columns, n);
  report("product of a transposed one" + size, hash(y));
  small.multiply(y.data(), columns, left, lines, true, nullptr, 1, columns, n);
  report("product of one row" + size, hash(y));
}

template <class T> void recurrent(const Report<T>& report) {
  constexpr Index rows = 5, hidden = 37;
  const auto kernel = family<Recurrent<T>>();
  const std::vector<T> w = draw<T>(3 * hidden * hidden, 0.3), bias = draw<T>(hidden);
  std::vector<T> packed = zeros<T>(kernel.packed_gates(hidden) + 64), gates = draw<T>(rows * 4 * hidden);
  std::vector<T> before = draw<T>(rows * hidden), h = zeros<T>(rows * hidden);
  T *hs[rows], *gs[rows];
  const T* bs[rows];
  for (Index i = 0; i < rows; ++i) {
    hs[i] = h.data() + i * hidden;
    gs[i] = gates.data() + i * 4 * hidden;
    bs[i] = before.data() + i * hidden;
  }
  kernel.pack_gates(packed.data(), w.data(), hidden);
  kernel.gru_step(hs, gs, bs, packed.data(), bias.data(), true, rows, hidden);
  report("gru", hash(h) ^ hash(gates) * 3);
}

struct Case {
  Index queries, keys, size;
  bool causal = false;
  Index left = -1;
  Normalizer normalizer = Normalizer::softmax;
};

template <class T> struct Memory {
  explicit Memory(Index n)
      : data(static_cast<T*>(std::aligned_alloc(64, (static_cast<std::size_t>(n) * sizeof(T) + 127) / 64 * 64))) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { std::free(data); }
  T* data;
};

template <class T> void attention(const Report<T>& report, const Case& c) {
  const auto kernel = family<Attention<T>>();
  const Index q = c.queries, k = c.keys, d = c.size;
  const std::vector<T> query = draw<T>(q * d, 1), key = draw<T>(k * d, 1), value = draw<T>(k * d, 1),
                       dout = draw<T>(q * d, 1);
  std::vector<T> out = zeros<T>(q * d), averages = out, statistics = zeros<T>(2 * q), delta = zeros<T>(q);
  std::vector<T> dquery = zeros<T>(q * d), dkey = zeros<T>(k * d), dvalue = zeros<T>(k * d);
  const auto view = [d](auto* data, Index n) {
    HeadsView<std::remove_pointer_t<decltype(data)>> heads;
    heads.data = data;
    heads.batch = heads.head = n * d;
    heads.position = d;
    return heads;
  };
  AttentionProblem<T> p;
  p.queries = q;
  p.keys = k;
  p.key_size = p.value_size = d;
  p.scale = static_cast<T>(0.25);
  p.normalizer = c.normalizer;
  p.left = c.left;
  p.causal = c.causal;
  p.query = view(query.data(), q);
  p.key = view(key.data(), k);
  p.value = view(value.data(), k);
  AttentionResult<T> result;
  result.out = view(out.data(), q);
  result.statistics = statistics.data();
  if (has_threshold(c.normalizer)) result.averages = view(averages.data(), q);
  const Memory<T> forward(kernel.forward_scratch(result, p)), backward(kernel.backward_scratch(p, k));
  if (is_plain(p) && kernel.is_short(p)) kernel.forward_short(result, p, 0, 1);
  else
    for (Index row = 0; row < q; row += kernel.tile_rows)
      kernel.forward(result, p, {0, 0, row, std::min(q, row + kernel.tile_rows)}, forward.data);
  const std::string name = "attention of " + std::to_string(q) + ", " + std::to_string(k) + ", " + std::to_string(d) +
                           (c.causal ? " causal" : "") + (c.left >= 0 ? " in a window" : "") + " by normaliser " +
                           std::to_string(static_cast<int>(c.normalizer));
  report(name, hash(out));
  AttentionSaved<T> saved;
  saved.dout = view(dout.data(), q);
  saved.out = view(static_cast<const T*>((has_threshold(c.normalizer) ? averages : out).data()), q);
  saved.statistics = statistics.data();
  kernel.row_delta(delta.data(), saved, p, {0, 0, 0, q}, backward.data);
  AttentionGradients<T> gradients;
  gradients.dquery = view(dquery.data(), q);
  gradients.dkey = view(dkey.data(), k);
  gradients.dvalue = view(dvalue.data(), k);
  kernel.backward(gradients, delta.data(), saved, p, {0, 0, 0, q}, 0, k, backward.data);
  report(name + " backward", hash(dquery) ^ hash(dkey) * 3 ^ hash(dvalue) * 7);
}

template <class T> void all() {
  const Report<T> report;
  elementwise(report);
  for (const Index n : {5, 16, 64, 101, 700}) {
    rows(report, n);
    products(report, n);
  }
  recurrent(report);
  const Case cases[] = {{5, 7, 11},
                        {12, 12, 20},
                        {64, 64, 64},
                        {129, 257, 32},
                        {129, 257, 32, true},
                        {129, 257, 32, true, 40},
                        {1, 500, 64},
                        {3, 500, 80},
                        {129, 257, 32, false, -1, Normalizer::sigmoid},
                        {129, 257, 32, true, -1, Normalizer::sparsemax},
                        {129, 257, 32, true, -1, Normalizer::entmax15},
                        {300, 300, 64, true}};
  for (const Case& c : cases) attention(report, c);
}

}  // namespace

int main() {
  all<float>();
  all<double>();
}
