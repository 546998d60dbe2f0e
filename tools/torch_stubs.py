"""Writes the types of qkv.torch that decorators and tables hide from editors, from the functions themselves.

    python tools/torch_stubs.py && ruff format python/qkv/torch/*.pyi

`_tensor.pyi` has the methods of Tensor, `__init__.pyi` the names of the module. What computes gives a Tensor; ANSWERS
names what gives something else.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import qkv.torch
from qkv.torch import _tensor
from qkv.torch._arguments import KINDS as NAMED
from qkv.torch._arguments import flag, integer, number
from qkv.torch._tensor import FUNCTIONS, Tensor

FOLDER = Path(__file__).parents[1] / "python" / "qkv" / "torch"

# What does not give a Tensor. Builtins have their module: a method `float` hides the type of that name.
OTHERS = {
    "Any": "max min sort topk where unique nonzero type get_device grad_fn save load"
    " no_grad enable_grad inference_mode set_grad_enabled compile size stride item tolist manual_seed"
    " __new__ __array__ __deepcopy__ __array_function__ __array_ufunc__ __reduce_ex__ __copy__ dtype grad",
    "tuple[Tensor, ...]": "split chunk unbind meshgrid",
    "builtins.bool": "equal allclose is_tensor is_floating_point is_contiguous is_grad_enabled __contains__"
    " requires_grad is_leaf is_cuda",
    "builtins.int": "dim ndim numel nelement element_size data_ptr __len__ __index__ __hash__"
    " itemsize _version",
    "builtins.str": "__repr__ __str__ __format__ _op",
    "np.ndarray[Any, Any]": "numpy",
    "Iterator[Tensor]": "__iter__",
    "None": "backward __setitem__",
    "Size": "shape",
    "device": "device",
}
ANSWERS = {name: kind for kind, names in OTHERS.items() for name in names.split()}
REFLECTED = "__radd__ __rsub__ __rmul__ __rtruediv__ __rfloordiv__ __rmod__ __rpow__ __rmatmul__"
OF_THE_CORE = ["item", "tolist", *REFLECTED.split()]
# What parameters take that have no annotation, by their names.
KINDS = dict.fromkeys(["create_graph", "non_blocking", "copy", "requires_grad"], "bool")
KINDS |= {name: {flag: "bool", integer: "int", number: "float"}[check] for name, check in NAMED.items()}
PLAIN = re.compile(r"int|bool|float|str|(int|float|str) \| None")

TENSOR = '''"""Types of Tensor. Written by tools/torch_stubs.py; change that."""

import builtins
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from qkv._core import Tensor as Core

from ._dtypes import Size, device

F = TypeVar("F", bound=Callable[..., Any])

def named(words: builtins.str) -> Callable[[F], F]: ...
def define(table: dict[builtins.str, Any]) -> None: ...

class Tensor(Core):
    def __getattr__(self, name: builtins.str) -> Any: ...
'''
MODULE = '''"""Types of qkv.torch. Written by tools/torch_stubs.py; change that."""

import builtins
from typing import Any

from . import {folders}
from ._dtypes import Size as Size
from ._dtypes import device as device
from ._dtypes import dtype as dtype
from ._dtypes import finfo as finfo
from ._dtypes import iinfo as iinfo
from ._random import Generator as Generator
from ._tensor import Tensor as Tensor

default_generator: Generator
'''


def parameter(p: inspect.Parameter) -> str:
    star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    default = "" if star or p.default is p.empty else " = ..."
    kind = str(p.annotation).replace("builtins.", "")
    if p.annotation is p.empty:
        kind = KINDS.get(p.name, "Any") + " | None" * (p.default is None)
    if PLAIN.fullmatch(kind):
        kind = " | ".join(k if k == "None" else f"builtins.{k}" for k in kind.split(" | "))
    else:
        kind = "Any"
    return f"{star}{p.name}: {kind}{default}"


def definition(name: str, f: Any, *, method: bool = False) -> str:
    """The line of a function or method."""
    try:
        given = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):  # written in C, without a signature
        texts = ["self"] * method + ["*args: Any", "**options: Any"]
    else:
        first = "cls" if name == "__new__" else "self"
        texts = [first if method and i == 0 else parameter(p) for i, p in enumerate(given)]
        named = [i for i, p in enumerate(given) if p.kind == p.KEYWORD_ONLY]
        if named and not any(p.kind == p.VAR_POSITIONAL for p in given):
            texts.insert(named[0], "*")
    return f"def {name}({', '.join(texts)}) -> {ANSWERS.get(name, 'Tensor')}: ...\n"


def tensor_stub() -> str:
    """The text of _tensor.pyi."""
    text = TENSOR
    members = {name: getattr(Tensor, name) for name in OF_THE_CORE} | dict(sorted(vars(Tensor).items()))
    for name, value in members.items():
        if isinstance(value, property):
            text += f"    @property\n    def {name}(self) -> {ANSWERS.get(name, 'Tensor')}: ...\n"
            if value.fset is not None:
                text += f"    @{name}.setter\n    def {name}(self, value: Any) -> None: ...\n"
        elif inspect.isdatadescriptor(value) or inspect.isclass(value) or not callable(value):
            text += f"    {name}: Any\n" * (not name.startswith("__"))
        elif name not in ("__getattr__", "__init__"):
            text += "    " + definition(name, value, method=True)
    for name in ("ndim", "is_leaf"):
        text += f"    @property\n    def {name}(self) -> {ANSWERS[name]}: ...\n"
    known = {*re.findall(r"\w+", TENSOR)}
    inside = [
        name
        for name, value in sorted(vars(_tensor).items())
        if name not in known and not name.startswith("__") and not inspect.ismodule(value)
    ]
    return text + "\n# Names of the implementation.\n" + "".join(f"{name}: Any\n" for name in inside)


def module_stub() -> str:
    """The text of __init__.pyi."""
    numbers = {name for name, value in vars(qkv.torch).items() if isinstance(value, float)}
    names = {*qkv.torch.__all__, *numbers, "newaxis", "__version__"}
    public = {name: getattr(qkv.torch, name) for name in sorted(names)}
    folders = [name for name, value in public.items() if inspect.ismodule(value)]
    text = MODULE.format(folders=", ".join(f"{name} as {name}" for name in sorted({*folders, "d2l"})))
    for name, value in public.items():
        if name in FUNCTIONS:
            text += definition(name, value)
        elif isinstance(value, (qkv.torch.dtype, float, str)):
            text += f"{name}: {'dtype' if isinstance(value, qkv.torch.dtype) else f'builtins.{type(value).__name__}'}\n"
        elif name not in folders and f"{name} as {name}" not in text and f"\n{name}: " not in text:
            text += f"{name}: Any\n"
    return text


if __name__ == "__main__":
    (FOLDER / "_tensor.pyi").write_text(tensor_stub(), encoding="utf8")
    (FOLDER / "__init__.pyi").write_text(module_stub(), encoding="utf8")
