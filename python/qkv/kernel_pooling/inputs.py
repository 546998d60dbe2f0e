"""What an estimator checks of its input, in the words that scikit-learn's own checks look for."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..functions.grad_mode import refuse_gradients

NAME = "NadarayaWatson"
ADVICE = "use qkv.kernel_attention, or detach() it"


class NotFittedError(ValueError, AttributeError):
    """An estimator was used before `fit`. Where scikit-learn is imported, it is a subclass of its error too."""

    def __reduce__(self) -> tuple[Any, ...]:
        return not_fitted, self.args


def not_fitted(message: str) -> NotFittedError:
    """Make the error; scikit-learn's functions catch their own class alone."""
    theirs = getattr(sys.modules.get("sklearn.exceptions"), "NotFittedError", None)
    kind = NotFittedError if theirs is None else type("NotFittedError", (NotFittedError, theirs), {})
    error: NotFittedError = kind(message)
    return error


def floats(x: Any, method: str, name: str) -> NDArray[Any]:
    """Return finite numbers: float32 and float16 as float32, all others in float64."""
    where = f"{NAME}.{method}: {name}"
    if hasattr(x, "toarray") and hasattr(x, "nnz"):
        raise TypeError(
            f"{where} must be dense because distances of all points are taken; got a sparse matrix, "
            f"which is not supported: pass {name}.toarray()"
        )
    if np.ma.is_masked(x):
        raise ValueError(f"{where} must have no masked entries because there is no number; got some")
    if hasattr(x, "requires_grad"):
        refuse_gradients(f"{NAME}.{method}", ADVICE, **{name: x})
        x = _core.as_numpy(x, f"{NAME}.{method}", name)
    try:
        array = np.asarray(x)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"{where} must be an array or lists of equal lengths; got {type(x).__name__}"
        ) from None
    if array.dtype.kind == "c":
        raise ValueError(
            f"{where} must hold real numbers; got dtype {array.dtype}: Complex data not supported"
        )
    if array.dtype.kind not in "biufO":
        raise ValueError(f"{where} must hold numbers; got dtype {array.dtype}")
    try:
        array = array.astype(
            np.float32 if array.dtype in (np.float16, np.float32) else np.float64, copy=False
        )
    except (TypeError, ValueError):
        raise TypeError(
            f"{where} must hold real numbers; an argument must be free of strings and of objects that are no number; "
            "got dtype object"
        ) from None
    if not np.isfinite(array).all():
        raise ValueError(
            f"{where} must be finite because averages and distances are taken; got NaN or infinity"
        )
    return array


def points(X: Any, method: str, features: int | None = None) -> NDArray[Any]:
    """Return `X` as (L, D); scalars (L,) are points of one feature."""
    table = floats(X, method, "X")
    if table.ndim == 1 and features not in (None, 1):
        raise ValueError(
            f"{NAME}.{method}: X must be (L, {features}) because the training points have {features} features; "
            f"got X {table.shape}. Reshape your data: X[None] is one point"
        )
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2:
        raise ValueError(f"{NAME}.{method}: X must be (L, D) points or (L,) scalars; got X {table.shape}")
    if features is not None and table.shape[1] != features:
        raise ValueError(
            f"{NAME}.{method}: X must have the {features} features of the training points; got X {table.shape} "
            f"(X has {table.shape[1]} features, but {NAME} is expecting {features} features as input)"
        )
    if table.shape[1] == 0:
        raise ValueError(
            f"{NAME}.{method}: X must have a feature because distances are taken; "
            f"got 0 feature(s) (shape={table.shape}) while a minimum of 1 is required."
        )
    return table


def weights(sample_weight: Any, count: int, method: str) -> NDArray[np.float64] | None:
    """Return one weight for each of `count` points; None where all are alike."""
    if sample_weight is None:
        return None
    s = floats(sample_weight, method, "sample_weight").astype(np.float64)
    if s.shape not in ((), (count,)):
        raise ValueError(
            f"{NAME}.{method}: sample_weight must be ({count},) because each point has one; "
            f"got sample_weight {s.shape}"
        )
    if (s < 0).any() or not (s > 0).any():
        raise ValueError(
            f"{NAME}.{method}: sample_weight must be zero or above, and above zero for a point, because averages "
            f"are taken with it; got weights from {s.min()} to {s.max()}"
        )
    return None if s.ndim == 0 else s


def feature_names(X: Any) -> NDArray[Any] | None:
    """Names of a data frame's columns, if they are strings."""
    if not hasattr(X, "columns") or not hasattr(X, "shape"):
        return None
    names = np.asarray(list(X.columns), dtype=object)
    strings = [isinstance(name, str) for name in names]
    if any(strings) and not all(strings):
        raise TypeError(
            f"{NAME}: Feature names are only supported if all input features have string names; "
            f"got names of several types, use X.columns = X.columns.astype(str)"
        )
    return names if any(strings) else None


def check_feature_names(X: Any, fitted: NDArray[Any] | None, method: str) -> None:
    """Compare the names with those of the training points."""
    names = feature_names(X)
    if names is None and fitted is None:
        return
    if names is None or fitted is None:
        problem = (
            f"X does not have valid feature names, but {NAME} was fitted with feature names"
            if names is None
            else f"X has feature names, but {NAME} was fitted without feature names"
        )
        warnings.warn(problem, UserWarning, stacklevel=4)
        return
    if len(names) == len(fitted) and (names == fitted).all():
        return
    unseen, missing = sorted(set(names) - set(fitted)), sorted(set(fitted) - set(names))

    def listed(title: str, those: list[str]) -> str:
        return f"{title}\n" + "".join(f"- {name}\n" for name in [*those[:5], *["..."] * (len(those) > 5)])

    problem = "The feature names should match those that were passed during fit.\n"
    if unseen:
        problem += listed("Feature names unseen at fit time:", unseen)
    if missing:
        problem += listed("Feature names seen at fit time, yet now missing:", missing)
    if not unseen and not missing:
        problem += "Feature names must be in the same order as they were in fit.\n"
    raise ValueError(f"{NAME}.{method}: {problem}")
