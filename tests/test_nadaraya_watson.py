"""The estimator: predictions, bandwidth by leave-one-out, scikit-learn's conventions."""

from __future__ import annotations

import copy
import importlib.util
import pickle
import warnings

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
    errors, X = [], X / h
    for i in range(len(X)):
        others = np.arange(len(X)) != i
        found, w = reference.kernel_attention(
            X[i : i + 1], X[others], y[others], kernel, 1.0, return_weights=True
        )
        errors.append(y[i] - (found[0] if w.any() else y.mean()))
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
    assert model.bandwidth_.shape == (2,)  # one for each feature
    assert model.bandwidth_[1] > 3 * model.bandwidth_[0]  # y does not depend on the second
    for factor in (0.2, 0.8, 1.25, 5.0):
        for each in (np.ones(2), np.array([1, factor])):
            assert error <= slow_loo_error(X, y, kernel, model.bandwidth_ * factor / each) + 1e-12
    assert error < min(slow_loo_error(X, y, kernel, h) for h in np.geomspace(0.1, 5, 20))
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
    assert model.get_params() == {"kernel": "boxcar", "bandwidth": 2.0, "degree": 0}
    assert repr(NadarayaWatson(degree=1)) == "NadarayaWatson(kernel='gaussian', bandwidth=1.0, degree=1)"
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


@pytest.mark.parametrize("dtype", ["int64", "float64", "float32"])
def test_numbers_keep_their_digits(dtype):
    """Neighbours of 2**25 are the same number in float32; integers and mixed input are computed in float64."""
    X, y = (
        2**25 + np.arange(5, dtype=dtype if dtype != "float32" else "float64"),
        np.arange(1, 6, dtype=dtype),
    )
    for points, values in ((X, y), (X.tolist(), y.tolist()), (X[:, None], y.astype("float32"))):
        model = NadarayaWatson(bandwidth=0.1).fit(points, values)
        np.testing.assert_array_equal(model.predict(points), [1, 2, 3, 4, 5])
        assert model.predict(points).dtype == np.float64
        assert model.attention_weights(points).dtype == np.float64
    narrow = NadarayaWatson().fit(np.ones(3, "float32"), np.ones(3, "float32"))
    assert narrow.predict(np.ones(2, "float32")).dtype == np.float32
    assert narrow.predict([1, 2]).dtype == np.float64
    weighed = NadarayaWatson().fit(np.ones(3, "float32"), np.ones(3, "float32"), [1.0, 2.0, 3.0])
    assert weighed.predict(np.ones(2, "float32")).dtype == np.float32
    assert weighed.attention_weights(np.ones(2, "float32")).dtype == np.float32


@pytest.mark.filterwarnings(r"ignore:NadarayaWatson. \d+ of \d+ points have no training point in reach")
@pytest.mark.parametrize("kernel", ["gaussian", "boxcar", "triangular", lambda u: 1 / (1 + u * u)])
@pytest.mark.parametrize("outputs", [None, 3])
def test_sample_weights_count_points_several_times(kernel, outputs):
    X, y = sample(17)
    y = y if outputs is None else np.column_stack([y * i for i in range(outputs)])
    new = np.concatenate([sample(3, seed=1)[0] * 2, sample(4, seed=2)[0]])  # some far from all points
    s = np.random.default_rng(3).integers(0, 4, 17)
    weighted = NadarayaWatson(kernel, 0.9).fit(X, y, s)
    repeated = NadarayaWatson(kernel, 0.9).fit(X.repeat(s, 0), y.repeat(s, 0))
    np.testing.assert_allclose(weighted.predict(new), repeated.predict(new), rtol=1e-12, atol=1e-14)
    rows = weighted.attention_weights(new)
    assert rows.shape == (7, 17)
    assert not rows[:, s == 0].any()
    near = rows.any(1)
    np.testing.assert_allclose((rows @ y)[near], weighted.predict(new)[near], rtol=1e-12, atol=1e-14)
    assert near.sum() > 1
    np.testing.assert_allclose(
        weighted.score(X, y, s), repeated.score(X.repeat(s, 0), y.repeat(s, 0)), rtol=1e-12
    )
    even = NadarayaWatson(kernel, 0.9).fit(X, y, np.full(17, 0.25))
    np.testing.assert_allclose(
        even.predict(new), NadarayaWatson(kernel, 0.9).fit(X, y).predict(new), rtol=1e-12, atol=1e-14
    )


@pytest.mark.filterwarnings("ignore:NadarayaWatson. 1 of 1 points have no training point in reach")
@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov", lambda u: 1 / (1 + u * u)])
def test_leave_one_out_with_sample_weights(kernel):
    X, y = sample(23)
    s = np.random.default_rng(3).integers(0, 4, 23) / 2
    model = NadarayaWatson(kernel, "loo").fit(X, y, s)
    errors = []
    for i in range(23):
        others = np.arange(23) != i
        left = NadarayaWatson(kernel, model.bandwidth_).fit(X[others], y[others], s[others])
        found = left.predict(X[i : i + 1])[0]
        errors.append(y[i] - (np.average(y, weights=s) if np.isnan(found) else found))
    assert model.loo_error_ == pytest.approx(np.average(np.square(errors), weights=s), rel=1e-12)
    assert model.loo_error_ != NadarayaWatson(kernel, "loo").fit(X, y).loo_error_
    alike, plain = (
        NadarayaWatson(kernel, "loo").fit(X, y, np.full(23, 3.0)),
        NadarayaWatson(kernel, "loo").fit(X, y),
    )
    assert alike.loo_error_ == pytest.approx(plain.loo_error_, rel=1e-12)


class Strict(NadarayaWatson):
    """Runs also the checks that the tag no_validation leaves out."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.no_validation = False
        return tags


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kernel", ["gaussian", "triangular"])
@pytest.mark.parametrize("kind", [NadarayaWatson, Strict])
def test_scikit_learn_s_own_checks(kind, kernel):
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    found = checks.check_estimator(
        kind(kernel, 1.0 if kernel == "gaussian" else 3.0),
        on_fail=None,
        on_skip=None,
        expected_failed_checks={"check_fit1d": "scalars are legal"} if kind is Strict else {},
    )
    bad = {r["check_name"]: r["exception"] for r in found if r["status"] == "failed"}
    assert not bad
    expected = ["check_fit1d"] if kind is Strict else []
    assert [r["check_name"] for r in found if r["status"] == "xfail"] == expected
    assert len(found) > 45


def test_no_check_is_skipped_and_one_alone_is_expected_to_fail():
    """The one: scalars (L,) are legal points here, where scikit-learn asks that they be refused."""
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = checks.check_estimator(
            Strict(), on_fail=None, on_skip=None, expected_failed_checks={"check_fit1d": "scalars are legal"}
        )
        usual = checks.check_estimator(NadarayaWatson(), on_skip=None)  # raises where one fails
    status = {r["check_name"]: r["status"] for r in whole}
    skipped = {"check_array_api_input"}  # SciPy's array API is off
    if importlib.util.find_spec("pandas") is None:
        skipped |= {"check_regressor_data_not_an_array", "check_sample_weights_pandas_series"}
    assert {name for name, s in status.items() if s != "passed"} <= {"check_fit1d", *skipped}
    assert status["check_fit1d"] == "xfail"
    assert {r["check_name"] for r in usual if r["status"] != "passed"} <= skipped
    assert {r["check_name"] for r in usual} <= set(status)


def test_a_pipeline_searched_over_a_data_frame():
    pandas = pytest.importorskip("pandas")
    model_selection = pytest.importorskip("sklearn.model_selection")
    from sklearn.base import clone
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = sample(60)
    frame, target = pandas.DataFrame(X * [1, 100], columns=["a", "b"]), pandas.Series(y, name="y")
    scaler = StandardScaler().set_output(transform="pandas")
    pipeline = make_pipeline(scaler, NadarayaWatson())
    search = model_selection.GridSearchCV(
        pipeline, {"nadarayawatson__bandwidth": [0.05, 0.3, 5.0, "loo"]}, cv=3, n_jobs=1
    ).fit(frame, target)
    assert search.best_score_ > 0.5
    best = search.best_estimator_
    assert best[-1].feature_names_in_.tolist() == ["a", "b"]
    assert best.predict(frame).shape == (60,)
    assert best.score(frame, target) > search.best_score_ - 0.2
    scores = model_selection.cross_val_score(clone(best), frame, target, cv=3)
    assert scores.mean() == pytest.approx(search.best_score_)
    assert "NadarayaWatson" in repr(pipeline)
    assert "NadarayaWatson" in pipeline._repr_html_()
    twin = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(twin.predict(frame), search.predict(frame))
    logs = TransformedTargetRegressor(NadarayaWatson(), func=np.exp, inverse_func=np.log).fit(X, y)
    assert logs.predict(X).shape == (60,)


def test_its_error_is_scikit_learn_s():
    exceptions = pytest.importorskip("sklearn.exceptions")
    with pytest.raises(exceptions.NotFittedError, match="predict: fit must be called first") as caught:
        NadarayaWatson().predict([1.0])
    assert isinstance(caught.value, NotFittedError)
    twin = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(twin, NotFittedError)
    assert str(twin) == str(caught.value)


def test_data_frames():
    pandas = pytest.importorskip("pandas")
    X, y = sample(11)
    frame = pandas.DataFrame(X, columns=["a", "b"], index=range(7, 18))
    model = NadarayaWatson().fit(frame, pandas.Series(y, index=range(7, 18)), pandas.Series(np.ones(11)))
    assert model.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_array_equal(model.predict(frame), NadarayaWatson().fit(X, y, np.ones(11)).predict(X))
    with pytest.raises(ValueError, match=r"predict: The feature names should match .*\n.* same order"):
        model.predict(frame[["b", "a"]])
    with pytest.raises(
        ValueError, match=r"unseen at fit time:\n- c\nFeature names seen at fit time.*:\n- b\n"
    ):
        model.score(frame.rename(columns={"b": "c"}), y)
    with pytest.warns(
        UserWarning, match="X does not have valid feature names, but NadarayaWatson was fitted with"
    ):
        model.predict(X)
    plain = model.fit(X, y)
    assert not hasattr(plain, "feature_names_in_")
    with pytest.warns(UserWarning, match="X has feature names, but NadarayaWatson was fitted without"):
        plain.predict(frame)
    frame.columns = ["a", 1]
    with pytest.raises(
        TypeError, match="Feature names are only supported if all input features have string names"
    ):
        model.fit(frame, y)


def test_sparse_points_are_refused_by_name():
    sparse = pytest.importorskip("scipy.sparse")
    X, y = sample(5)
    for kind in (sparse.csr_array, sparse.coo_matrix):
        with pytest.raises(TypeError, match=r"fit: X must be dense .* not supported: pass X.toarray\(\)"):
            NadarayaWatson().fit(kind(X), y)


def test_scikit_learn_can_use_it():
    base = pytest.importorskip("sklearn.base")
    selection = pytest.importorskip("sklearn.model_selection")
    X, y = sample(60)
    cloned = base.clone(NadarayaWatson("boxcar", 2.0, 1))
    assert cloned.get_params() == {"kernel": "boxcar", "bandwidth": 2.0, "degree": 1}
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
        (
            lambda X, y: NadarayaWatson().fit(X + 1j, y),
            r"fit: X must hold real .* Complex data not supported",
        ),
        (
            lambda X, y: NadarayaWatson().fit(X, y + 0j),
            r"fit: y must hold real numbers; got dtype complex128",
        ),
        (lambda X, y: NadarayaWatson().fit(X.astype(str), y), r"fit: X must hold numbers; got dtype <U"),
        (
            lambda X, y: NadarayaWatson().fit([[1], [2, 3]], y),
            r"fit: X must be an array or lists .*; got list",
        ),
        (
            lambda X, y: NadarayaWatson().fit(np.ma.masked_less(X, 1), y),
            r"fit: X must have no masked entries because",
        ),
        (lambda X, y: NadarayaWatson().fit(X[:, :0], y), r"fit: X must have a feature .* got 0 feature\(s\)"),
        (
            lambda X, y: NadarayaWatson().fit(X, None),
            r"fit: requires y to be passed, but the target y is None",
        ),
        (
            lambda X, y: NadarayaWatson().fit(X, y).predict(X[0]),
            r"predict: X must be \(L, 2\) .* got X \(2,\). Reshape your data",
        ),
        (lambda X, y: NadarayaWatson().fit(X, y, y[1:]), r"fit: sample_weight must be \(43,\) .* \(42,\)"),
        (
            lambda X, y: NadarayaWatson().fit(X, y, -np.ones(43)),
            r"fit: sample_weight must be zero or above, .* got weights from -1.0 to -1.0",
        ),
        (lambda X, y: NadarayaWatson().fit(X, y, 0 * y), r"fit: sample_weight .* above zero for a point"),
        (
            lambda X, y: NadarayaWatson().fit(X, y).score(X, y, y[1:]),
            r"score: sample_weight must be \(43,\) .* \(42,\)",
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


def test_objects_are_no_numbers():
    X, y = sample(3)
    X = X.astype(object)
    assert NadarayaWatson().fit(X, y).X_.dtype == np.float64
    X[0, 0] = {}
    with pytest.raises(TypeError, match=r"fit: X must hold real numbers; .* got dtype object"):
        NadarayaWatson().fit(X, y)
