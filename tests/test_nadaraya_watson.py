"""The estimator: predictions, bandwidth by leave-one-out, scikit-learn's conventions."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from tolerances import TOLERANCES

from qkv import NadarayaWatson, kernel_attention, reference
from qkv.kernel_pooling import NotFittedError


def sample(n=43, features=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, features)) * 5
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)


def slow_loo_error(X, y, kernel, h):
    errors = []
    for i in range(len(X)):
        others = np.arange(len(X)) != i
        errors.append(y[i] - reference.kernel_attention(X[i : i + 1], X[others], y[others], kernel, h)[0])
    return np.mean(np.square(errors))


@pytest.mark.parametrize("kernel", ["gaussian", "boxcar", "epanechnikov", lambda u: 1 / (1 + u * u)])
def test_predictions_and_weights(kernel):
    X, y = sample()
    new = sample(7, seed=1)[0]
    model = NadarayaWatson(kernel, 1.3)
    assert model.fit(X, y) is model
    expected, w = reference.kernel_attention(new, X, y, kernel, 1.3, return_weights=True)
    np.testing.assert_allclose(model.predict(new), expected, *TOLERANCES["float64"])
    np.testing.assert_allclose(model.attention_weights(new), w, *TOLERANCES["float64"])
    assert model.n_features_in_ == 2
    assert model.bandwidth_ == 1.3


def test_scalars_and_several_outputs():
    x, y = np.linspace(0, 1, 7), np.linspace(3, 5, 14).reshape(7, 2) ** 2
    model = NadarayaWatson(bandwidth=0.2).fit(x, y)
    assert model.n_features_in_ == 1
    np.testing.assert_array_equal(model.predict(x), kernel_attention(x, x, y, bandwidth=0.2))


def test_a_bandwidth_per_feature():
    X, y = sample()
    h = np.array([0.5, 20.0])
    y_hat = NadarayaWatson(bandwidth=h).fit(X, y).predict(X[:5])
    np.testing.assert_allclose(y_hat, reference.kernel_attention(X[:5] / h, X / h, y))
    narrow = NadarayaWatson(bandwidth=[0.5, 0.5]).fit(X, y).predict(X[:5])
    np.testing.assert_allclose(narrow, NadarayaWatson(bandwidth=0.5).fit(X, y).predict(X[:5]))


@pytest.mark.parametrize(
    "kernel", ["gaussian", "boxcar", "epanechnikov", "triangular", lambda u: 1 / (1 + u**4)]
)
def test_leave_one_out(kernel):
    X, y = sample()
    model = NadarayaWatson(kernel, "loo").fit(X, y)
    error = slow_loo_error(X, y, kernel, model.bandwidth_)
    np.testing.assert_allclose(model.loo_error_, error, *TOLERANCES["float64"])
    for h in model.bandwidth_ * np.array([0.2, 0.8, 1.25, 5.0]):
        assert error <= slow_loo_error(X, y, kernel, h) + 1e-12
    assert model.score(*sample(101, seed=2)) > 0.8
    assert not hasattr(model.set_params(bandwidth=1.0).fit(X, y), "loo_error_")


def test_leave_one_out_of_the_constant_kernel():
    X, y = sample(5)
    expected = np.mean([(y[i] - np.delete(y, i).mean()) ** 2 for i in range(5)])
    np.testing.assert_allclose(NadarayaWatson("constant", "loo").fit(X, y).loo_error_, expected)


def test_score():
    X, y = sample()
    model = NadarayaWatson(bandwidth=0.7).fit(X, y)
    y_hat = model.predict(X)
    expected = 1 - ((y - y_hat) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    assert model.score(X, y) == pytest.approx(expected, rel=1e-12)
    assert NadarayaWatson("constant").fit(X, y).score(X, y) == pytest.approx(0.0, abs=1e-12)
    assert NadarayaWatson("constant").fit([0.0, 1.0], [2.0, 2.0]).score([0.0, 1.0], [2.0, 2.0]) == 1.0


def test_parameters_and_copies():
    model = NadarayaWatson("boxcar", 2.0)
    assert model.get_params() == {"kernel": "boxcar", "bandwidth": 2.0}
    assert repr(model.set_params(bandwidth="loo")) == "NadarayaWatson(kernel='boxcar', bandwidth='loo')"
    X, y = sample()
    model.fit(X, y)
    X[0] = 1e9  # the estimator has its own copy
    assert model.X_.max() < 10
    twin = copy.deepcopy(model)
    np.testing.assert_array_equal(twin.predict(X[1:3]), model.predict(X[1:3]))
    fresh = type(model)(**model.get_params())
    with pytest.raises(NotFittedError, match=r"NadarayaWatson.predict: fit must be called first"):
        fresh.predict(X)
    assert issubclass(NotFittedError, (ValueError, AttributeError))


def test_scikit_learn_can_use_it():
    base = pytest.importorskip("sklearn.base")
    selection = pytest.importorskip("sklearn.model_selection")
    X, y = sample(60)
    assert base.clone(NadarayaWatson("boxcar", 2.0)).get_params() == {"kernel": "boxcar", "bandwidth": 2.0}
    search = selection.GridSearchCV(NadarayaWatson(), {"bandwidth": [0.1, 0.5, 5.0]}).fit(X, y)
    assert search.best_params_["bandwidth"] == 0.5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X, y: NadarayaWatson().fit(X, y[:-1]), r"fit: y must be .* got X \(43, 2\), y \(42,\)"),
        (lambda X, y: NadarayaWatson().fit(X[:0], y[:0]), r"fit: y must be .* L > 0 points; got X \(0, 2\)"),
        (lambda X, y: NadarayaWatson().fit(X[None], y), r"fit: X must be \(L, D\) .* got X \(1, 43, 2\)"),
        (lambda X, y: NadarayaWatson().fit(X * np.nan, y), r"fit: X must be finite"),
        (lambda X, y: NadarayaWatson().fit(X, y * np.inf), r"fit: y must be finite"),
        (lambda X, y: NadarayaWatson(bandwidth=-1.0).fit(X, y), r"fit: bandwidth must be .* got -1.0"),
        (
            lambda X, y: NadarayaWatson(bandwidth=[1.0]).fit(X, y),
            r"fit: bandwidth must be .*\(2,\); got \[1.0\]",
        ),
        (lambda X, y: NadarayaWatson(bandwidth="cv").fit(X, y), r"fit: bandwidth must be .* got 'cv'"),
        (
            lambda X, y: NadarayaWatson().fit(X, y).predict(X[:, :1]),
            r"predict: X must have the 2 features .* \(43, 1\)",
        ),
        (
            lambda X, y: NadarayaWatson().fit(X, y).score(X, y[:3]),
            r"score: y must be \(43,\) .* got y \(3,\)",
        ),
        (lambda X, y: NadarayaWatson().set_params(width=1), r"set_params: names must be .* got 'width'"),
    ],
)
def test_rejections(make, message):
    with pytest.raises(ValueError, match=r"NadarayaWatson\." + message):
        make(*sample())


def test_an_unknown_kernel_is_refused():
    with pytest.raises(ValueError, match=r"NadarayaWatson: kernel must be one of .* got 'cosine'"):
        NadarayaWatson("cosine", "loo").fit(*sample())
