"""The passes of attention round the ring: partial results of one block of keys after the other, merged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .arguments import Arguments
from .ring import Ring
from .trace import span

Array = NDArray[Any]


class Saved(NamedTuple):
    """Results of this rank's queries over all keys."""

    out: Array  # (B, H, Lq, Dv)
    statistics: Array  # (B, H, Lq, 2): largest score and 1 / sum of exp(score - largest), as in the kernels
    lse: Array  # (B, H, Lq)


def _block_sizes(call: Arguments) -> list[int]:
    B, _, Hkv, D, Dv = call.sizes
    return [B * Hkv * (D + Dv) * sum(part.size for part in keys) for keys in call.layout.keys]


def _pack(call: Arguments, owner: int, key: Array, value: Array) -> Array:
    """Give keys and values (B, Hkv, Lk, ...) of a rank as one block: stretch by stretch, keys before values."""
    sizes = _block_sizes(call)
    block = np.empty(max(sizes), key.dtype)[: sizes[owner]]  # room for the blocks that come
    begin = 0
    for (k, v), stretch in zip(_unpack(call, owner, block), call.layout.keys[owner], strict=True):
        k[...] = key[:, :, begin : begin + stretch.size]
        v[...] = value[:, :, begin : begin + stretch.size]
        begin += stretch.size
    return block


def _unpack(call: Arguments, owner: int, block: Array) -> Iterator[tuple[Array, Array]]:
    """Give keys (B, Hkv, n, D) and values (B, Hkv, n, Dv) of each stretch, as views."""
    B, _, Hkv, D, Dv = call.sizes
    begin = 0
    for stretch in call.layout.keys[owner]:
        shapes = [(B, Hkv, stretch.size, D), (B, Hkv, stretch.size, Dv)]
        parts = []
        for shape in shapes:
            end = begin + int(np.prod(shape))
            parts.append(block[begin:end].reshape(shape))
            begin = end
        yield parts[0], parts[1]


class Merged:
    """The sum of what blocks of keys contribute to some queries, each block's scaled to the largest score so far."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype
        self.total: Array | None = None  # (B, H, Lq, Dv), once there is something in it
        self.largest = np.full(shape[:3], -np.inf)
        self.sum = np.zeros(shape[:3])

    def add(self, out: Array, statistics: Array) -> None:
        inverse = statistics[..., 1].astype(np.float64)
        some = inverse != 0  # else no key of this block is allowed
        largest = np.where(some, statistics[..., 0], -np.inf)
        self._rescale(np.maximum(self.largest, largest))
        share = np.where(some, self._exp(largest), 0.0)
        share /= np.where(some, inverse, 1.0)
        self.sum += share
        out *= share[..., None].astype(out.dtype)
        if self.total is None:
            self.total = out
        else:
            self.total += out

    def add_sinks(self, sinks: Array) -> None:
        column = np.broadcast_to(sinks[:, None], self.largest.shape)
        self._rescale(np.maximum(self.largest, column))
        self.sum += self._exp(column)

    def _exp(self, score: Array) -> Array:
        return np.asarray(np.exp(score - np.where(np.isneginf(self.largest), 0.0, self.largest)))

    def _rescale(self, largest: Array) -> None:
        old, self.largest = self.largest, largest
        factor = np.where(np.isneginf(old), 0.0, self._exp(old))
        self.sum *= factor
        if self.total is not None:
            self.total *= factor[..., None].astype(self.total.dtype)

    def result(self) -> tuple[Array, Array, Array]:
        """Give output, statistics and lse."""
        some = self.sum != 0
        inverse = np.where(some, 1.0, 0.0) / np.where(some, self.sum, 1.0)
        largest = np.where(some, self.largest, 0.0)
        out = np.zeros(self.shape, self.dtype) if self.total is None else self.total
        out *= inverse[..., None].astype(out.dtype)
        with np.errstate(divide="ignore"):
            lse = np.where(some, largest + np.log(self.sum), -np.inf)
        return out, np.stack([largest, inverse], axis=-1).astype(out.dtype), lse.astype(out.dtype)


def forward(call: Arguments) -> Saved:
    """Go round the ring with the keys and values."""
    layout, rank = call.layout, call.rank
    B, H, _, _, Dv = call.sizes
    queries = [np.ascontiguousarray(call.query[:, :, call.rows(i)]) for i in range(len(call.own_queries))]
    merged = [Merged((B, H, q.shape[2], Dv), q.dtype) for q in queries]
    ring = Ring(call.comm, _block_sizes(call), layout.steps, call.query.dtype)
    for owner, block in ring.blocks(_pack(call, rank, call.key, call.value)):
        keys = list(_unpack(call, owner, block))
        for i, j in layout.pairs(rank, owner):
            options = call.block_options(call.own_queries[i], layout.keys[owner][j], call.rows(i))
            block_result: Any = _core.attention_block(queries[i], *keys[j], options)
            merged[i].add(*block_result)
            del block_result
    for part in merged:
        if call.sinks is not None:
            part.add_sinks(call.sinks)
    results = [part.result() for part in merged]
    return Saved(*(_joined(parts) for parts in zip(*results, strict=True)))


def _joined(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)


def backward(call: Arguments, saved: Saved, dout: Array, dlse: Array | None) -> tuple[Array | None, ...]:
    """Go round again, with keys, values and their gradients; gives those of query, key, value, mask and sinks."""
    layout, rank = call.layout, call.rank
    rows = [call.rows(i) for i in range(len(call.own_queries))]

    def cut(x: Array | None) -> list[Any]:
        return [None if x is None else np.ascontiguousarray(x[:, :, r]) for r in rows]

    queries, outs, statistics = cut(call.query), cut(saved.out), cut(saved.statistics)
    slopes, lse_slopes = cut(dout), cut(dlse)
    dquery = np.zeros_like(call.query)
    dmask = None if call.mask is None or call.mask.dtype == np.bool_ else np.zeros_like(call.mask)

    def share(owner: int, block: Array) -> Array:
        keys = list(_unpack(call, owner, block))
        total = np.zeros_like(block)
        totals = list(_unpack(call, owner, total))
        for i, j in layout.pairs(rank, owner):
            stretch = layout.keys[owner][j]
            options = call.block_options(call.own_queries[i], stretch, rows[i])
            dq, dk, dv, dbias = _core.attention_block_backward(
                slopes[i], lse_slopes[i], outs[i], statistics[i], queries[i], *keys[j], options
            )
            dquery[:, :, rows[i]] += dq
            totals[j][0][...] += dk
            totals[j][1][...] += dv
            del dq, dk, dv
            if dmask is not None:
                place = dmask if dmask.shape[2] == 1 else dmask[:, :, rows[i]]
                place = place if place.shape[3] == 1 else place[..., stretch.begin : stretch.end]
                place += dbias
        return total

    call.comm.operation = "attention's backward pass"
    ring = Ring(call.comm, _block_sizes(call), layout.steps, call.query.dtype)
    home = ring.sums(_pack(call, rank, call.key, call.value), share)
    with span("compute"):
        dkey, dvalue = (_joined(parts) for parts in zip(*_unpack(call, rank, home), strict=True))
        dsinks = None
        if call.sinks is not None:
            dsinks = _sink_gradient(call.sinks, saved, dout, dlse)
    return dquery, dkey, dvalue, dmask, dsinks


def _sink_gradient(sinks: Array, saved: Saved, dout: Array, dlse: Array | None) -> Array:
    """A sink has a share of each row's sum and no value."""
    share = np.exp(sinks[:, None] - saved.statistics[..., 0].astype(np.float64)) * saved.statistics[..., 1]
    shift = (dout.astype(np.float64) * saved.out).sum(axis=-1)
    if dlse is not None:
        shift = shift - dlse
    return np.asarray(-(share * shift).sum(axis=(0, 2)))
