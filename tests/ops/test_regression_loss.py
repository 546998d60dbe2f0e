"""l1, huber, binary_cross_entropy_with_logits and kl_div against their formulas and PyTorch's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers import close
from second_checks import check_second

import qkv
from qkv import losses
from qkv.testing import check_gradient

RANDOM = np.random.default_rng(17)
P, T = RANDOM.standard_normal((3, 5)) * 2, RANDOM.standard_normal((3, 5))
SHARES = RANDOM.dirichlet(np.ones(5), 3)
LOG_P = np.log(RANDOM.dirichlet(np.ones(5), 3))
WEIGHT, POSITIVE = RANDOM.random((3, 5)) + 0.5, RANDOM.random(5) + 0.5
bce = losses.binary_cross_entropy_with_logits


def softplus(x):
    return np.logaddexp(0, x)


LOSSES = {
    "mse": (losses.mse, (P, T), {}, (P - T) ** 2),
    "l1": (losses.l1, (P, T), {}, np.abs(P - T)),
    "huber": (losses.huber, (P, T), {}, np.where(np.abs(P - T) <= 1, (P - T) ** 2 / 2, np.abs(P - T) - 0.5)),
    "huber 0.3": (
        losses.huber,
        (P, T),
        {"delta": 0.3},
        np.where(np.abs(P - T) <= 0.3, (P - T) ** 2 / 2, 0.3 * (np.abs(P - T) - 0.15)),
    ),
    "bce": (bce, (P, SHARES), {}, SHARES * softplus(-P) + (1 - SHARES) * softplus(P)),
    "bce with weights": (
        bce,
        (P, SHARES),
        {"weight": WEIGHT, "pos_weight": POSITIVE},
        WEIGHT * (POSITIVE * SHARES * softplus(-P) + (1 - SHARES) * softplus(P)),
    ),
    "kl_div": (losses.kl_div, (LOG_P, SHARES), {}, SHARES * (np.log(SHARES) - LOG_P)),
    "kl_div of logarithms": (
        losses.kl_div,
        (LOG_P, np.log(SHARES)),
        {"log_targets": True},
        SHARES * (np.log(SHARES) - LOG_P),
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_values_and_gradients(name):
    f, inputs, options, expected = LOSSES[name]
    close(f(*inputs, **options, reduction="none"), expected)
    close(f(*inputs, **options, reduction="sum"), expected.sum())
    close(f(*inputs, **options), expected.mean())
    assert isinstance(f(qkv.tensor(inputs[0]), inputs[1], **options), qkv.Tensor)
    for reduction in ("mean", "none"):
        check_gradient(lambda x, t, r=reduction: f(x, t, **options, reduction=r), *inputs)
        check_second(lambda x, t, r=reduction: f(x, t, **options, reduction=r), *inputs)
    empty = f(*(x[:0] for x in inputs), **({} if "weight" in options else options))
    assert empty.shape == ()
    assert empty == 0
    with pytest.raises(
        ValueError, match=rf"^{f.__name__}: targets must be \(3, 5\) to match \w+; got targets \(5,\)$"
    ):
        f(inputs[0], inputs[1][0])
    with pytest.raises(
        ValueError, match=rf"^{f.__name__}: reduction must be 'mean', 'sum' or 'none' because these are"
    ):
        f(*inputs, reduction="average")


def test_batchmean():
    close(losses.kl_div(LOG_P, SHARES, reduction="batchmean"), (SHARES * (np.log(SHARES) - LOG_P)).sum() / 3)


def test_classes_without_a_share_cost_nothing():
    p, t = qkv.tensor([[-np.inf, 0.0]], requires_grad=True), qkv.tensor([[0.0, 1.0]], requires_grad=True)
    loss = losses.kl_div(p, t, reduction="sum")
    loss.backward()
    assert loss.item() == 0
    assert p.grad.tolist() == [[0, -1]]
    assert np.isfinite(t.grad.numpy()).all()


def test_small_losses_keep_their_digits():
    x = np.array([30.0, -30.0, 100.0, -100.0, 1000.0])
    close(
        bce(x, [1.0, 0.0, 1.0, 0.0, 0.0], reduction="none"),
        [*[np.log1p(np.exp(-30.0))] * 2, *[np.exp(-100.0)] * 2, 1000],
    )
    t = qkv.tensor(np.array([40.0, -40.0]), requires_grad=True)
    bce(t, [1.0, 0.0], reduction="sum").backward()
    np.testing.assert_allclose(t.grad.numpy(), [-np.exp(-40.0), np.exp(-40.0)], rtol=1e-12)


def test_ties_and_limits():
    t = qkv.tensor([0.0, 1.0], requires_grad=True)
    losses.l1(t, [0.0, 0.0], reduction="sum").backward()
    assert t.grad.tolist() == [0, 1]
    for delta in (0, -1, np.nan):
        with pytest.raises(ValueError, match=r"^huber: delta must be a positive number; got"):
            losses.huber(P, T, delta=delta)
    with pytest.raises(
        ValueError, match=r"with_logits: pos_weight must broadcast to logits \(3, 5\); got pos_weight \(3,\)$"
    ):
        bce(P, SHARES, pos_weight=np.ones(3))
    with pytest.raises(
        ValueError, match=r"with_logits: weight must broadcast to logits \(3, 5\); got weight \(2, 3, 5\)$"
    ):
        bce(P, SHARES, weight=np.ones((2, 3, 5)))


def test_pytorch_gives_the_same():
    torch = pytest.importorskip("torch")
    F = torch.nn.functional
    warnings.filterwarnings("ignore", "reduction: 'mean'")  # PyTorch's advice of "batchmean"
    p, t, s, q = (torch.tensor(x) for x in (P, T, SHARES, LOG_P))
    for reduction in ("mean", "sum", "none"):
        for ours, theirs in (
            (losses.l1(P, T, reduction=reduction), F.l1_loss(p, t, reduction=reduction)),
            (
                losses.huber(P, T, delta=0.7, reduction=reduction),
                F.huber_loss(p, t, delta=0.7, reduction=reduction),
            ),
            (
                bce(P, SHARES, weight=WEIGHT, pos_weight=POSITIVE, reduction=reduction),
                F.binary_cross_entropy_with_logits(
                    p, s, torch.tensor(WEIGHT), pos_weight=torch.tensor(POSITIVE), reduction=reduction
                ),
            ),
            (losses.kl_div(LOG_P, SHARES, reduction=reduction), F.kl_div(q, s, reduction=reduction)),
        ):
            np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-12)
