"""What qkv.look sees and changes in the attentions of qkv.torch, and in modules of one's own that call them."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import close

import qkv
import qkv.torch as torch
from qkv import look
from qkv.torch import d2l

from .test_record import B, H, L, M, numbers

nn, F = torch.nn, torch.nn.functional
CAUSAL = nn.Transformer.generate_square_subsequent_mask(L, dtype=torch.float64)


class Own(nn.Module):
    """A layer as textbooks write it, its function of attention in a helper."""

    def __init__(self, heads=H, **options):
        super().__init__()
        self.map, self.heads, self.options = nn.Linear(M, 3 * M), heads, options

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.map(x).chunk(3, -1))
        return helper(q, k, v, **self.options).transpose(1, 2).flatten(2)


def helper(*inputs, **options):
    return F.scaled_dot_product_attention(*inputs, **options)


class Quiet(nn.Module):
    """MultiheadAttention without weights."""

    def __init__(self, **options):
        super().__init__()
        self.inner, self.options = nn.MultiheadAttention(M, H, batch_first=True), options

    def forward(self, x):
        return self.inner(x, x, x, need_weights=False, **self.options)[0]


class Book(nn.Module):
    def __init__(self, made):
        super().__init__()
        self.inner = made

    def forward(self, x):
        return self.inner(x, x, x, torch.tensor([3, 5]))


def layer(kind):
    return kind(M, H, 19, dropout=0.0, batch_first=True)


ROUND = {"dropout": 0.0, "batch_first": True}
MODELS = {
    "encoder layer": (lambda: layer(nn.TransformerEncoderLayer), 1, "self_attn"),
    "encoder": (lambda: nn.TransformerEncoder(layer(nn.TransformerEncoderLayer), 2), 1, "layers.1.self_attn"),
    "decoder layer": (lambda: layer(nn.TransformerDecoderLayer), 2, "multihead_attn"),
    "decoder": (lambda: nn.TransformerDecoder(layer(nn.TransformerDecoderLayer), 2), 2, "layers.0.self_attn"),
    "Transformer": (
        lambda: nn.Transformer(M, H, 1, 1, 19, **ROUND),
        2,
        "decoder.layers.0.multihead_attn",
    ),
    "no weights": (Quiet, 1, "inner"),
    "no weights, causal": (lambda: Quiet(attn_mask=CAUSAL, is_causal=True), 1, "inner"),
    "own": (Own, 1, ""),
    "own, causal": (lambda: Own(is_causal=True, scale=0.7), 1, ""),
    "own, masked": (lambda: Own(attn_mask=torch.ones(L, L).tril(1) > 0), 1, ""),
    "d2l": (lambda: Book(d2l.MultiHeadAttention(M, H, 0.0)), 1, "inner.attention"),
    "d2l additive": (lambda: Book(d2l.AdditiveAttention(7, 0.0)), 1, "inner"),
    "d2l dot": (lambda: Book(d2l.DotProductAttention(0.0)), 1, "inner"),
}


def made(name):
    make, count, path = MODELS[name]
    torch.manual_seed(0)
    inputs = [torch.tensor(numbers(B, L, M, seed=i), requires_grad=True) for i in range(count)]
    model = make().double()
    model(*inputs)  # lazy layers take their sizes
    return model.double().eval(), inputs, f"{path}." if path else ""


def array(x):
    return np.asarray(x.detach())


@pytest.mark.parametrize("name", MODELS)
def test_all_values_are_recorded_and_the_output_keeps_its_bits(name):
    model, inputs, path = made(name)
    plain = array(model(*inputs))
    r = look.record(model, *inputs, keep=("*",))
    np.testing.assert_array_equal(array(r.output), plain)
    weights, scores = r[f"{path}weights"], r[f"{path}scores"]
    assert weights.shape == scores.shape == (B, *weights.shape[1:-2], L, L)
    close(weights.sum(-1), np.ones(weights.shape[:-1]))
    close(r[f"{path}heads"], weights @ r[f"{path}values"])
    if not name.startswith("d2l"):  # its masks are applied within the softmax
        close(qkv.softmax(scores), weights)
        assert weights.shape[1] == H


@pytest.mark.parametrize("word", ["queries", "scores", "weights", "heads"])
@pytest.mark.parametrize("name", MODELS)
def test_changed_values_have_their_effect(name, word):
    model, inputs, path = made(name)
    plain = array(model(*inputs))
    factor = np.linspace(0.3, 2, L)[:, None]
    with look.change(model, {f"{path}{word}": lambda x: x * factor}):
        changed = array(model(*inputs))
        recorded = look.record(model, *inputs, keep=("heads",))
    assert isinstance(model(*inputs), torch.Tensor)
    assert abs(changed - plain).max() > 1e-6
    np.testing.assert_array_equal(array(model(*inputs)), plain)
    np.testing.assert_array_equal(array(recorded.output), changed)


@pytest.mark.parametrize("word", ["scores", "weights"])
@pytest.mark.parametrize("name", ["no weights", "own", "encoder layer", "d2l"])
def test_gradients_to_what_was_recorded(name, word):
    model, inputs, path = made(name)
    direction = numbers(B, L, M, seed=11)
    r = look.record(model, *inputs, keep=(word,), keep_graph=True)
    close(array(r.output), array(model(*inputs)))
    value = r[f"{path}{word}"]
    gradient = np.asarray(qkv.grad((r.output * torch.tensor(direction)).sum(), value))
    step, eps, moved = numbers(*value.shape, seed=12), 1e-6, []
    for sign in (1, -1):
        with look.change(model, {f"{path}{word}": lambda x, sign=sign: array(x) + sign * eps * step}):
            moved.append((array(model(*inputs)) * direction).sum())
    close((gradient * step).sum(), (moved[0] - moved[1]) / (2 * eps), "float64 numeric slope")


def test_the_same_numbers_as_in_the_layers_of_qkv():
    model, (x,), _ = made("encoder")
    twin = qkv.nn.TransformerEncoder(qkv.nn.TransformerEncoderLayer(M, H, 19, dropout=0.0), 2).to("float64")
    twin.load_state_dict({name: array(value) for name, value in model.state_dict().items()})
    a, b = look.record(model, x), look.record(twin.eval(), array(x))
    assert a.names() == b.names()
    for name in a.names():
        close(a[name], b[name])
    for one, other in zip(look.measures(a), look.measures(b), strict=True):
        close(one[np.isfinite(one)], other[np.isfinite(other)])
    close(look.rollout(a, 1), look.rollout(b, 1))
    change = {"layers.0.self_attn.scores": lambda s: s * 0}
    with look.change(model, change):
        ours = array(model(x))
    with look.change(twin, change):
        close(ours, np.asarray(twin(array(x))))


@pytest.mark.parametrize("name", ["own", "encoder", "no weights", "d2l"])
@pytest.mark.parametrize("method", ["gradient", "ablation"])
def test_importance_of_heads(name, method):
    model, inputs, path = made(name)
    found = look.importance(
        model, lambda y: (y * torch.tensor(numbers(B, L, M))).mean(), *inputs, method=method
    )
    assert found.shape == (2 if name == "encoder" else 1, H)
    with look.without_heads(model, {path[:-1]: [1]}):
        changed = array(model(*inputs))
    difference = ((changed - array(model(*inputs))) * numbers(B, L, M)).mean()
    if method == "ablation" or name != "encoder":  # the output is linear in the heads of one attention
        close(found[-1, 1], difference)


def test_heads_that_an_own_module_has_not():
    model, inputs, _ = made("own")
    words = r"without_heads: heads of the model must be from -3 to 2; got 3"
    with pytest.raises(IndexError, match=words), look.without_heads(model, {"": [3]}):
        model(*inputs)


class ByHand(nn.Module):
    def __init__(self):
        super().__init__()
        self.softmax = nn.Softmax(-1)

    def forward(self, x):
        return self.softmax(x @ x.transpose(1, 2)) @ x


def test_a_recording_is_never_empty():
    x = torch.tensor(numbers(B, L, M))
    words = r"record: keep must hold what the call computes; got 'weights', but no attention layer and no scaled_dot"
    with pytest.raises(ValueError, match=words):
        look.record(ByHand(), x)
    r = look.record(ByHand(), x, keep=("softmax.output",))
    close(r["softmax.output"].sum(-1), np.ones((B, L)))

    class Elsewhere(nn.Module):
        def __init__(self):
            super().__init__()
            self.unused = nn.MultiheadAttention(M, H)

        def forward(self, x):
            return x

    with pytest.raises(
        ValueError, match=r"got 'weights', but the call computed no Tensor of that word in unused"
    ):
        look.record(Elsewhere(), x, keep="weights")
    words = r"change: weights must be computed within the block"
    with pytest.raises(ValueError, match=words), look.change(ByHand(), {"weights": lambda w: w}):
        ByHand()(x)


def test_an_error_in_the_block_of_a_change_stays():
    with pytest.raises(ZeroDivisionError), look.change(ByHand(), {"weights": lambda w: w}):
        raise ZeroDivisionError
    assert not qkv._core.observed()
