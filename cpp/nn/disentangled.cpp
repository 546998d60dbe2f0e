#include "nn/disentangled.h"

#include <algorithm>
#include <cmath>

#include "ops/numbers.h"
#include "ops/ops.h"

namespace qkv::nn {
namespace {

// In float32, as Hugging Face computes them.
Index bucket_of(const Disentangled& o, Index distance) {
  const Index middle = o.buckets / 2, steps = std::abs(distance);
  if (o.buckets < 1 || o.max_distance < 1 || steps <= middle) return distance;
  const auto log_ratio = [middle](Index length) {
    return static_cast<float>(
        ops::log_of(static_cast<double>(static_cast<float>(length) / static_cast<float>(middle))));
  };
  const float part = log_ratio(steps) / log_ratio(o.max_distance - 1) * static_cast<float>(middle - 1);
  const Index bucket = static_cast<Index>(std::ceil(part)) + middle;
  return distance < 0 ? -bucket : bucket;
}

// x (B, L, H * D) times rows (R, H * D) for each head: (B, H, L, R).
Tensor by_rows(const Tensor& x, const Tensor& rows, Index heads) {
  const Index B = x.dim(0), L = x.dim(1), D = x.dim(2) / heads;
  const Tensor split = ops::swapaxes(ops::reshape(x, {B, L, heads, D}), 1, 2);                  // (B, H, L, D)
  const Tensor table = ops::transpose(ops::reshape(rows, {rows.dim(0), heads, D}), {1, 2, 0});  // (H, D, R)
  return ops::matmul(split, table);
}

using Terms = std::pair<bool, bool>;  // of queries, of keys

// Leaf 0 has the distance's row; then come for each term its products and where those of a query or key begin.
ops::FormulaProgram program_of(const Terms& terms) {
  constexpr ops::NumberType number = ops::NumberType::floating, integer = ops::NumberType::integer;
  ops::FormulaGraph graph({{ops::LeafLevel::diagonal, integer}});
  const auto leaf = [&](int i) { return graph.add("leaf", {}, i, 0, integer, ""); };
  const int row = leaf(0);
  int sum = -1;
  for (const ops::LeafLevel level : {ops::LeafLevel::query, ops::LeafLevel::key}) {
    if (!(level == ops::LeafLevel::query ? terms.first : terms.second)) continue;
    const int table = static_cast<int>(graph.leaves.size());
    graph.leaves.push_back({ops::LeafLevel::head_table, number});
    graph.leaves.push_back({level, integer});
    const int at = graph.add("add", {leaf(table + 1), row}, -1, 0, integer, "");
    const int term = graph.add("gather", {at}, table, 0, number, "");
    sum = sum < 0 ? term : graph.add("add", {sum, term}, -1, 0, number, "");
  }
  const int score = graph.add("score", {}, -1, 0, number, "");
  const int result = sum < 0 ? score : graph.add("add", {score, sum}, -1, 0, number, "");
  ops::FormulaProgram program(std::move(graph), result, std::nullopt);
  program.excludes = false;
  return program;
}

}  // namespace

DistanceRows distance_rows(const Disentangled& o, Index length) {
  DistanceRows rows{0, 0, Array({2 * length - 1}, DType::int64)};
  std::int64_t* row = rows.of_distance.data<std::int64_t>();
  for (Index i = 0; i < 2 * length - 1; ++i)
    row[i] = std::clamp<Index>(bucket_of(o, i - (length - 1)) + o.span, 0, 2 * o.span - 1);
  rows.first = row[0];  // the further away, the higher
  rows.end = row[2 * length - 2] + 1;
  for (Index i = 0; i < 2 * length - 1; ++i) row[i] -= rows.first;
  return rows;
}

std::shared_ptr<const ops::Formula> disentangled_formula(const Disentangled& o, const DistanceRows& rows,
                                                         const Tensor& queries, const Tensor& keys,
                                                         const Tensor& row_queries, const Tensor& row_keys, Index heads,
                                                         double scale) {
  static const Recent<Terms, ops::FormulaProgram> programs;
  const Terms terms{o.content_to_position, o.position_to_content};
  const Index L = queries.dim(1), count = rows.end - rows.first;
  Array begins({1, 1, L}, DType::int64);
  for (Index i = 0; i < L; ++i) begins.data<std::int64_t>()[i] = i * count;
  Tensors leaves{Tensor(rows.of_distance.reshaped({1, 1, 2 * L - 1}))};
  const auto add = [&](const Tensor& x, const Tensor& of_rows) {
    leaves.push_back(by_rows(x, ops::scaled(of_rows, scale), heads));
    leaves.push_back(Tensor(begins));
  };
  if (terms.first) add(queries, row_keys);
  if (terms.second) add(keys, row_queries);
  return std::make_shared<const ops::Formula>(
      ops::Formula{programs.of(terms, [&] { return program_of(terms); }), std::move(leaves), {}, {}});
}

}  // namespace qkv::nn
