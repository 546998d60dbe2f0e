"""Formulas as MathML: each of the notebooks' is converted, with the spaces and bars that browsers need."""

import json
import re

import pytest
from sweep import sweep

from qkv.reproduce import registry

pytest.importorskip("latex2mathml")
pytest.importorskip("mistune")

from qkv.reproduce.site.math_markup import mathml
from qkv.reproduce.site.prose import Headings, reader


@sweep("path", sorted(registry.find_notebooks().glob("*.ipynb")))
def test_every_formula_of_the_notebooks(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    for source in ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"):
        text = reader(Headings({}))(source)
        words = re.sub(r"<math.*?</math>|<pre>.*?</pre>|<code>.*?</code>", "", text, flags=re.DOTALL)
        assert "$" not in words
        assert "\\" not in re.sub(r"<(code|pre)>.*?</\1>", "", text, flags=re.DOTALL)


def shape(latex):
    """Return the formula's elements without attributes but widths."""
    text = mathml(latex, "inline")
    assert text.startswith("<math ")
    text = re.sub(r'<mspace width="([^"]+)" ?/>', r"<\1>", text)
    return (
        re.sub(r"<(/?\w+) [^>]*>", r"<\1>", text).removeprefix("<math><mrow>").removesuffix("</mrow></math>")
    )


def test_names_of_functions_are_identifiers_with_thin_spaces():
    assert shape(r"2 \sin x + x") == (
        "<mn>2</mn><0.1667em><mi>sin</mi><0.1667em><mi>x</mi><mo>+</mo><mi>x</mi>"
    )
    assert shape(r"\operatorname{softmax}(x)") == "<mi>softmax</mi><mo>(</mo><mi>x</mi><mo>)</mo>"
    assert shape(r"\log\operatorname{softmax}(x)").startswith("<mi>log</mi><0.1667em><mi>softmax</mi><mo>(")
    assert shape(r"\frac{1}{\ln 2}") == (
        "<mfrac><mrow><mn>1</mn></mrow><mrow><mi>ln</mi><0.1667em><mn>2</mn></mrow></mfrac>"
    )


def test_a_relation_is_an_operator():
    assert shape(r"m \sim B") == "<mi>m</mi><mo>\N{TILDE OPERATOR}</mo><mi>B</mi>"


def test_bars_keep_their_size_and_negative_spaces_are_numbers():
    assert (
        mathml(r"\lVert q \rVert^2", "inline").count('<mo stretchy="false" lspace="0" rspace="0">‖</mo>') == 2
    )
    assert "<mi>∞</mi>" in shape(r"-\infty")
    assert "<-0.1667em>" in shape(r"a\!b")


def test_what_cannot_be_converted_is_shown_as_written():
    assert mathml(r"x^2^3", "inline") == "<code>x^2^3</code>"
    assert mathml(r"a < \left(", "block").startswith("<code>a &lt; ")
