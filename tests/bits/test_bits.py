"""Every level with fused multiply-add gives the bits that the files of hashes hold.

A hash that changes says that results change for users: write the files again (``python -m bits``, the header of
``kernels.txt``) and a line into CHANGELOG.md.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from levels import FUSED, each_level, run_at

import qkv
from bits.__main__ import stored

try:
    from numpy._core import _multiarray_umath
except ImportError:  # NumPy 1
    from numpy.core import _multiarray_umath

BUILD = Path(__file__).parents[2] / "build" / "editable"
KERNELS = Path(__file__).with_name("kernels.txt")
# NumPy without its kernels for this CPU, and OpenBLAS with those of another: neither may have a part in results.
OLD = {
    "NPY_DISABLE_CPU_FEATURES": " ".join(_multiarray_umath.__cpu_dispatch__),
    "OPENBLAS_CORETYPE": "Haswell",
}


def hashes_at(level: str, **variables: str) -> dict[str, str]:
    done = run_at(
        level, "import sys; sys.argv = ['bits', '--print']; import bits.__main__ as b; b.main()", **variables
    )
    assert done.returncode == 0, done.stderr
    return dict(reversed(line.split("  ", 1)) for line in done.stdout.splitlines())


def differences(found: dict[str, str], expected: dict[str, str]) -> list[str]:
    assert len(expected) > 500
    return sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))


@each_level(*FUSED)
def test_public_functions_give_the_stored_bits(level):
    old = OLD if level == "avx2" else {}
    assert differences(hashes_at(level, QKV_REPRODUCIBLE="1", **old), stored()) == []


def test_any_number_of_threads_gives_the_stored_bits():
    if not qkv.config()["fused_multiply_add"]:
        pytest.skip("this CPU has no fused multiply-add")
    assert differences(hashes_at(None, QKV_REPRODUCIBLE="1", QKV_NUM_THREADS="3"), stored()) == []


@each_level("avx512")
def test_without_the_mode_only_the_products_of_openblas_differ(level):
    of_openblas = {"OPENBLAS_CORETYPE": "Haswell"}
    high, low = hashes_at(level, **of_openblas), hashes_at("avx2", **OLD)
    assert differences(high, low) in (
        [],
        ["layers: Linear in bfloat16"],
    )  # some CPUs multiply bfloat16 themselves


@each_level(*FUSED)
def test_kernels_by_themselves_give_the_stored_bits(level):
    if shutil.which("cmake") is None or not (BUILD / "build.ninja").exists():
        pytest.skip("there is no build folder of an editable install")
    target = f"kernel_hashes_{level}"
    built = subprocess.run(
        ["cmake", "--build", BUILD, "--target", target],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    done = subprocess.run([BUILD / target], capture_output=True, text=True, timeout=300, check=True)
    lines = KERNELS.read_text(encoding="utf-8").splitlines()
    expected = [line for line in lines if not line.startswith("#")]
    assert done.stdout.splitlines() == expected
