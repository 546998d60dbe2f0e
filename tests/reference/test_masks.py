"""The reference masks against the golden arrays and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from qkv.reference import masks


def test_masks_of_document_two(golden):
    g = golden("D2-07")
    src, tgt = g["src_len"], g["tgt_len"]
    assert (masks.attention(src, src, 4, 4) == ~g["encoder_mask"]).all()
    assert (masks.attention(tgt, src, 4, 4) == ~g["cross_mask"]).all()
    assert (masks.attention(tgt, tgt, 4, 4, causal=True) == ~g["decoder_mask"]).all()
    assert (masks.lengths(src, 4) == g["valid_encoder"][..., 0]).all()
    assert (masks.lengths(tgt, 4) == g["valid_decoder"][..., 0]).all()


def test_padding_agrees_with_lengths(golden):
    g = golden("D2-02")
    assert (masks.padding(g["src_seq"]) == masks.lengths(g["src_len"], 4)).all()
    assert masks.padding([[7, 3, 3]], pad_id=3).tolist() == [[True, False, False]]
    assert masks.padding([[7, 3, 3]], heads_axis=True).shape == (1, 1, 1, 3)


def test_heads_axis():
    assert masks.lengths([1, 2], 5, heads_axis=True).shape == (2, 1, 1, 5)
    per_query = masks.lengths([[1, 2, 3], [0, 5, 4]], 5, heads_axis=True)
    assert per_query.shape == (2, 1, 3, 5)
    assert per_query.sum(-1).tolist() == [[[1, 2, 3]], [[0, 5, 4]]]
    assert masks.attention([1, 2], [3, 4], 2, 5, heads_axis=True).shape == (2, 1, 2, 5)


def test_causal_alignments():
    assert masks.causal(3, 5).sum(-1).tolist() == [1, 2, 3]
    assert masks.causal(3, 5, "lower_right").sum(-1).tolist() == [3, 4, 5]
    assert masks.causal(3, 5, q_offset=1).sum(-1).tolist() == [2, 3, 4]
    assert masks.causal(5, 3, "lower_right").sum(-1).tolist() == [0, 0, 1, 2, 3]
    assert masks.causal(2, 5, q_offset=[0, 3]).sum(-1).tolist() == [[1, 2], [4, 5]]


def test_windows():
    assert (masks.window(5, 7) == np.ones((5, 7))).all()
    assert (masks.window(5, 7, (-1, 0)) == masks.causal(5, 7)).all()
    assert masks.window(3, 5, (1, 2)).astype(int).tolist() == [
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [0, 1, 1, 1, 1],
    ]
    assert masks.window(2, 5, (0, 0), "lower_right").astype(int).tolist() == [
        [0, 0, 0, 1, 0],
        [0, 0, 0, 0, 1],
    ]


def test_refusals():
    with pytest.raises(ValueError, match=r"causal: alignment must be .* got 'left'"):
        masks.causal(3, alignment="left")
    with pytest.raises(
        ValueError, match=r"window: q_offset must be None with 'lower_right' .* got q_offset = 2"
    ):
        masks.window(3, 5, (1, 1), "lower_right", q_offset=2)
