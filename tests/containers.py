"""Every public module with parts: how one is made, and calls each of which reaches all its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import qkv
from qkv import models, nn

RNG = np.random.default_rng(62)
B, L, M = 2, 4, 8
X, Y = RNG.standard_normal((B, L, M)), RNG.standard_normal((B, L + 1, M))
IDS, TARGETS = RNG.integers(4, 12, (B, L)), RNG.integers(4, 12, (B, L - 1))
P = 0.25
MASK = RNG.random((L, L)) < 0.7
MASK[:, 0] = True
BERT = models.BertConfig(
    vocab_size=12, hidden_size=M, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
    max_position_embeddings=8, hidden_dropout_prob=P, attention_probs_dropout_prob=P, num_labels=3,
)  # fmt: skip


def values(result: Any) -> list[np.ndarray]:
    """The numbers of a result, of any nest of tuples and lists."""
    if isinstance(result, (tuple, list)):
        return [array for part in result for array in values(part)]
    return [] if result is None else [np.array(result)]


def decoded(decoder: nn.Module, steps: bool) -> Any:
    qkv.manual_seed(5)
    outputs, state = qkv.randn(B, L, M), qkv.randn(2, B, M)
    dtype = decoder.dense.weight.dtype
    state = decoder.init_state((outputs.astype(dtype), state.astype(dtype)), [L, 2])
    if not steps:
        return decoder(TARGETS, state)
    results = []
    with qkv.no_grad():
        for t in range(TARGETS.shape[1]):
            logits, state = decoder(TARGETS[:, t : t + 1], state)
            results.append(logits)
    return results


def cached(model: nn.Module) -> Any:
    caches = [nn.KVCache() for _ in model.layers]
    with qkv.no_grad():
        return model(IDS[:, :2], cache=caches), model(IDS[:, 2:], cache=caches)


def beams(model: nn.Module, *arguments: Any, **options: Any) -> Any:
    return model.generate(*arguments, method="beam", beam_size=2, max_len=3, **options)


def layer(x: np.ndarray = X, **options: Any) -> Callable[..., Any]:
    return lambda module: module(x.astype(next(iter(module.parameters())).dtype), **options)


ATTENTION_CALLS = [
    lambda m: m(X, Y, Y),
    lambda m: m(X, Y, Y, valid_lens=[3, 5], return_weights=True),
]
LAYER_CALLS = [layer(), layer(valid_lens=[2, 4], attn_mask=MASK, is_causal=True, return_weights=True)]
DECODER_CALLS = [
    lambda m: m(X, Y),
    lambda m: m(X, Y, is_causal=True, memory_valid_lens=[5, 2], return_weights=True),
]
BERT_CALLS = [
    lambda m: m(IDS),
    lambda m: m(IDS, valid_lens=[L, 2], token_type_ids=IDS % 2),
    lambda m: m(IDS, attention_mask=[[0, 1, 1, 1], [1, 1, 0, 1]]),
]
SKIPPING = [
    lambda m: m(IDS, valid_lens=[L, 2], skip_padding=True),
    lambda m: m(IDS, attention_mask=[[1, 1, 0, 1], [0, 0, 0, 0]], token_type_ids=IDS % 2, skip_padding=True),
]
BERT_MODELS = [
    models.BertModel, models.BertForPreTraining, models.BertForMaskedLM,
    models.BertForSequenceClassification, models.BertForTokenClassification, models.BertForQuestionAnswering,
]  # fmt: skip


def encoder_layer(**options: Any) -> nn.Module:
    return nn.TransformerEncoderLayer(M, 2, 12, P, **options)


def decoder_layer(**options: Any) -> nn.Module:
    return nn.TransformerDecoderLayer(M, 2, 12, P, **options)


def transformer(**options: Any) -> nn.Module:
    return models.Transformer(12, 12, M, 2, 1, 2, 12, P, max_len=9, **options)


def of_table(model_type: str, name: str, **changes: Any) -> nn.Module:
    """A small model of an architecture."""
    sizes = {
        "vocab_size": 12,
        "hidden_size": M,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
    }
    return models.from_config({"model_type": model_type, "architectures": [name], **sizes, **changes})


# What has parts: how one is made, and calls each of which reaches all parts.
CONTAINERS: dict[str, tuple[Callable[[], nn.Module], list[Callable[[Any], Any]]]] = {
    "Sequential": (
        lambda: nn.Sequential(
            encoder_layer(),
            nn.TransformerEncoder(encoder_layer(), 1),
            models.CausalLMLayer(M, 2, dropout=P),
            nn.MultiHeadAttention(M, 2, dropout=P),
            nn.SelfAttention(M, M, dropout=P),
            nn.LayerNorm(M),
            nn.PositionalEncoding(M, P),
            nn.PositionWiseFFN(M, 12, P),
            nn.Linear(M, M),
            nn.RMSNorm(M),
            nn.ReLU(),
            nn.Dropout(P),
            nn.GELU(),
            nn.Tanh(),
            nn.Sequential(nn.Linear(M, M)),
        ),
        [layer()],
    ),
    "AddNorm": (lambda: nn.AddNorm(M, P), [lambda m: m(X, X**2)]),
    "PositionWiseFFN": (lambda: nn.PositionWiseFFN(M, 12, P), [layer()]),
    "PositionWiseFFN.gelu": (lambda: nn.PositionWiseFFN(M, 12, P, "gelu"), [layer()]),
    "PositionalEncoding": (lambda: nn.PositionalEncoding(M, P), [lambda m: m(X)]),
    "SelfAttention": (lambda: nn.SelfAttention(M, M, dropout=P), [layer(), layer(context=Y)]),
    "LinearAttention": (
        lambda: nn.LinearAttention(M, 2, update_rule="gated_delta", bias=True),
        [layer(), lambda m: m(X, return_state=True)[0]],
    ),
    "MultiHeadAttention": (
        lambda: nn.MultiHeadAttention(M, 4, dropout=P, num_kv_heads=2, rotary_base=10.0),
        [layer(), *ATTENTION_CALLS],
    ),
    "MultiHeadAttention.scores": (
        lambda: nn.MultiHeadAttention(M, 4, dropout=P, sinks=True, qk_norm="rms", relative_bias={}),
        [layer(), *ATTENTION_CALLS],
    ),
    "TransformerEncoderLayer.rms": (
        lambda: encoder_layer(norm="rms", qk_norm="layer", relative_bias={"num_buckets": 4}),
        LAYER_CALLS,
    ),
    "TransformerEncoderLayer.gated": (
        lambda: encoder_layer(gated=True, activation="silu", rotary_base=10.0),
        LAYER_CALLS,
    ),
    "TransformerDecoderLayer.gated": (lambda: decoder_layer(gated=True, norm="rms"), DECODER_CALLS),
    "AdditiveAttention": (lambda: nn.AdditiveAttention(M, P, query_size=M, key_size=M), ATTENTION_CALLS),
    "AdditiveAttention.heads": (
        lambda: nn.AdditiveAttention(M, P, query_size=M, key_size=M, num_heads=2),
        ATTENTION_CALLS,
    ),
    "TransformerEncoderLayer": (encoder_layer, LAYER_CALLS),
    "TransformerEncoderLayer.first": (
        lambda: encoder_layer(norm_first=True, activation="gelu", bias=False),
        LAYER_CALLS,
    ),
    "TransformerDecoderLayer": (decoder_layer, DECODER_CALLS),
    "TransformerDecoderLayer.first": (lambda: decoder_layer(norm_first=True), DECODER_CALLS),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(encoder_layer(), 2, nn.LayerNorm(M)),
        LAYER_CALLS,
    ),
    "TransformerDecoder": (lambda: nn.TransformerDecoder(decoder_layer(), 2, nn.RMSNorm(M)), DECODER_CALLS),
    "PretrainedEncoder": (
        lambda: of_table("roberta", "RobertaForSequenceClassification", num_labels=3, pad_token_id=0),
        [lambda m: m(IDS).logits, lambda m: m(IDS, valid_lens=[L, 2]).logits],
    ),
    "PretrainedCausalLM": (
        lambda: of_table("llama", "LlamaForCausalLM", num_key_value_heads=1),
        [lambda m: m(IDS), lambda m: m(IDS, valid_lens=[L, 2])],
    ),
    "PretrainedEncoderDecoder": (
        lambda: of_table(
            "t5", "T5ForConditionalGeneration", d_model=M, d_kv=3, d_ff=8, num_heads=2, num_layers=1
        ),
        [lambda m: m(IDS, IDS)],
    ),
    "ImageModel": (
        lambda: of_table(
            "vit", "ViTForImageClassification", image_size=4, patch_size=2, num_channels=1, num_labels=3
        ),
        [lambda m: m(np.linspace(-1, 1, 32).reshape(2, 1, 4, 4)).logits],
    ),
    "CausalLMLayer": (
        lambda: models.CausalLMLayer(M, 2, dropout=P),
        [layer(), layer(valid_lens=[L, 2])],
    ),
    "CausalLM": (
        lambda: models.CausalLM(12, M, 2, 2, num_kv_heads=1, dropout=P),
        [
            lambda m: m(IDS),
            lambda m: m(IDS, valid_lens=[L, 2]),
            cached,
            lambda m: m.generate(IDS, max_len=3),
            lambda m: beams(m, IDS),
        ],
    ),
    "Transformer": (
        transformer,
        [
            lambda m: m(IDS, TARGETS),
            lambda m: m(IDS, TARGETS, src_valid_lens=[L, 2]),
            lambda m: m.generate(IDS, start_id=1, max_len=3),
            lambda m: beams(m, IDS, start_id=1),
        ],
    ),
    "Transformer.first": (lambda: transformer(norm_first=True), [lambda m: m(IDS, TARGETS)]),
    "Seq2SeqEncoder": (
        lambda: models.Seq2SeqEncoder(12, M, M, 2, P),
        [lambda m: m(IDS), lambda m: m(IDS, [L, 2])],
    ),
    **{
        kind.__name__: (
            lambda kind=kind: kind(12, M, M, 2, P),
            [lambda m: decoded(m, steps=False), lambda m: decoded(m, steps=True)],
        )
        for kind in (models.Seq2SeqDecoder, models.Seq2SeqAttentionDecoder)
    },
    "EncoderDecoder": (
        lambda: models.EncoderDecoder(
            models.Seq2SeqEncoder(12, M, M, 2, P), models.Seq2SeqAttentionDecoder(12, M, M, 2, P)
        ),
        [lambda m: m(IDS, TARGETS), lambda m: m(IDS, TARGETS, [L, 2])],
    ),
    **{kind.__name__: (lambda kind=kind: kind(BERT), BERT_CALLS) for kind in BERT_MODELS},
}
# Has no parts, or none before they are put there.
WITHOUT_PARTS = {
    "Module", "ModuleList", "Attention", "BilinearAttention", "DotProductAttention", "Linear", "Embedding", "LayerNorm",
    "RMSNorm", "Dropout", "ReLU", "GELU", "Tanh", "GRU", "Encoder", "Decoder", "AttentionDecoder",
}  # fmt: skip


def made(name: str, dtype: str, mode: str) -> tuple[nn.Module, list[Callable[[Any], Any]]]:
    make, calls = CONTAINERS[name]
    qkv.manual_seed(7)
    module = make()
    state = module.state_dict()  # biases and the weights of norms get other numbers, too
    module.load_state_dict({key: value + 0.4 * qkv.randn(*value.shape) for key, value in state.items()})
    if mode == "eval" and (name.startswith("Bert") or name == "PretrainedEncoder"):
        calls = calls + SKIPPING  # packed rows draw other masks
    return module.to(dtype).train(mode == "train"), calls
