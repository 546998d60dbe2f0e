"""Additive attention: against the reference, golden arrays, numeric slopes and its invariants."""

from __future__ import annotations

import numpy as np
import pytest
from tolerances import TOLERANCES

import qkv
from qkv import reference
from qkv.testing import check_gradient

B, Lq, Lk, M, DV = 2, 5, 11, 7, 3


def inputs(seed=0, features=M, dtype="float64"):
    rng = np.random.default_rng(seed)
    shapes = (B, Lq, features), (B, Lk, features), (B, Lk, DV), (features,)
    return [rng.normal(size=s).astype(dtype) for s in shapes]


def option_sets():
    rng = np.random.default_rng(1)
    bias = rng.normal(size=(B, 1, Lk))
    bias[:, :, 2] = -np.inf
    return {
        "plain": {},
        "lengths": {"valid_lens": [3, 0]},
        "lengths per query": {"valid_lens": rng.integers(0, Lk + 1, (B, Lq))},
        "mask": {"attn_mask": rng.random((Lq, Lk)) < 0.5},
        "mask per batch": {"attn_mask": rng.random((B, 1, Lk)) < 0.5},
        "bias": {"attn_mask": bias},
        "lengths and mask": {"valid_lens": [7, 4], "attn_mask": rng.random((B, Lq, Lk)) < 0.7},
        "filled": {"valid_lens": [3, 0], "masked_value": -1e9},
        "filled mildly": {"attn_mask": rng.random((Lq, Lk)) < 0.5, "masked_value": -1.5},
        "dropout": {"dropout_p": 0.3, "dropout_keep": rng.random((B, Lq, Lk)) < 0.7},
    }


OPTIONS = option_sets()


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_equals_the_reference(name, dtype):
    arrays = inputs(dtype=dtype)
    y, w = qkv.additive_attention(*arrays, **OPTIONS[name], return_weights=True)
    expected_y, expected_w = reference.additive_attention(*arrays, **OPTIONS[name], return_weights=True)
    assert y.dtype == w.dtype == dtype
    np.testing.assert_allclose(y, expected_y, *TOLERANCES[dtype])
    np.testing.assert_allclose(w, expected_w, *TOLERANCES[dtype])
    np.testing.assert_array_equal(qkv.additive_attention(*arrays, **OPTIONS[name]), y)


@pytest.mark.parametrize("features", [1, 2, 16, 17, 64, 83, 256])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_any_width(features, dtype):
    arrays = inputs(features=features, dtype=dtype)
    arrays[3] = arrays[3] / features**0.5
    np.testing.assert_allclose(
        qkv.additive_attention(*arrays), reference.additive_attention(*arrays), *TOLERANCES[dtype]
    )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_large_arguments(dtype):
    """Numbers whose exponentials overflow take another way to the same tanh."""
    q, k, v, w = inputs(dtype=dtype)
    q[0, 1, 2], k[0, 0, 2] = 350.0, -349.5
    k[1, 2, 3], q[1, 4] = -400.0, 330.0
    np.testing.assert_allclose(
        qkv.additive_attention(q, k, v, w), reference.additive_attention(q, k, v, w), *TOLERANCES[dtype]
    )
    if dtype == "float64":
        check_gradient(qkv.additive_attention, q, k, v, w, rtol=1e-4)  # its step grows with the numbers


def test_golden_arrays_and_gradients(golden):
    g = golden("D0-20")
    t = {n: qkv.tensor(g[n], requires_grad=True) for n in ("queries", "keys", "values", "W_q", "W_k", "w_v")}
    q, k = t["queries"] @ t["W_q"].T, t["keys"] @ t["W_k"].T
    y, w = qkv.additive_attention(q, k, t["values"], t["w_v"][0], valid_lens=g["lens"], return_weights=True)
    g.close_all({"attention_weights": w, "out": y})
    y.backward(g["G"])
    for name, tensor in t.items():
        g.close(f"grad.{name}", tensor.grad)


@pytest.mark.parametrize("name", OPTIONS)
def test_gradients(name):
    def both(queries, keys, values, score_weight):
        return qkv.additive_attention(
            queries, keys, values, score_weight, **OPTIONS[name], return_weights=True
        )

    check_gradient(both, *inputs())


def test_gradient_of_a_wide_score():
    check_gradient(qkv.additive_attention, *inputs(features=83))


def test_gradient_of_a_bias():
    bias = np.random.default_rng(3).normal(size=(1, 1, Lk))

    def f(queries, bias):
        return qkv.additive_attention(queries, *inputs()[1:], attn_mask=bias, valid_lens=[7, 4])

    check_gradient(f, inputs()[0], bias)


def test_one_sequence_is_a_batch_of_one():
    q, k, v, w = inputs()
    y, weights = qkv.additive_attention(q, k, v, w, valid_lens=[4, 9], return_weights=True)
    for b, n in enumerate([4, 9]):
        y_b, w_b = qkv.additive_attention(q[b], k[b], v[b], w, valid_lens=n, return_weights=True)
        np.testing.assert_array_equal(y_b, y[b])
        np.testing.assert_array_equal(w_b, weights[b])


def test_weights_sum_to_one_over_allowed_keys():
    allowed = np.random.default_rng(1).random((B, Lq, Lk)) < 0.5
    allowed[0, 0] = False
    y, w = qkv.additive_attention(*inputs(), attn_mask=allowed, return_weights=True)
    np.testing.assert_allclose(w.sum(-1), allowed.any(-1))
    assert (w[~allowed] == 0).all()
    assert (y[0, 0] == 0).all()


def test_excluded_keys_have_neither_influence_nor_gradient():
    q, k, v, w = inputs()
    clean = qkv.additive_attention(q, k, v, w, valid_lens=[4, 9], return_weights=True)
    for hostile in (np.nan, np.inf, -np.inf, 1e30):
        k[0, 4:] = k[1, 9:] = v[0, 4:] = v[1, 9:] = hostile
        tensors = [qkv.tensor(x, requires_grad=True) for x in (q, k, v, w)]
        y, weights = qkv.additive_attention(*tensors, valid_lens=[4, 9], return_weights=True)
        np.testing.assert_array_equal(y, clean[0])
        np.testing.assert_array_equal(weights, clean[1])
        (y.sum() + (weights * weights).sum()).backward()
        gradients = [np.asarray(t.grad) for t in tensors]
        assert all(np.isfinite(g).all() for g in gradients)
        for g in gradients[1:3]:
            assert (g[0, 4:] == 0).all()
            assert (g[1, 9:] == 0).all()
            assert (g[1, :9] != 0).all()


def test_a_mask_hides_what_a_key_holds_from_single_queries():
    q, k, v, w = inputs()
    mask = np.ones((Lq, Lk), bool)
    mask[1:, 3] = False
    clean = qkv.additive_attention(q, k, v, w, attn_mask=mask)
    v[:, 3] = np.inf
    k[:, 3] = np.nan
    y = qkv.additive_attention(q, k, v, w, attn_mask=mask)
    np.testing.assert_array_equal(y[:, 1:], clean[:, 1:])
    assert np.isnan(y[:, 0]).all()


def test_keys_and_values_permute_together():
    q, k, v, w = inputs()
    order = np.random.default_rng(2).permutation(Lk)
    np.testing.assert_allclose(
        qkv.additive_attention(q, k[:, order], v[:, order], w),
        qkv.additive_attention(q, k, v, w),
        *TOLERANCES["float64"],
    )


def test_dropout_draws_follow_the_seed_and_keep_the_mean():
    arrays = inputs()
    ones = np.ones((B, Lk, 1))
    qkv.manual_seed(7)
    first = qkv.additive_attention(*arrays, dropout_p=0.5)
    second = qkv.additive_attention(*arrays, dropout_p=0.5)
    qkv.manual_seed(7)
    np.testing.assert_array_equal(qkv.additive_attention(*arrays, dropout_p=0.5), first)
    assert (first != second).any()
    q, k, _, w = arrays
    y = [qkv.additive_attention(q, k, ones, w, dropout_p=0.3) for _ in range(400)]
    np.testing.assert_allclose(np.mean(y), 1.0, atol=0.03)
    _, weights = qkv.additive_attention(*arrays, dropout_p=0.5, return_weights=True)
    np.testing.assert_array_equal(weights, qkv.additive_attention(*arrays, return_weights=True)[1])
    assert (qkv.additive_attention(*arrays, dropout_p=1.0) == 0).all()


def test_the_gradient_sees_the_dropout_that_was_drawn():
    q, k, v, w = inputs()

    def f(*tensors):
        qkv.manual_seed(3)
        return qkv.additive_attention(*tensors, dropout_p=0.4)

    check_gradient(f, q, k, v, w)


@pytest.mark.parametrize("shape", [(31, 47, 19), (1, 200, 5)])
def test_equal_bits_for_any_number_of_threads(shape):
    lq, lk, features = shape
    rng = np.random.default_rng(0)
    results = []
    before = qkv.get_num_threads()
    arrays = [
        rng.normal(size=s).astype("float32")
        for s in ((3, lq, features), (3, lk, features), (3, lk, 13), (features,))
    ]
    try:
        for threads in (1, 2):
            qkv.set_num_threads(threads)
            tensors = [qkv.tensor(x, requires_grad=True) for x in arrays]
            y = qkv.additive_attention(*tensors)
            (y * y).sum().backward()
            results.append([np.asarray(y), *(np.asarray(t.grad) for t in tensors)])
    finally:
        qkv.set_num_threads(before)
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


def test_strided_read_only_and_empty_inputs():
    q, k, v, w = inputs()
    expected = qkv.additive_attention(q, k, v, w)
    strided = [np.repeat(x, 2, axis=-1)[..., ::2] for x in (q, k, v, w)]
    fortran = [np.asfortranarray(x) for x in (q, k, v, w)]
    for arrays in (strided, fortran):
        for x in arrays:
            x.flags.writeable = False
        np.testing.assert_array_equal(qkv.additive_attention(*arrays), expected)
    assert qkv.additive_attention(q[:0], k[:0], v[:0], w).shape == (0, Lq, DV)
    assert qkv.additive_attention(q[:, :0], k, v, w).shape == (B, 0, DV)
    assert (qkv.additive_attention(q, k[:, :0], v[:, :0], w) == np.zeros((B, Lq, DV))).all()
    np.testing.assert_allclose(qkv.additive_attention(q, k[:, :1], v[:, :1], w), v[:, :1].repeat(Lq, 1))


def test_dtypes():
    q, k, v, w = inputs()
    assert qkv.additive_attention(q.astype("f4"), k, v, w).dtype == np.float64
    half = qkv.additive_attention(*(x.astype("f2") for x in (q, k, v, w)), attn_mask=np.zeros((Lq, Lk), "f4"))
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, qkv.additive_attention(q, k, v, w), *TOLERANCES["float16"])
    y = qkv.additive_attention(qkv.tensor(q), k, v, w)
    assert isinstance(y, qkv.Tensor)
    assert not y.requires_grad


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"queries": np.ones(3)},
            ValueError,
            r"queries must be \(B, Lq, M\) or \(Lq, M\); got queries \(3,\)",
        ),
        (
            {"keys": np.ones((B, Lk, 6))},
            ValueError,
            r"keys must be \(B, Lk, M\) with the B and M .* keys \(2, 11, 6\)",
        ),
        (
            {"keys": np.ones((3, Lk, M))},
            ValueError,
            r"keys must be .* got queries \(2, 5, 7\), keys \(3, 11, 7\)",
        ),
        (
            {"score_weight": np.ones((1, M))},
            ValueError,
            r"score_weight must be \(M,\) with M = 7 .* \(1, 7\)",
        ),
        (
            {"values": np.ones((B, 5, DV))},
            ValueError,
            r"values must be .* one row for each of the keys .* \(2, 5, 3\)",
        ),
        ({"attn_mask": np.ones((Lq, Lk), int)}, TypeError, r"attn_mask must be boolean .* got dtype int64"),
        (
            {"attn_mask": np.ones((Lk, Lq), bool)},
            ValueError,
            r"attn_mask must broadcast .* \(2, 5, 11\).*; got attn_mask \(11, 5\)",
        ),
        (
            {"valid_lens": [1, 12]},
            ValueError,
            r"valid_lens must be from 0 to Lk = 11; got 12",
        ),
        ({"valid_lens": [-1, 2]}, ValueError, r"valid_lens must be from 0 to Lk = 11; got -1"),
        (
            {"valid_lens": [1, 2, 3]},
            ValueError,
            r"valid_lens must be \(B,\) = \(2,\) or \(B, Lq\) = \(2, 5\); got valid_lens \(3,\)",
        ),
        ({"valid_lens": [1.0, 2.0]}, TypeError, r"valid_lens must hold integers; got dtype float64"),
        ({"dropout_p": 1.5}, ValueError, r"dropout_p must be from 0 to 1; got 1.5"),
        (
            {"dropout_p": 0.5, "dropout_keep": np.ones(3, bool)},
            ValueError,
            r"dropout_keep must broadcast .* \(3,\)",
        ),
    ],
)
def test_rejections(change, error, message):
    arguments = dict(zip(("queries", "keys", "values", "score_weight"), inputs(), strict=True))
    with pytest.raises(error, match="additive_attention: " + message):
        qkv.additive_attention(**(arguments | change))
