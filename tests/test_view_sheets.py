"""Long texts on sheets of a page's size."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

import qkv
from qkv import plot

L = 83
TOKENS = [f"token{i}" for i in range(L)]
NEAR = qkv.softmax(-0.5 * np.abs(np.arange(L)[:, None] - np.arange(L)) + np.zeros((5, 1, 1)))


def texts(figure):
    return [text.get_text() for panel in figure.axes for text in panel.texts]


def test_lines_of_a_long_text():
    view = plot.head_view(NEAR, TOKENS, title="near")
    sheets = view.sheets()
    assert plt.get_fignums() == []
    assert all(
        width <= 7.6 and height <= 9.6 for width, height in (sheet.get_size_inches() for sheet in sheets)
    )
    drawn = [
        (tuple(texts(sheet)), panel.get_title(), panel.collections[0])
        for sheet in sheets
        for panel in sheet.axes
    ]
    for head in range(5):
        mine = [(found, lines) for found, title, lines in drawn if title == f"head {head}"]
        assert sum(len(lines.get_segments()) for _, lines in mine) == (NEAR[head] > 0.005).sum()
    assert {text for sheet in sheets for text in texts(sheet)} == set(TOKENS)
    assert sheets[0].get_suptitle() == "near: queries 0 to 34, keys 0 to 34"
    assert not any(
        sheet.get_suptitle().endswith("queries 0 to 34, keys 70 to 82") for sheet in sheets
    )  # no lines


def test_a_long_text_in_colours():
    weights = qkv.softmax(np.random.default_rng(0).normal(size=900))
    tokens = [f"w{i}" for i in range(900)]
    sheets = plot.token_view(weights, tokens).sheets()
    assert len(sheets) > 1
    assert [text for sheet in sheets for text in texts(sheet)] == tokens
    assert all(sheet.get_size_inches()[1] <= 9.6 for sheet in sheets)
    strength = [box.get_facecolor()[3] for sheet in sheets for box in sheet.axes[0].patches]
    np.testing.assert_allclose(strength, 0.75 * np.sqrt(weights / weights.max()), atol=1e-6)


def test_short_texts_and_other_views_are_one_sheet():
    for view in (plot.head_view(NEAR[:, :4, :4], TOKENS[:4]), plot.layer_view(NEAR[None], TOKENS)):
        (sheet,) = view.sheets()
        np.testing.assert_allclose(sheet.get_size_inches(), view.figure().get_size_inches())


@pytest.mark.parametrize("count", [4, L])
def test_a_pdf_has_a_page_for_each_sheet(count, tmp_path):
    view = plot.head_view(NEAR[:2, :count, :count], TOKENS[:count], titles=["a", "b"])
    view.save(tmp_path / "view.pdf")
    assert (tmp_path / "view.pdf").read_bytes().count(b"/Type /Page ") == len(view.sheets())
    assert [panel.get_title() for panel in view.sheets()[0].axes] == ["a", "b"]
