"""Other libraries: einops and threadpoolctl know qkv's Tensors and threads, PyTorch loads the states of its layers.

The first two are told about qkv when they are imported, before qkv or after it; nothing is imported for that.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._public import publish

__all__ = ["pytorch_state", "register"]

_registered: set[str] = set()


def register() -> None:
    """Let einops take Tensors and threadpoolctl limit threads, as far as these libraries are imported.

    It happens by itself; call it where something has removed this package's finder from ``sys.meta_path``.

    Examples
    --------
    >>> qkv.interop.register()
    """
    for name in _LIBRARIES:
        if name in sys.modules:
            _register(name)


def pytorch_state(module: Any) -> dict[str, NDArray[Any]]:
    """Give the state of a module under the names of PyTorch's modules, which load it.

    The names of `qkv.nn` are PyTorch's but for the input projections of attention: ``q_proj.weight`` and its like
    become rows of ``in_proj_weight (3 M, M)`` and ``in_proj_bias (3 M)``, or ``q_proj_weight`` and its like where keys
    or values have another size. Layers of `qkv.nn` load both; those of `qkv.torch.nn` have PyTorch's names already.

    Parameters
    ----------
    module : Module, or mapping from str to array_like
        A module, or what its ``state_dict()`` gave.

    Returns
    -------
    dict from str to ndarray
        Copies; ``{k: torch.from_numpy(v) for k, v in state.items()}`` is a state of PyTorch's.

    Raises
    ------
    ValueError
        If heads share keys and values (``num_kv_heads``), which PyTorch's MultiheadAttention does not have.

    Examples
    --------
    >>> {name: array.shape for name, array in qkv.interop.pytorch_state(qkv.nn.MultiHeadAttention(8, 2)).items()}
    {'out_proj.weight': (8, 8), 'out_proj.bias': (8,), 'in_proj_weight': (24, 8), 'in_proj_bias': (24,)}
    """
    given = module if isinstance(module, Mapping) else module.state_dict()
    state = {name: np.array(value) for name, value in given.items()}
    for prefix in [name.removesuffix("q_proj.weight") for name in state if name.endswith("q_proj.weight")]:
        names = [f"{prefix}{part}_proj" for part in "qkv"]
        weights = [state.pop(f"{name}.weight") for name in names]
        if len({len(weight) for weight in weights}) > 1:
            raise ValueError(
                f"pytorch_state: {names[1]}.weight must have {len(weights[0])} rows because PyTorch's heads do not "
                f"share keys and values; got {weights[1].shape}"
            )
        if len({weight.shape for weight in weights}) == 1:
            state[f"{prefix}in_proj_weight"] = np.concatenate(weights)
        else:
            state.update({f"{name}_weight": weight for name, weight in zip(names, weights, strict=True)})
        if f"{names[0]}.bias" in state:
            state[f"{prefix}in_proj_bias"] = np.concatenate([state.pop(f"{name}.bias") for name in names])
    return state


def _register(name: str) -> None:
    if name not in _registered:
        _registered.add(name)
        # A version without what is needed goes on as if qkv were not there.
        with suppress(AttributeError, ImportError):
            _LIBRARIES[name](sys.modules[name])


def _tell_einops(library: ModuleType) -> None:
    importlib.import_module("qkv._einops")


def _tell_threadpoolctl(library: Any) -> None:
    from . import _core

    class Controller(library.LibController):  # type: ignore[misc]
        user_api = "blas"  # what limits products in other libraries limits ours
        internal_api = "qkv"
        filename_prefixes = ("_core",)
        check_symbols = ("PyInit__core_in_main",)  # no other package's _core has it

        def get_num_threads(self) -> int:
            return _core.get_num_threads()

        def set_num_threads(self, num_threads: int) -> None:
            _core.set_num_threads(num_threads)

        def get_version(self) -> str:
            return str(_core.config()["version"])

    library.register(Controller)


_LIBRARIES: dict[str, Callable[[ModuleType], None]] = {
    "einops": _tell_einops,
    "threadpoolctl": _tell_threadpoolctl,
}


class _Finder:
    """Finds nothing itself: of a library above, it has what others find register behind its import."""

    def __init__(self) -> None:
        self.asking: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _LIBRARIES or name in _registered or name in self.asking:
            return None
        self.asking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.asking.discard(name)
        if spec is None or spec.loader is None:
            return None
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if module.__name__ == name:
                _register(name)

        with suppress(AttributeError):
            loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _Finder())
register()
publish(__name__)
