"""Modules that hold others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from ._module import Module
from .parameter import Parameter


def _place(index: Any, count: int) -> int:
    i: int = index.__index__()
    if not -count <= i < count:
        raise IndexError(f"index {i} is out of range")
    return i + count if i < 0 else i


class _Container(Module):
    """Modules or parameters by name."""

    _of = "_modules"

    @property
    def _held(self) -> Any:
        return getattr(self, self._of)

    def _hold(self, name: str, value: Any) -> None:
        if self._of == "_modules":
            self.add_module(name, value)
        else:
            self.register_parameter(name, value if isinstance(value, Parameter) else Parameter(value))

    def __len__(self) -> int:
        return len(self._held)


class _Numbered(_Container):
    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self.extend(values or ())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._held.values())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._several(list(self._held.items())[index])
        return list(self)[_place(index, len(self))]

    def _several(self, parts: list[tuple[str, Any]]) -> Any:
        return type(self)([part for _, part in parts])

    def __setitem__(self, index: Any, value: Any) -> None:
        self._hold(list(self._held)[_place(index, len(self))], value)

    def __delitem__(self, index: Any) -> None:
        parts = list(self)
        del parts[index if isinstance(index, slice) else _place(index, len(self))]
        self._renumber(parts)

    def _renumber(self, parts: list[Any]) -> None:
        self._held.clear()
        self.extend(parts)

    def append(self, value: Any) -> Any:
        """Add one at the end."""
        self._hold(str(len(self)), value)
        return self

    def insert(self, index: int, value: Any) -> Any:
        """Add one before another."""
        parts = list(self)
        parts.insert(index, value)
        self._renumber(parts)
        return self

    def extend(self, values: Iterable[Any]) -> Any:
        """Add several at the end."""
        for value in values:
            self.append(value)
        return self


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

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], dict) else None
        for name, module in named or ((str(i), module) for i, module in enumerate(args)):
            self.add_module(name, module)

    def _several(self, parts: list[tuple[str, Any]]) -> Any:
        return type(self)(OrderedDict(parts))

    def forward(self, input: Any) -> Any:
        """Call all."""
        for module in self:
            input = module(input)
        return input


class ModuleList(_Numbered):
    """A list of modules."""

    def __init__(self, modules: Iterable[Any] | None = None) -> None:
        super().__init__(modules)

    def __repr__(self) -> str:
        runs = [
            (text, len(list(same))) for text, same in groupby(map(repr, self))
        ]  # of parts that print the same
        lines, i = [], 0
        for text, count in runs:
            place = f"({i})" if count == 1 else f"({i}-{i + count - 1})"
            lines.append(f"{place}: {text if count == 1 else f'{count} x {text}'}")
            i += count
        inner = "\n".join(lines).replace("\n", "\n  ")
        return f"{self._get_name()}(\n  {inner}\n)" if lines else f"{self._get_name()}()"


class ParameterList(_Numbered):
    """A list of parameters."""

    _of = "_parameters"

    def extra_repr(self) -> str:
        """The parameters' dtypes and sizes."""
        return "\n".join(
            f"  ({name}): Parameter containing: [{p.dtype} of size {'x'.join(map(str, p.shape))}]"
            for name, p in self._parameters.items()
        )


class _Named(_Container):
    def __getitem__(self, key: str) -> Any:
        return self._held[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._hold(key, value)

    def __delitem__(self, key: str) -> None:
        del self._held[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __contains__(self, key: str) -> bool:
        return key in self._held

    def keys(self) -> Any:
        """The names."""
        return self._held.keys()

    def values(self) -> Any:
        """The entries."""
        return self._held.values()

    def items(self) -> Any:
        """Names and entries."""
        return self._held.items()

    def update(self, entries: Any) -> None:
        """Add several."""
        for key, value in entries.items() if hasattr(entries, "items") else entries:
            self[key] = value

    def pop(self, key: str) -> Any:
        """Take one out."""
        value = self[key]
        del self[key]
        return value


class ModuleDict(_Named):
    """A dict of modules."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        self.update(modules or {})


class ParameterDict(_Named):
    """A dict of parameters."""

    _of = "_parameters"

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self.update(parameters or {})
