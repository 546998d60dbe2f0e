"""The reference softmax family against the golden arrays."""

from __future__ import annotations

import numpy as np
import pytest
from tolerances import TOLERANCES

from qkv import reference


@pytest.mark.parametrize(
    ("case", "scores"), [("none", "X1"), ("lens1d", "X1"), ("lens2d", "X2"), ("lens_zero", "X1")]
)
def test_masked_softmax_fills_as_the_document_does(golden, case, scores):
    g = golden("D0-14")
    weights = reference.masked_softmax(g[scores], g.get(f"lens.{case}"), masked_value=-1e6)
    g.close(f"weights.{case}", weights)


def test_masked_softmax_skips_where_nothing_is_filled(golden):
    g = golden("D0-14")
    weights = reference.masked_softmax(g["X1"], g["lens.lens_zero"])
    empty = np.broadcast_to(g["lens.lens_zero"][:, None] == 0, weights.shape[:2])
    assert empty.any()
    assert not empty.all()
    assert (weights[empty] == 0).all()
    np.testing.assert_allclose(weights[~empty].sum(-1), 1)


def test_causal_weights_of_document_one(golden):
    g = golden("D1-12")
    causal = reference.masks.causal(6)
    weights = reference.masked_softmax(g["scores"], mask=causal)
    g.close("weights", weights)
    g.close("weights", reference.masked_softmax(g["scores"], mask=g["mask"]))
    g.close("weights", reference.softmax(g["masked_scores"]))
    g.close("mask", np.where(causal, 0, -np.inf))
    kept = np.tril(reference.softmax(g["scores"]))
    g.close("renormalised_weights", kept / kept.sum(-1, keepdims=True))
    g.close("dropped_weights", weights * g["dropout_keep"] / 0.5)


def test_temperature_and_jacobian(golden):
    g = golden("D2-05")
    for i, alpha in enumerate(g["alphas"], 1):
        g.close(f"prob{i}", reference.softmax(g["score"], temperature=1 / alpha))
        g.close(f"jacobian{i}", reference.softmax_jacobian(g["score"] * alpha))
    sweep = np.stack([reference.softmax(g["score"], temperature=1 / a) for a in g["sweep_alphas"]])
    g.close("sweep_prob", sweep)
    jacobians = reference.softmax_jacobian(g["score"] * g["sweep_alphas"][:, None])
    g.close("sweep_jacobian_frobenius", np.linalg.norm(jacobians, axis=(1, 2)))


@pytest.mark.parametrize(("side", "queries", "causal"), [("enc", "src", False), ("dec", "tgt", True)])
def test_filled_masks_of_document_two(golden, side, queries, causal):
    g, masks = golden("D2-08"), golden("D2-07")
    lens = masks[f"{queries}_len"]
    mask = reference.masks.attention(lens, lens, 4, 4, causal=causal)
    g.close(f"{side}_prob", reference.masked_softmax(g[f"{side}_score"], mask=mask, masked_value=-1e9))


def test_softmax_of_minus_infinity_is_nan(golden):
    g = golden("D2-08")
    lens = golden("D2-07")["src_len"]
    mask = reference.masks.attention(lens, lens, 4, 4)
    g.close("enc_prob_with_minus_inf", reference.softmax(np.where(mask, g["enc_score"], -np.inf)))


def test_softmax_family_on_a_vector(golden):
    g = golden("X-ACT")
    g.close("softmax", reference.softmax(g["x"]))
    g.close("softmax_shifted_by_1000", reference.softmax(g["x"] + 1000))
    g.close("log_softmax", reference.log_softmax(g["x"]))
    g.close("logsumexp", reference.logsumexp(g["x"]))


def test_logsumexp_at_the_edges():
    assert reference.logsumexp([-np.inf, -np.inf]) == -np.inf
    assert reference.logsumexp([np.inf, 1.0]) == np.inf
    assert reference.logsumexp(np.zeros((3, 0)), axis=1).tolist() == [-np.inf] * 3
    x = np.arange(30.0).reshape(2, 3, 5)
    both = reference.logsumexp(x, axis=(0, 2))
    np.testing.assert_allclose(both, np.log(np.exp(x).sum((0, 2))), *TOLERANCES["float64"])
    assert reference.logsumexp(x, axis=1, keepdims=True).shape == (2, 1, 5)


def test_softmax_along_another_axis():
    x = np.random.default_rng(0).normal(size=(2, 3, 5))
    np.testing.assert_allclose(reference.softmax(x, 1), reference.softmax(x.swapaxes(1, 2)).swapaxes(1, 2))
    np.testing.assert_allclose(np.exp(reference.log_softmax(x, 0, 3.0)), reference.softmax(x, 0, 3.0))


def test_an_integer_mask_is_refused():
    with pytest.raises(TypeError, match=r"masked_softmax: mask must be boolean .* got int64"):
        reference.masked_softmax(np.zeros((2, 3)), mask=np.ones((2, 3), np.int64))


def test_lengths_hold_for_every_head():
    scores = np.random.default_rng(1).normal(size=(2, 3, 5, 7))
    lens = np.array([[1, 2, 3, 4, 5], [7, 6, 5, 4, 0]])
    weights = reference.masked_softmax(scores, lens)
    for b, h, i in np.ndindex(2, 3, 5):
        n = lens[b, i]
        np.testing.assert_allclose(weights[b, h, i, :n], reference.softmax(scores[b, h, i, :n]) if n else [])
        assert (weights[b, h, i, n:] == 0).all()
