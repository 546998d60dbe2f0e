"""Softmax, log-softmax, the masked softmax and the Jacobian."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import close, gradients, layouts, same_bits_for_any_threads

import qkv
from qkv import reference
from qkv.testing import check_gradient

NAN, INF = np.nan, np.inf


@pytest.fixture
def random():
    return np.random.default_rng(0)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("shape", [(7,), (5, 7), (2, 3, 37), (3, 1), (2, 129)])
@pytest.mark.parametrize("axis", [-1, 0])
def test_values_and_gradients(name, shape, axis, random):
    x = random.normal(size=shape) * 3
    ours, theirs = getattr(qkv, name), getattr(reference, name)
    for temperature in (1.0, 0.3, 5.0):
        close(ours(x, axis, temperature), theirs(x, axis, temperature))
        single = ours(x.astype("float32"), axis, temperature)
        assert single.dtype == np.float32
        close(single, theirs(x.astype("float32"), axis, temperature), "float32 deep")
        check_gradient(lambda t, T=temperature: ours(t, axis, T), x)


def test_golden(golden):
    g = golden("X-ACT")
    g.close("softmax", qkv.softmax(g["x"]))
    g.close("log_softmax", qkv.log_softmax(g["x"]))
    g.close("softmax_shifted_by_1000", qkv.softmax(g["x"] + 1000))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extreme_scores(dtype):
    x = np.array([[1e4, -1e4, 1e4], [-1e4, -1e4, -1e4], [1e30, 0, -1e30]], dtype)
    expected = [[0.5, 0, 0.5], [1 / 3] * 3, [1, 0, 0]]
    close(qkv.softmax(x), np.array(expected, dtype), "float32")
    close(qkv.log_softmax(np.array([0, -1e4], dtype)), [0.0, -1e4])
    with_infinities = qkv.softmax(np.array([[-INF, 0.0, 0.0], [-INF] * 3, [INF, 0, 0], [NAN, 0, 0]], dtype))
    close(with_infinities[0], [0, 0.5, 0.5])
    assert np.isnan(with_infinities[1:]).all()
    x = qkv.tensor(x, requires_grad=True)
    (qkv.softmax(x) * np.arange(3)).sum().backward()
    assert np.isfinite(x.grad.numpy()).all()


def test_inputs_of_every_kind(random):
    x = random.normal(size=(5, 7))
    for variant in layouts(x):
        close(qkv.softmax(variant), reference.softmax(x))
    assert qkv.softmax([[1, 2], [3, 5]]).dtype == np.float32
    assert qkv.softmax(x.astype("float16")).dtype == np.float16
    close(qkv.softmax(np.array([[3.0]])), [[1.0]])
    assert qkv.softmax(np.zeros((0, 5))).shape == (0, 5)
    assert qkv.softmax(np.zeros((5, 0))).shape == (5, 0)
    assert isinstance(qkv.softmax(qkv.tensor(x)), qkv.Tensor)
    untouched = x.copy()
    qkv.masked_softmax(x, 3, masked_value=-1e6)
    assert (x == untouched).all()


def test_rejections():
    with pytest.raises(ValueError, match=r"^softmax: axis must be from -2 to 1 .*; got 2$"):
        qkv.softmax(np.zeros((2, 3)), 2)
    with pytest.raises(ValueError, match=r"^softmax: temperature must be above 0 .* got temperature = 0$"):
        qkv.softmax([1.0], temperature=0)
    with pytest.raises(ValueError, match=r"^log_softmax: temperature .* got temperature = -2$"):
        qkv.log_softmax([1.0], temperature=-2)
    with pytest.raises(ValueError, match="softmax: axis must be"):
        qkv.softmax_jacobian(1.0)
    scores = np.zeros((2, 3, 5))
    with pytest.raises(ValueError, match=r"scores must be \(Lq, Lk\).*; got scores \(5,\)$"):
        qkv.masked_softmax(np.zeros(5))
    with pytest.raises(
        ValueError, match=r"valid_lens must be \(B,\) = \(2,\) or \(B, Lq\) = \(2, 3\); got valid_lens \(3,\)"
    ):
        qkv.masked_softmax(scores, [1, 2, 3])
    with pytest.raises(ValueError, match=r"valid_lens must be from 0 to Lk = 5; got 6"):
        qkv.masked_softmax(scores, [1, 6])
    with pytest.raises(ValueError, match=r"valid_lens must be from 0 to Lk = 5; got -1"):
        qkv.masked_softmax(scores, [1, -1])
    with pytest.raises(TypeError, match="masked_softmax: valid_lens must hold integers; got dtype float64"):
        qkv.masked_softmax(scores, [1.0, 2.0])
    with pytest.raises(TypeError, match=r"mask must be boolean .* or floating .* got dtype int64"):
        qkv.masked_softmax(scores, mask=np.ones((3, 5), int))
    with pytest.raises(
        ValueError, match=r"mask must broadcast to the scores' shape \(2, 3, 5\); got mask \(3, 2\)"
    ):
        qkv.masked_softmax(scores, mask=np.ones((3, 2), bool))


MASKED = {
    "nothing": {},
    "lengths": {"valid_lens": np.array([0, 4])},
    "lengths per query": {"valid_lens": np.array([[0, 1, 5], [2, 5, 4]])},
    "boolean": {"mask": np.random.default_rng(1).random((3, 5)) < 0.5},
    "boolean per key": {"mask": np.array([True, False, True, True, False])},
    "boolean per query": {"mask": np.array([[True], [False], [True]])},
    "added": {"mask": np.random.default_rng(2).normal(size=(2, 1, 5))},
    "added with -inf": {"mask": np.array([[0.3, -INF, 1.0, -2.0, -INF], [-INF] * 5, [0] * 5])},
    "all together": {"valid_lens": np.array([3, 4]), "mask": np.array([0.0, -INF, 2.0, 1.0, 0.5])},
}


@pytest.mark.parametrize("masked_value", [None, -1e6, -2.0])
@pytest.mark.parametrize("name", MASKED)
def test_masked_values_and_gradients(name, masked_value, random):
    options = {**MASKED[name], "masked_value": masked_value}
    scores = random.normal(size=(2, 3, 5))
    expected = reference.masked_softmax(scores, **options)
    close(qkv.masked_softmax(scores, **options), expected)
    close(qkv.masked_softmax(scores.astype("float32"), **options), expected, "float32")
    check_gradient(lambda s: qkv.masked_softmax(s, **options), scores)
    if masked_value is None:
        assert (qkv.masked_softmax(scores, **options)[expected == 0] == 0).all()


def test_every_rank(random):
    lens, mask = np.array([3, 5]), random.random((2, 1, 3, 7)) < 0.7
    scores = random.normal(size=(2, 5, 3, 7))
    close(qkv.masked_softmax(scores, lens, mask=mask), reference.masked_softmax(scores, lens, mask=mask))
    per_query = np.array([[1, 2, 3], [4, 5, 7]])
    close(qkv.masked_softmax(scores, per_query), reference.masked_softmax(scores, per_query))
    close(qkv.masked_softmax(scores[0, 0], 4), reference.masked_softmax(scores[0, 0], 4))
    close(qkv.masked_softmax(scores[0, 0], [1, 0, 7]), reference.masked_softmax(scores[0, 0], [1, 0, 7]))
    for dtype in ("int32", "uint8", "int64"):
        close(qkv.masked_softmax(scores, lens.astype(dtype)), reference.masked_softmax(scores, lens))


def test_added_mask_has_a_gradient(random):
    scores, bias = random.normal(size=(2, 3, 5)), random.normal(size=(3, 1, 1)).reshape(3, 1)
    check_gradient(lambda s, b: qkv.masked_softmax(s, [2, 5], mask=b), scores, bias)
    check_gradient(lambda s, b: qkv.masked_softmax(s, [2, 5], mask=b, masked_value=-1.0), scores, bias)
    bias = random.normal(size=(2, 1, 5))
    check_gradient(lambda s, b: qkv.masked_softmax(s, mask=b), scores, bias)
    result = qkv.masked_softmax(scores, mask=qkv.tensor(bias.astype("float32")))
    assert isinstance(result, qkv.Tensor)
    assert result.dtype == np.float64


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_excluded_entries_are_not_read(bad, random):
    scores = random.normal(size=(2, 3, 5))
    poisoned = scores.copy()
    poisoned[:, :, 3:] = bad
    allowed = np.array([True, True, True, False, False])
    for options in ({"valid_lens": [3, 3]}, {"mask": allowed}, {"mask": np.where(allowed, 0.0, -INF)}):
        clean = qkv.masked_softmax(scores, **options)
        assert (qkv.masked_softmax(poisoned, **options) == clean).all()
        x = qkv.tensor(poisoned, requires_grad=True)
        y = qkv.masked_softmax(x, **options)
        dy = random.normal(size=(2, 3, 5))
        dy[:, :, 3:] = bad
        y.backward(dy)
        assert np.isfinite(x.grad.numpy()).all()
        assert (x.grad.numpy()[:, :, 3:] == 0).all()
        assert (x.grad.numpy()[:, :, :3] != 0).all()


def test_a_bad_allowed_entry_spoils_its_own_row_only(random):
    scores = random.normal(size=(2, 3, 5))
    scores[0, 1, 2] = NAN
    weights = qkv.masked_softmax(scores, mask=np.array([True, True, True, False, True]))
    assert np.isnan(weights[0, 1, [0, 1, 2, 4]]).all()
    assert weights[0, 1, 3] == 0
    assert np.isfinite(np.delete(weights.reshape(6, 5), 1, 0)).all()


def test_rows_without_keys():
    x = qkv.tensor(np.array([[-INF, -INF], [1.0, 2.0]]), requires_grad=True)
    y = qkv.masked_softmax(x, [2, 0])
    assert y.tolist() == [[0, 0], [0, 0]]
    y.backward(np.ones((2, 2)))
    assert x.grad.tolist() == [[0, 0], [0, 0]]
    assert qkv.masked_softmax([[1.0, 2.0]], 0, masked_value=-1e9).tolist() == [[0.5, 0.5]]
    assert qkv.masked_softmax(np.zeros((2, 3, 0)), [0, 0]).shape == (2, 3, 0)
    assert qkv.masked_softmax(np.zeros((0, 3, 5)), np.zeros(0, int)).shape == (0, 3, 5)


def test_a_changed_mask_does_not_reach_the_gradient(random):
    scores, mask = qkv.tensor(random.normal(size=(3, 5)), requires_grad=True), np.zeros((3, 5))
    mask[:, 3:] = -INF
    lens = np.array([5, 2, 3])
    y = qkv.masked_softmax(scores, lens, mask=mask, masked_value=-1.0)
    mask[:], lens[:] = 0, 5
    y.backward(random.normal(size=(3, 5)))
    assert (scores.grad.numpy()[:, 3:] == 0).all()
    assert (scores.grad.numpy()[1, 2:] == 0).all()


def test_jacobian(random):
    x = random.normal(size=(2, 3, 5))
    close(qkv.softmax_jacobian(x), reference.softmax_jacobian(x))
    check_gradient(qkv.softmax_jacobian, x)
    close(qkv.jacobian(qkv.softmax, qkv.tensor(x[0, 0])), qkv.softmax_jacobian(x[0, 0]))


def test_any_number_of_threads(random):
    x = random.normal(size=(401, 211)).astype("float32")
    lens = random.integers(0, 212, 401)
    same_bits_for_any_threads(lambda: gradients(qkv.softmax, x))
    same_bits_for_any_threads(lambda: gradients(qkv.log_softmax, x))
    same_bits_for_any_threads(lambda: gradients(lambda t: qkv.masked_softmax(t, lens), x))


def test_a_mask_changed_by_copy_is_noticed(random):
    scores, mask = qkv.tensor(random.normal(size=(3, 5)), requires_grad=True), qkv.tensor(np.zeros((3, 5)))
    y = qkv.masked_softmax(scores, mask=mask, masked_value=-1.0)
    mask.copy_(np.ones((3, 5)))
    with pytest.raises(RuntimeError, match="was changed by copy_"):
        y.sum().backward()
