"""Features of queries and keys, and weights over an image: what is drawn, what the page holds, what is refused."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from test_attention_views import IMAGE, TOKENS, Kept, data_of, recording, weights
from test_html import Reader, unpacked

from qkv import plot


class TestNeuronView:
    def test_features_of_the_chosen_query(self):
        kept = recording()
        view = plot.neuron_view(kept, TOKENS, layer=1, head=3, query=2)
        assert repr(view) == "NeuronView(1 layer of 4 heads, 5 queries, 5 keys, 7 features)"
        start = "layers.1.self_attn."
        asked, keys = kept[start + "queries"][0, 3, 2], kept[start + "keys"][0, 1]
        shown = [np.asarray(ax.images[0].get_array()) for ax in view[1]]
        for got, expected in zip(
            shown, (asked[None], keys, keys * asked, kept[start + "weights"][0, 3, 2][:, None]), strict=True
        ):
            np.testing.assert_allclose(got, expected)

    def test_the_page_has_all_layers(self):
        kept = recording()
        data = data_of(plot.neuron_view(kept, TOKENS))
        assert [layer["name"] for layer in data["layers"]] == ["layers.0.self_attn", "layers.1.self_attn"]
        layer = data["layers"][1]
        queries = np.frombuffer(base64.b64decode(layer["queries"]), "<i2").reshape(layer["shapes"][0])
        expected = kept["layers.1.self_attn.queries"][0]
        np.testing.assert_allclose(queries * layer["scales"][0] / 32764, expected, atol=1e-4)
        np.testing.assert_allclose(
            unpacked(layer["scores"])[0],
            kept["layers.1.self_attn.scores"][0],
            atol=1e-4 * layer["scores"]["scale"],
        )
        for name in list(kept):
            if name.endswith("scores"):
                del kept[name]
        assert data_of(plot.neuron_view(kept, TOKENS))["layers"][0]["scores"] is None

    def test_axes_that_are_missing(self):
        kept = recording(layers=1)
        for axes in (1, 2):
            fewer = Kept({name: part[(0,) * axes] for name, part in kept.items()})
            view = plot.neuron_view(fewer, TOKENS, query=1)
            assert view.layers[0][0].shape == ((4, 1)[axes - 1], 5, 7)
            np.testing.assert_allclose(
                np.asarray(view[1][3].images[0].get_array())[:, 0],
                kept["layers.0.self_attn.weights"][0, 0, 1],
            )

    def test_layers_of_several_sizes(self):
        kept = recording(layers=1)
        kept.update({f"memory.{name.rpartition('.')[2]}": part for name, part in recording(1, L=3).items()})
        with pytest.raises(
            ValueError,
            match=r"^neuron_view: weights must have one size .* or layer must choose one; got \(5, 5\) and \(3, 3\)$",
        ):
            plot.neuron_view(kept, TOKENS)
        assert len(plot.neuron_view(kept, TOKENS[:3], layer=1).keys) == 3

    def test_what_does_not_fit_a_page_is_left_out_and_said(self):
        kept = recording(layers=3, L=131, D=67, H=52, Hkv=26)
        view = plot.neuron_view(kept, [str(i) for i in range(131)])
        assert len(view.layers) < 3
        assert "left out for the size of the page" in Reader(view._repr_html_()).text["p"][0]
        assert len(view._repr_html_()) < 4e6

    def test_rejections(self):
        kept = recording()
        with pytest.raises(
            ValueError, match=r"^neuron_view: recording must hold queries, .*; got \['weights'\]$"
        ):
            plot.neuron_view(Kept({"a.weights": kept["layers.0.self_attn.weights"]}), TOKENS)
        for options, words in (
            ({"layer": 2}, "layer must be from 0 to 1, .*; got 2"),
            ({"head": 4}, "head must be from 0 to 3, .*; got 4"),
            ({"query": 5}, "query must be from 0 to 4, .* 5 query tokens; got 5"),
            ({"item": 1}, "item must be from 0 to 0 because the recording holds 1 sentence; got 1"),
            ({"key_tokens": TOKENS[1:]}, "key_tokens must have 5 entries, one for each key; got 4"),
        ):
            with pytest.raises(ValueError, match=f"^neuron_view: {words}$"):
                plot.neuron_view(kept, TOKENS, **options)


class TestImageView:
    @pytest.mark.parametrize("special", [0, 1])
    def test_weights_over_the_patches(self, special):
        L = 9 + special
        table = weights(2, L, L)
        view = plot.image_view(table, IMAGE / 255, query=4 + special, head=1)
        assert repr(view) == f"ImageView(1 layer of 2 heads, 3 x 3 patches{' and CLS' * special})"
        (ax,) = view[1]
        row = table[1, 4 + special, special:]
        np.testing.assert_allclose(ax.images[1].get_array()[..., 3].ravel(), 0.8 * row / row.max())
        assert ax.patches[0].get_xy() == (1, 1)
        data = data_of(view)
        colors = np.frombuffer(base64.b64decode(data["image"]), np.uint8).reshape(*data["size"], 3)
        np.testing.assert_array_equal(colors, IMAGE)
        assert (data["special"], data["patches"], data["query"]) == (["CLS"] * special, [3, 3], 4 + special)

    def test_large_images_are_made_smaller(self):
        data = data_of(plot.image_view(weights(4, 4), np.zeros((900, 1200, 3))))
        assert data["size"] == [336, 448]

    @pytest.mark.parametrize(("special", "told"), [(0, ""), (1, " and CLS"), (5, " and CLS and 4 registers")])
    def test_any_grid_and_tokens_before_it(self, special, told):
        L = 15 + special
        table = weights(2, L, L)
        view = plot.image_view(table, IMAGE, grid=(3, 5), query=7 + special, head=1)
        assert repr(view) == f"ImageView(1 layer of 2 heads, 3 x 5 patches{told})"
        ax = view[1][0]
        strength = ax.images[1].get_array()[..., 3]
        row = table[1, 7 + special, special:]
        np.testing.assert_allclose(strength, 0.8 * (row / row.max()).reshape(3, 5))
        assert ax.patches[0].get_xy() == (2, 1)
        data = data_of(view)
        names = ["CLS", "register 1", "register 2", "register 3", "register 4"]
        assert (data["special"], data["patches"], data["words"]) == (names[:special], [3, 5], None)

    @pytest.mark.parametrize("special", [0, 2])
    def test_words_over_patches(self, special):
        table = weights(4, 3, 6 + special)
        view = plot.image_view(table, IMAGE, grid=(2, 3), tokens=["a", "black", "cat"], query=-1, head=2)
        assert f"3 words over 2 x 3 patches{' and CLS and 1 register' if special else ''})" in repr(view)
        ax = view[1][0]
        row = table[2, 2, special:]
        np.testing.assert_allclose(ax.images[1].get_array()[..., 3].ravel(), 0.8 * row / row.max())
        assert len(ax.patches) == 0
        assert data_of(view)["words"] == ["a", "black", "cat"]
        with pytest.raises(ValueError, match="tokens must have 3 entries, one for each query; got 2"):
            plot.image_view(table, IMAGE, grid=(2, 3), tokens=["a", "cat"])

    def test_images_in_every_order_of_axes(self):
        table, grey = weights(2, 5, 5), IMAGE[..., 0]
        expected = plot.image_view(table, IMAGE).image
        np.testing.assert_array_equal(expected, IMAGE)
        np.testing.assert_array_equal(plot.image_view(table, IMAGE.transpose(2, 0, 1)).image, IMAGE)
        np.testing.assert_array_equal(plot.image_view(table, IMAGE[..., :1]).image, np.stack([grey] * 3, -1))
        for one in (grey, grey[None], grey[..., None], grey / 255):
            np.testing.assert_array_equal(plot.image_view(table, one).image, np.stack([grey] * 3, -1))

    @pytest.mark.parametrize("grid", [(3, 0), (4, 4), 3, ("a", "b"), (2, 2, 2)])
    def test_grids_that_do_not_fit(self, grid):
        with pytest.raises(
            ValueError, match=r"^image_view: grid must be \(rows, columns\) of at most 10 patches"
        ):
            plot.image_view(weights(2, 10, 10), IMAGE, grid=grid)

    @pytest.mark.parametrize(
        ("shape", "image", "words"),
        [
            ((6, 6), IMAGE, r"grid must be \(rows, columns\) of patches where .*; got weights over 6 keys"),
            ((4, 9), IMAGE, r"weights must be \(L, L\) .*, or tokens must name the queries; got \(4, 9\)"),
            ((4, 4), IMAGE[0, 0], r"image must be \(height, width, 3\) or .*; got \(3,\)"),
            ((4, 4), IMAGE[..., :2], r"image must be \(height, width, 3\) or .*; got \(24, 36, 2\)"),
            ((4, 4), IMAGE.astype(int), "image must be uint8 or floats from 0 to 1; got int64 from 0 to 255"),
            (
                (4, 4),
                IMAGE.astype(float),
                "image must be uint8 or floats from 0 to 1; got float64 from 0 to 255",
            ),
        ],
    )
    def test_rejections(self, shape, image, words):
        with pytest.raises(ValueError, match=f"^image_view: {words}$"):
            plot.image_view(weights(*shape), image)
        with pytest.raises(ValueError, match=r"^image_view: query must be from 0 to 3, .*; got 4$"):
            plot.image_view(weights(4, 4), IMAGE, query=4)
