"""The base class of layers: the core's modules with PyTorch's interface."""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple, TypeVar

from ... import _core
from ..._display.format import tree
from ...nn.options import refusal, taken_by
from .. import _dtypes
from .._conversion import kinds_in
from .._elementwise import cast
from .._grad_mode import no_grad
from .._tensor import Core, Tensor
from ._registry import CoreModule, Entries, ModuleType
from ._watching import calling
from .parameter import Parameter, UninitializedParameter, check_part, forget_gradients, is_of_other_torch

T = TypeVar("T", bound="Module")
_PACKAGE = "qkv.torch."
_TABLES = {"_parameters": "parameter", "_buffers": "buffer", "_modules": "module"}


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict` found missing and what it did not expect."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class Handle:
    """Takes a hook away again."""

    _keys = itertools.count()

    def __init__(self, hooks: dict[int, Any], hook) -> None:
        self._hooks, self._key = hooks, next(self._keys)
        hooks[self._key] = hook  # the same one may be there several times

    def remove(self) -> None:
        """Take the hook away."""
        self._hooks.pop(self._key, None)


def _some(names: list[str]) -> str:
    """Ten names, and how many others there are."""
    others = [f"and {len(names) - 10} others"] if len(names) > 10 else []
    return ", ".join([f'"{name}"' for name in names[:10]] + others)


@functools.cache
def _options(cls: type) -> frozenset[str]:
    """What a layer of this package is made with; of other classes nothing."""
    return taken_by(cls) if cls.__module__.startswith(_PACKAGE) else frozenset()


def _called_by_own_code() -> bool:
    """Whether the function that called __setattr__ is one of this package, such as a constructor."""
    return bool(sys._getframe(2).f_globals.get("__name__", "").startswith(_PACKAGE))


def _in_class(t):
    return t if isinstance(t, Tensor) else _core.instance_of(Tensor, t) if isinstance(t, Core) else Tensor(t)


def _named(kind: str) -> Any:
    def named(self, prefix="", recurse=True, remove_duplicate=True) -> Iterator[tuple[str, Any]]:
        seen = set()
        for path, part in self.named_modules(None, prefix, remove_duplicate) if recurse else [(prefix, self)]:
            for name, value in part._entries(kind).items():
                if value is not None and not (remove_duplicate and value in seen):
                    seen.add(value)
                    yield f"{path}.{name}" if path else name, value

    named.__name__, named.__doc__ = f"named_{kind}s", f"All {kind}s and their names."
    return named


class Module(CoreModule, metaclass=ModuleType):  # type: ignore[misc]
    """What has parameters, buffers and parts, and is called. Modules of `qkv.nn` may be its parts, and it theirs.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> class Scale(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.weight = torch.nn.Parameter(torch.ones(3))
    ...
    ...     def forward(self, x):
    ...         return x * self.weight
    >>> Scale()(torch.arange(3.0))
    tensor([0., 1., 2.], grad_fn=<MulBackward0>)
    """

    _hooks: ClassVar[dict[int, Any]] = {}
    _pre_hooks: ClassVar[dict[int, Any]] = {}
    _shown = ""  # settings in the text: "=name" the value alone, "name?" only where it is not the default

    def _configure(self, **settings) -> None:
        """Begin with settings by name; what `constructor` makes calls it."""
        CoreModule.__init__(self)
        vars(self).update(settings)

    @property
    def _may_attend(self) -> bool:
        """Whether `forward` is written by others, who may call attention there."""
        return not type(self).__module__.startswith(_PACKAGE)

    _parameters = property(lambda self: Entries(self, "parameter"))
    _buffers = property(lambda self: Entries(self, "buffer"))
    _modules = property(lambda self: Entries(self, "module"))

    @property
    def training(self) -> bool:
        """True in training mode."""
        return bool(CoreModule.training.fget(self))

    @training.setter
    def training(self, mode: bool) -> None:
        self._set_own_training(bool(mode))

    # Parts.

    def __setattr__(self, name: str, value) -> None:
        if name in _options(type(self)) and not hasattr(self, name) and not _called_by_own_code():
            raise refusal(type(self).__name__, name, value)  # nothing would read it
        if is_of_other_torch(value):
            check_part("module", name, value, CoreModule)
        CoreModule.__setattr__(self, name, value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_parameters" not in state:
            CoreModule.__setstate__(self, state)
            return
        CoreModule.__init__(self)  # as older versions stored it
        state = dict(state)
        passing = state.pop("_non_persistent", ())
        for table, kind in _TABLES.items():
            for name, value in state.pop(table).items():
                self._register(kind, name, value, name not in passing)
        for name, value in state.items():
            setattr(self, name, value)

    def register_parameter(self, name: str, param) -> None:
        """Add a parameter, or None in its place."""
        check_part("parameter", name, param, Parameter)
        self._check_free("parameter", name)
        self._register("parameter", name, param)

    def register_buffer(self, name: str, tensor, persistent: bool = True) -> None:
        """Add a Tensor that is kept but not learned; its memory is shared."""
        check_part("buffer", name, tensor, Tensor)
        self._check_free("buffer", name)
        self._register("buffer", name, tensor, persistent)

    def register_module(self, name: str, module) -> None:
        """Add a part, or None in its place."""
        check_part("module", name, module, CoreModule)
        self._check_free("module", name)
        self._register("module", name, module)

    add_module = register_module

    def _check_free(self, kind: str, name: str) -> None:
        if name not in self._entries(kind) and hasattr(self, name):
            raise KeyError(f"attribute {name!r} already exists")

    # Calls.

    def forward(self, *args, **kwargs):
        """To be defined by the subclass: what a call computes."""
        name = type(self).__name__
        raise NotImplementedError(f'Module [{name}] is missing the required "forward" function')

    def __call__(self, *args, **kwargs):
        if _core.observed():
            with calling(self):
                return _core.observed_call(self, self._called, args, kwargs)
        return self._called(*args, **kwargs)

    def _called(self, *args, **kwargs):
        if Core in map(type, args):  # from a module of the core around this one
            args = tuple(_core.instance_of(Tensor, a) if type(a) is Core else a for a in args)
        if not (self._pre_hooks or self._hooks):
            return self.forward(*args, **kwargs)
        for hook in list(self._pre_hooks.values()):
            changed = hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        result = self.forward(*args, **kwargs)
        for hook in list(self._hooks.values()):
            changed = hook(self, args, result)
            result = result if changed is None else changed
        return result

    def register_forward_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call ``hook(module, args, output)`` after each call; what it returns replaces the output."""
        return Handle(vars(self).setdefault("_hooks", OrderedDict()), hook)

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call ``hook(module, args)`` before each call; what it returns replaces the arguments."""
        return Handle(vars(self).setdefault("_pre_hooks", OrderedDict()), hook)

    # Walking: unbound, as parts may be modules of the core.

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """The parts and their names."""
        seen = set()
        for name, part in self._entries("module").items():
            if part is not None and part not in seen:
                seen.add(part)
                yield name, part

    def children(self) -> Iterator[Any]:
        """The parts."""
        return (part for _, part in Module.named_children(self))

    def named_modules(self, memo=None, prefix="", remove_duplicate=True) -> Iterator[tuple[str, Any]]:
        """This module and all parts of parts, with their names."""
        memo = set() if memo is None else memo
        if remove_duplicate and self in memo:
            return
        memo.add(self)
        yield prefix, self
        for name, part in self._entries("module").items():
            if part is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from Module.named_modules(part, memo, path, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Any]:
        """This module and all parts of parts."""
        return (part for _, part in self.named_modules(remove_duplicate=remove_duplicate))

    named_parameters = _named("parameter")
    named_buffers = _named("buffer")

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        """All parameters."""
        if recurse:
            return iter(CoreModule.parameters(self))
        return (value for _, value in self.named_parameters(recurse=False))

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        """All buffers."""
        return (value for _, value in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str):
        """The part at the end of a path such as ``"encoder.layers.0"``."""
        part: Any = self
        for name in target.split(".") if target else []:
            part = getattr(part, name)
        return part

    def get_parameter(self, target: str):
        """The parameter at the end of a path."""
        return self.get_submodule(target)

    # All of it.

    def apply(self: T, fn: Callable[[Any], Any]) -> T:
        """Call a function with each part of parts, then with this module."""
        for part in self.children():
            part.apply(fn) if isinstance(part, Module) else Module.apply(part, fn)
        fn(self)
        return self

    def train(self: T, mode: bool = True) -> T:
        """Switch to training, in which dropout is on."""
        self.training = mode
        for part in self.children():
            part.train(mode)
        return self

    def eval(self: T) -> T:
        """Switch to evaluation."""
        return self.train(False)

    def requires_grad_(self: T, requires_grad: bool = True) -> T:
        """Set ``requires_grad`` of all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        forget_gradients(self.parameters(), set_to_none)

    def to(self: T, *args, device=None, dtype=None, non_blocking: bool = False) -> T:
        """Convert the floating parameters and buffers to a dtype; the only device is the CPU."""
        for kind in kinds_in(*args, device, dtype):
            self._convert(kind)
        return self

    def _convert(self, kind: _dtypes.dtype) -> None:
        if kind.kind != 2:
            raise TypeError(f"to: dtype must be a floating one because parameters have gradients; got {kind}")
        for part in self.modules():
            for name, buffer in part._entries("buffer").items() if isinstance(part, Module) else ():
                if buffer is not None and buffer.dtype.kind == 2:
                    setattr(part, name, cast(buffer, kind))  # others may hold the old one
        CoreModule.to(self, kind.core)

    def float(self: T) -> T:
        """Convert to float32."""
        return self.to(_dtypes.float32)

    def double(self: T) -> T:
        """Convert to float64."""
        return self.to(_dtypes.float64)

    def cpu(self: T) -> T:
        """Itself."""
        return self

    def cuda(self, device=None):
        """Refused: qkv computes on the CPU."""
        _dtypes.refuse_device("cuda", "cuda")

    # Storing.

    def state_dict(self, *, prefix: str = "", keep_vars: bool = False) -> dict[str, Any]:
        """Names and numbers of all parameters and buffers, sharing their memory."""
        return OrderedDict(
            (prefix + name, value if keep_vars else _in_class(value.detach()))
            for name, value in self._named_state()
        )

    def load_state_dict(self, state_dict, strict: bool = True, assign: bool = False) -> IncompatibleKeys:
        """Copy numbers in by name."""
        own = self.state_dict(keep_vars=True)
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        problems = [
            f"{text} key(s) in state_dict: " + _some(names) + ". "
            for text, names in {"Unexpected": unexpected, "Missing": missing}.items()
            if strict and names
        ]
        given = {name: _in_class(state_dict[name]) for name in own if name in state_dict}
        for name, source in given.items():
            target = own[name]
            if isinstance(target, UninitializedParameter):
                target.materialize(tuple(source.shape))
            if tuple(source.shape) != tuple(target.shape):
                problems.append(
                    f"size mismatch for {name}: copying a param with shape {source.shape} from checkpoint, the shape "
                    f"in current model is {target.shape}."
                )
        if problems:
            head = f"Error(s) in loading state_dict for {type(self).__name__}:"
            raise RuntimeError("\n\t".join([head, *problems]))
        with no_grad():
            for name, source in given.items():
                if assign and isinstance(own[name], Parameter):
                    where, _, last = name.rpartition(".")
                    kept = isinstance(source, Parameter)
                    taken = source if kept else Parameter(source, own[name].requires_grad)
                    setattr(self.get_submodule(where), last, taken)
                else:
                    own[name].copy_(source)
        return IncompatibleKeys(missing, unexpected)

    # Text.

    def extra_repr(self) -> str:
        """What is between the parentheses of the text."""
        given = inspect.signature(type(self)).parameters if self._shown else {}
        parts = []
        for word in self._shown.split():
            value = getattr(self, name := word.strip("=?"))
            if name == "bias":
                value = value is not None and value is not False
            if word[-1] != "?" or value != given[name].default:
                parts.append(f"{value}" if word[0] == "=" else f"{name}={value!r}")
        return ", ".join(parts)

    def _get_name(self) -> str:
        return type(self).__name__

    def _lines(self) -> list[str]:
        return [f"({name}): {part!r}" for name, part in self._modules.items()]

    def __repr__(self) -> str:
        return tree(self._get_name(), self.extra_repr(), self._lines())
