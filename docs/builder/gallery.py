"""Runs the lines of code in docs/gallery.md and draws the weights that each leaves in the name ``weights``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

import qkv

PAGE = Path(__file__).parents[1] / "gallery.md"
CODE = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
# A variant's code and, after it, where its picture goes: with the titles of the panels, if there are some.
VARIANT = re.compile(
    r"^```python\n(?P<code>[^`]*?)^```\n\n<!-- weights(?:: (?P<panels>.*?))? -->", re.M | re.S
)
THEMES = {"light": ("default", "Reds"), "dark": ("dark_background", "magma")}


def variants(page: str) -> dict[str, re.Match[str]]:
    """Return the variants of a page by the titles of their sections."""
    found = {}
    for variant in VARIANT.finditer(page):
        found[re.findall(r"^### (.*)$", page[: variant.start()], re.M)[-1]] = variant
    return found


def weights_of(title: str, code: str, setup: str) -> np.ndarray:
    """Run a variant's code and give its weights as the panels of one row, (1, panels, Lq, Lk)."""
    names: dict[str, Any] = {}
    exec(compile(setup + code, f"gallery: {title}", "exec"), names)
    weights = np.asarray(names["weights"])
    return weights.reshape(1, -1, *weights.shape[-2:])


def draw(weights: np.ndarray, panels: list[str], path: Path, theme: str) -> None:
    """Draw the panels, for a light page or a dark one."""
    style, colours = THEMES[theme]
    count = weights.shape[1]
    with plt.style.context(style), mpl.rc_context({"font.size": 8, "axes.titlesize": 8}):
        figure, _ = qkv.plot.show_heatmaps(
            weights,
            xlabel="keys",
            ylabel="queries",
            titles=panels or None,
            figsize=(1.2 + 1.35 * count, 1.9) if count > 1 else (3.2, 2.2),
            cmap=colours,
            vmin=0.0,
        )
        figure.savefig(path, dpi=160, bbox_inches="tight", transparent=True)
        plt.close(figure)


def page(folder: Path) -> str:
    """Write the pictures to a folder and give the page that shows them."""
    text = PAGE.read_text(encoding="utf8")
    (folder / "gallery").mkdir()
    setup = CODE.findall(text)[0]
    for number, (title, variant) in enumerate(variants(text).items(), 1):
        weights = weights_of(title, variant["code"], setup)
        panels = variant["panels"].split(" | ") if variant["panels"] else []
        pictures = ""
        for theme in THEMES:
            file = f"gallery/{number}-{theme}.png"
            draw(weights, panels, folder / file, theme)
            pictures += (
                f"```{{image}} {file}\n:alt: {title}, its weights\n:class: weights only-{theme}\n```\n"
            )
        text = text.replace(variant[0], f"```python\n{variant['code']}```\n\n{pictures}")
    return text
