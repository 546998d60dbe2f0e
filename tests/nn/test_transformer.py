"""Transformer layers and stacks: values, arguments, PyTorch's names, the documents' numbers and gradients."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from helpers import close
from layer_checks import check_layer, randomised, state
from sweep import sweep

import qkv
from qkv import nn, reference

RNG = np.random.default_rng(60)
B, LQ, LK, M, F = 2, 5, 7, 6, 11
X, MEMORY = RNG.standard_normal((B, LQ, M)), RNG.standard_normal((B, LK, M))
SHORT = {f"W{n}": f"{n}_proj.weight" for n in "qkv"} | {"Wo": "out_proj.weight"}
SHORT |= {old.replace("W", "b"): new.replace("weight", "bias") for old, new in SHORT.items()}
ENCODER_NAMES = [
    *(f"self_attn.{n}_proj.{k}" for n in ("q", "k", "v", "out") for k in ("weight", "bias")),
    "linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias",
    "norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias",
]  # fmt: skip


def encoder_layer(**options):
    return randomised(nn.TransformerEncoderLayer(M, 2, F, **{"dropout": 0.0, **options}))


def decoder_layer(**options):
    return randomised(nn.TransformerDecoderLayer(M, 2, F, **{"dropout": 0.0, **options}))


OPTIONS = {
    "post": {}, "pre": {"norm_first": True}, "gelu": {"activation": "gelu"}, "eps": {"layer_norm_eps": 0.5},
    "no bias": {"bias": False}, "pre gelu": {"norm_first": True, "activation": "gelu"},
}  # fmt: skip
CALLS = {
    "plain": {},
    "lengths": {"valid_lens": [2, 5]},
    "causal": {"is_causal": True},
    "mask": {"attn_mask": np.random.default_rng(1).random((B, LQ, LQ)) < 0.7},
    "float mask": {"attn_mask": np.random.default_rng(1).standard_normal((LQ, LQ))},
    "all": {
        "attn_mask": np.random.default_rng(1).random((LQ, LQ)) < 0.7,
        "is_causal": True,
        "valid_lens": [2, 5],
    },
}


def without_bias(options):
    return {k: v for k, v in options.items() if k != "bias"}


@pytest.mark.parametrize("option", OPTIONS)
@sweep("call", CALLS)
def test_encoder_layer(option, call):
    layer = encoder_layer(**OPTIONS[option])
    y, w = reference.transformer_encoder_layer(
        state(layer), X, nhead=2, **without_bias(OPTIONS[option]), **CALLS[call], return_weights=True
    )
    actual = layer(X, **CALLS[call])
    close(actual, y)
    close(layer.self_attn.attention_weights, w)
    if call != "plain":
        assert np.abs(layer(X).numpy() - actual.numpy()).max() > 1e-3
    if option not in ("post", "no bias"):
        assert np.abs(encoder_layer()(X, **CALLS[call]).numpy() - actual.numpy()).max() > 1e-3


@pytest.mark.parametrize("option", OPTIONS)
@sweep("call", CALLS)
def test_decoder_layer(option, call):
    layer = decoder_layer(**OPTIONS[option])
    for other in ({}, {"memory_valid_lens": [3, 6]}, {"memory_attn_mask": RNG.random((LQ, LK)) < 0.7}):
        y, own, cross = reference.transformer_decoder_layer(
            state(layer), X, MEMORY, nhead=2, **without_bias(OPTIONS[option]), **CALLS[call], **other,
            return_weights=True,
        )  # fmt: skip
        close(layer(X, MEMORY, **CALLS[call], **other), y)
        close(layer.self_attn.attention_weights, own)
        close(layer.multihead_attn.attention_weights, cross)


@pytest.mark.parametrize("norm_first", [False, True])
def test_slopes(norm_first):
    check_layer(encoder_layer(norm_first=norm_first, activation="gelu"), X)
    check_layer(decoder_layer(norm_first=norm_first, activation="gelu"), X, MEMORY)


def test_names_are_pytorchs():
    assert list(encoder_layer().state_dict()) == ENCODER_NAMES
    names = list(decoder_layer().state_dict())
    assert names[8] == "multihead_attn.q_proj.weight"
    assert names[-2:] == ["norm3.weight", "norm3.bias"]
    assert not [n for n in encoder_layer(bias=False).state_dict() if n.endswith("bias")]
    stack = nn.TransformerEncoder(encoder_layer(), 3, nn.LayerNorm(M))
    assert list(stack.state_dict())[: len(ENCODER_NAMES)] == [f"layers.0.{n}" for n in ENCODER_NAMES]
    assert list(stack.state_dict())[-2:] == ["norm.weight", "norm.bias"]
    assert len(stack.layers) == 3
    assert nn.TransformerEncoderLayer(M, 2).linear1.weight.shape == (2048, M)
    assert nn.TransformerEncoderLayer(M, 2).dropout1.p == 0.1


def test_parts_are_drawn_as_each_alone():
    qkv.manual_seed(4)
    layer = nn.TransformerDecoderLayer(M, 2, F)
    qkv.manual_seed(4)
    parts = {"self_attn": nn.MultiHeadAttention(M, 2), "multihead_attn": nn.MultiHeadAttention(M, 2),
             "linear1": nn.Linear(M, F), "linear2": nn.Linear(F, M)}  # fmt: skip
    for name, part in parts.items():
        for (n, a), (_, b) in zip(
            getattr(layer, name).named_parameters(), part.named_parameters(), strict=True
        ):
            assert a.numpy().tobytes() == b.numpy().tobytes(), f"{name}.{n}"


@pytest.mark.parametrize("with_norm", [False, True])
def test_stacks_copy_the_layer_and_list_weights(with_norm):
    layer, other = encoder_layer(norm_first=True), decoder_layer()
    norm = randomised(nn.LayerNorm(M)) if with_norm else None
    stack = nn.TransformerEncoder(layer, 3, norm)
    memory = stack(X, valid_lens=[2, 5], is_causal=True)
    y = X
    for part in stack.layers:
        assert part is not layer
        assert part.linear1.weight.numpy().tobytes() == layer.linear1.weight.numpy().tobytes()
        y = part(y, valid_lens=[2, 5], is_causal=True)
    close(memory, norm(y) if with_norm else y)
    stack(X, valid_lens=[2, 5], is_causal=True)
    weights = stack.attention_weights
    assert isinstance(weights, list)
    assert len(weights) == 3
    for w, part in zip(weights, stack.layers, strict=True):
        close(w, part.self_attn.attention_weights)
    decoder = nn.TransformerDecoder(other, 2, norm)
    z = decoder(X, MEMORY, valid_lens=[2, 5], is_causal=True, memory_valid_lens=[1, 7])
    y = X
    for part in decoder.layers:
        y = part(y, MEMORY, valid_lens=[2, 5], is_causal=True, memory_valid_lens=[1, 7])
    close(z, norm(y) if with_norm else y)
    assert [w.shape for w in decoder.attention_weights] == [(B, 2, LQ, LK)] * 2
    for w, part in zip(decoder.attention_weights, decoder.layers, strict=True):
        close(w, part.multihead_attn.attention_weights)
    stack.layers[0].linear1.weight.copy_(np.zeros((F, M)))
    assert np.abs(stack.layers[1].linear1.weight.numpy()).max() > 0
    twin = copy.deepcopy(stack)
    close(twin(X), stack(X))


def test_modes_and_dropout():
    layer = nn.TransformerEncoderLayer(M, 2, F, dropout=0.5).to("float64")
    qkv.manual_seed(0)
    first = layer(X).numpy()
    qkv.manual_seed(0)
    assert layer(X).numpy().tobytes() == first.tobytes()
    assert layer(X).numpy().tobytes() != first.tobytes()
    layer.eval()
    assert layer(X).numpy().tobytes() == layer(X).numpy().tobytes()
    close(layer(X), reference.transformer_encoder_layer(state(layer), X, nhead=2))


def test_a_subclass_in_a_stack_is_called():
    class Shifted(nn.TransformerEncoderLayer):
        def forward(self, src, **options):
            return super().forward(src, **options) + 1

    layer = Shifted(M, 2, F, 0.0).to("float64")
    close(layer(X), nn.TransformerEncoderLayer.forward(layer, X).numpy() + 1)


def torch_names(params, attentions):
    """Rename one layer's golden parameters as PyTorch's Transformer layers do."""
    names = {}
    for theirs, ours in attentions.items():
        names |= {f"{ours}.{new}": f"{theirs}.{old}" for old, new in SHORT.items()}
    for i in (1, 2):
        names |= {f"linear{i}.weight": f"ff.W{i}", f"linear{i}.bias": f"ff.b{i}"}
    for i in range(1, len(attentions) + 2):
        names |= {f"norm{i}.weight": f"ln{i}.g", f"norm{i}.bias": f"ln{i}.b"}
    assert set(names.values()) <= set(params)
    return names


def load_layer(layer, g, prefix, attentions):
    params = g.params(prefix)
    names = torch_names(params, attentions)
    layer.load_state_dict({new: params[old] for new, old in names.items()})
    return names


@pytest.mark.parametrize("order", ["post", "pre"])
def test_documents_transformer_with_gradients(golden, order):
    g, first = golden("D3-15"), order == "pre"
    options = {"nhead": 4, "dim_feedforward": 64, "dropout": 0.0, "norm_first": first}
    norm = (lambda: nn.LayerNorm(32)) if first else (lambda: None)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, **options), 2, norm()).to("float64")
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(32, **options), 2, norm()).to("float64")
    tables = {n: nn.Embedding(*g[n].shape).to("float64") for n in ("src_emb", "tgt_emb")}
    output = nn.Linear(32, 13).to("float64")
    output.load_state_dict({"weight": g["out.W"], "bias": g["out.b"]})
    names = {}
    for n, table in tables.items():
        table.load_state_dict({"weight": g[n]})
    for i in range(2):
        for stack, kind, attentions in (
            (encoder, "enc", {"self": "self_attn"}),
            (decoder, "dec", {"self": "self_attn", "cross": "multihead_attn"}),
        ):
            found = load_layer(stack.layers[i], g, f"{kind}.{i}.", attentions)
            names |= {f"{kind}.{i}.{old}": (stack.layers[i], new) for new, old in found.items()}
    if first:
        for stack, kind in ((encoder, "enc"), (decoder, "dec")):
            stack.norm.load_state_dict({"weight": g[f"{kind}.norm.g"], "bias": g[f"{kind}.norm.b"]})
    src_lens, tgt_lens = ((g[k] != 0).sum(-1) for k in ("src", "tgt_in"))
    position = nn.PositionalEncoding(32)
    memory = encoder(position(tables["src_emb"](g["src"]) * np.sqrt(32)), valid_lens=src_lens)
    y = position(tables["tgt_emb"](g["tgt_in"]) * np.sqrt(32))
    y = decoder(y, memory, valid_lens=tgt_lens, is_causal=True, memory_valid_lens=src_lens)
    logits = output(y)
    loss = qkv.losses.cross_entropy(logits, g["tgt_out"], ignore_index=0, label_smoothing=0.1)
    g.close(f"{order}.memory", memory)
    g.close(f"{order}.logits", logits)
    g.close(f"{order}.loss", loss)
    for i in range(2):
        g.close(f"{order}.attention.enc.{i}.self", encoder.attention_weights[i])
        g.close(f"{order}.attention.dec.{i}.self", decoder.layers[i].self_attn.attention_weights)
        g.close(f"{order}.attention.dec.{i}.cross", decoder.attention_weights[i])
    loss.backward()
    checked = 0
    for theirs, (layer, ours) in names.items():
        if f"grad.{order}.{theirs}" in g.entries:
            g.close(f"grad.{order}.{theirs}", dict(layer.named_parameters())[ours].grad)
            checked += 1
    assert checked >= (60 if order == "post" else 0)
    for n, table in tables.items():
        if f"grad.{order}.{n}" in g.entries:
            g.close(f"grad.{order}.{n}", table.weight.grad)


@pytest.mark.parametrize("norm_first", [False, True])
def test_decoding_in_parallel_equals_decoding_step_by_step(norm_first):
    decoder = nn.TransformerDecoder(decoder_layer(norm_first=norm_first), 2)
    whole = decoder(X, MEMORY, is_causal=True).numpy()
    for t in range(1, LQ + 1):
        close(decoder(X[:, :t], MEMORY, is_causal=True), whole[:, :t])
    encoder = nn.TransformerEncoder(encoder_layer(norm_first=norm_first), 2)
    changed = X.copy()
    changed[:, 3:] = 9
    assert (
        encoder(X, is_causal=True).numpy()[:, :3].tobytes()
        == encoder(changed, is_causal=True).numpy()[:, :3].tobytes()
    )


def test_padding_is_ignored_and_batch_entries_are_independent():
    encoder = nn.TransformerEncoder(encoder_layer(), 2)
    y = encoder(X, valid_lens=[2, 5]).numpy()
    changed = X.copy()
    changed[0, 2:] = np.nan
    z = encoder(changed, valid_lens=[2, 5]).numpy()
    close(z[0, :2], y[0, :2])
    close(z[1], y[1])
    close(encoder(X[:1, :2]), y[:1, :2])


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_same_numbers_as_an_installed_pytorch(norm_first, activation):
    torch = pytest.importorskip("torch")
    options = {"dropout": 0.0, "norm_first": norm_first, "activation": activation}
    theirs = torch.nn.TransformerEncoderLayer(M, 2, F, batch_first=True, dtype=torch.float64, **options)
    ours = nn.TransformerEncoderLayer(M, 2, F, **options).to("float64")
    ours.load_state_dict(theirs.state_dict())
    pad = torch.arange(LQ)[None] >= torch.tensor([2, 5])[:, None]
    theirs.train()
    close(ours(X, valid_lens=[2, 5]), theirs(torch.tensor(X), src_key_padding_mask=pad).detach().numpy())
    theirs = torch.nn.TransformerDecoderLayer(M, 2, F, batch_first=True, dtype=torch.float64, **options)
    ours = nn.TransformerDecoderLayer(M, 2, F, **options).to("float64")
    ours.load_state_dict(theirs.state_dict())
    future = torch.ones(LQ, LQ, dtype=torch.bool).triu(1)
    expected = theirs(torch.tensor(X), torch.tensor(MEMORY), tgt_mask=future)
    close(ours(X, MEMORY, is_causal=True), expected.detach().numpy())


REJECTIONS = [
    (lambda: nn.TransformerEncoderLayer(6, 4), r"TransformerEncoderLayer: d_model must be "
     r"divisible by nhead; got d_model = 6, nhead = 4"),
    (lambda: nn.TransformerDecoderLayer(6, 4), r"TransformerDecoderLayer: d_model must "
     r"be divisible by nhead"),
    (lambda: nn.TransformerEncoderLayer(0, 1), r"d_model, nhead and dim_feedforward must be at least 1"),
    (lambda: nn.TransformerEncoderLayer(6, 2, activation="tanh"), r"activation must be "
     r"\"relu\", \"gelu\", \"gelu_tanh\" or \"silu\"; got \"tanh\""),
    (lambda: nn.TransformerEncoderLayer(6, 2, dropout=2.0), r"^TransformerEncoderLayer: dropout must be "
     r"from 0 to 1; got 2$"),
    (lambda: nn.TransformerDecoderLayer(6, 2, 4, 7), r"^TransformerDecoderLayer: dropout must be from 0 to 1; got 7$"),
    (lambda: nn.PositionWiseFFN(5, 10, 5), r"^PositionWiseFFN: dropout, the third argument, must be from 0 to 1 "
     r"because the output has d_model = 5 features without being told; got 5$"),
    (lambda: nn.PositionWiseFFN(5, 10, -1), r"^PositionWiseFFN: dropout must be from 0 to 1; got -1$"),
    (lambda: nn.AddNorm(3, 2), r"^AddNorm: dropout must be from 0 to 1; got 2$"),
    (lambda: nn.PositionalEncoding(4, 3), r"^PositionalEncoding: dropout must be from 0 to 1; got 3$"),
    (lambda: encoder_layer()(X[..., :3]), r"TransformerEncoderLayer: src must be \(B, L, 6\) or \(L, 6\) "
     r"because d_model = 6; got src \(2, 5, 3\)"),
    (lambda: encoder_layer()(X[0, 0]), r"src must be \(B, L, 6\) or \(L, 6\)"),
    (lambda: decoder_layer()(X, MEMORY[0]), r"memory must have as many axes as tgt \(2, 5, 6\); got memory"),
    (lambda: decoder_layer()(X[..., :3], MEMORY), r"TransformerDecoderLayer: tgt must be \(B, L, 6\)"),
    (lambda: decoder_layer()(X, MEMORY[..., :3]), r"memory must be \(B, L, 6\)"),
    (lambda: decoder_layer()(X, MEMORY[:1]), r"batch size"),
    (lambda: nn.TransformerEncoder(encoder_layer(), 0), r"TransformerEncoder: num_layers must "
     r"be at least 1; got 0"),
]  # fmt: skip


@pytest.mark.parametrize(("act", "text"), REJECTIONS)
def test_rejections(act, text):
    with pytest.raises(ValueError, match=text):
        act()


def test_stacks_take_layers_of_their_kind():
    with pytest.raises(TypeError, match="TransformerEncoder: layer must be"):
        nn.TransformerEncoder(decoder_layer(), 2)
    with pytest.raises(TypeError, match="TransformerEncoder: norm must be a Module; got int"):
        nn.TransformerEncoder(encoder_layer(), 2, 3)


def test_a_subclass_of_the_norm_keeps_its_own_forward():
    class Halved(qkv.nn.LayerNorm):
        def forward(self, x):
            return super().forward(x) / 2

    x, y = (np.random.default_rng(seed).standard_normal((2, 3, 7)).astype("float32") for seed in (0, 1))
    layer = qkv.nn.AddNorm(7, 0.0)
    whole = layer(x, y).numpy()
    layer.norm = Halved(7)
    np.testing.assert_array_equal(layer(x, y).numpy(), whole / 2)


def test_a_decoder_takes_a_cache():
    layer = nn.TransformerDecoderLayer(8, 2, 11, 0.0, rotary_base=50.0, gated=True, activation="silu")
    decoder = nn.TransformerDecoder(layer, 2).to("float64").eval()
    rng = np.random.default_rng(8)
    x, memory = rng.standard_normal((2, 5, 8)), rng.standard_normal((2, 3, 8))
    caches = [nn.KVCache(), nn.KVCache()]
    with qkv.no_grad():
        whole = decoder(x, memory, is_causal=True, memory_valid_lens=[3, 2])
        steps = [
            decoder(x[:, a:b], memory, is_causal=True, memory_valid_lens=[3, 2], cache=caches)
            for a, b in ((0, 2), (2, 3), (3, 5))
        ]
    close(qkv.concatenate(steps, 1), whole)
    assert [len(cache) for cache in caches] == [5, 5]
    with pytest.raises(
        ValueError, match="TransformerDecoder: cache must hold one KVCache for each of the 2 layers; got 1"
    ):
        decoder(x, memory, cache=caches[:1])
    with pytest.raises(
        TypeError, match="TransformerDecoder: cache must be a list of KVCaches, one for each layer; got 3"
    ):
        decoder(x, memory, cache=3)
