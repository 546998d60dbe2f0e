"""Which texts are computed together, and what embeddings become at last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..._words.errors import shown
from ..generation.steps import positions_of

CHUNK = 4096  # texts that are tokenized at a time,
CHARACTERS = 1 << 22  # and how many characters they may have together
TOKENS = 8192  # that are computed together; a longer text is alone
OPTIONS = {
    "precision": ("float32", "int8", "uint8", "binary", "ubinary"),
    "output_value": ("sentence_embedding", "token_embeddings"),
    "task": ("query", "document", None),
}


def check_options(**options: Any) -> None:
    """Refuse values of options that have few."""
    for name, value in options.items():
        if value not in OPTIONS[name]:
            named = ", ".join(str(one) for one in OPTIONS[name] if one is not None)
            raise ValueError(f"encode: {name} must be one of {named}; got {shown(value)}")


def chunks(texts: Sequence[str], least: int) -> Iterator[slice]:
    """Return parts of many texts, so that the memory for their ids has a bound."""
    begin = count = 0
    for i, text in enumerate(texts):
        count += len(text)
        if i + 1 - begin >= max(CHUNK, least) or count >= CHARACTERS:
            yield slice(begin, i + 1)
            begin, count = i + 1, 0
    if begin < len(texts):
        yield slice(begin, len(texts))


def batches(ids: Sequence[Sequence[int]], batch_size: int) -> Iterator[np.ndarray]:
    """Return the places of texts that are computed together, the longest first."""
    order = np.argsort([-len(x) for x in ids], kind="stable")
    begin = 0
    while begin < len(order):
        width = max(1, len(ids[order[begin]]))
        count = max(1, min(batch_size, TOKENS // width))
        yield order[begin : begin + count]
        begin += count


def padded(rows: Sequence[Sequence[int]], padding: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ids ``(B, L)`` and lengths ``(B,)``."""
    lens = np.array([len(x) for x in rows], np.int64)
    made = np.full((len(rows), max(1, int(lens.max(initial=0)))), padding, np.int64)
    for row, x in zip(made, rows, strict=True):
        row[: len(x)] = x
    return made, lens


def most_positions(model: Any) -> int | None:
    """Return how many ids a text may have; None where there is no table of positions and no limit is named."""
    if (count := getattr(model, "positions", None)) is not None:
        return int(count)
    body = "encoder" if model.architecture.kind == "encoder-decoder" else "body"
    table = positions_of(model, body)
    named = model.config.get("max_position_embeddings")
    return table or (named if isinstance(named, int) else None)


def quantized(rows: np.ndarray, precision: str) -> np.ndarray:
    """Return embeddings ``(N, M)`` in fewer bits, as sentence-transformers makes them of the embeddings themselves.

    Bytes divide what lies between the smallest and the largest value of each feature into 256 parts; bits say what is
    above 0.
    """
    if precision == "float32":
        return rows
    if precision.endswith("binary"):
        bits = np.packbits(rows > 0, axis=-1)
        return bits if precision == "ubinary" else (bits.astype(np.int16) - 128).astype(np.int8)
    if len(rows) == 0:
        return np.zeros(rows.shape, precision)
    if len(rows) == 1:
        raise ValueError(
            f"encode: texts must be several for precision {precision} because its ranges are those of the "
            "embeddings; got one"
        )
    first, last = rows.min(axis=0), rows.max(axis=0)
    steps = (last - first) / 255
    parts: np.ndarray = np.clip(np.floor((rows - first) / np.where(steps == 0, 1, steps)), 0, 255)
    return parts.astype(np.uint8) if precision == "uint8" else (parts - 128).astype(np.int8)
