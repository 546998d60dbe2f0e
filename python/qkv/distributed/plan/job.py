"""What a prediction is: where the time of a step goes, for some number of ranks, and what limits it."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from ..._errors import count_of
from .networks import Messages, Network, network
from .rates import Rates

Price = Callable[..., float]
HALF = 0.5  # of the efficiency: below it a job counts as no longer scaling


class Step(NamedTuple):
    """Where the time of a step goes, on the average rank, and the memory of the largest.

    Attributes
    ----------
    ranks : int
    compute : float
        Seconds of the work that the ranks share.
    repeated : float
        Seconds of the work that every rank does, however many they are.
    communication : float
        Seconds of messages that computing does not hide.
    waiting : float
        Seconds until the rank with the most work is done.
    memory : float
        Bytes beyond those of a process that has imported qkv.

    Examples
    --------
    >>> qkv.distributed.plan.Step(2, 3.0, 0.5, 0.25, 0.25, 1e6).seconds
    4.0
    """

    ranks: int
    compute: float
    repeated: float
    communication: float
    waiting: float
    memory: float

    @property
    def seconds(self) -> float:
        """The time of a step."""
        return self.compute + self.repeated + self.communication + self.waiting

    def efficiency(self, one: Step) -> float:
        """Give which part of N times the speed of one rank is reached.

        Parameters
        ----------
        one : Step
            Of one rank.

        Returns
        -------
        float
        """
        return one.seconds / (self.ranks * self.seconds)

    def losses(self, one: Step) -> dict[str, float]:
        """Give what the time beyond an N-th of one rank's is spent on, in seconds.

        Parameters
        ----------
        one : Step
            Of one rank.

        Returns
        -------
        dict
            ``communication``, ``waiting``, ``repeated`` and ``slower pieces``: the shared work takes more than an N-th
            because its pieces are smaller, or cores and memory are shared.
        """
        return {
            "communication": self.communication,
            "waiting": self.waiting,
            "repeated": self.repeated - one.repeated / self.ranks,
            "slower pieces": self.compute - one.compute / self.ranks,
        }


class Place:
    """The machines of a prediction for some number of ranks."""

    def __init__(self, rates: Rates, ranks: int, between: Network | None, per_machine: int) -> None:
        self.rates, self.ranks = rates, ranks
        self.messages = Messages(rates, ranks, between, per_machine)
        self.at_once = self.messages.local
        self.turns = max(1.0, self.at_once / rates.cores)  # processes that share a core

    def price(self, name: str, *sizes: float) -> float:
        """Give the time of a piece of work; nothing takes none."""
        return 0.0 if min(sizes) <= 0 else self.rates.seconds(name, *sizes, at_once=self.at_once)


@dataclasses.dataclass(frozen=True)
class Job(ABC):
    """A job whose steps can be predicted."""

    name: ClassVar[str]
    step_is: ClassVar[str]
    reasons: ClassVar[dict[str, str]]

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if field.type in ("int", int):
                count_of(f"plan.{type(self).__name__}", field.name, getattr(self, field.name), 1)

    @abstractmethod
    def _step(self, place: Place) -> Step:
        """Predict a step."""

    def step(
        self, ranks: int, rates: Rates, network: str | Network = "here", per_machine: int | None = None
    ) -> Step:
        """Predict a step on some number of ranks.

        Parameters
        ----------
        ranks : int
        rates : Rates
            Of one machine.
        network : str or Network
            Between machines: see :func:`network`; ``"here"`` puts all ranks on one machine.
        per_machine : int, optional
            Ranks of a machine; by default as many as it has cores for.

        Returns
        -------
        Step

        Raises
        ------
        ValueError
            If there are more ranks than what is shared has parts, or a number is not positive.
        """
        return self._step(_place("plan", rates, ranks, network, per_machine))

    def curve(
        self,
        ranks: Sequence[int],
        rates: Rates,
        network: str | Network = "here",
        per_machine: int | None = None,
    ) -> list[Step]:
        """Predict a step on each of several numbers of ranks.

        Parameters
        ----------
        ranks : sequence of int
        rates, network, per_machine
            As in :meth:`step`.

        Returns
        -------
        list of Step
        """
        return [self.step(count, rates, network, per_machine) for count in ranks]

    def limit(
        self,
        rates: Rates,
        network: str | Network = "here",
        per_machine: int | None = None,
        most: int = 1 << 20,
    ) -> tuple[int, str]:
        """Say where the job stops scaling: the last power of two with an efficiency of one half, and what stops it.

        Parameters
        ----------
        rates, network, per_machine
            As in :meth:`step`.
        most : int
            No more ranks than these are tried.

        Returns
        -------
        ranks : int
        reason : {"communication", "waiting", "repeated", "slower pieces", "most"}
            The largest of :meth:`Step.losses` at twice the ranks; ``"most"`` if nothing stops it.
        """
        one = self.step(1, rates, network, per_machine)
        ranks = 1
        while 2 * ranks <= most:
            try:
                step = self.step(2 * ranks, rates, network, per_machine)
            except ValueError:  # there is nothing to share among so many
                return ranks, "waiting"
            if step.efficiency(one) < HALF:
                losses = step.losses(one)
                return ranks, max(losses, key=lambda name: losses[name])
            ranks *= 2
        return ranks, "most"


def _place(
    operation: str, rates: Rates, ranks: int, between: str | Network, per_machine: int | None
) -> Place:
    count = count_of(operation, "ranks", ranks, 1)
    each = rates.cores if per_machine is None else count_of(operation, "per_machine", per_machine, 1)
    return Place(rates, count, network(between, rates), each)


def shares(items: int, ranks: int) -> tuple[int, int, float]:
    """Give the items of the rank with the most, of one with the fewest, and the part of the ranks with the most."""
    few, more = divmod(items, ranks)
    return (few + 1, few, more / ranks) if more else (few, few, 1.0)
