"""Formulas inside fused attention: scores, masks and gradients against the same operations on all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from formula_cases import (
    MASKS,
    SCORES,
    Arrays,
    B,
    H,
    Score,
    alibi,
    arithmetic,
    arrays,
    capped_sum,
    documents,
    each_level_of_leaf,
    graph_distances,
    half_excluded,
    inputs,
    neighbours,
    pair_bias,
    past,
    shifted_rows,
    trained_cap,
)
from formula_nodes import AllPairs, Nodes, blocks_of
from helpers import close, same_bits_for_any_threads
from levels import each_level, run_at
from second_checks import check_second
from sweep import sweep

import qkv
from qkv import _core
from qkv.testing import check_gradient


def mask_of(mask: Score, a: Arrays, queries: int, keys: int, heads: int = H) -> np.ndarray:
    return np.broadcast_to(mask(AllPairs(None, queries, keys), a), (B, heads, queries, keys))


def built(score: Score | None, mask: Score | None, a: Arrays, blocks: Any = (None, None)) -> Any:
    nodes = Nodes()
    return nodes.formula(score and score(nodes, a), mask and mask(nodes, a), blocks)


NONE_GIVEN: dict[str, Any] = {
    **dict(
        attn_mask=None,
        dropout_p=0.0,
        is_causal=False,
        scale=None,
        enable_gqa=False,
        valid_lens=None,
        window=None,
    ),
    **dict(softcap=0.0, alibi_slopes=None, q_offset=None, sinks=None, masked_value=None, dropout_keep=None),
    **dict(return_weights=False, return_lse=False),
}


def fused(
    x: list[Any], score: Score | None, mask: Score | None, a: Arrays, blocks: Any = (None, None), **o: Any
) -> Any:
    given = (NONE_GIVEN | o).values()
    return _core.scaled_dot_product_attention(*x, *given, formula=built(score, mask, a, blocks))


def composed(x: list[Any], score: Score | None, mask: Score | None, a: Arrays, **o: Any) -> Any:
    """Scores of all pairs as a float mask of attention between empty queries and keys."""
    q, k, v = x
    queries, keys, heads = q.shape[-2], k.shape[-2], q.shape[1]
    if k.shape[1] != heads:
        k, v = (np.repeat(y, heads // k.shape[1], 1) for y in (k, v))
    s = q @ k.swapaxes(-1, -2) * (o.pop("scale", None) or q.shape[-1] ** -0.5)
    cap = o.pop("softcap", 0)
    if cap:
        s = qkv.tanh(s / cap) * cap
    bias = o.pop("attn_mask", None)
    open_ = np.ones((1, 1, 1, 1), bool) if bias is None else bias if bias.dtype == bool else bias != -np.inf
    if bias is not None and bias.dtype != bool:
        s = s + np.where(open_, bias, 0)
    o.pop("enable_gqa", None)
    pairs = AllPairs(s, queries, keys)
    if score is not None:
        s = score(pairs, a)
    s = qkv.where(mask(pairs, a), s, -np.inf) if mask is not None else s
    s = qkv.where(open_, s, -np.inf) + np.zeros((q.shape[0], heads, queries, keys), q.dtype)
    return qkv.scaled_dot_product_attention(q[..., :0], k[..., :0], v, attn_mask=s, **o)


def names_of(score: Score | None, a: Arrays) -> list[str]:
    """Return the floating arrays that a formula reads."""
    read: list[str] = []

    class Recording(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            if a[name].dtype.kind == "f" and name not in read:
                read.append(name)
            return a[name]

    if score is not None:
        score(Nodes(), Recording())
    return read


def compare(queries: int, keys: int, score: Score | None, mask: Score | None = None, *, dtype: str = "float64",
            heads: int = H, kv_heads: int = H, blocks: bool = False, **o: Any) -> None:  # fmt: skip
    """Compare results and all gradients with those of composed operations in float64."""
    a, x = arrays(queries, keys, dtype, heads), inputs(queries, keys, dtype, heads, kv_heads)
    names = names_of(score, a)
    found = blocks_of(mask_of(mask, a, queries, keys, heads)) if blocks and mask else (None, None)
    results = []
    for run, own in ((fused, dtype), (composed, "float64")):
        tensors = [qkv.tensor(y.astype(own), requires_grad=True) for y in x]
        trained = {name: qkv.tensor(a[name].astype(own), requires_grad=True) for name in names}
        extra = (found,) if run is fused else ()
        given = {
            name: y.astype(own) if isinstance(y, np.ndarray) and y.dtype.kind == "f" else y
            for name, y in o.items()
        }
        y = run(tensors, score, mask, a | trained, *extra, **given)
        y = y if isinstance(y, tuple) else (y,)
        total = None
        for i, part in enumerate(y):
            draw = np.random.default_rng(i).standard_normal(part.shape).astype(own)
            finite = np.where(np.isfinite(part.numpy()), draw, 0)
            term = (qkv.where(finite != 0, part, 0.0) * finite).sum()
            total = term if total is None else total + term
        total.backward()
        grads = [t.grad for t in (*tensors, *trained.values())]
        results.append([*(part.numpy() for part in y), *(None if g is None else g.numpy() for g in grads)])
    for fast, exact in zip(*results, strict=True):
        if exact is None:
            assert fast is None or not fast.any()
            continue
        size = max(1.0, float(np.abs(exact[np.isfinite(exact)]).max(initial=0)))
        close(fast / size, exact / size, dtype if dtype == "float64" else "float32 deep")


@pytest.mark.parametrize("score", SCORES)
@sweep("queries, keys", [(37, 151), (2, 67), (131, 17)])
def test_scores_and_gradients(score: Score, queries: int, keys: int):
    compare(queries, keys, score)


def random_score(seed: int) -> Score:
    """Return a score of many values at a time: all places that hold them, and instructions that join two nodes."""

    def score(o: Any, a: Arrays) -> Any:
        rng = np.random.default_rng(seed)
        values = [o.score, o.leaf("head", a["head"]), o.leaf("query", a["query"]), o.leaf("key", a["key"])]
        values.append(o.leaf("diagonal", a["diagonal"]))

        def any_of() -> Any:
            return values[rng.integers(len(values))]

        for _ in range(24):
            kind, x, y = rng.integers(7), any_of(), any_of()
            scaled = o.multiply(x, o.constant(0.5) if rng.random() < 0.5 else y)
            if kind == 0:
                new = o.multiply(o.tanh(scaled), any_of() if rng.random() < 0.5 else o.constant(0.25))
            elif kind == 1:
                new = o.where(o.less(x, y), any_of(), any_of())
            elif kind == 2:
                new = o.where(o.less_equal(y, x), o.negative(x), any_of())
            elif kind == 3:
                new = o.multiply(o.sigmoid(scaled), any_of())
            else:
                new = o.add(scaled, any_of()) if kind < 6 else o.subtract(o.absolute(x), y)
            values.append(o.tanh(new) if rng.random() < 0.5 else new)
        return o.add(o.tanh(values[-1]), o.multiply(o.tanh(values[-2]), o.tanh(values[-3])))

    return score


@pytest.mark.parametrize("seed", range(12))
def test_places_of_many_values(seed: int):
    compare(11, 13, random_score(seed))


@pytest.mark.parametrize("score", SCORES)
def test_float32(score: Score):
    compare(67, 139, score, dtype="float32")


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("mask", MASKS)
@sweep("score", [None, alibi, trained_cap, graph_distances])
def test_masks(score: Score | None, mask: Score, blocks: bool):
    compare(157, 263, score, mask, blocks=blocks)


@pytest.mark.parametrize("score", [each_level_of_leaf, trained_cap, pair_bias, graph_distances])
@pytest.mark.parametrize("mask", [None, neighbours])
@pytest.mark.parametrize("queries", [1, 29])
def test_grouped_heads(score: Score, mask: Score | None, queries: int):
    compare(queries, 139, score, mask, heads=6, kv_heads=2, enable_gqa=True, blocks=True)


OPTIONS: dict[str, dict[str, Any]] = {
    "causal": {"is_causal": True},
    "window": {"window": (5, 3), "is_causal": "lower_right"},
    "lengths": {"valid_lens": np.array([0, 61])},
    "lengths of queries": {"valid_lens": np.arange(2 * 71).reshape(2, 71) % 83},
    "boolean mask": {"attn_mask": np.random.default_rng(3).random((2, 1, 71, 83)) < 0.5},
    "float mask": {"attn_mask": np.random.default_rng(3).standard_normal((1, 3, 71, 83))},
    "float mask that excludes": {
        "attn_mask": np.where(np.random.default_rng(3).random((1, 3, 71, 83)) < 0.3, -np.inf, 0.25)
    },
    "soft cap": {"softcap": 1.5},
    "all of scores": {"softcap": 1.5, "attn_mask": np.random.default_rng(3).standard_normal((1, 3, 1, 83))},
    "scale": {"scale": -0.7},
    "sinks": {"sinks": np.array([0.3, -1.2, 2.0])},
    "weights": {"return_weights": True},
    "lse": {"return_lse": True},
    "weights and lse": {"return_weights": True, "return_lse": True},
    "dropout": {"dropout_p": 0.3, "dropout_keep": np.random.default_rng(5).random((2, 3, 71, 83)) < 0.7},
    "masked value": {"masked_value": -3.0, "is_causal": True},
    "offset": {"q_offset": np.array([3, 17]), "is_causal": True},
}


@pytest.mark.parametrize("option", OPTIONS)
@sweep(
    "score, mask",
    [(trained_cap, documents), (capped_sum, None), (half_excluded, neighbours), (pair_bias, past)],
)
def test_beside_options(option: str, score: Score, mask: Score | None):
    compare(71, 83, score, mask, blocks=True, **OPTIONS[option])


def test_trained_float_mask_and_sinks_beside_a_formula():
    a, x = arrays(37, 41), inputs(37, 41)
    bias, sinks = np.random.default_rng(1).standard_normal((2, 1, 37, 41)), np.array([0.5, -1.0, 1.5])

    def f(*y: Any) -> Any:
        *qkv_, bias_, sinks_ = y
        return fused(qkv_, capped_sum, documents, a, attn_mask=bias_, sinks=sinks_, softcap=2.0)

    check_gradient(f, *x, bias, sinks)


@pytest.mark.parametrize("score", SCORES)
def test_second_derivatives(score: Score):
    a, x = arrays(3, 5), inputs(3, 5)
    names = names_of(score, a)

    def f(*y: Any) -> Any:
        given = dict(zip(names, y[3:], strict=True))
        return fused(list(y[:3]), score, documents, a | given)

    check_second(f, *x, *(a[name] for name in names))


@pytest.mark.parametrize("score", [each_level_of_leaf, trained_cap, pair_bias, shifted_rows, graph_distances])
def test_bits_do_not_depend_on_threads(score: Score):
    a, x = arrays(301, 577, "float32"), inputs(301, 577, "float32")
    names = names_of(score, a)

    def f() -> list[np.ndarray]:
        tensors = [qkv.tensor(y, requires_grad=True) for y in x]
        trained = {name: qkv.tensor(a[name], requires_grad=True) for name in names}
        y = fused(tensors, score, documents, a | trained)
        y.backward(np.ones(y.shape, np.float32))
        return [y.numpy(), *(t.grad.numpy() for t in (*tensors, *trained.values()))]

    same_bits_for_any_threads(f)


def large_table(o: Any, a: Arrays) -> Any:
    return o.add(o.score, o.rows(a["large"], o.leaf("query", a["large_rows"])))


@pytest.mark.parametrize("apart", [True, False])
def test_tables_too_large_for_copies(apart: bool):
    """Such a table gets its gradient from one matrix after the other."""
    queries, keys = 523, 577
    x = inputs(queries, keys, "float32")
    table = np.random.default_rng(2).standard_normal(queries * keys).astype(np.float32)
    rows = np.arange(queries).reshape(1, 1, -1) * (keys if apart else 1)

    def f() -> list[np.ndarray]:
        trained = qkv.tensor(table, requires_grad=True)
        tensors = [qkv.tensor(y, requires_grad=True) for y in x]
        y = fused(tensors, large_table, None, {"large": trained, "large_rows": rows})
        y.backward(np.ones(y.shape, np.float32))
        return [y.numpy(), trained.grad.numpy(), *(t.grad.numpy() for t in tensors)]

    same_bits_for_any_threads(f)
    bias = qkv.tensor(table[rows.reshape(-1, 1) + np.arange(keys)], requires_grad=True)
    y = qkv.scaled_dot_product_attention(*x, attn_mask=bias)
    y.backward(np.ones(y.shape, np.float32))
    expected = np.zeros(table.size)
    np.add.at(expected, rows.reshape(-1, 1) + np.arange(keys), bias.grad.numpy())
    close(f()[1], expected, "float32 gradient")


def test_an_index_outside_is_an_error_unless_its_pairs_are_excluded():
    a, x = arrays(19, 23), inputs(19, 23)

    def beyond(o: Any, b: Arrays) -> Any:
        at = o.subtract(o.leaf("query", b["query_place"]), o.leaf("key", b["key_place"]))
        return o.add(o.score, o.gather(b["by_distance"], o.index(at, 17, "formula.py:7")))

    with pytest.raises(
        IndexError, match=r"attention: an index is out of bounds for an axis of size 17 in formula\.py:7"
    ):
        fused(x, beyond, None, a)
    fused(x, beyond, None, a, window=(10, 10))
    fused(x, beyond, past, a | {"past": (np.abs(np.arange(41) - 22) < 9).reshape(1, 1, -1)})


@pytest.mark.parametrize("score", [alibi, trained_cap, graph_distances, arithmetic])
def test_nan_behind_a_mask_reaches_nothing(score: Score):
    a, x = arrays(67, 139), inputs(67, 139)
    spoilt = [x[0], x[1].copy(), x[2].copy()]
    a["key_ids"][0, 0, -3:], a["query_ids"][0] = 9, np.minimum(a["query_ids"][0], 4)
    spoilt[1][0, :, -3:], spoilt[2][0, :, -1] = np.nan, np.inf

    def run(y: list[np.ndarray]) -> list[np.ndarray]:
        names = names_of(score, a)
        tensors = [qkv.tensor(z, requires_grad=True) for z in y]
        trained = {name: qkv.tensor(a[name], requires_grad=True) for name in names}
        out = fused(tensors, score, documents, a | trained)
        out.backward(np.ones(out.shape))
        return [out.numpy(), *(t.grad.numpy() for t in (*tensors, *trained.values()))]

    for actual, expected in zip(run(spoilt), run(x), strict=True):
        close(actual, expected)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (("tan", (0,), None), "formula: unknown node tan of 1 such arguments"),
        (("add", (0, 7), None), "formula: node add must have earlier nodes as arguments"),
        (("leaf", (), 3), "formula: node leaf names no leaf"),
        (("leaf", (), 0), "formula: node leaf must not name a table"),
        (("rows", (1,), 0), "formula: node rows must have a leaf of queries or heads as argument"),
    ],
)
def test_wrong_nodes(node: tuple[Any, ...], message: str):
    nodes = [("score", (), None), ("constant", (), 2), node]
    with pytest.raises((ValueError, IndexError), match=message):
        _core.formula_program(nodes, [("table", "float")])


def test_arrays_that_do_not_fit():
    a, x = arrays(19, 23), inputs(19, 23)
    with pytest.raises(
        ValueError, match=r"leaf 0 of a formula must be \(B or 1, H or 1, 41\); got \(1, 3, 40\)"
    ):
        fused(x, alibi, None, a | {"diagonal": a["diagonal"][..., 1:]})
    with pytest.raises(ValueError, match="rows of a formula's table must lie inside its 2622 numbers"):
        fused(x, pair_bias, None, a | {"pair_rows": a["pair_rows"] + 1})
    with pytest.raises(ValueError, match=r"blocks of a formula's mask must be \(B or 1, H or 1, 1, 1\)"):
        fused(x, None, past, a, (np.ones((1, 1, 2, 1), bool),) * 2)
    with pytest.raises(ValueError, match="integers of a formula must fit 32 bits"):
        fused(x, None, documents, a | {"query_ids": a["query_ids"] + 2**33})


def test_integers_of_pairs_keep_every_bit():
    """Read as numbers, those around -5 million are signalling NaN."""
    ids = -5_000_000 - np.arange(11 * 19).reshape(11, 19)
    q, k, v = (np.zeros((1, 1, n, 5), np.float32) for n in (11, 19, 19))

    def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return qkv.where(ids[i, j] + 5_000_000 == -19 * i - j, s, s - 100)

    _, weights = qkv.scaled_dot_product_attention(q, k, v, score_mod=score, return_weights=True)
    close(weights, np.full((1, 1, 11, 19), 1 / 19), "float32")


@each_level()
def test_levels(level: str):
    program = "import test_formula_kernel as t\nfor s in t.SCORES: t.compare(67, 139, s, t.neighbours, dtype='float32')"
    result = run_at(level, program + "\nt.compare(67, 139, t.arithmetic, t.documents)")
    assert result.returncode == 0, result.stderr
