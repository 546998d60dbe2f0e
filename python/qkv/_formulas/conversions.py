"""What traced values know of dtypes, of the device and of constants like themselves, as NumPy and PyTorch spell it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from .canonical import to_boolean, to_float, to_integer
from .errors import FormulaError

if TYPE_CHECKING:
    from .nodes import Node
    from .values import Traced

# Floats of fewer bits than 32 are those of the call, which pairs have in any case.
_FLOATS = dict.fromkeys(["float16", "half", "bfloat16"], "float")
_FLOATS |= {"float": "float64", "double": "float64", "float64": "float64", "float32": "float32"}
_INTEGERS = frozenset(("int", "long", "int32", "int64"))
_PYTHON: dict[str, type] = {"f": float, "i": int, "b": bool}
# Options of PyTorch that change nothing, and why.
WITHOUT_EFFECT = {
    "layout": "a number has none",
    "memory_format": "a number has none",
    "non_blocking": "nothing is moved",
    "copy": "a result is a value of its own",
    "pin_memory": "nothing is moved",
    "requires_grad": "a constant is no input",
}


def refuse(text: str, kind: type[Exception] = TypeError) -> NoReturn:
    raise FormulaError(kind, text)


class _Device(str):
    """The CPU, as a word and as an object with a type."""

    __slots__ = ()
    type = "cpu"

    def __eq__(self, other: Any) -> bool:
        return _is_cpu(other)

    __hash__ = str.__hash__


def _is_cpu(device: Any) -> bool:
    return str(device).partition(":")[0] == "cpu"


def _check(options: dict[str, Any], name: str) -> None:
    device = options.pop("device", None)
    if device is not None and not _is_cpu(device):
        refuse(f"must stay on the CPU; got {name} with device {device}")
    if unknown := sorted(options.keys() - WITHOUT_EFFECT.keys()):
        refuse(f"must call {name} without {unknown[0]}")


class Conversions:
    """The methods of traced values that convert them, and that make constants."""

    device = _Device("cpu")
    is_cuda = False

    def value(self) -> Traced:
        raise NotImplementedError

    def to(self, *kinds: Any, dtype: Any = None, device: Any = None, **options: Any) -> Any:
        """Convert to a dtype: one of floats, integers or booleans; or to the dtype of another value."""
        _check(options, "to")
        x: Any = self
        for kind in (*kinds, device, dtype):
            if kind is not None and not isinstance(kind, bool):
                x = x._as(kind)
        return x

    def astype(self, dtype: Any, **options: Any) -> Any:
        return self.to(dtype, **options)

    type = astype

    def _as(self, kind: Any) -> Any:
        if isinstance(kind, Conversions):
            return self._of_kind(kind.value().node.kind)
        name = str(getattr(kind, "__name__", kind)).rpartition(".")[2]
        if _is_cpu(name):
            return self
        x = self.value()
        if name in _FLOATS:
            return x.of(to_float(x.graph, x.node, _FLOATS[name]))
        if name in _INTEGERS:
            return self._of_kind("i")
        if name in ("bool", "bool_"):
            return self._of_kind("b")
        refuse(f"must convert to float32, float64, int64 or bool; got {name}")

    def _of_kind(self, kind: str) -> Traced:
        x = self.value()
        return x.of(_TO[kind](x.graph, x.node))

    def type_as(self, other: Any) -> Traced:
        return self.to(other)  # type: ignore[no-any-return]

    def float(self) -> Traced:
        """Convert to floats of the dtype of the call, as those of pairs are."""
        return self._of_kind("f")

    # In the dtype of the call, too: nothing is rounded to fewer bits.
    half = bfloat16 = float

    def double(self) -> Traced:
        return self.to("float64")  # type: ignore[no-any-return]

    def int(self) -> Traced:
        return self._of_kind("i")

    long = int

    def bool(self) -> Traced:
        return self._of_kind("b")

    def cpu(self) -> Any:
        return self

    contiguous = cpu

    def clone(self) -> Traced:
        x = self.value()
        return x.of(x.node)

    # --- constants

    def new_full(self, size: Any, fill_value: Any, *, dtype: Any = None, **options: Any) -> Traced:
        """Return a number in the dtype of this one, or in another."""
        _check(options, "new_full")
        if size not in ((), []):
            refuse(f"must make numbers, of size (); got {size}")
        x = self.value()
        made = x.of(x.graph.const(_PYTHON[x.node.kind](fill_value)))
        return made if dtype is None else made.to(dtype)

    def new_zeros(self, *size: Any, **options: Any) -> Traced:
        return self.new_full(_size(size), 0, **options)

    def new_ones(self, *size: Any, **options: Any) -> Traced:
        return self.new_full(_size(size), 1, **options)

    def new_tensor(self, data: Any, *, dtype: Any = None, **options: Any) -> Traced:
        """Return a number in a dtype of its own."""
        _check(options, "new_tensor")
        if not isinstance(data, (bool, int, float)):
            refuse(f"must make numbers; got new_tensor of {type(data).__name__}")
        x = self.value()
        made = x.of(x.graph.const(data))
        return made if dtype is None else made.to(dtype)


def _call_float(graph: Any, n: Node) -> Node:
    return to_float(graph, n, "float")


_TO = {"f": _call_float, "i": to_integer, "b": to_boolean}


def _size(size: Any) -> Any:
    return tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size


# Functions of a value that make a constant like it.
LIKE: dict[str, Callable[..., Any]] = {
    "zeros_like": lambda like, **options: like.new_zeros(**options),
    "ones_like": lambda like, **options: like.new_ones(**options),
    "full_like": lambda like, fill_value, **options: like.new_full((), fill_value, **options),
}
