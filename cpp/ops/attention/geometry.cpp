#include "ops/attention/geometry.h"

#include <string>
#include <string_view>

#include "core/error.h"
#include "ops/lengths.h"

namespace qkv::ops {

Geometry plain_geometry(const Shape& q, const Shape& k, const Shape& v, const AttentionOptions& o) {
  const char* op = o.operation;
  const Index rank = q.rank();
  if (rank < 2 || rank > 4) fail_value(op, ": query must be (B, H, Lq, D), (B, Lq, D) or (Lq, D); got query ", q);
  if (k.rank() != rank) fail_value(op, ": key must have ", rank, " axes to match query ", q, "; got key ", k);
  if (v.rank() != rank) fail_value(op, ": value must have ", rank, " axes to match query ", q, "; got value ", v);
  if (k.dim(-1) != q.dim(-1))
    fail_value(op, ": key must be (..., Lk, D) with D = ", q.dim(-1), " to match query ", q, "; got key ", k);
  if (v.dim(-2) != k.dim(-2))
    fail_value(op, ": value must be (..., Lk, Dv) with Lk = ", k.dim(-2), " to match key ", k, "; got value ", v);
  if (rank > 2 && (k.dim(0) != q.dim(0) || v.dim(0) != q.dim(0)))
    fail_value(op, ": query, key and value must have the same batch size; got query ", q, ", key ", k, ", value ", v);
  Geometry g;
  g.rank = rank;
  g.batches = rank > 2 ? q.dim(0) : 1;
  if (rank == 4) {
    g.heads = q.dim(1);
    g.kv_heads = k.dim(1);
    if (v.dim(1) != g.kv_heads) fail_value(op, ": value must have as many heads as key ", k, "; got value ", v);
    if (g.heads != g.kv_heads && !o.enable_gqa)
      fail_value(op, ": key and value must have H = ", g.heads, " heads to match query ", q,
                 " unless enable_gqa=True; got key ", k);
    if (g.kv_heads == 0 ? g.heads != 0 : g.heads % g.kv_heads != 0)
      fail_value(op, ": query heads must be a multiple of key heads; got query ", q, ", key ", k);
  }
  g.queries = q.dim(-2);
  g.keys = g.key_rows = k.dim(-2);
  g.key_size = q.dim(-1);
  g.value_size = v.dim(-1);
  return g;
}

Geometry packed_geometry(const char* op, const Shape& q, const Shape& k, Index value_width, Heads heads) {
  const Index size = q.dim(2) / heads.query_heads;
  if (size * heads.query_heads != q.dim(2) || size * heads.kv_heads != k.dim(2) || value_width % heads.kv_heads != 0)
    fail_value(op, ": projected queries, keys and values must have ", heads.query_heads, ", ", heads.kv_heads, " and ",
               heads.kv_heads, " heads of one size; got widths ", q.dim(2), ", ", k.dim(2), " and ", value_width);
  Geometry g;
  g.packed = true;
  g.batches = q.dim(0);
  g.heads = heads.query_heads;
  g.kv_heads = heads.kv_heads;
  g.queries = q.dim(1);
  g.key_rows = k.dim(1);
  g.keys = heads.length < 0 ? g.key_rows : heads.length;
  g.key_size = q.dim(2) / g.heads;
  g.value_size = value_width / g.kv_heads;
  return g;
}

Shape lifted(Shape shape, const Geometry& g) {
  if (shape.rank() == 3 && (g.packed || g.rank == 3)) shape.insert(shape.begin() + 1, 1);
  return shape;
}

void check_broadcasts(const char* op, const char* name, const Shape& shape, const Shape& weights, const Shape& given) {
  Shape combined;
  if (broadcast(shape, weights, combined) && combined == weights) return;
  const bool of_keys =
      std::string_view(name).ends_with("mask") && weights.rank() > 2 && given == Shape{weights.dim(0), weights.back()};
  std::string hint;
  if (of_keys)
    hint = text("; for keys that are real, (B, Lk), give ", name,
                weights.rank() == 4 ? "[:, None, None, :]" : "[:, None, :]",
                ", or valid_lens if the padding is at the end");
  else if (given.rank() == 3 && given != shape) hint = "; a mask of three axes is (B, Lq, Lk)";
  else if (weights.rank() == 4 && shape.rank() == 3) hint = "; a mask per batch entry is (B, 1, Lq, Lk)";
  fail_value(op, ": ", name, " must broadcast to the weights' shape ", weights, " by NumPy's rules", hint, "; got ",
             name, " ", given);
}

Array checked_lengths(const char* op, const char* name, const Array& lens, const Geometry& g) {
  const bool alone = g.rank == 2 && !g.packed;
  // One number says the same with an axis of its own or, for a layer's (L, M), without.
  const bool single = alone ? lens.shape() == Shape{1} : g.packed && g.batches == 1 && lens.rank() == 0;
  const Shape one = single ? lens.shape() : alone ? Shape{} : Shape{g.batches};
  return checked_lengths(op, lens, one, alone ? Shape{g.queries} : Shape{g.batches, g.queries}, g.keys,
                         {.lengths = name});
}

}  // namespace qkv::ops
