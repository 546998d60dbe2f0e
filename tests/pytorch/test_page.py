"""The page docs/pytorch.md: its code runs and prints what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from qkv import pytorch

PAGE = (Path(__file__).parents[2] / "docs" / "pytorch.md").read_text(encoding="utf8")


def test_its_code_prints_what_it_says(capsys):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S):
        exec(compile(block, "docs/pytorch.md", "exec"), names)
        said = re.findall(r"^( *)print\(.*\)  # (.*)$", block, re.M)
        printed = capsys.readouterr().out.splitlines()
        assert printed == [text for indent, text in said if not indent or "model" in names]
    pyplot.close("all")


def test_it_names_every_function():
    assert {name for name in pytorch.__all__ if not re.search(rf"\b{name}\b", PAGE)} == set()
