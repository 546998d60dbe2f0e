"""Weights over words, without special tokens, and one row of weights."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from test_attention_views import data_of, weights
from test_html import unpacked
from test_view_pages import html, note, opened, told

import qkv
from qkv import plot

__all__ = ["opened"]  # the fixture
PIECES = ["[CLS]", "un", "##like", "##ly", "he", "[SEP]", "yes", "[SEP]"]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.mark.parametrize("words", [True, [None, 0, 0, 0, 1, None, 2, None]])
def test_rows_are_averaged_and_columns_summed(words):
    table = weights(2, 3, 8, 8)
    layers, names = plot.by_words(list(table), PIECES, words=words)
    assert names == ["[CLS]", "unlikely", "he", "[SEP]", "yes", "[SEP]"]
    assert len(layers) == 2
    for layer, whole in zip(layers, table, strict=True):
        assert layer.shape == (3, 6, 6)
        np.testing.assert_allclose(layer.sum(-1), 1)
        np.testing.assert_allclose(layer[:, 1, 1], whole[:, 1:4, 1:4].sum(-1).mean(-1))
        np.testing.assert_allclose(layer[:, 2, 0], whole[:, 4, 0])
        np.testing.assert_allclose(layer[:, 4, 1], whole[:, 6, 1:4].sum(-1))


@pytest.mark.parametrize("hide", [True, ["[SEP]", "[CLS]"]])
def test_tokens_that_are_left_out(hide):
    table = weights(3, 8, 8)
    (layer,), names = plot.by_words(table, PIECES, words=False, hide=hide)
    assert names == ["un", "##like", "##ly", "he", "yes"]
    kept = [1, 2, 3, 4, 6]
    np.testing.assert_array_equal(layer, table[:, kept][..., kept])
    assert plot.by_words(table, PIECES, hide="[SEP]")[1] == ["[CLS]", "unlikely", "he", "yes"]
    with pytest.raises(ValueError, match=r"^by_words: hide must leave a token because .*; got True$"):
        plot.by_words(table[:, :1, :1], ["[CLS]"], hide=True)
    with pytest.raises(ValueError, match=r"^by_words: words must have 8 entries, one for each token; got 3$"):
        plot.by_words(table, PIECES, words=[0, 1, 2])


@pytest.mark.parametrize("mark", ["Ġ", "▁"])
def test_marks_at_the_beginning_of_words(mark):
    tokens = ["<s>", f"{mark}un", "like", "ly", f"{mark}he", "</s>"]
    assert plot.by_words(weights(6, 6), tokens)[1] == ["<s>", "unlikely", "he", "</s>"]
    assert plot.by_words(weights(5, 5), ["un", "like", f"{mark}he", "ll", "o"])[1] == ["unlike", "hello"]


def test_keys_of_another_text():
    table = weights(2, 3, 8)
    layers, queries, keys = plot.by_words(table, ["le", "chat", "##on"], PIECES, hide=True)
    assert (queries, keys) == (["le", "chaton"], ["unlikely", "he", "yes"])
    np.testing.assert_allclose(layers[0][:, 1, 0], table[:, 1:, 1:4].sum(-1).mean(-1))
    own = plot.by_words(table, ["le", "chat", "##on"], PIECES, key_words=[0, 0, 0, 0, 1, 1, 1, 1])
    assert own[2] == ["[CLS]unlikely", "he[SEP]yes[SEP]"]


def test_every_view_of_weights_takes_words():
    made = plot.by_words(weights(2, 3, 8, 8)[0], PIECES, hide=True)
    for view in (plot.head_view, plot.layer_view, plot.token_view):
        assert "3 " in repr(view(*made))
    assert "3 queries" in repr(plot.compare_view(made[0], *made))


@pytest.mark.parametrize("row", [np.array([0.1, 0.2, 0.7]), [0.1, 0.2, 0.7], qkv.tensor([0.1, 0.2, 0.7])])
def test_one_row_of_weights(row):
    view = plot.token_view(row, list("abc"))
    data = data_of(view)
    assert data["token"] is None
    np.testing.assert_allclose(unpacked(data["weights"]).ravel(), [0.1, 0.2, 0.7], atol=1e-5)
    boxes = view.figure().axes[0].patches
    np.testing.assert_allclose(
        [box.get_facecolor()[3] for box in boxes], 0.75 * np.sqrt([1 / 7, 2 / 7, 1]), atol=1e-6
    )
    assert len({box.get_edgecolor() for box in boxes}) == 1
    assert plot.token_view(np.full((3, 1, 4), 0.25), list("abcd")).token is None
    with pytest.raises(ValueError, match=r"of tokens over themselves .*, or one row; got \(2, 3\)"):
        plot.token_view(np.ones((2, 3)), list("abc"))


def test_a_row_in_a_browser(opened):
    tab = opened(html(plot.token_view(np.array([0.1, 0.2, 0.7]), list("abc"))))
    assert told(note(tab)) == {"c": 0.7, "b": 0.2, "a": 0.1}
    tab.run("document.querySelectorAll('.token')[1].click()")
    assert told(note(tab)) == {"c": 0.7, "b": 0.2, "a": 0.1}
    assert tab.run("document.querySelectorAll('select').length") == 0


def test_a_second_click_releases_a_token(opened):
    tab = opened(html(plot.head_view(weights(3, 5, 5), list("abcde"))))
    lines = "document.querySelectorAll('.lines line').length"
    click = "document.querySelectorAll('text.query')[{}].dispatchEvent(new MouseEvent('click'))"
    everything = tab.run(lines)
    tab.run(click.format(2))
    assert 0 < tab.run(lines) <= 5
    tab.run("document.querySelectorAll('text.query')[1].dispatchEvent(new MouseEvent('mouseenter'))")
    assert tab.run("document.querySelector('text.chosen').textContent") == "c"
    tab.run(click.format(3))
    assert tab.run("document.querySelector('text.chosen').textContent") == "d"
    tab.run(click.format(3))
    assert tab.run(lines) == everything
    assert note(tab) == ""
    tab.run("document.querySelectorAll('text.query')[1].dispatchEvent(new MouseEvent('mouseenter'))")
    assert tab.run("document.querySelector('text.chosen').textContent") == "b"
