"""What ``inspect.signature`` and editors say of a layer that is called: the arguments of its ``forward``."""

from __future__ import annotations

from typing import Any

from .. import _core


class CallSignature:
    """``layer.__signature__`` is that of ``layer.forward``; a class has none, which is that of its constructor."""

    def __get__(self, layer: Any, kind: type) -> Any:
        if layer is None:
            raise AttributeError("__signature__")
        import inspect  # takes longer to import than qkv

        return inspect.signature(layer.forward)


_core.Module.__signature__ = CallSignature()  # type: ignore[attr-defined]
