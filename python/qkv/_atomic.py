"""Files that are replaced whole or not at all, by any number of processes at once.

Everything is written to a temporary file of its own in the folder of the target, forced to the disk, and then takes the
target's name in one step. A process that is killed at any moment leaves the old file or the new one. A temporary
file is locked while its writer lives: one without a lock was left by a process that was killed, and the next
writer of the same target removes it.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

if sys.platform != "win32":  # where what a killed process leaves stays there
    import fcntl

Writer = Callable[[BinaryIO], object]
ENDING = ".partial"


def write_file(path: str | os.PathLike[str], write: Writer) -> None:
    """Call ``write(file)`` and give the file the name `path` when it is whole.

    A device or a pipe is written to as it is. Any exception leaves `path` as it was and no other file.
    """
    write_files([(path, write)])


def write_files(targets: Sequence[tuple[str | os.PathLike[str], Writer]]) -> None:
    """Write several files that belong together: all are whole before the first of them takes its name.

    They take their names in the order given, one after the other, also when Ctrl-C comes in between. There is no system
    call that renames two files at once: a reader may see the first ones new and the others old for that moment.
    """
    with ExitStack() as stack:
        ready: list[tuple[str, Path]] = []
        for target, write in targets:
            given = Path(target)
            if given.exists() and not given.is_file() and not given.is_dir():
                with given.open("wb") as device:  # under this name: that of a pipe in /dev/fd has no other
                    write(device)
                continue
            path = Path(os.path.realpath(given))  # a link stays one
            file = stack.enter_context(_temporary(path))
            write(file)
            file.flush()
            os.fsync(file.fileno())
            if sys.platform == "win32":
                file.close()  # open files have no other name there
            ready.append((file.name, path))
        _rename(ready)
        for folder in dict.fromkeys(path.parent for _, path in ready):
            _sync_folder(folder)


@contextmanager
def _temporary(path: Path) -> Iterator[BinaryIO]:
    _remove_stale(path)
    file = _locked(path)
    try:
        with file:
            yield file
    finally:
        with suppress(FileNotFoundError):
            os.unlink(file.name)


def _locked(path: Path) -> BinaryIO:
    while True:
        name = path.with_name(f".{path.name}.{secrets.token_hex(6)}{ENDING}")
        file = open(name, "xb")  # noqa: SIM115
        # Before the lock another writer may have taken the file for one that was left over.
        if lock(file.fileno()) and os.fstat(file.fileno()).st_nlink > 0:
            return file
        file.close()


def lock(handle: int) -> bool:
    """Lock a file or a folder without waiting; False if another process has it."""
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:  # others are those of file systems without locks
        return not isinstance(error, BlockingIOError)
    return True


def _remove_stale(path: Path) -> None:
    if sys.platform == "win32":
        return
    try:
        entries = list(os.scandir(path.parent))
    except PermissionError:  # a folder to write to and not to read
        return
    for entry in entries:
        if not (entry.name.startswith(f".{path.name}.") and entry.name.endswith(ENDING)):
            continue
        with suppress(OSError):  # another process was faster
            handle = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                if stat.S_ISREG(os.fstat(handle).st_mode):
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(entry.path)
            finally:
                os.close(handle)


def _rename(ready: list[tuple[str, Path]]) -> None:
    rest = list(ready)
    try:
        while rest:
            os.replace(*rest[0])
            del rest[0]
    except KeyboardInterrupt:
        for name, path in rest:
            with suppress(FileNotFoundError):  # was renamed when the interrupt came
                os.replace(name, path)
        raise


def _sync_folder(folder: Path) -> None:
    """Force the new names to the disk where the system knows how to do that for a folder."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
