"""Calls of any function with arguments that fit many of them, and whether results show the memory of an argument."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Make = Callable[[np.ndarray], Any]  # of an array a Tensor, or the array itself
SHAPES = [(3, 5), (1, 1), (3, 3)]  # with axes along which nothing is to do


def operands(make: Make, shape: tuple[int, ...]) -> dict[str, Any]:
    """Tensors of numbers that most functions leave as they are where they may: between 0 and 1, in order."""
    numbers = np.linspace(0.1, 0.9, int(np.prod(shape))).reshape(shape)
    return {
        "x": make(numbers),
        "row": make(numbers[0].copy()),
        "half": make(numbers[:, : shape[1] // 2].copy()),
        "swapped": make(numbers.T.copy()),
        "places": make(np.zeros(shape, np.int64)),
        "rows": make(np.arange(shape[0])),
        "all": make(np.ones(shape, bool)),
    }


# What follows x.
REST: list[Callable[[dict[str, Any]], tuple[Any, ...]]] = [
    lambda o: (),
    *(
        lambda o, numbers=numbers: numbers
        for numbers in [
            (0,),
            (1,),
            (-1,),
            (2,),
            (0, 1),
            (0, 0),
            (1, 1),
            (1, 0),
            (0, 0, 1),
            (0, 1, 1),
            (0, 1, 0),
        ]
    ),
    *(
        lambda o, given=given: given
        for given in [
            (None,),
            ((0,),),
            ((0, 1),),
            ((1, 1),),
            ([0, 1],),
            (1.0,),
            (0.0,),
            (0.0, 1.0),
            (10,),
            (-10,),
        ]
    ),
    lambda o: (o["x"].shape,),
    lambda o: tuple(o["x"].shape),
    lambda o: (o["x"].dtype,),
    lambda o: (o["x"],),
    lambda o: (o["x"], o["x"]),
    lambda o: (o["x"], o["x"], o["x"]),
    lambda o: (o["x"], o["x"], o["row"]),
    lambda o: (o["swapped"],),
    lambda o: (o["x"], o["swapped"]),
    lambda o: (o["row"],),
    lambda o: (o["half"], o["half"]),
    lambda o: (o["places"],),
    lambda o: (o["rows"],),
    lambda o: (0, o["places"]),
    lambda o: (0, o["rows"]),
    lambda o: (0, o["places"], o["x"]),
    lambda o: (0, o["rows"], o["x"]),
    lambda o: (o["places"], 0),
    lambda o: (o["all"],),
    lambda o: (o["all"], 0.5),
    lambda o: (o["all"], o["x"]),
    lambda o: (slice(None),),
]
# Whole lists of arguments that do not begin with x.
OTHER: list[Callable[[dict[str, Any]], tuple[Any, ...]]] = [
    lambda o: ([o["x"]],),
    lambda o: ([o["x"]], 0),
    lambda o: ([o["x"], o["x"]],),
    lambda o: ("ij->ij", o["x"]),
    lambda o: ("ij,ij->ij", o["x"], o["x"]),
    lambda o: (o["all"], o["x"], o["x"]),
    lambda o: (o["row"],),
    lambda o: (o["row"], o["row"]),
    lambda o: (o["x"].reshape(1, *o["x"].shape),) * 2,
    lambda o: (o["x"].reshape(1, *o["x"].shape),) * 3,
    lambda o: (o["x"].reshape(1, 1, *o["x"].shape),) * 3,
    lambda o: (o["x"][0, 0], o["x"]),
]


def calls(make: Make, *, method: bool = False) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Lists of arguments, each with a name, made for each call."""
    for shape in SHAPES:
        for i, rest in enumerate(REST):
            o = operands(make, shape)
            yield f"{shape} {i}", (o["x"], *rest(o))
        for i, whole in enumerate(() if method else OTHER):
            yield f"{shape} other {i}", whole(operands(make, shape))


def arrays_in(value: Any) -> Iterator[np.ndarray]:
    """The memory of the Tensors and arrays in a value."""
    if isinstance(value, np.ndarray):
        yield value
    elif hasattr(value, "detach") and hasattr(value, "numpy"):
        yield np.asarray(value.detach().numpy())
    elif isinstance(value, dict):
        yield from arrays_in(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from arrays_in(item)


def shares(result: Any, given: Any) -> bool:
    """Whether a result shows memory of what was given."""
    return any(np.shares_memory(a, b) for a in arrays_in(result) for b in arrays_in(given))


def answer(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bool | None:
    """Whether a call's result shares memory with its arguments; None if it is refused or gives no Tensor."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = function(*arguments)
            found = list(arrays_in(result))
        except Exception:
            return None
    return shares(found, arguments) if found else None


def answers(function: Callable[..., Any], make: Make, *, method: bool = False) -> dict[str, bool]:
    """What each call that is not refused says."""
    found = {name: answer(function, arguments) for name, arguments in calls(make, method=method)}
    return {name: shared for name, shared in found.items() if shared is not None}
