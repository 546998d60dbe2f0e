// The index page of the operations. One operation = check, forward, pull-back, on one screen of the file named.
//
// Floating inputs of different widths promote to the wider; integers and booleans become float32 where an operation
// has no meaning for them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autograd/tensor.h"
#include "core/random.h"
#include "kernels/activation.h"
#include "kernels/elementwise.h"

namespace qkv::ops {

struct LinearLayer;

using kernels::Binary;
using kernels::Compare;
using kernels::Unary;

// --- arithmetic.cpp: numbers with broadcasting
Tensor binary(Binary op, const Tensor& a, const Tensor& b);
const char* name_of(Binary op);
Tensor unary(Unary op, const Tensor& x);
// Those that are functions of floating numbers alone, under their names.
struct UnaryFunction {
  const char* name;
  Unary op;
};
std::span<const UnaryFunction> unary_functions();
Tensor compare(Compare op, const Tensor& a, const Tensor& b);  // boolean, no gradient
Tensor cast(const Tensor& x, DType dtype);
inline Tensor packed_as(const Tensor& x, DType dtype) {
  return x.dtype() == dtype && x.data().is_packed() ? x : packed(cast(x, dtype));
}
inline Tensor add(const Tensor& a, const Tensor& b) { return binary(Binary::add, a, b); }
inline Tensor subtract(const Tensor& a, const Tensor& b) { return binary(Binary::subtract, a, b); }
inline Tensor multiply(const Tensor& a, const Tensor& b) { return binary(Binary::multiply, a, b); }
inline Tensor divide(const Tensor& a, const Tensor& b) { return binary(Binary::divide, a, b); }
// One number as a Tensor of x's dtype (float32 if x holds integers).
Tensor scalar_like(const Tensor& x, double value);

// --- selection.cpp
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor clip(const Tensor& x, std::optional<double> low, std::optional<double> high);  // NaN stays
Tensor clip(const Tensor& x, const Tensor& low, const Tensor& high);  // integers; one number each, or undefined

// --- reduce.cpp: axes empty = all of them
using Axes = IndexList;
Tensor sum(const Tensor& x, const std::optional<Axes>& axes = {}, bool keepdims = false);
Tensor mean(const Tensor& x, const std::optional<Axes>& axes = {}, bool keepdims = false);
Tensor max(const Tensor& x, const std::optional<Axes>& axes = {}, bool keepdims = false);
Tensor min(const Tensor& x, const std::optional<Axes>& axes = {}, bool keepdims = false);
Tensor logsumexp(const Tensor& x, const std::optional<Axes>& axes = {}, bool keepdims = false);

// --- logic.cpp: boolean results, no gradients
// Of booleans, or bit by bit of integers (both int64 then).
enum class Bitwise { bit_and, bit_or, bit_xor };
const char* name_of(Bitwise op);
Tensor bitwise(Bitwise op, const Tensor& a, const Tensor& b);
Tensor invert(const Tensor& x);
// Whether all, or any, of the numbers are not 0.
Tensor all(const Tensor& x, const std::optional<Axes>& axes = {}, bool keepdims = false);
Tensor any(const Tensor& x, const std::optional<Axes>& axes = {}, bool keepdims = false);

// --- statistics.cpp
// The square root of numbers from 0, whose derivative at 0 is 0.
Tensor safe_sqrt(const Tensor& square);
// The sum of squared distances from the mean, divided by the count less ddof (below 0: by 0); and its root.
Tensor variance(const Tensor& x, const std::optional<Axes>& axes, bool keepdims, double ddof);
Tensor stddev(const Tensor& x, const std::optional<Axes>& axes, bool keepdims, double ddof);
// (sum |x|^order)^(1/order), of any order but 0; at infinity the largest or smallest size. Its derivative at 0 is 0.
Tensor vector_norm(const Tensor& x, double order, const std::optional<Axes>& axes, bool keepdims);
Tensor product(const Tensor& x, const std::optional<Axes>& axes = {}, bool keepdims = false);

// --- scan.cpp
// Sums of the numbers up to each place of an axis; with `backwards` from each place on.
Tensor cumulative_sum(const Tensor& x, Index axis, bool backwards = false);
// Products likewise.
Tensor cumulative_product(const Tensor& x, Index axis);
// y[i] = a[i] + b[i] y[i - 1] along an axis, y[0] = a[0]; with `backwards` y[i] = a[i] + b[i] y[i + 1]. a and b have
// one shape and floating dtype.
Tensor linear_scan(const Tensor& a, const Tensor& b, Index axis, bool backwards = false);

// --- places.cpp: NaN counts as the largest, and as the smallest
// Where the largest, or smallest, number is along an axis, or in the flat array; int64.
Tensor argmax(const Tensor& x, std::optional<Index> axis, bool keepdims);
Tensor argmin(const Tensor& x, std::optional<Index> axis, bool keepdims);

// --- sorting.cpp: NaN is larger than every number, and equal numbers keep their order
struct Sorted {
  Tensor values;
  Array places;  // int64: where they were
};
Sorted sort(const Tensor& x, Index axis, bool descending);
// The places of the k largest, or smallest, numbers along an axis, int64; the best first.
Array topk(const Tensor& x, Index k, Index axis, bool largest);
// The largest, or smallest, numbers along an axis, the first of equal ones, and their places.
std::pair<Tensor, Tensor> extreme(const Tensor& x, Index axis, bool keepdims, bool largest);

// --- gather.cpp
// Whose index it is, for errors, and whether it may count from the end.
struct Lookup {
  const char* operation;
  const char* argument;
  bool from_end = false;
  const char* values = "values";  // the name of those that are put
};
// result[i][j] = x[index[i][j]][j] along axis 0, and likewise along others; the index (int64) may be smaller than x
// along the others.
Tensor gather(const Lookup& lookup, const Tensor& x, const Array& index, Index axis);
// A copy of x with result[index[i][j]][j] = values[i][j], or += them; values broadcast to the index. Of several for one
// place the last is put; the others get no gradient.
Tensor scatter(const Lookup& lookup, const Tensor& x, const Array& index, const Tensor& values, Index axis, bool add);
// The numbers of entries of an axis, (n), as an index into arrays of this shape: a view.
Array entries_along(const Array& numbers, const Shape& shape, Index axis);
// Slices `indices` (int64, from 0) of an axis, one after the other.
Array entries(const Array& x, Index axis, const Array& indices);
// result[i][j] = x[places[i][j]][j] along axis 0, and likewise along others; places (int64) count from 0, and have x's
// shape except for the axis.
Tensor take_along_axis(const Tensor& x, const Array& places, Index axis);

// --- layout.cpp
// Views of x (autograd/views.h):
Tensor reshape(const Tensor& x, Shape shape);  // one size may be -1; a copy where no strides would do
Tensor transpose(const Tensor& x, const Axes& permutation);
Tensor swapaxes(const Tensor& x, Index a, Index b);
Tensor broadcast_to(const Tensor& x, const Shape& shape);
Tensor slice(const Tensor& x, Index axis, Index begin, Index end);
// The numbers at i + max(-offset, 0) of one axis and i + max(offset, 0) of another, along a last axis instead of both.
Tensor diagonal(const Tensor& x, Index offset, Index axis1, Index axis2);
// All windows of so many places of an axis, `step` apart, whose places are along a last axis.
Tensor unfold(const Tensor& x, Index axis, Index size, Index step);
// Copies:
// result.flat[i] = x.flat[first + positions[i]]; has a gradient where `first` is 0.
Tensor take_flat(const Tensor& x, const Array& positions, const Shape& shape, Index first = 0);
Tensor copy(const Tensor& x);                                    // in memory of its own
Tensor repeat(const Tensor& x, Index times, Index axis);         // each number as often, next to each other
Tensor repeat(const Tensor& x, const Array& times, Index axis);  // those at each place of the axis as often, or all
Tensor concatenate(const Tensors& parts, Index axis);
Tensor stack(const Tensors& parts, Index axis);

// --- padding.cpp
// So many places more before and after each axis, which hold `value`, one number.
Tensor pad(const Tensor& x, const IndexList& before, const IndexList& behind, const Tensor& value);
// 0 above the k-th diagonal of the last two axes (lower), or below it (upper).
Tensor lower_triangle(const Tensor& x, Index k);
Tensor upper_triangle(const Tensor& x, Index k);

// --- matmul.cpp
Tensor matmul(const Tensor& a, const Tensor& b);  // NumPy's rules, batches broadcast
// y (..., out) = x (..., in) @ weight (out, in)^T + bias (out,); the bias may be undefined.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);
// The same for layers that share an input, and the activations after them. Where no gradient is wanted, the weights'
// packed copies are used (ops/matmul/linear.h).
Tensors linears(const Tensor& x, std::span<const LinearLayer> layers);

// --- softmax.cpp
Tensor softmax(const Tensor& x, Index axis, double temperature);  // exp(x / temperature), divided by its sum
Tensor log_softmax(const Tensor& x, Index axis, double temperature);
Tensor softmax_jacobian(const Tensor& x);  // (..., n) to (..., n, n)

// --- entmax.cpp
// Weights of which many are 0: alpha = 1 is the softmax, 2 the sparsemax.
Tensor entmax(const Tensor& x, double alpha, Index axis);

// --- activation.cpp
Tensor relu(const Tensor& x);
Tensor gelu(const Tensor& x, bool approximate);  // approximate: the form with tanh
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor silu(const Tensor& x);
Tensor leaky_relu(const Tensor& x, double slope);
Tensor elu(const Tensor& x, double alpha);
Tensor softplus(const Tensor& x, double beta);
Tensor huber(const Tensor& difference, double delta);
Tensor activated(const Tensor& x, kernels::Activation f, double a = 0);  // any of them

// --- norm.cpp: over the last axes, which are normalized_shape; weight and bias have that shape or are undefined
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& normalized_shape, double eps);
// layer_norm(x + residual), to the same bits, in one pass over memory; x and residual have the same shape.
Tensor add_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                      const Shape& normalized_shape, double eps);
Tensor rms_norm(const Tensor& x, const Tensor& weight, const Shape& normalized_shape, double eps);
// x / max(|x|_p, eps), the norm over the axes.
Tensor normalize(const Tensor& x, double p, const std::optional<Axes>& axes, double eps);

// --- embedding.cpp: weight (V, M), ids int64 (...) to (..., M); the row padding_idx gets no gradient
Tensor embedding(const Tensor& weight, const Array& ids, std::optional<Index> padding_idx);
// ids int64 (...) to int64 (..., classes): 1 at each id, else 0. Without a number of classes the largest id is the
// last.
Array one_hot(const Array& ids, std::optional<Index> classes);

// --- dropout.cpp: x * keep / (1 - p); the first draws PyTorch's mask
Tensor dropout(const Tensor& x, double p, Generator& generator);
Tensor dropout_with_mask(const Tensor& x, const Array& keep, double p);  // keep broadcasts to x

// --- rotary.cpp: x (..., L, D); cos, sin (..., L, R / 2) broadcast over leading axes; the first R features rotate
Tensor apply_rotary(const Tensor& x, const Array& cos, const Array& sin, bool interleaved);

// --- loss.cpp: classes on the last axis; targets int64 in the shape of the other axes; weight (V,) or undefined
enum class Reduction { mean, sum, none, batchmean };
Reduction reduction_named(const char* operation, const std::string& name);
Tensor cross_entropy(const Tensor& logits, const Array& targets, const Tensor& weight, Index ignore_index,
                     double label_smoothing, Reduction reduction);
Tensor nll_loss(const Tensor& log_probs, const Array& targets, const Tensor& weight, Index ignore_index,
                Reduction reduction);

// --- regression_loss.cpp: arrays of equal shape
Tensor mse(const Tensor& predictions, const Tensor& targets, Reduction reduction);
Tensor l1(const Tensor& predictions, const Tensor& targets, Reduction reduction);
Tensor huber(const Tensor& predictions, const Tensor& targets, double delta, Reduction reduction);
// weight and pos_weight broadcast to the losses, or are undefined.
Tensor binary_cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& weight, const Tensor& pos_weight,
                            Reduction reduction);
// log_targets: the targets are logarithms, too. Reduction::batchmean divides by the first axis.
Tensor kl_divergence(const Tensor& log_probs, const Tensor& targets, bool log_targets, Reduction reduction);

// --- attention: a folder of its own, ops/attention/attention.h and additive.h

// --- attention/masked_softmax.cpp
// Softmax over the allowed keys of scores ([B, [H,]] Lq, Lk); 0 elsewhere. Of the options it takes those that exclude:
// causal, window, q_offset, valid_lens and attn_mask, which broadcasts to scores: boolean, or floating and added (it
// may want a gradient; -inf excludes). Rows without a key become zeros; with masked_value excluded scores are replaced.
struct AttentionOptions;
Tensor masked_softmax(const Tensor& scores, const AttentionOptions& options);
Tensor masked_softmax(const Tensor& scores, const Tensor& allowed, std::optional<double> masked_value = {});

// --- attention/weighted_values.cpp: dropout of attention weights and their product with the values
struct WeightDropout {
  double p = 0;
  std::uint64_t key = 0;   // of the counter-based stream
  Index first_matrix = 0;  // where this process's matrices begin among those that the stream is for
  Array keep;              // boolean, broadcasts to the weights; replaces the stream
};
// The probability; dropout_keep without one would be ignored.
void check_dropout(const AttentionOptions& options);
// Checks and, where a stream is needed and the options have no key, draws that.
WeightDropout weight_dropout(const AttentionOptions& options, const Shape& weights);
Array dropped(const Array& weights, const WeightDropout& dropout);  // weights * keep / (1 - p)
// weights (..., Lq, Lk) after dropout @ values (..., Lk, Dv), equal leading axes. A key of weight 0 is not read: what
// is after it may be NaN.
Tensor weighted_values(const Tensor& weights, const Tensor& values, const WeightDropout& dropout = {});

// a @ b^T of each matrix. A row of b with NaN or infinity is read only where `read` is not 0, and gives NaN there.
Tensor products_where_read(const Tensor& a, const Tensor& b, const Tensor& read);

// --- recurrent.cpp has a page of its own: ops/recurrent.h

// --- kernel_pooling.cpp has a page of its own: ops/kernel_pooling.h

// --- helpers of the operations themselves
// A mask is boolean or floating: an integer one, called `name`, could mean either.
void check_mask_dtype(const char* operation, const char* name, DType dtype);
// p (dy - sum of p dy): the gradient of a softmax p over an axis.
Tensor softmax_gradient(const Tensor& p, const Tensor& dy, Index axis);
// x as packed floating numbers: integers and booleans become float32.
Tensor floating(const Tensor& x);
// The wider of the inputs' floating dtypes; undefined ones do not count.
DType promoted(std::initializer_list<std::reference_wrapper<const Tensor>> inputs);
// Sum over the axes along which `shape` was broadcast.
Array sum_to(const Array& x, const Shape& shape);
Tensor sum_to(const Tensor& x, const Shape& shape);
// For rules: a gradient times, or divided by, a factor, and 0 where the gradient is 0, for any factor (infinite
// where masked, say).
inline Tensor times(const Tensor& dy, const Tensor& factor) { return binary(Binary::gradient_times, dy, factor); }
inline Tensor over(const Tensor& dy, const Tensor& divisor) { return binary(Binary::gradient_over, dy, divisor); }
inline Tensor negative(const Tensor& x) { return unary(Unary::negate, x); }
inline Tensor exp2(const Tensor& x) { return binary(Binary::power, scalar_like(x, 2), x); }
inline Tensor scaled(const Tensor& x, double factor) { return multiply(x, scalar_like(x, factor)); }
inline Tensor transposed(const Tensor& x) { return swapaxes(x, -1, -2); }
// 1 where the entry is true, as a constant of that dtype.
inline Tensor indicator(const Tensor& condition, DType dtype) { return Tensor(packed(condition.data()).cast(dtype)); }
// The shape of both together, or the operation's error.
Shape broadcast_or_fail(const char* operation, const Shape& a, const Shape& b);
// Axis counted from the front, or an error in the operation's name.
Index checked_axis(const char* operation, Index axis, Index rank);

}  // namespace qkv::ops
