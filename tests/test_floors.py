"""The order of the packages of Python, read from the import lines, those inside functions too."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from test_structure import BINDINGS, MODULES, ORDER, PYTHON, ROOT

FLOORS = [  # of python/qkv, where those of one line may use each other
    ["_core"],
    [
        "_atomic",
        "_deprecated",
        "_operations",
        "_public",
        "_types",
        "_words",
        "_display",
        "functions",
        "random",
    ],
    ["_formulas", "_numpy", "masks", "scores", "kernel_pooling", "interop"],
    ["nn", "optim", "losses", "data", "reference", "distributed"],
    ["models"],
    ["training", "look", "plot"],
    ["torch", "pytorch", "reproduce"],
    ["cli", "testing"],
]
ON_NO_FLOOR = {
    "": "the public names, most of them imported when they are asked for",
    "__main__": "starts the command line",
    "_callbacks": "registers what the core calls, imported when it is called",
}
IMPORTS_BY_NAME = {  # modules that import what a variable names
    "_callbacks": "what the core calls, written as text beside it",
    "_public": "a package's own modules, when they are asked for; all public ones, for words of errors",
    "data.dates": "Babel",
    "interop": "its own modules",
    "models.architectures.table": "its own package's module of a type of model",
    "torch": "its own modules, when they are asked for",
    "torch._outside": "the places where a name of PyTorch has an answer",
}
ROOMS = {  # like the folders, of packages of python/qkv
    "models": ["architectures", "generation", "files", "text", "families", "sentences"],
    "plot": ["figures", "views", "pages"],
}


def module_name(path: Path) -> str:
    parts = path.relative_to(PYTHON).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by_call(node: ast.Call) -> str | None:
    """Return what `import_module` or `_later` imports: its name, "" if a variable has it, None for other calls."""
    if ast.unparse(node.func).split(".")[-1] not in ("import_module", "_later"):
        return None
    return node.args[0].value if isinstance(node.args[0], ast.Constant) else ""


def imported_modules(path: Path, source: str, known: set[str]) -> set[str]:
    """Return the modules of qkv that a file imports, inside functions too, except for its own package's `__init__`."""
    package, own, found = path.relative_to(PYTHON).parent.parts, module_name(path), set()

    def read(node: ast.AST) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node, ast.Call) and (text := imported_by_call(node)):
            inside = text.lstrip(".")
            above = package[: len(package) + 1 - (len(text) - len(inside))]
            if text.startswith("."):
                found.add(".".join([*above, inside]))
            elif text.startswith("qkv."):
                found.add(text.removeprefix("qkv."))
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            for alias in node.names:
                names = [part for part in base if part]
                full = ".".join([*names, alias.name])
                found.add(full if full in known else ".".join(names))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            absolute = (
                [f"{node.module}.{alias.name}" for alias in node.names]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            for full in absolute or [alias.name for alias in node.names]:
                if full.startswith("qkv."):
                    inside = full.removeprefix("qkv.")
                    found.add(inside if inside in known else inside.rpartition(".")[0])
        for child in ast.iter_child_nodes(node):
            read(child)

    read(ast.parse(source))
    return {name for name in found if name and name != own and not own.startswith(name + ".")}


def test_modules_of_python_import_each_other_in_no_circle():
    known = {module_name(path) for path in MODULES}
    graph = {module_name(p): imported_modules(p, p.read_text(encoding="utf8"), known) for p in MODULES}
    del graph[""]
    assert len(list(TopologicalSorter(graph).static_order())) >= len(
        graph
    )  # raises a CycleError that names it
    folders: dict[str, set[str]] = {}
    for own, imported in graph.items():
        folder = own.split(".")[0]
        folders.setdefault(folder, set()).update({name.split(".")[0] for name in imported} - {folder})
    list(TopologicalSorter(folders).static_order())
    assert "distributed" in folders["training"]
    assert "models.architectures.bert_config" in graph["models.families.bert"]
    lazy = "def f():\n    from .bert import BertModel\n    from ... import masks"
    assert imported_modules(PYTHON / "models/families/x.py", lazy, known) == {"models.families.bert", "masks"}
    absolute = (
        "import qkv.torch\ndef f():\n    from qkv.random.stream import manual_seed\n    from qkv import nn"
    )
    assert imported_modules(PYTHON / "models" / "x.py", absolute, known) == {"torch", "random.stream", "nn"}


def test_a_package_of_python_imports_only_its_own_floor_and_those_before_it():
    known = {module_name(path) for path in MODULES}
    floor = {package: i for i, packages in enumerate(FLOORS) for package in packages}
    assert {name.split(".")[0] for name in known} | {"_core"} == {*floor, *ON_NO_FLOOR}
    wrong = {}
    for path in MODULES:
        own = module_name(path)
        if own not in ON_NO_FLOOR:
            imported = imported_modules(path, path.read_text(encoding="utf8"), known)
            wrong[own] = {n for n in imported if floor[n.split(".")[0]] > floor[own.split(".")[0]]}
    assert {own: names for own, names in wrong.items() if names} == {}
    text = (
        'import_module("qkv.torch.d2l"), importlib.import_module("..nn.init", __package__), _later(".x", "f")'
    )
    assert imported_modules(PYTHON / "models" / "x.py", text, known) == {"torch.d2l", "nn.init"}


def test_modules_that_import_by_a_variable_are_known():
    found = set()
    for path in MODULES:
        tree = ast.parse(path.read_text(encoding="utf8"))
        if any(isinstance(node, ast.Call) and imported_by_call(node) == "" for node in ast.walk(tree)):
            found.add(module_name(path))
    assert found == {*IMPORTS_BY_NAME}


def test_the_map_has_the_order_of_the_folders():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf8")
    block = page[page.index("    C++      core <-") : page.index("| folder |")]
    lines = re.findall(r"^    (\S+) +(\S.*(?:\n {10,}<- .*)*)", block, re.M)
    orders = {label: [part.split() for part in text.split("<-")] for label, text in lines}
    ordered = {"C++": ORDER, "bindings": BINDINGS, **ROOMS}
    assert orders == {"Python": FLOORS} | {label: [[n] for n in names] for label, names in ordered.items()}


@pytest.mark.parametrize("package", ROOMS)
def test_a_room_imports_only_those_before_it(package):
    known, rooms = {module_name(path) for path in MODULES}, ROOMS[package]
    inside = [path for path in MODULES if path.relative_to(PYTHON).parts[0] == package]
    assert {
        path.relative_to(PYTHON).parts[1] for path in inside if len(path.relative_to(PYTHON).parts) > 2
    } == {*rooms}
    wrong = {}
    for path in inside:
        own = [*module_name(path).split("."), ""][1]
        before = rooms[: rooms.index(own) + 1] if own in rooms else rooms
        for imported in imported_modules(path, path.read_text(encoding="utf8"), known):
            top, _, rest = imported.partition(".")
            if top == package and rest.partition(".")[0] not in before:
                wrong.setdefault(module_name(path), set()).add(imported)
    assert wrong == {}


def test_no_module_has_the_name_of_a_public_function_beside_it():
    hidden = set()
    for package in {path.parent for path in MODULES}:
        public = importlib.import_module(".".join(package.relative_to(PYTHON.parent).parts))
        beside = {path.stem for path in package.glob("*.py")} & {*getattr(public, "__all__", ())}
        inside = [ast.parse(path.read_text(encoding="utf8")) for path in package.rglob("*.py") if beside]
        defined = {node.name for tree in inside for node in tree.body if isinstance(node, ast.FunctionDef)}
        hidden |= {f"{public.__name__}.{name}" for name in beside & defined}
    assert hidden == {
        "qkv.torch.nn.attention.flex_attention"
    }  # as PyTorch has it, where the module is public


def test_at_most_three_modules_have_one_name():
    number = Counter(path.name for path in MODULES if path.name != "__init__.py")
    assert {name: times for name, times in number.items() if times > 3} == {}


def test_import_loads_nothing_heavy():
    program = (
        "import sys, importlib.machinery, importlib.util, numpy, numpy.typing\n"
        "try: import threadpoolctl  # which is told of qkv's threads where it is installed\n"
        "except ImportError: pass\n"
        "before = set(sys.modules); import qkv;"
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(result.stdout.split()) <= {"qkv", "__future__"}


def test_import_and_a_formula_load_no_guest():
    program = (
        "import sys, qkv, numpy as np; x = np.ones((2, 3), 'float32');"
        "qkv.scaled_dot_product_attention(x, x, x, score_mod=lambda s, b, h, i, j: s + i - j);"
        "assert 'qkv._formulas' in sys.modules;"
        "print(*sorted({'.'.join(m.split('.')[:2]) for m in sys.modules if m.startswith('qkv.')}))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"qkv.torch", "qkv.distributed", "qkv.reproduce"} & set(result.stdout.split()) == set()


def test_submodules_come_when_they_are_asked_for():
    program = (
        "import sys, qkv; assert 'qkv.plot' not in sys.modules and 'qkv.reference' not in sys.modules;"
        "qkv.plot, qkv.reference; print('qkv.plot' in sys.modules, 'matplotlib' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["True", "False"]
