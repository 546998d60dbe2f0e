"""The table of measures in a browser."""

from __future__ import annotations

import numpy as np
from test_attention_views import TOKENS, weights
from test_view_pages import html, note, opened

from qkv import plot
from qkv.plot.views.measures_table import MeasuresTable

__all__ = ["opened"]  # the fixture


def test_a_table_of_measures_is_sorted_by_a_heading(opened):
    entropy = np.array([[0.5, 2.0, np.nan], [1.5, 0.25, 3.0]])  # the first layer has two heads
    nowhere = np.full((2, 3), np.nan)
    nowhere[1, 2] = 0.125
    tab = opened(html(MeasuresTable({"entropy": entropy, "first": nowhere}, "heads")), width=390)
    rows = "[...document.querySelectorAll('tbody tr')].map(r => [...r.children].map(c => c.textContent).join(' '))"
    press_heading = "[...document.querySelectorAll('th button')].find(b => b.textContent === '{}').click()"
    assert tab.run(rows) == ["0 0 0.500 ", "0 1 2.000 ", "1 0 1.500 ", "1 1 0.250 ", "1 2 3.000 0.125"]
    tab.run(press_heading.format("entropy"))
    assert [row[:3] for row in tab.run(rows)] == ["1 2", "0 1", "1 0", "0 0", "1 1"]
    assert tab.run("document.querySelector('th[aria-sort]').getAttribute('aria-sort')") == "descending"
    tab.run(press_heading.format("entropy"))
    assert [row[:3] for row in tab.run(rows)] == ["1 1", "0 0", "1 0", "0 1", "1 2"]
    tab.run(press_heading.format("first"))
    assert tab.run(rows)[0] == "1 2 3.000 0.125"  # a row without a number is last
    assert note(tab) == "5 heads, sorted by first"
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")


CHOSEN = """[document.querySelector('tr.chosen') && [...document.querySelector('tr.chosen').children].slice(0, 2)
  .map(c => +c.textContent),
  (i => [Math.floor(i / 4), i % 4])(
    [...document.querySelectorAll('.grid button')].findIndex(b => b.ariaPressed === 'true')),
  [...document.querySelectorAll('select')].map(s => +s.value)]"""


def test_views_that_are_together_show_one_head(opened):
    table = weights(2, 3, 5, 5)
    measured = MeasuresTable({"first": table[..., 0].mean(-1)})
    views = html(measured) + html(plot.layer_view(table, TOKENS)) + html(plot.head_view(list(table), TOKENS))
    tab = opened(f'<div class="qkv-together">{views}</div>')
    assert tab.run(CHOSEN) == [[0, 0], [0, 0], [0, 0]]
    tab.run("document.querySelectorAll('tbody tr')[5].click()")
    assert tab.run(CHOSEN) == [[1, 2], [1, 2], [1, 2]]
    tab.run("document.querySelectorAll('.grid button')[1].click()")
    assert tab.run(CHOSEN) == [[0, 1], [0, 1], [0, 1]]
    tab.run(
        "(s => { s.value = 1; s.dispatchEvent(new Event('change')); })(document.querySelectorAll('select')[0])"
    )
    assert tab.run(CHOSEN) == [[1, 1], [1, 1], [1, 1]]
    tab.run("document.querySelectorAll('.grid button')[7].click()")  # the mean, which the table has not
    assert tab.run(CHOSEN)[1:] == [[1, 3], [1, 3]]
    assert tab.complaints == []
    tab = opened(views)
    tab.run("document.querySelectorAll('tbody tr')[5].click()")
    assert tab.run(CHOSEN) == [[1, 2], [0, 0], [0, 0]]
