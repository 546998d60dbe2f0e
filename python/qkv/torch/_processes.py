"""What PyTorch has for several processes: programs that run in one import it, and a call says that there is one."""

from __future__ import annotations

from typing import Any, NoReturn


def refuse(name: str) -> NoReturn:
    """Say that there is one process."""
    raise RuntimeError(
        f"{name}: qkv.torch computes in one process; qkv.distributed shares work among the ranks of an MPI job"
    )


def of_several(name: str) -> Any:
    """Make a function that only several processes need."""

    def call(*args, **kwargs) -> NoReturn:
        refuse(name)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = "Refused: there is one process."
    return call


class OfSeveral:
    """Base of classes that only several processes need: they are not made, and nothing is an instance of them."""

    def __init__(self, *args, **kwargs) -> None:
        refuse(type(self).__name__)
