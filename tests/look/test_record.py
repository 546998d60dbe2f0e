"""Recording: names, values, bits of the output, gradients, and what is refused."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from helpers import close

import qkv
from qkv import look, nn

B, L, H, D, V = 2, 5, 3, 4, 17
M = H * D


def made(model, seed=0):
    """The model in float64 with numbers of the seed."""
    rng = np.random.default_rng(seed)
    model.to("float64")
    for parameter in model.parameters():
        parameter.copy_(rng.normal(0, 0.3, parameter.shape))
    return model.eval()


def numbers(*shape, seed=1):
    return np.random.default_rng(seed).normal(size=shape)


IDS = np.random.default_rng(3).integers(0, V, (B, L))


def bert():
    config = qkv.models.BertConfig(
        vocab_size=V,
        hidden_size=M,
        num_hidden_layers=2,
        num_attention_heads=H,
        intermediate_size=19,
        max_position_embeddings=7,
    )
    return qkv.models.BertModel(config)


MODELS = {
    "MultiHeadAttention": (lambda: nn.MultiHeadAttention(M, H), (numbers(B, L, M),), {}),
    "grouped": (
        lambda: nn.MultiHeadAttention(M, 4, num_kv_heads=2, head_dim=2, is_causal=True, rotary_base=100.0),
        (numbers(B, L, M),),
        {},
    ),
    "SelfAttention": (lambda: nn.SelfAttention(M, 7), (numbers(L, M),), {}),
    "DotProductAttention": (
        lambda: nn.DotProductAttention(num_heads=H),
        (numbers(B, L, M), numbers(B, 7, M, seed=2), numbers(B, 7, M, seed=4)),
        {"valid_lens": [3, 6]},
    ),
    "AdditiveAttention": (
        lambda: nn.AdditiveAttention(M, query_size=3, key_size=5),
        (numbers(B, L, 3), numbers(B, 7, 5), numbers(B, 7, 2)),
        {},
    ),
    "additive heads": (
        lambda: nn.AdditiveAttention(M, query_size=3, key_size=5, num_heads=H),
        (numbers(B, L, 3), numbers(B, 7, 5), numbers(B, 7, 6)),
        {},
    ),
    "encoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(M, H, 19), 2),
        (numbers(B, L, M),),
        {"valid_lens": [3, 5]},
    ),
    "decoder": (
        lambda: nn.TransformerDecoderLayer(M, H, 19),
        (numbers(B, L, M), numbers(B, 7, M, seed=2)),
        {},
    ),
    "CausalLM": (
        lambda: qkv.models.CausalLM(
            vocab_size=V, d_model=M, nhead=H, num_layers=2, dim_feedforward=19, num_kv_heads=1
        ),
        (IDS,),
        {},
    ),
    "BertModel": (bert, (IDS,), {"attention_mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])}),
    "BertModel without padding": (bert, (IDS,), {"valid_lens": [3, 5], "skip_padding": True}),
    "Transformer": (
        lambda: qkv.models.Transformer(
            src_vocab=V, tgt_vocab=V, d_model=M, nhead=H, num_encoder_layers=1, num_decoder_layers=1
        ),
        (IDS, IDS[:, :3]),
        {},
    ),
    "GRU": (lambda: nn.GRU(M, 5), (numbers(B, L, M),), {}),
    "Sequential": (
        lambda: nn.Sequential(
            nn.Linear(M, 7), nn.GELU(), nn.LayerNorm(7), nn.RMSNorm(7), nn.Tanh(), nn.ReLU()
        ),
        (numbers(B, L, M),),
        {},
    ),
    "LinearAttention": (lambda: nn.LinearAttention(M, H), (numbers(B, L, M),), {}),
}


def flat(output):
    parts = output if isinstance(output, tuple) else (output,)
    return [np.asarray(part) for part in parts if part is not None]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MODELS)
def test_recording_everything_changes_no_bit(name, dtype):
    make, inputs, keywords = MODELS[name]
    model = made(make()).to(dtype)
    plain = flat(model(*inputs, **keywords))
    recording = look.record(model, *inputs, keep=("*",), **keywords)
    for before, after in zip(plain, flat(recording.output), strict=True):
        np.testing.assert_array_equal(before, after)
    assert recording.names()
    for value in map(recording.__getitem__, recording.names()):
        for array in value if isinstance(value, (list, tuple)) else [value]:
            assert isinstance(array, np.ndarray)
            assert not array.flags.writeable


@pytest.mark.parametrize("name", [n for n in MODELS if n not in ("GRU", "Sequential", "LinearAttention")])
def test_values_fit_each_other(name):
    make, inputs, keywords = MODELS[name]
    model = made(make())
    r = look.record(model, *inputs, keep=("*",), **keywords)
    attentions = [n.removesuffix("weights") for n in r.names() if n.rpartition(".")[2] == "weights"]
    assert attentions
    for path in attentions:
        part = dict(qkv.nn.Module.named_modules(model))[path.removesuffix(".")]
        weights, values = r[path + "weights"], r[path + "values"]
        np.testing.assert_array_equal(weights, np.asarray(part.attention_weights))
        if weights.ndim > 2 and values.shape[:-2] != weights.shape[:-2]:  # shared by query heads
            values = np.repeat(values, weights.shape[-3] // values.shape[-3], axis=-3)
        close(r[path + "heads"], weights @ values)
        scores = np.where(weights > 0, r[path + "scores"], -np.inf)
        some = (weights > 0).any(-1)
        close(qkv.softmax(scores[some]), weights[some])
        if not isinstance(part, nn.AdditiveAttention):
            queries, keys = r[path + "queries"], r[path + "keys"]
            if queries.ndim > 2 and keys.shape[-3] != queries.shape[-3]:
                keys = np.repeat(keys, queries.shape[-3] // keys.shape[-3], axis=-3)
            expected = queries @ np.swapaxes(keys, -1, -2) / np.sqrt(queries.shape[-1])
            close(r[path + "scores"], expected)


def test_scores_hold_everything_but_exclusions():
    model = made(nn.MultiHeadAttention(M, H, is_causal=True, softcap=2.0, alibi=True, scale=0.7))
    x, mask = numbers(B, L, M), numbers(L, L, seed=9)
    mask[1, 0] = -np.inf
    r = look.record(model, x, attn_mask=mask, keep=("queries", "keys", "scores"))
    s = 2 * np.tanh(0.7 * r["queries"] @ np.swapaxes(r["keys"], -1, -2) / 2)
    i = np.arange(L)
    s = s - qkv.alibi_slopes(H)[:, None, None] * abs(i[:, None] - i)
    close(r["scores"], s + mask)


def test_names_of_a_model():
    model, inputs, keywords = made(MODELS["encoder"][0]()), *MODELS["encoder"][1:]
    r = look.record(model, *inputs, **keywords)
    assert r.names() == ["layers.0.self_attn.weights", "layers.1.self_attn.weights"]
    assert look.record(model, *inputs, layers=[-1]).names() == ["layers.1.self_attn.weights"]
    r = look.record(model, *inputs, keep=("layers.0.*", "output"), layers=[0, 1])
    inside = [n for n in r.names() if n.startswith("layers.0.self_attn.") and n.count(".") == 3]
    words = ["input", "queries", "keys", "values", "scores", "weights", "heads", "output"]
    assert [n.rpartition(".")[2] for n in inside] == words
    assert "output" not in r.names()
    assert len(r.all("layers.?.output")) == 2
    order = [path for path, _ in model.named_modules()]
    places = [order.index(n.rpartition(".")[0]) for n in r.names()]
    assert places == sorted(places)


def test_residual_stream_of_a_block():
    model = made(nn.TransformerEncoderLayer(M, H, 19, norm_first=True))
    x = numbers(B, L, M)
    r = look.record(model, x, keep=("input", "output"))
    close(r["norm1.input"], x)
    close(r["norm2.input"], x + r["self_attn.output"])
    close(r["output"], r["norm2.input"] + r["linear2.output"])
    close(
        r["linear1.output"],
        r["norm2.output"] @ np.asarray(model.linear1.weight).T + np.asarray(model.linear1.bias),
    )
    close(r["linear2.input"], np.maximum(r["linear1.output"], 0))
    post = made(nn.TransformerEncoderLayer(M, H, 19))
    r = look.record(post, x, keep=("input", "output"))
    close(r["norm1.input"], x + r["self_attn.output"])
    close(r["norm1.output"], r["linear1.input"])


def test_a_cache_gives_all_keys():
    layer = made(nn.MultiHeadAttention(M, H, is_causal=True))
    x, cache = numbers(B, L, M), nn.KVCache()
    layer(x[:, :3], cache=cache)
    r = look.record(layer, x[:, 3:4], cache=cache, keep=("queries", "keys", "weights", "heads"))
    whole = look.record(layer, x[:, :4], keep=("queries", "keys", "weights", "heads"))
    assert r["keys"].shape == (B, H, 4, D)
    close(r["keys"], whole["keys"])
    for word in ("queries", "weights", "heads"):
        close(r[word], whole[word][:, :, 3:])


def test_bahdanau_is_called_once_a_step():
    decoder = qkv.models.Seq2SeqAttentionDecoder(V, 5, M, 1)
    model = qkv.models.EncoderDecoder(qkv.models.Seq2SeqEncoder(V, 5, M, 1), decoder).eval()
    r = look.record(model, IDS, IDS[:, :3], keep=("weights", "queries", "input"))
    weights = r["decoder.attention.weights"]
    assert len(weights) == 3
    for step, array in zip(weights, decoder.attention_weights, strict=True):
        np.testing.assert_array_equal(step, np.asarray(array))
    np.testing.assert_array_equal(r["input"], IDS)


def test_values_stay_what_they_were():
    layer = nn.DotProductAttention()
    q = numbers(L, D)
    r = look.record(layer, q, q, q, keep=("queries", "weights", "input"))
    before = r["queries"].copy()
    weights = r["weights"].copy()
    q[:] = 0
    np.testing.assert_array_equal(r["queries"], before)
    np.testing.assert_array_equal(r["input"], before)
    np.testing.assert_array_equal(r["weights"], weights)
    model = made(nn.MultiHeadAttention(M, H))
    x = numbers(B, L, M)
    r = look.record(model, x)
    expected = r["weights"].copy()
    for parameter in model.parameters():
        parameter.copy_(np.zeros(parameter.shape))
    np.testing.assert_array_equal(r["weights"], expected)


@pytest.mark.parametrize(
    "word", ["input", "queries", "keys", "values", "scores", "weights", "heads", "output"]
)
@pytest.mark.parametrize(
    "name", ["MultiHeadAttention", "grouped", "AdditiveAttention", "DotProductAttention"]
)
def test_gradients_to_what_was_recorded(name, word):
    make, inputs, keywords = MODELS[name]
    model = made(make())
    given = tuple(qkv.tensor(x, requires_grad=True) for x in inputs)
    r = look.record(model, *given, keep=(word,), keep_graph=True, **keywords)
    close(r.output, model(*inputs, **keywords))
    direction = numbers(*r.output.shape, seed=11)
    gradient = np.asarray(qkv.grad((r.output * direction).sum(), r[word]))
    value, step = np.asarray(r[word]), numbers(*r[word].shape, seed=12)
    eps = 1e-6
    moved = []
    for sign in (1, -1):
        with look.change(model, {word: lambda x, sign=sign: np.asarray(x) + sign * eps * step}):
            moved.append((np.asarray(model(*inputs, **keywords)) * direction).sum())
    assert value.shape == step.shape
    # A changed input is also keys and values where those were not passed.
    expected = (moved[0] - moved[1]) / (2 * eps)
    close((gradient * step).sum(), expected, "float64 numeric slope")


def test_other_threads_see_nothing():
    model, x = nn.Linear(3, 3), np.ones((2, 3), "float32")
    ready, done = threading.Event(), threading.Event()

    class Waits(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = model

        def forward(self, x):
            ready.set()
            done.wait(20)
            return self.part(x)

    def other():
        ready.wait(20)
        model(x * 2)
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    r = look.record(Waits(), x, keep=("part.input",))
    thread.join()
    np.testing.assert_array_equal(r["part.input"], x)


def test_a_call_that_fails_leaves_nothing_behind():
    class Fails(nn.Module):
        def forward(self, x):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        look.record(Fails(), np.ones(3), keep=("output",))
    assert not qkv._core.observed()


def test_what_is_refused():
    model, inputs, _ = made(MODELS["encoder"][0]()), *MODELS["encoder"][1:]
    r = look.record(model, *inputs)
    with pytest.raises(KeyError, match=r"did you mean layers\.0\.self_attn\.weights\?"):
        r["layers.0.self_attn.weigths"]
    with pytest.raises(KeyError, match=r'queries was not kept; record it with keep=\("queries",\)'):
        r["layers.0.self_attn.queries"]
    with pytest.raises(
        KeyError, match=r"no name that was kept matches 'blocks\.\*'; kept are layers\.0\.self_attn"
    ):
        r.all("blocks.*")
    with pytest.raises(
        ValueError, match=r"record: keep must hold words .*; got 'weigths'; did you mean weights\?"
    ):
        look.record(model, *inputs, keep=("weigths",))
    with pytest.raises(
        ValueError, match=r"record: keep must hold words .* that the model has; got 'weights'"
    ):
        look.record(nn.Linear(3, 3), np.ones((1, 3)))
    with pytest.raises(TypeError, match=r"record: keep must hold words or patterns; got 3"):
        look.record(model, *inputs, keep=(3,))
    with pytest.raises(ValueError, match=r"record: layers must be from -2 to 1; got 2"):
        look.record(model, *inputs, layers=[2])
    with pytest.raises(TypeError, match=r"record: layers must hold integers; got 'a'"):
        look.record(model, *inputs, layers=["a"])
    with pytest.raises(TypeError, match=r"record: model must be a module; got 3"):
        look.record(3, *inputs)
    part = look.record(nn.MultiHeadAttention(4, 2), np.ones((3, 4)), keep=("*",))
    with pytest.raises(KeyError, match=r"q_proj\.weights' is no name of the model"):
        part["q_proj.weights"]
    idle = nn.ModuleList([nn.Linear(3, 3)])

    class Uses(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = idle

        def forward(self, x):
            return x

    r = look.record(Uses(), qkv.tensor(np.ones(3)), keep=("output",))
    with pytest.raises(KeyError, match=r"parts\.0\.output has no value because its module was not called"):
        r["parts.0.output"]
    with pytest.raises(
        ValueError, match=r"got 'output', but the call computed no Tensor of that word in the model"
    ):
        look.record(Uses(), np.ones(3), keep=("output",))
