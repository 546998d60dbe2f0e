"""Sequences to sequences: recurrent layers, encoder-decoders and how good a translation is."""

from __future__ import annotations

import collections
import math
from typing import Any

from ... import torch
from ...torch import nn
from .attention import Encoder
from .training import Classifier, Module


def init_seq2seq(module):
    """Xavier's initial values for the matrices of linear and recurrent layers, to be passed to ``apply``."""
    if type(module) is nn.Linear:
        nn.init.xavier_uniform_(module.weight)
    if type(module) is nn.GRU:
        for name in module._flat_weights_names:
            if "weight" in name:
                nn.init.xavier_uniform_(module._parameters[name])


class RNN(Module):
    """A recurrent layer, ``rnn``."""

    def __init__(self, num_inputs, num_hiddens):
        super().__init__()
        self.save_hyperparameters()
        self.rnn: Any = nn.RNN(num_inputs, num_hiddens)

    def forward(self, inputs, H=None):
        """Outputs ``(L, B, num_hiddens)`` and the last state."""
        return self.rnn(inputs, H)


class GRU(RNN):
    """Gated recurrent layers."""

    def __init__(self, num_inputs, num_hiddens, num_layers, dropout=0):
        Module.__init__(self)
        self.save_hyperparameters()
        self.rnn = nn.GRU(num_inputs, num_hiddens, num_layers, dropout=dropout)


class Seq2SeqEncoder(Encoder):
    """Embedding and GRU: ``(B, L)`` to outputs ``(L, B, num_hiddens)`` and the last state."""

    def __init__(self, vocab_size, embed_size, num_hiddens, num_layers, dropout=0):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.rnn = GRU(embed_size, num_hiddens, num_layers, dropout)
        self.apply(init_seq2seq)

    def forward(self, X, *args):
        """The outputs and the state."""
        return self.rnn(self.embedding(X.t().type(torch.int64)))


class EncoderDecoder(Classifier):
    """An `Encoder` and a `Decoder` in one."""

    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, enc_X, dec_X, *args):
        """The decoder's outputs."""
        return self.decoder(dec_X, self.decoder.init_state(self.encoder(enc_X, *args), *args))[0]

    def predict_step(self, batch, device, num_steps, save_attention_weights=False):
        """The likeliest token at each step, ``(B, num_steps)``, and the weights of each step."""
        src, tgt, src_valid_len, _ = (t.to(device) for t in batch)
        state = self.decoder.init_state(self.encoder(src, src_valid_len), src_valid_len)
        tokens, attention_weights = [tgt[:, :1]], []
        for _ in range(num_steps):
            Y, state = self.decoder(tokens[-1], state)
            tokens.append(Y.argmax(2))
            if save_attention_weights:
                attention_weights.append(self.decoder.attention_weights)
        return torch.cat(tokens[1:], 1), attention_weights


class Seq2Seq(EncoderDecoder):
    """An encoder-decoder that learns by Adam; padding has no part in its loss."""

    def __init__(self, encoder, decoder, tgt_pad, lr):
        super().__init__(encoder, decoder)
        self.tgt_pad, self.lr = tgt_pad, lr

    validation_step = Module.validation_step

    def loss(self, Y_hat, Y, averaged=True):
        """Cross entropy of the tokens that are no padding."""
        losses = super().loss(Y_hat, Y, averaged=False)
        known = (Y.reshape(-1) != self.tgt_pad).type(torch.float32)
        return (losses * known).sum() / known.sum()

    def configure_optimizers(self):
        """Adam with the learning rate ``self.lr``."""
        return torch.optim.Adam(self.parameters(), lr=self.lr)


def bleu(pred_seq, label_seq, k):
    """How many of its n-grams up to k tokens a translation has in common with another, and how short it is.

    Examples
    --------
    >>> from qkv.torch import d2l
    >>> d2l.bleu("a b c", "a b c", k=2)
    1.0
    """
    pred, label = pred_seq.split(" "), label_seq.split(" ")

    def grams(tokens, n):
        return collections.Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))

    score = math.exp(min(0, 1 - len(label) / len(pred)))
    for n in range(1, min(k, len(pred)) + 1):
        matches = (grams(pred, n) & grams(label, n)).total()
        score *= math.pow(matches / (len(pred) - n + 1), math.pow(0.5, n))
    return score


def check_len(a, n):
    """Refuse another length."""
    if len(a) != n:
        raise AssertionError(f"list's length {len(a)} != expected length {n}")


def check_shape(a, shape):
    """Refuse another shape."""
    if a.shape != shape:
        raise AssertionError(f"tensor's shape {a.shape} != expected shape {shape}")
