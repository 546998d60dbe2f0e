"""The pictures of the documents, drawn with qkv.plot and compared with their descriptions."""

from __future__ import annotations

import json

import matplotlib.pyplot as plt
import numpy as np
import pytest
from golden import DATA, golden

from qkv import plot
from qkv.reproduce.pictures import compare_figure

KERNELS = ["gaussian", "boxcar", "constant", "epanechnikov"]
SIGMAS = ["0.1", "0.2", "0.5", "1"]


def kernel_panels(group, suffixes, names):
    data, g = golden("D0-06", "float32"), golden(group, "float32")
    estimates = {name: g[f"y_hat.{suffix}"] for name, suffix in zip(names, suffixes, strict=True)}
    return plot.kernel_regression(data["x_val"], estimates, data["y_val"], data["x_train"], data["y_train"])[
        0
    ]


def weight_panels(group, suffixes, names, **limits):
    return plot.heatmap_row([golden(group)[f"weights.{s}"] for s in suffixes], names, **limits)[0]


def own_scales(figsize, matrices, x_labels, y_label="", titles=("",) * 4, sharey=False, **limits):
    """Each panel by itself, and one colour bar, the last one's: as the documents draw them."""
    fig, axes = plt.subplots(1, 4, figsize=figsize, sharey=sharey, layout="constrained")
    for ax, matrix, x_label, title in zip(axes, matrices, x_labels, titles, strict=True):
        plot.heatmap(matrix, x_label, y_label, title, ax=ax, **limits)
    fig.colorbar(axes[-1].images[0], ax=axes, shrink=0.7)
    return fig


def own_weight_scales(group, suffixes, names):
    return own_scales((12, 3), [golden(group)[f"weights.{s}"] for s in suffixes], names, sharey=True)


def two_sentences(group):
    weights = golden(group)["attention_weights"].reshape(1, 1, 2, 10)
    return plot.show_heatmaps(weights, x_label="Keys", y_label="Queries")[0]


def kernel_curves():
    g = golden("D0-05")
    fig, axes = plt.subplots(1, 4, figsize=(12, 3), sharey=True)
    for ax, name in zip(axes, KERNELS, strict=True):
        plot.plot_lines(g["x"], g[name], name.title(), grid=False, ax=ax)
    return fig


def position_columns():
    columns, legend = golden("D0-28")["columns_6_9"], [f"Col {c}" for c in range(6, 10)]
    return plot.plot_lines(np.arange(60), columns, "Row (position)", legend=legend, figsize=(6, 2.5))[0]


def position_table():
    names = "Column (encoding dimension)", "Row (position)"
    return plot.heatmap(golden("D0-28")["P"], *names, figsize=(3.5, 4), aspect="auto", colorbar=0.6)[0]


def translation():
    g = golden("D1-01")
    names = g.facts["source"], g.facts["target"], "Source (German)", "Target (English)"
    return plot.alignment(g["alignment"], *names)[0]


def masked_probabilities():
    sides = [(side, b) for side in ("enc", "dec") for b in (0, 1)]
    return plot.heatmap_row(
        [golden("D2-08")[f"{side}_prob"][b] for side, b in sides], ["Keys"] * 4, ["Queries"] * 4,
        [f"{side} sentence {b}" for side, b in sides], (11, 2.6), shrink=0.8, vmin=0, vmax=1,
    )[0]  # fmt: skip


def masks():
    fig, axes = plt.subplots(2, 3, figsize=(9, 5))
    for b, row in enumerate(axes):
        for ax, key, name in zip(
            row, ("encoder", "cross", "decoder"), ("encoder self", "cross", "decoder self"), strict=True
        ):
            mask, title = golden("D2-07")[f"{key}_mask"][b], f"{name}, sentence {b}"
            plot.heatmap(mask, "Keys", "Queries", title, ax=ax, vmin=0, vmax=1)
    return fig


def training_curves():
    g = golden("D3-12")
    losses = [g["losses"], g["free_running_losses"], golden("D3-14")["losses"]]
    return plot.plot_lines(
        losses, None, "Adam step", "loss", ["teacher forced", "free running", "with attention"], (4.5, 3),
        fmts=["-", "--", ":"],
    )[0]  # fmt: skip


HEADS = [f"cross attention, head {h}" for h in range(4)]


def own_scales_of_heads():
    weights = list(golden("D3-15")["post.attention.dec.1.cross"][0])
    return own_scales((11, 2.8), weights, ["Keys (encoder)"] * 4, "Queries (decoder)", HEADS, vmin=0)


def cross_attention_heads():
    weights = list(golden("D3-15")["post.attention.dec.1.cross"][0])
    return plot.heatmap_row(
        weights, ["Keys (encoder)"] * 4, ["Queries (decoder)"] * 4, HEADS, (11, 2.8), vmin=0, vmax=1
    )[0]


PICTURES = {
    "F-D0-03": lambda: plot.show_heatmaps(golden("D0-03")["attention_weights"], "Keys", "Queries")[0],
    "F-D0-05": kernel_curves,
    "F-D0-07": lambda: kernel_panels("D0-07", KERNELS, [k.title() for k in KERNELS]),
    "F-D0-08": lambda: own_weight_scales("D0-07", KERNELS, [k.title() for k in KERNELS]),
    "F-D0-08b": lambda: weight_panels("D0-07", KERNELS, [k.title() for k in KERNELS], vmin=0),
    "F-D0-09": lambda: kernel_panels("D0-09", [f"sigma_{s}" for s in SIGMAS], [f"Sigma {s}" for s in SIGMAS]),
    "F-D0-10": lambda: own_weight_scales(
        "D0-09", [f"sigma_{s}" for s in SIGMAS], [f"Sigma {s}" for s in SIGMAS]
    ),
    "F-D0-10b": lambda: weight_panels(
        "D0-09", [f"sigma_{s}" for s in SIGMAS], [f"Sigma {s}" for s in SIGMAS], vmin=0, vmax=1
    ),
    "F-D0-19": lambda: two_sentences("D0-18"),
    "F-D0-21": lambda: two_sentences("D0-20"),
    "F-D0-28": position_columns,
    "F-D0-28b": position_table,
    "F-D1-01": translation,
    "F-D2-07": masks,
    "F-D2-08": masked_probabilities,
    "F-D3-12": training_curves,
    "F-D3-15": own_scales_of_heads,
    "F-D3-15b": cross_attention_heads,
}
DESCRIPTIONS = {f["id"]: f for f in json.loads((DATA / "figures.json").read_text(encoding="utf8"))}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_every_required_picture_is_drawn():
    assert {name for name, f in DESCRIPTIONS.items() if f["required"]} <= set(PICTURES)


@pytest.mark.parametrize("name", PICTURES)
def test_picture(name):
    result = compare_figure(PICTURES[name](), DESCRIPTIONS[name])
    assert result.ok, result.got


@pytest.mark.parametrize("name", ["F-D0-07", "F-D0-19"])
def test_a_picture_with_a_wrong_label_is_found(name):
    fig = PICTURES[name]()
    fig.axes[0].set_xlabel("Something else")
    assert "xlabel is 'Something else'" in compare_figure(fig, DESCRIPTIONS[name]).got
