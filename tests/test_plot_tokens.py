"""Tokens as labels: right to left, characters that no font has, control characters, long ones."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pytest

from qkv import plot
from qkv.plot.figures import labels

SVG = "{http://www.w3.org/2000/svg}"
HEBREW, ARABIC = "\u05e9\u05dc\u05d5\u05dd", "\u0633\u0644\u0627\u0645"  # shalom, salam
PRIVATE = "\U0010fffd"  # no font has it


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


class TestVisualOrder:
    @pytest.mark.parametrize(
        ("text", "seen"),
        [
            ("dry", "dry"),
            (HEBREW, HEBREW[::-1]),
            (f"{HEBREW} 123", f"123 {HEBREW[::-1]}"),  # numbers run from left to right
            (f"abc {HEBREW}", f"abc {HEBREW[::-1]}"),
            (f"{HEBREW} abc", f"abc {HEBREW[::-1]}"),
            (f"({HEBREW})", f"({HEBREW[::-1]})"),  # brackets are mirrored
            (f"##{HEBREW}", f"{HEBREW[::-1]}##"),
            (f"a{HEBREW[:2]}-{HEBREW[2:]}z", f"a{HEBREW[:1:-1]}-{HEBREW[1::-1]}z"),
            ("\u05d1\u05bc\u05d0", "\u05d0\u05d1\u05bc"),  # a mark stays after its letter
            ("\u0661\u0662", "\u0661\u0662"),  # digits alone
        ],
    )
    def test_order(self, text, seen):
        assert labels.visual(text) == seen

    def test_arabic_letters_join(self):
        # seen initial, lam medial, alef final, meem isolated (an alef joins to nothing after it)
        assert labels.visual(ARABIC) == "\ufeb3\ufee0\ufe8e\ufee1"[::-1]
        # A mark between letters does not part them; a space does.
        assert labels.visual("\u0628\u064e\u0628") == "\ufe90\ufe91\u064e"
        assert labels.visual("\u0628 \u0628") == "\ufe8f \ufe8f"

    def test_older_matplotlib_draws_the_visual_order(self, monkeypatch):
        labels.drawn.cache_clear()
        monkeypatch.setattr("matplotlib.__version__", "3.10.1")
        assert labels.drawn(HEBREW) == HEBREW[::-1]
        labels.drawn.cache_clear()
        monkeypatch.setattr("matplotlib.__version__", "3.11.0")
        assert labels.drawn(HEBREW) == HEBREW
        labels.drawn.cache_clear()


class TestCharacters:
    def test_invisible_ones_of_no_font_are_left_out(self, monkeypatch):
        labels.drawn.cache_clear()
        monkeypatch.setattr(labels, "_is_drawn_by", lambda fonts, sign: sign.isascii())
        assert labels.drawn("a\u200db\ufe0f\u4e2d\u6587c") == "ab[U+4E2D 6587]c"
        labels.drawn.cache_clear()

    def test_those_of_no_font_are_named(self, tmp_path):
        assert labels.drawn(f"a{PRIVATE}b") == "a[U+10FFFD]b"
        view = plot.head_view(np.eye(2), [f"a{PRIVATE}b", "dry"])
        view.save(tmp_path / "view.svg")  # there the reader's fonts draw, so it gets the token itself
        texts = [text.text for text in ElementTree.parse(tmp_path / "view.svg").iter(f"{SVG}text")]
        assert texts.count(f"a{PRIVATE}b") == 2
        fig = view.figure()
        fig.draw_without_rendering()  # a warning of a missing glyph would be an error
        assert fig.axes[0].texts[0].get_text() == f"a{PRIVATE}b"

    def test_a_font_that_has_a_character_is_found(self, monkeypatch):
        families = labels.families("dry")
        labels.families.cache_clear()
        labels._is_drawn_by.cache_clear()
        monkeypatch.setitem(plt.rcParams, "font.family", ["cmr10"])  # comes with matplotlib, has no Hebrew
        try:
            found = labels.families(HEBREW)
            assert found[0] == "cmr10"
            assert len(found) == 2
            assert labels._is_drawn_by(tuple(found), HEBREW[0])
            assert not labels._is_drawn_by(("cmr10",), HEBREW[0])
        finally:
            monkeypatch.undo()
            labels.families.cache_clear()
            labels._is_drawn_by.cache_clear()
        assert labels.families("dry") == families

    @pytest.mark.parametrize(
        ("token", "shown"),
        [("\n", "\\n"), ("a\tb", "a\\tb"), ("\x00", "\\x00"), ("\ud800", "\\ud800"), (" do", " do")],
    )
    def test_control_characters_are_escaped(self, token, shown, tmp_path):
        view = plot.head_view(np.eye(2), [token, "dry"])
        assert view.queries == [shown, "dry"]
        view.save(tmp_path / "view.html")
        view.save(tmp_path / "view.svg")
        texts = [text.text for text in ElementTree.parse(tmp_path / "view.svg").iter(f"{SVG}text")]
        assert shown in texts

    @pytest.mark.parametrize("token", ["$x^2$", "$", "\\frac", "a_b", "%", "{", "&lt;"])
    def test_nothing_is_a_formula(self, token, tmp_path):
        for view in (
            plot.head_view(np.eye(2), [token, "dry"]),
            plot.layer_view(np.eye(2)[None, None], [token, "dry"], head=0),
        ):
            view.save(tmp_path / "view.svg")
            texts = [text.text for text in ElementTree.parse(tmp_path / "view.svg").iter(f"{SVG}text")]
            assert texts.count(token) == 2


LONG = ["supercalifragilisticexpialidocious" * 2, "dry"]


@pytest.mark.parametrize(
    "view",
    [
        lambda: plot.head_view(np.full((3, 2, 2), 0.5), LONG),
        lambda: plot.layer_view(np.full((2, 3, 2, 2), 0.5), LONG, head=1),
        lambda: plot.token_view(np.full((2, 2), 0.5), LONG, width=2.0),
        lambda: plot.compare_view(np.eye(2), np.full((2, 2), 0.5), LONG, head=0),
    ],
)
def test_long_labels_are_not_cut_and_do_not_meet(view):
    fig = view().figure()
    fig.draw_without_rendering()
    box, (width, height) = fig.get_tightbbox(), fig.get_size_inches()
    assert min(box.x0, box.y0) > -0.03
    assert box.x1 < width + 0.03
    assert box.y1 < height + 0.03
    texts = [text for ax in fig.axes for text in ax.texts]
    for place, text in enumerate(texts):
        own = text.get_window_extent()
        for other in texts[:place]:
            assert not own.overlaps(other.get_window_extent()), (text, other)
