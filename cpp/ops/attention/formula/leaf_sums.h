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
      : wanted_(wanted), problem_(p), matrices_(p.batches * p.kv_heads), together_(matrices_) {
    direct_.resize(static_cast<std::size_t>(count()));
    for (Index i = 0; i < count(); ++i) {
      if (!is_table(i)) continue;
      const bool alone = leaf(i).heads_alone && leaf(i).batches_alone;
      if (!alone && leaf(i).size * (leaf(i).heads_alone ? p.batches : tasks) <= kMostCopied) continue;
      direct_[static_cast<std::size_t>(i)] = true;
      if (!alone) together_ = std::min(together_, leaf(i).heads_alone ? p.kv_heads : 1);
      apart_ &= leaf(i).apart;
    }
  }
  // How many matrices may come at the same time. Tables that are too large for copies are added to directly: by those
  // matrices that read other rows of them, and by ranges of keys at the same time only if they are apart: if no two of
  // them add to one number of a table.
  Index together() const { return together_; }
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
        else
          view = {is_direct(i) ? wanted_[i].data : sum.data() + copy_of(i, task) * n, wanted_[i].batch,
                  wanted_[i].head};
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
  bool is_table(Index i) const { return wanted_[i].data != nullptr && kernels::is_table(leaf(i).level); }
  // Which copy of a table a task adds to: ranges that are apart share one, and so do heads that read no one row.
  Index copy_of(Index i, Index task) const {
    const Index heads = leaf(i).heads_alone ? problem_.kv_heads : 1, range = leaf(i).apart ? 0 : task / matrices_;
    return (range * matrices_ + task % matrices_) / heads;
  }
  bool is_direct(Index i) const { return direct_[static_cast<std::size_t>(i)]; }
  Index all_heads() const { return problem_.batches * problem_.heads; }
  // Ranges of keys share all leaves but those of keys.
  bool by_range(Index i) const { return leaf(i).level != kernels::LeafLevel::key; }
  Index copies(Index i) const {
    if (wanted_[i].data == nullptr) return 0;
    if (is_table(i)) return is_direct(i) ? 0 : copy_of(i, ranges_ * matrices_ - 1) + 1;
    return by_range(i) ? ranges_ : 1;
  }

  const Gradient* wanted_;
  const kernels::AttentionProblem<T>& problem_;
  const Index matrices_;
  Index ranges_ = 0, together_;
  bool apart_ = true;
  std::vector<bool> direct_;  // tables
  std::vector<std::vector<T>> sums_;
  std::vector<Gradient> views_;  // (ranges, matrices, leaves)
};

}  // namespace qkv::ops
