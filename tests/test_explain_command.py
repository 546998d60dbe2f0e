"""`qkv explain`: the page, and what is refused."""

from __future__ import annotations

import json
import re

import pytest
from look.test_page import folder_of
from models.tiny_models import TINY

from qkv import models
from qkv.cli import main


def data_of(path):
    return json.loads(
        re.findall(r'<script type="application/json">(.*?)</script>', path.read_text(encoding="utf8"), re.S)[
            0
        ]
    )


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_the_page_of_an_encoder_and_decoder(tmp_path, monkeypatch, capsys, side):
    monkeypatch.chdir(tmp_path)
    folder_of("bart", tmp_path / "tiny")
    options = ["--target", "a chien", "--side", side, "--head", "1", "--token", "-2"]
    assert main(["explain", "--model", "tiny", "a dog sleeps", *options]) == 0
    assert capsys.readouterr().out == "tiny-explained.html\n"
    data = data_of(tmp_path / "tiny-explained.html")
    read = {"encoder": ["a", "dog", "sleeps", "</s>"], "decoder": ["<pad>", "a", "chien", "</s>"]}
    assert data["tokens"] == read[side]
    assert [data["layer"], data["head"], data["query"]] == [0, 1, 2]
    assert data["keys"] == [read[side], *([read["encoder"]] if side == "decoder" else [])]
    assert "default-src 'none'" in (tmp_path / "tiny-explained.html").read_text(encoding="utf8")


def test_candidates_are_named_and_only_its_own_page_is_replaced(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder_of("t5", tmp_path / "tiny")
    for _ in range(2):
        assert main(["explain", "--model", "tiny", "a dog", "--side", "decoder", "--output", "p.html"]) == 0
    assert "chien" in json.dumps(data_of(tmp_path / "p.html")["candidates"]["labels"])
    (tmp_path / "mine.html").write_text("precious")
    capsys.readouterr()
    assert main(["explain", "--model", "tiny", "a dog", "--output", "mine.html"]) == 2
    told = "output must be a new file or a page of qkv explain because it is replaced; got mine.html, another file"
    assert told in capsys.readouterr().err
    assert (tmp_path / "mine.html").read_text() == "precious"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            ["--layer", "7"],
            "layer must be from 0 to 1, or negative from the end, because there are 2 layers; got 7",
        ),
        (["--head", "3"], "head must be from 0 to 2, .* 3 heads; got 3"),
        (["--token", "9"], "query must be from 0 to 2, .* 3 tokens; got 9"),
    ],
)
def test_what_is_not_there(tmp_path, monkeypatch, capsys, options, text):
    monkeypatch.chdir(tmp_path)
    folder_of("t5", tmp_path / "tiny")
    assert main(["explain", "--model", "tiny", "a dog", "--output", "page.html", *options]) == 2
    assert re.search(f"^qkv: explain: {text}", capsys.readouterr().err)
    assert not (tmp_path / "page.html").exists()


def test_a_model_of_images(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    models.from_config({"model_type": "vit", **TINY["vit"][0]}).save_pretrained("images")
    assert main(["explain", "--model", "images", "a dog"]) == 2
    assert "explain: model must read text because the page shows tokens; got a model of images (vit)" in (
        capsys.readouterr().err
    )
