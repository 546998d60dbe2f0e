"""Weights as a page holds them: all of them where they are few, else the largest of each row and pooled blocks."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

BUDGET = 2_600_000  # bytes; in base64, with script and tokens, a page stays below 4 MB
GRID = 64  # blocks on a side, at most


def packed(
    layers: Sequence[NDArray[np.floating]], *, signed: bool = False, blocks: bool = True, budget: int = BUDGET
) -> dict[str, Any]:
    """Return layers of weights, each (H, Lq, Lk), for `weightsOf` of view.js.

    A weight takes 16 bits of the greatest one, or of 1 if that is greater. If all of them would take more than `budget`
    bytes, each row keeps its `k` largest, with their places, and the sum of the others; `blocks` keep the largest of
    what their rows have left.
    """
    H, Lq, Lk = layers[0].shape
    shape = len(layers), H, Lq, Lk
    top = largest(layers)
    scale = top if signed and top else max(top, 1.0)
    about: dict[str, Any] = {"shape": shape, "signed": signed, "scale": scale}
    steps, kind = (32767, "<i2") if signed else (65535, "<u2")

    def whole(x: NDArray[np.floating]) -> NDArray[Any]:
        least = -steps if signed else 0
        found: NDArray[Any] = np.clip(np.rint(np.nan_to_num(x) * (steps / scale)), least, steps).astype(kind)
        return found

    if 2 * len(layers) * layers[0].size <= budget:
        return about | {"all": text_of(*(whole(layer) for layer in layers))}
    rows, heads = len(layers) * H * Lq, len(layers) * H
    side = int(min(GRID, np.sqrt(budget / 4 / heads))) if blocks else 0
    k = max(0, min((budget - heads * side * side - 4 * rows) // (4 * rows), Lk - 1))
    grid = min(side, Lq), min(side, Lk)
    kept: dict[str, list[NDArray[Any]]] = {}
    for layer in layers:
        left = np.nan_to_num(layer)
        places = np.argpartition(np.abs(left) if signed else left, Lk - k - 1, axis=-1)[..., Lk - k :]
        places.sort(axis=-1)
        parts = {"values": whole(np.take_along_axis(left, places, -1)), "places": places.astype("<u2")}
        np.put_along_axis(left, places, 0.0, -1)
        parts["rests"] = left.sum(-1, dtype=np.float64).astype("<f4")
        if blocks:
            pools = _pooled(left, grid, signed)
            parts["tops"] = np.abs(pools).max((1, 2))
            shares = np.sqrt(np.abs(pools) / np.maximum(parts["tops"], 1e-30)[:, None, None])  # fine near 0
            signs = np.sign(pools) if signed else 1
            parts["blocks"] = (np.rint(shares * (127 if signed else 255)) * signs).astype(
                "i1" if signed else "u1"
            )
        for name, part in parts.items():
            kept.setdefault(name, []).append(part)
    tops = [float(top) for part in kept.pop("tops", []) for top in part]
    return (
        about | {"k": k, "grid": grid, "tops": tops} | {name: text_of(*parts) for name, parts in kept.items()}
    )


def largest(layers: Sequence[NDArray[np.floating]]) -> float:
    """Return the greatest size of the numbers that are not NaN."""
    found = 0.0
    for layer in layers:
        ends = float(layer.max()), -float(layer.min())
        found = max(found, *(ends if ends[0] == ends[0] else (float(np.max(np.abs(np.nan_to_num(layer)))),)))
    return found


def exactness(about: dict[str, Any], what: str = "weight") -> str:
    """Return which of packed weights, or pixels, are exact."""
    step = f"{about['scale'] / (65534 if about['signed'] else 131070):.1g}"
    if "all" in about:
        return f"All {what}s are exact to {step}."
    k, (rows, columns), (Lq, Lk) = about["k"], about["grid"], about["shape"][2:]
    if rows:
        others = f"pooled to the largest in blocks of {-(-Lq // rows)} x {-(-Lk // columns)}"
    else:
        others = "left out, but for their sum"
    if not k:
        return f"The {what}s are {others}; none is exact."
    each = f"The {k} largest {what}s of each row are" if k > 1 else f"The largest {what} of each row is"
    return f"{each} exact to {step}; the others are {others}."


def text_of(*arrays: NDArray[Any]) -> str:
    """Return the bytes of arrays, one after the other, in base64."""
    return base64.b64encode(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).decode()


def shrunk(table: NDArray[np.floating], most: int) -> NDArray[np.floating]:
    """Return (..., Lq, Lk) with at most `most` rows and columns: the number of greatest size of each block."""
    Lq, Lk = table.shape[-2:]
    if max(Lq, Lk) <= most:
        return table
    heads = np.nan_to_num(table).reshape(-1, Lq, Lk)
    small = _pooled(heads, (min(Lq, most), min(Lk, most)), bool((heads < 0).any()))
    return small.reshape(*table.shape[:-2], *small.shape[-2:])


def _pooled(table: NDArray[np.floating], grid: tuple[int, int], signed: bool) -> NDArray[np.floating]:
    """Return the number of greatest size in each block of (H, Lq, Lk). A row i is in block floor(i n / Lq)."""
    ends = [-(-np.arange(n) * length // n) for n, length in zip(grid, table.shape[1:], strict=True)]

    def greatest(x: NDArray[np.floating]) -> NDArray[np.floating]:
        return np.maximum.reduceat(np.maximum.reduceat(x, ends[0], axis=1), ends[1], axis=2)

    most = greatest(table)
    if not signed:
        return most
    least = -greatest(-table)
    return np.where(-least > most, least, most)
