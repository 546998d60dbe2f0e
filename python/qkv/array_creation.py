"""Arrays of ones, zeros, ranges and their like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from ._core import Tensor
from ._errors import count_of, no_dtype, real, shown
from ._grad_mode import refuse_gradients
from .random.arguments import shape_of, unpacked

__all__ = [
    "arange",
    "eye",
    "full",
    "full_like",
    "linspace",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


def _quiet() -> np.errstate:
    """Let numbers beyond the end of a dtype become infinite without NumPy's warning."""
    return np.errstate(over="ignore", invalid="ignore")


def _fits(operation: str, name: str, value: npt.NDArray[Any], dtype: npt.DTypeLike) -> None:
    """Refuse complex numbers, and those that integers of the dtype cannot hold, which would wrap."""
    real(value)
    wanted = np.dtype(dtype)
    whole = value.dtype.kind in "iu" and wanted != np.int64
    if wanted.kind in "iu" and (whole or value.dtype.kind == "f") and value.size:
        low, high = np.iinfo(wanted).min, np.iinfo(wanted).max
        for number in (value.min().item(), value.max().item()):
            if not low - 1 < number < high + 1:  # NaN is not either
                raise OverflowError(
                    f"{operation}: {name} must be from {low} to {high} because the dtype is {wanted}; got {number}"
                )
    if wanted == np.int64 and value.dtype.kind == "u" and (value > np.iinfo(np.int64).max).any():
        raise ValueError(
            f"{operation}: {name} must be below 2^63 because the dtype is int64; got {value.max()}"
        )


def _made(numbers: npt.NDArray[Any], requires_grad: bool) -> Any:
    return _core.tensor(numbers, None, True) if requires_grad else numbers


def _dtype(operation: str, dtype: npt.DTypeLike) -> np.dtype[Any]:
    try:
        wanted = np.dtype(dtype)
    except TypeError:
        raise TypeError(no_dtype(operation, dtype)) from None
    if wanted.kind in "cOSUMm":
        raise TypeError(f"{operation}: dtype must be one of real numbers or booleans; got {wanted}")
    return wanted


def _default_dtype(*numbers: Any) -> str | np.dtype[Any]:
    """float32 of Python's floats, int64 and bool as they are, of NumPy's numbers their own."""
    kind = np.result_type(*numbers)
    typed = any(hasattr(number, "dtype") for number in numbers)
    return "float32" if kind.kind == "f" and not typed else kind


def zeros(*size: int | Sequence[int], dtype: npt.DTypeLike = "float32", requires_grad: bool = False) -> Any:
    """Zeros.

    Parameters
    ----------
    *size : int
        The shape, as several integers or as one tuple; none for a 0-d array.
    dtype : dtype
        float32 unless given, where NumPy's is float64.
    requires_grad : bool
        Give a Tensor that collects its gradient.

    Returns
    -------
    ndarray or Tensor
        An array, as :func:`rand` gives one; a Tensor with ``requires_grad=True``.

    Raises
    ------
    TypeError
        If a size is no integer, or integers are to require a gradient.
    ValueError
        If a size is negative.

    Examples
    --------
    >>> qkv.zeros(2, 3).shape
    (2, 3)
    >>> qkv.zeros(2, requires_grad=True)
    tensor([0., 0.], requires_grad=True)
    """
    return _made(np.zeros(shape_of("zeros", unpacked(size)), _dtype("zeros", dtype)), requires_grad)


def ones(*size: int | Sequence[int], dtype: npt.DTypeLike = "float32", requires_grad: bool = False) -> Any:
    """Ones.

    Parameters
    ----------
    *size : int
        The shape, as several integers or as one tuple; none for a 0-d array.
    dtype : dtype
        float32 unless given, where NumPy's is float64.
    requires_grad : bool
        Give a Tensor that collects its gradient.

    Returns
    -------
    ndarray or Tensor
        A Tensor with ``requires_grad=True``.

    Raises
    ------
    TypeError
        If a size is no integer, or integers are to require a gradient.
    ValueError
        If a size is negative.

    Examples
    --------
    >>> qkv.ones((2, 2), dtype="int64")
    array([[1, 1],
           [1, 1]])
    """
    return _made(np.ones(shape_of("ones", unpacked(size)), _dtype("ones", dtype)), requires_grad)


def full(
    size: int | Sequence[int],
    fill_value: Any,
    *,
    dtype: npt.DTypeLike | None = None,
    requires_grad: bool = False,
) -> Any:
    """One number everywhere.

    Parameters
    ----------
    size : int or tuple of int
        The shape.
    fill_value : number or array_like
        An array broadcasts to the shape.
    dtype : dtype, optional
        That of the number unless given: float32 for Python's floats, int64 and bool as they are.
    requires_grad : bool
        Give a Tensor that collects its gradient.

    Returns
    -------
    ndarray or Tensor
        A Tensor with ``requires_grad=True``.

    Raises
    ------
    TypeError
        If a size is no integer, or integers are to require a gradient.
    ValueError
        If a size is negative.

    Examples
    --------
    >>> qkv.full((2, 2), 0.5)
    array([[0.5, 0.5],
           [0.5, 0.5]], dtype=float32)
    """
    refuse_gradients("full", "write t.broadcast_to(size), or detach() it", fill_value=fill_value)
    value = _core.as_numpy(fill_value, "full", "fill_value")
    kept = "float32" if value.dtype.kind == "f" and not hasattr(fill_value, "dtype") else value.dtype
    wanted = kept if dtype is None else _dtype("full", dtype)
    _fits("full", "fill_value", value, wanted)
    with _quiet():
        return _made(np.full(shape_of("full", size), value, wanted), requires_grad)


def eye(n: int, m: int | None = None, k: int = 0, *, dtype: npt.DTypeLike = "float32") -> npt.NDArray[Any]:
    """Ones on a diagonal of a matrix ``(n, m)``, zeros elsewhere.

    Parameters
    ----------
    n, m : int
        Rows and columns; as many columns as rows unless given.
    k : int
        Which diagonal: above the main one if positive, below if negative.
    dtype : dtype
        float32 unless given, where NumPy's is float64.

    Returns
    -------
    ndarray

    Raises
    ------
    TypeError
        If a size is no integer.
    ValueError
        If a size is negative.

    Examples
    --------
    >>> qkv.eye(2)
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    rows, columns = shape_of("eye", (n, n if m is None else m))
    return np.eye(rows, columns, k, _dtype("eye", dtype))


def arange(
    start: float, stop: float | None = None, step: float = 1, *, dtype: npt.DTypeLike | None = None
) -> npt.NDArray[Any]:
    """``start, start + step, ...`` as far as they are before ``stop``.

    Parameters
    ----------
    start, stop, step : number
        With one number alone from 0 to there.
    dtype : dtype, optional
        int64 of integers, float32 of floats (computed in float64) unless given.

    Returns
    -------
    ndarray
        ``ceil((stop - start) / step)`` numbers.

    Raises
    ------
    TypeError
        If one of them is no number.
    ValueError
        If ``step`` is 0.

    Examples
    --------
    >>> qkv.arange(4)
    array([0, 1, 2, 3])
    >>> qkv.arange(0, 1, 0.25)
    array([0.  , 0.25, 0.5 , 0.75], dtype=float32)
    """
    numbers = {"start": start, "step": step} if stop is None else {"start": start, "stop": stop, "step": step}
    refuse_gradients("arange", "write start + step * qkv.arange(n), or detach() it", **numbers)
    for name, number in numbers.items():
        if np.ndim(number) or np.asarray(number).dtype.kind not in "biuf":
            raise TypeError(f"arange: {name} must be a number; got {shown(number)}")
    if step == 0:
        raise ValueError("arange: step must not be 0 because the stop would never be reached; got 0")
    first, last = (0, start) if stop is None else (start, stop)
    kind = _default_dtype(*numbers.values()) if dtype is None else _dtype("arange", dtype)
    for name, number in numbers.items():
        _fits("arange", name, np.asarray(number), kind if np.dtype(kind) == np.int64 else "float64")
    with _quiet():
        found = np.arange(first, last, step)
        _fits("arange", "numbers", found[[0, -1]] if found.size else found, kind)
        return found.astype(kind, copy=False)


def linspace(
    start: float, stop: float, num: int = 50, *, endpoint: bool = True, dtype: npt.DTypeLike = "float32"
) -> npt.NDArray[Any]:
    """``num`` numbers from ``start`` to ``stop``, evenly spaced.

    Parameters
    ----------
    start, stop : float
        The first and the last.
    num : int
        How many.
    endpoint : bool
        False leaves the last one out.
    dtype : dtype
        float32 unless given; computed in float64 and rounded once.

    Returns
    -------
    ndarray of shape ``(num,)``

    Raises
    ------
    TypeError
        If ``num`` is no integer.
    ValueError
        If ``num`` is negative.

    Examples
    --------
    >>> qkv.linspace(0, 1, 5)
    array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    refuse_gradients(
        "linspace",
        "write start + (stop - start) * qkv.linspace(0, 1, num), or detach() it",
        start=start,
        stop=stop,
    )
    count = count_of("linspace", "num", num)
    with _quiet():
        return np.linspace(real(start), real(stop), count, endpoint=endpoint).astype(
            _dtype("linspace", dtype)
        )


def _like(operation: str, x: Any, value: Any, dtype: npt.DTypeLike | None) -> Any:
    numbers = _core.as_numpy(x, operation, "x")
    kept = numbers.dtype if hasattr(x, "dtype") or numbers.dtype.kind != "f" else "float32"
    wanted = kept if dtype is None else _dtype(operation, dtype)
    _fits(operation, "fill_value", np.asarray(value), wanted)
    with _quiet():
        made = np.full(numbers.shape, value, wanted)
    return _core.tensor(made) if isinstance(x, Tensor) else made


def zeros_like(x: Any, *, dtype: npt.DTypeLike | None = None) -> Any:
    """Zeros in the shape and dtype of an array.

    Parameters
    ----------
    x : array_like or Tensor
        Any shape.
    dtype : dtype, optional
        Another dtype.

    Returns
    -------
    ndarray or Tensor
        A Tensor of a Tensor; without gradient.

    Examples
    --------
    >>> qkv.zeros_like(np.ones((1, 2)))
    array([[0., 0.]])
    """
    return _like("zeros_like", x, 0, dtype)


def ones_like(x: Any, *, dtype: npt.DTypeLike | None = None) -> Any:
    """Ones in the shape and dtype of an array.

    Parameters
    ----------
    x : array_like or Tensor
        Any shape.
    dtype : dtype, optional
        Another dtype.

    Returns
    -------
    ndarray or Tensor
        A Tensor of a Tensor; without gradient.

    Examples
    --------
    >>> qkv.ones_like(qkv.tensor([[3.0, 4.0]]))
    tensor([[1., 1.]])
    """
    return _like("ones_like", x, 1, dtype)


def full_like(x: Any, fill_value: Any, *, dtype: npt.DTypeLike | None = None) -> Any:
    """One number everywhere, in the shape and dtype of an array.

    Parameters
    ----------
    x : array_like or Tensor
        Any shape.
    fill_value : number or array_like
        Cast to the dtype; an array broadcasts to the shape.
    dtype : dtype, optional
        Another dtype.

    Returns
    -------
    ndarray or Tensor
        A Tensor of a Tensor; without gradient.

    Examples
    --------
    >>> qkv.full_like([1.0, 2.0], 7)
    array([7., 7.], dtype=float32)
    """
    refuse_gradients("full_like", "write t.broadcast_to(x.shape), or detach() it", fill_value=fill_value)
    return _like("full_like", x, _core.as_numpy(fill_value, "full_like", "fill_value"), dtype)
