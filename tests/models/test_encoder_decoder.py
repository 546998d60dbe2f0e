"""The interfaces: what they refuse, and what a subclass in Python makes of them."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import qkv
from qkv import models, nn

X = np.zeros((4, 7), int)


class CountingEncoder(models.Encoder):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 3)
        self.calls = []

    def forward(self, X, *args):
        self.calls.append(args)
        return self.embedding(X)


class LastDecoder(models.AttentionDecoder):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(3, 10)

    def init_state(self, encoder_outputs, encoder_valid_lens):
        self.lens = encoder_valid_lens
        return encoder_outputs[:, -1:]

    def forward(self, X, state):
        return self.dense(state) + np.zeros((*np.shape(X), 1), "float32"), state

    @property
    def attention_weights(self):
        return ["mine"]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: models.Encoder()(X),
            r"Encoder: forward\(X, valid_lens=None\) must be defined by a subclass",
        ),
        (lambda: models.Encoder().forward(X, 1), "Encoder: forward"),
        (
            lambda: models.Decoder().init_state(X, None),
            r"Decoder: init_state\(encoder_outputs, encoder_valid_lens\) must be defined by a subclass",
        ),
        (lambda: models.Decoder()(X, None), r"Decoder: forward\(X, state\) must be defined by a subclass"),
        (
            lambda: models.Decoder().reorder_state(None, [0]),
            r"Decoder: reorder_state\(state, indices\) must be",
        ),
        (
            lambda: models.AttentionDecoder().attention_weights,
            "AttentionDecoder: attention_weights must be defined by a subclass",
        ),
        (lambda: models.AttentionDecoder()(X, None), "Decoder: forward"),
        (lambda: models.AttentionDecoder().init_state(X, None), "Decoder: init_state"),
    ],
)
def test_what_nobody_defines_is_not_implemented(call, text):
    with pytest.raises(NotImplementedError, match=text):
        call()


def test_a_subclass_without_forward_is_not_implemented():
    class Incomplete(models.Encoder):
        pass

    with pytest.raises(NotImplementedError, match="Encoder: forward"):
        Incomplete()(X)
    with pytest.raises(NotImplementedError, match="Encoder: forward"):
        models.EncoderDecoder(Incomplete(), LastDecoder())(X, X)


def test_subclasses_in_python():
    model = models.EncoderDecoder(CountingEncoder(), LastDecoder())
    y = model(X, X[:, :5])
    assert y.shape == (4, 5, 10)
    assert model.encoder.calls == [()]
    assert model.decoder.lens is None
    model(X, X, [7, 3, 5, 1])
    assert model.encoder.calls == [(), ([7, 3, 5, 1],)]
    assert model.decoder.lens == [7, 3, 5, 1]
    assert model.attention_weights == ["mine"]
    y.sum().backward()
    assert np.abs(model.encoder.embedding.weight.grad.numpy()).sum() > 0
    assert [n for n, _ in model.named_parameters()] == [
        "encoder.embedding.weight",
        "decoder.dense.weight",
        "decoder.dense.bias",
    ]


def test_the_families():
    for kind in (models.Encoder, models.Decoder, models.EncoderDecoder):
        assert issubclass(kind, nn.Module)
    assert issubclass(models.AttentionDecoder, models.Decoder)
    assert issubclass(models.Seq2SeqEncoder, models.Encoder)
    assert issubclass(models.Seq2SeqDecoder, models.Decoder)
    assert not issubclass(models.Seq2SeqDecoder, models.AttentionDecoder)
    assert issubclass(models.Seq2SeqAttentionDecoder, models.AttentionDecoder)
    assert models.Encoder().training


def test_a_subclass_of_the_model():
    class Both(models.EncoderDecoder):
        def forward(self, enc_X, dec_X):
            return super().forward(enc_X, dec_X, None), "more"

    y, more = Both(CountingEncoder(), LastDecoder())(X, X)
    assert y.shape == (4, 7, 10)
    assert more == "more"


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies(again):
    model = models.EncoderDecoder(CountingEncoder(), LastDecoder()).eval()
    other = again(model)
    assert type(other.decoder) is LastDecoder
    assert not other.training
    np.testing.assert_array_equal(other(X, X), model(X, X))
    other.decoder.dense.bias.copy_(np.ones(10))
    assert np.abs(other(X, X).numpy() - model(X, X).numpy()).max() > 0.1


def test_rejections():
    with pytest.raises(TypeError, match="EncoderDecoder: encoder must be a Module; got int"):
        models.EncoderDecoder(1, LastDecoder())
    with pytest.raises(TypeError, match="EncoderDecoder: decoder must be a Module; got NoneType"):
        models.EncoderDecoder(CountingEncoder(), None)

    class One(LastDecoder):
        def forward(self, X, state):
            return self.dense(state)

    with pytest.raises(
        TypeError, match=r"EncoderDecoder: what the decoder returns must be \(output, state\); got"
    ):
        models.EncoderDecoder(CountingEncoder(), One())(X, X)


def test_it_comes_with_the_package():
    assert qkv.models is models
    assert set(models.__all__) <= set(dir(models))
