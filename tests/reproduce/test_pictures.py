"""A figure is accepted as described, and refused for each thing that can be wrong with it."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("agg")
import matplotlib.pyplot as plt

from qkv.reproduce import Check, golden
from qkv.reproduce.arrays import figures, load


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def heatmap(colorbar=True, transpose=False, **changes):
    """Draw F-D2-08 (four panels with limits and titles), changed as asked."""
    spec = figures()["F-D2-08"]
    fig, axes = plt.subplots(1, 4, figsize=changes.pop("figsize", spec["figsize"]))
    for ax, panel in zip(axes, spec["panels"], strict=True):
        panel = {"cmap": "Reds", **panel, **changes}
        array = load(panel["image"])
        image = ax.imshow(
            array.T if transpose else array + changes.get("add", 0.0),
            cmap=panel["cmap"],
            vmin=panel["vmin"],
            vmax=panel["vmax"],
            origin=panel.get("origin", "upper"),
        )
        ax.set(xlabel=panel["xlabel"], ylabel=panel["ylabel"], title=panel["title"])
    if colorbar:
        fig.colorbar(image, ax=axes, shrink=changes.get("shrink", 0.8))
    return fig


def lines(fmt="m--", legend=("y_hat", "y"), alpha=0.5, sharey=True, swap=False, panels=4, xscale="linear"):
    """Draw F-D0-07, changed as asked."""
    data, fits = golden("D0-06"), golden("D0-07")
    fig, axes = plt.subplots(1, panels, figsize=(12, 3), sharey=sharey)
    for ax, name in zip(axes, ("gaussian", "boxcar", "constant", "epanechnikov"), strict=False):
        points = data["x_val"], fits[f"y_hat.{name}"]
        ax.plot(*(points[::-1] if swap else points))
        ax.plot(data["x_val"], data["y_val"], fmt)
        ax.plot(data["x_train"], data["y_train"], "o", alpha=alpha)
        ax.set(xlabel=name.capitalize(), xscale=xscale)
        if legend:
            ax.legend(legend)
    return fig


def verdict(name, fig):
    check = Check()
    check.figure(name, fig)
    return check.records[-1]


def is_refused(name, fig, panel, change, words):
    change(fig.axes[panel])
    record = verdict(name, fig)
    assert record["state"] == "failed"
    assert words in record["got"]


def test_figures_as_described_are_accepted(capsys):
    assert verdict("F-D2-08", heatmap())["state"] == "ok"
    record = verdict("F-D0-07", lines())
    assert record["state"] == "ok"
    assert record["id"] == "D0-07"
    assert record["figure"] == "F-D0-07"
    assert record["how"] == "picture"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"xlabel": "Queries", "ylabel": "Keys"},
            "xlabel is 'Queries' instead of 'Keys'; panel 1: ylabel is 'Keys'",
        ),
        ({"title": "enc"}, "title is 'enc' instead of 'enc sentence 0'"),
        ({"cmap": "viridis"}, "colour map is 'viridis' instead of 'Reds'"),
        ({"vmax": 2.0}, "colour scale's end is 2.0 instead of 1"),
        ({"colorbar": False}, "number of colour bars is 0 instead of 1"),
        ({"shrink": 0.5}, "colour bar's shrink is 0.5 instead of 0.8"),
        ({"figsize": (8, 2.6)}, "size in inches is [8.0, 2.6] instead of [11.0, 2.6]"),
        ({"transpose": True}, "image: "),
        ({"add": 1e-6}, "image: "),
        ({"origin": "lower"}, "place of the image"),
    ],
)
def test_a_heatmap_is_refused_for(changes, words, capsys):
    record = verdict("F-D2-08", heatmap(**changes))
    assert record["state"] == "failed"
    assert words in record["got"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"legend": ("y_hat", "truth")}, "legend is ['y_hat', 'truth'] instead of ['y_hat', 'y']"),
        ({"legend": None}, "legend is None instead of"),
        ({"fmt": "m-"}, "line style is '-' instead of '--'"),
        ({"fmt": "r--"}, "colour"),
        ({"fmt": "mo--"}, "marker is 'o'"),
        ({"alpha": None}, "alpha is 1 instead of 0.5"),
        ({"sharey": False}, "do not share their y axis"),
        ({"swap": True}, "line 1 (x)"),
        ({"panels": 5}, "number of panels is 5 instead of 4"),
        ({"xscale": "symlog"}, "xscale is 'symlog' instead of 'linear'"),
    ],
)
def test_a_plot_is_refused_for(changes, words, capsys):
    record = verdict("F-D0-07", lines(**changes))
    assert record["state"] == "failed"
    assert words in record["got"]


def test_rows_grid_and_tick_labels(capsys):
    fig, ax = plt.subplots(figsize=(6, 2.5))
    for row, form in zip(golden("D0-28")["columns_6_9"], ("-", "m--", "g-.", "r:"), strict=True):
        ax.plot(np.arange(60), row, form)
    ax.set_xlabel("Row (position)")
    ax.legend([f"Col {i}" for i in range(6, 10)])
    assert "there is no grid" in verdict("F-D0-28", fig)["got"]
    ax.grid()
    assert verdict("F-D0-28", fig)["state"] == "ok"

    words = ["Hello", "shiny", "sun"]
    fig, ax = plt.subplots(figsize=(3, 2.6))
    fig.colorbar(ax.imshow(golden("D1-03")["all_weights"], cmap="Reds"), ax=ax, shrink=0.6)
    ax.set(xlabel="Keys", ylabel="Queries")
    ax.set_xticks(range(3), words)
    ax.set_yticks(range(3), words[::-1])
    assert "y tick labels is ['sun', 'shiny', 'Hello']" in verdict("F-D1-08", fig)["got"]
    ax.set_yticks(range(3), words)
    assert verdict("F-D1-08", fig)["state"] == "ok"

    fig, _ = plt.subplots(1, 6, figsize=(9, 5))
    assert "number of rows is 1 instead of 2" in verdict("F-D2-07", fig)["got"]


def blank(ax):
    """Lay a white sheet over the panel."""
    ax.add_patch(mpl.patches.Rectangle((0, 0), 1, 1, transform=ax.transAxes, color="white", zorder=9))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda ax: ax.images[0].set_visible(False), "the image is invisible"),
        (lambda ax: ax.images[0].set_alpha(0.0), "the image is invisible"),
        (lambda ax: ax.images[0].set_alpha(0.5), "panel 2: what is seen differs in"),
        (lambda ax: ax.set_visible(False), "the panel, or its frame, is invisible"),
        (lambda ax: ax.set_axis_off(), "the panel, or its frame, is invisible"),
        (lambda ax: ax.title.set_visible(False), "'enc sentence 1' is invisible"),
        (lambda ax: ax.xaxis.label.set_alpha(0.0), "'Keys' is invisible"),
        (lambda ax: ax.set_xticks([]), "the x axis has no tick labels"),
        (lambda ax: ax.tick_params(labelleft=False), "the y axis has no tick labels"),
        (lambda ax: ax.set_xticks(range(4), "abcd"), "the x tick at 0 says 'a'"),
        (lambda ax: ax.set_yticks(range(4), "1234"), "the y tick at 0 says '1'"),
        (lambda ax: ax.invert_yaxis(), "the y axis goes from -0.5 to 3.5 instead of from 3.5 to -0.5"),
        (lambda ax: ax.invert_xaxis(), "the x axis goes from 3.5 to -0.5 instead of from -0.5 to 3.5"),
        (lambda ax: ax.set_xlim(-0.5, 1.5), "the x axis goes from -0.5 to 1.5 instead of from -0.5 to 3.5"),
        (blank, "panel 2: what is seen differs in"),
    ],
)
def test_a_heatmap_is_refused_where_one_panel_is_changed(change, words, capsys):
    is_refused("F-D2-08", heatmap(), 1, change, words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda ax: ax.get_lines()[1].set_visible(False), "line 2: it is invisible"),
        (lambda ax: ax.get_lines()[0].set_alpha(0.0), "line 1: it is invisible"),
        (lambda ax: ax.get_lines()[0].set_linewidth(0.0), "line 1: it is invisible"),
        (
            lambda ax: ax.get_lines()[0].set_color("white"),
            "panel 3: the legend's 'y_hat' looks like another line",
        ),
        (lambda ax: ax.get_legend().set_visible(False), "Legend  is invisible"),
        (lambda ax: ax.get_legend().get_texts()[0].set_alpha(0.0), "'y_hat' is invisible"),
        (lambda ax: ax.set_xlim(0, 3), "panel 3: the x axis goes from 0 to 3 instead of from -0.245 to"),
        (lambda ax: ax.invert_xaxis(), "panel 3: the x axis goes from"),
        (lambda ax: ax.set_ylim(-100, 100), "the y axis goes from -100 to 100 instead of from"),
        (lambda ax: ax.set_xticks([0, 2, 4], ["0", "1", "2"]), "the x tick at 2 says '1'"),
        (lambda ax: ax.set_xticks([0, 2, 4], ["none", "few", "many"]), "the x tick at 0 says 'none'"),
        (lambda ax: ax.xaxis.set_visible(False), "the x axis has no tick labels"),
        (blank, "panel 3: what is seen differs"),
    ],
)
def test_a_plot_is_refused_where_one_panel_is_changed(change, words, capsys):
    is_refused("F-D0-07", lines(), 2, change, words)


def test_a_colour_bar_that_is_not_seen(capsys):
    for change in (lambda bar: bar.set_visible(False), lambda bar: bar.set_yticks([])):
        fig = heatmap()
        change(fig.axes[-1])
        assert "the colour bar is not seen with its numbers" in verdict("F-D2-08", fig)["got"]


def test_a_check_leaves_the_figure_as_it_was(capsys):
    fig = heatmap()
    canvas, position = fig.canvas, fig.axes[0].get_position().bounds
    verdict("F-D2-08", fig)
    assert fig.canvas is canvas
    assert fig.axes[0].get_position().bounds == position
    assert all(artist.get_visible() for ax in fig.axes for artist in (ax, ax.title, ax.xaxis, ax.yaxis))
