// A layer of gated recurrent units. The input's share of all steps is one product, and so is the gradient of each
// weight.
#include "ops/recurrent.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/matmul/gemm.h"
#include "ops/matmul/packed_pieces.h"
#include "ops/matmul/packed_weight.h"
#include "ops/ops.h"

namespace qkv::ops {

namespace {

// What others may change unseen is packed at each call.
template <class Make> Array cached(const WeightCache& cache, const Array& weight, Make make) {
  return can_pack(weight) ? cache.get(weight, make) : make(weight);
}

Array packed_gates(const WeightCache& cache, const Array& given) {
  return cached(cache, given, [](const Array& weight_hh) {
    return visit_floating(weight_hh.dtype(), [&]<class T>(T) {
      const auto& kernel = kernels::kernels<T>().recurrent;
      Array packed({kernel.packed_gates(weight_hh.dim(1))}, weight_hh.dtype());
      kernel.pack_gates(packed.data<T>(), weight_hh.data<T>(), weight_hh.dim(1));
      return packed;
    });
  });
}

// Gradients begin with those of the candidate, whose rows are the last of the weight.
Array packed_columns(const WeightCache& cache, const Array& given) {
  return cached(cache, given, [](const Array& weight_hh) {
    return visit_floating(weight_hh.dtype(), [&]<class T>(T) {
      const auto& kernel = kernels::kernels<T>().recurrent;
      const Index hidden = weight_hh.dim(1);
      Array packed({kernel.packed_columns(3 * hidden, hidden)}, weight_hh.dtype());
      kernel.pack_columns(packed.data<T>(), weight_hh.data<T>(), hidden, 1, 2 * hidden, 3 * hidden, hidden);
      return packed;
    });
  });
}

constexpr Index kMostRows = 32;
constexpr Index kBetweenChecks = 64;  // steps between two looks for an interrupt

// Which steps there are. The valid steps of all sequences are in `rows` rows, sequence after sequence; sequences are
// worked on in pieces, long ones first, so that those which still run are the first of their piece.
struct Plan {
  Index batch, steps, input, hidden, rows = 0, piece;
  bool whole = true;  // no step is left out
  std::vector<Index> lens, first, order;

  Plan(const Shape& x, Index hidden_, const Array& valid_lens)
      : batch(x.dim(0)),
        steps(x.dim(1)),
        input(x.dim(2)),
        hidden(hidden_),
        piece(hidden_ > 512 ? kMostRows : 8),
        lens(static_cast<std::size_t>(batch), steps),
        first(lens),
        order(lens) {
    if (valid_lens.defined()) std::copy_n(valid_lens.data<std::int64_t>(), batch, lens.begin());
    for (std::size_t b = 0; b < lens.size(); ++b) {
      first[b] = rows;
      rows += lens[b];
      whole = whole && lens[b] == steps;
    }
    std::iota(order.begin(), order.end(), Index{0});
    std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return length(a) > length(b); });
  }
  Index length(Index b) const { return lens[static_cast<std::size_t>(b)]; }
  Index row(Index b, Index t) const { return first[static_cast<std::size_t>(b)] + t; }

  // f(its sequences, how many) for all pieces.
  template <class F> void each_piece(F f) const {
    const Index work = piece * steps * 3 * hidden * hidden / 16;
    parallel_for(0, (batch + piece - 1) / piece, grain_for(work), [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) f(order.data() + i * piece, std::min(piece, batch - i * piece));
    });
  }
  // How many of these sequences have a step t.
  Index running(const Index* sequences, Index count, Index t) const {
    while (count > 0 && length(sequences[count - 1]) <= t) --count;
    return count;
  }
  // f(row among all steps (batch * steps), row among the valid ones, how many) for each sequence.
  template <class F> void each_sequence(F f) const {
    for (Index b = 0; b < batch; ++b) f(b * steps, row(b, 0), length(b));
  }
};

// The valid rows of x (B, T, width), one after the other.
template <class T> Array packed_rows(const Array& x, const Plan& plan) {
  const Index width = x.dim(2);
  if (plan.whole) return x.reshaped({plan.rows, width});
  Array packed({plan.rows, width}, x.dtype());
  plan.each_sequence([&](Index from, Index to, Index count) {
    std::copy_n(x.data<T>() + from * width, count * width, packed.data<T>() + to * width);
  });
  return packed;
}

template <class T> struct Pointers {
  std::array<T*, kMostRows> at;
  T*& operator[](Index i) { return at[static_cast<std::size_t>(i)]; }
  T* const* data() const { return at.data(); }
};

// State before the first step: the given one, or zeros.
template <class T> struct Start {
  std::vector<T> zeros;
  const T* given;
  Index hidden;
  Start(const Array& state, Index hidden_)
      : zeros(state.defined() ? 0 : static_cast<std::size_t>(hidden_)),
        given(state.defined() ? state.data<T>() : nullptr),
        hidden(hidden_) {}
  const T* of(Index b) const { return given != nullptr ? given + b * hidden : zeros.data(); }
};

template <class T>
void forward(T* y, T* last, T* gates, const Start<T>& start, const T* packed, const T* bias, bool keep,
             const Plan& plan) {
  const Index H = plan.hidden, steps = plan.steps;
  plan.each_piece([&](const Index* sequences, Index count) {
    Pointers<T> h, g;
    Pointers<const T> before;
    for (Index i = 0; i < count; ++i) before[i] = start.of(sequences[i]);
    for (Index t = 0; t < plan.length(sequences[0]); ++t) {
      if (t % kBetweenChecks == 0) throw_if_interrupted();
      const Index running = plan.running(sequences, count, t);
      for (Index i = 0; i < running; ++i) {
        h[i] = y + (sequences[i] * steps + t) * H;
        g[i] = gates + plan.row(sequences[i], t) * 4 * H;
      }
      kernels::kernels<T>().recurrent.gru_step(h.data(), g.data(), before.data(), packed, bias, keep, running, H);
      for (Index i = 0; i < running; ++i) before[i] = h[i];
    }
    for (Index i = 0; i < count; ++i) {
      const Index b = sequences[i], length = plan.length(b);
      std::copy_n(before[i], H, last + b * H);
      std::fill_n(y + (b * steps + length) * H, (steps - length) * H, T(0));
    }
  });
}

// Gradients of all steps, and in dh (B, H), which holds the gradient of the last state, that of the first.
template <class T>
void backward(T* dgates, T* dh, const T* dy, const T* gates, const T* y, const Start<T>& start, const T* packed,
              const Plan& plan) {
  const Index H = plan.hidden, steps = plan.steps;
  const auto& kernel = kernels::kernels<T>();
  plan.each_piece([&](const Index* sequences, Index count) {
    Pointers<T> carry;
    Pointers<const T> dgate;
    for (Index i = 0; i < count; ++i) carry[i] = dh + sequences[i] * H;
    for (Index t = plan.length(sequences[0]); t-- > 0;) {
      if (t % kBetweenChecks == 0) throw_if_interrupted();
      const Index running = plan.running(sequences, count, t);
      for (Index i = 0; i < running; ++i) {
        const Index b = sequences[i], at = b * steps + t, row = plan.row(b, t) * 4 * H;
        if (dy != nullptr) kernel.elementwise.add_scaled(carry[i], dy + at * H, T(1), H);
        kernel.recurrent.gru_backward(dgates + row, carry[i], gates + row, t > 0 ? y + (at - 1) * H : start.of(b), H);
        dgate[i] = dgates + row;
      }
      kernel.recurrent.add_product(carry.data(), dgate.data(), packed, running, 3 * H, H);
    }
  });
}

// States before each valid step (rows, H).
template <class T> Array states_before(const Array& y, const Start<T>& start, const Plan& plan) {
  const Index H = plan.hidden;
  Array before({plan.rows, H}, y.dtype());
  for (Index b = 0; b < plan.batch; ++b) {
    if (plan.length(b) == 0) continue;
    T* to = before.data<T>() + plan.row(b, 0) * H;
    std::copy_n(start.of(b), H, to);
    std::copy_n(y.data<T>() + b * plan.steps * H, (plan.length(b) - 1) * H, to + H);
  }
  return before;
}

template <class T> std::vector<T> column_sums(const T* x, Index rows, Index columns) {
  std::vector<T> sums(static_cast<std::size_t>(columns));
  parallel_for(0, columns, std::max<Index>(64, grain_for(rows)), [&](Index begin, Index end) {
    for (Index i = 0; i < rows; ++i)
      kernels::kernels<T>().elementwise.add_scaled(sums.data() + begin, x + i * columns + begin, T(1), end - begin);
  });
  return sums;
}

// What the pull-back needs beside the inputs.
struct Memory {
  Saved x, y;
  Array gates;
};

template <class T>
void pull_back(const Memory& m, const GruCaches& caches, const Plan& plan, std::span<const Array> dys, Gradients& dx) {
  const Index H = plan.hidden, M = plan.input, rows = plan.rows, all = 4 * H;
  const Start<T> start(dx.input(1), H);
  const Array& weight_hh = dx.input(3);
  Array dh({plan.batch, H}, weight_hh.dtype());
  if (dys[1].defined()) std::copy_n(dys[1].data<T>(), dh.numel(), dh.data<T>());
  else std::fill_n(dh.data<T>(), dh.numel(), T(0));
  const Scratch memory(static_cast<std::size_t>(rows * all) * sizeof(T));
  T* dgates = memory.as<T>();  // [ds dr dz dn]
  const Array columns = packed_columns(caches.columns, weight_hh);
  backward<T>(dgates, dh.data<T>(), dys[0].defined() ? dys[0].data<T>() : nullptr, m.gates.data<T>(), m.y.data<T>(),
              start, columns.data<T>(), plan);
  if (dx.wants(1)) dx.add(1, dh);
  const T* input_dgates = dgates + H;  // [dr dz dn]
  if (dx.wants(0)) {
    const T* weight = dx.input(2).data<T>();
    if (plan.whole) {
      gemm<T>(dx.of(0).data<T>(), M, input_dgates, all, false, weight, M, false, true, rows, M, 3 * H);
    } else {
      const Scratch packed(static_cast<std::size_t>(rows * M) * sizeof(T));
      gemm<T>(packed.as<T>(), M, input_dgates, all, false, weight, M, false, false, rows, M, 3 * H);
      T* target = dx.of(0).data<T>();
      plan.each_sequence([&](Index to, Index from, Index count) {
        kernels::kernels<T>().elementwise.add_scaled(target + to * M, packed.as<T>() + from * M, T(1), count * M);
      });
    }
  }
  if (dx.wants(2))
    gemm<T>(dx.of(2).data<T>(), M, input_dgates, all, true, m.x.data<T>(), M, false, true, 3 * H, M, rows);
  if (dx.wants(3)) {
    const Array before = states_before(m.y.get(), start, plan);
    T* target = dx.of(3).data<T>();
    gemm<T>(target, H, dgates + H, all, true, before.data<T>(), H, false, true, 2 * H, H, rows);
    gemm<T>(target + 2 * H * H, H, dgates, all, true, before.data<T>(), H, false, true, H, H, rows);
  }
  if (dx.wants(4) || dx.wants(5)) {
    const std::vector<T> sums = column_sums(dgates, rows, all);
    const auto add = [&](Index input, Index to, Index from, Index count) {
      if (dx.wants(input))
        kernels::kernels<T>().elementwise.add_scaled(dx.of(input).data<T>() + to, sums.data() + from, T(1), count);
    };
    add(4, 0, H, 3 * H);
    add(5, 0, H, 2 * H);
    add(5, 2 * H, 0, H);
  }
}

void check(const RecurrentLayer& layer, const Tensor& x, const Tensor& state, const GruParameters& p) {
  const Index H = layer.hidden, gates = Shape{3, H}.numel();
  if (x.rank() != 3) fail_value("GRU: x must be (B, T, M); got x ", x.shape());
  const auto fits = [&](const char* name, const Tensor& parameter, const Shape& shape) {
    if (parameter.shape() == shape && parameter.dtype() == x.dtype()) return;
    const std::string whole = layer.number ? text(name, "_l", *layer.number) : name;
    fail_value("GRU: ", whole, " must be ", shape, " of the dtype of x, ", x.dtype(), "; got ", whole, " ",
               parameter.shape(), " of ", parameter.dtype());
  };
  fits("weight_ih", p.weight_ih, {gates, x.dim(2)});
  fits("weight_hh", p.weight_hh, {gates, H});
  if (p.bias_ih.defined() != p.bias_hh.defined())
    fail_value("GRU: bias_ih and bias_hh must be given together; got one of them");
  if (p.bias_ih.defined()) fits("bias_ih", p.bias_ih, {gates});
  if (p.bias_hh.defined()) fits("bias_hh", p.bias_hh, {gates});
  if (state.defined() && state.shape() != Shape{x.dim(0), H})
    fail_value("GRU: state must be (B, H) = ", Shape{x.dim(0), H}, " to match x ", x.shape(), "; got state ",
               state.shape());
}

// The layer of recorded operations, step by step. inputs: x, state, weight_ih, weight_hh, bias_ih, bias_hh.
Tensors composed_layer(const Tensors& inputs, const Plan& plan) {
  const Index B = plan.batch, H = plan.hidden;
  const Tensor &x = inputs[0], &weight_ih = inputs[2], &weight_hh = inputs[3], &bias_ih = inputs[4],
               &bias_hh = inputs[5];
  const Tensor zero(Array::zeros({}, weight_hh.dtype())), one = scalar_like(zero, 1);
  Tensor h = inputs[1].defined() ? inputs[1] : Tensor(Array::zeros({B, H}, weight_hh.dtype()));
  Tensors steps;
  for (Index t = 0; t < plan.steps; ++t) {
    Array running({B, 1}, DType::boolean);
    for (Index b = 0; b < B; ++b) running.data<bool>()[b] = t < plan.length(b);
    const Tensor runs(running), now = where(runs, reshape(slice(x, 1, t, t + 1), {B, plan.input}), zero);
    const Tensor from_input = linear(now, weight_ih, bias_ih), from_state = linear(h, weight_hh, bias_hh);  // (B, 3 H)
    const auto gate = [&](const Tensor& gates, Index i) { return slice(gates, 1, i * H, (i + 1) * H); };
    const Tensor r = sigmoid(add(gate(from_input, 0), gate(from_state, 0)));
    const Tensor z = sigmoid(add(gate(from_input, 1), gate(from_state, 1)));
    const Tensor candidate = tanh(add(gate(from_input, 2), multiply(r, gate(from_state, 2))));
    h = where(runs, add(multiply(subtract(one, z), candidate), multiply(z, h)), h);
    steps.push_back(where(runs, h, zero));
  }
  const Tensor outputs = steps.empty() ? Tensor(Array({B, 0, H}, weight_hh.dtype())) : stack(steps, 1);
  return {outputs, h};
}

}  // namespace

GruOutput gru_layer(const RecurrentLayer& layer, const Tensor& input, const Tensor& initial, const GruParameters& given,
                    const Array& valid_lens, std::shared_ptr<const GruCaches> caches) {
  check(layer, input, initial, given);
  GruParameters p = given;
  for (Tensor* parameter : {&p.weight_ih, &p.weight_hh, &p.bias_ih, &p.bias_hh})
    if (parameter->defined()) *parameter = packed(*parameter);
  const DType dtype = p.weight_hh.dtype();
  const Tensor x = packed(input), state = initial.defined() ? packed_as(initial, dtype) : initial;
  const Plan plan(x.shape(), layer.hidden, valid_lens);
  const Index H = plan.hidden, M = plan.input, rows = plan.rows;
  const bool wants = wants_gradient({x, state, p.weight_ih, p.weight_hh, p.bias_ih, p.bias_hh});
  Array y({plan.batch, plan.steps, H}, dtype), last({plan.batch, H}, dtype), gates({rows, 4 * H}, dtype), packed_x;
  visit_floating(dtype, [&]<class T>(T) {
    packed_x = packed_rows<T>(x.data(), plan);
    // The input's share of the gates, with all biases but that of the candidate's state.
    std::vector<T> bias(static_cast<std::size_t>(3 * H)), bias_n(static_cast<std::size_t>(H));
    if (p.bias_ih.defined()) {
      std::copy_n(p.bias_ih.ptr<T>(), 3 * H, bias.begin());
      std::copy_n(p.bias_hh.ptr<T>() + 2 * H, H, bias_n.begin());
      for (Index j = 0; j < 2 * H; ++j) bias[static_cast<std::size_t>(j)] += p.bias_hh.ptr<T>()[j];
    }
    T* g = gates.data<T>();
    if (!wants && can_pack(p.weight_ih.layout())) {
      const PackedMatrixPtr weight = packed_weight(p.weight_ih, false);
      const PackedTask<T> task{
          g + H, 4 * H, {packed_x.data<T>(), M, false}, weight->numbers.data<T>(), {bias.data()}, rows, 3 * H, M};
      multiply_packed<T>({&task, 1});
    } else {
      gemm<T>(g + H, 4 * H, packed_x.data<T>(), M, false, p.weight_ih.ptr<T>(), M, true, false, rows, 3 * H, M,
              bias.data());
    }
    const Start<T> start(state.defined() ? state.data() : Array(), H);
    const Array weights = packed_gates(caches->gates, p.weight_hh.data());
    forward<T>(y.data<T>(), last.data<T>(), g, start, weights.data<T>(), bias_n.data(), wants, plan);
  });
  if (!wants) return {Tensor(std::move(y)), Tensor(std::move(last))};
  Memory memory{Saved(packed_x), Saved(y), gates};
  const auto kept_plan = std::make_shared<const Plan>(plan);
  Tensors results = record_many(
      {std::move(y), std::move(last)},
      {owned(x), owned(state), owned(p.weight_ih), owned(p.weight_hh), p.bias_ih, p.bias_hh},
      [memory = std::move(memory), caches, kept_plan](std::span<const Array> dys, Gradients& dx) {
        visit_floating(memory.gates.dtype(), [&]<class T>(T) { pull_back<T>(memory, *caches, *kept_plan, dys, dx); });
      },
      [kept_plan](std::span<const Tensor> dys, TensorGradients& dx) {
        derive_composed(dys, dx, [&](const Tensors& inputs) { return composed_layer(inputs, *kept_plan); });
      });
  return {results[0], results[1]};
}

}  // namespace qkv::ops
