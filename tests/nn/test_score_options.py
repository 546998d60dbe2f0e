"""sinks, qk_norm, relative_bias and norms of attention and Transformer layers against the function itself."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from helpers import close
from sweep import sweep

import qkv
from qkv import nn
from qkv.testing import check_gradient

RNG = np.random.default_rng(71)
B, L, M, H = 2, 5, 12, 3
X, Y = RNG.standard_normal((B, L, M)), RNG.standard_normal((B, L + 2, M))
MASK = RNG.random((B, L, L)) < 0.7
BIAS = dict(num_buckets=8, max_distance=6)
OPTIONS = {
    "sinks": {"sinks": True},
    "rms": {"qk_norm": "rms"},
    "layer": {"qk_norm": "layer"},
    "relative": {"relative_bias": BIAS},
    "behind": {"relative_bias": BIAS | {"bidirectional": False}},
    "all": {"sinks": True, "qk_norm": "rms", "relative_bias": BIAS, "softcap": 2.0, "alibi": True},
}
KINDS = [nn.TransformerEncoderLayer, nn.TransformerDecoderLayer]


def bucket(distance, num_buckets=32, max_distance=128, bidirectional=True):
    """Return T5's bucket of the distance from a query to a key, in float64."""
    count = num_buckets // 2 if bidirectional else num_buckets
    first = count if bidirectional and distance > 0 else 0
    steps, exact = (abs(distance) if bidirectional else max(-distance, 0)), count // 2
    if steps < exact:
        return first + steps
    grown = np.log(steps / exact) / np.log(max_distance / exact) * (count - exact)
    return first + min(exact + int(grown + 1e-9), count - 1)


def bias_of(layer, options, queries, keys, offset=0):
    """Return the bias (H, Lq, Lk) with its gradient."""
    numbers = [[bucket(j - i - offset, **options) for j in range(keys)] for i in range(queries)]
    return layer.relative_bias(np.array(numbers)).transpose(2, 0, 1)


def drawn(layer):
    for parameter in layer.parameters():
        parameter.copy_(RNG.standard_normal(parameter.shape))
    return layer


def formula(layer, options, x, y=None, mask=None, **call):
    """Attention of a layer by the function, with its projections and norms."""
    y = x if y is None else y
    q, k, v = (
        part(z).reshape(B, z.shape[1], H, M // H)
        for part, z in ((layer.q_proj, x), (layer.k_proj, y), (layer.v_proj, y))
    )
    if "qk_norm" in options:
        q, k = layer.q_norm(q), layer.k_norm(k)
    if "relative_bias" in options:
        bias = bias_of(layer, options["relative_bias"], x.shape[1], y.shape[1])
        mask = bias if mask is None else qkv.where(mask[:, None], bias, -np.inf)
    elif mask is not None:
        mask = mask[:, None]
    given = {"sinks": layer.sinks} if "sinks" in options else {}
    if "alibi" in options:
        given["alibi_slopes"] = qkv.alibi_slopes(H)
    heads = qkv.scaled_dot_product_attention(
        *(z.swapaxes(1, 2) for z in (q, k, v)), mask, softcap=options.get("softcap", 0.0), **given, **call
    )
    return layer.out_proj(heads.swapaxes(1, 2).reshape(B, x.shape[1], M))


@pytest.mark.parametrize("name", OPTIONS)
def test_attention_is_the_function(name):
    options = OPTIONS[name]
    layer = drawn(nn.MultiHeadAttention(M, H, **options).to("float64"))
    for mask in (None, MASK):
        close(layer(X, attn_mask=mask), formula(layer, options, X, mask=mask))
    close(layer(X, is_causal=True), formula(layer, options, X, is_causal=True))
    close(layer(X, Y), formula(layer, options, X, Y))
    weights = layer(X, Y, return_weights=True)[1]
    close(layer.attention_weights, weights)
    filled = nn.MultiHeadAttention(M, H, masked_value=-3.0, **options).to("float64")
    filled.load_state_dict(layer.state_dict())
    call = {"valid_lens": [2, 4], "masked_value": -3.0}
    close(filled(X, valid_lens=[2, 4]), formula(layer, options, X, **call))


@pytest.mark.parametrize("name", OPTIONS)
def test_gradients(name):
    layer = drawn(nn.MultiHeadAttention(M, H, **OPTIONS[name]).to("float64"))
    parameters = dict(layer.named_parameters())
    target = RNG.standard_normal((B, L, M))
    own = qkv.grad((layer(X, attn_mask=MASK) * target).sum(), list(parameters.values()))
    expected = (formula(layer, OPTIONS[name], X, mask=MASK) * target).sum()
    for (label, _), a, b in zip(
        parameters.items(), own, qkv.grad(expected, list(parameters.values())), strict=True
    ):
        close(a, b)
        assert label != "sinks" or np.abs(a.numpy()).min() > 0
    check_gradient(lambda x: layer(x, attn_mask=MASK, return_weights=True), X)


@pytest.mark.parametrize("causal", [True, "lower_right"])
@pytest.mark.parametrize("name", OPTIONS)
def test_decoding_with_a_cache(name, causal):
    layer = drawn(nn.MultiHeadAttention(M, H, is_causal=causal, rotary_base=10.0 if name == "rms" else None,
                                        **OPTIONS[name]).to("float64").eval())  # fmt: skip
    whole, cache = layer(X), nn.KVCache()
    steps = [layer(X[:, i:j], cache=cache) for i, j in ((0, 2), (2, 3), (3, 5))]
    close(qkv.concatenate(steps, 1), whole)


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@sweep("name", OPTIONS)
def test_layers_and_stacks(name, kind, first, norm):
    options = OPTIONS[name]
    layer = drawn(
        kind(M, H, 7, 0.0, norm_first=first, norm=norm, layer_norm_eps=1e-3, **options).to("float64")
    )
    assert isinstance(layer.norm1, nn.RMSNorm if norm == "rms" else nn.LayerNorm)
    own = [
        n
        for n, _ in layer.named_parameters()
        if n.split(".")[1] in ("sinks", "q_norm", "k_norm", "relative_bias")
    ]
    assert own
    assert all(n.startswith("self_attn.") for n in own)
    memory = () if kind is nn.TransformerEncoderLayer else (Y,)
    sublayers = [lambda z: formula(layer.self_attn, options, z, mask=MASK)]
    sublayers += [lambda z: layer.multihead_attn(z, Y)] * len(memory)
    sublayers += [lambda z: layer.linear2(qkv.relu(layer.linear1(z)))]
    x = qkv.tensor(X)
    for number, sublayer in enumerate(sublayers, 1):
        normalise = getattr(layer, f"norm{number}")
        x = x + sublayer(normalise(x)) if first else normalise(x + sublayer(x))
    found = layer(X, *memory, attn_mask=MASK)
    close(found, x)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        np.testing.assert_array_equal(twin(X, *memory, attn_mask=MASK).numpy(), found.numpy())
        assert repr(twin) == repr(layer)
    stack = (nn.TransformerDecoder if memory else nn.TransformerEncoder)(layer, 2)
    other = pickle.loads(pickle.dumps(stack))
    drawn(other)
    other.load_state_dict(stack.state_dict())
    close(stack(X, *memory, attn_mask=MASK), layer(found, *memory, attn_mask=MASK))
    close(other(X, *memory, attn_mask=MASK), stack(X, *memory, attn_mask=MASK))


def test_new_parameters():
    layer = nn.MultiHeadAttention(M, H, num_kv_heads=1, sinks=True, qk_norm="layer", relative_bias={})
    shapes = {name: tuple(p.shape) for name, p in layer.named_parameters() if "proj" not in name}
    assert shapes == {
        "sinks": (H,), "q_norm.weight": (4,), "q_norm.bias": (4,), "k_norm.weight": (4,), "k_norm.bias": (4,),
        "relative_bias.weight": (32, H),
    }  # fmt: skip
    assert not layer.sinks.numpy().any()
    text = repr(layer)
    assert "sinks=True, qk_norm='layer', relative_bias={'num_buckets': 32, 'max_distance': 128, " in text
    qkv.manual_seed(3)
    plain = nn.MultiHeadAttention(M, H)
    qkv.manual_seed(3)
    with_more = nn.MultiHeadAttention(M, H, sinks=True, qk_norm="rms", relative_bias={})
    for name, parameter in plain.named_parameters():
        np.testing.assert_array_equal(dict(with_more.named_parameters())[name].numpy(), parameter.numpy())


def test_weights_are_those_of_the_call():
    layer = drawn(nn.MultiHeadAttention(M, H, sinks=True, relative_bias=BIAS).to("float64"))
    weights = layer(X, return_weights=True)[1].numpy()
    drawn(layer)
    np.testing.assert_array_equal(layer.attention_weights.numpy(), weights)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_are_hugging_faces(bidirectional):
    torch = pytest.importorskip("torch")
    keys, buckets = 700, 32
    layer = nn.MultiHeadAttention(1, 1, relative_bias={"bidirectional": bidirectional}, bias=False)
    layer.relative_bias.weight.copy_(np.arange(buckets, dtype="float32")[:, None] / 8)
    for name in ("q_proj", "k_proj"):
        getattr(layer, name).weight.copy_([[0.0]])
    scores = np.log(layer(np.ones((keys, 1)), return_weights=True)[1].numpy()[0].astype("float64"))
    found = np.rint(8 * (scores - scores[:, :1]))
    distance = torch.arange(keys)[None] - torch.arange(keys)[:, None]
    count = buckets // 2 if bidirectional else buckets
    first = (distance > 0).long() * count if bidirectional else 0
    steps = distance.abs() if bidirectional else (-distance).clamp(min=0)
    exact = count // 2
    grown = torch.log(steps.float() / exact) / np.log(128 / exact) * (count - exact)
    large = (exact + grown.clamp(min=0).long()).clamp(max=count - 1)
    expected = (first + torch.where(steps < exact, steps, large)).numpy()
    np.testing.assert_array_equal(found, expected - expected[:, :1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"qk_norm": "batch"}, 'MultiHeadAttention: qk_norm must be "layer" or "rms"; got "batch"'),
        ({"relative_bias": 8}, "relative_bias must be None or a dict of num_buckets, .* got 8"),
        ({"relative_bias": {"buckets": 8}}, "relative_bias must be None or a dict of num_buckets"),
        ({"relative_bias": {"num_buckets": 7}}, "num_buckets of at least 4, which is even .* got 7"),
        ({"relative_bias": {"num_buckets": 1, "bidirectional": False}}, "at least 2; got 1"),
        ({"relative_bias": {"max_distance": 8}}, "max_distance above 8, .* got 8"),
    ],
)
def test_rejections(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        nn.MultiHeadAttention(M, H, **options)
    with pytest.raises(
        ValueError, match='TransformerEncoderLayer: norm must be "layer" or "rms"; got "batch"'
    ):
        nn.TransformerEncoderLayer(M, H, norm="batch")
    with pytest.raises(ValueError, match=r"normalizer, .* relative_bias, .* must be given to attention"):
        nn.TransformerEncoderLayer(M, H, attention=nn.MultiHeadAttention(M, H), sinks=True)
