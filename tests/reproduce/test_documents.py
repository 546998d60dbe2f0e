"""What is said against the documents: each accusation quotes the line that it means, which is in the document."""

import json
import os
import re
from pathlib import Path

import pytest

from qkv.reproduce import registry

from . import documents

PAGE = registry.find_notebooks() / "errors_in_the_documents.ipynb"
_QUOTE = re.compile(r"(`+) ?(.+?) ?\1")


def rows():
    """Return document, line of the table, and the cells of each accusation of the page."""
    for cell in json.loads(PAGE.read_text(encoding="utf-8"))["cells"]:
        lines = "".join(cell["source"]).splitlines() if cell["cell_type"] == "markdown" else ()
        for line in lines:
            found = re.match(r"\| \[D(\d)-\d\d\]", line)
            if found:
                yield f"00{found[1]}", [part.strip() for part in line.strip("|").split("|")]


def unquoted(text):
    """Return what a cell of quotes holds beside them."""
    return re.sub(r"[\s…]", "", _QUOTE.sub("", text))


def test_every_accusation_quotes_its_document():
    stored, accusations = documents.read(), list(rows())
    assert len(accusations) > 50
    missing = [
        (number, quote)
        for number, (_, quotes, _) in accusations
        for _, quote in _QUOTE.findall(quotes) or [("", quotes)]
        if documents.digest(quote) not in stored[number]
    ]
    assert missing == []
    assert [quotes for _, (_, quotes, _) in accusations if unquoted(quotes)] == []


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("000", "Epanechnikov kernel"),
        ("000", "x_train, _ = torch.sort(torch.rand(m) * 5)"),
        ("003", "decoder 第二个输入为 argmax(x), 产生 y"),
        ("001", "एक नियमित ड्रॉपआउट लगभग 10-30% होता है"),
    ],
)
def test_what_a_document_does_not_say_is_not_found(number, text):
    assert documents.digest(text) not in documents.read()[number]


def test_every_word_counts():
    said = "the reason why divided by is just because it performs better in practice"
    assert documents.digest(said) in documents.read()["000"]
    for word in said.split():
        assert documents.digest(said.replace(word, "once", 1)) not in documents.read()["000"]


@pytest.mark.skipif("QKV_DOCUMENTS" not in os.environ, reason="QKV_DOCUMENTS names no folder with the texts")
def test_what_is_stored_is_made_from_the_documents():
    assert documents.made_from(Path(os.environ["QKV_DOCUMENTS"])) == documents.read()
