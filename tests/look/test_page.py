"""`qkv look`: the page, its table, and what is refused."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from qkv.cli import main
from qkv.plot.measures_table import MeasuresTable

WORDS = ["[CLS]", "the", "cat", ",", "the", "[SEP]"]


def stored(path, **changes):
    rng = np.random.default_rng(0)
    weights = rng.random((3, 2, 6, 6)).astype("float32")
    arrays = {"weights": weights / weights.sum(-1, keepdims=True), "tokens": np.array(WORDS), **changes}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return arrays["weights"]


def test_the_page_of_weights(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    weights = stored("my weights.npz")
    assert main(["look", "my weights.npz"]) == 0
    assert capsys.readouterr().out == "my-weights.html\n"
    text = (tmp_path / "my-weights.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not re.search(r'(?:src|href)="', text)
    data = [
        json.loads(part) for part in re.findall(r'<script type="application/json">(.*?)</script>', text, re.S)
    ]
    assert len(data) == 3
    table = data[0]
    assert table["names"] == [
        "entropy",
        "distance",
        "previous",
        "self",
        "first",
        "duplicate",
        "induction",
        "separators",
    ]
    assert [row[:2] for row in table["rows"]] == [list(place) for place in np.ndindex(3, 2)]
    first = weights[..., 0].mean(-1)
    np.testing.assert_allclose([row[2 + 4] for row in table["rows"]], first.ravel(), atol=1e-5)
    marks = [word in ("[SEP]", ",") for word in WORDS]
    np.testing.assert_allclose(
        [row[-1] for row in table["rows"]], weights[..., marks].sum(-1).mean(-1).ravel(), atol=1e-5
    )


def test_a_column_of_nothing_is_left_out():
    table = MeasuresTable({"entropy": [[1.0, np.nan]], "separators": [[np.nan, np.nan]]})._data()
    assert table["names"] == ["entropy"]
    assert table["rows"] == [[0, 0, 1.0]]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"tokens": None}, "must hold the arrays weights and tokens; got weights"),
        ({"tokens": np.array(WORDS[:5])}, r"tokens \(6,\) to match them; got weights float32, tokens \(5,\)"),
        (
            {"weights": np.ones((2, 6, 6))},
            r"weights must be \(layers, H, L, L\), none of them 0; got \(2, 6, 6\)",
        ),
        ({"weights": np.ones((2, 0, 6, 6))}, r"weights must be \(layers, H, L, L\), none of them 0"),
        ({"weights": np.ones((2, 2, 6, 6), int)}, r"weights must be floats"),
    ],
)
def test_weights_that_do_not_fit(tmp_path, monkeypatch, capsys, changes, text):
    monkeypatch.chdir(tmp_path)
    stored("w.npz", **changes)
    assert main(["look", "w.npz"]) == 2
    assert re.search(rf"^qkv: look: .*{text}", capsys.readouterr().err)
    assert not (tmp_path / "w.html").exists()


def test_files_that_are_none(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.npz").write_bytes(b"no zip")
    np.savez("pickled.npz", weights=np.array([{}], dtype=object), tokens=np.array(WORDS))
    for name in ("bad.npz", "pickled.npz"):
        assert main(["look", name]) == 2
        assert "must be an .npz file with the arrays weights and tokens" in capsys.readouterr().err
    assert main(["look", "absent.npz"]) == 2
    assert "absent.npz" in capsys.readouterr().err
    assert main(["look", "--model", "absent", "text"]) == 2
    assert "absent" in capsys.readouterr().err


def test_the_page_of_a_model(tmp_path, monkeypatch, capsys):
    pytest.importorskip("tokenizers")
    from qkv import models

    monkeypatch.chdir(tmp_path)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", ",", "sleeps"]
    config = models.BertConfig(
        vocab_size=len(words),
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=7,
        max_position_embeddings=16,
    )
    models.BertModel(config).save_pretrained(tmp_path / "tiny")
    (tmp_path / "tiny" / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    assert main(["look", "--model", "tiny", "the cat, the cat sleeps"]) == 0
    assert capsys.readouterr().out == "tiny.html\n"
    text = (tmp_path / "tiny.html").read_text(encoding="utf-8")
    table = json.loads(re.search(r'<script type="application/json">(.*?)</script>', text, re.S)[1])
    assert len(table["rows"]) == 6
    assert "sleeps" in text
