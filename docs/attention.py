"""Draws docs/attention.png: the weights of one layer's scores under different restrictions."""

from pathlib import Path

import numpy as np

import qkv

qkv.manual_seed(7)
Lq = Lk = 12
rows = qkv.randn(1, 1, Lk, 8)
queries = keys = 0.65 * rows + 0.5 * np.roll(rows, 1, axis=2)
restrictions = {
    "all keys": {},
    "valid_lens=[8]": {"valid_lens": [8]},
    "is_causal=True": {"is_causal": True},
    "window=(2, 2)": {"window": (2, 2)},
    "alibi_slopes=[0.5]": {"alibi_slopes": [0.5]},
}
weights = [
    qkv.scaled_dot_product_attention(queries, keys, rows, return_weights=True, **options)[1]
    for options in restrictions.values()
]
panels = np.concatenate(weights, axis=1)  # (1, 5, Lq, Lk)
figure, _ = qkv.plot.show_heatmaps(
    panels, xlabel="keys", ylabel="queries", titles=list(restrictions), figsize=(12, 2.9)
)
figure.savefig(Path(__file__).with_name("attention.png"), dpi=110, bbox_inches="tight")
