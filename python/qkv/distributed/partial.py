"""The passes of attention round the ring: partial results of one block of keys after the other, merged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _core
from . import formulas
from .arguments import Arguments
from .ring import Ring
from .trace import span

Array = NDArray[Any]


class Saved(NamedTuple):
    """Results of this rank's queries over all keys."""

    out: Array  # (B, H, Lq, Dv)
    statistics: Array  # (B, H, Lq, 2): largest score and 1 / sum of exp(score - largest), as in the kernels
    lse: Array  # (B, H, Lq); of softmax


def _shapes(call: Arguments) -> list[tuple[tuple[int, ...], ...]]:
    """Return the shapes of each rank's keys and values."""
    B, _, Hkv, D, Dv = call.sizes
    lengths = [sum(part.size for part in keys) for keys in call.layout.keys]
    return [((B, Hkv, length, D), (B, Hkv, length, Dv)) for length in lengths]


def _own(call: Arguments) -> list[Array]:
    return [np.ascontiguousarray(call.key), np.ascontiguousarray(call.value)]


def _stretches(call: Arguments, owner: int, block: Sequence[Array]) -> list[tuple[Array, Array]]:
    """Return keys and values (B, Hkv, n, ...) of each stretch of a rank, as views."""
    (key, value), begin, found = block, 0, []
    for stretch in call.layout.keys[owner]:
        part = slice(begin, begin := begin + stretch.size)
        found.append((key[:, :, part], value[:, :, part]))
    return found


class Merged:
    """The sum of what blocks of keys contribute to some queries.

    Each block's is scaled to the largest score so far, unless weights are those of single scores (`divides` is False).
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any, divides: bool) -> None:
        self.shape, self.dtype, self.divides = shape, dtype, divides
        self.total: Array | None = None  # (B, H, Lq, Dv), once there is something in it
        self.largest = np.full(shape[:3], -np.inf)
        self.sum = np.zeros(shape[:3])

    def add(self, out: Array, statistics: Array) -> None:
        if self.divides:
            self._rescale_block(out, statistics)
        if self.total is None:
            self.total = out
        else:
            self.total += out

    def _rescale_block(self, out: Array, statistics: Array) -> None:
        largest, inverse = statistics[..., 0], statistics[..., 1]  # of the block, which are used up
        none = inverse == 0  # no key of this block is allowed
        largest[none], inverse[none] = -np.inf, 1
        self._rescale(largest)
        share = self._exp(largest)
        share /= inverse
        self.sum += share
        out *= share[..., None].astype(out.dtype)

    def add_sinks(self, sinks: Array) -> None:
        column = np.broadcast_to(sinks[:, None], self.largest.shape)
        self._rescale(column)
        self.sum += self._exp(column)

    def _exp(self, score: Array) -> Array:
        """Return ``exp(score - largest)``, 0 for -inf."""
        difference = np.where(np.isneginf(self.largest), 0.0, self.largest)
        np.subtract(score, difference, out=difference)
        return np.asarray(_core.exp(difference))

    def _rescale(self, scores: Array) -> None:
        """Let `largest` be the largest of these scores, too."""
        before = self.largest
        self.largest = np.maximum(before, scores)
        factor = self._exp(before)
        self.sum *= factor
        if self.total is not None:
            self.total *= factor[..., None].astype(self.total.dtype)

    def result(self) -> tuple[Array, Array, Array]:
        """Return output, statistics and lse."""
        if not self.divides:
            self.largest[...], self.sum[...] = 0, 1
        some = self.sum != 0
        inverse = np.where(some, 1.0, 0.0) / np.where(some, self.sum, 1.0)
        largest = np.where(some, self.largest, 0.0)
        out = np.zeros(self.shape, self.dtype) if self.total is None else self.total
        out *= inverse[..., None].astype(out.dtype)
        lse = np.where(some, largest + np.asarray(_core.log(self.sum)), -np.inf)
        return out, np.stack([largest, inverse], axis=-1).astype(out.dtype), lse.astype(out.dtype)


def forward(call: Arguments) -> Saved:
    """Go round the ring with the keys and values."""
    layout, rank = call.layout, call.rank
    B, H, _, _, Dv = call.sizes
    queries = [np.ascontiguousarray(call.query[:, :, call.rows(i)]) for i in range(len(call.own_queries))]
    divides = call.options["normalizer"] == "softmax"
    merged = [Merged((B, H, q.shape[2], Dv), q.dtype, divides) for q in queries]
    ring = Ring(call.comm, _shapes(call), layout.steps, call.query.dtype)
    for owner, block in ring.blocks(_own(call)):
        keys = _stretches(call, owner, block)
        for i, j in layout.pairs(rank, owner):
            options = call.block_options(call.own_queries[i], layout.keys[owner][j], call.rows(i))
            compute = _core.attention_block if options["score_mod"] is None else formulas.block
            block_result: Any = compute(queries[i], *keys[j], options)
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
    """Go round again, with keys, values and their gradients; gives those of all inputs."""
    layout, rank = call.layout, call.rank
    rows = [call.rows(i) for i in range(len(call.own_queries))]

    def cut(x: Array | None) -> list[Any]:
        return [None if x is None else np.ascontiguousarray(x[:, :, r]) for r in rows]

    queries, outs, statistics = cut(call.query), cut(saved.out), cut(saved.statistics)
    douts, dlses = cut(dout), cut(dlse)
    dquery = np.empty_like(call.query)
    begun: set[int] = set()  # stretches with something in their gradients
    dcaptured = [np.zeros(x.shape, str(x.dtype)) for x in call.captured]
    dmask = None if call.mask is None or call.mask.dtype == np.bool_ else np.zeros_like(call.mask)

    def share(owner: int, block: Sequence[Array]) -> list[Array]:
        keys = _stretches(call, owner, block)
        total = [np.empty_like(array) for array in block]
        totals = _stretches(call, owner, total)
        seen: set[int] = set()
        for i, j in layout.pairs(rank, owner):
            stretch = layout.keys[owner][j]
            options = call.block_options(call.own_queries[i], stretch, rows[i])
            saved_rows, arrays = (douts[i], dlses[i], outs[i], statistics[i]), [queries[i], *keys[j]]
            if options["score_mod"] is None:
                dq, dk, dv, dbias = _core.attention_block_backward(*saved_rows, queries[i], *keys[j], options)
            else:
                dq, dk, dv, dbias, *more = formulas.block_gradients(
                    *saved_rows, arrays, options, call.captured
                )
                for total_of, share_of in zip(dcaptured, more, strict=True):
                    total_of += share_of
            _add(dquery[:, :, rows[i]], dq, first=i not in begun)
            _add(totals[j][0], dk, first=j not in seen)
            _add(totals[j][1], dv, first=j not in seen)
            begun.add(i)
            seen.add(j)
            del dq, dk, dv
            if dmask is not None:
                place = dmask if dmask.shape[2] == 1 else dmask[:, :, rows[i]]
                place = place if place.shape[3] == 1 else place[..., stretch.begin : stretch.end]
                place += dbias
        for j in set(range(len(totals))) - seen:
            totals[j][0][...] = totals[j][1][...] = 0
        return total

    call.comm.operation = "attention's backward pass"
    ring = Ring(call.comm, _shapes(call), layout.steps, call.query.dtype)
    dkey, dvalue = ring.sums(_own(call), share)
    for i in set(range(len(rows))) - begun:
        dquery[:, :, rows[i]] = 0
    with span("compute"):
        dsinks = None if call.sinks is None else _sink_gradient(call.sinks, saved, dout, dlse)
    return dquery, dkey, dvalue, dmask, dsinks, *dcaptured


def _add(total: Array, share: Array, *, first: bool) -> None:
    if first:
        total[...] = share
    else:
        total += share


def _sink_gradient(sinks: Array, saved: Saved, dout: Array, dlse: Array | None) -> Array:
    """A sink has a share of each row's sum and no value."""
    share = np.asarray(_core.exp(sinks[:, None] - saved.statistics[..., 0].astype(np.float64)))
    share = share * saved.statistics[..., 1]
    shift = (dout.astype(np.float64) * saved.out).sum(axis=-1)
    if dlse is not None:
        shift = shift - dlse
    return np.asarray(-(share * shift).sum(axis=(0, 2)))
