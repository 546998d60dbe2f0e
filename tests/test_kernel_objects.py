"""Kernels are compiled once per instruction set; the linker must not be able to take one set's code for another's."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

BUILDS = Path(__file__).parents[1] / "build"
OBJECTS = sorted(BUILDS.glob("**/kernels_*.dir/**/*.o"))
pytestmark = pytest.mark.skipif(
    not OBJECTS or shutil.which("nm") is None, reason="needs the objects of a build, and nm"
)


def shared_names(level: str, symbols: str) -> list[str]:
    """What a linker keeps one copy of for all objects, except for what is in the level's namespace."""
    shared, own = [], f"3qkv7kernels{len(level)}{level}"  # as the compiler writes qkv::kernels::level
    for line in symbols.splitlines():
        kind, _, name = line[17:].partition(" ")
        if kind in ("W", "V", "u") and own not in name:
            shared.append(name)
    return shared


def test_no_object_of_a_level_shares_a_function_with_another():
    for thing in OBJECTS:
        level = next(part for part in thing.parts if part.startswith("kernels_"))[
            len("kernels_") : -len(".dir")
        ]
        command = ["nm", "--defined-only", str(thing)]
        symbols = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert shared_names(level, symbols) == [], thing


def test_a_shared_function_is_seen():
    shared = "_ZNK3qkv7kernels9HeadsViewIfE2atElll"  # qkv::kernels::HeadsView<float>::at
    own = "_ZN3qkv7kernels4avx24stepIfEEvPT_"  # qkv::kernels::avx2::step<float>
    symbols = "".join(
        f"{0:016x} {kind} {name}\n" for kind, name in (("W", shared), ("W", own), ("T", "_Z5levelv"))
    )
    assert shared_names("avx2", symbols) == [shared]
    assert shared_names("avx512", symbols) == [shared, own]
