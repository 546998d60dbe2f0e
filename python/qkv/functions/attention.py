"""Scaled dot-product attention with every option that is in use."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, Literal, TypedDict, TypeVar

from numpy.typing import ArrayLike

from .. import _core
from .._public import explained
from .._types import Numbers, Result

F = TypeVar("F", bound=Callable[..., Any])


@explained
def scaled_dot_product_attention(
    query: Numbers,
    key: Numbers,
    value: Numbers,
    attn_mask: Numbers | None = None,
    dropout_p: float = 0.0,
    is_causal: bool | Literal["upper_left", "lower_right"] = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    valid_lens: ArrayLike | None = None,
    window: tuple[int, int] | None = None,
    softcap: float = 0.0,
    alibi_slopes: Numbers | None = None,
    q_offset: ArrayLike | None = None,
    sinks: Numbers | None = None,
    masked_value: float | None = None,
    dropout_keep: ArrayLike | None = None,
    return_weights: bool = False,
    return_lse: bool = False,
    score_mod: Callable[..., Any] | None = None,
    mask_mod: Callable[..., Any] | None = None,
    normalizer: Literal["softmax", "sigmoid", "relu", "sparsemax", "entmax15"] = "softmax",
    cu_seqlens_q: ArrayLike | None = None,
    cu_seqlens_k: ArrayLike | None = None,
) -> Result:
    r"""``softmax(scale * query key^T + mask) @ value``, without storing the scores.

    For query ``i`` at position ``p = q_offset + i`` and key ``j`` of one head, in this order:
    ``s = scale * q_i . k_j``; ``s = softcap * tanh(s / softcap)`` if ``softcap`` is not 0; ``s -= slope * |p - j|``;
    ``s += attn_mask`` if that holds floats; ``s = score_mod(s, b, h, p, j)``; exclusions; ``w = exp(s) / sum_j
    exp(s)``; dropout of ``w``; ``sum_j w_j v_j``.

    Parameters
    ----------
    query : array_like or Tensor
        ``(B, H, Lq, D)``, ``(B, Lq, D)`` or ``(Lq, D)``.
    key : array_like or Tensor
        ``(B, H, Lk, D)``, or without the axes that the query lacks.
    value : array_like or Tensor
        ``(B, H, Lk, Dv)``; ``Dv`` may differ from ``D``.
    attn_mask : array_like or Tensor, optional
        Broadcasts to the weights' shape by NumPy's rules. Boolean: True = may attend. Floating: added to the
        scores, and -inf excludes; a Tensor gets its gradient. Beside rank-4 inputs a mask per batch entry is
        ``(B, 1, Lq, Lk)``.
    dropout_p : float
        Probability of dropping a weight, from 0 to 1; acts whenever it is above 0.
    is_causal : bool or {"upper_left", "lower_right"}
        Allow keys ``j <= p`` only. True is "upper_left": query 0 sees key 0. "lower_right": the last query sees the
        last key.
    scale : float, optional
        ``1 / sqrt(D)`` if not given.
    enable_gqa : bool
        Allow key and value fewer heads ``Hkv``: query head ``h`` reads head ``h // (H / Hkv)``.
    valid_lens : array_like of int, optional
        Number of keys that count, from the first: ``(B,)``, or ``(B, Lq)`` for each query; one number for ``(L, D)``.
    window : (int, int), optional
        ``(left, right)``: allow ``p - left <= j <= p + right``; -1 is unlimited.
    softcap : float
        Keeps scores between ``-softcap`` and ``softcap``; 0 is off.
    alibi_slopes : array_like or Tensor, optional
        ``(H,)``; see :func:`qkv.alibi_slopes`.
    q_offset : int or array_like of int, optional
        Position of query 0, for all or ``(B,)``; may be negative. Not together with "lower_right".
    sinks : array_like or Tensor, optional
        ``(H,)``: one more logit per head in the sum below the fraction.
    masked_value : float, optional
        Give excluded scores this value instead of skipping them; a query without any allowed key then attends
        everywhere evenly. The documents use -1e9.
    dropout_keep : array_like of bool, optional
        Which weights are kept, instead of a draw; broadcasts to the weights' shape.
    return_weights : bool
        Also return the weights, before dropout. Not one bit of the output changes.
    return_lse : bool
        Also return the logarithm of the sum of ``exp(s)``, sink included; -inf where nothing is allowed. With "softmax"
        alone, as ``sinks``.
    score_mod : callable, optional
        ``score_mod(score, b, h, q_idx, kv_idx)`` gives the new score of batch entry ``b``, query head ``h``, query
        position ``q_idx`` (``q_offset`` included) and key ``kv_idx``; -inf excludes. Ready ones are in
        :mod:`qkv.scores`.
    mask_mod : callable, optional
        ``mask_mod(b, h, q_idx, kv_idx)``: True = may attend. Ready ones are in :mod:`qkv.masks.formulas`.
    normalizer : {"softmax", "sigmoid", "relu", "sparsemax", "entmax15"}
        How the scores ``s`` of a query become its weights, see below.
    cu_seqlens_q, cu_seqlens_k : array_like of int, optional
        ``(B + 1,)``, rising from 0: sequences of different lengths without padding. Sequence ``b`` has the rows from
        ``cu_seqlens_q[b]`` up to ``cu_seqlens_q[b + 1]`` of query ``(R, H, D)``, and its keys likewise in key
        ``(S, Hkv, D)`` and value ``(S, Hkv, Dv)``; positions count within it. Output ``(R, H, Dv)``, lse ``(H, R)``,
        weights a list of ``(H, Lq_b, Lk_b)``. Not with ``attn_mask``, ``valid_lens``, ``q_offset``, ``dropout_keep``.

    Returns
    -------
    output : ndarray or Tensor
        ``(B, H, Lq, Dv)`` in the dtype of query, key and value. A query without any allowed key gets zeros.
    weights : ndarray or Tensor
        ``(B, H, Lq, Lk)``, if asked for.
    lse : ndarray or Tensor
        ``(B, H, Lq)``, if asked for; float32 for inputs of half width.

    Raises
    ------
    ValueError
        If shapes do not fit, a length or number is out of its range, both ``q_offset`` and "lower_right" are given, or
        ``sinks`` or ``return_lse`` beside another normaliser than softmax.
    TypeError
        If a mask holds integers or lengths do not, or a formula does what cannot be traced, such as ``if`` on its
        arguments.
    IndexError
        If a formula reads a captured array out of its range.

    Notes
    -----
    What a mask of each rank means (the layers of :mod:`qkv.nn` read one of three axes as one per item):

    ==================  =========================  =====================
    ``attn_mask``       ``(B, H, L, D)`` inputs    ``(B, L, D)`` inputs
    ==================  =========================  =====================
    ``(Lq, Lk)``        all items and heads        all items
    ``(X, Lq, Lk)``     ``X = H``: one per head    ``X = B``: one per item
    ``(B, 1, Lq, Lk)``  one per item, all heads    an error
    ``(B, H, Lq, Lk)``  one per item and head      an error
    ==================  =========================  =====================

    All exclusions combine with "and": boolean mask, causal, ``valid_lens``, ``window``, ``mask_mod``. An excluded key
    or value is not read: NaN there changes nothing. Almost all options combine, unlike in PyTorch's function; the
    others are refused by name. Weights never cost the fast path. Memory beyond inputs and outputs grows with L, not
    with L^2. The result is the same, bit for bit, for any number of threads.

    Instead of ``exp(s) / sum_j exp(s)``, weights are, for each ``normalizer``:

    ===============  ==================================================================================
    ``"sigmoid"``    ``1 / (1 + exp(-s))``, each by itself
    ``"relu"``       ``max(s, 0)``, each by itself
    ``"sparsemax"``  ``max(s - tau, 0)``, with the ``tau`` of each query that makes their sum 1
    ``"entmax15"``   ``max(s / 2 - tau, 0)^2``, likewise
    ===============  ==================================================================================

    Sigmoid and relu add no bias and divide by nothing: what their authors recommend, ``-log(Lk)`` on each score of
    sigmoid (Ramapuram) and ``1 / Lk`` on the output of relu (Wortsman), is left to ``score_mod`` and to the caller.
    Excluded keys have weight 0 in each, and a query without any allowed key gets zeros.

    Formulas are called once with what stands for their arguments, and what they compute with these is recorded:
    operators, qkv's, NumPy's and qkv.torch's functions of numbers, ``where``, methods ``abs() clamp() to(dtype)``,
    and arrays, Tensors and Parameters that they capture, indexed by integers. Captured Tensors that require a
    gradient get it. What depends on one index or on ``q_idx - kv_idx`` is what NumPy computes; at pairs, floats have
    the scores' dtype and integers 32 bits. ``.float()`` and captured floats have the scores' dtype where that is wider,
    integers of captured arrays 64 bits; a float that no integer can hold becomes ``-2**31``.

    References
    ----------
    Vaswani et al., Attention Is All You Need, 2017. Milakov, Gimelshein, Online normalizer calculation for softmax,
    2018. Dao et al., FlashAttention, 2022. Press et al., Train Short, Test Long (ALiBi), 2021. Ainslie et al., GQA,
    2023. Xiao et al., Efficient Streaming Language Models with Attention Sinks, 2023. Dong et al., Flex Attention,
    2024. Ramapuram et al., Theory, Analysis, and Best Practices for Sigmoid Self-Attention, 2024. Wortsman et al.,
    Replacing softmax with ReLU in Vision Transformers, 2023. Martins, Astudillo, From Softmax to Sparsemax, 2016.
    Peters, Niculae, Martins, Sparse Sequence-to-Sequence Models (entmax), 2019. Correia, Niculae, Martins, Adaptively
    Sparse Transformers, 2019.

    Examples
    --------
    >>> q, k, v = qkv.randn(2, 5, 4), qkv.randn(2, 7, 4), qkv.randn(2, 7, 3)
    >>> output, weights = qkv.scaled_dot_product_attention(q, k, v, valid_lens=[7, 2], return_weights=True)
    >>> output.shape, weights.shape
    ((2, 5, 3), (2, 5, 7))
    >>> nearby = lambda score, b, h, q_idx, kv_idx: score - 0.5 * abs(q_idx - kv_idx)
    >>> qkv.scaled_dot_product_attention(q, k, v, score_mod=nearby).shape
    (2, 5, 3)
    """
    return _core.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask,
        dropout_p,
        is_causal,
        scale,
        enable_gqa,
        valid_lens,
        window,
        softcap,
        alibi_slopes,
        q_offset,
        sinks,
        masked_value,
        dropout_keep,
        return_weights,
        return_lse,
        score_mod,
        mask_mod,
        normalizer,
        None,  # a formula of the core's
        None,  # dropout_key
        None,  # keep_layout
        cu_seqlens_q,
        cu_seqlens_k,
    )


class ImageOptions(TypedDict, total=False):
    """The options that :func:`qkv.attention_image` and :func:`qkv.distributed.attention` have, too."""

    attn_mask: Numbers | None
    is_causal: bool | Literal["upper_left", "lower_right"]
    scale: float | None
    enable_gqa: bool
    valid_lens: ArrayLike | None
    window: tuple[int, int] | None
    softcap: float
    alibi_slopes: Numbers | None
    q_offset: ArrayLike | None
    sinks: Numbers | None
    masked_value: float | None
    score_mod: Callable[..., Any] | None
    mask_mod: Callable[..., Any] | None
    normalizer: Literal["softmax", "sigmoid", "relu", "sparsemax", "entmax15"]


class SplitOptions(ImageOptions, total=False):
    """Those that only :func:`qkv.distributed.attention` has, too."""

    dropout_p: float
    dropout_keep: ArrayLike | None
    return_weights: bool
    return_lse: bool


def with_options(kind: type) -> Callable[[F], F]:
    """Write out what a function takes as ``**options``, with the defaults of :func:`scaled_dot_product_attention`.

    Their names are those of a TypedDict. In the function's documentation ``**options`` stands for those that have no
    line of their own there.
    """
    taken = [
        p.replace(kind=p.KEYWORD_ONLY)
        for name, p in inspect.signature(scaled_dot_product_attention).parameters.items()
        if name in kind.__annotations__
    ]

    def written(function: F) -> F:
        short = inspect.signature(function)
        own = list(short.parameters.values())[:-1]
        signature = short.replace(parameters=[*own, *taken])
        given = ", ".join(f"{p.name}={p.name}" for p in (*own, *taken))
        name, doc, space = function.__name__, function.__doc__ or "", dict[str, Any]()
        text = f"def bind(body):\n def {name}{signature}:\n  return body({given})\n return {name}"
        exec(compile(text, f"<{name}>", "exec", dont_inherit=True), function.__globals__, space)
        made = space["bind"](function)
        made.__qualname__ = name
        rest = [p.name for p in taken if not re.search(rf"^    (\w+, )*{p.name}(, \w+)*( :.*)?$", doc, re.M)]
        made.__doc__ = doc.replace("**options", ", ".join(rest))
        return made  # type: ignore[no-any-return]

    return written
