"""qkv.models.Transformer: the golden data, decoding token by token, and invariants."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from golden import golden
from helpers import close

import qkv
from qkv import losses, optim
from qkv.models import Transformer, generate
from qkv.testing import check_gradient

SIZES = {"num_encoder_layers": 2, "num_decoder_layers": 2, "dim_feedforward": 64, "dropout": 0.0}
RNG = np.random.default_rng(0)


def renamed(parameters):
    """Turn the golden files' names into ours."""
    parts = {
        "src_emb": "src_embedding.weight",
        "tgt_emb": "tgt_embedding.weight",
        "out.W": "output.weight",
        "out.b": "output.bias",
    }
    kinds = {"W": "weight", "b": "bias"}
    projections = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}
    state = {}
    for name, array in parameters.items():
        path = name.split(".")
        if name in parts:
            state[parts[name]] = array
        elif path[1] == "norm":
            state[f"{path[0]}oder.norm.{'weight' if path[2] == 'g' else 'bias'}"] = array
        else:
            stack, layer, part, kind = path
            where = f"{stack}oder.layers.{layer}."
            if part in ("self", "cross"):
                inner = "self_attn" if part == "self" else "multihead_attn"
                inner += f".{projections[kind[1]]}.{kinds[kind[0]]}"
            elif part == "ff":
                inner = f"linear{kind[1]}.{kinds[kind[0]]}"
            else:
                inner = f"norm{part[2]}.{'weight' if kind == 'g' else 'bias'}"
            state[where + inner] = array
    return state


def model_of(group, norm_first=False, dtype="float64"):
    model = Transformer(11, 13, 32, 4, norm_first=norm_first, **SIZES).to(dtype)
    state = {
        k: v
        for k, v in renamed(group.params()).items()
        if norm_first or not k.endswith(("coder.norm.weight", "coder.norm.bias"))
    }
    model.load_state_dict(state)
    return model


def small(**options):
    qkv.manual_seed(0)
    model = Transformer(11, 13, 16, 4, **{**SIZES, "dim_feedforward": 24, **options}).to("float64")
    for p in model.parameters():
        if p.ndim == 1:
            p.copy_(RNG.standard_normal(p.shape) / 5 + 0.5)
    return model


@pytest.mark.parametrize("kind", ["post", "pre"])
def test_golden(kind):
    g = golden("D3-15")
    model = model_of(g, kind == "pre")
    logits = model(g["src"], g["tgt_in"])
    close(logits, g[f"{kind}.logits"])
    close(model.encode(g["src"]), g[f"{kind}.memory"])
    model(g["src"], g["tgt_in"])
    for layer in range(2):
        close(model.encoder.attention_weights[layer], g[f"{kind}.attention.enc.{layer}.self"])
        close(model.attention_weights[layer], g[f"{kind}.attention.dec.{layer}.cross"])
        close(
            model.decoder.layers[layer].self_attn.attention_weights, g[f"{kind}.attention.dec.{layer}.self"]
        )
    loss = losses.cross_entropy(logits, g["tgt_out"], ignore_index=0, label_smoothing=0.1)
    close(loss, g[f"{kind}.loss"])
    loss.backward()
    prefix = f"grad.{kind}."
    gradients = renamed({k[len(prefix) :]: g[k] for k in g.entries if k.startswith(prefix)})
    own = dict(model.named_parameters())
    assert len(gradients) > 25
    for name in set(gradients) & set(own):
        close(own[name].grad, gradients[name], "float64 gradient")
    if kind == "post":
        assert set(own) <= set(gradients)


def test_golden_in_float32():
    g = golden("D3-15")
    close(model_of(g, dtype="float32")(g["src"], g["tgt_in"]), g["post.logits"], "float32 deep")


def test_lengths_say_the_same_as_padding():
    g = golden("D3-15")
    model = model_of(g)
    close(model(g["src"], g["tgt_in"], src_valid_lens=[6, 4], tgt_valid_lens=[5, 3]), g["post.logits"])
    memory = model.encode(g["src"], src_valid_lens=[6, 4])
    close(
        model.decode(g["tgt_in"], memory, tgt_valid_lens=[5, 3], memory_valid_lens=[6, 4]), g["post.logits"]
    )


def test_padding_in_the_middle_is_masked_too():
    model = small().eval()
    src = np.array([[3, 0, 7, 5]])
    one = model(src, [[1, 4]]).numpy()
    model.src_embedding.weight.copy_(
        np.where(np.arange(11)[:, None] == 0, 7.0, model.src_embedding.weight.numpy())
    )
    close(model(src, [[1, 4]]), one)


def test_training_golden():
    g, data = golden("D3-16"), golden("D3-15")
    model = model_of(data)
    optimizer = optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9)
    curve = []
    for _ in range(len(g["losses"])):
        optimizer.zero_grad()
        logits = model(data["src"], data["tgt_in"])
        loss = losses.cross_entropy(logits, data["tgt_out"], ignore_index=0, label_smoothing=0.1)
        curve.append(loss.item())
        loss.backward()
        optimizer.step()
    g.close("losses", curve)
    sentences = model.generate(data["src"], start_id=1, max_len=5)
    assert [[1, *hypotheses[0][0]] for hypotheses in sentences] == g["greedy"].tolist()


@pytest.mark.parametrize("norm_first", [False, True])
def test_gradients(norm_first):
    model = small(norm_first=norm_first, num_encoder_layers=1, num_decoder_layers=1)
    weights = RNG.standard_normal((1, 3, 13))

    def value():
        return float((model([[3, 7, 1, 0]], [[1, 4, 6]]).numpy() * weights).sum())

    model([[3, 7, 1, 0]], [[1, 4, 6]]).backward(weights)
    for name, parameter in model.named_parameters():
        start, direction = parameter.numpy().copy(), RNG.standard_normal(parameter.shape)
        eps, values = 1e-5, []
        for sign in (1, -1):
            parameter.copy_(start + sign * eps * direction)
            values.append(value())
        parameter.copy_(start)
        slope = float((parameter.grad.numpy() * direction).sum())
        assert slope == pytest.approx((values[0] - values[1]) / (2 * eps), rel=1e-5, abs=1e-7), name


def test_check_gradient_reaches_the_memory():
    model = small(num_encoder_layers=1, num_decoder_layers=1)
    check_gradient(
        lambda memory: model.decode([[1, 4, 6]], memory, memory_valid_lens=[3]),
        RNG.standard_normal((1, 5, 16)),
    )


def test_the_future_and_padding_have_no_influence():
    model = small().eval()
    src, tgt = np.array([[3, 7, 1, 9], [5, 4, 0, 0]]), np.array([[1, 4, 6], [1, 9, 5]])
    logits = model(src, tgt).numpy()
    changed = tgt.copy()
    changed[:, 2] = 12
    assert np.array_equal(model(src, changed).numpy()[:, :2], logits[:, :2])
    close(model(src[1:, :2], tgt[1:]), logits[1:])
    close(model(src[::-1], tgt[::-1]), logits[::-1])


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("method", ["greedy", "beam", "sample"])
def test_cached_decoding_equals_uncached(norm_first, method):
    model = small(norm_first=norm_first).eval()
    src = RNG.integers(1, 11, (5, 7))
    src[1, 4:] = 0
    qkv.manual_seed(1)
    sentences = model.generate(
        src, start_id=1, end_id=2, method=method, beam_size=3 if method == "beam" else None, max_len=9
    )
    for b, hypotheses in enumerate(sentences):
        for ids, score, attention in hypotheses:
            logits = model(src[b : b + 1], [[1, *ids[:-1]]])
            log_probs = qkv.log_softmax(logits).numpy()[0]
            assert score == pytest.approx(sum(log_probs[t, token] for t, token in enumerate(ids)), abs=1e-9)
            close(attention, model.attention_weights[-1].numpy()[0].mean(0))
            assert 2 not in ids[:-1]


def test_generate_leaves_the_model_as_it_was():
    model = small(dropout=0.5)
    model.encoder.eval()
    src = [[3, 7, 1]]
    first = model.generate(src, start_id=1, max_len=6)[0][0][0]
    assert all(model.generate(src, start_id=1, max_len=6)[0][0][0] == first for _ in range(3))
    assert model.training
    assert model.decoder.layers[0].training
    assert not model.encoder.training


def test_copies():
    model = small().eval()
    src, tgt = [[3, 7, 1]], [[1, 4]]
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(twin(src, tgt).numpy(), model(src, tgt).numpy())
        assert repr(twin) == repr(model)


def test_initial_values():
    qkv.manual_seed(0)
    model = Transformer(1000, 500, 64, 4, 2, 2, 128)
    assert np.std(model.src_embedding.weight.numpy()) == pytest.approx(1 / 8, rel=0.02)
    assert np.abs(model.output.weight.numpy()).max() <= np.sqrt(6 / 564)
    weights = [layer.linear1.weight.numpy() for layer in model.encoder.layers]
    assert np.abs(weights[0]).max() == pytest.approx(np.sqrt(6 / 192), rel=0.01)
    assert not np.array_equal(*weights)


REJECTED = [
    (lambda m: m([3, 7], [[1]]), r"^Transformer: src must be \(B, T\); got src \(2,\)$"),
    (lambda m: m([[3, 7]], [1]), r"^Transformer: tgt must be \(B, T\); got tgt \(1,\)$"),
    (
        lambda m: m([[3], [7]], [[1]]),
        r"^Transformer: tgt must have the batch size of src \(2, 1\); got tgt \(1, 1\)$",
    ),
    (lambda m: m([[11]], [[1]]), r"^embedding: ids must be in 0\.\.10 .* got id 11"),
    (lambda m: m([[3] * 9], [[1]]), r"^PositionalEncoding: x must have at most max_len = 8 positions"),
    (lambda m: m([[3, 4]], [[1]], src_valid_lens=[3]), r": src_valid_lens must be from 0 to Lk = 2; got 3"),
    (
        lambda m: m.generate([[3]], start_id=13),
        r"^Transformer: start_id must be the number of a token, 0\.\.12; got 13$",
    ),
    (
        lambda m: m.generate([[3]], start_id=1, end_id=-1),
        r"^Transformer: end_id must be the number of a token, 0\.\.12; got -1$",
    ),
    (lambda m: m.generate([[3]], start_id=1, max_len=0), r"^Transformer: max_len must be at least 1; got 0$"),
    (
        lambda m: m.generate([[3]], start_id=1, max_len=20),
        r"at most max_len = 8 positions; got x \(1, 1, 16\) behind 8 others$",
    ),
    (
        lambda m: m.generate([[3]], start_id=1, method="best"),
        r"^Transformer: method must be \"greedy\", \"beam\" or \"sample\"; got 'best'$",
    ),
    (
        lambda m: m.generate([[3]], start_id=1, method="sample", temperature=0),
        r"^Transformer: temperature must be a positive number .* got 0$",
    ),
    (lambda m: m.generate([[3]], start_id=1, top_k=0), r"^Transformer: top_k must be at least 1; got 0$"),
    (
        lambda m: m.generate([[3]], start_id=1, top_p=1.5),
        r"^Transformer: top_p must be above 0 and at most 1; got 1.5$",
    ),
    (
        lambda m: m.generate([[3]], start_id=1, beam_size=0),
        r"^Transformer: beam_size must be at least 1; got 0$",
    ),
    (
        lambda m: generate(m, [[3]], start_id=1, length_penalty=np.nan),
        r"^Transformer: length_penalty must be a finite number; got nan$",
    ),
    (lambda m: Transformer(0, 5), r"^Transformer: src_vocab must be at least 1; got 0$"),
    (
        lambda m: Transformer(5, 5, 10, 4),
        r"^Transformer: d_model must be divisible by nhead; got d_model = 10, nhead = 4$",
    ),
]


@pytest.mark.parametrize(("call", "text"), REJECTED)
def test_rejections(call, text):
    with pytest.raises(ValueError, match=text):
        call(small(max_len=8))


def test_wrong_kinds():
    model = small()
    with pytest.raises(TypeError, match=r"^Transformer: src must hold integers; got dtype float64$"):
        model(np.ones((1, 2)), [[1]])
    with pytest.raises(TypeError, match=r"^Transformer: start_id must be the number of a token; got None$"):
        model.generate([[3]], start_id=None)
    with pytest.raises(
        TypeError,
        match=r"^generate: model must have a generate method, or an encoder and a decoder; got Linear$",
    ):
        generate(qkv.nn.Linear(2, 2), [[1]], start_id=1)
