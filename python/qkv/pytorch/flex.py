"""``flex_attention`` with PyTorch's own block masks, both ways on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn.attention import flex_attention as pytorch

from .._words.errors import shown
from .variants import scaled_dot_product_attention


def flex_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    score_mod: Callable[..., Any] | None = None,
    block_mask: pytorch.BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: pytorch.AuxRequest | None = None,
) -> Any:
    """``softmax(score_mod(scale q k^T)) v`` where `block_mask` allows, as ``torch.nn.attention.flex_attention``.

    Formulas are written with ``torch`` functions of numbers; see :func:`qkv.scaled_dot_product_attention`. They are
    traced, not compiled, and there is a backward pass on a CPU: gradients arrive at query, key and value and at the
    tensors that the formulas capture.

    Parameters
    ----------
    query, key, value : torch.Tensor
        ``(B, H, Lq, D)``, ``(B or 1, Hkv, Lk, D)``, ``(B or 1, Hkv, Lk, Dv)``. float16 and bfloat16 are computed in
        float32.
    score_mod : callable, optional
        ``score_mod(score, b, h, q_idx, kv_idx)`` gives the new score.
    block_mask : torch.nn.attention.flex_attention.BlockMask, optional
        With these lengths. Its ``mask_mod`` says which pairs are allowed, as without a compiler in PyTorch; made from
        blocks without one, the blocks do.
    scale : float, optional
        ``1 / sqrt(D)`` unless given.
    enable_gqa : bool
        Allow H to be a multiple of Hkv.
    return_lse : bool
        Also return the logarithm of the sum of exponentials, ``(B, H, Lq)``.
    kernel_options : dict, optional
        Those of PyTorch; they choose between kernels that are not these, and change nothing.
    return_aux : torch.nn.attention.flex_attention.AuxRequest, optional
        Also return an ``AuxOutput``, with the same logarithm.

    Returns
    -------
    torch.Tensor
        ``(B, H, Lq, Dv)``; with it what was asked for.

    Raises
    ------
    ValueError
        If shapes, lengths or options do not fit.
    TypeError
        If an argument is of another type, or a formula does what cannot be traced: the error names the call and line.
    NotImplementedError
        For ``AuxRequest(max_scores=True)``, as by PyTorch on a CPU.

    Examples
    --------
    >>> import torch
    >>> from torch.nn.attention.flex_attention import create_block_mask
    >>> q, slope = torch.ones(1, 2, 5, 4, requires_grad=True), torch.nn.Parameter(torch.ones(2))
    >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 5, 5, device="cpu")
    >>> y = qkv.pytorch.flex_attention(q, q, q, lambda s, b, h, q, k: s - slope[h] * (q - k), mask)
    >>> y.sum().backward()
    >>> slope.grad.shape
    torch.Size([2])
    """
    for name, x in {"query": query, "key": key, "value": value}.items():
        if len(shape := tuple(getattr(x, "shape", ()))) != 4:
            raise ValueError(f"flex_attention: {name} must be (B, H, L, D); got {name} {shape}")
    _check_options(kernel_options, return_lse, return_aux)
    mask_mod = None if block_mask is None else _mask_mod(block_mask, (*query.shape[:3], key.shape[2]))
    if key.shape[0] == value.shape[0] == 1 < query.shape[0]:
        key, value = (x.expand(query.shape[0], *x.shape[1:]) for x in (key, value))
    lse = return_lse or (return_aux is not None and return_aux.lse)
    options = {"score_mod": score_mod, "mask_mod": mask_mod} | ({"return_lse": True} if lse else {})
    found = scaled_dot_product_attention(query, key, value, None, 0.0, False, scale, enable_gqa, **options)
    if return_aux is None:
        return found
    return (found[0], pytorch.AuxOutput(lse=found[1])) if lse else (found, pytorch.AuxOutput())


def _check_options(kernel_options: Any, return_lse: bool, return_aux: pytorch.AuxRequest | None) -> None:
    if kernel_options is not None:
        if not isinstance(kernel_options, dict):
            raise TypeError(f"flex_attention: kernel_options must be a dict; got {shown(kernel_options)}")
        if unknown := sorted(kernel_options.keys() - pytorch.FlexKernelOptions.__annotations__.keys()):
            raise ValueError(f"flex_attention: kernel_options must be PyTorch's; got {unknown[0]!r}")
    if return_aux is None:
        return
    if return_lse:
        raise ValueError("flex_attention: return_lse must be False where return_aux is given; got both")
    if return_aux.max_scores:
        raise NotImplementedError("flex_attention: return_aux must be without max_scores on a CPU")


def _mask_mod(block_mask: pytorch.BlockMask, wanted: tuple[int, ...]) -> Callable[..., Any] | None:
    """Return what a block mask says of pairs (B, H, Lq, Lk), or None if it excludes none."""
    if not isinstance(block_mask, pytorch.BlockMask):
        raise TypeError(f"flex_attention: block_mask must be a BlockMask of PyTorch; got {shown(block_mask)}")
    if block_mask.mask_mod is pytorch._sliced_mask_mod_error:
        raise ValueError(
            "flex_attention: block_mask must have a mask_mod; got a part of one, which has lost its own"
        )
    got = tuple(block_mask.shape)
    size = block_mask.BLOCK_SIZE
    boundless = all(n == pytorch._LARGE_SPARSE_BLOCK_SIZE for n in size)  # one block, of any lengths
    fits = all(n in (1, m) for n, m in zip(got[:2], wanted[:2], strict=True))
    if len(got) != 4 or not fits or not (boundless or got[2:] == wanted[2:]):
        raise ValueError(
            f"flex_attention: block_mask must be of {wanted} because query and key are; got {got}"
        )
    if block_mask.mask_mod is not pytorch.noop_mask:
        return block_mask.mask_mod  # type: ignore[no-any-return]
    return None if boundless else _of_blocks(_computed(block_mask), size)


def _computed(block_mask: pytorch.BlockMask) -> Any:
    """Return which blocks are computed, bool (B or 1, H or 1, rows, columns)."""
    found = None
    for count, places in (
        (block_mask.kv_num_blocks, block_mask.kv_indices),
        (block_mask.full_kv_num_blocks, block_mask.full_kv_indices),
    ):
        if count is None:
            continue
        listed = (torch.arange(places.shape[-1]) < count[..., None]).int()
        part = torch.zeros_like(listed).scatter_add_(-1, places.long(), listed) > 0
        found = part if found is None else found | part
    return np.asarray(found)


def _of_blocks(table: Any, size: tuple[int, int]) -> Callable[..., Any]:
    (rows, columns), (of_batch, of_heads) = size, (n > 1 for n in table.shape[:2])

    def blocks(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        return table[b if of_batch else 0, h if of_heads else 0, q_idx // rows, kv_idx // columns]

    return blocks
