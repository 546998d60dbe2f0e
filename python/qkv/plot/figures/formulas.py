"""What a formula of attention does, as pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..._formulas import dense
from ..._formulas.blocks import block_kinds
from ..._public import explained
from ..._words.errors import counted
from ...functions.attention import scaled_dot_product_attention
from ...masks._checks import check
from .drawing import Drawn, draw_matrix, grid_of_axes, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PART = 8  # blocks beside each other, where there are no more of 128
_PANELS = ("scores", "blocks", "weights")


@explained
def show_formula(
    score_mod: Callable[..., Any] | None = None,
    mask_mod: Callable[..., Any] | None = None,
    *,
    Lq: int,
    Lk: int | None = None,
    heads: int = 1,
    ax: Any = None,
) -> tuple[Figure, NDArray[Any]]:
    """Draw a formula: what it makes of scores of 0, which blocks its mask leaves, the weights that follow.

    One row for each head. Excluded pairs have no score and stay white. Blocks are white where empty, dark where full
    and between where mixed; there are at most 8 on each side, or as many of 128 positions as there are. All is
    computed in float64.

    Parameters
    ----------
    score_mod : callable, optional
        ``score_mod(score, b, h, q_idx, kv_idx)``.
    mask_mod : callable, optional
        ``mask_mod(b, h, q_idx, kv_idx)``.
    Lq : int
        Number of queries.
    Lk : int, optional
        Number of keys; `Lq` if not given.
    heads : int
        Number of heads, one row for each.
    ax : array or sequence of matplotlib.axes.Axes, optional
        Three for each head, head by head.

    Returns
    -------
    fig : matplotlib.figure.Figure
    axes : ndarray of matplotlib.axes.Axes, (heads, 3)
        Scores, blocks and weights.

    Raises
    ------
    ValueError
        If a size is below 1.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> fig, axes = show_formula(qkv.scores.alibi([0.5, 0.25]), qkv.masks.formulas.causal, Lq=12, heads=2)
    >>> axes.shape, axes[0, 0].get_title()
    ((2, 3), 'scores')
    """
    name = "show_formula"
    Lk = Lq if Lk is None else Lk
    check(name, 1, Lq=Lq, Lk=Lk, heads=heads)
    shape = (1, heads, Lq, Lk)
    zeros = np.zeros((1, heads, max(Lq, Lk), 1))
    weights = scaled_dot_product_attention(
        zeros[:, :, :Lq],
        zeros[:, :, :Lk],
        zeros[:, :, :Lk],
        score_mod=score_mod,
        mask_mod=mask_mod,
        return_weights=True,
    )[1]
    scores = (
        np.zeros(shape) if score_mod is None else dense(name, "score_mod", score_mod, shape, True, "float64")
    )
    allowed = True if mask_mod is None else dense(name, "mask_mod", mask_mod, shape, False, "float64")
    scores = np.where(allowed, np.broadcast_to(scores, shape), np.nan)[0]
    scores = np.where(np.isfinite(scores), scores, np.nan)
    size = tuple(128 if n > _PART * 128 else -(-n // _PART) for n in (Lq, Lk))
    kinds = block_kinds(name, mask_mod or _everything, shape, (size[0], size[1]), "float64")
    kinds = np.broadcast_to(kinds, (1, heads, *kinds.shape[2:]))[0]
    tables = (scores, kinds.astype(float), np.asarray(weights)[0])
    fig, axes = grid_of_axes(name, ax, (heads, 3), figsize=(8.0, 0.4 + 2.2 * heads))
    ends = ((np.nanmin(scores), np.nanmax(scores)), (0.0, 2.0), (0.0, tables[2].max()))
    for head, column in np.ndindex(heads, 3):
        panel, (low, high) = axes[head, column], ends[column]
        image = draw_matrix(panel, tables[column][head], "Greys" if column == 1 else "Reds", low, high)
        row = f"head {head}" if heads > 1 else ""
        panel.set(title=_PANELS[column] if head == 0 else "", ylabel=row if column == 0 else "")
        counted_below = f"blocks of {counted(size[1], 'key')}" if column == 1 else "keys"
        panel.set_xlabel(counted_below if head == heads - 1 else "")
        if column == 1:
            bar = fig.colorbar(image, ax=panel, shrink=0.6, ticks=[0, 1, 2])
            bar.ax.set_yticklabels(["empty", "mixed", "full"])
        else:
            fig.colorbar(image, ax=panel, shrink=0.6)
    if ax is None:
        whole(fig)
    return Drawn((fig, axes))


def _everything(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> bool:
    return True
