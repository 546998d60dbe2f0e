"""What batches and data sets refuse."""

from __future__ import annotations

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
