"""What layers of the core ask of a communicator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .communicator import check, own
from .ring import whole_length
from .sequence import attention
from .split import positions as positions_of

__all__ = ["Shared", "attend", "check", "positions"]


class Shared:
    """A communicator in the state of a module: deep copies share it; those that MPI has a name for can be pickled."""

    def __init__(self, comm: Any) -> None:
        self.comm = comm

    def __deepcopy__(self, memo: Any) -> Shared:
        return self


def positions(comm: Any, rows: int, is_causal: bool | str) -> NDArray[np.int64]:
    """Return the positions of this rank's rows in the whole sequence."""
    if comm.Get_size() == 1:
        return np.arange(rows)
    lengths = own(comm, "MultiHeadAttention").allgather(rows)
    length = whole_length("MultiHeadAttention", "queries", lengths, bool(is_causal))
    return positions_of(length, comm, is_causal)


def attend(comm: Any, query: Any, key: Any, value: Any, options: Mapping[str, Any]) -> Any:
    """Return the attention of this rank's queries (B, H, Lq, D) to the keys of all ranks."""
    return attention(query, key, value, comm, enable_gqa=True, **options)
