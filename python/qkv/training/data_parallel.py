"""A training that several ranks do together: each computes the gradients of its part of every batch."""

from __future__ import annotations

import hashlib
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from .. import _core
from ..distributed import failure
from ..distributed.agreed import agreed
from ..distributed.batch import constants, described, items_of, share, take
from ..distributed.buckets import Buckets
from ..distributed.communicator import Ranks, check, own
from ..distributed.trace import span
from ..random import get_rng_state, set_rng_state
from .one_process import Means, OneProcess, check_finite, check_metrics, is_share, loss_of
from .zero import Zero

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)
Split = Callable[[Any, int, int], Any]
CHECK_EVERY = 100  # updates between two comparisons of the parameters of all ranks


@contextmanager
def batch_part(first: int, count: int, total: int) -> Iterator[None]:
    """While this block runs, random masks are those that the whole batch of `total` items would get."""
    _core.set_batch_part(first, count, total)
    try:
        yield
    finally:
        _core.set_batch_part(0, 0, 0)


class DataParallel(OneProcess):
    """The ranks of a communicator, with equal parameters."""

    def __init__(
        self, comm: Any, split: Split | None, sharded: bool, zero: bool, reduce_dtype: str | None
    ) -> None:
        check(comm, "Trainer")
        self.given = comm
        self.comm: Ranks
        self.rank, self.ranks = comm.Get_rank(), comm.Get_size()
        self.is_main = self.rank == 0
        self.split, self.sharded, self.reduce_dtype = split, sharded, reduce_dtype
        self._zero = Zero() if zero else None
        self._own = 0  # batches of this rank in the epoch
        self._constants: set[int] = set()  # arrays of a batch that are not cut
        self._penalised = False  # the loss of no items is not 0
        self._asked = (False, False)
        self._buckets: Buckets | None = None

    @contextmanager
    def working(self, trainer: Any, facts: dict[str, Any]) -> Iterator[None]:
        self.comm = own(self.given, "Trainer.fit")
        with failure.together(self.comm):
            self._agree(trainer, facts)
            self._equal_start(trainer)
            self._buckets = Buckets(self.comm, trainer.optimizer.params, narrow=self.reduce_dtype is not None)
            self.loaded(trainer.optimizer)
            yield
            self._check(trainer)

    def from_main(self, compute: Callable[[], T]) -> T:
        return self.comm.from_main(compute)

    def before_update(self, trainer: Any, batches: Sequence[Any], among: int) -> None:
        # The draws of an update are those of one process, even if a rank drew for itself, such as in an evaluation.
        state = get_rng_state()
        facts = {
            "the number of batches in an epoch": among,
            "the place in the data": f"batch {trainer.position} of epoch {trainer.epoch}",
            "the learning rates": [group["lr"] for group in trainer.optimizer.param_groups],
            "the list of frozen parameters": [
                name for name, parameter in trainer.model.named_parameters() if not parameter.requires_grad
            ],
            "the batch": None if self.sharded else [described(batch) for batch in batches],
        }
        with span("wait"):
            found = self.comm.allgather((zlib.crc32(repr(facts).encode()), zlib.crc32(state.data)), "update")
            if len({digest for digest, _ in found}) > 1:
                self.comm.agree(facts)
            if len({digest for _, digest in found}) > 1:
                self.comm.copy_from(0, state)
                set_rng_state(state)

    def after_update(self, trainer: Any) -> None:
        if len(trainer.history) % CHECK_EVERY == 0:
            self._check(trainer)

    def agreed(self, error: E) -> E:
        return agreed(error)

    def gradients(self, trainer: Any, batches: Sequence[Any]) -> tuple[float, float, dict[str, float]]:
        buckets: Any = self._buckets
        own_means, means = Means(), Means()
        sums = np.array([0.0, 0.0, *self._asked])  # of the losses, of what they are divided by, of the wishes
        for i, batch in enumerate(batches):
            with span("compute"):
                part, (first, count, total), weight = self._part_of(batch, trainer.position + i)
                with batch_part(first, count, total):
                    value, size, facts = loss_of(trainer, part)
            if size is not None and self.split is None:
                if i == 0 and len(trainer.history) % CHECK_EVERY == 0:
                    self._penalised = bool(np.asarray(self._of_nothing(trainer, batch, probe=True)).any())
                if self._penalised:
                    penalty = self._of_nothing(trainer, batch)
                    value = value - penalty if self.rank > 0 else value
            if size is not None:
                factor = float(weight > 0)
                sums[1] += size * factor
            else:  # the mean of the items
                factor = weight
                sums[1] += weight if self.sharded else self.is_main
            sums[0] += float(value) * factor
            own_means.add(facts, factor if size is None else size * factor)
            check_finite(trainer, float(value), value)
            if factor != 1.0:
                value = value * factor
            if i + 1 < len(batches):
                value.backward()
                continue
            request = self.comm.add(sums)
            buckets.begin()
            with span("compute"):
                _core.backward_by_leaves(value, buckets.finished)
            with span("wait"):
                self.comm.wait(request)
            buckets.end(max(float(sums[1]), 1.0))
        self._asked = bool(sums[2]), bool(sums[3])
        if own_means.sums:  # on all ranks or on none
            for found in self.comm.allgather(own_means.sums):
                means.add_sums(found)
        return float(sums[0]), float(sums[1]), means.result()

    def _of_nothing(self, trainer: Any, batch: Any, probe: bool = False) -> Any:
        """Return the total over no items, a penalty of parameters, which is to be added once and not on every rank."""
        state = get_rng_state()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value = loss_of(trainer, take(batch, 0, 0, items_of(batch), self._constants))[0]
            return value if not probe else value.detach() if np.isfinite(value.detach()).all() else 0.0
        except Exception:
            if not probe:
                raise
            return 0.0  # a loss that must have items
        finally:
            set_rng_state(state)

    def wishes(self, interrupt: Any) -> tuple[bool, bool]:
        # What one rank knows now, all know after the next update.
        agreed, self._asked = self._asked, super().wishes(interrupt)
        return agreed

    def length(self, order: Sequence[Any]) -> int:
        self._own = len(order)
        if self.split is None and not self.sharded and len(order) > 1:
            self._constants = constants(order[0], order[-1])
        return max(self.comm.allgather(len(order))) if self.sharded else len(order)

    def step(self, optimizer: Any) -> None:
        if self._zero is None:
            optimizer.step()
        else:
            self._zero.step(self.comm, optimizer)

    def state_of(self, optimizer: Any) -> dict[str, Any]:
        return super().state_of(optimizer) if self._zero is None else self._zero.whole(self.comm, optimizer)

    def loaded(self, optimizer: Any) -> None:
        if self._zero is not None:
            self._zero.keep_own(self.comm, optimizer)

    def metrics(self, found: Mapping[str, Any]) -> dict[str, Any]:
        check_metrics(found)
        shares = {name: tuple(map(float, value)) for name, value in found.items() if is_share(value)}
        everywhere = self.comm.allgather(shares, "evaluation")
        sums = {name: tuple(np.sum([other[name] for other in everywhere], axis=0)) for name in shares}
        return self.from_main(lambda: super(DataParallel, self).metrics({**found, **sums}))

    def _part_of(self, batch: Any, place: int) -> tuple[Any, tuple[int, int, int], float]:
        """Return this rank's part, where it lies in the batch, and its share of the items, or their number."""
        if self.sharded:
            weight = float(items_of(batch) if place < self._own else 0)
            return batch, (self.rank, 1, self.ranks), weight
        if self.split is not None:
            return self.split(batch, self.rank, self.ranks), (self.rank, 1, self.ranks), 1 / self.ranks
        items = items_of(batch)
        begin, end = share(items, self.rank, self.ranks)
        # The last item once more, so that this rank draws and sends what the others do.
        surplus = self.rank >= items
        weight = 0.0 if surplus else (end - begin) / items
        return take(batch, begin, end, items, self._constants), (begin, end - begin, items), weight

    def _agree(self, trainer: Any, facts: dict[str, Any]) -> None:
        model, optimizer, schedule = trainer.model, trainer.optimizer, trainer.schedule
        state = [f"{name} {value.shape} {value.dtype}" for name, value in model.state_dict().items()]
        groups = [{**group, "params": len(group["params"])} for group in optimizer.param_groups]
        self.comm.agree(
            {
                "the model": f"{type(model).__name__} with {model.num_parameters()} parameters",
                "the model's state": _difference_shown(state),
                "the optimizer": f"{type(optimizer).__name__} {groups}",
                "the schedule": None
                if schedule is None
                else f"{type(schedule).__name__} {schedule.state_dict()}",
                "max_grad_norm": trainer.max_grad_norm,
                "accumulate": trainer.accumulate,
                "evaluate": trainer.evaluate is not None,
                "evaluate_every": trainer.evaluate_every,
                "stop_when": trainer.stop_when is not None,
                "monitor": trainer.watched(),
                "checkpoint": trainer.checkpoint is not None,
                "checkpoint_every": trainer.checkpoint_every,
                "split": self.split is not None,
                "sharded, zero and reduce_dtype": [self.sharded, self._zero is not None, self.reduce_dtype],
                "the version of qkv": _core.config()["version"],
                **facts,
            },
        )

    def _equal_start(self, trainer: Any) -> None:
        """Send the parameters of rank 0 to all ranks, which may have drawn others."""
        state = {name: np.array(value) for name, value in trainer.model.state_dict().items()}
        for value in state.values():
            self.comm.copy_from(0, value)
        trainer.model.load_state_dict(state)

    def _check(self, trainer: Any) -> None:
        digest = hashlib.blake2b(digest_size=8)
        for parameter in trainer.optimizer.params:
            digest.update(np.ascontiguousarray(np.asarray(parameter.detach())).data)
        digests = self.comm.allgather(digest.hexdigest())
        usual = max(sorted(set(digests)), key=digests.count)
        others = [rank for rank, found in enumerate(digests) if found != usual]
        if others:
            raise agreed(
                RuntimeError(
                    f"Trainer.fit: the parameters must be equal to the bit on all ranks; after update "
                    f"{len(trainer.history)} those of rank {', '.join(map(str, others))} differ (they were changed "
                    "outside of the optimizer, or the machines compute with different instruction sets: set QKV_ISA)"
                )
            )


def _difference_shown(state: list[str]) -> str:
    """Return a text of bounded length in which different states differ."""
    text = ", ".join(state)
    if len(text) <= 300:
        return text
    return f"{text[:200]}... ({hashlib.blake2b(text.encode(), digest_size=4).hexdigest()})"
