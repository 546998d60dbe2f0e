"""A key of dropout repeats its draw; an earlier call's results take the place of a forward pass."""

from __future__ import annotations

import numpy as np
import pytest
from attention_call import attend

import qkv
from qkv import _core

B, H, LQ, LK, D, DV = 2, 3, 31, 37, 8, 5
RNG = np.random.default_rng(5)
ARRAYS = [
    RNG.standard_normal(size).astype("float32") for size in ((B, H, LQ, D), (B, H, LK, D), (B, H, LK, DV))
]
BIAS = RNG.standard_normal((1, H, LQ, LK)).astype("float32")
SLOPE = RNG.standard_normal(H).astype("float32")
OPTIONS = {
    "plain": {},
    "causal": {"is_causal": True},
    "lse": {"return_lse": True},
    "dropout": {"dropout_p": 0.4, "dropout_key": 2**63 + 5},
    "kept": {"dropout_p": 0.4, "dropout_keep": BIAS > 0},
    "sinks, window": {"sinks": SLOPE, "window": (5, 2), "softcap": 3.0},
    "lengths": {"valid_lens": np.array([37, 3]), "masked_value": -2.0},
    "formula": {
        "score_mod": lambda s, b, h, i, j: s - 0.1 * abs(i - j),
        "mask_mod": lambda b, h, i, j: i >= j - 7,
    },
    **{name: {"normalizer": name} for name in ("sigmoid", "relu", "sparsemax", "entmax15")},
}


def leaves(arrays=ARRAYS):
    return [qkv.tensor(x, requires_grad=True) for x in arrays]


def total(ys):
    return sum((y * np.cos(np.arange(y.size, dtype=y.dtype)).reshape(y.shape)).sum() for y in ys)


def test_a_key_repeats_the_draw_of_both_passes():
    options = {"dropout_p": 0.5, "dropout_key": 7}
    inputs = leaves()
    ys, again = attend(*inputs, **options), attend(*inputs, **options)
    np.testing.assert_array_equal(ys[0].numpy(), again[0].numpy())
    assert np.any(attend(*inputs, dropout_p=0.5, dropout_key=8)[0].numpy() != ys[0].numpy())
    for a, b in zip(qkv.grad(total(ys), inputs), qkv.grad(total(again), inputs), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    by_stream = attend(*ARRAYS, **options)[0]
    np.testing.assert_array_equal(by_stream, ys[0].numpy())


def test_a_key_repeats_the_draw_of_additive_attention():
    q, k, v = (qkv.tensor(x[:, 0, :, :5], requires_grad=True) for x in ARRAYS)
    rest = SLOPE[[0, 1, 2, 0, 1]], None, None, 0.5, None, None, True

    def both(key):
        y = _core.additive_attention(q, k, v, *rest, dropout_key=key)[0]
        return [y.numpy(), *(g.numpy() for g in qkv.grad(total([y]), [q, k, v]))]

    for a, b in zip(both(7), both(7), strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.any(both(7)[0] != both(8)[0])


def test_a_key_leaves_the_generator_where_it_is():
    qkv.manual_seed(3)
    before = qkv.rand(5)
    qkv.manual_seed(3)
    attend(*ARRAYS, dropout_p=0.5, dropout_key=7)
    np.testing.assert_array_equal(qkv.rand(5), before)


@pytest.mark.parametrize("key", [-1, 2**64, 1.0, "7"])
def test_a_key_is_a_number_of_64_bits(key):
    message = r"^scaled_dot_product_attention: dropout_key must be an integer from 0 to 2\*\*64 - 1; got "
    with pytest.raises(ValueError, match=message):
        attend(*ARRAYS, dropout_p=0.5, dropout_key=key)


def known(inputs, options):
    """What a call without a history gives, and by which names it is taken again."""
    with qkv.no_grad():
        results = list(attend(*inputs, return_statistics=True, **options))
    names = ["output", *["lse"] * options.get("return_lse", False), "statistics"]
    names += ["averages"] * (options.get("normalizer") in ("sparsemax", "entmax15"))
    return dict(zip(names, results, strict=True))


@pytest.mark.parametrize("name", OPTIONS)
def test_results_of_an_earlier_call_have_the_gradients_of_a_new_one(name):
    options, inputs = OPTIONS[name], leaves()
    given = known(inputs, options)
    again = _core.attention_again(*inputs, options, **given)
    again = again if isinstance(again, tuple) else (again,)
    plain = attend(*inputs, **options)
    for a, b in zip(again, plain, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        assert a.requires_grad
    for a, b in zip(qkv.grad(total(again), inputs), qkv.grad(total(plain), inputs), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_second_derivatives_are_those_of_a_new_call():
    inputs = leaves([x.astype("float64")[:, :, :5] for x in ARRAYS])
    options = {"is_causal": True}

    def second(y):
        first = qkv.grad((y * y).sum(), inputs, create_graph=True)
        return qkv.grad(sum((g * g).sum() for g in first), inputs)

    again = second(_core.attention_again(*inputs, options, **known(inputs, options)))
    for a, b in zip(again, second(attend(*inputs, **options)[0]), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_a_bias_gets_its_gradient_again():
    inputs, bias = leaves(), qkv.tensor(BIAS, requires_grad=True)
    given = known(inputs, {"attn_mask": bias})
    again = _core.attention_again(*inputs, {"attn_mask": bias}, **given)
    plain = attend(*inputs, attn_mask=bias)[0]
    a, b = (qkv.grad((y * y).sum(), [bias])[0].numpy() for y in (again, plain))
    np.testing.assert_array_equal(a, b)


def test_nothing_is_computed_again():
    inputs = leaves()
    given = known(inputs, {})
    given["output"] = given["output"] * 0 + 7
    again = _core.attention_again(*inputs, {}, **given)
    assert np.all(again.numpy() == 7)


def test_results_in_the_order_of_the_query_are_taken_where_they_lie():
    inputs = [qkv.tensor(np.array(np.swapaxes(x, 1, 2), order="C")).transpose(0, 2, 1, 3) for x in ARRAYS]
    inputs = [x.detach() for x in inputs]
    for x in inputs:
        x.requires_grad = True
    given = known(inputs, {"keep_layout": True})
    place = _core.address(given["output"])
    again = _core.attention_again(*inputs, {}, **given)
    assert _core.address(again) == place
    plain = attend(*inputs)[0]
    for a, b in zip(qkv.grad(total([again]), inputs), qkv.grad(total([plain]), inputs), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_a_call_that_records_gives_its_statistics_too():
    inputs = leaves()
    output, statistics = attend(*inputs, return_statistics=True)
    assert output.requires_grad
    assert not statistics.requires_grad
    assert statistics.shape == (B, H, LQ, 2)
    np.testing.assert_array_equal(statistics.numpy(), known(inputs, {})["statistics"].numpy())


def test_what_does_not_fit_is_refused():
    inputs = leaves()
    given = known(inputs, {})
    for name, wrong, message in (
        (
            "output",
            given["output"][:1],
            r"output must be \(2, 3, 31, 5\) of float32 as the earlier call gave it; got",
        ),
        ("statistics", given["output"], r"statistics must be \(2, 3, 31, 2\) of float32"),
        (
            "statistics",
            qkv.tensor(given["statistics"], dtype="float64"),
            r"statistics .*got \(2, 3, 31, 2\) of float64",
        ),
    ):
        with pytest.raises(ValueError, match=f"^attention_again: {message}"):
            _core.attention_again(*inputs, {}, **{**given, name: wrong})
    with pytest.raises(ValueError, match=r"^attention_again: averages must be .*got None"):
        _core.attention_again(*inputs, {"normalizer": "sparsemax"}, **given)
    with pytest.raises(
        ValueError, match=r"^attention_again: return_weights must be False because nothing is computed"
    ):
        _core.attention_again(*inputs, {"return_weights": True}, **given)
    with pytest.raises(
        ValueError, match=r"^attention_again: dropout_key must be given because the earlier call drew"
    ):
        _core.attention_again(*inputs, {"dropout_p": 0.5}, **given)
    cuts = np.array([0, 3])
    rows = [np.ones((3, 2, 4), "float32")] * 3
    message = "dropout_key and return_statistics must be None beside cu_seqlens_q"
    with pytest.raises(ValueError, match=f"^scaled_dot_product_attention: {message}"):
        attend(*rows, cu_seqlens_q=cuts, cu_seqlens_k=cuts, return_statistics=True)
