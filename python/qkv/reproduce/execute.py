"""Running a notebook in a Jupyter kernel of this interpreter, and reading its checks and figures back."""

import base64
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .display import FIGURE_KEY, MIME
from .registry import heading_ids

NEEDED = ("nbformat", "nbclient", "ipykernel", "matplotlib", "tqdm")
CELL_TIMEOUT = 3600


@dataclass
class Picture:
    """A figure that a notebook drew, with the ids of the experiments that it belongs to."""

    name: str
    ids: list[str]
    png: bytes


@dataclass
class Result:
    """What came of one notebook."""

    path: Path
    notebook: Any
    error: str | None = None
    records: list[dict[str, Any]] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)


def require() -> None:
    """Raise an ImportError that says what to install if notebooks cannot run here."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(
            f"reproduce: running notebooks needs {', '.join(missing)}, which "
            f'{"is" if len(missing) == 1 else "are"} not installed; pip install "qkv[notebooks]"'
        )


def read(path: Path) -> Any:
    """Read a notebook and drop its stored outputs."""
    import nbformat

    jupyter: Any = nbformat
    notebook = jupyter.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def run(
    path: Path, notebook: Any, after_cell: Callable[[], object] = lambda: None, names: set[str] | None = None
) -> Result:
    """Execute a notebook's cells in order; the first exception ends it and is reported in the result.

    `after_cell` is called after each cell with code; `names` holds the names of earlier notebooks' pictures.
    """
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    class ThisInterpreter(KernelSpecManager):
        """Offers one kernel: the interpreter that runs now."""

        def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
            command = [
                sys.executable,
                "-m",
                "ipykernel_launcher",
                "-f",
                "{connection_file}",
                "--log-level=CRITICAL",
            ]
            return KernelSpec(argv=command, display_name="Python 3", language="python")

    result = Result(path, notebook)
    with tempfile.TemporaryDirectory(prefix="qkv-notebook-") as folder:
        manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=ThisInterpreter())
        client = NotebookClient(
            notebook,
            km=manager,
            timeout=CELL_TIMEOUT,
            startup_timeout=120,
            record_timing=False,
            resources={"metadata": {"path": folder}},
        )
        try:
            with client.setup_kernel(env=_environment(), cleanup_kc=True):
                for number, cell in enumerate(notebook.cells):
                    client.execute_cell(cell, number)
                    if cell.cell_type == "code":
                        after_cell()
        except CellExecutionError as error:
            result.error = f"{error.ename}: {error.evalue}"
        except (CellTimeoutError, DeadKernelError, RuntimeError) as error:
            result.error = f"{type(error).__name__}: {error}"
    _tidy(notebook)
    _collect(result, set() if names is None else names)
    return result


def _environment() -> dict[str, str]:
    """Give the kernel's environment: ours, with figures inline and this very package found first."""
    environment = {**os.environ, "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    home = Path(__file__).resolve().parents[2]
    if home.name not in ("site-packages", "dist-packages"):
        paths = [str(home), *filter(None, [environment.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    return environment


def _tidy(notebook: Any) -> None:
    """Keep what a reader needs and what does not change from run to run."""
    notebook.metadata = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        for name in ("execution", "collapsed", "scrolled"):
            cell.metadata.pop(name, None)


def _collect(result: Result, names: set[str]) -> None:
    ids: list[str] = []
    for cell in result.notebook.cells:
        if cell.cell_type == "markdown":
            ids = [ids, *heading_ids(cell.source)][-1]
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if MIME in data:
                result.records.append({**data[MIME], "notebook": result.path.name})
            if "image/png" in data:
                name = output.metadata.get(FIGURE_KEY)
                if name is None:
                    name = base = ids[0] if ids else result.path.stem
                    while name in names:
                        name = f"{base}-{sum(other.startswith(base) for other in names) + 1}"
                names.add(name)
                result.pictures.append(Picture(name, ids, base64.b64decode(data["image/png"])))
