"""The reference activations, losses and optimizers against the golden arrays."""

from __future__ import annotations

import numpy as np
import pytest
from tolerances import TOLERANCES

from qkv import reference


def test_activations(golden):
    g = golden("X-ACT")
    g.close("tanh", reference.tanh(g["x"]))
    g.close("sigmoid", reference.sigmoid(g["x"]))
    g.close("relu", reference.relu(g["x"]))
    g.close("gelu_erf", reference.gelu(g["x"]))
    g.close("gelu_tanh", reference.gelu(g["x"], "tanh"))
    np.testing.assert_allclose(reference.sigmoid([-700.0, 700.0]), [np.exp(-700.0), 1.0])
    with pytest.raises(ValueError, match=r"gelu: approximate must be 'none' or 'tanh' .* got 'erf'"):
        reference.gelu(g["x"], "erf")


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_cross_entropy(golden, smoothing, reduction):
    g = golden("X-CE")
    loss = reference.cross_entropy(g["logits"], g["target"], label_smoothing=smoothing, reduction=reduction)
    g.close(f"smoothing{smoothing}.{reduction}", loss)
    if not smoothing:
        log_probs = reference.log_softmax(g["logits"])
        g.close(f"smoothing0.0.{reduction}", reference.nll_loss(log_probs, g["target"], reduction=reduction))


def test_class_weights_count_in_the_mean():
    logits, targets = np.random.default_rng(0).normal(size=(2, 3, 5)), np.array([[0, 4, 7], [1, 1, 7]])
    weight = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    options = {"weight": weight, "ignore_index": 7}
    log_probs = reference.log_softmax(logits)
    picked = [(b, i, targets[b, i]) for b, i in np.ndindex(2, 3) if targets[b, i] != 7]
    total = sum(weight[t] for *_, t in picked)
    nll = sum(-weight[t] * log_probs[b, i, t] for b, i, t in picked)
    smooth = sum(-(weight * log_probs[b, i]).sum() / 5 for b, i, _ in picked)
    close = TOLERANCES["float64"]
    np.testing.assert_allclose(reference.cross_entropy(logits, targets, **options), nll / total, *close)
    np.testing.assert_allclose(reference.nll_loss(log_probs, targets, **options), nll / total, *close)
    mixed = reference.cross_entropy(logits, targets, label_smoothing=0.3, **options)
    np.testing.assert_allclose(mixed, (0.7 * nll + 0.3 * smooth) / total, *close)


def test_losses_at_the_edges():
    assert reference.cross_entropy(np.ones((3, 5)), [-100] * 3) == 0
    assert reference.mse([[1.0, 2.0]], [[3.0, 2.0]], reduction="none").tolist() == [[4.0, 0.0]]
    assert reference.mse([[1.0, 2.0]], [[3.0, 2.0]], reduction="sum") == 4
    with pytest.raises(ValueError, match=r"cross_entropy: targets must be in 0..4 .* got 0..5"):
        reference.cross_entropy(np.ones((2, 5)), [0, 5])
    with pytest.raises(ValueError, match=r"nll_loss: targets must be in 0..4 .* got -1..0"):
        reference.nll_loss(np.ones((2, 5)), [0, -1])
    with pytest.raises(ValueError, match=r"mse: reduction must be .* got 'max'"):
        reference.mse([1.0], [1.0], reduction="max")
    with pytest.raises(ValueError, match=r"mse: targets must be \(2,\) .* got targets \(1,\)"):
        reference.mse([1.0, 2.0], [1.0])


OPTIMIZERS = {
    "sgd_lr0.01": (reference.sgd_step, {"lr": 0.01}),
    "sgd_momentum": (reference.sgd_step, {"lr": 0.01, "momentum": 0.9}),
    "adam": (reference.adam_step, {"lr": 0.05}),
    "adam_98": (reference.adam_step, {"lr": 0.05, "betas": (0.9, 0.98), "eps": 1e-9}),
    "adamw": (reference.adamw_step, {"lr": 0.05, "weight_decay": 0.1}),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(golden, name):
    g = golden("X-OPT")
    step, options = OPTIMIZERS[name]
    w, state, path = np.zeros(5), None, []
    for _ in range(10):
        w, state = step(w, g["A"].T @ (g["A"] @ w - g["b"]), state, **options)
        path.append(w)
    g.close(name, path)


def test_decay_and_nesterov_by_hand():
    w, state = reference.sgd_step([2.0], [1.0], lr=0.1, momentum=0.5, weight_decay=0.25, nesterov=True)
    np.testing.assert_allclose(w, 2 - 0.1 * (1.5 + 0.5 * 1.5))  # g = 1 + 0.25 * 2
    w, _ = reference.sgd_step(w, [0.0], state, lr=0.1, momentum=0.5, nesterov=True)
    np.testing.assert_allclose(w, 1.775 - 0.1 * 0.5 * (0.5 * 1.5))
    decayed, _ = reference.adam_step([4.0], [0.0], lr=0.5, weight_decay=0.1)
    np.testing.assert_allclose(decayed, 3.5, rtol=1e-6)  # the first step has length lr


def test_clipping(golden):
    g = golden("X-CLIP")
    norm, (clipped,) = reference.clip_grad_norm([g["g"]], 1.0)
    g.close_all({"norm": norm, "clipped": clipped})
    norm, parts = reference.clip_grad_norm([[3.0], [[4.0]]], 10.0)
    assert norm == 5
    assert parts[0].tolist() == [3.0]
    assert parts[1].tolist() == [[4.0]]
