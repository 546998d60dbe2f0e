"""Functions of whole arrays: orders, triangles, pads, sums of products, places."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import close
from second_checks import check_second

import qkv
from qkv.testing import check_gradient

RANDOM = np.random.default_rng(11)
X = RANDOM.standard_normal((2, 3, 5))
TIES = RANDOM.integers(0, 4, (3, 7, 5))


def same(result, expected):
    np.testing.assert_array_equal(np.asarray(result), np.asarray(expected), strict=True)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_orders(axis, descending, dtype):
    x = TIES.astype(dtype)
    if dtype != "int64":
        x[1, 3, 2] = x[2, 1, 0] = np.nan
    expected = np.sort(x, axis)
    if descending:
        expected = np.flip(expected, -1 if axis is None else axis)
    for given, kind in ((x, np.ndarray), (qkv.tensor(x), qkv.Tensor)):
        result = qkv.sort(given, axis, descending=descending)
        assert isinstance(result, kind)
        same(result, expected)
        places = qkv.argsort(given, axis, descending=descending)
        assert isinstance(places, kind)
        assert places.dtype == np.int64
        flat = x.reshape(-1) if axis is None else x
        same(np.take_along_axis(flat, np.asarray(places), -1 if axis is None else axis), expected)
        if not descending:
            same(places, np.argsort(x, axis, kind="stable"))
    check_gradient(lambda t: qkv.sort(t, axis, descending=descending), X)
    check_second(lambda t: qkv.sort(t * t, axis, descending=descending) * t.sum(), X)


def test_equal_numbers_keep_their_order():
    assert qkv.argsort([1.0, 0.0, 1.0, 0.0]).tolist() == [1, 3, 0, 2]
    assert qkv.argsort([1.0, 0.0, 1.0, 0.0], descending=True).tolist() == [0, 2, 1, 3]
    assert qkv.sort([2, 1]).tolist() == [1, 2]
    assert qkv.sort(np.array([2, 1], np.float16)).dtype == np.float16
    for f in (qkv.sort, qkv.argsort):
        with pytest.raises(
            ValueError, match=rf"^{f.__name__}: axis must be from -1 to 0 because the array has 1 axes"
        ):
            f([1.0], 1)
        with pytest.raises(TypeError, match=rf"^{f.__name__}: axis must be one number or None; got \(0,\)$"):
            f([1.0], (0,))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("k", [0, 1, 2, 3])
@pytest.mark.parametrize("largest", [True, False])
def test_topk(axis, k, largest):
    for x in (
        X[:, :, :4].repeat(2, 0),
        TIES,
        X.astype("float32").repeat(2, 0),
        RANDOM.standard_normal((53, 97, 3)),
    ):
        values, places = qkv.topk(x, k, axis, largest=largest)
        order = qkv.argsort(x, axis, descending=largest)
        expected = np.take(order, range(k), axis)
        same(places, expected)
        same(values, np.take_along_axis(x, expected, axis))
    x = X.repeat(2, 0) + RANDOM.standard_normal((4, 3, 5))
    values, places = qkv.topk(qkv.tensor(x), k, axis, largest=largest)
    assert isinstance(values, qkv.Tensor)
    assert isinstance(places, qkv.Tensor)
    if k:
        check_gradient(lambda t: qkv.topk(t, k, axis, largest=largest)[0], x)
        check_second(lambda t: qkv.topk(t * t, k, axis, largest=largest)[0] * t.sum(), x)


def test_topk_of_nan_and_what_it_refuses():
    _values, places = qkv.topk([1.0, np.nan, 3.0, np.nan], 3)
    assert places.tolist() == [1, 3, 2]
    assert qkv.topk([1.0, np.nan, 3.0], 3, largest=False)[1].tolist() == [0, 2, 1]
    for k in (-1, 3):
        with pytest.raises(
            ValueError,
            match=rf"^topk: k must be from 0 to 2 because so many numbers stand on axis 0; got k = {k}$",
        ):
            qkv.topk([1.0, 2.0], k)


def test_take_along_axis():
    for axis in (0, 1, -1):
        places = RANDOM.integers(-2, 2, X.shape)
        same(qkv.take_along_axis(X, places, axis), np.take_along_axis(X, places, axis))
        check_gradient(lambda t, p=places, a=axis: qkv.take_along_axis(t, p, a), X)
        check_second(lambda t, p=places, a=axis: qkv.take_along_axis(t * t, p, a), X)
        close(np.take_along_axis(qkv.tensor(X), places, axis), np.take_along_axis(X, places, axis))
    with pytest.raises(
        ValueError, match=r"^take_along_axis: indices must be from -5 to 4 because so many .*; got 5$"
    ):
        qkv.take_along_axis(X, np.full(X.shape, 5))
    with pytest.raises(
        ValueError, match=r"^take_along_axis: indices must have the shape of x \(2, 3, 5\) on every axis"
    ):
        qkv.take_along_axis(X, np.zeros((2, 1, 5), int))


@pytest.mark.parametrize("k", [-7, -1, 0, 1, 2, 7])
@pytest.mark.parametrize("f", ["tril", "triu"])
def test_triangles(f, k):
    triangle = getattr(np, f)
    for x in (X, TIES, X > 0, X.astype("float32"), np.zeros((0, 3)), np.full((3, 5), np.nan)):
        same(triangle(qkv.tensor(x), k), triangle(x, k))
    check_gradient(lambda t: triangle(t, k), X)
    check_second(lambda t: triangle(t * t, k), X)
    with pytest.raises(ValueError, match=rf"^{f}: x must be \(\.\.\., rows, columns\); got x \(3,\)$"):
        triangle(qkv.tensor(np.ones(3)))


WIDTHS = [1, (2, 1), ((1, 2), (0, 3), (2, 0)), 0, np.int64(2)]


@pytest.mark.parametrize("width", WIDTHS, ids=str)
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
def test_pad(width, mode):
    for x in (X, TIES, X.astype("float32"), X > 0):
        same(qkv.pad(x, width, mode), np.pad(x, width, mode))
        same(qkv.pad(qkv.tensor(x), width, mode), np.pad(x, width, mode))
    close(np.pad(qkv.tensor(X), width, mode), np.pad(X, width, mode))
    check_gradient(lambda t: qkv.pad(t, width, mode), X)
    check_second(lambda t: qkv.pad(t * t, width, mode), X)


def test_floats_of_python_count_as_float32():
    for mode in ("constant", "edge", "reflect", "symmetric", "wrap"):
        same(qkv.pad([1.5, 2.5], 1, mode), np.pad(np.float32([1.5, 2.5]), 1, mode))
    for made in (qkv.split([1.0, 2.0], 2)[0], qkv.sort([2.0, 1.0]), qkv.take_along_axis([1.0, 2.0], [0])):
        assert made.dtype == np.float32
    assert qkv.split([1, 2], 2)[0].dtype == np.int64
    assert qkv.argsort([1.0 + 1e-12, 1.0]).tolist() == [0, 1]


def test_pad_with_a_number():
    same(qkv.pad(X, 1, constant_values=7.5), np.pad(X, 1, constant_values=7.5))
    same(qkv.pad(TIES, 1, constant_values=2**53 + 1), np.pad(TIES, 1, constant_values=2**53 + 1))
    same(qkv.pad(np.zeros((0, 2)), 1), np.pad(np.zeros((0, 2)), 1))
    same(qkv.pad(3.0, 0), np.asarray(np.float32(3.0)))
    with pytest.raises(
        TypeError, match=r"^pad: pad_width must be a number, \(before, behind\) for every axis, or a pair"
    ):
        qkv.pad(X, (1, 1, 2, 2))
    with pytest.raises(
        ValueError, match=r"^pad: pad_width must hold a pair for each of the 3 axes; got \[\.\.\., \.\.\.\]$"
    ):
        qkv.pad(X, [[1, 1], [2, 2]])
    for mode in ("constant", "edge"):
        with pytest.raises(ValueError, match=r"^pad: pad_width must hold numbers from 0"):
            qkv.pad(X, -1, mode)
    with pytest.raises(
        ValueError, match=r"^pad: mode must be 'constant', .* because these are defined; got 'zeros'$"
    ):
        qkv.pad(X, 1, "zeros")
    with pytest.raises(TypeError, match=r"^pad: constant_values must be a number; got"):
        qkv.pad(X, 1, constant_values=None)


EINSUMS = {
    "ij,jk->ik": [(2, 3), (3, 5)],
    "bqd,bkd->bqk": [(2, 3, 5), (2, 7, 5)],
    "bhqd,bhkd->bhqk": [(2, 3, 5, 7), (2, 3, 2, 7)],
    "ij,jk": [(2, 3), (3, 5)],
    "ii": [(3, 3)],
    "ij->j": [(2, 3)],
    "...i,...i->...": [(2, 3, 5), (3, 5)],
    "i,j,k->kij": [(2,), (3,), (5,)],
}


@pytest.mark.parametrize("subscripts", EINSUMS)
def test_einsum(subscripts):
    arrays = [RANDOM.standard_normal(shape) for shape in EINSUMS[subscripts]]
    expected = np.einsum(subscripts, *arrays)
    result = qkv.einsum(subscripts, *arrays)
    assert isinstance(result, np.ndarray)
    close(result, expected)
    assert isinstance(qkv.einsum(subscripts, qkv.tensor(arrays[0]), *arrays[1:]), qkv.Tensor)
    assert qkv.einsum(subscripts, *(a.astype("float16") for a in arrays)).dtype == np.float16
    check_gradient(lambda *t: qkv.einsum(subscripts, *t), *arrays)
    check_second(lambda *t: qkv.einsum(subscripts, *t), *arrays)


def test_what_einsum_refuses():
    with pytest.raises(
        TypeError, match=r"^einsum: subscripts must be a string such as 'ij,jk->ik'; got ndarray$"
    ):
        qkv.einsum(X, "ij")
    with pytest.raises(ValueError, match=r"^einsum: operands must hold an array for each term; got none$"):
        qkv.einsum("ij")
    with pytest.raises(
        ValueError, match=r"^einsum: there must be one operand per term; got 2 terms, 1 operands$"
    ):
        qkv.einsum("ij,jk", X[0])
    with pytest.raises(TypeError, match=r"^einsum: operands must hold numbers"):
        qkv.einsum("i", ["a"])


def test_one_hot():
    ids = RANDOM.integers(0, 5, (3, 7))
    expected = (ids[..., None] == np.arange(5)).astype(np.int64)
    same(qkv.one_hot(ids, 5), expected)
    same(qkv.one_hot(ids.astype(np.int32), 5), expected)
    assert qkv.one_hot(np.array([0, 2])).shape == qkv.one_hot([0, 2], -1).shape == (2, 3)
    assert isinstance(qkv.one_hot(qkv.tensor([1]), 2), qkv.Tensor)
    assert qkv.one_hot(1, 3).tolist() == [0, 1, 0]
    assert qkv.one_hot(np.zeros((2, 0), int), 3).shape == (2, 0, 3)
    with pytest.raises(
        ValueError, match=r"^one_hot: ids must be from 0 to 2 because num_classes = 3; got id 5 at position"
    ):
        qkv.one_hot([0, 5], 3)
    with pytest.raises(TypeError, match=r"^one_hot: ids must hold integers; got dtype float64$"):
        qkv.one_hot([0.5], 3)
    with pytest.raises(
        ValueError, match=r"^one_hot: num_classes must be given because there is no id to count from"
    ):
        qkv.one_hot(np.zeros(0, int))


@pytest.mark.parametrize("p", [1, 2, 3.5, np.inf])
@pytest.mark.parametrize("axis", [-1, 0, (0, 2), None])
def test_normalize(p, axis):
    size = (
        (np.abs(X) ** p).sum(axis, keepdims=True) ** (1 / p)
        if p < np.inf
        else np.abs(X).max(axis, keepdims=True)
    )
    close(qkv.normalize(X, p, axis), X / size)
    check_gradient(lambda t: qkv.normalize(t, p, axis), X)
    check_second(lambda t: qkv.normalize(t, p, axis), X)


def test_normalize_zeros():
    for p in (1, 2, np.inf):
        t = qkv.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
        y = qkv.normalize(t, p, eps=1e-3)
        assert y[0].tolist() == [0, 0]
        (first,) = qkv.grad(y[0].sum(), [t], create_graph=True)
        np.testing.assert_allclose(first[0].tolist(), [1e3, 1e3], rtol=1e-6)
        assert np.isfinite(qkv.grad(first.sum(), t).numpy()).all()
    with pytest.raises(
        ValueError, match=r"^normalize: p must be a positive number or inf because .*; got 0$"
    ):
        qkv.normalize(X, 0)
    with pytest.raises(ValueError, match=r"^normalize: eps must be a positive number because .*; got 0$"):
        qkv.normalize(X, eps=0)


def test_maximum_and_minimum():
    a, b = X, X[0].copy()
    b[0] = 0.1
    for name in ("maximum", "minimum"):
        ours, theirs = getattr(qkv, name), getattr(np, name)
        close(ours(a, b), theirs(a, b))
        close(theirs(qkv.tensor(a), b), theirs(a, b))
        check_gradient(ours, X[1], b)
        check_second(lambda t, u, f=ours: f(t, u) * t * u, X[1], b)
        assert np.isnan(ours([1.0, np.nan], [np.nan, 1.0])).all()
        t, u = (qkv.tensor([1.0], requires_grad=True) for _ in range(2))
        ours(t, u).sum().backward()
        assert t.grad.item() == u.grad.item() == 0.5
    assert qkv.minimum(qkv.tensor([2**53 + 1]), 2**60).item() == 2**53 + 1
