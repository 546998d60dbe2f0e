"""Sentence encoders of every type: their arguments, saving, gradients, threads."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
from helpers import close
from sweep import sweep

import qkv
from models.folders import TEXTS, WORDS, change, make_folder, write
from qkv import models
from qkv.models import SentenceEncoder

pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")
SIZES = dict(
    vocab_size=len(WORDS), hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
    max_position_embeddings=29, initializer_range=0.3,
)  # fmt: skip
LAYERS = dict(hidden_size=24, num_hidden_layers=1, num_attention_heads=4, intermediate_size=40)
SIDES = {
    f"{side}_{size}": count
    for side in ("encoder", "decoder")
    for size, count in {"layers": 1, "ffn_dim": 40, "attention_heads": 4}.items()
}
ENCODERS = {
    "roberta": dict(SIZES, pad_token_id=0),
    "xlm-roberta": dict(SIZES, pad_token_id=0),
    "camembert": dict(SIZES, pad_token_id=0),
    "distilbert": dict(
        vocab_size=len(WORDS), dim=24, n_layers=2, n_heads=3, hidden_dim=40, max_position_embeddings=29
    ),
    "electra": dict(SIZES, embedding_size=16),
    "mpnet": dict(SIZES, pad_token_id=0),
    "modernbert": dict(SIZES, pad_token_id=0, local_attention=6),
    "deberta-v2": dict(
        SIZES, relative_attention=True, pos_att_type="p2c|c2p", share_att_key=True, position_buckets=6
    ),
}


def folder_of(tmp_path, kind):
    """Write a folder of sentence-transformers whose encoder is of another type than BERT."""
    make_folder(tmp_path)
    qkv.manual_seed(8)
    models.from_config({"model_type": kind, **ENCODERS[kind]}).save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", ENCODERS)
def test_every_encoder(tmp_path, kind):
    encoder = SentenceEncoder.from_pretrained(folder_of(tmp_path, kind))
    found = encoder.encode(TEXTS, batch_size=3)
    model = models.from_pretrained(tmp_path)
    for text, row in zip(TEXTS, found, strict=True):
        hidden = model([encoder.tokenizer.encode(text, 11)]).last_hidden_state.numpy()[0]
        mean = hidden.mean(0)
        close(row, mean / np.linalg.norm(mean), "float32 deep")
    assert "PretrainedEncoder, 24 numbers, pooling=mean, normalize=True, max_seq_length=11" in repr(encoder)
    encoder.save_pretrained(tmp_path / "again")
    again = SentenceEncoder.from_pretrained(tmp_path / "again")
    assert (again.encode(TEXTS) == encoder.encode(TEXTS)).all()
    with pytest.raises(ValueError, match="max_seq_length must be from 1 to max_position_embeddings"):
        SentenceEncoder(model, encoder.tokenizer, max_seq_length=30)


@sweep(
    "entries, told",
    [
        (dict(model_type="vit", image_size=8, patch_size=2, **LAYERS), "ImageModel"),
        (dict(model_type="marian", vocab_size=60, pad_token_id=0, d_model=24, **SIDES), "PretrainedEncoderDecoder"),
    ],
)  # fmt: skip
def test_no_encoder_of_texts(entries, told, tmp_path_factory):
    folder = make_folder(tmp_path_factory.mktemp("folder"))
    models.from_config(entries).save_pretrained(folder)
    with pytest.raises(ValueError, match=f"must hold an encoder of texts; got {told}"):
        SentenceEncoder.from_pretrained(folder)


def test_arguments_of_sentence_transformers(tmp_path):
    encoder = SentenceEncoder.from_pretrained(make_folder(tmp_path, normalize=False))
    plain = encoder.encode(TEXTS)
    close(
        encoder.encode(TEXTS, normalize_embeddings=True),
        plain / np.linalg.norm(plain, axis=1, keepdims=True),
        "float32",
    )
    tensors = encoder.encode(TEXTS, convert_to_numpy=False)
    assert isinstance(tensors, list)
    assert all((a.numpy() == b).all() for a, b in zip(tensors, plain, strict=True))
    assert isinstance(encoder.encode("dog", convert_to_numpy=False), qkv.Tensor)
    assert (encoder.encode("dog", prompt="a ") == encoder.encode("a dog")).all()
    write(
        tmp_path / "config_sentence_transformers.json",
        {
            "prompts": {"query": "a ", "passage": "the "},
            "default_prompt_name": "query",
            "similarity_fn_name": "dot",
        },
    )
    named = SentenceEncoder.from_pretrained(tmp_path)
    assert (named.encode("dog") == encoder.encode("a dog")).all()
    assert (named.encode("dog", prompt="") == encoder.encode("dog")).all()
    assert (named.encode("dog", prompt_name="passage") == encoder.encode("the dog")).all()
    with pytest.raises(ValueError, match="prompt_name must be one of query, passage; got 'answer'"):
        named.encode("dog", prompt_name="answer")
    named.save_pretrained(tmp_path / "again")
    again = SentenceEncoder.from_pretrained(tmp_path / "again")
    assert (again.prompts, again.prompt, again.similarity_fn_name) == (named.prompts, "a ", "dot")
    saved = json.loads((tmp_path / "again" / "1_Pooling" / "config.json").read_text())
    assert saved["pooling_mode_mean_tokens"]
    assert not saved["pooling_mode_cls_token"]


def test_similarities(tmp_path):
    folder = make_folder(tmp_path, normalize=False)
    a, b = np.random.default_rng(1).standard_normal((2, 5, 24))[:, :3]
    for name, expected in {
        "cosine": [[x @ y / np.linalg.norm(x) / np.linalg.norm(y) for y in b] for x in a],
        "dot": a @ b.T,
        "euclidean": [[-np.linalg.norm(x - y) for y in b] for x in a],
        "manhattan": [[-np.abs(x - y).sum() for y in b] for x in a],
    }.items():
        write(folder / "config_sentence_transformers.json", {"similarity_fn_name": name})
        encoder = SentenceEncoder.from_pretrained(folder)
        close(encoder.similarity(a, b), expected, "same formula")
        assert encoder.similarity(a[0], b).shape == (1, 3)
        bytes_ = np.array([[100, 3, 7], [90, 120, 1]], np.int8)  # as quantized embeddings are
        close(encoder.similarity(bytes_, bytes_), encoder.similarity(bytes_ * 1.0, bytes_ * 1.0))
    with pytest.raises(ValueError, match=r"b must be \(K, 24\) to match a \(3, 24\); got b \(3, 23\)"):
        encoder.similarity(a, b[:, 1:])
    for wrong in (None, "a", ["a"]):
        with pytest.raises(TypeError, match=r"^similarity: a must hold numbers; got"):
            encoder.similarity(wrong, b)
    change(folder / "config_sentence_transformers.json", similarity_fn_name="hamming")
    with pytest.raises(ValueError, match=r"similarity_fn_name must be one of cosine, .*; got 'hamming'"):
        SentenceEncoder.from_pretrained(folder)


@pytest.mark.parametrize("pooling", ["cls", "max", "mean", "weightedmean", "lasttoken"])
def test_gradients(tmp_path, pooling):
    encoder = SentenceEncoder.from_pretrained(make_folder(tmp_path, pooling=(pooling,)))
    rows = encoder.forward(TEXTS[:3])
    close(rows.numpy(), encoder.encode(TEXTS[:3]), "float32 deep")
    (rows[0] * rows[1]).sum().backward()
    word = encoder.model.embeddings.word_embeddings.weight
    slope = word.grad.numpy()
    number = encoder.tokenizer.encode("dog")[1]
    step = np.zeros(word.shape, np.float32)
    step[number, 3] = 1e-2

    def value():
        y = encoder.encode(TEXTS[:2])
        return float((y[0].astype("float64") * y[1]).sum())

    word.copy_(word.numpy() + step)
    above = value()
    word.copy_(word.numpy() - 2 * step)
    assert abs((above - value()) / 2e-2 - slope[number, 3]) < 2e-3
    assert encoder(TEXTS[:2]).shape == (2, 24)
    with pytest.raises(ValueError, match="forward: texts must hold at least one; got none"):
        encoder.forward([])


def test_several_threads(tmp_path):
    encoder = SentenceEncoder.from_pretrained(folder_of(tmp_path, "roberta"))
    expected, wrong = encoder.encode(TEXTS), []

    def encode():
        for _ in range(20):
            if not (encoder.encode(TEXTS) == expected).all():
                wrong.append(1)

    threads = [threading.Thread(target=encode) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
