"""A notebook's own figure is accepted with the panels that it must hold, and refused for each thing that differs."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("agg")
import matplotlib.pyplot as plt

from qkv import nn, plot
from qkv.reproduce import Check, panels
from qkv.training import History

WEIGHTS = np.arange(12.0).reshape(1, 2, 2, 3) / 12
WORDS = ["the", "cat"]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def problem(shown, expected):
    """Return what the check says of a figure, or None if it is accepted."""
    check = Check()
    check.picture("D0-01", shown, expected)
    [record] = check.records
    assert record["how"] == "picture"
    return None if record["state"] == "ok" else record["got"]


def test_a_grid_and_a_row_of_heatmaps(capsys):
    fig, axes = plot.show_heatmaps(WEIGHTS, "keys", "queries", ["a", "b"], yticks=WORDS)
    assert problem(fig, panels.heatmaps(WEIGHTS, "keys", "queries", ["a", "b"], yticks=WORDS)) is None
    assert problem(fig, panels.heatmaps(WEIGHTS[0], "keys", "queries", ["a", "b"], yticks=WORDS)) is None
    for other, words in (
        ((WEIGHTS / 2, "keys", "queries", ["a", "b"]), "panel 1: image"),
        ((WEIGHTS[:, ::-1], "keys", "queries", ["a", "b"]), "panel 1: image"),
        ((WEIGHTS, "keys", "queries", ["b", "a"]), "panel 1: title is 'a' instead of 'b'"),
        ((WEIGHTS, "keys", "queries"), "panel 1: title is 'a' instead of ''"),
        ((WEIGHTS, "keys", "", ["a", "b"]), "panel 1: ylabel is 'queries' instead of ''"),
        ((WEIGHTS[:, :1], "keys", "queries", ["a"]), "number of panels is 2 instead of 1"),
    ):
        assert problem(fig, panels.heatmaps(*other, yticks=WORDS)).startswith(words)
    assert "y tick labels" in problem(
        fig, panels.heatmaps(WEIGHTS, "keys", "queries", ["a", "b"], yticks=WORDS[::-1])
    )
    own = panels.heatmaps(WEIGHTS, "keys", "queries", ["a", "b"], yticks=WORDS, share_scale=False)
    assert "colour scale's end" in problem(fig, own)
    axes[0, 0].images[0].set_norm(mpl.colors.PowerNorm(0.5, 0, 11 / 12))
    assert "scale of the colours is 'PowerNorm'" in problem(
        fig, panels.heatmaps(WEIGHTS, "keys", "queries", ["a", "b"])
    )


def test_what_nobody_named_must_not_be_drawn(capsys):
    fig, ax = plot.heatmap(WEIGHTS[0, 0])
    expected = panels.heatmaps(WEIGHTS[0, 0])
    assert problem(fig, expected) is None
    for draw, words in (
        (lambda ax: ax.text(0, 0, "word"), "what is written is ['word']"),
        (lambda ax: ax.plot([0, 1], [1, 0]), "number of lines is 1 instead of 0"),
        (lambda ax: ax.bar([0, 1], [1, 2]), "there are bars"),
        (lambda ax: ax.legend([]), "legend is []"),
        (lambda ax: ax.imshow(WEIGHTS[0, 0]), "number of images is 2"),
    ):
        fig, ax = plot.heatmap(WEIGHTS[0, 0])
        draw(ax)
        assert words in problem(fig, expected)


def test_lines_with_a_legend(capsys):
    x, ys = np.arange(4), np.array([[0.0, 1, 2, 3], [3, 1, 0, 2]])
    fig, ax = plot.plot_lines(x, ys, "x", "y", ["up", "other"])
    assert problem(fig, panels.lines(x, ys, "x", "y", ["up", "other"])) is None
    assert "line 1 (y)" in problem(fig, panels.lines(x, ys[:, ::-1], "x", "y", ["up", "other"]))
    assert "line 1 (y)" in problem(fig, panels.lines(x, ys[::-1], "x", "y", ["up", "other"]))
    assert "legend" in problem(fig, panels.lines(x, ys, "x", "y", ["other", "up"]))
    first, second = ax.get_lines()
    ax.legend([second, first], ["up", "other"])
    assert "the legend's 'up' looks like another line" in problem(
        fig, panels.lines(x, ys, "x", "y", ["up", "other"])
    )


def test_bars(capsys):
    for horizontal in (False, True):
        fig, ax = plt.subplots()
        draw, start = (ax.barh, "left") if horizontal else (ax.bar, "bottom")
        draw(WORDS, [1.0, 2.0], **{start: [0.5, 0.0]})
        ticks = {"yticks" if horizontal else "xticks": WORDS}
        assert problem(fig, panels.bars([1, 2], [0.5, 0], horizontal=horizontal, **ticks)) is None
        assert "bars (place" in problem(fig, panels.bars([2, 1], [0.5, 0], horizontal=horizontal, **ticks))
        assert "bars (place" in problem(fig, panels.bars([1, 2], horizontal=horizontal, **ticks))


@pytest.mark.parametrize("name", ["attention", "multi-head", "seq2seq", "bahdanau", "transformer"])
def test_diagrams(name, capsys):
    fig, _ = plot.schematic(name)
    assert problem(fig, panels.diagram(name)) is None
    [panel] = panels.diagram(name)
    turned = [*panel["arrows"][:-1], panel["arrows"][-1][::-1]]
    assert "what the arrows join" in problem(fig, [{**panel, "arrows": turned}])
    assert "what is written" in problem(fig, [{**panel, "texts": panel["texts"][::-1]}])


def test_heads_and_layers(capsys):
    heads = np.array([[[0.9, 0.1], [0.004, 0.996]], [[0.5, 0.5], [1.0, 0.0]]])
    fig, _ = plot.head_view(heads, WORDS)
    assert problem(fig, panels.connections(heads, WORDS)) is None
    assert "strengths of the lines" in problem(fig, panels.connections(heads.swapaxes(1, 2), WORDS))
    assert "what is written" in problem(fig, panels.connections(heads, WORDS[::-1]))
    assert "title" in problem(fig, panels.connections(heads, WORDS, titles=["head 1", "head 0"]))
    fig, _ = plot.layer_view(heads[None])
    assert problem(fig, panels.layers(heads[None])) is None
    assert "image" in problem(fig, panels.layers(heads[None, ::-1]))


@pytest.mark.parametrize("metrics", [[], ["exact"], ["held-out loss", "exact"]])
def test_a_training(metrics, capsys):
    history = History()
    history.loss = 1 / np.arange(1, 121)
    history.metrics = lambda: metrics
    history.metric = lambda name: (np.array([60, 120]), np.array([len(name) / 20, 0.9]))
    fig, _ = plot.training_curve(history, reference={"guessing": 0.7}, title="copying")
    expected = panels.training(history, reference={"guessing": 0.7}, title="copying")
    assert problem(fig, expected) is None
    assert problem(fig, panels.training(history, title="copying")).startswith(
        "panel 1: " if "exact" in metrics else ""
    )
    history.loss = history.loss[::-1]
    assert "(y)" in problem(fig, panels.training(history, reference={"guessing": 0.7}, title="copying"))


def test_pages(capsys):
    heads = np.array([[[0.9, 0.1], [0.004, 0.996]]])
    view = plot.head_view(heads, WORDS)
    assert problem(view, panels.heads_page([heads], WORDS)) is None
    assert "the script's weights differ; what is drawn as line differs" in problem(
        view, panels.heads_page([heads / 2], WORDS)
    )
    assert "the script's queries differ" in problem(view, panels.heads_page([heads], WORDS[::-1], WORDS))
    scores = np.log(heads[0])
    sliders = plot.AttentionSliders(scores, WORDS)
    assert problem(sliders, panels.weights_page(scores, heads[0], WORDS)) is None
    assert "what is drawn as rect differs" in problem(sliders, panels.weights_page(scores, heads[0].T, WORDS))
    layer, rows = nn.SelfAttention(3, 2), np.array([[0.5, -1.0, 2.0], [1.0, 0.25, -0.5]], "float32")
    view, weights = plot.explain(layer, WORDS, inputs=rows), layer(rows, return_weights=True)[1].numpy()
    keys = layer.k_proj(rows).numpy()
    assert problem(view, panels.pass_page(WORDS, weights, keys=keys)) is None
    assert "layers.0.weights.0 differ" in problem(view, panels.pass_page(WORDS, weights[::-1], keys=keys))
    assert "layers.0.arrays.keys0 differ" in problem(view, panels.pass_page(WORDS, weights, keys=keys[::-1]))
    x, y, at = np.array([0.0, 1.0]), np.array([1.0, 3.0]), np.linspace(0, 1, 3)
    slider = plot.BandwidthSlider(x, y, at, bandwidth=0.5)
    estimate, weights = slider.estimate(0.5)
    assert problem(slider, panels.regression_page(x, y, at, estimate, weights[1])) is None
    assert "not drawn on one scale" in problem(
        slider, panels.regression_page(x, y, at, estimate / 2, weights[1])
    )
    assert "what is drawn as circle" in problem(
        slider, panels.regression_page(x, y, at, estimate, weights[0])
    )
