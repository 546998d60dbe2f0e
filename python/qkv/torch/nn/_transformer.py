"""Transformer layers and models with PyTorch's arguments; True in a boolean mask means left out."""

from __future__ import annotations

import copy
import math
from typing import Any

from ..._words.errors import shown
from .._creation import full
from .._settings import constructor
from . import functional as F
from . import init
from ._attention import MultiheadAttention
from ._containers import ModuleList
from ._layers import Dropout, LayerNorm, Linear
from ._module import Module
from ._registry import CoreModule

_ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu}


def _activation(given):
    if callable(given):
        return given
    if given not in _ACTIVATIONS:
        raise RuntimeError(f"activation should be relu/gelu, not {given}")
    return _ACTIVATIONS[given]


# What a layer is made with, and the whole model, in two parts.
_INNER = "dim_feedforward=2048, dropout=0.1, activation='relu'"
_OUTER = "layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True, device=None, dtype=None"


class _Layer(Module):
    """Attentions and a feed-forward part, each with a residual connection and a norm."""

    _attentions: tuple[str, ...]  # their names
    __init__ = constructor(f"d_model, nhead, {_INNER}, {_OUTER}")

    def _configure(self, d_model, nhead, dropout, bias, norm_first, kind, **rest) -> None:
        super().__init__()
        for name in self._attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=rest["batch_first"], **kind
            )
            self.add_module(name, attention)
        self.linear1 = Linear(d_model, rest["dim_feedforward"], bias, **kind)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(rest["dim_feedforward"], d_model, bias, **kind)
        self.norm_first = norm_first
        parts = range(1, len(self._attentions) + 2)
        for i in parts:
            self.add_module(f"norm{i}", LayerNorm(d_model, rest["layer_norm_eps"], bias=bias, **kind))
        for i in parts:
            self.add_module(f"dropout{i}", Dropout(dropout))
        self.activation = _activation(rest["activation"])

    def _around(self, x, i: int, part):
        """The residual connection of a part, its norm before or after."""
        norm, drop = getattr(self, f"norm{i}"), getattr(self, f"dropout{i}")
        return x + drop(part(norm(x))) if self.norm_first else norm(x + drop(part(x)))

    def _attend(self, x, i: int, memory, mask, padding, is_causal):
        """The residual connection of an attention, to `memory` or to itself."""
        layer = getattr(self, self._attentions[i - 1])
        options = _known({"attn_mask": mask, "key_padding_mask": padding, "is_causal": is_causal})

        def part(y):
            keys = y if memory is None else memory
            return layer(y, keys, keys, need_weights=False, **options)[0]

        return self._around(x, i, part)

    def _feed_forward(self, x, i: int):
        return self._around(x, i, lambda y: self.linear2(self.dropout(self.activation(self.linear1(y)))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward part, each with a residual connection and a norm.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> layer = torch.nn.TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16, batch_first=True)
    >>> layer(torch.ones(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    _attentions = ("self_attn",)

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal: bool = False):
        """The same shape."""
        x = self._attend(src, 1, None, src_mask, src_key_padding_mask, is_causal)
        return self._feed_forward(x, 2)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to an encoder's output and a feed-forward part."""

    _attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=False,
        memory_is_causal=False,
    ):
        """The shape of ``tgt``."""
        x = self._attend(tgt, 1, None, tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        x = self._attend(x, 2, memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        return self._feed_forward(x, 3)


_MOST = 1 << 40  # bytes of one stack


def _known(options: dict[str, Any]) -> dict[str, Any]:
    """Without hints that are not set: a layer of one's own may not know them, attention refuses them without a mask."""
    return {name: value for name, value in options.items() if not name.endswith("is_causal") or value}


def _copies(layer: Any, count: int) -> ModuleList:
    if not isinstance(layer, CoreModule):
        raise TypeError(f"layer must be a Module because copies of it are stacked; got {shown(layer)}")
    size = count * sum(p.numel() * p.itemsize for p in layer.parameters())
    if size > _MOST:
        raise MemoryError(f"num_layers: {count} copies of the layer need {size} bytes, which cannot be had")
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


class _Stack(Module):
    """Copies of a layer, one after the other, and a norm."""

    def _configure(self, num_layers: int, norm, encoder_layer=None, decoder_layer=None, **unused) -> None:
        super().__init__()
        if num_layers < 1:
            raise RuntimeError(f"{type(self).__name__}: num_layers must be at least 1; got {num_layers}")
        self.layers = _copies(decoder_layer if encoder_layer is None else encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def _through(self, x, *memory, **options):
        for layer in self.layers:
            x = layer(x, *memory, **_known(options))
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """Copies of an encoder layer, one after the other."""

    __init__ = constructor("encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True")

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal: bool | None = None):
        """The same shape."""
        options = {"src_key_padding_mask": src_key_padding_mask, "is_causal": is_causal}
        return self._through(src, src_mask=mask, **options)


class TransformerDecoder(_Stack):
    """Copies of a decoder layer, one after the other."""

    __init__ = constructor("decoder_layer, num_layers, norm=None")

    def forward(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
        """The shape of ``tgt``."""
        return self._through(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )


class Transformer(Module):
    """An encoder and a decoder, of inputs that are embedded already."""

    __init__ = constructor(
        "d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, "
        f"{_INNER}, custom_encoder=None, custom_decoder=None, {_OUTER}"
    )

    def _configure(
        self, num_encoder_layers, num_decoder_layers, custom_encoder, custom_decoder, kind, **rest
    ) -> None:
        super().__init__()

        def stack(made, layer, count: int):
            norm = LayerNorm(rest["d_model"], rest["layer_norm_eps"], bias=rest["bias"], **kind)
            return made(layer(**rest, **kind), count, norm)

        if custom_encoder is None:
            custom_encoder = stack(TransformerEncoder, TransformerEncoderLayer, num_encoder_layers)
        if custom_decoder is None:
            custom_decoder = stack(TransformerDecoder, TransformerDecoderLayer, num_decoder_layers)
        self.encoder, self.decoder = custom_encoder, custom_decoder
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)
        self.d_model, self.nhead, self.batch_first = rest["d_model"], rest["nhead"], rest["batch_first"]

    def forward(
        self,
        src,
        tgt,
        src_mask=None,
        tgt_mask=None,
        memory_mask=None,
        src_key_padding_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        src_is_causal=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
        """The shape of ``tgt``."""
        at = 0 if self.batch_first else 1
        if len(src.shape) == 3 and src.shape[at] != tgt.shape[at]:
            raise RuntimeError(
                "Transformer: src and tgt must have the same batch because each sentence has its own translation; got "
                f"src {tuple(src.shape)}, tgt {tuple(tgt.shape)}"
            )
        hints = {"is_causal": src_is_causal}
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, **_known(hints))
        hints = {"tgt_is_causal": tgt_is_causal, "memory_is_causal": memory_is_causal}
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            **_known(hints),
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device=None, dtype=None):
        """-inf above the diagonal, 0 elsewhere."""
        return full((sz, sz), -math.inf, device=device, dtype=dtype).triu(1)
