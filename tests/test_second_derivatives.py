"""Second derivatives of every operation."""

from __future__ import annotations

import numpy as np
import pytest
from second_checks import RNG, check_second, normal

import qkv
from qkv import losses

A, B, POSITIVE = normal(3, 5), normal(3, 5), np.abs(normal(3, 5)) + 0.5
LENS = np.array([3, 7])
PARTS = np.array([0, 2, 2, 1])

ELEMENTWISE = {
    "add": (lambda a, b: (a + b) * a, A, B[0]),
    "subtract": (lambda a, b: (a - b) * b, A[:, :1], B),
    "multiply": (lambda a, b: a * b, A, B[0]),
    "divide": (lambda a, b: a / b, A[0], POSITIVE),
    "power": (lambda a, b: a**b, POSITIVE, B),
    "power of a number": (lambda a: a**3, A),
    "square": (lambda a: a**2, A),
    "cube at 0": (lambda a: a**3.0, np.array([0.0, 1.0, -2.0])),
    "negate and abs": (lambda a: abs(-a) * a, A),
    "exp": (lambda a: qkv.exp(a), A),
    "log": (lambda a: qkv.log(a), POSITIVE),
    "sqrt": (lambda a: qkv.sqrt(a), POSITIVE),
    "sin": (lambda a: qkv.sin(a), A),
    "cos": (lambda a: qkv.cos(a), A),
    "erf": (lambda a: qkv.erf(a), A),
    "tanh": (lambda a: qkv.tanh(a), A),
    "sigmoid": (lambda a: qkv.sigmoid(a), A),
    "relu": (lambda a: qkv.relu(a) * a, A),
    "gelu": (lambda a: qkv.gelu(a), A),
    "gelu by tanh": (lambda a: qkv.gelu(a, "tanh"), A),
    "clip": (lambda a: qkv.clip(a, -0.5, 0.5) * a, A),
    "where": (lambda a, b: qkv.where(A > 0, a * b, b * b), A, B),
    "cast": (lambda a: (a * a).astype("float64") * a, A),
    "numpy operands": (lambda a: B * a * a / POSITIVE, A),
}
LAYOUT = {
    "reshape": (lambda a: a.reshape(5, 3) * (a * a).reshape(5, 3), A),
    "transpose": (lambda a: (a.T @ a).T, A),
    "slices": (lambda a: a[::2, ::-1] * a[1:, :1], A),
    "index": (lambda a: (a * a)[PARTS % 3] * a[0], A),
    "concatenate": (lambda a, b: qkv.concatenate([a * b, b * b], axis=1) ** 2, A, B),
    "stack": (lambda a, b: qkv.stack([a, a * b], axis=1) ** 2, A, B),
    "sum": (lambda a: (a * a).sum(axis=0) * a.sum(axis=1, keepdims=True), A),
    "mean": (lambda a: (a * a).mean(axis=(0, 1)) * a, A),
    "max": (lambda a: (a * a).max(axis=1, keepdims=True) * a, A),
    "max of all": (lambda a: (a * a).max() * a, A),
    "logsumexp": (lambda a: qkv.logsumexp(a, axis=0), A),
    "logsumexp of all": (lambda a: qkv.logsumexp(a * a), A),
    "matmul": (lambda a, b: a @ b.T, A, B),
    "matmul of vectors": (lambda a, b: (a @ b) * a, A[0], B[0]),
    "matmul of batches": (lambda a, b: a @ b, normal(2, 1, 3, 5), normal(7, 5, 2)),
    "matmul with one matrix": (lambda a, b: a @ b, normal(2, 3, 5), normal(5, 2)),
}


FUSED = {
    "softmax": (lambda x: qkv.softmax(x, axis=0, temperature=1.7), A),
    "log_softmax": (lambda x: qkv.log_softmax(x, temperature=1.7), A),
    "softmax_jacobian": (qkv.softmax_jacobian, A),
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


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name):
    f, *inputs = ELEMENTWISE[name]
    check_second(f, *inputs)


@pytest.mark.parametrize("name", LAYOUT)
def test_layout_reductions_and_products(name):
    f, *inputs = LAYOUT[name]
    check_second(f, *inputs)


@pytest.mark.parametrize("name", FUSED)
def test_fused(name):
    f, *inputs = FUSED[name]
    check_second(f, *inputs)


MASK = RNG.random((2, 1, 5, 7)) < 0.6
OPTIONS = {
    "plain": {},
    "scale": {"scale": -0.3},
    "causal": {"is_causal": True},
    "causal to the lower right": {"is_causal": "lower_right"},
    "valid_lens": {"valid_lens": [4, 0]},
    "valid_lens of queries": {"valid_lens": RNG.integers(0, 8, (2, 5))},
    "boolean mask": {"attn_mask": MASK},
    "window": {"window": (2, 1), "q_offset": [1, -1]},
    "softcap": {"softcap": 0.7},
    "alibi": {"alibi_slopes": np.array([0.5, 0.1, 0.3, 0.2]), "q_offset": 2},
    "masked_value": {"attn_mask": MASK, "masked_value": -0.4, "valid_lens": [3, 6]},
    "dropout": {"dropout_p": 0.3},
    "dropout_keep": {"dropout_p": 0.3, "dropout_keep": RNG.random((2, 4, 5, 7)) < 0.7},
    "results": {"return_weights": True, "return_lse": True, "valid_lens": [4, 7]},
    "results with everything": {
        "return_weights": True,
        "return_lse": True,
        "softcap": 2.0,
        "is_causal": True,
        "q_offset": 3,
        "window": (4, -1),
        "attn_mask": MASK,
    },
}


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_attention(option, kv_heads):
    def f(q, k, v):
        qkv.manual_seed(3)
        return qkv.scaled_dot_product_attention(q, k, v, enable_gqa=True, **OPTIONS[option])

    check_second(f, normal(2, 4, 5, 3), normal(2, kv_heads, 7, 3), normal(2, kv_heads, 7, 2))


@pytest.mark.parametrize("shape", [(4, 5, 7), (4, 1, 7), (7,), (2, 1, 5, 1)])
def test_attention_bias_and_sinks(shape):
    def f(q, k, v, bias, sinks):
        return qkv.scaled_dot_product_attention(
            q, k, v, bias, sinks=sinks, return_weights=True, return_lse=True
        )

    bias = normal(*shape)
    check_second(f, normal(2, 4, 5, 3), normal(2, 4, 7, 3), normal(2, 4, 7, 2), bias, normal(4))
    bias.flat[2] = -np.inf
    x = [normal(2, 4, 5, 3), normal(2, 4, 7, 3), normal(2, 4, 7, 2)]
    check_second(lambda q, k, v: f(q, k, v, bias, np.arange(4.0)), *x)


@pytest.mark.parametrize("shapes", [((5, 3), (7, 3), (7, 2)), ((2, 5, 3), (2, 7, 3), (2, 7, 2))])
def test_attention_of_smaller_ranks(shapes):
    check_second(
        lambda q, k, v: qkv.scaled_dot_product_attention(q, k, v, return_weights=True, return_lse=True),
        *(normal(*s) for s in shapes),
    )


def test_what_is_excluded_stays_so():
    q, k, v = normal(2, 3, 5), normal(2, 7, 5), normal(2, 7, 3)
    for lens, causal in ((LENS, False), (np.array([5, 2]), True)):
        seen = []
        for filled in (0.0, np.nan):
            for b, n in enumerate(lens):
                k[b, n:], v[b, n:] = filled, filled
            tensors = [qkv.tensor(x, requires_grad=True) for x in (q, k, v)]
            y = qkv.scaled_dot_product_attention(*tensors, valid_lens=lens, is_causal=causal)
            first = qkv.grad((y * y).sum(), tensors, create_graph=True)
            second = qkv.grad(sum((g * g).sum() for g in first), tensors)
            seen.append([*first, *second])
        for clean, other in zip(*seen, strict=True):
            assert np.isfinite(other.numpy()).all()
            np.testing.assert_array_equal(clean.numpy(), other.numpy())


@pytest.mark.parametrize("function", ["additive", "kernel"])
def test_what_is_excluded_stays_so_elsewhere(function):
    q, k, v = normal(2, 3, 5), normal(2, 7, 5), normal(2, 7, 3)
    for b, n in enumerate(LENS):
        k[b, n:], v[b, n:] = np.nan, np.inf
    tensors = [qkv.tensor(x, requires_grad=True) for x in (q, k, v)]
    if function == "additive":
        y = qkv.additive_attention(*tensors, np.ones(5), valid_lens=LENS)
    else:
        y = qkv.kernel_attention(*tensors, valid_lens=LENS)
    first = qkv.grad((y * y).sum(), tensors, create_graph=True)
    second = qkv.grad(sum((g * g).sum() for g in first), tensors)
    assert all(np.isfinite(g.numpy()).all() for g in [*first, *second])
