"""Masks: golden arrays, the reference and what they do in attention."""

from __future__ import annotations

import numpy as np
import pytest

from qkv import additive_attention, masks, reference


def test_masks_of_document_two(golden):
    g = golden("D2-07")
    src, tgt = g["src_len"], g["tgt_len"]
    np.testing.assert_array_equal(masks.attention(src, src, 4, 4), ~g["encoder_mask"])
    np.testing.assert_array_equal(masks.attention(tgt, src, 4, 4), ~g["cross_mask"])
    np.testing.assert_array_equal(masks.attention(tgt, tgt, 4, 4, causal=True), ~g["decoder_mask"])
    np.testing.assert_array_equal(masks.lengths(src, 4), g["valid_encoder"][..., 0])
    seq = golden("D2-02")
    np.testing.assert_array_equal(masks.padding(seq["src_seq"]), masks.lengths(seq["src_len"], 4))


def test_lengths():
    assert masks.lengths([0, 2, 3], 3).tolist() == [[False] * 3, [True, True, False], [True] * 3]
    per_query = masks.lengths([[1, 2, 3], [0, 5, 4]], 5)
    assert per_query.shape == (2, 3, 5)
    assert per_query.sum(-1).tolist() == [[1, 2, 3], [0, 5, 4]]
    assert masks.lengths([1, 2], 5, heads_axis=True).shape == (2, 1, 1, 5)
    assert masks.lengths([[1, 2, 3], [0, 5, 4]], 5, heads_axis=True).shape == (2, 1, 3, 5)
    assert masks.lengths(np.array([1, 2], np.uint8), 5).sum() == 3
    assert masks.lengths([], 5).shape == (0, 5)


def test_padding():
    assert masks.padding([[7, 3, 3]], pad_id=3).tolist() == [[True, False, False]]
    assert masks.padding([[7, 3, 3]], heads_axis=True).shape == (1, 1, 1, 3)


@pytest.mark.parametrize("sizes", [(3, 5), (5, 3), (4, 4)])
@pytest.mark.parametrize(
    "options",
    [{}, {"alignment": "lower_right"}, {"q_offset": 2}, {"q_offset": -1}, {"q_offset": [0, 3]}],
)
def test_causal_and_window_equal_the_reference(sizes, options):
    np.testing.assert_array_equal(masks.causal(*sizes, **options), reference.masks.causal(*sizes, **options))
    for window in ((-1, -1), (1, 0), (0, 2), (-1, 1), (2, -1)):
        ours = masks.window(*sizes, window, **options)
        np.testing.assert_array_equal(ours, reference.masks.window(*sizes, window, **options))
    np.testing.assert_array_equal(masks.window(*sizes, (-1, 0), **options), masks.causal(*sizes, **options))


def test_one_size_is_a_square():
    assert masks.causal(3).tolist() == np.tri(3, dtype=bool).tolist()
    assert masks.window(3, window=(0, 0)).tolist() == np.eye(3, dtype=bool).tolist()
    assert masks.causal(0).shape == (0, 0)


def test_attention_masks():
    mask = masks.attention([1, 3], [5, 2], 3, 5)
    assert mask.shape == (2, 3, 5)
    assert mask.sum((1, 2)).tolist() == [5, 6]
    assert masks.attention([1, 3], [5, 2], 3, 5, heads_axis=True).shape == (2, 1, 3, 5)
    causal = masks.attention([1, 3], [5, 2], 3, 5, causal=True)
    np.testing.assert_array_equal(causal, mask & np.tri(3, 5, dtype=bool))


def test_a_length_mask_does_what_valid_lens_do():
    rng = np.random.default_rng(0)
    q, k, v, w = (rng.normal(size=s) for s in ((2, 3, 7), (2, 5, 7), (2, 5, 4), (7,)))
    by_lengths = additive_attention(q, k, v, w, valid_lens=[2, 5])
    mask = masks.lengths([2, 5], 5)[:, None, :]
    np.testing.assert_array_equal(additive_attention(q, k, v, w, attn_mask=mask), by_lengths)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: masks.lengths([4], 3),
            ValueError,
            r"lengths: valid_lens must be in 0\.\.3 .* got valid_lens 4",
        ),
        (
            lambda: masks.lengths([-1], 3),
            ValueError,
            r"lengths: valid_lens must be in 0\.\.3 .* valid_lens -1",
        ),
        (
            lambda: masks.lengths(2, 3),
            ValueError,
            r"lengths: valid_lens must be \(B,\) or \(B, Lq\) .* got \(\)",
        ),
        (
            lambda: masks.lengths([1.5], 3),
            TypeError,
            r"lengths: valid_lens must hold integers; got dtype float64",
        ),
        (lambda: masks.lengths([1], -1), ValueError, r"lengths: max_len must be at least 0 .* max_len = -1"),
        (lambda: masks.padding([1, 2]), ValueError, r"padding: ids must be \(B, L\) .* got \(2,\)"),
        (lambda: masks.padding([[0.5]]), TypeError, r"padding: ids must hold integers; got dtype float64"),
        (
            lambda: masks.padding([[1, 2]], None),
            TypeError,
            "padding: pad_id must be an integer .*; got None",
        ),
        (
            lambda: masks.padding([[1, 2]], [0, 1]),
            TypeError,
            r"padding: pad_id must be an integer .*; got \[0, 1\]",
        ),
        (lambda: masks.causal(3, alignment="left"), ValueError, r"causal: alignment must be .* got 'left'"),
        (
            lambda: masks.window(3, 5, (1, 1), "lower_right", q_offset=2),
            ValueError,
            r"window: q_offset must be None with 'lower_right' .* got q_offset = 2",
        ),
        (lambda: masks.causal(3, q_offset=[[1]]), ValueError, r"causal: q_offset must be an int .* \(1, 1\)"),
        (lambda: masks.causal(-3), ValueError, r"causal: Lq must be at least 0 .* got Lq = -3"),
        (
            lambda: masks.window(3, window=(-2, 0)),
            ValueError,
            r"window: window must be \(left, right\).*\(-2, 0\)",
        ),
        (lambda: masks.window(3, window=(1,)), ValueError, r"window: window must be \(left, right\)"),
        (
            lambda: masks.attention([1, 2], [1], 3, 3),
            ValueError,
            r"attention: .* both be \(B,\) .* key_lens \(1,\)",
        ),
        (lambda: masks.attention([4], [1], 3, 3), ValueError, r"attention: query_lens must be in 0\.\.3"),
        (lambda: masks.attention([1], [4], 3, 3), ValueError, r"attention: key_lens must be in 0\.\.3 .* 4"),
    ],
)
def test_rejections(call, error, message):
    with pytest.raises(error, match=message):
        call()
