"""The attention layers: values, arguments, masks, memory of the last call; golden arrays with gradients."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from helpers import close
from layer_checks import check_layer, randomised, state

import qkv
from qkv import nn, reference

RNG = np.random.default_rng(40)
B, LQ, LK, M = 2, 5, 7, 6
X, Y = RNG.standard_normal((B, LQ, M)), RNG.standard_normal((B, LK, M))
V = RNG.standard_normal((B, LK, 11))


def test_dot_product_attention(golden):
    g = golden("D0-18")
    layer = nn.DotProductAttention(0.5).eval()
    for train in (False, True):
        layer.train(train)
        q, k, v = (qkv.tensor(g[n], requires_grad=True) for n in ("queries", "keys", "values"))
        keep = {"dropout_keep": g["dropout_keep"] != 0} if train else {}
        y = layer(q, k, v, g["lens"], **keep)
        g.close("out_train" if train else "out", y)
        g.close("attention_weights", layer.attention_weights)
        y.backward(g["G"])
        for name, t in (("queries", q), ("keys", k), ("values", v)):
            g.close(f"grad.train.{name}" if train else f"grad.{name}", t.grad)


def test_additive_attention(golden):
    g = golden("D0-20")
    layer = nn.AdditiveAttention(8)
    layer.load_state_dict({f"{n}.weight": g[n] for n in ("W_q", "W_k", "w_v")})
    layer.to("float64")
    layer.load_state_dict({f"{n}.weight": g[n] for n in ("W_q", "W_k", "w_v")})
    q, k, v = (qkv.tensor(g[n], requires_grad=True) for n in ("queries", "keys", "values"))
    y = layer(q, k, v, valid_lens=g["lens"])
    g.close_all({"out": y, "attention_weights": layer.attention_weights})
    y.backward(g["G"])
    for name, t in (("queries", q), ("keys", k), ("values", v)):
        g.close(f"grad.{name}", t.grad)
    for name, p in layer.named_parameters():
        g.close(f"grad.{name.removesuffix('.weight')}", p.grad)


def test_additive_parameters_appear_when_sizes_are_known():
    lazy = nn.AdditiveAttention(3)
    for ask in ("parameters", "named_parameters", "num_parameters", "state_dict"):
        with pytest.raises(RuntimeError, match="query_size and key_size"):
            getattr(lazy, ask)()
    with pytest.raises(RuntimeError, match="query_size and key_size"):
        nn.Sequential(lazy).parameters()
    qkv.manual_seed(1)
    lazy(X, Y[..., :2], V)
    assert [(n, p.shape) for n, p in lazy.named_parameters()] == [
        ("W_q.weight", (3, M)), ("W_k.weight", (3, 2)), ("w_v.weight", (1, 3))
    ]  # fmt: skip
    qkv.manual_seed(1)
    eager = nn.AdditiveAttention(3, query_size=M, key_size=2)
    for a, b in zip(eager.parameters(), lazy.parameters(), strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()
    loaded = nn.AdditiveAttention(3)
    loaded.load_state_dict(lazy.state_dict())
    close(loaded(X, Y[..., :2], V), lazy(X, Y[..., :2], V))
    with pytest.raises(
        ValueError,
        match=r"queries must be \(B, L, 6\) to match the layer's parameters; got queries \(2, 5, 3\)",
    ):
        lazy(X[..., :3], Y[..., :2], V)
    one = nn.AdditiveAttention(3, query_size=M)
    with pytest.raises(ValueError, match=r"queries must be \(B, L, 6\)"):
        one(X[..., :3], Y, V)
    with pytest.raises(ValueError, match="query_size must be at least 1; got 0"):
        nn.AdditiveAttention(3, query_size=0)
    for bad in ({}, {"W_q.weight": np.ones((3, 2))}):
        with pytest.raises(ValueError, match=r"W_k\.weight"):
            nn.AdditiveAttention(3).load_state_dict(bad)
    twin = copy.deepcopy(nn.AdditiveAttention(3).eval())
    assert twin(X, Y, V).shape == (B, LQ, 11)
    assert not twin.W_q.training
    with pytest.raises(RuntimeError, match="query_size and key_size"):
        qkv.optim.SGD(nn.AdditiveAttention(3).parameters(), lr=0.1)


def test_additive_values_and_slopes():
    layer = randomised(nn.AdditiveAttention(3, query_size=M, key_size=M))
    s = state(layer)
    out, w = reference.additive_attention(
        X @ s["W_q.weight"].T,
        Y @ s["W_k.weight"].T,
        V,
        s["w_v.weight"][0],
        valid_lens=[3, 7],
        return_weights=True,
    )
    close(layer(X, Y, V, [3, 7]), out)
    close(layer.attention_weights, w)
    check_layer(layer, X, Y, V)


class Distance(nn.Attention):
    def score(self, queries, keys):
        return -((queries[:, :, None] - keys[:, None]) ** 2).sum(axis=-1)


MASK = RNG.random((B, LQ, LK)) < 0.6
CALLS = {
    "plain": {},
    "lengths": {"valid_lens": [3, 6]},
    "lengths per query": {"valid_lens": RNG.integers(0, LK + 1, (B, LQ))},
    "mask": {"attn_mask": MASK},
    "mask (Lq, Lk)": {"attn_mask": MASK[0]},
    "float mask": {"attn_mask": RNG.standard_normal((B, LQ, LK))},
    "both": {"attn_mask": MASK, "valid_lens": [3, 6]},
}


@pytest.mark.parametrize("masked_value", [None, -1e6])
@pytest.mark.parametrize("call", CALLS)
def test_an_own_score_is_masked_normalised_and_pooled(call, masked_value):
    layer, o = Distance(masked_value=masked_value), CALLS[call]
    scores = -((X[:, :, None] - Y[:, None]) ** 2).sum(-1)
    mask = o.get("attn_mask")
    if mask is not None and mask.dtype != bool:
        scores, mask = scores + mask, None
    w = np.asarray(qkv.masked_softmax(scores, o.get("valid_lens"), mask=mask, masked_value=masked_value))
    close(layer(X, Y, V, **o), w @ V)
    close(layer.attention_weights, w)
    assert (type(layer.attention_weights), layer.attention_weights.requires_grad) == (qkv.Tensor, False)
    check_layer(layer, X, Y, V)


def test_an_own_score_with_parameters_and_dropout():
    class Bilinear(nn.Attention):
        def __init__(self, **options):
            super().__init__(0.5, **options)
            self.W = nn.Linear(M, M, bias=False)

        def score(self, queries, keys):
            return self.W(queries) @ keys.swapaxes(1, 2)

    layer = Bilinear().to("float64")
    layer(X, Y, V).sum().backward()
    assert np.abs(layer.W.weight.grad.numpy()).max() > 0
    keep = RNG.random((B, LQ, LK)) < 0.5
    w = reference.softmax(X @ state(layer)["W.weight"].T @ Y.swapaxes(1, 2))
    close(layer(X, Y, V, dropout_keep=keep), (w * keep / 0.5) @ V)
    close(layer.attention_weights, w)
    close(layer.eval()(X, Y, V), w @ V)
    twin = pickle.loads(pickle.dumps(Distance(masked_value=-3.0)))
    close(twin(X, Y, V, [0, 7]), Distance(masked_value=-3.0)(X, Y, V, [0, 7]))

    class Wrong(nn.Attention):
        def score(self, queries, keys):
            return queries

    with pytest.raises(
        ValueError, match=r"score\(queries, keys\) must give \(B, Lq, Lk\) = \(2, 5, 7\); got \(2, 5, 6\)"
    ):
        Wrong()(X, Y, V)

    class Fails(nn.Attention):
        def score(self, queries, keys):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Fails()(X, Y, V)
    with pytest.raises(RuntimeError, match=r"score.* must be defined by a subclass"):
        nn.Attention()(X, Y, V)


def test_scores_of_the_layers_themselves():
    layer = nn.DotProductAttention()
    close(layer.score(qkv.tensor(X), qkv.tensor(Y)), X @ Y.swapaxes(1, 2) / np.sqrt(M))
    close(layer(X, Y, V), reference.scaled_dot_product_attention(X, Y, V))
    additive = randomised(nn.AdditiveAttention(3, query_size=M, key_size=M))
    s = state(additive)
    hidden = np.tanh((X @ s["W_q.weight"].T)[:, :, None] + (Y @ s["W_k.weight"].T)[:, None])
    close(additive.score(qkv.tensor(X), qkv.tensor(Y)), hidden @ s["w_v.weight"][0])


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("masked_value", [None, -1e9])
def test_dot_product_layer_takes_every_mask(call, masked_value):
    layer = nn.DotProductAttention(masked_value=masked_value)
    out, w = reference.scaled_dot_product_attention(
        X, Y, V, **CALLS[call], masked_value=masked_value, return_weights=True
    )
    close(layer(X, Y, V, **CALLS[call]), out)
    close(layer.attention_weights, w)


def self_attention_state(layer):
    return {**state(layer), "out_proj.weight": np.eye(layer.out_features)}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": True},
        {"scale": 1.0},
        {"is_causal": True},
        {"is_causal": "lower_right"},
        {"masked_value": -1e9},
    ],
)
def test_self_attention(options):
    layer = randomised(nn.SelfAttention(M, 3, **options))
    call = {k: v for k, v in options.items() if k != "bias"}
    lens = [0, 4]
    for context in (None, Y):
        out, w = reference.multi_head_attention(
            self_attention_state(layer), X, context, valid_lens=lens, num_heads=1, return_weights=True, **call
        )
        close(layer(X, context, lens), out)
        close(layer.attention_weights, w[:, 0])
    if options:
        same = randomised(nn.SelfAttention(M, 3))
        assert np.abs(same(X, Y, lens).numpy() - layer(X, Y, lens).numpy()).max() > 1e-3
    check_layer(layer, X, Y)
    one = layer(X[0], attn_mask=np.tri(LQ, dtype=bool))
    assert one.shape == (LQ, 3)
    assert layer.attention_weights.shape == (LQ, LQ)
    close(layer(X, attn_mask=np.tri(LQ, dtype=bool))[0], one)


def test_self_attention_of_document_one(golden):
    g = golden("D1-11")
    layer = nn.SelfAttention(3, 2).to("float64")
    layer.load_state_dict({f"{n[0]}_proj.weight": g[f"W_{n}"] for n in ("query", "key", "value")})
    g.close("context", layer(g["inputs"]))
    g.close("weights", layer.attention_weights)
    g.close("queries", layer.q_proj(g["inputs"]))
    narrow = nn.SelfAttention(3, 2)
    narrow.load_state_dict(layer.state_dict())
    g.close("float32_run", narrow(g["inputs"]))
    g = golden("D1-16")
    causal = nn.SelfAttention(3, 2, is_causal=True).to("float64")
    causal.load_state_dict({f"{n[0]}_proj.weight": g[f"W_{n}.weight"] for n in ("query", "key", "value")})
    g.close("out", causal(g["batch"]))
    g.close("weights", causal.attention_weights.numpy()[:, None])
    g.close("out_first_4_tokens", causal(g["batch"][:, :4]))


LAYERS = {
    "dot": lambda: nn.DotProductAttention(),
    "additive": lambda: nn.AdditiveAttention(3, query_size=M, key_size=M).to("float64"),
    "self": lambda: nn.SelfAttention(M, 3).to("float64"),
    "multi-head": lambda: nn.MultiHeadAttention(M, 2).to("float64"),
    "own": lambda: Distance(),
}


def call(name, layer, x, y, **options):
    return layer(x, y, **options) if name == "self" else layer(x, y, y, **options)


@pytest.mark.parametrize("name", LAYERS)
def test_weights_are_those_of_the_call_even_if_its_arguments_change(name):
    layer = LAYERS[name]()
    x, y, mask, lens = X.copy(), Y.copy(), MASK.copy(), np.array([3, 6])
    assert layer.attention_weights is None
    call(name, layer, x, y, attn_mask=mask, valid_lens=lens)
    before = layer.attention_weights.numpy().copy()
    for kind in (np.asarray, qkv.tensor):
        x, y, mask, lens = (kind(a.copy()) for a in (X, Y, MASK, np.array([3, 6])))
        call(name, layer, x, y, attn_mask=mask, valid_lens=lens)
        for a, value in ((x, 0.0), (y, 1.0), (mask, True), (lens, 0)):
            np.asarray(a)[...] = value
        for p in layer.parameters():
            p.copy_(np.zeros(p.shape))
        assert layer.attention_weights.numpy().tobytes() == before.tobytes()
        layer.load_state_dict(LAYERS[name]().state_dict() if name in ("dot", "own") else layer.state_dict())
        layer = randomised(layer)
        call(name, layer, X, Y, attn_mask=MASK, valid_lens=[3, 6])
        before = layer.attention_weights.numpy().copy()


@pytest.mark.parametrize("name", LAYERS)
def test_weights_can_be_freed_and_are_not_copied(name):
    layer = LAYERS[name]()
    call(name, layer, X, Y)
    assert layer.attention_weights is not None
    assert copy.deepcopy(layer).attention_weights is None
    if name != "own":
        assert pickle.loads(pickle.dumps(layer)).attention_weights is None
    layer.attention_weights = None
    assert layer.attention_weights is None
    with pytest.raises(TypeError, match="attention_weights: can only be set to None"):
        layer.attention_weights = np.ones(3)
    call(name, layer, X, Y)
    expected = call(name, layer, X, Y).numpy()
    with qkv.no_attention_record():
        close(call(name, layer, X, Y), expected)
        assert layer.attention_weights is None
        with qkv.no_attention_record():
            pass
        call(name, layer, X, Y)
    assert layer.attention_weights is None
    call(name, layer, X, Y)
    assert layer.attention_weights is not None


@pytest.mark.parametrize("name", LAYERS)
def test_masks_by_rank_in_layers(name):
    """B == Lq == Lk (== H): a mask of rank 3 is one per batch entry, for all heads."""
    n = 5
    layer = nn.MultiHeadAttention(10, n).to("float64") if name == "multi-head" else LAYERS[name]()
    x = np.random.default_rng(1).standard_normal((n, n, 10 if name == "multi-head" else M))
    mask = np.random.default_rng(2).random((n, n, n)) < 0.6
    y = call(name, layer, x, x, attn_mask=mask).numpy()
    w = layer.attention_weights.numpy()
    shown = mask[:, None] if name == "multi-head" else mask
    assert (w[np.broadcast_to(~shown, w.shape)] == 0).all()
    for b in range(n):
        close(call(name, layer, x[b : b + 1], x[b : b + 1], attn_mask=mask[b])[0], y[b])
    two = call(name, layer, x, x, attn_mask=mask[0]).numpy()
    close(two[0], y[0])
    close(call(name, layer, x, x, attn_mask=mask[:, None]), y)
    lens = [1, 5, 0, 2, 4]
    per_query = np.random.default_rng(3).integers(0, n + 1, (n, n))
    for given in (lens, per_query):
        rows = np.arange(n) < np.broadcast_to(np.reshape(given, (n, -1)), (n, n))[..., None]
        close(call(name, layer, x, x, valid_lens=given), call(name, layer, x, x, attn_mask=rows))
    if name == "multi-head":
        full = np.random.default_rng(2).random((n, n, n, n)) < 0.6
        call(name, layer, x, x, attn_mask=full)
        assert (layer.attention_weights.numpy()[~full] == 0).all()


def test_dropout_is_for_training_only():
    for name in LAYERS:
        make = {"dot": lambda: nn.DotProductAttention(0.5), "own": lambda: Distance(0.5),
                "additive": lambda: nn.AdditiveAttention(3, 0.5, query_size=M, key_size=M),
                "self": lambda: nn.SelfAttention(M, 3, dropout=0.5),
                "multi-head": lambda: nn.MultiHeadAttention(M, 2, dropout=0.5)}[name]  # fmt: skip
        layer = make()
        qkv.manual_seed(0)
        first = call(name, layer, X, Y).numpy()
        w = layer.attention_weights.numpy()
        close(w.sum(-1), np.ones(w.shape[:-1]), "float32")
        qkv.manual_seed(0)
        assert call(name, layer, X, Y).numpy().tobytes() == first.tobytes()
        assert call(name, layer, X, Y).numpy().tobytes() != first.tobytes()
        layer.eval()
        quiet = call(name, layer, X, Y).numpy()
        assert quiet.tobytes() == call(name, layer, X, Y).numpy().tobytes()
        assert np.abs(quiet - first).max() > 1e-3
        layer.train()
        keep = np.ones(w.shape, bool)
        if name != "multi-head":  # whose output projection is not linear in the weights: it has a bias
            np.testing.assert_allclose(call(name, layer, X, Y, dropout_keep=keep), 2 * quiet, 1e-4, 2e-5)


def test_rejections_of_the_attention_layers():
    for make in (nn.Attention, nn.DotProductAttention, lambda p: nn.AdditiveAttention(3, p)):
        with pytest.raises(ValueError, match="dropout must be from 0 to 1; got 2"):
            make(2.0)
    with pytest.raises(ValueError, match="masked_value must be a number; got nan"):
        nn.DotProductAttention(masked_value=np.nan)
    dot = nn.DotProductAttention()
    with pytest.raises(
        ValueError,
        match=r"DotProductAttention: keys must have the batch size of "
        r"queries \(2, 5, 6\); got keys \(1, 7, 6\)",
    ):
        dot(X, Y[:1], V)
    with pytest.raises(
        ValueError,
        match=r"values must be \(B, Lk, Dv\) with Lk = 7 to match keys .*; got values \(2, 5, 11\)",
    ):
        dot(X, Y, V[:, :5])
    with pytest.raises(ValueError, match=r"keys must be \(B, Lk, D\) with D = 6 .*; got keys \(2, 7, 3\)"):
        dot(X, Y[..., :3], V)
    with pytest.raises(ValueError, match="valid_lens must be from 0 to Lk = 7; got 8"):
        dot(X, Y, V, [8, 1])
    with pytest.raises(TypeError, match="attn_mask must be boolean"):
        dot(X, Y, V, attn_mask=np.ones((LQ, LK), int))
    alone = nn.SelfAttention(M, 3)
    with pytest.raises(ValueError, match=r"SelfAttention: context must have the batch size of x \(2, 5, 6\)"):
        alone(X, Y[:1])
    with pytest.raises(ValueError, match=r"SelfAttention: x must be \(B, L, M\) or \(L, M\); got x \(6,\)"):
        alone(X[0, 0])
    with pytest.raises(ValueError, match="in_features = 0"):
        nn.SelfAttention(0, 3)
    with pytest.raises(ValueError, match="scale must be a finite number; got inf"):
        nn.SelfAttention(3, 3, scale=np.inf)
