"""What every public module does with its public names: lists them alone, knows what was meant by others, and has its
functions refuse arguments in qkv's words.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, NoReturn, TypeVar

from . import _core
from ._words.errors import plain, refusal, unknown_name

Function = TypeVar("Function", bound=Callable[..., Any])


def publish(module: str, submodules: Iterable[str] = (), *, own_classes: bool = False) -> None:
    """Finish a public module, when everything in its ``__all__`` is defined.

    Parameters
    ----------
    module : str
        Its ``__name__``.
    submodules : iterable of str
        Names in ``__all__`` that are modules, imported when they are asked for.
    own_classes : bool
        Classes of its submodules get its name, by which they are pickled, so that files may move.
    """
    space = vars(sys.modules[module])
    public, late = sorted(space["__all__"]), frozenset(submodules)

    def get(name: str) -> Any:
        if name in late:
            return importlib.import_module(f"{module}.{name}")
        if name.startswith("_"):  # asked for by tools, which have no typing errors
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=None)
        raise unknown_name(module, name, public, lambda name: _elsewhere(module, name))

    space["__getattr__"], space["__dir__"] = get, lambda: public
    for name in public:
        value = space.get(name)
        if isinstance(value, type) and not issubclass(value, BaseException):
            if value.__module__ == _core.__name__ or (
                own_classes and value.__module__.startswith(f"{module}.")
            ):
                value.__module__ = module
            for cls in value.__mro__:
                if cls.__module__.startswith("qkv.") and not of_core(cls):
                    _explain_methods(cls)


def explained(function: Function) -> Function:
    """Return the function; what is wrong with its arguments is put into words when a call has failed.

    Parameters that its annotations call bool must be True or False. Where the body uses them by their truth, any
    other value would be answered in silence, so these calls look at the class of each flag that is given.
    """
    code: Any = function.__code__
    kinds = function.__annotations__.items()
    flags = [name for name, kind in kinds if kind in ("bool", "bool | None") and name != "return"]
    by_place = code.co_varnames[: code.co_argcount]
    places = [(by_place.index(name), name) for name in flags if name in by_place]
    first = min(places, default=(code.co_argcount, ""))[0]

    def refuse(args: tuple[Any, ...], options: dict[str, Any], error: TypeError) -> NoReturn:
        """Raise the error in words if no line of the function was reached, else as it is."""
        if error.__traceback__.tb_next is not None:  # type: ignore[union-attr]
            raise error
        for name, value in [*zip(by_place, args, strict=False), *options.items()]:
            if name in flags:
                _check_flag(function, name, value)
        raise TypeError(refusal(function, args, tuple(options)) or str(error)) from None

    if not flags or _only_calls_the_core(function):

        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            try:
                return function(*args, **options)
            except TypeError as error:
                refuse(args, options, error)

        return call  # type: ignore[return-value]

    @functools.wraps(function)
    def call_with_flags(*args: Any, **options: Any) -> Any:
        if len(args) > first:
            for place, name in places:
                if place < len(args) and args[place].__class__ is not bool:
                    _check_flag(function, name, args[place])
        if options:
            for name in flags:
                if name in options and options[name].__class__ is not bool:
                    _check_flag(function, name, options[name])
        try:
            return function(*args, **options)
        except TypeError as error:
            refuse(args, options, error)

    return call_with_flags  # type: ignore[return-value]


def _only_calls_the_core(function: Any) -> bool:
    """Whether the body is one call of a function of the core, whose own check of flags has the same words."""
    names = function.__code__.co_names
    return len(names) == 2 and names[0] == "_core" and hasattr(_core, names[1])


def _check_flag(function: Any, name: str, value: Any) -> None:
    try:
        if value is None or (
            not getattr(value, "requires_grad", False)
            and hasattr(type(value), "__bool__")
            and bool(value) in (True, False)
        ):
            return
    except Exception:  # an array of several numbers
        pass
    operation = function.__qualname__
    for own in (".__init__", ".__call__", ".forward"):
        operation = operation.removesuffix(own)
    raise TypeError(f"{operation}: {name} must be True or False; got {type(value).__name__}")


def of_core(cls: type) -> bool:
    """Say whether a class is one of the compiled core."""
    return vars(_core).get(cls.__name__) is cls


def _explain_methods(cls: type) -> None:
    for name, value in list(vars(cls).items()):
        if name.startswith("_") and name not in ("__init__", "__call__"):
            continue
        if isinstance(value, FunctionType):
            setattr(cls, name, value if hasattr(value, "__wrapped__") else explained(value))
        elif isinstance(value, (classmethod, staticmethod)) and isinstance(value.__func__, FunctionType):
            setattr(cls, name, type(value)(explained(value.__func__)))


def _elsewhere(module: str, name: str) -> str | None:
    """Find a public name in the other modules of qkv, however it is spelled."""
    from ._words.names import public_names  # only errors need them

    for path, names in public_names().items():
        for known in names if path != module else ():
            if plain(known) == plain(name):
                return f"{path}.{known}"
    return None


def public_modules() -> list[str]:
    """Import all public modules but the imitation of PyTorch, and give their names."""
    from ._words.names import public_names

    return [importlib.import_module(path).__name__ for path in public_names()]
