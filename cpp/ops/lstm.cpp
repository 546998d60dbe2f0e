// A step of long short-term memory.
#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/ops.h"
#include "ops/recurrent.h"

namespace qkv::ops {

namespace {

// A step of recorded operations.
Tensors composed_step(const Tensors& inputs) {
  const Tensor sums = add(inputs[0], inputs[1]);
  const Index H = sums.dim(1) / 4;
  const auto gate = [&](Index i) { return slice(sums, 1, i * H, (i + 1) * H); };
  const Tensor c = add(multiply(sigmoid(gate(1)), inputs[2]), multiply(sigmoid(gate(0)), tanh(gate(2))));
  return {multiply(sigmoid(gate(3)), tanh(c)), c};
}

// f(row, its gates) for the rows of one step.
template <class F> void each_row(Index rows, Index hidden, F f) {
  parallel_for(0, rows, grain_for(16 * hidden), [&](Index begin, Index end) {
    for (Index row = begin; row < end; ++row) f(row * hidden, row * 4 * hidden);
  });
}

}  // namespace

LstmOutput lstm_step(const Tensor& input, const Tensor& recurrent, const Tensor& before) {
  const Index B = before.rank() == 2 ? before.dim(0) : 0, H = before.rank() == 2 ? before.dim(1) : 0;
  const Shape wanted{B, 4 * H};
  if (before.rank() != 2 || input.shape() != wanted || recurrent.shape() != wanted || input.dtype() != before.dtype() ||
      recurrent.dtype() != before.dtype())
    fail_value("LSTM: c must be (B, H), and what goes into the gates (B, 4 H), of one dtype; got ", before.shape(),
               ", ", input.shape(), " and ", recurrent.shape());
  const Tensor x = packed(input), y = packed(recurrent), c = packed(before);
  Array gates(wanted, c.dtype()), state(before.shape(), c.dtype()), tanh_c(before.shape(), c.dtype()),
      h(before.shape(), c.dtype());
  visit_floating(c.dtype(), [&]<class T>(T) {
    const auto& kernel = kernels::kernels<T>();
    const auto activate = [&](kernels::Activation f, T* to, const T* from, Index n) {
      kernel.activation.forward(f, to, from, T(0), n);
    };
    each_row(B, H, [&](Index row, Index first) {
      T *gate = gates.data<T>() + first, *next = state.data<T>() + row, *t = tanh_c.data<T>() + row;
      kernel.elementwise.binary(kernels::Binary::add, gate, x.ptr<T>() + first, 1, y.ptr<T>() + first, 1, 4 * H);
      activate(kernels::Activation::sigmoid, gate, gate, 2 * H);
      activate(kernels::Activation::tanh, gate + 2 * H, gate + 2 * H, H);
      activate(kernels::Activation::sigmoid, gate + 3 * H, gate + 3 * H, H);
      for (Index j = 0; j < H; ++j) next[j] = gate[H + j] * c.ptr<T>()[row + j] + gate[j] * gate[2 * H + j];
      activate(kernels::Activation::tanh, t, next, H);
      for (Index j = 0; j < H; ++j) h.data<T>()[row + j] = gate[3 * H + j] * t[j];
    });
  });
  if (!wants_gradient({x, y, c})) return {Tensor(std::move(h)), Tensor(std::move(state))};
  const Tensors results = record_many(
      {std::move(h), std::move(state)}, {owned(x), owned(y), owned(c)},
      [gates, tanh_c, H](std::span<const Array> dys, Gradients& dx) {
        visit_floating(gates.dtype(), [&]<class T>(T) {
          const Array dgates(gates.shape(), gates.dtype()), dc(tanh_c.shape(), gates.dtype());
          each_row(tanh_c.dim(0), H, [&](Index row, Index first) {
            const T *i = gates.data<T>() + first, *f = i + H, *g = f + H, *o = g + H, *t = tanh_c.data<T>() + row;
            const T *kept = dx.input(2).data<T>() + row, *dh = dys[0].defined() ? dys[0].data<T>() + row : nullptr,
                    *later = dys[1].defined() ? dys[1].data<T>() + row : nullptr;
            T *di = dgates.data<T>() + first, *df = di + H, *dg = df + H, *d_o = dg + H;
            for (Index j = 0; j < H; ++j) {
              const T given = dh != nullptr ? dh[j] : T(0);
              const T all = (later != nullptr ? later[j] : T(0)) + given * o[j] * (1 - t[j] * t[j]);
              di[j] = all * g[j] * i[j] * (1 - i[j]);
              df[j] = all * kept[j] * f[j] * (1 - f[j]);
              dg[j] = all * i[j] * (1 - g[j] * g[j]);
              d_o[j] = given * t[j] * o[j] * (1 - o[j]);
              dc.data<T>()[row + j] = all * f[j];
            }
          });
          if (dx.wants(0)) dx.add(0, dgates);
          if (dx.wants(1)) dx.add(1, dgates);
          if (dx.wants(2)) dx.add(2, dc);
        });
      },
      [](std::span<const Tensor> dys, TensorGradients& dx) { derive_composed(dys, dx, composed_step); });
  return {results[0], results[1]};
}

}  // namespace qkv::ops
