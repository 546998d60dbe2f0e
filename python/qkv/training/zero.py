"""The state of an optimizer in parts: each rank keeps that of its parameters and makes their steps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..distributed.communicator import Ranks
from ..functions.gradients import no_grad


def owners(sizes: list[int], ranks: int) -> list[int]:
    """Return the rank of each parameter: the largest first, each to the rank that has least."""
    held, found = [0] * ranks, [0] * len(sizes)
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        found[i] = held.index(min(held))
        held[found[i]] += sizes[i]
    return found


class Zero:
    """ZeRO, stage 1 (Rajbhandari et al., 2020): steps need a parameter's own state alone."""

    def _shared(self, comm: Ranks, optimizer: Any) -> list[tuple[int, Any]]:
        params = optimizer.params
        return list(zip(owners([math.prod(p.shape) for p in params], comm.size), params, strict=True))

    def keep_own(self, comm: Ranks, optimizer: Any) -> None:
        """Forget the state of other ranks' parameters."""
        shared, state = self._shared(comm, optimizer), optimizer.state_dict()
        state["state"] = {i: entry for i, entry in state["state"].items() if shared[i][0] == comm.rank}
        optimizer.load_state_dict(state)

    def step(self, comm: Ranks, optimizer: Any) -> None:
        """Make the steps of this rank's parameters, and take those of the others."""
        shared = self._shared(comm, optimizer)
        others = [(p, p.grad) for owner, p in shared if owner != comm.rank]
        for p, _ in others:
            p.grad = None
        optimizer.step()
        for p, gradient in others:
            p.grad = gradient
        for owner, p in shared:
            if p.grad is None:  # on all ranks
                continue
            values = np.array(p.detach())
            comm.copy_from(owner, values)
            if owner != comm.rank:
                with no_grad():
                    p.copy_(values)

    def whole(self, comm: Ranks, optimizer: Any) -> dict[str, Any]:
        """Send the state of all parameters to rank 0, one after the other."""
        state: dict[str, Any] = optimizer.state_dict()
        own, found = state["state"], {}
        for i, (owner, _) in enumerate(self._shared(comm, optimizer)):
            entry = comm.bcast(own.get(i), owner)
            if entry is not None and comm.rank == 0:
                found[i] = entry
        return {**state, "state": found}
