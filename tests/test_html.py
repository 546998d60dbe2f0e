"""What notebooks show of attention and modules: whole pages, escaped text, no network."""

from __future__ import annotations

import base64
import html.parser
import json
import re

import numpy as np
import pytest

import qkv
from qkv import nn, plot

EVIL = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>", "a&b", "\"'", "]]>", "\u2028"]


class Reader(html.parser.HTMLParser):
    """Collects elements, and refuses pages whose elements are not closed in order."""

    VOID = ("meta", "line", "img", "input")

    def __init__(self, page):
        super().__init__()
        self.open, self.found, self.text = [], [], {}
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.setdefault(self.open[-1] if self.open else "", []).append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.found if name == tag]


def view(**options):
    weights = qkv.softmax(np.random.default_rng(1).normal(size=(2, 3, 6, 6)) * 3)
    return plot.head_view(list(weights), EVIL, **options), weights


def unpacked(about):
    """Return the weights that a page holds."""
    kind, steps = ("<i2", 32764) if about["signed"] else ("<u2", 65532)
    whole = np.frombuffer(base64.b64decode(about["all"]), kind).reshape(about["shape"])
    odd = [whole == steps + code for code in (1, 2, 3)]
    return np.select(odd, [-np.inf, np.inf, np.nan], whole * (about["scale"] / steps))


class TestPages:
    def test_tokens_are_text_and_nothing_else(self):
        shown, _ = view(title="<b>title</b>")
        page = Reader(shown._repr_html_())
        assert page.text["text"] == EVIL * 2
        assert page.text["h3"] == ["<b>title</b>"]
        assert [image["class"] for image in page.all("img")] == ["still"]
        assert [a.get("type") for a in page.all("script")] == ["application/json", None]

    def test_the_script_gets_all_weights_and_their_mean(self):
        shown, weights = view()
        data = json.loads(Reader(shown._repr_html_()).text["script"][0])
        assert data["queries"] == data["keys"] == EVIL
        assert data["heads"] == ["0", "1", "2", "mean"]
        np.testing.assert_allclose(unpacked(data["weights"])[:, :3], weights, atol=7.7e-6)
        np.testing.assert_allclose(unpacked(data["weights"])[:, 3], weights.mean(1), atol=7.7e-6)

    def test_the_first_head_is_there_without_a_script(self):
        shown, weights = view()
        lines = Reader(shown._repr_html_()).all("line")
        assert len(lines) == (weights[0, 0] > 0.005).sum()
        strength = [float(line["stroke-opacity"]) for line in lines]
        np.testing.assert_allclose(strength, weights[0, 0][weights[0, 0] > 0.005], atol=5.1e-4)

    def test_a_saved_page_is_whole_and_asks_no_network(self, tmp_path):
        shown, _ = view(title="a & b")
        shown.save(tmp_path / "page.html")
        text = (tmp_path / "page.html").read_text(encoding="utf-8")
        page = Reader(text)
        assert page.text["title"] == ["a & b"]
        assert text.startswith("<!DOCTYPE html>")
        (policy,) = [
            m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy"
        ]
        assert policy.startswith("default-src 'none'")
        assert all(a.get("src", "data:").startswith("data:") and "href" not in a for _, a in page.found)
        assert not re.search(
            r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(|fetch\(|XMLHttp|innerHTML", text
        )

    def test_two_views_in_one_notebook_do_not_meet(self):
        shown, _ = view()
        pages = shown._repr_html_(), shown._repr_html_(), view(title="other")[0]._repr_html_()
        ids = [Reader(page).all("div")[0]["id"] for page in pages]
        assert len(set(ids)) == 3
        for name, page in zip(ids, pages, strict=True):
            assert f"#{name} text" in page
            assert f'getElementById("{name}")' in page

    def test_what_layers_keep(self):
        stack = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 3).eval()
        stack(np.ones((1, 4, 8), "float32"))
        shown = plot.head_view(stack.attention_weights, list("abcd"))
        assert repr(shown) == "HeadView(3 layers of 2 heads, 4 queries, 4 keys)"
        one = plot.head_view(stack.attention_weights[0].numpy()[0, 0], list("abcd"))
        assert repr(one) == "HeadView(1 layer of 1 head, 4 queries, 4 keys)"

    def test_numbers_that_are_none(self):
        page = Reader(plot.head_view([[np.nan, 1.0]], ["q"], ["a", "b"])._repr_html_())
        json.loads(page.text["script"][0], parse_constant=pytest.fail)  # JSON has no NaN
        assert [line["class"] for line in page.all("line")] == ["nan", "more"]
        assert page.text["span"] == [" NaN"]


class TestModules:
    def test_the_tree_has_shapes_and_counts(self):
        layer = nn.TransformerEncoderLayer(8, 2, 16)
        page = Reader(layer._repr_html_())
        text = " ".join(" ".join(parts) for parts in page.text.values())
        assert f"{layer.num_parameters():,} parameters" in text
        assert "weight (16, 8) float32" in text
        assert "bias (16,) float32" in text
        assert "open" in page.all("details")[0]
        assert sum("open" in a for a in page.all("details")) == 1
        assert page.text["b"].count("Linear") == 6
        assert page.text["b"][0] == "TransformerEncoderLayer"

    def test_names_are_escaped(self):
        class Odd(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_module("<i>x</i>", nn.Linear(2, 3))
                self.register_parameter("<u>", nn.Parameter(np.zeros(2)))

        Odd.__name__ = "<script>"
        page = Reader(Odd()._repr_html_())
        assert not {"i", "u", "script"} & {tag for tag, _ in page.found}
        assert page.text["b"][0] == "<script>"

    def test_parameters_of_its_own_and_none(self):
        module = nn.Sequential(nn.ReLU(), nn.Linear(2, 1, bias=False))
        text = module._repr_html_()
        assert "2 parameters" in text
        assert '<div class="leaf">0: <b>ReLU</b>()</div>' in text

    def test_parameters_that_are_not_there_yet(self):
        assert "parameters appear at the first call" in nn.AdditiveAttention(4)._repr_html_()
