"""Weights as a page holds them: all of them where they are few, else the largest of each row and pooled blocks."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

BUDGET = 2_600_000  # bytes; in base64, with script and tokens, a page stays below 4 MB
GRID = 64  # blocks on a side, at most


# Of whole numbers the three after the greatest stand for what is none.
NOT_FINITE = (-np.inf, np.inf, np.nan)


def coded(x: NDArray[np.floating], scale: float, kind: str) -> NDArray[Any]:
    """Return x in whole numbers of a kind of NumPy's, where `scale` is the greatest but three."""
    steps, least = steps_of(kind), -steps_of(kind) if kind[1] == "i" else 0
    with np.errstate(invalid="ignore"):
        found: NDArray[Any] = np.clip(np.rint(x * (steps / scale)), least, steps)
    if not np.isfinite(found).all() or not _is_finite(x):
        for code, odd in enumerate(NOT_FINITE, steps + 1):
            found = np.where(np.isnan(x) if odd != odd else x == odd, code, found)
    return found.astype(kind)


def steps_of(kind: str) -> int:
    """Return the whole number of a kind that the greatest number becomes."""
    return int(np.iinfo(kind).max) - len(NOT_FINITE)


def packed(
    layers: Sequence[NDArray[np.floating]],
    *,
    signed: bool | None = None,
    blocks: bool = True,
    budget: int = BUDGET,
) -> dict[str, Any]:
    """Return layers of numbers, each (H, Lq, Lk), for `weightsOf` of view.js.

    A number takes 16 bits of the greatest one, or of 1 if that is greater and none is negative; NaN and infinite ones
    have codes of their own. If all of them would take more than `budget` bytes, each row keeps its `k` largest, with
    their places, and the sum of the others; `blocks` keep the largest of what their rows have left. -inf, a key that
    is excluded, is the least.
    """
    H, Lq, Lk = layers[0].shape
    shape = len(layers), H, Lq, Lk
    low, high = ends_of(layers)
    top = max(-low, high)
    if signed is None:
        signed = low < 0
    scale = top if signed and top else max(top, 1.0)
    about: dict[str, Any] = {
        "shape": shape,
        "signed": signed,
        "scale": scale,
        "top": top,
        "odd": odd_in(layers),
    }
    kind = "<i2" if signed else "<u2"
    if 2 * len(layers) * layers[0].size <= budget:
        return about | {"all": text_of(*(coded(layer, scale, kind) for layer in layers))}
    rows, heads = len(layers) * H * Lq, len(layers) * H
    side = int(min(GRID, np.sqrt(budget / 4 / heads))) if blocks else 0
    k = max(0, min((budget - heads * side * side - 4 * rows) // (4 * rows), Lk - 1))
    grid = min(side, Lq), min(side, Lk)
    kept: dict[str, list[NDArray[Any]]] = {}
    for layer in layers:
        left = np.array(layer, copy=True)
        places = np.argpartition(_loudness(left), Lk - k - 1, axis=-1)[..., Lk - k :]
        places.sort(axis=-1)
        values = coded(np.take_along_axis(left, places, -1), scale, kind)
        parts = {"values": values, "places": places.astype("<u2")}
        np.put_along_axis(left, places, -np.inf if np.isneginf(layer).any() else 0.0, -1)
        parts["rests"] = np.where(left == -np.inf, 0.0, left).sum(-1, dtype=np.float64).astype("<f4")
        if blocks:
            pools = _pooled(left, grid)
            sizes = np.where(np.isfinite(pools), np.abs(pools), 0.0)
            parts["tops"] = sizes.max((1, 2))
            shares = np.sqrt(sizes / np.maximum(parts["tops"], 1e-30)[:, None, None])  # fine near 0
            shares = np.where(np.isfinite(pools), np.copysign(shares, pools), pools)
            parts["blocks"] = coded(shares, 1.0, "|i1" if signed else "|u1")
        for name, part in parts.items():
            kept.setdefault(name, []).append(part)
    tops = [float(top) for part in kept.pop("tops", []) for top in part]
    return (
        about | {"k": k, "grid": grid, "tops": tops} | {name: text_of(*parts) for name, parts in kept.items()}
    )


def _loudness(x: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return what is kept first: NaN and infinity, then by size; what is excluded last."""
    return (
        x
        if _is_finite(x) and x.min() >= 0
        else np.where(x == -np.inf, -1.0, np.abs(np.nan_to_num(x, nan=np.inf)))
    )


def _is_finite(x: NDArray[np.floating]) -> bool:
    return bool(np.isfinite(x).all())


def largest(layers: Sequence[NDArray[np.floating]]) -> float:
    """Return the greatest size of the finite numbers."""
    low, high = ends_of(layers)
    return max(-low, high)


def ends_of(layers: Sequence[NDArray[np.floating]]) -> tuple[float, float]:
    """Return the least and the greatest finite number, 0 and 0 where there is none."""
    finite = [layer[np.isfinite(layer)] if not _is_finite(layer) else layer for layer in layers]
    finite = [layer for layer in finite if layer.size] or [np.zeros(1)]
    return min(float(layer.min()) for layer in finite), max(float(layer.max()) for layer in finite)


def has_negative(layers: Sequence[NDArray[np.floating]]) -> bool:
    """Return whether a finite number is below 0."""
    return ends_of(layers)[0] < 0


def odd_in(layers: Sequence[NDArray[np.floating]]) -> list[str]:
    """Return which numbers that are not finite there are: "NaN", "inf", "-inf"."""
    if all(_is_finite(layer) for layer in layers):
        return []
    tests: dict[str, Any] = {"NaN": np.isnan, "inf": np.isposinf, "-inf": np.isneginf}
    return [name for name, test in tests.items() if any(bool(test(layer).any()) for layer in layers)]


def rounding(about: dict[str, Any], what: str = "weight") -> str:
    """Return to what packed weights, or pixels, are rounded."""
    step = f"{about['scale'] / (2 * steps_of('<i2' if about['signed'] else '<u2')):.1g}"
    if "all" in about:
        return f"{what.capitalize()}s are rounded to {step}."
    k, (rows, columns), (Lq, Lk) = about["k"], about["grid"], about["shape"][2:]
    if rows:
        others = f"pooled to the largest in blocks of {-(-Lq // rows)} x {-(-Lk // columns)}"
    else:
        others = "left out, except for their sum"
    if not k:
        return f"All {what}s are {others}."
    each = f"The {k} largest {what}s of each row are" if k > 1 else f"The largest {what} of each row is"
    return f"{each} rounded to {step}; the others are {others}."


def key_of(
    tables: Sequence[dict[str, Any]], more: str = "above 0", less: str = "below 0"
) -> list[tuple[str, str]]:
    """Return what the colours of packed numbers mean, where it is not the size alone: names of colours and words."""
    odd = {name for about in tables for name in about["odd"]}
    found = [("more", more), ("less", less)] if any(about["signed"] for about in tables) else []
    found += [("nan", "NaN")] if "NaN" in odd else []
    found += [("more", "inf")] if "inf" in odd else []
    return found + ([("out", "-inf: excluded")] if "-inf" in odd else [])


def text_of(*arrays: NDArray[Any]) -> str:
    """Return the bytes of arrays, one after the other, in base64."""
    return base64.b64encode(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).decode()


def shrunk(table: NDArray[np.floating], most: int) -> NDArray[np.floating]:
    """Return (..., Lq, Lk) with at most `most` rows and columns: the number of greatest size of each block."""
    Lq, Lk = table.shape[-2:]
    if max(Lq, Lk) <= most:
        return table
    heads = table.reshape(-1, Lq, Lk)
    small = _pooled(heads, (min(Lq, most), min(Lk, most)))
    return small.reshape(*table.shape[:-2], *small.shape[-2:])


def _pooled(table: NDArray[np.floating], grid: tuple[int, int]) -> NDArray[np.floating]:
    """Return the number of greatest size in each block of (H, Lq, Lk). A row i is in block floor(i n / Lq).

    NaN is the greatest, -inf the least.
    """
    ends = [-(-np.arange(n) * length // n) for n, length in zip(grid, table.shape[1:], strict=True)]

    def greatest(x: NDArray[np.floating]) -> NDArray[np.floating]:
        return np.maximum.reduceat(np.maximum.reduceat(x, ends[0], axis=1), ends[1], axis=2)

    most = greatest(table)  # of NaN: NaN
    if table.min() >= 0:
        return most
    least = -greatest(-np.where(table == -np.inf, np.inf, table))
    return np.where((-least > most) & (least < np.inf), least, most)
