"""Sorting, gathering and scattering against PyTorch: any shape, axis and dtype, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest

import qkv.torch

torch = pytest.importorskip("torch")


def numbers(rng, shape, kind):
    a = rng.normal(size=shape).round(1)
    if kind in "fd" and rng.random() < 0.3:
        a.reshape(-1)[rng.integers(a.size)] = np.nan
    return (a > 0) if kind == "?" else (a * (10 if kind == "q" else 1)).astype(kind)


def cases(count):
    for seed in range(count):
        rng = np.random.default_rng(seed)
        shape = tuple(rng.integers(1, 6, size=rng.integers(1, 4)))
        kind = "fdq?"[seed % 4]
        axis = int(rng.integers(-len(shape), len(shape)))
        a = numbers(rng, shape, kind)
        layout = rng.integers(3)  # packed, transposed, every second
        if layout == 1:
            a = np.ascontiguousarray(a.T).T
        elif layout == 2:
            a = np.repeat(a, 2, axis=-1)[..., ::2]
        yield rng, a, axis


def both(f, *given):
    """Call with both libraries and their Tensors; other arguments go as they are."""
    mine, theirs = (
        f(m, *(m.as_tensor(a) if isinstance(a, np.ndarray) else a for a in given)) for m in (qkv.torch, torch)
    )
    for a, b in zip(
        mine if isinstance(mine, tuple) else (mine,),
        theirs if isinstance(theirs, tuple) else (theirs,),
        strict=True,
    ):
        assert str(a.dtype) == str(b.dtype)
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


def test_orders():
    for _, a, axis in cases(200):
        for descending in (False, True):
            both(
                lambda m, x, d, down: tuple(m.sort(x, dim=d, descending=down, stable=True)),
                a,
                axis,
                descending,
            )
        if a.dtype == bool:
            continue
        both(lambda m, x, d: m.topk(x, x.shape[d] // 2 + 1, d)[0], a, axis)
        both(lambda m, x, d: m.cumsum(x, d), a, axis)


def test_long_rows():
    rng = np.random.default_rng(0)
    for a in (
        rng.normal(size=(2, 5000)).astype("f4").round(2),
        rng.normal(size=(3, 700)) * 1e300,
        rng.integers(-(10**15), 10**15, size=(2, 3000)),
        rng.integers(-3, 3, size=(2, 3000)),
        np.array([[0.0, -0.0] * 100, [np.inf, -np.inf, np.nan, -np.nan] * 50]),
    ):
        for descending in (False, True):
            both(lambda m, x, down: tuple(m.sort(x, descending=down, stable=True)), a, descending)
        both(lambda m, x: m.sort(x, dim=0)[0], a)
        both(lambda m, x: m.topk(x, 150, largest=False)[0], a)


def indices(rng, shape, axis):
    """An index that is smaller than the Tensor along the other axes, and the numbers of entries of the axis."""
    sizes = [int(rng.integers(1, n + 1)) for n in shape]
    sizes[axis] = int(rng.integers(0, 7))
    return rng.integers(0, shape[axis], size=sizes), rng.integers(0, shape[axis], size=rng.integers(1, 5))


def test_places():
    for rng, a, axis in cases(300):
        index, entries = indices(rng, a.shape, axis)
        many = list(a.shape)
        many[axis] = len(entries)
        values, rows = (numbers(rng, shape, "q").astype(a.dtype) for shape in (index.shape, many))
        both(lambda m, x, i, d: m.gather(x, d, i), a, index, axis)
        both(lambda m, x, i, d: m.index_select(x, d, i), a, entries, axis)
        both(lambda m, x, i, v, d: m.scatter_add(x, d, i, v), a, index, values, axis)
        both(lambda m, x, i, v, d: m.index_add(x, d, i, v), a, entries, rows, axis)
        both(lambda m, x, i, d: m.index_fill(x, d, i, 1), a, entries, axis)
        both(lambda m, x, i, d: m.scatter(x, d, i, 1), a, index, axis)


def test_blocks_of_columns():
    rng = np.random.default_rng(0)
    a, index = rng.normal(size=(2, 300, 150)), rng.integers(0, 300, size=(2, 200, 150))
    both(lambda m, x, i: m.gather(x, 1, i), a, index)
    both(lambda m, x, i: m.scatter_add(x, 1, i, x), a, index)
    both(lambda m, x, i: m.index_add(x, 1, i, x), a, index[0, :, 0].repeat(2)[:300])


FUNCTIONS = {
    "sort": lambda m, x, i, axis: m.sort(x, dim=axis, stable=True)[0],
    "gather": lambda m, x, i, axis: m.gather(x * 2, axis, i),
    "scatter_add": lambda m, x, i, axis: m.scatter_add(
        x * 2, axis, i, m.ones(tuple(i.shape), dtype=x.dtype) * x.sum()
    ),
    "scatter": lambda m, x, i, axis: m.scatter(x * 2, 0, i[:1] * 0, x[:1] * x[:1]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_gradients(name):
    for rng, a, axis in cases(60):
        if a.dtype != np.float64:
            continue
        a = np.where(rng.random(a.shape) < 0.2, 0.0, np.nan_to_num(a))
        axis %= a.ndim
        index, weights = rng.integers(0, a.shape[axis], size=a.shape), rng.normal(size=a.shape)
        found = []
        for m in (qkv.torch, torch):
            x = m.tensor(a, requires_grad=True)
            y = FUNCTIONS[name](m, x, m.tensor(index), axis)
            (first,) = m.autograd.grad((y * m.tensor(weights)).sum(), x, create_graph=True)
            (second,) = m.autograd.grad((first * first).sum() + (x * 0).sum(), x)
            found.append((first.detach().numpy(), second.numpy()))
        for mine, theirs in zip(*found, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-9)


def test_refused():
    t = qkv.torch.zeros(2, 3)
    index = qkv.torch.tensor([[0, 3, 0]])
    for call, error, text in (
        (lambda: t.gather(1, index), IndexError, "gather: index must be from 0 to 2; got 3"),
        (lambda: t.gather(1, -index), IndexError, "gather: index must be from 0 to 2; got -3"),
        (lambda: t.scatter_add(1, index, t), IndexError, "scatter_add: index must be from 0 to 2; got 3"),
        (lambda: t.gather(1, index[0]), RuntimeError, "gather: index must have as many axes as the Tensor"),
        (
            lambda: t.gather(1, index.expand(3, 3)),
            RuntimeError,
            r"gather: index must not be larger than the Tensor \(2, 3\) but along axis 1; got \(3, 3\)",
        ),
        (
            lambda: t.index_add(0, index[0, :1], t[0, :2]),
            RuntimeError,
            "index_add: source must have the shape",
        ),
        (
            lambda: t.scatter_add(1, index * 0, t[0, 0]),
            RuntimeError,
            "scatter_add: src must have as many axes as index",
        ),
        (lambda: t.index_select(1, index), IndexError, "index_select: index must have one axis; got shape"),
        (lambda: t[:, :0].index_select(1, index[0]), IndexError, "must be from 0 to -1; got 0"),
        (
            lambda: t.gather(1, index > 0),
            RuntimeError,
            "gather: index must hold whole numbers; got dtype torch.bool",
        ),
    ):
        with pytest.raises(error, match=text):
            call()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.repeat(2, 1),
        lambda x: x.repeat(1, 1),
        lambda x: x.roll(1),
    ],
)
def test_a_view_of_a_result_follows_it_once_it_requires_a_gradient(f):
    result = f(qkv.torch.arange(12.0).reshape(3, 4))
    view = result[None]
    result.requires_grad_()
    assert not view.is_leaf
    assert view.requires_grad


def test_the_last_axis_of_a_tensor_without_axes():
    t, first = qkv.torch.tensor(3.0), qkv.torch.tensor([0])
    assert t.index_fill(-1, first, 0.5).item() == 0.5
    assert t.index_add(-1, first, qkv.torch.tensor([2.0])).item() == 5
    assert t.index_select(-1, first).item() == t.gather(-1, first).item() == 3
