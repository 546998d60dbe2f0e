// Functions of arrays at the top level: element by element, along axes, losses, positions, and what moves numbers.
#include "bindings/bindings.h"
#include "bindings/call/interpreter.h"
#include "bindings/tensor/tensor_class.h"
#include "bindings/values/fields.h"
#include "bindings/values/operation.h"
#include "core/in_range.h"
#include "core/random.h"
#include "ops/entmax.h"
#include "ops/ops.h"
#include "ops/position_tables.h"
#include "ops/shaping.h"

namespace qkv::bindings {
namespace {

bool holds_integers(py::handle value) { return is_tensor(value) && !is_floating(value.cast<Tensor>().dtype()); }

bool is_number(py::handle value) { return PyFloat_Check(value.ptr()) != 0 || PyLong_Check(value.ptr()) != 0; }

// Numbers; of a Tensor's integers as they are.
Tensor whole_or_floating(Call& call, py::handle value, const char* name) {
  return holds_integers(value) ? call.any(value, name) : call.floating(value, name);
}
using WholeOrFloating = As<whole_or_floating>;

// Two sides of a choice: a Tensor of integers keeps them integers, and a number of Python's takes the other side's
// dtype.
std::pair<Tensor, Tensor> beside_each_other(Call& call, py::handle a, py::handle b) {
  const bool whole = holds_integers(a) || holds_integers(b);
  const auto side = [&](py::handle value, const char* name) {
    return whole ? call.any(value, name) : call.floating(value, name);
  };
  if (is_number(a) && !is_number(b)) {
    const Tensor q = side(b, "b");
    return {*operand(call.operation(), q, a), q};
  }
  const Tensor p = side(a, "a");
  return {p, is_number(b) && !is_number(a) ? *operand(call.operation(), p, b) : side(b, "b")};
}

void def_of_two(Functions& m, const char* name, ops::Binary operation) {
  op(m, text(name, "(a, b)"), [operation](py::handle a, py::handle b, Call& call) {
    const auto [p, q] = beside_each_other(call, a, b);
    return without_gil(work_of(p, q), [&, &p = p, &q = q] { return ops::binary(operation, p, q); });
  });
}

void def_joining(Functions& m, const char* name, Tensor (*join)(const Tensors&, Index)) {
  op(m, text(name, "(tensors, axis=0)"), [join](const py::sequence& tensors, Index axis, Call& call) {
    Tensors parts;
    Index work = 0;
    for (const py::object part : tensors) work += parts.emplace_back(call.any(part, "tensors")).numel();
    return without_gil(work, [&] { return join(parts, axis); });
  });
}

// Along an axis, or of all numbers in a row.
void def_running(Functions& m, const char* name, Tensor (*f)(const Tensor&, Index)) {
  op(m, text(name, "(x, axis=None)"),
     [f](Any x, Axis axis) { return f(axis ? x : ops::reshape(x, {-1}), axis.value_or(0)); });
}

using Found = std::pair<Tensor, Array>;  // numbers, and where they were
Found found_at(const Tensor& x, Array places, Index axis) {
  return {ops::take_along_axis(x, places, axis), std::move(places)};
}

ops::Reduction reduction(Call& call, py::handle value, const char* name) {
  const std::string given = string_from(value, call.operation(), name);
  if (given == "batchmean" && std::string_view(call.operation()) == "kl_div") return ops::Reduction::batchmean;
  return ops::reduction_named(call.operation(), given);
}
using Reduction = As<reduction>;

}  // namespace

void bind_functions(Functions& m) {
  for (const auto& [name, f] : ops::unary_functions())
    op(m, text(name, "(x)"), [f = f](const Tensor& x) { return ops::unary(f, x); });
  op(m, "exp2(x)", [](const Tensor& x) { return ops::exp2(x); });
  op(m, "abs(x)", [](WholeOrFloating x) { return ops::unary(ops::Unary::absolute, x); });
  op(m, "clip(x, low, high)", [](WholeOrFloating x, py::handle low, py::handle high, Call& call) {
    const auto lowest = number_from(low, "clip", "low"), highest = number_from(high, "clip", "high");
    const auto whole = [](py::handle bound) { return bound.is_none() || PyLong_Check(bound.ptr()) != 0; };
    if (!is_floating(x.dtype()) && whole(low) && whole(high)) {
      const auto bound = [&](py::handle number) {
        return number.is_none() ? Tensor() : *operand(call.operation(), x, number);
      };
      return ops::clip(x, bound(low), bound(high));
    }
    return without_gil(x.numel(), [&] { return ops::clip(x, lowest, highest); });
  });
  op<Floating, Axes, bool>(m, "logsumexp(x, axis, keepdims)", ops::logsumexp);
  op(m, "where(condition, a, b)", [](Any condition, py::handle a, py::handle b, Call& call) {
    const auto [p, q] = beside_each_other(call, a, b);
    const Index work = std::max(work_of(p, q), condition.numel());
    return without_gil(work, [&, &p = p, &q = q] { return ops::where(condition, p, q); });
  });
  def_of_two(m, "maximum", ops::Binary::maximum);
  def_of_two(m, "minimum", ops::Binary::minimum);
  def_of_two(m, "fmod", ops::Binary::fmod);
  // y = x @ weight^T + bias
  op(m, "linear(x, weight, bias=None)",
     [](Self x, Self weight, FloatingOrNone bias) { return ops::linear(x, weight, bias); });
  op<Any, Any>(m, "matmul(a, b)", ops::matmul);
  op<Viewed, Axes>(m, "flip(t, axis=None)", ops::flip);
  op<Viewed, Sizes, Sizes>(m, "moveaxis(t, source, destination)", ops::moveaxis);
  def_joining(m, "concatenate", ops::concatenate);
  def_joining(m, "stack", ops::stack);
  op(m, "relu(x)", ops::relu);
  op(m, "tanh(x)", ops::tanh);
  op(m, "sigmoid(x)", ops::sigmoid);
  op(m, "silu(x)", ops::silu);
  op<Floating, Number>(m, "leaky_relu(x, negative_slope)", ops::leaky_relu);
  op<Floating, Number>(m, "elu(x, alpha)", ops::elu);
  op<Floating, Number>(m, "softplus(x, beta)", ops::softplus);
  op(m, "gelu(x, approximate)", [](const Tensor& x, const std::string& approximate) {
    if (approximate != "none" && approximate != "tanh")
      fail_value("gelu: approximate must be 'none' or 'tanh' because these are the two forms; got '", approximate, "'");
    return ops::gelu(x, approximate == "tanh");
  });
  op(m, "softmax(x, axis, temperature)", ops::softmax);
  op(m, "log_softmax(x, axis, temperature)", ops::log_softmax);
  op(m, "softmax_jacobian(x)", ops::softmax_jacobian);
  op(m, "entmax(x, alpha, axis)",
     [](const Tensor& x, double alpha, Index axis) { return ops::entmax(x, alpha, axis); });
  op(m, "sparsemax(x, axis)", [](const Tensor& x, Index axis) { return ops::entmax("sparsemax", x, 2, axis); });
  // The mask has no say in the result's dtype.
  op(m, "masked_softmax(scores, valid_lens, mask, masked_value)",
     [](const Tensor& scores, IntegersOrNone valid_lens, py::handle mask, std::optional<double> masked_value,
        Call& call) {
       ops::AttentionOptions o;
       o.operation = call.operation();
       o.valid_lens = valid_lens;
       o.attn_mask = call.mask(mask, "mask");
       o.names.attn_mask = "mask";
       o.masked_value = masked_value;
       warn_of_swapped(o.operation, o, scores.rank() == 0 ? 0 : scores.dim(-1));
       return without_gil(scores.numel(), [&] { return ops::masked_softmax(scores, o); });
     });
  op<Floating, FloatingOrNone, FloatingOrNone, Sizes, double>(m, "layer_norm(x, weight, bias, normalized_shape, eps)",
                                                              ops::layer_norm);
  op<Floating, Floating, FloatingOrNone, FloatingOrNone, Sizes, double>(
      m, "add_layer_norm(x, residual, weight, bias, normalized_shape, eps)", ops::add_layer_norm);
  op<Floating, FloatingOrNone, Sizes, double>(m, "rms_norm(x, weight, normalized_shape, eps)", ops::rms_norm);
  op<Floating, Number, Axes, Number>(m, "normalize(x, p, axis, eps)", ops::normalize);
  op<Floating, Number, Axes, bool>(m, "vector_norm(x, order, axis, keepdims)", ops::vector_norm);
  op(m, "embedding(weight, ids, padding_idx)", ops::embedding);
  op(m, "apply_rotary(x, cos, sin, interleaved)", [](const Tensor& x, Auxiliary cos, Auxiliary sin, bool interleaved) {
    return ops::apply_rotary(x, packed(cos.data()), packed(sin.data()), interleaved);
  });
  op(m, "dropout(x, p, rng)", [](const Tensor& x, double p, Generator* rng) {
    return ops::dropout(x, p, rng == nullptr ? default_generator() : *rng);
  });
  op<Floating, BooleansOrNone, double>(m, "dropout: dropout_with_mask(x, keep, p)", ops::dropout_with_mask);
  op(m, "sinusoidal_positions(max_len, dim, base)", ops::sinusoidal_positions);
  op(m, "relative_rotation(offset, dim, base)", ops::relative_rotation);
  op(m, "rotary_tables(positions, dim, base, scaling=None)",
     [](Any positions, Index dim, double base, const ops::RotaryScaling& scaling) {
       return ops::rotary_tables(packed(positions.data()).cast(DType::float64), dim, base, scaling);
     });
  op(m, "alibi_slopes(num_heads)", ops::alibi_slopes);
  op<Floating, Integers, FloatingOrNone, Index, double, Reduction>(
      m, "cross_entropy(logits, targets, weight, ignore_index, label_smoothing, reduction)", ops::cross_entropy);
  op<Floating, Integers, FloatingOrNone, Index, Reduction>(
      m, "nll_loss(log_probs, targets, weight, ignore_index, reduction)", ops::nll_loss);
  op<Floating, Floating, Reduction>(m, "mse(predictions, targets, reduction)", ops::mse);
  op<Floating, Floating, Reduction>(m, "l1(predictions, targets, reduction)", ops::l1);
  op<Floating, Floating, Number, Reduction>(
      m, "huber(predictions, targets, delta, reduction)",
      py::overload_cast<const Tensor&, const Tensor&, double, ops::Reduction>(ops::huber));
  op<Floating, Floating, FloatingOrNone, FloatingOrNone, Reduction>(
      m, "binary_cross_entropy_with_logits(logits, targets, weight, pos_weight, reduction)", ops::binary_cross_entropy);
  op<Floating, Floating, bool, Reduction>(m, "kl_div(log_probs, targets, log_targets, reduction)", ops::kl_divergence);
  def_running(m, "cumsum", [](const Tensor& x, Index axis) { return ops::cumulative_sum(x, axis); });
  def_running(m, "cumprod", ops::cumulative_product);
  op(m, "sort(x, axis, descending)", [](Any x, Index axis, bool descending) {
    ops::Sorted sorted = ops::sort(x, axis, descending);
    return Found{std::move(sorted.values), std::move(sorted.places)};
  });
  op(m, "topk(x, k, axis, largest)",
     [](Any x, Index k, Index axis, bool largest) { return found_at(x, ops::topk(x, k, axis, largest), axis); });
  op<Any, Index>(m, "tril(x, k=0)", ops::lower_triangle);
  op<Any, Index>(m, "triu(x, k=0)", ops::upper_triangle);
  op(m, "pad(x, before, behind, value)", [](Any x, py::handle before, py::handle behind, py::handle value) {
    check_constant(value, "pad", "constant_values", ", detach() it");
    const auto number = operand("pad", x, value);
    if (!number || number->numel() != 1) fail_type("pad: constant_values must be a number; got ", described(value));
    const Shape first = shape_from(before, "pad", "pad_width"), last = shape_from(behind, "pad", "pad_width");
    return without_gil(x.numel(), [&] { return ops::pad(x, first, last, *number); });
  });
  op<Any, Integers, Index>(m, "take_along_axis(x, indices, axis)", ops::take_along_axis);
  m.def("one_hot(ids, num_classes)", [](py::handle ids, std::optional<Index> classes) {
    Call call("one_hot");
    const Array numbers = call.integers(ids, "ids");
    if (is_tensor(ids)) call.force_tensor();
    return call.result(without_gil(numbers.numel(), [&] { return ops::one_hot(numbers, classes); }));
  });
  op(m, "einsum(subscripts, operands)", [](const py::str& subscripts, const py::tuple& operands, Call& call) {
    py::list tensors;
    for (const py::handle operand : operands) tensors.append(py::cast(call.any(operand, "operands")));
    return callback("einsum")(subscripts, *tensors).cast<Tensor>();
  });
  // NumPy's array of anything that functions take, with their errors.
  m.def("as_numpy(value, operation, name)",
        [](py::handle value, const std::string& operation, const std::string& name) {
          return as_numpy(value, operation.c_str(), name.c_str());
        });
  // Refuses a number that float32 makes infinite, or 0.
  m.def("check_float32(operation, name, value)",
        [](const std::string& operation, const std::string& name, double value) {
          in_range_above_zero<float>(operation, name.c_str(), value);
        });
}

}  // namespace qkv::bindings
