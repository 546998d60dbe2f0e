"""``torch.nn.attention.flex_attention``: scores and masks as functions of positions, by :mod:`qkv._formulas`."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...._formulas import dense
from ...._formulas.blocks import block_kinds
from ...._formulas.errors import name_of
from ...._formulas.intervals import EMPTY, FULL, MIXED
from ...._words.errors import shown
from ....functions.attention import scaled_dot_product_attention
from ....masks.formulas import and_masks, or_masks  # noqa: F401
from ..._dtypes import int32
from ..._tensor import Tensor, refuse_attribute, wrap, wrap_array

_NAMES = (
    "AuxOutput AuxRequest BlockMask and_masks create_block_mask create_mask flex_attention noop_mask or_masks"
)
__all__ = [*_NAMES.split()]

_KERNEL_OPTIONS = """num_warps num_stages BLOCK_M BLOCK_N BLOCK_M1 BLOCK_N1 BLOCK_M2 BLOCK_N2 PRESCALE_QK
ROWS_GUARANTEED_SAFE BLOCKS_ARE_CONTIGUOUS WRITE_DQ FORCE_USE_FLEX_ATTENTION USE_TMA kpack matrix_instr_nonkdim
waves_per_eu BACKEND"""


class AuxRequest(NamedTuple):
    """What else :func:`flex_attention` returns."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for by an :class:`AuxRequest`; else None."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def noop_mask(batch, head, token_q, token_kv) -> bool:
    """A mask_mod that allows everything.

    Examples
    --------
    >>> from qkv.torch.nn.attention.flex_attention import create_block_mask, noop_mask
    >>> create_block_mask(noop_mask, None, None, 256, 256).sparsity()
    0.0
    """
    return True


def _of_blocks(kind: int, axis: int, words: str) -> tuple[Any, Any]:
    def counts(self) -> Tensor:
        return wrap_array((self._kinds == kind).sum(axis), int32)

    def indices(self) -> Tensor:
        return wrap_array(np.argsort(np.moveaxis(self._kinds, axis, -1) != kind, -1, kind="stable"), int32)

    several, one = words.split()
    counted = f"How many {several} hold such a block: {'mixed' if kind == MIXED else 'full'} ones, by {one}."
    return property(counts, doc=counted), property(indices, doc=f"Those {several}, ahead of the others.")


@dataclass(repr=False, eq=False)
class BlockMask:
    """A mask_mod over (B, H, Q_LEN, KV_LEN) and the kinds of its blocks: empty, mixed or full.

    :func:`create_block_mask` makes one. Blocks are found by intervals, not pair by pair; those of which intervals
    cannot tell are looked at if they are few, and count as mixed otherwise. So does a block that is not a whole one.
    """

    _kinds: Any
    seq_lengths: tuple[int, int]
    BLOCK_SIZE: tuple[int, int]
    mask_mod: Callable[..., Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """(B, H, Q_LEN, KV_LEN); B and H are 1 where the mask is the same for all."""
        return (*self._kinds.shape[:-2], *self.seq_lengths)

    @classmethod
    def from_kv_blocks(cls, *_: Any, **__: Any) -> BlockMask:
        raise NotImplementedError(
            "BlockMask.from_kv_blocks: blocks must be those of a mask_mod because attention computes masks by their "
            "formulas; write create_block_mask(mask_mod, ...)"
        )

    def numel(self) -> int:
        """Return the number of pairs."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """Return the share of pairs in empty blocks in percent."""
        computed = int(np.count_nonzero(self._kinds)) * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1]
        return 100 * (1 - computed / self.numel())

    def to_dense(self) -> Tensor:
        """Return 1 for each block that is not empty, int32 (B, H, query blocks, key blocks)."""
        return wrap_array(self._kinds != EMPTY, int32)

    kv_num_blocks, kv_indices = _of_blocks(MIXED, -1, "columns row")
    full_kv_num_blocks, full_kv_indices = _of_blocks(FULL, -1, "columns row")
    q_num_blocks, q_indices = _of_blocks(MIXED, -2, "rows column")
    full_q_num_blocks, full_q_indices = _of_blocks(FULL, -2, "rows column")

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """Draw the blocks of the first `limit` masks: filled where computed, blank where empty, grey between.

        Each mask is drawn as at most `grid_size` rows and columns; -1 draws every block.
        """
        dense = self._kinds != EMPTY
        *batch, rows, columns = dense.shape
        grid = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        most = (rows, columns) if grid_size == -1 else grid
        steps = [max(1, -(-n // m)) for n, m in zip((rows, columns), most, strict=True)]
        pictures = []
        for at in itertools.islice(np.ndindex(*batch), limit):
            lines = [f"{tuple(int(i) for i in at)}"]
            for r in range(0, rows, steps[0]):
                parts = (dense[at][r : r + steps[0], c : c + steps[1]] for c in range(0, columns, steps[1]))
                lines.append("".join("██" if x.all() else "░░" if x.any() else "  " for x in parts))
            pictures.append("\n".join(lines) + "\n")
        if math.prod(batch) > limit:
            pictures += [
                "...",
                "To print out more, set BlockMask.to_string(limit=N)",
                "You can also index (BlockMask[batch, head]) to choose a specific batch or head",
            ]
        return "\n".join(pictures)

    def __getitem__(self, index) -> BlockMask:
        places = tuple(
            slice(i, i + 1 or None) if isinstance(i, int) else np.asarray(i) if isinstance(i, Tensor) else i
            for i in (index if isinstance(index, tuple) else (index,))
        )
        return BlockMask(self._kinds[places], self.seq_lengths, self.BLOCK_SIZE, _of_a_part)

    def to(self, device) -> BlockMask:
        """Return itself: there is one device."""
        return self

    def _shown(self) -> str:
        return f"shape={self.shape}, sparsity={self.sparsity():.2f}%"

    def __str__(self) -> str:
        return f"BlockMask({self._shown()}, \n{self.to_string().strip()}\n)"

    def __repr__(self) -> str:
        name = name_of(self.mask_mod)
        shown = self._shown().replace(", sp", ",\n    sp")
        return f"BlockMask(\n    BLOCK_SIZE={self.BLOCK_SIZE},\n    {shown},\n    mask_mod={name}\n)"


def _of_a_part(batch, head, token_q, token_kv) -> bool:
    raise ValueError("a BlockMask that was indexed has no mask_mod; make one of the part's own")


def create_block_mask(
    mask_mod, B, H, Q_LEN, KV_LEN, device=None, BLOCK_SIZE=128, _compile=False
) -> BlockMask:
    """Classify the blocks of a mask.

    Parameters
    ----------
    mask_mod : callable
        ``mask_mod(b, h, q_idx, kv_idx)``: True = may attend.
    B, H : int or None
        None: the mask is the same for all batch entries, heads.
    Q_LEN, KV_LEN : int
    device
        Only the CPU.
    BLOCK_SIZE : int or (int, int)
        Queries and keys of a block.

    Examples
    --------
    >>> from qkv.torch.nn.attention.flex_attention import create_block_mask
    >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 1024, 1024)
    >>> mask.shape, mask.sparsity()
    ((1, 1, 1024, 1024), 43.75)
    """
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    lengths = {"B": B, "H": H, "Q_LEN": Q_LEN, "KV_LEN": KV_LEN}
    shape = tuple(1 if n is None else n for n in lengths.values())
    for name, number in zip((*lengths, *["BLOCK_SIZE"] * len(size)), (*shape, *size), strict=True):
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 1:
            raise ValueError(f"create_block_mask: {name} must be an integer from 1; got {shown(number)}")
    if len(size) != 2:
        raise ValueError(
            f"create_block_mask: BLOCK_SIZE must be a number or (queries, keys); got {shown(BLOCK_SIZE)}"
        )
    if not callable(mask_mod):
        raise TypeError(f"create_block_mask: mask_mod must be a function; got {shown(mask_mod)}")
    kinds = block_kinds("create_block_mask", mask_mod, shape, (size[0], size[1]))
    kinds = np.array(np.broadcast_to(kinds, (*shape[:2], *kinds.shape[2:])))
    for last, length, block in zip((kinds[..., -1, :], kinds[..., -1]), shape[2:], size, strict=True):
        if length % block:  # what is not a whole block is mixed with what is not there
            last[last == FULL] = MIXED
    return BlockMask(kinds, (shape[2], shape[3]), size, mask_mod)


def create_mask(mod_fn, B, H, Q_LEN, KV_LEN, device=None) -> Tensor:
    """Return a mask_mod's conditions of all pairs, or a score_mod's scores of zeros, (B, H, Q_LEN, KV_LEN).

    Floats that depend on query and key have the widest dtype of the arrays that the function reads, at least float32.

    Examples
    --------
    >>> from qkv.torch.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, q, k: q >= k, None, None, 2, 2)
    tensor([[[[ True, False],
              [ True,  True]]]])
    """
    if not callable(mod_fn):
        raise TypeError(f"create_mask: mod_fn must be a function; got {shown(mod_fn)}")
    parameters = [p for p in inspect.signature(mod_fn).parameters.values() if p.default is p.empty]
    if len(parameters) not in (4, 5):
        raise TypeError(
            "create_mask: mod_fn must take (b, h, q_idx, kv_idx), or the score before these; got a function of "
            f"{len(parameters)} arguments"
        )
    shape = tuple(1 if n is None else n for n in (B, H, Q_LEN, KV_LEN))
    scores = dense("create_mask", "mod_fn", mod_fn, shape, len(parameters) == 5)
    return wrap_array(np.array(np.broadcast_to(scores, shape)))


def flex_attention(
    query,
    key,
    value,
    score_mod=None,
    block_mask=None,
    scale=None,
    enable_gqa=False,
    return_lse=False,
    kernel_options=None,
    *,
    return_aux=None,
):
    """``softmax(score_mod(scale q k^T)) v`` where `block_mask` allows; see :func:`qkv.scaled_dot_product_attention`.

    Nothing is compiled, and there is a backward pass, to Tensors that the functions capture as well.
    `kernel_options` are checked and have no effect.

    Parameters
    ----------
    query, key, value : Tensor
        ``(B, H, Lq, D)``, ``(B, Hkv, Lk, D)``, ``(B, Hkv, Lk, Dv)``.
    score_mod : callable, optional
        ``score_mod(score, b, h, q_idx, kv_idx)``.
    block_mask : BlockMask, optional
        Of :func:`create_block_mask`, with these lengths.
    scale : float, optional
    enable_gqa : bool
    return_lse : bool
        Also return the logarithm of the sum of exponentials; `return_aux` has it, too.
    return_aux : AuxRequest, optional
        Also return an :class:`AuxOutput`.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> from qkv.torch.nn.attention.flex_attention import create_block_mask, flex_attention
    >>> q = torch.ones(1, 2, 5, 4)
    >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 5, 5)
    >>> flex_attention(q, q, q, lambda s, b, h, q, k: s - abs(q - k), mask).shape
    torch.Size([1, 2, 5, 4])
    """
    for name, x in {"query": query, "key": key, "value": value}.items():
        if len(shape := tuple(getattr(x, "shape", ()))) != 4:
            raise ValueError(f"flex_attention: {name} must be (B, H, L, D); got {name} {shape}")
    if return_lse and return_aux is not None:
        raise ValueError("flex_attention: return_lse must be False where return_aux is given; got both")
    if kernel_options is not None:
        if not isinstance(kernel_options, dict):
            raise TypeError(f"flex_attention: kernel_options must be a dict; got {shown(kernel_options)}")
        if unknown := sorted(kernel_options.keys() - _KERNEL_OPTIONS.split()):
            raise ValueError(f"flex_attention: kernel_options must be PyTorch's; got {unknown[0]!r}")
    mask_mod = None
    if block_mask is not None:
        if not isinstance(block_mask, BlockMask):
            raise TypeError(f"flex_attention: block_mask must be a BlockMask; got {shown(block_mask)}")
        whole = (*query.shape[:3], key.shape[2])
        fits = (n in (1, m) for n, m in zip(block_mask.shape[:2], whole[:2], strict=True))
        if not all(fits) or block_mask.seq_lengths != whole[2:]:
            raise ValueError(
                f"flex_attention: block_mask must be of {whole} because query and key are; got {block_mask.shape}"
            )
        mask_mod = None if block_mask.mask_mod is noop_mask else block_mask.mask_mod
    aux = return_aux or AuxRequest()
    options = {"score_mod": score_mod, "mask_mod": mask_mod, "scale": scale, "enable_gqa": enable_gqa}
    options |= {"return_weights": aux.max_scores, "return_lse": True}
    results = scaled_dot_product_attention(query, key, value, **options)
    output, lse = (wrap(one, "FlexAttentionBackward0") for one in (results[0], results[-1]))
    if return_lse:
        return output, lse
    if return_aux is None:
        return output
    largest = None
    if aux.max_scores:  # of a row: its largest weight is exp(score - lse)
        with np.errstate(divide="ignore"):
            largest = wrap_array(np.log(np.asarray(results[1].detach()).max(-1)) + np.asarray(lse.detach()))
    return output, AuxOutput(lse if aux.lse else None, largest)


__getattr__ = partial(refuse_attribute, "torch.nn.attention.flex_attention")
