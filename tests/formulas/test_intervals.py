"""Blocks by intervals beside every pair, and masks that kernels know by their rules."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from sweep import sweep

import qkv
from qkv._formulas.graph import Graph
from qkv._formulas.intervals import EMPTY, FULL, MIXED, Blocks
from qkv._formulas.native import split
from qkv._formulas.trace import trace
from qkv.masks import formulas

from . import cases
from .cases import LK, LQ, MASKS, B, H

LONG = 100_000
IDS = np.arange(LONG) // 500
TABLE = np.random.default_rng(0).random((782, 782)) < 0.1
LONG_MASKS = {
    "causal": formulas.causal,
    "window": formulas.sliding_window(1000),
    "dilated": formulas.dilated(1000, 4),
    "prefix": formulas.prefix(1000),
    "documents": formulas.documents(IDS),
    "neighbours": formulas.neighbours(250, 400, 6),
    "tiles": lambda b, h, q, k: (q // 6400 == k // 6400) & ((q % 400) // 20 == (k % 400) // 20),
    "strided": formulas.strided(300),
    "global window": formulas.global_window(256, 64),
    "table of blocks": lambda b, h, q, k: TABLE[q // 128, k // 128],
    "block diffusion": formulas.block_diffusion(64, LONG // 2),
    "shared prefix": formulas.shared_prefix(500, IDS),
}  # fmt: skip


def classified(mask, shape, size, offsets=None):
    graph = Graph(shape, offsets)
    return Blocks(graph, size).kinds(trace(graph, mask, False))


def counted(allowed, size):
    """Return the kinds of blocks by all pairs."""
    *_, Lq, Lk = allowed.shape
    rows, columns = -(-Lq // size[0]), -(-Lk // size[1])
    kinds = np.empty((*allowed.shape[:2], rows, columns), np.uint8)
    for i in range(rows):
        for j in range(columns):
            block = allowed[..., i * size[0] : (i + 1) * size[0], j * size[1] : (j + 1) * size[1]]
            kinds[..., i, j] = block.any((2, 3)).astype(int) + block.all((2, 3))
    return kinds


@pytest.mark.parametrize("blocks", [(128, 128), (64, 32), (48, 200), (1, 1)])
@pytest.mark.parametrize("size", [(128, 128), (37, 41)])
def test_tables_of_blocks_are_told_exactly(blocks, size):
    (rows, columns), (Lq, Lk) = blocks, (300, 411)
    table = np.random.default_rng(rows).random((B, H, -(-Lq // rows), -(-Lk // columns))) < 0.9
    of_all = table[0, 0]
    for mask in (
        lambda b, h, q, k: table[b, h, q // rows, k // columns],
        lambda b, h, q, k: of_all[q // rows, k // columns],
        lambda b, h, q, k: of_all[q // rows, k // columns] & (table[b, h, q // rows, k // columns] | True),
    ):
        allowed = np.broadcast_to(mask(*np.ogrid[:B, :H, :Lq, :Lk]), (B, H, Lq, Lk))
        found = classified(mask, (B, H, Lq, Lk), size)
        np.testing.assert_array_equal(
            np.broadcast_to(found, (B, H, *found.shape[2:])), counted(allowed, size)
        )


def test_a_table_between_whose_indices_nothing_adjoins_is_not_told_wrong():
    table = np.random.default_rng(1).random((300, 411)) < 0.5
    for mask in (
        lambda b, h, q, k: table[(q * 7) % 300, (k * 5) % 411],
        lambda b, h, q, k: table[q // 2, q // 3],
        lambda b, h, q, k: table[abs(q - k) % 300, k],
    ):
        allowed = np.broadcast_to(mask(*np.ogrid[:1, :1, :300, :411]), (1, 1, 300, 411))
        found, exact = classified(mask, (1, 1, 300, 411), (37, 41)), counted(allowed, (37, 41))
        assert ((found == exact) | (found == MIXED)).all()


@pytest.mark.parametrize("size", [(4, 4), (3, 5), (1, 1), (64, 64), (2, 7)])
@sweep("name", MASKS)
def test_blocks_are_never_wrong(name, size):
    allowed = np.broadcast_to(MASKS[name](*cases.indices()), (B, H, LQ, LK))
    found = np.broadcast_to(
        classified(MASKS[name], (B, H, LQ, LK), size),
        (B, H, -(-LQ // size[0]), -(-LK // size[1])),
    )
    exact = counted(allowed, size)
    assert ((found == exact) | (found == MIXED)).all()
    if size == (1, 1) or name in (
        "causal",
        "window",
        "documents",
        "prefix",
        "strided",
        "lengths",
        "block diffusion",
    ):
        np.testing.assert_array_equal(found, exact)


@pytest.mark.parametrize("offset", [3, [-2, 5]])
def test_blocks_of_moved_queries(offset):
    allowed = np.broadcast_to(formulas.causal(*cases.indices(offset)), (B, 1, LQ, LK))
    found = classified(formulas.causal, (B, H, LQ, LK), (4, 4), np.resize(offset, B))
    np.testing.assert_array_equal(np.broadcast_to(found, (B, 1, 3, 4)), counted(allowed, (4, 4)))


@pytest.mark.parametrize("name", LONG_MASKS)
def test_long_sequences_take_little_memory(name):
    tracemalloc.start()
    try:
        kinds = classified(LONG_MASKS[name], (1, 1, LONG, LONG), (128, 128))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert kinds.shape[2:] == (782, 782)
    assert most < 64e6
    r = np.random.default_rng(1)
    for kind in (EMPTY, FULL):
        places = np.argwhere(kinds[0, 0] == kind)
        for i, j in places[r.integers(0, len(places), 20)] if len(places) else ():
            q, k = (np.arange(n * 128, min(n * 128 + 128, LONG)) for n in (i, j))
            assert (LONG_MASKS[name](0, 0, q[:, None], k) == (kind == FULL)).all()


def rules(mask, shape=(B, H, LQ, LK), offsets=None):
    graph = Graph(shape, offsets)
    return split(graph, trace(graph, mask, False))


@pytest.mark.parametrize(
    "mask",
    [
        formulas.causal,
        lambda b, h, q, k: ~(k > q),
        lambda b, h, q, k: (q - k) * 2 >= 0,
        lambda b, h, q, k: k // 1 < q + 1,
        lambda b, h, q, k: qkv.where(q < k, 0, 1) == 1,
        formulas.not_mask(lambda b, h, q, k: q < k),
    ],
)
def test_causal_order_is_found_however_it_is_spelt(mask):
    for offsets in (None, np.array([2, 5])):
        assert rules(mask, offsets=offsets) == ((-1, 0), None, None)


def test_windows_and_lengths_are_found():
    assert rules(formulas.sliding_window(4, 2)) == ((4, 2), None, None)
    assert rules(formulas.sliding_window(-1, 2)) == ((-1, 2), None, None)
    assert rules(formulas.and_masks(formulas.causal, formulas.sliding_window(3, 5))) == ((3, 0), None, None)
    assert rules(lambda b, h, q, k: True) == ((-1, -1), None, None)
    lens = np.array([7, 12])
    window, lengths, rest = rules(lambda b, h, q, k: (q >= k) & (k < lens[b]) & (k <= 8))
    assert window == (-1, 0)
    assert rest is None
    np.testing.assert_array_equal(lengths, [7, 9])
    window, lengths, rest = rules(lambda b, h, q, k: (q >= k) & (k < lens[b]) & (k % 2 == h % 2))
    assert window == (-1, 0)
    np.testing.assert_array_equal(lengths, lens)
    assert rest is not None


@pytest.mark.parametrize(
    "mask",
    [
        lambda b, h, q, k: q > k,  # no window holds less than its own position
        lambda b, h, q, k: (q - k) % 2 == 0,
        lambda b, h, q, k: abs(q - k) <= h,
        lambda b, h, q, k: k < 3 * (h + 1),
        lambda b, h, q, k: k > 2,
        lambda b, h, q, k: q - k > 100,
    ],
)
def test_what_is_no_rule_is_left(mask):
    window, lengths, rest = rules(mask)
    assert (window, lengths) == ((-1, -1), None)
    assert rest is not None


def test_rules_give_what_options_give():
    q, k, v = (x.astype("float32") for x in cases.inputs())
    lens = np.array([7, 12])
    both = formulas.and_masks(formulas.sliding_window(5), lambda b, h, q, k: k < lens[b])
    found = qkv.scaled_dot_product_attention(q, k, v, mask_mod=both, q_offset=2)
    wanted = qkv.scaled_dot_product_attention(
        q, k, v, is_causal=True, window=(5, -1), valid_lens=lens, q_offset=2
    )
    assert found.tobytes() == wanted.tobytes()
    combined = qkv.scaled_dot_product_attention(
        q, k, v, mask_mod=both, window=(3, 4), valid_lens=[9, 4], q_offset=2
    )
    wanted = qkv.scaled_dot_product_attention(
        q, k, v, is_causal=True, window=(3, -1), valid_lens=[7, 4], q_offset=2
    )
    assert combined.tobytes() == wanted.tobytes()


def test_rules_take_no_memory_of_pairs():
    """A window over 200,000 positions passes, whose pairs would be 40 GB."""
    q = np.zeros((1, 1, 200_000, 1), "float32")
    y = qkv.scaled_dot_product_attention(q, q, q + 1, mask_mod=formulas.sliding_window(4))
    np.testing.assert_array_equal(y, q + 1)


@pytest.mark.parametrize("Lk", [5, 67, 131])
@pytest.mark.parametrize("first", [64, 128])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_without_a_key_leave_the_weights_of_others(dtype, first, Lk):
    # Their blocks are all empty, and the last block of keys is not a whole one.
    rng = np.random.default_rng(17)
    Lq = 131
    query, key = (rng.standard_normal((1, 1, length, 3)).astype(dtype) for length in (Lq, Lk))
    options = {"mask_mod": lambda b, h, q, k: q >= first, "return_weights": True}
    out, weights = qkv.scaled_dot_product_attention(query, key, key, **options)
    expected = (
        qkv.reference.softmax(query @ np.swapaxes(key, -1, -2) / np.sqrt(3.0))
        * (np.arange(Lq) >= first)[:, None]
    )
    np.testing.assert_allclose(weights, expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(out, expected @ key, rtol=1e-4, atol=1e-6)


def test_blocks_of_erf_are_never_wrong():
    left, right = np.linspace(-3, 3, LQ, dtype=np.float32), np.linspace(-2, 2, LK, dtype=np.float32)
    found = classified(lambda b, h, q, k: qkv.erf(left[q] * right[k]) > 0.3, (1, 1, LQ, LK), (2, 3))
    exact = counted(qkv.erf(left[:, None] * right)[None, None] > 0.3, (2, 3))
    assert ((found == exact) | (found == MIXED)).all()
    assert {EMPTY, MIXED, FULL} == set(found.ravel())
