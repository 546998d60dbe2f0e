"""Values of attentions in modules of qkv.torch, as qkv.look sees and changes them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from ... import _core
from ...functions.normalizers import masked_softmax
from ...look.watching import moved, wanted
from .. import _dtypes
from .._creation import ones
from .._functions import where
from .._grad_mode import no_grad
from .._tensor import Tensor

_OF_THREAD = threading.local()
_WORDS = ("queries", "keys", "values", "scores", "weights", "heads")


@contextmanager
def calling(module) -> Iterator[None]:
    """While a module is called, functions of attention are its own."""
    outer = getattr(_OF_THREAD, "module", None)
    _OF_THREAD.module = module
    try:
        yield
    finally:
        _OF_THREAD.module = outer


def watched_module():
    """The module that is called now, if an attention in it is looked at."""
    module = getattr(_OF_THREAD, "module", None) if _core.observed() else None
    return module if module is not None and wanted(module, *_WORDS) else None


def watched(module, word: str, x, lead: tuple[int, ...] | None = None):
    """A value as those who look leave it; they see the axes `lead` in the place of its first one."""
    if not wanted(module, word):
        return x
    seen = _core.watched(module, word, x if lead is None else x.reshape(*lead, *x.shape[1:]))
    return _tensor(seen).reshape(x.shape)


def _tensor(x):
    return x if isinstance(x, Tensor) else _core.instance_of(Tensor, x)


def attention(
    module, inputs, options: dict[str, Any], drop: Callable[[Any], Any], fused: Callable[[Any], Any]
):
    """``fused(inputs)``, an attention of queries, keys and values, with all its values seen."""
    seen = partial(watched, module)
    words = ("queries", "keys", "values")
    inputs = tuple(seen(word, x) for word, x in zip(words, inputs, strict=True))
    return seen("heads", with_weights(module, inputs, options, drop, fused, seen))


def with_weights(module, inputs, options: dict[str, Any], drop, fused: Callable[[Any], Any], seen):
    """The same; ``seen(word, value)`` is called for scores and weights alone.

    Where they are only recorded the output is the fused attention's.
    """
    if not wanted(module, "scores", "weights"):
        return fused(inputs)
    query, key, value = inputs
    if not moved(module, "scores", "weights"):
        with no_grad():
            seen("weights", _weights(seen("scores", _scores(query, key, **options))))
        return fused(inputs)
    weights = drop(seen("weights", _weights(seen("scores", _scores(query, key, **options)))))
    return weights @ _repeated(value, query, options["enable_gqa"])


def _repeated(x, query, enable_gqa: bool):
    return x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) if enable_gqa else x


def _scores(query, key, attn_mask=None, is_causal: bool = False, scale=None, enable_gqa: bool = False):
    """``scale q k^T`` with the mask: -inf where a key is excluded."""
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query @ _repeated(key, query, enable_gqa).transpose(-2, -1)) * scale
    if is_causal:
        scores = where(ones(*scores.shape[-2:]).tril() > 0, scores, -math.inf)
    if attn_mask is None:
        return scores
    return where(attn_mask, scores, -math.inf) if attn_mask.dtype is _dtypes.bool_ else scores + attn_mask


def _weights(scores):
    """Softmax, as the fused attention computes it: a row without allowed keys becomes zeros."""
    return _tensor(masked_softmax(scores))
