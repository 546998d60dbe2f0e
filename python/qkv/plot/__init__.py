"""Pictures of attention: heatmaps, heads, lines, curves and drawings. Nothing here calls ``show``.

matplotlib is imported at the first picture, so that ``import qkv`` does not need it; the HTML pages need nothing.
"""

from .._public import publish
from .attention_sliders import AttentionSliders
from .bandwidth_slider import BandwidthSlider
from .curves import training_curve
from .head_view import AttentionView, head_view_html
from .heads import head_view, layer_view
from .heatmaps import alignment, heatmap, heatmap_row, show_heatmaps
from .lines import kernel_regression, plot_lines
from .schematics import schematic

__all__ = [
    "AttentionSliders",
    "AttentionView",
    "BandwidthSlider",
    "alignment",
    "head_view",
    "head_view_html",
    "heatmap",
    "heatmap_row",
    "kernel_regression",
    "layer_view",
    "plot_lines",
    "schematic",
    "show_heatmaps",
    "training_curve",
]

publish(__name__)
