"""The documentation site: it is built without warnings, its links hold, and a browser shows it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import browser
import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))
PAGES = {
    "index.html": "qkv",
    "getting_started.html": "Getting started",
    "gallery.html": "Which attention for what",
    "views.html": "Looking at attention",
    "coming_from.html": "Coming from",
    "notebooks/d0_2_scoring_functions.html": "Scoring functions",
    "api/qkv.nn.html": "Layers",
    "api/generated/qkv.nn.MultiHeadAttention.html": "MultiHeadAttention",
    "api/generated/qkv.Tensor.html": "Tensor",
    "performance/index.html": "Performance",
    "design.html": "Design",
    "stability.html": "What stays as it is",
    "changelog.html": "Changelog",
}


pytestmark = pytest.mark.site


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the whole site."""
    for package in (
        "sphinx",
        "myst_nb",
        "numpydoc",
        "pydata_sphinx_theme",
        "sphinx_design",
        "sphinx_copybutton",
    ):
        pytest.importorskip(package, reason="needs the extra docs")
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("site") / "docs"
    command = [sys.executable, "-W", "ignore", DOCS / "build.py", "--output", folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def text(page):
    return re.sub(r"<[^>]+>", "", page.read_text(encoding="utf8"))


def test_every_public_name_has_a_page(site):
    from builder import reference

    for name in reference.MODULES:
        module = __import__(name, fromlist=["__all__"])
        for public in module.__all__:
            if callable(getattr(module, public)) and not (
                name == "qkv" and reference.listed_elsewhere(public)
            ):
                assert (site / "api" / "generated" / f"{name}.{public}.html").is_file(), f"{name}.{public}"


def test_a_layer_s_page_says_how_it_is_made_and_called(site):
    page = text(site / "api" / "generated" / "qkv.nn.MultiHeadAttention.html")
    assert re.search(r"MultiHeadAttention\(\s*embed_dim,\s*num_heads,", page)
    assert "layer(queries, keys=None, values=None, valid_lens=None, *, attn_mask=None" in " ".join(
        page.split()
    )
    assert "num_kv_heads" in page


def test_notebooks_are_shown_as_they_were_run(site):
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        page = (site / "notebooks" / f"{path.stem}.html").read_text(encoding="utf8")
        assert "cell_output" in page
        if "image/png" in path.read_text(encoding="utf8"):
            assert "_images/" in page


def test_notebooks_stand_in_the_order_of_the_index(site):
    from qkv.reproduce import registry

    page = (site / "notebooks" / "index.html").read_text(encoding="utf8")
    listed = re.findall(r'<li class="toctree-l1"><a class="reference internal" href="(\w+)\.html">', page)
    order = [path.stem for _, paths in registry.reading_order(ROOT / "notebooks") for path in paths]
    assert [stem for stem in listed if stem in order][-len(order) :] == order


def test_the_gallery_draws_every_variant_twice(site):
    from builder import gallery

    source = (DOCS / "gallery.md").read_text(encoding="utf8")
    variants = gallery.variants(source)
    assert len(variants) == source.count("\n### ") > 15
    page = (site / "gallery.html").read_text(encoding="utf8")
    assert page.count('class="weights only-light') == page.count('class="weights only-dark') == len(variants)
    assert page.count("<math") == len(variants)


def test_the_page_of_views_shows_each(site):
    source = (DOCS / "views.md").read_text(encoding="utf8")
    page = (site / "views.html").read_text(encoding="utf8")
    assert page.count('class="qkv-view"') == source.count("<!-- view -->") == 13
    assert "<!-- view -->" not in page


def test_formulas_need_no_script(site):
    page = (site / "notebooks" / "d0_2_scoring_functions.html").read_text(encoding="utf8")
    assert page.count("<math") > 10
    assert not re.search(r"<script[^>]*(mathjax|katex)", page, re.I)


def test_broken_links_and_networks_are_noticed(tmp_path):
    from builder import links

    (tmp_path / "a.html").write_text(
        '<h1 id="x">A</h1><a href="b.html#y">1</a><a href="#z">2</a><a href="c.html">3</a><a href="#x">4</a>'
        '<a href="https://exa mple">5</a><a href="https://example.org/">6</a><a href="ftp://example.org">7</a>'
        '<script src="https://cdn.example.org/x.js"></script><img src="d.png"><link rel="stylesheet" href="s.css">',
        encoding="utf8",
    )
    (tmp_path / "b.html").write_text("<p>B</p>", encoding="utf8")
    (tmp_path / "s.css").write_text(
        "@import 'https://fonts.example.org/f.css'; a { color: red }", encoding="utf8"
    )
    assert links.problems(tmp_path) == [
        "a.html: loads https://cdn.example.org/x.js from a network",
        "a.html: loads d.png, which is not there",
        "a.html: b.html#y has no such place",
        "a.html: #z has no such place",
        "a.html: c.html is not there",
        "a.html: https://exa mple is no URL",
        "a.html: ftp://example.org has a scheme that no reader follows",
        "s.css: loads https://fonts.example.org/f.css from a network",
    ]


def test_links_of_the_project_s_pages_lead_into_the_site():
    pytest.importorskip("matplotlib")
    from builder import pages

    moved = pages.relocated(
        "[a](docs/coming_from.md) [b](cpp/core/array.h) [c](CONTRIBUTING.md#where-things-are) [d](https://x.org) "
        "![e](f.png)",
        "README.md",
        "readme.md",
    )
    assert moved == (
        f"[a](coming_from.md) [b]({pages.SOURCE}/blob/main/cpp/core/array.h) [c](contributing.md#where-things-are) "
        "[d](https://x.org) ![e](f.png)"
    )
    with pytest.raises(SystemExit, match=r"CONTRIBUTING.md: there is no docs/missing.md"):
        pages.relocated("[a](docs/missing.md)", "CONTRIBUTING.md", "contributing.md")
    assert pages.with_references("`qkv.nn.Linear` `qkv info`\n```\n`qkv.nn`\n```") == (
        "{py:obj}`qkv.nn.Linear` `qkv info`\n```\n`qkv.nn`\n```"
    )


@pytest.fixture(scope="module")
def tab(site, tmp_path_factory):
    """The site in a browser: gives the tab and the site's address."""
    if browser.program() is None:
        pytest.skip("no Chromium on this machine")
    pytest.importorskip("websocket", reason="needs websocket-client")
    folder = tmp_path_factory.mktemp("browser")
    with browser.served(site) as address, browser.opened(folder) as opened:
        yield opened, address


class TestBrowser:
    @pytest.mark.parametrize("theme", ["light", "dark"])
    @pytest.mark.parametrize("page", PAGES)
    def test_a_page_shows_its_content_without_complaint(self, tab, page, theme):
        opened, address = tab
        opened.theme(theme)
        opened.resize(1400, 900)
        opened.open(f"{address}/{page}")
        assert PAGES[page] in opened.run("document.querySelector('h1').innerText")
        assert len(opened.run("document.querySelector('article').innerText")) > 300
        assert opened.run("document.documentElement.dataset.theme") == theme
        broken = "[...document.images].filter(i => i.offsetParent && i.complete && !i.naturalWidth).map(i => i.src)"
        assert opened.run(broken) == []
        assert opened.complaints == []

    @pytest.mark.parametrize("page", PAGES)
    def test_a_phone_does_not_scroll_sideways(self, tab, page):
        opened, address = tab
        opened.resize(390, 844)
        opened.open(f"{address}/{page}")
        assert opened.run("document.documentElement.scrollWidth") <= 390
        cut = "[...document.querySelectorAll('h1')].filter(h => h.scrollWidth > h.clientWidth).length"
        assert opened.run(cut) == 0
        assert opened.complaints == []

    @pytest.mark.parametrize("page", ["coming_from", "torch", "notebooks/errors_in_the_documents"])
    def test_a_phone_shows_all_columns_of_small_tables(self, tab, page):
        opened, address = tab
        opened.resize(390, 844)
        opened.open(f"{address}/{page}.html")
        small = "[...document.querySelectorAll('article table')].filter(t => t.rows[0].cells.length < 5)"
        assert opened.run(f"{small}.length") > 0
        assert opened.run(f"{small}.filter(t => t.scrollWidth > t.clientWidth + 1).length") == 0

    def test_checks_keep_the_ground_of_the_dark_page(self, tab):
        opened, address = tab
        opened.theme("dark")
        opened.resize(1400, 900)
        opened.open(f"{address}/notebooks/d0_2_scoring_functions.html")
        ground = "getComputedStyle(document.querySelector('.cell_output .text_html')).backgroundColor"
        assert opened.run(ground) == "rgba(0, 0, 0, 0)"

    def test_the_slider_of_a_notebook_moves(self, tab):
        opened, address = tab
        opened.open(f"{address}/notebooks/d0_1_queries_keys_values.html")
        curve = "document.querySelector('.qkv-view polyline.estimate').getAttribute('points')"
        before = opened.run(curve)
        opened.run(
            "(i => {i.value = 0.5; i.dispatchEvent(new Event('input'))})"
            "(document.querySelector('.qkv-view input[name=bandwidth]'))"
        )
        assert opened.run(curve) != before

    def test_the_gallery_shows_the_pictures_of_its_theme(self, tab):
        opened, address = tab
        opened.resize(1400, 900)
        for theme in ("light", "dark"):
            opened.theme(theme)
            opened.open(f"{address}/gallery.html")
            shown = opened.run(
                "[...document.querySelectorAll('img.weights')].filter(i => i.offsetParent).map(i => i.src)"
            )
            assert len(shown) > 15
            assert all(name.endswith(f"-{theme}.png") for name in shown)

    def test_formulas_are_drawn(self, tab):
        opened, address = tab
        opened.open(f"{address}/gallery.html")
        sizes = opened.run(
            "[...document.querySelectorAll('math')].map(m => m.getBoundingClientRect().height)"
        )
        assert min(sizes) > 12

    def test_search_finds_a_layer(self, tab):
        opened, address = tab
        opened.open(f"{address}/search.html?q=grouped+query")
        results = "[...document.querySelectorAll('#search-results li a')].map(a => a.innerText)"
        # They come one after the other.
        opened.wait(lambda: any("MultiHeadAttention" in title for title in opened.run(results)))
        assert opened.complaints == []

    def test_a_missing_file_is_a_complaint(self, tab):
        opened, address = tab
        opened.open(f"{address}/index.html")
        opened.run("fetch('no-such-file.js').then(r => r.status)")
        opened.run("setTimeout(() => { throw new Error('seen') }, 0)")
        opened.wait(lambda: opened.run("1") and any("seen" in said for said in opened.complaints))
        assert any("404" in said and "no-such-file.js" in said for said in opened.complaints)
