"""The order of the folders of C++, read from the include lines, and what is in which file."""

from __future__ import annotations

import re
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
    """Return the folder of `cpp` that a file is in, directly or in its subfolders."""
    return path.relative_to(CPP).parts[0]


def forbidden_arrows(folder: str, included: list[str]) -> list[str]:
    """Return the includes of a file in `folder` that lie to its right."""
    rank = ORDER.index(folder)
    return [name for name in included if name.split("/")[0] in ORDER[rank + 1 :]]


def forbidden_bindings(folder: str, included: list[str]) -> list[str]:
    """Return the includes of a file in a folder of the bindings that lie to its right."""
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
    # What is outside of the folders brings them together, or is for all of them.
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
    allowed = {"math.h", "stddef.h", "stdint.h", "string.h", "immintrin.h", "emmintrin.h", "arm_neon.h"}
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
    guests = ("python/qkv/reproduce/", "python/qkv/pytorch/")  # imported when they are asked for
    outside = {file for file, packages in at_import.items() if packages and not file.startswith(guests)}
    assert outside == set()


def test_the_core_is_all_that_python_sees_of_cpp():
    using = {name(p) for p in MODULES if re.search(r"\bctypes\b|\bcffi\b", p.read_text(encoding="utf8"))}
    assert using == set()


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
