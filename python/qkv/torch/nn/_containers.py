"""Modules that hold others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

from ._module import Module
from .parameter import Parameter


def _place(index: Any, count: int) -> int:
    i: int = index.__index__()
    if not -count <= i < count:
        raise IndexError(f"index {i} is out of range")
    return i + count if i < 0 else i


class _Numbered(Module):
    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._several(list(self._modules.items())[index])
        return list(self._modules.values())[_place(index, len(self))]

    def _several(self, parts: list[tuple[str, Any]]) -> Any:
        return type(self)(*[part for _, part in parts])

    def __setitem__(self, index: Any, module: Any) -> None:
        self._modules[list(self._modules)[_place(index, len(self))]] = module

    def __delitem__(self, index: Any) -> None:
        names = list(self._modules)
        for name in names[index] if isinstance(index, slice) else [names[_place(index, len(self))]]:
            del self._modules[name]
        parts = list(self._modules.values())
        self._modules.clear()
        self._modules.update({str(i): part for i, part in enumerate(parts)})

    def append(self, module: Any) -> Any:
        """Add one at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Any) -> Any:
        """Add one before another."""
        parts = list(self._modules.values())
        parts.insert(index, module)
        self._modules.clear()
        self._modules.update({str(i): part for i, part in enumerate(parts)})
        return self

    def extend(self, modules: Iterable[Any]) -> Any:
        """Add several at the end."""
        for module in modules:
            self.append(module)
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
        super().__init__()
        self.extend(modules or ())

    def _several(self, parts: list[tuple[str, Any]]) -> Any:
        return type(self)([part for _, part in parts])

    def __repr__(self) -> str:
        runs: list[list[Any]] = []  # of parts that print the same
        for i, part in enumerate(self):
            text = repr(part)
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        if not runs:
            return f"{self._get_name()}()"
        lines = [
            f"({a}): {text}" if a == b else f"({a}-{b}): {b - a + 1} x {text}"
            for a, b, text in ((a, b, text.replace("\n", "\n  ")) for a, b, text in runs)
        ]
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dict of modules."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Any) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def keys(self) -> Any:
        """The names."""
        return self._modules.keys()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def items(self) -> Any:
        """Names and modules."""
        return self._modules.items()

    def update(self, modules: Any) -> None:
        """Add several."""
        for key, module in modules.items() if hasattr(modules, "items") else modules:
            self.add_module(key, module)


class ParameterList(Module):
    """A list of parameters."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        for value in values or ():
            self.append(value)

    def append(self, value: Any) -> ParameterList:
        """Add one at the end."""
        as_parameter = value if isinstance(value, Parameter) else Parameter(value)
        self.register_parameter(str(len(self)), as_parameter)
        return self

    def __getitem__(self, index: int) -> Any:
        return list(self._parameters.values())[_place(index, len(self))]

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parameters.values())

    def extra_repr(self) -> str:
        """The parameters' dtypes and sizes."""
        return "\n".join(
            f"  ({name}): Parameter containing: [{p.dtype} of size {'x'.join(map(str, p.shape))}]"
            for name, p in self._parameters.items()
        )


class ParameterDict(Module):
    """A dict of parameters."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        for key, value in (parameters or {}).items():
            self[key] = value

    def __getitem__(self, key: str) -> Any:
        return self._parameters[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.register_parameter(key, value if isinstance(value, Parameter) else Parameter(value))

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __contains__(self, key: str) -> bool:
        return key in self._parameters

    def items(self) -> Any:
        """Names and parameters."""
        return self._parameters.items()
