"""Losses."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import close, gradients, layouts, same_bits_for_any_threads

import qkv
from qkv import losses, reference
from qkv.testing import check_gradient

REDUCTIONS = ["mean", "sum", "none"]


@pytest.fixture
def data():
    random = np.random.default_rng(0)
    targets = random.integers(0, 5, (2, 3))
    targets[1, 1] = -100
    return random.normal(size=(2, 3, 5)) * 3, targets, random.random(5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_golden(golden, smoothing, reduction):
    g = golden("X-CE")
    logits = qkv.tensor(g["logits"], requires_grad=True)
    loss = losses.cross_entropy(logits, g["target"], label_smoothing=smoothing, reduction=reduction)
    g.close(f"smoothing{smoothing}.{reduction}", loss)
    if reduction != "none":
        loss.backward()
        g.close(f"grad.smoothing{smoothing}.{reduction}.logits", logits.grad)
    if smoothing == 0:
        log_probs = qkv.log_softmax(g["logits"])
        g.close(f"smoothing0.0.{reduction}", losses.nll_loss(log_probs, g["target"], reduction=reduction))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.3, 1.0])
def test_cross_entropy(data, reduction, weighted, smoothing):
    logits, targets, weight = data
    options = {"weight": weight if weighted else None, "label_smoothing": smoothing, "reduction": reduction}
    expected = reference.cross_entropy(logits, targets, **options)
    close(losses.cross_entropy(logits, targets, **options), expected)
    close(losses.cross_entropy(logits.astype("f4"), targets, **options), expected, "float32 deep")
    check_gradient(lambda x: losses.cross_entropy(x, targets, **options), logits)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_nll_loss(data, reduction, weighted):
    logits, targets, weight = data
    options = {"weight": weight if weighted else None, "reduction": reduction, "ignore_index": 3}
    targets = np.where(targets == -100, 1, targets)
    expected = reference.nll_loss(logits, targets, **options)
    close(losses.nll_loss(logits, targets, **options), expected)
    check_gradient(lambda x: losses.nll_loss(x, targets, **options), logits)
    assert (targets == 3).any()


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_mse(data, reduction):
    a, b = data[0], data[0][::-1] + 1
    close(losses.mse(a, b, reduction=reduction), reference.mse(a, b, reduction=reduction))
    check_gradient(lambda x, y: losses.mse(x, y, reduction=reduction), a, b)


def test_everything_ignored(data):
    logits = qkv.tensor(data[0], requires_grad=True)
    loss = losses.cross_entropy(logits, np.full((2, 3), -100))
    assert loss.item() == 0
    loss.backward()
    assert (logits.grad.numpy() == 0).all()
    assert losses.nll_loss(data[0], np.full((2, 3), 7), ignore_index=7) == 0
    assert losses.cross_entropy(np.zeros((0, 5)), np.zeros(0, int)) == 0
    assert losses.mse(np.zeros((0, 5)), np.zeros((0, 5))) == 0


def test_an_ignored_row_is_not_read(data):
    logits, targets, _ = data
    poisoned = logits.copy()
    poisoned[1, 1] = np.nan
    x = qkv.tensor(poisoned, requires_grad=True)
    loss = losses.cross_entropy(x, targets, label_smoothing=0.1)
    close(loss, losses.cross_entropy(logits, targets, label_smoothing=0.1))
    loss.backward()
    assert (x.grad.numpy()[1, 1] == 0).all()
    assert np.isfinite(x.grad.numpy()).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extreme_logits(dtype):
    logits = np.array([[1e4, -1e4, 0], [-1e4, 1e4, 0], [0, -np.inf, 0]], dtype)
    loss, slope = gradients(lambda x: losses.cross_entropy(x, [0, 0, 2], reduction="none"), logits)
    close(loss, np.array([0, 2e4, np.log(2)]), "float32")
    assert np.isfinite(slope).all()
    assert slope[2, 1] == 0
    # PyTorch's clamp does not exist here: a probability of 0 costs infinitely much
    assert losses.cross_entropy(logits[2:], [1]) == np.inf


def test_inputs_of_every_kind(data):
    logits, targets, _ = data
    expected = reference.cross_entropy(logits, targets)
    for variant in layouts(logits):
        close(losses.cross_entropy(variant, targets), expected)
    for dtype in ("int8", "int32"):
        close(losses.cross_entropy(logits, targets.astype(dtype)), expected)
    close(losses.cross_entropy(logits[0, 0], 3), reference.cross_entropy(logits[0, 0], 3))
    assert losses.cross_entropy(logits.astype("float16"), targets).dtype == np.float16
    assert losses.mse([1, 2], [3, 5]) == 6.5
    x, t = qkv.tensor(logits, requires_grad=True), targets.copy()
    loss = losses.cross_entropy(x, t)
    t[:] = 0
    loss.backward()
    close(
        x.grad,
        gradients(lambda y: losses.cross_entropy(y, targets, reduction="sum"), logits)[1]
        / np.random.default_rng(99).standard_normal()
        / (targets != -100).sum(),
    )


def test_rejections(data):
    logits, targets, _ = data
    with pytest.raises(
        ValueError,
        match=r"^cross_entropy: targets must be in 0\.\.4 .*; got target 5 at position \(1, 2\)$",
    ):
        losses.cross_entropy(logits, [[0, 1, 2], [3, 4, 5]])
    with pytest.raises(
        ValueError, match=r"nll_loss: targets must be in 0\.\.4 .* got target -1 at position \(0,\)"
    ):
        losses.nll_loss(logits[0], [-1, 0, 0])
    with pytest.raises(
        ValueError, match=r"targets must be \(2, 3\) because logits are .* got targets \(3, 2\)"
    ):
        losses.cross_entropy(logits, targets.T)
    with pytest.raises(TypeError, match="cross_entropy: targets must hold integers; got dtype float64"):
        losses.cross_entropy(logits, targets.astype(float))
    with pytest.raises(ValueError, match=r"weight must be \(5,\) .* got weight \(3,\)"):
        losses.cross_entropy(logits, targets, weight=np.ones(3))
    with pytest.raises(ValueError, match=r"label_smoothing must be in 0\.\.1 .* got label_smoothing = 2"):
        losses.cross_entropy(logits, targets, label_smoothing=2)
    with pytest.raises(ValueError, match=r"logits must be \(\.\.\., V\); got logits \(\)"):
        losses.cross_entropy(1.0, 0)
    for f in (losses.cross_entropy, losses.nll_loss):
        with pytest.raises(ValueError, match=r": reduction must be 'mean', 'sum' or 'none' .* got 'max'"):
            f(logits, targets, reduction="max")
    with pytest.raises(
        ValueError, match=r"^mse: targets must be \(2,\) to match predictions; got targets \(1,\)"
    ):
        losses.mse([1.0, 2.0], [1.0])


def test_any_number_of_threads():
    random = np.random.default_rng(0)
    logits, targets = random.normal(size=(211, 307)).astype("f4"), random.integers(0, 307, 211)
    same_bits_for_any_threads(
        lambda: gradients(lambda x: losses.cross_entropy(x, targets, label_smoothing=0.1), logits)
    )
