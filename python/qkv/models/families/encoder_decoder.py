"""An encoder and a decoder as one module."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import Module, Tensor


class EncoderDecoder(Module):
    """An encoder and a decoder: ``decoder(dec_X, decoder.init_state(encoder(enc_X), enc_valid_lens))``.

    Parameters
    ----------
    encoder : Encoder
        Called ``(enc_X, enc_valid_lens)``, without the lengths if they are None.
    decoder : Decoder

    Attributes
    ----------
    encoder, decoder : Module
    attention_weights
        The decoder's.

    Notes
    -----
    Called ``(enc_X, dec_X, enc_valid_lens=None)``; returns the decoder's output without its state, logits
    ``(B, T, vocab_size)`` for the models here, which is what training with given targets needs. For decoding step by
    step call the parts.

    Examples
    --------
    >>> encoder = qkv.models.Seq2SeqEncoder(10, 8, 16, 2)
    >>> model = qkv.models.EncoderDecoder(encoder, qkv.models.Seq2SeqAttentionDecoder(10, 8, 16, 2))
    >>> model(np.zeros((4, 7), int), np.zeros((4, 5), int), [7, 3, 5, 1]).shape
    (4, 5, 10)
    """

    encoder: Module
    decoder: Any

    def __init__(self, encoder: Module | None = None, decoder: Module | None = None) -> None:
        super().__init__()
        if encoder is None and decoder is None:  # they are given by their names
            return
        for name, part in (("encoder", encoder), ("decoder", decoder)):
            if not isinstance(part, Module):
                raise TypeError(f"EncoderDecoder: {name} must be a Module; got {type(part).__name__}")
            setattr(self, name, part)

    @property
    def attention_weights(self) -> Any:
        """The decoder's."""
        return self.decoder.attention_weights

    def forward(self, enc_X: Any, dec_X: Any, enc_valid_lens: Any = None) -> Any:
        """Return the decoder's output, without its state."""
        encoded = self.encoder(enc_X) if enc_valid_lens is None else self.encoder(enc_X, enc_valid_lens)
        result = self.decoder(dec_X, self.decoder.init_state(encoded, enc_valid_lens))
        if isinstance(result, (Tensor, np.ndarray)) or not hasattr(result, "__getitem__") or len(result) != 2:
            raise TypeError(
                f"EncoderDecoder: what the decoder returns must be (output, state); got {type(result).__name__}"
            )
        return result[0]
