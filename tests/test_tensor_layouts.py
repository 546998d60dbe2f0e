"""Layouts of a Tensor against NumPy's, and what PyTorch and NumPy call its methods."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import close, layouts
from second_checks import check_second

import qkv
from qkv.testing import check_gradient

RANDOM = np.random.default_rng(7)
X = RANDOM.standard_normal((2, 3, 5))


def test_axes_of_size_one():
    t = qkv.tensor(X)
    for axis in (0, 1, 3, -1, -4):
        for name in ("unsqueeze", "expand_dims"):
            close(getattr(t, name)(axis), np.expand_dims(X, axis))
    close(t.unsqueeze((0, -1)), np.expand_dims(X, (0, -1)))
    y = X.reshape(1, 2, 3, 1, 5)
    for axis in (None, 0, -2, (0, 3), ()):
        close(qkv.tensor(y).squeeze(axis), np.squeeze(y, axis))
    assert qkv.tensor([[[2.0]]]).squeeze().shape == ()
    check_gradient(lambda u: u.unsqueeze(1), X)
    check_second(lambda u: (u * u).squeeze() * u.squeeze((0, 3)), y)
    with pytest.raises(
        ValueError, match=r"^squeeze: axis must name axes of size 1; got axis 1 of a Tensor \(2, 3, 5\)$"
    ):
        t.squeeze(1)
    with pytest.raises(
        ValueError, match=r"^unsqueeze: axis must be from -4 to 3 because the result has 4 axes; got 4$"
    ):
        t.unsqueeze(4)
    with pytest.raises(ValueError, match=r"^expand_dims: axis must name each axis once; got \(1, 1\)$"):
        t.expand_dims((1, 1))


def test_flatten():
    t = qkv.tensor(X)
    close(t.flatten(), X.flatten())
    close(t.flatten(1), X.reshape(2, 15))
    close(t.flatten(0, 1), X.reshape(6, 5))
    close(t.flatten(start_axis=-2, end_axis=-1), X.reshape(2, 15))
    close(t.ravel(), X.ravel())
    assert qkv.tensor(3.0).flatten().shape == (1,)
    own = t.flatten()
    own[0] = 99.0
    assert t.numpy()[0, 0, 0] == X[0, 0, 0]
    check_gradient(lambda u: u.flatten(1), X)
    check_second(lambda u: (u * u).flatten(), X)
    with pytest.raises(
        ValueError, match=r"^flatten: start_axis must not stand behind end_axis; got start_axis = 2, e"
    ):
        t.flatten(2, 0)


def test_broadcast_to():
    t = qkv.tensor(X[:, :1])
    close(t.broadcast_to(2, 3, 5), np.broadcast_to(X[:, :1], (2, 3, 5)))
    close(t.broadcast_to((7, 2, 3, 5)), np.broadcast_to(X[:, :1], (7, 2, 3, 5)))
    close(t.broadcast_to(-1, 4, -1), np.broadcast_to(X[:, :1], (2, 4, 5)))
    check_gradient(lambda u: u.broadcast_to(7, 2, 3, 5), X[:, :1].copy())
    check_second(lambda u: (u * u).broadcast_to(2, 3, 5), X[:, :1].copy())
    same = t.broadcast_to(t.shape)
    same[0] = 1.0
    same += 1.0
    expected = X[:, :1] + 1
    expected[0] = 2
    close(t, expected)
    with pytest.raises(RuntimeError, match=r"^Tensor: a Tensor some of whose numbers are one in memory"):
        t.broadcast_to(2, 3, 5)[:] = 0
    for shape in ((2, 3), (2, 3, 7), (-2, 3, 5), (-1, 2, 3, 5)):
        with pytest.raises(
            ValueError, match=r"^broadcast_to: shape must (be one that|hold sizes, or -1 for)"
        ):
            t.broadcast_to(shape)


def test_repeat():
    t = qkv.tensor(X)
    for repeats, axis in (
        (2, None),
        (3, 0),
        (2, -1),
        (0, 1),
        (1, 1),
        ([1, 0, 4], 1),
        (np.array([2, 3]), 0),
        ([2], 2),
    ):
        close(t.repeat(repeats, axis=axis), np.repeat(X, repeats, axis))
        close(np.repeat(t, repeats, axis), np.repeat(X, repeats, axis))
    check_gradient(lambda u: u.repeat(3, axis=1), X)
    check_gradient(lambda u: u.repeat([1, 0, 4], axis=1), X)
    check_second(lambda u: (u * u).repeat(2), X)
    own = t.repeat(1, axis=0)
    own[0] = 0.0
    close(t, X)
    with pytest.raises(
        TypeError, match=r"^repeat: axis must be given by name because PyTorch's repeat\(2, 1\) means"
    ):
        t.repeat(2, 1)
    with pytest.raises(
        ValueError, match=r"^repeat: repeats must be one number, or 3 because axis 1 has so many places"
    ):
        t.repeat([1, 2], axis=1)
    for negative in (-1, [1, -1, 1]):
        with pytest.raises(ValueError, match=r"^repeat: repeats must be at least 0"):
            t.repeat(negative, axis=1)


def test_copy():
    t = qkv.tensor(X, requires_grad=True)
    y = t.copy()
    assert y.requires_grad
    assert not np.shares_memory(y.numpy(), t.numpy())
    check_second(lambda u: u.copy() * u, X)
    leaf = qkv.tensor([1.0])
    other = leaf.copy()
    other += 1
    assert (leaf.item(), other.item()) == (1, 2)
    whole = qkv.tensor([2**53 + 1])
    assert whole.copy().item() == 2**53 + 1


def test_arrays_of_any_layout():
    for x in layouts(X):
        close(qkv.tensor(x).min(1), X.min(1))
        close(qkv.cumsum(x, 1), np.cumsum(X, 1))


# --- other names

HABITS = {
    "clone": r"t\.copy\(\)",
    "view": r"t\.reshape\(shape\)",
    "permute": r"t\.transpose\(axes\)",
    "masked_fill": r"qkv\.where\(mask, value, t\)",
    "numel": r"t\.size",
    "float": r't\.astype\("float32"\)',
    "amax": r"t\.max\(axis\)",
    "dim": r"t\.ndim",
}


@pytest.mark.parametrize("name", HABITS)
def test_other_names_say_which_is_ours(name):
    t = qkv.tensor(X)
    with pytest.raises(
        AttributeError, match=rf"^'Tensor' object has no attribute '{name}'; write {HABITS[name]}$"
    ):
        getattr(t, name)
    assert not hasattr(t, name)
    assert name not in dir(t)


def test_what_other_names_say_works():
    from qkv._words.idioms import METHODS

    scope = {"qkv": qkv, "np": np}
    for name, text in METHODS.items():
        names = {
            "t": qkv.tensor([[1.0, 2.0], [3.0, 4.0]]),
            "u": qkv.tensor([[1.0, 2.0], [3.0, 4.0]]),
            "axis": 0,
            "axes": (1, 0),
            "shape": (2, 2),
            "size": (2,),
            "dtype": "float64",
            "value": 1.0,
            "mask": np.array([[True, False], [True, True]]),
            "condition": np.array([True, False]),
            "indices": np.array([[0, 1]]) if name == "gather" else np.array([0, 1]),
            "index": 0,
            "low": 0.0,
            "high": 1.0,
            "n": 2,
            "k": 1,
            "times": 2,
            "shift": 1,
            "source": 0,
            "destination": 1,
            "start": 0,
            "stop": 1,
            "places": [1],
            "data": [1.0],
            "output": None,
        }
        if "output" in text:
            names["t"].requires_grad = True
            names["output"] = (names["t"] * 2).sum()
        if name.startswith("logical"):
            names |= {"t": names["t"] > 1, "u": names["u"] > 2}
        for part in text.split(", or "):
            code = part.removeprefix("t itself, ") if not part.startswith("t itself") else "t"
            exec(compile(code, name, "exec"), scope | {"list": list}, names)
    taken = {n for n in dir(qkv.tensor(1.0)) if not n.startswith("_")}
    assert not taken & set(METHODS)
