"""PyTorch's view of the core's registry of modules."""

from __future__ import annotations

import inspect
from abc import ABCMeta
from collections.abc import Iterator, MutableMapping
from typing import Any

from ... import _core

CoreModule: Any = _core.Module


class Entries(MutableMapping[str, Any]):
    """One of PyTorch's tables of a module, ``_parameters``, ``_buffers`` or ``_modules``, over its entries."""

    def __init__(self, module, kind) -> None:
        self._module, self._kind = module, kind

    def _all(self) -> dict[str, Any]:
        found: dict[str, Any] = self._module._entries(self._kind)
        return found

    def __getitem__(self, name: str):
        return self._all()[name]

    def __setitem__(self, name: str, value) -> None:
        self._module._register(self._kind, name, value)

    def __delitem__(self, name: str) -> None:
        self[name]
        CoreModule.__delattr__(self._module, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return repr(self._all())


class ModuleType(ABCMeta, type(CoreModule)):  # type: ignore[misc]
    """Lets modules be abstract base classes, too."""

    @property
    def __signature__(cls) -> inspect.Signature:
        made = inspect.signature(cls.__init__)
        return made.replace(parameters=list(made.parameters.values())[1:], return_annotation=made.empty)

    def __call__(cls, *args, **kwargs):
        if cls.__abstractmethods__:
            missing = ", ".join(sorted(cls.__abstractmethods__))
            raise TypeError(
                f"Can't instantiate abstract class {cls.__name__} without an implementation of {missing}"
            )
        return super().__call__(*args, **kwargs)
