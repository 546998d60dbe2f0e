"""The calls that `sweep` compares: operations of Tensor and functions of qkv, beside NumPy's on the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from registry import agree

import qkv


@dataclass
class Call:
    name: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]


# A case: name, qkv's side of Tensors, NumPy's side of arrays. A part is what makes the operands.
Case = tuple[str, Callable[..., Any], Callable[..., Any]]


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    d = x - x.max(axis, keepdims=True)
    return d - np.log(np.exp(d).sum(axis, keepdims=True))


def _logsumexp(x: np.ndarray, axis: int | None) -> np.ndarray:
    top = x.max(axis, keepdims=True)
    return np.log(np.exp(x - top).sum(axis)) + (top.item() if axis is None else top.squeeze(axis))


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * (x * x * x))))


ELEMENTWISE: list[Case] = [
    ("-x", lambda x: -x, lambda x: -x),
    ("abs(x)", abs, abs),
    ("x ** 2", lambda x: x**2, lambda x: x**2),
    ("x * 3.0", lambda x: x * 3.0, lambda x: x * 3.0),
    ("1.0 / x", lambda x: 1.0 / x, lambda x: 1.0 / x),
    ("x > 0.5", lambda x: x > 0.5, lambda x: x > 0.5),
    ("relu", qkv.relu, lambda x: np.maximum(x, 0)),
    ("exp", qkv.exp, np.exp),
    ("sin", qkv.sin, np.sin),
    ("cos", qkv.cos, np.cos),
    ("tanh", qkv.tanh, np.tanh),
    ("sigmoid", qkv.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    ("gelu", lambda x: qkv.gelu(x, approximate="tanh"), _gelu),
    ("x % 0.7", lambda x: x % 0.7, lambda x: x % 0.7),
    ("x // 0.7", lambda x: x // 0.7, lambda x: x // 0.7),
    ("silu", qkv.silu, lambda x: x / (1 + np.exp(-x))),
    ("softplus", qkv.softplus, lambda x: np.logaddexp(0, x)),
    ("leaky_relu", qkv.leaky_relu, lambda x: np.where(x > 0, x, 0.01 * x)),
    ("elu", qkv.elu, lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0)))),
    ("cumsum", lambda x: x.cumsum(0), lambda x: x.cumsum(0)),
    ("repeat", lambda x: x.repeat(2), lambda x: x.repeat(2)),
    ("copy", lambda x: x.copy(), lambda x: x.copy()),
    ("pad", lambda x: qkv.pad(x, 3), lambda x: np.pad(x, 3)),
    ("topk", lambda x: qkv.topk(x, 1)[0], lambda x: np.sort(x)[-1:]),
    ("clip", lambda x: qkv.clip(x, -0.5, 0.5), lambda x: np.clip(x, -0.5, 0.5)),
    ("clip above 0", lambda x: qkv.clip(x, 0.0), lambda x: np.clip(x, 0.0, None)),
    ("x.astype(int)", lambda x: x.astype("int64"), lambda x: x.astype("int64")),
    ("x.astype(float)", lambda x: _other(x), lambda x: _other(x)),
    ("qkv.tensor(array)", lambda x: x.numpy().copy(), lambda x: x.copy()),
]
OF_POSITIVE: list[Case] = [
    ("log", qkv.log, np.log),
    ("sqrt", qkv.sqrt, np.sqrt),
    ("x ** 3", lambda x: x**3, lambda x: x**3),
    ("x ** 0.5", lambda x: x**0.5, lambda x: x**0.5),
    ("x ** -1.0", lambda x: x**-1.0, lambda x: x**-1.0),
    ("x ** 1.7", lambda x: x**1.7, lambda x: x**1.7),
    ("2.0 ** x", lambda x: 2.0**x, lambda x: 2.0**x),
]
OF_TWO: list[Case] = [
    ("a + b", lambda a, b: a + b, lambda a, b: a + b),
    ("a - b", lambda a, b: a - b, lambda a, b: a - b),
    ("a * b", lambda a, b: a * b, lambda a, b: a * b),
    ("a / b", lambda a, b: a / b, lambda a, b: a / b),
    ("a == b", lambda a, b: a == b, lambda a, b: a == b),
    ("a < b", lambda a, b: a < b, lambda a, b: a < b),
    ("abs(a) ** b", lambda a, b: abs(a) ** b, lambda a, b: abs(a) ** b),
    ("maximum", qkv.maximum, np.maximum),
    ("minimum", qkv.minimum, np.minimum),
    ("a % b", lambda a, b: a % b, lambda a, b: a % b),
    ("a // b", lambda a, b: a // b, lambda a, b: a // b),
    ("(a > 0) & (b > 0)", lambda a, b: (a > 0) & (b > 0), lambda a, b: (a > 0) & (b > 0)),
    ("~(a > b)", lambda a, b: ~(a > b), lambda a, b: ~(a > b)),
    ("where(a > b, a, b)", lambda a, b: qkv.where(a > b, a, b), lambda a, b: np.where(a > b, a, b)),
    ("where(a > b, a, 0)", lambda a, b: qkv.where(a > b, a, 0.0), lambda a, b: np.where(a > b, a, 0.0)),
]
BROADCAST: list[Case] = [
    ("+", lambda a, b: a + b, lambda a, b: a + b),
    ("*", lambda a, b: a * b, lambda a, b: a * b),
    ("/", lambda a, b: a / b, lambda a, b: a / b),
    ("<", lambda a, b: a < b, lambda a, b: a < b),
]
REDUCTIONS: list[tuple[str, Callable[..., Any], Callable[..., Any]]] = [
    ("sum", lambda x, axis: x.sum(axis), lambda x, axis: x.sum(axis)),
    ("mean", lambda x, axis: x.mean(axis), lambda x, axis: x.mean(axis)),
    ("max", lambda x, axis: x.max(axis), lambda x, axis: x.max(axis)),
    ("min", lambda x, axis: x.min(axis), lambda x, axis: x.min(axis)),
    ("prod", lambda x, axis: x.prod(axis), lambda x, axis: x.prod(axis)),
    ("var", lambda x, axis: x.var(axis), lambda x, axis: x.var(axis)),
    ("std", lambda x, axis: x.std(axis), lambda x, axis: x.std(axis)),
    ("any", lambda x, axis: (x > 9).any(axis), lambda x, axis: (x > 9).any(axis)),
    ("all", lambda x, axis: (x < 9).all(axis), lambda x, axis: (x < 9).all(axis)),
]
OVER_ONE_AXIS: list[tuple[str, Callable[..., Any], Callable[..., Any]]] = [
    ("argmax", lambda x, axis: x.argmax(axis), lambda x, axis: x.argmax(axis)),
    ("argmin", lambda x, axis: x.argmin(axis), lambda x, axis: x.argmin(axis)),
    ("logsumexp", qkv.logsumexp, _logsumexp),
    ("softmax", qkv.softmax, _softmax),
    ("log_softmax", qkv.log_softmax, _log_softmax),
]
LAYOUT: list[Case] = [
    ("x.T", lambda x: x.T, lambda x: x.T.copy()),
    ("x[:, 1:]", lambda x: x[:, 1:], lambda x: x[:, 1:].copy()),
    ("x[::2]", lambda x: x[::2], lambda x: x[::2].copy()),
    ("x[:, ::2]", lambda x: x[:, ::2], lambda x: x[:, ::2].copy()),
    ("x[::-1]", lambda x: x[::-1], lambda x: x[::-1].copy()),
    ("x[0]", lambda x: x[0], lambda x: x[0].copy()),
    ("x[rows]", lambda x: x[_rows(x)], lambda x: x[_rows(x)]),
    ("x.reshape(-1)", lambda x: x.reshape(-1), lambda x: x.reshape(-1)),
]
JOINS: list[Case] = [
    ("concatenate axis 0", lambda a, b: qkv.concatenate([a, b]), lambda a, b: np.concatenate([a, b])),
    ("concatenate axis 1", lambda a, b: qkv.concatenate([a, b], 1), lambda a, b: np.concatenate([a, b], 1)),
    ("stack axis 0", lambda a, b: qkv.stack([a, b]), lambda a, b: np.stack([a, b])),
    ("stack axis -1", lambda a, b: qkv.stack([a, b], -1), lambda a, b: np.stack([a, b], -1)),
]


def _other(x: Any) -> Any:
    return x.astype("float32" if x.dtype == np.float64 else "float64")


def _rows(x: Any) -> np.ndarray:
    return np.arange(x.shape[0])[::-2]


def matrices(size: int) -> list[tuple[int, ...]]:
    """Return the shapes of a matrix of about so many numbers: square, few rows, few columns."""
    side = max(1, round(size**0.5))
    shapes = [(side, max(1, size // side))]
    if size >= 100:
        shapes += [(size // 10, 10), (10, size // 10)]
    return shapes


def _cube(size: int) -> tuple[int, int, int]:
    side = max(1, round(size ** (1 / 3)))
    return side, side, max(1, size // side**2)


def _products(size: int) -> Iterator[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Return the shapes of products of which the larger operand, or the result, has so many numbers."""
    side = max(1, round(size**0.5))
    yield "vector @ vector", (size,), (size,)
    yield "vector @ matrix", (side,), (side, side)
    yield "matrix @ vector", (side, side), (side,)
    yield "row @ matrix", (1, side), (side, side)
    yield "column @ row", (side, 1), (1, side)
    yield "4 rows @ matrix", (4, side), (side, side)
    yield "matrix @ 4 columns", (side, side), (side, 4)
    yield "tall @ small", (max(1, size // 16), 16), (16, 16)
    yield "flat @ tall", (16, max(1, size // 16)), (max(1, size // 16), 16)
    if size <= 1_000_000:
        yield "matrix @ matrix", (side, side), (side, side)
    batch = max(1, size // 256)
    yield "batch of 16 x 16", (batch, 16, 16), (batch, 16, 16)
    yield "batch @ one 16 x 16", (batch, 16, 16), (16, 16)
    yield "batch of rows", (batch, 1, 16), (batch, 16, 16)
    if size >= 64 * 64:
        batch = size // (64 * 64)
        yield "batch of 64 x 64", (batch, 64, 64), (batch, 64, 64)


def _grads(output: Any, gradient: Any, *inputs: Any) -> Any:
    return qkv.grad(output, list(inputs), gradient, retain_graph=True)


def _gradients(
    size: int, numbers: Callable[..., np.ndarray]
) -> Iterator[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    """Return backward passes beside their formulas; small ones are left out, because NumPy has no tape."""

    def leaf(x: np.ndarray) -> Any:
        return qkv.tensor(x, requires_grad=True)

    side = round(size**0.5)
    x, dy, row, column = numbers(side, side), numbers(side, side), numbers(side), numbers(side, 1)
    tx, tdy, trow, tcolumn = leaf(x), qkv.tensor(dy), leaf(row), leaf(column)
    one = (("x + row", tx + trow, [trow], lambda: [dy.sum(0)]),
           ("x * row", tx * trow, [trow], lambda: [(dy * x).sum(0)]),
           ("x * column", tx * tcolumn, [tcolumn], lambda: [(dy * x).sum(1, keepdims=True)]),
           ("sin", qkv.sin(tx), [tx], lambda: [dy * np.cos(x)]),
           ("tanh", qkv.tanh(tx), [tx], lambda: [dy * (1 - np.tanh(x) ** 2)]),
           ("x.T", tx.T, [tx], lambda: [dy.T.copy()]))  # fmt: skip
    for name, y, inputs, formula in one:
        yield f"gradient of {name}", lambda y=y, i=inputs: _grads(y, tdy, *i), formula
    for axis in (0, 1):
        d = numbers(side)
        td = qkv.tensor(d)
        wide = d if axis == 0 else d[:, None]
        y = tx.sum(axis)
        yield (f"gradient of sum axis {axis}", lambda y=y, td=td: _grads(y, td, tx),
               lambda wide=wide: [np.broadcast_to(wide, x.shape).copy()])  # fmt: skip
        y = tx.max(axis)

        def shared(axis: int = axis, wide: np.ndarray = wide) -> list[np.ndarray]:
            hit = x == x.max(axis, keepdims=True)
            return [hit * (wide / hit.sum(axis, keepdims=True).astype(x.dtype))]

        yield f"gradient of max axis {axis}", lambda y=y, td=td: _grads(y, td, tx), shared
    y = trow @ tx
    yield ("gradient of vector @ matrix", lambda y=y: _grads(y, trow.detach(), tx, trow),
           lambda: [np.outer(row, row), x @ row])  # fmt: skip


def calls(size: int, dtype: np.dtype, wanted: Callable[[str], bool]) -> Iterator[Call]:
    """Return the calls on about so many numbers; the results of both sides have been compared."""
    rng = np.random.default_rng(0)

    def numbers(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(dtype)

    def call(name: str, ours: Callable[..., Any], theirs: Callable[..., Any], *arrays: np.ndarray) -> Call:
        tensors = [qkv.tensor(x) for x in arrays]
        made = Call(name, lambda: ours(*tensors), lambda: theirs(*arrays))
        got, expected = made.ours(), made.theirs()
        scale = float(np.max(np.abs(np.asarray(expected, np.float64)), initial=1.0))
        agree(got, expected, rtol=1e-3, atol=1e-4 * scale)
        return made

    for cases, makes in (
        (ELEMENTWISE, lambda: [numbers(size)]),
        (OF_POSITIVE, lambda: [np.abs(numbers(size)) + dtype.type(0.1)]),
        (OF_TWO, lambda: [numbers(size), numbers(size)]),
    ):
        arrays = makes() if any(wanted(name) for name, *_ in cases) else []
        for name, ours, theirs in cases:
            if wanted(name):
                yield call(name, ours, theirs, *arrays)
    for shape in matrices(size):
        label = " x ".join(map(str, shape))
        x = np.empty((0, 0), dtype)

        def named(text: str, label: str = label) -> str:
            return f"{text} of {label}"

        for other, axes in (("row", (1, shape[1])), ("column", (shape[0], 1))):
            for name, ours, theirs in BROADCAST:
                if wanted(full := named(f"{name} {other}")):
                    x = x if x.size else numbers(*shape)
                    yield call(full, ours, theirs, x, np.abs(numbers(*axes)) + dtype.type(1))
        for name, ours, theirs in REDUCTIONS + OVER_ONE_AXIS:
            for axis in (None, 0, 1):
                if axis is None and name.endswith("softmax"):
                    continue
                if wanted(full := named(f"{name} axis {axis}")):
                    x = x if x.size else numbers(*shape)
                    yield call(
                        full, lambda x, f=ours, a=axis: f(x, a), lambda x, f=theirs, a=axis: f(x, a), x
                    )
        for name, ours, theirs in LAYOUT:
            if wanted(full := named(name)):
                x = x if x.size else numbers(*shape)
                yield call(full, ours, theirs, x)
        for name, ours, theirs in JOINS:
            if wanted(full := named(name)):
                x = x if x.size else numbers(*shape)
                yield call(full, ours, theirs, x, x)
    cube = _cube(size)
    label = " x ".join(map(str, cube))
    for name, ours, theirs in REDUCTIONS:
        for axis in (0, 1, 2, (0, 1), (0, 2), (1, 2)):
            if wanted(full := f"{name} axis {axis} of {label}"):
                yield call(
                    full,
                    lambda x, f=ours, a=axis: f(x, a),
                    lambda x, f=theirs, a=axis: f(x, a),
                    numbers(*cube),
                )
    for name, ours, theirs in OVER_ONE_AXIS:
        if wanted(full := f"{name} axis 1 of {label}"):
            yield call(full, lambda x, f=ours: f(x, 1), lambda x, f=theirs: f(x, 1), numbers(*cube))
    for order in ((0, 2, 1), (2, 0, 1), (1, 0, 2), (2, 1, 0)):
        if wanted(full := f"transpose{order} of {label}"):
            yield call(
                full,
                lambda x, o=order: x.transpose(*o),
                lambda x, o=order: x.transpose(*o).copy(),
                numbers(*cube),
            )
    for name, a, b in _products(size):
        if wanted(name):
            yield call(name, lambda p, q: p @ q, lambda p, q: p @ q, numbers(*a), numbers(*b))
    if size >= 100_000:
        for name, ours, theirs in _gradients(size, numbers):
            if wanted(name):
                for got, expected in zip(ours(), theirs(), strict=True):
                    agree(got, expected, rtol=1e-3, atol=1e-3 * float(np.abs(expected).max()))
                yield Call(name, ours, theirs)
