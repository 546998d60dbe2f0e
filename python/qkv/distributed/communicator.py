"""Communicators: what counts as one, one of our own for each, and what all ranks must agree on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from .._errors import shown
from . import failure
from .agreed import agreed
from .environment import launched
from .launch import check_launcher

_private: dict[str, int] = {}  # the key under which a communicator keeps ours


def check(comm: Any, operation: str) -> None:
    """Raise a TypeError or ValueError, in the operation's name, unless `comm` is a communicator of this rank.

    From then on a rank that fails ends the job.
    """
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not isinstance(comm, mpi.Comm):
        if launched():
            failure.tell_once()
        raise TypeError(
            f"{operation}: comm must be an MPI communicator, such as mpi4py.MPI.COMM_WORLD, or None; got {shown(comm)}"
        )
    if comm == mpi.COMM_NULL or not isinstance(comm, mpi.Intracomm):
        kind = "COMM_NULL" if comm == mpi.COMM_NULL else type(comm).__name__
        raise ValueError(
            f"{operation}: comm must be a communicator within one group that this rank belongs to; got {kind}"
        )
    check_launcher(mpi)
    failure.watch(mpi.COMM_WORLD)


def own(comm: Any, operation: str) -> Any:
    """Give a communicator of the same ranks whose messages nobody else receives; all ranks ask for it together."""
    check(comm, operation)
    from mpi4py import MPI

    if "key" not in _private:
        _private["key"] = MPI.Comm.Create_keyval()
    ours = comm.Get_attr(_private["key"])
    if ours is None:
        ours = comm.Dup()
        comm.Set_attr(_private["key"], ours)
    return ours


def agree(comm: Any, operation: str, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Raise a ValueError on all ranks unless `facts` are equal on all of them; it names the first that differs.

    Facts whose names begin with an underscore may differ. Returns those of all ranks.
    """
    found: list[dict[str, Any]] = comm.allgather({"operation": operation, **facts})
    first = found[0]
    for rank, other in enumerate(found):
        for name in {**first, **other}:
            if name.startswith("_") or first.get(name) == other.get(name):
                continue
            raise agreed(
                ValueError(
                    f"{operation}: {name} must be equal on all ranks because they work on one job; got "
                    f"{first.get(name)} on rank 0 and {other.get(name)} on rank {rank}"
                )
            )
    return found


def from_main(comm: Any, compute: Callable[[], Any]) -> Any:
    """Call ``compute()`` on rank 0 and give its result to all; an error is raised on all."""
    result: tuple[Any, Exception | None] = (None, None)
    if comm.Get_rank() == 0:
        try:
            result = (compute(), None)
        except Exception as error:  # whatever it is, the others must hear of it
            result = (None, error)
    value, failed = comm.bcast(result, root=0)
    if failed is not None:
        raise agreed(failed)
    return value
