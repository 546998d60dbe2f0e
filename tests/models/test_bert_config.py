"""Sizes, options and labels of BERT: what they may be, and how a config.json is read."""

from __future__ import annotations

import pytest

from models.bert_golden import SIZES
from qkv import models


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"hidden_size": 30}, ValueError, "divisible by num_attention_heads"),
        ({"vocab_size": 0}, ValueError, "vocab_size must be at least 1; got 0"),
        ({"num_hidden_layers": -1}, ValueError, "num_hidden_layers must be at least 0"),
        ({"hidden_act": "mish"}, ValueError, "hidden_act must be one of gelu, .*, tanh; got 'mish'"),
        ({"hidden_act": 3}, TypeError, "hidden_act must be a string"),
        ({"hidden_size": "32"}, TypeError, "hidden_size must be an integer; got '32'"),
        ({"hidden_size": True}, TypeError, "hidden_size must be an integer"),
        ({"vocab_size": 10**30}, ValueError, r"vocab_size must be below 2 \*\* 31"),
        ({"hidden_dropout_prob": 1.5}, ValueError, "hidden_dropout_prob must be from 0 to 1"),
        ({"classifier_dropout": -1.0}, ValueError, "classifier_dropout must be from 0 to 1"),
        ({"initializer_range": float("nan")}, ValueError, "initializer_range must be a number from 0"),
        ({"layer_norm_eps": float("inf")}, ValueError, "layer_norm_eps must be a number from 0; got inf"),
        ({"layer_norm_eps": 1e39}, ValueError, r"layer_norm_eps must be from -3\.4e38 .*; got 1e\+39$"),
        ({"pad_token_id": 30}, ValueError, "pad_token_id must be from 0 to vocab_size - 1 = 29; got 30"),
        ({"num_labels": 0}, ValueError, "num_labels must be from 1"),
        ({"num_labels": 2, "id2label": {0: "a"}}, ValueError, "num_labels must be 1, the length of id2label"),
        ({"id2label": {"x": "a"}}, ValueError, "id2label must have numbers for keys"),
        ({"id2label": {1: "a", 2: "b"}}, ValueError, "id2label must number its labels 0, 1, 2"),
        ({"id2label": []}, TypeError, "id2label must be a dict"),
    ],
)
def test_config_rejections(changes, error, text):
    with pytest.raises(error, match=text):
        models.BertConfig(**{**SIZES, **changes})


def test_labels():
    config = models.BertConfig.from_dict(
        {"id2label": {"1": "bad", "0": "good", "2": "ugly"}, "num_labels": 7, "rest": [1]}
    )
    assert config.num_labels == 3
    assert config.label2id == {"good": 0, "bad": 1, "ugly": 2}
    assert config.to_dict()["rest"] == [1]
    assert models.BertForSequenceClassification(
        models.BertConfig(**SIZES, id2label=config.id2label)
    ).classifier.bias.shape == (3,)
    for entries, text in (
        ({"model_type": "gpt2"}, "model_type must be 'bert'"),
        (
            {"position_embedding_type": "relative_key"},
            "position_embedding_type must be absolute because qkv has no other for bert; got 'rel",
        ),
        (
            {"quantization_config": {"bits": 4}},
            "quantization_config must be unset because qkv has no other for bert; got",
        ),
        ({"pruned_heads": {"1": [0]}}, "pruned_heads must be unset because"),
        ({"is_decoder": True}, "is_decoder must be False because"),
    ):
        with pytest.raises(ValueError, match=text):
            models.BertConfig.from_dict(entries)
    untied = models.BertConfig.from_dict({**SIZES, "tie_word_embeddings": False})
    models.BertForTokenClassification(untied)
    for kind in (models.BertForMaskedLM, models.BertForPreTraining):
        with pytest.raises(ValueError, match="tie_word_embeddings must be True because words are scored by"):
            kind(untied)
    with pytest.raises(TypeError, match="config must be a BertConfig; got dict"):
        models.BertModel({})
