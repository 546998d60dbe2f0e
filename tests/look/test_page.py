"""`qkv look`: the page, its table, and what is refused."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from qkv.cli import main
from qkv.plot.views.measures_table import MeasuresTable

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
    assert not re.search(r'(?:src|href)="(?!data:image/png)', text)
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


def test_a_page_replaces_pages_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    stored("w.npz")
    for name in ("w.html", "mine.txt"):
        (tmp_path / name).write_text("precious")
    assert main(["look", "w.npz"]) == 2
    told = "look: output must be a new file or a page of qkv look because it is replaced; got w.html, another file"
    assert told in capsys.readouterr().err
    assert main(["look", "w.npz", "--output", "mine.txt"]) == 2
    assert [(tmp_path / name).read_text() for name in ("w.html", "mine.txt")] == ["precious"] * 2
    capsys.readouterr()
    for _ in range(2):  # its own page is replaced
        assert main(["look", "w.npz", "--output", "other.html"]) == 0
        assert capsys.readouterr().out == "other.html\n"
    (tmp_path / "folder").mkdir()
    assert main(["look", "w.npz", "--output", "folder"]) == 2
    assert (
        "look: output must be a file because the page is one; got the folder folder"
        in capsys.readouterr().err
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "folder",
        "mine.txt",
        "other.html",
        "w.html",
        "w.npz",
    ]


def test_a_text_without_a_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["look", "hello you"]) == 2
    told = "without --model; got 'hello you'; for a text write qkv look --model FOLDER 'hello you'"
    assert told in capsys.readouterr().err


def test_measures_are_explained_and_the_text_is_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stored("w.npz")
    main(["look", "w.npz"])
    text = (tmp_path / "w.html").read_text(encoding="utf-8")
    assert '<p class="text">tokens: [CLS] the cat , the [SEP]</p>' in text
    told = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", text))
    assert (
        list(told)
        == json.loads(re.search(r'<script type="application/json">(.*?)</script>', text)[1])["names"]
    )
    assert "in nats" in told["entropy"]
    assert "in tokens" in told["distance"]
    assert all("0 to 1" in meaning for name, meaning in told.items() if name not in ("entropy", "distance"))
    assert text.count("<tr>") == 1 + 6  # the table is there without scripts


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
    np.savez_compressed("whole.npz", weights=np.ones((2, 2, 6, 6)), tokens=np.array(WORDS))
    whole = (tmp_path / "whole.npz").read_bytes()
    place = whole.index(b"weights.npy") + 40
    (tmp_path / "squeezed.npz").write_bytes(whole[:place] + b"\xff" * 8 + whole[place + 8 :])
    packing = whole.index(b"PK\x01\x02") + 10  # of the first entry: one that nothing reads
    (tmp_path / "packed.npz").write_bytes(whole[:packing] + b"\x63" + whole[packing + 1 :])
    for name in ("bad.npz", "pickled.npz", "squeezed.npz", "packed.npz"):
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


SEEN = ["<pad>", "</s>", "<unk>", "a", "dog", "cat", "sleeps", "chien"]
SIDES = {
    "vocab_size": len(SEEN),
    "d_model": 12,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}
PARTS = {"encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 3, "decoder_attention_heads": 2}
PARTS |= {"encoder_ffn_dim": 7, "decoder_ffn_dim": 5, "max_position_embeddings": 17}
ENCODER_DECODERS = {
    "t5": ("T5ForConditionalGeneration", {"d_kv": 4, "d_ff": 7, "num_layers": 2, "num_heads": 3}),
    "bart": ("BartForConditionalGeneration", PARTS),
    "marian": ("MarianMTModel", PARTS),
}


def folder_of(kind, path):
    """Write a model of random weights with a tokenizer of whole words."""
    tokenizers = pytest.importorskip("tokenizers")
    from qkv import models

    name, sizes = ENCODER_DECODERS[kind]
    entries = {"model_type": kind, "architectures": [name], **SIDES, **sizes}
    models.from_config(entries).save_pretrained(path)
    words = {word: number for number, word in enumerate(SEEN)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    made.save(str(path / "tokenizer.json"))


@pytest.mark.parametrize("kind", ENCODER_DECODERS)
def test_the_page_of_an_encoder_and_decoder(tmp_path, monkeypatch, capsys, kind):
    from qkv import look, models

    monkeypatch.chdir(tmp_path)
    folder_of(kind, tmp_path / "tiny")
    assert main(["look", "--model", "tiny", "a dog sleeps", "--target", "a chien"]) == 0
    text = (tmp_path / "tiny.html").read_text(encoding="utf-8")
    titles = re.findall(r"<h3>(.*?)</h3>", text)
    assert [title.partition(": ")[2] for title in titles] == [
        "encoder",
        "decoder",
        "decoder over the encoder",
    ]
    data = [
        json.loads(part) for part in re.findall(r'<script type="application/json">(.*?)</script>', text, re.S)
    ]
    source, read = ["a", "dog", "sleeps", "</s>"], ["<pad>", "a", "chien", "</s>"]
    for (table, heads, lines), queries, keys in zip(
        (data[0:3], data[3:6], data[6:9]), (source, read, read), (source, source, source), strict=True
    ):
        keys = read if table is data[3] else keys
        assert [heads["queries"], heads["keys"], lines["queries"], lines["keys"]] == 2 * [queries, keys]
    assert data[6]["names"] == ["entropy", "first", "separators"]
    model = models.from_pretrained(tmp_path / "tiny")
    recording = look.record(model, np.array([[3, 4, 6, 1]]), np.array([[0, 3, 7, 1]]))
    crossing = [name for name in recording.names() if "multihead" in name]
    separators = [row[2 + 2] for row in data[6]["rows"]]
    expected = [recording[name][0, :, :, 3].mean(-1) for name in crossing]
    np.testing.assert_allclose(separators, np.concatenate(expected), atol=1e-5)


def test_a_decoder_reads_what_the_model_writes(tmp_path, monkeypatch, capsys):
    from qkv import models

    monkeypatch.chdir(tmp_path)
    folder_of("bart", tmp_path / "tiny")
    assert main(["look", "--model", "tiny", "a dog"]) == 0
    text = (tmp_path / "tiny.html").read_text(encoding="utf-8")
    data = [
        json.loads(part) for part in re.findall(r'<script type="application/json">(.*?)</script>', text, re.S)
    ]
    model = models.from_pretrained(tmp_path / "tiny")
    [[(written, _, _)]] = model.generate([[3, 4, 1]], max_new_tokens=17)
    assert data[7]["queries"] == [SEEN[number] for number in [0, *written[:-1]]]
    assert data[7]["keys"] == ["a", "dog", "</s>"]
    entries = json.loads((tmp_path / "tiny" / "config.json").read_text())
    (tmp_path / "tiny" / "config.json").write_text(json.dumps({**entries, "architectures": ["BartModel"]}))
    assert main(["look", "--model", "tiny", "a dog"]) == 2
    assert "look: target must be given because the model has no head to write with" in capsys.readouterr().err


def test_texts_and_models_that_do_not_fit(tmp_path, monkeypatch, capsys):
    pytest.importorskip("tokenizers")
    from qkv import models

    monkeypatch.chdir(tmp_path)
    sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 7}
    vit = {"model_type": "vit", "image_size": 4, "patch_size": 2, "num_channels": 1, **sizes}
    models.from_config(vit).save_pretrained("images")
    assert main(["look", "--model", "images", "a dog"]) == 2
    told = r"^qkv: look: model must read text because the page shows tokens; got a model of images \(vit\)"
    assert re.search(told, capsys.readouterr().err)
    folder_of("t5", tmp_path / "gpt2")
    gpt2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 8, "n_positions": 9}
    models.from_config({**gpt2, "n_embd": 12, "n_layer": 1, "n_head": 3}).save_pretrained("gpt2")
    assert main(["look", "--model", "gpt2", "a dog", "--target", "a"]) == 2
    assert (
        "look: target must be given for an encoder and decoder alone; got a PretrainedCausalLM"
        in capsys.readouterr().err
    )
    assert main(["look", "w.npz", "--target", "a"]) == 2
    assert "look: --target must be given with --model alone" in capsys.readouterr().err
    made = json.loads((tmp_path / "gpt2" / "tokenizer.json").read_text())
    (tmp_path / "gpt2" / "tokenizer.json").write_text(json.dumps({**made, "post_processor": None}))
    assert main(["look", "--model", "gpt2", ""]) == 2
    assert "look: text must have at least one token; got none" in capsys.readouterr().err
