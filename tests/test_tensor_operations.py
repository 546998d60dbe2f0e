"""Operators, elementwise functions, reductions and layouts against NumPy, and their gradients."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
from helpers import close
from sweep import sweep

import qkv
from qkv.testing import check_gradient

RANDOM = np.random.default_rng(5)
X = RANDOM.standard_normal((2, 3, 5))
POSITIVE = RANDOM.random((2, 3, 5)) + 0.5

OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
}
COMPARISONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
SHAPES = [
    ((2, 3, 5), (2, 3, 5)),
    ((2, 3, 5), (5,)),
    ((3, 1), (2, 1, 5)),
    ((), (2, 3)),
    ((2, 1, 5), (1, 3, 1)),
    ((1,), (7,)),
]


@pytest.mark.parametrize("name", OPERATORS)
@sweep("first, second", SHAPES)
def test_operators_broadcast(name, first, second):
    f = OPERATORS[name]
    a, b = RANDOM.random(first) + 0.5, RANDOM.random(second) + 0.5
    expected = f(a, b)
    for x, y in ((qkv.tensor(a), qkv.tensor(b)), (qkv.tensor(a), b), (a, qkv.tensor(b))):
        result = f(x, y)
        assert isinstance(result, qkv.Tensor)
        close(result, expected)
    check_gradient(f, a, b)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("scalar", [3, 2.5, np.float32(2.5), np.int64(3)])
def test_operators_with_scalars_on_both_sides(name, scalar):
    f = OPERATORS[name]
    x = qkv.tensor(POSITIVE)
    close(f(x, scalar), f(POSITIVE, scalar))
    close(f(scalar, x), f(scalar, POSITIVE))
    check_gradient(lambda t: f(t, scalar), POSITIVE)
    check_gradient(lambda t: f(scalar, t), POSITIVE)
    assert (
        f(qkv.tensor(POSITIVE.astype("float32")), 2.5).dtype == np.float32
    )  # a number of Python keeps the width


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(name):
    f = COMPARISONS[name]
    a, b = np.round(X), np.round(X[0])
    for x, y in ((qkv.tensor(a), qkv.tensor(b)), (qkv.tensor(a), b), (a, qkv.tensor(b)), (qkv.tensor(a), 1)):
        result = f(x, y)
        assert result.dtype == np.bool_
        assert not result.requires_grad
        np.testing.assert_array_equal(result.numpy(), f(np.asarray(x), np.asarray(y)))


def test_comparison_with_something_else_is_python_s():
    x = qkv.tensor([1.0])
    assert (x == None) is False  # noqa: E711
    assert (x != "a") is True
    assert len({x, x}) == 1
    with pytest.raises(TypeError, match="not supported between"):
        x < "a"  # noqa: B015


@pytest.mark.parametrize(
    ("a", "b", "dtype"),
    [
        ("float32", "float64", "float64"),
        ("float32", "int64", "float32"),
        ("int64", "float64", "float64"),
        ("int64", "int64", "int64"),
        ("bool", "int64", "int64"),
        ("bool", "float32", "float32"),
    ],
)
def test_mixed_dtypes(a, b, dtype):
    x, y = np.array([1, 0, 1], a), np.array([1, 1, 0], b)
    for result in (qkv.tensor(x) + qkv.tensor(y), qkv.tensor(y) + x):
        assert result.dtype == np.dtype(dtype)
        assert result.tolist() == [2, 1, 1]


def test_integers_stay_exact():
    assert (qkv.tensor([2**53 + 1]) + 1).tolist() == [2**53 + 2]
    assert (qkv.tensor([2, 4]) / qkv.tensor([4, 4])).tolist() == [0.5, 1]
    assert (qkv.tensor([1, 2]) + 0.5).dtype == np.float32


def test_what_operators_refuse():
    x = qkv.tensor([1.0, 2.0, 3.0])
    with pytest.raises(
        ValueError, match=r"^add: shapes must be equal or 1 on each axis, .*; got \(3,\) and \(2,\)$"
    ):
        x + np.ones(2)
    for other in ("a", None, {}):
        with pytest.raises(TypeError, match="unsupported operand"):
            x + other
    with pytest.raises(
        ValueError, match=r"^matmul: b must be \(\.\.\., K, N\) with K = 3 to match a \(3,\); got b"
    ):
        x @ np.ones(2)


MATRICES = [
    ((2, 3), (3, 5)),
    ((3,), (3, 5)),
    ((2, 3), (3,)),
    ((3,), (3,)),
    ((7, 2, 3), (3, 5)),
    ((7, 2, 3), (7, 3, 5)),
    ((2, 1, 2, 3), (7, 3, 5)),
    ((2, 3), (7, 3, 5)),
    ((1, 1), (1, 1)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
]


@pytest.mark.parametrize(("first", "second"), MATRICES)
def test_matmul(first, second):
    a, b = RANDOM.standard_normal(first), RANDOM.standard_normal(second)
    for result in (qkv.tensor(a) @ qkv.tensor(b), qkv.tensor(a) @ b, a @ qkv.tensor(b), qkv.matmul(a, b)):
        close(result, a @ b)
    if a.size and b.size:
        check_gradient(lambda x, y: x @ y, a, b)


ELEMENTWISE = {
    "exp": (np.exp, X),
    "exp2": (np.exp2, X),
    "log": (np.log, POSITIVE),
    "sqrt": (np.sqrt, POSITIVE),
    "sin": (np.sin, X),
    "cos": (np.cos, X),
    "erf": (np.vectorize(math.erf), X),
    "abs": (np.abs, X),
    "tanh": (np.tanh, X),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), X),
    "relu": (lambda x: np.maximum(x, 0), X),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name):
    formula, x = ELEMENTWISE[name]
    f = getattr(qkv, name)
    close(f(x), formula(x))
    assert isinstance(f(x), np.ndarray)
    assert isinstance(f(qkv.tensor(x)), qkv.Tensor)
    close(f(x.astype("float32")), formula(x), "float32")
    assert f(x.astype("float32")).dtype == np.float32
    assert f(x.astype("float16")).dtype == np.float16
    assert f([1, 2]).dtype == np.float32
    assert f(0.5).shape == ()
    check_gradient(f, x)
    with pytest.raises(TypeError, match=rf"^{name}: x must hold numbers; got dtype <U1$"):
        f(["a"])


def test_signs():
    x = qkv.tensor(X)
    close(-x, -X)
    close(+x, X)
    close(abs(x), np.abs(X))
    check_gradient(lambda t: -t, X)
    t = qkv.tensor([0.0, -2.0], requires_grad=True)
    abs(t).sum().backward()
    assert t.grad.tolist() == [0, -1]


def test_clip():
    close(qkv.clip(X, -0.5, 0.5), np.clip(X, -0.5, 0.5))
    close(qkv.clip(X, low=0.1), np.maximum(X, 0.1))
    close(qkv.clip(X, high=0.1), np.minimum(X, 0.1))
    close(qkv.clip(X), X)
    check_gradient(lambda t: qkv.clip(t, -0.5, 0.5), X)
    with pytest.raises(ValueError, match=r"^clip: low must not be above high; got low = 3, high = 1$"):
        qkv.clip(X, 3, 1)


def test_where():
    condition = X[0] > 0
    close(qkv.where(condition, X, 7.0), np.where(condition, X, 7.0))
    check_gradient(lambda a, b: qkv.where(condition, a, b), X, X[0, 0])


AXES = [None, 0, 1, -1, (0, 2), (1, -1), (0, 1, 2), ()]
REDUCTIONS = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
}


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("keepdims", [False, True])
@sweep("name", REDUCTIONS)
def test_reductions(name, axis, keepdims):
    expected = REDUCTIONS[name](X, axis=axis, keepdims=keepdims)
    result = getattr(qkv.tensor(X), name)(axis=axis, keepdims=keepdims)
    close(result, expected)
    assert result.shape == expected.shape
    check_gradient(lambda t: getattr(t, name)(axis, keepdims), X)


@pytest.mark.parametrize("axis", AXES[:-1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_logsumexp(axis, keepdims):
    expected = np.log(np.sum(np.exp(X), axis=axis, keepdims=keepdims))
    close(qkv.logsumexp(X, axis, keepdims), expected)
    close(qkv.logsumexp(X + 1e4, axis, keepdims), expected + 1e4)
    check_gradient(lambda t: qkv.logsumexp(t, axis, keepdims), X)


def test_reductions_of_nothing():
    empty = qkv.tensor(np.zeros((0, 3)))
    assert empty.sum().item() == 0
    assert empty.sum(axis=0).tolist() == [0, 0, 0]
    assert empty.sum(axis=1).shape == (0,)
    assert empty.max(axis=1).shape == (0,)
    for axis in (None, 0):
        with pytest.raises(
            ValueError, match=r"^max: x must have at least one number on the reduced axes; got x \(0"
        ):
            empty.max(axis=axis)


def test_reductions_of_integers():
    t = qkv.tensor([[1, 2], [3, 5]])
    assert (t.sum().item(), t.sum().dtype) == (11, np.int64)
    assert t.mean(axis=0).tolist() == [2, 3.5]
    assert t.max(axis=1).tolist() == [2, 5]
    assert qkv.tensor([True, True]).sum().item() == 2


def test_wrong_axes():
    t = qkv.tensor(X)
    with pytest.raises(
        ValueError, match=r"^sum: axis must be from -3 to 2 because the array has 3 axes; got 3$"
    ):
        t.sum(axis=3)
    with pytest.raises(ValueError, match=r"^mean: axis must name each axis once; got axis -3 twice$"):
        t.mean(axis=(0, -3))


@pytest.mark.parametrize("shape", [(6, 5), (-1,), (5, -1, 2), (30,), (1, 30, 1)])
def test_reshape(shape):
    t = qkv.tensor(X)
    close(t.reshape(*shape), X.reshape(shape))
    close(t.reshape(shape), X.reshape(shape))
    check_gradient(lambda x: x.reshape(*shape), X)


@pytest.mark.parametrize("axes", [(), (2, 0, 1), (0, -1, 1), (1, 0, 2)])
def test_transpose(axes):
    t = qkv.tensor(X)
    close(t.transpose(*axes), X.transpose(*axes))
    close(t.transpose(axes or None), X.transpose(axes or None))
    check_gradient(lambda x: x.transpose(*axes), X)


def test_swapaxes_and_reversal():
    t = qkv.tensor(X)
    close(t.swapaxes(0, -1), X.swapaxes(0, -1))
    close(t.T, X.T)
    check_gradient(lambda x: x.swapaxes(1, 2), X)
    check_gradient(lambda x: x.T, X)


def test_what_layouts_refuse():
    t = qkv.tensor(X)
    for shape in ((7, 5), (4, -1), (-1, -1)):
        with pytest.raises(
            ValueError, match=r"^reshape: shape must hold the 30 numbers of a Tensor \(2, 3, 5\); got"
        ):
            t.reshape(*shape)
    with pytest.raises(
        ValueError, match=r"^transpose: axes must name each of the 3 axes once; got \(0, 0, 1\)$"
    ):
        t.transpose(0, 0, 1)
    with pytest.raises(
        ValueError, match=r"^swapaxes: axis must be from -3 to 2 because the array has 3 axes; got 3$"
    ):
        t.swapaxes(0, 3)


def test_astype():
    t = qkv.tensor(X.astype("float32"), requires_grad=True)
    y = t.astype("float64")
    assert y.dtype == np.float64
    y.sum().backward()
    assert t.grad.dtype == np.float32
    assert qkv.tensor([1.7, -1.7]).astype("int64").tolist() == [1, -1]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concatenate_and_stack(axis):
    parts = [X, X + 1, X * 2]
    close(qkv.concatenate(parts, axis), np.concatenate(parts, axis))
    close(qkv.stack(tuple(parts), axis=axis), np.stack(parts, axis))
    assert isinstance(qkv.stack([qkv.tensor(X), X]), qkv.Tensor)
    check_gradient(lambda a, b: qkv.concatenate([a, b, a], axis), X, X + 1)
    check_gradient(lambda a, b: qkv.stack([a, b, a], axis), X, X + 1)


def test_what_joining_refuses():
    with pytest.raises(ValueError, match=r"^concatenate: tensors must hold at least one Tensor; got none$"):
        qkv.concatenate([])
    with pytest.raises(
        ValueError, match=r"^concatenate: tensors must agree on every axis but axis 0; got tensors"
    ):
        qkv.concatenate([np.ones((2, 3)), np.ones((2, 2))])
    with pytest.raises(ValueError, match=r"^stack: tensors must have equal shapes; got tensors\[0\] \(2,\)"):
        qkv.stack([np.ones(2), np.ones(3)])
