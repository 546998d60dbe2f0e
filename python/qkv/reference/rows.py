"""What every attention variant shares: which keys a query may see, and the pooling over exactly these."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._public import explained

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@explained
def entmax(x: ArrayLike, alpha: float = 1.5, axis: int = -1) -> Array:
    """Compute ``max((alpha - 1) x - tau, 0) ** (1 / (alpha - 1))``, whose sum along `axis` is 1; ``tau`` by halving.

    Parameters
    ----------
    x : array, any shape
    alpha : float
        Above 1.
    axis : int

    Returns
    -------
    ndarray, the shape of `x`

    Examples
    --------
    >>> entmax([1.0, 0.5, -1.0], 2.0).round(12)
    array([0.75, 0.25, 0.  ])
    """
    x = np.asarray(x, np.float64)
    z = (alpha - 1) * (x - x.max(axis, keepdims=True))  # tau, too, is told from the largest
    low, high = np.full_like(z.max(axis, keepdims=True), -1), np.zeros_like(z.max(axis, keepdims=True))

    def weights(tau: Array) -> Array:
        return np.asarray(np.maximum(z - tau, 0) ** (1 / (alpha - 1)))

    for _ in range(80):
        middle = (low + high) / 2
        above = weights(middle).sum(axis, keepdims=True) > 1
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return weights(low)


NORMALIZERS: dict[str, Callable[[Array], Array]] = {
    "sigmoid": lambda s: np.where(s < 0, np.exp(-np.abs(s)), 1) / (1 + np.exp(-np.abs(s))),
    "relu": lambda s: np.maximum(s, 0),
    "sparsemax": lambda s: entmax(s, 2.0),
    "entmax15": entmax,
}


def allowed_by_lengths(valid_lens: ArrayLike | None, shape: Sequence[int]) -> Mask:
    """Say for scores of `shape` ``([B, [H,]] Lq, Lk)`` which keys lie within `valid_lens`.

    Examples
    --------
    >>> allowed_by_lengths([1, 2], (2, 1, 2)).tolist()
    [[[True, False]], [[True, True]]]
    """
    shape = tuple(shape)
    if valid_lens is None:
        return np.ones(shape, bool)
    lens = np.asarray(valid_lens)
    if len(shape) == 2:
        lens = lens[None]  # one sequence is a batch of one
    per_query = lens if lens.ndim == 2 else lens[:, None]  # (B, Lq) or (B, 1)
    if len(shape) == 4:
        per_query = per_query[:, None]  # (B, 1, Lq or 1): the same for every head
    allowed = np.arange(shape[-1]) < per_query[..., None]  # (B, [1,] Lq or 1, Lk)
    return np.array(np.broadcast_to(allowed[0] if len(shape) == 2 else allowed, shape))


def split_mask(mask: ArrayLike | None, shape: Sequence[int], operation: str) -> tuple[Mask, Array]:
    """Turn one mask argument into (which keys are allowed, what is added to the scores), both of `shape`.

    Examples
    --------
    >>> allowed, bias = split_mask([[0.5, -np.inf]], (1, 2), "example")
    >>> allowed.tolist(), bias.tolist()
    ([[True, False]], [[0.5, 0.0]])
    """
    shape = tuple(shape)
    if mask is None:
        return np.ones(shape, bool), np.zeros(shape)
    mask = np.asarray(mask)
    if mask.dtype.kind not in "bf":
        raise TypeError(
            f"{operation}: mask must be boolean (True = may attend) or float (added to the scores) "
            f"because an integer could mean either; got {mask.dtype}"
        )
    mask = np.broadcast_to(mask, shape)
    if mask.dtype.kind == "b":
        return mask.copy(), np.zeros(shape)
    allowed = mask != -np.inf
    return allowed, np.where(allowed, mask, 0.0).astype(np.float64)


def weights_per_row(
    scores: Array,
    allowed: Mask,
    *,
    sinks: ArrayLike | None = None,
    masked_value: float | None = None,
    normalizer: str = "softmax",
) -> tuple[Array, Array, Mask]:
    """Normalise each row of `scores` over its allowed keys; nothing else of the row is read.

    Parameters
    ----------
    scores, allowed : array, (..., Lq, Lk)
    sinks : array, broadcast to (..., Lq), optional
        One more logit per row that takes part in the sum and has no value.
    masked_value : float, optional
        Replaces the scores that are not allowed; then every key takes part.
    normalizer : str
        "softmax", or one of `NORMALIZERS`, which know no sinks.

    Returns
    -------
    weights : ndarray, (..., Lq, Lk)
        0 where a key is not allowed, so a row without allowed keys is all zeros.
    lse : ndarray, (..., Lq)
        ``log(sum(exp(scores)))`` over what took part; ``-inf`` for an empty row. Of softmax.
    allowed : ndarray of bool, (..., Lq, Lk)
        The keys that took part.

    Examples
    --------
    >>> weights, lse, _ = weights_per_row(np.zeros((1, 3)), np.array([[True, True, False]]))
    >>> weights, lse.round(4)
    (array([[0.5, 0.5, 0. ]]), array([0.6931]))
    """
    if masked_value is not None:
        scores, allowed = np.where(allowed, scores, masked_value), np.ones_like(allowed)
    sink = np.broadcast_to(-np.inf if sinks is None else np.asarray(sinks, np.float64), scores.shape[:-1])
    weights, lse = np.zeros(scores.shape), np.full(scores.shape[:-1], -np.inf)
    for row in np.ndindex(scores.shape[:-1]):
        if normalizer != "softmax":
            seen = scores[row][allowed[row]]
            weights[row][allowed[row]] = NORMALIZERS[normalizer](seen) if seen.size else seen
            continue
        logits = np.append(scores[row][allowed[row]], sink[row])  # (allowed keys + 1,)
        top = logits.max()
        if top == -np.inf:
            continue
        with np.errstate(invalid="ignore"):  # inf - inf
            e = np.exp(logits - top)
        weights[row][allowed[row]] = e[:-1] / e.sum()
        lse[row] = top + np.log(e.sum())
    return weights, lse, allowed


def pool_rows(weights: Array, values: Array, allowed: Mask) -> Array:
    """Compute ``weights @ values`` from the allowed keys alone.

    `weights` and `allowed` are (..., Lq, Lk), `values` (..., Lk, Dv); the result is (..., Lq, Dv).
    Multiplying by a weight of 0 would not do: 0 times NaN is NaN.

    Examples
    --------
    >>> pool_rows(np.array([[1.0, 0.0]]), np.array([[3.0], [np.nan]]), np.array([[True, False]]))
    array([[3.]])
    """
    output = np.zeros((*weights.shape[:-1], values.shape[-1]))
    for row in np.ndindex(weights.shape[:-1]):  # row = (..., query)
        seen = allowed[row]
        with np.errstate(invalid="ignore"):  # 0 * inf among allowed keys
            output[row] = weights[row][seen] @ values[row[:-1]][seen]  # (Dv,)
    return output


def apply_dropout(weights: Array, dropout_p: float, dropout_keep: ArrayLike | None, operation: str) -> Array:
    """Compute ``weights * keep / (1 - p)``; `dropout_keep` is needed because nothing is drawn here.

    Examples
    --------
    >>> apply_dropout(np.array([[0.5, 0.5]]), 0.5, [[True, False]], "example")
    array([[1., 0.]])
    """
    if dropout_p == 0.0:
        if dropout_keep is not None:
            raise ValueError(
                f"{operation}: dropout_p must be above 0 because dropout_keep stands for its draw; got dropout_p = 0"
            )
        return weights
    if dropout_keep is None:
        raise ValueError(
            f"{operation}: dropout_keep must be given with dropout_p because the reference draws no random "
            f"numbers; got dropout_p = {dropout_p} alone"
        )
    if dropout_p == 1.0:
        return np.zeros_like(weights)
    return np.asarray(weights * np.broadcast_to(np.asarray(dropout_keep), weights.shape) / (1.0 - dropout_p))
