"""The reference Nadaraya-Watson pooling against the golden arrays (which hold keys in rows)."""

from __future__ import annotations

import numpy as np
import pytest
from tolerances import TOLERANCES

from qkv import reference

NAMES = {"gaussian": "gaussian", "boxcar": "boxcar", "constant": "constant", "epanechnikov": "triangular"}


def test_kernel_curves(golden):
    g = golden("D0-05")
    curves = {theirs: reference.kernel_values(g["x"], ours) for theirs, ours in NAMES.items()}
    curves["epanechnikov_true"] = 0.75 * reference.kernel_values(g["x"], "epanechnikov")
    g.close_all(curves)


def compare(g, suffix, kernel, bandwidth=1.0):
    y, weights = reference.kernel_attention(
        g["x_val"], g["x_train"], g["y_train"], kernel, bandwidth, return_weights=True
    )
    g.close(f"weights.{suffix}", weights, np.nan_to_num(g[f"weights.{suffix}"].T))
    g.close(f"y_hat.{suffix}", y, np.nan_to_num(g[f"y_hat.{suffix}"]))


@pytest.mark.parametrize("name", NAMES)
def test_four_kernels(golden, name):
    compare(golden("D0-07"), name, NAMES[name])


@pytest.mark.parametrize("sigma", [0.1, 0.2, 0.5, 1])
def test_four_widths(golden, sigma):
    compare(golden("D0-09"), f"sigma_{sigma}", "gaussian", sigma)


def test_points_and_batches_agree():
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(2, 3, 5)), rng.normal(size=(2, 7, 5)), rng.normal(size=(2, 7, 11))
    y, w = reference.kernel_attention(q, k, v, "epanechnikov", 3.0, return_weights=True)
    assert y.shape == (2, 3, 11)
    for b in range(2):
        y_b, w_b = reference.kernel_attention(q[b], k[b], v[b], "epanechnikov", 3.0, return_weights=True)
        np.testing.assert_array_equal(y[b], y_b)
        np.testing.assert_array_equal(w[b], w_b)
    distance = np.linalg.norm(q[1, 2] - k[1], axis=-1)
    kernel = np.maximum(1 - (distance / 3) ** 2, 0)
    np.testing.assert_allclose(w[1, 2], kernel / kernel.sum(), *TOLERANCES["float64"])


def test_scalars_are_points_of_one_feature():
    x, y = np.linspace(0, 1, 7), np.linspace(3, 5, 7) ** 2
    scalar = reference.kernel_attention(x[:3], x, y, "gaussian", 0.3)
    point = reference.kernel_attention(x[:3, None], x[:, None], y[:, None], "gaussian", 0.3)
    assert scalar.shape == (3,)
    np.testing.assert_array_equal(scalar, point[:, 0])
    assert reference.kernel_attention(x[:3], x, y[:, None]).shape == (3, 1)


def test_a_callable_is_a_kernel():
    x, y = np.linspace(0, 1, 7), np.linspace(3, 5, 7)
    ours = reference.kernel_attention(x, x, y, "triangular", 0.3)
    np.testing.assert_array_equal(
        ours, reference.kernel_attention(x, x, y, lambda u: np.maximum(1 - u, 0), 0.3)
    )


def test_no_neighbour_gives_zeros_and_a_far_query_its_nearest():
    y, w = reference.kernel_attention([0.0, 50.0], [0.0, 1.0], [2.0, 4.0], "boxcar", return_weights=True)
    assert y.tolist() == [2.0, 0.0]
    assert w.tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert reference.kernel_attention([1e3], [0.0, 1.0], [2.0, 4.0]).tolist() == [4.0]


@pytest.mark.parametrize("kernel", [*reference.kernel_pooling.KERNELS, lambda u: 1 / (1 + u)])
def test_excluded_keys_may_hold_anything(kernel):
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(2, 3)), rng.normal(size=(2, 7)), rng.normal(size=(2, 7))
    q, k, v = q[..., None], k[..., None], v[..., None]
    short = reference.kernel_attention(q[1], k[1, :5], v[1, :5], kernel, 2.0)
    k[1, 5:], v[1, 5:] = np.nan, np.inf
    y, w = reference.kernel_attention(q, k, v, kernel, 2.0, valid_lens=[7, 5], return_weights=True)
    np.testing.assert_allclose(y[1], short)
    assert np.isfinite(y).all()
    assert (w[1, :, 5:] == 0).all()


def test_an_unknown_kernel_is_refused():
    with pytest.raises(ValueError, match=r"kernel must be one of gaussian, .* got 'cosine'"):
        reference.kernel_attention([0.0], [0.0], [0.0], "cosine")
