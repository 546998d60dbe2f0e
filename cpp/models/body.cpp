#include "models/body.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "nn/init.h"
#include "nn/observer.h"
#include "ops/ops.h"
#include "ops/position_tables.h"

namespace qkv::models {
namespace {

constexpr const char* kName = "TransformerBody";
constexpr nn::BlockNames kBlock{"TransformerBlock",
                                "x",
                                {"norm1", "self_attn", "post_norm1", "norm2", "multihead_attn", "post_norm2", "norm3",
                                 "linear1", "linear_gate", "linear2", "post_norm3", "dropout", "inner_dropout"},
                                {"self_attn", "multihead_attn", "linear1 and linear2"}};
constexpr ops::MaskNames kMemory{"memory_valid_lens", "memory_mask"};
constexpr const char* kRules[] = {"rows", "mask", "ids"};

Array sines_then_cosines(Index count, Index width) {
  const Array table = ops::sinusoidal_positions(count, width, 10000);  // in turns
  const Index half = (width + 1) / 2;
  Array sorted(table.shape(), DType::float64);
  for (Index i = 0; i < table.numel(); ++i) {
    const Index column = i % width;
    sorted.data<double>()[i - column + (column % 2 == 0 ? column / 2 : half + column / 2)] = table.data<double>()[i];
  }
  return sorted;
}

const BodyOptions& checked(const BodyOptions& o) {
  nn::check_positive(kName, {{"d_model", o.d_model},
                             {"vocab_size", o.vocab_size},
                             {"embedding_size", o.embedding_size},
                             {"max_positions", o.max_positions > 0 ? std::optional(o.max_positions) : std::nullopt}});
  if (o.position_offset < 0 || (o.max_positions > 0 && o.position_offset >= o.max_positions))
    fail_value(kName, ": position_offset must be from 0 and below max_positions = ", o.max_positions, "; got ",
               o.position_offset);
  if (o.pad_id && (!o.vocab_size || *o.pad_id < 0 || *o.pad_id >= *o.vocab_size))
    fail_value(kName, ": pad_id must be from 0 and below vocab_size; got ", *o.pad_id);
  if (o.position_rule == PositionRule::ids && !o.pad_id)
    fail_value(kName, ": pad_id must be given because position_rule \"ids\" counts the others; got None");
  if (o.disentangled && o.disentangled->span < 1)
    fail_value(kName, ": disentangled must have a span of at least 1; got ", o.disentangled->span);
  nn::checked_probability(kName, "dropout", o.dropout);
  return o;
}

// Norms of queries and keys have the block's eps, attention to a memory has the scale of the other.
nn::BlockOptions shared(nn::BlockOptions o) {
  o.attention.scores.qk_norm_eps = o.norm_eps;
  o.memory_scale = o.attention.scores.scale;
  return o;
}

// Whether what each item keeps is together, so that distances between kept rows are those in the sequence.
bool together(const PaddedRows& rows) {
  const std::int64_t* kept = rows.kept.data<std::int64_t>();
  for (const Index count : rows.counts) {
    if (count > 0 && kept[count - 1] - kept[0] != count - 1) return false;
    kept += count;
  }
  return true;
}

}  // namespace

const char* name_of(PositionRule rule) { return kRules[static_cast<std::size_t>(rule)]; }

PositionRule position_rule_named(const char* owner, const std::string& name) {
  for (std::size_t i = 0; i < std::size(kRules); ++i)
    if (name == kRules[i]) return static_cast<PositionRule>(i);
  fail_value(owner, ": position_rule must be \"rows\", \"mask\" or \"ids\"; got \"", name, "\"");
}

nn::BlockOptions block_defaults() {
  nn::BlockOptions o{.dropout = 0, .inner_dropout = 0, .activation = "gelu", .placement = nn::Placement::pre};
  o.attention.num_heads = 0;
  o.inner = 0;
  return o;
}

TransformerBlock::TransformerBlock(const nn::BlockOptions& options) : Block(kBlock, shared(options)) {}

nn::Config TransformerBlock::config() const {
  nn::Config config;
  nn::add_differing(config, options, block_defaults());
  return config;
}

TransformerBody::TransformerBody(const BodyOptions& o, const std::vector<nn::BlockOptions>& blocks)
    : options(checked(o)),
      sines_(o.sinusoidal ? sines_then_cosines(o.max_positions, o.embedding_size.value_or(o.d_model)) : Array()) {
  const Index width = o.embedding_size.value_or(o.d_model);
  const auto own = [&]<class M>(const char* name, std::shared_ptr<M>& member, std::shared_ptr<M> value,
                                Absent absent = Absent::never) {
    own_module(o.names.of(name), member, std::move(value), absent);
  };
  const auto wanted = [&](const char* name) { return o.names.empty() || o.names.has(name); };
  const auto table = [&](const char* name, std::shared_ptr<nn::Embedding>& member, Index rows, Index columns,
                         std::optional<Index> padding = {}) {
    auto made = rows > 0 ? std::make_shared<nn::Embedding>(rows, columns, padding) : nullptr;
    if (made && !nn::SkipInit::active()) nn::fill_normal(made->weight.data(), 0, 0.02);
    if (made && padding && !nn::SkipInit::active())
      std::fill_n(made->weight.ptr<float>() + *padding * columns, columns, 0.0f);
    if (made || name == std::string("relative_bias")) own(name, member, std::move(made), Absent::allowed);
  };
  table("embedding", embedding, o.vocab_size.value_or(0), width, o.pad_id);
  table("position_embedding", position_embedding, o.sinusoidal ? 0 : o.max_positions, width);
  table("type_embedding", type_embedding, o.type_vocab_size, width);
  if (o.embedding_norm)
    own("embedding_norm", embedding_norm, nn::make_norm(*o.embedding_norm, width, o.norm_eps, o.norm_bias));
  if (width != o.d_model)
    own("embedding_projection", embedding_projection, std::make_shared<nn::Linear>(width, o.d_model));
  // A copy is made without layers, which are put there then.
  if (o.relative_bias)
    table("relative_bias", relative_bias, blocks.empty() ? 0 : o.relative_bias->num_buckets,
          blocks.empty() ? 0 : blocks.front().attention.num_heads);
  if (o.disentangled) table("relative_embedding", relative_embedding, 2 * o.disentangled->span, o.d_model);
  if (o.disentangled && o.relative_norm)
    own("relative_norm", relative_norm, nn::make_norm(nn::NormKind::layer, o.d_model, o.norm_eps, o.norm_bias));
  if (wanted("dropout")) own("dropout", dropout, std::make_shared<nn::Dropout>(o.dropout));
  auto list = std::make_shared<nn::ModuleList>();
  for (const nn::BlockOptions& block : blocks) list->append(std::make_shared<TransformerBlock>(block));
  if (wanted("layers")) own("layers", layers, std::move(list));
  if (o.final_norm) own("norm", norm, nn::make_norm(*o.final_norm, o.d_model, o.norm_eps, o.norm_bias));
}

nn::Config TransformerBody::config() const {
  nn::Config config;
  nn::add_differing(config, options);
  return config;
}

void TransformerBody::check(const Input& input) const {
  const bool by_ids = options.vocab_size.has_value();
  if (by_ids != input.ids.defined() || by_ids == input.inputs.defined())
    fail_type(kName, ": ", by_ids ? "input_ids" : "inputs", " must be given, and nothing else, because vocab_size is ",
              by_ids ? "set" : "None");
  if (by_ids && (input.ids.rank() != 2 || input.ids.dim(1) < 1))
    fail_value(kName, ": input_ids must be (B, L) with L at least 1; got input_ids ", input.ids.shape());
  if (!by_ids && (input.inputs.rank() != 3 || input.inputs.dim(2) != embedding_width() || input.inputs.dim(1) < 1))
    fail_value(kName, ": inputs must be (B, L, ", embedding_width(), ") with L at least 1; got inputs ",
               input.inputs.shape());
  if (input.types.defined() && (!type_embedding || input.types.shape() != input.ids.shape()))
    fail_value(kName, ": token_type_ids must ",
               type_embedding ? text("have the shape of input_ids ", input.ids.shape())
                              : std::string("not be given because type_vocab_size is 0"),
               "; got token_type_ids ", input.types.shape());
}

Array TransformerBody::positions(const Input& input, const PaddedRows& rows, Index before) const {
  const Array& mask = input.attention_mask;
  const bool by_mask = options.position_rule == PositionRule::mask && mask.defined() && mask.rank() == 2;
  const bool by_ids = options.position_rule == PositionRule::ids && input.ids.defined();
  if (!by_mask && !by_ids) return ops::consecutive(before, rows.length);
  if (by_ids && before > 0)
    fail_value(kName, ": cache must be None because positions count the ids of the whole sequence; got one");
  const Index columns = by_mask ? before + rows.length : rows.length;
  const Array counts = by_mask ? mask.cast(DType::boolean) : Array();
  Array numbers({rows.batch, rows.length}, DType::int64);
  for (Index b = 0; b < rows.batch; ++b) {
    Index seen = 0;
    for (Index i = 0; i < columns; ++i) {
      const bool real = by_mask ? counts.data<bool>()[b * columns + i]
                                : input.ids.data<std::int64_t>()[b * columns + i] != *options.pad_id;
      seen += real ? 1 : 0;
      const Index row = i - (columns - rows.length);
      if (row >= 0)
        numbers.data<std::int64_t>()[b * rows.length + row] = real     ? seen - 1
                                                              : by_ids ? -1
                                                                       : std::max<Index>(seen - 1, 0);
    }
  }
  return numbers;
}

Tensor TransformerBody::position_rows(const Array& positions) {
  Array numbers = positions.clone();
  for (Index i = 0; i < numbers.numel(); ++i) {
    std::int64_t& number = numbers.data<std::int64_t>()[i];
    number += options.position_offset;
    if (number >= options.max_positions || number < 0)
      fail_value(kName, ": input_ids must have at most ", options.max_positions - options.position_offset,
                 " positions; got position ", positions.data<std::int64_t>()[i]);
  }
  if (position_embedding) return position_embedding->forward_ids(numbers);
  return ops::embedding(Tensor(sines_.cast(dtype())), numbers, {});
}

Tensor TransformerBody::embedded(const Input& input, const PaddedRows& rows, const Array& positions) {
  Tensor x;
  if (embedding) {
    x = embedding->forward_ids(rows.picked(input.ids));  // (B, L, M) or (R, M)
    if (options.embedding_scale != 1) x = ops::scaled(x, options.embedding_scale);
  } else {
    x = ops::floating(input.inputs);
    if (rows.packed()) x = kept_rows(x, rows);
  }
  if (type_embedding)
    x = ops::add(x, type_embedding->forward_ids(input.types.defined() ? rows.picked(input.types)
                                                                      : Array::zeros({1}, DType::int64)));
  if (options.max_positions > 0) x = ops::add(x, position_rows(positions));
  if (embedding_norm) x = embedding_norm->forward(kName, x);
  if (dropout) x = dropout->forward(x);
  return embedding_projection ? embedding_projection->forward(x) : x;
}

Tensor TransformerBody::forward(const Input& input, nn::ModelCache* cache, Tensors* states) {
  if (const nn::Observed seen(*this); seen && input.ids.defined() != input.inputs.defined())
    return seen.call(input.ids.defined() ? Tensor(input.ids) : input.inputs, [&](const Tensor& y) {
      Input other = input;
      if (other.ids.defined()) other.ids = y.data();
      else other.inputs = y;
      return TransformerBody::forward(other, cache, states);
    });
  check(input);
  const auto blocks = parts();
  nn::CacheStep step(cache, kName, blocks.size());
  const Index before = cache == nullptr ? 0 : cache->length();
  const Shape& shape = input.ids.defined() ? input.ids.shape() : input.inputs.shape();
  PaddedRows rows =
      padded_rows(kName, shape[0], shape[1], input.valid_lens, input.attention_mask, input.skip_padding, before);
  const PaddedRows asked = rows;
  const bool by_distance =
      relative_bias || relative_embedding || std::any_of(blocks.begin(), blocks.end(), [](const auto& block) {
        const nn::ScoreOptions& scores = block->options.attention.scores;
        return scores.window || scores.alibi || scores.relative_bias;
      });
  if (rows.packed() && (relative_embedding || (by_distance && !together(rows))))  // whole, and left out of the result
    rows = padded_rows(kName, shape[0], shape[1], input.valid_lens, input.attention_mask, false, before);
  const Array numbers = positions(input, rows, before);
  const Array kept = rows.picked(numbers);  // (L,), (B, L) or (R,)
  const auto whole = [&](const Tensor& x) {
    if (rows.packed()) return unpacked(x, rows);
    return asked.packed() ? unpacked(kept_rows(x, asked), asked) : x;
  };
  nn::RotaryTables tables;
  nn::SharedPositions shared{kept.cast(DType::float64), &tables};
  nn::DistanceRows distances;
  if (relative_bias)
    shared.distance_bias = relative_bias->forward_ids(
        nn::distance_buckets(*options.relative_bias, rows.length, before + rows.length, before));
  if (relative_embedding) {
    if (before > 0) fail_value(kName, ": cache must be None because disentangled is of whole sequences; got one");
    distances = nn::distance_rows(*options.disentangled, rows.length);
    shared.disentangled = &*options.disentangled;
    shared.distance_rows = &distances;
    const Tensor table = ops::slice(relative_embedding->weight, 0, distances.first, distances.end);
    shared.relative_states = relative_norm ? relative_norm->forward(kName, table) : table;
  }
  nn::BlockCall call{.self = rows.mask_spec, .rows = rows.packed() ? &rows : nullptr, .shared = &shared};
  if (input.memory.defined() && (input.memory_mask.defined() || input.memory_lens.defined()))
    call.memory =
        padded_rows(kName, shape[0], input.memory.dim(1), input.memory_lens, input.memory_mask, false, 0, kMemory)
            .mask_spec;
  Tensor x = embedded(input, rows, kept);
  if (states != nullptr) states->push_back(x);
  x = nn::through(blocks, x, input.memory, call, cache, nullptr, states);
  if (norm) x = norm->forward(kName, x);
  if (states != nullptr)
    for (Tensor& state : *states) state = whole(state);
  x = whole(x);
  step.commit();
  return x;
}

}  // namespace qkv::models
