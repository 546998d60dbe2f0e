// Gradients of a formula's leaves while a backward pass runs in tasks: each task adds to memory of its own, or to
// places that no other task adds to at the same time; in the end all is added up in one order.
#pragma once

#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "kernels/attention/problem.h"

namespace qkv::ops {

template <class T> class LeafSums {
 public:
  using Gradient = kernels::LeafGradient<T>;

  // `wanted`: one for each of the formula's leaves, or null. A task is a matrix (batch and key/value head) and a range
  // of keys; there are about so many.
  LeafSums(const Gradient* wanted, const kernels::AttentionProblem<T>& p, Index tasks)
      : wanted_(wanted), problem_(p), matrices_(p.batches * p.kv_heads) {
    for (Index i = 0; i < count(); ++i) {
      if (!is_table(i) || leaf(i).size * tasks <= kMostCopied) continue;
      in_turns_ = true;
      apart_ &= leaf(i).apart;
    }
  }
  // Whether a table is too large for copies. Then matrices come one after the other, and their ranges of keys at the
  // same time only if they are apart: if no two of them add to one number of a table.
  bool in_turns() const { return in_turns_; }
  bool apart() const { return apart_; }

  void allocate(Index ranges) {
    ranges_ = ranges;
    sums_.resize(static_cast<std::size_t>(count()));
    views_.resize(static_cast<std::size_t>(count() * ranges * matrices_));
    for (Index i = 0; i < count(); ++i) {
      auto& sum = sums_[static_cast<std::size_t>(i)];
      const Index n = leaf(i).size;
      sum.assign(static_cast<std::size_t>(copies(i) * (is_table(i) ? n : all_heads() * n)), T(0));
      for (Index task = 0; task < ranges * matrices_; ++task) {
        Gradient& view = views_[static_cast<std::size_t>(task * count() + i)];
        if (wanted_[i].data == nullptr) continue;
        if (!is_table(i))
          view = {sum.data() + (by_range(i) ? task / matrices_ : 0) * all_heads() * n, problem_.heads * n, n};
        else view = {in_turns_ ? wanted_[i].data : sum.data() + task * n, 0, 0};
      }
    }
  }
  // Where the task of a matrix and range adds; null if nothing is wanted.
  const Gradient* of(Index matrix, Index range) const {
    return count() == 0 ? nullptr : views_.data() + (range * matrices_ + matrix) * count();
  }

  void add_up() const {
    for (Index i = 0; i < count(); ++i) {
      if (wanted_[i].data == nullptr) continue;
      const Index n = leaf(i).size, copied = copies(i), lines = is_table(i) ? 1 : all_heads();
      parallel_for(0, n, grain_for(copied * lines), [&](Index begin, Index end) {
        for (Index at = 0; at < copied * lines; ++at) {
          const Index matrix = at % lines;
          T* to =
              wanted_[i].data + matrix / problem_.heads * wanted_[i].batch + matrix % problem_.heads * wanted_[i].head;
          const T* from = sums_[static_cast<std::size_t>(i)].data() + at * n;
          for (Index j = begin; j < end; ++j) to[j] += from[j];
        }
      });
    }
  }

 private:
  static constexpr Index kMostCopied = Index{1} << 22;  // numbers of all copies of a table
  Index count() const { return wanted_ == nullptr ? 0 : problem_.formula->leaf_count; }
  const kernels::FormulaLeaf<T>& leaf(Index i) const { return problem_.formula->leaves[i]; }
  bool is_table(Index i) const { return wanted_[i].data != nullptr && leaf(i).level == kernels::LeafLevel::table; }
  Index all_heads() const { return problem_.batches * problem_.heads; }
  // Ranges of keys share all leaves but those of keys.
  bool by_range(Index i) const { return leaf(i).level != kernels::LeafLevel::key; }
  Index copies(Index i) const {
    if (wanted_[i].data == nullptr) return 0;
    if (is_table(i)) return in_turns_ ? 0 : ranges_ * matrices_;
    return by_range(i) ? ranges_ : 1;
  }

  const Gradient* wanted_;
  const kernels::AttentionProblem<T>& problem_;
  const Index matrices_;
  Index ranges_ = 0;
  bool in_turns_ = false, apart_ = true;
  std::vector<std::vector<T>> sums_;
  std::vector<Gradient> views_;  // (ranges, matrices, leaves)
};

}  // namespace qkv::ops
