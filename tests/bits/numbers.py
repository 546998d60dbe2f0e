"""Computations: functions of numbers, reductions, normalisers, products, losses, optimizers."""

from __future__ import annotations

import numpy as np

import qkv
from qkv import _core, losses, nn, optim

from .record import BOTH, SINGLE, Hashes, draw

_FUNCTIONS = "exp exp2 sin cos tanh sigmoid silu gelu erf relu softplus elu abs leaky_relu"


def functions(h: Hashes) -> None:
    """Functions of one and two numbers."""
    h.family = "functions"
    x, positive, y = draw(37, 101), np.abs(draw(37, 101)) + 0.3, draw(37, 101)
    for name in _FUNCTIONS.split():
        h.function(name, lambda x, name=name: getattr(qkv, name)(x * 3), x)
    for name in ("log", "sqrt"):
        h.function(name, getattr(qkv, name), positive)
    h.function("gelu with tanh", lambda x: qkv.gelu(x * 2, "tanh"), x)
    h.function("expm1 and log1p", lambda x: np.expm1(x) * np.log1p(x * x), x)
    h.function("sinh, cosh and tan", lambda x: np.sinh(x) * np.cosh(x) + np.tan(x), x)
    h.function("power", lambda a, b: a**b, positive, y)
    h.function("powers of a number", lambda a: a**3 + a**0.5 + a**-1.0, positive)
    h.function("remainder", lambda a, b: a % b + a // b, x, positive)
    h.function("arithmetic", lambda a, b: (a + b) * a / b - b, x, positive)
    h.function("extremes", lambda a, b: qkv.maximum(a, b) + qkv.clip(a, -0.5, 0.5), x, y)
    large = x * 1e7
    h.function("angles that are large", lambda x: qkv.sin(x) + qkv.cos(x * 1e3), large, gradients=False)
    wide = np.ldexp(draw(60, 34), np.arange(-1020, 1020).reshape(60, 34))
    h.function(
        "angles of any size", lambda x: qkv.sin(x) + qkv.cos(x), wide, dtypes=("float64",), gradients=False
    )
    h.function(
        "powers of any size", lambda x: np.abs(x) ** y[0, 0], wide, dtypes=("float64",), gradients=False
    )
    special = np.array([0.0, -0.0, 1, -1, 2, -2.5, 0.5, 1e-310, -3, np.inf, -np.inf, np.nan])
    h.function(
        "powers of special numbers",
        lambda a: a[:, None] ** a[None, :],
        special,
        gradients=False,
    )


def reductions(h: Hashes) -> None:
    """Sums and their relatives, on both axes."""
    h.family = "reductions"
    x, positive, long = draw(37, 101), np.abs(draw(37, 101)) + 0.3, draw(5, 3001)
    for name in ["sum", "mean", "var", "std", "max", "min", "prod"]:
        for axis in (0, 1, None):
            h.function(
                f"{name} of axis {axis}",
                lambda x, name=name, axis=axis: getattr(x, name)(axis=axis),
                x,
                dtypes=BOTH if name in ("sum", "mean", "var") else SINGLE,
            )
    for axis in (0, 1):
        h.function(f"cumsum of axis {axis}", lambda x, axis=axis: qkv.cumsum(x, axis), x)
        h.function(f"cumprod of axis {axis}", lambda x, axis=axis: qkv.cumprod(x, axis), positive)
        h.function(f"lengths of axis {axis}", lambda x, axis=axis: qkv.normalize(x, axis=axis), x)
    h.function("long rows", lambda x: qkv.normalize(x), long)
    h.function("topk", lambda x: qkv.topk(x, 5)[0], x)


def softmaxes(h: Hashes) -> None:
    """The softmax and its relatives, on both axes."""
    h.family = "softmax"
    for rows, n in ((37, 101), (5, 3001), (64, 16), (64, 7)):
        x, dtypes = draw(rows, n), BOTH if n == 101 else SINGLE
        for axis in (1, 0):
            place = f"of axis {axis} of {(rows, n)}"
            h.function(
                f"softmax {place}", lambda x, axis=axis: qkv.softmax(x * 2, axis=axis), x, dtypes=dtypes
            )
            h.function(
                f"log_softmax {place}", lambda x, axis=axis: qkv.log_softmax(x, axis=axis), x, dtypes=dtypes
            )
            h.function(
                f"logsumexp {place}", lambda x, axis=axis: qkv.logsumexp(x, axis=axis), x, dtypes=dtypes
            )
            h.function(
                f"sparsemax {place}", lambda x, axis=axis: qkv.sparsemax(x, axis=axis), x, dtypes=dtypes
            )
            h.function(f"entmax {place}", lambda x, axis=axis: qkv.entmax(x, 1.5, axis), x, dtypes=dtypes)
    h.function("entmax of 1.2", lambda x: qkv.entmax(x, 1.2), draw(9, 33))
    h.function("softmax_jacobian", qkv.softmax_jacobian, draw(5, 33))
    lengths = np.array([30, 101])
    for filled in (None, -0.5):
        more = {} if filled is None else {"masked_value": filled}
        h.function(
            f"masked_softmax filled with {filled}",
            lambda x, more=more: qkv.masked_softmax(x, lengths, **more),
            draw(2, 37, 101),
        )


def normalisers(h: Hashes) -> None:
    """Layer normalisation and its relatives."""
    h.family = "norms"
    for n in (5, 64, 101, 768, 3001):
        x, weight, bias = draw(9, n), draw(n), draw(n)
        h.function(
            f"layer_norm of {n}", lambda x, w, b, n=n: _core.layer_norm(x, w, b, (n,), 1e-5), x, weight, bias
        )
        h.function(f"rms_norm of {n}", lambda x, w, n=n: _core.rms_norm(x, w, (n,), 1e-6), x, weight)
    h.function(
        "far from 1",
        lambda x, w, b: _core.layer_norm(x * 1e-20, w, b, (101,), 1e-41),
        x[:, :101],
        x[0, :101],
        x[1, :101],
    )
    h.function(
        "add_layer_norm",
        lambda x, y, w, b: _core.add_layer_norm(x, y, w, b, (101,), 1e-5),
        *(draw(37, 101), draw(37, 101), draw(101), draw(101)),
    )


_SIZES = [(2, 3, 4), (3, 5, 7), (16, 16, 16), (33, 65, 17), (64, 64, 64), (128, 384, 128), (200, 300, 400)]
_VECTORS = [
    (1, 384, 384),
    (384, 384, 1),
    (1, 5000, 64),
    (64, 5000, 1),
    (1, 1200, 1),
    (3, 700, 33),
    (5, 1100, 41),
]


def products(h: Hashes) -> None:
    """Products of matrices and vectors, operands transposed or not."""
    h.family = "products"
    for m, k, n in _SIZES + _VECTORS:
        a, b = draw(m, k), draw(k, n)
        h.function(f"matmul of {(m, k, n)}", qkv.matmul, a, b)
        h.function(
            f"matmul of {(m, k, n)} turned",
            lambda a, b: qkv.matmul(a.T, b.T),
            a.T.copy(),
            b.T.copy(),
            gradients=False,
        )
        h.function(
            f"linear of {(m, k, n)}",
            _core.linear,
            a,
            b.T.copy(),
            draw(n),
        )
    h.function("matmul of batches", qkv.matmul, draw(6, 20, 30), draw(6, 30, 10))
    h.function("einsum", lambda a, b: qkv.einsum("bij,bkj->bik", a, b), draw(3, 20, 31), draw(3, 17, 31))


def training(h: Hashes) -> None:
    """Losses and optimizers."""
    h.family = "losses"
    x, y, weight, targets = draw(37, 101), draw(37, 101), np.abs(draw(101)) + 0.3, np.arange(37) * 7 % 101
    h.function("cross_entropy", lambda x: losses.cross_entropy(x, targets), x)
    h.function(
        "cross_entropy smoothed",
        lambda x: losses.cross_entropy(x, targets, label_smoothing=0.1, weight=weight.astype("float32")),
        x,
    )
    h.function("nll_loss", lambda x: losses.nll_loss(x, targets), x)
    for name in ("mse", "l1", "huber"):
        h.function(name, getattr(losses, name), x, y)
    h.function(
        "binary_cross_entropy",
        lambda x: losses.binary_cross_entropy_with_logits(x, (y > 0) * np.float32(1)),
        x,
    )
    h.function("kl_div", lambda x, y: losses.kl_div(qkv.log_softmax(x), qkv.softmax(y)), x, y)
    h.family = "optimizers"
    for name, make in (
        ("SGD", lambda p: optim.SGD(p, 0.01, momentum=0.9, weight_decay=0.01, nesterov=True)),
        ("Adam", lambda p: optim.Adam(p, 0.01)),
        ("AdamW", lambda p: optim.AdamW(p, 0.01)),
    ):
        h.add(name, lambda make=make: _steps(make, x.astype("float32"), y.astype("float32")))


def _steps(make, x: np.ndarray, y: np.ndarray) -> list[object]:
    p = nn.Parameter(x.copy())
    optimizer = make([p])
    norms = []
    for _ in range(5):
        (p * p * p * 0.1 + p * qkv.tensor(y)).sum().backward()
        norms.append(np.float64(optim.clip_grad_norm([p], 1.0)))
        optimizer.step()
        optimizer.zero_grad()
    return [p, *norms]
