"""Constructors whose arguments are in one text, as PyTorch's documentation has them."""

from __future__ import annotations

import inspect

from ._arguments import kinds


def constructor(text: str):
    """Make an ``__init__`` with the arguments of a text, which hands their values to ``self._configure`` by name.

    They are checked by their names (`_arguments`). Those of the Tensors that are made, ``device`` and ``dtype``, are
    handed over together, as ``kind``.
    """

    signature = inspect.signature(eval(f"lambda self, /, {text}: None"))
    checks = kinds(signature.parameters.values())

    def __init__(self, *args, **kwargs) -> None:  # noqa: N807
        try:
            given = signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}") from None
        given.apply_defaults()
        _, *values = given.arguments.items()
        named = dict(values)
        for name, check in checks.items():
            if named[name] is not None or signature.parameters[name].default is not None:
                named[name] = check(type(self).__name__, name, named[name])
        if "dtype" in named:
            named["kind"] = {name: named.pop(name) for name in ("device", "dtype")}
        self._configure(**named)

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__


def undefined(name: str):
    """Make a method that a subclass must define."""

    def refuse(self, *args, **named):
        """To be defined by the subclass."""
        raise NotImplementedError(f"{type(self).__name__} must define {name}")

    return refuse
