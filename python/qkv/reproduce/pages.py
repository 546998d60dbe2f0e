"""Reading a view back: the numbers that its script gets and those of its drawing, compared with what they must be."""

import base64
import html
import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from .compare import Comparison


def compare_view(view: Any, panel: dict[str, Any]) -> Comparison:
    """Compare a view of :mod:`qkv.plot` with a panel that `panels` made for it."""
    problems = list(_problems(view._repr_html_(), panel))
    goal = "a view with the computed numbers, in its drawing and for its script"
    return Comparison(not problems, goal, "; ".join(problems[:3]) or "data, words and drawing agree")


def _problems(page: str, panel: dict[str, Any]) -> Iterator[str]:
    data = json.loads(re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)[0])
    for name, expected in panel["data"].items():
        if not _same(data.get(name), expected):
            yield f"the script's {name} differ"
    for name, expected in panel.get("packed", {}).items():
        step = float(np.abs(expected).max()) / 65528  # of 16 bits, half of which is what rounding changes
        if not _same(_unpacked(_inside(data, name)), expected, atol=max(1e-5, step)):
            yield f"the script's {name} differ"
    words = [html.unescape(text) for text in re.findall(r'<text(?! class="cell)[^>]*>(.*?)</text>', page)]
    if "words" in panel and words != panel["words"]:
        yield f"what is written is {words} instead of {panel['words']}"
    for pattern, expected in panel["drawn"].items():
        drawn = np.array([float(number) for number in re.findall(pattern, page)])
        if not _same(drawn, expected, atol=1e-3):
            yield f"what is drawn as {pattern.split()[0].lstrip('<')} differs"
    if "curves" in panel and not _on_one_scale(page, panel["curves"]):
        yield "the curve and the points are not drawn on one scale"


def _inside(data: Any, name: str) -> Any:
    """Return what is at a path of names and numbers."""
    for key in name.split("."):
        data = data[int(key)] if isinstance(data, list) else data[key]
    return data


def _unpacked(about: dict[str, Any]) -> np.ndarray:
    """Return weights (layers, H, Lq, Lk), or rows with a scale each, that a page holds as whole numbers of 16 bits."""
    of_rows = "scales" in about
    whole = np.frombuffer(base64.b64decode(about["all"]), "<i2" if of_rows else "<u2").reshape(about["shape"])
    if of_rows:
        scales = np.frombuffer(base64.b64decode(about["scales"]), "<f4").reshape(about["shape"][:-1])
        return np.asarray(whole * scales[..., None].astype("float64") / 32764)
    return np.asarray(whole * (about["scale"] / 65532))


def _same(got: Any, expected: Any, atol: float = 1e-9) -> bool:
    if expected is None or isinstance(expected, str) or np.asarray(expected).dtype.kind == "U":
        return bool(np.array_equal(got, expected))
    got, expected = np.asarray(got, dtype=float), np.asarray(expected, dtype=float)
    return got.shape == expected.shape and np.allclose(got, expected, rtol=0, atol=atol)


def _on_one_scale(page: str, curves: dict[str, Any]) -> bool:
    """Say whether heights in pixels are one falling linear function of all the numbers."""
    line = re.findall(r'class="estimate" points="([^"]*)"', page)[0]
    heights = [float(point.split(",")[1]) for point in line.split()]
    heights += [float(number) for number in re.findall(r'class="point"[^>]* cy="([^"]*)"', page)]
    numbers = np.concatenate([curves["estimate"], curves["points"]])
    if len(heights) != len(numbers):
        return False
    scale, start = np.polyfit(numbers, heights, 1)
    return bool(scale < 0 and np.abs(scale * numbers + start - heights).max() < 0.02)
