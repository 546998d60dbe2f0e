"""What layers and models return and keep does not hold more than twice its own memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from containers import CONTAINERS, made
from sweep import sweep

import qkv
from qkv import _core, models, nn

RNG = np.random.default_rng(64)
X = RNG.standard_normal((4, 128, 64)).astype("float32")
SLACK = 64  # bytes of the least storage


def arrays(result: Any) -> Iterator[Any]:
    if isinstance(result, (tuple, list)):
        for part in result:
            yield from arrays(part)
    elif isinstance(result, (qkv.Tensor, np.ndarray)):
        yield result


def held(x: Any) -> int:
    """The bytes of the memory that an array or a Tensor keeps."""
    if isinstance(x, qkv.Tensor):
        return _core.storage_bytes(x)
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x.nbytes


def check(result: Any) -> None:
    for x in arrays(result):
        assert held(x) <= 2 * x.nbytes + SLACK, x.shape


def test_a_view_is_noticed():
    x = qkv.tensor(X)
    check(x[:2])
    with pytest.raises(AssertionError):
        check((x, [x[:1]]))
    with pytest.raises(AssertionError):
        check(X[:1])


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("mode", ["eval", "train"])
@sweep("name", CONTAINERS)
def test_results_and_weights_of_all_modules(name, mode, recorded):
    module, calls = made(name, "float32", mode)
    for call in calls:
        if recorded:
            check(call(module))
        else:
            with qkv.no_grad():
                check(call(module))
        for part in module.modules():
            check(getattr(part, "attention_weights", None))


def test_results_of_modules_without_parts():
    for module in (
        nn.Linear(64, 8),
        nn.LayerNorm(64),
        nn.RMSNorm(64),
        nn.Dropout(),
        nn.ReLU(),
        nn.GELU(),
        nn.Tanh(),
    ):
        check(module(X))
    attention = nn.DotProductAttention()
    check(attention(X, X, X, return_weights=True))
    check(nn.Embedding(9, 4)([[1, 2]]))
    for arguments in ((X,), (X[0],), (X, None)):
        check(nn.GRU(64, 16, 3)(*arguments))
    check(nn.GRU(64, 16, 3)(X, valid_lens=[1, 2, 3, 4]))


def test_models_in_parts():
    config = models.BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=2, num_attention_heads=2)
    ids = RNG.integers(1, 9, (3, 40))
    bert = models.BertModel(config).eval()
    check(bert.hidden_states(ids, valid_lens=[40, 3, 1], skip_padding=True))
    check(list(bert(ids)))
    encoder, decoder = models.Seq2SeqEncoder(9, 8, 8, 3), models.Seq2SeqAttentionDecoder(9, 8, 8, 3)
    state = decoder.init_state(encoder(ids), [40, 3, 1])
    for _ in range(3):
        logits, state = decoder(ids[:, :1], state)
        check([logits, *state])
    check(list(decoder.reorder_state(state, [0])))
    transformer = models.Transformer(9, 9, 8, 2, 1, 1, 16)
    check(transformer.encode(ids))
    check(transformer.decode(ids[:, :2], transformer.encode(ids)))


LAYERS = {
    "MultiHeadAttention": lambda: nn.MultiHeadAttention(64, 4),
    "SelfAttention": lambda: nn.SelfAttention(64, 64),
    "DotProductAttention": nn.DotProductAttention,
}


def freed_by(forget: Any) -> int:
    """The bytes of arrays that nobody holds any more when this is forgotten."""
    gc.collect()
    qkv.empty_cache()
    forget()
    return qkv.cached_bytes()


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_keeps_the_queries_and_keys_of_its_last_call(name, recorded):
    layer = LAYERS[name]()
    every = qkv.tensor(np.concatenate([X] * 16))
    masks = qkv.tensor(np.ones((64, 128, 128), bool))
    x = every[:4]  # a small part of a large array, as is the mask
    arguments = (x, x, x) if name == "DotProductAttention" else (x,)
    if recorded:
        layer(*arguments, attn_mask=masks[:4])
    else:
        with qkv.no_grad():
            layer(*arguments, attn_mask=masks[:4])
    del every, masks, x, arguments
    kept = 2 * X.nbytes + 4 * 128 * 128

    def forget():
        layer.attention_weights = None

    assert 0 < freed_by(forget) <= 2 * kept


def test_a_cache_keeps_at_most_twice_its_rows():
    layer, cache = nn.MultiHeadAttention(64, 4, is_causal=True), nn.KVCache()
    with qkv.no_grad():
        for i in range(0, 128, 8):
            layer(X[:, i : i + 8], cache=cache)
    layer.attention_weights = None
    assert 2 * X.nbytes <= freed_by(cache.reset) <= 4 * X.nbytes


MASKS = {
    "none": None,
    "boolean": np.tri(128, dtype=bool) | np.zeros((4, 1, 1), bool),
    "float": RNG.standard_normal((4, 128, 128)).astype("float32"),
    "Tensor": qkv.tensor(RNG.standard_normal((4, 128, 128)).astype("float32")),
    "learned": qkv.tensor(RNG.standard_normal((4, 128, 128)).astype("float32"), requires_grad=True),
}


@pytest.mark.parametrize("mask", MASKS)
def test_layers_share_one_copy_of_a_mask(mask):
    stack = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 16, 0.0), 6).eval()
    with qkv.no_grad():
        stack(X, attn_mask=MASKS[mask])

    def forget():
        for layer in stack.layers:
            layer.self_attn.attention_weights = None

    given = 0 if MASKS[mask] is None else MASKS[mask].nbytes
    assert 12 * X.nbytes <= freed_by(forget) <= 12 * X.nbytes + given + 16 * SLACK


def test_the_layers_of_a_model_share_one_copy_of_a_mask():
    sizes = dict(
        vocab_size=9, hidden_size=64, num_hidden_layers=6, num_attention_heads=4, intermediate_size=16
    )
    bert, ids = models.BertModel(models.BertConfig(**sizes)).eval(), RNG.integers(1, 9, (4, 128))
    mask = np.tri(128, dtype=bool) | np.zeros((4, 1, 1), bool)
    with qkv.no_grad():
        bert(ids, attention_mask=mask)

    def forget():
        for layer in bert.encoder.layer:
            layer.attention.self.attention_weights = None

    assert 12 * X.nbytes <= freed_by(forget) <= 12 * X.nbytes + mask.nbytes + 16 * SLACK
