"""Schedules of the learning rate."""

from __future__ import annotations

import inspect
import math
from numbers import Real
from typing import Any

from .._words.errors import shown, unknown_attribute
from .parameter_groups import number


class Schedule:
    """Base of the schedules: sets the learning rate to ``lr_at(n)`` before update ``n = 1, 2, ...``.

    A subclass defines ``lr_at``. Call ``step()`` after each ``optimizer.step()``; the learning rate of the
    first update is set at construction. Groups of parameters with different rates keep their proportions: ``lr_at`` is
    the rate of the group that had the largest, ``base_lr``.

    Parameters
    ----------
    optimizer : SGD, Adam or AdamW
        Its ``lr`` at this moment is ``base_lr``.

    Raises
    ------
    TypeError
        If ``optimizer`` has no rates.
    ValueError
        By ``step``, if a group of parameters was added since.

    Examples
    --------
    >>> class Halving(qkv.optim.Schedule):
    ...     def lr_at(self, n):
    ...         return self.base_lr * 0.5 ** (n - 1)
    >>> w, b = qkv.nn.Parameter([1.0]), qkv.nn.Parameter([2.0])
    >>> optimizer = qkv.optim.SGD([{"params": [w]}, {"params": [b], "lr": 0.1}], lr=1.0)
    >>> Halving(optimizer).step()
    >>> [group["lr"] for group in optimizer.param_groups]
    [0.5, 0.05]
    """

    def __init__(self, optimizer: Any) -> None:
        if not hasattr(optimizer, "param_groups"):
            raise TypeError(
                f"{type(self).__name__}: optimizer must be one of qkv.optim because its rates are set; "
                f"got {shown(optimizer)}"
            )
        self.optimizer = optimizer
        rates = [group["lr"] for group in optimizer.param_groups]
        self.base_lr: float = max(rates)
        self.shares = [rate / self.base_lr if self.base_lr else 1.0 for rate in rates]
        self.count = 1
        self._set_rates()

    def lr_at(self, n: int) -> float:
        """Learning rate of update ``n``, counted from 1."""
        raise NotImplementedError(f"{type(self).__name__}: lr_at must be defined by the subclass")

    def step(self) -> None:
        """Move on to the next update."""
        self.count += 1
        self._set_rates()

    def _set_rates(self) -> None:
        rate, groups = self.lr_at(self.count), self.optimizer.param_groups
        if len(groups) != len(self.shares):
            raise ValueError(
                f"{type(self).__name__}: the optimizer must have the {len(self.shares)} groups with which the schedule "
                f"was made; got {len(groups)}; add groups first, or make a new schedule"
            )
        for group, share in zip(groups, self.shares, strict=True):
            group["lr"] = rate * share

    def state_dict(self) -> dict[str, Any]:
        """The state of the schedule: ``count``, ``base_lr``, the groups' ``shares`` of it and what a subclass counts.

        That are attributes of numbers, texts and lists that are no arguments of its constructor.
        """
        arguments = ("optimizer", *inspect.signature(type(self)).parameters)
        plain = (bool, int, float, str, list, tuple, dict, type(None))
        counted = {k: v for k, v in vars(self).items() if k not in arguments and isinstance(v, plain)}
        return {**counted, "shares": list(self.shares)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from the state of the schedule that returned ``state_dict``."""
        if not {"count", "base_lr"} <= set(state_dict):
            raise ValueError(
                f"{type(self).__name__}.load_state_dict: state_dict must hold 'count' and 'base_lr'; "
                f"got keys {shown(list(state_dict))}"
            )
        self.count, self.base_lr = int(state_dict["count"]), float(state_dict["base_lr"])
        self.shares = [float(share) for share in state_dict.get("shares", [1.0])]
        known = ("count", "base_lr", "shares")
        vars(self).update((k, v) for k, v in state_dict.items() if k not in known)
        self._set_rates()

    def __repr__(self) -> str:
        hidden = ("optimizer", "count", "shares" if len(self.shares) == 1 else "")
        given = {k: v for k, v in vars(self).items() if k not in hidden}
        shown = ", ".join(f"{name}={value!r}" for name, value in given.items())
        return f"{type(self).__name__}(update {self.count}, {shown})"

    def __getattr__(self, name: str) -> Any:
        raise unknown_attribute(self, name)

    def _check(self, name: str, value: Any, least: float) -> None:
        if not isinstance(value, Real):
            raise TypeError(f"{type(self).__name__}: {name} must be a number; got {shown(value)}")
        if not float(value) >= least:
            raise ValueError(
                f"{type(self).__name__}: {name} must be at least {least} because it counts updates or sizes; "
                f"got {name} = {value}"
            )


class NoamSchedule(Schedule):
    """``factor d_model^-0.5 min(n^-0.5, n warmup_steps^-1.5)``: linear warm-up, then inverse square root.

    Parameters
    ----------
    optimizer : SGD, Adam or AdamW
        Its own learning rate is replaced.
    d_model : int
        Width of the model.
    warmup_steps : int
        Number of updates during which the rate rises.
    factor : float
        Scales the whole curve.

    Raises
    ------
    ValueError
        If ``d_model`` or ``warmup_steps`` is below 1.

    Examples
    --------
    >>> optimizer = qkv.optim.Adam([qkv.tensor([1.0], requires_grad=True)], betas=(0.9, 0.98), eps=1e-9)
    >>> round(qkv.optim.NoamSchedule(optimizer, d_model=512, warmup_steps=4000).lr_at(4000), 6)
    0.000699

    References
    ----------
    Vaswani et al., "Attention is all you need", 2017, section 5.3.
    """

    def __init__(self, optimizer: Any, d_model: int, warmup_steps: int = 4000, factor: float = 1.0) -> None:
        self._check("d_model", d_model, 1)
        self._check("warmup_steps", warmup_steps, 1)
        self.d_model, self.warmup_steps = d_model, warmup_steps
        self.factor = number("NoamSchedule", "factor", factor)
        super().__init__(optimizer)

    def lr_at(self, n: int) -> float:
        """Learning rate of update ``n``, counted from 1."""
        return float(self.factor * self.d_model**-0.5 * min(n**-0.5, n * self.warmup_steps**-1.5))


class ConstantSchedule(Schedule):
    """``base_lr min(n / warmup_steps, 1)``: linear warm-up, then constant.

    Parameters
    ----------
    optimizer : SGD, Adam or AdamW
        Its ``lr`` is ``base_lr``.
    warmup_steps : int
        Number of updates during which the rate rises; 0 means none.

    Raises
    ------
    ValueError
        If ``warmup_steps`` is negative.

    Examples
    --------
    >>> optimizer = qkv.optim.SGD([qkv.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> schedule = qkv.optim.ConstantSchedule(optimizer, warmup_steps=4)
    >>> [schedule.lr_at(n) for n in (1, 2, 4, 100)]
    [0.25, 0.5, 1.0, 1.0]
    """

    def __init__(self, optimizer: Any, warmup_steps: int = 0) -> None:
        self._check("warmup_steps", warmup_steps, 0)
        self.warmup_steps = warmup_steps
        super().__init__(optimizer)

    def lr_at(self, n: int) -> float:
        """Learning rate of update ``n``, counted from 1."""
        return self.base_lr * (n / self.warmup_steps if n < self.warmup_steps else 1.0)


class _Decay(Schedule):
    def __init__(self, optimizer: Any, total_steps: int, warmup_steps: int = 0, final: float = 0.0) -> None:
        self._check("warmup_steps", warmup_steps, 0)
        self._check("total_steps", total_steps, warmup_steps + 1)
        self._check("final", final, 0)
        self.total_steps, self.warmup_steps, self.final = total_steps, warmup_steps, final
        super().__init__(optimizer)

    def shape(self, share: float) -> float:
        """Fall from 1 at ``share = 0`` to 0 at ``share = 1``."""
        raise NotImplementedError

    def lr_at(self, n: int) -> float:
        """Learning rate of update ``n``, counted from 1."""
        if n < self.warmup_steps:
            return self.base_lr * n / self.warmup_steps
        start = max(self.warmup_steps, 1)
        share = min((n - start) / max(self.total_steps - start, 1), 1.0)
        return self.base_lr * (self.final + (1.0 - self.final) * self.shape(share))


class LinearSchedule(_Decay):
    """Linear warm-up to ``base_lr``, then linearly down to ``final base_lr`` at update ``total_steps``.

    Parameters
    ----------
    optimizer : SGD, Adam or AdamW
        Its ``lr`` is ``base_lr``.
    total_steps : int
        The update that has the lowest rate, which then stays.
    warmup_steps : int
        Number of updates during which the rate rises; 0 means none.
    final : float
        Share of ``base_lr`` that is left at the end.

    Raises
    ------
    ValueError
        If ``total_steps`` is not above ``warmup_steps``, or a number is negative.

    Examples
    --------
    >>> optimizer = qkv.optim.SGD([qkv.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> schedule = qkv.optim.LinearSchedule(optimizer, total_steps=6, warmup_steps=2)
    >>> [schedule.lr_at(n) for n in (1, 2, 3, 4, 6, 9)]
    [0.5, 1.0, 0.75, 0.5, 0.0, 0.0]

    References
    ----------
    Devlin et al., "BERT: pre-training of deep bidirectional transformers", 2019, appendix A.2.
    """

    def shape(self, share: float) -> float:
        """Fall from 1 at ``share = 0`` to 0 at ``share = 1``."""
        return 1.0 - share


class CosineSchedule(_Decay):
    """Linear warm-up to ``base_lr``, then half a cosine down to ``final base_lr`` at update ``total_steps``.

    Parameters
    ----------
    optimizer : SGD, Adam or AdamW
        Its ``lr`` is ``base_lr``.
    total_steps : int
        The update that has the lowest rate, which then stays.
    warmup_steps : int
        Number of updates during which the rate rises; 0 means none.
    final : float
        Share of ``base_lr`` that is left at the end.

    Raises
    ------
    ValueError
        If ``total_steps`` is not above ``warmup_steps``, or a number is negative.

    Examples
    --------
    >>> optimizer = qkv.optim.SGD([qkv.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> schedule = qkv.optim.CosineSchedule(optimizer, total_steps=5)
    >>> [round(schedule.lr_at(n), 4) for n in (1, 2, 3, 5)]
    [1.0, 0.8536, 0.5, 0.0]

    References
    ----------
    Loshchilov, Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017.
    """

    def shape(self, share: float) -> float:
        """Fall from 1 at ``share = 0`` to 0 at ``share = 1``."""
        return 0.5 * (1.0 + math.cos(math.pi * share))
