"""Texts that are continued: what causal models and encoder-decoders of any architecture generate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ... import _core
from ..._words.errors import count_of, shown
from ...data import pad
from ...functions.gradients import no_grad
from ...functions.normalizers import log_softmax
from ...nn.record import no_attention_record
from .beams import Beams
from .beams import search as beam_search
from .filters import keep
from .rules import Rules, numbers
from .settings import BEAMS, Search, check_entries, check_search, search_of


class Steps:
    """Sequences that are continued together, with the ids that each has so far.

    Parameters
    ----------
    ids : array
        ``(B, T)``: what is before the first new id.
    scores : callable
        From the last ids ``(N,)`` to the scores ``(N, V)`` of the next.
    reorder : callable
        Row i continues what was row ``indices[i]``.
    rules : Rules
    """

    def __init__(
        self,
        ids: np.ndarray,
        scores: Callable[[np.ndarray], np.ndarray],
        reorder: Callable[[np.ndarray], Any],
        rules: Rules,
    ) -> None:
        self.ids, self.scores, self.reorder_model, self.rules = ids, scores, reorder, rules
        self.started = False

    def step(self, tokens: Any, *, normalised: bool = False) -> np.ndarray:
        """Return the scores of what follows, by the rules. The first tokens are those that are in `ids` already.

        Rules change log-probabilities if `normalised`, which is so with beams in Hugging Face's libraries.
        """
        tokens = np.asarray(tokens)
        if self.started:
            self.ids = np.concatenate([self.ids, tokens[:, None]], axis=1)
        self.started = True
        scores = self.scores(tokens)
        return self.rules.apply(self.ids, _log_probs(scores) if normalised else scores)

    def reorder(self, indices: Any) -> None:
        """Continue with other rows."""
        chosen = np.asarray(indices)
        self.ids = self.ids[chosen]
        self.rules.reorder(chosen)
        self.reorder_model(chosen)


class Generation:
    """Generation for models with ``_begin`` and ``generation``, a generation_config's entries."""

    if TYPE_CHECKING:

        @property
        def generation(self) -> dict[str, Any]: ...

    def generate(
        self,
        input_ids: Any,
        *,
        attention_mask: Any = None,
        max_new_tokens: int | None = None,
        method: Literal["greedy", "beam", "sample"] | None = None,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        early_stopping: bool | Literal["never"] | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        end_id: int | list[int] | None = None,
        on_token: Callable[[np.ndarray], Any] | None = None,
    ) -> list[list[tuple[list[int], float, Any]]]:
        """Return what follows each prompt, or what the decoder makes of each text.

        Parameters
        ----------
        input_ids : array_like of int, or list of list of int
            ``(B, L)``: padded prompts with an ``attention_mask``, or a list of prompts of any lengths.
        attention_mask : array_like, optional
            ``(B, L)``: ones where an id counts, zeros elsewhere, on either side. Positions count those alone. Without
            it a prompt that is continued has zeros at ``pad_token_id``, unless that ends texts, too.
        max_new_tokens : int, optional
            That of the generation_config if not given, or what its ``max_length`` leaves.
        method : {"greedy", "beam", "sample"}, optional
            If not given, what ``num_beams`` and ``do_sample`` of the generation_config say; "greedy" without them.
        beam_size, length_penalty, temperature, top_k, top_p
            As in :func:`generate`; those of the generation_config if not given.
        early_stopping : bool or "never", optional
            True ends a search with ``beam_size`` texts; False, the default, when the best of the others would not be
            among them at its length; "never" when it could not be at any.
        min_p : float, optional
            Sampling: among the words with at least this share of the likeliest one's probability.
        end_id : int or list of int, optional
            Ids that end a text; those of the generation_config if not given.
        on_token : callable, optional
            Is called with the ids ``(B,)`` of each step, as soon as they are chosen, ends too; after its end a text
            has padding. Not with beams. What it raises ends the generation. Texts are decoded from all ids so far: a
            character may be parts of several.

        Returns
        -------
        list of list of (ids, score, None)
            Per prompt its continuations, best first: ids without the prompt, with the end if it was met, and
            ``log p / length ** length_penalty``.

        Raises
        ------
        ValueError
            If a prompt is empty or too long for the positions of the model, ``method`` does not use an option that is
            given, or the generation_config asks for a rule that qkv does not have.

        Notes
        -----
        ``generation_config.json`` is followed: its method and numbers, ends, forced, suppressed and bad words,
        repetitions, shortest lengths; what the caller says is done instead. Greedy decoding and beams return what
        Hugging Face's ``generate`` returns, token by token: finished texts leave their place in the beam to others. A
        generation_config that says ``num_beams`` or ``do_sample`` has Hugging Face's defaults beside it, so
        ``length_penalty=1`` and ``top_k=50``; a ``method`` that the caller names has those of :func:`generate`.

        Examples
        --------
        >>> entries = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 30}
        >>> entries |= {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 40}
        >>> model = qkv.models.from_config(entries).eval()
        >>> [(ids, score, attention)] = model.generate([[3, 1, 4]], max_new_tokens=5)[0]
        >>> len(ids) <= 5
        True
        """
        model: Any = self
        if not model.writes:
            raise TypeError(
                f"generate: model must have a head because its scores choose words; got {model!r}, "
                + (
                    f"whose file has no {model.lacking}"
                    if model.lacking
                    else "whose entry architectures names none"
                )
            )
        if attention_mask is None and are_ragged(input_ids):
            input_ids, lens = pad(input_ids)
            attention_mask = np.arange(input_ids.shape[1]) < lens[:, None]
        prompts = _core.as_numpy(input_ids, "generate", "input_ids")
        if prompts.ndim != 2 or prompts.shape[1] < 1 or prompts.dtype.kind not in "iu":
            raise ValueError(
                f"generate: input_ids must be integers (B, L) with L at least 1; got {prompts.dtype} {prompts.shape}"
            )
        entries = self.generation
        check_entries(entries)
        if max_new_tokens is None:
            before = prompts.shape[1] if model.architecture.kind == "causal" else 1
            max_new_tokens = most_tokens(entries, before)
        count_of("generate", "max_new_tokens", max_new_tokens, 1)
        options: dict[str, Any] = {"method": method, "beam_size": beam_size, "length_penalty": length_penalty}
        options |= {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        how = search_of(entries, {**options, "early_stopping": early_stopping, "min_p": min_p})
        if on_token is not None and how.method == "beam":
            raise ValueError(
                "generate: on_token must be None with method='beam' because beams change what was chosen"
            )
        if on_token is not None and not callable(on_token):
            raise TypeError(f"generate: on_token must be a function of ids (B,); got {shown(on_token)}")
        if end_id is None:
            ends = numbers(entries.get("eos_token_id"))
        else:
            given = list(end_id) if isinstance(end_id, (list, tuple, np.ndarray)) else [end_id]
            ends = [_core.token(end, "generate", "end_id") for end in given]
        if attention_mask is None and model.architecture.kind == "causal":
            attention_mask = kept_by_padding(prompts, numbers(entries.get("pad_token_id")), ends)
        mask = None if attention_mask is None else kept_ids(attention_mask, prompts.shape)
        padding = numbers(entries.get("pad_token_id")) or ends or [0]

        def tell(tokens: np.ndarray, told: Any = on_token) -> None:
            told(np.where(tokens < 0, padding[0], tokens))

        begin = partial(model._begin, prompts.astype(np.int64), mask, max_new_tokens, ends)
        training = model.training
        model.eval()
        try:
            with no_grad(), no_attention_record():
                return _found(begin, len(prompts), how, ends, max_new_tokens, on_token and tell)
        finally:
            model.train(training)

    def _rules(self, ids: np.ndarray, more: int, ends: list[int], **facts: Any) -> Rules:
        return Rules(self.generation, ends, ids.shape[1], ids.shape[1] + more, **facts)


def _log_probs(scores: np.ndarray) -> np.ndarray:
    return np.asarray(log_softmax(scores), np.float64)


def _found(
    begin: Callable[[], Steps], count: int, how: Search, ends: list[int], most: int, told: Any
) -> list[list[tuple[list[int], float, Any]]]:
    """Search in the way that was chosen."""
    options: dict[str, Any] = {"end_id": ends or None, "method": how.method, "beam_size": how.beam_size}
    options |= {"length_penalty": how.length_penalty, "max_len": most}
    drawn: dict[str, Any] = {"temperature": how.temperature, "top_k": how.top_k, "top_p": how.top_p}
    none = np.zeros(0, np.int64)
    _core.generate_steps(_log_probs, _log_probs, none, **options, **drawn)  # checks options, begins nothing
    check_search(how)
    steps = begin()
    first = steps.ids[:, -1]
    if how.method == "beam":

        def log_probs(tokens: np.ndarray) -> np.ndarray:
            scores = steps.step(tokens, normalised=True)
            return _log_probs(scores) if how.renormalize else scores

        one = (how.beam_size or BEAMS, ends, how.length_penalty, how.early_stopping, most)
        return beam_search(log_probs, steps.reorder, first, [Beams(*one) for _ in range(count)])
    if not how.filters:
        return _core.generate_steps(steps.step, steps.reorder, first, **options, **drawn, on_token=told)

    def kept(tokens: np.ndarray) -> np.ndarray:
        return keep(_log_probs(steps.step(tokens)), how.temperature, how.top_k, how.top_p, how.filters)

    options["temperature"] = how.temperature  # scores stay those of all words
    return _core.beam_search_steps(kept, steps.reorder, first, **options, on_token=told)


def most_tokens(entries: Mapping[str, Any], before: int) -> int:
    """Return how many tokens a generation_config allows after those `before`."""
    if (new := entries.get("max_new_tokens")) is not None:
        return int(new)
    whole = entries.get("max_length")
    if whole is None:
        raise TypeError("generate: max_new_tokens must be given because generation_config has none; got None")
    if whole <= before:
        raise ValueError(
            f"generate: max_new_tokens must be given because max_length of generation_config leaves none after "
            f"{before} ids; got max_length = {whole}"
        )
    return int(whole) - before


def kept_by_padding(prompts: np.ndarray, padding: list[int], ends: list[int]) -> np.ndarray | None:
    """Return what a mask keeps of prompts that hold padding; None where there is none, or it ends texts, too."""
    if not padding or padding[0] in ends or not (prompts == padding[0]).any():
        return None
    return np.asarray(prompts != padding[0])


def are_ragged(ids: Any) -> bool:
    rows = ids if isinstance(ids, (list, tuple)) else []
    return all(hasattr(row, "__len__") for row in rows) and len({len(row) for row in rows}) > 1


def kept_ids(attention_mask: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return what a mask of ids keeps as booleans."""
    given = _core.as_numpy(attention_mask, "generate", "attention_mask")
    if given.shape != shape:
        raise ValueError(f"generate: attention_mask must be {shape} as input_ids; got {given.shape}")
    mask: np.ndarray = given == 1
    if not (mask | (given == 0)).all():
        raise ValueError("generate: attention_mask must hold 1 for ids that count and 0 for the others")
    if not mask.any(axis=1).all():
        raise ValueError(
            "generate: attention_mask must keep an id of each prompt; "
            f"got none in row {int(mask.any(axis=1).argmin())}"
        )
    return mask


def positions_of(model: Any, body: str) -> int | None:
    """Return the length of a body's table of positions, where it has one."""
    options = model.architecture.bodies(model.config)[body]
    count = int(options.get("max_positions") or 0) - int(options.get("position_offset", 0))
    return count if count > 0 else None


def check_positions(model: Any, body: str, what: str, before: int, more: int) -> None:
    """Refuse what is longer than the table of positions. The last id is not read."""
    count = positions_of(model, body)
    if count is not None and before + more - 1 > count:
        raise ValueError(
            f"generate: {what} must be at most {count} positions together; got {before} and {more}"
        )


def continued(model: Any, ids: np.ndarray, mask: np.ndarray | None, more: int, ends: list[int]) -> Steps:
    """Begin to continue prompts with a model that only decodes."""
    count = ids.shape[1] if mask is None else int(mask.sum(axis=1).max())
    check_positions(model, "body", "input_ids and max_new_tokens", count, more)
    if mask is not None:  # what is continued is the last id: padding moves to the left
        order = np.argsort(mask, axis=1, kind="stable")
        ids, mask = np.take_along_axis(ids, order, 1), np.take_along_axis(mask, order, 1)
    cache = _core.ModelCache(model.config.num_hidden_layers)
    kept = None if mask is None or mask.all() else mask

    def scores(tokens: np.ndarray) -> np.ndarray:
        nonlocal kept
        new = tokens[:, None] if len(cache) else ids
        if kept is not None and len(cache):
            kept = np.concatenate([kept, np.ones((len(kept), 1), bool)], axis=1)
        hidden = model.body(new, attention_mask=kept, cache=cache)
        return np.asarray(model._logits(hidden[:, -1:])[:, 0], np.float64)

    def reorder(indices: np.ndarray) -> None:
        nonlocal kept
        cache.reorder(indices)
        kept = None if kept is None else kept[indices]

    skipped = None if mask is None else mask.argmax(axis=1)
    rules = model._rules(ids, more, ends, skipped=skipped)
    return Steps(ids, scores, reorder, rules)


def first_id(model: Any) -> int:
    """Return the id that a decoder reads before its own."""
    for name in ("decoder_start_token_id", "bos_token_id"):
        start = model.generation.get(name, model.config.get(name))
        if start is not None:
            return _core.token(start, "generate", name)
    raise ValueError("generate: decoder_start_token_id must be in the configuration; there is none")


def decoded(model: Any, source: np.ndarray, mask: np.ndarray | None, more: int, ends: list[int]) -> Steps:
    """Begin to decode what an encoder has read."""
    start = first_id(model)
    check_positions(model, "encoder", "input_ids", source.shape[1], 1)
    check_positions(model, "decoder", "the start and max_new_tokens", 1, more)
    cache = _core.ModelCache(len(list(model.decoder.layers.children())))
    memory = model.encoder(source, attention_mask=mask)
    memory_mask = mask

    def scores(tokens: np.ndarray) -> np.ndarray:
        hidden = model.decoder(tokens[:, None], memory=memory, memory_mask=memory_mask, cache=cache)
        return np.asarray(model._logits(hidden)[:, 0], np.float64)

    def reorder(indices: np.ndarray) -> None:
        nonlocal memory, memory_mask
        cache.reorder(indices)
        memory = memory[indices]
        memory_mask = None if memory_mask is None else memory_mask[indices]

    ids = np.full((len(source), 1), start, np.int64)
    rules = model._rules(ids, more, ends, source=source)
    return Steps(ids, scores, reorder, rules)
