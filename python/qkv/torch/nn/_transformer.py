"""Transformer layers and models with PyTorch's arguments; True in a boolean mask means left out."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from .._tensor import Tensor, wrap_array
from . import functional as F
from . import init
from ._attention import MultiheadAttention
from ._containers import ModuleList
from ._layers import Dropout, LayerNorm, Linear
from ._module import Module

_ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu}


def _activation(given: Any) -> Any:
    if callable(given):
        return given
    if given not in _ACTIVATIONS:
        raise RuntimeError(f"activation should be relu/gelu, not {given}")
    return _ACTIVATIONS[given]


class _Layer(Module):
    norm_first: bool
    dropout: Dropout

    def _feed_forward(self, d_model: int, dim_feedforward: int, dropout: float, bias: bool) -> None:
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias)

    def _inner(self, x: Tensor) -> Any:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _around(self, x: Any, norm: Module, part: Any) -> Any:
        """The residual connection with its norm before or behind."""
        return x + part(norm(x)) if self.norm_first else norm(x + part(x))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward part, each with a residual connection and a norm.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> layer = torch.nn.TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16, batch_first=True)
    >>> layer(torch.ones(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)
        self._feed_forward(d_model, dim_feedforward, dropout, bias)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        self.activation = _activation(activation)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Any:
        """The same shape."""

        def attend(x: Tensor) -> Any:
            out = self.self_attn(
                x,
                x,
                x,
                attn_mask=src_mask,
                key_padding_mask=src_key_padding_mask,
                need_weights=False,
                **_hints(is_causal=is_causal),
            )
            return self.dropout1(out[0])

        x = self._around(src, self.norm1, attend)
        return self._around(x, self.norm2, lambda y: self.dropout2(self._inner(y)))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to an encoder's output and a feed-forward part."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)
        self._feed_forward(d_model, dim_feedforward, dropout, bias)
        self.norm_first = norm_first
        for i in (1, 2, 3):
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias))
        for i in (1, 2, 3):
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _activation(activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        """The shape of ``tgt``."""

        def attend(layer: Any, drop: Any, x: Tensor, y: Tensor, mask: Any, padding: Any, causal: Any) -> Any:
            hints = _hints(is_causal=causal)
            out = layer(x, y, y, attn_mask=mask, key_padding_mask=padding, need_weights=False, **hints)
            return drop(out[0])

        x = self._around(
            tgt,
            self.norm1,
            lambda z: attend(
                self.self_attn, self.dropout1, z, z, tgt_mask, tgt_key_padding_mask, tgt_is_causal
            ),
        )
        x = self._around(
            x,
            self.norm2,
            lambda z: attend(
                self.multihead_attn,
                self.dropout2,
                z,
                memory,
                memory_mask,
                memory_key_padding_mask,
                memory_is_causal,
            ),
        )
        return self._around(x, self.norm3, lambda y: self.dropout3(self._inner(y)))


_MOST = 1 << 40  # bytes of one stack


def _hints(**given: bool | None) -> dict[str, bool]:
    """Those that are set: a layer of one's own may not know the others. The attention refuses one without its mask."""
    return {name: True for name, value in given.items() if value}


def _copies(layer: Module, count: int) -> ModuleList:
    size = count * sum(p.numel() * p.itemsize for p in layer.parameters())
    if size > _MOST:
        raise MemoryError(f"num_layers: {count} copies of the layer need {size} bytes, which cannot be had")
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


class TransformerEncoder(Module):
    """Copies of an encoder layer, one behind the other."""

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Any:
        """The same shape."""
        x = src
        for layer in self.layers:
            x = layer(
                x, src_mask=mask, src_key_padding_mask=src_key_padding_mask, **_hints(is_causal=is_causal)
            )
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """Copies of a decoder layer, one behind the other."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        """The shape of ``tgt``."""
        x = tgt
        for layer in self.layers:
            x = layer(
                x,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                **_hints(tgt_is_causal=tgt_is_causal, memory_is_causal=memory_is_causal),
            )
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """An encoder and a decoder, of inputs that are embedded already."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = "relu",
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        arguments: Any = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        options: Any = {"batch_first": batch_first, "norm_first": norm_first, "bias": bias}
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            layer = TransformerEncoderLayer(*arguments, **options)
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias)
            self.encoder = TransformerEncoder(layer, num_encoder_layers, norm)
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            self.decoder = TransformerDecoder(
                TransformerDecoderLayer(*arguments, **options),
                num_decoder_layers,
                LayerNorm(d_model, layer_norm_eps, bias=bias),
            )
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        """The shape of ``tgt``."""
        memory = self.encoder(
            src,
            mask=src_mask,
            src_key_padding_mask=src_key_padding_mask,
            **_hints(is_causal=src_is_causal),
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            **_hints(tgt_is_causal=tgt_is_causal, memory_is_causal=memory_is_causal),
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Any:
        """-inf above the diagonal, 0 elsewhere."""
        return wrap_array(np.triu(np.full((sz, sz), -math.inf, np.float32), 1))
