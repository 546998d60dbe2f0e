"""Operations on nodes of any kinds: promotion, the one form that equal expressions share, identities of all numbers."""

from __future__ import annotations

import math

from .errors import FormulaError
from .graph import Graph
from .nodes import DIAGONAL, PAIR, Node
from .operations import COMPARISONS, FLOATING, INTEGER, LOGICAL, SWAPPED


def to_float(graph: Graph, n: Node, dtype: str | None = None) -> Node:
    if n.kind == "f" and (dtype is None or n.level == PAIR):
        return n
    if n.op == "const":
        return graph.const(float(n.attr))
    return graph.node("float", n, attr=dtype, kind="f")


def to_integer(graph: Graph, n: Node) -> Node:
    if n.kind == "i":
        return n
    if n.op == "const" and math.isfinite(n.attr):
        return graph.const(int(n.attr))
    return graph.node("integer", n, kind="i")


def to_boolean(graph: Graph, n: Node) -> Node:
    return n if n.kind == "b" else applied(graph, "not_equal", [n, graph.const(0)])


def promoted(graph: Graph, args: list[Node]) -> list[Node]:
    """Return the arguments in the widest kind among them."""
    kinds = {n.kind for n in args}
    if "f" in kinds:
        return [to_float(graph, n) for n in args]
    return [to_integer(graph, n) for n in args] if "i" in kinds else args


def applied(graph: Graph, op: str, args: list[Node]) -> Node:
    """Return the node of an operation."""
    if op in SWAPPED:
        op, args = SWAPPED[op], args[::-1]
    if op.startswith("logical_"):
        op, args = (
            op.replace("logical_not", "invert").replace("logical", "bitwise"),
            [to_boolean(graph, n) for n in args],
        )
    if op == "clip":
        raise AssertionError("clip is a method")
    if op == "square":
        op, args = "multiply", [args[0], args[0]]
    if op == "relu":
        return _where(graph, applied(graph, "less_equal", [args[0], zero := graph.const(0.0)]), zero, args[0])
    if op == "rsub":
        op, args = "subtract", args[::-1]
    if op in LOGICAL:
        return _logical(graph, op, args)
    if op == "where":
        return _where(graph, *args)
    args = [to_integer(graph, n) for n in args] if all(n.kind == "b" for n in args) else args
    if op in FLOATING:
        if op == "floor" and args[0].kind == "i":
            return args[0]
        args = [to_float(graph, n) for n in args]
    args = promoted(graph, args)
    if op == "power":
        return _power(graph, *args)
    if args[0].kind == "i":
        return _integers(graph, op, args)
    if op in INTEGER:
        raise FormulaError(TypeError, "must shift integers; got a float")
    return _floats(graph, op, args)


def _meets_pairs(a: Node, b: Node) -> bool:
    """Whether what depends on both depends on the pair."""
    return PAIR in (a.level, b.level) or 0 != a.level != b.level != 0


def _logical(graph: Graph, op: str, args: list[Node]) -> Node:
    if any(n.kind == "f" for n in args):
        raise FormulaError(TypeError, "must combine conditions or integers by & | ^ ~; got a float")
    args = promoted(graph, args)
    if op == "invert":
        if args[0].op == "invert":
            return args[0].args[0]
        return graph.node(op, *args, kind=args[0].kind)
    a, b = args = sorted(args, key=lambda n: n.number)
    if a is b and op != "bitwise_xor":
        return a
    if a.kind == "b" and op != "bitwise_xor":
        for one, other in ((a, b), (b, a)):
            if one.op == "const":
                return other if one.attr == (op == "bitwise_and") else one
    return graph.node(op, *args, kind=a.kind)


def _where(graph: Graph, condition: Node, a: Node, b: Node) -> Node:
    condition = to_boolean(graph, condition)
    a, b = promoted(graph, [a, b])
    if condition.op == "const":
        return a if condition.attr else b
    return a if a is b else graph.node("where", condition, a, b, kind=a.kind)


def _power(graph: Graph, a: Node, b: Node) -> Node:
    """Below pairs NumPy's power; at pairs products or a root, if one is meant."""
    if b.op == "const" and b.attr == 1:
        return a
    least = (graph.range(b) or (0, 0))[0] if a.kind == "i" else 0
    if least < 0:
        raise FormulaError(
            ValueError, f"must raise integers to exponents from 0; got {least}, write a float base"
        )
    if not _meets_pairs(a, b):
        return graph.node("power", a, b, kind=a.kind)
    if b.op == "const" and float(b.attr).is_integer() and abs(b.attr) < 2**16:
        exponent, square = abs(int(b.attr)), a
        y = graph.const(1 if a.kind == "i" else 1.0)
        while exponent:
            if exponent & 1:
                y = square if y.op == "const" else applied(graph, "multiply", [y, square])
            exponent >>= 1
            square = applied(graph, "multiply", [square, square]) if exponent else square
        return applied(graph, "divide", [graph.const(1.0), y]) if b.attr < 0 else y
    if b.op == "const" and b.attr == 0.5:
        return graph.node("sqrt", a, kind="f")
    if (
        a.op == "const" and a.attr > 0 and b.score
    ):  # half a power's time, and whole numbers are met by chance alone
        product = applied(graph, "multiply", [b, graph.const(math.log(a.attr))])
        return graph.node("exp", product, kind="f")
    return graph.node("power", a, b, kind=a.kind)


def _integers(graph: Graph, op: str, args: list[Node]) -> Node:
    a, b = args[0], args[-1]
    if op == "add":
        return graph.linear((1, a), (1, b))
    if op == "subtract":
        return graph.linear((1, a), (-1, b))
    if op == "negative":
        return graph.linear((-1, a))
    if op == "multiply":
        for one, other in ((a, b), (b, a)):
            if one.op == "const":
                return graph.linear((one.attr, other))
        a, b = sorted(args, key=lambda n: n.number)
        return graph.node(op, a, b, kind="i")
    if op in ("floor_divide", "remainder"):
        found = graph.range(b)
        if found is not None and found[0] <= 0 <= found[1]:
            raise FormulaError(
                ValueError,
                f"must divide integers by none that is 0; got numbers from {found[0]} to {found[1]}",
            )
        if b.op == "const" and b.attr == 1:
            return a if op == "floor_divide" else graph.const(0)
    if op in ("minimum", "maximum") and a is b:
        return a
    if op in COMPARISONS:
        # Of the difference, so that q >= k is the diagonal's in every spelling.
        difference = graph.linear((1, a), (-1, b))
        if difference.level < max(a.level, b.level) or difference.level == DIAGONAL:
            a, b = difference, graph.const(0)
        if op == "less_equal":
            a, b = _without_constant(graph, a, b, 1)
            return graph.node("less", a, b, kind="b")
        if op == "less":
            return graph.node("less", *_without_constant(graph, a, b, 0), kind="b")
        same = graph.node("equal", *sorted((a, b), key=lambda n: n.number), kind="b")
        return same if op == "equal" else _logical(graph, "invert", [same])
    return graph.node(op, *args, kind="i")


def _without_constant(graph: Graph, a: Node, b: Node, more: int) -> tuple[Node, Node]:
    """Return a < b + more with all constants on the right."""
    constant = graph.form(a).get(None, 0) if a.op != "const" else 0
    return graph.linear((1, a), (-constant, graph.const(1))), graph.linear(
        (1, b), (more - constant, graph.const(1))
    )


def _floats(graph: Graph, op: str, args: list[Node]) -> Node:
    if op in COMPARISONS:
        if op == "not_equal":
            return _logical(graph, "invert", [graph.node("equal", *args, kind="b")])
        return graph.node(op, *args, kind="b")
    a, b = args[0], args[-1]
    if op in ("multiply", "divide") and b.op == "const" and b.attr == 1:
        return a
    if op == "multiply" and a.op == "const" and a.attr == 1:
        return b
    return graph.node(op, *args, kind="f")
