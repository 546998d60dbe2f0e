"""The page of `plot.explain` in a browser: what is chosen is what its tables show, and what changed is marked."""

from __future__ import annotations

import re

import numpy as np
import pytest
from test_view_pages import CONTRAST, choose, html, note, opened, press

import qkv
from qkv import look, models, plot

__all__ = ["opened"]  # the fixture
STEP = "[...document.querySelectorAll('.explained')].find(s => s.textContent.includes('{}'))"
CHANGED = (
    "[...document.querySelectorAll('.explained.changed h4')].map(h => h.textContent.replace(/^\\d+ +/, ''))"
)


def language_model():
    qkv.manual_seed(0)
    model = models.CausalLM(vocab_size=61, d_model=12, nhead=3, num_layers=2)
    return model, [5, 9, 17, 9, 33]


@pytest.fixture
def page(opened):
    model, ids = language_model()
    view = plot.explain(model, ids, layer=1, head=2, query=3)
    recording = look.record(model, [ids], keep=("weights", "scores"))
    return opened(html(view)), recording


def numbers(tab, title):
    texts = tab.run(
        f"[...{STEP.format(title)}.querySelectorAll('td:last-child')].map(cell => cell.textContent)"
    )
    return [float(text.replace("\N{MINUS SIGN}", "-").replace("∞", "inf")) for text in texts]


def test_tables_show_what_is_chosen(page):
    tab, recording = page
    weights, scores = (recording[f"layers.1.self_attn.{word}"][0] for word in ("weights", "scores"))
    np.testing.assert_allclose(numbers(tab, "Softmax"), weights[2, 3], rtol=1e-3, atol=2e-5)
    choose(tab, "head", "0")
    np.testing.assert_allclose(numbers(tab, "Softmax"), weights[0, 3], rtol=1e-3, atol=2e-5)
    masked = np.where(np.arange(5) > 1, -np.inf, scores[0, 1])
    tab.run("document.querySelectorAll('button.token')[1].click()")
    np.testing.assert_allclose(numbers(tab, "Softmax"), weights[0, 1], rtol=1e-3, atol=2e-5)
    np.testing.assert_allclose(numbers(tab, "Mask"), masked, rtol=1e-3, atol=1e-4)
    assert (
        tab.run("[...document.querySelectorAll('tr.out th')].map(cell => cell.textContent)").count("33") == 2
    )
    assert tab.run("document.querySelectorAll('.explained:last-child details').length") == 6
    assert tab.complaints == []


def test_what_changes_is_marked(page):
    tab, _ = page
    assert tab.run(CHANGED) == []
    choose(tab, "head", "0")
    changed = tab.run(CHANGED)
    assert {"Queries, keys, values", "Softmax", "Weighted sum"} <= {*changed}
    assert not {"Tokens", "Embeddings and positions", "Norm", "Residual", "Logits"} & {*changed}
    assert re.fullmatch(r"Layer 1, head 0, token 3 “9”: steps [\d, ]+ and \d+ changed\.", note(tab))
    tab.run("document.querySelectorAll('button.token')[0].click()")
    assert {"Tokens", "Residual", "Logits", "Probabilities"} <= {*tab.run(CHANGED)}


def test_a_layer_of_which_the_page_keeps_the_weights_alone(page):
    tab, _ = page
    choose(tab, "layer", "0")
    assert "layers=[1, 0]" in tab.run("document.querySelector('.walked').textContent")
    tab.run("[...document.querySelectorAll('summary')].find(s => s.textContent.includes('2 layers')).click()")
    tab.wait(lambda: tab.run("document.querySelectorAll('.grid button').length") == 6)
    tab.run("document.querySelectorAll('.grid button')[4].click()")
    assert note(tab).startswith("Layer 1, head 1")
    assert tab.complaints == []


def test_the_keyboard_reaches_tokens_and_numbers(page):
    tab, _ = page
    tab.run("document.querySelector('button.token').focus()")
    press(tab, "ArrowRight", 2)
    assert tab.run("document.activeElement.textContent") == "17"
    tab.run("document.querySelector('.strip canvas').focus()")
    press(tab, "ArrowRight", 3)
    assert tab.run("document.querySelector('.strip .reading').textContent").startswith("number 3: ")
    tab.run("document.querySelectorAll('nav button')[4].click()")
    assert tab.run("document.activeElement.textContent").startswith("5 ")


def test_what_is_unfolded_and_focused_stays(page):
    tab, _ = page
    tab.run("document.querySelector('details summary').click(); scrollTo(0, 600)")
    tab.run("document.querySelectorAll('button.token')[2].focus({ preventScroll: true })")
    tab.run("document.activeElement.click()")
    assert note(tab).startswith("Layer 1, head 2, token 2")
    assert tab.run("document.activeElement.textContent") == "17"
    assert tab.run("document.querySelector('details').open")
    assert abs(tab.run("scrollY") - 600) < 150  # where more is shown above, the browser follows


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_the_page_on_every_ground(opened, theme, width):
    tab = opened(html(plot.explain(*language_model())), width=width, theme=theme)
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run("document.querySelector('.qkv-view').classList.contains('dark')") == (theme == "dark")
    assert tab.run(CONTRAST) > 7
