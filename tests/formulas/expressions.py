"""Random masks and scores: what they say to be traced, and what plain NumPy makes of them for all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

B, H = 2, 2
INDICES = "bhqk"
# An expression is a kind ("b", "i" or "f"), an operation and its arguments.
Expression = tuple[Any, ...]

_BINARY = {
    "add": "if", "subtract": "if", "multiply": "if", "floor_divide": "if", "remainder": "if", "power": "if",
    "minimum": "if", "maximum": "if", "bitwise_and": "ib", "bitwise_or": "ib", "bitwise_xor": "ib",
    "left_shift": "i", "right_shift": "i", "divide": "f",
}  # fmt: skip
_UNARY = {
    "negative": "if", "absolute": "if", "invert": "ib", "sqrt": "f", "log": "f", "exp": "f", "exp2": "f", "tanh": "f",
    "sin": "f", "cos": "f", "floor": "f",
}  # fmt: skip
_ROUGH = frozenset(
    ["log", "exp", "exp2", "tanh", "sin", "cos", "power"]
)  # rounded by each library in its own way
_COMPARISONS = ["less", "less_equal", "equal", "not_equal", "greater", "greater_equal"]
_NUMBERS = {
    "i": [0, 1, 2, 3, 5, 7, 16, -1, -4],
    "f": [0.0, -0.0, 0.1, 0.5, 1.0, 1.5, 2.0, -0.3, 3.0, 1e-9, 40.0],
}
_TABLES = {
    "i": ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"],
    "f": ["float32", "float64", "float32", "float64", "float16"],
    "b": ["bool"],
}
_LEAVES = frozenset(["index", "number", "table"])


class Draw:
    """Draws expressions; with `odd`, from tables with numbers that are not finite."""

    def __init__(self, rng: np.random.Generator, length: int, odd: bool) -> None:
        self.rng, self.length, self.odd = rng, length, odd

    def one_of(self, choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def table(self, kind: str) -> np.ndarray:
        dtype = self.one_of(_TABLES[kind])
        if kind == "b":
            return self.rng.random(self.length) < 0.5
        if kind == "i":
            low = 0 if dtype[0] == "u" else -100
            return self.rng.integers(low, 120, self.length).astype(dtype)
        x = (self.rng.standard_normal(self.length) * self.one_of([0.5, 3.0, 100.0])).round(
            self.rng.integers(0, 4)
        )
        x = np.sort(x) if self.rng.random() < 0.3 else x
        if self.odd:
            places = self.rng.integers(0, self.length, 3)
            x[places] = self.rng.choice([np.nan, np.inf, -np.inf, 0.0], 3)
        return x.astype(dtype)

    def leaf(self, kind: str) -> Expression:
        if kind == "i" and self.rng.random() < 0.6:
            return "i", "index", self.one_of("qkqkbh")
        if kind != "b" and self.rng.random() < 0.35:
            return kind, "number", self.one_of(_NUMBERS[kind])
        return kind, "table", self.table(kind), ("i", "index", self.one_of("qk"))

    def expression(self, kind: str, depth: int) -> Expression:
        if depth == 0:
            return self.leaf(kind)
        more = self.rng.random()
        if kind == "b" and more < 0.6:
            of = self.one_of("if")
            return "b", self.one_of(_COMPARISONS), *(self.expression(of, depth - 1) for _ in range(2))
        if more < 0.12:
            return (
                kind,
                "where",
                self.expression("b", depth - 1),
                *(self.expression(kind, depth - 1) for _ in "ab"),
            )
        if kind == "f" and more < 0.35:
            return "f", self.one_of(["float", "times"]), self.expression("i", depth - 1)
        if kind == "i" and more < 0.25:
            return "i", "int", self.expression(self.one_of("fb"), depth - 1)
        if more < 0.22:  # by an index of pairs
            wrapped = ("i", "remainder", self.expression("i", depth - 1), ("i", "number", self.length))
            return kind, "table", self.table(kind), wrapped
        names = [name for name, kinds in (_UNARY if more < 0.5 else _BINARY).items() if kind in kinds]
        name = self.one_of(names)
        if name in _UNARY:
            return kind, name, self.expression(kind, depth - 1)
        first = self.expression(kind, depth - 1)
        if name in ("left_shift", "right_shift", "power") and kind == "i":
            count = ("i", "bitwise_and", self.expression("i", depth - 1), ("i", "number", 3))
            return "i", name, first, count
        if name in ("floor_divide", "remainder") and kind == "i":
            divisor = ("i", "absolute", self.expression("i", depth - 1))
            divisor = ("i", "add", divisor, ("i", "number", 1))
            return "i", name, first, self.one_of([divisor, ("i", "negative", divisor), ("i", "number", 5)])
        if self.rng.random() < 0.15:
            return kind, name, first, first
        return kind, name, first, self.expression(kind, depth - 1)


def spelt(expression: Expression, indices: dict[str, Any]) -> Any:
    """Return the expression of indices that are traced, as a user would write it."""
    _, op, *args = expression
    if op == "index":
        return indices[args[0]]
    if op == "number":
        return args[0]
    if op == "table":
        return args[0][spelt(args[1], indices)]
    values = [spelt(a, indices) for a in args]
    if op == "float":
        return (values[0] + 0).float() if hasattr(values[0], "float") else float(values[0])
    if op == "times":
        return values[0] * 1.0
    if op == "int":
        return (
            values[0].int()
            if hasattr(values[0], "int")
            else int(values[0])
            if np.isfinite(values[0])
            else -(2**31)
        )
    with np.errstate(all="ignore"):
        return getattr(np, op)(*values)


class UnsureError(Exception):
    """Nothing is promised of the expression."""


class Plain:
    """Evaluates expressions for all pairs with floats of a dtype where query and key meet, else as NumPy does."""

    def __init__(self, shape: tuple[int, ...], dtype: str, noise: float = 0.0, seed: int = 0) -> None:
        self.dtype, self.noise, self.rng = np.dtype(dtype), noise, np.random.default_rng(seed)
        self.indices = dict(zip(INDICES, np.ogrid[tuple(slice(n) for n in shape)], strict=True))

    def of(self, expression: Expression) -> Any:
        with np.errstate(all="ignore"):
            return self._of(expression)[0]

    def _of(self, expression: Expression) -> tuple[Any, frozenset[str]]:
        """Return the values and the indices that they depend on."""
        kind, op, *args = expression
        if op == "index":
            return self.indices[args[0]], frozenset(args[0])
        if op == "number":
            return args[0], frozenset()
        table = args.pop(0) if op == "table" else None
        found = [self._of(a) for a in args]
        on = frozenset().union(*(x[1] for x in found))
        pairs = {"q", "k"} <= on
        values = [x for x, _ in found]
        if table is not None:
            x = table[values[0]]
            return np.asarray(x).astype(
                {"b": bool, "i": np.int64, "f": self._dtype(pairs, x.dtype)}[kind]
            ), on
        wide = self._dtype(pairs, None)
        if pairs or self.dtype == np.float64:
            values = [
                x.astype(wide) if getattr(x, "dtype", wide).kind == "f" and hasattr(x, "dtype") else x
                for x in values
            ]
        if op in ("float", "times"):
            x = np.asarray(values[0]).astype(
                wide if wide is not None else np.float32 if op == "float" else np.float64
            )
        elif op == "int" and args[0][0] == "f":
            x = np.asarray(values[0])
            limit = 2.0**31 if pairs else 2.0**63
            x = np.where(np.abs(x) < limit, np.trunc(x), -(2.0**31)).astype(np.int64)
        elif op == "int":
            x = np.asarray(values[0]).astype(np.int64)
        else:
            x = getattr(np, op)(*values)
        if op in _ROUGH and kind == "f" and self.noise:
            far = 1 + np.abs(values[0]) if op == "exp2" else 1  # the exponent is rounded
            x = x * (
                1 + self.noise * np.minimum(far, 2000) * np.clip(self.rng.standard_normal(np.shape(x)), -1, 1)
            )
        if op in ("minimum", "maximum") and kind == "f" and self.noise:  # of 0.0 and -0.0 either
            x = np.where(x == 0, self.rng.choice([-0.0, 0.0], np.shape(x)), x).astype(np.asarray(x).dtype)
        if kind == "f":
            x = np.asarray(x).astype(wide if wide is not None else np.asarray(x).dtype)
        if kind == "i" and pairs and not (np.abs(x) < 2**31).all():
            raise UnsureError
        return (x if on else np.asarray(x).item()), on  # numbers of Python, which widen nothing

    def _dtype(self, pairs: bool, own: Any) -> Any:
        if pairs or self.dtype == np.float64:
            return self.dtype
        return own if own is None or own.itemsize >= 4 else np.dtype(np.float32)


def sides(expression: Expression, shape: tuple[int, ...], dtype: str, count: int = 4) -> list[Any]:
    """Return the values for all pairs, and what they are with functions rounded in other ways, and in float64."""
    noise = 24 * float(np.finfo(dtype).eps)
    found = [Plain(shape, dtype, noise * (seed > 0), seed).of(expression) for seed in range(count)]
    found += [Plain(shape, "float64").of(expression)] if dtype == "float32" else []
    return [np.broadcast_to(x, shape) for x in found]


def differs(expression: Expression, found: Any, dtype: str, tolerance: float | None = None) -> bool:
    """Whether values of all pairs are other than NumPy's where these do not turn on how functions are rounded."""

    def wrong(count: int) -> bool:
        first, *others = sides(expression, found.shape, dtype, count)
        if tolerance is None:
            return bool(((found != first) & np.logical_and.reduce([x == first for x in others])).any())
        first, *others = (np.clip(np.nan_to_num(x, nan=0.0), -4, 4) for x in (first, *others))
        sure = np.logical_and.reduce([abs(x - first) < tolerance for x in others])
        return bool((sure & (abs(found - first) > 8 * tolerance)).any())

    return wrong(4) and wrong(200)
