"""What arguments must be, each told once by their names; the words are made when one is refused."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .. import _core
from .._words.errors import real, shown

Core: Any = _core.Tensor  # whose methods in `qkv.torch` have PyTorch's arguments
_core_shape = Core.shape.fget
NUMBERS = (int, float, np.number, np.bool_)
OPERANDS = (Core, np.ndarray, *NUMBERS)  # what arithmetic takes


def tensor(operation: str, name: str, value: Any) -> Any:
    """A Tensor."""
    if not isinstance(value, Core):
        raise TypeError(f"{operation}: {name} must be a Tensor; got {shown(value)}")
    return value


def number(operation: str, name: str, value: Any) -> Any:
    """A number, or that of a Tensor without axes, which may not record: its gradient would be lost."""
    if value.__class__ is float or value.__class__ is int:
        return value
    if isinstance(value, Core):
        if value.requires_grad:
            raise TypeError(
                f"{operation}: {name} must be a number because it gets no gradient; got a Tensor that requires one"
            )
        if _core_shape(value):
            raise TypeError(
                f"{operation}: {name} must be a number; got a Tensor of shape {_core_shape(value)}"
            )
        return value.item()
    if not isinstance(real(value), NUMBERS):
        raise TypeError(f"{operation}: {name} must be a number; got {shown(value)}")
    return value


def integer(operation: str, name: str, value: Any, least: int | None = None) -> int:
    """A whole number; True and False are none."""
    if value.__class__ is not int:
        if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
            raise TypeError(f"{operation}: {name} must be an integer; got {shown(value)}")
        value = operator.index(value)
    if least is not None and value < least:
        raise RuntimeError(f"{operation}: {name} must be at least {least}; got {value}")
    return value  # type: ignore[no-any-return]


def flag(operation: str, name: str, value: Any) -> bool:
    """True or False."""
    if value is not True and value is not False:
        raise TypeError(f"{operation}: {name} must be True or False; got {shown(value)}")
    return value  # type: ignore[no-any-return]


def floating(operation: str, name: str, t: Any) -> Any:
    """A Tensor of floating numbers."""
    if _core.result_dtype(tensor(operation, name, t)).kind < 2:
        raise RuntimeError(f"{operation}: {name} must hold floating numbers; got {t.dtype}")
    return t


# What an argument is by its name, in every function and constructor; an annotation says it where a name means
# something else: "bool", "int", "float", or anything else for what the function judges itself.
_NAMES = {
    flag: "keepdim largest sorted descending stable replacement equal_nan as_tuple return_inverse return_counts "
    "sparse_grad log_target is_causal enable_gqa training inplace bidirectional batch_first norm_first drop_last",
    integer: "k n decimals steps num_classes ignore_index num_samples diagonal offset dim1 dim2 start_dim end_dim "
    "dimension dim0 chunks minlength num_layers num_heads nhead embed_dim kdim vdim d_model hidden_size "
    "input_size",
    number: "p alpha beta threshold eps label_smoothing fill_value rtol atol mean std scale dropout "
    "dropout_p layer_norm_eps correction gamma eta_min",
}
KINDS = {name: check for check, names in _NAMES.items() for name in names.split()}
_WORDS = {"bool": flag, "int": integer, "float": number}
_USUAL = {flag: "bool", integer: "int", number: "float"}  # classes of what needs no check


def kinds(parameters: Iterable[inspect.Parameter]) -> dict[str, Any]:
    """The check of each parameter that has one; what is None by default may be None."""
    found: dict[str, Any] = {}
    for p in parameters:
        words = str(p.annotation).partition(" | ")[0]
        check = KINDS.get(p.name) if p.annotation is p.empty else _WORDS.get(words)
        if check is not None and p.default is not ... and p.kind is not p.VAR_POSITIONAL:
            found[p.name] = check
    return found


def lines(name: str, parameters: Iterable[inspect.Parameter]) -> str:
    """The text of the checks at the beginning of a function: a class test of the usual case."""
    given = {p.name: p for p in parameters}
    text = ""
    for word, check in kinds(given.values()).items():
        test = f"{word} is not None and " if given[word].default is None else ""
        text += f"\n    if {test}{word}.__class__ is not {_USUAL[check]}:"
        text += f" {word} = __{check.__name__}({name!r}, {word!r}, {word})"
    return text


CHECKS = {f"__{check.__name__}": check for check in _NAMES}


def checked(name: str, f: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which is called with what its parameters' names promise."""
    parameters = [*inspect.signature(f).parameters.values()]
    text = "" if hasattr(f, "checked") else lines(name, parameters)
    if not text:
        return f
    defaults = {f"__{p.name}": p.default for p in parameters if p.default is not p.empty}
    words: list[str] = []
    passed: list[str] = []
    last: Any = None
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and last not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL):
            words.append("*")
        stars = "*" if p.kind == p.VAR_POSITIONAL else "**" if p.kind == p.VAR_KEYWORD else ""
        words.append(stars + p.name + (f"=__{p.name}" if f"__{p.name}" in defaults else ""))
        passed.append(f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else stars + p.name)
        last = p.kind
    space = {**CHECKS, **defaults, "__f": f}
    exec(f"def call({', '.join(words)}):{text}\n    return __f({', '.join(passed)})", space)
    return functools.update_wrapper(space["call"], f)
