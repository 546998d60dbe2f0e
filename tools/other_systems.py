"""Compiles the C++ sources for systems that are not at hand, without linking: does the code keep to what they have?

    pip install ziglang pybind11 scipy-openblas32
    python tools/other_systems.py                       # all
    python tools/other_systems.py --target windows core kernels

The compiler is Clang as Zig ships it, with the C and C++ libraries of macOS, Windows (mingw) and musl. Warnings are
errors.

    clang     this system with its own clang++, which may be older (14 is the oldest known to work): all folders, for
              each instruction set
    macos     arm64, macOS 13.3 and later: all folders; the bindings with this Python's headers, which fit as far as
              sizes go (both systems have 64-bit pointers and longs), unless they are Debian's, which are Linux's alone
    musl      Linux x86-64 with musl libc, as Alpine has it: the folders below the bindings, for each instruction set
    windows   x86-64: the folders below the bindings, for each instruction set

It says nothing about linking, about what a system does when the code runs, or about its own compilers.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CPP = ROOT / "cpp"
FOLDERS = ("core", "kernels", "autograd", "ops", "nn", "models", "bindings")
ZIG = [sys.executable, "-m", "ziglang", "c++", "-target"]
COMPILERS = {
    "macos": [*ZIG, "aarch64-macos.13.3"],
    "musl": [*ZIG, "x86_64-linux-musl"],
    "windows": [*ZIG, "x86_64-windows-gnu"],
    "clang": ["clang++", "-fPIC"],
}
FLAGS = ["-std=c++20", "-c", "-O0", "-fno-sanitize=all", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
FLAGS += ["-Wno-unused-command-line-argument", "-fvisibility=hidden"]
KERNEL_FLAGS = ["-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
COMPILED_ONCE = ("dispatch.cpp", "blas.cpp")


def levels() -> dict[str, list[str]]:
    """Return the options of each instruction set of x86-64, as the build has them."""
    page = (ROOT / "cmake" / "kernels.cmake").read_text(encoding="utf8")
    found = {name: flags.split() for name, flags in re.findall(r"set\(flags_(avx\w+) (.*?)\)", page)}
    if set(found) != {"avx2", "avx512"}:
        raise SystemExit(f"cmake/kernels.cmake: expected flags_avx2 and flags_avx512; got {sorted(found)}")
    return {"baseline": [], **found}


def includes(folder: str) -> list[str]:
    """Return the folders of headers."""
    import scipy_openblas32

    found = ["-I", str(CPP), "-isystem", scipy_openblas32.get_include_dir()]
    if folder == "bindings":
        import pybind11

        found += ["-isystem", pybind11.get_include(), "-isystem", sysconfig.get_path("include")]
    return found


def has_headers() -> bool:
    """Say whether this Python has headers that do not ask which Linux it is."""
    config = Path(sysconfig.get_path("include")) / "pyconfig.h"
    return config.is_file() and "__linux__" not in config.read_text(encoding="utf8")


def commands(system: str, folder: str) -> Iterator[tuple[str, list[str]]]:
    """Return what to compile, by name."""
    compiler = [*COMPILERS[system], *FLAGS, *includes(folder)]
    if system in ("macos", "windows"):
        compiler += ["-Dcpu_set_t=void"]  # in the headers of this system's OpenBLAS
    compiler += ["-DBLAS_SYMBOL_PREFIX=scipy_", "-DQKV_BLAS_PREFIX", '-DQKV_VERSION="0"']
    machine = platform.machine() if system == "clang" else COMPILERS[system][-1]
    known = levels() if machine.startswith("x86_64") else {"baseline": []}
    for path in sorted((CPP / folder).rglob("*.cpp")):
        name = f"{system} {path.relative_to(CPP).as_posix()}"
        if folder != "kernels" or path.name in COMPILED_ONCE:
            defined = [f"-DQKV_HAVE_{level}" for level in known]
            yield name, [*compiler, *defined, str(path)]
            continue
        for level, flags in known.items():
            yield f"{name} {level}", [*compiler, *KERNEL_FLAGS, *flags, f"-DQKV_ISA={level}", str(path)]


def compiled(command: list[str]) -> str:
    """Compile one file; gives what the compiler said, nothing if all is well."""
    with tempfile.TemporaryDirectory(prefix="qkv-compiled-") as folder:  # Zig does not know -fsyntax-only
        command = [*command, "-o", f"{folder}/a.o"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip() or f"exit status {done.returncode}"


def main() -> int:
    """Compile everything that was asked for."""
    parser = argparse.ArgumentParser(description="Compile checks for macOS, Windows, musl and Clang.")
    parser.add_argument("folders", nargs="*", choices=[[], *FOLDERS], help="folders of cpp (default: all)")
    parser.add_argument("--target", choices=COMPILERS, help="one of them (default: all that are at hand)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    work = []
    for system in [options.target] if options.target else COMPILERS:
        if system == "clang" and not options.target and shutil.which("clang++") is None:
            print("clang: not installed", flush=True)
            continue
        for folder in options.folders or FOLDERS:
            if folder == "bindings" and (
                system in ("musl", "windows") or (system == "macos" and not has_headers())
            ):
                print(f"{system}: the bindings are left out", flush=True)
            else:
                work += commands(system, folder)
    failed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for (name, _), said in zip(work, pool.map(lambda one: compiled(one[1]), work), strict=True):
            if said:
                failed += 1
                print(f"{name}\n{said}\n", flush=True)
    print(f"{len(work) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
