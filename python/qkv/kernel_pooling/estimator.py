"""Kernel regression with scikit-learn's conventions, which needs no scikit-learn."""

from __future__ import annotations

import importlib
import warnings
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _core
from .._words.errors import shown
from ..functions.grad_mode import refuse_gradients
from .bandwidths import RULES, LeaveOneOut, by_rule
from .functions import Kernel, kernel_attention
from .inputs import ADVICE, check_feature_names, feature_names, floats, not_fitted, points, weights
from .local import in_blocks, local_fit, power_above, product

PARAMETERS = ("kernel", "bandwidth", "degree")


class NadarayaWatson:
    """Kernel regression ``f(x) = sum_j K(||x - X_j|| / h) y_j / sum_j K(||x - X_j|| / h)``, or local lines.

    Follows scikit-learn's conventions (`get_params`, `set_params`, attributes with a trailing underscore,
    clones, pipelines and grid searches; its ``check_estimator`` passes) without needing scikit-learn. Computes in
    float64, and in float32 where all of ``X`` and ``y`` are float32. One-dimensional ``X`` is legal and means scalars.

    Parameters
    ----------
    kernel : str or callable, default "gaussian"
        As in `kernel_attention`.
    bandwidth : float, array_like (D,), "loo", "scott" or "silverman", default 1.0
        One bandwidth for all features, one per feature, or a rule that finds it at `fit`:

        "scott" ``h_j = s_j n^(-1/(D+4))`` and "silverman" ``h_j = s_j (n (D+2) / 4)^(-1/(D+4))``, where ``s_j`` is
        the standard deviation of feature j (a constant feature gets 1); with sample weights as in SciPy's
        ``gaussian_kde``, ``n = (sum s)^2 / sum s^2``.

        "loo", the least leave-one-out error: each point is predicted from all others, as `predict` would (the mean
        of `y` where no other point has weight). The grid has 41 logarithmic steps from 1e-3 to 10 times the spread
        of ``X``, the root of the sum of its features' variances; the interval around its best entry is then searched
        twice by 11 steps. With several features that is done for one bandwidth and for one multiple of the features'
        standard deviations; from the better one each bandwidth is multiplied by 2^(+-4, 2, 1, 1/2) where that
        lowers the error, then all of them by a factor of 0.1 to 10, up to four times. Errors are averaged with the
        sample weights, and a point is left out with its whole weight.
    degree : {0, 1}, default 0
        0 for weighted means; 1 for local lines: ``f(x) = a`` of the least
        ``sum_j K_j (y_j - a - b (X_j - x))^2``, which has no bias at the ends of the data and where points lie
        unevenly.

    Attributes
    ----------
    bandwidth_ : float or ndarray (D,)
        The bandwidth in use.
    loo_error_ : float
        Mean squared leave-one-out error at ``bandwidth_``, which is (D,) where D > 1; only with ``bandwidth="loo"``.
    n_features_in_ : int
    feature_names_in_ : ndarray (D,) of str
        Only where ``X`` was a data frame whose columns have names.
    sample_weight_ : ndarray (L,) or None
    X_, y_ : ndarray
        The training points (L, D) and values (L,) or (L, Dv).

    References
    ----------
    Nadaraya, "On estimating regression", 1964; Watson, "Smooth regression analysis", 1964; Cleveland, "Robust
    locally weighted regression", 1979; Scott, "Multivariate density estimation", 1992.

    Examples
    --------
    >>> model = qkv.NadarayaWatson(bandwidth=0.5).fit([0.0, 1.0], [2.0, 4.0])
    >>> model.predict([0.5])
    array([3.])
    """

    _estimator_type = "regressor"

    def __init__(self, kernel: Kernel = "gaussian", bandwidth: ArrayLike = 1.0, degree: int = 0) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.degree = degree

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> NadarayaWatson:
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
            If shapes do not fit, there is no point, a number is complex or not finite, a weight is below 0, the
            bandwidth is not above 0, the kernel is unknown or the degree not 0 or 1.
        TypeError
            If `X` is sparse or does not hold numbers.

        Examples
        --------
        >>> qkv.NadarayaWatson(bandwidth="loo").fit([0.0, 1.0, 2.0], [0.0, 1.0, 2.0]).n_features_in_
        1
        """
        if not callable(self.kernel):
            # It looks at the name.
            _core.leave_one_out_errors(np.zeros((1, 1)), np.zeros((1, 1)), self.kernel, [])
        if self.degree not in (0, 1) or isinstance(self.degree, bool):
            raise ValueError(f"NadarayaWatson.fit: degree must be 0 or 1; got {shown(self.degree)}")
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
        self.loo_error_: float
        if hasattr(self, "loo_error_"):
            del self.loo_error_
        if isinstance(self.bandwidth, str):
            if self.bandwidth not in RULES:
                raise ValueError(
                    f"NadarayaWatson.fit: bandwidth must be a number, one number per feature or one of "
                    f"{', '.join(RULES)}; got {shown(self.bandwidth)}"
                )
            table, values, s = self._counting()
            if self.bandwidth == "loo":
                search = LeaveOneOut(table, values, s, self.kernel, self.degree)
                self.bandwidth_, self.loo_error_ = search.search()
            else:
                self.bandwidth_ = by_rule(self.bandwidth, table, s)
            return self
        refuse_gradients("NadarayaWatson.fit", ADVICE, bandwidth=self.bandwidth)
        given = _core.as_numpy(self.bandwidth, "NadarayaWatson.fit", "bandwidth")
        h = given.astype(np.float64)
        if given.dtype.kind == "b" or h.shape not in ((), (self.n_features_in_,)) or not (h > 0).all():
            raise ValueError(
                f"NadarayaWatson.fit: bandwidth must be a number above 0 or one per feature, "
                f"({self.n_features_in_},); got {shown(self.bandwidth)}"
            )
        self.bandwidth_ = float(h) if h.ndim == 0 else h
        return self

    @overload
    def predict(self, X: ArrayLike, return_std: Literal[False] = False) -> NDArray[Any]: ...
    @overload
    def predict(self, X: ArrayLike, return_std: Literal[True]) -> tuple[NDArray[Any], NDArray[Any]]: ...
    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """Pool the training values around each point of `X`.

        Parameters
        ----------
        X : array_like, (Lq, D) or (Lq,)
        return_std : bool, default False
            Also return the spread of the training values around the prediction.

        Returns
        -------
        mean : ndarray, (Lq,) or (Lq, Dv)
            NaN, with one warning, where no training point is in reach of the kernel.
        std : ndarray, as mean
            If ``return_std``: ``sqrt(sum_j w_j (y_j - mean)^2)`` with the weights of `attention_weights`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` has another number of features than the training points.

        Examples
        --------
        >>> model = qkv.NadarayaWatson("boxcar", 2.0).fit([0.0, 1.0, 9.0], [2.0, 4.0, 8.0])
        >>> model.predict([0.0])
        array([3.])
        >>> model.predict([0.0], return_std=True)
        (array([3.]), array([1.]))
        """
        queries = self._queries(X, "predict")
        keys, values, s = self._counting()
        shape = (len(queries), *values.shape[1:])
        table = values.reshape(len(values), -1)
        std = None
        if return_std or self.degree:
            mean, std, reached = self._fits(queries, keys, table, return_std)
        elif s is None and self.kernel in ("gaussian", "constant"):
            return np.asarray(self._attend(queries, keys, values, False))
        else:
            # Kernel times weight over its sum: both sums are poolings, of s * y and of s.
            factors = np.ones_like(table[:, :1]) if s is None else s[:, None]
            sums = np.asarray(self._attend(queries, keys, np.column_stack([factors * table, factors]), False))
            reached = sums[:, -1] != 0
            mean = sums[:, :-1]
            if s is not None:
                kind = np.result_type(queries, keys, values)
                mean = (mean / np.where(reached, sums[:, -1], 1)[:, None]).astype(kind)
        if not reached.all():
            mean[~reached] = np.nan
            told = f"NadarayaWatson: {(~reached).sum()} of {len(reached)} points have no training point in reach of the"
            told += f" kernel with bandwidth {shown(self.bandwidth_)}; their predictions are NaN"
            warnings.warn(told, UserWarning, stacklevel=3)
        if std is None or not return_std:
            return mean.reshape(shape)
        std[~reached] = np.nan
        return mean.reshape(shape), std.reshape(shape)

    def attention_weights(self, X: ArrayLike) -> NDArray[Any]:
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
        rows, given = self._weights(self._queries(X, "attention_weights")), self.sample_weight_
        if given is None:
            return rows
        whole = np.zeros((len(rows), len(self.X_)), rows.dtype)
        whole[:, given > 0] = rows
        return whole

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
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
            1 at best; 0 is as good as the mean. For a constant `y`: 1 if it is met exactly, else 0. NaN where a
            prediction is.

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
                f"NadarayaWatson.score: y must be {predicted.shape} to match the predictions; got y {actual.shape}"
            )
        given = weights(sample_weight, len(actual), "score")
        s = np.ones(len(actual)) if given is None else given
        predicted, actual, s = predicted[s > 0], actual[s > 0], np.ldexp(s[s > 0], -power_above(s))
        predicted, actual = np.ldexp([predicted, actual], -power_above(actual))  # squares stay in range
        error = np.atleast_1d(s @ (actual - predicted) ** 2)
        total = np.atleast_1d(s @ (actual - s @ actual / s.sum()) ** 2)
        known = np.where(total > 0, 1 - error / np.where(total > 0, total, 1), np.where(error > 0, 0.0, 1.0))
        known = np.where(np.isnan(error), np.nan, known)
        return float(known.mean())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the constructor by name.

        Examples
        --------
        >>> qkv.NadarayaWatson().get_params()
        {'kernel': 'gaussian', 'bandwidth': 1.0, 'degree': 0}
        """
        return {name: getattr(self, name) for name in PARAMETERS}

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
            if name not in PARAMETERS:
                raise ValueError(
                    f"NadarayaWatson.set_params: names must be out of {', '.join(PARAMETERS)} because there are no "
                    f"others; got {name!r}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        degree = f", degree={self.degree!r}" if self.degree else ""
        return f"NadarayaWatson(kernel={self.kernel!r}, bandwidth={self.bandwidth!r}{degree})"

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
        return self.X_[s > 0], self.y_[s > 0], np.ldexp(s[s > 0], -power_above(s))

    def _attend(
        self, queries: NDArray[Any], keys: NDArray[Any], values: NDArray[Any], with_weights: bool
    ) -> Any:
        h = self.bandwidth_
        if isinstance(h, float):
            return kernel_attention(queries, keys, values, self.kernel, h, return_weights=with_weights)
        queries, keys = (queries / h).astype(queries.dtype), (keys / h).astype(keys.dtype)
        return kernel_attention(queries, keys, values, self.kernel, return_weights=with_weights)

    def _weights(self, queries: NDArray[Any]) -> NDArray[Any]:
        """Weights of the training points that count; rows sum to 1, or are zeros."""
        keys, values, s = self._counting()
        rows = np.asarray(self._attend(queries, keys, values, True)[1])
        if s is None:
            return rows
        weighted = rows * s
        total = weighted.sum(-1, keepdims=True)
        return np.asarray(weighted / np.where(total != 0, total, 1), rows.dtype)

    def _fits(
        self, queries: NDArray[Any], keys: NDArray[Any], table: NDArray[Any], with_std: bool
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
        """Means or local lines, the spread of the values around them, and which queries have a key in reach."""
        dtype = np.result_type(queries, keys, table)
        scaled, places, values = (np.asarray(x, np.float64) for x in (keys, queries, table))
        scaled, places = scaled / self.bandwidth_, places / self.bandwidth_
        values = np.ldexp(values, -(power := power_above(values)))  # their squares may leave the range
        mean, std = np.empty((2, len(queries), table.shape[1]), dtype)
        reached = np.empty(len(queries), bool)
        for rows, w in in_blocks(self._weights, queries, len(keys) * (keys.shape[1] + table.shape[1])):
            w = w.astype(np.float64)
            found = local_fit(w, places[rows], scaled, values, self.degree)
            mean[rows], reached[rows] = np.ldexp(found, power), w.any(1)
            if with_std:
                spread = product(w[:, None], (values - found[:, None]) ** 2)[:, 0]
                std[rows] = np.ldexp(np.sqrt(spread), power)
        return mean, std, reached
