"""Pictures of attention: heatmaps, heads, lines, curves and drawings. Nothing here calls ``show``.

Views of attention are interactive pages, in notebooks and files, and figures. matplotlib is imported at the first
figure, so that ``import qkv`` does not need it; the pages need nothing.
"""

from .._public import publish
from .figures.curves import training_curve
from .figures.formulas import show_formula
from .figures.heatmaps import alignment, heatmap, heatmap_row, show_heatmaps
from .figures.lines import kernel_regression, plot_lines
from .figures.long_attention import show_attention
from .figures.schematics import schematic
from .views.attention_sliders import AttentionSliders
from .views.bandwidth_slider import BandwidthSlider
from .views.compare_view import compare_view
from .views.explanation.walk import explain
from .views.head_view import head_view
from .views.image_view import image_view
from .views.layer_view import layer_view
from .views.merging import by_words
from .views.neuron_view import neuron_view
from .views.token_view import token_view
from .views.view import AttentionView
from .views.writing_view import writing_view

__all__ = [
    "AttentionSliders",
    "AttentionView",
    "BandwidthSlider",
    "alignment",
    "by_words",
    "compare_view",
    "explain",
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
    "writing_view",
]

publish(__name__, own_classes=True)
