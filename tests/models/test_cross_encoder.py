"""Scores of pairs beside Hugging Face's models and tokenizers, as sentence-transformers makes them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers import close
from sweep import sweep

import qkv
from models.folders import write
from models.small_tokenizers import TEXTS, folder_of, trained
from qkv import models
from qkv.models import CrossEncoder, SentenceEncoder, Tokenizer

pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

SIZES = dict(
    hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40, max_position_embeddings=64,
    initializer_range=0.3,
)  # fmt: skip
PADDED = dict(SIZES, pad_token_id=1, type_vocab_size=1)
FAST = "PreTrainedTokenizerFast"
DEBERTA = dict(relative_attention=True, pos_att_type="p2c|c2p", share_att_key=True, position_buckets=6)
KINDS = {
    "bert": ("bert", "BertTokenizer", "Bert", SIZES),
    "roberta": ("bytes", "RobertaTokenizer", "Roberta", PADDED),
    "xlm-roberta": ("unigram", "XLMRobertaTokenizer", "XLMRoberta", PADDED),
    "distilbert": ("bert", "BertTokenizer", "DistilBert", dict(dim=24, n_layers=2, n_heads=3, hidden_dim=40)),
    "modernbert": ("bytes", FAST, "ModernBert", dict(SIZES, pad_token_id=1, local_attention=6)),
    "electra": ("bert", "ElectraTokenizer", "Electra", dict(SIZES, embedding_size=16)),
    "deberta-v2": ("bert", FAST, "DebertaV2", dict(SIZES, **DEBERTA)),
}  # fmt: skip
PAIRS = [(first, second) for first in TEXTS[::2] for second in TEXTS[2:5]]
SIGMOID = "torch.nn.modules.activation.Sigmoid"
IDENTITY = "torch.nn.modules.linear.Identity"


def make(path, kind="bert", labels=1, **entries):
    tokenizer, named, classes, sizes = KINDS[kind]
    vocabulary = json.loads(trained(tokenizer))["model"]["vocab"]
    qkv.manual_seed(3)
    config = {"model_type": kind, "vocab_size": len(vocabulary), "num_labels": labels, **sizes, **entries}
    model = models.from_config({**config, "architectures": [classes + "ForSequenceClassification"]}).eval()
    for i, (_, p) in enumerate(model.named_parameters()):
        p.copy_(p.numpy() + 0.1 * np.random.default_rng(i).standard_normal(p.shape))
    settings = {"tokenizer_class": named, "model_max_length": 40}
    settings["pad_token"] = "[PAD]" if tokenizer == "bert" else "<pad>"
    folder_of(path, tokenizer, None, settings)
    model.save_pretrained(path)
    return path


def logits_of(folder, pairs):
    """Return Hugging Face's scores of pairs, one by one."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    rows = []
    for first, second in pairs:
        found = tokenizer(first, second, truncation="longest_first", max_length=40, return_tensors="pt")
        if model.config.model_type == "distilbert":
            found.pop("token_type_ids", None)
        with torch.no_grad():
            rows.append(model(**found).logits[0].numpy())
    return np.array(rows)


@sweep("kind", KINDS)
def test_scores_beside_hugging_faces(kind, tmp_path_factory):
    for labels in (1, 3):
        folder = make(tmp_path_factory.mktemp("folder"), kind, labels)
        encoder, logits = CrossEncoder(folder), logits_of(folder, PAIRS)
        found = encoder.predict(PAIRS, batch_size=5)
        assert found.dtype == np.float32
        assert encoder.num_labels == labels
        if labels == 1:
            close(found, 1 / (1 + np.exp(-logits[:, 0])), "float32 deep")
            close(encoder.predict(PAIRS[2]), found[2], "float32 deep")
        else:
            close(found, logits, "float32 deep")
            parts = np.exp(logits - logits.max(1, keepdims=True))
            close(
                encoder.predict(PAIRS, apply_softmax=True),
                parts / parts.sum(1, keepdims=True),
                "float32 deep",
            )
            assert encoder.predict(PAIRS[0]).shape == (3,)


def test_ranks(tmp_path):
    encoder = CrossEncoder(make(tmp_path))
    scores = encoder.predict([("the dog", text) for text in TEXTS])
    order = np.argsort(-scores, kind="stable")
    found = encoder.rank("the dog", TEXTS)
    assert [one["corpus_id"] for one in found] == order.tolist()
    assert all(one.keys() == {"corpus_id", "score"} and type(one["score"]) is float for one in found)
    close([one["score"] for one in found], scores[order], "float32 deep")
    best = encoder.rank("the dog", TEXTS, top_k=2, return_documents=True)
    assert [one["text"] for one in best] == [TEXTS[i] for i in order[:2]]
    assert encoder.rank("the dog", []) == []
    raw = encoder.rank("the dog", TEXTS, activation_fn=lambda scores: -scores)
    assert [one["corpus_id"] for one in raw] == order[::-1].tolist()


def test_arguments_of_predictions(tmp_path):
    encoder = CrossEncoder(make(tmp_path))
    plain = encoder.predict(PAIRS)
    tensors = encoder.predict(PAIRS, convert_to_numpy=False)
    assert isinstance(tensors, list)
    assert [float(t.numpy()) for t in tensors] == plain.tolist()
    assert (encoder.predict(PAIRS, convert_to_tensor=True).numpy() == plain).all()
    assert encoder.predict([]).shape == (0,)
    assert (encoder.predict([list(pair) for pair in PAIRS]) == plain).all()
    assert (encoder.predict(PAIRS, prompt="a ") == encoder.predict([("a " + a, b) for a, b in PAIRS])).all()
    again = CrossEncoder(models.from_pretrained(tmp_path), Tokenizer.from_pretrained(tmp_path), max_length=9)
    assert repr(again) == "CrossEncoder(BertForSequenceClassification, 1 label, max_length=9)"
    ids = again.tokenizer.encode(list(PAIRS), 9)
    assert max(map(len, ids)) == 9
    assert not np.allclose(again.predict(PAIRS), plain)


@sweep(
    "config, settings, expected",
    [
        ({"sentence_transformers": {"activation_fn": IDENTITY}}, {}, "raw"),
        ({"sbert_ce_default_activation_function": IDENTITY}, {}, "raw"),
        ({}, {"activation_fn": IDENTITY}, "raw"),
        ({"sentence_transformers": {"activation_fn": IDENTITY}}, {"activation_fn": SIGMOID}, "sigmoid"),
        ({}, {"activation_fn": "torch.nn.modules.activation.Tanh"}, "tanh"),
        ({}, {"prompts": {"query": "the "}, "default_prompt_name": "query"}, "prompt"),
        ({}, {"__version__": {"pytorch": "2"}, "keep_in_fp32_modules": ["classifier"]}, "sigmoid"),
    ],
)
def test_what_folders_say_of_scores(config, settings, expected, tmp_path_factory):
    folder = make(tmp_path_factory.mktemp("folder"), **config)
    encoder = CrossEncoder(folder)
    raw = encoder.predict(PAIRS, activation_fn=lambda scores: scores)
    write(folder / "config_sentence_transformers.json", settings)
    encoder = CrossEncoder(folder)
    made = {"raw": raw, "sigmoid": 1 / (1 + np.exp(-raw)), "tanh": np.tanh(raw)}
    made["prompt"] = encoder.predict([("the " + a, b) for a, b in PAIRS], prompt="")
    close(encoder.predict(PAIRS), made[expected], "float32 deep")


def test_what_is_refused(tmp_path):
    folder = make(tmp_path / "one")
    encoder = CrossEncoder(folder)
    for inputs in ("a", ["a", "b", "c"], [("a", 3)], 3, [("a", "b"), "c"]):
        with pytest.raises(TypeError, match=r"^predict: inputs must be pairs of strings; got"):
            encoder.predict(inputs)
    for options, error, told in (
        ({"batch_size": 0}, ValueError, "predict: batch_size must be at least 1; got 0"),
        (
            {"activation_fn": "tanh"},
            TypeError,
            "predict: activation_fn must be a function of scores; got 'tanh'",
        ),
        ({"prompt_name": "q"}, ValueError, "predict: prompt_name must be one of none; got 'q'"),
    ):
        with pytest.raises(error, match=told):
            encoder.predict(PAIRS, **options)
    with pytest.raises(TypeError, match=r"^rank: documents must be a sequence of strings; got a str$"):
        encoder.rank("a", "b")
    with pytest.raises(TypeError, match=r"^rank: query must be a string; got 3$"):
        encoder.rank(3, ["b"])
    with pytest.raises(ValueError, match=r"^rank: top_k must be at least 0; got -1$"):
        encoder.rank("a", ["b"], top_k=-1)
    with pytest.raises(ValueError, match=r"^rank: model must have one label .*; got 3; predict returns"):
        CrossEncoder(make(tmp_path / "three", labels=3)).rank("a", ["b"])
    with pytest.raises(
        ValueError, match=r"max_length must be from 1 to max_position_embeddings = 64; got 65"
    ):
        CrossEncoder(folder, max_length=65)
    write(folder / "config_sentence_transformers.json", {"activation_fn": "mine.Sigmoid"})
    with pytest.raises(
        ValueError, match=r"activation_fn must be torch\.nn.* Identity, Tanh.*; got 'mine\.Sigmoid'"
    ):
        CrossEncoder(folder)
    write(folder / "config_sentence_transformers.json", {"model_type": "SparseEncoder"})
    with pytest.raises(
        ValueError, match=r"model_type must be SentenceTransformer or CrossEncoder .*; got Sp"
    ):
        CrossEncoder(folder)
    bare = tmp_path / "bare"
    make(bare)
    models.from_pretrained(bare, architectures=None).save_pretrained(bare)
    with pytest.raises(
        TypeError, match=r"the head ForSequenceClassification, .*; got BertModel and Tokenizer"
    ):
        CrossEncoder(bare)
    with pytest.raises(TypeError, match=r"got SentenceEncoder and NoneType"):
        CrossEncoder(SentenceEncoder.from_pretrained(bare))
