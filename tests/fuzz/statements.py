"""Statements of the whole public interface, made from its signatures, so that what is new is covered too."""

from __future__ import annotations

import ast
import importlib
import inspect
import random
import types
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import qkv
from qkv._public import of_core

from . import values

T = TypeVar("T")

# What is not to be called with anything.
LEFT_OUT = {
    "qkv.plot": "draws by matplotlib",
    "qkv.reproduce": "runs notebooks",
    "qkv.reference": "plain NumPy, with NumPy's errors",
    "qkv.training": "writes files",
    "qkv.torch": "PyTorch's names: torch_targets.py",
    "qkv.distributed": "needs ranks",
    "qkv.testing": "calls what it is given, many times",
    "qkv.show_config": "prints",
    "qkv.models.SentenceEncoder": "reads folders of weights",
    "qkv.models.Tokenizer": "reads files",
    "qkv.models.embed_lines": "reads files",
    "qkv.data.words": "reads Python's manual",
    "qkv.data.date_pairs": "made by Babel, seconds",
}
# Python calls these by itself, with arguments that it has checked.
INTERNAL = {
    "__init__",
    "__new__",
    "__dir__",
    "__getstate__",
    "__setstate__",
    "__hash__",
    "__exit__",
    "__enter__",
    "__del__",
}


class Chooser(Protocol):
    """Where the choices come from: hypothesis in the suite, a random stream by hand."""

    def below(self, n: int) -> int: ...


class RandomChooser:
    """Choices of a seeded stream."""

    def __init__(self, seed: int) -> None:
        self.stream = random.Random(seed)

    def below(self, n: int) -> int:
        return self.stream.randrange(n)


def among(choose: Chooser, options: Sequence[T]) -> T:
    return options[choose.below(len(options))]


def chance(choose: Chooser, percent: int) -> bool:
    return choose.below(100) < percent


@dataclass(frozen=True)
class Parameter:
    name: str
    required: bool
    by_name: bool
    rest: bool = False


@dataclass(frozen=True)
class Target:
    """Something to call: a function or class by its full name, or a method of a class (then `receiver` is its name)."""

    expression: str
    parameters: tuple[Parameter, ...]
    receiver: str = ""
    compiled: bool = False
    words: Any = values  # what is passed


def public() -> list[Target]:
    """Everything that can be called: functions, constructors, methods, operators."""
    targets: list[Target] = []
    stub = core_methods()
    seen: set[str] = set()

    def add_class(name: str, cls: type) -> None:
        core = next((base for base in cls.__mro__ if of_core(base)), None)
        made = stub.get(core.__name__, {}) if core is not None else {}
        if "__init__" in made or core is None:
            targets.append(Target(name, made.get("__init__") or parameters_of(cls)))
        for base in cls.__mro__:
            members = stub.get(base.__name__, {}) if of_core(base) else _methods(base)
            for method, parameters in members.items():
                if method not in INTERNAL and (method.startswith("__") or not method.startswith("_")):
                    targets.append(Target(method, parameters, name, core is not None))

    def add(module: types.ModuleType) -> None:
        for short in module.__all__:
            name = f"{module.__name__}.{short}"
            value = getattr(module, short)
            if name in LEFT_OUT or name in seen:
                continue
            seen.add(name)
            if isinstance(value, types.ModuleType):
                add(value)
            elif isinstance(value, type):
                add_class(name, value)
            elif callable(value):
                targets.append(Target(name, parameters_of(value)))

    add(importlib.import_module("qkv"))
    return targets


def parameters_of(function: Any) -> tuple[Parameter, ...]:
    """Parameters as the signature has them, without `self`."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return (Parameter("args", True, False, rest=True),)
    rest = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return tuple(
        Parameter(p.name, p.default is p.empty, p.kind == p.KEYWORD_ONLY, rest=p.kind in rest)
        for p in signature.parameters.values()
        if p.name != "self" and p.kind != p.VAR_KEYWORD
    )


def _methods(cls: type) -> dict[str, tuple[Parameter, ...]]:
    if not cls.__module__.startswith("qkv"):
        return {}
    return {
        name: tuple(p for p in parameters_of(member))
        for name, member in vars(cls).items()
        if inspect.isfunction(inspect.unwrap(member))
    }


def core_methods() -> dict[str, dict[str, tuple[Parameter, ...]]]:
    """Methods of the compiled classes, as the stub file has them; attributes count as methods without arguments."""
    text = Path(qkv.__file__).parent.joinpath("_core.pyi").read_text()
    classes: dict[str, dict[str, tuple[Parameter, ...]]] = {}
    for node in ast.parse(text).body:
        if not isinstance(node, ast.ClassDef):
            continue
        methods: dict[str, tuple[Parameter, ...]] = {}
        for member in node.body:
            if isinstance(member, ast.FunctionDef) and not member.decorator_list:
                arguments = member.args
                positional = [*arguments.posonlyargs, *arguments.args][1:]
                first_default = len(positional) - len(arguments.defaults)
                found = [Parameter(a.arg, i < first_default, False) for i, a in enumerate(positional)]
                if arguments.vararg is not None:
                    found.append(Parameter(arguments.vararg.arg, True, False, rest=True))
                for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
                    found.append(Parameter(a.arg, default is None, True))
                methods[member.name] = tuple(found)
        classes[node.name] = methods
    return classes


def value(choose: Chooser, name: str, hostile: int = 45, words: Any = values) -> str:
    """Return a value for an argument, hostile in `hostile` of a hundred cases."""
    fitting = values.plausible(name, words.PLAUSIBLE)
    if fitting and not chance(choose, hostile):
        return among(choose, fitting)
    return among(choose, words.HOSTILE)


def arguments(
    choose: Chooser, parameters: Sequence[Parameter], hostile: int = 45, words: Any = values
) -> str:
    """Return the text between the parentheses."""
    texts: list[str] = []
    skipped = False
    for p in parameters:
        if p.rest:
            texts += [value(choose, p.name.rstrip("s"), hostile, words) for _ in range(choose.below(3))]
        elif p.required or chance(choose, 35):
            text = value(choose, p.name, hostile, words)
            texts.append(f"{p.name}={text}" if p.by_name or skipped else text)
        else:
            skipped = True
    if chance(choose, 2):
        texts.append(f"unknown={among(choose, words.HOSTILE)}")
    if texts and chance(choose, 2):
        texts.pop(choose.below(len(texts)))
    # What follows a name must have one.
    named = [t for t in texts if t.split("=")[0].isidentifier() and "=" in t and not t.startswith("lambda")]
    return ", ".join([t for t in texts if t not in named] + list(dict.fromkeys(named)))


def made(choose: Chooser, cls: str, targets: Sequence[Target], hostile: int = 0, words: Any = values) -> str:
    """Return the text that makes an object of the class."""
    short = cls.rsplit(".", 1)[-1]
    if short in words.MADE:
        return among(choose, words.MADE[short])
    constructor = next((t for t in targets if t.expression == cls and not t.receiver), None)
    return f"{cls}({arguments(choose, constructor.parameters if constructor else (), hostile, words)})"


def statement(choose: Chooser, targets: Sequence[Target], among_these: Sequence[Target] | None = None) -> str:
    """Return one call, with at least some arguments that may be anything; of `among_these` only, if given."""
    target = among(choose, among_these or targets)
    given = arguments(choose, target.parameters, words=target.words)
    if not target.receiver:
        return f"{target.expression}({given})"
    if target.compiled and chance(choose, 5):
        receiver = f"{target.receiver}.__new__({target.receiver})"
    else:
        receiver = made(choose, target.receiver, targets, words=target.words)
    return f"({receiver}).{target.expression}({given})"
