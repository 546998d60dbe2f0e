"""Views under another shape: the strides that PyTorch gives, found by arithmetic alone."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from qkv import torch


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
        t = torch.arange(24).reshape(shape).permute(axes)
        t = t.reshape(with_ones(t.shape, draw))  # ones never copy
        array, wanted = t.numpy(), with_ones(wanted, draw)
        expected = array.reshape(wanted)
        fits = np.shares_memory(array, expected)
        reshaped = t.reshape(wanted)
        np.testing.assert_array_equal(reshaped.numpy(), expected)
        assert np.shares_memory(reshaped.numpy(), array) is fits
        if fits:
            assert [s for s, n in zip(t.view(wanted).stride(), wanted, strict=True) if n > 1] == [
                s // 8 for s, n in zip(expected.strides, wanted, strict=True) if n > 1
            ]
        else:
            with pytest.raises(RuntimeError, match="view: shape must keep axes"):
                t.view(wanted)
        fitting, not_fitting = fitting + fits, not_fitting + (not fits)
    assert fitting > 100
    assert not_fitting > 100


def test_expanded_axes_and_empty_arrays():
    rows = torch.arange(5).expand(3, 5)
    assert rows.view(3, 5, 1).stride()[:2] == (0, 1)
    assert torch.tensor(2).expand(3, 5).view(15).stride() == (0,)
    with pytest.raises(RuntimeError, match="view: shape must keep axes"):
        rows.view(15)
    assert torch.zeros(0, 5).t().view(5, 0, 2).shape == (5, 0, 2)
    assert torch.tensor(2).view(1, 1).shape == (1, 1)


def test_no_memory_is_read_to_find_them():
    """The copy that NumPy would try is of gigabytes that nobody allocated."""
    t = torch.zeros(3000, 40000).t()
    with pytest.raises(RuntimeError, match=r"view: shape must keep axes .* Use \.reshape"):
        t.view(-1)
    assert t.view(40000, 50, 60).stride() == (1, 2400000, 40000)
