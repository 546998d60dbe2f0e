"""Recording what a model computes while it writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _core, models
from .._core import Module
from .._public import explained
from .._words.errors import count_of, shown
from ..functions.gradients import no_grad
from ..models.generation.rules import numbers
from ..models.generation.settings import search_of
from ..models.generation.steps import Generation, are_ragged, first_id, kept_by_padding, kept_ids
from .effects import outputs_of_blocks
from .names import Names, Part
from .recording import Computed, Recording, Weights
from .watching import Watcher

Key = tuple[int, str]


class Candidate(NamedTuple):
    """A token that could follow: its probability by the model, and in what was drawn from."""

    id: int
    probability: float
    drawn: float


class Step(NamedTuple):
    """A step of one text: its row in the batch, the chosen token, the likeliest ones, the batch's values."""

    row: int
    chosen: Candidate
    candidates: list[Candidate]
    values: dict[Key, Any]


class Rows(Computed):
    """Weights or scores of steps as those of one call, ``(B, H, N, K)``, computed when they are read."""

    def __init__(self, texts: list[list[Step]], key: Key, part: Part, sources: list[int]) -> None:
        steps = [[(Weights(step.values[key], part), step.row) for step in text] for text in texts]
        first = max(text[0][0].shape[3] for text in steps)
        self._steps = [
            (first - text[0][0].shape[3], text) for text in steps
        ]  # shorter prompts are at the right
        self._word, self._head_axis = key[1], part.head_axis
        longest = max(left + text[-1][0].shape[3] for left, text in self._steps)
        self.shape = (len(texts), steps[0][0][0].shape[1], max(map(len, texts)), longest)
        _, _, queries, keys = steps[0][0][0].shape
        self.crosses = part.crosses or (queries != keys and steps[0][0][0].offset == 0)
        self.offset = 0 if self.crosses else first - 1
        self._real = np.zeros((self.shape[0], longest), bool)
        for keys, (left, text), length in zip(self._real, self._steps, sources, strict=True):
            kept, row = text[-1]
            real = kept.real_keys()
            count = length if self.crosses and real is None else kept.shape[3]
            keys[left : left + count] = True if real is None else real[row]

    @property
    def _values(self) -> NDArray[Any]:  # type: ignore[override]
        steps = {id(kept): kept for _, text in self._steps for kept, _ in text}  # several texts share one
        read = {key: self._last(kept) for key, kept in steps.items()}
        found: NDArray[Any] = np.zeros(self.shape, next(iter(read.values())).dtype)
        for item, (left, text) in enumerate(self._steps):
            for at, (kept, row) in enumerate(text):
                last = read[id(kept)]
                found[item, :, at, left : left + last.shape[-1]] = last[row]
        found.flags.writeable = False
        return found if self._head_axis else found[:, 0]

    def _last(self, kept: Weights) -> NDArray[Any]:
        """Return the last query's row (N, H, Lk); that of a long prompt is read as a picture of one line."""
        _, _, queries, keys = kept.shape
        if self._word == "weights" and queries > 1:
            found = kept.image(size=(1, keys), rows=(queries - 1, queries))
        else:
            found = kept.scores() if self._word == "scores" else np.asarray(kept)
        return np.asarray(found).reshape(*kept.shape[:2], -1, keys)[:, :, -1]


class Writing(Recording):
    """What :func:`generate` kept: a :class:`Recording` whose rows are the steps of written texts.

    ``writing["layers.0.self_attn.weights"]`` is ``(B, H, N, K)``: where step `n` looked, from the last token that it
    read, over all tokens before the one that it wrote: those of the prompt, where shorter ones have zeros before them,
    and those that were written. Cross-attention is over the source. Queries, scores and heads have a row for each step,
    too, inputs and outputs are ``(B, N, M)``; what follows the end of a text is 0. What is outside the decoder of an
    encoder-decoder is as :func:`record` gives it.

    Attributes
    ----------
    ids : list of list of int
        What was written after each prompt, with the end if it was met.
    output : list
        What ``generate`` returned.
    prompts : list of ndarray
        The ids of each prompt, or source, without padding.
    start_id : int or None
        What the decoder of an encoder-decoder reads before what it wrote.
    chosen : list of list of Candidate
        Per text and step the token that was written.
    candidates : list of list of list of Candidate
        Per text and step the likeliest tokens, named tuples ``(id, probability, drawn)``: by the model, after the rules
        of its generation_config and before temperature, ``top_k``, ``top_p`` and other filters; and after all of these,
        which is what the choice was made from. Where nothing is drawn both are the same.
    """

    ids: list[list[int]]
    prompts: list[NDArray[np.int64]]
    start_id: int | None
    chosen: list[list[Candidate]]
    candidates: list[list[list[Candidate]]]
    _hidden: list[NDArray[Any]]

    def rows(self, name: str, item: int = 0) -> NDArray[Any]:
        """The weights at a name of one text without padding: ``(H, n, K)``, over its source, or over all it read."""
        kept = self[name]
        [value] = self._kept[name]
        whole: NDArray[Any] = np.asarray(kept).reshape(value.shape)[item, :, : len(self.ids[item])]
        found: NDArray[Any] = whole[..., value.real_keys()[item]]
        return found

    def looks(self, item: int = 0) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
        """The weights of one text, as :meth:`rows`: of layers over what was read, and of layers over the source."""
        read: list[NDArray[Any]] = []
        source: list[NDArray[Any]] = []
        for name, values in self._kept.items():
            crosses = getattr(values[0], "crosses", None)
            if crosses is not None and name.rpartition(".")[2] == "weights":
                (source if crosses else read).append(self.rows(name, item))
        return read, source

    @property
    def lens_layers(self) -> int:
        """How many layers :meth:`logit_lens` has; none of models without layers."""
        return len(self._hidden)

    def logit_lens(self, layer: int | None = None) -> NDArray[Any]:
        """What the model would write if its layers ended earlier: logits of each layer's output at each step.

        They are what the norm and the head make of it, before the rules of a generation_config.

        Parameters
        ----------
        layer : int, optional
            Of one layer, which takes less memory; negative ones count from the end.

        Returns
        -------
        ndarray
            ``(layers, B, N, V)``, or ``(B, N, V)``; those of the last layer are the model's own.
        """
        if not self._hidden:
            raise ValueError(
                f"logit_lens: model must have layers with attention; got {type(self._model).__name__}"
            )
        if layer is None:
            return np.stack([_read(self._model, hidden) for hidden in self._hidden])
        count = len(self._hidden)
        if isinstance(layer, bool) or not hasattr(layer, "__index__") or not -count <= layer < count:
            raise ValueError(f"logit_lens: layer must be from {-count} to {count - 1}; got {shown(layer)}")
        return _read(self._model, self._hidden[layer])

    def __repr__(self) -> str:
        written, read = (", ".join(str(len(row)) for row in rows) for rows in (self.ids, self.prompts))
        return f"Writing({written} tokens after {read})"


def _read(model: Any, hidden: NDArray[Any]) -> NDArray[Any]:
    """Return what follows the last layer (B, N, M): logits (B, N, V)."""
    body = getattr(model, "decoder", getattr(model, "body", model))
    with no_grad():
        x: Any = _core.tensor(hidden, hidden.dtype, False)
        norm = getattr(body, "norm", None)
        x = x if norm is None else norm(x)
        return np.asarray(model._logits(x) if hasattr(model, "_logits") else model.output(x))


@explained
def generate(
    model: Module,
    ids: Any,
    *,
    max_new_tokens: int,
    keep: str | Iterable[str] = ("weights",),
    top: int = 5,
    **options: Any,
) -> Writing:
    """What ``model.generate(ids, max_new_tokens=max_new_tokens, **options)`` writes, and values inside it at each step.

    The ids are the same, with the same seed too.

    Parameters
    ----------
    model : Module
        With a ``generate`` method, or an encoder and a decoder as in :func:`qkv.models.generate`, whose ``max_len`` is
        `max_new_tokens` here.
    ids : array_like of int, or list of list of int
        The prompts, or the sources of an encoder-decoder.
    max_new_tokens : int
    keep : iterable of str
        Words or patterns of names, as in :func:`record`; not ``keys`` and ``values``, which a cache holds. Weights take
        memory of the length of the text: queries of the steps, and the keys of the cache.
    top : int
        How many of the likeliest tokens of each step are kept.
    **options
        Those of ``generate``. Beams are refused: they change what was chosen.

    Returns
    -------
    Writing

    Raises
    ------
    ValueError
        If `keep` names nothing that has rows of steps, or texts are searched by beams.
    TypeError
        If the model is not a module or has nothing that writes.

    Examples
    --------
    >>> model = qkv.models.CausalLM(vocab_size=11, d_model=8, nhead=2, num_layers=3)
    >>> writing = qkv.look.generate(model, [[1, 2, 3, 4]], max_new_tokens=5)
    >>> writing["layers.0.self_attn.weights"].shape, len(writing.candidates[0][4])
    ((1, 2, 5, 8), 5)
    >>> writing.logit_lens(0).shape
    (1, 5, 11)
    """
    names = Names("generate", model)
    if not hasattr(model, "generate") and not (hasattr(model, "encoder") and hasattr(model, "decoder")):
        raise TypeError(f"generate: model must have a generate method; got {type(model).__name__}")
    count_of("generate", "max_new_tokens", max_new_tokens, 1)
    count_of("generate", "top", top, 1)
    pretrained = isinstance(model, Generation)
    method = options.get("method") or (search_of(model.generation, {}).method if pretrained else "greedy")
    if method == "beam":
        raise ValueError(
            'generate: method must be "greedy" or "sample" because beams change what was chosen; got "beam"'
            + ("" if options.get("method") else ", which is that of the generation_config")
        )
    wanted = names.selected(keep, None)
    for name in wanted:
        if names[name][1] in ("keys", "values"):
            raise ValueError(
                f"generate: keep must hold what has a row for each step because a cache holds keys and values; got "
                f"{name}"
            )
    blocks = outputs_of_blocks(names)
    watcher = Watcher()
    watcher.record_steps(top)
    keys = {id(part): key for key, part in enumerate(names.parts)}
    for name in dict.fromkeys((*wanted, *blocks)):
        part, word = names[name]
        watcher.record(keys[id(part)], part.module, word)
    limit = {"max_new_tokens" if pretrained else "max_len": max_new_tokens}
    watcher.enter()
    try:
        if hasattr(model, "generate"):
            output = model.generate(ids, **limit, **options)
        else:
            output = models.generate(model, ids, **limit, **options)  # type: ignore[arg-type]
    finally:
        watcher.leave()
    written = [[*found[0][0]] for found in output]
    texts, seen = _steps_of(watcher.seen(), written)
    prompts = _prompts(model, ids, options)
    lengths = [len(prompt) for prompt in prompts]
    kept: dict[str, list[Any]] = {}
    for name in wanted:
        part, word = names[name]
        key = keys[id(part)], word
        if hasattr(model, "decoder") and not name.startswith("decoder."):
            if key in seen:
                kept[name] = seen[key]
        elif all(key in step.values for text in texts for step in text):
            rows = (
                Rows(texts, key, part, lengths) if word in ("weights", "scores") else _rows(name, texts, key)
            )
            kept[name] = [rows]
    names.refuse_nothing(keep, wanted, kept)
    writing = Writing(names, kept, wanted, (model, (ids,), {**limit, **options}, output))
    writing.ids = written
    writing._hidden = [_rows(name, texts, (keys[id(names[name][0])], "output")) for name in blocks]
    writing.chosen = [[step.chosen for step in text] for text in texts]
    writing.candidates = [[step.candidates for step in text] for text in texts]
    writing.prompts = prompts
    writing.start_id = None
    if hasattr(model, "decoder"):
        writing.start_id = first_id(model) if pretrained else int(options["start_id"])
    return writing


def _steps_of(
    seen: list[tuple[int, str, Any]], written: list[list[int]]
) -> tuple[list[list[Step]], dict[Key, list[Any]]]:
    """Return the steps of each text, and all values by their keys."""
    texts: list[list[Step]] = [[] for _ in written]
    every: dict[Key, list[Any]] = {}
    values: dict[Key, Any] = {}
    begin = 0  # prompts of different lengths may be written one after the other
    for key, word, value in seen:
        if key >= 0:
            values[key, word] = value
            every.setdefault((key, word), []).append(value)
            continue
        numbers_of, *found = value
        while begin < len(texts) - 1 and len(texts[begin]) == len(written[begin]) and numbers_of[0] == 0:
            begin += 1
        for row, text in enumerate(numbers_of.tolist()):
            chosen, *candidates = [
                Candidate(*one) for one in zip(*(x[row].tolist() for x in found), strict=True)
            ]
            texts[begin + text].append(Step(row, chosen, candidates, values))
        values = {}
    return texts, every


def _rows(name: str, texts: list[list[Step]], key: Key) -> NDArray[Any]:
    """Return the last rows of a value at all steps, (B, ..., N, size)."""
    first = texts[0][0].values[key]
    ids = isinstance(first, np.ndarray) and first.ndim == 2 and first.dtype.kind == "i"
    if not isinstance(first, np.ndarray) or (first.ndim < 3 and not ids):
        raise ValueError(f"generate: keep must hold what has a row for each step; got {name}")
    shape = (1,) if ids else (*first.shape[1:-2], first.shape[-1])
    found = np.zeros((len(texts), *shape[:-1], max(map(len, texts)), shape[-1]), first.dtype)
    for item, text in enumerate(texts):
        for at, step in enumerate(text):
            value = step.values[key][step.row]
            found[item, ..., at, :] = value[-1:] if ids else value[..., -1, :]
    found.flags.writeable = False
    return found[..., 0] if ids else found


def _prompts(model: Any, ids: Any, options: dict[str, Any]) -> list[NDArray[np.int64]]:
    """Return the ids of each prompt that are no padding."""
    if are_ragged(ids):
        return [np.asarray(row) for row in ids]
    given = _core.as_numpy(ids, "generate", "ids")
    kept = np.ones(given.shape, bool)
    if options.get("attention_mask") is not None:
        kept = kept_ids(options["attention_mask"], given.shape)
    elif options.get("src_valid_lens") is not None:
        kept = np.arange(given.shape[1]) < np.asarray(options["src_valid_lens"])[:, None]
    elif isinstance(model, models.Transformer):
        kept = given != model._config()["pad_id"]
    elif isinstance(model, models.PretrainedCausalLM):
        entries = model.generation
        padding, ends = (
            numbers(entries.get("pad_token_id")),
            options.get("end_id", entries.get("eos_token_id")),
        )
        found = kept_by_padding(given, padding, numbers(ends))
        kept = kept if found is None else found
    return [row[real] for row, real in zip(given, kept, strict=True)]
