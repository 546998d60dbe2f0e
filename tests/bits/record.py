"""How computations are named, run and hashed.

Inputs are made of integers by exact steps, so that no system's mathematics library has a part in them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import qkv
from qkv import nn

BOTH = ("float32", "float64")
SINGLE = ("float32",)

_numbers = np.random.default_rng(7)


def draw(*shape: int) -> np.ndarray:
    """Numbers like normal ones: a sum of uniform ones, which are integers over a power of two."""
    return sum(_numbers.random(shape) for _ in range(4)) * np.float64(2) - 4


def _bytes(x: Any) -> Iterator[bytes]:
    if isinstance(x, dict):
        x = [x[key] for key in sorted(x)]
    if isinstance(x, (tuple, list)):
        for part in x:
            yield from _bytes(part)
    elif isinstance(x, str):
        yield x.encode()
    elif x is not None:
        array = np.ascontiguousarray(np.asarray(x.numpy() if hasattr(x, "numpy") else x))
        if array.dtype.kind == "f":
            array = np.where(np.isnan(array), array.dtype.type(np.nan), array)  # its sign is not promised
        yield array.tobytes()


class Hashes(dict[str, str]):
    """Hashes by the name of what was computed, `family: what dtype`, gradients apart."""

    family = ""

    def add(self, what: str, compute: Callable[[], Any]) -> None:
        """Hash what a computation gives: arrays, Tensors, or lists of them."""
        name = f"{self.family}: {what}"
        assert name not in self, name
        self[name] = hashlib.sha1(b"".join(_bytes(compute()))).hexdigest()[:12]

    def function(
        self,
        what: str,
        f: Callable[..., Any],
        *inputs: Any,
        dtypes: tuple[str, ...] = BOTH,
        gradients: bool = True,
    ) -> None:
        """Hash a function's result and the gradients of its floating inputs."""
        for dtype in dtypes:
            given = [x.astype(dtype) if _floating(x) else x for x in inputs]
            self.add(f"{what} {dtype}", lambda given=given: f(*_tensors(given)))
            if gradients:
                self.add(f"{what} {dtype} gradients", lambda given=given: _gradients(f, given))

    def layer(self, what: str, make: Callable[[], nn.Module], *inputs: np.ndarray) -> None:
        """Hash a layer's results without recording, and a training step's with the gradients of all parameters."""
        x = [i.astype("float32") if _floating(i) else i for i in inputs]

        def inference() -> Any:
            module = filled(make()).eval()
            with qkv.no_grad():
                return module(*x)

        def training() -> Any:
            module = filled(make()).train()
            tensors = _tensors(x, requires_grad=True)
            y = module(*tensors)
            _scalar(y).backward()
            return [y, [p.grad for p in module.parameters()], [t.grad for t in tensors if hasattr(t, "grad")]]

        self.add(f"{what} without recording", inference)
        self.add(f"{what} with gradients", training)


def _floating(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def _scalar(y: Any) -> Any:
    parts = [v for v in (y if isinstance(y, (tuple, list)) else [y]) if getattr(v, "requires_grad", False)]
    total = None
    for v in parts:
        s = (v * v * 0.5 + v).sum()
        total = s if total is None else total + s
    return total


def _tensors(given: list[Any], **more: bool) -> list[Any]:
    return [qkv.tensor(x, **more) if _floating(x) else x for x in given]


def _gradients(f: Callable[..., Any], given: list[Any]) -> Any:
    tensors = _tensors(given, requires_grad=True)
    _scalar(f(*tensors)).backward()
    return [t.grad for t in tensors if hasattr(t, "grad")]


def filled(module: nn.Module) -> nn.Module:
    """Set all parameters to numbers of `draw`: normal random ones need the system's mathematics library."""
    qkv.manual_seed(1)
    numbers = np.random.default_rng(11)
    for p in module.parameters():
        p.detach().copy_((numbers.random(p.shape) - 0.5).astype("float32") * np.float32(0.5))
    return module
