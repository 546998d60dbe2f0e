"""NumPy's functions that only move numbers, with views and gradients where NumPy has them, and those that only tell."""

from __future__ import annotations

import numpy as np
import pytest
from sweep import sweep

import qkv

MOVING = {
    "moveaxis": lambda a: np.moveaxis(a, 0, 2),
    "moveaxis of several": lambda a: np.moveaxis(a, [0, -1], [-1, 0]),
    "rollaxis": lambda a: np.rollaxis(a, 2),
    "rollaxis to the end": lambda a: np.rollaxis(a, 0, 3),
    "rollaxis back": lambda a: np.rollaxis(a, 2, -2),
    "flip": lambda a: np.flip(a, 1),
    "flip all": np.flip,
    "flip several": lambda a: np.flip(a, (0, -1)),
    **{f"rot90 {k}": lambda a, k=k: np.rot90(a, k, (2, 0)) for k in range(-1, 5)},
    "transpose": lambda a: np.transpose(a, axes=(1, -1, 0)),
    "ravel": np.ravel,
    "ravel in Fortran's order": lambda a: np.ravel(a, order="F"),
    "reshape": lambda a: np.reshape(a, (5, -1), order="F"),
    "reshape to one number": lambda a: np.reshape(a, -1),
    "diagonal": lambda a: np.diagonal(a, 1, 0, 2),
    "atleast_1d": np.atleast_1d,
    "atleast_3d": lambda a: np.atleast_3d(a[0]),
    "atleast_3d of a vector": lambda a: np.atleast_3d(a[0, 0]),
    "atleast_2d of a number": lambda a: np.atleast_2d(a[0, 0, :1].reshape(())),
    "hsplit": lambda a: np.hsplit(a, [1])[1],
    "dsplit": lambda a: np.dsplit(a, 5)[2],
    "array_split": lambda a: np.array_split(a, 3, 2)[1],
    "roll": lambda a: np.roll(a, 2),
    "roll one axis": lambda a: np.roll(a, -1, 1),
    "roll several": lambda a: np.roll(a, (1, 7), (0, -1)),
    "tile": lambda a: np.tile(a, (2, 1, 3)),
    "tile longer": lambda a: np.tile(a, (2, 1, 1, 2)),
    "tile shorter": lambda a: np.tile(a, 2),
    "take": lambda a: np.take(a, [[0, -1], [1, 1]], 1),
    "take of all": lambda a: np.take(a, [7, 3]),
    "take one": lambda a: np.take(a, 2, -1),
    "delete": lambda a: np.delete(a, [1, -1], 2),
    "delete of all": lambda a: np.delete(a, slice(2, 9)),
    "resize": lambda a: np.resize(a, (4, 4)),
}


@pytest.mark.parametrize("dtype", ["float64", "int64", "bool"])
@sweep("name", MOVING)
def test_what_moves_numbers_moves_them_as_numpy(name, dtype):
    numbers = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 99, (2, 3, 5)).astype(dtype)
    function = MOVING[name]
    t = qkv.tensor(numbers)
    expected, moved = function(numbers.copy()), function(t)
    np.testing.assert_array_equal(np.asarray(moved), expected, strict=True)
    if dtype == "float64":
        assert isinstance(moved, qkv.Tensor)
        qkv.testing.check_gradient(lambda x: function(x), numbers)
    own = np.copy(numbers)
    assert (
        np.shares_memory(np.asarray(moved), t.numpy()) <= np.shares_memory(function(own), own) or moved is t
    )


@pytest.mark.parametrize("name", ["any", "all", "argmax", "argmin"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_what_only_tells_gives_numpys_results(name, dtype):
    function = getattr(np, name)
    for numbers in (np.random.default_rng(0).integers(0, 3, (3, 4, 5)), np.zeros((2, 3)), np.array(2)):
        array = numbers.astype(dtype)
        t = qkv.tensor(array, requires_grad=dtype == "float32")
        for options in ({}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"keepdims": True}):
            found, expected = function(t, **options), function(array, **options)
            assert type(found) is type(expected)
            np.testing.assert_array_equal(found, expected, strict=True)
