"""The pages of views in a browser: what is pointed at, chosen and typed shows the right numbers, on any ground."""

from __future__ import annotations

import itertools
import re

import browser
import numpy as np
import pytest
from test_attention_views import IMAGE, TOKENS, recording, weights

import qkv
from qkv import plot
from qkv.plot.views.view import page

CHROMIUM = browser.program()
HEADS = weights(2, 3, 5, 5)
NUMBER = r"(\d\.\d{4}|\d\.\de-\d)"


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    pytest.importorskip("websocket", reason="needs websocket-client")
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    folder, numbers = tmp_path_factory.mktemp("pages"), itertools.count()
    with browser.served(folder) as address, browser.opened(folder / "profile") as tab:

        def show(*parts, width=1400, theme="light"):
            name = f"{next(numbers)}.html"  # another one each time, which no cache has
            (folder / name).write_text(page("views", *parts), encoding="utf-8")
            tab.resize(width, 900)
            tab.theme(theme)
            tab.open(f"{address}/{name}")
            assert tab.complaints == []
            return tab

        show.folder, show.address, show.tab = folder, address, tab
        yield show


def html(view):
    return view._repr_html_()


def note(tab):
    return re.sub("[\u2068\u2069]", "", tab.run("document.querySelector('.note').textContent"))


def choose(tab, label, value):
    """Choose an option of the list that a label names, as a reader does."""
    tab.run(
        f"(() => {{ const list = [...document.querySelectorAll('label')].find(l => l.textContent.startsWith('{label}'))"
        f".querySelector('select'); list.value = [...list.options].find(o => o.textContent === '{value}').value; "
        "list.dispatchEvent(new Event('change')); })()"
    )


def press(tab, key, times=1):
    for _ in range(times):
        for kind in ("rawKeyDown", "keyUp"):
            tab.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=CODES[key])


CODES = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9, "Escape": 27}
LINES = "[...document.querySelectorAll('.lines line')].map(l => +l.getAttribute('stroke-opacity'))"


def told(text):
    """Return the tokens and weights that a note tells."""
    return {token: float(number) for token, number in re.findall(rf"(\S+) {NUMBER}", text)}


EVERY = {
    "head_view": lambda: plot.head_view(list(HEADS), TOKENS, second=2, title="heads"),
    "layer_view": lambda: plot.layer_view(HEADS, TOKENS),
    "token_view": lambda: plot.token_view(list(HEADS), TOKENS),
    "neuron_view": lambda: plot.neuron_view(recording(), TOKENS),
    "image_view": lambda: plot.image_view(HEADS[0], IMAGE),
    "compare_view": lambda: plot.compare_view(HEADS[0], HEADS[1], TOKENS),
}
# The contrast of text and ground by WCAG's formula.
CONTRAST = """(() => {
  const light = (name) => {
    const rgb = getComputedStyle(document.querySelector('.qkv-view'))[name].match(/[\\d.]+/g).slice(0, 3).map(Number);
    const [r, g, b] = rgb.map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [a, b] = [light('color'), light('backgroundColor')].sort();
  return (b + 0.05) / (a + 0.05);
})()"""


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_every_page_on_every_ground(opened, name, theme, width):
    tab = opened(html(EVERY[name]()), width=width, theme=theme)
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run("document.querySelector('.qkv-view').classList.contains('dark')") == (theme == "dark")
    assert tab.run(CONTRAST) > 7


def test_a_view_follows_the_notebook_and_not_what_the_reader_prefers(opened):
    grounds = ("background: #111", "background: rgb(250, 250, 250)")
    parts = [f'<div style="{ground}">{html(EVERY["layer_view"]())}</div>' for ground in grounds]
    for theme in ("light", "dark"):
        tab = opened(*parts, theme=theme)
        dark = "[...document.querySelectorAll('.qkv-view')].map(v => v.classList.contains('dark'))"
        assert tab.run(dark) == [True, False]


@pytest.mark.parametrize(
    ("name", "dark"),
    [
        ("vscode-dark", True),
        ("vscode-light", False),
        ("vscode-high-contrast", True),
        ("vscode-high-contrast-light", False),
    ],
)
def test_a_view_follows_an_editor(opened, name, dark):
    name_it = f"<script>document.body.className = 'a {name} b'</script>"
    tab = opened(name_it, html(EVERY["token_view"]()), theme="light" if dark else "dark")
    assert tab.run("document.querySelector('.qkv-view').classList.contains('dark')") == dark


def test_a_page_that_is_always_white(opened):
    style = "<style>:root { color-scheme: normal !important }</style>"
    tab = opened(style, html(EVERY["token_view"]()), theme="dark")
    assert not tab.run("document.querySelector('.qkv-view').classList.contains('dark')")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_notebook_that_is_exported(opened, theme):
    nbformat, nbconvert = pytest.importorskip("nbformat"), pytest.importorskip("nbconvert")
    view = EVERY["head_view"]()
    cells = [nbformat.v4.new_code_cell("view") for _ in range(2)]
    for cell in cells:
        cell.outputs = [nbformat.v4.new_output("display_data", data={"text/html": html(view)})]
    try:
        exporter = nbconvert.HTMLExporter(template_name="lab", theme=theme)
    except ValueError:
        pytest.skip("nbconvert has no templates here")
    body, _ = exporter.from_notebook_node(nbformat.v4.new_notebook(cells=cells))
    (opened.folder / f"exported-{theme}.html").write_text(body, encoding="utf-8")
    tab = opened.tab
    tab.open(f"{opened.address}/exported-{theme}.html")  # what it asks of a network is nbconvert's
    assert not [told for told in tab.complaints if "head_view" in told or "qkv" in told]
    choose(tab, "head", "2")
    after, half = tab.run(LINES), (HEADS[0, 0] > 0.005).sum()
    np.testing.assert_allclose(after[:-half], HEADS[0, 2][HEADS[0, 2] > 0.005], atol=6e-4)
    dark = "[...document.querySelectorAll('.qkv-view')].map(v => v.classList.contains('dark'))"
    assert tab.run(dark) == [theme == "dark"] * 2


def test_views_of_one_notebook_do_not_meet(opened):
    view = EVERY["head_view"]()
    tab = opened(html(view), html(view))
    before = tab.run(LINES)
    choose(tab, "head", "2")
    after = tab.run(LINES)
    half = (HEADS[0, 0] > 0.005).sum()
    assert before[-half:] == after[-half:]
    np.testing.assert_allclose(after[:-half], HEADS[0, 2][HEADS[0, 2] > 0.005], atol=6e-4)


class TestHeadView:
    def test_heads_and_layers(self, opened):
        tab = opened(html(EVERY["head_view"]()))
        for layer, head in ((0, 0), (1, 2)):
            choose(tab, "layer", str(layer))
            choose(tab, "head", str(head))
            table = HEADS[layer, head]
            np.testing.assert_allclose(tab.run(LINES), table[table > 0.005], atol=6e-4)
        choose(tab, "head", "mean")
        mean = HEADS[1].mean(0)
        np.testing.assert_allclose(tab.run(LINES), mean[mean > 0.005], atol=6e-4)

    def test_pointing_at_a_token(self, opened):
        tab = opened(html(EVERY["head_view"]()))
        for side, place, row in (("query", 1, HEADS[0, 0, 1]), ("key", 3, HEADS[0, 0, :, 3])):
            tab.run(
                f"document.querySelectorAll('text.{side}')[{place}].dispatchEvent(new MouseEvent('mouseenter'))"
            )
            np.testing.assert_allclose(tab.run(LINES), row[row > 0.005], atol=6e-4)
            for token, weight in told(note(tab)).items():
                assert weight == pytest.approx(row[TOKENS.index(token)], abs=1e-4)
            assert tab.run("document.querySelector('text.chosen').textContent") == TOKENS[place]
            tab.run(
                f"document.querySelectorAll('text.{side}')[{place}].dispatchEvent(new MouseEvent('mouseleave'))"
            )
            assert note(tab) == ""

    def test_four_parts(self, opened):
        tab = opened(html(EVERY["head_view"]()))
        choose(tab, "from", "first → second")
        part = HEADS[0, 0, :2, 2:]
        np.testing.assert_allclose(tab.run(LINES), part[part > 0.005], atol=6e-4)
        shown = "[...document.querySelectorAll('svg text')].map(t => t.textContent)"
        assert tab.run(shown) == TOKENS[:2] + TOKENS[2:]
        choose(tab, "from", "second → second")
        assert tab.run(shown) == TOKENS[2:] * 2

    def test_the_keyboard(self, opened):
        tab = opened(html(plot.head_view(HEADS[0, 0], TOKENS)))
        press(tab, "Tab")
        press(tab, "ArrowDown", 2)
        assert tab.run("document.activeElement.textContent") == TOKENS[2]
        np.testing.assert_allclose(tab.run(LINES), HEADS[0, 0, 2][HEADS[0, 0, 2] > 0.005], atol=6e-4)
        press(tab, "ArrowRight")
        column = HEADS[0, 0, :, 2]
        np.testing.assert_allclose(tab.run(LINES), column[column > 0.005], atol=6e-4)
        press(tab, "Escape")
        assert len(tab.run(LINES)) == (HEADS[0, 0] > 0.005).sum()

    def test_no_label_is_cut(self, opened):
        tokens = ["a" * 70, "b", "\u05e9\u05dc\u05d5\u05dd", "\u6ce8\u610f" * 9, "dry"]
        tab = opened(html(plot.head_view(HEADS[0], tokens)), width=390)
        outside = (
            "(b => [...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect()).filter("
            "t => t.left < b.left || t.right > b.right || t.top < b.top || t.bottom > b.bottom).length)"
            "(document.querySelector('svg').getBoundingClientRect())"
        )
        assert tab.run(outside) == 0
        assert tab.run("document.querySelector('svg text').getBoundingClientRect().height") >= 11  # readable

    def test_long_texts_tell_what_the_rest_of_a_row_weighs(self, opened):
        table = weights(7, 419, 419)
        view = plot.head_view(table, [f"t{i}" for i in range(419)])
        data = view._data()["weights"]
        assert "all" not in data
        tab = opened(html(view))
        tab.run("document.querySelectorAll('text.query')[3].dispatchEvent(new MouseEvent('mouseenter'))")
        largest = np.sort(table[0, 3])[::-1]
        text = note(tab)
        assert next(iter(told(text).values())) == pytest.approx(largest[0], abs=1e-4)
        rest = float(re.search(rf"the others of the row together {NUMBER}", text)[1])
        assert rest == pytest.approx(1 - largest[: data["k"]].sum(), abs=1e-3)


class TestLayerView:
    def test_a_head_is_enlarged_and_tells_its_weights(self, opened):
        tab = opened(html(EVERY["layer_view"]()))
        tab.run(
            "document.querySelectorAll('.grid button')[6].click()"
        )  # of 4 in a row: 3 heads and their mean
        assert note(tab) == "layer 1, head 2"
        tab.run("document.querySelector('.large').focus()")
        press(tab, "ArrowDown", 3)
        press(tab, "ArrowRight", 2)
        start, _, weight = note(tab).rpartition("   ")
        assert start == f"layer 1, head 2   {TOKENS[3]} → {TOKENS[2]}"
        assert float(weight) == pytest.approx(HEADS[1, 2, 3, 2], abs=1e-4)

    def test_the_keyboard_goes_from_head_to_head(self, opened):
        tab = opened(html(EVERY["layer_view"]()))
        press(tab, "Tab", 3)  # over the buttons that zoom
        press(tab, "ArrowRight", 3)
        press(tab, "ArrowDown")
        assert note(tab) == "layer 1, head mean"
        pressed = "[...document.querySelectorAll('.grid button')].findIndex(b => b.ariaPressed === 'true')"
        assert tab.run(pressed) == 7

    def test_glances_have_the_weights_as_colours(self, opened):
        tab = opened(html(EVERY["layer_view"]()))
        alpha = (
            "(c => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data].filter((_, i) => i % 4 === 3))"
            "(document.querySelectorAll('.grid canvas')[5])"
        )
        expected = 255 * np.sqrt(HEADS[1, 1] / HEADS.max()).ravel()
        np.testing.assert_allclose(tab.run(alpha), expected, atol=1)

    def test_pooled_weights_are_told_as_bounds(self, opened):
        table = weights(1, 7, 419, 419)
        tab = opened(html(plot.layer_view(table)))
        tab.run("document.querySelector('.large').focus()")
        least = np.argmin(table[0, 0, 0, :30])
        press(tab, "ArrowRight", int(least))
        found = re.search(rf"0 → {least}   at most {NUMBER} \(pooled\)$", note(tab))
        assert float(found[1]) >= table[0, 0, 0, least] - 1e-3

    def test_zooming(self, opened):
        tab = opened(html(plot.layer_view(weights(1, 2, 16, 16), rows=(100, 900), columns=(0, 163))))
        tab.run("document.querySelector('.large').focus()")
        press(tab, "ArrowDown", 2)
        assert "200 to 249 → 0 to 9   " in note(tab)
        buttons = "[...document.querySelectorAll('.controls button')].find(b => b.textContent === 'zoom {}').click()"
        tab.run(buttons.format("in"))
        assert note(tab).endswith("rows=(100, 500), columns=(0, 81)")
        tab.run(buttons.format("in"))
        tab.run(buttons.format("in"))  # no further than 4 pixels
        assert note(tab).endswith("rows=(100, 300), columns=(0, 40)")
        press(tab, "ArrowDown", 9)  # stays inside
        assert "250 to 299 → 0 to 9   " in note(tab)
        tab.run(buttons.format("out"))
        tab.run(buttons.format("out"))
        assert "rows" not in note(tab)

    def test_a_rectangle_is_enlarged_by_the_mouse(self, opened):
        tokens = [f"t{i}" for i in range(31)]
        tab = opened(html(plot.layer_view(weights(1, 1, 31, 31), tokens)))
        left, top, width, height = tab.run(
            "(b => [b.left, b.top, b.width, b.height])(document.querySelector('.large').getBoundingClientRect())"
        )
        for kind, x, y in (
            ("Pressed", 0.5, 0.5),
            ("Moved", 0.6, 0.6),
            ("Moved", 0.7, 0.7),
            ("Released", 0.7, 0.7),
        ):
            tab.call(
                "Input.dispatchMouseEvent",
                type=f"mouse{kind}",
                x=left + x * width,
                y=top + y * height,
                button="left",
                buttons=1,
                clickCount=1,
            )
        found = re.search(r"rows=\((\d+), (\d+)\), columns=\((\d+), (\d+)\)", note(tab))
        first, last, begin, end = map(int, found.groups())
        assert 8 < first < 18 < last < 26
        assert 8 < begin < 18 < end < 26


def test_token_view(opened):
    tab = opened(html(plot.token_view(list(HEADS), TOKENS)))
    alpha = "[...document.querySelectorAll('.token')].map(t => +t.style.backgroundColor.match(/[\\d.]+/g)[3])"
    row = HEADS[0, :, 0].mean(0)
    np.testing.assert_allclose(tab.run(alpha), 0.75 * np.sqrt(row / row.max()), atol=4e-3)
    tab.run("document.querySelectorAll('.token')[1].click()")
    press(tab, "ArrowRight")
    choose(tab, "head", "1")
    choose(tab, "colour", "what attends to it")
    column = HEADS[0, 1, :, 2]
    np.testing.assert_allclose(tab.run(alpha), 0.75 * np.sqrt(column / column.max()), atol=4e-3)
    text = note(tab)
    assert text.startswith(f"{TOKENS[2]}:")
    for token, weight in told(text.split(":", 1)[1]).items():
        assert weight == pytest.approx(column[TOKENS.index(token)], abs=1e-4)


def test_neuron_view(opened):
    kept = recording()
    tab = opened(html(plot.neuron_view(kept, TOKENS)))
    choose(tab, "layer", "layers.1.self_attn")
    choose(tab, "head", "3")
    choose(tab, "query", f"2 {TOKENS[2]}")
    cells = (
        "[...document.querySelectorAll('tbody tr')].map("
        "r => [...r.querySelectorAll('.number')].map(c => +c.textContent))"
    )
    queries, keys, scores, table = (
        kept[f"layers.1.self_attn.{name}"][0] for name in ("queries", "keys", "scores", "weights")
    )
    expected = np.stack([keys[1] @ queries[3, 2], scores[3, 2], table[3, 2]], 1)
    np.testing.assert_allclose(tab.run(cells), expected, atol=1.5e-3)
    tab.run("document.querySelectorAll('tbody tr')[0].focus()")
    press(tab, "ArrowDown")
    products = keys[1, 1] * queries[3, 2]
    best = int(np.argmax(np.abs(products)))
    assert note(tab).startswith(f"{TOKENS[1]}: feature {best} {products[best]:.3f}")


@pytest.mark.parametrize("special", [0, 1])
def test_image_view(opened, special):
    table = weights(2, 9 + special, 9 + special)
    tab = opened(html(plot.image_view(table, IMAGE, query=special, head=0)))
    tab.run("document.querySelector('.large').focus()")
    press(tab, "ArrowDown")
    press(tab, "ArrowRight", 2)
    row = table[0, special + 5]
    text = note(tab)
    assert text.startswith("patch (1, 2):")
    best = int(np.argmax(row[special:]))
    assert f"({best // 3}, {best % 3}) {row[special + best]:.4f}" in text
    if special:
        assert told(text)["CLS"] == pytest.approx(row[0], abs=1e-4)
        tab.run("document.querySelector('.controls button').click()")
        assert note(tab).startswith("CLS:")


def test_compare_view(opened):
    a, b = HEADS[0], qkv.softmax(np.random.default_rng(7).normal(size=(3, 5, 5)))
    tab = opened(html(plot.compare_view(a, b, TOKENS, head=1)))
    tab.run("document.querySelector('.large').focus()")
    press(tab, "ArrowDown", 2)
    values = [float(x) for x in re.findall(r"(?:b - a|a|b) (-?\d\.\d{4})", note(tab))]
    np.testing.assert_allclose(values, [b[1, 2, 0] - a[1, 2, 0], a[1, 2, 0], b[1, 2, 0]], atol=1e-4)
    reds = (
        "(c => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data].filter((_, i) => i % 4 === 0))"
        "(document.querySelectorAll('.grid canvas')[1])"
    )
    difference = (b - a)[1].ravel()
    shown = np.abs(difference) > 0.02
    np.testing.assert_array_equal(np.array(tab.run(reds))[shown] > 100, difference[shown] > 0)
    choose(tab, "show", "a")
    assert set(tab.run(reds)) <= {0, *range(170, 256)}
