"""Pictures with sliders: the page computes what qkv computes, and the widgets of a real kernel follow."""

from __future__ import annotations

import builtins
import json
import re
import subprocess

import browser
import numpy as np
import pytest
from test_html import Reader

import qkv
from qkv import plot

SCORES = np.random.default_rng(0).normal(size=(5, 7)) * 3
QUERIES, KEYS = list("abcde"), ["<k0>", "k1", "k2", "k3", "k4", "k5", "k&6"]
RNG = np.random.default_rng(1)
X = np.sort(RNG.random(11) * 5)
Y = np.sin(X) + X
AT = np.linspace(0, 5, 31)
CHROMIUM = browser.program()
KERNELS = ["gaussian", "boxcar", "constant", "epanechnikov", "triangular"]


def drawn(page: str) -> np.ndarray:
    return np.array([float(c["fill-opacity"]) for c in Reader(page).all("rect") if c.get("class") == "cell"])


def expected(temperature=1.0, valid_len=7, is_causal=False):
    allowed = np.arange(7) < valid_len
    allowed = allowed & (np.arange(7) <= np.arange(5)[:, None]) if is_causal else np.tile(allowed, (5, 1))
    e = np.exp(SCORES / temperature) * allowed
    return e / np.maximum(e.sum(1, keepdims=True), 1e-300)


SETTINGS = [
    {},
    {"temperature": 0.3},
    {"temperature": 20.0, "valid_len": 4},
    {"is_causal": True},
    {"temperature": 2.0, "valid_len": 2, "is_causal": True},
    {"valid_len": 0},
]


class TestAttention:
    @pytest.mark.parametrize("settings", SETTINGS)
    def test_weights_and_first_picture(self, settings):
        view = plot.AttentionSliders(SCORES, QUERIES, KEYS, **settings)
        np.testing.assert_allclose(view.weights(**settings), expected(**settings), rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(drawn(view._repr_html_()), expected(**settings).ravel(), atol=5.1e-7)
        page = Reader(view._repr_html_())
        assert page.text["text"][:12] == [*QUERIES, *KEYS]
        shares = [
            "·" if w == 0 else "<1" if w < 0.005 else f"{100 * w:.0f}"
            for w in view.weights(**settings).ravel()
        ]
        assert page.text["text"][12:] == shares
        assert "Real keys are the first ones" in page.text["p"][0]
        assert "a, <k0>: " in page.text["title"][0]

    def test_numbers_stand_for_tokens_that_are_not_given(self):
        assert Reader(plot.AttentionSliders(SCORES)._repr_html_()).text["text"][:12] == [*"01234", *"0123456"]
        same = plot.AttentionSliders(SCORES[:, :5], QUERIES)
        assert same.key_tokens == QUERIES
        assert repr(same) == "AttentionSliders(5 queries, 5 keys)"

    def test_excluded_scores(self):
        scores = np.where(np.tri(3, dtype=bool), 1.0, -np.inf)
        view = plot.AttentionSliders(scores)
        np.testing.assert_allclose(drawn(view._repr_html_()).reshape(3, 3)[1], [0.5, 0.5, 0], atol=1e-6)
        data = json.loads(Reader(view._repr_html_()).text["script"][0])
        assert data["scores"][0] == [1.0, None, None]

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (
                lambda: plot.AttentionSliders(np.ones(3)),
                r"AttentionSliders: a matrix must be \(Lq, Lk\).*got \(3,\)",
            ),
            (
                lambda: plot.AttentionSliders([[np.nan]]),
                "scores must be numbers, or -inf where a key is excluded; got NaN",
            ),
            (
                lambda: plot.AttentionSliders(SCORES, temperature=0.0),
                "temperature must be from 0.01 to 100.0; got 0.0",
            ),
            (lambda: plot.AttentionSliders(SCORES, valid_len=8), "valid_len must be from 0 to 7; got 8"),
            (
                lambda: plot.AttentionSliders(SCORES, ["a"]),
                "tokens must have 5 entries, one for each query; got 1",
            ),
            (
                lambda: plot.BandwidthSlider(X, Y[:-1]),
                "x_train and y_train must have one length above 0; got 11 and 10",
            ),
            (
                lambda: plot.BandwidthSlider([], []),
                "x_train and y_train must have one length above 0; got 0 and 0",
            ),
            (
                lambda: plot.BandwidthSlider(X, Y, AT, Y),
                "x_val and y_val must have one length above 0; got 31 and 11",
            ),
            (
                lambda: plot.BandwidthSlider(X, Y, bandwidth=0.0),
                "bandwidth must be a number above 0; got 0.0",
            ),
            (
                lambda: plot.BandwidthSlider(X, Y, bandwidth=np.inf),
                "bandwidth must be a number above 0; got inf",
            ),
            (
                lambda: plot.BandwidthSlider(X[None], Y),
                r"x_train must be \(n,\) finite numbers; got x_train \(1, 11\)",
            ),
            (
                lambda: plot.BandwidthSlider(X, Y, kernel="cosine"),
                r"kernel must be one of gaussian, .* got 'cosine'",
            ),
            (
                lambda: plot.BandwidthSlider(X, Y, kernel=abs),
                "because the page computes it without Python; got builtin",
            ),
        ],
    )
    def test_rejections(self, make, message):
        with pytest.raises(ValueError, match=message):
            make()


class TestBandwidth:
    @pytest.mark.parametrize("kernel", KERNELS)
    def test_the_curve_is_qkv_s(self, kernel):
        view = plot.BandwidthSlider(X, Y, AT, np.sin(AT) + AT, kernel=kernel, bandwidth=0.7)
        y, w = view.estimate(0.7)
        np.testing.assert_array_equal(y, qkv.kernel_attention(AT, X, Y, kernel, 0.7))
        assert w.shape == (31, 11)
        page = Reader(view._repr_html_())
        assert [circle.get("class") for circle in page.all("circle")] == [
            None,
            *["point"] * 11,
        ]  # of the key first
        assert page.text["text"][4:] == ["estimate", "truth", "query", "training point, by its weight"]
        assert [line.get("class") for line in page.all("polyline")] == [None, "estimate"]

    def test_usual_places(self):
        view = plot.BandwidthSlider(qkv.tensor(X), Y)
        assert (view.x_val[0], view.x_val[-1], len(view.x_val)) == (X[0], X[-1], 121)
        assert repr(view) == "BandwidthSlider(11 points, gaussian kernel)"
        assert repr(plot.BandwidthSlider([1.0], [2.0])) == "BandwidthSlider(1 points, gaussian kernel)"


def test_a_saved_page_is_whole_and_asks_no_network(tmp_path):
    for view in (plot.AttentionSliders(SCORES, title="a & b"), plot.BandwidthSlider(X, Y, title="a & b")):
        view.save(tmp_path / "page.html")
        text = (tmp_path / "page.html").read_text(encoding="utf-8")
        page = Reader(text)
        assert page.text["title"][0] == "a & b"
        assert page.text["h3"] == ["a & b"]
        assert all(a.get("src", "data:").startswith("data:") and "href" not in a for _, a in page.found)
        assert not re.search(
            r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(|fetch\(|XMLHttp|innerHTML", text
        )


def in_browser(view, folder, moves: dict[str, float | bool]) -> str:
    """Open the page in a browser without a window, move its sliders, and give the page as it is then."""
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    path = folder / "page.html"
    view.save(path)
    script = (
        f"<script>Object.entries({json.dumps(moves)}).forEach(function (move) {{"
        "var input = document.querySelector('input[name=' + move[0] + ']');"
        "if (input.type === 'checkbox') input.checked = move[1]; else input.value = move[1];"
        "input.dispatchEvent(new Event('input'));});document.title = 'moved';</script></body>"
    )
    text = path.read_text(encoding="utf-8").replace("</body>", script)
    path.write_text(text, encoding="utf-8")
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={folder / 'profile'}",
    ]
    result = subprocess.run(
        [*command, "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        env=browser.environment(),
    )
    assert "<title>moved</title>" in result.stdout, result.stderr[-2000:]
    return result.stdout


class TestInABrowser:
    def test_the_script_computes_the_weights(self, tmp_path):
        page = in_browser(
            plot.AttentionSliders(SCORES, QUERIES, KEYS),
            tmp_path,
            {"temperature": float(np.log10(2.0)), "valid_len": 6, "is_causal": True},
        )
        cells = [float(x) for x in re.findall(r'class="cell"[^>]*fill-opacity="([\d.]+)"', page)]
        np.testing.assert_allclose(np.reshape(cells, (5, 7)), expected(2.0, 6, True), atol=1e-5)

    @pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
    def test_the_script_computes_the_curve(self, tmp_path, kernel):
        view = plot.BandwidthSlider(X, Y, AT, kernel=kernel, bandwidth=1.0)
        page = in_browser(view, tmp_path, {"bandwidth": float(np.log10(0.5)), "query": 3})
        (points,) = re.findall(r'class="estimate" points="([^"]*)"', page)
        there = view._picture(bandwidth=0.5, query=3)
        (wanted,) = re.findall(r'class="estimate" points="([^"]*)"', there)
        read = [np.array([pair.split(",") for pair in text.split()], float) for text in (points, wanted)]
        np.testing.assert_allclose(*read, atol=0.02)
        strength = [re.findall(r'class="point"[^>]*fill-opacity="([\d.]+)"', text) for text in (page, there)]
        assert len(strength[0]) == 11
        np.testing.assert_allclose(np.array(strength[0], float), np.array(strength[1], float), atol=2e-4)


CELL = """
import numpy as np, qkv, re
from qkv import plot
view = plot.AttentionSliders(np.arange(6.0).reshape(2, 3), temperature=1.0)
box = view.widget()
temperature, keys, causal, picture = box.children
before = picture.value
temperature.value = 0.5
keys.value = 2
causal.value = True
cells = [float(x) for x in re.findall('class="cell"[^>]*fill-opacity="([0-9.]+)"', picture.value)]
assert picture.value != before
assert [w.description for w in box.children[:3]] == ["temperature", "real keys", "causal"]
np.testing.assert_allclose(np.reshape(cells, (2, 3)), view.weights(0.5, 2, True), atol=1e-6)
curve = plot.BandwidthSlider([0.0, 1.0, 2.0], [0.0, 1.0, 0.0]).widget()
first = curve.children[-1].value
curve.children[0].value = 0.2
assert curve.children[-1].value != first
box
"""


def test_widgets_of_a_real_kernel_follow():
    pytest.importorskip("ipywidgets")
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    nbclient.NotebookClient(book, timeout=120).execute()
    (shown,) = book.cells[0].outputs
    assert "application/vnd.jupyter.widget-view+json" in shown["data"]


def test_without_ipywidgets_the_error_says_what_to_do(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "ipywidgets":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    view = plot.AttentionSliders(SCORES)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError) as caught:
        view.widget()
    assert str(caught.value) == (
        "AttentionSliders: ipywidgets must be installed because the live sliders are its widgets; pip install "
        '"qkv[notebooks]", or show the view itself, whose sliders need nothing'
    )

    @pytest.mark.parametrize(
        "view",
        [plot.AttentionSliders(SCORES, QUERIES, KEYS), plot.BandwidthSlider([0.0, 4.9], [-0.717, 5.0])],
    )
    def test_no_label_is_cut_and_controls_are_light_on_a_dark_page(self, tmp_path, view):
        pytest.importorskip("websocket", reason="needs websocket-client")
        if CHROMIUM is None:
            pytest.skip("no Chromium is installed")
        page = f'<html style="color-scheme: dark"><body>{view._repr_html_()}</body></html>'
        (tmp_path / "page.html").write_text(page, encoding="utf-8")
        with browser.served(tmp_path) as address, browser.opened(tmp_path / "profile") as tab:
            tab.open(f"{address}/page.html")
            outside = (
                "(b => [...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect()).filter("
                "t => t.left < b.left || t.right > b.right || t.top < b.top || t.bottom > b.bottom).length)"
                "(document.querySelector('svg').getBoundingClientRect())"
            )
            assert tab.run(outside) == 0
            assert tab.run("getComputedStyle(document.querySelector('input')).colorScheme") == "light"
