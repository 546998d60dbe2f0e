"""Pictures of attention: heatmaps, heads, lines, curves and drawings. Nothing here calls ``show``.

Views of attention are pages to play with, in notebooks and files, and figures. matplotlib is imported at the first
figure, so that ``import qkv`` does not need it; the pages need nothing.
"""

from .._public import publish
from .attention_sliders import AttentionSliders
from .bandwidth_slider import BandwidthSlider
from .compare_view import compare_view
from .curves import training_curve
from .formulas import show_formula
from .head_view import head_view
from .heatmaps import alignment, heatmap, heatmap_row, show_heatmaps
from .image_view import image_view
from .layer_view import layer_view
from .lines import kernel_regression, plot_lines
from .long_attention import show_attention
from .neuron_view import neuron_view
from .schematics import schematic
from .token_view import token_view
from .views import AttentionView

__all__ = [
    "AttentionSliders",
    "AttentionView",
    "BandwidthSlider",
    "alignment",
    "compare_view",
    "head_view",
    "heatmap",
    "heatmap_row",
    "image_view",
    "kernel_regression",
    "layer_view",
    "neuron_view",
    "plot_lines",
    "schematic",
    "show_attention",
    "show_formula",
    "show_heatmaps",
    "token_view",
    "training_curve",
]

publish(__name__)
