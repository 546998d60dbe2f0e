"""Ready formulas: functions of a module with what they are made of, which pickle."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

_AXES = {"B": "batch entries", "H": "heads", "Q": "queries", "K": "keys"}


class Formula(functools.partial[Any]):
    """A function whose first arguments are given; its name begins with an underscore."""

    # Of a score_mod that always reads the same arrays: it is traced once, not at each call. Each array comes with a
    # letter for each of its axes, B, H, Q or K where it has as many elements as the call, else a point.
    arrays: dict[str, tuple[str, Any]] | None = None
    sizes: Sequence[
        tuple[str, str, int]
    ] = ()  # of these axes: the array's name, the letter, the number of elements
    written: Any = None  # the trace that serves calls

    @property
    def __name__(self) -> str:
        return self.func.__name__.lstrip("_")

    def __repr__(self) -> str:
        return f"<formula {self.__name__}>"

    def __reduce__(self) -> tuple[Any, ...]:
        kind, function, state = cast(tuple[Any, ...], super().__reduce__())
        return kind, function, (*state[:3], {**(state[3] or {}), "written": None})

    def misfit(self, shape: Sequence[int]) -> str | None:
        """Say which array does not have the sizes (B, H, Lq, Lk) of a call, or None."""
        for name, letter, size in self.sizes:
            wanted = shape["BHQK".index(letter)]
            if size != wanted and self.arrays is not None:
                length = letter if letter in "BH" else f"L{letter.lower()}"
                return (
                    f"must have {name} of {length} = {wanted} {_AXES[letter]} as the call has; got {name} "
                    f"{tuple(self.arrays[name][1].shape)}"
                )
        return None


def fixed(function: Callable[..., Any], *arguments: Any, **arrays: tuple[str, Any]) -> Formula:
    """Return a score_mod that is traced once; `arrays` is :attr:`Formula.arrays`."""
    made = Formula(function, *arguments)
    made.arrays = arrays
    made.sizes = [
        (name, letter, size)
        for name, (axes, array) in arrays.items()
        for letter, size in zip(axes, array.shape, strict=True)
        if letter in _AXES
    ]
    return made


def of_part(function: Any) -> Any:
    """Return a formula for a part of its queries, keys or batch entries, with indices of the whole."""
    if not isinstance(function, Formula) or function.arrays is None:
        return function
    arrays = {
        name: ("".join(a if a == "H" else "." for a in axes), array)
        for name, (axes, array) in function.arrays.items()
    }
    return fixed(function.func, *function.args, **arrays)
