"""Changing what a model computes, while it computes it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

import numpy as np

from .. import _core
from .._core import Module, Tensor
from .._public import explained
from .._words.errors import closest, shown
from ..functions.elementwise import where
from .names import Names, Part, joined
from .watching import Watcher


class Change:
    """While it is entered, calls on this thread see other values; see :func:`change`."""

    def __init__(self, names: Names, functions: list[tuple[str, Callable[[Tensor], Any]]]) -> None:
        self._names, self._functions = names, functions
        self._of_thread = threading.local()

    def __enter__(self) -> Change:
        watcher, unused = Watcher(), set()
        for name, function in self._functions:
            part, word = self._names[name]
            if part.open and word not in ("input", "output"):  # whether there is such a value, its calls tell
                unused.add(name)
                function = _noted(function, unused, name)
            watcher.change(part.module, word, function)
        watcher.enter()
        entered = getattr(self._of_thread, "entered", None)
        if entered is None:
            entered = self._of_thread.entered = []
        entered.append((watcher, unused))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        watcher, unused = self._of_thread.entered.pop()
        watcher.leave()
        if unused and kind is None:
            raise ValueError(
                f"change: {min(unused)} must be computed within the block because it is changed; no "
                "scaled_dot_product_attention of qkv.torch was called in that module"
            )


@explained
def change(model: Module, changes: Mapping[str, Callable[[Tensor], Any]]) -> Change:
    """Replace values inside a model by what functions of them return, within a ``with`` block.

    Parameters
    ----------
    model : Module
    changes : dict
        From names, as those of :func:`record`, to functions that take the value, a Tensor, and return one of the same
        shape, or an array. Gradients flow through the functions. Changed ``weights`` are used as they are; a changed
        ``input`` of an attention is its keys and values, too, where the call gives none.

    Returns
    -------
    context manager
        It acts on the thread that enters it, may be entered more than once and be nested: the outer change of a name
        acts first. Only the layers whose scores or weights change leave the fused attention.

    Raises
    ------
    ValueError
        If a name does not exist; in the call, if a function returns another shape.
    TypeError
        If a value of `changes` is not a function.

    Examples
    --------
    >>> layer = qkv.nn.MultiHeadAttention(8, 2)
    >>> with qkv.look.change(layer, {"weights": lambda w: w * 0 + 1 / w.shape[-1]}):
    ...     y = layer(np.ones((3, 8)))
    >>> float(layer.attention_weights[0, 0, 0])
    0.3333333432674408
    """
    names = Names("change", model)
    if not isinstance(changes, Mapping):
        raise TypeError(f"change: changes must be a dict from names to functions; got {shown(changes)}")
    functions = []
    seen: dict[tuple[int, str], str] = {}
    for name, function in changes.items():
        if name not in names:
            raise ValueError(f"change: {name!r} is no name of the model{names.nearest(str(name))}")
        if not callable(function):
            raise TypeError(f"change: {name} must be changed by a function; got {shown(function)}")
        part, word = names[name]
        other = seen.setdefault((id(part), word), name)
        if other != name:
            raise ValueError(f"change: {name} must be changed once because it is {other}, too; got both")
        functions.append((name, _checked(name, function)))
    return Change(names, functions)


def _noted(function: Callable[[Tensor], Tensor], unused: set[str], name: str) -> Callable[[Tensor], Tensor]:
    def changed(x: Tensor) -> Tensor:
        unused.discard(name)
        return function(x)

    return changed


def _checked(name: str, function: Callable[[Tensor], Any]) -> Callable[[Tensor], Tensor]:
    def changed(x: Tensor) -> Tensor:
        y = function(x)
        if not isinstance(y, Tensor):
            try:
                y = _core.tensor(y, x.dtype, False)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"change: {name} must become a Tensor or an array of shape {x.shape}; got {shown(y)}"
                ) from error
        if y.shape != x.shape:
            raise ValueError(f"change: {name} must keep its shape {x.shape}; got {y.shape}")
        return y if y.dtype == x.dtype else y.astype(x.dtype)

    return changed


@explained
def without_heads(model: Module, heads: Mapping[int | str, Iterable[int]]) -> Change:
    """Switch heads of attention layers off within a ``with`` block: their results are 0.

    Parameters
    ----------
    model : Module
    heads : dict
        From layers to lists of heads. A layer is the number of a self-attention in the order of the model (negative:
        from the end) or the path of any attention.

    Raises
    ------
    IndexError
        If a layer or head of that number does not exist.
    KeyError
        If a path is not that of an attention.

    Examples
    --------
    >>> model = qkv.models.CausalLM(vocab_size=11, d_model=8, nhead=2, num_layers=2)
    >>> with qkv.look.without_heads(model, {0: [1], "layers.1.self_attn": [0]}):
    ...     logits = model(np.zeros((1, 3), int))
    """
    names = Names("without_heads", model)
    if not isinstance(heads, Mapping):
        raise TypeError(
            f"without_heads: heads must be a dict from layers to lists of heads; got {shown(heads)}"
        )
    off: dict[str, tuple[Part, set[int]]] = {}
    for layer, given in heads.items():
        path, part = _attention(names, layer)
        wanted = list(given) if np.iterable(given) else [given]
        for head in wanted:
            if isinstance(head, bool) or not hasattr(head, "__index__"):
                raise TypeError(f"without_heads: heads must be integers; got {shown(head)}")
            if not part.open:
                _check_head(path, head, part.num_heads)
        name = joined(path, "heads")
        off.setdefault(name, (part, set()))[1].update(int(head) for head in wanted)
    return Change(
        names, [(name, _switched_off(name[: -len(".heads")], *given)) for name, given in off.items()]
    )


def _check_head(path: str, head: Any, count: int) -> None:
    if not -count <= head < count:
        raise IndexError(
            f"without_heads: heads of {path or 'the model'} must be from {-count} to {count - 1}; got {head}"
        )


def _attention(names: Names, layer: Any) -> tuple[str, Part]:
    attentions = names.attentions
    if isinstance(layer, str):
        for path, part in names.having("weights"):
            if path == layer:
                return path, part
        near = closest(layer, [path for path, _ in attentions])
        raise KeyError(
            f"without_heads: {layer!r} is the path of no attention"
            + (f"; did you mean {near}?" if near else "")
        )
    if isinstance(layer, bool) or not hasattr(layer, "__index__"):
        raise TypeError(f"without_heads: layers must be integers or paths; got {shown(layer)}")
    own = [(path, part) for path, part in attentions if not part.crosses]
    if not -len(own) <= layer < len(own):
        raise IndexError(
            f"without_heads: layers must be from {-len(own)} to {len(own) - 1}; got {layer}"
            if own
            else "without_heads: model must have a self-attention; got none"
        )
    return own[int(layer)]


def _switched_off(path: str, part: Part, heads: set[int]) -> Callable[[Tensor], Tensor]:
    def changed(x: Tensor) -> Tensor:
        has_heads = part.has_heads(len(x.shape))
        count = x.shape[-3] if has_heads else 1
        for head in heads:
            _check_head(path, head, count)
        off = {head % count for head in heads}
        on = np.array([head not in off for head in range(count)])
        return where(on[:, None, None] if has_heads else on.all(), x, 0.0).astype(x.dtype)  # type: ignore[no-any-return]

    return changed
