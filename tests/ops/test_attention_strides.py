"""Queries, keys and values whose axes lie in memory in another order are read, and their gradients written, there."""

from __future__ import annotations

import numpy as np
import pytest
from attention_call import attend

import qkv
from qkv import _core

B, H, D, DV = 2, 6, 8, 8


def by_position(x):
    """(B, L, H, D) in memory."""
    return qkv.tensor(np.array(np.swapaxes(x, 1, 2), order="C")).transpose(0, 2, 1, 3)


def joined(x):
    """A part of memory that holds three such arrays."""
    y = np.swapaxes(x, 1, 2)
    three = np.concatenate([y * 0, y, y * 0], 2).reshape(*y.shape[:2], -1)
    width = y.shape[2] * y.shape[3]
    part = qkv.tensor(three)[:, :, width : 2 * width]
    return part.reshape(y.shape).transpose(0, 2, 1, 3)


def some_rows(x):
    return qkv.tensor(np.repeat(x, 2, 2))[:, :, ::2]


def reversed_rows(x):
    return qkv.tensor(np.array(x[:, :, ::-1]))[:, :, ::-1]


def columns_apart(x):
    return qkv.tensor(np.array(np.swapaxes(x, 2, 3), order="C")).transpose(0, 1, 3, 2)


def of_batch_within(x):
    return qkv.tensor(np.array(np.moveaxis(x, 0, 2), order="C")).transpose(2, 0, 1, 3)


LAYOUTS = [by_position, joined, some_rows, reversed_rows, columns_apart, of_batch_within]
nearby = {"score_mod": lambda s, b, h, i, j: s - 0.1 * abs(i - j), "mask_mod": lambda b, h, i, j: i - j < 50}
CASES = {
    "short": (5, 7, {}),
    "one query": (1, 37, {"q_offset": 36, "is_causal": True}),
    "few queries": (3, 131, {}),
    "tiles": (150, 137, {}),
    "causal": (137, 137, {"is_causal": True}),
    "causal, shared heads": (131, 131, {"is_causal": True, "enable_gqa": True}),
    "one query, shared heads": (1, 131, {"enable_gqa": True}),
    "window": (137, 137, {"window": (11, 3), "softcap": 5.0}),
    "lengths": (31, 37, {"valid_lens": np.array([37, 5])}),
    "dropout": (31, 37, {"dropout_p": 0.3, "dropout_key": 7}),
    "formula": (131, 137, nearby),
    "sinks": (31, 37, {"sinks": np.linspace(-1, 1, H).astype("float32"), "masked_value": -3.0}),
    "sparsemax": (31, 37, {"normalizer": "sparsemax"}),
    "entmax15, causal": (137, 137, {"normalizer": "entmax15", "is_causal": True}),
    "sigmoid": (31, 37, {"normalizer": "sigmoid"}),
    "weights": (31, 37, {"return_weights": True, "return_lse": True}),
}


def numbers(lq, lk, options, dtype="float32"):
    rng = np.random.default_rng(lq * 1000 + lk)
    heads = 2 if options.get("enable_gqa") else H
    sizes = (B, H, lq, D), (B, heads, lk, D), (B, heads, lk, DV)
    return [rng.standard_normal(size).astype(dtype) for size in sizes]


def leaf(x):
    x = x.detach()
    x.requires_grad = True
    return x


def with_gradients(inputs, options):
    ys = attend(*inputs, **options)
    total = sum((y * qkv.cos(np.arange(y.size, dtype=y.dtype)).reshape(*y.shape)).sum() for y in ys)
    return [np.array(y) for y in ys], qkv.grad(total, inputs)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CASES)
def test_every_layout_gives_the_same_bits(name, layout):
    lq, lk, options = CASES[name]
    for dtype in ("float32", "float64"):
        arrays = numbers(lq, lk, options, dtype)
        options = {n: x.astype(dtype) if n == "sinks" else x for n, x in options.items()}
        packed, shown = [leaf(qkv.tensor(x)) for x in arrays], [leaf(layout(x)) for x in arrays]
        with qkv.no_grad():
            for a, b in zip(attend(*shown, **options), attend(*packed, **options), strict=True):
                np.testing.assert_array_equal(a.numpy(), b.numpy())
        for keep in (False, True):
            ys, gradients = with_gradients(shown, options | {"keep_layout": keep})
            expected, others = with_gradients(packed, options)
            for a, b in zip(ys + gradients, expected + others, strict=True):
                np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_repeated_heads_are_read_where_they_are():
    q, k, v = numbers(31, 37, {})
    one = [x[:, :1] for x in (k, v)]
    shown = [leaf(qkv.tensor(q)), *(leaf(qkv.tensor(x).broadcast_to((B, H, *x.shape[2:]))) for x in one)]
    packed = [leaf(qkv.tensor(np.array(x))) for x in shown]
    ys, gradients = with_gradients(shown, {"keep_layout": True})
    expected, others = with_gradients(packed, {})
    for a, b in zip(ys + gradients, expected + others, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def order(x):
    """The axes but the last, from the outermost in memory to the innermost."""
    steps = _core.strides(x)
    return sorted(range(len(steps) - 1), key=lambda axis: -steps[axis])


@pytest.mark.parametrize("layout", [by_position, joined, of_batch_within])
def test_output_and_gradients_keep_the_order_of_axes(layout):
    inputs = [leaf(layout(x)) for x in numbers(31, 37, {})]
    output = attend(*inputs, keep_layout=True)[0]
    assert order(output) == order(inputs[0]) != [0, 1, 2]
    gradients = qkv.grad(output, inputs, np.ones(output.shape, "float32"))
    for x, dx in zip(inputs, gradients, strict=True):
        assert order(dx) == order(x)
        assert max(_core.strides(dx)) == dx.size // dx.shape[order(dx)[0]]  # without gaps
    assert _core.is_packed(attend(*inputs)[0])  # what users get


def test_an_output_in_the_order_of_the_query_is_like_any_other():
    q, k, v = numbers(5, 7, {})
    x = leaf(by_position(q))
    y = attend(x, k, v, keep_layout=True)[0]
    plain = attend(leaf(qkv.tensor(q)), k, v)[0]
    assert not _core.is_packed(y)
    rows = y.transpose(0, 2, 1, 3)
    assert _core.is_packed(rows)
    assert np.shares_memory(rows.reshape(B, 5, H * D).numpy(), y.numpy())
    for f in (
        lambda t: t * 2 + 1,
        lambda t: t.sum(1),
        lambda t: t @ np.ones((D, 3), "float32"),
        lambda t: qkv.softmax(t),
        lambda t: t[1:, ::2],
        lambda t: t.reshape(-1),
        lambda t: qkv.concatenate([t, t]),
    ):
        a, b = f(y), f(plain)
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        assert a.requires_grad
    assert y.tobytes() == plain.tobytes()
    assert y.nbytes == plain.nbytes


def test_second_derivatives_of_views():
    q, k, v = (x.astype("float64")[:, :2] for x in numbers(3, 5, {}))

    def second(inputs, **options):
        y = attend(*inputs, **options)[0]
        first = qkv.grad((y * y).sum(), inputs, create_graph=True)
        return qkv.grad(sum((g * g).sum() for g in first), inputs)

    shown = second([leaf(by_position(x)) for x in (q, k, v)], keep_layout=True)
    for a, b in zip(shown, second([leaf(qkv.tensor(x)) for x in (q, k, v)]), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-12)


def test_changes_of_what_a_view_shows_are_noticed():
    q, k, v = numbers(5, 7, {})
    memory = qkv.tensor(np.array(np.swapaxes(q, 1, 2), order="C"))
    y = attend(memory.transpose(0, 2, 1, 3), leaf(qkv.tensor(k)), v)[0].sum()
    memory.copy_(memory + 1)
    with pytest.raises(RuntimeError, match="that a gradient needs was changed by copy_"):
        y.backward()


def test_inputs_of_three_and_two_axes_as_views():
    q, k, v = (x[0] for x in numbers(31, 37, {}))

    def apart(x):
        return leaf(qkv.tensor(np.repeat(x, 2, -2))[..., ::2, :])

    for of in (lambda x: x, lambda x: x[0]):
        shown, packed = [apart(of(x)) for x in (q, k, v)], [leaf(qkv.tensor(of(x))) for x in (q, k, v)]
        ys, gradients = with_gradients(shown, {})
        expected, others = with_gradients(packed, {})
        for a, b in zip(ys + gradients, expected + others, strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("rows", [5, 40])
@pytest.mark.parametrize("shared", [False, True])
def test_a_bias_whose_heads_lie_innermost_takes_its_gradient(rows, shared):
    rng = np.random.default_rng(rows)
    q, k, v = (rng.standard_normal((1, H, rows, D)).astype("float32") for _ in range(3))
    table = rng.standard_normal((rows, rows, H)).astype("float32")
    base = qkv.tensor(table, requires_grad=True)
    if shared:
        base = leaf(_core.shared_memory(table))
    bias = base.transpose(2, 0, 1)[None]
    with_bias = qkv.scaled_dot_product_attention(q, k, v, bias, score_mod=nearby["score_mod"])
    plain = leaf(qkv.tensor(np.array(np.moveaxis(table, -1, 0)[None])))
    expected = qkv.scaled_dot_product_attention(q, k, v, plain, score_mod=nearby["score_mod"])
    np.testing.assert_array_equal(with_bias.numpy(), expected.numpy())
    found, other = qkv.grad(with_bias.sum(), [base])[0], qkv.grad(expected.sum(), [plain])[0]
    np.testing.assert_array_equal(np.asarray(found), np.moveaxis(np.asarray(other)[0], 0, -1))
