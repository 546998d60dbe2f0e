"""Every operation that records a gradient, with inputs to try it at: rows of the table of operations, and others.

An entry is a function of Tensors and the arrays that it is tried at. It is in the table of the promise that is made
for it: the gradients of elementwise operations, layouts, reductions and products have the same bits recorded and not;
a fused operation's are equal up to rounding, as its recorded form is composed of others.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
from second_checks import normal

import qkv
from qkv import _core, losses, torch
from qkv._operations import OPERATIONS, Operation

A, B, POSITIVE = normal(3, 5), normal(3, 5), np.abs(normal(3, 5)) + 0.5
LENS = np.array([3, 7])
PARTS = np.array([0, 2, 2, 1])
PLACES = np.array([[0, 2, 2, 1], [1, 1, 1, 0], [2, 0, 1, 1]])


def changed(t, change):
    """Change a computed Tensor in place."""
    change(t)
    return t


def in_place(t, b):
    t += b
    t -= b * b
    t *= b
    t /= b
    t **= 2
    t //= 0.7
    t %= b
    t += b * b


SAMPLES = {"any": (A, B[0]), "positive": (POSITIVE, POSITIVE[1] + 0.25), "small": (POSITIVE / 3, B[0])}
OVER_AXES = "x, axis=None, keepdims=False"
ROWS = {
    name: row
    for name, row in OPERATIONS.items()
    if row.gradient and row.parameters in ("x", "a, b", OVER_AXES, "tensors, axis=0")
}


def of_row(row: Operation) -> tuple[Any, ...]:
    """The entry of a row: what is computed meets an operand once more, which a second derivative sees."""
    f = getattr(qkv, row.name, row.compute)
    first, second = (SAMPLES[row.samples[i % len(row.samples)]][i] for i in (0, 1))
    if row.parameters == "x":
        return lambda a: f(a) * a, first
    if row.parameters == OVER_AXES:
        return lambda a: f(a * a, 1, True) * a, first
    if row.parameters == "a, b":
        f = getattr(operator, f"__{row.operator}__") if row.operator else f
        return lambda a, b: f(a, b) * a, first, second
    return lambda a, b: f([a * b, a * a], 1) ** 2, first, second


def names_of(row: Operation) -> set[str]:
    """How the entry of a row calls it."""
    return {row.name, row.core or row.name}


ELEMENTWISE = {
    "subtract": (lambda a, b: (a - b) * b, A[:, :1], B),
    "power": (lambda a, b: a**b, POSITIVE, B),
    "power of a number": (lambda a: a**3, A),
    "square": (lambda a: a**2, A),
    "cube at 0": (lambda a: a**3.0, np.array([0.0, 1.0, -2.0])),
    "negate and abs": (lambda a: abs(-a) * a, A),
    "steps": (
        lambda a: torch.round(a) * a,
        A * 3,
    ),
    "gelu by tanh": (lambda a: qkv.gelu(a, "tanh"), A),
    "clip": (lambda a: qkv.clip(a, -0.5, 0.5) * a, A),
    "where": (lambda a, b: qkv.where(A > 0, a * b, b * b), A, B),
    "cast": (lambda a: (a * a).astype("float64") * a, A),
    "numpy operands": (lambda a: B * a * a / POSITIVE, A),
    "reflected": (lambda a: (1 - a) * (2 + a) * (3 * a) / (2 / a) + 2**a + A % (a * a), POSITIVE),
    "of the quotient": (lambda a: (a // 0.7) * a + divmod(a, 0.7)[1] + divmod(1.3, a)[1], POSITIVE),
    "leaky_relu": (lambda a: qkv.leaky_relu(a, 0.1) * a, A),
    "elu": (lambda a: qkv.elu(a, 1.3), A),
    "softplus": (lambda a: qkv.softplus(a, 0.7), A),
    "kept": (lambda a: (+a).copy() * a, A),
    "clipped below": (lambda a: qkv.clip(a, -0.5) * a, A),
    "reciprocal": (lambda a: 1 / a, POSITIVE),
    "remainder of a number": (lambda a: a % 0.7, A),
    "maximum of a number": (lambda a: qkv.maximum(a, 0.5), A),
    "log of log": (lambda a: qkv.log(qkv.log(a)), POSITIVE + 1),
    "exp of exp": (lambda a: qkv.exp(qkv.exp(a)), A),
    "power of itself": (lambda a: a**a, POSITIVE),
    "root by a power": (lambda a: a**0.5 + a**-0.5, POSITIVE),
}
LAYOUT = {
    "reshape": (lambda a: a.reshape(5, 3) * (a * a).reshape(5, 3), A),
    "transpose": (lambda a: (a.T @ a).T, A),
    "slices": (lambda a: a[::2, ::-1] * a[1:, :1], A),
    "index": (lambda a: (a * a)[PARTS % 3] * a[0], A),
    "sum": (lambda a: (a * a).sum(axis=0) * a.sum(axis=1, keepdims=True), A),
    "mean": (lambda a: (a * a).mean(axis=(0, 1)) * a, A),
    "max of all": (lambda a: (a * a).max() * a, A),
    "logsumexp": (lambda a: qkv.logsumexp(a, axis=0), A),
    "logsumexp of all": (lambda a: qkv.logsumexp(a * a), A),
    "matmul": (lambda a, b: a @ b.T, A, B),
    "matmul of vectors": (lambda a, b: (a @ b) * a, A[0], B[0]),
    "matmul of batches": (lambda a, b: a @ b, normal(2, 1, 3, 5), normal(7, 5, 2)),
    "matmul with one matrix": (lambda a, b: a @ b, normal(2, 3, 5), normal(5, 2)),
    "matmul by name": (lambda a, b: qkv.matmul(a, b), A, B.T.copy()),
    "matmul with an array": (lambda a: (B.T @ a) @ (a.T @ B) @ B.T, A),
    "einsum": (lambda a, b: qkv.einsum("ij,kj->ik", a, b), A, B),
    "einsum of three": (lambda a, b: qkv.einsum("ij,kj,k->i", a, b, a[:, 0]), A, B),
    "axes": (lambda a: a.expand_dims(0).unsqueeze(2).squeeze(0).flatten() * (a * a).ravel(), A),
    "broadcast_to": (lambda a: a.broadcast_to(2, 3, 5) * (a * a).swapaxes(0, 1).transpose(1, 0), A),
    "repeat": (lambda a: (a * a).repeat(2, axis=1) * a.repeat(2, axis=1), A),
    "pad": (lambda a: qkv.pad(a * a, 1) ** 2, A),
    "triangles": (lambda a: np.tril(a * a) + np.triu(a * a * a, 1), A),
    "cumsum": (lambda a: (a * a).cumsum(1) * qkv.cumsum(a, 0), A),
    "cumprod": (lambda a: qkv.cumprod(a * a, 1) * qkv.cumprod(a, 0), A),
    "cumprod of zeros": (lambda a, b: qkv.cumprod(a * (np.abs(A) > 0.5), 1) * b, A, B),
    "gather": (
        lambda a: torch.gather(a * a, 1, PARTS[:3].reshape(3, 1)) * torch.gather(a, 0, PARTS[None]),
        A,
    ),
    "scatter": (
        lambda a, b: (
            torch.scatter(a * a, 1, PLACES, b[:, :4] * b[:, :4]) * torch.scatter(a, 0, PLACES, b[:, :4])
        ),
        A,
        B,
    ),
    "scatter add": (
        lambda a, b: (
            torch.scatter_add(a * a, 1, PLACES, b[:, :4] * b[:, :4])
            * torch.scatter_add(a, 0, PLACES, b[:, :4])
        ),
        A,
        B,
    ),
    "entries of an axis": (
        lambda a, b: torch.index_add(a * a, 0, PARTS, torch.index_select(b * b, 0, PARTS)),
        A,
        B,
    ),
    "running sum": (lambda a: qkv.cumsum(a, 0), A),
    "less their logsumexp": (lambda a: a - qkv.logsumexp(a[1:6]), A),
    "var": (lambda a: (a * a).var(axis=1, keepdims=True) * a, A),
    "std": (lambda a: (a * a).std(axis=1, keepdims=True, ddof=1) * a, A),
    "sort": (lambda a: qkv.sort(a * a, axis=1) * a, A),
    "topk": (lambda a: qkv.topk(a * a, 3, 1)[0] * a[:, :3], A),
    "take_along_axis": (lambda a: qkv.take_along_axis(a * a, np.argsort(A, 1), 1) * a, A),
    "unfold": (lambda a: _core.unfold(a * a, 1, 3, 2) * _core.unfold(a, 1, 3, 2), A),
    "diagonal": (lambda a: np.diagonal(a) * np.diagonal(a * a), A),
    "split": (lambda a: np.split(a * a, [2], 1)[0] * a[:, :2], A),
    "iteration": (lambda a: sum(row * row for row in a), A),
    "set item": (lambda a, b: changed(a * a, lambda t: t.__setitem__((0, slice(1, 3)), b * b)), A, B[0, :2]),
    "copy_": (lambda a, b: changed(a * a, lambda t: t[1].copy_(b * b)), A, B[0]),
    "+= and its kin": (lambda a, b: changed(a * a, lambda t: in_place(t, b)), A, POSITIVE),
}


FUSED = {
    "softmax": (lambda x: qkv.softmax(x, axis=0, temperature=1.7), A),
    "log_softmax": (lambda x: qkv.log_softmax(x, temperature=1.7), A),
    "sparsemax": (lambda x: qkv.sparsemax(2 * x, axis=0), A),
    "entmax": (lambda x: qkv.entmax(x), A),
    "entmax of 1.2": (lambda x: qkv.entmax(x, 1.2, 0), A),
    "softmax_jacobian": (lambda x: qkv.softmax_jacobian(x), A),
    "normalize": (lambda x: qkv.normalize(x), A),
    "vector_norm": (lambda x: np.linalg.norm(x * x, axis=1), A),
    "norm of another order": (lambda x: np.linalg.norm(x * x, 3, axis=1), A),
    "distances of an order": (
        lambda x, y: _core.scaled_distances(x, y, 1.0, None, 3.0),
        normal(2, 3, 5),
        normal(2, 7, 5),
    ),
    "layer norm": (lambda x, w, b: _core.layer_norm(x, w, b, (5,), 1e-5), A, POSITIVE[0], B[0]),
    "layer norm of a sum": (
        lambda x, y, w, b: _core.add_layer_norm(x, y, w, b, (5,), 1e-5),
        A,
        B,
        POSITIVE[0],
        B[0],
    ),
    "rms norm": (lambda x, w: _core.rms_norm(x, w, (5,), 1e-6), A, POSITIVE[0]),
    "linear": (lambda x, w, b: _core.linear(x, w, b), A, normal(2, 5), normal(2)),
    "embedding": (lambda w: _core.embedding(w, np.array([[0, 2], [2, 2]]), None) ** 2, A),
    "dropout": (lambda x: _core.dropout_with_mask(x * x, A > 0, 0.5), A),
    "lstm step": (lambda x, y, c: _core.lstm_step(x, y, c), normal(3, 8), normal(3, 8), normal(3, 2)),
    "gru": (
        lambda x, h, u, v, b, c: _core.gru_layer(x, h, h.shape[-1], u, v, b, c),
        normal(2, 3, 5),
        normal(2, 4),
        normal(12, 5),
        normal(12, 4),
        normal(12),
        normal(12),
    ),
    "attention": (
        lambda q, k, v: qkv.scaled_dot_product_attention(q, k, v, valid_lens=LENS),
        normal(2, 3, 5),
        normal(2, 7, 5),
        normal(2, 7, 3),
    ),
    "l1": (lambda x, y: losses.l1(x * x, y), A, B),
    "huber": (lambda x, y: losses.huber(x, y, delta=0.7), A, B),
    "binary cross entropy": (
        lambda x: losses.binary_cross_entropy_with_logits(x, (A > 0) * 1.0, pos_weight=POSITIVE[0]),
        A,
    ),
    "kl_div": (lambda x, y: losses.kl_div(qkv.log_softmax(x), qkv.softmax(y)), A, B),
    "masked_softmax": (lambda x: qkv.masked_softmax(x, LENS), normal(2, 3, 7)),
    "masked_softmax mask": (lambda x, m: qkv.masked_softmax(x, mask=m), normal(2, 3, 7), normal(3, 7)),
    "masked_softmax filled": (lambda x: qkv.masked_softmax(x, LENS, masked_value=-0.5), normal(2, 3, 7)),
    "apply_rotary": (
        lambda x: qkv.apply_rotary(x * x, *qkv.rotary_tables(np.arange(3), 4, dtype="float64")),
        A,
    ),
    "cross_entropy": (
        lambda x: losses.cross_entropy(x, np.array([1, 4, -100]), label_smoothing=0.2, weight=POSITIVE[0]),
        A,
    ),
    "cross_entropy sums": (lambda x: losses.cross_entropy(x, np.array([1, 4, 0]), reduction="none"), A),
    "nll_loss": (lambda x: losses.nll_loss(x * x, np.array([1, -100, 0]), weight=POSITIVE[0]), A),
    "mse": (lambda x, y: losses.mse(x, y), A, B),
    "linear attention": (
        lambda q, k, v, s: qkv.linear_attention(q, k, v, state=s, chunk_size=2, return_state=True),
        normal(1, 4, 3, 5),
        normal(1, 2, 3, 5),
        normal(1, 2, 3, 2),
        normal(1, 2, 5, 2),
    ),
    "gated delta rule": (
        lambda q, k, v, g, b: qkv.linear_attention(
            q, k, v, decay=-(g * g), beta=b, update_rule="gated_delta", scale=0.3
        ),
        normal(1, 2, 3, 5),
        normal(1, 2, 3, 5),
        normal(1, 2, 3, 2),
        normal(1, 2, 3, 5),
        normal(1, 2, 3),
    ),
    "delta rule": (
        lambda q, b: qkv.linear_attention(q, q, q, beta=b, update_rule="delta"),
        normal(1, 2, 3, 5),
        normal(1, 2, 3),
    ),
    "additive": (
        lambda q, k, v, w: qkv.additive_attention(q, k, v, w, valid_lens=LENS, return_weights=True),
        normal(2, 3, 5),
        normal(2, 7, 5),
        normal(2, 7, 3),
        normal(5),
    ),
    "additive, one query": (
        lambda q, k, v, w: qkv.additive_attention(q, k, v, w),
        normal(1, 5),
        normal(7, 5),
        normal(7, 3),
        normal(5),
    ),
    "additive with a mask": (
        lambda q, k, m: qkv.additive_attention(
            q, k, k, np.ones(5), attn_mask=m, masked_value=-1.0, valid_lens=np.array([[3, 7, 2], [1, 0, 7]])
        ),
        normal(2, 3, 5),
        normal(2, 7, 5),
        normal(3, 7),
    ),
    "additive with dropout": (
        lambda q, k: qkv.additive_attention(
            q, k, k, np.ones(5), dropout_p=0.4, dropout_keep=np.arange(21).reshape(3, 7) % 3 > 0
        ),
        normal(2, 3, 5),
        normal(2, 7, 5),
    ),
    "a kernel of one's own": (
        lambda q, k, v, h: qkv.kernel_attention(
            q, k, v, lambda u: 1 / (1 + u * u), h, valid_lens=LENS, return_weights=True
        ),
        normal(2, 3, 5),
        normal(2, 7, 5),
        normal(2, 7, 3),
        np.array(1.7),
    ),
    "kernel attention of scalars": (
        lambda q, k, v: qkv.kernel_attention(q, k, v),
        normal(3),
        normal(7),
        normal(7),
    ),
}
for kernel in ("gaussian", "boxcar", "constant", "epanechnikov", "triangular"):
    FUSED[f"kernel {kernel}"] = (
        lambda q, k, v, h, kernel=kernel: qkv.kernel_attention(
            q, k, v, kernel, h, valid_lens=LENS, return_weights=True
        ),
        normal(2, 3, 2),
        normal(2, 7, 2),
        normal(2, 7, 3),
        np.array(2.7),
    )
    FUSED[f"kernel_values {kernel}"] = (lambda u, kernel=kernel: qkv.kernel_values(u * u, kernel) * u, A)


for name, row in ROWS.items():
    table = FUSED if name == "prod" else LAYOUT if "axis" in row.parameters else ELEMENTWISE
    table.setdefault(name, of_row(row))


def names_in(function: Any) -> Iterator[str]:
    """Names that a function speaks of, in lambdas within it, too."""
    code = getattr(function, "__code__", function)
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_in(constant)


def covered() -> set[str]:
    """Functions and methods that an entry calls by name."""
    tables = (ELEMENTWISE, LAYOUT, FUSED)
    called = {name for table in tables for f, *_ in table.values() for name in names_in(f)}
    return called.union(*map(names_of, ROWS.values()))
