"""What is said of a figure is what is in it."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from qkv.reproduce import figures, panels
from qkv.reproduce.checks import Check


def test_heatmaps():
    figure = Figure()
    axes = figure.subplots(1, 2)
    for ax, name in zip(axes, ("head 1", "head 2"), strict=True):
        image = ax.imshow(np.eye(3), vmin=0, vmax=0.5)
        ax.set(title=name, xlabel="Keys")
    axes[0].set_ylabel("Queries")
    figure.colorbar(image, ax=axes)
    assert figures.describe(figure) == (
        "Two heatmaps: head 1, head 2; horizontally Keys; vertically Queries; colours from 0 to 0.5"
    )
    image.set_clim(0, 1)
    assert figures.describe(figure).endswith(
        "colours of each to a scale of its own: from 0 to 0.5, from 0 to 1; the one colour bar is that of the last"
    )
    axes[0].images[0].set_data(np.zeros((3, 3, 3)))  # colours themselves have no scale
    assert figures.describe(figure).endswith("vertically Queries; colours from 0 to 1")


def test_labels_below_panels_without_titles_are_their_names():
    figure = Figure()
    for ax, name in zip(figure.subplots(1, 2), ("Gaussian", "Boxcar"), strict=True):
        ax.imshow(np.eye(3))
        ax.set_xlabel(name)
    assert figures.describe(figure) == "Two heatmaps: Gaussian, Boxcar; colours from 0 to 1"


def test_a_label_of_the_figure_stands_for_all():
    figure = Figure()
    figure.subplots().plot([1, 2])
    figure.set_label("What is seen")
    assert figures.describe(figure) == "What is seen"


def test_curves_points_and_bars():
    figure = Figure()
    first, second, third, fourth = figure.subplots(4)
    first.plot([1, 2], label="y_hat")
    first.plot([2, 1], "o", label="y")
    first.legend()
    second.plot([1, 2], "o")
    third.scatter([1], [2])
    fourth.bar(["a", "b"], [1, 2])
    fourth.set_ylabel("time\nin seconds")
    assert figures.describe(figure) == (
        "One line plot and two scatter plots and one bar chart; vertically time in seconds; legend y_hat, y"
    )


def test_two_axes_in_one_place_are_one_panel():
    figure = Figure()
    ax = figure.subplots()
    ax.plot([1, 2])
    ax.set_ylabel("loss")
    other = ax.twinx()
    other.plot([2, 1])
    other.set_ylabel("share")
    assert figures.describe(figure) == "One line plot; vertically loss, share"


def test_boxes_and_arrows_without_axes_are_a_diagram():
    figure = Figure()
    ax = figure.subplots()
    ax.axis("off")
    ax.text(0, 0, "softmax")
    ax.plot([1, 2])
    assert figures.describe(figure) == "One diagram"
    ax.axis("on")
    assert figures.describe(figure) == "One line plot"
    ax.lines[0].remove()
    ax.add_patch(Rectangle((0, 0), 1, 1))
    assert figures.describe(figure) == "One diagram"


def test_nothing_is_said_of_an_empty_figure():
    assert figures.describe(Figure()) == ""


def test_a_figure_that_was_shown_before_it_was_finished_is_a_failure(monkeypatch, capsys):
    figure = Figure()
    ax = figure.subplots()
    assert not figures.changed(figure)
    figures.enlarged(figure)
    assert not figures.changed(figure)
    ax.plot([1, 2])
    assert figures.changed(figure)
    assert not Check().picture("D0-01", figure, panels.lines([0, 1], [1, 2]))
    assert "drawn after it was shown" in capsys.readouterr().out
