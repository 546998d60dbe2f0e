"""Running notebooks in Jupyter kernels, several side by side, and reading what came of each."""

import asyncio
import datetime
import importlib.util
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from .kernels import exit_words, kernel
from .results import Result, read_records, take_pictures

_PACKAGES = "nbformat nbclient ipykernel matplotlib tqdm jinja2 mistune pygments latex2mathml"
NEEDED = tuple(_PACKAGES.split())
TIMEOUT = 900.0  # seconds for one cell
LONG_TIMEOUT = 6 * 3600.0  # with the long trainings


class Progress(Protocol):
    """Hears of each cell and of each notebook that has come to its end."""

    def cell_done(self) -> None: ...

    def notebook_done(self, result: Result) -> None: ...


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
    notebooks: Sequence[tuple[Path, Any]], cores: int, progress: Progress, timeout: float = TIMEOUT
) -> list[Result]:
    """Execute notebooks, as many at a time as there are cores, each with its share of them.

    The first exception ends its notebook and is reported in the result. Results are in the order of the notebooks.
    """
    return asyncio.run(_run_all(notebooks, cores, progress, timeout))


async def _run_all(
    notebooks: Sequence[tuple[Path, Any]], cores: int, progress: Progress, timeout: float
) -> list[Result]:
    workers = max(1, min(cores, len(notebooks)))
    places = asyncio.Semaphore(workers)
    threads = max(1, cores // workers)

    async def one(path: Path, notebook: Any) -> Result:
        async with places:
            result = await _run_one(path, notebook, threads, progress.cell_done, timeout)
        progress.notebook_done(result)
        return result

    # The largest first, which with their stored outputs are the longest: none is left to run alone at the end.
    order = sorted(notebooks, key=lambda pair: -_size(*pair))
    tasks = {path: asyncio.ensure_future(one(path, notebook)) for path, notebook in order}
    try:
        return [await tasks[path] for path, _ in notebooks]
    finally:  # no kernel outlives this function
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


def _size(path: Path, notebook: Any) -> int:
    """Return the size with stored outputs; an installed notebook has none, and says what it was."""
    return int(notebook.metadata.get("qkv", {}).get("size", path.stat().st_size))


async def _run_one(
    path: Path, notebook: Any, threads: int, after_cell: Callable[[], object], timeout: float
) -> Result:
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    result = Result(path, notebook)
    start, number = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="qkv-notebook-", ignore_cleanup_errors=True) as folder:
        try:
            async with kernel(notebook, Path(folder), threads=threads, timeout=timeout) as client:
                try:
                    for index, cell in enumerate(notebook.cells):
                        number += cell.cell_type == "code"
                        await client.async_execute_cell(cell, index)
                        if cell.cell_type == "code":
                            after_cell()
                except CellExecutionError as error:
                    result.error, result.cell = f"{error.ename}: {error.evalue}", number
                except CellTimeoutError:
                    result.error, result.cell = f"it took longer than {timeout:g} s and was ended", number
                except DeadKernelError:
                    result.error, result.cell = await exit_words(client), number
                    if not result.error:  # nbclient's word for a task that is cancelled
                        raise asyncio.CancelledError from None
        except RuntimeError as error:  # the kernel did not start
            result.error = f"{type(error).__name__}: {error}"
    today = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")
    result.made = {"date": today, "seconds": round(time.monotonic() - start, 1), "qkv": version()}
    _tidy(notebook)
    take_pictures(result)
    read_records(result)
    return result


def version() -> str:
    """Return the version of qkv that runs here."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("qkv")
    except PackageNotFoundError:
        return "from source"


def _tidy(notebook: Any) -> None:
    """Keep what a reader needs and what does not change from run to run."""
    notebook.metadata = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        for name in ("execution", "collapsed", "scrolled"):
            cell.metadata.pop(name, None)
