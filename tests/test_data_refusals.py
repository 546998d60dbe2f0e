"""What batches and data sets refuse."""

from __future__ import annotations

import numpy as np
import pytest

from qkv import data


def test_places_beyond_the_last_batch():
    epoch = data.Batches([[1], [2]], batch_size=1)(0)
    assert epoch[-2][0].ids.tolist() == epoch[0][0].ids.tolist()
    for place in (2, -3):
        with pytest.raises(IndexError, match=f"Batches: index must be from -2 to 1; got {place}"):
            epoch[place]


def test_what_batches_need_is_named():
    with pytest.raises(TypeError, match="Batches: batch_size must be given; it takes batch_size, seed"):
        data.Batches([[1]])
    with pytest.raises(
        TypeError, match="Batches: got an unexpected argument collate_fn; it takes batch_size"
    ):
        data.Batches([[1]], batch_size=1, collate_fn=list)
    with pytest.raises(TypeError, match="Batches: pad_id must be a number; got 'a'"):
        data.Batches([[1]], batch_size=1, pad_id="a")
    with pytest.raises(ValueError, match=r"pad: pad_id must be in \[-2\^63, 2\^63\)"):
        data.pad([[1], [1, 2]], pad_id=2**64)


def test_columns_are_given_one_by_one():
    """As one column a pair of arrays would be two rows, and pairs of sequences rows of two numbers each."""
    x, y = np.ones((5, 3), np.float32), np.zeros((5, 3), np.float32)
    with pytest.raises(TypeError, match=r"as in Batches\(x, y, batch_size=8\); got a tuple of arrays"):
        data.Batches((x, y), batch_size=2)
    for rows in (list(zip(x, y, strict=True)), list(zip(x, range(5), strict=True)), [([1, 2], [3])]):
        with pytest.raises(TypeError, match=r"as in Batches\(\*zip\(\*rows\), batch_size=8\); got rows"):
            data.Batches(rows, batch_size=2)
    assert len(data.Batches(*zip(*zip(x, y, strict=True), strict=True), batch_size=2)) == 3
    assert len(data.Batches([(1, 2), (3,)], batch_size=2)) == len(data.Batches([x, y], batch_size=2)) == 1
    assert len(data.Batches((), batch_size=2)) == 0


@pytest.mark.parametrize(
    "make", [data.date_pairs, data.copy_pairs, lambda *n, **k: data.task("topic", *n, **k)]
)
def test_counts_are_counts(make):
    with pytest.raises(ValueError, match="count must be at least 0; got -1"):
        make(-1)
    with pytest.raises(TypeError, match=r"count must be an integer .*; got 2.5"):
        make(2.5)
    with pytest.raises(ValueError, match="seed must be at least 0; got -1"):
        make(1, seed=-1)
