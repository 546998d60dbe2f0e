"""What the panels of a figure must hold, as a notebook says it: in the form that ``figures.json`` has, with arrays.

Each function gives a list of panels, in the order of the figure's axes; colour bars are none of them. What a panel does
not name must not be drawn in it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import arrays

Panel = dict[str, Any]


def heatmaps(
    matrices: Any,
    xlabel: str | Sequence[str] = "",
    ylabel: str | Sequence[str] = "",
    titles: Sequence[Any] | None = None,
    *,
    cmap: str = "Reds",
    vmin: float | None = None,
    vmax: float | None = None,
    share_scale: bool = True,
    **also: Any,
) -> list[Panel]:
    """Return panels of one matrix each: a grid (rows, columns, Lq, Lk), a row of matrices, or one matrix.

    The labels of a grid are below its last row and beside its first column; one `ylabel` of a row is that of its
    first panel. `also` may hold ``xticks``, ``yticks`` and ``aspect``.
    """
    given = [np.asarray(part) for part in matrices]
    if given[0].ndim == 1:
        given = [np.asarray(matrices)]
    grid = given if given[0].ndim == 3 else [given]
    single = [matrix for row in grid for matrix in row]
    rows, columns = len(grid), len(grid[0])
    if titles is None or isinstance(titles[0], str):
        titles = [titles or [""] * columns] * rows
    names = [name for row in titles for name in row]
    if share_scale:
        finite = np.concatenate([matrix[np.isfinite(matrix)] for matrix in single])
        vmin = float(finite.min()) if vmin is None else vmin
        vmax = float(finite.max()) if vmax is None else vmax
    ends = {name: end for name, end in (("vmin", vmin), ("vmax", vmax)) if end is not None}
    panels = []
    for place, matrix in enumerate(single):
        row, column = divmod(place, columns)
        below, beside = row == rows - 1, column == 0
        panels.append(
            {
                "image": matrix,
                "xlabel": (xlabel if below else "") if isinstance(xlabel, str) else xlabel[place],
                "ylabel": (ylabel if beside else "") if isinstance(ylabel, str) else ylabel[place],
                "title": str(names[place]),
                "cmap": cmap,
                **ends,
                **also,
            }
        )
    return panels


def lines(
    x: Any, ys: Any, xlabel: str = "", ylabel: str = "", legend: Sequence[str] | None = None, **also: Any
) -> list[Panel]:
    """Return a panel of lines, which share `x` or have one each (then `x` is a list); formats are free.

    `also` may hold ``title``, ``xscale``, ``yscale``, ``xticks``, ``texts`` and so on.
    """
    ys = [np.asarray(y, dtype=float) for y in (ys if np.ndim(ys[0]) else [ys])]
    xs = x if isinstance(x, list) and np.ndim(x[0]) else [x] * len(ys)
    drawn = [{"x": np.asarray(x, dtype=float), "y": y, "fmt": None} for x, y in zip(xs, ys, strict=True)]
    names = None if legend is None else [str(name) for name in legend]
    return [{"lines": drawn, "xlabel": xlabel, "ylabel": ylabel, "legend": names, **also}]


def bars(
    sizes: Any, starts: Any = 0.0, *, places: Any = None, horizontal: bool = False, **also: Any
) -> list[Panel]:
    """Return a panel of bars, in the order in which they were drawn; `starts` is where each begins."""
    sizes = np.asarray(sizes, dtype=float)
    places = np.arange(len(sizes)) if places is None else places
    drawn = np.stack(
        [np.broadcast_to(np.asarray(part, dtype=float), sizes.shape) for part in (places, starts, sizes)], 1
    )
    return [{"bars": drawn, "horizontal": horizontal, **also}]


def layers(weights: Any) -> list[Panel]:
    """Return the panels of all heads of all layers (layers, H, Lq, Lk) on one scale from 0."""
    table = _of_layers(weights)
    names = [
        [f"head {head}" if layer == 0 else "" for head in range(table.shape[1])]
        for layer in range(len(table))
    ]
    beside = [
        f"layer {layer}" if head == 0 else "" for layer in range(len(table)) for head in range(table.shape[1])
    ]
    free: Panel = {"aspect": "auto", "xticks": [], "yticks": []}
    return heatmaps(table, titles=names, ylabel=beside, vmin=0.0, vmax=float(table.max()), **free)


def _of_layers(weights: Any) -> np.ndarray:
    """Return the weights of layers (H, Lq, Lk), or of a batch of one, as one array (layers, H, Lq, Lk)."""
    table = np.stack([np.asarray(layer) for layer in weights])
    return table.reshape(len(table), *table.shape[-3:])


def _strengths(weights: Any) -> np.ndarray:
    """Return the weights that are drawn as lines: those above 0.005, up to 1."""
    weights = np.asarray(weights)
    return np.where(weights > 0.005, np.clip(weights, 0, 1), 0)


def connections(
    weights: Any,
    queries: Sequence[str],
    keys: Sequence[str] | None = None,
    titles: Sequence[str] | None = None,
) -> list[Panel]:
    """Return a panel for each head (H, Lq, Lk): the queries' tokens, the keys', and lines as strong as the weights."""
    weights = _strengths(weights)
    texts = [*queries, *(queries if keys is None else keys)]
    names = [f"head {head}" for head in range(len(weights))] if titles is None else titles
    return [
        {"connections": matrix, "texts": list(texts), "title": name, "axis": False}
        for matrix, name in zip(weights, names, strict=True)
    ]


def training(
    history: Any, *, reference: Mapping[str, float] | None = None, title: str = "", **also: Any
) -> list[Panel]:
    """Return the panels of a training: the losses with their running mean and references; beside them other metrics."""
    loss = np.asarray(history.loss, dtype=float)
    width, updates = max(len(loss) // 50, 1), np.arange(1, len(loss) + 1)
    names = ["loss"]
    curves: list[tuple[Any, Any]] = [(updates, loss)]
    if width > 1:
        names.append(f"mean of {width}")
        curves.append((updates, [loss[max(end - width, 0) : end].mean() for end in updates]))
    for name, value in (reference or {}).items():
        names.append(name)
        curves.append((np.array([0, 1]), [value, value]))
    losses = [name for name in history.metrics() if "loss" in name]
    others = [name for name in history.metrics() if "loss" not in name]
    curves += [history.metric(name) for name in losses]
    legend = names + list(history.metrics())
    main = lines(
        [x for x, _ in curves],
        [y for _, y in curves],
        "update",
        "loss",
        None if others else legend,
        title=title,
        **also,
    )
    if not others:
        return main
    measured = [history.metric(name) for name in others]
    return main + lines([x for x, _ in measured], [y for _, y in measured], "", " / ".join(others), legend)


def diagram(name: str) -> list[Panel]:
    """Return the panel of an architecture: the words in it, and from which to which its arrows go."""
    return [{"axis": False, **arrays.stored(arrays.DATA / "diagrams.json")[name]}]


def heads_page(
    weights: Any, queries: Sequence[str], keys: Sequence[str] | None = None, *, layer: int = 0, head: int = 0
) -> Panel:
    """Return what a view of all heads (layers, H, Lq, Lk) must hold; `layer` and `head`: which it shows first."""
    table = _of_layers(weights)
    first = _strengths(table[layer, head])
    keys = list(queries if keys is None else keys)
    return {
        "data": {"queries": list(queries), "keys": keys},
        "packed": {
            "weights": np.concatenate([table, table.mean(1, keepdims=True)], 1)
            if table.shape[1] > 1
            else table
        },
        "words": [*queries, *keys],
        "drawn": {r'<line [^>]*stroke-opacity="([^"]*)"': first[first > 0]},
    }


def pass_page(tokens: Sequence[str], weights: Any, **rows: Any) -> Panel:
    """Return what a page of one pass of an attention with one head must hold: weights (L, L), and rows by name."""
    held = {f"layers.0.arrays.{name}0": np.asarray(table)[None] for name, table in rows.items()}
    return {
        "data": {"tokens": list(tokens)},
        "packed": {"layers.0.weights.0": np.asarray(weights)[None, None], **held},
        "drawn": {},
    }


def weights_page(scores: Any, weights: Any, queries: Sequence[str]) -> Panel:
    """Return what sliders over scores (L, L) of a sentence must hold where they start."""
    return {
        "data": {"scores": np.asarray(scores), "queries": list(queries), "keys": list(queries)},
        "words": [*queries, *queries],
        "drawn": {r'<rect class="cell"[^>]*fill-opacity="([^"]*)"': np.ravel(weights)},
    }


def regression_page(x: Any, y: Any, at: Any, estimate: Any, weights: Any) -> Panel:
    """Return what the slider of a regression must hold where it starts; `weights` are those of the chosen query."""
    weights = np.asarray(weights)
    return {
        "data": {"x": np.asarray(x), "y": np.asarray(y), "at": np.asarray(at)},
        "drawn": {r'<circle class="point"[^>]*fill-opacity="([^"]*)"': weights / weights.max()},
        "curves": {"estimate": np.asarray(estimate), "points": np.asarray(y)},
    }
