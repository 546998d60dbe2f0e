"""Classes of texts, of tokens, and answers to questions beside Hugging Face's, for each type that has them."""

from __future__ import annotations

import numpy as np
import pytest
from sweep import sweep

from models.tiny_models import TINY, hugging_face, largest_difference
from qkv import models
from qkv.models.architectures.table import MODEL_TYPES, architecture_of

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", minversion="5")
pytest.importorskip("safetensors")

ENDS = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
rng = np.random.default_rng(5)


def cases():
    """Return the type and the class of each head that Hugging Face's libraries have."""
    names = [(kind, architecture_of(kind).classes + end) for kind in MODEL_TYPES for end in ENDS]
    return [(kind, name) for kind, name in names if hasattr(transformers, name)]


def inputs_of(config, whole):
    """Return ids with padding and their mask; with three ends in each row for encoder-decoders."""
    ids = rng.integers(6, 50, (3, 11))
    mask = np.arange(11) < np.array([11, 8, 5])[:, None]
    if config.is_encoder_decoder:
        ids[:, [1, 2, 4]] = config.eos_token_id
    if whole:
        return ids[:1], None
    return np.where(mask, ids, config.pad_token_id), mask


@sweep("kind, name", cases())
def test_scores_are_hugging_faces(kind, name, tmp_path):
    labels = {} if name.endswith("Answering") else {"num_labels": 5}
    variant = next(iter(TINY[kind][1]))
    model = hugging_face(kind, variant, name, tmp_path, **labels)
    loaded = models.from_pretrained(tmp_path)
    for whole in (True, False):
        ids, mask = inputs_of(model.config, whole)
        kept = np.ones(ids.shape, bool) if mask is None else mask
        given = {"input_ids": torch.tensor(ids)}
        given |= {} if mask is None else {"attention_mask": torch.tensor(mask.astype(np.int64))}
        with torch.no_grad():
            theirs = model(**given)
        ours = loaded(ids, attention_mask=mask)
        for field in ("logits", "start_logits", "end_logits"):
            assert hasattr(theirs, field) == (field in ours._fields)
            if field in ours._fields:
                a, b = np.asarray(getattr(ours, field)), getattr(theirs, field).numpy()
                rows = kept if a.shape[:2] == ids.shape and not model.config.is_encoder_decoder else ...
                assert largest_difference(a[rows], b[rows]) < 1e-5, field
    loaded.save_pretrained(tmp_path / "ours")
    _, info = type(model).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    with pytest.raises((TypeError, AttributeError), match="generate"):
        loaded.generate([[3, 4]], max_new_tokens=2)


def test_rows_that_there_are_not():
    sizes = dict(
        vocab_size=30, hidden_size=24, num_hidden_layers=1, num_attention_heads=4, intermediate_size=40
    )
    entries = {"model_type": "llama", "architectures": ["LlamaForSequenceClassification"], **sizes}
    model = models.from_config(entries).eval()
    assert model([[3, 4]]).logits.shape == (1, 2)
    with pytest.raises(ValueError, match="pad_token_id of the configuration must be an id; got None"):
        model([[3, 4], [5, 6]])
    sides = {
        f"{side}_{name}": 4
        for side in ("encoder", "decoder")
        for name in ("layers", "attention_heads", "ffn_dim")
    }
    entries = {
        "model_type": "bart",
        "architectures": ["BartForSequenceClassification"],
        "d_model": 24,
        **sides,
    }
    model = models.from_config(entries | {"vocab_size": 30}).eval()
    with pytest.raises(
        ValueError, match=r"input_ids must hold eos_token_id = 2 in each row .*; got none in row 1"
    ):
        model([[3, 2], [5, 6]])
