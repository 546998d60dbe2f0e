"""The body of models: each option as the layers of qkv.nn compose it, padding, caches, copies, refusals."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from helpers import close

import qkv
from qkv import _core, nn

B, L, S, M, H, F, V = 2, 5, 3, 8, 2, 11, 13
RNG = np.random.default_rng(41)
X, Y = RNG.standard_normal((B, L, M)), RNG.standard_normal((B, S, M))
IDS = RNG.integers(1, V, (B, L))


def drawn(module: nn.Module) -> Any:
    qkv.manual_seed(3)
    module.load_state_dict({k: v + 0.3 * qkv.randn(*v.shape) for k, v in module.state_dict().items()})
    return module.to("float64").eval()


def block(**options: Any) -> Any:
    return drawn(_core.TransformerBlock(d_model=M, nhead=H, dim_feedforward=F, **options))


def body(*layers: dict[str, Any], **options: Any) -> Any:
    sizes = {"nhead": H, "dim_feedforward": F}
    return drawn(_core.TransformerBody([sizes | layer for layer in layers], d_model=M, **options))


ACTIVATIONS = {
    "relu": qkv.relu,
    "silu": qkv.silu,
    "gelu": qkv.gelu,
    "gelu_tanh": lambda x: qkv.gelu(x, approximate="tanh"),
}


def fed(b: Any, x: Any) -> Any:
    f = ACTIVATIONS[b._config().get("activation", "gelu")]
    inner = f(b.linear_gate(x)) * b.linear1(x) if b._config().get("gated") else f(b.linear1(x))
    return b.linear2(inner)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("gated", [False, True])
def test_activations_and_gates(activation, gated):
    b = block(activation=activation, gated=gated)
    y = X + b.self_attn(b.norm1(X))
    close(b(X), y + fed(b, b.norm2(y)))


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_placements(norm):
    b = block(norm=norm, placement="post")
    y = b.norm1(X + b.self_attn(X))
    close(b(X), b.norm2(y + fed(b, y)))
    b = block(norm=norm, placement="sandwich")
    y = X + b.post_norm1(b.self_attn(b.norm1(X)))
    close(b(X), y + b.post_norm2(fed(b, b.norm2(y))))
    b = block(norm=norm, placement="parallel")
    close(b(X), X + b.self_attn(b.norm1(X)) + fed(b, b.norm2(X)))
    b = block(norm=norm, attention_norm=False)
    y = X + b.self_attn(X)
    close(b(X), y + fed(b, b.norm2(y)))
    assert "norm1" not in dict(b.named_modules())


@pytest.mark.parametrize("placement", ["pre", "post", "sandwich"])
def test_memory(placement):
    b = block(memory=True, placement=placement, is_causal=True, scale=0.7)
    assert [n for n, _ in b.named_modules() if "norm" in n][:3] == (
        ["norm1", "post_norm1", "norm2"] if placement == "sandwich" else ["norm1", "norm2", "norm3"]
    )
    b.multihead_attn.load_state_dict(b.self_attn.state_dict())
    crossed = drawn(nn.MultiHeadAttention(M, H, scale=0.7))
    crossed.load_state_dict(b.multihead_attn.state_dict())
    parts = [lambda x: b.self_attn(x, is_causal=True), lambda x: crossed(x, Y, Y), lambda x: fed(b, x)]
    y: Any = X
    for i, part in enumerate(parts, 1):
        norm = getattr(b, f"norm{i}")
        if placement == "post":
            y = norm(y + part(y))
        else:
            z = part(norm(y))
            y = y + (getattr(b, f"post_norm{i}")(z) if placement == "sandwich" else z)
    close(b(X, Y), y)


@pytest.mark.parametrize(
    "options",
    [
        {"gated": True, "activation": "silu", "norm": "rms", "num_kv_heads": 1, "rotary_base": 100.0},
        {"placement": "parallel", "rotary_base": 100.0, "rotary_dim": 2, "head_dim": 6},
        {"placement": "sandwich", "softcap": 2.0, "window": (2, -1), "scale": 0.4, "qk_norm": "rms"},
        {"qkv_bias": False, "out_bias": False, "bias": False, "norm_bias": False, "alibi": True},
    ],
)
def test_gradients(options):
    qkv.testing.check_gradient(block(**options, is_causal=True), X)


def test_biases_are_told_apart():
    names = set(block(qkv_bias=True, out_bias=False, bias=False, norm_bias=False).state_dict())
    assert {n for n in names if n.endswith("bias")} == {f"self_attn.{p}_proj.bias" for p in "qkv"}


def embedded(b: Any, ids: np.ndarray, positions: np.ndarray) -> Any:
    return b.embedding(ids) + b.position_embedding(positions)


def test_embeddings():
    b = body(vocab_size=V, max_positions=9, position_offset=2, type_vocab_size=2, embedding_norm="layer",
             final_norm="rms", embedding_scale=3.0)  # fmt: skip
    types = IDS % 2
    x = b.embedding(IDS) * 3.0 + b.type_embedding(types) + b.position_embedding(np.arange(L) + 2)
    close(b(IDS, token_type_ids=types), b.norm(b.embedding_norm(x)))
    b = body({}, vocab_size=V, embedding_size=5)
    close(b(IDS), b.layers[0](b.embedding_projection(b.embedding(IDS))))
    b = body(vocab_size=V, max_positions=9, sinusoidal=True)
    table = qkv.sinusoidal_positions(9, M, dtype="float64")
    close(b(IDS), b.embedding(IDS) + np.concatenate([table[:L, ::2], table[:L, 1::2]], axis=1))
    b = body({}, max_positions=9)
    close(b(inputs=X), b.layers[0](X + b.position_embedding(np.arange(L))))


def test_positions_count_ids():
    ids = np.where(np.arange(L) < 3, IDS, 0)
    b = body(vocab_size=V, max_positions=9, position_offset=1, position_rule="ids", pad_id=0)
    close(b(ids), embedded(b, ids, np.array([[1, 2, 3, 0, 0]] * B)))


CAUSAL = {"is_causal": True, "rotary_base": 50.0, "norm": "rms", "gated": True}
DECODERS = {
    "rotary": ([CAUSAL | {"window": (3, 0)}, CAUSAL], {}),
    "learned": ([{"is_causal": True}] * 2, {"max_positions": 12, "position_rule": "mask"}),
    "alibi": ([{"is_causal": True, "alibi": True}], {"embedding_norm": "layer"}),
    "bias": ([{"is_causal": True}] * 2, {"relative_bias": {"num_buckets": 4, "bidirectional": False}}),
}


@pytest.mark.parametrize("name", DECODERS)
def test_left_and_right_padding_and_caches(name):
    layers, options = DECODERS[name]
    b = body(*layers, vocab_size=V, final_norm="layer", **options)
    alone = [b(IDS[:1]), b(IDS[1:, :3])]
    left = np.array([[1] * L, [0, 0, 1, 1, 1]])
    ids = np.where(left, np.stack([IDS[0], np.r_[0, 0, IDS[1, :3]]]), 0)
    for skip in (False, True):
        found = b(ids, attention_mask=left, skip_padding=skip)
        close(found[0], alone[0][0])
        close(found[1, 2:], alone[1][0])
        right = b(np.where(left[:, ::-1], np.stack([IDS[0], np.r_[IDS[1, :3], 0, 0]]), 0),
                  attention_mask=left[:, ::-1], skip_padding=skip)  # fmt: skip
        close(right[1, :3], alone[1][0])
        if skip:
            assert not np.asarray(found[1, :2]).any()
            assert not np.asarray(right[1, 3:]).any()
        cache = _core.ModelCache(len(layers))
        with qkv.no_grad():
            begun = b(ids[:, :3], attention_mask=left[:, :3], cache=cache, skip_padding=skip)
            steps = [b(ids[:, t : t + 1], attention_mask=left[:, : t + 1], cache=cache) for t in (3, 4)]
        assert len(cache) == L
        close(np.concatenate([np.asarray(y) for y in (begun, *steps)], axis=1)[1, 2:], alone[1][0])


def test_reordered_caches_continue_other_rows():
    b = body({"is_causal": True, "memory": True}, vocab_size=V)
    cache = _core.ModelCache(1)
    with qkv.no_grad():
        b(IDS[:, :4], memory=Y, cache=cache)
        cache.reorder([1, 1])
        y = b(IDS[[0, 1], 4:], memory=Y[[1, 1]], cache=cache)
    whole = b(np.concatenate([IDS[[1, 1], :4], IDS[[0, 1], 4:]], axis=1), memory=Y[[1, 1]])
    close(y, whole[:, 4:])
    for wrong in ([2, 0], [-1, 0]):
        with pytest.raises(
            ValueError, match=r"^KVCache: indices must be from 0 to 1 because the batch has 2"
        ):
            cache.reorder(wrong)
    with qkv.no_grad():
        cache.reorder([0])
        with pytest.raises(ValueError, match="batch"):
            b(IDS[:, 4:], memory=Y, cache=cache)
    with pytest.raises(
        ValueError, match="TransformerBody: cache must hold one KVCache for each of the 1 layers"
    ):
        b(IDS, memory=Y, cache=_core.ModelCache(2))


def test_memory_masks():
    b = body({"is_causal": True, "memory": True}, vocab_size=V)
    mask = np.array([[1, 1, 1], [1, 1, 0]])
    other = np.where(mask[..., None], Y, np.nan)
    close(
        b(IDS, memory=other, memory_mask=mask), b(IDS, memory=np.nan_to_num(other), memory_valid_lens=[3, 2])
    )
    skipped = b(IDS, memory=other, memory_mask=mask, valid_lens=[5, 2], skip_padding=True)
    close(skipped[1, :2], b(IDS[1:, :2], memory=Y[1:, :2])[0])
    b(IDS, memory=Y)
    assert b.memory_weights[0].shape == (B, H, L, S)


def test_hidden_states():
    b = body({}, {"placement": "post"}, vocab_size=V, final_norm="layer")
    y, states = b(IDS, output_hidden_states=True)
    x = b.embedding(IDS)
    for state, expected in zip(states, [x, b.layers[0](x), b.layers[1](b.layers[0](x))], strict=True):
        close(state, expected)
    close(y, b.norm(states[-1]))
    assert [w.shape for w in b.attention_weights] == [(B, H, L, L)] * 2


def test_scattered_rows_keep_their_distances():
    b = body({"rotary_base": 9.0}, vocab_size=V, relative_bias={"num_buckets": 4})
    mask = np.array([[1, 0, 1, 1, 1], [1, 1, 1, 0, 1]])
    close(
        b(IDS, attention_mask=mask, skip_padding=True),
        np.asarray(b(IDS, attention_mask=mask)) * mask[..., None],
    )


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies(again):
    scaling = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 8}
    b = body(CAUSAL | {"rotary_scaling": scaling, "relative_bias": {}}, {"window": (1, 1), "qk_norm": "layer"},
             vocab_size=V, pad_id=0, relative_bias={"num_buckets": 4}, final_norm="rms")  # fmt: skip
    other = again(b)
    assert other.layers[0]._config() == b.layers[0]._config()
    close(other(IDS), b(IDS))


def test_a_block_of_python_gets_what_the_layers_share():
    class Doubled(_core.TransformerBlock):
        def forward(self, x: Any, **options: Any) -> Any:
            return super().forward(x, **options) * 2.0

    b = body(CAUSAL, vocab_size=V, relative_bias={"num_buckets": 4}, position_rule="mask")
    mask = np.array([[1] * L, [0, 0, 1, 1, 1]])
    plain = [b(IDS, attention_mask=mask, skip_padding=skip) for skip in (False, True)]
    other = Doubled.__new__(Doubled)
    other.__setstate__(b.layers[0].__getstate__())
    b.layers = nn.ModuleList([other])
    for skip, y in enumerate(plain):
        close(b(IDS, attention_mask=mask, skip_padding=bool(skip)), y * 2.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"placement": "front"}, 'placement must be "post", "pre", "sandwich" or "parallel"; got "front"'),
        ({"gate": True}, "TransformerBlock: unknown option gate"),
        ({"gated": 1}, "TransformerBlock: gated must be a bool; got 1"),
        ({"activation": "swish"}, 'activation must be "relu", "gelu", "gelu_tanh" or "silu"; got "swish"'),
        ({"activation": None}, "TransformerBlock: activation must be a str; got None"),
        ({"nhead": None}, "TransformerBlock: nhead must be a number; got None"),
        ({"memory": True, "placement": "parallel"}, 'placement must not be "parallel"'),
        ({"inner_dropout": 2.0}, "inner_dropout must be from 0 to 1; got 2"),
        ({"rotary_dim": 2}, "rotary_base must be given because rotary_dim and rotary_scaling are about it"),
        ({"rotary_base": 9.0, "rotary_dim": 3}, "rotary_dim must be even and at least 2"),
        ({"rotary_base": 9.0, "rotary_dim": 6}, "rotary_dim must be at most head_dim = 4; got 6"),
    ],
)
def test_wrong_options_of_blocks(options, message):
    with pytest.raises((ValueError, TypeError), match=message.replace("(", r"\(")):
        _core.TransformerBlock(**{"d_model": M, "nhead": H, "dim_feedforward": F} | options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": [3]}, "layers must hold a dict of options for each; got 3"),
        ({"vocab": 3}, "TransformerBody: unknown option vocab"),
        ({"position_rule": "tokens"}, 'position_rule must be "rows", "mask" or "ids"; got "tokens"'),
        (
            {"position_rule": "ids"},
            'pad_id must be given because position_rule "ids" counts the others; got None',
        ),
        ({"pad_id": V}, "pad_id must be from 0 and below vocab_size; got 13"),
        (
            {"max_positions": 3, "position_offset": 3},
            "position_offset must be from 0 and below max_positions = 3; got 3",
        ),
    ],
)
def test_wrong_options_of_bodies(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        _core.TransformerBody(**{"d_model": M, "vocab_size": V} | options)


def test_wrong_calls():
    b = body({}, vocab_size=V, max_positions=6, position_offset=2)
    with pytest.raises(ValueError, match="input_ids must have at most 4 positions; got position 4"):
        b(IDS)
    with pytest.raises(
        TypeError, match="input_ids must be given, and nothing else, because vocab_size is set"
    ):
        b(inputs=X)
    with pytest.raises(
        ValueError, match=r"input_ids must be \(B, L\) with L at least 1; got input_ids \(5,\)"
    ):
        b(IDS[0])
    with pytest.raises(ValueError, match="token_type_ids must not be given because type_vocab_size is 0"):
        b(IDS[:, :4], token_type_ids=IDS[:, :4])
    with pytest.raises(ValueError, match=r"attention_mask must be \(B, L\) = \(2, 4\) to match input_ids"):
        b(IDS[:, :4], attention_mask=np.ones((B, 3)))
    with pytest.raises(
        ValueError, match=r"inputs must be \(B, L, 8\) with L at least 1; got inputs \(2, 5, 7\)"
    ):
        body({})(inputs=X[..., :7])


def log_bucket(distance: int, buckets: int, most: int) -> int:
    """Return DeBERTa's bucket of a distance, in float64."""
    middle = buckets // 2
    if abs(distance) <= middle:
        return distance
    part = np.log(abs(distance) / middle) / np.log((most - 1) / middle) * (middle - 1)
    return int(np.sign(distance)) * (int(np.ceil(part - 1e-9)) + middle)


@pytest.mark.parametrize("sides", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("buckets", [0, 4])
def test_disentangled_scores(sides, buckets):
    options = {"span": 3, "buckets": buckets, "max_distance": 7}
    options |= dict(zip(("content_to_position", "position_to_content"), sides, strict=True))
    b = body({"scale": 0.3}, vocab_size=V, disentangled=options, relative_norm=True)
    x = b.embedding(IDS)
    layer = b.layers[0]
    table, attention = b.relative_norm(b.relative_embedding.weight), layer.self_attn
    q, k, v, rq, rk = (
        np.asarray(p(z)).reshape(-1, z.shape[-2], H, M // H).swapaxes(1, 2)
        for p, z in [(getattr(attention, f"{n}_proj"), layer.norm1(x)) for n in "qkv"]
        + [(attention.q_proj, table), (attention.k_proj, table)]
    )
    scores = q @ k.swapaxes(2, 3)
    for i in range(L):
        for j in range(L):
            row = int(np.clip((log_bucket(i - j, buckets, 7) if buckets else i - j) + 3, 0, 5))
            scores[:, :, i, j] += sides[0] * (q[:, :, i] * rk[0, :, row]).sum(-1)
            scores[:, :, i, j] += sides[1] * (k[:, :, j] * rq[0, :, row]).sum(-1)
    y = x + attention.out_proj((qkv.softmax(0.3 * scores) @ v).swapaxes(1, 2).reshape(B, L, M))
    close(b(IDS), y + fed(layer, layer.norm2(y)))
    short = b(IDS[1:, :3])[0]
    for skip in (False, True):
        close(b(IDS, valid_lens=[L, 3], skip_padding=skip)[1, :3], short)
        close(b(IDS, attention_mask=np.arange(L) < np.array([[L], [3]]), skip_padding=skip)[1, :3], short)
    qkv.testing.check_gradient(b, IDS)
    close(copy.deepcopy(b)(IDS), b(IDS))
    cache = _core.ModelCache(1)
    with qkv.no_grad():
        body({}, vocab_size=V)(IDS, cache=cache)
    with pytest.raises(
        ValueError, match="cache must be None because disentangled is of whole sequences; got one"
    ):
        b(IDS, cache=cache)


def test_disentangled_options():
    for options, message in [
        ({"span": 0}, "disentangled must have a span of at least 1; got 0"),
        (3, "disentangled must be a dict; got 3"),
        ({"spam": 3}, "unknown option spam of disentangled"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            _core.TransformerBody(d_model=M, vocab_size=V, disentangled=options)
