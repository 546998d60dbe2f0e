"""Programs of notebooks that run on several ranks: results of this machine, or stored ones where it has no MPI."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from .._public import explained
from ..distributed.starting import environment, find_mpiexec
from .trainings import VARIABLE

STORED = Path(__file__).parent / "data" / "ranks"
SECONDS = 600  # for a program of seconds


@explained
def ranks_missing() -> str:
    """Say why programs cannot run on several ranks here, and what to install.

    Returns
    -------
    str
        Empty if they can; else the words for `check.skipped`, since stored results measure nothing.
    """
    try:
        find_mpiexec("on_ranks")
    except ImportError as error:
        return f"stored results, because here {str(error).partition(': ')[2]}"
    return ""


@explained
def on_ranks(name: str, program: str, ranks: int) -> Any:
    """Run a program under ``mpiexec`` and give what its rank 0 writes: JSON, into the file named by ``sys.argv[1]``.

    Where `mpi4py` or ``mpiexec`` is missing it says so, and gives the results that the package stores.

    Parameters
    ----------
    name : str
        Of the program: letters, digits and underscores.
    program : str
        Its source.
    ranks : int
        Each computes with one thread; they may be more than the machine has cores.

    Returns
    -------
    object
        What is in the file.

    Raises
    ------
    RuntimeError
        If the program fails; what it said is in the message.
    FileNotFoundError
        If MPI is missing and there are no results of that name.
    """
    stored = f"{name}_{ranks}.json"
    missing = ranks_missing()
    if missing:
        print(f"{name} on {ranks} ranks: {missing}")
        return json.loads((STORED / stored).read_text(encoding="utf-8"))
    launcher = find_mpiexec("on_ranks")
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / f"{name}.py", Path(folder) / "result.json"
        source.write_text(program, encoding="utf-8")
        command = [launcher, "-n", str(ranks), sys.executable, str(source), str(result)]
        found = subprocess.run(
            command, env=environment(1), capture_output=True, text=True, timeout=SECONDS, cwd=folder
        )
        if found.returncode:
            raise RuntimeError(
                f"on_ranks: the program must end well; it ended with {found.returncode} on {ranks} ranks and said "
                f"{found.stderr.strip() or found.stdout.strip()}"
            )
        print(f"{name} on {ranks} ranks: {time.perf_counter() - begin:.1f} s")
        text = result.read_text(encoding="utf-8")
    new = os.environ.get(VARIABLE)
    if new:
        Path(new).mkdir(parents=True, exist_ok=True)
        (Path(new) / stored).write_text(text, encoding="utf-8")
    return json.loads(text)
