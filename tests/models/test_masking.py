"""The masking of words: how many are chosen, what becomes of them, what is never chosen."""

from __future__ import annotations

import numpy as np
import pytest
from golden import golden

import qkv
from qkv.models import mask_tokens

IDS = np.random.default_rng(1).integers(10, 1000, (200, 500))
CALL = {"vocab_size": 1000, "mask_id": 4}


def test_proportions():
    qkv.manual_seed(0)
    inputs, labels = mask_tokens(IDS, **CALL)
    chosen = labels != -100
    assert abs(chosen.mean() - 0.15) < 0.005
    assert (labels[chosen] == IDS[chosen]).all()
    assert (inputs[~chosen] == IDS[~chosen]).all()
    masked, same = inputs[chosen] == 4, inputs[chosen] == IDS[chosen]
    assert abs(masked.mean() - 0.8) < 0.015
    assert abs(same.mean() - 0.1) < 0.015
    others = inputs[chosen][~masked & ~same]
    assert others.min() < 30
    assert others.max() > 970
    assert inputs.dtype == labels.dtype == np.int64


def test_never_chosen():
    ids = IDS.copy()
    ids[:, 0], ids[:, -1] = 2, 3
    mask = np.zeros(ids.shape, bool)
    mask[:, 5] = True
    inputs, labels = mask_tokens(ids, **CALL, special_ids={2, 3}, special_mask=mask, probability=1.0)
    assert (labels[:, [0, 5, -1]] == -100).all()
    assert (inputs[:, [0, 5, -1]] == ids[:, [0, 5, -1]]).all()
    assert (labels[:, 1:5] == ids[:, 1:5]).all()
    assert (mask_tokens(ids, **CALL, probability=0.0)[0] == ids).all()


def test_draws():
    before = IDS.copy()
    a = mask_tokens(IDS, **CALL, rng=qkv.Generator(5))
    b = mask_tokens(IDS, **CALL, rng=qkv.Generator(5))
    c = mask_tokens(IDS, **CALL, rng=qkv.Generator(6))
    assert (a[0] == b[0]).all()
    assert (a[0] != c[0]).any()
    assert (before == IDS).all()


@pytest.mark.parametrize(
    ("ids", "changes", "error", "text"),
    [
        ([[1.0]], {}, TypeError, "ids must be integers"),
        ([[1000]], {}, ValueError, "ids must be from 0 to vocab_size - 1 = 999"),
        ([[1]], {"mask_id": 1000}, ValueError, "mask_id must be from 0"),
        ([[1]], {"probability": 1.1}, ValueError, "probability must be from 0 to 1"),
        ([[1]], {"vocab_size": 0}, ValueError, "vocab_size must be at least 1"),
        ([[1]], {"special_mask": [True]}, ValueError, r"special_mask must have the shape of ids \(1, 1\)"),
    ],
)
def test_rejections(ids, changes, error, text):
    with pytest.raises(error, match=text):
        mask_tokens(ids, **{**CALL, **changes})


def test_masking_is_like_cbow():
    """Without queries and keys every position, the masked one too, sees the plain average of the values."""
    g = golden("D3-30")
    layer = qkv.nn.SelfAttention(6, 6).to("float64")
    zero = np.zeros((6, 6))
    layer.load_state_dict({"q_proj.weight": zero, "k_proj.weight": zero, "v_proj.weight": g["W_v"].T})
    g.close("attention_out", layer(g["E"]))
    g.close("mean", layer(g["E"]).numpy()[2])
