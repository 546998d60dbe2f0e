"""Any attention is a part of layers, stacks and models, trained and saved; its steps may be a subclass's own."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from helpers import close
from sweep import sweep

import qkv
from qkv import models, nn, optim
from qkv.testing import check_gradient

RNG = np.random.default_rng(81)
B, L, LK, M = 2, 5, 7, 6
X, Y = RNG.standard_normal((B, L, M)), RNG.standard_normal((B, LK, M))
MASK = RNG.random((L, L)) < 0.7
BIAS = RNG.standard_normal((L, L))
CALLS = [
    {}, {"is_causal": True}, {"valid_lens": [2, 5]}, {"attn_mask": MASK}, {"attn_mask": BIAS},
    {"valid_lens": [3, 4], "attn_mask": MASK, "is_causal": True},
]  # fmt: skip


class Distance(nn.Attention):
    """Scores by the distance, with a parameter."""

    def __init__(self, **options):
        super().__init__(**options)
        self.project = nn.Linear(M, M)

    def score(self, queries, keys):
        q, k = self.project(queries), self.project(keys)
        return -((q[..., :, None, :] - k[..., None, :, :]) ** 2).sum(axis=-1)


class Whole(nn.Module):
    """A module that has the interface of an attention."""

    def __init__(self):
        super().__init__()
        self.inner = nn.MultiHeadAttention(M, 2)

    def forward(self, queries, keys, values, **options):
        self.attention_weights = None
        return self.inner(queries, keys, values, **options)


class Mixing(nn.Module):
    """A module of one argument."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(M, M)

    def forward(self, x):
        return self.linear(x) + x.mean(axis=1, keepdims=True)


ATTENTIONS = {
    "multi-head": lambda: nn.MultiHeadAttention(M, 3, num_kv_heads=1),
    "dot product": lambda: nn.DotProductAttention(num_heads=2),
    "additive": lambda: nn.AdditiveAttention(8, query_size=M, key_size=M),
    "score": Distance,
    "module": Whole,
}


def written_out(layer, x, **call):
    """Return the layer's formula, with norms after the sublayers."""
    y = layer.norm1(x + layer.self_attn(x, x, x, **call))
    return layer.norm2(y + layer.linear2(qkv.relu(layer.linear1(y))))


@pytest.mark.parametrize("call", CALLS, ids=str)
@sweep("name", ATTENTIONS)
def test_an_attention_stands_in_for_self_attn(name, call):
    attention = ATTENTIONS[name]()
    layer = nn.TransformerEncoderLayer(M, 2, 11, 0.0, attention=attention).to("float64")
    assert layer.self_attn is attention
    x = qkv.tensor(X, requires_grad=True)
    close(layer(x, **call), written_out(layer, x, **call))
    stack = nn.TransformerEncoder(layer, 2)
    assert [type(part.self_attn) for part in stack.layers] == [type(attention)] * 2
    y = x
    for part in stack.layers:
        assert part.self_attn is not attention
        y = written_out(part, y, **call)
    close(stack(x, **call), y)
    assert len(stack.attention_weights) == 2


class DecoratedMixing(Mixing):
    forward = qkv.no_grad()(Mixing.forward)


@pytest.mark.parametrize("kind", [Mixing, DecoratedMixing])
def test_a_module_of_one_argument(kind):
    layer = nn.TransformerEncoderLayer(M, 2, 11, 0.0, attention=kind()).to("float64")
    y = layer.norm1(X + layer.self_attn(qkv.tensor(X)))
    close(layer(X), layer.norm2(y + layer.linear2(qkv.relu(layer.linear1(y)))))
    with pytest.raises(TypeError, match="valid_lens"):
        layer(X, valid_lens=[2, 3])
    plain = nn.TransformerEncoderLayer(M, 2, 11, 0.0, attention=nn.Linear(M, M)).to("float64")
    assert plain(X).shape == X.shape
    with pytest.raises(TypeError, match=r"TransformerEncoderLayer: its attention must be .* got Linear"):
        plain(X, is_causal=True)


class Named(nn.Module):
    """An attention whose arguments have names of its own."""

    def forward(self, q, k, v, valid_lens=None, attn_mask=None):
        return nn.DotProductAttention()(q, k, v, valid_lens, attn_mask)


class Positions(nn.Module):
    def forward(self, *inputs, **options):
        return nn.DotProductAttention()(*inputs, **options)


class Decorated(Named):
    forward = qkv.no_grad()(Named.forward)


@pytest.mark.parametrize("kind", [Named, Positions, Decorated])
@pytest.mark.parametrize("call", [{}, {"valid_lens": [2, L]}, {"attn_mask": MASK}], ids=str)
def test_queries_keys_and_values_are_given_by_position(kind, call):
    layer = nn.TransformerEncoderLayer(M, 2, 11, 0.0, attention=kind()).to("float64")
    close(layer(X, **call), written_out(layer, qkv.tensor(X), **call))


class Masked(nn.Module):
    def forward(self, queries, keys, values, valid_lens=None, attn_mask=None):
        mask = None if attn_mask is None else qkv.tensor(attn_mask)
        self.mask = mask
        return nn.DotProductAttention()(queries, keys, values, valid_lens, mask)


@pytest.mark.parametrize("mask", [None, MASK, BIAS], ids=["none", "boolean", "float"])
@pytest.mark.parametrize("causal", [True, "lower_right"])
def test_causal_order_arrives_in_the_mask(causal, mask):
    part, call = Masked(), {"attn_mask": mask, "is_causal": causal}
    for kind, more in ((nn.TransformerEncoderLayer, ()), (nn.TransformerDecoderLayer, (Y,))):
        layer = kind(M, 2, 11, 0.0, attention=part).to("float64")
        found = layer(X, *more, **call)
        assert not np.isfinite(np.where(part.mask.numpy() == 0, -np.inf, part.mask.numpy())[..., 0, 1:]).any()
        layer.self_attn = nn.DotProductAttention()
        close(found, layer(X, *more, **call))


class Twice(nn.SelfAttention):
    def forward(self, x, **options):
        return 2 * super().forward(x, **options)


@pytest.mark.parametrize("kind", [nn.SelfAttention, Twice])
def test_one_head_stands_in(kind):
    layer = nn.TransformerEncoderLayer(M, 2, 11, 0.0, attention=kind(M, M)).to("float64")
    for call in ({}, {"valid_lens": [2, L]}, {"attn_mask": MASK}):
        y = layer.norm1(X + layer.self_attn(X, **call))
        close(layer(X, **call), layer.norm2(y + layer.linear2(qkv.relu(layer.linear1(y)))))
        assert layer.self_attn.attention_weights.shape == (B, L, L)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_in_a_decoder_and_a_model(name):
    layer = nn.TransformerDecoderLayer(M, 2, 11, 0.0, attention=ATTENTIONS[name]()).to("float64")
    x = layer.norm1(X + layer.self_attn(X, X, X, is_causal=True))
    x = layer.norm2(x + layer.multihead_attn(x, Y, Y))
    close(layer(X, Y, is_causal=True), layer.norm3(x + layer.linear2(qkv.relu(layer.linear1(x)))))
    model = models.Transformer(9, 9, M, 2, 1, 2, 11, 0.0).to("float64").eval()
    for part in model.decoder.layers:
        part.self_attn = ATTENTIONS[name]().to("float64")
    ids = RNG.integers(1, 9, (B, L))
    for [(tokens, score, _)] in model.generate(ids[:1], start_id=1, max_len=4):
        log_probs = qkv.log_softmax(model(ids[:1], [[1, *tokens[:-1]]])).numpy()[0]
        assert score == pytest.approx(sum(log_probs[t, i] for t, i in enumerate(tokens)), abs=1e-9)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_it_is_trained_copied_and_saved(name, tmp_path):
    model = nn.Sequential(
        nn.TransformerEncoderLayer(M, 2, 11, 0.0, attention=ATTENTIONS[name]()), nn.Linear(M, 1)
    )
    optimizer, target = optim.Adam(model.parameters(), lr=0.01), X[..., :1] * Y[:, :L, :1]
    first = [p.numpy().copy() for p in model.parameters()]
    for _ in range(5):
        optimizer.zero_grad()
        ((model(X) - target) ** 2).mean().backward()
        optimizer.step()
    changed = [
        np.abs(p.numpy() - before).max() > 0 for p, before in zip(model.parameters(), first, strict=True)
    ]
    assert sum(changed) >= len(changed) - 1  # a bias of keys changes no weights
    other = nn.Sequential(
        nn.TransformerEncoderLayer(M, 2, 11, 0.0, attention=ATTENTIONS[name]()), nn.Linear(M, 1)
    )
    other.load_state_dict(model.state_dict())
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), other):
        assert type(twin[0].self_attn) is type(model[0].self_attn)
        np.testing.assert_array_equal(twin(X).numpy(), model(X).numpy())


OPTIONS = {"window": (1, 2), "softcap": 0.7, "alibi": True, "scale": 2.0, "masked_value": -3.0}


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("kind", [nn.TransformerEncoderLayer, nn.TransformerDecoderLayer])
def test_options_of_the_function_reach_layers(option, kind):
    qkv.manual_seed(1)
    layer = kind(M, 2, 11, 0.0, **{option: OPTIONS[option]}).to("float64")
    plain = kind(M, 2, 11, 0.0).to("float64")
    plain.load_state_dict(layer.state_dict())
    arguments = (X,) if kind is nn.TransformerEncoderLayer else (X, Y)
    found = layer(*arguments, attn_mask=MASK)
    assert np.abs(found.numpy() - plain(*arguments, attn_mask=MASK).numpy()).max() > 1e-6
    attention = layer.self_attn
    q, k, v = (
        p(X).reshape(B, L, 2, M // 2).swapaxes(1, 2)
        for p in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    given = {"alibi_slopes": qkv.alibi_slopes(2)} if option == "alibi" else {option: OPTIONS[option]}
    heads = qkv.scaled_dot_product_attention(q, k, v, MASK, **given)
    own = nn.MultiHeadAttention(M, 2, **{option: OPTIONS[option]}).to("float64")
    own.load_state_dict(attention.state_dict())
    y = attention.out_proj(heads.swapaxes(1, 2).reshape(B, L, M))
    close(attention(X, attn_mask=MASK), y)
    close(own(X, attn_mask=MASK), y)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        np.testing.assert_array_equal(twin(*arguments, attn_mask=MASK).numpy(), found.numpy())
    with pytest.raises(ValueError, match=r"window, softcap, .* must be given to attention"):
        kind(M, 2, attention=nn.MultiHeadAttention(M, 2), **{option: OPTIONS[option]})


def test_rejections():
    with pytest.raises(TypeError, match="TransformerEncoderLayer: attention must be a Module; got 3"):
        nn.TransformerEncoderLayer(M, 2, attention=3)
    with pytest.raises(
        ValueError, match=r"MultiHeadAttention: softcap must be 0 \(off\) or a positive number; got -1"
    ):
        nn.MultiHeadAttention(M, 2, softcap=-1.0)
    with pytest.raises(TypeError, match=r"Scored: score must be defined in a subclass of Attention"):
        type("Scored", (nn.MultiHeadAttention,), {"score": lambda self, queries, keys: queries})


def best(scores: qkv.Tensor, allowed: np.ndarray | None, count: int) -> np.ndarray:
    """Return which keys are the best of those that are allowed."""
    allowed = np.ones(scores.shape, bool) if allowed is None else allowed
    ranked = np.where(allowed, scores.numpy(), -np.inf)
    limit = np.sort(ranked, axis=-1)[..., -count:][..., :1]
    return (ranked >= limit) & allowed


class Best(nn.DotProductAttention):
    def normalize(self, scores, allowed):
        return super().normalize(scores, best(scores, allowed, 2))


@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_normalize_knows_what_is_allowed(call, heads):
    layer, plain = Best(num_heads=heads), nn.DotProductAttention(num_heads=heads)
    y, weights = layer(X, X, X, return_weights=True, **call)
    _, every = plain(X, X, X, return_weights=True, **call)
    every = every.numpy()
    kept = np.where(every >= np.sort(every, axis=-1)[..., -2:][..., :1], every, 0)
    sums = kept.sum(-1, keepdims=True)
    expected = np.divide(kept, sums, out=np.zeros_like(kept), where=sums > 0)
    close(weights, expected)
    close(layer.attention_weights, expected)
    values = X if heads is None else X.reshape(B, L, 2, -1).swapaxes(1, 2)
    pooled = expected @ values
    close(y, pooled if heads is None else pooled.swapaxes(1, 2).reshape(B, L, M))
    in_layer = nn.TransformerEncoderLayer(M, 2, 11, 0.0, attention=Best(num_heads=heads)).to("float64")
    close(in_layer(X, **call), written_out(in_layer, qkv.tensor(X), **call))


class Careless(nn.DotProductAttention):
    def normalize(self, scores, allowed):
        self.allowed = allowed
        return qkv.softmax(scores)


def test_what_is_not_allowed_has_no_weight():
    layer = Careless()
    for call in (*CALLS, {"valid_lens": [0, 2]}, {"attn_mask": np.where(MASK, BIAS, -np.inf)}):
        plain = nn.DotProductAttention()
        every = plain(X, X, X, return_weights=True, **call)[1].numpy()
        _, weights = layer(X, X, X, return_weights=True, **call)
        if layer.allowed is None:
            assert every.all()
            close(weights, every)
            continue
        assert isinstance(layer.allowed, np.ndarray)
        assert layer.allowed.dtype == bool
        np.testing.assert_array_equal(np.broadcast_to(layer.allowed, every.shape), every > 0)
        np.testing.assert_array_equal(weights.numpy() > 0, every > 0)
        close(layer.attention_weights, weights)
    layer(X, X, X)
    assert layer.allowed is None
    filled = Careless(masked_value=-1.0)
    close(
        filled(X, X, X, valid_lens=[0, 2]),
        nn.DotProductAttention(masked_value=-1.0)(X, X, X, valid_lens=[0, 2]),
    )
    assert filled.allowed is None
    keys = qkv.tensor(np.where(np.arange(L)[:, None] < 3, X, np.nan), requires_grad=True)  # padding
    y = layer(X, keys, keys, valid_lens=[3, 2])
    assert np.isfinite(y.numpy()).all()
    assert np.isfinite(qkv.grad(y.sum(), keys).numpy()).all()


class Doubled(nn.DotProductAttention):
    def pool(self, weights, values):
        return super().pool(weights, values) * 2 + values.mean(axis=-2, keepdims=True)


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_pool(call):
    plain = nn.DotProductAttention()
    close(Doubled()(X, X, X, **call), 2 * plain(X, X, X, **call).numpy() + X.mean(1, keepdims=True))
    check_gradient(lambda q, k, v: Doubled()(q, k, v, valid_lens=[3, 5], return_weights=True), X, X, X)


def test_steps_that_only_inherit_change_nothing():
    class Same(Distance):
        def normalize(self, scores, allowed):
            return super().normalize(scores, allowed)

        def pool(self, weights, values):
            return super().pool(weights, values)

    layer, same = Distance(dropout=0.4).to("float64"), Same(dropout=0.4).to("float64")
    same.load_state_dict(layer.state_dict())
    for call in [*CALLS, {"valid_lens": [0, 2]}]:
        results = []
        for part in (layer, same):
            qkv.manual_seed(5)
            results.append(part(X, X, X, return_weights=True, **call))
        for a, b in zip(*results, strict=True):
            close(a, b)
    layer, same = Distance(masked_value=-2.0), Same(masked_value=-2.0)
    same.load_state_dict(layer.state_dict())
    close(layer(X, X, X, attn_mask=MASK), same(X, X, X, attn_mask=MASK), "float32")
    values = np.where(np.arange(L)[:, None] < 3, X, np.nan)  # excluded keys are not read
    assert np.isfinite(Same()(X, X, values, valid_lens=[3, 2]).numpy()).all()


def test_steps_must_keep_shapes_and_gradients():
    class Short(nn.DotProductAttention):
        def normalize(self, scores, allowed):
            return scores[..., :2]

    class Lost(nn.DotProductAttention):
        def normalize(self, scores, allowed):
            return scores.detach().numpy()

    with pytest.raises(ValueError, match=r"normalize\(scores, allowed\) must keep the shape"):
        Short()(X, X, X)
    with pytest.raises(TypeError, match="normalize: must return a Tensor because anything else has lost"):
        Lost()(qkv.tensor(X, requires_grad=True), X, X)
    assert Lost()(X, X, X).shape == X.shape


def test_a_forward_of_its_own_may_set_the_weights():
    class Own(nn.Attention):
        def forward(self, queries, keys, values, **options):
            weights = qkv.softmax(qkv.tensor(queries) @ qkv.tensor(keys).swapaxes(-1, -2))
            self.attention_weights = weights
            return weights @ values

    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(M, 2, 11, 0.0, attention=Own()).to("float64"), 1)
    layer(X)
    [weights] = layer.attention_weights
    close(weights, qkv.softmax(X @ X.swapaxes(-1, -2)))


class Table(nn.Attention):
    def score(self, queries, keys, table=None):
        scores = queries @ keys.swapaxes(-1, -2)
        return scores if table is None else scores + table


def test_a_score_takes_further_inputs_of_the_call():
    layer = Table()
    close(layer(X, X, X, table=BIAS, is_causal=True), layer(X, X, X, attn_mask=BIAS, is_causal=True))
    assert np.abs(layer(X, X, X, table=BIAS).numpy() - layer(X, X, X).numpy()).max() > 1e-3
    with pytest.raises(TypeError, match=r"score\(\) got an unexpected keyword argument 'chair'"):
        layer(X, X, X, chair=BIAS)
    assert layer(X, X, X).shape == X.shape  # nothing is left of it
    with pytest.raises(
        TypeError, match=r"^DotProductAttention: got an unexpected argument key_padding_mask; "
    ):
        nn.DotProductAttention()(X, X, X, key_padding_mask=MASK)
