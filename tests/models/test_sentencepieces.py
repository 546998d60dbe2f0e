"""Vocabularies of SentencePiece, in files and in GGUF, and words with merges, beside the libraries of their owners."""

from __future__ import annotations

import io
import shutil
import sys

import numpy as np
import pytest
from sweep import sweep

from models.folders import write
from models.small_tokenizers import CORPUS, TEXTS
from qkv.models import Tokenizer

pytest.importorskip("tokenizers")
spm = pytest.importorskip("sentencepiece")

MORE = [
    *TEXTS,
    "  two  spaces ",
    "hi <s> there </s>x",
    "<unk>",
    "aaaa aaaaaaa -----",
    "         lots",
    "\uff26ull \ufb01",
]
MORE += ["<extra_id_0> a <extra_id_99>b", ">>de<< the dog", "the >>de<< dog", "😀 ε"]
PAIRS = dict(
    model_type="bpe", vocab_size=420, byte_fallback=True, normalization_rule_name="identity",
    remove_extra_whitespaces=False, allow_whitespace_only_pieces=True,
)  # fmt: skip
OWN = dict(unk_piece="<unk>", bos_piece="<bos>", eos_piece="<eos>", pad_id=0, eos_id=1, bos_id=2, unk_id=3)
MODELS = {
    "llama": PAIRS,
    "gemma": {**PAIRS, **OWN, "add_dummy_prefix": False, "user_defined_symbols": ["<mask>"]},
    "t5": dict(model_type="unigram", vocab_size=150, pad_id=0, eos_id=1, unk_id=2, bos_id=-1),
    "xlmr": dict(model_type="unigram", vocab_size=150),
    "deberta": dict(
        model_type="unigram",
        vocab_size=150,
        pad_id=0,
        bos_id=1,
        eos_id=2,
        unk_id=3,
        pad_piece="[PAD]",
        bos_piece="[CLS]",
        eos_piece="[SEP]",
        unk_piece="[UNK]",
    ),
}
ENDS = {"add_bos_token": True, "add_eos_token": True}
MARIAN = {"tokenizer_class": "MarianTokenizer"}
LLAMA = {"tokenizer_class": "LlamaTokenizer"}
# The model, its file's name, the model type, tokenizer_config.json.
FOLDERS = {
    "llama": ("llama", "tokenizer.model", "llama", {**LLAMA, "add_bos_token": True}),
    "llama with ends": ("llama", "tokenizer.model", "llama", {**LLAMA, **ENDS, "legacy": True}),
    "llama without a space": ("llama", "tokenizer.model", "llama", {**LLAMA, "add_prefix_space": False}),
    "llama that says nothing": ("llama", "tokenizer.model", "llama", None),
    "mistral": ("llama", "tokenizer.model", "mistral", {**LLAMA, "add_bos_token": True}),
    "gemma": ("gemma", "tokenizer.model", "gemma2", {"tokenizer_class": "GemmaTokenizer", **ENDS}),
    "t5": ("t5", "spiece.model", "t5", None),
    "t5 with fewer extra ids": ("t5", "spiece.model", "t5", {"tokenizer_class": "T5Tokenizer", "extra_ids": 7}),
    "xlm-roberta": ("xlmr", "sentencepiece.bpe.model", "xlm-roberta", None),
    "deberta": ("deberta", "spm.model", "deberta-v2", {"tokenizer_class": "DebertaV2Tokenizer"}),
    "deberta in lower case": ("deberta", "spm.model", "deberta-v2", {"do_lower_case": True}),
    "cut at the left": ("llama", "tokenizer.model", "llama", {**LLAMA, **ENDS, "truncation_side": "left"}),
    "marian": ("xlmr", "source.spm", "marian", MARIAN),
    "marian with two": ("xlmr", "source.spm", "marian", {**MARIAN, "separate_vocabs": True}),
}  # fmt: skip


@pytest.fixture(scope="module")
def pieces():
    """Return small models by their names."""
    made = {}
    for name, options in MODELS.items():
        file = io.BytesIO()
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter([text for text in CORPUS if text]), model_writer=file, hard_vocab_limit=False,
            minloglevel=2, **options,
        )  # fmt: skip
        made[name] = file.getvalue()
    return made


def folder_of(path, pieces, model, file, kind, settings):
    path.mkdir(parents=True, exist_ok=True)
    (path / file).write_bytes(pieces[model])
    write(path / "config.json", {"model_type": kind})
    if settings is not None:
        write(path / "tokenizer_config.json", settings)
    if kind == "marian":
        (path / "target.spm").write_bytes(pieces["t5"])
        own = spm.SentencePieceProcessor(model_proto=pieces[model])
        words = [own.id_to_piece(i) for i in range(3, own.get_piece_size()) if i % 7]
        words = ["</s>", "<unk>", *words, "▁other", ">>de<<", "<pad>"]
        for name, listed in (("vocab", words), ("target_vocab", words[::-1])):
            write(path / f"{name}.json", {word: i for i, word in enumerate(listed)})
    return path


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@sweep("name", FOLDERS)
def test_folders_beside_hugging_faces(name, pieces, tmp_path_factory):
    transformers = pytest.importorskip("transformers")
    folder = folder_of(tmp_path_factory.mktemp("folder"), pieces, *FOLDERS[name])
    ours, theirs = Tokenizer.from_pretrained(folder), transformers.AutoTokenizer.from_pretrained(folder)
    # The model's own table makes other signs of these, which Hugging Face's library leaves out for DeBERTa alone.
    texts = MORE if "deberta" not in name else [text for text in MORE if "\uff26" not in text]
    found = theirs(texts)["input_ids"]
    assert ours.encode(texts) == found
    side = {} if "marian" in name else {"truncation": True, "max_length": 6}
    if side:
        assert ours.encode(texts, 6) == theirs(texts, **side)["input_ids"]
    assert ours.encode("a dog", text_pair="the cat") == theirs("a dog", "the cat")["input_ids"]
    for ids in found:
        if not (
            name == "marian with two" and 1 in ids
        ):  # an unknown word has another id there, and is written
            assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
    ours.save_pretrained(folder / "copy")
    shutil.copy(folder / "config.json", folder / "copy")
    assert Tokenizer.from_pretrained(folder / "copy").encode(texts) == found


def test_special_tokens_that_are_divided(pieces, tmp_path):
    for name, settings in (
        ("llama", {**LLAMA, "split_special_tokens": True}),
        ("t5", {"split_special_tokens": True}),
    ):
        ours = Tokenizer.from_pretrained(folder_of(tmp_path / name, pieces, *FOLDERS[name][:3], settings))
        own = spm.SentencePieceProcessor(model_proto=pieces[name])
        for text in (text for text in MORE if not text.startswith(" ")):
            ids = ours.tokenizer.encode(text, add_special_tokens=False).ids
            assert ids == own.encode(text)


def test_what_is_asked_of_pieces(pieces, tmp_path):
    ours = Tokenizer.from_pretrained(folder_of(tmp_path, pieces, *FOLDERS["llama"]))
    tokens = ours.tokens("the dogs run")
    assert tokens[:2] == ["<s>", "▁the"]
    words = ours.words("the dogs run")
    assert len(words) == len(tokens)
    assert words[0] is None
    assert [w for w in dict.fromkeys(words) if w is not None] == [0, 1, 2]
    stream = ours.stream()
    ids = ours.encode("a 😀 dog")
    assert "\ufffd" not in "".join(map(stream, ids)) + stream.end()
    assert stream.text == "a 😀 dog"
    assert "900" not in repr(ours)
    ours.chat_template = "{% for m in messages %}<s>{{ m.content }}{% endfor %}"
    guarded = ours.apply_chat_template([{"content": "a <s> b"}], sanitize_control_tokens=True)
    assert guarded.count(ours.tokenizer.token_to_id("<s>")) == 1


@pytest.mark.parametrize("model", ["llama", "gemma"])
def test_vocabularies_of_gguf_files(model, pieces, tmp_path):
    gguf = pytest.importorskip("gguf")
    own = spm.SentencePieceProcessor(model_proto=pieces[model])
    count, path = own.get_piece_size(), tmp_path / "m.gguf"
    kinds = [
        2 if own.is_unknown(i) else 3 if own.is_control(i) else 6 if own.is_byte(i) else 1
        for i in range(count)
    ]

    def write_file(scores=None, model_name="llama"):
        writer = gguf.GGUFWriter(str(path), "llama")
        writer.add_context_length(64)
        writer.add_tokenizer_model(model_name)
        writer.add_token_list([own.id_to_piece(i) for i in range(count)])
        writer.add_token_scores([own.get_score(i) for i in range(count)] if scores is None else scores)
        writer.add_token_types(kinds)
        if model == "gemma":
            writer.add_add_space_prefix(False)
            for name in ("bos", "eos", "unk"):
                getattr(writer, f"add_{name}_token_id")(OWN[f"{name}_id"])
        writer.add_tensor("token_embd.weight", np.zeros((3, 4), np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    ours = Tokenizer.from_pretrained(write_file())
    plain = [text for text in MORE if "<" not in text]
    assert ours.encode(plain) == [[own.bos_id(), *own.encode(text)] for text in plain]
    assert [ours.decode(ids) for ids in ours.encode(plain)] == plain
    ours.save_pretrained(tmp_path / "copy")
    copy = Tokenizer.from_pretrained(tmp_path / "copy")
    assert copy.encode(MORE) == ours.encode(MORE)
    assert copy.special_tokens == ours.special_tokens
    ends = [own.id_to_piece(own.bos_id()), own.id_to_piece(own.eos_id())]
    assert ours.tokens("".join(ends)) == [ends[0], *ends]
    assert ours.special_tokens["eos_token"] == ends[1]
    with pytest.raises(ValueError, match=rf"scores must hold a number for each of {count} tokens"):
        Tokenizer.from_pretrained(write_file([0.0]))
    with pytest.raises(ValueError, match=r"tokenizer\.ggml\.model must be gpt2 or llama, .*; got 'bert'"):
        Tokenizer.from_pretrained(write_file(model_name="bert"))


def test_files_that_do_not_fit(pieces, tmp_path, monkeypatch):
    folder = folder_of(tmp_path, pieces, *FOLDERS["marian"])
    for name, content, told in (
        ("vocab.json", {"a": 0}, "must hold the unk token '<unk>'; there is none"),
        ("vocab.json", {"<unk>": "x"}, "must hold the ids of words beside source.spm; got others"),
        ("vocab.json", {}, "must hold the ids of words beside source.spm; got others"),
    ):
        write(folder / name, content)
        with pytest.raises(ValueError, match=rf"{name}: {told}"):
            Tokenizer.from_pretrained(folder)
    for model, file, kind, told in (
        ("t5", "spiece.model", "albert", None),
        (
            "t5",
            "spiece.model",
            "bert",
            "must be beside tokenizer.json or of a T5Tokenizer; got BertTokenizer",
        ),
        (
            "xlmr",
            "sentencepiece.bpe.model",
            "camembert",
            "or of an XLMRobertaTokenizer; got CamembertTokenizer",
        ),
        ("t5", "tokenizer.model", "llama", "must hold the bos token '<s>'; there is none"),
    ):
        place = folder_of(tmp_path / f"{kind}{file}", pieces, model, file, kind, None)
        if told is None:
            assert Tokenizer.from_pretrained(place).encode("dog")
            continue
        with pytest.raises(ValueError, match=told):
            Tokenizer.from_pretrained(place)
    for count in (-1, 10**9, "x", None):
        t5 = folder_of(tmp_path / "extra", pieces, "t5", "spiece.model", "t5", {"extra_ids": count})
        with pytest.raises(ValueError, match="extra_ids beside it must be from 0 to 10000; got"):
            Tokenizer.from_pretrained(t5)
    (place / "tokenizer.model").write_bytes(b"no model")
    with pytest.raises(ValueError, match=r"tokenizer\.model: must hold a model of SentencePiece; "):
        Tokenizer.from_pretrained(place)
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(ImportError, match=r"need the package sentencepiece; .* 'qkv\[sentencepiece\]'"):
        Tokenizer.from_pretrained(place)
