"""What a formula computes with while it is traced: indices, the score, elements of captured arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .canonical import applied, to_integer
from .composed import COMPOSED
from .conversions import LIKE, WITHOUT_EFFECT, Conversions
from .conversions import refuse as _refuse
from .graph import Graph
from .nodes import Node
from .operations import KNOWN, ROWS, SPELLINGS


class Library(NamedTuple):
    """What is asked of a library that calls a function of qkv with arrays of its own."""

    tensor: Callable[[Any], _core.Tensor]  # of an array, whose gradient then arrives there
    dtype: Callable[[str], Any]  # by its name


caller: ContextVar[Library | None] = ContextVar("caller", default=None)


class Symbol(Conversions):
    """What stands for a number in a formula that is traced: a traced value, or a captured array."""

    __array_priority__ = 1000
    graph: Graph

    def value(self) -> Traced:
        raise NotImplementedError

    # What Python, NumPy or PyTorch would have to know before anything is computed.

    def __bool__(self) -> bool:
        _refuse(
            "must not decide by a traced value in if, and, or, not, min, max; write qkv.where(condition, a, b), &, |, ~"
        )

    def __int__(self) -> int:
        _refuse(
            "must not turn a traced value into a number of Python's; write qkv's or NumPy's functions, not math's"
        )

    __float__ = __complex__ = __int__

    def __index__(self) -> int:
        _refuse("must not count or index by a traced value; only a captured array takes it as an index")

    def __array__(self, *_: Any, **__: Any) -> Any:
        _refuse(
            "must not make an array of a traced value; capture the array that it indexes by a name of the formula"
        )

    def __iter__(self) -> Any:
        _refuse("must not go through a traced value, which is one number")

    def __setitem__(self, index: Any, value: Any) -> None:
        _refuse("must not write to an array")

    __hash__ = object.__hash__

    def __pos__(self) -> Traced:
        return self.value()

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **options: Any) -> Any:
        if method != "__call__":
            _refuse(f"must not call {ufunc.__name__}.{method}")
        return call(ufunc.__name__, args, options)

    def __array_function__(
        self, function: Any, types: Any, args: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        return call(function.__name__, args, options)

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Sequence[Any] = (), options: Any = None
    ) -> Any:
        return call(function.__name__, args, options or {})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if is_known(name):
            return lambda *args, **options: call(name, (self, *args), options)
        if name in _WAYS_OUT:
            _refuse(f"must not call .{name} of a traced value; {_WAYS_OUT[name]}")
        _refuse(
            f"must not use .{name} of a traced value; traced values have abs, clamp, to(dtype) and functions of numbers"
        )

    def clamp(self, min: Any = None, max: Any = None) -> Traced:
        x = self.value()
        if min is not None:
            x = _do("maximum", x, min)
        return x if max is None else _do("minimum", x, max)

    clip = clamp

    def clamp_min(self, min: Any) -> Traced:
        return self.clamp(min)

    def clamp_max(self, max: Any) -> Traced:
        return self.clamp(None, max)


class Traced(Symbol):
    """A number of the formula: a node of its graph."""

    shape: tuple[int, ...] = ()
    ndim = 0

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph, self.node = graph, node

    def __repr__(self) -> str:
        return f"Traced({self.node.op})"

    def value(self) -> Traced:
        return self

    def of(self, node: Node) -> Traced:
        return Traced(self.graph, node)

    @property
    def dtype(self) -> Any:
        name = {"b": "bool", "i": "int64", "f": self.graph.dtype}[self.node.kind]
        return np.dtype(name) if (library := caller.get()) is None else library.dtype(name)

    def dim(self) -> int:
        return 0

    def __len__(self) -> int:
        _refuse("must not ask a traced value for its length, which is one number")

    def __getitem__(self, index: Any) -> Any:
        _refuse("must not index a traced value, which is one number")


class _Size(int):
    """How many numbers an array has, as NumPy says it; called, it gives PyTorch's sizes."""

    shape: tuple[int, ...]

    def __new__(cls, shape: tuple[int, ...]) -> _Size:
        made = super().__new__(cls, math.prod(shape))
        made.shape = shape
        return made

    def __call__(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]


class Captured(Symbol):
    """An array that a formula captures, with the indices given so far; what it does not read is not looked at."""

    def __init__(self, graph: Graph, array: Any, indices: tuple[Node, ...] = ()) -> None:
        self.graph, self._array, self._indices = graph, array, indices
        self.shape, self.dtype = tuple(array.shape)[len(indices) :], array.dtype
        self.ndim = len(self.shape)

    def __repr__(self) -> str:
        return f"Captured({self.shape})"

    def dim(self) -> int:
        return self.ndim

    def __len__(self) -> int:
        if not self.shape:
            _refuse("must not ask a number for its length")
        return int(self.shape[0])

    @property
    def size(self) -> Any:
        return _Size(self.shape)

    def __getitem__(self, index: Any) -> Any:
        index = index if isinstance(index, tuple) else (index,)
        if any(i is None or i is Ellipsis or isinstance(i, (slice, list)) for i in index):
            _refuse(
                "must index a captured array by one integer for each axis; slice it outside of the formula"
            )
        if len(index) > self.ndim:
            _refuse(
                f"must give one index for each axis of a captured array; got {len(self._indices) + len(index)} for "
                f"{self.ndim + len(self._indices)} axes",
                IndexError,
            )
        nodes = []
        for i in index:
            node = lift(self.graph, i)
            if node.kind == "f":
                _refuse("must index by integers; got a float, write .int()")
            if node.kind == "b":
                node = to_integer(self.graph, node)
            nodes.append(node)
        more = Captured(self.graph, self._array, self._indices + tuple(nodes))
        return more if more.ndim else more.value()

    def value(self) -> Traced:
        if any(size != 1 for size in self.shape):
            _refuse(
                f"must index a captured array {tuple(self._array.shape)} by an integer for each axis; got "
                f"{len(self._indices)} indices, compute arrays as wholes outside of the formula"
            )
        graph = self.graph
        return Traced(graph, graph.gather(graph.table(self._array, _readable), self._indices))


def is_array(x: Any) -> bool:
    """Whether a formula that captures `x` captures an array."""
    if isinstance(x, (np.ndarray, _core.Tensor)):
        return True
    return hasattr(type(x), "__dlpack__") and hasattr(x, "shape") and not isinstance(x, (np.generic, Symbol))


def array_of(operation: str, name: str, value: Any) -> Any:
    """Return an argument of a ready formula as an array to capture."""
    return value if is_array(value) else _core.as_numpy(value, operation, name)


def _readable(x: Any) -> Any:
    """Return a captured array as NumPy's or as a Tensor."""
    if not isinstance(x, (np.ndarray, _core.Tensor)):
        if (library := caller.get()) is not None:
            return library.tensor(x)
        if getattr(x, "requires_grad", False):
            _refuse(
                "must not capture a PyTorch tensor that requires a gradient, which would not arrive; write x.detach()"
            )
        x = _core.as_numpy(x, "formula", "captured array")
    if isinstance(x, np.ndarray) and x.dtype.kind not in "biuf":
        _refuse(f"must capture arrays of numbers; got dtype {x.dtype}")
    return x


def lift(graph: Graph, x: Any) -> Node:
    """Return the node of anything that a formula computes with."""
    if isinstance(x, Symbol):
        return x.value().node
    if is_array(x):
        return Captured(graph, x).value().node
    if isinstance(x, (bool, int, float, np.bool_, np.integer, np.floating)):
        return graph.const(x.item() if isinstance(x, np.generic) else x)
    _refuse(f"must compute with numbers and captured arrays; got {type(x).__name__}")


def _do(op: str, *args: Any) -> Traced:
    graph = next(x.graph for x in args if isinstance(x, Symbol))
    return Traced(graph, applied(graph, op, [lift(graph, x) for x in args]))


_LIMITS = {"min": "min", "max": "max", "a_min": "min", "a_max": "max", "low": "min", "high": "max"}
_ARGUMENTS = frozenset(
    ["input", "other", "x", "y", "a", "b", "x1", "x2", "condition", "self", "dividend", "divisor", "exponent"]
)


_WAYS_OUT = {
    **dict.fromkeys(["item", "tolist", "numpy"], "compute with it as it is, it is a number in the formula"),
    **dict.fromkeys(["detach", "detach_"], "detach what it is computed from outside of the formula"),
}


def is_known(name: str) -> bool:
    """Whether formulas compute a function or method of this name; one with an underscore after it writes."""
    spelt = name.strip("_")
    return spelt in KNOWN or spelt in LIKE


def call(name: str, args: Sequence[Any], options: Mapping[str, Any]) -> Traced:
    """Return what a function of NumPy's, PyTorch's or qkv's makes of traced values."""
    spelt = name.strip("_")
    if spelt == "setitem":
        _refuse("must not write to an array")
    if spelt == "getitem" and is_array(args[0]):  # one that the formula makes
        index = args[1] if isinstance(args[1], tuple) else (args[1],)
        return Captured(next(x.graph for x in index if isinstance(x, Symbol)), args[0])[index]  # type: ignore[no-any-return]
    options = {key: value for key, value in options.items() if key not in WITHOUT_EFFECT}
    writes = bool(options.pop("inplace", False)) or (name.endswith("_") and not name.startswith("_"))
    if (composed := COMPOSED.get(spelt) or LIKE.get(spelt)) is None:
        made = _operation(spelt, args, options)
    else:
        given = args if spelt in LIKE else (_do, *args)
        try:
            made = composed(
                *given, **{"input" if key == "x" else key: value for key, value in options.items()}
            )
        except TypeError as error:
            _refuse(f"must call {spelt} by its arguments; it {str(error).partition(') ')[2]}")
    return _written(args[0], made) if writes else made


def _written(x: Any, y: Traced) -> Traced:
    """Return the traced value x, which is y from now on."""
    if not isinstance(x, Traced):
        _refuse("must not write to an array")
    if x.node.kind != y.node.kind:
        kinds = {"b": "conditions", "i": "integers", "f": "floats"}
        _refuse(f"must write values of one kind in place; got {kinds[y.node.kind]} for {kinds[x.node.kind]}")
    x.node = y.node
    return x


def _operation(name: str, args: Sequence[Any], options: Mapping[str, Any]) -> Traced:
    op = SPELLINGS.get(name)
    if op is None:
        _refuse(
            f"must use functions of numbers; got {name}, call it outside of the formula and capture its result"
        )
    if op == "clip":
        limits = {_LIMITS[key]: value for key, value in options.items() if key in _LIMITS}
        graph = next(x.graph for x in (*args, *options.values()) if isinstance(x, Symbol))
        return Traced(graph, lift(graph, args[0])).clamp(*args[1:], **limits)
    args = [*args, *(value for key, value in options.items() if key in _ARGUMENTS)]
    if name == "div" and options.get("rounding_mode") == "floor":
        op = "floor_divide"
    elif not _ARGUMENTS.issuperset(options) or len(args) != _count(op):
        _refuse(f"must call {name} with its {_count(op)} operands alone; got {len(args)}, {sorted(options)}")
    return _do(op, *args)


def _count(op: str) -> int:
    return (
        ROWS[op].parameters.count(",") + 1 if op in ROWS else 2 if op == "rsub" else int(getattr(np, op).nin)
    )


_OPERATORS = {row.operator: op for op, row in ROWS.items()}
_OPERATORS |= {name: SPELLINGS[name] for name in ("invert", "lshift", "rshift")}
for _name, _op in _OPERATORS.items():
    if _name in ("neg", "abs", "invert"):
        setattr(Symbol, f"__{_name}__", lambda self, op=_op: _do(op, self))
    elif _name:
        setattr(Symbol, f"__{_name}__", lambda self, x, op=_op: _do(op, self, x))
        setattr(Symbol, f"__r{_name}__", lambda self, x, op=_op: _do(op, x, self))
