"""Whether a gradient arrives at every argument: each in turn is replaced by a Tensor that records.

A call that is not refused has to have a result that is connected with the Tensor, or a line in a table of exceptions
that says why there is no gradient. Used as::

    faults = lost_gradients([("exp", qkv.exp, {"x": A}), ...], qkv.tensor, {"argsort: x": "places have none"})
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

Case = tuple[
    str, Callable[..., Any], Mapping[str, Any]
]  # a name, a function, arguments by name; "*" are by position
POSITIONAL = "*"


def parameters_of(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of each argument of a call: those given, and the defaults of the others."""
    found = dict(given)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of Python's own
        return found
    for name, parameter in signature.parameters.items():
        if parameter.default is not parameter.empty:
            found.setdefault(name, parameter.default)
    return found


def replacements(value: Any, record: Callable[[Any], Any]) -> Iterator[tuple[str, Any, list[Any]]]:
    """Return what records in place of a value: how it is called, the argument, and the Tensors in it."""
    shapes: dict[str, tuple[int, ...]] = {"a number": ()}
    try:
        numbers = np.asarray(value, float)
        shapes["an array"] = numbers.shape
    except (TypeError, ValueError):
        numbers = np.asarray(0.5)
    for name, shape in shapes.items():
        fitting = numbers if shape else np.asarray(numbers.reshape(-1)[0] if numbers.size else 0.5)
        leaf = record(fitting)
        yield name, leaf, [leaf]
    if isinstance(value, (list, tuple)) and value and numbers.ndim == 1:
        for i in range(len(value)):  # one of several numbers
            leaf = record(numbers[i])
            yield f"number {i}", type(value)([*value[:i], leaf, *value[i + 1 :]]), [leaf]
    elif numbers.ndim and len(numbers):
        leaves = [record(part) for part in numbers]
        yield "a list", leaves, leaves


def tensors_in(value: Any) -> Iterator[Any]:
    """Find Tensors of floating numbers that record in a result and its parts."""
    if hasattr(value, "requires_grad") and hasattr(value, "backward"):
        if value.requires_grad:
            yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from tensors_in(part)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def is_connected(result: Any, leaves: list[Any]) -> bool:
    """Say whether a gradient of the result arrives at each of the Tensors."""
    found = list(tensors_in(result))
    for t in found:
        if not any(t is leaf for leaf in leaves):
            t.backward(type(t).detach(t) * 0 + 1, retain_graph=True)
    return all(leaf.grad is not None or any(t is leaf for t in found) for leaf in leaves)


def call(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    named = dict(arguments)
    return function(*named.pop(POSITIONAL, ()), **named)


def answers(cases: Iterable[Case], make: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """Return for each argument, and each way to replace it, what came: "connected", "lost", or the text of an error."""

    def record(numbers: Any) -> Any:
        return make(np.asarray(numbers, "float64"), requires_grad=True)

    for name, function, given in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call(function, given)  # is legal
            every = parameters_of(function, given)
            for i, value in enumerate(every.pop(POSITIONAL, ())):
                for how, changed, leaves in replacements(value, record):
                    rest = tuple(given[POSITIONAL])
                    arguments = {**given, POSITIONAL: (*rest[:i], changed, *rest[i + 1 :])}
                    yield f"{name}: argument {i} ({how})", _answer(function, arguments, leaves)
            for argument, value in every.items():
                for how, changed, leaves in replacements(value, record):
                    yield (
                        f"{name}: {argument} ({how})",
                        _answer(function, {**given, argument: changed}, leaves),
                    )


def _answer(function: Callable[..., Any], arguments: Mapping[str, Any], leaves: list[Any]) -> str:
    try:
        result = call(function, arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "connected" if is_connected(result, leaves) else "lost"


def lost_gradients(
    cases: Iterable[Case], make: Callable[..., Any], exceptions: Mapping[str, str] | None = None
) -> list[str]:
    """Return the arguments whose gradient is lost without a word, and the exceptions that nothing needs.

    Parameters
    ----------
    cases : iterable of (name, function, arguments by name)
        Of legal calls; all other parameters are taken from the signature. Arguments under "*" are given by position.
    make : callable
        ``make(array, requires_grad=True)`` gives a Tensor.
    exceptions : mapping
        From ``"name: argument"``, or an argument of any function, to the reason why it has no gradient.
    """
    known, used, faults = dict(exceptions or {}), set(), []
    for what, answer in answers(cases, make):
        if answer == "lost":
            place = what.partition(" (")[0]
            keys = {place, place.partition(": ")[2]} & known.keys()
            used |= keys
            if not keys:
                faults.append(what)
    return faults + [f"{name} is no exception" for name in known if name not in used]
