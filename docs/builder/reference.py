"""The pages of the reference: one for each module, which lists everything that the module has in ``__all__``."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from pathlib import Path
from types import ModuleType

import qkv

MODULES = {
    "qkv": "Functions and Tensors",
    "qkv.nn": "Layers",
    "qkv.nn.init": "Initial values",
    "qkv.masks": "Masks",
    "qkv.masks.formulas": "Masks by formulas",
    "qkv.scores": "Scores by formulas",
    "qkv.losses": "Losses",
    "qkv.random": "Random numbers",
    "qkv.optim": "Optimizers and schedules",
    "qkv.models": "Models",
    "qkv.look": "Looking inside",
    "qkv.plot": "Pictures",
    "qkv.data": "Data",
    "qkv.training": "Training",
    "qkv.distributed": "Several processes",
    "qkv.pytorch": "Inside PyTorch",
    "qkv.testing": "Testing",
    "qkv.interop": "Other libraries",
    "qkv.reference": "The same in plain NumPy",
}
if importlib.util.find_spec("torch") is None:
    del MODULES["qkv.pytorch"]
# Modules that have pages of their own, or none because they are no interface to program with.
ELSEWHERE = {
    "nn",
    "masks",
    "formulas",
    "scores",
    "losses",
    "random",
    "optim",
    "models",
    "look",
    "plot",
    "data",
    "training",
    "distributed",
    "testing",
    "interop",
    "reference",
    "reproduce",
    "torch",
}
# The page of `qkv` by the modules that define its names; what is defined elsewhere is under "Functions".
SECTIONS = {
    "Attention": ("attention", "attention_image", "additive", "kernel_pooling", "linear_attention"),
    "Softmax and activations": ("softmax", "activation"),
    "Tensors and gradients": ("gradients", "Tensor"),
    "Functions": (
        "elementwise",
        "joining",
        "products",
        "reductions",
        "sorting",
    ),
    "Positions": ("positions",),
    "Random numbers": ("random", "Generator"),
    "Settings": ("config", "_core"),
}


def section_of(name: str) -> str:
    """Return the section of a name of `qkv`."""
    thing = getattr(qkv, name)
    module = getattr(thing, "__module__", None) or "qkv._core"
    place = thing.__name__ if inspect.isclass(thing) and module == "qkv" else module.removeprefix("qkv.")
    for title, modules in SECTIONS.items():
        if (
            any(place == one or place.startswith(f"{one}.") for one in modules if one != "_core")
            or place in modules
        ):
            return title
    return "Functions"


def listed_elsewhere(name: str) -> bool:
    """Say whether a name of `qkv` is also one of a module with a page: it is documented there."""
    thing = getattr(qkv, name)
    others = (importlib.import_module(module) for module in MODULES if module not in ("qkv", "qkv.random"))
    return any(name in module.__all__ and getattr(module, name) is thing for module in others)


def listing(title: str, names: list[str]) -> str:
    """Return a table of names, each with a page of its own."""
    lines = "\n".join(f"   {name}" for name in names)
    return f"{title}\n{'-' * len(title)}\n\n.. autosummary::\n   :toctree: generated\n\n{lines}\n\n"


def constants(module: ModuleType, names: list[str]) -> str:
    """Return a section of what is neither class nor function."""
    lines = "".join(f".. autodata:: {name}\n   :no-value:\n\n" for name in names)
    return f"Constants\n---------\n\n{lines}" if names else ""


def page(name: str, title: str) -> str:
    """Return the page of a module."""
    module = importlib.import_module(name)
    heading = f"{title} (``{name}``)"
    text = f"{heading}\n{'=' * len(heading)}\n\n.. automodule:: {name}\n   :no-members:\n\n"
    text += f".. currentmodule:: {name}\n\n"
    names = sorted((n for n in module.__all__ if not n.startswith("__")), key=str.lower)
    names = [n for n in names if not inspect.ismodule(getattr(module, n))]
    if name == "qkv":
        names = [n for n in names if not listed_elsewhere(n)]
        for section in SECTIONS:
            text += listing(section, [n for n in names if section_of(n) == section])
        return text
    classes = [n for n in names if inspect.isclass(getattr(module, n))]
    functions = [n for n in names if n not in classes and callable(getattr(module, n))]
    for section, chosen in (("Classes", classes), ("Functions", functions)):
        if chosen:
            text += listing(section, chosen)
    return text + constants(module, [n for n in names if n not in (*classes, *functions)])


def write(folder: Path) -> None:
    """Write all pages and the one that lists them."""
    folder.mkdir()
    unlisted = {n for n in qkv.__all__ if inspect.ismodule(getattr(qkv, n))} - ELSEWHERE
    if unlisted:
        raise SystemExit(f"docs/builder/reference.py: MODULES lacks qkv.{', qkv.'.join(sorted(unlisted))}")
    for name, title in MODULES.items():
        (folder / f"{name}.rst").write_text(page(name, title), encoding="utf8")
    listed = "\n".join(f"   {name}" for name in MODULES)
    (folder / "index.rst").write_text(
        "Reference\n=========\n\nEvery public name, with shapes, errors and an example that runs. ``B`` batch, ``H`` "
        "heads, ``Lq`` and ``Lk`` queries and keys, ``D`` their width per head, ``M`` model width.\n\n"
        f".. toctree::\n   :maxdepth: 1\n\n{listed}\n",
        encoding="utf8",
    )
