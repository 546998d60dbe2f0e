// The forward pass of linear attention: head by head, chunk by chunk, with everything in the caches.
#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/attention/linear/linear_attention.h"
#include "ops/matmul/gemm.h"

namespace qkv::ops {
namespace {

using kernels::Unary;

// Of one chunk: products within a chunk grow with it. (1, 8, 4096, 64) on one AVX-512 core, chunks of 16, 32, 64, 128:
// linear 11, 12, 15, 21 ms, delta 21, 24, 29, 38 ms.
constexpr Index kMostSteps = 32;

template <class T> struct Problem {
  const T *query, *key, *value, *decay, *beta;  // the last two may be null
  T *output, *state;
  Index steps, chunk, groups, size, value_size, decay_size;  // T, C, H / Hkv, D, Dv, D or 1
  T scale;
};

// The steps of one head.
template <class T> class Head {
 public:
  static Index room(const Problem<T>& p) {
    const ProductSizes n{1, groups_of(p) * p.chunk, p.chunk, p.size};
    return p.chunk * (groups_of(p) * (p.size + p.chunk) + p.size + p.value_size + 2 * p.decay_size) + p.size +
           kSolved * p.value_size + (p.decay_size > 1 ? decayed_products_scratch<T>(n) : p.chunk);
  }
  Head(const Problem<T>& problem, Index m, T* memory)
      : p_(problem), m_(m), state_(p_.state + m * p_.size * p_.value_size) {
    const auto take = [&memory](Index n) { return std::exchange(memory, memory + n); };
    rows_ = take(groups_of(p_) * p_.chunk * p_.size);
    faded_ = take(p_.chunk * p_.size);
    changes_ = take(p_.chunk * p_.value_size);
    total_ = take(p_.chunk * p_.decay_size);
    factors_ = take(p_.chunk * p_.decay_size);
    products_ = take(groups_of(p_) * p_.chunk * p_.chunk);
    left_ = take(p_.size);
    solved_ = take(kSolved * p_.value_size);
    rest_ = memory;
  }

  void run() {
    for (begin_ = 0; begin_ < p_.steps; begin_ += p_.chunk) {
      count_ = std::min(p_.chunk, p_.steps - begin_);
      add_decays();
      multiply();
      const T* values = p_.value + at(m_) * p_.value_size;
      if (p_.beta != nullptr) values = corrections(values);
      for (Index g = 0; g < p_.groups; ++g) read(g, values);
      go_on(values);
    }
  }

 private:
  static constexpr Index kSolved = 16;  // rows of a triangular system; those before them are multiplied at once
  static Index groups_of(const Problem<T>& p) { return p.groups + (p.beta != nullptr ? 1 : 0); }

  Index at(Index head) const { return head * p_.steps + begin_; }
  const T* keys() const { return p_.key + at(m_) * p_.size; }
  void exponential(T* to, const T* from, Index n) const {
    kernels::kernels<T>().elementwise.unary(Unary::exponential, to, from, n);
  }

  // total_ = the sums of decays up to each step, factors_ their exponentials.
  void add_decays() {
    if (p_.decay == nullptr) return;
    const Index n = p_.decay_size;
    const T* decay = p_.decay + at(m_) * n;
    const T least = static_cast<T>(least_decay(dtype_v<T>));
    for (Index i = 0; i < count_ * n; ++i)
      total_[i] = (i < n ? T(0) : total_[i - n]) + (decay[i] < least ? least : decay[i]);
    exponential(factors_, total_, count_ * n);
  }
  // to (count, D) = x times factors of the steps, (count, D) or (count, 1).
  void fade(T* to, const T* x, const T* factors) const {
    for (Index i = 0; i < count_; ++i)
      for (Index d = 0; d < p_.size; ++d)
        to[i * p_.size + d] = x[i * p_.size + d] * factors[p_.decay_size > 1 ? i * p_.size + d : i];
  }
  const T* faded(const T* x) {
    if (p_.decay == nullptr) return x;
    fade(faded_, x, factors_);
    return faded_;
  }

  // rows_ = the queries, scaled, and after them the keys where values are corrected; products_ (count, count) of each
  // with the keys up to each step, faded since.
  void multiply() {
    const Index n = count_, groups = groups_of(p_), size = n * p_.size;
    for (Index g = 0; g < p_.groups; ++g) {
      const T* query = p_.query + at(m_ * p_.groups + g) * p_.size;
      for (Index i = 0; i < size; ++i) rows_[g * size + i] = query[i] * p_.scale;
    }
    if (p_.beta != nullptr) std::copy_n(keys(), size, rows_ + p_.groups * size);
    if (p_.decay_size > 1)
      return decayed_products(products_, rows_, keys(), total_, ProductSizes{1, groups * n, n, p_.size}, rest_);
    gemm<T>(products_, n, rows_, p_.size, false, keys(), p_.size, true, false, groups * n, n, p_.size);
    for (Index i = 0; i < n; ++i) {
      if (p_.decay != nullptr) {
        for (Index j = 0; j <= i; ++j) rest_[j] = total_[i] - total_[j];
        exponential(rest_, rest_, i + 1);
      }
      for (Index g = 0; g < groups; ++g) {
        T* row = products_ + (g * n + i) * n;
        for (Index j = 0; j <= i && p_.decay != nullptr; ++j) row[j] *= rest_[j];
        std::fill(row + i + 1, row + n, T(0));
      }
    }
  }

  // What the keys add of the values beyond what the state holds for them already: a triangular system.
  const T* corrections(const T* values) {
    const Index n = count_, width = p_.value_size;
    const T* beta = p_.beta + at(m_);
    const T* products = products_ + p_.groups * n * n;
    gemm<T>(changes_, width, faded(keys()), p_.size, false, state_, width, false, false, n, width, p_.size);
    for (Index i = 0; i < n; ++i) {
      T* row = changes_ + i * width;
      for (Index c = 0; c < width; ++c) row[c] = values[i * width + c] - row[c];
      const Index first = i / kSolved * kSolved;
      if (i == first && first > 0) {
        const Index rows = std::min(kSolved, n - first);
        gemm<T>(solved_, width, products + first * n, n, false, changes_, width, false, false, rows, width, first);
      }
      if (first > 0)
        for (Index c = 0; c < width; ++c) row[c] -= solved_[(i - first) * width + c];
      for (Index j = first; j < i; ++j) {
        const T factor = products[i * n + j];
        for (Index c = 0; c < width; ++c) row[c] -= factor * changes_[j * width + c];
      }
      for (Index c = 0; c < width; ++c) row[c] *= beta[i];
    }
    return changes_;
  }

  void read(Index group, const T* values) {
    const Index n = count_, width = p_.value_size;
    T* output = p_.output + at(m_ * p_.groups + group) * width;
    gemm<T>(output, width, faded(rows_ + group * n * p_.size), p_.size, false, state_, width, false, false, n, width,
            p_.size);
    gemm<T>(output, width, products_ + group * n * n, n, false, values, width, false, true, n, width, n);
  }

  // The state after the chunk.
  void go_on(const T* values) {
    const T* ends = keys();
    if (p_.decay != nullptr) {
      const Index n = p_.decay_size;
      const T* last = total_ + (count_ - 1) * n;
      for (Index i = 0; i < count_ * n; ++i) factors_[i] = last[i % n] - total_[i];
      exponential(factors_, factors_, count_ * n);
      fade(faded_, ends, factors_);
      ends = faded_;
      exponential(left_, last, n);
      for (Index d = 0; d < p_.size; ++d)
        for (Index c = 0; c < p_.value_size; ++c) state_[d * p_.value_size + c] *= left_[n > 1 ? d : 0];
    }
    gemm<T>(state_, p_.value_size, ends, p_.size, true, values, p_.value_size, false, true, p_.size, p_.value_size,
            count_);
  }

  const Problem<T>& p_;
  const Index m_;
  T* const state_;
  Index begin_ = 0, count_ = 0;
  T *rows_, *faded_, *changes_, *total_, *factors_, *products_, *left_, *solved_, *rest_;
};

}  // namespace

Array linear_attention_forward(const Array& query, const Array& key, const Array& value, const Array& decay,
                               const Array& beta, const Array& state, double scale, Index chunk_size) {
  const Index heads = key.dim(0) * key.dim(1), steps = key.dim(2);
  Array y({query.dim(0), query.dim(1), steps, value.dim(3)}, query.dtype());
  visit_floating(query.dtype(), [&]<class T>(T) {
    const auto data = [](const Array& x) { return x.defined() ? x.data<T>() : nullptr; };
    const Problem<T> p{data(query),
                       data(key),
                       data(value),
                       data(decay),
                       data(beta),
                       data(y),
                       data(state),
                       steps,
                       std::min({chunk_size, steps, kMostSteps}),
                       query.dim(1) / key.dim(1),
                       key.dim(3),
                       value.dim(3),
                       decay.defined() && decay.rank() == 4 ? key.dim(3) : 1,
                       static_cast<T>(scale)};
    parallel_for(0, heads, grain_for(steps * p.size * (p.value_size + p.chunk)), [&](Index begin, Index end) {
      const Scratch scratch(static_cast<std::size_t>(Head<T>::room(p)) * sizeof(T));
      for (Index m = begin; m < end; ++m) Head<T>(p, m, scratch.as<T>()).run();
    });
  });
  return y;
}

}  // namespace qkv::ops
