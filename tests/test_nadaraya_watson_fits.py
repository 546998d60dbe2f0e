"""The estimator's rules of bandwidth, its answer where nothing is in reach, its spread and its local lines."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sweep import sweep
from test_nadaraya_watson import sample
from tolerances import TOLERANCES

from qkv import NadarayaWatson, kernel_attention, reference

COMPACT = ["boxcar", "epanechnikov", "triangular", lambda u: np.maximum(1 - np.asarray(u) ** 3, 0)]
FAR = np.array([[1.0, 1.0], [99.0, 0.0], [2.0, 3.0], [-50.0, 1.0]])


@pytest.mark.parametrize("kernel", COMPACT)
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
@sweep("degree", [0, 1])
def test_out_of_reach_is_nan_with_one_warning(kernel, outputs, weighted, degree):
    X, y = sample()
    y = y if outputs == 1 else np.column_stack([y] * outputs)
    s = np.arange(43) % 3 + 0.5 if weighted else None
    model = NadarayaWatson(kernel, 1.5, degree).fit(X, y, s)
    for options in ({}, {"return_std": True}):
        with pytest.warns(
            UserWarning, match="NadarayaWatson: 2 of 4 points have no training point"
        ) as caught:
            found = model.predict(FAR, **options)
        assert len(caught) == 1
        assert caught[0].filename == __file__
        for part in found if options else [found]:
            assert part.shape == (4, *y.shape[1:])
            np.testing.assert_array_equal(np.isnan(part.reshape(4, -1)[:, 0]), [False, True, False, True])
    assert not model.attention_weights(FAR)[1].any()
    with pytest.warns(UserWarning, match="2 of 4 points"):
        assert np.isnan(model.score(FAR, y[:4]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(model.predict(X)).all()
        assert np.isfinite(NadarayaWatson("gaussian", 0.01, degree).fit(X, y, s).predict(FAR)).all()
    assert kernel_attention(FAR, X, y, kernel, 1.5)[1].max() == 0  # the function's answer


def test_out_of_reach_is_nan_in_scikit_learn_s_searches():
    selection = pytest.importorskip("sklearn.model_selection")
    X, y = sample(60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = selection.GridSearchCV(NadarayaWatson("boxcar"), {"bandwidth": [0.01, 2.0]}).fit(X, y)
    assert search.best_params_["bandwidth"] == 2.0


@pytest.mark.parametrize("kernel", ["gausian", "Gaussian", "", None, 3])
@pytest.mark.parametrize("bandwidth", [1.0, "loo", "scott"])
def test_a_misspelt_kernel_fails_at_fit(kernel, bandwidth):
    model = NadarayaWatson(kernel, bandwidth)
    with pytest.raises((ValueError, TypeError), match=r"kernel"):
        model.fit(*sample())
    with pytest.raises(ValueError, match=r"^NadarayaWatson.fit: degree must be 0 or 1; got 2$"):
        NadarayaWatson(degree=2).fit(*sample())
    with pytest.raises(ValueError, match=r"^NadarayaWatson.fit: degree must be 0 or 1; got True$"):
        NadarayaWatson(degree=True).fit(*sample())
    for given in (True, np.array(True), [True]):
        with pytest.raises(
            ValueError, match=r"^NadarayaWatson.fit: bandwidth must be a number above 0 or one"
        ):
            NadarayaWatson(bandwidth=given).fit(*sample())


@pytest.mark.parametrize("weighted", [False, True])
def test_rules_of_thumb(weighted):
    X, y = sample(37, 3)
    X *= [1.0, 20.0, 0.3]
    s = np.arange(37) % 4 + 1.0 if weighted else None
    n, d = (37 if s is None else s.sum() ** 2 / (s**2).sum()), 3
    variance = np.diag(np.cov(X.T, aweights=s))
    for rule, factor in (("scott", n), ("silverman", n * (d + 2) / 4)):
        model = NadarayaWatson(bandwidth=rule).fit(X, y, s)
        np.testing.assert_allclose(model.bandwidth_, np.sqrt(variance) * factor ** (-1 / (d + 4)), rtol=1e-12)
        same = NadarayaWatson(bandwidth=model.bandwidth_).fit(X, y, s)
        np.testing.assert_array_equal(model.predict(X), same.predict(X))
        assert not hasattr(model, "loo_error_")
    one = NadarayaWatson(bandwidth="scott").fit(X[:, 0], y)
    np.testing.assert_allclose(one.bandwidth_, X[:, 0].std(ddof=1) * 37**-0.2)
    X[:, 1] = 7.0
    assert NadarayaWatson(bandwidth="scott").fit(X, y).bandwidth_[1] == 1.0
    assert NadarayaWatson(bandwidth="silverman").fit([3.0], [1.0]).predict([3.0]) == [1.0]


def test_they_are_scipy_s():
    stats = pytest.importorskip("scipy.stats")
    X, y = sample(31, 1)
    s = np.random.default_rng(4).random(31)
    for rule in ("scott", "silverman"):
        density = stats.gaussian_kde(X[:, 0], rule, s)
        found = NadarayaWatson(bandwidth=rule).fit(X, y, s).bandwidth_
        np.testing.assert_allclose(found, np.sqrt(density.covariance[0]), rtol=1e-12)


def test_features_without_influence_get_wide_bandwidths():
    X, y = sample(60, 3, seed=5)
    X *= [1.0, 1000.0, 0.01]
    model = NadarayaWatson(bandwidth="loo").fit(X, y)
    spread = X.std(0)
    assert (model.bandwidth_ / spread)[0] < 0.5
    assert (model.bandwidth_ / spread)[1:].min() > 1
    assert isinstance(NadarayaWatson(bandwidth="loo").fit(X[:, 0], y).bandwidth_, float)
    constant = np.column_stack([X[:, 0], np.full(60, 3.0)])
    assert np.isfinite(NadarayaWatson(bandwidth="loo").fit(constant, y).loo_error_)


def test_nobody_in_reach_counts_as_the_mean():
    x, y = np.array([0.0, 10.0, 20.0]), np.array([1.0, 4.0, 10.0])
    model = NadarayaWatson("boxcar", "loo").fit(np.r_[x, 1000.0], np.r_[y, 5.0])
    lonely = NadarayaWatson(lambda u: 1.0 * (np.asarray(u) < 1), "loo").fit(np.r_[x, 1000.0], np.r_[y, 5.0])
    assert model.loo_error_ == pytest.approx(lonely.loo_error_, rel=1e-12)
    grid = np.geomspace(0.5, 5000, 400)
    place = np.r_[x, 1000.0]
    value, best = np.r_[y, 5.0], np.inf
    for h in grid:
        near = (np.abs(place[:, None] - place) < h) & ~np.eye(4, dtype=bool)
        count = near.sum(1)
        found = np.where(count > 0, near @ value / np.maximum(count, 1), value.mean())
        best = min(best, ((value - found) ** 2).mean())
    assert model.loo_error_ == pytest.approx(best, rel=1e-12)
    assert NadarayaWatson(bandwidth="loo").fit([1.0], [3.0]).loo_error_ == 0


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov", lambda u: 1 / (1 + u * u)])
@pytest.mark.parametrize("outputs", [1, 3])
def test_the_spread_is_that_of_the_weights(kernel, outputs):
    X, y = sample()
    y = y if outputs == 1 else np.column_stack([y * i + i for i in range(outputs)])
    new = sample(7, seed=1)[0]
    for s in (None, np.arange(43) % 3.0):
        model = NadarayaWatson(kernel, [1.4, 2.0]).fit(X, y, s)
        mean, std = model.predict(new, return_std=True)
        w = model.attention_weights(new)
        np.testing.assert_allclose(mean, model.predict(new), *TOLERANCES["float64"])
        for i in range(7):
            np.testing.assert_allclose(std[i] ** 2, w[i] @ (y - mean[i]) ** 2, *TOLERANCES["float64"])
        assert mean.shape == std.shape == new.shape[:1] + y.shape[1:]
    far = NadarayaWatson(bandwidth=0.01).fit([0.0, 1e8], [1e8, 2e8]).predict([0.0], return_std=True)
    assert far[1] == [0.0]


@pytest.mark.parametrize("kernel", ["gaussian", "triangular", lambda u: 1 / (1 + u**4)])
@pytest.mark.parametrize("bandwidth", [2.0, [1.5, 3.0]])
def test_local_lines_are_weighted_least_squares(kernel, bandwidth):
    X, y = sample()
    new = sample(7, seed=1)[0]
    for s in (None, np.arange(43) % 3.0):
        model = NadarayaWatson(kernel, bandwidth, 1).fit(X, y, s)
        _, w = reference.kernel_attention(new / bandwidth, X / bandwidth, y, kernel, 1.0, return_weights=True)
        w = w if s is None else w * s
        for place, weight, found in zip(new, w, model.predict(new), strict=True):
            root = np.sqrt(weight)
            design = np.column_stack([np.ones(43), X - place]) * root[:, None]
            wanted = np.linalg.lstsq(design, y * root, rcond=None)[0][0]
            assert found == pytest.approx(wanted, rel=1e-9)
    plane = NadarayaWatson(kernel, bandwidth, 1).fit(X, X @ [[2.0, 1.0], [-3.0, 0.5]] + 7)
    np.testing.assert_allclose(plane.predict(new), new @ [[2.0, 1.0], [-3.0, 0.5]] + 7, rtol=1e-9)


def test_local_lines_have_no_bias_at_the_ends(monkeypatch):
    x = np.linspace(0, 1, 50)
    means, lines = (NadarayaWatson(bandwidth=0.1, degree=d).fit(x, x).predict([0.0, 1.0]) for d in (0, 1))
    assert np.abs(means - [0, 1]).min() > 0.05
    np.testing.assert_allclose(lines, [0, 1], atol=1e-9)
    alone = NadarayaWatson("boxcar", 0.5, 1).fit([0.0, 3.0], [2.0, 5.0])
    np.testing.assert_array_equal(alone.predict([0.1, 3.0]), [2.0, 5.0])  # one point in reach fixes no line
    same = NadarayaWatson(degree=1).fit([[1.0, 1.0], [1.0, 1.0]], [2.0, 4.0]).predict([[5.0, 0.0]])
    np.testing.assert_allclose(same, [3.0])
    x, y = np.random.default_rng(0).standard_normal((2, 31))
    few = NadarayaWatson("triangular", 0.05, 1).fit(np.append(x, x), np.append(y, y))
    new = x + np.linspace(0.01, 0.04, 31)
    lone = (np.abs(new[:, None] - x) < 0.05).sum(1) == 1  # its weight is 1 only to rounding
    np.testing.assert_allclose(few.predict(new)[lone], y[lone], rtol=1e-12)
    steep = NadarayaWatson(lambda u: np.exp(-50 * u), degree=1).fit([0.0, 1.0], [2.0, 5.0])
    np.testing.assert_allclose(
        steep.predict([0.0, 0.01]), [2.0, 2.03], rtol=1e-9
    )  # the other has weight 2e-22
    assert (
        NadarayaWatson(degree=1).fit(x.astype("f4"), x.astype("f4")).predict(x.astype("f4")).dtype
        == np.float32
    )
    whole = NadarayaWatson(bandwidth=0.1, degree=1).fit(x, x**2)
    expected = whole.predict(x, return_std=True)
    monkeypatch.setattr("qkv.kernel_pooling.local.NUMBERS", 300)  # three queries at a time
    np.testing.assert_allclose(whole.predict(x, return_std=True), expected, rtol=1e-12)


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov", lambda u: 1 / (1 + u * u)])
@pytest.mark.parametrize("features", [1, 2])
def test_leave_one_out_of_local_lines(kernel, features):
    X, y = sample(19, features)
    s = np.random.default_rng(3).integers(1, 4, 19) / 2
    model = NadarayaWatson(kernel, "loo", 1).fit(X, y, s)
    errors = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(19):
            others = np.arange(19) != i
            left = NadarayaWatson(kernel, model.bandwidth_, 1).fit(X[others], y[others], s[others])
            found = left.predict(X[i : i + 1])[0]
            errors.append(y[i] - (np.average(y, weights=s) if np.isnan(found) else found))
    assert model.loo_error_ == pytest.approx(np.average(np.square(errors), weights=s), rel=1e-9)
    assert model.loo_error_ != NadarayaWatson(kernel, "loo").fit(X, y, s).loo_error_
