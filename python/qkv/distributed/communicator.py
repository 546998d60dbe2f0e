"""Communicators: what counts as one, one of our own for each, and what all ranks must agree on."""

from __future__ import annotations

import itertools
import pickle
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from .._words.errors import shown
from .agreed import agreed
from .launch import check_launcher
from .waiting import wait, watch

T = TypeVar("T")
NAME, INLINE = 40, 208  # bytes of a record: what the rank does, and a value that is short enough
RECORD = struct.Struct(f"{NAME}sq{INLINE}s")

_private: dict[str, int] = {}  # the key under which a communicator keeps ours


def check(comm: Any, operation: str) -> None:
    """Raise a TypeError or ValueError, in the operation's name, unless `comm` is a communicator of this rank.

    From then on a rank that fails ends the job.
    """
    watch()
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not isinstance(comm, mpi.Comm):
        raise TypeError(
            f"{operation}: comm must be an MPI communicator, such as mpi4py.MPI.COMM_WORLD, or None; got {shown(comm)}"
        )
    if comm == mpi.COMM_NULL or not isinstance(comm, mpi.Intracomm):
        kind = "COMM_NULL" if comm == mpi.COMM_NULL else type(comm).__name__
        raise ValueError(
            f"{operation}: comm must be a communicator within one group that this rank belongs to; got {kind}"
        )
    check_launcher(mpi)


class Ranks:
    """The ranks of a communicator, for messages that nobody else receives.

    What all of them do begins with a record of what each of them is about to do, so that ranks which do different
    things hear of it instead of waiting. A rank that waits is watched (:mod:`waiting`).
    """

    def __init__(self, comm: Any, operation: str) -> None:
        from mpi4py import MPI

        self.comm, self.operation = comm, operation
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self._members: list[int] | None = None
        self._mpi = MPI

    def Get_rank(self) -> int:  # noqa: N802
        """Return the number of this rank."""
        return int(self.rank)

    def Get_size(self) -> int:  # noqa: N802
        """Return the number of ranks."""
        return int(self.size)

    def members(self) -> list[int]:
        """Return the numbers of the ranks in the world, without those that are not of it."""
        if self._members is None:
            found = self.comm.group.Translate_ranks(None, self._mpi.COMM_WORLD.group)
            self._members = [rank for rank in found if rank != self._mpi.UNDEFINED]
        return self._members

    def duplicate(self) -> Ranks:
        """Return a communicator of the same ranks."""
        comm, request = self.comm.Idup()
        self.wait(request)
        return Ranks(comm, self.operation)

    def wait(self, *requests: Any) -> None:
        """Wait until messages have come or gone."""
        pending = list(requests)
        wait(lambda: bool(self._mpi.Request.Testall(pending)), self.members, self.operation)

    def allgather(self, value: T, name: str = "agreement") -> list[T]:
        """Return the values of all ranks."""
        data = pickle.dumps(value)
        sizes, inline = self._meet(name, len(data), data)
        if max(sizes) > INLINE:
            whole = bytearray(sum(sizes))
            self.wait(self.comm.Iallgatherv(data, [whole, sizes]))
            ends = np.cumsum([0, *sizes])
            inline = [bytes(whole[begin:end]) for begin, end in itertools.pairwise(ends)]
        return [pickle.loads(entry) for entry in inline]

    def bcast(self, value: T | None = None, root: int = 0) -> T:
        """Send the value of one rank to all."""
        data = bytearray(pickle.dumps(value)) if self.rank == root else bytearray()
        sizes, inline = self._meet("word", len(data), bytes(data))
        if sizes[root] <= INLINE:
            return pickle.loads(inline[root])  # type: ignore[no-any-return]
        if self.rank != root:
            data = bytearray(sizes[root])
        self.wait(self.comm.Ibcast(data, root))
        return pickle.loads(data)  # type: ignore[no-any-return]

    def barrier(self) -> None:
        """Wait until all ranks have come here."""
        self._meet("end", 0, b"")

    def copy_from(self, root: int, array: Any) -> None:
        """Send the numbers of one rank to all, in arrays that all of them have."""
        self.wait(self.comm.Ibcast(array, root))

    def add(self, array: Any) -> Any:
        """Begin to sum an array over the ranks, in its place; gives the request."""
        return self.comm.Iallreduce(self._mpi.IN_PLACE, array, self._mpi.SUM)

    def _meet(self, name: str, length: int, data: bytes) -> tuple[list[int], list[bytes]]:
        """Tell all ranks what this one is about to do, and hear it of them."""
        mine = f"{self.operation}\0{name}".encode()
        record = RECORD.pack(mine, length, data if length <= INLINE else b"")
        table = bytearray(RECORD.size * self.size)
        self.wait(self.comm.Iallgather(record, table))
        found = [RECORD.unpack_from(table, rank * RECORD.size) for rank in range(self.size)]
        names = [entry[0].rstrip(b"\0").decode(errors="replace").split("\0") for entry in found]
        for rank, other in enumerate(names):
            if other != names[0]:
                part = int(other[0] == names[0][0])
                raise agreed(
                    RuntimeError(
                        f"{self.operation}: all ranks must make the same calls because they work on one job; got "
                        f"{' '.join(names[0][: part + 1])} on rank 0 and {' '.join(other[: part + 1])} on rank {rank}"
                    )
                )
        return [entry[1] for entry in found], [entry[2][: entry[1]] for entry in found]

    def agree(self, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Raise a ValueError on all ranks unless `facts` are equal on all of them; it names the first that differs.

        Facts whose names begin with an underscore may differ. Returns those of all ranks.
        """
        found: list[dict[str, Any]] = self.allgather(dict(facts))
        first = found[0]
        for rank, other in enumerate(found):
            for name in {**first, **other}:
                if name.startswith("_") or first.get(name) == other.get(name):
                    continue
                raise agreed(
                    ValueError(
                        f"{self.operation}: {name} must be equal on all ranks because they work on one job; got "
                        f"{first.get(name)} on rank 0 and {other.get(name)} on rank {rank}"
                    )
                )
        return found

    def from_main(self, compute: Callable[[], T]) -> T:
        """Call ``compute()`` on rank 0 and give its result to all; an error is raised on all."""
        value, failed = self.bcast(attempted(compute) if self.rank == 0 else None)
        if failed is not None:
            raise agreed(failed)
        return value  # type: ignore[no-any-return]

    def on_all(self, compute: Callable[[], T]) -> T:
        """Return ``compute()``; the error of one rank is raised on all."""
        result, error = attempted(compute)
        errors = self.allgather(error)
        alike = len({str(other) for other in errors}) == 1
        for rank, other in enumerate(errors):
            if other is not None and alike:
                raise agreed(error or other)
            if other is not None:
                kind = type(other) if isinstance(other, (ValueError, TypeError, OSError)) else RuntimeError
                raise agreed(kind(f"{other} (on rank {rank})")) from error
        return result  # type: ignore[no-any-return]


def attempted(compute: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """Return ``compute()``, or the error of which other ranks must hear, of any kind."""
    try:
        return compute(), None
    except Exception as error:
        return None, error


def own(comm: Any, operation: str) -> Ranks:
    """Return a communicator of the same ranks whose messages nobody else receives; all ranks ask for it together."""
    check(comm, operation)
    from mpi4py import MPI

    if "key" not in _private:
        _private["key"] = MPI.Comm.Create_keyval()
    ours: dict[bool, Ranks] | None = comm.Get_attr(_private["key"])
    if ours is None:
        comm.Set_attr(_private["key"], ours := {})
    around = operation == "Trainer.fit"  # what is called within a training does not meet its messages
    if around not in ours:
        ours[around] = Ranks(comm, operation).duplicate()
    ours[around].operation = operation
    return ours[around]
