"""Changing values while a model computes: every point, nested, on one thread, with gradients, and what is refused."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from helpers import close

import qkv
from qkv import look, nn

from .test_record import IDS, MODELS, B, D, H, L, M, flat, made, numbers

ATTENTIONS = [n for n in MODELS if n not in ("GRU", "Sequential", "LinearAttention")]


SAME = {
    "itself": lambda x: x,
    "an array": np.array,
    "a view of a Tensor": lambda x: qkv.concatenate([x, x], axis=-1)[..., : x.shape[-1]],
    "a view of an array": lambda x: np.concatenate([x, x], axis=-1)[..., : x.shape[-1]],
}


@pytest.mark.parametrize(
    "word", ["input", "queries", "keys", "values", "scores", "weights", "heads", "output"]
)
@pytest.mark.parametrize("name", ATTENTIONS)
def test_the_same_values_change_nothing(name, word):
    make, inputs, keywords = MODELS[name]
    model = made(make())
    plain = flat(model(*inputs, **keywords))
    names = look.record(model, *inputs, keep=(word,), **keywords).names()
    assert names
    for same in SAME.values():
        called = []

        def change(x, called=called, same=same):
            called.append(x.shape)
            return same(x)

        with look.change(model, dict.fromkeys(names, change)):
            changed = flat(model(*inputs, **keywords))
        assert len(called) >= len(names)
        for before, after in zip(plain, changed, strict=True):
            close(after, before)
    for before, after in zip(plain, flat(model(*inputs, **keywords)), strict=True):
        np.testing.assert_array_equal(before, after)


def test_each_point_by_hand():
    layer = made(nn.MultiHeadAttention(M, H))
    x = numbers(B, L, M)
    values = look.record(layer, x, keep=("*",))
    out = np.asarray(layer.out_proj.weight).T

    def result(heads):
        return heads.swapaxes(1, 2).reshape(B, L, M) @ out + np.asarray(layer.out_proj.bias)

    w, v = values["weights"], values["values"]
    with look.change(layer, {"weights": lambda w: w * 2}):  # not normalised again
        close(layer(x), result(2 * w @ v))
    close(layer.attention_weights, 2 * w)
    with look.change(layer, {"scores": lambda s: s * 0}):
        close(layer(x), result(np.full_like(w, 1 / L) @ v))
    with look.change(layer, {"heads": lambda h: h * np.array([1.0, 0.0, 2.0])[:, None, None]}):
        close(layer(x), result(w @ v * np.array([1.0, 0.0, 2.0])[:, None, None]))
    with look.change(layer, {"values": lambda v: np.ones(v.shape)}):
        close(layer(x), result(np.ones((B, H, L, D))))
    with look.change(layer, {"queries": lambda q: q * 0}):
        close(layer(x), result(np.full_like(w, 1 / L) @ v))
    close(layer.attention_weights, np.full_like(w, 1 / L))
    with look.change(layer, {"output": lambda y: y + 1}):
        close(layer(x), values["output"] + 1)


def test_exclusions_hold_behind_changed_scores():
    layer = made(nn.MultiHeadAttention(M, H, is_causal=True))
    x = numbers(B, L, M)
    with look.change(layer, {"scores": lambda s: s * 0}):
        layer(x, valid_lens=[2, 5])
    expected = qkv.masked_softmax(
        np.zeros((B, H, L, L)), mask=qkv.masks.causal(L) & qkv.masks.lengths([2, 5], L)[:, None, None]
    )
    close(layer.attention_weights, expected)


def test_a_changed_input_is_keys_and_values_too():
    layer, x, y = made(nn.MultiHeadAttention(M, H)), numbers(B, L, M), numbers(B, L, M, seed=5)
    with look.change(layer, {"input": lambda _: y}):
        close(layer(x), layer.forward(y))
        changed = np.asarray(layer(x, x, x))
    close(changed, layer(y, x, x))


def test_ids_can_change():
    model = made(MODELS["CausalLM"][0]())
    other = (IDS + 1) % 17
    with look.change(model, {"input": lambda ids: other}):
        close(model(IDS), model.forward(other))


def test_fused_parts_of_a_block():
    block = made(nn.TransformerEncoderLayer(M, H, 19))
    x = numbers(B, L, M)
    values = look.record(block, x, keep=("output", "input"))
    with look.change(block, {"linear1.output": lambda y: y * 0 - 1}):
        y = block(x)
    close(y, block.norm2(values["norm1.output"] + np.asarray(block.linear2.bias)))
    with look.change(block, {"norm1.input": lambda z: z * 0, "self_attn.q_proj.output": lambda q: q * 0}):
        block(x)
    close(block.self_attn.attention_weights, np.full((B, H, L, L), 1 / L))


def test_nested_and_entered_again():
    layer, x = made(nn.Linear(3, 5)), numbers(2, 3)
    y = np.asarray(layer(x))
    double = look.change(layer, {"output": lambda y: y * 2})
    plus = look.change(layer, {"output": lambda y: y + 1})
    with double, plus:
        close(layer(x), y * 2 + 1)
    with plus, double:
        close(layer(x), (y + 1) * 2)
    with double, double:
        close(layer(x), y * 4)
        r = look.record(layer, x, keep=("output",))
        close(r["output"], y * 4)
    np.testing.assert_array_equal(layer(x), y)


def test_one_thread_alone():
    layer, x = made(nn.Linear(3, 5)), numbers(2, 3)
    y, found = np.asarray(layer(x)), []
    with look.change(layer, {"output": lambda y: y * 0}):
        thread = threading.Thread(target=lambda: found.append(np.asarray(layer(x))))
        thread.start()
        thread.join()
    np.testing.assert_array_equal(found[0], y)


def test_what_is_left_behind_after_an_error():
    layer, x = made(nn.Linear(3, 5)), numbers(2, 3)

    def fails(y):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), look.change(layer, {"output": fails}):
        layer(x)
    assert not qkv._core.observed()


def test_recordings_show_changed_values_later():
    layer, x = made(nn.MultiHeadAttention(M, H)), numbers(B, L, M)
    with look.change(layer, {"queries": lambda q: q * 0}):
        r = look.record(layer, x, keep=("weights", "queries"))
    close(r["weights"], np.full((B, H, L, L), 1 / L))
    assert (r["queries"] == 0).all()


@pytest.mark.parametrize("word", ["queries", "scores", "weights", "heads"])
@pytest.mark.parametrize(
    "name", ["MultiHeadAttention", "AdditiveAttention", "DotProductAttention", "grouped"]
)
def test_gradients_flow_through(name, word):
    make, inputs, keywords = MODELS[name]
    model = made(make())
    scale = qkv.tensor(1.3, dtype="float64", requires_grad=True)

    def loss(s, *given):
        with look.change(model, {word: lambda x: x * s}):
            return (model(*given, **keywords) ** 2).sum()

    qkv.testing.check_gradient(loss, scale, *[qkv.tensor(x, requires_grad=True) for x in inputs])


def test_patching_another_run():
    model = made(MODELS["CausalLM"][0]())
    other = (IDS * 3 + 1) % 17
    clean = look.record(model, IDS, keep=("layers.0.output",))
    with look.change(model, {"layers.0.output": lambda _: clean["layers.0.output"]}):
        close(model(other), model.forward(IDS))


def test_without_heads():
    model = made(MODELS["CausalLM"][0]())
    zero = {"layers.0.self_attn.heads": lambda h: h * np.array([1.0, 0.0, 1.0])[:, None, None]}
    with look.change(model, zero):
        expected = np.asarray(model(IDS))
    for heads in ({0: [1]}, {-2: [-2]}, {"layers.0.self_attn": [1]}, {0: 1}, {0: np.int64(1)}):
        with look.without_heads(model, heads):
            close(model(IDS), expected)
            r = look.record(model, IDS, keep=("heads",))
            assert (r["layers.0.self_attn.heads"][:, 1] == 0).all()
    single = made(nn.SelfAttention(M, 7))
    with look.without_heads(single, {0: [0]}):
        assert (np.asarray(single(numbers(L, M))) == 0).all()
    decoder = made(MODELS["decoder"][0]())
    with look.without_heads(decoder, {"multihead_attn": [0, 1, 2]}):
        r = look.record(decoder, *MODELS["decoder"][1], keep=("heads",))
    assert (r["multihead_attn.heads"] == 0).all()
    assert (r["self_attn.heads"] != 0).all()


def test_what_is_refused():
    layer, x = made(nn.MultiHeadAttention(M, H)), numbers(B, L, M)
    with pytest.raises(
        ValueError, match=r"change: 'weigths' is no name of the model; did you mean weights\?"
    ):
        look.change(layer, {"weigths": abs})
    with pytest.raises(TypeError, match=r"change: weights must be changed by a function; got 3"):
        look.change(layer, {"weights": 3})
    with pytest.raises(TypeError, match=r"change: changes must be a dict from names to functions; got \[\]"):
        look.change(layer, [])
    with pytest.raises(TypeError, match=r"change: model must be a module; got 3"):
        look.change(3, {})
    for function, text in (
        (lambda h: h[:1], r"change: heads must keep its shape \(2, 3, 5, 4\); got \(1, 3, 5, 4\)"),
        (lambda h: None, r"change: heads must become a Tensor or an array of shape \(2, 3, 5, 4\); got None"),
        (lambda h: 1.0, r"change: heads must keep its shape \(2, 3, 5, 4\); got \(\)"),
    ):
        with pytest.raises(ValueError, match=text), look.change(layer, {"heads": function}):
            layer(x)
    shared = nn.Linear(3, 3)
    twice = nn.Sequential(shared, shared)
    with pytest.raises(
        ValueError, match=r"change: 1\.output must be changed once because it is 0\.output, too"
    ):
        look.change(twice, {"0.output": abs, "1.output": abs})
    model = made(MODELS["CausalLM"][0]())
    with pytest.raises(TypeError, match=r"without_heads: heads must be integers; got None"):
        look.without_heads(model, {0: None})
    with pytest.raises(IndexError, match=r"without_heads: layers must be from -2 to 1; got 2"):
        look.without_heads(model, {2: [0]})
    with pytest.raises(
        IndexError, match=r"without_heads: heads of layers\.1\.self_attn must be from -3 to 2; got 3"
    ):
        look.without_heads(model, {1: [3]})
    with pytest.raises(
        KeyError, match=r"'layers\.0\.selfattn' is the path of no attention; did you mean layers\.0"
    ):
        look.without_heads(model, {"layers.0.selfattn": [0]})
    with pytest.raises(TypeError, match=r"without_heads: layers must be integers or paths; got 0\.5"):
        look.without_heads(model, {0.5: [0]})
    with pytest.raises(TypeError, match=r"without_heads: heads must be integers; got 'a'"):
        look.without_heads(model, {0: ["a"]})
    with pytest.raises(
        TypeError, match=r"without_heads: heads must be a dict from layers to lists of heads; got type"
    ):
        look.without_heads(model, int)
    with pytest.raises(IndexError, match=r"without_heads: model must have a self-attention; got none"):
        look.without_heads(nn.Linear(3, 3), {0: [0]})
