"""The layers that sentence-transformers puts on embeddings, and the functions that its files name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..._core import Linear, Module, Tensor
from ..families.heads import FUNCTIONS
from ..files.folders import Weights, check_shape, read_json
from .sentence_entries import DENSE

NAMES = {
    "Identity": "identity",
    "Tanh": "tanh",
    "ReLU": "relu",
    "GELU": "gelu",
    "Sigmoid": "sigmoid",
    "SiLU": "silu",
}


def activation_named(path: Path, entry: str, name: Any) -> str:
    """Return qkv's name of the function that a file names as a class of PyTorch."""
    kind = name.rpartition(".")[2] if isinstance(name, str) else None
    if kind not in NAMES or not name.startswith("torch.nn."):
        raise ValueError(
            f"{path}: {entry} must be torch.nn.modules.activation's {', '.join(NAMES)}; got {str(name)[:100]!r}"
        )
    return NAMES[kind]


def activated(name: str, x: Tensor) -> Tensor:
    """Compute the function of that name."""
    y: Tensor = x if name == "identity" else FUNCTIONS[name](x)
    return y


class Dense(Module):
    """``activation(linear(x))``, and with a residual ``x`` or ``residual(x)`` added."""

    def __init__(
        self, width: int, outputs: int, *, bias: bool = True, activation: str = "tanh", residual: bool = False
    ) -> None:
        super().__init__()
        self.activation, self.outputs, self.adds = activation, outputs, residual
        self.linear = Linear(width, outputs, bias=bias)
        self.residual = Linear(width, outputs, bias=False) if residual and width != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        """Compute it, ``(B, M)`` to ``(B, outputs)``."""
        y = activated(self.activation, self.linear(x))
        if not self.adds:
            return y
        z: Tensor = y + (x if self.residual is None else self.residual(x))
        return z

    @property
    def entries(self) -> dict[str, Any]:
        """The entries of its config.json."""
        kinds = {own: theirs for theirs, own in NAMES.items()}
        place = "linear" if self.activation == "identity" else "activation"
        made = {
            "in_features": self.linear.in_features,
            "out_features": self.outputs,
            "bias": self.linear.bias is not None,
            "activation_function": f"torch.nn.modules.{place}.{kinds[self.activation]}",
        }
        return {**made, "use_residual": True} if self.adds else made


def read_dense(folder: Path, width: int) -> Dense:
    """Read a layer that takes so many features."""
    path = folder / "config.json"
    entries = read_json(path)
    DENSE.check(path, entries)
    sizes = [entries.get(name) for name in ("in_features", "out_features")]
    if not all(isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in sizes):
        raise ValueError(
            f"{path}: in_features and out_features must be integers above 0; got {str(sizes)[:100]}"
        )
    if sizes[0] != width:
        raise ValueError(f"{path}: in_features must be {width} as the part before gives; got {sizes[0]}")
    activation = "tanh"
    if (named := entries.get("activation_function")) is not None:
        activation = activation_named(path, "activation_function", named)
    bias, residual = (
        entries.get(name, usual) is True for name, usual in (("bias", True), ("use_residual", False))
    )
    weights = Weights(folder)
    shapes: dict[str, tuple[int, ...]] = {"linear.weight": (sizes[1], width)}
    shapes |= {"linear.bias": (sizes[1],)} if bias else {}
    shapes |= {"residual.weight": (sizes[1], width)} if residual and width != sizes[1] else {}
    for name, shape in shapes.items():
        if name not in weights.shapes:
            raise ValueError(f"{weights.path}: must hold {name}; there is none")
        check_shape(weights, name, shape)
    made = Dense(width, sizes[1], bias=bias, activation=activation, residual=residual)
    made.load_state_dict(dict(weights.read({name: name for name in shapes})))
    return made
