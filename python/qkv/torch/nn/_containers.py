"""Modules that hold others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, MutableMapping
from itertools import groupby
from typing import Any

from .._settings import constructor
from ._module import Module
from .parameter import Parameter


class _Container(Module):
    """Modules or parameters by name."""

    _of = "_modules"

    _held = property(lambda self: getattr(self, self._of))

    def _configure(self, **given) -> None:
        super()._configure()
        (entries,) = given.values()
        self._fill(entries or ())

    def _hold(self, name: str, value) -> None:
        if self._of == "_modules":
            self.add_module(name, value)
        else:
            self.register_parameter(name, value if isinstance(value, Parameter) else Parameter(value))

    def __len__(self) -> int:
        return len(self._held)


class _Numbered(_Container):
    def __iter__(self) -> Iterator[Any]:
        return iter(self._held.values())

    def __getitem__(self, index):
        if isinstance(index, slice):
            return self._several(list(self._held.items())[index])
        return list(self)[index]

    def _several(self, parts: list[tuple[str, Any]]):
        return type(self)([part for _, part in parts])

    def __setitem__(self, index, value) -> None:
        self._hold(list(self._held)[index], value)

    def __delitem__(self, index) -> None:
        parts = list(self)
        del parts[index]
        self._renumber(parts)

    def _renumber(self, parts: list[Any]) -> None:
        self._held.clear()
        self.extend(parts)

    def append(self, value):
        """Add one at the end."""
        self._hold(str(len(self)), value)
        return self

    def insert(self, index: int, value):
        """Add one before another."""
        parts = list(self)
        parts.insert(index, value)
        self._renumber(parts)
        return self

    def extend(self, values: Iterable[Any]):
        """Add several at the end."""
        for value in values:
            self.append(value)
        return self

    _fill = extend


class Sequential(_Numbered):
    """Modules that are called one after the other.

    Examples
    --------
    >>> from qkv.torch import nn
    >>> nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): ReLU()
    )
    """

    def __init__(self, *args) -> None:
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], dict) else None
        for name, module in named or ((str(i), module) for i, module in enumerate(args)):
            self.add_module(name, module)

    def _several(self, parts: list[tuple[str, Any]]):
        return type(self)(OrderedDict(parts))

    def forward(self, input):
        """Call all."""
        for module in self:
            input = module(input)
        return input


class ModuleList(_Numbered):
    """A list of modules."""

    __init__ = constructor("modules=None")

    def _lines(self) -> list[str]:
        lines, i = [], 0
        for text, same in groupby(map(repr, self)):  # parts that print the same are in one line
            count = len(list(same))
            place = f"({i})" if count == 1 else f"({i}-{i + count - 1})"
            lines.append(f"{place}: {text if count == 1 else f'{count} x {text}'}")
            i += count
        return lines


class ParameterList(_Numbered):
    """A list of parameters."""

    __init__ = constructor("values=None")
    _of = "_parameters"

    def extra_repr(self) -> str:
        """The parameters' dtypes and sizes."""
        return "\n".join(
            f"  ({name}): Parameter containing: [{p.dtype} of size {'x'.join(map(str, p.shape))}]"
            for name, p in self._parameters.items()
        )


class _Named(_Container, MutableMapping[str, Any]):
    def __getitem__(self, key: str):
        return self._held[key]

    def __setitem__(self, key: str, value) -> None:
        self._hold(key, value)

    def __delitem__(self, key: str) -> None:
        del self._held[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    __eq__, __hash__ = object.__eq__, object.__hash__
    _fill = MutableMapping.update


class ModuleDict(_Named):
    """A dict of modules."""

    __init__ = constructor("modules=None")
