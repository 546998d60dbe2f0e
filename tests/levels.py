"""Instruction-set levels: which this CPU has, and programs that run at one of them.

Tests of a level ask for it here and nowhere else, so that a CPU that lacks it skips them by name.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import qkv

LEVELS = ("baseline", "avx2", "avx512")
# Those with fused multiply-add, which give the same bits.
FUSED = LEVELS[1:] if platform.machine().lower() in ("x86_64", "amd64") else LEVELS[:1]


def each_level(*levels: str) -> Any:
    """Parametrize a test by ``level``; those that this CPU lacks are skipped by name."""
    return pytest.mark.parametrize("level", [_parameter(level) for level in levels or LEVELS])


def _parameter(level: str) -> Any:
    missing = level not in qkv.config()["instruction_sets"]
    return pytest.param(level, marks=pytest.mark.skip(reason=f"this CPU has no {level}") if missing else ())


def run_at(level: str | None, program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program in a process held to a level; None leaves the choice to qkv."""
    tests = Path(__file__).parent
    path = os.pathsep.join([str(tests), str(tests / "ops"), str(Path(qkv.__file__).parents[1])])
    environment = {name: value for name, value in os.environ.items() if name != "QKV_ISA"}
    environment |= {"PYTHONPATH": path, **variables}
    if level is not None:
        environment["QKV_ISA"] = level
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800 if "QKV_SANITIZER" in os.environ else 300,
        check=False,
    )
