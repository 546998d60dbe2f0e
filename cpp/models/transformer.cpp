#include "models/transformer.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "models/encoder_decoder.h"
#include "nn/init.h"
#include "ops/ops.h"

namespace qkv::models {
namespace {

using nn::MaskSpec;

const TransformerSizes& checked(const TransformerSizes& s) {
  nn::check_positive("Transformer", {{"src_vocab", s.src_vocab},
                                     {"tgt_vocab", s.tgt_vocab},
                                     {"num_encoder_layers", s.num_encoder_layers},
                                     {"num_decoder_layers", s.num_decoder_layers},
                                     {"max_len", s.max_len}});
  nn::checked("Transformer", s.layer);
  return s;
}

template <class Stack, class Layer> std::shared_ptr<Stack> stack_of(const TransformerSizes& s, Index count) {
  std::vector<std::shared_ptr<Layer>> layers;
  for (Index i = 0; i < count; ++i) layers.push_back(std::make_shared<Layer>(s.layer));
  nn::ModulePtr norm;
  if (s.layer.placement == nn::Placement::pre)
    norm = std::make_shared<nn::LayerNorm>(Shape{s.layer.attention.embed_dim}, s.layer.norm_eps);
  return std::make_shared<Stack>(std::move(layers), std::move(norm));
}

// The mean (N, Ts) of weights (N, H, 1, Ts), or (N, 1, Ts) of an attention without heads.
Array over_heads(const Array& weights) {
  if (!weights.defined()) return {};
  return packed(ops::mean(Tensor(weights), weights.rank() == 4 ? ops::Axes{1, 2} : ops::Axes{1}).data());
}

class TransformerContinuation : public Continuation {
 public:
  TransformerContinuation(Transformer& model, const Array& src, const Array& src_valid_lens)
      : model_(model),
        mask_spec_(model.source_keys(src, src_valid_lens)),
        memory_(model.encode(src, src_valid_lens)),
        cache_(model.decoder->parts().size()),
        sentence_({src.dim(0)}, DType::int64) {
    for (Index i = 0; i < src.dim(0); ++i) sentence_.data<std::int64_t>()[i] = i;
  }

  Array step(const Array& tokens) override {
    const NoGrad off;
    // Padding may be written, too; as in the parallel pass it is not attended to.
    const Index rows = tokens.numel(), seen = real_.defined() ? real_.dim(3) : 0;
    Array real({rows, 1, 1, seen + 1}, DType::boolean);
    for (Index i = 0; i < rows; ++i) {
      if (seen > 0) std::copy_n(real_.data<bool>() + i * seen, seen, real.data<bool>() + i * (seen + 1));
      real.data<bool>()[i * (seen + 1) + seen] = tokens.data<std::int64_t>()[i] != model_.sizes.pad_id;
    }
    real_ = real;
    MaskSpec tgt;
    if (std::find(real.data<bool>(), real.data<bool>() + real.numel(), false) != real.data<bool>() + real.numel())
      tgt.attn_mask = Tensor(real);
    const Tensor logits = model_.decode(tokens.reshaped({rows, 1}), memory_, tgt, mask_spec_, &cache_);
    return packed(logits.data()).reshaped({tokens.numel(), model_.sizes.tgt_vocab});
  }

  void reorder(const Array& indices) override {
    const Array sentence = ops::entries(sentence_, 0, indices);
    const bool same = sentence.numel() == sentence_.numel() &&
                      std::equal(sentence.data<std::int64_t>(), sentence.data<std::int64_t>() + sentence.numel(),
                                 sentence_.data<std::int64_t>());
    cache_.reorder(indices, !same);
    if (!same) {
      memory_ = Tensor(ops::entries(memory_.data(), 0, indices));
      if (mask_spec_.valid_lens.defined()) mask_spec_.valid_lens = ops::entries(mask_spec_.valid_lens, 0, indices);
      if (mask_spec_.attn_mask.defined())
        mask_spec_.attn_mask = Tensor(ops::entries(mask_spec_.attn_mask.data(), 0, indices));
    }
    sentence_ = sentence;
    real_ = ops::entries(real_, 0, indices);
  }

  Array attention() override {
    if (nn::NoAttentionRecord::active()) return {};
    return over_heads(cache_.layers.back().cross.weights());  // of (N, H, 1, Ts)
  }

 private:
  Transformer& model_;
  MaskSpec mask_spec_;
  Tensor memory_;
  nn::ModelCache cache_;
  Array sentence_;  // of each row
  Array real_;      // (N, 1, 1, t): which tokens so far are not padding
};

// Of a model with a forward of its own, which knows no state.
class WholeContinuation : public Continuation {
 public:
  WholeContinuation(Transformer& model, const Array& src, const Array& src_valid_lens)
      : model_(model), src_(src), lens_(src_valid_lens), tgt_({src.dim(0), 0}, DType::int64) {}

  Array step(const Array& tokens) override {
    const NoGrad off;
    const Index rows = tokens.numel(), seen = tgt_.dim(1);
    tgt_ = ops::concatenate({Tensor(tgt_), Tensor(tokens.reshaped({rows, 1}))}, 1).data();
    const auto layers = model_.decoder->parts();
    const nn::AttentionRecord::Capture own(layers.empty() ? nullptr : layers.back()->shown_record());
    const Tensor logits = model_.forward(src_, tgt_, lens_, {});
    const Array weights = nn::NoAttentionRecord::active() ? Array() : own.weights();  // (N, H, t, Ts)
    attention_ = {};
    if (weights.defined() && weights.dim(-2) == seen + 1)
      attention_ = over_heads(ops::slice(Tensor(weights), weights.rank() - 2, seen, seen + 1).data());
    return packed(ops::slice(logits, 1, seen, seen + 1).data()).reshaped({rows, model_.sizes.tgt_vocab});
  }

  void reorder(const Array& indices) override {
    src_ = ops::entries(src_, 0, indices);
    tgt_ = ops::entries(tgt_, 0, indices);
    if (lens_.defined()) lens_ = ops::entries(lens_, 0, indices);
  }

  Array attention() override { return attention_; }

 private:
  Transformer& model_;
  Array src_, lens_, tgt_, attention_;
};

}  // namespace

Transformer::Transformer(const TransformerSizes& s) : sizes(checked(s)) {
  const Index d_model = s.layer.attention.embed_dim;
  own_module("src_embedding", src_embedding, std::make_shared<nn::Embedding>(s.src_vocab, d_model));
  own_module("tgt_embedding", tgt_embedding, std::make_shared<nn::Embedding>(s.tgt_vocab, d_model));
  own_module("positions", positions, std::make_shared<nn::PositionalEncoding>(d_model, s.layer.dropout, s.max_len));
  own_module("encoder", encoder,
             stack_of<nn::TransformerEncoder, nn::TransformerEncoderLayer>(s, s.num_encoder_layers));
  own_module("decoder", decoder,
             stack_of<nn::TransformerDecoder, nn::TransformerDecoderLayer>(s, s.num_decoder_layers));
  own_module("output", output, std::make_shared<nn::Linear>(d_model, s.tgt_vocab));
  if (nn::SkipInit::active()) return;
  for (const auto& [name, parameter] : named_parameters()) {
    if (name == "src_embedding.weight" || name == "tgt_embedding.weight")
      nn::fill_normal(parameter.data(), 0, 1 / std::sqrt(static_cast<double>(d_model)));
    else if (parameter.rank() == 2) nn::fill_xavier_uniform(parameter.data());
  }
}

nn::Config Transformer::config() const {
  const auto& a = sizes.layer;
  const auto& attention = a.attention;
  return {{"src_vocab", sizes.src_vocab},
          {"tgt_vocab", sizes.tgt_vocab},
          {"d_model", attention.embed_dim},
          {"nhead", attention.num_heads},
          {"num_encoder_layers", sizes.num_encoder_layers},
          {"num_decoder_layers", sizes.num_decoder_layers},
          {"dim_feedforward", a.inner},
          {"dropout", a.dropout},
          {"activation", a.activation},
          {"norm_first", a.placement == nn::Placement::pre},
          {"max_len", sizes.max_len},
          {"pad_id", sizes.pad_id}};
}

Tensor Transformer::embedded(nn::Embedding& embedding, const Array& ids, Index offset) {
  const Tensor x = embedding.forward_ids(ids);
  return positions->forward(
      ops::multiply(x, ops::scalar_like(x, std::sqrt(static_cast<double>(sizes.layer.attention.embed_dim)))), offset);
}

MaskSpec Transformer::source_keys(const Array& src, const Array& src_valid_lens) const {
  check_ids("Transformer", "src", src);
  return keys_of(src, src_valid_lens, {"src_valid_lens", "src_attn_mask"});
}

MaskSpec Transformer::target_keys(const Array& tgt, const Array& tgt_valid_lens) const {
  check_ids("Transformer", "tgt", tgt);
  return keys_of(tgt, tgt_valid_lens, {"tgt_valid_lens", "tgt_attn_mask"});
}

MaskSpec Transformer::keys_of(const Array& ids, const Array& valid_lens, ops::MaskNames names) const {
  MaskSpec mask_spec;
  mask_spec.names = names;
  mask_spec.valid_lens = valid_lens;
  if (valid_lens.defined()) return mask_spec;
  // Padding is at the end of almost every batch: lengths say that, and the blocks after them are skipped.
  const Index batches = ids.dim(0), length = ids.dim(1);
  const std::int64_t* id = ids.data<std::int64_t>();
  Array lens({batches}, DType::int64);
  bool at_end = true, any = false;
  for (Index b = 0; b < batches; ++b) {
    const std::int64_t* row = id + b * length;
    Index used = length;
    while (used > 0 && row[used - 1] == sizes.pad_id) --used;
    lens.data<std::int64_t>()[b] = used;
    any = any || used < length;
    for (Index i = 0; i < used; ++i) at_end = at_end && row[i] != sizes.pad_id;
  }
  if (at_end) {
    if (any) mask_spec.valid_lens = lens;
    return mask_spec;
  }
  Array mask({batches, 1, 1, length}, DType::boolean);
  for (Index i = 0; i < ids.numel(); ++i) mask.data<bool>()[i] = id[i] != sizes.pad_id;
  mask_spec.attn_mask = Tensor(mask);
  return mask_spec;
}

Tensor Transformer::encode(const Array& src, const Array& src_valid_lens) {
  const MaskSpec mask_spec = source_keys(src, src_valid_lens);
  return encoder->forward(embedded(*src_embedding, src, 0), Tensor(), {.self = mask_spec});
}

Tensor Transformer::decode(const Array& tgt, const Tensor& memory, const MaskSpec& tgt_mask_spec,
                           const MaskSpec& memory_mask_spec, nn::ModelCache* cache) {
  check_ids("Transformer", "tgt", tgt);
  const nn::BlockCall call{tgt_mask_spec, memory_mask_spec, ops::Causal::upper_left};
  nn::CacheStep step(cache);
  const Tensor x = embedded(*tgt_embedding, tgt, cache == nullptr ? 0 : cache->length());
  const Tensor logits = output->forward(decoder->forward(x, memory, call, cache));
  step.commit();
  return logits;
}

Tensor Transformer::forward(const Array& src, const Array& tgt, const Array& src_valid_lens,
                            const Array& tgt_valid_lens) {
  if (const nn::Observed seen(*this); seen)
    return seen.call(Tensor(src), [&](const Tensor& y) {
      return Transformer::forward(y.data(), tgt, src_valid_lens, tgt_valid_lens);
    });
  check_ids("Transformer", "src", src);
  check_ids("Transformer", "tgt", tgt);
  if (src.dim(0) != tgt.dim(0))
    fail_value("Transformer: tgt must have the batch size of src ", src.shape(), "; got tgt ", tgt.shape());
  return decode(tgt, encode(src, src_valid_lens), target_keys(tgt, tgt_valid_lens), source_keys(src, src_valid_lens));
}

std::unique_ptr<Continuation> Transformer::continuation(const Array& src, const Array& src_valid_lens) {
  const NoGrad off;
  if (defines_forward()) {
    check_ids("Transformer", "src", src);
    return std::make_unique<WholeContinuation>(*this, src, src_valid_lens);
  }
  return std::make_unique<TransformerContinuation>(*this, src, src_valid_lens);
}

}  // namespace qkv::models
