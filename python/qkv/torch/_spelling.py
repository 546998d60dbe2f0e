"""The keywords that PyTorch takes for one argument, beside the name that a function gives it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

_EVERYWHERE = {"axis": "dim", "keepdims": "keepdim", "x2": "other"}
_OF = {
    "mm": {"mat2": "other"},
    "bmm": {"mat2": "other"},
    "mv": {"vec": "other"},
    "dot": {"tensor": "other"},
    "addmm": {"mat1": "a", "mat2": "b"},
    "baddbmm": {"batch1": "a", "batch2": "b"},
    "addmv": {"mat": "a", "vec": "b"},
    "split": {"split_size": "split_size_or_sections", "tensor": "input"},
    "copy_": {"other": "src"},
}


def spelled(name: str, f: Callable[..., Any]) -> Any:
    """Give the function for every spelling; a Tensor is its first argument, or `input`."""
    parameters = list(inspect.signature(f).parameters.values())
    known = {p.name for p in parameters if p.kind != p.VAR_POSITIONAL}
    sizes = next((p.name for p in parameters if p.kind == p.VAR_POSITIONAL), None)
    others = {
        new: old
        for new, old in {**_EVERYWHERE, **_OF.get(name, {})}.items()
        if new not in known and old in known | {"input"}
    }
    takes_tensor = bool(parameters) and parameters[0].name == "t"
    if not (others or sizes or takes_tensor) or any(p.kind == p.VAR_KEYWORD for p in parameters):
        return f

    @functools.wraps(f)
    def call(*args: Any, **options: Any) -> Any:
        if options:
            for new in [new for new in options if new in others]:
                if others[new] in options:
                    raise TypeError(f"{name}: {others[new]} must be given once; got {new}, too")
                options[others[new]] = options.pop(new)
            if takes_tensor and not args and "input" in options:
                args = (options.pop("input"),)
            if sizes in options:
                args = (*args, options.pop(sizes))
        return f(*args, **options)

    return call
