// Rows of a table by number.
#include <algorithm>
#include <vector>

#include "autograd/packed_matrix.h"
#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/checked_integers.h"
#include "ops/ops.h"
#include "ops/positions.h"

namespace qkv::ops {
namespace {

// The positions of each id, in their order: the gradient of a row of the table is the sum of the gradients at its id's
// positions. A sum that is written once moves a third of the bytes of one that is added to position by position.
class RowsByNumber {
 public:
  // The positions of `skipped` count for nobody.
  RowsByNumber(const Array& ids, Index rows, Index columns, Index skipped)
      : rows_(rows),
        columns_(columns),
        group_(8 * grain_for(columns)),
        starts_(static_cast<std::size_t>(rows) + 1),
        order_(static_cast<std::size_t>(ids.numel())) {
    const std::int64_t* id = ids.data<std::int64_t>();
    const auto at = [&](Index row) -> Index& { return starts_[static_cast<std::size_t>(row)]; };
    for (Index i = 0; i < ids.numel(); ++i)
      if (id[i] != skipped) ++at(id[i] + 1);
    for (Index row = 0; row < rows; ++row) {
      most_ = std::max(most_, at(row + 1));
      at(row + 1) += at(row);
    }
    // Filling moves each start to its end, which is the start of the next row.
    for (Index i = 0; i < ids.numel(); ++i)
      if (id[i] != skipped) order_[static_cast<std::size_t>(at(id[i])++)] = i;
    std::copy_backward(starts_.begin(), starts_.end() - 1, starts_.end());
    at(0) = 0;
  }

  const Index* starts() const { return starts_.data(); }
  const Index* order() const { return order_.data(); }

  // Rows are cut into groups of about as many reads and writes.
  Index groups() const { return (work_before(rows_) + group_ - 1) / group_; }
  Index first_of(Index group) const {
    Index low = 0, high = rows_;
    while (low < high) {
      const Index middle = (low + high) / 2;
      if (work_before(middle) < group * group_) low = middle + 1;
      else high = middle;
    }
    return low;
  }
  // One row with most of the work is cut by columns.
  Index columns_at_a_time() const { return most_ > 2 * group_ ? 128 : std::max<Index>(1, columns_); }

 private:
  Index work_before(Index row) const { return starts_[static_cast<std::size_t>(row)] + row; }

  Index rows_, columns_, group_, most_ = 0;
  std::vector<Index> starts_, order_;
};

// The gradient of an embedding: row r is the sum of the rows of dy (..., M) at the positions of id r.
Array summed_rows(const Array& dy, const Array& ids, Index V, Index skipped) {
  const Index M = dy.dim(-1);
  const RowsByNumber rows(ids, V, M, skipped);
  Array dw({V, M}, dy.dtype());
  visit_floating(dy.dtype(), [&]<class T>(T) {
    const Index width = rows.columns_at_a_time(), parts = (M + width - 1) / width;
    parallel_for(0, rows.groups() * parts, 1, [&](Index begin, Index end) {
      for (Index piece = begin; piece < end; ++piece) {
        const Index first = rows.first_of(piece / parts), last = rows.first_of(piece / parts + 1),
                    c = piece % parts * width;
        kernels::kernels<T>().elementwise.sum_rows(dw.data<T>() + first * M + c, dy.data<T>() + c, M,
                                                   rows.starts() + first, rows.order(), last - first,
                                                   std::min(width, M - c));
      }
    });
  });
  return dw;
}

// From so many bytes on, a result is written past the caches, which nobody finds in them anyway.
constexpr Index kLarge = Index{32} << 20;

Tensor picked_rows(const Tensor& weight, const Array& ids, Index skipped);

// The same as an operation, whose own gradient is an embedding without what is skipped.
Tensor summed_rows(const Tensor& dy, const Saved& ids, Index V, Index skipped) {
  Array dw = summed_rows(packed(dy.data()), ids.get(), V, skipped);
  if (!wants_gradient({dy})) return Tensor(std::move(dw));
  return record(std::move(dw), {dy}, [ids, skipped](const Tensor& d, TensorGradients& dx) {
    Array counts(ids.get().shape(), d.dtype());
    visit_floating(d.dtype(), [&]<class T>(T) {
      for (Index i = 0; i < counts.numel(); ++i) counts.data<T>()[i] = ids.data<std::int64_t>()[i] != skipped;
    });
    Shape column = counts.shape();
    column.push_back(1);
    dx.add(0, multiply(picked_rows(d, ids.get(), skipped), Tensor(counts.reshaped(column))));
  });
}

// Checked ids.
Tensor picked_rows(const Tensor& given, const Array& ids, Index skipped) {
  const Tensor weight = packed(given);
  const PackedMatrixPtr form =
      weight.impl()->in_panels && !wants_gradient({weight}) ? packed_form(weight) : PackedMatrixPtr();
  const Index V = weight.dim(0), M = weight.dim(1), count = ids.numel();
  const std::int64_t* id = ids.data<std::int64_t>();
  Shape shape = ids.shape();
  shape.push_back(M);
  Array y(shape, weight.dtype());
  const bool past_caches = y.bytes() >= kLarge;
  visit_floating(weight.dtype(), [&]<class T>(T) {
    if (form)
      return parallel_for(0, count, grain_for(4 * M), [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) form->copy_row(y.data<T>() + i * M, id[i]);
      });
    parallel_for(0, count, grain_for(M), [&](Index begin, Index end) {
      kernels::kernels<T>().elementwise.pick_rows(y.data<T>() + begin * M, weight.ptr<T>(), id + begin, end - begin, M,
                                                  past_caches);
    });
  });
  if (!wants_gradient({weight})) return Tensor(std::move(y));
  return record(std::move(y), {weight}, [ids = Saved(ids), V, skipped](const Tensor& dy, TensorGradients& dx) {
    dx.add(0, summed_rows(dy, ids, V, skipped));
  });
}

}  // namespace

Tensor embedding(const Tensor& table, const Array& given, std::optional<Index> padding_idx) {
  const Tensor weight = floating(table);
  if (weight.rank() != 2) fail_value("embedding: weight must be (V, M); got weight ", weight.shape());
  if (given.dtype() != DType::int64)
    fail_type("embedding: ids must be integers because they are row numbers; got ids of ", given.dtype());
  const Index V = weight.dim(0);
  if (padding_idx && (*padding_idx < -V || *padding_idx >= V))
    fail_value("embedding: padding_idx must be in ", -V, "..", V - 1, " because weight is ", weight.shape(),
               "; got padding_idx = ", *padding_idx);
  const Index skipped = !padding_idx ? -1 : *padding_idx < 0 ? *padding_idx + V : *padding_idx;
  const Array ids = checked_integers(given, 0, V - 1, [&](std::int64_t id, Index place) {
    fail_value("embedding: ids must be in 0..", V - 1, " because weight is ", weight.shape(), "; got id ", id,
               " at position ", position_in(given.shape(), place));
  });
  return picked_rows(weight, ids, skipped);
}

Array one_hot(const Array& given, std::optional<Index> classes) {
  if (!classes && given.numel() == 0)
    fail_value("one_hot: num_classes must be given because there is no id to count from; got ids ", given.shape());
  Array ids = cloned(given);
  const std::int64_t* from = ids.data<std::int64_t>();
  const Index largest = ids.numel() == 0 ? -1 : *std::max_element(from, from + ids.numel());
  const Index count = classes.value_or(std::min<Index>(largest, (Index{1} << 62) - 1) + 1);
  Shape shape = ids.shape();
  check_integers(ids, 0, count - 1, [&](std::int64_t id, Index place) {
    fail_value("one_hot: ids must be from 0 to ", count - 1, " because num_classes = ", count, "; got id ", id,
               " at position ", position_in(shape, place));
  });
  shape.push_back(count);
  const Array y = Array::zeros(shape, DType::int64);
  for (Index i = 0; i < ids.numel(); ++i) y.data<std::int64_t>()[i * count + from[i]] = 1;
  return y;
}

}  // namespace qkv::ops
