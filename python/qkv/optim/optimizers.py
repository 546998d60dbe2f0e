"""Optimizers: what they are told and remember; the core takes their steps."""

from __future__ import annotations

from itertools import count
from typing import Any, ClassVar

from .. import _core
from .._core import Tensor
from .._words.errors import misfit, shown, unknown_attribute
from .parameter_groups import (
    ParameterGroup,
    Reader,
    check_members,
    dtype_of,
    items_of,
    known,
    number,
    tensors_of,
    unfinished,
)

# PyTorch's, which would change the steps.
_REFUSED = ("amsgrad", "maximize", "dampening", "decoupled_weight_decay")


class Optimizer:
    """What SGD, Adam and AdamW have in common."""

    _name: ClassVar[str]
    _readers: ClassVar[dict[str, Reader]]  # the options of a group, in order
    _remembers: ClassVar[tuple[str, ...]]  # PyTorch's names of the arrays
    _decoupled = False
    _groups: list[ParameterGroup]
    _steps: list[Any]  # the core's, of each group
    _start: dict[str, Any]  # options of groups that say nothing else

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("Optimizer: must be made by calling a class derived from it; got a call of the class")

    def _begin(self, params: Any, **options: Any) -> None:
        for name, value in options.items():
            if self._readers[name] is number and (value is None or isinstance(value, str)):
                raise TypeError(f"{self._name}: {name} must be a number; got {type(value).__name__}")
        start = {name: read(self._name, name, options[name]) for name, read in self._readers.items()}
        self._check(start)
        self._add_all(params, start)

    def _add_all(self, params: Any, start: dict[str, Any]) -> None:
        name = self._name
        if isinstance(params, dict) and "params" in params:
            raise TypeError(f"{name}: params must be a list of groups; got one group; write [group]")
        given = items_of(name, params)
        self._groups, self._steps, self._start = [], [], start
        if not given or not isinstance(given[0], dict):
            self._join(*tensors_of(name, given), start)
        else:
            for i, group in enumerate(given):
                if not isinstance(group, dict):
                    raise TypeError(
                        f"{name}: params must be groups if the first is one; got params[{i}] of type "
                        f"{type(group).__name__}"
                    )
                self._add(group, f"{name}, group {i}")

    def _add(self, group: dict[str, Any], operation: str) -> None:
        problem = misfit(operation, known(self), 0, False, 0, [str(name) for name in group])
        if problem is not None:
            raise TypeError(problem)
        options = {
            name: read(operation, name, group[name]) if name in group else self._start[name]
            for name, read in self._readers.items()
        }
        params = group["params"]
        tensors, names = ([params], []) if isinstance(params, Tensor) else tensors_of(operation, params)
        if not tensors:
            raise ValueError(
                f"{operation}: params must hold at least one Tensor; got none (what a generator gives, it gives once)"
            )
        self._join(tensors, names, options)

    def _join(self, tensors: list[Tensor], names: list[str], options: dict[str, Any]) -> None:
        if not tensors:
            raise ValueError(f"{self._name}: params must hold at least one Tensor; got none")
        check_members(self._name, self._groups, tensors)
        self._check(options)
        self._groups.append(ParameterGroup._made(type(self), tensors, names, options))
        self._steps.append(self._groups[-1]._steps)

    @classmethod
    def _check(cls, options: dict[str, Any]) -> None:
        """Refuse options out of their ranges."""
        lr, decay = options["lr"], options["weight_decay"]
        if not lr >= 0:
            raise ValueError(
                f"{cls._name}: lr must be at least 0 because it is the length of a step; got lr = {lr:g}"
            )
        if not decay >= 0:
            raise ValueError(
                f"{cls._name}: weight_decay must be at least 0 because it shrinks the parameters; got weight_decay = "
                f"{decay:g}"
            )

    @property
    def params(self) -> list[Tensor]:
        """The parameters of all groups."""
        return [p for group in self._groups for p in group._params]

    @property
    def param_groups(self) -> tuple[ParameterGroup, ...]:
        """Tuple of the groups of parameters; their options are read and assigned by name."""
        return tuple(self._groups)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Step more parameters: ``params`` and the options in which they differ from those of the start."""
        if not isinstance(param_group, dict):
            raise TypeError(
                f"{self._name}.add_param_group: param_group must be a dict; got {type(param_group).__name__}"
            )
        self._add(param_group, f"{self._name}.add_param_group")

    @property
    def lr(self) -> float:
        """Learning rate of the next step; 0 is allowed.

        With several groups it is the rate of all of them, and a ValueError while they have different ones.
        """
        rates = [group._options["lr"] for group in self._groups]
        other = next((rate for rate in rates if rate != rates[0]), rates[0])
        if other != rates[0]:
            raise ValueError(
                f"{self._name}.lr: groups must have one rate because this is the rate of all; got {rates[0]:g} and "
                f'{other:g}; read or assign group["lr"] for group in optimizer.param_groups'
            )
        return float(rates[0])

    @lr.setter
    def lr(self, value: Any) -> None:
        rate = number(self._name, "lr", value)
        _ = self.lr  # an error while groups have different ones
        for group in self._groups:
            group.update(lr=rate)

    def step(self) -> None:
        """Update every parameter that has a gradient, in place; raises the parameters' versions."""
        _core.optimizer_step(self._steps)

    def zero_grad(self) -> None:
        """Forget the gradients: ``grad`` becomes None."""
        for steps in self._steps:
            steps.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        """Return everything that decides the next steps beside the parameters, in PyTorch's layout.

        ``state`` holds NumPy arrays for each parameter, ``param_groups`` a dict of options for each group. Loading it
        continues to the bit.
        """
        groups, numbers = list(self._groups), count()
        states = [state for group in groups for state in group._steps.states()]
        state = {
            i: {"step": n, **{k: v for k, v in zip(self._remembers, arrays, strict=False) if v is not None}}
            for i, (n, *arrays) in enumerate(states)
            if n
        }
        saved = []
        for group in groups:
            entry = {**group._options, "params": [next(numbers) for _ in group._params]}
            if group._names:
                entry["param_names"] = list(group._names)
            saved.append(entry)
        return {"state": state, "param_groups": saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from the state of the optimizer that returned `state_dict`.

        Its settings, ``lr`` among them, are taken over. PyTorch's dicts are legal too.
        """
        own, operation = list(self._groups), f"{self._name}.load_state_dict"
        if not isinstance(state_dict, dict):
            raise TypeError(f"{operation}: state_dict must be a dict; got {type(state_dict).__name__}")
        if not {"state", "param_groups"} <= state_dict.keys():
            raise ValueError(
                f"{operation}: state_dict must hold 'state' and 'param_groups'; got keys {list(state_dict)}"
            )
        entries = _part(operation, state_dict, "state", "state", dict)
        groups = _part(operation, state_dict, "param_groups", "param_groups", list)
        total = len(own)
        if len(groups) != total:
            raise ValueError(
                f"{operation}: state_dict must be of {total} groups because the optimizer has as many; got "
                f"{len(groups)}"
            )
        used, place, loaded = 0, count(), []
        for g, (group, saved) in enumerate(zip(own, groups, strict=True)):
            if not isinstance(saved, dict):
                raise TypeError(f"{operation}: a group must be a dict; got {shown(saved)}")
            options = self._saved_options(operation, saved)
            numbers = _in_order_of(
                group._names, saved, _part(operation, saved, "params", "params of a group", list)
            )
            if len(numbers) != len(group._params):
                whose = "the optimizer" if total == 1 else f"group {g}"
                raise ValueError(
                    f"{operation}: state_dict must be of {len(group._params)} parameters because {whose} has as many; "
                    f"got {len(numbers)}"
                )
            states: list[Any] = []
            for p, key in zip(group._params, numbers, strict=True):
                i = next(place)
                if key in entries:
                    used += 1
                    entry = _part(operation, entries, key, f"state of params[{i}]", dict)
                    states.append(self._saved_state(operation, entry, p, i))
                else:
                    states.append((0, None, None))
            loaded.append((group, options, states))
        if used != len(entries):
            raise ValueError(
                f"{operation}: state must have the numbers in the groups' params as keys because each belongs to a "
                f"parameter; got {used} of {len(entries)} keys that are such numbers"
            )
        for group, options, states in loaded:
            group._set(options)
            group._steps.set_states(states)

    def _saved_options(self, operation: str, saved: dict[str, Any]) -> dict[str, Any]:
        for name in self._readers:
            if name not in saved:
                raise ValueError(f"{operation}: a group must hold {name}; got keys {list(saved)}")
        options = {name: read(operation, name, saved[name]) for name, read in self._readers.items()}
        self._check(options)
        for name in _REFUSED:
            wanted = self._decoupled and name == "decoupled_weight_decay"
            if name in saved and bool(saved[name]) != wanted:
                raise ValueError(
                    f"{operation}: {name} must be {wanted} because {self._name} knows no other; got "
                    f"{shown(saved[name])}"
                )
        return options

    def _saved_state(self, operation: str, entry: dict[str, Any], p: Tensor, i: int) -> tuple[Any, ...]:
        steps = 1  # PyTorch's SGD keeps no count and its Adam a Tensor
        if "step" in entry:
            try:
                steps = int(float(entry["step"])) if not isinstance(entry["step"], str) else -1
            except (TypeError, ValueError, OverflowError):
                steps = -1
            if not 0 <= steps < 2**62:
                raise ValueError(
                    f"{operation}: step of params[{i}] must be a number of steps; got {shown(entry['step'])}"
                )
        arrays: list[Tensor | None] = []
        for name in self._remembers:
            value = entry.get(name)
            array = None if value is None else _core.tensor(value, dtype=dtype_of(p))
            if array is not None and array.shape != p.shape:
                raise ValueError(
                    f"{operation}: {name} of params[{i}] must be {tuple(p.shape)} because the parameter is; got "
                    f"{array.shape}"
                )
            arrays.append(array)
        if len(arrays) == 2 and None in arrays:
            raise ValueError(
                f"{operation}: state of params[{i}] must hold 'exp_avg' and 'exp_avg_sq'; got keys {list(entry)}"
            )
        return (steps, *arrays, *[None] * (2 - len(arrays)))

    # Pickled or copied together with their module, the parameters are the copied module's, because pickle and copy
    # keep what is shared.
    def __getstate__(self) -> tuple[Any, ...]:
        groups = [
            {"params": list(zip(g._names, g._params, strict=True)) if g._names else list(g._params)}
            for g in self._groups
        ]
        return groups, self.state_dict(), self._start

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        groups, saved, start = state
        self._add_all(groups, start)
        self.load_state_dict(saved)

    def __repr__(self) -> str:
        shown_groups = [group._shown() for group in self._groups]
        if len(shown_groups) == 1:
            return f"{self._name}({shown_groups[0]})"
        lines = "".join(f"\n  group {i}: {text}" for i, text in enumerate(shown_groups))
        return f"{self._name}({lines}\n)"

    def __setattr__(self, name: str, value: Any) -> None:
        known = getattr(type(self), name, None)
        assignable = known is not None and not (isinstance(known, property) and known.fset is None)
        own = not type(self).__module__.startswith("qkv.") and known is None and name not in self._readers
        if name.startswith("_") or assignable or own:
            object.__setattr__(self, name, value)
        elif known is None:
            raise unknown_attribute(self, name)
        else:
            raise AttributeError(
                f"{self._name}: {name} must stay as it is because the state belongs to it; got an assignment; use "
                "add_param_group, or make the optimizer anew"
            )

    def __getattr__(self, name: str) -> Any:
        if name in ("_groups", "_steps", "_start"):
            unfinished(self)
        raise unknown_attribute(self, name)


def _part(operation: str, whole: dict[Any, Any], key: Any, what: str, kind: type) -> Any:
    if key not in whole:
        raise ValueError(f"{operation}: {what} must be there; got keys {list(whole)}")
    if not isinstance(whole[key], kind):
        raise TypeError(f"{operation}: {what} must be a {kind.__name__}; got {shown(whole[key])}")
    return whole[key]


def _in_order_of(names: list[str], saved: dict[str, Any], numbers: list[Any]) -> list[Any]:
    """Return the numbers of a saved group's parameters, by name where both sides know the names."""
    others = saved.get("param_names")
    if not names or others is None or len(others) != len(numbers) or sorted(others) != sorted(names):
        return numbers
    number_of = dict(zip(others, numbers, strict=True))
    return [number_of[name] for name in names]
