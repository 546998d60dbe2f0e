"""The views of attention: data on a page, the same as figure and files, and what they refuse."""

from __future__ import annotations

import fnmatch
import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from test_html import EVIL, Reader, unpacked

import qkv
from qkv import plot

TOKENS = ["[CLS]", "it", "$is$", "<b>dry</b>", "."]
RNG, SVG = np.random.default_rng(3), "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def weights(*shape):
    return qkv.softmax(3 * np.random.default_rng(0).normal(size=shape))


class Kept(dict):
    """What views ask of a recording."""

    names = dict.keys

    def all(self, pattern):
        return [self[name] for name in self if fnmatch.fnmatch(name, pattern)]


def recording(layers=2, H=4, Hkv=2, L=5, D=7):
    kept = Kept()
    for layer in range(layers):
        queries, keys = RNG.normal(size=(1, H, L, D)), RNG.normal(size=(1, Hkv, L, D))
        scores = queries @ np.repeat(keys, H // Hkv, 1).swapaxes(2, 3) / np.sqrt(D)
        start = f"layers.{layer}.self_attn."
        parts = {"queries": queries, "keys": keys, "scores": scores, "weights": qkv.softmax(scores)}
        kept.update({start + name: part for name, part in parts.items()})
    return kept


IMAGE = RNG.integers(0, 256, (24, 36, 3)).astype(np.uint8)
VIEWS = {
    "head_view": lambda: plot.head_view(list(weights(2, 3, 5, 5)), TOKENS),
    "layer_view": lambda: plot.layer_view(weights(2, 3, 5, 5), TOKENS, layer=1, head=2),
    "token_view": lambda: plot.token_view(weights(3, 5, 5), TOKENS),
    "neuron_view": lambda: plot.neuron_view(recording(), TOKENS),
    "image_view": lambda: plot.image_view(weights(3, 5, 5), IMAGE),
    "compare_view": lambda: plot.compare_view(weights(3, 5, 5), np.full((3, 5, 5), 0.2), TOKENS, head=0),
    "explain": lambda: plot.explain(qkv.nn.SelfAttention(4, 3), TOKENS, inputs=np.eye(5, 4)[None]),
}


def data_of(view):
    return json.loads(Reader(view._repr_html_()).text["script"][0])


class TestEveryView:
    @pytest.mark.parametrize("name", VIEWS)
    def test_files(self, name, tmp_path):
        view = VIEWS[name]()
        for suffix, start in (
            (".html", b"<!DOCTYPE html>"),
            (".pdf", b"%PDF"),
            (".png", b"\x89PNG"),
            (".SVG", b"<?xml"),
        ):
            view.save(tmp_path / f"view{suffix}")
            assert (tmp_path / f"view{suffix}").read_bytes().startswith(start)
        assert plt.get_fignums() == []

    @pytest.mark.parametrize("name", sorted(VIEWS.keys() - {"image_view"}))
    def test_tokens_are_text_in_svg(self, name, tmp_path):
        VIEWS[name]().save(tmp_path / "view.svg")
        texts = [text.text for text in ElementTree.parse(tmp_path / "view.svg").iter(f"{SVG}text")]
        for token in TOKENS if name != "neuron_view" else TOKENS[1:]:
            assert token in texts

    @pytest.mark.parametrize("name", VIEWS)
    def test_a_view_is_a_pair_and_a_figure(self, name):
        view = VIEWS[name]()
        fig, axes = view
        assert fig is view[0]
        assert axes is view[1]
        assert len(view) == 2
        assert plt.get_fignums() == [fig.number]
        other = view.figure()
        assert other is not fig
        assert plt.get_fignums() == [fig.number]
        assert len(other.axes) == len(fig.axes)

    @pytest.mark.parametrize("name", VIEWS)
    def test_a_page_reads_without_network_and_is_another_at_each_display(self, name):
        view = VIEWS[name]()
        first, again = view._repr_html_(), view._repr_html_()
        ids = [Reader(text).all("div")[0]["id"] for text in (first, again)]
        assert ids[0] != ids[1]
        assert first.replace(ids[0], ids[1]) == again
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(|fetch\(|innerHTML", first)
        assert "rounded to" in Reader(first).text["p"][0]

    @pytest.mark.parametrize("name", sorted(VIEWS.keys() - {"image_view", "explain"}))
    def test_tokens_are_never_markup(self, name):
        table = weights(2, len(EVIL), len(EVIL))
        made = {
            "head_view": lambda: plot.head_view(table, EVIL),
            "layer_view": lambda: plot.layer_view(table[None], EVIL, head=1),
            "token_view": lambda: plot.token_view(table, EVIL),
            "compare_view": lambda: plot.compare_view(table, table[::-1], EVIL, head=1),
            "neuron_view": lambda: plot.neuron_view(recording(L=len(EVIL)), EVIL),
        }[name]()
        text = made._repr_html_()
        read = Reader(text)
        assert [image["class"] for image in read.all("img")] == ["still"]
        assert len(read.all("script")) == 2
        names = json.loads(read.text["script"][0])
        assert EVIL in (names.get("queries"), names.get("tokens"))
        made.figure().draw_without_rendering()

    @pytest.mark.parametrize("name", VIEWS)
    def test_another_suffix(self, name, tmp_path):
        with pytest.raises(
            ValueError,
            match=r"^save: path must end in \.html, \.svg, \.pdf, \.png because .*; got '.*\.jpg'$",
        ):
            VIEWS[name]().save(tmp_path / "view.jpg")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("name", VIEWS)
    def test_nothing_is_cut_by_savefig(self, name):
        fig = VIEWS[name]().figure()
        fig.draw_without_rendering()
        box, (width, height) = fig.get_tightbbox(), fig.get_size_inches()
        assert min(box.x0, box.y0) > -0.03
        assert box.x1 < width + 0.03
        assert box.y1 < height + 0.03

    def test_inputs_are_not_written(self):
        table = weights(2, 3, 5, 5).astype(np.float32)
        table[0, 0, 0, 0] = np.nan
        before = table.copy()
        for view in (
            plot.head_view(list(table), TOKENS),
            plot.layer_view(table),
            plot.token_view(table[0], TOKENS),
        ):
            view._repr_html_()
            view.figure()
        np.testing.assert_array_equal(table, before)


class TestHeadView:
    def test_four_parts(self):
        table = weights(2, 5, 5)
        names = [part["name"] for part in data_of(plot.head_view(table, TOKENS, second=3))["parts"]]
        assert names == ["all", "first → first", "first → second", "second → first", "second → second"]
        for part, queries, keys in (
            ("first -> second", slice(0, 3), slice(3, 5)),
            ("second → second", slice(3, 5), slice(3, 5)),
        ):
            view = plot.head_view(table, TOKENS, second=3, part=part)
            lines = Reader(view._repr_html_()).all("line")
            assert len(lines) == (table[0, queries, keys] > 0.005).sum()
            first = view[1][0]
            assert [t.get_text() for t in first.texts] == TOKENS[queries] + TOKENS[keys]
            colors = first.collections[0].get_colors()
            np.testing.assert_allclose(
                np.sort(colors[:, 3]), np.sort(table[0, queries, keys][table[0, queries, keys] > 0.005])
            )

    def test_one_head_of_one_layer(self):
        table = weights(2, 3, 5, 5)
        view = plot.head_view(list(table), TOKENS, layer=-1, head=1)
        (ax,) = view[1]
        assert ax.get_title() == "layer 1, head 1"
        strength = ax.collections[0].get_colors()[:, 3]
        np.testing.assert_allclose(strength, table[1, 1][table[1, 1] > 0.005])
        data = data_of(view)
        assert (data["layer"], data["head"]) == (1, 1)

    def test_a_module_that_is_called_twice(self):
        layer = qkv.nn.MultiHeadAttention(8, 2)

        class Twice(qkv.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = layer

            def forward(self, x):
                return self.layer(self.layer(x))

        view = plot.head_view(qkv.look.record(Twice(), qkv.randn(1, 5, 8)), TOKENS)
        assert repr(view) == "HeadView(2 layers of 2 heads, 5 queries, 5 keys)"

    def test_a_recording_and_a_batch(self):
        kept = recording()
        view = plot.head_view(kept, TOKENS)
        assert repr(view) == "HeadView(2 layers of 4 heads, 5 queries, 5 keys)"
        np.testing.assert_allclose(
            unpacked(data_of(view)["weights"])[1, 2], kept["layers.1.self_attn.weights"][0, 2], atol=7.7e-6
        )
        assert plot.head_view(weights(2, 3, 5, 5), TOKENS, item=1).title == "item 1 of 2"

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (
                {"second": 5},
                "second must be from 1 to 4 because it is the place where a second sentence begins; got 5",
            ),
            ({"second": 0}, "second must be from 1 to 4 .*; got 0"),
            ({"second": "x"}, "second must be from 1 to 4 .*; got 'x'"),
            (
                {"second": 2, "key_tokens": TOKENS},
                "second must be left out where key_tokens are given .*; got 2",
            ),
            ({"second": 2, "part": "both"}, "part must be one of first → first, .*; got 'both'"),
            ({"part": "first → first"}, "part must go with second, .*; got 'first → first'"),
            ({"layer": 1}, "layer must be from 0 to 0, or negative .* there is 1 layer; got 1"),
            ({"head": 3}, "head must be from 0 to 2, or negative .* there are 3 heads; got 3"),
        ],
    )
    def test_rejections(self, options, words):
        with pytest.raises(ValueError, match=f"^head_view: {words}$"):
            plot.head_view(weights(3, 5, 5), TOKENS, **options)

    def test_layers_of_several_sizes_and_none(self):
        with pytest.raises(
            ValueError, match=r"one shape \(H, Lq, Lk\) in all layers.*\(1, 3, 3\), \(1, 3, 4\)"
        ):
            plot.head_view([np.zeros((1, 3, 3)), np.zeros((1, 3, 4))], TOKENS)
        with pytest.raises(ValueError, match=r"^head_view: weights must hold at least one layer; got none$"):
            plot.head_view([], TOKENS)
        with pytest.raises(
            ValueError, match=r"^head_view: tokens must have 5 entries, one for each query; got 0$"
        ):
            plot.head_view(weights(5, 5), [])

    def test_the_old_name_tells_the_new_one(self):
        with pytest.raises(AttributeError, match=r"qkv\.plot.*head_view_html.*head_view.*list of layers"):
            plot.head_view_html  # noqa: B018


class TestLayerView:
    def test_one_head_enlarged(self):
        table = weights(2, 3, 5, 5)
        fig, axes = plot.layer_view(table, TOKENS, layer=1, head=2)
        assert axes.shape == (2, 3)
        large = fig.axes[-1]
        assert large.get_xlabel() == "layer 1, head 2"
        np.testing.assert_array_equal(large.images[0].get_array(), table[1, 2])
        assert [t.get_text() for t in large.texts] == TOKENS * 2

    def test_tokens_cut_padding_off(self):
        table = weights(2, 3, 2, 5, 5).swapaxes(1, 2)  # (layers, B, H, Lq, Lk)
        view = plot.layer_view(table, [TOKENS, ["just", "two"]], item=1)
        np.testing.assert_array_equal(view[1][0, 0].images[0].get_array(), table[0, 1, 0, :2, :2])

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"tokens": TOKENS[1:]}, "tokens must have 5 entries, one for each query; got 4"),
            ({"layer": 2}, "layer must be from 0 to 1, .* there are 2 layers; got 2"),
            ({"head": -4}, "head must be from 0 to 2, .* there are 3 heads; got -4"),
        ],
    )
    def test_rejections(self, options, words):
        with pytest.raises(ValueError, match=f"^layer_view: {words}$"):
            plot.layer_view(weights(2, 3, 5, 5), **options)

    def test_pictures_of_long_texts(self):
        view = plot.layer_view(weights(1, 2, 7, 5), rows=(1000, 9000), columns=(0, 50), head=1)
        assert view.figure().axes[-1].images[0].get_extent() == [-0.5, 49.5, 8999.5, 999.5]
        data = data_of(view)
        assert (data["rows"], data["columns"], data["queries"]) == ([1000, 9000], [0, 50], None)
        for options, words in (
            (
                {"rows": (0, 6)},
                r"rows must be \(from, to\) of at least 7 tokens, one for each pixel; got \(0, 6\)",
            ),
            ({"columns": (-1, 9)}, r"columns must be \(from, to\) of at least 5 tokens, .*; got \(-1, 9\)"),
            (
                {"rows": (0, 9), "tokens": TOKENS},
                "tokens must be left out where rows or columns are given .*",
            ),
        ):
            with pytest.raises(ValueError, match=f"^layer_view: {words}$"):
                plot.layer_view(weights(1, 2, 7, 5), **options)

    @pytest.mark.parametrize("reduce", ["max", "mean"])
    def test_pictures_of_a_recording(self, reduce):
        qkv.manual_seed(0)
        model = qkv.nn.TransformerEncoder(qkv.nn.TransformerEncoderLayer(8, 2, 11), 2).eval()
        kept = qkv.look.record(model, 3 * qkv.randn(1, 601, 8))
        table = kept["layers.1.self_attn.weights"][0]
        view = plot.layer_view(kept, rows=(5, 42), columns=(3, 74), reduce=reduce)
        assert repr(view) == "LayerView(2 layers of 2 heads, 37 queries, 71 keys)"
        np.testing.assert_allclose(view[1][1, 1].images[0].get_array(), table[1, 5:42, 3:74], rtol=1e-5)
        whole = plot.layer_view(kept, rows=(0, 601), columns=(0, 601), reduce=reduce, layer=1, head=1)
        image = kept.image("layers.1.self_attn", size=(512, 512), reduce=reduce)
        np.testing.assert_array_equal(whole.figure().axes[-1].images[0].get_array(), image[0, 1])
        assert data_of(whole)["rows"] == [0, 601]
        assert data_of(plot.layer_view(kept, rows=(0, 9)))["columns"] == [0, 601]
        with pytest.raises(ValueError, match=r"^Recording: weights must have been kept, as by .*; got none$"):
            plot.layer_view(qkv.look.record(model, qkv.randn(1, 5, 8), keep=("output",)))

    def test_a_recording_of_a_long_text_is_never_read_whole(self, monkeypatch):
        drawn = sys.modules["qkv.plot.views.layer_view"]
        model = qkv.nn.TransformerEncoder(qkv.nn.TransformerEncoderLayer(8, 2, 11), 2).eval()
        kept = qkv.look.record(model, 3 * qkv.randn(1, 601, 8))
        tokens = [f"t{i}" for i in range(601)]
        assert data_of(plot.layer_view(kept, tokens))["queries"] == tokens
        monkeypatch.setattr(drawn, "MOST", 4 * 601 * 601 - 1)
        monkeypatch.setattr(qkv.look.recording.Weights, "__array__", None)
        view = plot.layer_view(kept, tokens, layer=1, head=1)
        assert repr(view) == "LayerView(2 layers of 2 heads, 512 queries, 512 keys)"
        about = data_of(view)
        assert (about["queries"], about["rows"], about["columns"]) == (None, [0, 601], [0, 601])
        told = r"A pixel stands for up to 2 x 2 weights\. The \d+ largest pixels of each row are rounded to"
        assert re.search(told, plot.layer_view(kept, rows=(0, 601), columns=(0, 513))._repr_html_())
        assert "A pixel" not in plot.layer_view(kept, rows=(0, 500), columns=(0, 9))._repr_html_()
        image = kept.image("layers.1.self_attn", size=(512, 512))
        np.testing.assert_array_equal(view.figure().axes[-1].images[0].get_array(), image[0, 1])
        with pytest.raises(ValueError, match=r"tokens must have 601 entries, one for each query; got 600"):
            plot.layer_view(kept, tokens[:-1])
        with pytest.raises(
            ValueError, match=r"^head_view: weights must be at most 1073741824 numbers because .*; got 7"
        ):
            plot.head_view(
                SimpleNamespace(layers=lambda: [SimpleNamespace(shape=(9, 9, 9500, 9500))]), tokens
            )
        monkeypatch.setattr(drawn, "MOST", 4 * 100)
        assert "10 queries, 10 keys" in repr(plot.layer_view(kept))


class TestCompareView:
    def test_the_difference_and_both_sides(self):
        a, b = weights(3, 5, 5), qkv.softmax(RNG.normal(size=(3, 5, 5)))
        view = plot.compare_view(a, b, TOKENS)
        assert repr(view) == "CompareView(1 layer of 3 heads, 5 queries, 5 keys)"
        np.testing.assert_allclose(view[1][0, 1].images[0].get_array(), b[1] - a[1])
        assert view[1][0, 1].images[0].get_clim() == pytest.approx((-abs(b - a).max(), abs(b - a).max()))
        tables = {table["name"]: unpacked(table["weights"])[0, :3] for table in data_of(view)["tables"]}
        np.testing.assert_allclose(tables["b - a"], b - a, atol=2e-5)
        np.testing.assert_allclose(tables["a"], a, atol=1e-5)
        np.testing.assert_allclose(tables["b"], b, atol=1e-5)

    def test_recordings(self):
        a, b = recording(), recording()
        view = plot.compare_view(a, b, TOKENS)
        name = "layers.1.self_attn.weights"
        np.testing.assert_allclose(view[1][1, 2].images[0].get_array(), b[name][0, 2] - a[name][0, 2])

    def test_rejections(self):
        with pytest.raises(
            ValueError,
            match=r"^compare_view: a and b must have the same layers, .*; got a \(1, 3, 5, 5\) and b \(1, 2, 5, 5\)$",
        ):
            plot.compare_view(weights(3, 5, 5), weights(2, 5, 5), TOKENS)
        with pytest.raises(
            ValueError, match=r"^compare_view: tokens must have 5 entries, one for each query; got 1$"
        ):
            plot.compare_view(weights(5, 5), weights(5, 5), ["a"])


class TestTokenView:
    def test_colours_are_the_weights_of_the_chosen_token(self):
        table = weights(3, 5, 5)
        for options, row in (({}, table[:, 0].mean(0)), ({"token": -2, "head": 1}, table[1, 3])):
            (ax,) = plot.token_view(table, TOKENS, **options)[1]
            assert [t.get_text() for t in ax.texts] == TOKENS
            strength = np.array([patch.get_facecolor()[3] for patch in ax.patches])
            np.testing.assert_allclose(strength, 0.75 * np.sqrt(row / row.max()))
        data = data_of(plot.token_view(table, TOKENS, token=-2, head=1))
        assert (data["token"], data["head"], data["heads"]) == (3, 1, ["0", "1", "2", "mean"])

    def test_lines_break(self):
        (ax,) = plot.token_view(weights(30, 30), [f"token{i}" for i in range(30)], width=3.0)[1]
        assert len({patch.get_y() for patch in ax.patches}) > 3
        assert max(patch.get_x() + patch.get_width() for patch in ax.patches) <= 3.0

    def test_rejections(self):
        with pytest.raises(ValueError, match=r"^token_view: weights must be \(L, L\) .*; got \(5, 4\)$"):
            plot.token_view(weights(5, 4), TOKENS)
        with pytest.raises(ValueError, match=r"^token_view: token must be from 0 to 4, .*; got 5$"):
            plot.token_view(weights(5, 5), TOKENS, token=5)
        with pytest.raises(ValueError, match=r"^token_view: tokens must have 5 entries, .*; got 0$"):
            plot.token_view(weights(5, 5), [])
