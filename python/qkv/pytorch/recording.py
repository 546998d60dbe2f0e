"""Recordings of models of PyTorch whose attention goes through qkv."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .. import _core
from .._public import explained
from .._words.errors import closest, shown
from ..look.names import WORDS, Names, Part, joined
from ..look.recording import Recording
from .memory import shared
from .variants import unexpanded

#: Those that record on this thread.
recorders: ContextVar[tuple[Recorder, ...]] = ContextVar("recorders", default=())

_WORDS = "queries", "keys", "values", "weights", "heads"


class _Part(Part):
    """A module whose attention went through qkv."""

    def __init__(self, path: str, num_heads: int) -> None:
        self.module, self.paths, self.words, self.num_heads = None, [path], _WORDS, num_heads
        self.open, self.attention, self.head_axis = False, True, True

    @property
    def crosses(self) -> bool:
        path = self.paths[0].lower()
        return any(word in path for word in ("cross", "encoder_attn", "encdec"))


class _Names(Names):
    """The names of the attentions that were called."""

    def __init__(self) -> None:
        self.operation, self.parts = "record", []
        self._of: dict[str, tuple[Part, str]] = {}

    def add(self, part: _Part) -> None:
        self.parts.append(part)
        for word in part.words:
            self._of[joined(part.paths[0], word)] = part, word


class Recorder:
    """Fills a recording while its model is called."""

    def __init__(self, model: torch.nn.Module, patterns: list[str]) -> None:
        self._paths = {id(module): path for path, module in model.named_modules()}
        self._patterns, self._names, self._calls = patterns, _Names(), 0
        self._kept: dict[str, list[Any]] = {}
        self._copies: dict[Any, tuple[torch.Tensor, _core.Tensor]] = {}
        self.recording = Recording(self._names, self._kept, [], (None, (), {}, None))

    def keep(
        self,
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        output: torch.Tensor,
        options: dict[str, Any],
    ) -> None:
        """Keep what is asked for of one call of an attention."""
        if (path := self._paths.get(id(module))) is None:
            return
        if joined(path, "weights") not in self._names:
            self._names.add(_Part(path, query.shape[1]))
        for word, t in zip(_WORDS, (query, key, value, None, output), strict=True):
            name = joined(path, word)
            if not any(pattern == word or fnmatchcase(name, pattern) for pattern in self._patterns):
                continue
            if name not in self._kept:
                self._kept[name] = []
                self._in_order()
            if t is None:
                still = {name: self._copy(x) if torch.is_tensor(x) else x for name, x in options.items()}
                self._kept[name].append(_core.kept_attention(shared(query), shared(key), still))
            else:
                self._kept[name].append(_array(t))

    def _in_order(self) -> None:
        """Sort what is kept as the model lists its modules."""
        place = {path: i for i, path in enumerate(self._paths.values())}
        names = sorted(
            self._kept, key=lambda n: (place[self._names[n][0].paths[0]], WORDS.index(self._names[n][1]))
        )
        kept = {name: self._kept[name] for name in names}
        self._kept.clear()
        self._kept.update(kept)

    def _copy(self, t: torch.Tensor) -> _core.Tensor:
        """Return a copy of a tensor as it is now, one for all layers that get it."""
        version = None if t.is_inference() else t._version
        key = t.data_ptr(), t.shape, t.stride(), version
        if key not in self._copies:
            # t lives on, so that no other tensor is where it is.
            self._copies[key] = t, _core.tensor(shared(unexpanded(t)))
        return self._copies[key][1]

    def called(self, model: Any, inputs: tuple[Any, ...], keywords: dict[str, Any], output: Any) -> None:
        """Keep the output of the model's last call, and the ids of the only one."""
        self._calls += 1
        self.recording.output = output
        self.recording._inputs = _ids(model, inputs, keywords) if self._calls == 1 else ()

    def refuse_nothing(self) -> None:
        """Raise if nothing was recorded, or a pattern matched nothing."""
        if not self._names.parts:
            raise ValueError(
                "record: model must call attention that goes through qkv; got none; call qkv.pytorch.register() and "
                'make the model with attn_implementation="qkv"'
            )
        for pattern in self._patterns:
            if not self._names.matching(pattern):
                hint = closest(pattern, [*_WORDS, *self._names])
                rest = f"; did you mean {hint}?" if hint else ""
                raise ValueError(
                    f"record: keep must hold words ({', '.join(_WORDS)}) or patterns of names whose attention went "
                    f"through qkv; got {pattern!r}{rest}"
                )


def _array(t: torch.Tensor) -> NDArray[Any]:
    array = np.array(shared(t))
    array.flags.writeable = False
    return array


def _ids(model: Any, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """Return the ids of a call, (B, L), of the encoder and of the decoder: whose tokens are which."""
    own = [keywords.get("input_ids", inputs[0] if inputs else None), keywords.get("decoder_input_ids")]
    found = [x for x in own if isinstance(x, torch.Tensor) and not x.is_floating_point()]
    several = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
    return tuple(x.numpy(force=True).copy() for x in found) if len(found) == 1 + bool(several) else ()


@explained
def record(
    model: torch.nn.Module, keep: str | Iterable[str] = ("weights",)
) -> AbstractContextManager[Recording]:
    """Record the attentions of a model that go through qkv, by the paths of their modules.

    Parameters
    ----------
    model : torch.nn.Module
        A model of transformers made with ``attn_implementation="qkv"``, see :func:`register`; or one that holds it.
    keep : str or iterable of str
        Words (``queries keys values weights heads``) or patterns of whole names, such as ``"*.layers.0.*"``.

    Returns
    -------
    context manager
        Of a :class:`qkv.look.Recording` of the calls inside, on this thread. ``look.measures``, ``look.rollout``,
        ``plot.head_view`` and the other views take it. Queries, keys and one copy of a mask are kept; weights are
        computed when they are read, as they are before dropout. A module that is called several times gives a list.

    Raises
    ------
    TypeError
        If the model is not a ``torch.nn.Module``, or `keep` does not hold strings.
    ValueError
        If `keep` holds a word that is not recorded; at the end, if no attention went through qkv, or a pattern matches
        no name.

    Examples
    --------
    >>> qkv.pytorch.register()  # doctest: +SKIP
    >>> model = AutoModel.from_pretrained("gpt2", attn_implementation="qkv")  # doctest: +SKIP
    >>> with qkv.pytorch.record(model) as recording:  # doctest: +SKIP
    ...     model(ids)
    >>> qkv.look.measures(recording).previous  # doctest: +SKIP
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"record: model must be a torch.nn.Module; got {shown(model)}")
    patterns = [keep] if isinstance(keep, str) else list(keep)
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise TypeError(f"record: keep must hold words or patterns; got {shown(pattern)}")
        if pattern in WORDS and pattern not in _WORDS:
            raise ValueError(
                f"record: keep must hold words ({', '.join(_WORDS)}) or patterns of names because attention alone is "
                f"recorded; got {pattern!r}"
            )
    return _recorded(Recorder(model, patterns), model)


@contextmanager
def _recorded(recorder: Recorder, model: torch.nn.Module) -> Iterator[Recording]:
    hook = model.register_forward_hook(recorder.called, with_kwargs=True)
    token = recorders.set((*recorders.get(), recorder))
    try:
        yield recorder.recording
    finally:
        recorders.reset(token)
        hook.remove()
    recorder.refuse_nothing()
