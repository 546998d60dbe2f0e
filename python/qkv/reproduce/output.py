"""The output folder: one run at a time, everything written aside and moved in at the end, foreign files untouched."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .._atomic import lock

GENERATOR = '<meta name="generator" content="qkv reproduce">'
INDEX = "index.html"
PLACES = ("notebooks/", "figures/", "assets/", "trainings/")
KEPT = "trainings/"  # not of every run
_STAGE = ".qkv-reproduce-"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for one run; it is made if it does not exist, and removed again if it stays empty.

    Raises
    ------
    OSError
        If it is no folder, cannot be written, or another run holds it.
    """
    made = [parent for parent in (folder, *folder.parents) if not os.path.lexists(parent)]
    handle = None
    try:
        try:
            handle = _acquire(folder)
        except OSError as error:
            raise _unusable(folder, error) from error
        for left in folder.glob(f"{_STAGE}*"):  # of a run that was killed: nobody else is here now
            shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        with suppress(OSError):
            for parent in made:
                parent.rmdir()
        if handle is not None:
            os.close(handle)


def _acquire(folder: Path) -> int | None:
    """Lock the folder itself, so that no file for it is left; None where folders cannot be locked."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        if sys.platform == "win32":
            return None
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        if not lock(handle):
            os.close(handle)
            raise BlockingIOError(f"another run of qkv reproduce writes to {folder}")
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(folder)):
                return handle
        os.close(handle)  # the run that made the folder has removed it


def _unusable(folder: Path, error: OSError) -> OSError:
    if isinstance(error, BlockingIOError):
        return OSError(f"reproduce: output must be free, but {error}; wait for it or choose another folder")
    if isinstance(error, FileExistsError | NotADirectoryError) and not folder.is_dir():
        file = next((path for path in (folder, *folder.parents) if path.is_file()), folder)
        return NotADirectoryError(f"reproduce: output must be a folder; got {folder}, where {file} is a file")
    return _not_written(folder, error)


def _not_written(folder: Path, error: OSError) -> OSError:
    return OSError(
        f"reproduce: output must be a folder that can be written; got {folder}: {error.strerror or error}"
    )


def refuse_foreign(folder: Path, names: Iterable[str], ours: Iterable[str]) -> None:
    """Raise a FileExistsError if the folder holds one of the files `names` and no earlier run wrote it.

    `ours` are the files that the results of the earlier run list; before there were such lists, a folder was
    recognised by its page.
    """
    ours = set(ours)
    if not ours and is_ours(folder):
        return
    for name in names:
        if name not in ours and os.path.lexists(folder / name):
            raise FileExistsError(
                f"reproduce: output must be a new folder or one that an earlier run wrote, because the files of "
                f"this run would replace others; got {folder}, which holds its own {name}"
            )


def own_files(folder: Path, earlier: Mapping[str, Any]) -> list[str]:
    """List the files that an earlier run wrote and that are still there."""
    names = [str(name) for name in earlier.get("files", ())]
    inside = (name for name in names if "/" not in name or (name.startswith(PLACES) and ".." not in name))
    return [name for name in inside if (folder / name).is_file()]


def is_ours(folder: Path) -> bool:
    """Say whether the folder's page was written by this program."""
    page = folder / INDEX
    return page.is_file() and GENERATOR in page.read_text(encoding="utf-8", errors="replace")[:2000]


def files(folder: Path) -> list[str]:
    """List the files below a folder."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@contextmanager
def staged(folder: Path, earlier: Mapping[str, Any]) -> Iterator[Path]:
    """Return an empty folder to write to; its files move into `folder` when the block ends without an exception.

    What the run before has written, ``earlier["files"]``, is replaced except for results of long trainings; other files
    stay. If anything goes wrong, also while files are moved, the folder is as it was.

    Raises
    ------
    OSError
        At once, if `folder` cannot be written; at the end, if the disk is full or a file would replace a foreign one.
    """
    ours = own_files(folder, earlier)
    try:
        stage = Path(tempfile.mkdtemp(prefix=_STAGE, dir=folder))
    except OSError as error:
        raise _not_written(folder, error) from error
    try:
        new, old = stage / "new", stage / "old"
        new.mkdir()
        old.mkdir()
        yield new
        refuse_foreign(folder, files(new), ours)
        with writing(folder):
            _swap(folder, new, old, ours)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Let errors of the system in this block say that `folder` cannot be written."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # one of ours, which says everything
            raise
        raise _not_written(folder, error) from error


def _swap(folder: Path, new: Path, old: Path, ours: Iterable[str]) -> None:
    """Move the old files out and the new ones in, the page last; undo it if that does not come to its end."""
    names = sorted(files(new), key=lambda name: (name == INDEX, name))
    replaced = {name for name in ours if not name.startswith(KEPT)} | set(names)
    out = sorted(name for name in replaced if (folder / name).is_file())
    try:
        for name in out:
            _move(folder / name, old / name)
        for name in names:
            _move(new / name, folder / name)
    except BaseException:
        for name in names:
            if not (new / name).exists():
                _move(folder / name, new / name)
        for name in files(old):
            _move(old / name, folder / name)
        raise
    for part in {Path(name).parent for name in out}:
        with suppress(OSError):
            (folder / part).rmdir()  # only if it is empty, which the folder itself is not


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(source, target)
