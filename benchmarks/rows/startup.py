"""What qkv costs before it computes: the time of its import, its size, and the memory of a very long sequence."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from functools import partial
from pathlib import Path

from measure import peak_memory
from registry import Case, Skip, normal, row, value

import qkv

IMPORTS = 9
PROGRAM = "import time, numpy; start = time.perf_counter(); import qkv; print(time.perf_counter() - start)"


@row("import beyond NumPy", goals=[value("import", 60.0, "ms")], threads="one", quick=True)
def imports(threads: int) -> Case:
    times = []
    with (
        tempfile.TemporaryDirectory() as compiled
    ):  # Python keeps compiled files in it, as it does after an install
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = compiled
        package = str(Path(qkv.__file__).parents[1])
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        for _ in range(1 + IMPORTS):
            run = subprocess.run(
                [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
            )
            times.append(float(run.stdout))
    return Case({}, values={"import": 1e3 * statistics.median(times[1:])})


@row("size of the extension", goals=[value("installed", 12.0, "MB")], threads="one", quick=True)
def size(threads: int) -> Case:
    data = Path(str(qkv._core.__file__)).read_bytes()
    packed = len(zlib.compress(data, 6)) / 1e6
    return Case(
        {}, values={"installed": len(data) / 1e6}, note=f"{packed:.1f} MB in a wheel, which is compressed"
    )


def long(length: int, threads: int) -> Case:
    """Peak memory of one head over a long sequence; a matrix of its scores would take L * L * 4 bytes."""
    q, k, v = (qkv.tensor(normal(1, 1, length, 64, seed=i)) for i in range(3))
    start = time.perf_counter()
    peak = peak_memory(lambda: qkv.scaled_dot_product_attention(q, k, v))
    seconds = time.perf_counter() - start
    if peak is None:
        raise Skip("the system does not tell the peak of the memory")
    note = f"{seconds:.2f} s, {4.0 * length**2 * 64 / seconds / 1e9:.0f} GFLOP/s"
    return Case({}, values={"beyond inputs and output": max(0.0, peak - 4.0 * length * 64) / 1e6}, note=note)


for _length in (16_384, 65_536):
    row(
        f"memory of attention over {_length:,} positions",
        goals=[value("beyond inputs and output", 64.0, "MB")],
        full=_length > 20_000,
    )(partial(long, _length))
