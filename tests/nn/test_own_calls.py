"""What a part's own forward may return, which keywords it must take, and what else a layer was replaced by."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import close
from sweep import sweep

import qkv
from qkv import models, nn

RNG = np.random.default_rng(63)
B, L, M = 2, 4, 8
X, Y = RNG.standard_normal((B, L, M)), RNG.standard_normal((B, L + 1, M))
IDS = RNG.integers(4, 12, (B, L))


def with_forward(module, name, forward):
    """Put an object of a subclass with this forward in a part's place."""
    old = getattr(module, name)
    cls = type(f"My{type(old).__name__}", (type(old),), {"forward": forward})
    new = cls.__new__(cls)
    new.__setstate__(old.__getstate__())
    setattr(module, name, new)
    return module


def decoder(**options):
    return models.Seq2SeqAttentionDecoder(12, M, M, 1, **options)


def decoded(module):
    state = module.init_state((Y, RNG.standard_normal((1, B, M))), [L + 1, 2])
    return module(IDS, state)[0]


def layer():
    return nn.TransformerEncoderLayer(M, 2, 12)


WRONG = [None, (1,), 1.0, "text", np.ones(3)]
PLACES = [
    *[
        (layer, name, lambda m: m(X))
        for name in ("self_attn", "linear1", "linear2", "norm1", "norm2", "dropout", "dropout1")
    ],
    *[
        (lambda: models.CausalLM(12, M, 2, 1), name, lambda m: m(IDS))
        for name in ("embedding", "norm", "output")
    ],
    *[
        (lambda: models.Transformer(12, 12, M, 2, 1, 1, 12), name, lambda m: m(IDS, IDS))
        for name in ("positions", "encoder", "decoder", "output")
    ],
    *[(decoder, name, decoded) for name in ("embedding", "attention", "dense")],
    (lambda: nn.AdditiveAttention(M, query_size=M, key_size=M), "w_v", lambda m: m(X, Y, Y)),
    (lambda: nn.Sequential(nn.Tanh()), "0", lambda m: m(X)),
]


@pytest.mark.parametrize("wrong", WRONG)
@sweep("make, name, call", PLACES)
def test_what_is_no_tensor_is_refused(make, name, call, wrong):
    module = make()
    kind = type(getattr(module, name)).__name__
    module = with_forward(module, name, lambda self, *arguments, **options: wrong)
    with pytest.raises(
        TypeError, match=f"My{kind}: forward must return a Tensor .*; got {type(wrong).__name__}"
    ):
        call(module)


def row(self, *arguments, **options):
    return qkv.tensor(np.ones(M, "float32"))


def pair(self, *arguments, **options):
    return row(self), row(self)


@pytest.mark.parametrize(
    ("make", "name", "call", "forward", "text"),
    [
        (layer, "linear2", lambda m: m(X), row, "TransformerEncoderLayer: .*linear2"),
        (layer, "norm1", lambda m: m(X), row, "TransformerEncoderLayer: .*norm"),
        (layer, "self_attn", lambda m: m(X), row, "MyMultiHeadAttention: forward"),
        (
            lambda: nn.TransformerDecoderLayer(M, 2, 12, norm_first=True), "dropout2", lambda m: m(X, Y), row,
            "TransformerDecoderLayer: multihead_attn and dropout2",
        ),
        (lambda: models.CausalLM(12, M, 2, 1), "embedding", lambda m: m(IDS), row, "Embedding: forward"),
        (lambda: models.CausalLM(12, M, 2, 1), "output", lambda m: m.generate(IDS), row, "the new shape"),
        (lambda: models.Seq2SeqEncoder(12, M, M, 1), "rnn", lambda m: m(IDS), pair, "MyGRU: forward"),
        (decoder, "attention", decoded, row, "Seq2SeqAttentionDecoder: attention"),
        (
            lambda: nn.AdditiveAttention(M, query_size=M, key_size=M), "w_v", lambda m: m(X, Y, Y), row,
            "AdditiveAttention: w_v",
        ),
        (
            lambda: models.Transformer(12, 12, M, 2, 1, 1, 12), "decoder", lambda m: m.generate(IDS, start_id=1), row,
            "MyTransformerDecoder: forward",
        ),
    ],
)  # fmt: skip
def test_shapes_that_broadcasting_would_hide_are_refused(make, name, call, forward, text):
    with pytest.raises(ValueError, match=rf"{text}.*; got \(8,\)|{text}.* of \(8,\)"):
        call(with_forward(make(), name, forward))


def language_model():
    qkv.manual_seed(8)
    model = models.CausalLM(12, M, 2, 2)
    for i, name in enumerate(
        ["embedding", "output"]
    ):  # the drawn ones are too small to tell the tokens apart
        getattr(model, name).load_state_dict({"weight": np.random.default_rng(i).standard_normal((12, M))})
    return model


def plus(self, x):
    return type(self).__mro__[1].forward(self, x) + 1


def plus_with_cache(self, x, **options):
    return type(self).__mro__[1].forward(self, x, **options) + 1


@pytest.mark.parametrize("forward", [plus, plus_with_cache])
def test_layers_with_and_without_a_cache_generate_what_the_whole_gives(forward):
    model = language_model()
    with_forward(model.layers, "1", forward)
    with qkv.no_grad():
        for ids, [(found, _, _)] in zip(IDS, model.generate(IDS, max_len=5), strict=True):
            for token in found:
                assert int(np.argmax(model(ids[None]).numpy()[0, -1])) == token
                ids = np.append(ids, token)


@pytest.mark.parametrize("forward", [plus, plus_with_cache])
def test_generation_calls_the_models_own_forward(forward):
    class Model(models.CausalLM):
        def forward(self, ids, **options):
            calls.append(np.shape(ids))
            return self.bonus + (super().forward(ids, **options))

    class Whole(Model):
        def forward(self, ids):
            return super().forward(ids)

    calls = []
    model = (Whole if forward is plus else Model)(12, M, 2, 2)
    model.load_state_dict(language_model().state_dict())
    model.bonus = qkv.tensor(np.where(np.arange(12) == 7, 100.0, 0.0).astype("float32"))
    assert [found for [(found, _, _)] in model.generate(IDS, max_len=3)] == [[7, 7, 7]] * B
    assert calls == ([(B, 3), (B, 4), (B, 5), (B, 6)] if forward is plus else [(B, 3), *[(B, 1)] * 3])


def test_a_cache_that_a_layer_leaves_is_an_error():
    model = language_model()
    with_forward(model.layers, "0", lambda self, x, cache=None: x)
    with pytest.raises(ValueError, match="MyCausalLMLayer: forward must append its tokens to cache"):
        model.generate(IDS, max_len=2)


def test_bert_calls_a_transform_of_ones_own():
    class Transform(nn.Module):
        def forward(self, x):
            return x * 0

    config = models.BertConfig(vocab_size=12, hidden_size=M, num_hidden_layers=1, num_attention_heads=2)
    model = models.BertForMaskedLM(config).eval()
    bias = RNG.standard_normal(12)
    model.cls.predictions.transform = Transform()
    model.load_state_dict({"cls.predictions.bias": bias}, strict=False)
    close(model(IDS).logits, np.broadcast_to(bias, (B, L, 12)), "float32")


def test_hidden_states_ask_for_the_layers():
    config = models.BertConfig(vocab_size=12, hidden_size=M, num_hidden_layers=1, num_attention_heads=2)
    model = models.BertModel(config).eval()
    with_forward(model, "encoder", lambda self, x, **options: x)
    close(model(IDS).last_hidden_state, model.embeddings(IDS), "float32")
    with pytest.raises(TypeError, match="MyBertEncoder: forward gives the last hidden state alone"):
        model.hidden_states(IDS)


def test_biases_of_additive_attention_count():
    attention = nn.AdditiveAttention(M, query_size=M, key_size=M, masked_value=0.0)
    plain = attention(X, Y, Y, valid_lens=[2, 3]).numpy()
    weight = attention.w_v.weight.numpy()
    attention.w_v = nn.Linear(M, 1)
    attention.w_v.load_state_dict({"weight": weight, "bias": [0.5]})
    found, weights = attention(X, Y, Y, valid_lens=[2, 3], return_weights=True)
    scores = np.where(
        np.arange(L + 1) < np.reshape([2, 3], (B, 1, 1)),
        attention.score(qkv.tensor(X), qkv.tensor(Y)).numpy(),
        0,
    )
    close(weights, qkv.softmax(scores), "float32")
    assert np.abs(found.numpy() - plain).max() > 1e-3


def test_decoder_projects_keys_anew_when_a_bias_has_changed():
    module = decoder().eval()
    weight = module.attention.W_k.weight.numpy()
    module.attention.W_k = nn.Linear(M, M)
    state = module.init_state((Y, np.zeros((1, B, M))), None)
    with qkv.no_grad():
        for bias in (0.0, 3.0):
            module.attention.W_k.load_state_dict({"weight": weight, "bias": np.linspace(-bias, bias, M)})
            steps = module(IDS[:, :1], state)[0].numpy()
            close(steps, module(IDS, state)[0].numpy()[:, :1], "float32")


def test_decoder_takes_an_attention_whose_sizes_are_unknown():
    module = decoder()
    module.attention = nn.AdditiveAttention(M)
    assert decoded(module).shape == (B, L, 12)
    assert len(module.attention_weights) == L


def test_decoder_takes_an_attention_with_a_score_or_a_forward_of_its_own():
    class Even(nn.AdditiveAttention):
        def score(self, queries, keys):
            return qkv.tensor(np.zeros((*queries.shape[:2], keys.shape[1]), "float32"))

    class Mean(nn.AdditiveAttention):
        def forward(self, queries, keys, values, valid_lens=None):  # as textbooks write it
            seen = np.arange(keys.shape[1]) < np.reshape(np.array(valid_lens), (-1, 1, 1))
            return qkv.tensor((seen / seen.sum(-1, keepdims=True)).astype("float32")) @ values

    module = decoder()
    found = []
    for kind in (Even, Mean):
        module.attention = kind(M, query_size=M, key_size=M)
        state = module.init_state((Y.astype("float32"), np.zeros((1, B, M), "float32")), [L + 1, 2])
        found.append(module(IDS, state)[0].numpy())
        assert len(module.attention_weights) == (L if kind is Even else 0)
    close(found[0], found[1], "float32")


def test_what_is_assigned_later_is_called():
    class Later(nn.Tanh):
        pass

    layers = nn.Sequential(Later(), Later())
    close(layers(X), np.tanh(np.tanh(X)), "float64")
    Later.forward = lambda self, x: x + 1
    close(layers(X), X + 2, "float64")
    layers[1].forward = lambda x: x * 2
    close(layers(X), (X + 1) * 2, "float64")
    del Later.forward, layers[1].forward
    close(layers(X), np.tanh(np.tanh(X)), "float64")


def test_a_models_forward_that_is_assigned_later_is_called():
    config = models.BertConfig(vocab_size=12, hidden_size=M, num_hidden_layers=1, num_attention_heads=2)
    model = models.BertForTokenClassification(config).eval()
    before = model(IDS).logits.numpy()
    inner = model.bert
    plain = inner.forward
    inner.forward = lambda ids, **options: (plain(ids, **options).last_hidden_state * 0, None)
    zeros = model.classifier(np.zeros((B, L, M)))
    close(model(IDS).logits, zeros, "float32")
    del inner.forward
    close(model(IDS).logits, before, "float32")


def test_a_forward_cannot_be_assigned_to_an_object_of_the_core():
    with pytest.raises(TypeError, match="Linear: forward must be defined by a subclass"):
        nn.Linear(2, 2).forward = lambda x: x


@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_generation_calls_a_transformers_own_forward(method):
    class Model(models.Transformer):
        def forward(self, src, tgt, **options):
            calls.append((np.shape(tgt), sorted(options)))
            return super().forward(src, tgt, **options) + self.bonus

    calls = []
    qkv.manual_seed(4)
    model = Model(12, 12, M, 2, 1, 1, 16)
    model.bonus = qkv.tensor(np.zeros(12, "float32"))
    plain = models.Transformer(12, 12, M, 2, 1, 1, 16)
    plain.load_state_dict(model.state_dict())
    options = {"src_valid_lens": [L, 2], "start_id": 1, "max_len": 3, "method": method}
    options |= {"beam_size": 2} if method == "beam" else {}
    for found, expected in zip(model.generate(IDS, **options), plain.generate(IDS, **options), strict=True):
        for a, b in zip(found, expected, strict=True):
            assert a[0] == b[0]
            close(a[1], b[1], "float32")
            close(a[2], b[2], "float32")
    rows = [B, *[B if method == "greedy" else 2 * B] * 2]
    assert calls == [((n, t + 1), ["src_valid_lens"]) for t, n in enumerate(rows)]
    model.bonus = qkv.tensor(np.where(np.arange(12) == 7, 100.0, 0.0).astype("float32"))
    assert [best[0] for best, *_ in model.generate(IDS, **options)] == [[7, 7, 7]] * B


def test_hooks_run_inside_containers_of_the_core():
    torch = pytest.importorskip("qkv.torch")
    inner = torch.nn.Linear(M, M)
    calls = []
    handles = [
        inner.register_forward_pre_hook(lambda module, given: calls.append("before")),
        inner.register_forward_hook(lambda module, given, result: result * 0),
    ]
    x = X.astype("float32")
    for container in (
        nn.Sequential(nn.Tanh(), inner),
        nn.TransformerEncoder(nn.TransformerEncoderLayer(M, 2, 12), 1, inner),
    ):
        for mode in (True, False):
            calls.clear()
            assert not np.array(container.train(mode)(x)).any()
            assert calls == ["before"]
    for handle in handles:
        handle.remove()
    close(nn.Sequential(inner)(x), inner(torch.tensor(x)), "float32")
    assert calls == ["before"]


def test_a_state_may_be_made_of_views():
    module = decoder().eval()
    outputs, hidden = qkv.tensor(np.repeat(Y, 2, -1))[..., ::2], qkv.tensor(np.zeros((1, B, 2 * M)))[..., ::2]
    lens = qkv.tensor(np.array([L, 9, 2, 9]))[::2]
    state = module.init_state((outputs, hidden), lens)
    close(
        module(IDS, state)[0], module(IDS, module.init_state((Y, np.zeros((1, B, M))), [L, 2]))[0], "float32"
    )
    turned = module.reorder_state(state, [1, 1])
    close(turned[0], Y[[1, 1]])
    assert np.array(turned[2]).tolist() == [2, 2]


def test_each_part_of_a_state_is_reordered_within_its_own_batch():
    module = decoder().eval()
    state = (Y[:1], np.zeros((1, B, M)), None)
    with pytest.raises(ValueError, match=r"^reorder: indices must be from 0 to 0 because axis 0 of"):
        module.reorder_state(state, [0, 1])
    with pytest.raises(ValueError, match=r"^reorder: indices must be from 0 to 0 because axis 1 of"):
        module.reorder_state((Y, np.zeros((1, 1, M)), None), [0, 1])
