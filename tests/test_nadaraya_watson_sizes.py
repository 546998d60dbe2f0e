"""Nadaraya-Watson regression of numbers near the ends of their dtype."""

import numpy as np
import pytest

import qkv


@pytest.mark.parametrize(("dtype", "size"), [("f8", 1e155), ("f8", 1e307), ("f4", 2e19), ("f4", 1e37)])
def test_points_far_beyond_the_bandwidth_get_the_nearest_value(dtype, size):
    model = qkv.NadarayaWatson("gaussian", 1.0).fit((np.array([0.0, 1, 3]) * size).astype(dtype), [1.0, 2, 4])
    queries = (np.array([0.1, 0.9, 2.9, 1.5]) * size).astype(dtype)
    np.testing.assert_array_equal(model.predict(queries), [1, 2, 4, 2])
    np.testing.assert_array_equal(model.attention_weights(queries), np.eye(3)[[0, 1, 2, 1]])


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov", "triangular"])
@pytest.mark.parametrize("degree", [0, 1])
def test_values_and_weights_near_the_largest_number(kernel, degree):
    X, y, s = np.array([0.0, 1, 2]), np.array([1.0, 1.5, 0.8]), np.array([1.0, 1, 0.1])
    small = qkv.NadarayaWatson(kernel, 1.7, degree=degree).fit(X, y, sample_weight=s)
    large = qkv.NadarayaWatson(kernel, 1.7, degree=degree).fit(X, y * 1e308, sample_weight=s * 1e308)
    for one, other in zip(
        small.predict([0.3, 1.2], return_std=True), large.predict([0.3, 1.2], return_std=True), strict=True
    ):
        np.testing.assert_allclose(other / 1e308, one, rtol=1e-10)
    assert large.score(X, y * 1e308) == pytest.approx(small.score(X, y))
