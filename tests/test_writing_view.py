"""The page of a text as it was written: every number on it is one of the Writing."""

from __future__ import annotations

import base64
import json
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
from look.test_writing import tiny
from test_html import EVIL, Reader
from test_view_pages import CONTRAST, choose, html, note, opened, press, told

import qkv
from qkv import look, models, plot
from qkv.cli import main

__all__ = ["opened"]  # the fixture
N, PROMPTS = 5, [[5, 9, 11, 7], [8, 13]]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def named(ids):
    return [f"t{one}" for one in ids]


def written(kind="llama", **options):
    qkv.manual_seed(4)
    options = {"max_new_tokens": N, "method": "greedy", **options}
    return look.generate(tiny(kind), PROMPTS[:1] if kind in ("t5", "bart") else PROMPTS, **options)


WRITINGS = {
    "a prompt": lambda: (written(), 0),
    "a shorter prompt": lambda: (written(), 1),
    "rotary, window, softcap": lambda: (written("gemma2"), 0),
    "ALiBi": lambda: (written("bloom"), 1),
    "drawn": lambda: (written(method="sample", temperature=0.6, top_k=5), 0),
    "a source": lambda: (written("t5"), 0),
    "another source": lambda: (written("bart"), 0),
}


def check(data, writing, item):
    """Compare all that a script gets with what the Writing says."""
    words, count = data["words"], len(writing.ids[item])
    assert data["layers"] == list(range(len(data["lens"])))
    step = 0.51 / data["codes"]
    sides = [side for side in writing.looks(item) if side]
    assert [side["grows"] for side in data["sides"]] == [1, 0][: len(sides)]
    for about, layers in zip(data["sides"], sides, strict=True):
        codes = np.frombuffer(base64.b64decode(about["weights"]), {2: "<u2", 1: "|u1"}[data["bytes"]])
        at = 0
        for layer in layers:
            for head in layer:
                for place, row in enumerate(head):
                    read = about["first"] + about["grows"] * place
                    np.testing.assert_allclose(codes[at : at + read] / data["codes"], row[:read], atol=step)
                    assert not row[read:].any()
                    at += read
        assert at == len(codes)
    for place in range(count):
        chosen, *candidates = data["steps"][place]
        given = [(writing.chosen[item][place], chosen)]
        given += zip(writing.candidates[item][place], candidates, strict=True)
        for one, (word, *numbers) in given:
            assert words[word] == f"t{one.id}"
            np.testing.assert_allclose(numbers, [one.probability, one.drawn][: len(numbers)], rtol=1e-5)
            assert len(numbers) == 1 + data["sampled"]
    logits = writing.logit_lens()[:, item, :count].astype(float)
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    best = logits.argmax(-1)
    assert [[words[word] for word, _ in layer] for layer in data["lens"]] == [named(row) for row in best]
    np.testing.assert_allclose([[q for _, q in layer] for layer in data["lens"]], p.max(-1), rtol=1e-5)


def data_of(view):
    return json.loads(Reader(view._repr_html_()).text["script"][0])


@pytest.mark.parametrize("case", WRITINGS)
def test_every_number_of_the_page_is_one_of_the_writing(case):
    writing, item = WRITINGS[case]()
    view = plot.writing_view(writing, named, item=item)
    page = Reader(view._repr_html_())
    check(json.loads(page.text["script"][0]), writing, item)
    spans = [text for text in page.text["span"] if text.startswith("t")]
    prompt, ids = named(writing.prompts[item]), named(writing.ids[item])
    start = [] if writing.start_id is None else [f"t{writing.start_id}"]
    assert spans == [*prompt, *start, *ids]
    kinds = [a["class"] for a in page.all("span") if a["class"].startswith("token")]
    assert kinds == ["token"] * (len(spans) - len(ids)) + ["token written"] * len(ids)


def wrong_head(view):
    view.sides[0][1][0] = view.sides[0][1][0][::-1]


def a_step_late(view):
    view.sides[0][1][1] = np.roll(view.sides[0][1][1], 1, axis=1)


def another_layer(view):
    view.lens = view.lens[::-1]


def another_candidate(view):
    view.candidates = [step[::-1] for step in view.candidates]


@pytest.mark.parametrize("mutation", [wrong_head, a_step_late, another_layer, another_candidate])
def test_a_page_with_other_numbers_is_seen(mutation):
    writing = written()
    view = plot.writing_view(writing, named)
    mutation(view)
    with pytest.raises(AssertionError):
        check(data_of(view), writing, 0)


def percents(tab, table):
    """The rows of a table beside the text: words, numbers, whether it is marked."""
    rows = tab.run(
        f"[...document.querySelectorAll('.beside table')[{table}].tBodies[0].rows].map(r => "
        "[r.className, r.querySelector('.word').textContent, "
        "[...r.querySelectorAll('.digits')].map(c => c.textContent)])"
    )
    return [(name, word, [float(x) for x in numbers]) for name, word, numbers in rows]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_the_page_on_every_ground(opened, width, theme):
    tab = opened(html(plot.writing_view(written("t5"), named)), width=width, theme=theme)
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run("document.querySelector('.qkv-view').classList.contains('dark')") == (theme == "dark")
    assert tab.run(CONTRAST) > 7
    assert tab.run("document.querySelector('.stage').offsetHeight") > 100


def test_the_picture_is_for_those_without_scripts(opened):
    view = plot.writing_view(written(), named)
    assert set(view._repr_mimebundle_()) == {"text/plain", "text/html", "image/png"}
    tab = opened(html(view).replace("<script>", "<!--").replace("</script></div>", "--></script></div>"))
    assert tab.run("document.querySelector('.still').naturalWidth") > 300
    assert tab.run("getComputedStyle(document.querySelector('.stage')).display") == "none"


@pytest.mark.parametrize(("width", "theme"), [(1400, "light"), (390, "dark")])
def test_what_is_pointed_at_is_told(opened, width, theme):
    writing = written(method="sample", temperature=0.6, top_k=5)
    tab = opened(html(plot.writing_view(writing, named, layer=1, head=2)), width=width, theme=theme)
    assert tab.run("document.documentElement.scrollWidth") <= width
    weights, text = writing.looks()[0], named([*writing.prompts[0], *writing.ids[0]])

    def shown(step, layer, head):
        table = weights[layer][:, step]
        row = table.mean(0) if head is None else table[head]
        first, found = note(tab).split(" looked at:")
        assert first == text[len(text) - N + step]
        assert max(told(found).values()) == pytest.approx(row.max(), abs=1e-4)
        titles = tab.run("[...document.querySelectorAll('.text .token')].map(s => s.title)")
        read = len(text) - N + step
        np.testing.assert_allclose([float(title) for title in titles[:read]], row[:read], atol=1e-4)
        assert titles[read:] == [""] * (N - step)
        grounds = tab.run("[...document.querySelectorAll('.text .token')].map(s => s.style.backgroundColor)")
        assert all(grounds[:read])
        assert not any(grounds[read:])
        assert tab.run("document.querySelector('.token.chosen').textContent") == first
        candidates, lens = percents(tab, 0), percents(tab, 1)
        for one, (name, word, (p, drawn)) in zip(writing.candidates[0][step], candidates, strict=False):
            assert word == f"t{one.id}"
            assert (p, drawn) == pytest.approx((one.probability, one.drawn), abs=1e-4)
            assert (name == "chosen") == (one.id == writing.ids[0][step])
        assert sum(name == "chosen" for name, _, _ in candidates) == 1
        assert [name for name, _, _ in lens].index("chosen") == layer
        best = writing.logit_lens(layer)[0, step].argmax()
        assert lens[layer][1] == f"t{best}"

    shown(0, 1, 2)
    span = "document.querySelectorAll('.written')[{}]"
    tab.run(span.format(3) + ".dispatchEvent(new MouseEvent('mouseenter'))")
    shown(3, 1, 2)
    tab.run("document.querySelector('.texts').dispatchEvent(new MouseEvent('mouseleave'))")
    shown(0, 1, 2)
    choose(tab, "layer", "2")
    choose(tab, "head", "mean")
    tab.run(span.format(1) + ".click()")
    shown(1, 2, None)
    press(tab, "ArrowRight", 2)
    shown(3, 2, None)
    press(tab, "ArrowLeft")
    shown(2, 2, None)


def test_a_source_and_what_was_written_are_coloured_together(opened):
    writing = written("t5")
    tab = opened(html(plot.writing_view(writing, named, head=1, token=2)))
    own, cross = writing.looks()
    for place, row in ((1, cross[0][1, 2]), (0, own[0][1, 2, :3])):
        titles = tab.run(
            f"[...document.querySelectorAll('.text[data-side=\"{place}\"] .token')].map(s => s.title)"
        )
        np.testing.assert_allclose([float(title) for title in titles if title], row, atol=1e-4)
    first, source, read = note(tab).split("\n")
    assert first == f"t{writing.ids[0][2]} looked at:"
    for line, name, row in ((source, "source: ", cross[0][1, 2]), (read, "written: ", own[0][1, 2, :3])):
        assert line.startswith(name)
        found = sorted(told(line.removeprefix(name)).values())
        assert found[-1] == pytest.approx(row.max(), abs=1e-4)


def test_tokens_are_text_and_nothing_else(opened, tmp_path):
    model = models.CausalLM(17, 8, 2, 2)
    writing = look.generate(model, [[1, 2, 3]], max_new_tokens=3)
    for tokens in (EVIL, lambda ids: [EVIL[one % 6] for one in ids]):
        view = plot.writing_view(writing, tokens, title="<b>title</b>")
        page = Reader(view._repr_html_())
        assert page.text["h3"] == ["<b>title</b>"]
        assert not page.all("b")
        assert [image["class"] for image in page.all("img")] == ["still"]
        tab = opened(html(view))
        assert tab.run("document.images.length") == 0
    for suffix in (".html", ".svg", ".pdf", ".png"):
        view.save(tmp_path / f"view{suffix}")
        assert (tmp_path / f"view{suffix}").stat().st_size > 1000
    assert not re.search(r'(?:src|href)="(?!data:image/png)', (tmp_path / "view.html").read_text())


def test_what_names_tokens():
    writing = look.generate(models.CausalLM(17, 8, 2, 2), [[1, 2, 3]], max_new_tokens=3)
    text = data_of(plot.writing_view(writing, list("abcdef")))["words"]
    unknown = {f"#{one}" for one in range(17)}
    assert set(text) - unknown <= set("abcdef")

    def some(ids):
        if max(ids) > 3:
            raise ValueError("no token")
        return named(ids)

    words = data_of(plot.writing_view(writing, some))["words"]
    assert {"t1", "t2", "t3"} <= set(words) <= {"t0", "t1", "t2", "t3"} | unknown
    fig, axes = plot.writing_view(writing, named, token=-1)
    assert [ax.get_title() for ax in axes] == [
        "where the outlined token looked: layer 0, the mean of its heads",
        "",
        "",
    ]
    assert [ax.get_title(loc="left") for ax in axes[1:]] == ["what could follow", "by layer, from 0"]
    widths = [bar.get_width() for bar in axes[1].patches]
    assert widths == pytest.approx([one.probability for one in writing.candidates[0][-1]])
    assert fig is not None


def test_a_page_that_would_be_too_large_and_the_length_that_fits(tmp_path):
    model = models.CausalLM(17, 64, 32, 12)
    prompt = [list(range(1, 17)) * 8]
    writing = look.generate(model, prompt, max_new_tokens=64)
    with pytest.raises(
        ValueError, match=r"^writing_view: writing must have at most \d+ new tokens after"
    ) as refused:
        plot.writing_view(writing, named)
    most = int(re.search(r"at most (\d+) new tokens after these 128", str(refused.value))[1])
    view = plot.writing_view(look.generate(model, prompt, max_new_tokens=most), named)
    view.save(tmp_path / "page.html")
    assert 3_000_000 < (tmp_path / "page.html").stat().st_size < 4_000_000
    data = data_of(view)
    assert data["bytes"] == 1
    assert "rounded to 0.002" in view._repr_html_()
    part = data_of(plot.writing_view(writing, named, layers=[3, -1], layer=11))
    assert (part["layers"], part["layer"], part["bytes"]) == ([3, 11], 1, 2)
    prompt = [[1, 2, 3, 4] * 3000]
    model = models.CausalLM(17, 64, 32, 16)
    with pytest.raises(
        ValueError, match=r"at most 1 new token after \d+ because .*; got 1 after 12000; layers="
    ):
        plot.writing_view(look.generate(model, prompt, max_new_tokens=1), named)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"layer": 3}, ValueError, "layer must be from 0 to 2, .*; got 3"),
        ({"layers": [0, 5]}, ValueError, "layers must be from 0 to 2, .*; got 5"),
        ({"layers": [0], "layer": 1}, ValueError, r"layer must be one of layers = \[0\]; got 1"),
        ({"head": 4}, ValueError, "head must be from 0 to 3"),
        ({"token": 5}, ValueError, "token must be from 0 to 4, .* 5 written tokens; got 5"),
        ({"item": 2}, ValueError, "item must be from 0 to 1"),
        ({"tokens": ["a"]}, ValueError, "tokens must have 9 entries"),
        (
            {"tokens": "abcdefghi"},
            TypeError,
            "tokens must be a Tokenizer, a function or a sequence of strings",
        ),
        ({"writing": np.ones((2, 2))}, TypeError, "writing must be what look.generate returns"),
        ({"writing": "queries"}, ValueError, "writing must hold weights, as by generate"),
        (
            {"writing": "body.layers.1.*weights"},
            ValueError,
            "writing must hold the weights of all 3 layers .*; got 1;",
        ),
    ],
)
def test_rejections(options, error, message):
    given = {"tokens": named, **options}
    if given.setdefault("writing", written()) is not None and isinstance(given["writing"], str):
        given["writing"] = written(keep=given["writing"])
    with pytest.raises(error, match=f"^writing_view: {message}"):
        plot.writing_view(given.pop("writing"), given.pop("tokens"), **given)


def test_the_command_refuses_what_does_not_go_together(capsys):
    together = "because --model PATH --prompt TEXT --write N go together"
    for arguments, message in (
        (["--prompt", "a"], f"write must be given {together}"),
        (["--write", "3"], f"prompt must be given {together}"),
        (["--prompt", "a", "--write", "3"], f"model must be given {together}"),
        (["text", "--model", "m", "--prompt", "a", "--write", "3"], f"what must not be given {together}"),
        (
            ["--model", "m", "--prompt", "a", "--write", "3", "--target", "b"],
            f"target must not be given {together}",
        ),
        (["--model", "m", "--prompt", "a", "--write", "0"], "write must be at least 1"),
        ([], "what must be given, a text for the model or an .npz file"),
    ):
        assert main(["look", *arguments]) == 2
        assert f"qkv: look: {message}" in capsys.readouterr().err
