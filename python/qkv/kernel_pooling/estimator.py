"""Kernel regression with scikit-learn's conventions, which needs no scikit-learn."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._errors import shown
from .functions import Kernel, kernel_attention
from .inputs import check_feature_names, feature_names, floats, not_fitted, points, weights


class NadarayaWatson:
    """Kernel regression ``f(x) = sum_j K(||x - X_j|| / h) y_j / sum_j K(||x - X_j|| / h)``.

    Follows scikit-learn's conventions (`get_params`, `set_params`, attributes with a trailing underscore,
    clones, pipelines and grid searches; its ``check_estimator`` passes) without needing scikit-learn. Computes in
    float64, and in float32 where all of ``X`` and ``y`` are float32. One-dimensional ``X`` is legal and means scalars.

    Parameters
    ----------
    kernel : str or callable, default "gaussian"
        As in `kernel_attention`.
    bandwidth : float, array_like (D,) or "loo", default 1.0
        One bandwidth for all features, one per feature, or the one with the least leave-one-out error: each
        point is predicted from all others, as `predict` would (zero where no other point has weight). The
        grid has 41 logarithmic steps from 1e-3 to 10 times the spread of ``X``, the root of the sum of its
        features' variances; the interval around its best entry is then searched twice by 11 steps. Errors are
        averaged with the sample weights, and a point is left out with its whole weight.

    Attributes
    ----------
    bandwidth_ : float or ndarray (D,)
        The bandwidth in use.
    loo_error_ : float
        Mean squared leave-one-out error at ``bandwidth_``; only with ``bandwidth="loo"``.
    n_features_in_ : int
    feature_names_in_ : ndarray (D,) of str
        Only where ``X`` was a data frame whose columns have names.
    sample_weight_ : ndarray (L,) or None
    X_, y_ : ndarray
        The training points (L, D) and values (L,) or (L, Dv).

    References
    ----------
    Nadaraya, "On estimating regression", 1964; Watson, "Smooth regression analysis", 1964.

    Examples
    --------
    >>> model = qkv.NadarayaWatson(bandwidth=0.5).fit([0.0, 1.0], [2.0, 4.0])
    >>> model.predict([0.5])
    array([3.])
    """

    _estimator_type = "regressor"

    def __init__(self, kernel: Kernel = "gaussian", bandwidth: Any = 1.0) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NadarayaWatson:
        """Keep the training points and settle the bandwidth.

        Parameters
        ----------
        X : array_like, (L, D) or (L,)
        y : array_like, (L,) or (L, Dv)
        sample_weight : array_like, (L,), optional
            Factors of the points' kernels, 0 or above: a weight of 2 counts as the same point twice, a weight of 0 as
            none.

        Returns
        -------
        NadarayaWatson
            The estimator itself.

        Raises
        ------
        ValueError
            If shapes do not fit, there is no point, a number is complex or not finite, a weight is below 0 or the
            bandwidth is not above 0.
        TypeError
            If `X` is sparse or does not hold numbers.

        Examples
        --------
        >>> qkv.NadarayaWatson(bandwidth="loo").fit([0.0, 1.0, 2.0], [0.0, 1.0, 2.0]).n_features_in_
        1
        """
        if y is None:
            raise ValueError("NadarayaWatson.fit: requires y to be passed, but the target y is None")
        table, values = points(X, "fit").copy(), floats(y, "fit", "y").copy()
        if values.ndim not in (1, 2) or len(values) != len(table) or len(table) == 0:
            raise ValueError(
                f"NadarayaWatson.fit: y must be (L,) or (L, Dv) with one row for each of the L > 0 points; "
                f"got X {table.shape}, y {values.shape}"
            )
        names = feature_names(X)
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.sample_weight_ = weights(sample_weight, len(table), "fit")
        self.n_features_in_: int = table.shape[1]
        self.X_, self.y_ = table, values
        self.bandwidth_: float | NDArray[np.float64]
        if isinstance(self.bandwidth, str):
            if self.bandwidth != "loo":
                raise ValueError(
                    f"NadarayaWatson.fit: bandwidth must be a number, one number per feature or 'loo'; "
                    f"got {shown(self.bandwidth)}"
                )
            self.bandwidth_, self.loo_error_ = _least_error(*self._counting(), self.kernel)
            return self
        h = np.asarray(self.bandwidth, np.float64)
        if h.shape not in ((), (self.n_features_in_,)) or not (h > 0).all():
            raise ValueError(
                f"NadarayaWatson.fit: bandwidth must be a number above 0 or one per feature, "
                f"({self.n_features_in_},); got {shown(self.bandwidth)}"
            )
        self.bandwidth_ = float(h) if h.ndim == 0 else h
        if hasattr(self, "loo_error_"):
            del self.loo_error_
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Pool the training values around each point of `X`.

        Parameters
        ----------
        X : array_like, (Lq, D) or (Lq,)

        Returns
        -------
        ndarray, (Lq,) or (Lq, Dv)

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` has another number of features than the training points.

        Examples
        --------
        >>> qkv.NadarayaWatson("boxcar", 2.0).fit([0.0, 1.0, 9.0], [2.0, 4.0, 8.0]).predict([0.0])
        array([3.])
        """
        queries = self._queries(X, "predict")
        keys, values, s = self._counting()
        if s is None:
            return np.asarray(self._attend(queries, keys, values, False))
        # Kernel times weight over its sum: both sums are poolings, of s * y and of s.
        table = values.reshape(len(values), -1)
        sums = np.asarray(self._attend(queries, keys, np.column_stack([s[:, None] * table, s]), False))
        total = sums[:, -1:]
        averages = sums[:, :-1] / np.where(total > 0, total, 1)
        return averages.reshape(len(queries), *values.shape[1:])

    def attention_weights(self, X: Any) -> NDArray[Any]:
        """Weight of each training point for each point of `X`.

        Parameters
        ----------
        X : array_like, (Lq, D) or (Lq,)

        Returns
        -------
        ndarray, (Lq, L)
            Rows sum to 1, or are zeros where no training point has weight.

        Raises
        ------
        NotFittedError
            Before `fit`.

        Examples
        --------
        >>> qkv.NadarayaWatson("constant").fit([0.0, 1.0], [2.0, 4.0]).attention_weights([0.0])
        array([[0.5, 0.5]])
        """
        queries = self._queries(X, "attention_weights")
        keys, values, s = self._counting()
        rows = np.asarray(self._attend(queries, keys, values, True)[1])
        given = self.sample_weight_
        if s is None or given is None:
            return rows
        rows = rows * s
        total = rows.sum(-1, keepdims=True)
        whole = np.zeros((len(queries), len(self.X_)))
        whole[:, given > 0] = rows / np.where(total > 0, total, 1)
        return whole

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination ``R^2 = 1 - sum (y - f(X))^2 / sum (y - mean)^2``.

        Parameters
        ----------
        X : array_like, (Lq, D) or (Lq,)
        y : array_like, (Lq,) or (Lq, Dv)
            Several outputs are averaged.
        sample_weight : array_like, (Lq,), optional
            Factors of the squares and in the mean.

        Returns
        -------
        float
            1 at best; 0 is as good as the mean. For a constant `y`: 1 if it is met exactly, else 0.

        Raises
        ------
        ValueError
            If `y` does not fit to `X`.

        Examples
        --------
        >>> qkv.NadarayaWatson(bandwidth=0.01).fit([0.0, 1.0], [2.0, 4.0]).score([0.0, 1.0], [2.0, 4.0])
        1.0
        """
        predicted = self.predict(X).astype(np.float64)
        actual = floats(y, "score", "y").astype(np.float64)
        if predicted.shape != actual.shape:
            raise ValueError(
                f"NadarayaWatson.score: y must be {predicted.shape} to match the predictions; "
                f"got y {actual.shape}"
            )
        s = weights(sample_weight, len(actual), "score")
        s = np.ones(len(actual)) if s is None else s
        error = np.atleast_1d(s @ (actual - predicted) ** 2)
        total = np.atleast_1d(s @ (actual - s @ actual / s.sum()) ** 2)
        known = np.where(total > 0, 1 - error / np.where(total > 0, total, 1), np.where(error > 0, 0.0, 1.0))
        return float(known.mean())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Give the parameters of the constructor by name.

        Examples
        --------
        >>> qkv.NadarayaWatson().get_params()
        {'kernel': 'gaussian', 'bandwidth': 1.0}
        """
        return {"kernel": self.kernel, "bandwidth": self.bandwidth}

    def set_params(self, **params: Any) -> NadarayaWatson:
        """Change parameters of the constructor; they count from the next `fit` on.

        Raises
        ------
        ValueError
            If a name is unknown.

        Examples
        --------
        >>> qkv.NadarayaWatson().set_params(bandwidth=2.0)
        NadarayaWatson(kernel='gaussian', bandwidth=2.0)
        """
        for name, value in params.items():
            if name not in ("kernel", "bandwidth"):
                raise ValueError(
                    f"NadarayaWatson.set_params: names must be kernel or bandwidth because there are no "
                    f"others; got {name!r}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        return f"NadarayaWatson(kernel={self.kernel!r}, bandwidth={self.bandwidth!r})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "X_")

    def __sklearn_tags__(self) -> Any:
        # Only scikit-learn asks, so it is there. Everything is validated, but scalars (L,) are legal: no_validation
        # keeps check_estimator from asking that they be refused, and the tests run the checks that it leaves out.
        utils = importlib.import_module("sklearn.utils")
        return utils.Tags(
            estimator_type="regressor",
            target_tags=utils.TargetTags(required=True, multi_output=True),
            regressor_tags=utils.RegressorTags(),
            no_validation=True,
        )

    def _queries(self, X: Any, method: str) -> NDArray[Any]:
        if not hasattr(self, "X_"):
            raise not_fitted(
                f"NadarayaWatson.{method}: fit must be called first because predictions are averages of the "
                f"training values; got an estimator that was not fitted"
            )
        check_feature_names(X, getattr(self, "feature_names_in_", None), method)
        return points(X, method, self.n_features_in_)

    def _counting(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64] | None]:
        """Training points and values that have a weight, and the weights, if any."""
        s = self.sample_weight_
        if s is None:
            return self.X_, self.y_, None
        return self.X_[s > 0], self.y_[s > 0], s[s > 0]

    def _attend(
        self, queries: NDArray[Any], keys: NDArray[Any], values: NDArray[Any], with_weights: bool
    ) -> Any:
        h = self.bandwidth_
        if isinstance(h, float):
            return kernel_attention(queries, keys, values, self.kernel, h, return_weights=with_weights)
        queries, keys = (queries / h).astype(queries.dtype), (keys / h).astype(keys.dtype)
        return kernel_attention(queries, keys, values, self.kernel, return_weights=with_weights)


def _least_error(
    table: NDArray[Any], values: NDArray[Any], s: NDArray[np.float64] | None, kernel: Kernel
) -> tuple[float, float]:
    """Bandwidth with the least leave-one-out error, and that error."""
    values = values if values.ndim == 2 else values[:, None]
    spread = float(np.sqrt(table.astype(np.float64).var(0).sum())) or 1.0

    even = None if s is None else s / s.mean()

    def errors(bandwidths: NDArray[np.float64]) -> NDArray[np.float64]:
        if callable(kernel):
            return np.array([_callable_error(table, values, s, kernel, float(h)) for h in bandwidths])
        return np.asarray(_core.leave_one_out_errors(table, values, kernel, bandwidths.tolist(), even))

    grid = spread * np.geomspace(1e-3, 10, 41)
    for steps in (11, 11, 0):
        found = np.nan_to_num(errors(grid), nan=np.inf)
        best = int(np.argmin(found))
        if steps:
            grid = np.geomspace(grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)], steps)
    return float(grid[best]), float(found[best])


def _callable_error(
    table: NDArray[Any],
    values: NDArray[Any],
    s: NDArray[np.float64] | None,
    kernel: Callable[[Any], Any],
    h: float,
) -> float:
    rows = np.array(kernel(_core.scaled_distances(table, table, h, None)), np.float64)
    np.fill_diagonal(rows, 0.0)
    predicted = _core.pool_by_kernel(rows if s is None else rows * s, values, None, False)
    return float(np.average(((values - predicted) ** 2).mean(1), weights=s))
