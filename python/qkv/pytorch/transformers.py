"""Attention for models of transformers, by name."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch

from .position_masks import PositionMask, of_functions, of_keys
from .recording import recorders
from .variants import scaled_dot_product_attention

_names: set[str] = set()
_warned: set[str] = set()


def _warn(what: str, why: str) -> None:
    """Say once of each class or option that eager attention computes it."""
    if what not in _warned:
        _warned.add(what)
        warnings.warn(f"qkv.pytorch: {what} {why}; eager attention computes it", stacklevel=3)


@torch.compiler.disable  # a break in its graph
def attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: torch.Tensor | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    indices: torch.Tensor | None = None,
    block_indices: torch.Tensor | None = None,
    **others: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Attention as transformers calls it: ``(B, H, L, D)`` in, ``(B, L, H, D)`` and the weights or None out."""
    batch = max(query.shape[0], key.shape[0])
    query, key, value = (
        x if x.shape[0] == batch else x.expand(batch, *x.shape[1:]) for x in (query, key, value)
    )
    shape = batch, 1, query.shape[2], key.shape[2]
    if attention_mask is None:
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        options: dict[str, Any] = {"is_causal": bool(causal) and shape[2] > 1}
    elif (
        isinstance(attention_mask, PositionMask)
        and attention_mask.shape == shape
        and not attention_mask.is_array
    ):
        options = dict(attention_mask.options)
    else:
        options = {"attn_mask": attention_mask[..., : shape[3]]}
    if indices is not None:  # the keys that each query has chosen
        chosen = torch.zeros(batch, *shape[2:], dtype=torch.bool).scatter_(-1, indices.long(), True)
        _exclude(options, chosen[:, None])
    if block_indices is not None:
        mask = torch.ones(shape, dtype=torch.bool) if attention_mask is None else attention_mask
        kind = mask, shape[3], query.dtype, query.device, None
        options = {"attn_mask": module.indexer.build_block_mask(block_indices, *kind)}
    if position_bias is not None:
        _add(options, position_bias[..., : shape[3]])
    if softcap is not None:
        options["softcap"] = softcap
    if s_aux is not None:
        options["sinks"] = s_aux.reshape(-1)
    options |= {"scale": scaling, "enable_gqa": True}
    asked = {"return_weights": True} if _wants_weights(others) else {}
    result = scaled_dot_product_attention(query, key, value, dropout_p=float(dropout), **options, **asked)
    output, found = result if asked else (result, None)
    for recorder in recorders.get():
        recorder.keep(module, query, key, value, output, options)
    return output.transpose(1, 2).contiguous(), found


def _exclude(options: dict[str, Any], allowed: torch.Tensor) -> None:
    """Add a boolean mask to those that the options have."""
    mask = options.get("attn_mask")
    if mask is None:
        options["attn_mask"] = allowed
    elif mask.dtype == torch.bool:
        options["attn_mask"] = allowed & mask
    else:
        options["attn_mask"] = mask.masked_fill(~allowed, -torch.inf)


def _add(options: dict[str, Any], bias: torch.Tensor) -> None:
    """Add to the scores, before those exclusions that the options have."""
    mask = options.get("attn_mask")
    if mask is None:
        options["attn_mask"] = bias
    elif mask.dtype == torch.bool:
        options["attn_mask"] = bias.masked_fill(~mask, -torch.inf)
    else:
        options["attn_mask"] = bias + mask


def _wants_weights(others: dict[str, Any]) -> bool:
    """Whether a model asks for weights: by a keyword, or by what collects the outputs of its modules."""
    if others.get("output_attentions"):
        return True
    collected = _collector().get()
    return collected is not None and any("attentions" in name for name in collected)


@functools.cache
def _collector() -> Any:
    from transformers.utils import output_capturing

    return output_capturing._active_collector


def position_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,
    kv_offset: Any = 0,
    mask_function: Callable[..., Any] | None = None,
    attention_mask: torch.Tensor | None = None,
    allow_is_bidirectional_skip: bool = False,
    allow_is_causal_skip: bool = True,
    device: torch.device | str = "cpu",
    **others: Any,
) -> torch.Tensor | None:
    """Return the mask of a model's layers: boolean ``(B, 1, Lq, Lk)``, or None, if no key is excluded.

    A causal mask is always given, so that nobody has to guess what None means.
    """
    from transformers.masking_utils import causal_mask_function, sdpa_mask

    mask_function = causal_mask_function if mask_function is None else mask_function
    options = None if _is_traced(device) else of_functions(mask_function)
    if options is None:
        return sdpa_mask(
            batch_size,
            q_length,
            kv_length,
            q_offset,
            kv_offset,
            mask_function,
            attention_mask,
            allow_is_causal_skip=allow_is_causal_skip and _is_traced(device),
            allow_is_bidirectional_skip=allow_is_bidirectional_skip,
            device=device,
            **others,
        )
    first = int(kv_offset)
    if options:
        options["q_offset"] = int(q_offset) - first
    if attention_mask is not None:
        options |= of_keys(attention_mask.expand(batch_size, -1), first, kv_length)
    if not options and allow_is_bidirectional_skip:
        return None
    return PositionMask((batch_size, 1, q_length, kv_length), options)


def _is_traced(device: torch.device | str) -> bool:
    return bool(torch.compiler.is_compiling()) or torch.device(device).type != "cpu"


def _has_own_attention(cls: Any, name: str) -> bool:
    """Whether a class of models may compute attention by itself, with masks of the kind that is registered."""
    if not (cls._supports_sdpa or cls._supports_attention_backend):
        return True
    spaces = {of_mro.__module__: vars(sys.modules[of_mro.__module__]) for of_mro in cls.__mro__}
    tables: list[Any] = [
        t for space in spaces.values() for key, t in space.items() if key.endswith("ATTENTION_CLASSES")
    ]
    return not all(name in table for table in tables)


def register(name: str = "qkv") -> None:
    """Let transformers run its models by ``attn_implementation=name``.

    Parameters
    ----------
    name : str
        The name; registering it again changes nothing.

    Raises
    ------
    ImportError
        If transformers is not installed, or older than 5.

    Notes
    -----
    Padding on either side, causal masks, sliding windows, grouped heads, soft caps, sinks, position biases, static and
    growing caches and training with dropout are computed by one fused pass. Masks of padding and windows take memory in
    proportion to the length. Models asked for ``output_attentions=True`` get the weights from that pass, as they
    are before dropout.

    Models with an attention of their own, and those that choose keys in a way that qkv does not have, run with
    ``"eager"``; a warning names their class once. A row that may attend to no key, such as a padded query, has zeros
    where eager attention has means.

    Examples
    --------
    >>> qkv.pytorch.register()  # doctest: +SKIP
    >>> model = AutoModel.from_pretrained("gpt2", attn_implementation="qkv")  # doctest: +SKIP
    >>> model(ids, output_attentions=True).attentions[0].shape  # doctest: +SKIP
    torch.Size([1, 12, 8, 8])
    """
    try:
        import transformers
    except ImportError as error:
        raise ImportError(f"register: transformers must be installed; {_INSTALL}") from error
    if int(transformers.__version__.split(".")[0]) < 5:
        raise ImportError(
            f"register: transformers must be 5 or newer; got {transformers.__version__}; {_INSTALL}"
        )
    transformers.AttentionInterface.register(name, attention_forward)
    transformers.AttentionMaskInterface.register(name, position_mask)
    _names.add(name)
    _choose(transformers.PreTrainedModel)


_INSTALL = "pip install 'transformers>=5'"


def _choose(base: Any) -> None:
    """Have classes that would take our masks and compute attention themselves choose eager attention."""
    chosen = base.get_correct_attn_implementation
    if getattr(chosen, "__module__", "") == __name__:
        return

    @functools.wraps(chosen, assigned=("__name__", "__qualname__", "__doc__"))
    def get_correct_attn_implementation(
        self: Any, requested_attention: str | None, *args: Any, **options: Any
    ) -> Any:
        if requested_attention in _names and _has_own_attention(type(self), requested_attention):
            _warn(type(self).__name__, "has an attention of its own")
            return "eager"
        return chosen(self, requested_attention, *args, **options)

    base.get_correct_attn_implementation = get_correct_attn_implementation
