"""Variances and norms: right wherever the result is in range, though squares are not, with gradients."""

import itertools

import numpy as np
import pytest
from helpers import same_bits_for_any_threads
from levels import each_level, run_at
from second_checks import check_second
from sweep import sweep

import qkv
import qkv.torch as torch
from qkv.testing import check_gradient

RNG = np.random.default_rng(3)
SIZES = {"float32": [1e-30, 1e-10, 1, 1e10, 1e30], "float64": [1e-250, 1e-150, 1, 1e150, 1e250]}


def scaled(dtype):
    return [(dtype, size) for size in SIZES[dtype]]


@pytest.mark.parametrize(("dtype", "size"), scaled("float32") + scaled("float64"))
@sweep("shape", [(11,), (1031,), (7, 5), (5, 70001)])
def test_every_size(dtype, size, shape):
    unit = RNG.standard_normal(shape) + 0.5
    x = (unit * size).astype(dtype)
    unit = x.astype("f8") / size
    rtol = 1e-5 if dtype == "float32" else 1e-12
    for count in range(1, len(shape) + 1):
        for axes in itertools.combinations(range(len(shape)), count):
            t = qkv.tensor(x)
            np.testing.assert_allclose(t.std(axes).numpy() / size, unit.std(axes), rtol=rtol)
            length = np.sqrt((unit**2).sum(axes))
            np.testing.assert_allclose(np.linalg.vector_norm(t, axis=axes).numpy() / size, length, rtol=rtol)
            if dtype == "float64" or size > 1e-12:
                kept = np.expand_dims(length, axes)
                np.testing.assert_allclose(
                    qkv.normalize(x, axis=axes, eps=1e-300 if dtype == "float64" else 1e-37),
                    unit / kept,
                    rtol=rtol,
                    atol=rtol,
                )


@pytest.mark.parametrize(("dtype", "size"), scaled("float32") + scaled("float64"))
def test_gradients_of_every_size(dtype, size):
    unit = RNG.standard_normal((5, 7))
    x = qkv.tensor((unit * size).astype(dtype), requires_grad=True)
    unit = x.numpy().astype("f8") / size
    rtol = 1e-4 if dtype == "float32" else 1e-10
    (dx,) = qkv.grad(x.std(1, ddof=1).sum(), [x])
    apart = unit - unit.mean(1, keepdims=True)
    np.testing.assert_allclose(
        dx.numpy(), apart / 6 / unit.std(1, ddof=1, keepdims=True), rtol=rtol, atol=rtol
    )
    (dx,) = qkv.grad(np.linalg.norm(x, axis=1).sum(), [x])
    np.testing.assert_allclose(
        dx.numpy(), unit / np.linalg.norm(unit, axis=1, keepdims=True), rtol=rtol, atol=rtol
    )
    (dx,) = qkv.grad((qkv.normalize(x, eps=1e-37 if dtype == "float32" else 1e-300)[:, 0]).sum(), [x])
    length = np.linalg.norm(unit, axis=1, keepdims=True)
    expected = (np.eye(7)[0] - unit[:, :1] * unit / length**2) / length
    np.testing.assert_allclose(dx.numpy().astype("f8") * size, expected, rtol=rtol, atol=rtol)


def test_a_far_mean():
    x = (RNG.standard_normal((1000, 8)) * 0.01 + 1e4).astype("f4")
    double = x.astype("f8")
    for axis in (0, 1, None):
        np.testing.assert_allclose(qkv.tensor(x).var(axis).numpy(), double.var(axis), rtol=1e-6)
    t = qkv.tensor(x, requires_grad=True)
    (dx,) = qkv.grad(t.var(0).sum(), [t])
    np.testing.assert_allclose(dx.numpy(), 2 / 1000 * (double - double.mean(0)), rtol=1e-3, atol=1e-8)
    far = double + 1e8
    np.testing.assert_allclose(qkv.tensor(far).var(0).numpy(), far.var(0), rtol=1e-9)


def test_whole_numbers_and_edges():
    assert qkv.tensor(np.array([1.0, 2, 3, 4])).var().item() == 1.25
    assert qkv.tensor(np.full(7, 0.1, "f4")).std().item() == 0
    assert np.isnan(qkv.tensor(np.ones(1)).var(ddof=1).item())
    assert np.isinf(qkv.tensor(np.array([0.0, 1])).var(ddof=2).item())
    assert np.isnan(qkv.tensor(np.array([1.0, np.inf])).std().item())
    assert np.linalg.norm(qkv.tensor(np.array([1.0, -np.inf]))).item() == np.inf
    assert np.linalg.norm(qkv.tensor(np.zeros(3))).item() == 0
    assert qkv.tensor(np.zeros((0, 3))).var(1).shape == (0,)
    zeros = qkv.tensor(np.zeros((2, 3)), requires_grad=True)
    for f in (lambda t: t.std(1), lambda t: np.linalg.norm(t, axis=1)):
        np.testing.assert_array_equal(qkv.grad(f(zeros).sum(), [zeros])[0].numpy(), 0)


@pytest.mark.parametrize("order", [0.5, 1, 2, 3, 4.5, np.inf, -1, -np.inf, -2.5])
def test_norms_of_other_orders(order):
    unit = RNG.standard_normal((3, 11)) + 0.1
    for dtype, size in scaled("float32") + scaled("float64"):
        x = (unit * size).astype(dtype)
        expected = np.linalg.norm(x.astype("f8") / size, order, 1)
        found = np.linalg.norm(qkv.tensor(x), order, 1).numpy().astype("f8") / size
        np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype == "float32" else 1e-12)
    check_gradient(lambda t: np.linalg.norm(t, order, 1), unit)


def test_second_derivatives():
    x = RNG.standard_normal((3, 5))
    for f in (
        lambda t: t.var(1),
        lambda t: t.std((0, 1)),
        lambda t: np.linalg.norm(t, axis=0),
        qkv.normalize,
    ):
        check_gradient(f, x)
        check_second(f, x)


def test_the_same_bits_for_any_number_of_threads():
    x = qkv.tensor(RNG.standard_normal((300001,)).astype("f4"))
    same_bits_for_any_threads(lambda: [x.var().numpy(), np.linalg.norm(x).numpy()])


def test_norms_of_every_size():
    a, b = torch.tensor([3e25, 4e25]), torch.tensor([3e-25, 4e-25])
    assert torch.norm(a).item() == pytest.approx(5e25)
    assert torch.norm(b).item() == pytest.approx(5e-25)
    np.testing.assert_allclose(torch.nn.functional.normalize(a, dim=0).numpy(), [0.6, 0.8], rtol=1e-6)
    assert torch.tensor([1e30, 2e30, -1e30]).std().item() == pytest.approx(1.5275252e30)
    assert torch.tensor([1e-30, 2e-30, -1e-30]).std().item() == pytest.approx(1.5275252e-30)


@pytest.mark.parametrize(
    ("dtype", "size"), [("float64", 1e158), ("float64", 1e-200), ("float32", 1e-30), ("float32", 1e37)]
)
def test_norm_layers_of_every_size(dtype, size):
    unit = RNG.standard_normal((3, 8))
    x = (unit * size).astype(dtype)
    unit = x.astype("f8") / size
    rtol = 1e-5 if dtype == "float32" else 1e-11
    for layer, expected in (
        (qkv.nn.LayerNorm(8, eps=0.0), (unit - unit.mean(1, keepdims=True)) / unit.std(1, keepdims=True)),
        (qkv.nn.RMSNorm(8, eps=0.0), unit / np.sqrt((unit**2).mean(1, keepdims=True))),
    ):
        t = qkv.tensor(x, requires_grad=True)
        y = layer.to(dtype)(t)
        np.testing.assert_allclose(y.detach().numpy(), expected, rtol=rtol, atol=rtol)
        (dx,) = qkv.grad((y * unit[::-1].copy().astype(dtype)).sum(), [t])
        small = qkv.tensor(unit, requires_grad=True)
        (right,) = qkv.grad((layer.to("float64")(small) * unit[::-1].copy()).sum(), [small])
        np.testing.assert_allclose(
            dx.numpy().astype("f8") * size, right.numpy(), rtol=1e3 * rtol, atol=1e2 * rtol
        )


@each_level()
def test_every_level(level):
    program = """
import numpy as np, qkv
rng = np.random.default_rng(1)
for shape in [(3, 501), (17, 5), (67, 37)]:
    for axis in (0, 1):
        x = (rng.standard_normal(shape) + 100).astype("f4")
        np.testing.assert_allclose(qkv.tensor(x).var(axis).numpy(), x.astype("f8").var(axis), rtol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(qkv.tensor(x * 1e25), axis=axis).numpy(),
                                   np.linalg.norm(x.astype("f8") * 1e25, axis=axis), rtol=1e-5)
"""
    done = run_at(level, program)
    assert done.returncode == 0, done.stderr
