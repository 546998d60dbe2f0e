"""The pictures, read back from matplotlib."""

from __future__ import annotations

import builtins

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgba

from qkv import look, models, nn, plot

WORDS = ["it", "is", "raining"]


@pytest.fixture(autouse=True)
def never_shown(monkeypatch):
    def show(*args, **kwargs):
        raise AssertionError("a picture called show")

    monkeypatch.setattr(plt, "show", show)
    yield
    plt.close("all")


def bars(fig):
    return [ax for ax in fig.axes if ax.get_label() == "<colorbar>"]


def tick_labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


class TestShowHeatmaps:
    def test_the_first_picture_of_the_documents(self, golden):
        weights = golden("D0-03", dtype="float32")["attention_weights"]
        fig, axes = plot.show_heatmaps(weights, x_label="Keys", y_label="Queries")
        assert axes.shape == (1, 1)
        assert tuple(fig.get_size_inches()) == (2.5, 2.5)
        (image,) = axes[0, 0].get_images()
        assert (image.get_array() == np.eye(10)).all()
        assert image.get_cmap().name == "Reds"
        assert image.get_clim() == (0, 1)
        assert (axes[0, 0].get_xlabel(), axes[0, 0].get_ylabel()) == ("Keys", "Queries")
        (bar,) = bars(fig)
        assert bar._colorbar_info["shrink"] == 0.6
        assert bar._colorbar.mappable is image

    def test_labels_stand_outside_and_titles_above_each_column(self):
        matrices = np.random.default_rng(0).random((2, 3, 5, 7))
        fig, axes = plot.show_heatmaps(matrices, "Keys", "Queries", ["a", "b", "c"], (7, 4), "Blues")
        assert axes.shape == (2, 3)
        assert tuple(fig.get_size_inches()) == (7, 4)
        for i, j in np.ndindex(2, 3):
            assert axes[i, j].get_xlabel() == ("Keys" if i == 1 else "")
            assert axes[i, j].get_ylabel() == ("Queries" if j == 0 else "")
            assert axes[i, j].get_title() == "abc"[j]
            (image,) = axes[i, j].get_images()
            assert (image.get_array() == matrices[i, j]).all()
            assert image.get_cmap().name == "Blues"
            assert image.get_clim() == (matrices.min(), matrices.max())
        assert len(bars(fig)) == 1

    def test_titles_of_every_panel(self):
        _, axes = plot.show_heatmaps(np.zeros((2, 3, 5, 7)), titles=[["a", "b", "c"], ["d", "e", "f"]])
        assert [ax.get_title() for ax in axes.ravel()] == list("abcdef")

    def test_tick_labels_and_scale(self):
        fig, axes = plot.show_heatmaps(
            np.ones((1, 1, 2, 3)), xticks=WORDS, yticks=["x", "y"], vmin=-1, vmax=2
        )
        assert tick_labels(axes[0, 0].xaxis) == WORDS
        assert tick_labels(axes[0, 0].yaxis) == ["x", "y"]
        assert axes[0, 0].get_xticks().tolist() == [0, 1, 2]
        assert axes[0, 0].get_images()[0].get_clim() == (-1, 2)
        fig.canvas.draw()

    def test_tick_labels_on_a_grid(self):
        fig, axes = plot.show_heatmaps(
            np.random.default_rng(0).random((2, 4, 2, 3)), xticks=WORDS, yticks="ab"
        )
        fig.canvas.draw()
        assert tick_labels(axes[1, 2].xaxis) == WORDS
        assert tick_labels(axes[1, 0].yaxis) == ["a", "b"]
        assert axes[0, 0].get_xticks().tolist() == [0, 1, 2]

    def test_panels_of_a_grid_can_be_read(self):
        fig, axes = plot.show_heatmaps(
            np.ones((2, 4, 10, 10)), "Keys", "Queries", titles=[f"head {h}" for h in range(4)]
        )
        fig.canvas.draw()
        for ax in axes.ravel():
            box = ax.get_window_extent()
            assert min(box.width, box.height) > 1.2 * fig.dpi
            assert ax.title.get_window_extent().width < box.width
        least = plot.show_heatmaps(np.ones((1, 1, 10, 10)))[0].get_size_inches()
        assert tuple(least) == (2.5, 2.5)

    def test_into_given_axes(self):
        fig, axes = plt.subplots(2, 3)
        assert plot.show_heatmaps(np.ones((2, 3, 5, 7)), titles=list("abc"), ax=axes)[0] is fig
        assert axes[1, 2].get_title() == "c"
        assert axes[1, 2].get_images()[0].get_array().shape == (5, 7)
        with pytest.raises(
            ValueError, match="show_heatmaps: ax must have 6 entries, one for each panel or line; got 3"
        ):
            plot.show_heatmaps(np.ones((2, 3, 5, 7)), ax=axes[0])

    def test_ticks_are_whole_numbers(self):
        fig, axes = plot.show_heatmaps(np.ones((1, 3, 5, 7)), figsize=(9, 2.6))
        fig.canvas.draw()
        for ax in axes[0]:
            places = np.concatenate([ax.get_xticks(), ax.get_yticks()])
            assert len(places) >= 4
            assert (places == places.round()).all()

    def test_masks_halves_and_nan_are_drawn(self):
        mask = np.tril(np.ones((3, 3), bool))[None, None]
        fig, axes = plot.show_heatmaps(mask)
        assert axes[0, 0].get_images()[0].get_array().tolist() == np.tril(np.ones((3, 3))).tolist()
        fig, axes = plot.show_heatmaps(np.float16([[[[0.5, np.nan, 0.25]]]]))
        assert axes[0, 0].get_images()[0].get_clim() == (0.25, 0.5)
        fig.canvas.draw()

    @pytest.mark.parametrize("shape", [(5, 7), (1, 5, 7), (1, 2, 3, 5, 7), (0, 1, 5, 7), (1, 1, 0, 7)])
    def test_other_ranks_are_refused(self, shape):
        message = r"^show_heatmaps: matrices must be \(rows, cols, Lq, Lk\), .* because .*; got \("
        with pytest.raises(ValueError, match=message):
            plot.show_heatmaps(np.zeros(shape))
        assert not plt.get_fignums()

    def test_labels_that_do_not_fit_are_refused(self):
        matrices = np.zeros((2, 3, 5, 7))
        with pytest.raises(ValueError, match=r"show_heatmaps: titles must be 3 texts.* got \['a', 'b'\]"):
            plot.show_heatmaps(matrices, titles=["a", "b"])
        with pytest.raises(ValueError, match=r"xticks must have 7 entries, one for each column; got 3"):
            plot.show_heatmaps(matrices, xticks=WORDS)
        with pytest.raises(ValueError, match=r"yticks must have 5 entries, one for each row; got 3"):
            plot.show_heatmaps(matrices, yticks=WORDS)
        with pytest.raises(ValueError, match=r"xlabel must be given once .* got 'Keys' and 'keys'"):
            plot.show_heatmaps(matrices, xlabel="Keys", x_label="keys")


class TestHeatmap:
    def test_into_given_axes(self):
        _, (left, right) = plt.subplots(1, 2)
        x = np.arange(6.0).reshape(2, 3)
        _, ax = plot.heatmap(
            x, "input", "output", "J", ax=right, cmap="coolwarm", vmin=0, vmax=9, aspect="auto"
        )
        assert ax is right
        assert not left.get_images()
        assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("input", "output", "J")
        (image,) = ax.get_images()
        assert image.get_cmap().name == "coolwarm"
        assert image.get_clim() == (0, 9)
        assert ax.get_aspect() == "auto"
        assert (image.get_array() == x).all()
        assert not bars(ax.figure)

    def test_in_a_new_figure_with_a_bar(self):
        _, ax = plot.heatmap(np.eye(3), figsize=(3, 2), colorbar=0.8)
        assert tuple(ax.figure.get_size_inches()) == (3, 2)
        assert [bar._colorbar_info["shrink"] for bar in bars(ax.figure)] == [0.8]

    def test_other_ranks_are_refused(self):
        with pytest.raises(ValueError, match=r"^heatmap: a matrix must be \(Lq, Lk\), .* got \(3,\)$"):
            plot.heatmap(np.zeros(3))


def test_alignment(golden):
    g = golden("D1-01")
    _, ax = plot.alignment(
        g["alignment"], g.facts["source"], g.facts["target"], "Source (German)", "Target (English)"
    )
    assert tick_labels(ax.xaxis) == g.facts["source"]
    assert tick_labels(ax.yaxis) == g.facts["target"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Source (German)", "Target (English)")
    assert [bar._colorbar_info["shrink"] for bar in bars(ax.figure)] == [0.6]
    assert tuple(ax.figure.get_size_inches()) == (4.5, 4)
    with pytest.raises(ValueError, match=r"alignment: target must have 8 entries, one for each row; got 3"):
        plot.alignment(g["alignment"], g.facts["source"], WORDS)
    with pytest.raises(
        ValueError, match=r"alignment: source must have 8 entries, one for each column; got 3"
    ):
        plot.alignment(g["alignment"], WORDS, g.facts["target"])


class TestHeatmapRow:
    def test_labels_and_one_bar(self, golden):
        g = golden("D0-07")
        matrices = [g[f"weights.{k}"] for k in ("gaussian", "constant")]
        fig, axes = plot.heatmap_row(matrices, ["Gaussian", "Constant"])
        assert tuple(fig.get_size_inches()) == (12, 3)
        assert [ax.get_xlabel() for ax in axes] == ["Gaussian", "Constant"]
        assert axes[0].get_shared_y_axes().joined(*axes)
        (bar,) = bars(fig)
        assert bar._colorbar_info["shrink"] == 0.7
        for ax, matrix in zip(axes, matrices, strict=True):
            (image,) = ax.get_images()
            assert (image.get_array() == matrix).all()
            assert image.get_cmap().name == "Reds"
            assert image.get_clim() == (np.min(matrices), np.max(matrices))

    def test_scales(self):
        matrices = [np.eye(3), 2 + np.eye(3)]
        together = plot.heatmap_row(matrices, ["a", "b"])[1]
        assert [ax.get_images()[0].get_clim() for ax in together] == [(0, 3), (0, 3)]
        apart = plot.heatmap_row(matrices, ["a", "b"], share_scale=False)[1]
        assert [ax.get_images()[0].get_clim() for ax in apart] == [(0, 1), (2, 3)]
        fixed = plot.heatmap_row(matrices, ["a", "b"], vmin=-1, shrink=0.8)
        assert [ax.get_images()[0].get_clim() for ax in fixed[1]] == [(-1, 3), (-1, 3)]
        assert bars(fixed[0])[0]._colorbar_info["shrink"] == 0.8

    def test_outer_labels_titles_and_given_axes(self):
        _, given = plt.subplots(2, 2)
        fig, axes = plot.heatmap_row([np.eye(2), np.eye(3)], ["a", "b"], "Queries", ["x", "y"], ax=given[1])
        assert list(axes) == list(given[1])
        assert fig is given[0, 0].figure
        assert [ax.get_ylabel() for ax in axes] == ["Queries", ""]
        assert [ax.get_title() for ax in axes] == ["x", "y"]
        both = plot.heatmap_row([np.eye(2)] * 2, ["a", "b"], ["p", "q"])[1]
        assert [ax.get_ylabel() for ax in both] == ["p", "q"]

    def test_what_does_not_fit_is_refused(self):
        with pytest.raises(ValueError, match=r"heatmap_row: labels must have 2 entries, .* got 1"):
            plot.heatmap_row([np.eye(2)] * 2, ["a"])
        with pytest.raises(ValueError, match=r"heatmap_row: ax must have 2 entries, .* got 1"):
            plot.heatmap_row([np.eye(2)] * 2, ["a", "b"], ax=plt.subplots()[1])
        with pytest.raises(ValueError, match=r"heatmap_row: a matrix must be \(Lq, Lk\), .* got \(2, 2, 2\)"):
            plot.heatmap_row([np.zeros((2, 2, 2))], ["a"])
        with pytest.raises(
            ValueError, match="heatmap_row: there must be at least one panel to draw; got none"
        ):
            plot.heatmap_row([], [])


class TestPlotLines:
    def test_columns_of_the_position_table(self, golden):
        columns = golden("D0-28")["columns_6_9"]
        _, ax = plot.plot_lines(
            np.arange(60),
            columns,
            xlabel="Row (position)",
            figsize=(6, 2.5),
            legend=[f"Col {c}" for c in range(6, 10)],
        )
        lines = ax.get_lines()
        assert [line.get_linestyle() for line in lines] == ["-", "--", "-.", ":"]
        assert [line.get_color() for line in lines[1:]] == ["m", "g", "r"]
        for line, column in zip(lines, columns, strict=True):
            assert (line.get_xdata() == np.arange(60)).all()
            assert (line.get_ydata() == column).all()
        assert [text.get_text() for text in ax.get_legend().get_texts()] == [
            "Col 6",
            "Col 7",
            "Col 8",
            "Col 9",
        ]
        assert ax.get_xlabel() == "Row (position)"
        assert tuple(ax.figure.get_size_inches()) == (6, 2.5)
        assert all(line.get_visible() for line in ax.get_xgridlines())

    def test_lines_alone_stand_over_their_index(self):
        _, ax = plot.plot_lines([[3.0, 4.0], [5.0, 6.0, 7.0]])
        assert [line.get_xdata().tolist() for line in ax.get_lines()] == [[0, 1], [0, 1, 2]]
        assert ax.get_legend() is None
        (line,) = plot.plot_lines([3.0, 4.0, 9.0])[1].get_lines()
        assert line.get_ydata().tolist() == [3, 4, 9]

    def test_scales_limits_formats_and_given_axes(self):
        given = plt.subplots()[1]
        _, ax = plot.plot_lines(
            [[1, 2], [1, 2, 4]], [[1, 3], [2, 3, 4]], ylabel="|J|", title="t", fmts=["o-"],
            xlim=(1, 9), ylim=(2, 5), xscale="log", yscale="log", grid=False, ax=given,
        )  # fmt: skip
        assert ax is given
        assert len(plt.get_fignums()) == 1
        assert [line.get_marker() for line in ax.get_lines()] == ["o", "o"]
        assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
        assert (ax.get_xlim(), ax.get_ylim()) == ((1, 9), (2, 5))
        assert (ax.get_ylabel(), ax.get_title()) == ("|J|", "t")
        assert not any(line.get_visible() for line in ax.get_xgridlines())

    def test_what_does_not_fit_is_refused(self):
        with pytest.raises(ValueError, match=r"plot_lines: X must have 3 entries, .* got 2"):
            plot.plot_lines([[1, 2], [1, 2]], np.zeros((3, 2)))
        with pytest.raises(ValueError, match=r"plot_lines: legend must have 1 entries, .* got 2"):
            plot.plot_lines([1, 2], [1, 2], legend=["a", "b"])


def test_kernel_regression(golden):
    g = golden("D0-07")
    estimates = {"Gaussian": g["y_hat.gaussian"], "Constant": g["y_hat.constant"]}
    truth = 2 * np.sin(g["x_val"]) + g["x_val"]
    fig, axes = plot.kernel_regression(g["x_val"], estimates, truth, g["x_train"], g["y_train"])
    assert tuple(fig.get_size_inches()) == (12, 3)
    assert axes[0].get_shared_y_axes().joined(*axes)
    for ax, (name, estimate) in zip(axes, estimates.items(), strict=True):
        fit, true, points = ax.get_lines()
        assert (fit.get_ydata() == estimate).all()
        assert (fit.get_xdata() == g["x_val"]).all()
        assert (true.get_ydata() == truth).all()
        assert (true.get_linestyle(), to_rgba(true.get_color())) == ("--", to_rgba("m"))
        assert (points.get_xdata() == g["x_train"]).all()
        assert (points.get_ydata() == g["y_train"]).all()
        assert (points.get_marker(), points.get_linestyle(), points.get_alpha()) == ("o", "None", 0.5)
        assert [text.get_text() for text in ax.get_legend().get_texts()] == ["y_hat", "y"]
        assert ax.get_xlabel() == name
    assert not bars(fig)


def test_without_matplotlib_the_error_says_how_to_get_it(monkeypatch):
    real = builtins.__import__

    def absent(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(
        ImportError, match=r'plot: matplotlib must be installed .*; pip install "qkv\[plot\]"'
    ):
        plot.show_heatmaps(np.zeros((1, 1, 2, 2)))


class Kept(dict):
    """What a recording of one attention has."""

    def __init__(self):
        super().__init__(
            queries=np.ones((1, 2, 3, 5)),
            keys=np.ones((1, 1, 3, 5)),
            weights=np.eye(3) + np.zeros((1, 2, 1, 1)),
        )

    names = dict.keys


WRITING = look.generate(models.CausalLM(11, 8, 2, 3), [[1, 2, 3, 4]], max_new_tokens=5)
X, Y = np.arange(5.0), np.arange(5.0) ** 2
EVERY = {
    "show_heatmaps": ((np.ones((1, 2, 3, 3)),), (1, 2)),
    "heatmap": ((np.eye(3),), ()),
    "alignment": ((np.eye(3), WORDS, WORDS), ()),
    "heatmap_row": (([np.eye(3), np.eye(2)], ["a", "b"]), (2,)),
    "head_view": ((np.ones((2, 3, 3)) / 3, WORDS), (2,)),
    "layer_view": ((np.ones((3, 2, 3, 3)) / 3,), (3, 2)),
    "compare_view": ((np.eye(3), np.ones((3, 3)) / 3, WORDS), (1, 1)),
    "token_view": ((np.ones((3, 3)) / 3, WORDS), (1,)),
    "image_view": ((np.ones((2, 5, 5)) / 5, np.zeros((4, 4, 3))), (2,)),
    "neuron_view": ((Kept(), WORDS), (4,)),
    "writing_view": ((WRITING, lambda ids: [*map(str, ids)]), (3,)),
    "explain": ((nn.SelfAttention(3, 2), np.eye(3, dtype="float32")), (3,)),
    "plot_lines": ((X, Y), ()),
    "kernel_regression": ((X, {"a": Y, "b": Y}, Y, X, Y), (2,)),
    "training_curve": ((Y + 1,), ()),
    "schematic": (("attention",), ()),
    "show_attention": ((np.ones((5, 3)), np.ones((5, 3))), (1, 1)),
    "show_formula": ((), (1, 3)),
}
NEEDED = {"show_formula": {"Lq": 5}}  # arguments that have no place


def test_a_formula_names_what_its_axes_count():
    _, axes = plot.show_formula(Lq=20, heads=2)
    assert [ax.get_xlabel() for ax in axes[1]] == ["keys", "blocks of 3 keys", "keys"]
    assert [ax.get_xlabel() for ax in axes[0]] == ["", "", ""]


class TestEveryPlot:
    def test_all_are_here(self):
        assert set(EVERY) == {name for name in plot.__all__ if name[0].islower()} - {"by_words"}  # no picture

    @pytest.mark.parametrize("name", EVERY)
    def test_gives_the_figure_and_its_axes(self, name):
        arguments, shape = EVERY[name]
        fig, axes = getattr(plot, name)(*arguments, **NEEDED.get(name, {}))
        assert isinstance(fig, plt.Figure)
        assert np.shape(axes) == shape
        assert all(ax.figure is fig for ax in np.ravel(np.asarray(axes, dtype=object)))

    @pytest.mark.parametrize("name", EVERY)
    def test_draws_into_given_axes(self, name):
        arguments, shape = EVERY[name]
        fig, axes = plt.subplots(*(shape if len(shape) == 2 else (1, *shape)))
        before = plt.get_fignums()
        drawn, its = getattr(plot, name)(*arguments, ax=axes, **NEEDED.get(name, {}))
        assert drawn is fig
        assert list(np.ravel(np.asarray(its, dtype=object))) == list(np.ravel(np.asarray(axes, dtype=object)))
        assert plt.get_fignums() == before

    @pytest.mark.parametrize("name", ["show_heatmaps", "head_view", "layer_view", "token_view", "alignment"])
    def test_weights_before_a_call_are_refused_with_a_hint(self, name):
        with pytest.raises(TypeError, match=r"must be an array; got None, .*; call the layer first$"):
            getattr(plot, name)(*[None, *EVERY[name][0][1:]])
