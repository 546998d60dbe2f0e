"""Which tokens continue a sequence: greedy, beam search, sampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from .. import _core


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
    return _core.beam_search(step, state, start, end, beam_size, length_penalty, max_len)


def generate(
    model: Any,
    src: Any,
    *,
    src_valid_lens: Any = None,
    start_id: int,
    end_id: int | None = None,
    method: Literal["greedy", "beam", "sample"] = "greedy",
    beam_size: int = 4,
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
        evaluation mode meanwhile; nothing is recorded for gradients.
    src : array_like of int
        ``(B, Ts)``.
    src_valid_lens : array_like of int, optional
        ``(B,)``: how many of each row's ids count.
    start_id, end_id : int
        The token before the first, and the one that ends a target; without the latter all have ``max_len`` tokens.
    method : {"greedy", "beam", "sample"}
        The likeliest token at each step; :func:`beam_search`; a draw from :func:`qkv.manual_seed`'s generator.
    beam_size : int
        Of the beam.
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
        If an argument is not of its kind or out of its range.

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
    options = (end_id, method, beam_size, length_penalty, temperature, top_k, top_p, max_len)
    if hasattr(model, "generate"):
        names = [
            "end_id",
            "method",
            "beam_size",
            "length_penalty",
            "temperature",
            "top_k",
            "top_p",
            "max_len",
        ]
        kwargs: dict[str, Any] = dict(zip(names, options, strict=True))
        sentences: list[list[tuple[list[int], float, Any]]] = model.generate(
            src, src_valid_lens=src_valid_lens, start_id=start_id, **kwargs
        )
        return sentences
    return _core.generate(model, src, src_valid_lens, start_id, *options)
