"""The training loop."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import _core
from .._words.errors import shown
from ..functions.gradients import no_grad
from ..optim import Optimizer, ReduceLROnPlateau
from . import state
from .arguments import check_count, check_functions, check_norm, check_parts, check_place, team_of
from .checkpoint import CheckpointError, load_arrays, save_arrays
from .history import History
from .interrupt import InterruptAfterUpdate
from .monitor import Monitor
from .one_process import check_gradients
from .progress import Progress

LOSS = "loss"  # the metric that there is without evaluate


class Trainer:
    """Repeat: loss of a batch, gradients, clipping, one step of the optimizer, one of the schedule.

    Parameters
    ----------
    model : Module
    optimizer : SGD, Adam or AdamW
        Over the model's parameters.
    loss : callable
        ``loss(model, batch)`` gives a pair ``(total, count)``, a loss summed over ``count`` things, as
        :func:`token_loss` does; or one Tensor, the mean of the batch, which is the same with count 1. After these may
        be a dict of numbers, ``(loss, dict)`` or ``(total, count, dict)``, for ``history.metric(name)``.
    schedule : qkv.optim.Schedule, optional
        Of this optimizer; moved on after each update, :class:`qkv.optim.ReduceLROnPlateau` after each evaluation.
    max_grad_norm : float, optional
        Clip the norm of all gradients together to this.
    accumulate : int
        Number of batches per update. Their totals and counts are added before they are divided, so that one update over
        ``n`` batches is that over one batch with everything in it (dropout draws other masks).
    evaluate : callable, optional
        ``evaluate(model)`` gives a dict of numbers for the history. It is called without gradients and in evaluation
        mode, every ``evaluate_every`` updates, or at the end of each epoch. A pair ``(total, count)`` is divided, on
        several ranks after both are summed: each then looks at its share, such as ``rows[rank()::size()]``. Of other
        numbers those of rank 0 count.
    evaluate_every : int, optional
    stop_when : callable, optional
        ``stop_when(metrics)`` is asked after each evaluation; True ends the training. Where a run continues from a
        checkpoint, it is asked about the evaluations before once more, so that what it counts is what it was. Of
        several ranks it is rank 0 that asks.
    patience : int, optional
        End the training at this many evaluations in a row without a new best `monitor`.
    monitor : str, optional
        Name of a metric of `evaluate`; None is the only one. Without `evaluate` it is the training loss of an epoch.
    mode : {"min", "max"}
        Whether the least or the largest `monitor` is the best.
    restore_best : bool
        Set the model to the parameters of the best evaluation when the training ends; a checkpoint has them, too.
    checkpoint : path, optional
        File that holds everything needed to continue: parameters, optimizer, schedule, patience, the common random
        generator, the place in the data, the history. It is written every ``checkpoint_every`` updates, or at the end
        of each epoch, and when the training ends or is interrupted.
    checkpoint_every : int, optional
    comm : MPI communicator, optional
        Train on all its ranks, which ``mpiexec -n N`` starts with the same program: each takes its part of the items of
        every batch; losses, counts and gradients are summed, so that the run is that of one process up to rounding,
        dropout included. All begin with the parameters of rank 0, which shows progress and reads and writes the
        checkpoint, for any number of ranks. A rank that fails ends the job.
    sharded : bool
        Each rank is given batches of its own and computes with all of them; one with fewer waits for the others.
    zero : bool
        Each rank keeps the optimizer's state of a part of the parameters (ZeRO, stage 1); steps are the same bits.
    reduce_dtype : {"bfloat16"}, optional
        Send gradients in bfloat16, half of the bytes; they are added in float32.
    split : callable, optional
        ``split(batch, rank, size)`` gives a rank's part of a batch, for batches that are not made of arrays with the
        items on their first axis, or for parts of sequences (:func:`qkv.distributed.positions`). The loss should then
        give ``(total, count)``; the mean of the ranks is taken of single numbers.

    Attributes
    ----------
    history : History
    epoch, position : int
        The epoch that runs and the number of its batches that were used.
    interrupted : bool
        Whether Ctrl-C or SIGTERM ended the last :meth:`fit`; SIGUSR1 writes the checkpoint, and it continues.

    Raises
    ------
    ValueError
        If a number is out of its range, the schedule is of another optimizer, the optimizer of another model, or
        ``split`` is given without ``comm``.
    TypeError, OSError
        If ``comm`` is no communicator, or there is no folder for ``checkpoint`` that can be written to.

    Notes
    -----
    A run that is killed or ended at any moment and resumed gives the same bits as one that was not, if ``loss`` and
    ``evaluate`` draw random numbers from qkv's common generator only and the data are the same. What is random in the
    data belongs into ``batches``, as a function of the epoch.

    Examples
    --------
    >>> x = qkv.randn(64, 3)
    >>> model = qkv.nn.Linear(3, 1)
    >>> batches = [(x[i : i + 16], x[i : i + 16] @ [[1.0], [2.0], [3.0]]) for i in range(0, 64, 16)]
    >>> trainer = qkv.training.Trainer(
    ...     model, qkv.optim.Adam(model.parameters(), lr=0.1), lambda model, b: qkv.losses.mse(model(b[0]), b[1])
    ... )
    >>> history = trainer.fit(batches, epochs=50)
    >>> model.weight.numpy().round(2).tolist(), len(history)
    ([[1.0, 2.0, 3.0]], 200)
    """

    history: History
    epoch: int
    position: int
    interrupted: bool
    _asked = 0

    def __init__(
        self,
        model: _core.Module,
        optimizer: Optimizer,
        loss: Callable[[Any, Any], Any],
        *,
        schedule: Any = None,
        max_grad_norm: float | None = None,
        accumulate: int = 1,
        evaluate: Callable[[Any], Mapping[str, Any]] | None = None,
        evaluate_every: int | None = None,
        stop_when: Callable[[dict[str, Any]], bool] | None = None,
        patience: int | None = None,
        monitor: str | None = None,
        mode: str = "min",
        restore_best: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int | None = None,
        comm: Any = None,
        split: Callable[[Any, int, int], Any] | None = None,
        sharded: bool = False,
        zero: bool = False,
        reduce_dtype: str | None = None,
    ) -> None:
        check_count("accumulate", accumulate)
        check_count("evaluate_every", evaluate_every)
        check_count("checkpoint_every", checkpoint_every)
        check_count("patience", patience)
        check_norm(max_grad_norm)
        self._team = team_of(comm, split, sharded, zero, reduce_dtype)
        check_parts(model, optimizer, schedule)
        check_functions(loss, evaluate, stop_when, evaluate_every)
        if evaluate is None and monitor not in (None, LOSS):
            raise ValueError(
                f"Trainer: monitor must be {LOSS} without evaluate because only it is measured; got {shown(monitor)}"
            )
        if checkpoint is not None and self._team.is_main:
            check_place(checkpoint)
        self.model, self.optimizer, self.loss, self.schedule = model, optimizer, loss, schedule
        self.max_grad_norm, self.accumulate = max_grad_norm, accumulate
        self.evaluate, self.evaluate_every, self.stop_when = evaluate, evaluate_every, stop_when
        self._plateau = isinstance(schedule, ReduceLROnPlateau)
        self._monitor = Monitor(monitor, mode, patience, restore_best)
        self._is_watched = self._plateau or restore_best or (patience, monitor) != (None, None)
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.checkpoint_every = checkpoint_every
        self.comm = comm
        self._restart(resume=False)

    def __repr__(self) -> str:
        parts = (self.model, self.optimizer, self.schedule)
        names = ", ".join(type(part).__name__ for part in parts if part is not None)
        return f"Trainer({names}, epoch {self.epoch}, {len(self.history)} updates)"

    def fit(
        self,
        batches: Sequence[Any] | Callable[[int], Sequence[Any]],
        *,
        epochs: int | None = None,
        steps: int | None = None,
        resume: bool = False,
        progress: bool | None = None,
    ) -> History:
        """Train until ``epochs`` epochs or ``steps`` updates are done, counted from the beginning of the run.

        Parameters
        ----------
        batches : sequence, or callable
            The batches of each epoch, or ``batches(epoch)`` to give those of epoch 0, 1, ..., such as
            :class:`qkv.data.Batches`. The same number must give the same batches, so that a run can be resumed.
        epochs, steps : int, optional
            At least one of them; the first that is reached ends the training.
        resume : bool
            Continue from the checkpoint if there is one; its numbers replace those of model and optimizer. False
            starts from the beginning and will replace it.
        progress : bool, optional
            Show tqdm's bar. None: on a terminal and in a notebook, if tqdm is installed.

        Returns
        -------
        History
            Of the whole run, also of the parts before a resumption.

        Raises
        ------
        ValueError
            If there is no end or no batch, or ``monitor`` is none of the metrics.
        TypeError
            If ``batches`` is no sequence, or ``loss`` returns no Tensor.
        CheckpointError
            If the checkpoint is damaged or belongs to another run, or its place lies after the end of the batches.
        FloatingPointError
            If a loss or a gradient is infinite or NaN; model and checkpoint keep their last state.
        RuntimeError
            If the ranks' parameters are not equal any more; it names the rank.
        """
        check_count("epochs", epochs)
        check_count("steps", steps)
        if epochs is None and steps is None:
            raise ValueError(
                "Trainer.fit: epochs or steps must be given because the training needs an end; got neither"
            )
        if not callable(batches) and not hasattr(batches, "__len__"):
            raise TypeError(
                "Trainer.fit: batches must be a sequence, or a function of the epoch, because each epoch goes through "
                f"it from the start; got {shown(batches)}; write list(batches)"
            )
        given: Callable[[int], Sequence[Any]] = batches if callable(batches) else lambda epoch: batches
        self._restart(resume)
        team = self._team
        with team.working(self, {"epochs": epochs, "steps": steps, "resume": resume}):
            return self._train(given, epochs, steps, resume, progress if team.is_main else False)

    def _train(
        self,
        given: Callable[[int], Sequence[Any]],
        epochs: int | None,
        steps: int | None,
        resume: bool,
        progress: bool | None,
    ) -> History:
        if resume and self.checkpoint is not None:
            self._resume()
        start = time.perf_counter() - self.history.seconds
        self.model.train()
        order = given(self.epoch)
        length = self._team.length(order)
        total = None if epochs is None else epochs * math.ceil(length / self.accumulate)
        total = min(t for t in (total, steps) if t is not None)
        with InterruptAfterUpdate() as interrupt, Progress(total, len(self.history), progress) as bar:
            while not self._is_done(epochs, steps):
                if self.position == 0:
                    order = given(self.epoch)
                    length = self._team.length(order)
                if len(order) == 0:
                    raise ValueError(
                        "Trainer.fit: batches must have at least one batch in each epoch; got none"
                    )
                if self.position >= length:
                    raise CheckpointError(
                        f"Trainer.fit: batches of epoch {self.epoch} must be more than the {self.position} that were "
                        f"used before the checkpoint because the run goes on behind them; got {length}"
                    )
                last = min(self.position + self.accumulate, length)
                used = [order[min(i, len(order) - 1)] for i in range(self.position, last)]
                self._team.before_update(self, used, length)
                self._update(used)
                self.position = last
                if last == length:
                    self.epoch, self.position = self.epoch + 1, 0
                    self.history.epoch_ends.append(len(self.history))
                bar.update(self.history.loss[-1])
                self._team.after_update(self)
                self.interrupted, wanted = self._team.wishes(interrupt)
                self.history.seconds = time.perf_counter() - start
                if self._is_due(self.evaluate_every if self.evaluate is not None else None):
                    self._judge()
                    self.history.seconds = time.perf_counter() - start
                ends = self.interrupted or self._is_done(epochs, steps)
                if wanted or ends or self._is_due(self.checkpoint_every):
                    self.save()
                if self.interrupted:
                    break
        self._monitor.put_back(self.model)
        return self.history

    def save(self) -> None:
        """Write the checkpoint now, if there is a path for one; with ``zero`` all ranks call it."""
        if self.checkpoint is None:
            return
        steps = self._team.state_of(self.optimizer)
        if not self._team.is_main:
            return
        arrays, facts = state.collect(self.model, self.optimizer, steps, self.schedule)
        arrays.update({f"history.{name}": table for name, table in self.history.arrays().items()})
        arrays.update(self._monitor.arrays())
        place = {"epoch": self.epoch, "position": self.position, "stopped": self._stopped}
        facts.update(
            place=place, history=self.history.facts(), run=self._run(), monitor=self._monitor.facts()
        )
        save_arrays(self.checkpoint, arrays, facts)

    def watched(self) -> list[Any]:
        """Return what decides when the training ends before its time."""
        return [self._monitor.name, self._monitor.mode, self._monitor.patience, self._monitor.keeps_best]

    def _restart(self, resume: bool) -> None:
        self._asked = self._asked if resume else 0  # evaluations that stop_when was asked about
        self._monitor.restart()
        self.history, self.epoch, self.position = History(), 0, 0
        self.interrupted, self._stopped = False, False

    def _resume(self) -> None:
        path = self.checkpoint
        found = self._team.from_main(lambda: load_arrays(path) if path and path.exists() else None)
        if found is None:
            return
        arrays, facts = found
        if facts.get("run") != self._run():
            raise CheckpointError(
                f"Trainer.fit: the checkpoint {self.checkpoint} must come from the same kind of run, {self._run()}; "
                f"got {facts.get('run')}"
            )
        state.apply(arrays, facts, self.model, self.optimizer, self.schedule)
        self._team.loaded(self.optimizer)
        history = {n[len("history.") :]: t for n, t in arrays.items() if n.startswith("history.")}
        self.history = History.restore(history, facts["history"])
        place = facts["place"]
        self.epoch, self.position, self._stopped = place["epoch"], place["position"], place["stopped"]
        self._monitor.restore(arrays, facts.get("monitor") if self._is_watched else None)
        self._team.from_main(lambda: [self._ask(entry) for entry in self.history.evaluations[self._asked :]])

    def _run(self) -> dict[str, Any]:
        """Return what must be equal where a run continues."""
        return {
            "model": type(self.model).__name__,
            "optimizer": type(self.optimizer).__name__,
            "schedule": None if self.schedule is None else type(self.schedule).__name__,
            "accumulate": self.accumulate,
        }

    def _is_done(self, epochs: int | None, steps: int | None) -> bool:
        by_epochs = epochs is not None and self.epoch >= epochs
        return by_epochs or (steps is not None and len(self.history) >= steps) or self._stopped

    def _is_due(self, every: int | None) -> bool:
        return self.position == 0 if every is None else len(self.history) % every == 0

    def _update(self, batches: Sequence[Any]) -> None:
        self.optimizer.zero_grad()
        total, count, logged = self._team.gradients(self, batches)
        clip = self.max_grad_norm
        norm = _core.clip_grad_norm(self.optimizer.params, math.inf if clip is None else clip, True)
        if not math.isfinite(norm):
            check_gradients(self, self._team)
        self.history.add(
            loss=total / max(count, 1.0),
            lr=self.optimizer.param_groups[0]["lr"],
            grad_norm=math.nan if clip is None else norm,
            count=count,
            logged=logged,
        )
        self._team.step(self.optimizer)
        if self.schedule is not None and not self._plateau:
            self.schedule.step()

    def _judge(self) -> None:
        """Evaluate, and let what depends on the metrics see them."""
        if self.evaluate is not None:
            self._evaluate(self.evaluate)
            metrics = self.history.evaluations[-1]
        else:
            metrics = {LOSS: self.history.epoch_losses()[-1]}
        if self._is_watched:
            value = self._monitor.observe(metrics, self.model)
            if self._plateau:
                self.schedule.step(value)
            self._stopped = self._stopped or self._monitor.exhausted

    def _ask(self, entry: dict[str, Any]) -> bool:
        self._asked += 1
        return self.stop_when is not None and bool(self.stop_when(entry))

    def _evaluate(self, evaluate: Callable[[Any], Mapping[str, Any]]) -> None:
        self.model.eval()
        try:
            with no_grad():
                found = evaluate(self.model)
        finally:
            self.model.train()
        metrics = self._team.metrics(found)
        entry = {"step": len(self.history), "epoch": self.epoch, **metrics}
        self.history.evaluations.append(entry)
        self._stopped = self._team.from_main(lambda: self._ask(entry))
