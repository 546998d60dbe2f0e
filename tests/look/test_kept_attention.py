"""What is kept of a call of attention: weights as the call gives them, also of one head, in memory of its own."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from attention_call import attend

import qkv
from qkv import _core
from qkv.look.recording import Weights

B, H, LQ, LK, D = 2, 6, 131, 137, 8
RNG = np.random.default_rng(11)
Q, K = (RNG.standard_normal((B, n, rows, D)).astype("float32") for n, rows in ((H, LQ), (H, LK)))
BIAS = RNG.standard_normal((B, H, LQ, LK)).astype("float32")
PART = SimpleNamespace(crosses=False, has_heads=lambda axes: True)
HEADS = np.linspace(0.1, 1, H).astype("float32")
OPTIONS = {
    "plain": {},
    "causal, lengths": {"is_causal": True, "valid_lens": np.array([137, 5])},
    "lengths of rows": {"valid_lens": RNG.integers(0, LK, (B, LQ))},
    "shared heads": {"enable_gqa": True},
    "positions": {"q_offset": np.array([3, 0]), "is_causal": True, "alibi_slopes": HEADS},
    "sinks, window": {"sinks": HEADS, "window": (11, 3), "softcap": 3.0, "scale": 0.5},
    "bias": {"attn_mask": BIAS},
    "bias of heads": {"attn_mask": BIAS[0]},
    "mask of keys": {"attn_mask": BIAS[:, :1, :1] > 0, "masked_value": -2.0},
    "expanded mask": {"attn_mask": np.broadcast_to(BIAS[:, :1, :1] > 0, (B, H, LQ, LK))},
    "formula": {
        "score_mod": lambda s, b, h, i, j: s - 0.1 * h * abs(i - j),
        "mask_mod": lambda b, h, i, j: i + h >= j,
    },
    "dropout": {"dropout_p": 0.5},
    "sparsemax": {"normalizer": "sparsemax"},
    "sigmoid": {"normalizer": "sigmoid"},
}


def given(options):
    return Q, K[:, :2] if options.get("enable_gqa") else K


def expected(q, k, options):
    plain = {name: x for name, x in options.items() if name != "dropout_p"}
    return np.asarray(attend(q, k, np.zeros((*k.shape[:-1], 1), "float32"), return_weights=True, **plain)[1])


@pytest.mark.parametrize("name", OPTIONS)
def test_kept_weights_are_those_of_the_call(name):
    options = OPTIONS[name]
    q, k = given(options)
    kept, weights = _core.kept_attention(q, k, options), expected(q, k, options)
    assert kept.shape == weights.shape == (B, H, LQ, LK)
    np.testing.assert_array_equal(kept.weights(), weights)
    for batch, head, begin, end in (
        (0, 0, 0, LQ),
        (1, 5, 0, LQ),
        (1, 3, 70, 71),
        (0, 4, 13, 130),
        (1, 2, 7, 7),
    ):
        rows = kept.rows(batch, head, begin, end)
        np.testing.assert_array_equal(rows, weights[batch, head, begin:end])
    image = qkv.attention_image(q, k, size=(7, 5), **{n: x for n, x in options.items() if n != "dropout_p"})
    about = _core.kept_attention(q, k, options)
    np.testing.assert_allclose(Weights(about, PART).image(size=(7, 5)), image, rtol=1e-5, atol=1e-6)


def test_inputs_with_less_axes_and_in_other_orders():
    bias = BIAS[:, 0]
    for q, k, options in (
        (Q[:, 0], K[:, 0], {"attn_mask": bias}),
        (Q[0, 0], K[0, 0], {"attn_mask": bias[0], "valid_lens": RNG.integers(0, LK, LQ)}),
        (Q[0, 0], K[0, 0], {"valid_lens": 5}),
        (np.swapaxes(np.array(np.swapaxes(Q, 1, 2)), 1, 2), K[..., ::-1], {}),
    ):
        kept, weights = _core.kept_attention(q, k, options), expected(q, k, options)
        np.testing.assert_array_equal(kept.weights(), weights)
        np.testing.assert_array_equal(kept.rows(0, 0, 3, 9), weights.reshape(-1, LQ, LK)[0, 3:9])


def test_what_is_kept_does_not_change():
    q, k, mask, lens = Q.copy(), K.copy(), BIAS > 0, np.array([137, 90])
    shared = [_core.shared_memory(x) for x in (q, k, mask)]
    kept = _core.kept_attention(*shared[:2], {"attn_mask": shared[2], "valid_lens": lens})
    before = np.array(kept.weights())
    for x in (q, k, mask, lens):
        x[...] = 0
    np.testing.assert_array_equal(kept.weights(), before)


def test_rows_outside_are_refused():
    kept = _core.kept_attention(Q, K, {})
    message = r"^rows: batch, head, begin and end must lie in weights \(2, 6, 131, 137\); got "
    for place in ((2, 0, 0, 1), (0, 6, 0, 1), (0, 0, 5, 4), (0, 0, 0, 132), (-1, 0, 0, 1)):
        with pytest.raises(ValueError, match=message):
            kept.rows(*place)
    with pytest.raises(ValueError, match=r"^kept_attention: key must be \(\.\.\., Lk, D\) with D = 8"):
        _core.kept_attention(Q, K[..., :3], {})


@pytest.mark.parametrize("stored", [False, True])
def test_one_head_of_a_recording_is_indexed(stored):
    layer = qkv.nn.MultiHeadAttention(12, 3)
    x = RNG.standard_normal((2, 5, 12)).astype("float32")
    recording = qkv.look.record(layer, x)
    weights = recording.layers()[0]
    whole = np.asarray(weights)
    if stored:
        weights = pickle.loads(pickle.dumps(recording)).layers()[0]
    for index in (
        (0, 1),
        (1, -1),
        (1, 2, slice(1, 4)),
        (0, 0, slice(None, None, -2)),
        (0, 1, 2),
        (0, 1, 2, 3),
        1,
    ):
        np.testing.assert_array_equal(weights[index], whole[index])
    np.testing.assert_array_equal(weights[0, 1, 1:4, 2], whole[0, 1, 1:4, 2])
    np.testing.assert_array_equal(weights[0, 1, 4:1], whole[0, 1, 4:1])
    np.testing.assert_array_equal(weights[..., 0], whole[..., 0])
    with pytest.raises(IndexError):
        weights[0, 3]
