"""Checks of shapes, values and gradients, for tests and notebooks."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ._public import explained, publish

__all__ = ["assert_close", "assert_shape", "check_gradient"]

T = TypeVar("T")

# (rtol, atol) by the less precise of the two dtypes; other dtypes must be equal.
DEFAULT_TOLERANCES: dict[str, tuple[float, float]] = {
    "float64": (1e-9, 1e-11),
    "float32": (1e-5, 2e-6),
    "float16": (2e-3, 1e-3),
    "bfloat16": (2e-2, 1e-2),
}


@explained
def assert_shape(x: T, shape: str | Sequence[int | str | None], **sizes: int) -> T:
    """Check the shape of `x` and return `x`.

    Parameters
    ----------
    x : array, Tensor, or anything that `numpy.asarray` takes
    shape : tuple or str
        A tuple of sizes, or their names in one string, ``"B L M"``. A name stands for the same size
        wherever it occurs; None (in a string ``_``) stands for any size.
    **sizes : int
        Sizes of names, ``B=2``.

    Returns
    -------
    `x` itself, so that the check fits around an expression.

    Raises
    ------
    AssertionError
        Naming the axis that does not fit, and the shape that arrived.

    Examples
    --------
    >>> assert_shape([[1, 2, 3]], (1, None))
    [[1, 2, 3]]
    >>> x = assert_shape(np.zeros((2, 4, 4)), "B L L", B=2)
    """
    actual = tuple(x.shape) if hasattr(x, "shape") else np.asarray(x).shape
    wanted: list[int | str | None] = (
        [int(w) if w.isdigit() else w for w in shape.split()] if isinstance(shape, str) else list(shape)
    )
    text = "(" + ", ".join("_" if w is None else str(w) for w in wanted) + ")"
    if len(actual) != len(wanted):
        raise AssertionError(
            f"assert_shape: x must have {len(wanted)} axes to be {text}; got {len(actual)} in shape {actual}"
        )
    known: dict[str, int] = dict(sizes)
    for axis, (size, want) in enumerate(zip(actual, wanted, strict=True)):
        if want is None or want == "_":
            continue
        if isinstance(want, str):
            must, why = known.setdefault(want, size), f"{want} = {known[want]}"
        else:
            must, why = want, f"the shape is {text}"
        if size != must:
            raise AssertionError(
                f"assert_shape: axis {axis} must be {must} because {why}; got {size} in shape {actual}"
            )
    return x


@explained
def assert_close(actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None) -> None:
    """Check that ``|actual - expected| <= atol + rtol * |expected|`` everywhere.

    NaN equals NaN and an infinity equals itself. Nothing is broadcast: the shapes must be equal.

    Parameters
    ----------
    actual, expected : array, Tensor, or anything that `numpy.asarray` takes
    rtol, atol : float, optional
        By the less precise of the two dtypes unless given: float64 1e-9 and 1e-11, float32 1e-5 and 2e-6,
        float16 2e-3 and 1e-3, bfloat16 2e-2 and 1e-2; integers and booleans exactly.

    Raises
    ------
    AssertionError
        With the index of the worst entry, both values and both tolerances.

    Examples
    --------
    >>> assert_close(np.float32([0.1, 0.2]), [0.1, 0.2])
    >>> assert_close([1, 2], [1, 3], atol=1)
    """
    a, b = np.asarray(actual), np.asarray(expected)
    if a.shape != b.shape:
        raise AssertionError(
            f"assert_close: actual must have the shape of expected, {b.shape}; got actual {a.shape}"
        )
    defaults = _default_tolerances(a.dtype, b.dtype)
    rtol = defaults[0] if rtol is None else rtol
    atol = defaults[1] if atol is None else atol
    if a.dtype.kind in "iub" and b.dtype.kind in "iub" and rtol == atol == 0:
        right, excess = a == b, np.ones(a.shape)  # float64 would merge large integers
    else:
        x, y = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):  # inf - inf: such entries count as infinitely far
            error, allowed = np.abs(x - y), atol + rtol * np.abs(y)
            excess = np.nan_to_num(error - allowed, nan=np.inf, posinf=np.inf)
        near = np.isfinite(x) & np.isfinite(y) & (error <= allowed)
        right = near | (x == y) | (np.isnan(x) & np.isnan(y))
    if not right.all():
        worst = tuple(int(i) for i in np.unravel_index(np.argmax(np.where(right, -1.0, excess)), a.shape))
        raise AssertionError(
            f"assert_close: {np.count_nonzero(~right)} of {a.size} entries differ, most at {worst}: "
            f"actual {a[worst]!s}, expected {b[worst]!s} (rtol = {rtol}, atol = {atol})"
        )


def _default_tolerances(*dtypes: np.dtype[Any]) -> tuple[float, float]:
    known = [DEFAULT_TOLERANCES[d.name] for d in dtypes if d.name in DEFAULT_TOLERANCES]
    return max(known, default=(0.0, 0.0))


@explained
def check_gradient(f: Callable[..., Any], *inputs: Any, rtol: float = 1e-6) -> None:
    """Check the gradient of ``L = sum(G * f(inputs))``, G random, along a random direction of each input and parameter.

    The analytic slope ``<dL/dx, d>`` must equal the numeric one ``(L(x + h d) - L(x - h d)) / (2 h)``. All is
    computed in float64.

    Parameters
    ----------
    f : callable or nn.Module
        Takes Tensors and returns a Tensor or a tuple of them; it must give the same result at each call (a module with
        dropout does so in evaluation). A module's parameters are checked, too; it is copied, and stays as it is.
    *inputs : array of float, any shape
        Points at which the gradient is checked; away from kinks such as 0 for ReLU. A module may take integers and
        masks beside them, which are handed on.
    rtol : float
        Accepted difference, in units of the sum of the slope's terms ``|dL/dx * d|``.

    Raises
    ------
    AssertionError
        Naming the input or parameter, the analytic and the numeric slope.
    TypeError
        If `f` returns anything but Tensors, which have no gradient. If an input of a function is not floating: put
        integers and masks into `f` itself.

    Examples
    --------
    >>> import qkv
    >>> check_gradient(lambda x, y: x @ y, np.ones((2, 3)), np.ones((3, 5)))
    >>> check_gradient(qkv.nn.Linear(3, 5), np.ones((2, 3)))
    """
    from .functions.gradients import no_grad, tensor
    from .nn import Module

    module = copy.deepcopy(f).to("float64") if isinstance(f, Module) else None
    call = f if module is None else module
    arguments: list[Any] = []
    variables: dict[str, Any] = {}
    for i, x in enumerate(inputs):
        if module is not None and np.asarray(x).dtype.kind in "iub":
            arguments.append(x)
            continue
        arguments.append(tensor(_as_float64(x, i), requires_grad=True))
        variables[_name_of(f if module is None else module.forward, i)] = arguments[-1]
    outputs = _as_tuple(call(*arguments))
    _refuse_arrays(outputs)
    if module is not None:  # which may know its sizes only now
        named = module.named_parameters()
        variables.update({f"parameter {name}": p for name, p in named if p.requires_grad})
    random = np.random.default_rng(0)
    G = [random.standard_normal(y.shape) for y in outputs]
    for y, g in zip(outputs, G, strict=True):
        if y.requires_grad:
            y.backward(g.astype(y.dtype), retain_graph=True)

    def loss_at(t: Any, numbers: np.ndarray) -> tuple[float, float]:
        """Return L where `t` holds other numbers, and the size of its terms, which bounds its rounding error."""
        with no_grad():
            t.copy_(numbers)
            ys = _as_tuple(call(*arguments))
        terms = [g * np.asarray(y, np.float64) for y, g in zip(ys, G, strict=True)]
        return float(sum(t.sum() for t in terms)), float(sum(np.abs(t).sum() for t in terms))

    for name, t in variables.items():
        x = np.array(t)
        gradient = np.zeros_like(x) if t.grad is None else np.asarray(t.grad)
        if gradient.shape != x.shape:
            raise AssertionError(
                f"check_gradient: the gradient of {name} must be {x.shape}; got {gradient.shape}"
            )
        direction = random.standard_normal(x.shape)
        h = 6e-6 * (float(np.sqrt(np.mean(x**2))) if x.any() else 1.0)  # the cube root of float64's precision
        (above, size), (below, _) = (loss_at(t, x + s * direction) for s in (h, -h))
        with no_grad():
            t.copy_(x)
        analytic, numeric = float((gradient * direction).sum()), (above - below) / (2 * h)
        scale = float(np.abs(gradient * direction).sum())
        tolerance = rtol * max(scale, abs(numeric)) + 1e-15 * size / h
        if not abs(analytic - numeric) <= tolerance:
            error = abs(analytic - numeric)
            raise AssertionError(
                f"check_gradient: the gradient of {name} {x.shape} is wrong: analytic slope {analytic:.10g}, "
                f"numeric slope {numeric:.10g}, difference {error:.3g} above {tolerance:.3g}"
            )


def _refuse_arrays(outputs: tuple[Any, ...]) -> None:
    from ._core import Tensor

    for y in outputs:
        if not isinstance(y, Tensor):
            raise TypeError(
                "check_gradient: f must return a Tensor or a tuple of them because anything else has lost the "
                f"gradient; got {type(y).__name__}"
            )


def _as_float64(x: Any, i: int) -> np.ndarray:
    array = np.asarray(x)
    if array.dtype.kind != "f":
        raise TypeError(
            f"check_gradient: input {i} must be floating because integers have no slope; got {array.dtype}"
        )
    return array.astype(np.float64)


def _as_tuple(outputs: Any) -> tuple[Any, ...]:
    return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)


def _name_of(f: Callable[..., Any], i: int) -> str:
    """Name the i-th argument of `f` as its signature does, if it has one."""
    try:
        names = [
            p.name
            for p in inspect.signature(f).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        names = []
    return f"input {i} ({names[i]})" if i < len(names) else f"input {i}"


publish(__name__)
