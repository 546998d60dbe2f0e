"""Labels, sizes and scales of pictures."""

from __future__ import annotations

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest

from qkv import plot
from qkv.plot.figures import labels
from qkv.plot.figures.heatmaps import grid_size
from qkv.torch import d2l


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


TOKENS = [f"token number {i}" for i in range(10)]
LABELLED = {
    "heatmap": lambda: plot.heatmap(
        np.eye(10),
        "Keys",
        "Queries",
        "A title that is longer than its figure",
        xticks=TOKENS,
        yticks=TOKENS,
        colorbar=0.6,
    ),
    "alignment": lambda: plot.alignment(np.eye(10), TOKENS, TOKENS),
    "show_heatmaps": lambda: plot.show_heatmaps(np.eye(10)[None, None], "Keys", "Queries"),
    "a grid": lambda: plot.show_heatmaps(
        np.ones((2, 4, 10, 10)), "Keys", "Queries", figsize=(7, 3.5), xticks=TOKENS, yticks=TOKENS
    ),
    "heatmap_row": lambda: plot.heatmap_row(
        [np.eye(10)] * 2, ["one", "two"], ylabel="Queries", figsize=(3, 1.5)
    ),
    "d2l": lambda: d2l.show_heatmaps(np.ones((2, 4, 10, 10)), "Key positions", "Query positions"),
    "plot_lines": lambda: plot.plot_lines([1e9, 2e9], xlabel="x", ylabel="y"),
}


@pytest.mark.parametrize("name", LABELLED)
def test_no_label_is_cut(name):
    fig, _ = LABELLED[name]()
    fig.draw_without_rendering()
    box, (width, height) = fig.get_tightbbox(), fig.get_size_inches()
    assert min(box.x0, box.y0) > -0.03
    assert box.x1 < width + 0.03
    assert box.y1 < height + 0.03


@pytest.mark.parametrize("token", ["$$", "$x$", r"$\frac$", "$5 or $6"])
def test_words_are_no_formulas(token):
    for _, axes in (
        plot.alignment(np.eye(2), [token, "b"], [token, "b"]),
        plot.show_heatmaps(np.ones((2, 2, 2, 2)), xticks=[token, "b"], yticks=[token, "b"]),
    ):
        ax = np.ravel(axes)[-2] if isinstance(axes, np.ndarray) else axes
        for label in (ax.get_xticklabels()[0], ax.get_yticklabels()[0]):
            assert label.get_text() == token
            assert not label.get_parse_math()


@pytest.mark.parametrize("shape", [(1, 1, 80, 80), (1, 2, 128, 64), (3, 8, 20, 30)])
def test_words_stand_apart(shape):
    words = [f"word{i}" for i in range(shape[2])], [f"word{i}" for i in range(shape[3])]
    fig, axes = plot.show_heatmaps(np.ones(shape), figsize=(7, 4), yticks=words[0], xticks=words[1])
    fig.set_dpi(500)  # whole pixels are too coarse for small words
    fig.draw_without_rendering()
    boxes = [label.get_window_extent() for label in axes[0, 0].get_yticklabels()]
    assert all(box.y0 > below.y1 for box, below in itertools.pairwise(boxes))


def test_one_row_or_column_has_one_tick():
    fig, axes = plot.show_heatmaps(np.ones((1, 1, 1, 1)))
    fig.draw_without_rendering()
    for axis in (axes[0, 0].xaxis, axes[0, 0].yaxis):
        assert [place for place in axis.get_majorticklocs() if -0.5 <= place <= 0.5] == [0]


def test_matrices_of_different_height_have_their_own_rows():
    _, axes = plot.heatmap_row([np.ones((3, 3)), np.ones((5, 9))], ["a", "b"])
    assert [ax.get_ylim() for ax in axes] == [(2.5, -0.5), (4.5, -0.5)]


def test_refusals():
    with pytest.raises(
        ValueError, match="show_heatmaps: xticks must have 2 entries, one for each column; got 5"
    ):
        plot.show_heatmaps(np.ones((1, 1, 2, 2)), xticks=5)
    with pytest.raises(ValueError, match="training_curve: smooth must be at least 1; got 0"):
        plot.training_curve([1.0, 2.0], smooth=0)
    with pytest.raises(TypeError, match=r"training_curve: smooth must be an integer .*; got 1.5"):
        plot.training_curve([1.0, 2.0], smooth=1.5)
    assert not plt.get_fignums()


def test_one_update_is_a_point():
    assert plot.training_curve([1.0])[1].lines[0].get_marker() == "o"
    assert plot.training_curve([1.0, 0.5])[1].lines[0].get_marker() == "None"


def test_many_panels_fit_a_screen():
    for shape in ((12, 12, 10, 10), (1, 40, 5, 5), (40, 1, 5, 5)):
        assert (np.array(grid_size(shape, None, None)) < [14.01, 9.01]).all()
    fig, _ = plot.show_heatmaps(np.ones((1, 12, 10, 10)), "Keys", "Queries")
    assert (fig.get_size_inches() < [14.01, 9.01]).all()


def test_panels_of_equal_numbers_have_the_colour_of_the_bar():
    for fig, axes in (
        plot.show_heatmaps(np.ones((1, 3, 2, 2))),
        plot.heatmap_row([np.ones((2, 2))] * 3, "abc"),
    ):
        images = [panel.images[0] for panel in axes.ravel()]
        assert len({image.to_rgba(1.0) for image in images}) == 1
        assert len(fig.axes) == 4


def test_panels_with_a_scale_each():
    matrices = np.stack([np.eye(3), 5 * np.eye(3)])[None]
    fig, axes = plot.show_heatmaps(matrices, share_scale=False)
    assert [panel.images[0].get_clim() for panel in axes[0]] == [(0, 1), (0, 5)]
    assert len(fig.axes) == 4  # a bar each
    fig, axes = plot.show_heatmaps(matrices)
    assert [panel.images[0].get_clim() for panel in axes[0]] == [(0, 5), (0, 5)]
    assert len(fig.axes) == 3


def test_kernel_regression_without_truth_and_points():
    _, axes = plot.kernel_regression([0, 1], {"Gaussian": [0, 2]}, x_train=[0.5], y_train=[0.6])
    assert [line.get_linestyle() for line in axes[0].get_lines()] == ["-", "None"]
    assert [text.get_text() for text in axes[0].get_legend().get_texts()] == ["y_hat"]


def test_labels_are_keys_of_a_dict():
    with pytest.raises(
        TypeError,
        match=r"^kernel_regression: y_hat must be a dict because its keys are the labels; got list; wr",
    ):
        plot.kernel_regression([0, 1], [0, 1], [0, 1, 2], [0, 1, 2])
    with pytest.raises(TypeError, match=r"^training_curve: reference must be a dict because"):
        plot.training_curve([2.0, 1.0], reference=[1.5])


SENTENCE = ("the agreement on the European Economic Area was signed in August 1992 " * 4).split()
HEATMAPS = {
    "heatmap": lambda w, t: plot.heatmap(w, xticks=t, yticks=t),
    "heatmap with names and a bar": lambda w, t: plot.heatmap(
        w, "keys", "queries", xticks=t, yticks=t, colorbar=0.6
    ),
    "alignment": lambda w, t: plot.alignment(w, t, t),
    "one of a grid": lambda w, t: plot.show_heatmaps(w[None, None], "keys", xticks=t, yticks=t),
}


@pytest.mark.parametrize("count", [6, 8, 12, 16, 24, 40])
@pytest.mark.parametrize("name", HEATMAPS)
def test_words_beside_heatmaps_can_be_read(name, count):
    fig, axes = HEATMAPS[name](np.eye(count), SENTENCE[:count])
    fig.draw_without_rendering()
    found = [*np.ravel(axes)[0].get_xticklabels(), *np.ravel(axes)[0].get_yticklabels()]
    assert len(found) == 2 * count
    assert min(label.get_fontsize() for label in found) >= 6.5
    columns, rows = found[:count], found[count:]
    tops = sorted(label.get_window_extent().y0 for label in rows)
    heights = max(label.get_window_extent().height for label in rows)
    assert min(np.diff(tops)) >= 0.75 * heights
    assert max(label.get_window_extent().x1 for label in columns) <= fig.bbox.x1 + 1


def test_a_size_that_is_asked_for_is_kept():
    fig, _ = plot.heatmap(np.eye(24), figsize=(3, 3), xticks=SENTENCE[:24])
    assert max(fig.get_size_inches()) < 4.5


def test_characters_without_a_font_are_named_in_heatmaps():
    odd = next(sign for sign in ("\U0001f642", "\U0001fae8", "\ue000") if labels.drawn(sign) != sign)
    fig, ax = plot.heatmap(np.eye(2), xticks=["a", odd], yticks=[f"b{odd}", "c"])
    code = f"[U+{ord(odd):04X}]"
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", code]
    assert [label.get_text() for label in ax.get_yticklabels()] == [f"b{code}", "c"]
    fig.draw_without_rendering()  # a warning of a missing glyph is an error


def test_a_notebook_does_not_print_a_figure_and_its_axes():
    pair = plot.heatmap(np.eye(2))
    fig, ax = pair
    assert isinstance(pair, tuple)
    assert pair == (fig, ax)
    formatters = pytest.importorskip("IPython.core.formatters")
    formatter = formatters.DisplayFormatter()
    formatter.ipython_display_formatter.enabled = True
    assert formatter.format(pair) == ({}, {})
