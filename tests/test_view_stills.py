"""Pictures of views for exports, and for pages whose scripts do not run."""

from __future__ import annotations

import base64
import io
import re
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from test_attention_views import TOKENS, VIEWS, weights
from test_html import Reader
from test_view_pages import opened

from qkv import plot
from qkv.plot.views.view import page

__all__ = ["opened"]  # the fixture
ALL = {
    **VIEWS,
    "AttentionSliders": lambda: plot.AttentionSliders(np.eye(5), TOKENS, title="sliders"),
    "BandwidthSlider": lambda: plot.BandwidthSlider(
        np.arange(7.0), np.arange(7.0) ** 2, np.arange(5.0), np.ones(5)
    ),
    "many heads": lambda: plot.layer_view(weights(12, 12, 5, 5), TOKENS),
    "many lines": lambda: plot.head_view(weights(12, 60, 60), [str(i) for i in range(60)]),
}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def pixels(data):
    return plt.imread(io.BytesIO(data), format="png")[..., :3]


@pytest.mark.parametrize("name", ALL)
def test_a_notebook_holds_a_page_and_a_picture(name):
    view = ALL[name]()
    bundle = view._repr_mimebundle_()
    assert list(bundle) == ["text/plain", "text/html", "image/png"]
    assert bundle["text/plain"] == repr(view)
    assert plt.get_fignums() == []
    picture = pixels(base64.b64decode(bundle["image/png"]))
    assert min(picture.shape[:2]) > 30
    assert picture.std() > 0.02  # something is drawn
    assert len(bundle["image/png"]) < 300_000
    (still,) = Reader(bundle["text/html"]).all("img")
    assert still["src"] == f"data:image/png;base64,{bundle['image/png']}"
    assert still["alt"] == repr(view)


def test_a_notebook_shows_both():
    formatters = pytest.importorskip("IPython.core.formatters")
    data, _ = formatters.DisplayFormatter().format(ALL["head_view"]())
    assert {"text/plain", "text/html", "image/png"} <= set(data)


def test_pages_need_no_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    view = ALL["head_view"]()
    assert "image/png" not in view._repr_mimebundle_()
    assert Reader(view._repr_html_()).all("img") == []
    assert len(Reader(view._repr_html_()).all("line")) > 5


@pytest.mark.parametrize("name", ALL)
def test_the_picture_is_seen_where_scripts_do_not_run_and_only_there(opened, name):
    text = ALL[name]()._repr_html_()
    tab = opened(text)
    assert tab.run("document.querySelectorAll('img').length") == 0
    visible = "(document.querySelector('.stage') || document.querySelector('svg')).getClientRects().length"
    assert tab.run(visible) > 0
    silent = re.sub(r"<script.*?</script>", "", text, flags=re.S)
    tab = opened(silent)
    assert tab.run("document.querySelector('img').naturalWidth") > 50
    assert tab.run(visible) == 0
    assert "img-src data:" in page("", text)
