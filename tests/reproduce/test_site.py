"""The site: every page is whole by itself, links lead somewhere, numbers and pictures are there, states are counted."""

import json
import re
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import browser
import pytest

from qkv.plot import BandwidthSlider
from qkv.reproduce import arrays, execute, registry, report, terminal
from qkv.reproduce.site import names
from qkv.reproduce.site.pages import captions as all_captions

from .small_notebooks import write

PROSE = r"""# Queries *and* keys
## D0-01 and D0-02: a look-up of `values`

The score of <START> is
$$a = \frac{q k}{\sqrt{d}}
+ b, \qquad \lVert q \rVert^2$$
where $d_\text{model}$ costs 3 \$ and $|q|$ is small, see [the other one](b.ipynb) and [D0-03](b.ipynb).

| $k$ | value |
|---|---|
| 1 | $x_1$ |
"""
CODE = """
import numpy as np
big = np.arange(12.0).reshape(3, 4) / 7
check.close('D0-01', 'weights < 1', big, big)
check.close('D0-01', 'forty by fifty', np.ones((40, 50)) / 3, np.ones((40, 50)) / 3 + 1e-12)
check.printed('D0-01', 'digits', np.array([0.12345]), 'tensor([0.1235])')
from qkv.reproduce import arrays
check.close('D0-01', 'stored', np.array(arrays.load('D0-18/out')), 'D0-18/out')
figure('One heatmap; horizontally <Keys> $p_i$')
check.skipped('D0-02', 'everything', 'needs <weights>')
"""


class Page(HTMLParser):
    """Collects links, anchors, and whether tags are closed in order."""

    VOID = ("meta", "link", "img", "input", "br", "hr", "circle", "path", "mspace", "wbr")

    def __init__(self, text):
        super().__init__()
        self.links, self.ids, self.open = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name in ("href", "src"):
                self.links.append(value)
            if name == "id":
                self.ids.append(value)

    def handle_startendtag(self, tag, attributes):
        if tag in self.VOID:
            self.handle_starttag(tag, attributes)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture
def folder(command, no_kernels, tmp_path):
    """A site of two notebooks: one with a skipped experiment, one with a failure."""
    write(tmp_path / "notebooks", "a.ipynb", ("markdown", PROSE), ("code", CODE))
    write(
        tmp_path / "notebooks",
        "b.ipynb",
        ("markdown", "# The other\n## D0-03 Looking\n\n### Details"),
        ("code", "check.equal('D0-03', 'a number', [3, 5], [3, 4])"),
    )
    assert command("reproduce", "D0-01", "D0-02", "D0-03")[0] == 1
    return tmp_path / "reproduced"


def pages(folder):
    return {path: path.read_text(encoding="utf-8") for path in folder.rglob("*.html")}


def test_a_part_of_the_notebooks_links_to_no_other(command, no_kernels, tmp_path):
    prose = "# Some\n[Another](c.ipynb) and [D0-03](c.ipynb)\n## D0-01 Here"
    code = "check.equal('D0-01', 'a number', 1, 1)\ncheck.equal('D0-02', 'another', 1, 1)"
    write(tmp_path / "notebooks", "a.ipynb", ("markdown", prose), ("code", code))
    write(tmp_path / "notebooks", "c.ipynb", ("markdown", "# The other\n## D0-03 There"), ("code", "1"))
    assert command("reproduce", "D0-01")[0] == 0
    assert "Another and " in (tmp_path / "reproduced" / "notebooks" / "a.html").read_text(encoding="utf-8")
    assert "a.html#D0-02" not in (tmp_path / "reproduced" / "index.html").read_text(encoding="utf-8")
    check_links(tmp_path / "reproduced", {"index.html", "a.html"})


def test_links_lead_somewhere_and_nothing_asks_a_network(folder):
    check_links(folder, {"index.html", "a.html", "b.html"})


def check_links(folder, names):
    parsed = {path: Page(text) for path, text in pages(folder).items()}
    assert {path.name for path in parsed} == names
    for path, page in parsed.items():
        assert len(page.ids) == len(set(page.ids))
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme == "data":
                continue
            assert (parts.scheme, parts.netloc) == ("", ""), link
            assert not link.startswith("/"), link
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_file(), f"{path.name} links to {link}"
            if parts.fragment:
                assert parts.fragment in parsed[target].ids, f"{path.name} links to {link}"
    for path in (folder / "assets").glob("*.[cj]s*"):
        assert not re.search("https?:", path.read_text(encoding="utf-8"))


def test_formulas_have_a_font_of_their_own(folder):
    """Where the system has no font for formulas, brackets and roots would keep the size of a letter."""
    sheet = (folder / "assets" / "math.css").read_text()
    name = re.search(r'font-family: "([^"]+)"; src: url\("data:font/woff;base64,', sheet)[1]
    assert f'"{name}", math;' in (folder / "assets" / "style.css").read_text()
    assert (
        '<link rel="stylesheet" href="../assets/math.css">' in (folder / "notebooks" / "a.html").read_text()
    )
    assert "SIL OPEN FONT LICENSE" in (folder / "assets" / "math-font-license.txt").read_text()


def test_a_notebook_s_page_holds_all_of_it(folder):
    text = (folder / "notebooks" / "a.html").read_text()
    assert "<h1>Queries <em>and</em> keys</h1>" in text
    assert '<h2 id="D0-01">' in text
    assert ">A look-up of <code>values</code></a>" in text
    assert '<span class="label skipped">D0-02</span>' in text
    assert text.count('<math display="block"') == 1
    assert "&lt;START&gt;" in text
    assert '<a href="b.html">the other one</a>' in text
    assert '<a href="b.html#D0-03"><span class="nobreak">D0-03</span></a>' in text
    assert '<div class="wide"><table>' in text
    assert '<a href="a.ipynb" download>' in text
    assert '<a rel="next" href="b.html">' in text
    assert '<span class="kn">import</span>' in text  # highlighted
    (notebook,) = (json.loads(path.read_text()) for path in (folder / "notebooks").glob("a.ipynb"))
    assert notebook["cells"][0]["source"]


def test_checks_show_both_sides_in_numbers(folder):
    text = (folder / "notebooks" / "a.html").read_text()
    headings = [
        re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r'<small class="origin">.*?</small>', text)
    ]
    assert headings == ["the document prints", "PyTorch computes (stored)"]
    assert '<th scope="col">expected</th>' in text
    assert "the document says" not in text
    assert "qkv gives" in text
    rows = "0.0000  0.1429  0.2857  0.4286\n0.5714  0.7143  0.8571  1.0000\n1.1429  1.2857  1.4286  1.5714"
    assert text.count(rows) == 2
    assert text.count("float64 (40, 50), the first 4 × 5") == 2
    assert "0.3333  0.3333  0.3333  0.3333  0.3333  …" in text
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))
    assert "largest difference 1e-12, allowed 1e-9 relative + 1e-11 absolute" in words
    assert "tensor([0.1235])" in text
    assert "weights &lt; 1" in text
    assert '<td class="side" colspan="2" data-name="skipped"><span>needs &lt;weights&gt;</span></td>' in text


def test_what_passed_is_folded_and_what_did_not_is_not(folder):
    text = (folder / "notebooks" / "a.html").read_text()
    folded = re.search(r'<details class="passed">(.*?)</details>', text, re.S)[1]
    assert "4 checks passed" in folded
    assert re.findall(r'<tr id="check-\d" class="(\w+)">', folded) == ["ok"] * 4
    assert '<tr id="check-4" class="skipped">' in text.replace(folded, "")
    assert "<b>Skipped:</b> <a" in text
    assert '<button class="unfold" type="button" aria-pressed="false" hidden>' in text
    other = (folder / "notebooks" / "b.html").read_text()
    assert '<details class="passed"' not in other
    assert '<tr id="check-0" class="failed">' in other


@pytest.mark.skipif(browser.program() is None, reason="no Chromium on this machine")
def test_a_button_and_a_link_unfold_what_passed(folder, tmp_path):
    pytest.importorskip("websocket", reason="needs websocket-client")
    opened = "document.querySelector('details.passed').open"
    with browser.served(folder) as address, browser.opened(tmp_path) as tab:
        tab.resize(390, 844)
        tab.open(f"{address}/notebooks/a.html")
        assert tab.run(opened) is False
        tab.run("document.querySelector('button.unfold').click()")
        assert tab.run(opened) is True
        assert tab.run("document.documentElement.scrollWidth") <= 390
        tab.run("document.querySelector('button.unfold').click()")
        assert tab.run(opened) is False
        tab.run("location.hash = '#check-2'")
        tab.wait(lambda: tab.run(opened))
        assert tab.complaints == []


def test_the_index_leads_to_its_documents_and_names_what_was_skipped(command, no_kernels, tmp_path):
    for name, id in (("a", "D0-01"), ("b", "D3-07"), ("c", "T-LM")):
        code = f"check.equal('{id}', 'a number', 1, 1)\ncheck.skipped('{id}', 'more', 'needs <weights>')"
        write(
            tmp_path / "notebooks", f"{name}.ipynb", ("markdown", f"# {name}\n## {id} Here"), ("code", code)
        )
    write(tmp_path / "notebooks", "z.ipynb", ("markdown", "# Z"), ("code", "check.equal('D0-01', 'z', 1, 1)"))
    assert command("reproduce")[0] == 1  # most experiments have no notebook here
    text = (tmp_path / "reproduced" / "index.html").read_text(encoding="utf-8")
    jumps = re.search(r'<nav class="jumps".*?</nav>', text, re.S)[0]
    keys = re.findall(r'href="#(\w+)"', jumps)
    assert keys == ["D0", "D3", "T", "all"]
    assert re.findall(r'<h2 id="(D0|D3|T|all)">', text) == keys
    assert "<li>D3-07 more<small>needs &lt;weights&gt;</small></li>" in text
    order = registry.reading_order(tmp_path / "notebooks")
    assert [[path.stem for path in paths] for _, paths in order] == [["a"], ["b"], ["c"], ["z"]]
    assert [title for title, _ in order] == [
        *(registry.documents()[key] for key in keys[:3]),
        "All documents",
    ]


def test_the_slider_of_a_notebook_is_on_its_page(command, no_kernels, tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    view = BandwidthSlider([0.0, 1.0], [0.0, -1.5])
    html, run = view._repr_html_(), execute.run  # another id at each display

    def with_slider(notebooks, cores, progress, timeout=0):
        found = run(notebooks, cores, progress, timeout)
        data = {"text/html": html, "text/plain": repr(view)}
        found[0].notebook.cells[-1].outputs.append(nbformat.v4.new_output("execute_result", data))
        return found

    monkeypatch.setattr(execute, "run", with_slider)
    code = "check.equal('D0-01', 'a number', 1, 1)"
    write(tmp_path / "notebooks", "a.ipynb", ("markdown", "# A\n## D0-01 Here"), ("code", code))
    assert command("reproduce", "D0-01")[0] == 0
    text = (tmp_path / "reproduced" / "notebooks" / "a.html").read_text(encoding="utf-8")
    assert f'<div class="output html">{html}' in text


def test_figures_are_large_and_say_what_is_seen(folder):
    text = (folder / "notebooks" / "a.html").read_text()
    assert 'class="zoom" href="../figures/D0-01.png"' in text
    title = registry.experiments()["D0-01"].title
    assert f'alt="{title}. One heatmap; horizontally &lt;Keys&gt; $p_i$"' in text
    assert f'<b>D0-01</b> {title}. <span class="dot ok"' in text


def test_captions_are_sentences():
    captions = all_captions()
    assert set(arrays.figures()) <= set(captions)
    wrong = {name: text for name, text in captions.items() if not re.fullmatch(r"[^.].*[^.]\.", text)}
    assert wrong == {}


def test_the_index_counts_states_and_lists_failures_first(folder):
    text = (folder / "index.html").read_text()
    assert "<b>1</b><span>of 3 experiments ok</span>" in text
    assert "<b>5</b><span>checks, 1 failed</span>" in text  # what is skipped was not checked
    assert re.findall(r'data-state="(\w+)" data-search', text) == ["ok", "skipped", "failed"]
    assert re.findall(r'data-state="(\w+)" aria-pressed="false"[^>]*>\w+ <b>(\d)</b>', text) == [
        ("failed", "1"),
        ("skipped", "1"),
        ("ok", "1"),
    ]
    assert text.index('id="failures"') < text.index('role="search"') < text.index('class="document"')
    assert '<a href="notebooks/b.html">b.ipynb</a>, cell 1' in text
    assert "expected [3, 4]; 4 at [1]" in text
    assert "forty by fifty" in re.findall(r'data-search="([^"]+)"', text)[0]
    assert "138 experiments of 141 have not been run into this folder" in text
    for word in ("date", "processor", "instruction set", "NumPy", "2026-01-02 03:04"):
        assert word in text


def test_what_is_skipped_does_not_fail(command, no_kernels, tmp_path):
    cell = "check.equal('D0-01', 'a number', 3, 3)\ncheck.skipped('D0-02', 'everything', 'no weights')"
    write(tmp_path / "notebooks", "a.ipynb", ("markdown", "## D0-01 and D0-02"), ("code", cell))
    status, out, _ = command("reproduce", "D0-01", "D0-02", "--verbose")
    assert status == 0
    assert "skipped D0-02     everything  [skipped]  no weights" in out
    assert "2 experiments, 1 check, all ok, 1 experiment skipped" in out
    assert "\nSkipped:\n  D0-02 everything: no weights\n" in out
    assert (
        '<tr id="check-1" class="skipped">' in (tmp_path / "reproduced" / "notebooks" / "a.html").read_text()
    )


def test_results_as_data(folder):
    stored = json.loads((folder / "results.json").read_text())
    checks = stored["notebooks"]["a.ipynb"]["checks"]
    assert [check["state"] for check in checks] == [*["ok"] * 4, "skipped"]
    assert checks[0]["id"] == "D0-01"
    assert checks[0]["cell"] == 1
    assert stored["notebooks"]["a.ipynb"]["pictures"] == [
        {"name": "D0-01", "ids": ["D0-01", "D0-02"], "caption": "One heatmap; horizontally <Keys> $p_i$"}
    ]
    assert stored["machine"]["qkv"]


def test_the_names_that_a_run_will_write(folder, tmp_path):
    found = set(names(sorted((tmp_path / "notebooks").iterdir())))
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert written - found == {"figures/D0-01.png"}
    assert found <= written


def test_an_experiment_in_several_notebooks_is_listed_where_it_has_a_heading(command, no_kernels, tmp_path):
    write(
        tmp_path / "notebooks",
        "a.ipynb",
        ("markdown", "# Errors"),
        ("code", "check.equal('D0-03', 'a number', 3, 3)"),
    )
    write(
        tmp_path / "notebooks",
        "b.ipynb",
        ("markdown", "# Looks\n## D0-03 Looking"),
        ("code", "check.equal('D0-03', 'a number', 3, 3)"),
    )
    assert command("reproduce", "D0-03")[0] == 0
    text = (tmp_path / "reproduced" / "index.html").read_text()
    assert re.findall(r'href="notebooks/(\w+)\.html#D0-03"', text) == ["b"]
    assert "All documents" in text
    assert re.search(r"<small>2 checks</small>", text)


class TestTerminal:
    def entry(self, id, *states):
        records = [
            {
                "id": id,
                "what": f"check {number}",
                "how": "exact",
                "expected": "4",
                "got": "3",
                "state": state,
                "notebook": "a.ipynb",
                "cell": number,
            }
            for number, state in enumerate(states, 1)
        ]
        return report.Entry(registry.experiments()[id], ["a.ipynb"], records, [])

    def test_numbers_and_nouns_agree(self):
        one = report.Report([self.entry("D0-01", "ok")], {})
        assert one.summary() == "1 experiment, 1 check, all ok, 0 figures"
        two = report.Report(
            [self.entry("D0-01", "ok", "ok"), self.entry("D1-01", "ok")], {"a.ipynb": "Error: x"}
        )
        assert (
            two.summary() == "2 experiments, 3 checks, all ok, 0 figures; 1 notebook did not come to the end"
        )

    def test_what_is_skipped_is_counted_apart(self):
        skipped = report.Report([self.entry("D0-01", "ok"), self.entry("T-MINILM", "skipped")], {})
        assert skipped.ok
        assert skipped.summary() == "2 experiments, 1 check, all ok, 1 experiment skipped, 0 figures"
        assert (
            report.tally(skipped.entries[1:]) == "1 experiment, 0 checks, nothing run, 1 experiment skipped"
        )

    def test_a_line_per_document_and_every_check_only_on_demand(self):
        found = report.Report(
            [self.entry("D0-01", "ok", "failed"), self.entry("D1-01", "ok")], {}, seconds=200.4
        )
        text = terminal.tell(found, "out/index.html")
        lines = text.splitlines()
        assert re.fullmatch(r"D0  Attention notes .*  1 experiment, 2 checks, 1 failed", lines[0])
        assert re.fullmatch(r"D1  Self-attention .*  1 experiment, 1 check, all ok", lines[1])
        assert "check 1" not in text
        assert lines[-1].endswith(
            "2 experiments, 3 checks, 1 failed, 0 figures in 3 min 20 s; see out/index.html"
        )
        assert lines[3:5] == ["Failures:", "  a.ipynb, cell 2, D0-01 check 2 [exact]"]
        every = terminal.tell(found, "out/index.html", verbose=True).splitlines()
        assert every[:3] == [
            "ok      D0-01     check 1  [exact]  3",
            "FAILED  D0-01     check 2  [exact]  3",
            "ok      D1-01     check 1  [exact]  3",
        ]
