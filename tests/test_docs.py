"""The names that docs/coming_from.md promises exist, and what it says about masks holds."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import numpy as np
import pytest
from sweep import sweep

import qkv

PAGE = (Path(__file__).parents[1] / "docs" / "coming_from.md").read_text(encoding="utf8")
NAMES = sorted(set(re.findall(r"\bqkv\.[\w.]*\w", PAGE)))


@sweep("name", NAMES)
def test_the_name_exists(name):
    assert functools.reduce(getattr, name.split(".")[1:], qkv) is not None


def test_there_are_names():
    assert len(NAMES) > 40


def test_tables_are_whole():
    rows = [line for line in PAGE.splitlines() if line.startswith("|")]
    assert {line.count("|") - line.count("\\|") for line in rows} == {4}


def test_the_readme_links_the_page():
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf8")
    assert "/docs/coming_from.md\n" in readme


def test_the_page_of_views_shows_what_its_code_makes(monkeypatch):
    docs = Path(__file__).parents[1] / "docs"
    monkeypatch.syspath_prepend(str(docs))
    from builder import views

    source, page = (docs / "views.md").read_text(encoding="utf8"), views.page()
    assert page.count('class="qkv-view"') == source.count("<!-- view -->") == 13
    assert page.count("```python") == source.count("```python")


def test_masks_of_pytorch_s_layer_are_the_other_way_round():
    torch = pytest.importorskip("torch")
    qkv.manual_seed(0)
    mine = qkv.nn.MultiHeadAttention(6, 2)
    theirs = torch.nn.MultiheadAttention(6, 2, batch_first=True)
    mine.load_state_dict({k: v.detach().numpy() for k, v in theirs.state_dict().items()})
    x = qkv.randn(3, 5, 6)
    t = torch.from_numpy(x)
    forbidden = np.triu(np.ones((5, 5), bool), 1)
    padding = np.arange(5) >= np.array([[5], [2], [4]])
    with torch.no_grad():
        causal = theirs(t, t, t, attn_mask=torch.from_numpy(forbidden))[0].numpy()
        padded = theirs(t, t, t, key_padding_mask=torch.from_numpy(padding))[0].numpy()
    np.testing.assert_allclose(mine(x, attn_mask=~forbidden).numpy(), causal, atol=1e-6)
    np.testing.assert_allclose(mine(x, valid_lens=(~padding).sum(1)).numpy(), padded, atol=1e-6)
    np.testing.assert_allclose(mine(x, attn_mask=~padding[:, None, None, :]).numpy(), padded, atol=1e-6)


def test_a_window_of_w_keys():
    q = np.ones((7, 2), "float32")
    weights = qkv.scaled_dot_product_attention(q, q, q, is_causal=True, window=(2, 0), return_weights=True)[1]
    assert ((weights > 0).sum(1) == [1, 2, 3, 3, 3, 3, 3]).all()
