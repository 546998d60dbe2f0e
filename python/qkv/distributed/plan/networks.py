"""Networks between machines: latency, bandwidth, and what sums over all ranks take in them."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from ..._errors import shown
from .rates import Line, Rates


class Network(NamedTuple):
    """What connects machines.

    Attributes
    ----------
    name : str
    latency : float
        Seconds until a small message has arrived in the other process.
    bandwidth : float
        Bytes per second out of a machine, and at the same time into it.
    hidden : float, optional
        Which part of a message's time computing hides, from 0 to 1; unless given what was measured on one machine.

    Examples
    --------
    >>> qkv.distributed.plan.Network("ours", latency=5e-6, bandwidth=12.5e9)
    Network(name='ours', latency=5e-06, bandwidth=12500000000.0, hidden=None)
    """

    name: str
    latency: float
    bandwidth: float
    hidden: float | None = None


# Bandwidths are the lines' nominal rates (IEEE 802.3ae and 802.3by, InfiniBand HDR); latencies are of the size that MPI
# measures through the kernel's TCP (tens of microseconds) and through adapters that work without it (1 to 2).
NETWORKS = {
    "ethernet-1": Network("ethernet-1", 50e-6, 1e9 / 8),
    "ethernet-10": Network("ethernet-10", 30e-6, 10e9 / 8),
    "ethernet-25": Network("ethernet-25", 20e-6, 25e9 / 8),
    "infiniband-hdr": Network("infiniband-hdr", 1.5e-6, 200e9 / 8),
}
UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def network(text: str | Network, rates: Rates | None = None) -> Network | None:
    """Give the network of a name, or of ``"25 Gbit/s, 10 us"``; None for ``"here"``, which is inside this machine.

    Parameters
    ----------
    text : str or Network
        ``"here"``, a name such as ``"ethernet-25"``, bandwidth (``bit/s`` or ``B/s``) and latency, or ``"measured"``.
    rates : Rates, optional
        Those that ``"measured"`` means.

    Returns
    -------
    Network or None

    Raises
    ------
    ValueError
        If the text is none of these.

    Examples
    --------
    >>> qkv.distributed.plan.network("25 Gbit/s, 10 us").bandwidth
    3125000000.0
    """
    if isinstance(text, Network):
        if not (text.bandwidth > 0 and text.latency >= 0 and 0 <= (text.hidden or 0) <= 1):
            raise ValueError(
                "plan: network must have a bandwidth above 0, a latency of at least 0 and a hidden part from 0 to 1; "
                f"got {shown(tuple(text))}"
            )
        return text
    if text == "here":
        return None
    if text == "measured":
        if rates is None or rates.network is None:
            raise ValueError(
                "plan: network 'measured' must be that of the rates because it is not assumed; got rates without one "
                "(mpiexec -n 2 -ppn 1 -hosts A,B qkv plan measure FILE)"
            )
        return Network("measured", **rates.network)
    if text in NETWORKS:
        return NETWORKS[text]
    number = r"(\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)"
    found = re.fullmatch(rf"\s*{number}\s*([kMGT]?)(bit|B)/s\s*,\s*{number}\s*(s|ms|us|µs|ns)\s*", text)
    if found is None or float(found[1]) == 0:
        raise ValueError(
            f"plan: network must be here, {', '.join(NETWORKS)}, or bandwidth and latency such as '25 Gbit/s, 10 us'; "
            f"got {shown(text)}"
        )
    each = UNITS[found[2]] / (8 if found[3] == "bit" else 1)
    return Network(text.strip(), float(found[4]) * TIMES[found[5]], float(found[1]) * each)


class Messages:
    """What messages of a job take: inside of one machine as measured, between machines over a network."""

    def __init__(self, rates: Rates, ranks: int, between: Network | None, per_machine: int) -> None:
        self.rates, self.ranks, self.between = rates, ranks, between
        self.local = ranks if between is None else min(ranks, per_machine)
        self.machines = -(-ranks // self.local)

    def _of_network(self) -> Network | None:
        return self.between if self.machines > 1 else None

    def shift(self, size: float) -> float:
        """Give the time of a message from each rank to the next; one rank of each machine sends to another one."""
        if self.ranks == 1:
            return 0.0
        inside = self.rates.line("shift", self.local).seconds(size) if self.local > 1 else 0.0
        outside = self._of_network()
        return inside if outside is None else max(inside, outside.latency + size / outside.bandwidth)

    def sum(self, size: float) -> float:
        """Give the time of a sum over all ranks, by the quickest of the known ways.

        Inside a machine it is what was measured. Machines pass pieces round a ring or exchange halves, or, of small
        messages, all of them (Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in
        MPICH, 2005).
        """
        if self.ranks == 1:
            return 0.0
        inside = self.rates.line("sum", self.local).seconds(size) if self.local > 1 else 0.0
        outside = self._of_network()
        if outside is None:
            return inside
        n, rounds = self.machines, math.ceil(math.log2(self.machines))
        line = Line(outside.latency, 1 / outside.bandwidth)
        added = self.rates.seconds("copy", size) * (n - 1) / n if size >= 1 else 0.0
        passed = 2 * (n - 1) / n * size * line.per_byte + added
        ways = (
            2 * (n - 1) * line.latency + passed,
            2 * rounds * line.latency + passed,
            rounds * (line.seconds(size) + (self.rates.seconds("copy", size) if size >= 1 else 0.0)),
        )
        return inside + min(ways)

    def small(self) -> float:
        """Give the time of a sum of a few numbers."""
        return self.sum(8.0)

    def hidden(self, kind: str) -> float:
        """Give which part of a message's time computing can hide."""
        outside = self._of_network()
        if outside is None or outside.hidden is None:  # what this MPI does between ranks of a machine
            return self.rates.hidden(kind, self.local if outside is None else max(2, self.local))
        return outside.hidden
