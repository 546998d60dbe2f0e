"""Programs in a process of their own, because what they look for is a crash or a hang."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import qkv

START = """
import faulthandler, os, signal, sys, threading, time
import numpy as np
import qkv
sys.setswitchinterval(1e-5)

def together(*works, seconds=1.0):
    # Runs each work in a thread of its own, again and again; raises what one of them raised.
    end, errors = time.monotonic() + seconds, []
    barrier = threading.Barrier(len(works))
    def repeat(work):
        try:
            barrier.wait()
            while not errors and time.monotonic() < end:
                work()
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
"""


def run(
    program: str, *arguments: str, timeout: float = 60, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program after START; a hang is a TimeoutExpired."""
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", START + program, *arguments],
        env={**os.environ, "PYTHONPATH": str(Path(qkv.__file__).parents[1]), **environment},
        capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip


def output(program: str, *arguments: str, timeout: float = 60, **environment: str) -> str:
    """Return what a program prints; it must end in order."""
    done = run(program, *arguments, timeout=timeout, **environment)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr[-3000:]}"
    return done.stdout.strip()
