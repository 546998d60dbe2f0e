"""Pictures that matplotlib draws: heatmaps, lines, curves, schemes."""
