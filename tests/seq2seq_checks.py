"""Small sequence-to-sequence models, and what goes into them."""

from __future__ import annotations

import numpy as np

from qkv.models import EncoderDecoder, Seq2SeqAttentionDecoder, Seq2SeqDecoder, Seq2SeqEncoder

RNG = np.random.default_rng(83)
DECODERS = [Seq2SeqDecoder, Seq2SeqAttentionDecoder]


def model_of(decoder=Seq2SeqAttentionDecoder, dropout=0.0):
    return EncoderDecoder(Seq2SeqEncoder(13, 5, 11, 2, dropout), decoder(17, 5, 11, 2, dropout)).to("float64")


def batch(B=3, Ts=7, Tt=4):
    return RNG.integers(0, 13, (B, Ts)), RNG.integers(0, 17, (B, Tt)), RNG.integers(1, Ts + 1, B)
