"""Labels, sizes and scales of pictures."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from qkv import plot
from qkv.plot.heatmaps import grid_size
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
