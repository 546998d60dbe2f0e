"""The order of the folders, read from the include and import lines."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CPP = ROOT / "cpp"
PYTHON = ROOT / "python" / "qkv"
ORDER = ["core", "kernels", "autograd", "ops", "nn", "models", "bindings"]  # a folder uses those before it
BINDINGS = [
    "call",
    "values",
    "tensor",
    "operations",
    "modules",
    "layers",
    "models",
]  # likewise, of cpp/bindings
ROOMS = {  # likewise, of packages of python/qkv
    "models": ["architectures", "generation", "files", "text", "families", "sentences"],
    "plot": ["figures", "views"],
}
LINES = 400
LONGER: dict[str, int] = {}  # files that may have more, and how many
HEAVY = {
    "matplotlib",
    "scipy",
    "IPython",
    "jupyter",
    "nbclient",
    "nbformat",
    "torch",
    "tqdm",
    "sklearn",
    "hypothesis",
    "mpi4py",
}

SOURCES = sorted([*CPP.rglob("*.cpp"), *CPP.rglob("*.h")])
MODULES = sorted(PYTHON.rglob("*.py"))


def includes(path: Path) -> list[str]:
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(encoding="utf8"), re.M)


def folder_of(path: Path) -> str:
    """Give the folder of `cpp` that a file stands in, whatever folders that has."""
    return path.relative_to(CPP).parts[0]


def forbidden_arrows(folder: str, included: list[str]) -> list[str]:
    """Give the includes of a file in `folder` that lie to its right."""
    rank = ORDER.index(folder)
    return [name for name in included if name.split("/")[0] in ORDER[rank + 1 :]]


def forbidden_bindings(folder: str, included: list[str]) -> list[str]:
    """Give the includes of a file in a folder of the bindings that lie to its right."""
    later = BINDINGS[BINDINGS.index(folder) + 1 :]
    return [name for name in included if name.startswith("bindings/") and name.split("/")[1] in later]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_the_tree_is_read():
    assert len(SOURCES) > 100
    assert len(MODULES) > 40
    assert {folder_of(p) for p in SOURCES} == set(ORDER)


@pytest.mark.parametrize("folder", [f for f in ORDER if (CPP / f).exists()])
def test_a_folder_includes_only_what_stands_before_it(folder):
    wrong = {name(p): forbidden_arrows(folder, includes(p)) for p in SOURCES if folder_of(p) == folder}
    assert {file: bad for file, bad in wrong.items() if bad} == {}


def test_a_forbidden_arrow_is_noticed():
    assert forbidden_arrows("ops", ["core/array.h", "vector", "ops/ops.h", "nn/module.h"]) == ["nn/module.h"]


def test_a_folder_of_the_bindings_includes_only_what_stands_before_it():
    inside = {p: p.relative_to(CPP / "bindings").parts for p in SOURCES if folder_of(p) == "bindings"}
    assert {parts[0] for parts in inside.values() if len(parts) == 2} == set(BINDINGS)
    wrong = {
        name(p): forbidden_bindings(parts[0], includes(p)) for p, parts in inside.items() if len(parts) == 2
    }
    assert {file: bad for file, bad in wrong.items() if bad} == {}
    # What stands outside of the folders brings them together, or is for all of them.
    assert {parts[0] for parts in inside.values() if len(parts) == 1} == {
        "bindings.h",
        "config.cpp",
        "module.cpp",
    }
    assert includes(CPP / "bindings" / "bindings.h") == []
    assert forbidden_bindings("tensor", ["bindings/call/errors.h", "bindings/layers/block.h"]) == [
        "bindings/layers/block.h"
    ]


def test_kernels_know_nothing_but_sizes():
    allowed = ("kernels/", "core/index.h")
    compiled_once = {"dispatch.cpp", "blas.cpp"}
    for path in sorted((CPP / "kernels").rglob("*.*")):
        own = [i for i in includes(path) if "/" in i]
        if path.name not in compiled_once:
            assert [i for i in own if not i.startswith(allowed) and i != "core/counter_random.h"] == [], (
                path.name
            )


def test_kernels_compiled_per_instruction_set_use_no_standard_library():
    allowed = {"math.h", "stddef.h", "stdint.h", "string.h", "immintrin.h", "emmintrin.h"}
    for path in sorted((CPP / "kernels").rglob("*.*")):
        if path.name not in ("dispatch.cpp", "blas.cpp", "blas.h"):  # compiled once
            assert {i for i in includes(path) if "/" not in i} <= allowed, path.name
    assert {i for i in includes(CPP / "core" / "counter_random.h")} <= allowed
    assert {i for i in includes(CPP / "core" / "index.h")} <= {"cstdint", "cstddef"}


def test_libraries_are_included_in_one_place():
    blas = {name(p) for p in SOURCES if any("cblas" in i for i in includes(p))}
    assert blas == {"cpp/kernels/matmul/blas.cpp"}
    python = {
        folder_of(p) for p in SOURCES if any(i.startswith(("pybind11", "Python.h")) for i in includes(p))
    }
    assert python == {"bindings"}


def test_files_stay_short():
    tests = [p for p in (ROOT / "tests").rglob("*.py")]
    long = {}
    for path in [*SOURCES, *MODULES, *tests]:
        lines = len(path.read_text(encoding="utf8").splitlines())
        if lines > LONGER.get(name(path), LINES):
            long[name(path)] = lines
    assert long == {}


def test_every_kernel_family_is_listed():
    page = (CPP / "kernels" / "kernels.h").read_text(encoding="utf8")
    families = {name(p).removeprefix("cpp/") for p in (CPP / "kernels").glob("*.h")} - {"kernels/kernels.h"}
    families |= {f"kernels/matmul/{f}.h" for f in ("gemv", "packed_product", "packed_bfloat16")}
    families |= {"kernels/attention/problem.h"}
    assert {f for f in families if f'"{f}"' not in page} == set()


def test_the_core_imports_no_module_of_the_package():
    pattern = re.compile(r'import(?:_)?\(\s*"qkv')  # callbacks are registered by python/qkv/_callbacks.py
    assert {name(p) for p in SOURCES if pattern.search(p.read_text(encoding="utf8"))} == set()
    called = {n for p in SOURCES for n in re.findall(r'\bcallback\("(\w+)"\)', p.read_text(encoding="utf8"))}
    text = (PYTHON / "_callbacks.py").read_text(encoding="utf8")
    assert called == set(re.findall(r"^    (\w+)=", text, re.M))


def test_pybind11_is_used_as_it_is():
    """Its functions and types are not changed when they are made, and the text of its errors is not read."""
    changes = re.compile(r"\bml_(?:meth|doc)\b|->tp_\w+ = |function_record")
    words = re.compile(r"incompatible|Invoked with|Unable to c|called with invalid|is not an instance of")
    slots = re.compile(r"ht_type\.(tp_\w+) = ")
    texts = {p.name: p.read_text(encoding="utf8") for p in SOURCES if folder_of(p) == "bindings"}
    assert {file for file, text in texts.items() if changes.search(text) or words.search(text)} == set()
    found = {file: slots.findall(text) for file, text in texts.items() if slots.search(text)}
    assert found == {"class.h": ["tp_traverse", "tp_getattro"]}
    assert "pybind11::custom_type_setup(" in texts["class.h"]  # where pybind11 lets a class set its slots


def test_private_names_of_pybind11_stand_in_one_file():
    private = re.compile(r"\b(?:py|pybind11)::detail\b")
    found = {p.name for p in SOURCES if private.search(p.read_text(encoding="utf8"))}
    assert found == {"pybind11_private.h"}


def test_the_map_names_every_folder():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf8")
    named = set(re.findall(r"^\| `((?:cpp|python)/[\w/]+)` \|", page, re.M))
    packages = {f"python/qkv/{p.parent.name}" for p in PYTHON.glob("*/__init__.py")}
    assert named == {f"cpp/{folder}" for folder in ORDER} | packages | {"python/qkv"}


def test_every_binding_is_listed():
    families = (CPP / "bindings" / "bindings.h").read_text(encoding="utf8")
    listed = re.findall(r"(?<= )family\((\w+)\)", families)
    function = re.compile(r"^void bind_(\w+)\(Functions& m\) \{$", re.M)
    defined = {p: function.findall(p.read_text(encoding="utf8")) for p in (CPP / "bindings").rglob("*.cpp")}
    assert sorted(listed) == sorted(p.stem for p, names in defined.items() if p.stem in names)


def test_heavy_packages_are_imported_where_they_are_needed():
    pattern = re.compile(r"^(?:import|from)\s+(\w+)", re.M)  # at the left margin: when the module is imported
    at_import = {name(p): HEAVY & set(pattern.findall(p.read_text(encoding="utf8"))) for p in MODULES}
    outside = {file for file, packages in at_import.items() if packages and "/reproduce/" not in file}
    assert outside == set()


def test_the_core_is_all_that_python_sees_of_cpp():
    using = {name(p) for p in MODULES if re.search(r"\bctypes\b|\bcffi\b", p.read_text(encoding="utf8"))}
    assert using == set()


def module_name(path: Path) -> str:
    parts = path.relative_to(PYTHON).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path, source: str, known: set[str]) -> set[str]:
    """Give the modules of qkv that a file imports, inside functions too, but for its own package's `__init__`."""
    package, own, found = path.relative_to(PYTHON).parent.parts, module_name(path), set()

    def read(node: ast.AST) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
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


def test_submodules_come_when_they_are_asked_for():
    program = (
        "import sys, qkv; assert 'qkv.plot' not in sys.modules and 'qkv.reference' not in sys.modules;"
        "qkv.plot, qkv.reference; print('qkv.plot' in sys.modules, 'matplotlib' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["True", "False"]


def own_names(source: str) -> set[str]:
    """The classes and constants of a source's unnamed namespaces."""
    names = set()
    for space in re.findall(r"^namespace \{$(.*?)^\}  // namespace$", source, re.MULTILINE | re.DOTALL):
        names |= set(
            re.findall(r"^(?:template <[^>]*> )?(?:struct|class) (\w+)(?: final)?(?: :| \{)", space, re.M)
        )
        names |= set(re.findall(r"^(?:inline )?constexpr [^=({\n]*\b(k[A-Z]\w*)", space, re.M))
    return names


@pytest.mark.parametrize("folder", [name for name in ORDER if name != "kernels"])
def test_sources_that_are_compiled_together_share_no_names_of_their_own(folder):
    """Which sources are compiled together changes with their number."""
    found: dict[str, Path] = {}
    for path in sorted((CPP / folder).rglob("*.cpp")):
        for name in own_names(path.read_text()):
            assert name not in found, f"{name} in {found[name].name} and {path.name}"
            found[name] = path
    assert own_names(
        "namespace {\ntemplate <class T> class A {\nconstexpr int kB = 1;\n}  // namespace\n"
    ) == {"A", "kB"}
