"""Comparisons and inputs that the tests of operations share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tolerances import TOLERANCES

import qkv


def close(actual: Any, expected: Any, tolerance: str = "float64") -> None:
    """Compare shapes and numbers; NaN equals NaN."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"{actual.shape} instead of {expected.shape}"
    np.testing.assert_allclose(actual, expected, *TOLERANCES[tolerance])


def layouts(x: np.ndarray) -> Iterator[np.ndarray]:
    """Return the same numbers read-only, in Fortran order, with negative, odd and zero strides."""
    readonly = x.copy()
    readonly.flags.writeable = False
    yield readonly
    yield np.asfortranarray(x)
    yield x[::-1].copy()[::-1]
    yield np.repeat(x, 2, axis=-1)[..., ::2]
    if x.ndim > 1 and (x == x[:1]).all():
        yield np.broadcast_to(x[0], x.shape)


def same_bits_for_any_threads(f: Callable[[], Any]) -> None:
    """Run f, which returns arrays, with one thread and with two."""
    before = qkv.get_num_threads()
    try:
        qkv.set_num_threads(1)
        one = [np.array(a) for a in f()]
        qkv.set_num_threads(2)
        two = [np.array(a) for a in f()]
    finally:
        qkv.set_num_threads(before)
    for a, b in zip(one, two, strict=True):
        assert a.tobytes() == b.tobytes()


def gradients(f: Callable[..., Any], *inputs: np.ndarray, seed: int = 99) -> list[np.ndarray]:
    """Return the output of f and the gradients of sum(G * output), G random, in the inputs' dtype."""
    tensors = [qkv.tensor(x, requires_grad=True) for x in inputs]
    y = f(*tensors)
    y.backward(np.random.default_rng(seed).standard_normal(y.shape).astype(y.dtype))
    return [y.numpy(), *(t.grad.numpy() for t in tensors)]
