"""Groups of an optimizer's parameters, and what options may be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import numpy as np

from .. import _core
from .._core import Module, Tensor
from .._words.errors import misfit, shown, unknown_attribute
from ..functions.grad_mode import refuse_gradients

Reader = Callable[[str, str, Any], Any]


def number(operation: str, name: str, value: Any) -> float:
    """Return a number, or what holds one, as a float."""
    if isinstance(value, Tensor):
        refuse_gradients(operation, **{name: value})
        value = value.item()
    try:
        if value is not None and not isinstance(value, (str, bytes)):
            return float(value)
    except (TypeError, ValueError):
        pass
    raise TypeError(f"{operation}: {name} must be a number; got {shown(value)}")


def truth(operation: str, name: str, value: Any) -> bool:
    """Return True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{operation}: {name} must be True or False; got {shown(value)}")
    return value


def two_numbers(operation: str, name: str, value: Any) -> tuple[float, float]:
    """Return a pair of numbers as floats."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError(
            f"{operation}: {name} must be two numbers because they weigh two averages; got {shown(value)}"
        )
    return number(operation, name, value[0]), number(operation, name, value[1])


def unfinished(value: Any) -> NoReturn:
    """Refuse an object without a finished constructor."""
    raise TypeError(
        f"{type(value).__name__}: super().__init__() must be called before the object is used; got one whose __init__ "
        "has not finished"
    )


def tensors_of(operation: str, params: Any) -> tuple[list[Tensor], list[str]]:
    """Return the Tensors of an iterable, which may give them once, and their names if all come as (name, Tensor)."""
    tensors: list[Tensor] = []
    names: list[str] = []
    for item in items_of(operation, params):
        p = item
        if isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str):
            names.append(p[0])
            p = p[1]
        if not isinstance(p, Tensor):
            raise TypeError(
                f"{operation}: params must be Tensors; got params[{len(tensors)}] of type {type(p).__name__}"
            )
        tensors.append(p)
    return tensors, names if len(names) == len(tensors) else []


def items_of(operation: str, params: Any) -> list[Any]:
    """Return what an iterable of parameters holds."""
    if isinstance(params, (Tensor, Module, dict, str)) or not hasattr(params, "__iter__"):
        kind = "a Tensor" if isinstance(params, Tensor) else type(params).__name__
        hint = "; write layer.parameters()" if isinstance(params, Module) else ""
        raise TypeError(f"{operation}: params must be an iterable of Tensors; got {kind}{hint}")
    if isinstance(params, (set, frozenset)):
        raise TypeError(
            f"{operation}: params must have an order because states are saved by number; got {type(params).__name__}"
        )
    return list(params)


class ParameterGroup:
    """Parameters of an optimizer that are stepped by the same options, read and assigned by name as in a dict.

    ``group["params"]`` is the tuple of its Tensors; every other key is an option of the optimizer, such as ``"lr"`` or
    ``"weight_decay"``, and what is assigned holds for the next step. Groups are in ``optimizer.param_groups``.

    Raises
    ------
    TypeError
        If a key is no option of the optimizer, or a value has the wrong type.
    ValueError
        If a number is out of its range; the old one stays.

    Examples
    --------
    >>> w, b = qkv.nn.Parameter([1.0]), qkv.nn.Parameter([2.0])
    >>> optimizer = qkv.optim.SGD([{"params": [w]}, {"params": [b], "lr": 0.1}], lr=1.0)
    >>> for group in optimizer.param_groups:
    ...     group["lr"] *= 0.5
    >>> [group["lr"] for group in optimizer.param_groups]
    [0.5, 0.05]
    """

    __slots__ = ("__weakref__", "_kind", "_names", "_options", "_params", "_steps")
    _kind: Any  # the optimizer's class
    _options: dict[str, Any]
    _params: tuple[Tensor, ...]
    _names: list[str]  # in the model, by which states find the parameters again; none if they came without
    _steps: Any  # the core's: the parameters again, and what is remembered of them

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError(
            "ParameterGroup: must be made by optimizer.add_param_group({...}); got a call of the class"
        )

    @classmethod
    def _made(cls, kind: Any, params: Any, names: list[str], options: dict[str, Any]) -> ParameterGroup:
        group = cls.__new__(cls)
        group._kind, group._params, group._names = kind, tuple(params), names
        group._steps = _core.StepGroup(params)
        group._set(options)
        return group

    def __getitem__(self, name: str) -> Any:
        if name == "params":
            return self._params
        if name not in self._options:
            raise self._unknown(name)
        return self._options[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def update(self, options: dict[str, Any] | None = None, **more: Any) -> None:
        """Assign several options at once, or none if one is refused."""
        kind, now = self._kind, dict(self._options)
        for name, value in {**(options or {}), **more}.items():
            if name == "params":
                raise TypeError(
                    f"{kind._name}: params of a group cannot be replaced because what is remembered belongs to them; "
                    "add others by optimizer.add_param_group"
                )
            if name not in now:
                raise self._unknown(name)
            now[name] = kind._readers[name](kind._name, name, value)
        kind._check(now)
        self._set(now)

    def _set(self, options: dict[str, Any]) -> None:
        self._steps.set_options(self._kind._name, options)
        self._options = options

    def _unknown(self, name: str) -> KeyError:
        return KeyError(misfit(self._kind._name, known(self._kind), 0, False, 0, ["params", str(name)]))

    def _all(self) -> dict[str, Any]:
        return {"params": self._params, **self._options}

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def keys(self) -> list[str]:
        """Return "params" and the options' names."""
        return list(self._all())

    def values(self) -> list[Any]:
        """Return what the keys stand for, in their order."""
        return list(self._all().values())

    def items(self) -> list[tuple[str, Any]]:
        """Return pairs of key and value."""
        return list(self._all().items())

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a key, or `default` if there is no such key."""
        return self._all().get(name, default)

    def _shown(self) -> str:
        count = len(self._params)
        options = "".join(f", {name}={value!r}" for name, value in self._options.items())
        return f"{count} parameter{'s' * (count != 1)}{options}"

    def __repr__(self) -> str:
        return f"ParameterGroup({self._shown()})"

    def __getattr__(self, name: str) -> Any:
        if name in ParameterGroup.__slots__:
            unfinished(self)
        raise unknown_attribute(self, name)


def known(kind: Any) -> list[tuple[str, bool]]:
    """Return the keys of a group, as a signature."""
    return [("params", True), *((name, False) for name in kind._readers)]


def dtype_of(p: Tensor) -> np.dtype[Any]:
    """Return NumPy's dtype, of Tensors of a derived class too."""
    return Tensor.dtype.__get__(p)  # type: ignore[no-any-return]


def check_members(kind: str, groups: Iterable[ParameterGroup], added: list[Tensor]) -> None:
    """Refuse parameters that no step can follow, and those that are in a group already."""
    groups = list(groups)

    def place(group: int, i: int) -> str:  # groups are counted where there are several
        return f"params[{i}]" + (f" of group {group}" if groups else "")

    seen: dict[int, tuple[int, int]] = {}
    for at, group in enumerate(groups):
        for i, p in enumerate(group["params"]):
            seen.setdefault(id(p), (at, i))
    last = len(groups)
    for i, p in enumerate(added):
        if not p.is_leaf:
            raise ValueError(
                f"{kind}: params must be leaves because computed Tensors are not stored; got {place(last, i)} "
                f"{tuple(p.shape)}"
            )
        if dtype_of(p).kind != "f":
            raise TypeError(
                f"{kind}: params must be floating because they are moved along gradients; got {place(last, i)} of "
                f"{dtype_of(p)}"
            )
        if seen.setdefault(id(p), (last, i)) != (last, i):
            raise ValueError(
                f"{kind}: params must be distinct because a step updates each once; got {place(*seen[id(p)])} again "
                f"as {place(last, i)}"
            )
