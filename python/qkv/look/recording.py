"""Recording what a model computes."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._core import Module
from .._numpy import without_history
from .._public import explained
from .._words.errors import closest
from ..functions.image import picture
from .names import Names, Part, joined
from .watching import Watcher


class Recording:
    """What :func:`record` kept of a call.

    ``recording[name]`` is a read-only array (a Tensor with ``keep_graph``), or a list of them where the module was
    called more than once. Weights and scores of the fused attention are computed when they are read, and when a
    recording is pickled or copied deep, which takes the model along and leaves the history of Tensors out.

    Attributes
    ----------
    output : object
        What the call returned.
    """

    def __init__(
        self, names: Names, kept: dict[str, list[Any]], wanted: list[str], call: tuple[Any, ...]
    ) -> None:
        self._names, self._kept, self._wanted = names, kept, wanted
        self._model, self._inputs, self._keywords, self.output = call

    def __getstate__(self) -> dict[str, Any]:
        kept = {
            name: [Computed(v, name) if _is_computed(v) else v for v in values]
            for name, values in self._kept.items()
        }
        return {name: without_history(value) for name, value in {**self.__dict__, "_kept": kept}.items()}

    def __copy__(self) -> Recording:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def names(self) -> list[str]:
        """Names of what was kept, in the order of the model's ``named_modules()``."""
        return list(self._kept)

    def __getitem__(self, name: str) -> Any:
        if name not in self._kept:
            raise KeyError(self._missing(name))
        values = [_computed(value, name) for value in self._kept[name]]
        return values[0] if len(values) == 1 else values

    def all(self, pattern: str) -> list[Any]:
        """Values whose whole names match a pattern with ``* ? [...]``, in the order of :meth:`names`.

        Raises
        ------
        KeyError
            If no name matches.
        """
        found = [name for name in self._kept if fnmatchcase(name, pattern)]
        if not found:
            near = closest(pattern, self._kept)
            raise KeyError(
                f"Recording: no name that was kept matches {pattern!r}"
                + (f"; did you mean {near}?" if near else f"; kept are {_listed(self._kept)}")
            )
        return [self[name] for name in found]

    def image(
        self,
        path: str,
        *,
        size: tuple[int, int] = (512, 512),
        reduce: str = "max",
        rows: tuple[int, int] | None = None,
        columns: tuple[int, int] | None = None,
    ) -> Any:
        """The weights of the attention at `path`, at the size of a picture: see :func:`qkv.attention_image`.

        Returns
        -------
        ndarray, (B, H, Hpx, Wpx)
            In memory that grows with the length alone. B and H are 1 where the weights have no such axis.
        """
        name = joined(path, "weights")
        if name not in self._kept:
            raise KeyError(self._missing(name))
        options: dict[str, Any] = {"size": size, "reduce": reduce, "rows": rows, "columns": columns}
        images = [weights.image(**options) for weights in self._weights_of(name)]
        return images[0] if len(images) == 1 else images

    def layers(self) -> list[Weights]:
        """The weights of all calls of attentions, each ``(B, H, Lq, Lk)``, to be computed when they are read as arrays.

        Raises
        ------
        ValueError
            If no weights were kept.
        """
        return [weights for _, _, calls in self._attentions() for weights in calls]

    def _attentions(self) -> Iterator[tuple[str, Part, list[Weights]]]:
        names = [name for name in self._kept if name.rpartition(".")[2] == "weights"]
        if not names:
            raise ValueError(
                'Recording: weights must have been kept, as by record(..., keep=("weights",)); got none'
            )
        for name in names:
            yield name.rpartition(".")[0], self._names[name][0], self._weights_of(name)

    def _weights_of(self, name: str) -> list[Weights]:
        return [Weights(value, self._names[name][0]) for value in self._kept[name]]

    def _part(self, paths: Collection[str]) -> Recording:
        """The same call, of some of its attentions."""
        part = copy.copy(self)
        part._kept = {n: kept for n, kept in self._kept.items() if n.rpartition(".")[0] in paths}
        return part

    def __contains__(self, name: str) -> bool:
        return name in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Any:
        return iter(self._kept)

    def __repr__(self) -> str:
        return f"Recording({_listed(self._kept)})"

    def _missing(self, name: Any) -> str:
        if name in self._wanted:
            return f"Recording: {name} has no value because its module was not called"
        if isinstance(name, str) and name in self._names:
            word = name.rpartition(".")[2]
            return f'Recording: {name} was not kept; record it with keep=("{word}",)'
        return f"Recording: {name!r} is no name of the model{self._names.nearest(str(name))}"


class Computed:
    """What the core keeps of an attention, with its weights or scores in memory: in a recording that was pickled."""

    def __init__(self, kept: Any, name: str) -> None:
        self._values: NDArray[Any] = np.array(_computed(kept, name))
        self._values.flags.writeable = False
        self.shape, self.offset, self._real = tuple(kept.shape), kept.offset, kept.real_keys()
        self.crosses = getattr(kept, "crosses", None)  # of rows of steps

    def weights(self) -> NDArray[Any]:
        return self._values

    scores = weights

    def real_keys(self) -> Any:
        return self._real

    def image(self, about: Any) -> Any:
        return _core.image_of(self._values.reshape(self.shape), about)

    def measures(self, *call: Any) -> Any:
        return _core.measures_of(self._values.reshape(self.shape), *call)


class Weights:
    """The weights of one call of an attention, ``(B, H, Lq, Lk)``: stored, or computed when they are read."""

    def __init__(self, value: Any, part: Part) -> None:
        kept = isinstance(value, (_core.KeptAttention, Computed))
        weights: Any = value if kept else by_heads(value, part)
        self._kept: Any = weights if kept else None
        self._stored: Any = None if kept else weights
        self._part = part
        self.shape: tuple[int, ...] = tuple(weights.shape)
        self.ndim = len(self.shape)
        self.offset = 0 if self._kept is None else self._kept.offset
        self.cross = part.crosses or (self.shape[2] != self.shape[3] and self.offset == 0)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        found = self._stored if self._kept is None else by_heads(self._kept.weights(), self._part)
        return np.asarray(found, dtype)

    def __getitem__(self, index: Any) -> Any:
        """Return what the array has there. Of one head, ``[b, h]`` or ``[b, h, begin:end]``, no other is computed."""
        places = index if isinstance(index, tuple) else (index,)
        rows = places[2] if len(places) > 2 else slice(None)
        of_head = len(places) > 1 and all(isinstance(i, (int, np.integer)) for i in places[:2])
        if not of_head or not isinstance(self._kept, _core.KeptAttention) or not isinstance(rows, slice):
            return np.asarray(self)[index]
        batch, head = (range(n)[i] for n, i in zip(self.shape, places[:2], strict=False))
        taken = range(self.shape[2])[rows]
        low, high = (min(taken), max(taken) + 1) if taken else (0, 0)
        of_keys = slice(None), *places[3:]
        return self._kept.rows(batch, head, low, high)[:: taken.step][of_keys]

    def image(
        self,
        *,
        size: tuple[int, int],
        reduce: str = "max",
        rows: tuple[int, int] | None = None,
        columns: tuple[int, int] | None = None,
    ) -> Any:
        """At the size of a picture: see :meth:`Recording.image`."""
        about = picture(size, reduce, rows, columns)
        if self._kept is not None:
            return self._kept.image(about)
        return _core.image_of(np.asarray(self._stored), about)

    @property
    def real(self) -> Any:
        """The real queries ``(B, Lq)``, or None: all."""
        keys = self.real_keys()
        return None if keys is None else keys[:, self.offset : self.offset + self.shape[2]]

    def real_keys(self) -> Any:
        """The real keys ``(B, Lk)``, or None: all."""
        return None if self._kept is None else self._kept.real_keys()

    def scores(self) -> Any:
        """The scores, of a value of that name."""
        return self._stored if self._kept is None else self._kept.scores()

    def measured(self, earlier: Any, separators: Any, real: Any) -> Any:
        """Sums and counts ``(2, measures, H)``; padding does not count as a separator."""
        keys = self.real_keys()
        if separators is not None and keys is not None:
            separators = separators & keys
        call = earlier, separators, real, self.offset, self.cross
        if self._kept is not None:
            return self._kept.measures(*call)
        return _core.measures_of(np.asarray(self._stored), *call)


def _listed(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed) if len(listed) <= 4 else f"{', '.join(listed[:3])}, ... {len(listed)} names"


def _is_computed(value: Any) -> bool:
    """Whether its weights or scores are not in memory yet."""
    return isinstance(value, (_core.KeptAttention, Computed)) and type(value) is not Computed


def _computed(value: Any, name: str) -> Any:
    if not isinstance(value, (_core.KeptAttention, Computed)):
        return value
    return value.scores() if name.endswith("scores") else value.weights()


def by_heads(weights: Any, part: Part) -> Any:
    """Return values ``(B, H, Lq, Lk)``, whichever axes are missing; more leading ones become one."""
    if not part.has_heads(len(weights.shape)):
        weights = weights[..., None, :, :]
    return weights if len(weights.shape) == 4 else weights.reshape(-1, *weights.shape[-3:])


@explained
def record(
    model: Module,
    *inputs: Any,
    keep: str | Iterable[str] = ("weights",),
    layers: int | Sequence[int] | None = None,
    keep_graph: bool = False,
    **keywords: Any,
) -> Recording:
    """``model(*inputs, **keywords)``, and values inside it.

    Parameters
    ----------
    model : Module
        Of `qkv.nn`, `qkv.models` or `qkv.torch`, or of your own.
    *inputs, **keywords
        Those of its call.
    keep : iterable of str
        Words (``input queries keys values scores weights heads output``) or patterns of whole names, such as
        ``"layers.0.*"``. Nothing of size ``(Lq, Lk)`` is stored for `scores` and `weights` of the fused attention. A
        layer with ``comm`` has those of this rank's rows, and no `scores` and `weights`. A module of one's own in
        `qkv.torch` that calls ``F.scaled_dot_product_attention`` has these words, too; their values are stored.
    layers : sequence of int, optional
        Keep only names whose first number is one of these; negative ones count from the end.
    keep_graph : bool
        Values are Tensors on the way to the output, for :func:`qkv.grad`; the output is then equal up to rounding
        where `scores` or `weights` are kept. Without, it has the same bits as without a recording.

    Returns
    -------
    Recording

    Raises
    ------
    ValueError
        If `keep` or `layers` name nothing of the model, or nothing that this call computes, or `scores` or `weights`
        of a layer with ``comm``.
    TypeError
        If the model is not a module.

    Examples
    --------
    >>> model = qkv.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
    >>> recording = qkv.look.record(model, np.ones((3, 8)), keep=("queries", "weights"))
    >>> recording.names()
    ['self_attn.queries', 'self_attn.weights']
    >>> recording["self_attn.weights"].shape
    (2, 3, 3)
    """
    names = Names("record", model)
    wanted = names.selected(keep, layers)
    watcher = Watcher(keep_graph)
    keys = {id(part): key for key, part in enumerate(names.parts)}
    for name in wanted:
        part, word = names[name]
        watcher.record(keys[id(part)], part.module, word)
    watcher.enter()
    try:
        output = model(*inputs, **keywords)
    finally:
        watcher.leave()
    seen: dict[tuple[int, str], list[Any]] = {}
    for key, word, value in watcher.seen():
        seen.setdefault((key, word), []).append(value)
    kept = {}
    for name in wanted:
        part, word = names[name]
        if values := seen.get((keys[id(part)], word)):
            kept[name] = values
    names.refuse_nothing(keep, wanted, kept)
    return Recording(names, kept, wanted, (model, inputs, keywords, output))
