"""Attention, the transformer's encoder and the vision transformer, with d2l's names, arguments and names of parts."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial

from ... import torch
from ...torch import nn
from ..nn._watching import watched
from .training import Classifier, Module, _undefined


def masked_softmax(X, valid_lens):
    """Softmax over the first ``valid_lens`` keys of scores ``(B, Lq, Lk)``; lengths ``(B,)`` or ``(B, Lq)``.

    Excluded scores count as -1e6, so a length of 0 gives equal weights. Unlike d2l's it leaves the scores as they are.
    """
    if valid_lens is None:
        return nn.functional.softmax(X, dim=-1)
    lens = valid_lens[:, None] if valid_lens.dim() == 1 else valid_lens
    beyond = torch.arange(X.shape[-1]) >= lens[:, :, None]
    return nn.functional.softmax(X.masked_fill(beyond, -1e6), dim=-1)


def sequence_mask(X, valid_len, value=0):
    """``value`` in the steps of ``X (B, L, ...)`` beyond the lengths ``(B,)``. Unlike d2l's it leaves X as it is."""
    beyond = torch.arange(X.shape[1]) >= valid_len[:, None]
    return X.masked_fill(beyond.reshape(*beyond.shape, *[1] * (X.dim() - 2)), value)


def transpose_qkv(X, num_heads):
    """``(B, L, D)`` to ``(B * heads, L, D / heads)``."""
    B, L, _ = X.shape
    return X.reshape(B, L, num_heads, -1).permute(0, 2, 1, 3).flatten(0, 1)


def transpose_output(X, num_heads):
    """``(B * heads, L, D / heads)`` to ``(B, L, D)``."""
    return X.unflatten(0, (-1, num_heads)).permute(0, 2, 1, 3).flatten(2)


class DotProductAttention(nn.Module):
    """Scaled dot products of ``(B, L, d)``; the weights stay in ``attention_weights``."""

    def __init__(self, dropout):
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def scores(self, queries, keys):
        """``(B, Lq, Lk)``."""
        return torch.bmm(queries, keys.transpose(1, 2)) / math.sqrt(queries.shape[-1])

    def forward(self, queries, keys, values, valid_lens=None):
        """``(B, Lq, d)``."""
        seen = partial(self._seen, len(queries))
        queries, keys, values = seen("queries", queries), seen("keys", keys), seen("values", values)
        scores = seen("scores", self.scores(queries, keys))
        self.attention_weights = seen("weights", masked_softmax(scores, valid_lens))
        return seen("heads", torch.bmm(self.dropout(self.attention_weights), values))

    num_heads: int | None = None  # of the layer that it is a part of, whose heads are beside the items

    @property
    def _attention_heads(self):
        return (self.num_heads,)

    def _seen(self, items: int, word: str, x):
        """A value as qkv.look sees and changes it."""
        heads = self.num_heads
        return watched(self, word, x, None if heads is None else (items // heads, heads))


class AdditiveAttention(DotProductAttention):
    """``w_v tanh(W_q q + W_k k)``."""

    def __init__(self, num_hiddens, dropout):
        super().__init__(dropout)
        del self.dropout
        self.W_k = nn.LazyLinear(num_hiddens, bias=False)
        self.W_q = nn.LazyLinear(num_hiddens, bias=False)
        self.w_v = nn.LazyLinear(1, bias=False)
        self.dropout = nn.Dropout(dropout)

    def scores(self, queries, keys):
        """``(B, Lq, Lk)``."""
        queries, keys = self.W_q(queries), self.W_k(keys)
        return self.w_v(torch.tanh(queries.unsqueeze(2) + keys.unsqueeze(1))).squeeze(-1)


class MultiHeadAttention(Module):
    """Several dot-product attentions of linear maps, in one; their weights are ``attention.attention_weights``."""

    def __init__(self, num_hiddens, num_heads, dropout, bias=False):
        super().__init__()
        self.num_heads, self.attention = num_heads, DotProductAttention(dropout)
        self.attention.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.LazyLinear(num_hiddens, bias=bias) for _ in range(4))

    def transpose_qkv(self, X):
        """``(B, L, D)`` to ``(B * heads, L, D / heads)``."""
        return transpose_qkv(X, self.num_heads)

    def transpose_output(self, X):
        """And back."""
        return transpose_output(X, self.num_heads)

    def forward(self, queries, keys, values, valid_lens):
        """``(B, Lq, num_hiddens)``; lengths ``(B,)`` or ``(B, Lq)``."""
        pairs = zip((self.W_q, self.W_k, self.W_v), (queries, keys, values), strict=True)
        parts = [self.transpose_qkv(W(X)) for W, X in pairs]
        if valid_lens is not None:
            valid_lens = torch.repeat_interleave(valid_lens, self.num_heads, dim=0)
        return self.W_o(self.transpose_output(self.attention(*parts, valid_lens)))


class PositionalEncoding(nn.Module):
    """Sines in the even columns of ``P (1, max_len, num_hiddens)``, cosines in the odd ones, added."""

    def __init__(self, num_hiddens, dropout, max_len=1000):
        super().__init__()
        self.dropout, self.P = nn.Dropout(dropout), torch.zeros((1, max_len, num_hiddens))
        exponents = torch.arange(0, num_hiddens, 2, dtype=torch.float32) / num_hiddens
        angles = torch.arange(max_len, dtype=torch.float32).reshape(-1, 1) / torch.pow(10000, exponents)
        self.P[:, :, 0::2] = torch.sin(angles)
        self.P[:, :, 1::2] = torch.cos(angles)[:, : num_hiddens // 2]

    def forward(self, X):
        """``(B, L, num_hiddens)``."""
        return self.dropout(X + self.P[:, : X.shape[1]])


class PositionWiseFFN(nn.Sequential):
    """Two linear layers and a ReLU between them: ``(..., M)`` to ``(..., ffn_num_outputs)``."""

    def __init__(self, ffn_num_hiddens, ffn_num_outputs):
        first, second = nn.LazyLinear(ffn_num_hiddens), nn.LazyLinear(ffn_num_outputs)
        super().__init__(OrderedDict(dense1=first, relu=nn.ReLU(), dense2=second))


class AddNorm(nn.Module):
    """Layer normalization of ``X + dropout(Y)``."""

    def __init__(self, norm_shape, dropout):
        super().__init__()
        self.dropout, self.ln = nn.Dropout(dropout), nn.LayerNorm(norm_shape)

    def forward(self, X, Y):
        """In the shape of X."""
        return self.ln(self.dropout(Y) + X)


class TransformerEncoderBlock(nn.Module):
    """Attention and a feed-forward network, each added and normalized."""

    def __init__(self, num_hiddens, ffn_num_hiddens, num_heads, dropout, use_bias=False):
        super().__init__()
        self.attention = MultiHeadAttention(num_hiddens, num_heads, dropout, use_bias)
        self.addnorm1 = AddNorm(num_hiddens, dropout)
        self.ffn = PositionWiseFFN(ffn_num_hiddens, num_hiddens)
        self.addnorm2 = AddNorm(num_hiddens, dropout)

    def forward(self, X, valid_lens):
        """In the shape of X."""
        Y = self.addnorm1(X, self.attention(X, X, X, valid_lens))
        return self.addnorm2(Y, self.ffn(Y))


class Encoder(nn.Module):
    """From inputs to a state: to be defined by a subclass."""

    forward = _undefined("forward")


class Decoder(nn.Module):
    """From a state to outputs: to be defined by a subclass."""

    init_state, forward = _undefined("init_state"), _undefined("forward")


class AttentionDecoder(Decoder):
    """A decoder with ``attention_weights``."""

    attention_weights = property(_undefined("attention_weights"))


class TransformerEncoder(Encoder):
    """Embedding, positions and blocks; ``attention_weights`` has one entry a block."""

    def __init__(
        self, vocab_size, num_hiddens, ffn_num_hiddens, num_heads, num_blks, dropout, use_bias=False
    ):
        super().__init__()
        self.num_hiddens = num_hiddens
        self.embedding = nn.Embedding(vocab_size, num_hiddens)
        self.pos_encoding = PositionalEncoding(num_hiddens, dropout)
        made = (num_hiddens, ffn_num_hiddens, num_heads, dropout, use_bias)
        self.blks = nn.Sequential(
            OrderedDict((f"block{i}", TransformerEncoderBlock(*made)) for i in range(num_blks))
        )

    def forward(self, X, valid_lens):
        """``(B, L)`` to ``(B, L, num_hiddens)``."""
        X = self.pos_encoding(self.embedding(X) * math.sqrt(self.num_hiddens))
        self.attention_weights = []
        for block in self.blks:
            X = block(X, valid_lens)
            self.attention_weights.append(block.attention.attention.attention_weights)
        return X


class PatchEmbedding(nn.Module):
    """A linear map of each patch of pictures, ``(B, C, H, W)`` to ``(B, num_patches, num_hiddens)``."""

    def __init__(self, img_size=96, patch_size=16, num_hiddens=512):
        super().__init__()
        (H, W), (h, w) = (n if isinstance(n, Sequence) else (n, n) for n in (img_size, patch_size))
        self.num_patches = (H // h) * (W // w)
        self.conv = nn.LazyConv2d(num_hiddens, kernel_size=(h, w), stride=(h, w))

    def forward(self, X):
        """The maps."""
        return self.conv(X).flatten(2).transpose(1, 2)


class ViTMLP(nn.Sequential):
    """Two linear layers, a GELU between them, and dropout after each: ``(..., M)`` to ``(..., mlp_num_outputs)``."""

    def __init__(self, mlp_num_hiddens, mlp_num_outputs, dropout=0.5):
        first, second = nn.LazyLinear(mlp_num_hiddens), nn.LazyLinear(mlp_num_outputs)
        parts = {"dense1": first, "gelu": nn.GELU(), "dropout1": nn.Dropout(dropout), "dense2": second}
        super().__init__(OrderedDict(parts, dropout2=nn.Dropout(dropout)))


class ViTBlock(nn.Module):
    """Normalized attention and a normalized `ViTMLP`, each added."""

    def __init__(self, num_hiddens, norm_shape, mlp_num_hiddens, num_heads, dropout, use_bias=False):
        super().__init__()
        self.ln1 = nn.LayerNorm(norm_shape)
        self.attention = MultiHeadAttention(num_hiddens, num_heads, dropout, use_bias)
        self.ln2 = nn.LayerNorm(norm_shape)
        self.mlp = ViTMLP(mlp_num_hiddens, num_hiddens, dropout)

    def forward(self, X, valid_lens=None):
        """In the shape of X."""
        Y = self.ln1(X)
        X = X + self.attention(Y, Y, Y, valid_lens)
        return X + self.mlp(self.ln2(X))


class ViT(Classifier):
    """A vision transformer: scores of classes for pictures ``(B, C, H, W)``."""

    def __init__(
        self,
        img_size,
        patch_size,
        num_hiddens,
        mlp_num_hiddens,
        num_heads,
        num_blks,
        emb_dropout,
        blk_dropout,
        lr=0.1,
        use_bias=False,
        num_classes=10,
    ):
        super().__init__()
        self.save_hyperparameters()
        self.patch_embedding = PatchEmbedding(img_size, patch_size, num_hiddens)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, num_hiddens))
        steps = self.patch_embedding.num_patches + 1  # the token is before the patches
        self.pos_embedding = nn.Parameter(torch.randn(1, steps, num_hiddens))
        self.dropout = nn.Dropout(emb_dropout)
        made = (num_hiddens, num_hiddens, mlp_num_hiddens, num_heads, blk_dropout, use_bias)
        self.blks = nn.Sequential(*(ViTBlock(*made) for _ in range(num_blks)))
        self.head = nn.Sequential(nn.LayerNorm(num_hiddens), nn.Linear(num_hiddens, num_classes))

    def forward(self, X):
        """``(B, num_classes)``."""
        X = self.patch_embedding(X)
        X = torch.cat((self.cls_token.expand(X.shape[0], -1, -1), X), 1)
        return self.head(self.blks(self.dropout(X + self.pos_embedding))[:, 0])
