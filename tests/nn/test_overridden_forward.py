"""A part whose forward is written in Python is called by what contains it, as the same network in Python calls it."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from helpers import close
from layer_checks import randomised
from sweep import sweep

import qkv
from qkv import models, nn

RNG = np.random.default_rng(61)
B, LQ, LK, M, F = 2, 5, 7, 6, 11
X, MEMORY = RNG.standard_normal((B, LQ, M)), RNG.standard_normal((B, LK, M))
IDS, TARGETS = RNG.integers(4, 12, (B, LK)), RNG.integers(4, 12, (B, LQ))
MASK = RNG.random((LQ, LQ)) < 0.7


class EncoderLayer(nn.TransformerEncoderLayer):
    def forward(self, src, **options):
        return super().forward(src, **options) + 1


class DecoderLayer(nn.TransformerDecoderLayer):
    def forward(self, tgt, memory, **options):
        return super().forward(tgt, memory, **options) + 1


class Heads(nn.MultiHeadAttention):
    def forward(self, queries, keys=None, values=None, **options):
        y = super().forward(queries, keys, values, **options)
        return (y[0] + 1, y[1]) if isinstance(y, tuple) else y + 1


class Table(nn.Embedding):
    def forward(self, ids):
        return super().forward(ids) + 1


class Recurrent(nn.GRU):
    def forward(self, x, state=None, **options):
        outputs, last = super().forward(x, state, **options)
        return outputs + 1, last + 1


@pytest.fixture(params=["eval", "train"])
def mode(request):
    return lambda module: module.train(request.param == "train")


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return request.param


ENCODER_CALLS = [
    {}, {"is_causal": True}, {"is_causal": "lower_right"}, {"valid_lens": [2, 5]},
    {"valid_lens": [3, 4], "attn_mask": MASK, "is_causal": True},
]  # fmt: skip
DECODER_CALLS = [
    *ENCODER_CALLS,
    {"memory_valid_lens": [2, 6]},
    {"memory_attn_mask": RNG.standard_normal((LQ, LK))},
]


@pytest.mark.parametrize("call", ENCODER_CALLS)
def test_encoder_calls_its_layers(mode, dtype, call):
    layer = EncoderLayer(M, 2, F, 0.0)
    encoder = mode(nn.TransformerEncoder(layer, 2, nn.LayerNorm(M)).to(dtype))
    assert [type(part) for part in encoder.layers] == [EncoderLayer] * 2
    x = qkv.tensor(X.astype(dtype), requires_grad=True)
    y = x
    for part in encoder.layers:
        y = part(y, **call)
    y = encoder.norm(y)
    got = encoder(x, **call)
    close(got, y, dtype)
    plain = nn.TransformerEncoder(nn.TransformerEncoderLayer(M, 2, F, 0.0), 2, nn.LayerNorm(M)).to(dtype)
    plain.load_state_dict(encoder.state_dict())
    assert np.abs(mode(plain)(x, **call).numpy() - y.numpy()).max() > 1e-3
    for a, b in zip(qkv.grad(got, [x], np.ones_like(X)), qkv.grad(y, [x], np.ones_like(X)), strict=True):
        close(a, b, dtype)


@sweep("call", DECODER_CALLS)
def test_decoder_calls_its_layers(mode, dtype, call):
    decoder = mode(nn.TransformerDecoder(DecoderLayer(M, 2, F, 0.0), 2).to(dtype))
    y = x = X.astype(dtype)
    for part in decoder.layers:
        y = part(y, MEMORY.astype(dtype), **call)
    close(decoder(x, MEMORY.astype(dtype), **call), y, dtype)


def test_layers_of_one_argument_are_called_without_keywords():
    class Plus(nn.TransformerEncoderLayer):
        def forward(self, src):
            return src + 1

    class PlusMemory(nn.TransformerDecoderLayer):
        def forward(self, tgt, memory):
            return tgt + memory

    close(nn.TransformerEncoder(Plus(M, 2, F), 3)(X), X + 3, "float32")
    close(nn.TransformerDecoder(PlusMemory(M, 2, F), 2)(X, X), 3 * X, "float32")
    with pytest.raises(TypeError, match="is_causal"):
        nn.TransformerEncoder(Plus(M, 2, F), 1)(X, is_causal=True)


@pytest.mark.parametrize("first", [False, True])
@sweep("call", ENCODER_CALLS)
def test_encoder_layer_calls_its_attention(mode, dtype, call, first):
    layer = nn.TransformerEncoderLayer(M, 2, F, 0.0, norm_first=first)
    layer.self_attn = Heads(M, 2)
    mode(layer.to(dtype))
    x = qkv.tensor(X.astype(dtype))
    options = dict(call)
    if first:
        y = x + layer.self_attn(layer.norm1(x), **options)
        y = y + layer.linear2(qkv.relu(layer.linear1(layer.norm2(y))))
    else:
        y = layer.norm1(x + layer.self_attn(x, **options))
        y = layer.norm2(y + layer.linear2(qkv.relu(layer.linear1(y))))
    close(layer(x, **call), y, dtype)
    z, weights = layer(x, return_weights=True, **call)
    close(z, y, dtype)
    close(weights, layer.self_attn(layer.norm1(x) if first else x, return_weights=True, **options)[1], dtype)


@pytest.mark.parametrize("name", ["self_attn", "multihead_attn"])
@sweep("call", DECODER_CALLS)
def test_decoder_layer_calls_its_attention(mode, dtype, call, name):
    layer = nn.TransformerDecoderLayer(M, 2, F, 0.0)
    setattr(layer, name, Heads(M, 2))
    mode(layer.to(dtype))
    x, memory = qkv.tensor(X.astype(dtype)), qkv.tensor(MEMORY.astype(dtype))
    cross = {k.removeprefix("memory_"): v for k, v in call.items() if k.startswith("memory_")}
    own = {k: v for k, v in call.items() if not k.startswith("memory_")}
    y = layer.norm1(x + layer.self_attn(x, **own))
    y = layer.norm2(y + layer.multihead_attn(y, memory, memory, **cross))
    y = layer.norm3(y + layer.linear2(qkv.relu(layer.linear1(y))))
    close(layer(x, memory, **call), y, dtype)


@pytest.mark.parametrize(
    "kind", [models.Seq2SeqEncoder, models.Seq2SeqDecoder, models.Seq2SeqAttentionDecoder]
)
def test_recurrent_models_call_their_parts(mode, dtype, kind):
    def outputs(model):
        encoder = model if kind is models.Seq2SeqEncoder else models.Seq2SeqEncoder(12, 3, M, 2)
        encoder.to(dtype)
        if encoder is model:
            return encoder(IDS, [LK, 2])[0]
        qkv.manual_seed(0)
        encoder = models.Seq2SeqEncoder(12, 3, M, 2).to(dtype).eval()
        return model(TARGETS, model.init_state(encoder(IDS), [LK, 2]))[0]

    model = mode(kind(12, 3, M, 2).to(dtype))
    plain = outputs(model).numpy()
    table = model.embedding
    model.embedding = mode(Table(12, 3).to(dtype))
    model.embedding.load_state_dict(table.state_dict())
    got = outputs(model)
    shifted = nn.Embedding(12, 3).to(dtype)
    shifted.load_state_dict({"weight": table.weight.numpy() + 1})
    model.embedding = shifted
    close(got, outputs(model), dtype)
    model.embedding = table
    rnn = model.rnn
    model.rnn = mode(Recurrent(rnn.input_size, M, 2).to(dtype))
    model.rnn.load_state_dict(rnn.state_dict())
    got = outputs(model).numpy()
    if kind is models.Seq2SeqEncoder:
        close(got, plain + 1, dtype)
    assert np.abs(got - plain).max() > 1e-3


def test_recurrent_layer_gets_the_keywords_that_are_set():
    class Seen(nn.GRU):
        def forward(self, x, state=None, **options):
            seen.append((state is None, sorted(options)))
            return super().forward(x, state, **options)

    seen = []
    encoder = models.Seq2SeqEncoder(12, 3, M, 1)
    encoder.rnn = Seen(3, M)
    encoder(IDS)
    encoder(IDS, [2, 3])
    assert seen == [(True, []), (True, ["valid_lens"])]


def transformer(dtype="float64"):
    qkv.manual_seed(3)
    return models.Transformer(12, 12, 8, 2, 2, 2, 16, 0.0, max_len=20).to(dtype)


@pytest.mark.parametrize("name", ["src_embedding", "tgt_embedding"])
def test_transformer_calls_its_embeddings(mode, dtype, name):
    model = mode(transformer(dtype))
    table = getattr(model, name)
    moved = nn.Embedding(12, 8).to(dtype)
    moved.load_state_dict({"weight": table.weight.numpy() + 1})
    setattr(model, name, moved)
    expected = model(IDS, TARGETS)
    own = Table(12, 8).to(dtype)
    own.load_state_dict(table.state_dict())
    setattr(model, name, own)
    close(model(IDS, TARGETS), expected, dtype)


def overridden_layer(old):
    new = DecoderLayer(8, 2, 16, 0.0).to("float64")
    new.load_state_dict(old.state_dict())
    return new


def overridden_attention(name):
    def replace(layer):
        new = Heads(8, 2).to("float64")
        new.load_state_dict(getattr(layer, name).state_dict())
        setattr(layer, name, new)
        return layer

    return replace


@pytest.mark.parametrize(
    "change", [overridden_layer, overridden_attention("self_attn"), overridden_attention("multihead_attn")]
)
def test_decoding_gives_what_the_whole_target_gives(change):
    model = transformer().eval()
    with qkv.no_grad():
        for i in range(2):
            setattr(model.decoder.layers, str(i), change(model.decoder.layers[i]))
        greedy = model.generate(IDS, start_id=1, max_len=8)
        beams = model.generate(IDS, start_id=1, max_len=8, method="beam", beam_size=3)
        for source, found, [best, *_] in zip(IDS, greedy, beams, strict=True):
            ids = [1]
            for token in found[0][0]:
                ids.append(int(np.argmax(model(source[None], np.array([ids])).numpy()[0, -1])))
                assert ids[-1] == token
            scores = qkv.log_softmax(model(source[None], np.array([[1, *best[0]]])[:, :-1])).numpy()[0]
            total = sum(row[token] for row, token in zip(scores, best[0], strict=True))
            np.testing.assert_allclose(best[1], total, 1e-6)


def test_causal_model_calls_attention_and_embedding(mode, dtype):
    model = mode(models.CausalLM(12, 8, 2, 1, dim_feedforward=16).to(dtype))
    plain = model(IDS).numpy()
    new = Heads(8, 2, bias=False, is_causal=True, rotary_base=10000.0).to(dtype)
    new.load_state_dict(model.layers[0].self_attn.state_dict())
    model.layers[0].self_attn = new
    layer = model.layers[0]
    x = model.embedding(IDS)
    x = x + layer.self_attn(layer.norm1(x))
    x = x + layer.linear2(qkv.gelu(layer.linear1(layer.norm2(x))))
    close(model(IDS), model.output(model.norm(x)), dtype)
    caches = [nn.KVCache()]
    with qkv.no_grad():
        model(IDS[:, :3], cache=caches)
        close(model(IDS[:, 3:], cache=caches), model(IDS).numpy()[:, 3:], dtype)
    assert np.abs(model(IDS).numpy() - plain).max() > 1e-3


def test_a_cache_that_is_not_filled_is_an_error():
    class Forgets(nn.MultiHeadAttention):
        def forward(self, queries, **options):
            return queries

    model = models.CausalLM(12, 8, 2, 1, dim_feedforward=16)
    model.layers[0].self_attn = Forgets(8, 2, bias=False, is_causal=True)
    assert model(IDS).shape == (B, LK, 12)
    with pytest.raises(ValueError, match=r"Forgets: forward must append its tokens to cache"):
        model(IDS, cache=[nn.KVCache()])


def test_errors_and_wrong_results_name_the_class():
    class Fails(nn.TransformerEncoderLayer):
        def forward(self, src):
            raise KeyError("inside")

    class ReturnsNothing(nn.TransformerEncoderLayer):
        def forward(self, src, return_weights=False):
            return None

    class ReturnsState(nn.GRU):
        def forward(self, x, state=None, **options):
            return x

    with pytest.raises(KeyError, match="inside"):
        nn.TransformerEncoder(Fails(M, 2, F), 2)(X)
    encoder = nn.TransformerEncoder(ReturnsNothing(M, 2, F), 2)
    with pytest.raises(TypeError, match=r"ReturnsNothing: forward must return a Tensor .*; got NoneType"):
        encoder(X)
    with pytest.raises(TypeError, match=r"ReturnsNothing: forward must return \(output, weights\)"):
        encoder(X, return_weights=True)
    model = models.Seq2SeqEncoder(12, 3, M, 1)
    model.rnn = ReturnsState(3, M)
    with pytest.raises(
        TypeError, match=r"ReturnsState: forward must return \(outputs, state\) .*; got Tensor"
    ):
        model(IDS)


def test_copies_are_called():
    encoder = nn.TransformerEncoder(randomised(EncoderLayer(M, 2, F, 0.0)), 2)
    expected = encoder(X).numpy()
    for twin in (copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        assert [type(part) for part in twin.layers] == [EncoderLayer] * 2
        assert twin(X).numpy().tobytes() == expected.tobytes()


def test_a_subclass_without_a_forward_changes_nothing():
    class Same(nn.TransformerEncoderLayer):
        pass

    plain = nn.TransformerEncoder(nn.TransformerEncoderLayer(M, 2, F, 0.0), 2)
    same = nn.TransformerEncoder(Same(M, 2, F, 0.0), 2)
    same.load_state_dict(plain.state_dict())
    for call in ENCODER_CALLS:
        assert same(X, **call).numpy().tobytes() == plain(X, **call).numpy().tobytes()
