"""Functions whose arguments stand in one text, as PyTorch's documentation has them."""

from __future__ import annotations

import functools
import inspect


def arguments(text: str):
    """Decorate a function that takes its values by name: it is called with the arguments of a text.

    Those behind ``*`` and ``**`` arrive as a tuple and a dict.

    Examples
    --------
    >>> from qkv.torch._settings import arguments
    >>> @arguments("x, size=2, *, scale=1.0")
    ... def f(x, **settings):
    ...     print(x, settings)
    >>> f(3, scale=5)
    3 {'size': 2, 'scale': 5}
    """
    names = inspect.signature(eval(f"lambda {text}: None")).parameters  # the texts are those of this package

    def decorate(f):
        call = eval(
            f"lambda {text}: f({', '.join(f'{name}={name}' for name in names)})",
            {"f": f, "__name__": f.__module__},
        )
        functools.update_wrapper(call, f)
        del call.__wrapped__  # whose signature is not that of the call
        return call

    return decorate


def constructor(text: str):
    """Make an ``__init__`` with the arguments of a text, which hands their values to ``self._configure`` by name.

    Those of the Tensors that are made, ``device`` and ``dtype``, are handed over together, as ``kind``.
    """

    signature = inspect.signature(eval(f"lambda self, /, {text}: None"))

    def __init__(self, *args, **kwargs) -> None:  # noqa: N807
        try:
            given = signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}") from None
        given.apply_defaults()
        _, *values = given.arguments.items()
        named = dict(values)
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
