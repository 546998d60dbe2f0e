"""Pictures of attention: heatmaps, alignments, lines and kernel regressions. Nothing here calls ``show``.

matplotlib is imported at the first picture, so that ``import qkv`` does not need it.
"""

from .heatmaps import alignment, heatmap, heatmap_row, show_heatmaps
from .lines import kernel_regression, plot_lines

__all__ = ["alignment", "heatmap", "heatmap_row", "kernel_regression", "plot_lines", "show_heatmaps"]
