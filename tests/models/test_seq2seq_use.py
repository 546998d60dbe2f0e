"""Sequence-to-sequence models: dropout, copies, state dicts, records, small sizes, rejections."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from seq2seq_checks import DECODERS, batch, model_of

import qkv
from qkv.models import EncoderDecoder, Seq2SeqAttentionDecoder, Seq2SeqEncoder


def test_dropout_acts_in_training():
    for decoder in DECODERS:
        model, (src, tgt, lens) = model_of(decoder, 0.5), batch()
        qkv.manual_seed(1)
        trained = model(src, tgt, lens).numpy()
        qkv.manual_seed(1)
        np.testing.assert_array_equal(model(src, tgt, lens), trained)
        model.eval()
        a, b = model(src, tgt, lens).numpy(), model(src, tgt, lens).numpy()
        np.testing.assert_array_equal(a, b)
        assert np.abs(a - trained).max() > 1e-3
        assert model.decoder.dropout == 0.5


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
@pytest.mark.parametrize("decoder", DECODERS)
def test_copies(decoder, again):
    model, (src, tgt, lens) = model_of(decoder), batch()
    expected = model(src, tgt, lens).numpy()
    other = again(model)
    np.testing.assert_array_equal(other(src, tgt, lens), expected)
    other.decoder.dense.bias.copy_(np.ones(17))
    np.testing.assert_array_equal(model(src, tgt, lens), expected)
    if decoder is Seq2SeqAttentionDecoder:
        assert again(model).decoder.attention_weights == []


@pytest.mark.parametrize("decoder", DECODERS)
def test_state_dicts(decoder):
    model, (src, tgt, lens) = model_of(decoder), batch()
    other = model_of(decoder)
    other.load_state_dict({n: v.numpy() for n, v in model.state_dict().items()})
    np.testing.assert_array_equal(other(src, tgt, lens), model(src, tgt, lens))
    parts = {n.split(".")[1] for n in model.state_dict() if n.startswith("decoder.")}
    extra = {"attention"} if decoder is Seq2SeqAttentionDecoder else set()
    assert parts == {"embedding", "rnn", "dense"} | extra
    assert model.decoder.vocab_size == 17
    assert (model.decoder.embed_size, model.decoder.num_hiddens, model.decoder.num_layers) == (5, 11, 2)


def test_text():
    text = repr(EncoderDecoder(Seq2SeqEncoder(13, 5, 11, 2), Seq2SeqAttentionDecoder(17, 5, 11, 2)))
    for part in (
        "EncoderDecoder(",
        "(encoder): Seq2SeqEncoder(\n    vocab_size=13, embed_size=5, num_hiddens=11, num_layers=2, dropout=0.0\n",
        "(rnn): GRU(input_size=16, hidden_size=11, num_layers=2, bias=True, dropout=0.0)",
        "(attention): AdditiveAttention(",
        "(dense): Linear(in_features=11, out_features=17",
    ):
        assert part in text, text


def test_weights_are_forgotten_on_demand():
    model, (src, tgt, lens) = model_of(), batch()
    model(src, tgt, lens)
    assert len(model.attention_weights) == 4
    model.decoder.attention_weights = None
    assert model.attention_weights == []
    with qkv.no_attention_record():
        model(src, tgt, lens)
    assert model.attention_weights == []
    with pytest.raises(TypeError, match="attention_weights: can only be set to None"):
        model.decoder.attention_weights = [1]


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize(("B", "T"), [(0, 4), (3, 0), (1, 1)])
def test_small_sizes(decoder, B, T):
    model = model_of(decoder)
    y = model(np.zeros((B, 7), int), np.zeros((B, T), int))
    assert y.shape == (B, T, 17)
    y.sum().backward()
    assert np.isfinite(model.decoder.dense.weight.grad.numpy()).all()


@pytest.mark.parametrize("decoder", DECODERS)
def test_rejections(decoder):
    name, model = decoder.__name__, model_of(decoder)
    state = model.decoder.init_state(model.encoder([[1, 2, 3]]))
    ids = [[1]]
    cases = [
        (lambda: decoder(0, 1, 1, 1), f"{name}: vocab_size must be at least 1; got 0"),
        (lambda: decoder(1, 0, 1, 1), f"{name}: embed_size must be at least 1; got 0"),
        (lambda: decoder(1, 1, 0, 1), f"{name}: num_hiddens must be at least 1; got 0"),
        (lambda: decoder(1, 1, 1, 0), f"{name}: num_layers must be at least 1; got 0"),
        (lambda: decoder(1, 1, 1, 1, 2.0), f"{name}: dropout must be from 0 to 1; got 2"),
        (lambda: model.decoder([1], state), rf"{name}: ids must be \(B, T\); got ids \(1,\)"),
        (
            lambda: model.decoder([[1], [2]], state),
            rf"{name}: the hidden state must be \(num_layers, B, num_hiddens\) = \(2, 2, 11\) because ids are "
            r"\(2, 1\); got hidden state \(2, 1, 11\)",
        ),
        (
            lambda: model.decoder(ids, (np.zeros((2, 3, 11)), state[1], None)),
            rf"{name}: the encoder's outputs in the state must be \(B, Ts, num_hiddens\) = \(1, Ts, 11\); got outputs",
        ),
        (
            lambda: model.decoder.init_state((np.zeros((1, 3, 7)), state[1])),
            rf"{name}: the encoder's outputs must be \(B, Ts, 11\) because num_hiddens = 11; got outputs \(1, 3, 7\)",
        ),
        (
            lambda: model.decoder.init_state((state[0], np.zeros((1, 1, 11)))),
            rf"{name}: the encoder's state must be \(num_layers, B, num_hiddens\) = \(2, 1, 11\); got state",
        ),
        (lambda: model.encoder([1, 2]), r"Seq2SeqEncoder: ids must be \(B, T\); got ids \(2,\)"),
    ]
    for call, text in cases:
        with pytest.raises(ValueError, match=f"^{text}"):
            call()
    wrong = rf"{name}: state must be \(encoder outputs, hidden state, encoder_valid_lens\), as init_state gives it; got"
    for bad in (state[1], state[:2], None):
        with pytest.raises(TypeError, match=wrong):
            model.decoder(ids, bad)
    with pytest.raises(
        TypeError, match=rf"{name}: encoder_outputs must be \(outputs, state\), as the encoder gives them"
    ):
        model.decoder.init_state(state[0])
