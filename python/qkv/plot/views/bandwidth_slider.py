"""What the bandwidth does to kernel regression."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._words.errors import shown
from ...kernel_pooling import kernel_attention
from ..figures.drawing import numbers
from .sliders import BLUE, INK, MAGENTA, RED, Control, SliderView

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KERNELS = ("gaussian", "boxcar", "constant", "epanechnikov", "triangular")
WIDTH, HEIGHT, EDGE = 480, 260, 44  # pixels: the plot of a curve, and the space around it


class BandwidthSlider(SliderView):
    """Nadaraya-Watson regression with sliders: the bandwidth, and the query whose weights the training points show.

    A notebook shows it, ``save("page.html")`` writes a page that computes without Python, and ``widget()`` gives live
    widgets of Jupyter, for which qkv computes.

    Parameters
    ----------
    x_train, y_train : array or Tensor, (m,)
    x_val : array or Tensor, (n,), optional
        Where the curve is computed; 121 places over the training points unless given.
    y_val : array or Tensor, (n,), optional
        The truth there, drawn in magenta, dashed.
    kernel : "gaussian", "boxcar", "constant", "epanechnikov" or "triangular"
    bandwidth : float
        At the start.
    title : str, optional

    Raises
    ------
    ValueError
        If lengths do not fit, there is no such kernel, or the bandwidth is not above 0.

    Examples
    --------
    >>> view = BandwidthSlider([0.0, 1.0, 2.0], [0.0, 1.0, 0.0], bandwidth=0.3)
    >>> view
    BandwidthSlider(3 points, gaussian kernel)
    >>> y, weights = view.estimate(0.3)
    >>> y.shape, weights.shape
    ((121,), (121, 3))
    """

    model = "regression"
    told = "The estimate at the query is the mean of the training points by their weights."

    def __init__(
        self,
        x_train: ArrayLike,
        y_train: ArrayLike,
        x_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
        *,
        kernel: str = "gaussian",
        bandwidth: float = 1.0,
        title: str | None = None,
    ) -> None:
        op = "BandwidthSlider"
        if kernel not in KERNELS:
            raise ValueError(
                f"{op}: kernel must be one of {', '.join(KERNELS)} because the page computes it without Python; "
                f"got {shown(kernel)}"
            )
        x, y = _line(op, "x_train", x_train), _line(op, "y_train", y_train)
        if len(x) == 0 or len(x) != len(y):
            raise ValueError(
                f"{op}: x_train and y_train must have one length above 0; got {len(x)} and {len(y)}"
            )
        at = np.linspace(x.min(), x.max(), 121) if x_val is None else _line(op, "x_val", x_val)
        truth = None if y_val is None else _line(op, "y_val", y_val)
        if len(at) == 0 or (truth is not None and len(truth) != len(at)):
            raise ValueError(
                f"{op}: x_val and y_val must have one length above 0; got {len(at)} and "
                f"{0 if truth is None else len(truth)}"
            )
        spread = float(np.ptp(np.concatenate([x, at]))) or 1.0
        low, high = min(spread / 1000, bandwidth), max(2 * spread, bandwidth)
        if not (bandwidth > 0 and math.isfinite(bandwidth)):
            raise ValueError(f"{op}: bandwidth must be a number above 0; got {bandwidth}")
        self.x_train, self.y_train, self.x_val, self.y_val, self.kernel = x, y, at, truth, kernel
        super().__init__(
            [
                Control("bandwidth", "bandwidth", "log", float(bandwidth), low, high),
                Control("query", "query", "int", len(at) // 2, 0, len(at) - 1, at.tolist()),
            ],
            title,
        )

    def estimate(self, bandwidth: float) -> tuple[NDArray[Any], NDArray[Any]]:
        """Compute the curve and the weights that the picture shows.

        Parameters
        ----------
        bandwidth : float

        Returns
        -------
        y : ndarray (n,)
            At ``x_val``.
        weights : ndarray (n, m)
            Of the training points.
        """
        y, weights = kernel_attention(
            self.x_val, self.x_train, self.y_train, self.kernel, bandwidth, return_weights=True
        )
        return np.asarray(y), np.asarray(weights)

    def _box(self) -> tuple[float, float, float, float]:
        every = np.concatenate([self.y_train, [] if self.y_val is None else self.y_val])
        across = np.concatenate([self.x_train, self.x_val])
        low, high = float(every.min()), float(every.max())
        margin = 0.08 * (high - low) or 1.0
        return float(across.min()), float(across.max()), low - margin, high + margin

    def _numbers(self) -> dict[str, Any]:
        return {
            "x": self.x_train.tolist(),
            "y": self.y_train.tolist(),
            "at": self.x_val.tolist(),
            "kernel": self.kernel,
            "box": self._box(),
        }

    def _picture(self, **values: Any) -> str:
        y, weights = self.estimate(values["bandwidth"])
        left, right, low, high = self._box()
        wide, tall = WIDTH - 2 * EDGE, HEIGHT - 2 * EDGE

        def place(a: float, b: float) -> tuple[float, float]:
            return EDGE + wide * (a - left) / ((right - left) or 1.0), EDGE + tall * (high - b) / (high - low)

        def path(ys: NDArray[Any]) -> str:
            return " ".join("{:.2f},{:.2f}".format(*place(a, b)) for a, b in zip(self.x_val, ys, strict=True))

        shares = weights[int(values["query"])]
        top = float(shares.max()) or 1.0
        points = "".join(
            '<circle class="point" cx="{:.2f}" cy="{:.2f}" r="{:.2f}" fill-opacity="{:.4f}"/>'.format(
                *place(a, b), 3 + 4 * w / top, w / top
            )
            for a, b, w in zip(self.x_train, self.y_train, shares, strict=True)
        )
        at = place(self.x_val[int(values["query"])], 0.0)[0]
        truth = (
            ""
            if self.y_val is None
            else f'<polyline points="{path(self.y_val)}" fill="none" stroke="{MAGENTA}" stroke-dasharray="6 4"/>'
        )
        ends = "".join(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{value:.3g}</text>'
            for x, y, anchor, value in (
                (EDGE, HEIGHT - EDGE + 16, "middle", left),
                (WIDTH - EDGE, HEIGHT - EDGE + 16, "middle", right),
                (EDGE - 5, HEIGHT - EDGE, "end", low),
                (EDGE - 5, EDGE + 8, "end", high),
            )
        )
        middle = EDGE - 22  # of the legend's line
        legend = "".join(
            f'<line x1="{x}" x2="{x + 22}" y1="{middle}" y2="{middle}" {line}/>'
            f'<text x="{x + 27}" y="{middle}" dy="0.35em">{text}</text>'
            for x, line, text in (
                (EDGE, f'stroke="{BLUE}" stroke-width="2"', "estimate"),
                (
                    EDGE + 90,
                    f'stroke="{MAGENTA}" stroke-dasharray="6 4"',
                    "" if self.y_val is None else "truth",
                ),
                (EDGE + 165, f'stroke="{RED}" stroke-opacity="0.5"', "query"),
            )
            if text
        )
        dot = f'<circle cx="{EDGE + 256}" cy="{middle}" r="5" fill="{RED}" stroke="#777"/>'
        legend += f'{dot}<text x="{EDGE + 266}" y="{middle}" dy="0.35em">training point, by its weight</text>'
        return (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" font-size="11" fill="{INK}">'
            f'<rect x="{EDGE}" y="{EDGE}" width="{wide}" height="{tall}" fill="none" stroke="#bbb"/>{ends}{legend}'
            f'<line class="query" x1="{at:.2f}" x2="{at:.2f}" y1="{EDGE}" y2="{HEIGHT - EDGE}" stroke="{RED}" '
            f'stroke-opacity="0.5"/>{truth}'
            f'<polyline class="estimate" points="{path(y)}" fill="none" stroke="{BLUE}" stroke-width="2"/>'
            f'<g fill="{RED}" stroke="#777">{points}</g></svg>'
        )

    def _still(self) -> Figure:
        from matplotlib.figure import Figure

        at = {control.name: control.value for control in self.controls}
        y, weights = self.estimate(at["bandwidth"])
        figure = Figure(figsize=(5.0, 3.0), layout="constrained")
        panel, shares = figure.add_subplot(), weights[int(at["query"])]
        lines = [y] if self.y_val is None else [y, self.y_val]
        panel.axvline(self.x_val[int(at["query"])], color=RED, alpha=0.5, label="query")
        sizes = 15 + 45 * shares / (float(shares.max()) or 1.0)
        panel.scatter(self.x_train, self.y_train, sizes, color=RED, label="training point, by its weight")
        for line, style, name in zip(lines, ("-", "m--"), ("estimate", "truth"), strict=False):
            panel.plot(self.x_val, line, style, label=name)
        panel.set(title=self.title or f"bandwidth {at['bandwidth']:.3g}")
        panel.legend(fontsize="x-small")
        return figure

    def __repr__(self) -> str:
        return f"BandwidthSlider({len(self.x_train)} points, {self.kernel} kernel)"


def _line(operation: str, name: str, x: Any) -> NDArray[np.float64]:
    line = numbers(x).astype(np.float64)
    if line.ndim != 1 or not np.isfinite(line).all():
        raise ValueError(f"{operation}: {name} must be (n,) finite numbers; got {name} {line.shape}")
    return line
