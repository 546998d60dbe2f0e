// What a formula gives for all pairs, by recorded operations: for gradients of gradients, and scores that no kernel
// makes.
#include <cmath>
#include <limits>

#include "ops/attention/formula/formula.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

class Evaluation {
 public:
  Evaluation(const Formula& formula, const PairSizes& sizes, const Tensor& scores, DType dtype)
      : formula_(formula), sizes_(sizes), scores_(scores), dtype_(dtype), values_(graph().nodes.size()) {}

  Tensor of(int node) {
    Tensor& value = values_[static_cast<std::size_t>(node)];
    if (!value.defined()) value = computed(graph()[node]);
    return value;
  }

 private:
  const FormulaGraph& graph() const { return formula_.program->graph(); }

  static Tensor constant(const FormulaNode& node, DType dtype) {
    return Tensor(Array::full({},
                              node.type == NumberType::floating  ? dtype
                              : node.type == NumberType::integer ? DType::int64
                                                                 : DType::boolean,
                              node.number));
  }
  static Tensor integer(Index x) { return Tensor(Array::full({}, DType::int64, x)); }

  // (B or 1, H or 1, Lq or 1, Lk or 1)
  Tensor leaf(int number) const {
    const auto [level, type] = graph().leaves[static_cast<std::size_t>(number)];
    const Tensor& given = formula_.leaves[static_cast<std::size_t>(number)];
    const Tensor x = type == NumberType::floating ? cast(given, dtype_) : given;
    const Index B = x.dim(0), H = x.dim(1), n = x.dim(2);
    if (level == LeafLevel::query) return reshape(x, {B, H, n, 1});
    if (level != LeafLevel::diagonal) return reshape(x, {B, H, 1, n});
    const Shape shape{B, H, sizes_.queries, sizes_.keys};
    Array places(shape, DType::int64);
    for (Index i = 0; i < places.numel(); ++i) {
      const Index key = i % sizes_.keys, row = i / sizes_.keys;
      places.data<std::int64_t>()[i] = row / sizes_.queries * n + row % sizes_.queries - key + sizes_.keys - 1;
    }
    return take_flat(x, places, shape);
  }
  Tensor read(int table, const Tensor& places) const {
    const Tensor& x = formula_.leaves[static_cast<std::size_t>(table)];
    Tensor at = packed(places);
    if (graph().leaves[static_cast<std::size_t>(table)].level == LeafLevel::head_table) {
      Array begins({x.dim(0), x.dim(1), 1, 1}, DType::int64);
      for (Index i = 0; i < begins.numel(); ++i) begins.data<std::int64_t>()[i] = i * (x.numel() / begins.numel());
      at = packed(add(at, Tensor(begins)));
    }
    return take_flat(is_floating(x.dtype()) ? cast(x, dtype_) : x, at.data(), at.shape());
  }
  Tensor power_of_two(const Tensor& x) const { return binary(Binary::power, integer(2), x); }
  // Counts by which integers of 32 bits are shifted; others move all bits out.
  static Tensor is_count(const Tensor& x) {
    return bitwise(Bitwise::bit_and, compare(Compare::greater_equal, x, integer(0)),
                   compare(Compare::less, x, integer(32)));
  }
  static Tensor count_of(const Tensor& x) { return where(is_count(x), x, integer(32)); }

  Tensor computed(const FormulaNode& node) {
    const auto a = [&] { return of(node.args[0]); };
    const auto b = [&] { return of(node.args[1]); };
    const auto two = [&](Binary op) { return binary(op, a(), b()); };
    const auto one = [&](Unary op) { return unary(op, a()); };
    switch (node.op) {
      case FormulaOp::score:
        return scores_;
      case FormulaOp::leaf:
        return leaf(node.leaf);
      case FormulaOp::constant:
        return constant(node, dtype_);
      case FormulaOp::add:
      case FormulaOp::integer_add:
        return two(Binary::add);
      case FormulaOp::add_mask: {
        const Tensor lowest = scalar_like(b(), -std::numeric_limits<double>::infinity());
        const Tensor none = compare(Compare::equal, b(), lowest);
        return where(none, lowest, add(a(), where(none, scalar_like(b(), 0), b())));
      }
      case FormulaOp::subtract:
      case FormulaOp::integer_subtract:
        return two(Binary::subtract);
      case FormulaOp::multiply:
      case FormulaOp::integer_multiply:
        return two(Binary::multiply);
      case FormulaOp::divide:
        return two(Binary::divide);
      case FormulaOp::minimum:
      case FormulaOp::integer_minimum:
        return two(Binary::minimum);
      case FormulaOp::maximum:
      case FormulaOp::integer_maximum:
        return two(Binary::maximum);
      case FormulaOp::floor_divide:
      case FormulaOp::integer_floor_divide:
        return two(Binary::floor_divide);
      case FormulaOp::remainder:
      case FormulaOp::integer_remainder:
        return two(Binary::remainder);
      case FormulaOp::power:
        return two(Binary::power);
      case FormulaOp::integer_power:
        return binary(Binary::power, a(), binary(Binary::maximum, b(), integer(0)));
      case FormulaOp::left_shift:
        return where(is_count(b()), multiply(a(), power_of_two(count_of(b()))), integer(0));
      case FormulaOp::right_shift:
        return binary(Binary::floor_divide, a(), power_of_two(count_of(b())));
      case FormulaOp::negative:
      case FormulaOp::integer_negative:
        return one(Unary::negate);
      case FormulaOp::absolute:
      case FormulaOp::integer_absolute:
        return one(Unary::absolute);
      case FormulaOp::exp:
        return one(Unary::exponential);
      case FormulaOp::log:
        return one(Unary::logarithm);
      case FormulaOp::sqrt:
        return one(Unary::square_root);
      case FormulaOp::sin:
        return one(Unary::sine);
      case FormulaOp::cos:
        return one(Unary::cosine);
      case FormulaOp::erf:
        return one(Unary::error_function);
      case FormulaOp::tanh:
        return tanh(a());
      case FormulaOp::sigmoid:
        return sigmoid(a());
      case FormulaOp::floor:
        return one(Unary::floor);
      case FormulaOp::less:
      case FormulaOp::integer_less:
        return compare(Compare::less, a(), b());
      case FormulaOp::less_equal:
      case FormulaOp::integer_less_equal:
        return compare(Compare::less_equal, a(), b());
      case FormulaOp::equal:
      case FormulaOp::integer_equal:
        return compare(Compare::equal, a(), b());
      case FormulaOp::bit_and:
        return bitwise(Bitwise::bit_and, a(), b());
      case FormulaOp::bit_or:
        return bitwise(Bitwise::bit_or, a(), b());
      case FormulaOp::bit_xor:
        return bitwise(Bitwise::bit_xor, a(), b());
      case FormulaOp::bit_not:
        return invert(a());
      case FormulaOp::select:
        return where(a(), b(), of(node.args[2]));
      case FormulaOp::to_float:
        return cast(a(), dtype_);
      case FormulaOp::to_integer: {  // what 32 bits do not hold is their least number
        const Tensor limit = scalar_like(a(), 0x1p31);
        const Tensor fits = compare(Compare::less, one(Unary::absolute), limit);
        return cast(where(fits, a(), negative(limit)), DType::int64);
      }
      case FormulaOp::one_or_zero:
        return cast(a(), DType::int64);
      case FormulaOp::gather:
        return read(node.leaf, a());
      case FormulaOp::rows: {
        Array keys({sizes_.keys}, DType::int64);
        for (Index j = 0; j < sizes_.keys; ++j) keys.data<std::int64_t>()[j] = j;
        return read(node.leaf, add(a(), Tensor(keys)));
      }
      case FormulaOp::index: {
        const Tensor from_end = add(a(), integer(static_cast<Index>(node.number)));
        const Tensor at = where(compare(Compare::less, a(), integer(0)), from_end, a());
        return binary(Binary::maximum, integer(0),
                      binary(Binary::minimum, at, integer(static_cast<Index>(node.number) - 1)));
      }
      default:
        throw std::logic_error("an instruction that stands in no graph");
    }
  }

  const Formula& formula_;
  const PairSizes& sizes_;
  const Tensor scores_;
  const DType dtype_;
  Tensors values_;
};

}  // namespace

Tensor formula_scores(const Formula& formula, const Tensor& scores) {
  if (!formula.program->score_node) return scores;
  const PairSizes sizes{scores.dim(0), scores.dim(1), scores.dim(2), scores.dim(3)};
  return broadcast_to(Evaluation(formula, sizes, scores, scores.dtype()).of(*formula.program->score_node),
                      scores.shape());
}

Tensor formula_mask(const Formula& formula, const PairSizes& sizes, DType dtype) {
  if (!formula.program->mask_node) return {};
  const NoGrad quiet;
  return Evaluation(formula, sizes, {}, dtype).of(*formula.program->mask_node);
}

}  // namespace qkv::ops
