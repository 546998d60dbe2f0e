"""Which tokens continue a sequence: greedy, beam search, sampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from ... import _core
from ..._public import explained
from ..._words.errors import shown


@explained
def beam_search(
    step: Callable[[Any, Any], tuple[Any, Any]],
    state: Any,
    *,
    start: Any,
    end: int | None,
    beam_size: int,
    length_penalty: float = 0.0,
    max_len: int,
) -> list[tuple[list[int], float]]:
    """Search for the likeliest sequences of tokens, keeping the best few at each step.

    At each step the ``beam_size`` best expansions of the hypotheses that are alive are kept, by the sum of their
    log-probabilities; ties go to the earlier hypothesis, then to the lower token. Those that end with ``end`` are
    finished and leave the beam, so that fewer stay alive; nothing is given up early.

    Parameters
    ----------
    step : callable
        ``step(state, token) -> (log_probs, state)``: what follows ``token``. ``log_probs`` is ``(V,)``; states may be
        anything, and are not changed.
    state
        The state before the first step.
    start : int or any object
        The token of the first step.
    end : int or None
        The token that finishes a hypothesis; None: all have ``max_len`` tokens.
    beam_size : int
        1 is greedy decoding; ``V ** max_len`` finds the best of all.
    length_penalty : float
        Hypotheses are ranked by ``log p / length ** length_penalty``.
    max_len : int
        Most tokens.

    Returns
    -------
    list of (list of int, float)
        Tokens, with ``end`` if it was met, and score; the best first.

    Raises
    ------
    TypeError
        If ``step`` is not a function or does not return two objects.
    ValueError
        If a number is out of its range or ``log_probs`` is not ``(V,)``.

    Notes
    -----
    Beam search is a heuristic: the best sequence may start with tokens that fall out of the beam.

    References
    ----------
    Lowerre, The HARPY Speech Recognition System, 1976. Wu et al., Google's Neural Machine Translation System, 2016.

    Examples
    --------
    >>> first, then = np.log([0.5, 0.4, 0.1]), np.log([[0.4, 0.3, 0.3], [0.05, 0.05, 0.9], [0.9, 0.05, 0.05]])
    >>> def step(state, token):
    ...     return (first if token is None else then[token]), state
    >>> [qkv.models.beam_search(step, None, start=None, end=None, beam_size=n, max_len=2)[0][0] for n in (1, 2)]
    [[0, 0], [1, 2]]
    """
    if not callable(step):
        raise TypeError(f"beam_search: step must be a function of (state, token); got {shown(step)}")
    states, first = [state], True

    def log_probs(tokens: np.ndarray) -> np.ndarray:
        nonlocal states, first
        rows: list[np.ndarray] = []
        following = []
        for one, token in zip(states, [start] if first else tokens.tolist(), strict=True):
            result = step(one, token)
            if not isinstance(result, tuple) or len(result) != 2:
                raise TypeError(f"beam_search: step must return (log_probs, state); got {shown(result)}")
            row = _core.as_numpy(result[0], "beam_search", "log_probs")
            if row.ndim != 1 or row.size == 0:
                raise ValueError(
                    f"beam_search: log_probs must be (V,), one number for each token; got log_probs {row.shape}"
                )
            if rows and len(row) != len(rows[0]):
                raise ValueError(
                    f"beam_search: log_probs must have as many numbers at each step; got {len(rows[0])} and {len(row)}"
                )
            rows.append(row)
            following.append(result[1])
        states, first = following, False
        return np.stack(rows)

    def reorder(indices: np.ndarray) -> None:
        states[:] = [states[i] for i in indices]

    [found] = _core.beam_search_steps(
        log_probs,
        reorder,
        [0],
        end_id=None if end is None else _core.token(end, "beam_search", "end"),
        method="beam",
        beam_size=beam_size,
        length_penalty=length_penalty,
        max_len=max_len,
    )
    return [(ids, score) for ids, score, _ in found]


_NO_OPTIONS = ("model", "src", "src_valid_lens", "start_id")


@explained
def generate(
    model: Any,
    src: Any,
    *,
    src_valid_lens: Any = None,
    start_id: int,
    end_id: int | None = None,
    method: Literal["greedy", "beam", "sample"] = "greedy",
    beam_size: int | None = None,
    length_penalty: float = 0.0,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    max_len: int = 100,
) -> list[list[tuple[list[int], float, Any]]]:
    """Let an encoder-decoder write a target for each source.

    Parameters
    ----------
    model : Transformer, EncoderDecoder or Module
        With a ``generate`` method, or with an ``encoder`` and a ``decoder`` as in :class:`EncoderDecoder`. Is in
        evaluation mode during the call; nothing is recorded for gradients.
    src : array_like of int
        ``(B, Ts)``.
    src_valid_lens : array_like of int, optional
        ``(B,)``: how many of each row's ids count.
    start_id, end_id : int
        The token before the first, and the one that ends a target; without the latter all have ``max_len`` tokens.
    method : {"greedy", "beam", "sample"}
        The likeliest token at each step; :func:`beam_search`; a draw from :func:`qkv.manual_seed`'s generator.
    beam_size : int, optional
        With beams: how many hypotheses are kept, 4 if not given.
    length_penalty : float
        Hypotheses are ranked by ``log p / length ** length_penalty``.
    temperature : float
        Sampling: logits are divided by it; below 1 the likely becomes likelier.
    top_k : int, optional
        Sampling: among the ``top_k`` likeliest only.
    top_p : float, optional
        Sampling: among the fewest whose probabilities together reach ``top_p``.
    max_len : int
        Most tokens.

    Returns
    -------
    list of list of (list of int, float, ndarray or None)
        For each source its hypotheses, the best first: ids, with ``end_id`` if it was met; score, of the model's own
        probabilities also where others were drawn from; attention ``(len(ids), Ts)`` if the decoder has some.

    Raises
    ------
    TypeError, ValueError
        If an argument is not of its kind or out of its range, or ``method`` does not use it.

    Notes
    -----
    All sources are decoded together, one token a step. What the decoder computed for earlier tokens is kept.

    References
    ----------
    Fan, Lewis, Dauphin, Hierarchical Neural Story Generation (top-k), 2018. Holtzman et al., The Curious Case of Neural
    Text Degeneration (top-p), 2020.

    Examples
    --------
    >>> model = qkv.models.Transformer(11, 13, 16, 4, 1, 1)
    >>> sentences = qkv.models.generate(model, [[3, 7, 1], [5, 4, 0]], start_id=1, end_id=2, method="beam", max_len=6)
    >>> ids, score, attention = sentences[0][0]
    >>> attention.shape == (len(ids), 3)
    True
    """
    options: dict[str, Any] = {name: value for name, value in locals().items() if name not in _NO_OPTIONS}
    if hasattr(model, "generate"):
        sentences: list[list[tuple[list[int], float, Any]]] = model.generate(
            src, src_valid_lens=src_valid_lens, start_id=start_id, **options
        )
        return sentences
    if not hasattr(model, "encoder") or not hasattr(model, "decoder"):
        raise TypeError(
            f"generate: model must have a generate method, or an encoder and a decoder; got {shown(model)}"
        )
    ids = _core.as_numpy(src, "generate", "src")
    if ids.ndim != 2 or ids.dtype.kind not in "iu":
        raise ValueError(f"generate: src must be integers (B, T); got {ids.dtype} {ids.shape}")
    decoder = model.decoder
    states: list[Any] = []

    def step(tokens: np.ndarray) -> np.ndarray:
        if not states:  # when all options are checked
            encoded = model.encoder(src) if src_valid_lens is None else model.encoder(src, src_valid_lens)
            states.append(decoder.init_state(encoded, src_valid_lens))
        result = decoder(tokens[:, None], states[0])
        if len(result) != 2:
            raise ValueError(f"generate: decoder must return (logits, state); got {len(result)} objects")
        logits, states[0] = _core.as_numpy(result[0], "generate", "logits"), result[1]
        if logits.ndim != 3 or logits.shape[:2] != (len(tokens), 1):
            raise ValueError(
                f"generate: logits must be ({len(tokens)}, 1, V) because one token was given to each; "
                f"got logits {logits.shape}"
            )
        return logits[:, 0]

    def reorder(indices: np.ndarray) -> None:
        states[0] = decoder.reorder_state(states[0], indices)

    def attention() -> np.ndarray | None:
        try:
            last = np.asarray(decoder.attention_weights[-1])  # (N, 1, Ts)
        except (AttributeError, NotImplementedError, TypeError, IndexError):  # it has none
            return None
        return last[:, 0] if last.ndim == 3 and last.shape[1] == 1 else None

    first = np.full(len(ids), _core.token(start_id, "generate", "start_id"))
    return _core.generate_steps(step, reorder, first, attention=attention, **options)
