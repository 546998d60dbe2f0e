"""The page docs/torch.md: its code runs, and the names in its table exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import qkv.torch as torch

PAGE = (Path(__file__).parents[2] / "docs" / "torch.md").read_text(encoding="utf8")


@pytest.mark.parametrize("block", re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S))
def test_its_code_runs(block, capsys):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    exec(block, {})
    assert capsys.readouterr().out
    pyplot.close("all")


@pytest.mark.parametrize("place", ["nn", "optim", "utils.data", "d2l"])
def test_its_names_exist(place):
    module = torch
    for part in place.split("."):
        module = getattr(module, part)
    (row,) = [line for line in PAGE.splitlines() if re.match(rf"\| `(qkv\.)?torch\.{place}` \|", line)]
    names = [name for words in re.findall(r"`([\w ]+)`", row)[0:] for name in words.split()]
    assert len(names) >= 3
    for name in names:
        assert hasattr(module, name), name
