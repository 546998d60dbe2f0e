"""Scores of words that are not the embeddings, in each type; tables of words under the head's name alone."""

from __future__ import annotations

import numpy as np
import pytest
from sweep import sweep

from models.test_architectures import HEADS, compare
from models.tiny_models import TINY, hugging_face
from qkv import models

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", minversion="5")
numpy_files = pytest.importorskip("safetensors.numpy")

KINDS = [kind for kind in TINY if kind not in ("vit", "deit", "bert")]


def saved(kind, folder, **changes):
    return hugging_face(kind, next(iter(TINY[kind][1])), HEADS[kind][1], folder, **changes)


@sweep("kind", KINDS)
def test_words_that_are_not_tied(kind, tmp_path):
    """The file's own matrices, biases and both sides' embeddings are read and written."""
    model = saved(kind, tmp_path, tie_word_embeddings=False)
    loaded = models.from_pretrained(tmp_path)
    compare(kind, HEADS[kind][1], model, loaded, None)
    loaded.save_pretrained(tmp_path / "ours")
    again, info = type(model).from_pretrained(
        tmp_path / "ours", output_loading_info=True, attn_implementation="eager"
    )
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    compare(kind, HEADS[kind][1], again.eval(), loaded, None)


def test_bert_refuses_words_that_are_not_tied(tmp_path):
    saved("bert", tmp_path, tie_word_embeddings=False)
    with pytest.raises(
        ValueError, match="tie_word_embeddings must be True because words are scored by their"
    ):
        models.from_pretrained(tmp_path)


def renamed(folder, names):
    """Write tensors of a file under other names."""
    path = folder / "model.safetensors"
    arrays = numpy_files.load_file(path)
    numpy_files.save_file({names(name): array for name, array in arrays.items()}, path)


TWINS = {
    "llama": ("model.embed_tokens.weight", "lm_head.weight"),
    "gpt2": ("transformer.wte.weight", "lm_head.weight"),
    "roberta": ("roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"),
    "bert": ("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
    "t5": ("shared.weight", "encoder.embed_tokens.weight"),
    "bart": ("model.shared.weight", "model.decoder.embed_tokens.weight"),
}


@sweep("kind", TWINS)
def test_a_table_under_the_heads_name_alone(kind, tmp_path):
    model = saved(kind, tmp_path, **({"tie_word_embeddings": True} if kind == "llama" else {}))
    own, twin = TWINS[kind]
    renamed(tmp_path, lambda name: twin if name == own else name)
    loaded = models.from_pretrained(tmp_path)
    compare(kind, HEADS[kind][1], model, loaded, None)


@sweep("kind", ["llama", "bert", "t5", "distilbert", "bart"])
def test_a_prefix_before_all_names(kind, tmp_path):
    model = saved(kind, tmp_path)
    renamed(tmp_path, "module.{}".format)
    compare(kind, HEADS[kind][1], model, models.from_pretrained(tmp_path), None)


def test_a_matrix_that_the_file_lacks_is_named_before_anything_is_computed(tmp_path):
    saved("llama", tmp_path)
    path = tmp_path / "model.safetensors"
    arrays = numpy_files.load_file(path)
    del arrays["lm_head.weight"]
    numpy_files.save_file(arrays, path)
    loaded = models.from_pretrained(tmp_path)
    assert np.asarray(loaded([[5, 6]]).last_hidden_state).shape == (1, 2, 24)
    with pytest.raises(
        TypeError, match=r"generate: model must have a head .* whose file has no lm_head\.weight"
    ):
        loaded.generate([[5, 6]], max_new_tokens=2)
