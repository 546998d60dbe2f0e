"""Finds the arrays that a formula captures: a copy of the function has recorders in their places."""

from __future__ import annotations

import enum
import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from numbers import Number
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from .. import _public
from .errors import FormulaError
from .graph import Graph
from .operations import OWN, add_own
from .values import Captured, Symbol, call, is_array

# Their functions take traced values by protocols.
_LIBRARIES = ("numpy", "torch", "math", "builtins", "operator")
_PLAIN = (
    Number,
    str,
    bytes,
    type(None),
    enum.Enum,
    np.generic,
    np.dtype,
    np.ufunc,
    BuiltinFunctionType,
    Symbol,
)
_CONTAINERS = (list, tuple, dict)


@functools.cache
def _own() -> dict[int, tuple[Any, str]]:
    add_own(
        vars(sys.modules[__package__.partition(".")[0]])
    )  # its functions are there when a formula is called
    return OWN


def _traced(function: Any, name: str) -> Callable[..., Any]:
    def operation(*args: Any, **options: Any) -> Any:
        if any(isinstance(x, Symbol) for x in (*args, *options.values())):
            return call(name, args, options)
        return function(*args, **options)

    return operation


class Capture:
    """Makes functions again for one trace; each is made once."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        # By identity: the value, which lives on, and what stands for it.
        self._made: dict[int, tuple[Any, Any]] = {}

    def __call__(self, x: Any) -> Any:
        """Return what a traced formula sees in place of a value."""
        if isinstance(x, _PLAIN):
            return x
        if id(x) not in self._made:
            self._made[id(x)] = x, x  # in cycles
            self._made[id(x)] = x, self._replaced(x)
        return self._made[id(x)][1]

    def _replaced(self, x: Any) -> Any:
        if is_array(x):
            return Captured(self._graph, x)
        if id(x) in _own():
            return _traced(*OWN[id(x)])
        if isinstance(x, functools.partial):
            arguments = {key: self(value) for key, value in x.keywords.items()}
            return functools.partial(self(x.func), *map(self, x.args), **arguments)
        if isinstance(x, MethodType):
            return functools.partial(self(x.__func__), self(x.__self__))
        if isinstance(x, FunctionType):
            if x.__globals__ is _public.__dict__:  # the words for wrong arguments round a function of qkv
                return self._outside(x, x.__wrapped__)  # type: ignore[attr-defined]
            home = (x.__module__ or "").partition(".")[0]
            if home == "qkv" and "<locals>" not in x.__qualname__:
                return self._outside(x, x)
            made_there = home in _LIBRARIES and "<locals>" not in x.__qualname__
            return x if made_there else self._function(x)
        if isinstance(x, ModuleType):
            return x if x.__name__.partition(".")[0] in _LIBRARIES else _Seen(x, self)
        if isinstance(x, _CONTAINERS):
            return self._container(x)
        if isinstance(x, type):
            return _Seen(x, self) if any(is_array(y) for c in x.__mro__ for y in vars(c).values()) else x
        held = hasattr(x, "__dict__") or hasattr(type(x), "__slots__") or hasattr(type(x), "__getitem__")
        return _Seen(x, self) if held else x

    def _outside(self, x: Any, inner: FunctionType) -> Callable[..., Any]:
        """Return a function of qkv, which is its own where no traced value is among its arguments."""
        made: Any = None

        def function(*args: Any, **options: Any) -> Any:
            nonlocal made
            if any(isinstance(y, Symbol) for y in (*args, *options.values())):
                made = made or self._function(inner)
                return made(*args, **options)
            result = x(*map(_seen, args), **{name: _seen(y) for name, y in options.items()})
            if is_array(result):
                raise FormulaError(
                    TypeError,
                    f"must not make arrays, as {inner.__name__} does; make them outside of the formula",
                )
            return self(result)

        return function

    def _container(self, x: Any) -> Any:
        if isinstance(x, dict):
            return {key: self(value) for key, value in x.items()}
        parts = [self(part) for part in x]
        if isinstance(x, list):
            return parts
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)

    def _function(self, f: FunctionType) -> Any:
        names = {name for code in _codes(f.__code__) for name in code.co_names}
        space: dict[str, Any] = {
            name: f.__globals__[name] for name in ("__builtins__", "__name__") if name in f.__globals__
        }
        cells = tuple(CellType() for _ in f.__closure__ or ())
        made = FunctionType(f.__code__, space, f.__name__, None, cells)
        self._made[id(f)] = f, made
        made.__defaults__ = f.__defaults__ and tuple(map(self, f.__defaults__))
        made.__kwdefaults__ = f.__kwdefaults__ and {
            key: self(value) for key, value in f.__kwdefaults__.items()
        }
        for name in names & f.__globals__.keys():
            space[name] = self(f.__globals__[name])
        for name, cell, old in zip(f.__code__.co_freevars, cells, f.__closure__ or (), strict=True):
            with suppress(ValueError):  # not assigned yet
                contents = old.cell_contents
                # super() asks for a type
                cell.cell_contents = contents if name == "__class__" else self(contents)
        return made


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


class _Seen:
    """An object or class whose arrays and functions are replaced when they are read; else it behaves as itself."""

    __slots__ = ("_capture", "_of")

    def __init__(self, of: Any, capture: Capture) -> None:
        object.__setattr__(self, "_of", of)
        object.__setattr__(self, "_capture", capture)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # for isinstance
        return type(object.__getattribute__(self, "_of"))

    def __instancecheck__(self, x: Any) -> bool:
        return isinstance(x, self._of)

    def __getattr__(self, name: str) -> Any:
        return self._capture(getattr(self._of, name))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._of, name, value)

    def __getitem__(self, index: Any) -> Any:
        own = self._own("__getitem__")
        return self._capture(self._of[index]) if own is None else own(self, index)

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[Any]:
        return map(self._capture, self._of)

    def __call__(self, *args: Any, **options: Any) -> Any:
        own = self._own("__call__")
        return self._of(*args, **options) if own is None else own(self, *args, **options)

    def __bool__(self) -> bool:
        return bool(self._of)

    def __eq__(self, other: Any) -> Any:
        return self._of == (other._of if type(other) is _Seen else other)

    def __hash__(self) -> int:
        return hash(self._of)

    def __repr__(self) -> str:
        return repr(self._of)

    def __str__(self) -> str:
        return str(self._of)

    def _own(self, name: str) -> Any:
        """Return a method that the object's class defines in Python, captured."""
        method = getattr(type(self._of), name, None)
        made = self._capture(method) if isinstance(method, FunctionType) else method
        return None if made is method else made


def _seen(x: Any) -> Any:
    """Return what a :class:`_Seen` is of."""
    return x._of if type(x) is _Seen else x
