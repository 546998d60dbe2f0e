"""What pages of views hold of numbers that are no weights: below 0, NaN, infinite; as Python and as Node read them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from test_attention_views import IMAGE, TOKENS, Kept
from test_html import Reader, unpacked

import qkv
from qkv import plot
from qkv.plot.views import view as views
from qkv.plot.views.packing import packed

NODE = shutil.which("node")
RNG = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def table(*odd):
    """Three heads over five tokens, with odd numbers in head 1."""
    found = qkv.softmax(RNG.normal(size=(3, 5, 5)))
    for place, number in enumerate(odd):
        found[1, 2, 4 - place] = number
    return found


def recording(weights):
    parts = {"queries": RNG.normal(size=(1, 3, 5, 7)), "keys": RNG.normal(size=(1, 3, 5, 7))}
    parts["queries"][0, 1, 2, 3] = weights[1, 2, 4]
    return Kept(parts, weights=weights[None], scores=weights[None])


VIEWS = {
    "head_view": lambda w: plot.head_view(w, TOKENS),
    "layer_view": lambda w: plot.layer_view([w], TOKENS),
    "token_view": lambda w: plot.token_view(w, TOKENS, token=2, head=1),
    "image_view": lambda w: plot.image_view(w, IMAGE, query=2),
    "compare_view": lambda w: plot.compare_view(np.full_like(w, 0.2), w, TOKENS),
    "neuron_view": lambda w: plot.neuron_view(recording(w), TOKENS, head=1, query=2),
}
ODD = {
    "negative": (-2.0,),
    "NaN": (np.nan,),
    "a row of NaN": (np.nan,) * 5,
    "-inf": (-np.inf,),
    "excluded": (-np.inf,) * 5,
    "inf": (np.inf,),
    "all": (-0.3, np.nan, np.inf, -np.inf, 40.0),
}
WORDS = {"negative": ["below 0"], "-inf": ["excluded"], "inf": [" inf"], "NaN": ["NaN"]}
WORDS |= {"a row of NaN": ["NaN"], "excluded": ["excluded"], "all": ["below 0", "NaN", " inf", "excluded"]}


def weights_of(name, data):
    held = {"layer_view": lambda: data["tables"][0], "compare_view": lambda: data["tables"][2]}
    return (data["layers"][0] if name == "neuron_view" else held.get(name, lambda: data)())["weights"]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", VIEWS)
def test_numbers_are_held_and_named_as_they_are(name, odd):
    weights = table(*ODD[odd])
    page = Reader(VIEWS[name](weights)._repr_html_())
    data = json.loads(page.text["script"][0], parse_constant=pytest.fail)
    about = weights_of(name, data)
    np.testing.assert_allclose(unpacked(about)[0, :3].reshape(3, 5, 5), weights, atol=about["scale"] / 5e4)
    told = "  ".join(page.text["span"])
    assert all(word in told.replace("b has less", "below 0") for word in WORDS[odd]), told
    assert "exact" not in " ".join(page.text["p"])


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", VIEWS)
def test_figures_show_and_name_them(name, odd):
    fig = VIEWS[name](table(*ODD[odd])).figure()
    fig.draw_without_rendering()
    legends = [text.get_text() for legend in (*fig.legends, *(ax.get_legend() for ax in fig.axes)) if legend
               for text in legend.get_texts()]  # fmt: skip
    wanted = [word.strip() for word in WORDS[odd] if word != "below 0"]
    assert all(any(word in text for text in legends) for word in wanted), legends


def test_the_colours_of_a_figure_have_two_hues_with_white_at_zero():
    weights = np.array([[[0.5, -2.0, 1.0], [3.0, -0.1, 0.0], [-1.0, -np.inf, np.nan]]])
    image = plot.layer_view(weights, list("abc")).figure().axes[0].images[0]
    assert image.get_clim() == (-2.0, 3.0)
    red, blue = (image.cmap(image.norm(x))[:3] for x in (3.0, -2.0))
    assert red[0] > 2 * red[2]
    assert blue[2] > 2 * blue[0]
    assert min(image.cmap(image.norm(0.0))[:3]) > 0.95
    difference = plot.compare_view(np.zeros((1, 2, 2)), np.eye(2)[None] - 0.5, list("ab")).figure()
    colors = difference.axes[0].images[0]
    assert colors.cmap(colors.norm(0.5))[0] > 2 * colors.cmap(colors.norm(0.5))[2]  # b has more: red
    assert [text.get_text() for text in difference.legends[0].get_texts()] == ["b has more", "b has less"]


def test_heatmaps_name_what_is_no_number():
    matrix = np.array([[0.5, np.nan], [-np.inf, 1.0]])
    fig, ax = plot.heatmap(matrix)
    assert ax.images[0].get_clim() == (0.5, 1.0)
    assert [text.get_text() for text in fig.legends[0].get_texts()] == ["NaN", "-inf: excluded"]
    over = ax.images[1].get_array()
    assert (over[..., 3] > 0).tolist() == [[False, True], [True, False]]
    assert not plot.heatmap(np.eye(2))[0].legends
    plot.heatmap(np.full((2, 2), np.nan), colorbar=0.5)[0].draw_without_rendering()


def test_a_page_is_never_written_with_what_json_lacks():
    class Wrong(views.View):
        script = "measures_table"

        def _data(self):
            return {"value": float("inf")}

    with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
        Wrong()._repr_html_()


READ = """
const script = {{ textContent: {text} }};
const root = {{ closest: () => null, querySelector: (name) => (name.startsWith("script") ? script : null) }};
{code}
const found = weightsOf(data), rows = [];
for (let h = 0; h < found.heads; h++) for (let q = 0; q < found.Lq; q++) {{
  const row = [];
  for (let k = 0; k < found.Lk; k++) {{
    const weight = found.exact(0, h, q, k);
    row.push(String(weight === null ? found.pooled(0, h, q, k) : weight));
  }}
  rows.push(row);
}}
console.log(JSON.stringify([rows, Array.from(found.picture(0, 1, {most})[2], String)]));
"""


def by_node(about, most=64, mutate=lambda code: code):
    """Return what view.js makes of packed numbers: all of them, and a picture of head 1."""
    code = mutate((Path(views.__file__).parent / "view.js").read_text(encoding="utf8"))
    script = READ.format(text=json.dumps(json.dumps(about)), code=code, most=most)
    told = subprocess.run([NODE, "-e", script], capture_output=True, text=True, check=True).stdout
    rows, picture = json.loads(told)
    number = {"Infinity": np.inf, "-Infinity": -np.inf, "NaN": np.nan}
    return [np.array([number.get(x, x) for x in np.ravel(part)], float) for part in (rows, picture)]


needs_node = pytest.mark.skipif(NODE is None, reason="needs node")


@needs_node
@pytest.mark.parametrize("odd", ODD)
def test_a_script_reads_what_python_wrote(odd):
    weights = table(*ODD[odd])
    about = packed([weights])
    rows, picture = by_node(about)
    np.testing.assert_allclose(rows.reshape(3, 5, 5), weights, atol=about["scale"] / 5e4)
    np.testing.assert_allclose(picture.reshape(5, 5), weights[1], atol=about["scale"] / 5e4)
    for old, new in (
        ("32764", "32767"),
        ("65532", "65535"),
        ("-Infinity, Infinity, NaN", "NaN, Infinity, -Infinity"),
    ):
        mutated = by_node(about, mutate=lambda code, old=old, new=new: code.replace(old, new))[0]
        changed = not np.allclose(mutated, rows, rtol=0, atol=1e-6, equal_nan=True)
        kind = "signed" if old == "32764" else "unsigned" if old == "65532" else "odd"
        assert changed == {"signed": about["signed"], "unsigned": not about["signed"],
                           "odd": bool({"NaN", "-inf"} & set(about["odd"]))}[kind]  # fmt: skip


@needs_node
@pytest.mark.parametrize("signed", [False, True])
def test_pooled_numbers_keep_what_is_no_number(signed):
    scores = RNG.normal(size=(2, 40, 40)) * 3 if signed else qkv.softmax(RNG.normal(size=(2, 40, 40)))
    scores[:, np.triu_indices(40, 1)[0], np.triu_indices(40, 1)[1]] = -np.inf
    scores[1, 7] = np.nan
    about = packed([scores], budget=4000)
    assert about["k"] > 0
    assert "all" not in about
    rows, picture = by_node(about)
    rows, picture = rows.reshape(2, 40, 40), picture.reshape(40, 40)
    assert np.isnan(rows[1, 7]).sum() >= about["k"]
    assert np.isnan(picture[7]).any()
    assert np.isneginf(picture[0, 8:]).all()
    assert (rows[0, 0, 8:] == -np.inf).all()
    kept = np.sort(np.abs(np.where(np.isinf(scores[0]), 0, scores[0])), -1)[:, -1]
    np.testing.assert_allclose(
        np.nanmax(np.abs(np.where(np.isinf(rows[0]), 0, rows[0])), -1), kept, rtol=1e-3
    )
