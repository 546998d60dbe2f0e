"""Weights of any length as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from .. import _core
from .._public import explained
from .._types import Numbers, Result
from .._words.errors import shown
from .attention import ImageOptions, with_options

if TYPE_CHECKING:
    from typing_extensions import Unpack


@explained
@with_options(ImageOptions)
def attention_image(
    query: Numbers,
    key: Numbers,
    *,
    size: tuple[int, int] = (512, 512),
    reduce: Literal["max", "mean"] = "max",
    rows: tuple[int, int] | None = None,
    columns: tuple[int, int] | None = None,
    **options: Unpack[ImageOptions],
) -> Result:
    """The weights of :func:`scaled_dot_product_attention` at the size of a picture, in memory that grows with L alone.

    Pixel ``(y, x)`` of ``size = (Hpx, Wpx)`` shows the largest or the mean of the weights of the queries from
    ``y * Lq // Hpx`` to ``(y + 1) * Lq // Hpx`` (not included) and the keys from ``x * Lk // Wpx`` to
    ``(x + 1) * Lk // Wpx``; where there are more pixels than weights, several show one.

    Parameters
    ----------
    query : array_like or Tensor
        ``(B, H, Lq, D)``, ``(B, Lq, D)`` or ``(Lq, D)``.
    key : array_like or Tensor
        ``(B, H, Lk, D)``, or without the axes that the query lacks.
    size : (int, int)
        Height and width in pixels.
    reduce : {"max", "mean"}
        What of its weights a pixel shows.
    rows, columns : (int, int), optional
        Show queries, and keys, from the first number to the second (not included) alone. The weights are normalised
        over all keys all the same.
    **options
        As in :func:`scaled_dot_product_attention`.

    Returns
    -------
    ndarray or Tensor
        ``(B, H, Hpx, Wpx)``, without the axes that the query lacks. It has no gradient.

    Raises
    ------
    ValueError
        If shapes or ranges do not fit, or there is nothing to show.

    Examples
    --------
    >>> q, k = qkv.randn(3000, 8), qkv.randn(3000, 8)
    >>> qkv.attention_image(q, k, size=(30, 40), is_causal=True).shape
    (30, 40)
    """
    return _core.attention_image(query, key, dict(options), picture(size, reduce, rows, columns))


def picture(size: Any, reduce: Any, rows: Any, columns: Any) -> tuple[Any, ...]:
    """Return the options of a picture as the core takes them."""
    if reduce not in ("max", "mean"):
        raise ValueError(f'attention_image: reduce must be "max" or "mean"; got {shown(reduce)}')
    ranges = (
        None if pair is None else _pair(name, pair) for name, pair in (("rows", rows), ("columns", columns))
    )
    return (*_pair("size", size), *ranges, reduce == "max")


def _pair(name: str, pair: Any) -> tuple[int, int]:
    try:
        first, second = pair
        if isinstance(first, bool) or isinstance(second, bool):
            raise TypeError
        return first.__index__(), second.__index__()
    except (TypeError, ValueError, AttributeError) as error:
        raise TypeError(f"attention_image: {name} must be two integers; got {shown(pair)}") from error
