"""Nadaraya-Watson pooling: attention whose weights are a kernel of the distance."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _core

__all__ = ["NadarayaWatson", "NotFittedError", "kernel_attention", "kernel_values"]

Kernel = str | Callable[[Any], Any]


def kernel_values(u: Any, kernel: Kernel = "gaussian") -> Any:
    """Kernel ``K(|u|)`` of a distance ``u`` measured in bandwidths, unnormalised.

    Parameters
    ----------
    u : array_like or Tensor
        Any shape.
    kernel : str or callable, default "gaussian"
        "gaussian" ``exp(-u^2/2)``, "boxcar" ``1 where |u| < 1``, "constant" ``1``, "epanechnikov"
        ``max(1 - u^2, 0)``, "triangular" ``max(1 - |u|, 0)``, or a function of ``u``.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``u``; differentiable.

    Raises
    ------
    ValueError
        If the name is unknown.

    Notes
    -----
    Some texts call the triangular kernel Epanechnikov's. Constant factors are left out: they cancel in the
    weights.

    Examples
    --------
    >>> qkv.kernel_values([0.0, -0.5, 2.0], "triangular")
    array([1. , 0.5, 0. ], dtype=float32)
    """
    return kernel(u) if callable(kernel) else _core.kernel_values(u, kernel)


def kernel_attention(
    queries: Any,
    keys: Any,
    values: Any,
    kernel: Kernel = "gaussian",
    bandwidth: Any = 1.0,
    *,
    valid_lens: Any = None,
    return_weights: bool = False,
) -> Any:
    """Nadaraya-Watson pooling ``sum_j K(u_ij) v_j / sum_j K(u_ij)``, ``u_ij = ||q_i - k_j|| / bandwidth``.

    Differentiable with respect to queries, keys, values and bandwidth; at distance 0 the gradient of the
    distance is 0. Needs O(L) memory unless the weights are asked for (or the kernel is a callable).

    Parameters
    ----------
    queries : array_like or Tensor, (Lq,), (Lq, D) or (B, Lq, D)
        Scalars, points or batches of points.
    keys : array_like or Tensor, (Lk,), (Lk, D) or (B, Lk, D)
    values : array_like or Tensor, (Lk,), (Lk, Dv) or (B, Lk, Dv)
    kernel : str or callable, default "gaussian"
        A name as in `kernel_values`, or a function that takes ``u``, an array or a Tensor (..., Lq, Lk), and
        gives the weights before normalisation in the same shape.
    bandwidth : float, 0-d array or Tensor, default 1.0
        Above 0, in the units of the queries.
    valid_lens : int or array_like of int, optional
        How many keys are real: an int or (Lq,) without a batch, else (B,) or (B, Lq). What stands behind is
        not read.
    return_weights : bool, default False

    Returns
    -------
    output : ndarray or Tensor, (..., Lq) for values (Lk,), else (..., Lq, Dv)
        Zeros for a query to which no key gives weight.
    weights : ndarray or Tensor, (..., Lq, Lk)
        If ``return_weights``: rows sum to 1.

    Raises
    ------
    ValueError
        If shapes do not fit, the kernel is unknown, or the bandwidth is not one number above 0.

    Notes
    -----
    The gaussian is a softmax of ``-u^2/2``, so a query far from all keys gets its nearest ones, not 0/0.

    References
    ----------
    Nadaraya, "On estimating regression", 1964; Watson, "Smooth regression analysis", 1964.

    Examples
    --------
    >>> qkv.kernel_attention([0.0], [-1.0, 1.0, 9.0], [2.0, 4.0, 100.0], "boxcar", bandwidth=2.0)
    array([3.], dtype=float32)
    """
    if not callable(kernel):
        return _core.kernel_attention(queries, keys, values, kernel, bandwidth, valid_lens, return_weights)
    u = _core.scaled_distances(queries, keys, bandwidth, valid_lens)  # (..., Lq, Lk)
    weights = kernel(u)
    if tuple(np.shape(weights)) != tuple(u.shape):
        raise ValueError(
            f"kernel_attention: kernel must return an array of the shape of u, {tuple(u.shape)}, because "
            f"each distance has a weight; got {tuple(np.shape(weights))}"
        )
    return _core.pool_by_kernel(weights, values, valid_lens, return_weights)


class NotFittedError(ValueError, AttributeError):
    """An estimator was used before `fit`."""


class NadarayaWatson:
    """Kernel regression ``f(x) = sum_j K(||x - X_j|| / h) y_j / sum_j K(||x - X_j|| / h)``.

    Follows scikit-learn's conventions (`get_params`, `set_params`, attributes with a trailing underscore,
    clones, pipelines and grid searches) without needing scikit-learn.

    Parameters
    ----------
    kernel : str or callable, default "gaussian"
        As in `kernel_attention`.
    bandwidth : float, array_like (D,) or "loo", default 1.0
        One bandwidth for all features, one per feature, or the one with the least leave-one-out error: each
        point is predicted from all others, as `predict` would (zero where no other point has weight). The
        grid has 41 logarithmic steps from 1e-3 to 10 times the spread of ``X``, the root of the sum of its
        features' variances; the interval around its best entry is then searched twice by 11 steps.

    Attributes
    ----------
    bandwidth_ : float or ndarray (D,)
        The bandwidth in use.
    loo_error_ : float
        Mean squared leave-one-out error at ``bandwidth_``; only with ``bandwidth="loo"``.
    n_features_in_ : int
    X_, y_ : ndarray
        The training points (L, D) and values (L,) or (L, Dv).

    References
    ----------
    Nadaraya, "On estimating regression", 1964; Watson, "Smooth regression analysis", 1964.

    Examples
    --------
    >>> model = qkv.NadarayaWatson(bandwidth=0.5).fit([0.0, 1.0], [2.0, 4.0])
    >>> model.predict([0.5])
    array([3.], dtype=float32)
    """

    _estimator_type = "regressor"

    def __init__(self, kernel: Kernel = "gaussian", bandwidth: Any = 1.0) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth

    def fit(self, X: Any, y: Any) -> NadarayaWatson:
        """Keep the training points and settle the bandwidth.

        Parameters
        ----------
        X : array_like, (L, D) or (L,)
        y : array_like, (L,) or (L, Dv)

        Returns
        -------
        NadarayaWatson
            The estimator itself.

        Raises
        ------
        ValueError
            If shapes do not fit, there is no point, a number is not finite or the bandwidth is not above 0.

        Examples
        --------
        >>> qkv.NadarayaWatson(bandwidth="loo").fit([0.0, 1.0, 2.0], [0.0, 1.0, 2.0]).n_features_in_
        1
        """
        points, values = _points(X, "fit"), _floats(y)
        if values.ndim not in (1, 2) or len(values) != len(points) or len(points) == 0:
            raise ValueError(
                f"NadarayaWatson.fit: y must be (L,) or (L, Dv) with one row for each of the L > 0 points; "
                f"got X {points.shape}, y {values.shape}"
            )
        if not np.isfinite(values).all():
            raise ValueError(
                "NadarayaWatson.fit: y must be finite because it is averaged; got NaN or infinity"
            )
        self.n_features_in_: int = points.shape[1]
        self.X_, self.y_ = points, values
        self.bandwidth_: float | NDArray[np.float64]
        if isinstance(self.bandwidth, str):
            if self.bandwidth != "loo":
                raise ValueError(
                    f"NadarayaWatson.fit: bandwidth must be a number, one number per feature or 'loo'; "
                    f"got {self.bandwidth!r}"
                )
            self.bandwidth_, self.loo_error_ = _least_error(points, values, self.kernel)
            return self
        h = np.asarray(self.bandwidth, np.float64)
        if h.shape not in ((), (self.n_features_in_,)) or not (h > 0).all():
            raise ValueError(
                f"NadarayaWatson.fit: bandwidth must be a number above 0 or one per feature, "
                f"({self.n_features_in_},); got {self.bandwidth!r}"
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
        array([3.], dtype=float32)
        """
        return np.asarray(self._attend(X, "predict", False))

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
        array([[0.5, 0.5]], dtype=float32)
        """
        return np.asarray(self._attend(X, "attention_weights", True)[1])

    def score(self, X: Any, y: Any) -> float:
        """Coefficient of determination ``R^2 = 1 - sum (y - f(X))^2 / sum (y - mean)^2``.

        Parameters
        ----------
        X : array_like, (Lq, D) or (Lq,)
        y : array_like, (Lq,) or (Lq, Dv)
            Several outputs are averaged.

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
        predicted, actual = self.predict(X).astype(np.float64), np.asarray(y, np.float64)
        if predicted.shape != actual.shape:
            raise ValueError(
                f"NadarayaWatson.score: y must be {predicted.shape} to match the predictions; "
                f"got y {actual.shape}"
            )
        error = np.atleast_1d(((actual - predicted) ** 2).sum(0))
        total = np.atleast_1d(((actual - actual.mean(0)) ** 2).sum(0))
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
        # Only scikit-learn asks, so it is there.
        utils = importlib.import_module("sklearn.utils")
        return utils.Tags(
            estimator_type="regressor",
            target_tags=utils.TargetTags(required=True, multi_output=True),
            regressor_tags=utils.RegressorTags(),
            input_tags=utils.InputTags(one_d_array=True),
        )

    def _attend(self, X: Any, method: str, return_weights: bool) -> Any:
        if not hasattr(self, "X_"):
            raise NotFittedError(
                f"NadarayaWatson.{method}: fit must be called first because predictions are averages of the "
                f"training values; got an estimator that was not fitted"
            )
        points = _points(X, method)
        if points.shape[1] != self.n_features_in_:
            raise ValueError(
                f"NadarayaWatson.{method}: X must have the {self.n_features_in_} features of the training "
                f"points; got X {points.shape}"
            )
        keys, h = self.X_, self.bandwidth_
        if isinstance(h, float):
            return kernel_attention(points, keys, self.y_, self.kernel, h, return_weights=return_weights)
        points, keys = (points / h).astype(points.dtype), (keys / h).astype(keys.dtype)
        return kernel_attention(points, keys, self.y_, self.kernel, return_weights=return_weights)


def _floats(x: Any) -> NDArray[Any]:
    """Copy of `x`: float32 and float64 arrays keep their dtype, all other numbers become float32."""
    keeps = getattr(x, "dtype", None) == np.float64
    return np.array(x, np.float64 if keeps else np.float32)


def _points(X: Any, method: str) -> NDArray[Any]:
    points = _floats(X)
    points = points[:, None] if points.ndim == 1 else points
    if points.ndim != 2:
        raise ValueError(
            f"NadarayaWatson.{method}: X must be (L, D) points or (L,) scalars; got X {points.shape}"
        )
    if not np.isfinite(points).all():
        raise ValueError(
            f"NadarayaWatson.{method}: X must be finite because distances are taken; got NaN or infinity"
        )
    return points


def _least_error(points: NDArray[Any], values: NDArray[Any], kernel: Kernel) -> tuple[float, float]:
    """Bandwidth with the least leave-one-out error, and that error."""
    table = values if values.ndim == 2 else values[:, None]
    spread = float(np.sqrt(points.astype(np.float64).var(0).sum())) or 1.0

    def errors(bandwidths: NDArray[np.float64]) -> NDArray[np.float64]:
        if callable(kernel):
            return np.array([_callable_error(points, table, kernel, float(h)) for h in bandwidths])
        return np.asarray(_core.leave_one_out_errors(points, table, kernel, bandwidths.tolist()))

    grid = spread * np.geomspace(1e-3, 10, 41)
    for steps in (11, 11, 0):
        found = np.nan_to_num(errors(grid), nan=np.inf)
        best = int(np.argmin(found))
        if steps:
            grid = np.geomspace(grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)], steps)
    return float(grid[best]), float(found[best])


def _callable_error(
    points: NDArray[Any], values: NDArray[Any], kernel: Callable[[Any], Any], h: float
) -> float:
    weights = np.array(kernel(_core.scaled_distances(points, points, h, None)), np.float64)
    np.fill_diagonal(weights, 0.0)
    predicted = _core.pool_by_kernel(weights, values, None, False)
    return float(((values - predicted) ** 2).mean())
