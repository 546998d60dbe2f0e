"""Writes the stubs of functions that take arrays and Tensors: overloads for both, from the functions' annotations.

    python tools/function_stubs.py && pre-commit run --all-files

A function that gives a ``Result`` becomes: a Tensor where an argument that must be given is one; an array where every
argument is one; and last, for a mixture that is told only when it runs, what its annotations say. Flags such as
``return_weights`` add what they return.
"""

from __future__ import annotations

import ast
import copy
import itertools
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "python" / "qkv"
FOLDERS = ("functions", "kernel_pooling")
# What a flag adds to the result.
FLAGS = {"return_weights": "Result", "return_lse": "Result", "return_state": "Result"}
ARRAY = "NDArray[Any]"
ARRAYS = "Arrays"  # anything but a Tensor


def with_names(annotation: ast.expr | None, names: dict[str, str]) -> ast.expr | None:
    """Return an annotation with other names in it."""
    if annotation is None:
        return None

    class Exchange(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return ast.parse(names.get(node.id, node.id), mode="eval").body

    changed: ast.expr = Exchange().visit(copy.deepcopy(annotation))
    return changed


def arguments(function: ast.FunctionDef) -> list[ast.arg]:
    a = function.args
    return [*a.posonlyargs, *a.args, *([a.vararg] if a.vararg else []), *a.kwonlyargs]


def uses(node: ast.AST | None, name: str) -> bool:
    return node is not None and any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node))


def required(function: ast.FunctionDef) -> list[str]:
    """Return the arguments of numbers that have no default."""
    a = function.args
    positional = a.args[: len(a.args) - len(a.defaults)]
    return [n.arg for n in [*positional, *([a.vararg] if a.vararg else [])] if uses(n.annotation, "Numbers")]


def flagged(function: ast.FunctionDef, on: dict[str, bool], result: str) -> ast.FunctionDef:
    """Return the function with its flags on or off, and what it then returns."""
    made = copy.deepcopy(function)
    for argument, default in zip(made.args.kwonlyargs, made.args.kw_defaults, strict=True):
        if argument.arg in on:
            argument.annotation = ast.parse(f"Literal[{on[argument.arg]}]", mode="eval").body
            if on[argument.arg]:
                made.args.kw_defaults[made.args.kwonlyargs.index(argument)] = None
            else:
                assert default is not None
    if any(on.values()):
        added = "".join(f", {FLAGS[name]}" for name, is_on in on.items() if is_on)
        made.returns = ast.parse(f"tuple[Result{added}]", mode="eval").body
    made.returns = with_names(made.returns, {"Result": result})
    return made


def overloads(function: ast.FunctionDef) -> list[ast.FunctionDef]:
    """Return the function once for each case."""
    if not uses(function.returns, "Result"):
        return [function]
    flags = [argument.arg for argument in function.args.kwonlyargs if argument.arg in FLAGS]
    needed = required(function)
    cases = []
    for values in itertools.product((False, True), repeat=len(flags)):
        on = dict(zip(flags, values, strict=True))
        for name in needed[:1] if flags else needed:
            made = flagged(function, on, "Tensor")
            (argument,) = (n for n in arguments(made) if n.arg == name)
            argument.annotation = with_names(argument.annotation, {"Numbers": "Tensor"})
            cases.append(made)
        made = flagged(function, on, ARRAY)
        single = sum(uses(n.annotation, "Numbers") for n in arguments(made)) == 1
        for argument in arguments(made):
            argument.annotation = with_names(
                argument.annotation, {"Numbers": "ArrayLike" if single else ARRAYS}
            )
        cases.append(made)
    if not single:
        cases.append(copy.deepcopy(function))
    for made in cases:
        made.decorator_list = [ast.Name("overload")]
    return cases


def stubbed(node: ast.stmt) -> list[ast.stmt]:
    """Return what the stub has for a statement of a module."""
    if isinstance(node, ast.If):  # of TYPE_CHECKING
        return node.body
    if isinstance(node, ast.FunctionDef):
        bare = copy.deepcopy(node)
        bare.body, bare.decorator_list = [ast.Expr(ast.Constant(...))], []
        return [*overloads(bare)]
    if isinstance(node, ast.Expr):  # a docstring, a call
        return []
    return [node]


def text(path: Path) -> str:
    """Return the stub of a module."""
    module = ast.parse(path.read_text(encoding="utf8"))
    level = "." * len(path.relative_to(PACKAGE).parts)
    head = f'"""Types of {path.name}. Written by tools/function_stubs.py; change that."""\n\n'
    head += "from typing import Any, Literal, overload\n\nfrom numpy.typing import ArrayLike, NDArray\n\n"
    head += f"from {level}_core import Tensor\nfrom {level}_types import Arrays, Numbers, Result\n"
    body = [made for node in module.body for made in stubbed(node)]
    return head + "\n".join(ast.unparse(ast.fix_missing_locations(node)) for node in body) + "\n"


def sources() -> list[Path]:
    """Return the modules with such functions."""
    paths = [PACKAGE / "losses.py", *(path for folder in FOLDERS for path in (PACKAGE / folder).glob("*.py"))]
    return [path for path in paths if "-> Result:" in path.read_text(encoding="utf8")]


if __name__ == "__main__":
    for source in sources():
        source.with_suffix(".pyi").write_text(text(source), encoding="utf8")
