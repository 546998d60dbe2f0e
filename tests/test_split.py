"""qkv.split and NumPy's ways to cut: NumPy's pieces, as views with gradients."""

from __future__ import annotations

import numpy as np
import pytest

import qkv

X = np.arange(105.0).reshape(5, 3, 7)
WAYS = [
    *((5, 0), (1, 1), (7, -1), ([2, 3], 0), ([], 1), ([3, 1], 2), ([-2, 9], 2)),
    *(((0, 5), -3), (np.array([1, 4]), 2), (np.int64(3), 1)),
]


@pytest.mark.parametrize(("sections", "axis"), WAYS)
def test_it_is_numpys(sections, axis):
    for expected, pieces in (
        (np.split(X, sections, axis), qkv.split(X, sections, axis)),
        (np.split(X, sections, axis), qkv.split(qkv.tensor(X), sections, axis)),
        (np.split(X, sections, axis), np.split(qkv.tensor(X), sections, axis)),
        (np.split(X > 5, sections, axis), qkv.split(qkv.tensor(X > 5), sections, axis)),
    ):
        assert isinstance(pieces, list)
        assert len(pieces) == len(expected)
        for piece, array in zip(pieces, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(piece), array, strict=True)


def test_pieces_are_views_with_gradients():
    for source in (X.copy(), qkv.tensor(X)):
        piece = qkv.split(source, [2], axis=2)[1]
        piece[0, 0, 0] = -9
        assert np.asarray(source)[0, 0, 2] == -9
    t = qkv.tensor(X, requires_grad=True)
    first, second = qkv.split(t, [2])
    (first.sum() * 2 + (second * second).sum()).backward()
    np.testing.assert_array_equal(t.grad, np.concatenate([np.full((2, 3, 7), 2.0), 2 * X[2:]]))


def test_what_does_not_fit():
    t = qkv.tensor(X)
    for cut in (qkv.split, np.split):
        with pytest.raises(ValueError, match=r"split: the sections must be equal .*; got 2 sections of 5"):
            cut(t, 2)
        with pytest.raises(ValueError, match="split: the number of sections must be at least 1; got 0"):
            cut(t, 0)
        with pytest.raises(ValueError, match="axis must be from -3 to 2 because the array has 3 axes; got 3"):
            cut(t, 1, 3)
        with pytest.raises(TypeError):
            cut(t, [1.5])
    assert [len(piece) for piece in np.array_split(t, 2)] == [3, 2]
