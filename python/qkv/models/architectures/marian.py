"""Marian: BART's blocks with a table of sines for positions, and no norm after the embeddings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...functions.positions import sinusoidal_positions
from .bart import ALLOWED, DEFAULTS, NAMES, body, copies, own_words, words_head
from .bart import ARCHITECTURE as BART
from .configuration import Configuration


def options(c: Configuration) -> dict[str, Any]:
    """Return both bodies'; each may have its own words."""
    more = {"max_positions": c.max_position_embeddings, "sinusoidal": True}
    both: dict[str, Any] = {side: body(c, side, **more) for side in ("encoder", "decoder")}
    both["shared"] = c.share_encoder_decoder_embeddings and c.tie_word_embeddings
    if not c.share_encoder_decoder_embeddings:
        both["decoder"]["vocab_size"] = decoder_words(c)
    return both


def names(c: Configuration) -> dict[str, str]:
    """Return all names."""
    if c.share_encoder_decoder_embeddings:
        return own_words(c)
    return {
        **NAMES,
        "encoder.embedding": "encoder.embed_tokens",
        "decoder.embedding": "decoder.embed_tokens",
    }


def sines(c: Configuration) -> dict[str, np.ndarray]:
    """Return the table of positions, sines before cosines, which files hold once for each side."""
    table = sinusoidal_positions(c.max_position_embeddings, c.d_model)
    whole = np.concatenate([table[:, 0::2], table[:, 1::2]], axis=1).astype(np.float32)
    return {f"{side}.embed_positions.weight": whole for side in ("encoder", "decoder")}


def decoder_words(c: Configuration) -> int:
    """Return the number of the decoder's words."""
    shared = c.share_encoder_decoder_embeddings
    return int(c.vocab_size if shared else c.get("decoder_vocab_size", c.vocab_size))


ARCHITECTURE = replace(
    BART,
    model_type="marian",
    classes="Marian",
    defaults=DEFAULTS
    | {
        "vocab_size": 58101,
        "decoder_vocab_size": None,
        "share_encoder_decoder_embeddings": True,
        "pad_token_id": 58100,
        "eos_token_id": 0,
        "decoder_start_token_id": 58100,
        "forced_eos_token_id": 0,
        "num_labels": 2,
    },
    allowed=ALLOWED | {"normalize_embedding": (False, None)},
    nulls={"is_causal": False, "pad_token_id": None},
    bodies=options,
    names=names,
    copies=lambda c: copies(c) if c.share_encoder_decoder_embeddings else {},
    buffers=sines,
    heads={"MTModel": words_head(decoder_words)},
)
