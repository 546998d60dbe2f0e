"""Weights as a page holds them: rounded where few or large, pooled else."""

from __future__ import annotations

import base64
import re

import numpy as np
import pytest
from test_html import unpacked

import qkv
from qkv import plot
from qkv.plot.views.packing import packed, rounding, shrunk
from qkv.plot.views.view import page


def weights(*shape):
    return qkv.softmax(3 * np.random.default_rng(0).normal(size=shape))


def test_few_weights_are_all_there():
    table = weights(2, 3, 5, 7)
    about = packed(list(table))
    np.testing.assert_allclose(unpacked(about), table, atol=7.7e-6)
    assert rounding(about) == "Weights are rounded to 8e-06."


@pytest.mark.parametrize("signed", [False, True])
def test_of_many_the_largest_of_each_row_are_kept_and_the_rest_is_pooled(signed):
    table = weights(2, 3, 67, 131)
    if signed:
        table = table - weights(3, 67, 131)
    about = packed(list(table), signed=signed, budget=20_000)
    k, (rows, columns) = about["k"], about["grid"]
    kind, steps = ("<i2", 32764) if signed else ("<u2", 65532)
    values = np.frombuffer(base64.b64decode(about["values"]), kind).reshape(2, 3, 67, k)
    places = np.frombuffer(base64.b64decode(about["places"]), "<u2").reshape(2, 3, 67, k).astype(int)
    scale = np.abs(table).max() if signed else 1.0
    assert about["scale"] == pytest.approx(scale)
    np.testing.assert_allclose(
        values * scale / steps, np.take_along_axis(table, places, -1), atol=scale / steps
    )
    largest = np.sort(np.abs(table), -1)[..., -k]
    assert (np.abs(np.take_along_axis(table, places, -1)) >= largest[..., None]).all()
    left = table.copy()
    np.put_along_axis(left, places, 0.0, -1)
    rests = np.frombuffer(base64.b64decode(about["rests"]), "<f4").reshape(2, 3, 67)
    np.testing.assert_allclose(rests, left.sum(-1), atol=1e-6)
    blocks = np.frombuffer(base64.b64decode(about["blocks"]), "i1" if signed else "u1").reshape(
        6, rows, columns
    )
    shares = blocks / (124 if signed else 252)
    found = np.sign(shares) * shares**2 * np.reshape(about["tops"], (6, 1, 1))
    for h in range(6):
        for q, key in np.ndindex(67, 131):
            bound = abs(found[h, q * rows // 67, key * columns // 131]) + 0.01 * about["tops"][h]
            assert abs(left.reshape(6, 67, 131)[h, q, key]) <= bound
    assert f"The {k} largest weights of each row are rounded to" in rounding(about)
    assert f"in blocks of {-(-67 // rows)} x {-(-131 // columns)}." in rounding(about)


def test_all_are_pooled_where_not_even_one_of_each_row_fits():
    about = packed([weights(2, 67, 131)], budget=700)
    assert about["k"] == 0
    assert rounding(about).startswith("All weights are pooled to the largest in blocks of ")


def test_shrunk_keeps_the_number_of_greatest_size():
    table = np.zeros((2, 10, 7))
    table[1, 9, 6], table[0, 0, 1] = 5.0, -6.0
    small = shrunk(table, 3)
    assert small.shape == (2, 3, 3)
    assert small[1, 2, 2] == 5.0
    assert small[0, 0, 0] == -6.0
    assert np.count_nonzero(small) == 2
    assert shrunk(table, 10) is table


def test_a_page_of_a_long_text_has_at_most_four_megabytes():
    table = weights(12, 12, 512, 512).astype(np.float32)
    tokens = [f"token{i}" for i in range(512)]
    for view in (plot.head_view(list(table), tokens), plot.layer_view(table, tokens)):
        text = page("", view._repr_html_())
        assert 1e6 < len(text.encode()) <= 4e6
        assert re.search(r"The [5-9] largest weights of each row are rounded to 8e-06; the others are", text)
