"""The Tensor of `qkv.torch`: the core's, with PyTorch's attributes and text.

An object of this class stands for a Tensor of the core (``_core.instance_of``), so every function of qkv takes it. The
methods that compute are defined beside the functions of the same name, in the modules around this one, and attached by
`method`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar

import numpy as np

from .. import _core
from .._numpy import plain as replaced
from .._numpy import tensors_in
from .._words.errors import shown
from . import _dtypes
from ._arguments import Core, _core_shape
from ._dtypes import Size, dtype
from ._node import Node
from ._outside import equal_of, lies_outside
from ._printing import tensor_text
from ._spelling import told

F = TypeVar("F", bound=Callable[..., Any])

_core_size, _core_leaf = Core.size.fget, Core.is_leaf.fget
_core_grad, _core_requires = Core.grad, Core.requires_grad

FUNCTIONS: dict[str, Callable[..., Any]] = {}  # torch.<name>


def named(words: str) -> Callable[[F], F]:
    """Decorate what is ``torch.<name>`` and ``tensor.<name>``, by its names and, after a colon, its label.

    ``.name`` is a method alone, ``torch.name`` no method. With a label, PyTorch's name of the operation, the function
    returns a Tensor of the core in the dtype of its first argument. Most calls of some functions the core answers.
    """
    text, labelled, label = words.partition(":")
    names = [name.rpartition(".")[2] for name in text.split()]
    op = f"{label.strip()}Backward0" if label else ""

    def finish(result, first):
        if result is first:
            return result
        source = result if isinstance(result, Tensor) else first
        return wrap(result, op, getattr(source, "_kind", None))

    def decorate(f: F) -> F:
        f.__name__ = f.__qualname__ = names[0]
        f.__doc__ = f.__doc__ or _documented(f, names[0])
        made = {name: told(name, f, _written, finish if labelled else None) for name in names}
        if text[0] != ".":
            FUNCTIONS.update(made)
        for name in names if not text.startswith("torch.") else ():
            setattr(Tensor, name, made[name])
        return made[names[0]]  # type: ignore[no-any-return]

    return decorate


def define(table: dict[str, Any]) -> None:
    """Name the functions of a table, which the text of its module documents."""
    for words, f in table.items():
        named(words)(f)


def _documented(f, name: str) -> str | None:
    """The line of a function in the text of its module, where tables of functions are documented."""
    text = sys.modules[f.__module__].__doc__ or ""
    found = re.search(rf"^(?:\w+, )*{name}(?:, \w+)*: (.*(?:\n +.*)*)", text, re.MULTILINE)
    return found and re.sub(r"\s+", " ", found[1])


def _written(name: str, out, result):
    """Let the Tensors that a caller has given as ``out`` hold the result."""
    if isinstance(result, tuple):
        return type(result)(_written(name, a, b) for a, b in zip(out, result, strict=True))
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}: out must be a Tensor; got {shown(out)}")
    if _core.grad_enabled() and (out.requires_grad or result.requires_grad):
        raise RuntimeError(f"{name}: out must be None because gradients are recorded; see torch.no_grad()")
    if out.dtype.kind < result.dtype.kind:
        raise RuntimeError(f"{name}: out must hold {result.dtype}; got one of {out.dtype}")
    if _core_shape(out) != _core_shape(result):
        out.data = wrap_array(np.zeros(_core_shape(result)), out.dtype)
    return out.copy_(result)


class Tensor(Core):
    """An array of numbers with PyTorch's methods; see :func:`qkv.torch.tensor`.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * 2).sum()
    tensor(6., grad_fn=<SumBackward0>)
    """

    _kind: dtype | None = None  # of narrow integers, which the core does not have
    _last_grad: Any = None  # what .grad gave last
    _learned = False  # a Parameter
    _result_class: Any = None  # of what modules of the core compute of it: this class

    def __init__(self, *data, **options) -> None:
        pass  # __new__ (_creation.py) has made it

    def __getattr__(self, name: str):
        return refuse_attribute(type(self).__name__, name)

    # What it is.

    dtype: Any = property(lambda t: _core.result_dtype(t), doc="``torch.float32``, ...")
    shape: Size = property(lambda t: Size(_core_shape(t)), doc="Sizes of the axes.")
    device: Any = property(lambda t: _dtypes.CPU, doc='Always ``torch.device("cpu")``.')
    itemsize = property(lambda t: int(t.dtype.itemsize), doc="Bytes of one number.")
    is_cuda = property(lambda t: False, doc="Always False.")
    _version = property(lambda t: t.version)
    _op = property(lambda t: _core.history_name(t) or "", _core.set_label, doc="PyTorch's name of its maker.")

    @property
    def grad_fn(self) -> Node | None:
        """What made it, None for leaves."""
        return None if _core_leaf(self) else Node.named(self._op or "QkvBackward0")

    requires_grad: Any = property(_core_requires.fget, doc="True if gradients flow to or through it.")

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if wanted and not self.dtype.is_floating_point:
            raise RuntimeError(f"requires_grad: only floating Tensors have gradients; got dtype {self.dtype}")
        if not (wanted or _core_leaf(self)):
            raise RuntimeError(
                "requires_grad: must stay True because the Tensor is computed; detach() it first"
            )
        if _core_leaf(self):
            _core_requires.fset(self, wanted)

    @property
    def grad(self):
        """Sum of the gradients of all backward passes so far, or None."""
        found, last = _core_grad.fget(self), self._last_grad
        if found is None or last is None or not _core.is_same(last, found):
            self._last_grad = None if found is None else _core.instance_of(Tensor, found)
        return self._last_grad

    @grad.setter
    def grad(self, value) -> None:
        if isinstance(value, Tensor) and value is not self and _core.share_grad(self, value):
            self._last_grad = value
        else:
            _core_grad.fset(self, value)

    data: Any = property(lambda t: t.detach(), doc="The same memory without a history.")

    @data.setter
    def data(self, value) -> None:
        if not isinstance(value, Core):
            raise TypeError(f"data: must be a Tensor; got {shown(value)}")
        _core.set_data(self, value)
        self._kind = getattr(value, "_kind", None)

    # To Python and NumPy.

    def numpy(self, *, force: bool = False) -> np.ndarray:  # type: ignore[override]
        """The numbers as a NumPy array that shares the memory, narrow integers as a copy."""
        array = Core.numpy(self)
        return array if self._kind is None else array.astype(self._kind.dtype)

    def __array__(self, dtype=None, copy: bool | None = None):
        if self._kind is not None and dtype is None:
            return self.numpy()
        return Core.__array__(self, dtype, copy)

    def __array_function__(self, called, types, args, kwargs):
        if not callable(called):
            raise TypeError(f"__array_function__: function must be one of NumPy's; got {shown(called)}")
        if _core.grad_enabled() and any(t.requires_grad for t in tensors_in([args, kwargs])):
            return wrapped(called(*plain(args), **plain(kwargs)))
        return called(*replaced(args), **replaced(kwargs))

    def __array_ufunc__(self, ufunc, how: str, *inputs, **options):
        return wrapped(getattr(ufunc, how)(*plain(inputs), **plain(options)))

    def __len__(self) -> int:
        shape = _core_shape(self)
        if not shape:
            raise TypeError("len() of a 0-d tensor")
        return shape[0]  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Any]:
        if not _core_shape(self):
            raise TypeError("iteration over a 0-d tensor")
        return (self[i] for i in range(len(self)))

    def __index__(self) -> int:
        if _core_size(self) != 1 or self.dtype.is_floating_point:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __contains__(self, value) -> bool:
        return bool((self == value).numpy().any())

    def __repr__(self, *, tensor_contents=None) -> str:
        return tensor_text(self)

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec) if _core_shape(self) else format(self.item(), spec)

    __str__, __hash__ = object.__str__, object.__hash__

    # Copies.

    def __copy__(self):
        return copied(self, _core.instance_of(type(self), self.detach()))

    def __deepcopy__(self, memo: dict[Any, Any]):
        return copied(self, _core.instance_of(type(self), _core.deep_copied(self, memo)))

    def __reduce_ex__(self, protocol):
        if not _core_leaf(self):
            raise RuntimeError("pickle: only leaves can be stored; detach() the computed Tensor first")
        state = (type(self), Core.numpy(self).copy(), self.dtype, self.requires_grad)
        return restored, state


Tensor.__module__ = "qkv.torch"
_core.derived_class(Tensor)
Tensor._result_class = Tensor


def refuse_attribute(where: str, name: str) -> NoReturn:
    """Say that qkv.torch lacks a name."""
    lacks = f"qkv.torch has no {name!r}; it holds what attention needs of PyTorch"
    outside = f"{name} lies outside qkv.torch, which holds attention and transformers"
    words, equal = outside if lies_outside(name) else lacks, equal_of(name)
    raise AttributeError(f"{where}: {words} (docs/torch.md)" + (f"; see {equal}" if equal else ""))


def _leaf(result, kind: dtype | None, requires_grad: bool):
    result._kind = kind
    if result._learned:
        _core.mark_parameter(result)
    if requires_grad:
        _core_requires.fset(result, True)
    return result


def copied(source, result):
    """Copy to a new leaf what it shares with its original."""
    _leaf(result, source._kind, source.requires_grad)
    for name, value in source.__dict__.items():
        if not name.startswith("_"):
            setattr(result, name, value)
    return result


def restored(cls: type[Tensor], numbers: np.ndarray, kind: dtype, requires_grad: bool):
    """Make a Tensor of what `pickle` stored."""
    result = _core.instance_of(cls, _core.tensor(numbers, kind.core))
    return _leaf(result, kind if kind.narrow else None, requires_grad)


def viewed(cls: type[Tensor], memory: Tensor, offset: int, shape, strides, requires_grad: bool):
    """Make one of the Tensors that share a memory, which `torch.save` stored once."""
    result = _core.instance_of(cls, _core.windowed(memory, offset, shape, strides))
    return _leaf(result, memory._kind, requires_grad)


# Make a Tensor of this class, of a dtype, of what the core computed: ``wrap(result, label="", kind=None)``; the label
# is PyTorch's name of the operation. Whole numbers are cut to the width of their dtype, as its arithmetic does.
wrap = _core.wrap


def as_core(t):
    """Return the core's Tensor of one of this class: NumPy's functions compute with it, and record gradients."""
    return _core.instance_of(Core, t)


def wrap_array(array, kind: dtype | None = None) -> Tensor:
    """Make a leaf of NumPy's numbers, which are copied."""
    return wrap(_core.tensor(np.asarray(array), None if kind is None else kind.core), "", kind)


def plain(value):
    """Replace Tensors of this class by the core's, which have NumPy's methods."""
    return replaced(value, as_core)


def wrapped(value):
    """Replace the core's Tensors by those of this class."""
    return replaced(value, lambda t: t if isinstance(t, Tensor) else wrap(t))
