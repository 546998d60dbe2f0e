"""Damaged, truncated and hostile folders: a clear error that names the file, never a crash or a huge allocation."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from models.folders import SIZES, change, make_folder, make_model, write
from qkv import models
from qkv.models import BertModel, SentenceEncoder

pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")
from safetensors.numpy import load_file, save_file

HUGE = 10**12


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("good"), tokenizer="tokenizer.json")


@pytest.fixture
def folder(good, tmp_path):
    return shutil.copytree(good, tmp_path / "copy")


def test_no_folder(tmp_path):
    for load in (
        BertModel.from_pretrained,
        SentenceEncoder.from_pretrained,
        models.Tokenizer.from_pretrained,
    ):
        with pytest.raises(FileNotFoundError, match=r"folder must exist; got .*nowhere"):
            load(tmp_path / "nowhere")
        (tmp_path / "file").write_text("")
        with pytest.raises(NotADirectoryError, match=r"got the file .*file"):
            load(tmp_path / "file")
    for load in (BertModel.from_pretrained, SentenceEncoder.from_pretrained):
        with pytest.raises(FileNotFoundError, match=r"config\.json: this file must exist"):
            load(tmp_path)


@pytest.mark.parametrize(
    "name", ["config.json", "modules.json", "1_Pooling/config.json", "sentence_bert_config.json"]
)
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"3",
        b"null",
        b'"text"',
        b"[" * 100_000,
        b'{"hidden_size": ' + b"9" * 5000 + b"}",
    ],
)
def test_json_that_is_none(folder, name, text):
    (folder / name).write_bytes(text)
    with pytest.raises(ValueError, match=name.replace(".", r"\.") + ": must"):
        SentenceEncoder.from_pretrained(folder)


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ({"hidden_size": "24"}, "hidden_size must be an integer; got '24'"),
        ({"hidden_size": None}, "hidden_size must be an integer; got None"),
        ({"hidden_size": [24]}, "hidden_size must be an integer"),
        ({"hidden_size": 24.0}, "hidden_size must be an integer"),
        ({"hidden_size": -24}, "hidden_size must be at least 1"),
        ({"hidden_size": 3 * HUGE}, r"hidden_size must be below 2 \*\* 31"),
        ({"vocab_size": 10**9}, r"word_embeddings\.weight must be \(1000000000, 24\) as config\.json says"),
        ({"vocab_size": 2**62}, r"vocab_size must be below 2 \*\* 31"),
        ({"vocab_size": 59}, r"word_embeddings\.weight must be \(59, 24\)"),
        ({"num_hidden_layers": HUGE}, "num_hidden_layers must be at most 10000; got 1000000000000"),
        ({"num_hidden_layers": 1}, r"must hold 1 layers encoder\.layer\.N as config\.json says; got 2"),
        ({"num_attention_heads": 10**9}, "divisible by num_attention_heads"),
        ({"num_attention_heads": 0}, "num_attention_heads must be at least 1"),
        ({"intermediate_size": 10**9}, r"intermediate\.dense\.weight must be \(1000000000, 24\)"),
        ({"max_position_embeddings": 10**9}, r"position_embeddings\.weight must be"),
        ({"type_vocab_size": 10**9}, r"token_type_embeddings\.weight must be"),
        ({"hidden_act": "mish"}, "hidden_act must be one of gelu"),
        ({"hidden_act": {}}, "hidden_act must be a string"),
        ({"layer_norm_eps": "small"}, "layer_norm_eps must be a number"),
        ({"layer_norm_eps": float("nan")}, "layer_norm_eps must be"),
        ({"hidden_dropout_prob": float("inf")}, "hidden_dropout_prob must be"),
        ({"pad_token_id": -1}, "pad_token_id must be from 0"),
        ({"id2label": {"0": "a", "2": "b"}}, "id2label must number its labels"),
        ({"id2label": "ab"}, "id2label must be a dict"),
        ({"num_labels": HUGE, "id2label": None}, "num_labels must be from 1 to 1000000"),
        ({"model_type": "gpt2"}, "model_type must be 'bert'; got 'gpt2'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type must be absolute"),
    ],
)
def test_configurations(folder, entries, text):
    change(folder / "config.json", **entries)
    with pytest.raises(ValueError, match=text) as caught:
        BertModel.from_pretrained(folder)
    assert str(folder) in str(caught.value)


def test_so_many_classes_are_not_made(folder):
    make_model(models.BertForSequenceClassification).save_pretrained(folder)
    change(folder / "config.json", id2label=None, num_labels=1_000_000)
    with pytest.raises(
        ValueError, match=r"classifier\.weight must be \(1000000, 24\) as config\.json says; got \(2, 24\)"
    ):
        models.BertForSequenceClassification.from_pretrained(folder)


def header_of(data):
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def with_header(header, rest):
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + rest


def lying_offsets(data):
    header, rest = header_of(data)
    header["pooler.dense.bias"]["data_offsets"] = [0, 2**40]
    return with_header(header, rest)


def lying_shape(data):
    header, rest = header_of(data)
    header["pooler.dense.bias"]["shape"] = [2**40]
    return with_header(header, rest)


def overflowing_shape(data):
    header, rest = header_of(data)
    header["pooler.dense.bias"]["shape"] = [2**62, 2**62]
    return with_header(header, rest)


def overlapping(data):
    header, rest = header_of(data)
    header["pooler.dense.bias"]["data_offsets"] = header["embeddings.LayerNorm.bias"]["data_offsets"]
    return with_header(header, rest)


def negative(data):
    header, rest = header_of(data)
    header["pooler.dense.bias"]["data_offsets"] = [-96, 0]
    return with_header(header, rest)


DAMAGES = {
    "empty": lambda d: b"",
    "seven bytes": lambda d: d[:7],
    "only a length": lambda d: d[:8],
    "half a header": lambda d: d[:500],
    "no numbers": lambda d: d[: 8 + int.from_bytes(d[:8], "little")],
    "one byte less": lambda d: d[:-1],
    "one byte more": lambda d: d + b"\0",
    "longest header": lambda d: b"\xff" * 8 + d[8:],
    "long header": lambda d: (2**40).to_bytes(8, "little") + d[8:],
    "header longer than the file": lambda d: len(d).to_bytes(8, "little") + d[8:],
    "no header": lambda d: bytes(8) + d[8:],
    "text": lambda d: b"not tensors at all, but a text that is long enough",
    "pickle": lambda d: b"\x80\x02}q\x00." + d,
    "lying offsets": lying_offsets,
    "lying shape": lying_shape,
    "overflowing shape": overflowing_shape,
    "overlapping": overlapping,
    "negative": negative,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_weights(folder, damage):
    path = folder / "model.safetensors"
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with pytest.raises(ValueError, match=r"model\.safetensors: must be a whole safetensors file"):
        BertModel.from_pretrained(folder)


def without(arrays, *names):
    return {k: v for k, v in arrays.items() if k not in names}


def adding(name, *shape, dtype="f4"):
    return lambda arrays: arrays | {name: np.ones(shape, dtype)}


BIAS = "pooler.dense.bias"
WRONG = {
    "missing": (lambda a: without(a, BIAS), r"missing: pooler\.dense\.bias"),
    "missing table": (
        lambda a: without(a, "embeddings.word_embeddings.weight"), r"missing: embeddings\.word_embeddings"
    ),
    "missing norm": (
        lambda a: without(a, "encoder.layer.1.output.LayerNorm.bias"), r"missing: encoder\.layer\.1\.output"
    ),
    "nothing": (lambda a: {}, "must hold the tensors of bert; missing: embeddings"),
    "shape": (adding(BIAS, 23), r"pooler\.dense\.bias must be \(24,\) as config\.json says; got \(23,\)"),
    "rank": (adding(BIAS, 24, 1), r"must be \(24,\) as config\.json says; got \(24, 1\)"),
    "transposed": (
        adding("encoder.layer.0.intermediate.dense.weight", 24, 40),
        r"must be \(40, 24\) as config\.json says; got \(24, 40\)",
    ),
    "integers": (adding(BIAS, 24, dtype="i4"), r"pooler\.dense\.bias must hold floating numbers; got I32"),
    "extra": (adding("surprise.weight", 2), r"got surprise\.weight beside them"),
    "extra in a layer": (adding("encoder.layer.1.adapter", 2), r"got encoder\.layer\.1\.adapter beside them"),
    "extra layer": (adding("encoder.layer.999999.x", 2), r"must hold 2 layers .* got 3"),
    "twice": (adding("bert." + BIAS, 24), "must hold each tensor once"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_tensors(folder, wrong):
    make, text = WRONG[wrong]
    path = folder / "model.safetensors"
    save_file(make(load_file(path)), path)
    with pytest.raises(ValueError, match=text) as caught:
        BertModel.from_pretrained(folder)
    assert str(path) in str(caught.value)


def test_no_weights(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors: this file with the weights must exist"):
        BertModel.from_pretrained(folder)


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b"\xff\xff", b'{"model": {"type": "WordPiece", "vocab": 3}}', b"[" * 100_000]
)
def test_damaged_tokenizers(folder, text):
    (folder / "tokenizer.json").write_bytes(text)
    with pytest.raises(ValueError, match=r"tokenizer\.json: must hold a tokenizer"):
        SentenceEncoder.from_pretrained(folder)


def test_tokenizers_that_do_not_fit(folder):
    write(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})  # the file counts
    whole = json.loads((folder / "tokenizer.json").read_text(encoding="utf8"))
    for word, number in (("dog", SIZES["vocab_size"]), ("extra", 2**31)):
        whole["model"]["vocab"][word] = number
        write(folder / "tokenizer.json", whole)
        with pytest.raises(
            ValueError,
            match=f"tokenizer must have ids below vocab_size = {SIZES['vocab_size']}; got {number}",
        ):
            SentenceEncoder.from_pretrained(folder)
    del whole["model"]["vocab"]["dog"], whole["model"]["vocab"]["extra"]
    whole["post_processor"]["sep"] = ["[SEP]", 1000]
    write(folder / "tokenizer.json", whole)
    with pytest.raises(ValueError, match=r"tokenizer must have ids below vocab_size = \d+; got 1000"):
        SentenceEncoder.from_pretrained(folder)
    whole["post_processor"]["sep"] = ["[SEP]", 3]
    whole["model"]["unk_token"] = "none"
    write(folder / "tokenizer.json", whole)
    with pytest.raises(ValueError, match="the tokenizer must have a number for every text; WordPiece error"):
        SentenceEncoder.from_pretrained(folder).encode("東")
    second = [{"Sequence": {"id": "B", "type_id": 0}}]  # of which the library panics
    template = {"type": "TemplateProcessing", "single": second, "pair": second, "special_tokens": {}}
    write(folder / "tokenizer.json", {**whole, "post_processor": template})
    for method in ("encode", "words", "tokens"):
        with pytest.raises(ValueError, match=f"^(encode|{method}): the tokenizer must "):
            getattr(models.Tokenizer.from_pretrained(folder), method)("dog")
    write(folder / "tokenizer.json", whole)
    with pytest.raises(ValueError, match="max_length must be at least 2, the tokens around a text; got 1"):
        models.Tokenizer.from_pretrained(folder).encode(["a"], 1)
    with pytest.raises(TypeError, match="texts must be strings; got int at position 0"):
        models.Tokenizer.from_pretrained(folder).encode([3])
    (folder / "tokenizer.json").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"tokenizer\.json: this file must exist, or vocab\.txt beside it"
    ):
        SentenceEncoder.from_pretrained(folder)
    (folder / "vocab.txt").write_bytes(b"dog\ncat\n")
    with pytest.raises(ValueError, match=r"vocab\.txt: must hold .* missing: \[UNK\], \[SEP\], \[CLS\]"):
        SentenceEncoder.from_pretrained(folder)
    (folder / "vocab.txt").write_bytes(b"\xff\xfe\n")
    with pytest.raises(ValueError, match=r"vocab\.txt: must hold words in UTF-8"):
        SentenceEncoder.from_pretrained(folder)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("modules.json", [{"type": "x.Transformer", "path": "../../etc"}], "must name folders below it"),
        ("modules.json", [{"type": "x.Transformer", "path": "/etc"}], "must name folders below it"),
        ("modules.json", [{"type": "x.Transformer", "path": "a\0b"}], "must name folders below it"),
        ("modules.json", [{"type": "x.Words", "path": ""}], r"must name a Transformer, .*; got x\.Words"),
        (
            "modules.json",
            [{"type": "x.Pooling", "path": "1_Pooling"}, {"type": "x.Transformer", "path": ""}],
            "must name a Transf",
        ),
        ("modules.json", [{"type": "x.Transformer", "path": ""}] * 2, "must name a Transformer, a Pooling"),
        ("modules.json", [{"type": 3}], "must hold objects with type and path"),
        ("modules.json", ["Transformer"], "must hold objects with type and path"),
        ("modules.json", [], "must name a Transformer; got nothing"),
        ("1_Pooling/config.json", {"word_embedding_dimension": HUGE}, "must be for rows of hidden_size = 24"),
        ("1_Pooling/config.json", {"pooling_mode": "sum"}, "pooling_mode must be of"),
        ("1_Pooling/config.json", {"pooling_mode": [3]}, "pooling_mode must be of"),
        (
            "sentence_bert_config.json",
            {"max_seq_length": HUGE},
            "max_seq_length must be from 1 to max_position_embeddings = 19",
        ),
        ("sentence_bert_config.json", {"max_seq_length": "11"}, "max_seq_length must be an integer"),
        (
            "config_sentence_transformers.json",
            {"default_prompt_name": "q"},
            "default_prompt_name must be one of prompts",
        ),
    ],
)
def test_settings_of_sentence_encoders(folder, name, value, text):
    write(folder / name, value)
    with pytest.raises(ValueError, match=text) as caught:
        SentenceEncoder.from_pretrained(folder)
    assert str(folder) in str(caught.value)


def test_a_part_whose_folder_is_missing(folder):
    write(folder / "modules.json", [{"type": "x.Transformer", "path": "0_Transformer"}])
    with pytest.raises(FileNotFoundError, match="0_Transformer"):
        SentenceEncoder.from_pretrained(folder)
    shutil.rmtree(folder / "1_Pooling")
    write(
        folder / "modules.json",
        [{"type": "x.Transformer", "path": ""}, {"type": "x.Pooling", "path": "1_Pooling"}],
    )
    with pytest.raises(FileNotFoundError, match="1_Pooling"):
        SentenceEncoder.from_pretrained(folder)


FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
KEYS = st.sampled_from(
    [*SIZES, "id2label", "num_labels", "hidden_act", "layer_norm_eps", "pad_token_id", "model_type", "x"]
)


def loads_or_complains(path):
    """Load, or raise one of the two kinds of error; what loads also runs."""
    try:
        encoder = SentenceEncoder.from_pretrained(path)
    except (ValueError, OSError) as error:
        complaint = str(error)
    else:
        assert encoder.encode("a dog").shape == (24,)
        return
    assert str(path) in complaint


@FUZZ
@given(entries=st.dictionaries(KEYS, JSON, min_size=1, max_size=3))
@example(entries={"layer_norm_eps": 1e-216})
def test_any_configuration(folder, entries):
    original = (folder / "config.json").read_text(encoding="utf8")
    change(folder / "config.json", **entries)
    loads_or_complains(folder)
    (folder / "config.json").write_text(original, encoding="utf8")


@FUZZ
@given(place=st.integers(0, 400), garbage=st.binary(min_size=1, max_size=9))
def test_any_bytes_in_the_configuration(folder, place, garbage):
    original = (folder / "config.json").read_bytes()
    (folder / "config.json").write_bytes(original[:place] + garbage + original[place + len(garbage) :])
    loads_or_complains(folder)
    (folder / "config.json").write_bytes(original)


@FUZZ
@given(
    place=st.integers(0, 4000),
    garbage=st.binary(min_size=1, max_size=9),
    cut=st.none() | st.integers(0, 60_000),
)
def test_any_bytes_in_the_header(folder, place, garbage, cut):
    path = folder / "model.safetensors"
    original = path.read_bytes()
    path.write_bytes((original[:place] + garbage + original[place + len(garbage) :])[:cut])
    loads_or_complains(folder)
    path.write_bytes(original)
