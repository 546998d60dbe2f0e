"""Embedding a large file in parts that are kept: several ranks share them, and a job that was ended is continued.

Beside the output is a folder ``.NAME.embed`` with what is done: `job.json` (what the job is), `vectors` (the array,
each part at its place) or lines by rank, and for each rank and run a list of the parts that it has finished. Parts are
a fixed number of lines and computed each by itself, so that the result is the same bits for any number of ranks and
restarts.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..._atomic import lock

T = TypeVar("T")
PIECE = 1 << 20  # bytes that are read at a time to find the ends of lines
JOB = "job.json"


class OneRank:
    """The communicator of a process that is alone."""

    rank, size = 0, 1

    def allgather(self, value: Any) -> list[Any]:
        return [value]

    def from_main(self, compute: Callable[[], T]) -> T:
        return compute()

    def barrier(self) -> None:
        """Wait for no other process."""


class Done(NamedTuple):
    """Where the lines of a part are; an array's rows are at their place."""

    file: str
    begin: int
    length: int


class Ends:
    """Where the parts of a file begin, found by all ranks together: each reads its part of the file twice."""

    def __init__(self, comm: Any, path: Path, lines: int) -> None:
        size = path.stat().st_size
        begin, end = size * comm.rank // comm.size, size * (comm.rank + 1) // comm.size
        with path.open("rb") as file:
            pieces = [int(np.count_nonzero(piece == 10)) for _, piece in _pieces(file, begin, end)]
            before = sum(comm.allgather(sum(pieces))[: comm.rank])
            found = [np.zeros(int(comm.rank == 0 and size > 0), np.int64)]
            for count, (at, piece) in zip(pieces, _pieces(file, begin, end), strict=True):
                if (before + count) // lines > before // lines:
                    numbers = before + 1 + np.arange(count)
                    found.append((np.flatnonzero(piece == 10) + at + 1)[numbers % lines == 0])
                before += count
            file.seek(max(size - 1, 0))
            whole = file.read(1) == b"\n"
        total = sum(comm.allgather(sum(pieces)))
        starts = np.concatenate(comm.allgather(np.concatenate(found)))
        self.starts: NDArray[np.int64] = starts[starts < size]
        self.ends: NDArray[np.int64] = np.append(self.starts[1:], size)[: len(self.starts)]
        self.rows = total + int(size > 0 and not whole)

    def bytes_of(self, number: int) -> int:
        """Return how many bytes a part has in the file."""
        return int(self.ends[number] - self.starts[number])


def fingerprint(model: str | os.PathLike[str]) -> str:
    """Return what tells apart two folders of a model: their files' names, sizes and content."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(Path(model).rglob("*")):
        if path.is_file():
            size = path.stat().st_size
            digest.update(f"{path.relative_to(model).as_posix()} {size}\n".encode())
            with path.open("rb") as file:
                while piece := file.read(PIECE):
                    digest.update(piece)
    return digest.hexdigest()


def _pieces(file: BinaryIO, begin: int, end: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    file.seek(begin)
    for at in range(begin, end, PIECE):
        yield at, np.frombuffer(file.read(min(PIECE, end - at)), np.uint8)


class Parts:
    """The parts of one job, on one of its ranks."""

    def __init__(self, comm: Any, output: Path, facts: dict[str, Any], resume: bool) -> None:
        self.comm, self.output = comm, Path(os.path.realpath(output))
        self.folder = self.output.with_name(f".{self.output.name}.embed")
        self.name = f"{comm.rank}-{secrets.token_hex(6)}"
        self.facts, self.resume = facts, resume
        self.vectors = self.folder / "vectors"

    @contextmanager
    def opened(self) -> Iterator[Parts]:
        """Begin, or continue with what is there; the folder stays when an exception ends the job."""
        with ExitStack() as stack:
            self.comm.from_main(lambda: self._prepare(stack))
            lines = stack.enter_context(open(self.folder / f"{self.name}.lines", "ab"))
            index = stack.enter_context(open(self.folder / f"{self.name}.index", "ab"))
            self._lines, self._index = lines, index
            yield self

    def _prepare(self, stack: ExitStack) -> None:
        for finished in self.folder.parent.glob(f"{self.folder.name}.*"):  # whose removal was interrupted
            shutil.rmtree(finished, ignore_errors=True)
        self.folder.mkdir(exist_ok=True)
        if sys.platform != "win32":
            handle = os.open(self.folder, os.O_RDONLY)
            stack.callback(os.close, handle)
            if not lock(handle):
                raise ValueError(f"embed: output must not be written by two jobs at once; got {self.output}")
        if not self.resume or not (self.vectors.exists() or self.facts["format"] == "jsonl"):
            # Nothing of it is to be used, or the array has got its name already.
            for path in self.folder.iterdir():
                path.unlink()
        job = self.folder / JOB
        try:
            before = {**json.loads(job.read_text("utf8"))} if job.exists() else self.facts
        except (ValueError, TypeError):
            raise _damaged(job) from None
        for name, value in self.facts.items():
            if before.get(name) != value:
                raise ValueError(
                    f"embed: resume must go on with the same {name}; got {value} after {before.get(name)} (without "
                    "--resume, the job starts anew)"
                )
        temporary = job.with_suffix(".new")
        temporary.write_text(json.dumps(self.facts), "utf8")
        temporary.replace(job)

    def done(self) -> dict[int, Done]:
        """Return the parts that are finished, of all runs so far."""
        found = {}
        for path in sorted(self.folder.glob("*.index")):
            for line in path.read_bytes().split(b"\n")[:-1]:  # what a kill left of a line has no end
                try:
                    number, begin, length = map(int, line.split())
                except ValueError:
                    raise _damaged(path) from None
                found[number] = Done(path.stem, begin, length)
        return found

    def keep(self, number: int, data: bytes | memoryview, place: int | None) -> None:
        """Write the result of a part, and only then that it is done."""
        begin, length = self._lines.tell(), 0
        if place is None:
            length = len(data)
            self._lines.write(data)
            self._lines.flush()
            os.fsync(self._lines.fileno())
        else:
            with open(self.vectors, "r+b") as file:
                file.seek(place)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        self._index.write(f"{number} {begin} {length}\n".encode())
        self._index.flush()

    def allocate(self, header: bytes, size: int) -> None:
        """Make the array's file, of its whole size."""

        def make() -> None:
            with open(self.vectors, "r+b" if self.vectors.exists() else "w+b") as file:
                file.write(header)
                file.truncate(size)

        self.comm.from_main(make)

    def finish(self, lines: bool, check: Callable[[], None]) -> None:
        """Rename the output to its final name when all ranks have come here and `check` raises nothing."""
        self.comm.barrier()
        self.comm.from_main(check)
        if lines:
            self._join()
            self.comm.barrier()
        self.comm.from_main(self._publish)

    def _join(self) -> None:
        """Write the lines of all parts in order, each rank those that it wrote or that are left to rank 0."""
        done = self.done()
        numbers = sorted(done)
        places = np.cumsum([0, *(done[number].length for number in numbers)])
        share = slice(
            len(numbers) * self.comm.rank // self.comm.size,
            len(numbers) * (self.comm.rank + 1) // self.comm.size,
        )
        handle = os.open(self.vectors, os.O_CREAT | os.O_WRONLY, 0o666)
        with open(handle, "wb", buffering=0) as target:
            for number, place in list(zip(numbers, places, strict=False))[share]:
                part = done[number]
                with open(self.folder / f"{part.file}.lines", "rb") as source:
                    source.seek(part.begin)
                    target.seek(int(place))
                    rest = memoryview(source.read(part.length))
                    if len(rest) < part.length:
                        raise _damaged(Path(source.name))
                    while rest:
                        rest = rest[target.write(rest) :]
            os.fsync(handle)

    def _publish(self) -> None:
        os.replace(self.vectors, self.output)
        finished = self.folder.with_name(f"{self.folder.name}.{self.name}")
        self.folder.rename(finished)
        with suppress(OSError):
            shutil.rmtree(finished)


def _damaged(path: Path) -> ValueError:
    return ValueError(
        f"embed: resume must find whole files because the job goes on with them; got {path}, which is damaged (without "
        "--resume, the job starts anew)"
    )


class Reports:
    """The progress of all ranks, sent to rank 0, which shows it."""

    TAG = 7

    def __init__(self, comm: Any, tick: Callable[[int], object]) -> None:
        self.comm, self.tick = comm, tick
        self._sending: list[Any] = []
        self._heard = 0

    def _hear(self) -> None:
        amount = np.zeros(1, np.int64)
        self.comm.wait(self.comm.comm.Irecv(amount, tag=self.TAG))
        self.tick(int(amount[0]))
        self._heard += 1

    def done(self, amount: int) -> None:
        """Report a part that this rank has finished."""
        if self.comm.rank == 0:
            self.tick(amount)
            while self.comm.size > 1 and self.comm.comm.Iprobe(tag=self.TAG):
                self._hear()
        else:
            self._sending = [request for request in self._sending if not request.Test()]
            self._sending.append(self.comm.comm.Isend(np.array([amount], np.int64), 0, self.TAG))

    def wait(self, others: int) -> None:
        """Receive the reports of all other ranks."""
        while self.comm.rank == 0 and self._heard < others:
            self._hear()
        if self._sending:
            self.comm.wait(*self._sending)
