"""What the public classes make can be printed, pickled and copied."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np
import pytest
from sweep import sweep

import qkv
from qkv import data, losses, models, nn, optim, training


def loss(model, batch):
    return losses.mse(model(batch[0]), batch[1])


def trainer(steps=3):
    qkv.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 5), nn.Dropout(0.5), nn.Linear(5, 1))
    optimizer = optim.AdamW(model.parameters(), 0.01)
    made = training.Trainer(model, optimizer, loss, schedule=optim.LinearSchedule(optimizer, 100))
    made.fit(BATCHES, steps=steps)
    return made


X = np.random.default_rng(0).standard_normal((11, 3)).astype("float32")
BATCHES = data.Batches(X, X[:, :1], batch_size=4, seed=2)
BERT = models.BertConfig(
    vocab_size=5, hidden_size=4, num_hidden_layers=1, num_attention_heads=2, intermediate_size=3
)
LAYERS = {
    "Linear": lambda: nn.Linear(3, 2),
    "Embedding": lambda: nn.Embedding(5, 3, 1),
    "LayerNorm": lambda: nn.LayerNorm((2, 3)),
    "RMSNorm": lambda: nn.RMSNorm(3),
    "Dropout": lambda: nn.Dropout(0.3),
    "ReLU": nn.ReLU,
    "GELU": lambda: nn.GELU("tanh"),
    "Tanh": nn.Tanh,
    "Sequential": lambda: nn.Sequential(nn.Linear(3, 2), nn.ReLU()),
    "ModuleList": lambda: nn.ModuleList([nn.Linear(3, 2)]),
    "GRU": lambda: nn.GRU(3, 5, 2),
    "DotProductAttention": lambda: nn.DotProductAttention(0.1),
    "DotProductAttention(dropout=0.0, is_causal=False, cosine=True": lambda: nn.DotProductAttention(
        cosine=True, scale=3.0
    ),
    "BilinearAttention": lambda: nn.BilinearAttention(3, 5, 0.1),
    "AdditiveAttention": lambda: nn.AdditiveAttention(4),
    "SelfAttention": lambda: nn.SelfAttention(3, 5, is_causal=True),
    "MultiHeadAttention": lambda: nn.MultiHeadAttention(6, 2, window=(1, 2), rotary_base=100.0, head_dim=4),
    "LinearAttention": lambda: nn.LinearAttention(6, 3, update_rule="gated_delta", num_kv_heads=1, bias=True),
    "PositionalEncoding": lambda: nn.PositionalEncoding(5, max_len=7),
    "PositionWiseFFN": lambda: nn.PositionWiseFFN(3, 5),
    "AddNorm": lambda: nn.AddNorm(3),
    "TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(4, 2, 3),
    "TransformerDecoderLayer": lambda: nn.TransformerDecoderLayer(4, 2, 3),
    "TransformerEncoder": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 3), 2),
    "TransformerDecoder": lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 3), 2),
    "Seq2SeqEncoder": lambda: models.Seq2SeqEncoder(3, 4, 5, 1),
    "Seq2SeqDecoder": lambda: models.Seq2SeqDecoder(3, 4, 5, 1),
    "BertModel": lambda: models.BertModel(BERT),
}


def pickled(x):
    return pickle.loads(pickle.dumps(x))


TWINS = [pickled, copy.copy, copy.deepcopy]


@pytest.mark.parametrize("twin", TWINS)
@sweep("name", LAYERS)
def test_a_layer(name, twin):
    layer = LAYERS[name]()
    its = twin(layer)
    assert type(its) is type(layer)
    assert repr(its) == repr(layer)
    assert " at 0x" not in repr(layer)
    assert repr(layer).startswith(name)
    if name != "AdditiveAttention":  # its sizes are unknown
        for (key, a), (same, b) in zip(layer.named_parameters(), its.named_parameters(), strict=True):
            assert key == same
            np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("twin", TWINS)
def test_a_generator_goes_on_where_it_stood(twin):
    rng = qkv.Generator(7)
    qkv.randn(3, rng=rng)
    its = twin(rng)
    assert repr(its) == repr(rng)
    assert repr(rng).startswith("Generator(state ")
    np.testing.assert_array_equal(qkv.rand(5, rng=its), qkv.rand(5, rng=rng))
    assert repr(qkv.Generator(8)) != repr(qkv.Generator(7))


@pytest.mark.parametrize("twin", [pickled, copy.deepcopy])
def test_a_trainer_goes_on_to_the_bit(twin):
    one = trainer()
    assert repr(one) == "Trainer(Sequential, AdamW, LinearSchedule, epoch 1, 3 updates)"
    other = twin(one)
    assert repr(other) == repr(one)
    state = qkv.random.get_rng_state()
    for each in (one, other):
        qkv.random.set_rng_state(state)
        each.fit(BATCHES, steps=7)
    for a, b in zip(one.model.parameters(), other.model.parameters(), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert one.history.loss == other.history.loss


@pytest.mark.parametrize("twin", TWINS)
def test_data(twin):
    vocabulary = data.Vocabulary(["a", "b", "a"])
    assert repr(twin(vocabulary)) == repr(vocabulary)
    its = twin(BATCHES)
    assert repr(its) == repr(BATCHES) == "Batches(11 rows of 2 columns, batch_size=4, seed=2)"
    for a, b in zip(its(1), BATCHES(1), strict=True):
        np.testing.assert_array_equal(a[0], b[0])


@pytest.mark.parametrize("twin", TWINS)
def test_an_estimator(twin):
    model = qkv.NadarayaWatson("triangular", 0.7).fit(X, X[:, 0])
    its = twin(model)
    assert repr(its) == repr(model) == "NadarayaWatson(kernel='triangular', bandwidth=0.7)"
    np.testing.assert_array_equal(its.predict(X), model.predict(X))


@pytest.mark.parametrize("twin", TWINS)
def test_views_of_attention(twin):
    plot = pytest.importorskip("qkv.plot")
    for view in (
        plot.AttentionSliders(X[:3]),
        plot.BandwidthSlider(X[:, 0], X[:, 1]),
        plot.head_view(np.full((2, 3, 3), 1 / 3), list("abc")),
    ):
        its, own = (re.sub("qkv-[0-9a-f]{12}", "", each._repr_html_()) for each in (twin(view), view))
        assert its == own
        assert " at 0x" not in repr(view)
