"""Views under another shape: the strides that PyTorch gives, found by arithmetic alone."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from qkv import torch
from qkv.torch._strides import strides_under


def factors(n):
    """All shapes of up to three axes above 1 with n numbers."""
    shapes = [(n,)]
    shapes += [(a, n // a) for a in range(2, n) if n % a == 0]
    shapes += [
        (a, b, n // a // b) for a in range(2, n) for b in range(2, n) if n % (a * b) == 0 and n > a * b
    ]
    return shapes


def with_ones(shape, draw):
    sizes = list(shape)
    for _ in range(draw.randrange(3)):
        sizes.insert(draw.randrange(len(sizes) + 1), 1)
    return tuple(sizes)


def test_strides_are_those_of_a_view_in_memory():
    draw, fitting, not_fitting = random.Random(31), 0, 0
    for shape, wanted in itertools.product(factors(24), factors(24)):
        axes = draw.sample(range(len(shape)), len(shape))
        array = np.arange(24, dtype=np.int8).reshape(shape).transpose(axes)
        array = array.reshape(with_ones(array.shape, draw))  # ones never copy
        wanted = with_ones(wanted, draw)
        found = strides_under(array.shape, array.strides, wanted)
        expected = array.reshape(wanted)
        assert np.shares_memory(array, expected) is (found is not None)
        if found is None:
            not_fitting += 1
            continue
        fitting += 1
        np.testing.assert_array_equal(np.lib.stride_tricks.as_strided(array, wanted, found), expected)
    assert fitting > 100
    assert not_fitting > 100


def test_expanded_axes_and_empty_arrays():
    assert strides_under((3, 5), (0, 1), (3, 5, 1)) == (0, 1, 1)
    assert strides_under((3, 5), (0, 0), (15,)) == (0,)
    assert strides_under((3, 5), (0, 1), (15,)) is None
    assert strides_under((0, 5), (7, 1), (5, 0, 2)) == (2, 2, 1)
    assert strides_under((), (), (1, 1)) == (1, 1)


def test_no_memory_is_read_to_find_them():
    """The copy that NumPy would try is of gigabytes that nobody allocated."""
    t = torch.zeros(3000, 40000).t()
    with pytest.raises(RuntimeError, match=r"view: shape must keep axes .* Use \.reshape"):
        t.view(-1)
    assert t.view(40000, 50, 60).stride() == (1, 2400000, 40000)
