"""What can be wrong inside qkv: each function here changes qkv in this process, for the tables of `mutations`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

SIZE = 1e-3

Change = Callable[[Any], Any]


def pattern(shape: tuple[int, ...]) -> np.ndarray:
    """Return factors that differ from entry to entry, 1 - SIZE to 1 + SIZE."""
    return 1 + SIZE * np.cos(1 + np.arange(int(np.prod(shape)))).reshape(shape)


def scaled(value: Any) -> Any:
    """Change each number a little; integers, booleans and texts stay."""
    import qkv

    if isinstance(value, qkv.Tensor) and np.dtype(value.dtype).kind == "f":
        return value * pattern(value.shape).astype(value.dtype)
    if isinstance(value, np.ndarray | np.floating) and value.dtype.kind == "f":
        return (value * pattern(np.shape(value))).astype(value.dtype)[()]
    return value


def rolled(value: Any) -> Any:
    """Move the last axis on by one."""
    import qkv

    if isinstance(value, qkv.Tensor) and value.ndim and value.shape[-1] > 1:
        return value[..., np.roll(np.arange(value.shape[-1]), 1)]
    if isinstance(value, np.ndarray) and value.ndim and value.shape[-1] > 1:
        return np.roll(value, 1, axis=-1)
    return value


def nudged(value: Any) -> Any:
    """Change each number a little, and zeros, too."""
    changed = scaled(value)
    return changed if changed is value else changed + SIZE**2


def each(change: Change) -> Change:
    """Apply a change to a result, or to the parts of one that has several."""

    def apply(value: Any) -> Any:
        if isinstance(value, tuple):
            parts = [apply(part) for part in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if isinstance(value, list):
            return [apply(part) for part in value]
        return change(value)

    return apply


def wrap(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Replace a function of a module or a method of a class by what `make` makes of it."""
    original = inspect.getattr_static(owner, name)
    if isinstance(original, property):
        setattr(owner, name, property(make(original.fget)))
    else:
        function = getattr(owner, name)
        setattr(owner, name, functools.wraps(function)(make(function)))


def after(change: Change) -> Callable[[Any], Any]:
    """Change what a function returns."""
    return lambda function: lambda *args, **kwargs: change(function(*args, **kwargs))


def functions() -> Iterator[tuple[ModuleType, str]]:
    """Return the functions of the public modules that compute with arrays."""
    import qkv
    from qkv import losses, masks

    drawn = {"bernoulli", "normal", "rand", "randint", "randn", "randperm", "uniform", "tensor", "config"}
    for module in (qkv, losses, masks):
        names = module.__all__ if hasattr(module, "__all__") else dir(module)
        for name in names:
            function = getattr(module, name)
            if inspect.isroutine(function) and not name.startswith("_") and name not in drawn:
                yield module, name


def layers() -> Iterator[type]:
    """Return the classes that define how layers and models are called, some of which are bases in the core."""
    from qkv import models, nn

    found: dict[type, None] = {}
    for module in (nn, models):
        for name in module.__all__ if hasattr(module, "__all__") else dir(module):
            kind = getattr(module, name)
            if inspect.isclass(kind):
                found.update(dict.fromkeys(base for base in kind.__mro__ if "__call__" in vars(base)))
    yield from found


def change_results(change: Change) -> None:
    from qkv import NadarayaWatson, models

    for module, name in functions():
        if module.__name__ != "qkv.masks":
            wrap(module, name, after(each(change)))
    for kind in layers():
        wrap(kind, "__call__", after(each(change)))
        for name in ("attention_weights", "encode", "decode", "hidden_states"):
            if name in vars(kind):
                wrap(kind, name, after(each(change)))
    wrap(models.SentenceEncoder, "encode", after(change))
    wrap(NadarayaWatson, "predict", after(change))


def results() -> None:
    """Results of functions, layers and Tensors' operators are off by a thousandth, each entry otherwise."""
    import qkv

    change_results(scaled)
    for name in ("__matmul__", "__rmatmul__", "sum", "mean", "max"):
        wrap(qkv.Tensor, name, after(scaled))


def shuffled() -> None:
    """The last axis of results is moved on by one: the first number is where the second was."""
    import qkv

    change_results(rolled)
    for name in ("reshape", "transpose", "swapaxes"):
        wrap(qkv.Tensor, name, after(rolled))


def gradients() -> None:
    """Gradients are read, and Jacobians returned, off by a thousandth, and not 0 where they should be."""
    import qkv
    from qkv import optim

    wrap(qkv.Tensor, "grad", after(nudged))
    for name in ("jacobian", "softmax_jacobian", "grad"):
        wrap(qkv, name, after(each(nudged)))
    wrap(optim, "clip_grad_norm", after(lambda norm: type(norm)(norm * (1 + SIZE))))


def steps() -> None:
    """Optimizers change nothing."""
    from qkv.optim.optimizers import Optimizer

    wrap(Optimizer, "step", lambda function: lambda self, *args: None)


def masks() -> None:
    """Masks are moved on by one key, lengths are one too long, the future is seen."""
    import qkv
    from qkv import masks

    for name in ("lengths", "causal", "attention"):
        wrap(masks, name, after(moved))
    for name in ("scaled_dot_product_attention", "additive_attention"):
        wrap(qkv, name, masked_otherwise)
    wrap(qkv, "masked_softmax", lambda f: masked_otherwise(lambda x, lens=None, **o: f(x, longer(lens), **o)))
    for kind in layers():
        wrap(kind, "__call__", masked_otherwise)
        wrap(kind, "__init__", masked_otherwise)


def masked_otherwise(function: Any) -> Any:
    """Change the masks and lengths among a call's arguments."""

    def call(*args: Any, **kwargs: Any) -> Any:
        args = tuple(moved(a) if isinstance(a, np.ndarray) and a.dtype == bool else a for a in args)
        if len(args) == 5 and isinstance(args[4], np.ndarray):  # a layer, query, key, value, lengths
            args = (*args[:4], longer(args[4]))
        for name, change in (("valid_lens", longer), ("attn_mask", moved), ("mask", moved)):
            if kwargs.get(name) is not None:
                kwargs[name] = change(kwargs[name])
        if kwargs.get("is_causal"):
            kwargs["is_causal"] = False
        return function(*args, **kwargs)

    return call


def longer(lens: Any) -> Any:
    return lens if lens is None or np.asarray(lens).dtype.kind not in "iu" else np.asarray(lens) + 1


def moved(mask: Any) -> Any:
    mask = np.asarray(mask)
    return np.roll(mask, 1, axis=-1) if mask.dtype == bool and mask.ndim else mask


def seeds() -> None:
    """Every seed is the next one."""
    import qkv

    original = qkv.Generator
    wrap(qkv, "manual_seed", lambda function: lambda seed: function(seed + 1))
    qkv.Generator = lambda seed=0: original(seed + 1)


def plots() -> None:
    """Pictures: other data, colour scales, limits and words."""
    from matplotlib.axes import Axes

    def image(function: Any) -> Any:
        def call(self: Any, table: Any, *args: Any, **kwargs: Any) -> Any:
            drawn = function(self, table, *args, **kwargs)
            drawn.set_clim(drawn.get_clim()[0], 2 * drawn.get_clim()[1])
            return drawn

        return call

    def line(function: Any) -> Any:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            drawn = function(self, *args, **kwargs)
            for one in drawn:
                one.set_ydata(np.asarray(one.get_ydata(), dtype=float) * (1 + SIZE))
            return drawn

        return call

    def text(function: Any) -> Any:
        return lambda self, x, y, words, *args, **kwargs: function(self, x, y, "?", *args, **kwargs)

    for name, make in (("imshow", image), ("plot", line), ("text", text)):
        wrap(Axes, name, make)


def textbooks() -> None:
    """Functions, layers and random numbers of `qkv.torch` are off by a thousandth."""
    import qkv.torch as torch
    from qkv.torch import nn

    for module, names in (
        (torch, "bmm matmul softmax exp tanh rand randn normal eye sin cos tril triu abs"),
        (nn.functional, "softmax embedding"),
        (torch.autograd.functional, "jacobian"),
        (torch.Tensor, "masked_fill sum"),
        (nn.Module, "__call__"),
    ):
        for name in names.split():
            wrap(module, name, after(each(off)))


def off(value: Any) -> Any:
    """Change each floating number of a Tensor of `qkv.torch` by a thousandth."""
    import qkv.torch as torch

    return value * (1 + SIZE) if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def refusals() -> None:
    """What must be refused is accepted: exceptions of functions and layers become None."""
    from qkv import models

    def accept(function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except (ValueError, TypeError, NotImplementedError):
                return None

        return call

    for module, name in functions():
        wrap(module, name, accept)
    for kind in {*layers(), models.Encoder, models.Decoder, models.AttentionDecoder}:
        for name in ("__init__", "__call__", "init_state", "attention_weights"):
            if name in vars(kind):
                wrap(kind, name, accept)


def counts() -> None:
    """Every layer has one parameter more than it has."""
    from qkv import _core, models

    wrap(_core.Module, "num_parameters", after(lambda count: count + 1))
    wrap(models, "count_parameters", after(lambda count: count + 7))


PERTURBATIONS: dict[str, Callable[[], None]] = {
    "none": lambda: None,
    **{
        f.__name__: f
        for f in (results, gradients, masks, seeds, plots, shuffled, steps, textbooks, refusals, counts)
    },
}
