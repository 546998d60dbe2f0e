"""Formulas of scores and masks, and the arrays that they read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

B, H, HEAD_SIZE, VALUE_SIZE = 2, 3, 5, 7
Arrays = dict[str, Any]
Score = Callable[[Any, Arrays], Any]


def alibi(o: Any, a: Arrays) -> Any:
    return o.add(o.score, o.leaf("diagonal", a["diagonal"]))


def subtracted(o: Any, a: Arrays) -> Any:
    return o.subtract(o.score, o.multiply(o.leaf("query", a["query"]), o.leaf("key", a["key"])))


def soft_cap(o: Any, a: Arrays) -> Any:
    return o.multiply(o.tanh(o.multiply(o.score, o.constant(0.5))), o.constant(2.0))


def trained_cap(o: Any, a: Arrays) -> Any:
    cap = o.exp(o.leaf("head", a["head"]))
    return o.multiply(cap, o.tanh(o.divide(o.score, cap)))


def capped_sum(o: Any, a: Arrays) -> Any:
    return o.multiply(o.constant(3.0), o.tanh(o.add(o.score, o.leaf("diagonal", a["diagonal"]))))


def gated(o: Any, a: Arrays) -> Any:
    return o.multiply(o.score, o.sigmoid(o.add(o.leaf("query", a["query"]), o.leaf("key", a["key"]))))


def each_level_of_leaf(o: Any, a: Arrays) -> Any:
    one = o.add(o.leaf("head", a["head"]), o.leaf("query", a["query"]))
    other = o.subtract(o.leaf("key", a["key"]), o.leaf("diagonal", a["diagonal"]))
    return o.add(o.multiply(one, other), o.multiply(o.score, o.leaf("key", a["key"])))


def pair_bias(o: Any, a: Arrays) -> Any:
    return o.add(o.score, o.rows(a["pairs"], o.leaf("query", a["pair_rows"])))


def shifted_rows(o: Any, a: Arrays) -> Any:
    return o.add(o.score, o.rows(a["shifted"], o.leaf("query", a["shifted_rows"])))


def graph_distances(o: Any, a: Arrays) -> Any:
    distance = o.rows(a["distances"], o.leaf("query", a["distance_rows"]))
    table = o.gather(a["by_distance"], o.add(o.leaf("head", a["head_rows"]), distance))
    return o.multiply(o.add(o.score, table), table)


def tables_of_heads(o: Any, a: Arrays) -> Any:
    at = o.add(o.leaf("key", a["four_each"]), o.leaf("diagonal", a["below_four"]))
    one, other = (o.gather(a[name], at, "head_table") for name in ("of_heads", "of_heads_of_all"))
    return o.add(o.add(o.score, one), o.multiply(other, other))


def arithmetic(o: Any, a: Arrays) -> Any:
    x, k = o.score, o.leaf("key", a["key"])
    y = o.add(o.multiply(x, x), o.multiply(o.absolute(k), o.sin(x)))
    larger = o.maximum(o.minimum(y, o.constant(1.5)), o.negative(x))
    root = o.sqrt(o.add(o.multiply(x, x), o.constant(1.0)))
    return o.where(
        o.less(x, k), o.add(larger, o.cos(k)), o.log(o.add(root, o.exp(o.negative(o.absolute(x)))))
    )


def remainders(o: Any, a: Arrays) -> Any:
    x, k = o.score, o.leaf("key", a["key"])
    size = o.add(o.multiply(x, x), o.constant(0.5))
    return o.add(o.remainder(x, o.add(o.absolute(k), o.constant(0.7))), o.power(size, o.sin(k)))


def bells(o: Any, a: Arrays) -> Any:
    return o.add(o.erf(o.multiply(o.score, o.leaf("key", a["key"]))), o.erf(o.leaf("query", a["query"])))


def half_excluded(o: Any, a: Arrays) -> Any:
    return o.where(
        o.leaf("diagonal", a["past"]), o.multiply(o.score, o.leaf("head", a["head"])), o.constant(-np.inf)
    )


def score_alone_twice(o: Any, a: Arrays) -> Any:
    return o.add(o.multiply(o.score, o.score), o.floor(o.leaf("key", a["key"])))


def leaf_alone(o: Any, a: Arrays) -> Any:
    return o.leaf("diagonal", a["diagonal"])


SCORES: list[Score] = [
    *(
        alibi,
        subtracted,
        soft_cap,
        trained_cap,
        capped_sum,
        gated,
        each_level_of_leaf,
        pair_bias,
        shifted_rows,
    ),
    *(
        graph_distances,
        tables_of_heads,
        arithmetic,
        remainders,
        bells,
        half_excluded,
        score_alone_twice,
        leaf_alone,
    ),
]


def past(o: Any, a: Arrays) -> Any:
    return o.leaf("diagonal", a["past"])


def documents(o: Any, a: Arrays) -> Any:
    return o.equal(o.leaf("query", a["query_ids"]), o.leaf("key", a["key_ids"]))


def neighbours(o: Any, a: Arrays) -> Any:
    x, y = o.leaf("query", a["query_place"]), o.leaf("key", a["key_place"])
    across = o.absolute(o.subtract(o.remainder(x, o.constant(13)), o.remainder(y, o.constant(13))))
    down = o.absolute(o.subtract(o.floor_divide(x, o.constant(13)), o.floor_divide(y, o.constant(13))))
    near = o.less_equal(o.maximum(across, down), o.constant(3))
    return o.or_(
        near, o.and_(o.not_(o.leaf("head", a["first_head"])), o.less(o.multiply(x, y), o.constant(-7)))
    )


def by_table(o: Any, a: Arrays) -> Any:
    at = o.add(o.multiply(o.leaf("query", a["query_ids"]), o.constant(5)), o.leaf("key", a["key_ids"]))
    return o.gather(a["allowed"], o.index(at, 25))


def powers(o: Any, a: Arrays) -> Any:
    x, y = o.leaf("query", a["query_place"]), o.leaf("key", a["key_ids"])
    whole = o.less(o.power(o.remainder(x, o.constant(7)), y), o.constant(60))
    return o.and_(
        whole, o.less(o.floor_divide(o.leaf("key", a["key"]), o.leaf("query", a["query"])), o.constant(1.0))
    )


MASKS: list[Score] = [past, documents, neighbours, by_table, powers]


def arrays(queries: int, keys: int, dtype: str = "float64", heads: int = H) -> Arrays:
    random = np.random.default_rng(queries * 1000 + keys)

    def normal(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(dtype)

    rows = np.arange(B * heads * queries).reshape(B, heads, queries)
    difference = np.arange(queries + keys - 1) - (keys - 1)
    return {
        "head": normal(1, heads, 1) * 0.3,
        "query": normal(B, 1, queries),
        "key": normal(1, heads, keys),
        "diagonal": normal(1, heads, queries + keys - 1),
        "pairs": normal(B, heads, queries, keys),
        "pair_rows": rows * keys,
        "shifted": normal(B, heads, queries, queries + keys - 1),
        "shifted_rows": rows * (queries + keys - 1) + queries - 1 - np.arange(queries),
        "distances": random.integers(0, 11, (B, queries, keys)),
        "distance_rows": (rows[:, :1] // heads % B * 0 + np.arange(B * queries).reshape(B, 1, queries))
        * keys,
        "by_distance": normal(heads, 11),
        "head_rows": np.arange(heads).reshape(1, heads, 1) * 11,
        "past": (difference >= 0).reshape(1, 1, -1),
        "query_ids": np.sort(random.integers(0, 5, (B, 1, queries))),
        "key_ids": np.sort(random.integers(0, 5, (B, 1, keys))),
        "query_place": np.arange(queries).reshape(1, 1, -1) - 2,
        "key_place": np.arange(keys).reshape(1, 1, -1),
        "first_head": (np.arange(heads) == 0).reshape(1, heads, 1),
        "allowed": random.random(25) < 0.4,
        "of_heads": normal(B, heads, keys, 4),
        "of_heads_of_all": normal(1, heads, keys * 4),
        "four_each": np.arange(keys).reshape(1, 1, -1) * 4,
        "below_four": random.integers(0, 4, (1, 1, queries + keys - 1)),
    }


def inputs(
    queries: int, keys: int, dtype: str = "float64", heads: int = H, kv_heads: int = H
) -> list[np.ndarray]:
    random = np.random.default_rng(queries + keys)
    shapes = ((B, heads, queries, HEAD_SIZE), (B, kv_heads, keys, HEAD_SIZE), (B, kv_heads, keys, VALUE_SIZE))
    return [random.standard_normal(shape).astype(dtype) for shape in shapes]
