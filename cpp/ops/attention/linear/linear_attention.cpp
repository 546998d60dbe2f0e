// Linear attention, chunk by chunk: what happens within a chunk is products of matrices for all chunks at once; from
// chunk to chunk only the state is passed on.
#include "ops/attention/linear/linear_attention.h"

#include <cmath>
#include <limits>

namespace qkv::ops {
namespace {

constexpr const char* kLinearAttention = "linear_attention";
constexpr std::pair<const char*, UpdateRule> kRules[] = {{"linear", UpdateRule::linear},
                                                         {"gated", UpdateRule::gated},
                                                         {"delta", UpdateRule::delta},
                                                         {"gated_delta", UpdateRule::gated_delta}};

// M items and heads, N chunks of C steps; G queries for each key.
struct ChunkSizes {
  Index M, N, C, G, D, Dv;
};

void check_shape(const char* name, const Shape& given, const Shape& wanted, const char* axes) {
  if (given != wanted)
    fail_value(kLinearAttention, ": ", name, " must be ", axes, " = ", wanted, "; got ", name, " ", given);
}

void check_given(const char* name, const Tensor& x, bool wanted, const char* use, UpdateRule rule) {
  if (wanted && !x.defined())
    fail_value(kLinearAttention, ": ", name, " must be given because update_rule=\"", name_of(rule), "\" ", use,
               "; got None");
  if (!wanted && x.defined())
    fail_value(kLinearAttention, ": ", name, " must be left out because update_rule=\"", name_of(rule),
               "\" does not use it; got ", name, " ", x.shape());
}

void check(const Shape& q, const Shape& k, const Shape& v, const Tensor& decay, const Tensor& beta, const Tensor& state,
           const LinearAttentionOptions& o) {
  for (const auto& [name, shape] : {std::pair("query", &q), std::pair("key", &k), std::pair("value", &v)})
    if (shape->rank() != 4)
      fail_value(kLinearAttention, ": ", name, " must be (B, H, T, D); got ", name, " ", *shape, " with ",
                 shape->rank(), " axes");
  const Index B = q.dim(0), H = k.dim(1), T = q.dim(2), D = q.dim(3);
  check_shape("key", k, {B, H, T, D}, "(B, Hkv, T, D)");
  check_shape("value", v, {B, H, T, v.dim(3)}, "(B, Hkv, T, Dv)");
  if (H == 0 || q.dim(1) % H != 0)
    fail_value(kLinearAttention, ": query must have a multiple of the keys' heads, ", H, "; got query ", q);
  check_given("decay", decay, decays(o.rule), "fades the state", o.rule);
  check_given("beta", beta, corrects(o.rule), "corrects by this rate", o.rule);
  if (decay.defined() && decay.rank() == 4) check_shape("decay", decay.shape(), {B, H, T, D}, "(B, Hkv, T, D)");
  else if (decay.defined()) check_shape("decay", decay.shape(), {B, H, T}, "(B, Hkv, T)");
  if (beta.defined()) check_shape("beta", beta.shape(), {B, H, T}, "(B, Hkv, T)");
  if (state.defined()) check_shape("state", state.shape(), {B, H, D, v.dim(3)}, "(B, Hkv, D, Dv)");
  if (o.chunk_size < 1) fail_value(kLinearAttention, ": chunk_size must be at least 1; got ", o.chunk_size);
  if (o.scale && !std::isfinite(*o.scale)) fail_value(kLinearAttention, ": scale must be finite; got ", *o.scale);
}

// (M, N, C, size) of (B, H, T, size), or of (B, H, T); after the last step come zeros, which change no state.
Tensor in_chunks(const Tensor& x, const ChunkSizes& n, Index size) {
  const Index missing = n.N * n.C - x.dim(2);
  const IndexList before(x.shape().size(), 0);
  IndexList behind = before;
  behind[2] = missing;
  return reshape(missing == 0 ? x : pad(x, before, behind, scalar_like(x, 0)), {n.M, n.N, n.C, size});
}

// (M, N, G C, D) of (B, Hkv G, T, D): the G heads that share a key are below each other.
Tensor queries_in_chunks(const Tensor& x, const ChunkSizes& n) {
  if (n.G == 1) return in_chunks(x, n, n.D);
  const Tensor heads = in_chunks(x, {n.M * n.G, n.N, n.C, 1, n.D, n.Dv}, n.D);
  return reshape(transpose(reshape(heads, {n.M, n.G, n.N, n.C, n.D}), {0, 2, 1, 3, 4}), {n.M, n.N, n.G * n.C, n.D});
}

// What decays do within the chunks.
class Decay {
 public:
  Decay() = default;
  Decay(const Tensor& decay, const ChunkSizes& n) {
    if (!decay.defined()) return;
    per_feature_ = decay.rank() == 4;
    total_ = cumulative_sum(in_chunks(clip(decay, least_decay(decay.dtype()), {}), n, per_feature_ ? n.D : 1), 2);
    last_ = slice(total_, 2, n.C - 1, n.C);
    if (per_feature_) return;
    const Tensor apart = subtract(total_, transposed(total_)),
                 never = scalar_like(apart, -std::numeric_limits<double>::infinity());
    Array reaches = Array::full({n.C, n.C}, DType::boolean, true);
    for (Index i = 0; i < n.C; ++i)
      for (Index j = i + 1; j < n.C; ++j) reaches.data<bool>()[i * n.C + j] = false;
    between_ = exponential(where(Tensor(reaches), apart, never));
  }

  // Products of rows x (M, N, R, D) with the keys up to each step, (M, N, R, C), faded since.
  Tensor products(const Tensor& x, const Tensor& k, const ChunkSizes& n) const {
    const Index R = x.dim(2);
    const Shape shape{n.M, n.N, R, n.C};
    if (per_feature_) {
      const Index blocks = n.M * n.N;
      return reshape(decayed_products(reshape(x, {blocks, R, n.D}), reshape(k, {blocks, n.C, n.D}),
                                      reshape(total_, {blocks, n.C, n.D})),
                     shape);
    }
    const Tensor all = reshape(matmul(x, transposed(k)), {n.M, n.N, R / n.C, n.C, n.C});
    if (!total_.defined()) return reshape(lower_triangle(all, 0), shape);
    return reshape(multiply(all, reshape(between_, {n.M, n.N, 1, n.C, n.C})), shape);
  }
  // Rows (M, N, R, D) faded from the chunk's beginning, and keys to its end.
  Tensor from_begin(const Tensor& x, const ChunkSizes& n) const {
    if (!total_.defined()) return x;
    const Index size = total_.dim(-1);
    const Tensor rows = reshape(x, {n.M, n.N, x.dim(2) / n.C, n.C, n.D});
    return reshape(multiply(rows, reshape(exponential(total_), {n.M, n.N, 1, n.C, size})), x.shape());
  }
  Tensor to_end(const Tensor& k) const {
    return total_.defined() ? multiply(k, exponential(subtract(last_, total_))) : k;
  }
  // What is left of the state after each chunk, (M, N, D or 1, 1); undefined: all.
  Tensor left() const { return total_.defined() ? transposed(exponential(last_)) : Tensor(); }

 private:
  static Tensor exponential(const Tensor& x) { return unary(kernels::Unary::exponential, x); }

  bool per_feature_ = false;
  Tensor total_;    // (M, N, C, D or 1): sums of the decays up to each step
  Tensor last_;     // (M, N, 1, D or 1)
  Tensor between_;  // (M, N, C, C): exp of the decays after step j up to step i, without features
};

// The states before each chunk and after the last one, (M, N + 1, D, Dv), where a chunk adds (M, N, D, Dv).
Tensor states_of_sums(const Tensor& added, const Tensor& state, const Tensor& left, const ChunkSizes& n) {
  const Tensor a = concatenate({reshape(state, {n.M, 1, n.D, n.Dv}), added}, 1);
  if (!left.defined()) return cumulative_sum(a, 1);
  const Tensor one(Array::full({n.M, 1, n.D, n.Dv}, a.dtype(), 1));
  return linear_scan(a, concatenate({one, broadcast_to(left, added.shape())}, 1), 1);
}

// The same where it also takes `removed` (M, N, D, D) @ state away.
Tensor states_of_corrections(const Tensor& added, const Tensor& removed, const Tensor& state, const Tensor& left,
                             const ChunkSizes& n) {
  const auto of_chunk = [](const Tensor& x, Index chunk) {
    return reshape(slice(x, 1, chunk, chunk + 1), {x.dim(0), x.dim(2), x.dim(3)});
  };
  Tensor now = reshape(state, {n.M, n.D, n.Dv});
  Tensors states{now};
  for (Index chunk = 0; chunk < n.N; ++chunk) {
    const Tensor change = subtract(of_chunk(added, chunk), matmul(of_chunk(removed, chunk), now));
    now = add(left.defined() ? multiply(now, of_chunk(left, chunk)) : now, change);
    states.push_back(now);
  }
  return stack(states, 1);
}

// The whole of recorded operations, for gradients. inputs: query, key, value, decay, beta, state.
Tensors composed(const Tensors& inputs, double scale, Index chunk_size) {
  const Tensor &query = inputs[0], &key = inputs[1], &value = inputs[2], &beta = inputs[4], &start = inputs[5];
  const Index B = query.dim(0), H = key.dim(1), T = query.dim(2), D = query.dim(3), Dv = value.dim(3),
              C = std::min(T, chunk_size);
  const ChunkSizes n{B * H, (T + C - 1) / C, C, query.dim(1) / H, D, Dv};
  const Tensor q = queries_in_chunks(scaled(query, scale), n), k = in_chunks(key, n, D), v = in_chunks(value, n, Dv);
  const Decay fading(inputs[3], n);
  const Tensor ends = transposed(fading.to_end(k)), left = fading.left();
  Tensor states, values = v;
  if (beta.defined()) {
    // A step's value less what the state holds for its key: of all steps of a chunk, a triangular system.
    const Tensor rate = in_chunks(beta, n, 1);
    const Tensor inverse = unit_lower_inverse(lower_triangle(multiply(rate, fading.products(k, k, n)), -1));
    const Tensor of_values = matmul(inverse, multiply(rate, v)),
                 of_state = matmul(inverse, multiply(rate, fading.from_begin(k, n)));
    states = states_of_corrections(matmul(ends, of_values), matmul(ends, of_state), start, left, n);
    values = subtract(of_values, matmul(of_state, slice(states, 1, 0, n.N)));
  } else {
    states = states_of_sums(matmul(ends, v), start, left, n);
  }
  const Tensor y = add(matmul(fading.from_begin(q, n), slice(states, 1, 0, n.N)),
                       matmul(fading.products(q, k, n), values));  // (M, N, G C, Dv)
  const Tensor heads = n.G == 1 ? y : transpose(reshape(y, {n.M, n.N, n.G, C, Dv}), {0, 2, 1, 3, 4});
  return {slice(reshape(heads, {B, H * n.G, n.N * C, Dv}), 2, 0, T),
          reshape(slice(states, 1, n.N, n.N + 1), {B, H, D, Dv})};
}

}  // namespace

UpdateRule update_rule_named(const char* operation, const std::string& name) {
  for (const auto& [known, rule] : kRules)
    if (name == known) return rule;
  fail_value(operation, ": update_rule must be \"linear\", \"gated\", \"delta\" or \"gated_delta\"; got \"", name,
             "\"");
}

const char* name_of(UpdateRule rule) { return kRules[static_cast<std::size_t>(rule)].first; }

LinearAttentionOutput linear_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& decay,
                                       const Tensor& beta, const Tensor& state, const LinearAttentionOptions& o) {
  check(query.shape(), key.shape(), value.shape(), decay, beta, state, o);
  const DType dtype = promoted({query, key, value, decay, beta, state});
  const Shape state_shape{query.dim(0), key.dim(1), query.dim(3), value.dim(3)};
  const auto taken = [&](const Tensor& x) { return x.defined() ? owned(packed_as(x, dtype)) : x; };
  const Tensors inputs{taken(query), taken(key),
                       taken(value), taken(decay),
                       taken(beta),  state.defined() ? taken(state) : Tensor(Array::zeros(state_shape, dtype))};
  if (query.dim(2) == 0)
    return {matmul(inputs[0], Tensor(Array::zeros({query.dim(3), value.dim(3)}, dtype))), copy(inputs[5])};
  const auto array = [&](std::size_t i) { return inputs[i].defined() ? inputs[i].data() : Array(); };
  const Array last = array(5).clone();
  const double scale = o.scale.value_or(1 / std::sqrt(static_cast<double>(std::max<Index>(query.dim(3), 1))));
  Array y = linear_attention_forward(array(0), array(1), array(2), array(3), array(4), last, scale, o.chunk_size);
  if (!wants_gradient(inputs)) return {Tensor(std::move(y)), Tensor(last)};
  const Tensors results =
      record_composed({std::move(y), last}, inputs,
                      [scale, chunk = o.chunk_size](const Tensors& in) { return composed(in, scale, chunk); });
  return {results[0], results[1]};
}

}  // namespace qkv::ops
