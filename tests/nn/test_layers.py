"""Linear, Embedding, norms, Dropout, activations, positions, "
"feed-forward: values, slopes, first digits, rejections."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import close
from layer_checks import check_layer, randomised, state

import qkv
from qkv import nn, reference

RNG = np.random.default_rng(30)


LAYERS = {
    "Linear": (lambda: nn.Linear(3, 5), lambda s, x: reference.linear(x, s["weight"], s["bias"])),
    "Linear without bias": (
        lambda: nn.Linear(3, 5, bias=False),
        lambda s, x: reference.linear(x, s["weight"]),
    ),
    "LayerNorm": (lambda: nn.LayerNorm(3), lambda s, x: reference.layer_norm(x, s["weight"], s["bias"])),
    "LayerNorm eps": (
        lambda: nn.LayerNorm(3, eps=0.5),
        lambda s, x: reference.layer_norm(x, s["weight"], s["bias"], 0.5),
    ),
    "LayerNorm without bias": (
        lambda: nn.LayerNorm(3, bias=False),
        lambda s, x: reference.layer_norm(x, s["weight"]),
    ),
    "LayerNorm plain": (
        lambda: nn.LayerNorm(3, elementwise_affine=False),
        lambda s, x: reference.layer_norm(x),
    ),
    "LayerNorm of two axes": (
        lambda: nn.LayerNorm((7, 3)),
        lambda s, x: reference.layer_norm(x, s["weight"], s["bias"], normalized_shape=(7, 3)),
    ),
    "RMSNorm": (lambda: nn.RMSNorm(3), lambda s, x: reference.rms_norm(x, s["weight"])),
    "RMSNorm eps": (lambda: nn.RMSNorm((3,), eps=0.5), lambda s, x: reference.rms_norm(x, s["weight"], 0.5)),
    "ReLU": (nn.ReLU, lambda s, x: reference.relu(x)),
    "GELU": (nn.GELU, lambda s, x: reference.gelu(x)),
    "GELU tanh": (lambda: nn.GELU("tanh"), lambda s, x: reference.gelu(x, "tanh")),
    "Tanh": (nn.Tanh, lambda s, x: reference.tanh(x)),
    "PositionWiseFFN": (lambda: nn.PositionWiseFFN(3, 11), reference.position_wise_ffn),
    "PositionWiseFFN gelu": (
        lambda: nn.PositionWiseFFN(3, 11, activation="gelu"),
        lambda s, x: reference.position_wise_ffn(s, x, "gelu"),
    ),
    "PositionalEncoding": (
        lambda: nn.PositionalEncoding(3, max_len=13),
        lambda s, x: x + reference.sinusoidal_positions(7, 3),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_values_and_slopes(name):
    make, formula = LAYERS[name]
    x = RNG.standard_normal((2, 7, 3))
    layer = randomised(make())
    y = layer(x)
    assert isinstance(y, qkv.Tensor)
    assert y.dtype == "float64"
    close(y, formula(state(layer), x))
    check_layer(layer, x)
    layer = randomised(make(), "float32")
    close(layer(x.astype("float32")), formula(state(layer), x.astype("float32")), "float32 deep")


def test_add_norm():
    x, y = RNG.standard_normal((2, 2, 7, 3))
    layer = randomised(nn.AddNorm(3, eps=0.25))
    assert list(layer.state_dict()) == ["norm.weight", "norm.bias"]
    close(layer(x, y), reference.add_norm(state(layer), x, y, 0.25))
    check_layer(layer, x, y)
    with pytest.raises(ValueError, match=r"AddNorm: y must have the shape of x \(2, 7, 3\); got y \(2, 3\)"):
        layer(x, y[0, :2])
    dropping = nn.AddNorm(3, 0.5)
    qkv.manual_seed(0)
    trained = dropping(x, y)
    assert np.abs(trained.numpy() - dropping.eval()(x, y).numpy()).max() > 1e-3
    qkv.manual_seed(0)
    close(trained, dropping.norm(x + nn.Dropout(0.5)(y).numpy()))


def test_embedding():
    layer = randomised(nn.Embedding(7, 3, padding_idx=2))
    ids = np.array([[1, 2, 2], [6, 1, 0]])
    y = layer(ids)
    close(y, layer.weight.numpy()[ids])
    G = RNG.standard_normal(y.shape)
    y.backward(G)
    expected = np.zeros((7, 3))
    np.add.at(expected, ids, G)
    expected[2] = 0
    close(layer.weight.grad, expected)
    assert layer([[1, 2, 3]]).shape == (1, 3, 3)
    assert layer(np.uint8(3)).shape == (3,)
    assert (nn.Embedding(7, 3, padding_idx=-1).weight.numpy()[6] == 0).all()
    assert nn.Embedding(7, 3, padding_idx=-1).padding_idx == 6
    for bad in (7, -1):
        with pytest.raises(ValueError, match=rf"7.*got .*{bad}|got {bad}"):
            layer([bad])
    for bad in ([1.5], [True]):
        with pytest.raises(TypeError, match="Embedding: ids must hold integers; got dtype"):
            layer(bad)


def test_first_digits_are_pytorchs_stream():
    """A layer's parameters are drawn in order: weight, then bias, uniform in +-1/sqrt(in_features)."""
    qkv.manual_seed(5)
    layer = nn.Linear(7, 3)
    after = qkv.rand(3)
    qkv.manual_seed(5)
    bound = 1 / np.sqrt(7)
    np.testing.assert_allclose(layer.weight, qkv.uniform(-bound, bound, (3, 7)), 1e-6, 1e-7)
    np.testing.assert_allclose(layer.bias, qkv.uniform(-bound, bound, (3,)), 1e-6, 1e-7)
    close(after, qkv.rand(3))
    qkv.manual_seed(5)
    table = nn.Embedding(7, 3)
    qkv.manual_seed(5)
    close(table.weight, qkv.randn(7, 3))
    qkv.manual_seed(5)
    nn.LayerNorm(3), nn.Dropout(), nn.PositionalEncoding(4), nn.RMSNorm(3)
    qkv.manual_seed(5)
    untouched = qkv.rand(1)
    qkv.manual_seed(5)
    nn.LayerNorm(3)
    close(qkv.rand(1), untouched)


@pytest.mark.parametrize(
    ("group", "names"),
    [
        ("D1-11", ["W_query", "W_key", "W_value"]),
        ("D1-16", ["W_query.weight", "W_key.weight", "W_value.weight"]),
    ],
)
def test_first_digits_equal_the_documents(golden, group, names):
    g = golden(group, "float32")
    qkv.manual_seed(g.facts["seed"])
    layer = nn.SelfAttention(3, 2)
    for part, name in zip(("q_proj", "k_proj", "v_proj"), names, strict=True):
        assert getattr(layer, part).weight.numpy().tobytes() == g[name].tobytes()


def test_multi_head_attention_draws_q_k_v_out(golden):
    g = golden("D1-17", "float32")
    qkv.manual_seed(g.facts["seed"])
    parts = [nn.Linear(3, 2, bias=False) for _ in range(3)] + [nn.Linear(2, 2)]
    qkv.manual_seed(g.facts["seed"])
    layer = nn.MultiHeadAttention(3, 2, bias=False, out_bias=True, head_dim=1, out_dim=2)
    for name, part in zip(("q_proj", "k_proj", "v_proj", "out_proj"), parts, strict=True):
        assert getattr(layer, name).weight.numpy().tobytes() == part.weight.numpy().tobytes()
    for name in ("query", "key", "value"):
        assert getattr(layer, f"{name[0]}_proj").weight.numpy().tobytes() == g[f"W_{name}.weight"].tobytes()
    assert layer.out_proj.weight.numpy().tobytes() == g["out_proj.weight"].tobytes()
    assert layer.out_proj.bias.numpy().tobytes() == g["out_proj.bias"].tobytes()


def test_digits_of_an_installed_pytorch():
    torch = pytest.importorskip("torch")
    if "AVX" not in torch.backends.cpu.get_cpu_capability():
        pytest.skip("other digits without AVX2")
    for make in (
        lambda lib: lib.Linear(37, 53),
        lambda lib: lib.Embedding(41, 23),
        lambda lib: lib.Linear(3, 2, bias=False),
    ):
        torch.manual_seed(11)
        qkv.manual_seed(11)
        theirs, ours = make(torch.nn), make(nn)
        for name, p in theirs.named_parameters():
            assert dict(ours.named_parameters())[name].numpy().tobytes() == p.detach().numpy().tobytes(), name
    torch.manual_seed(3)
    qkv.manual_seed(3)
    x = np.ones((5, 101), np.float32)
    assert nn.Dropout(0.3)(x).numpy().tobytes() == torch.nn.Dropout(0.3)(torch.ones(5, 101)).numpy().tobytes()


def test_dropout():
    layer, x = nn.Dropout(0.25), np.ones((101, 103))
    qkv.manual_seed(1)
    y = layer(x).numpy()
    assert set(np.unique(y)) == {0.0, 1 / 0.75}
    assert abs((y > 0).mean() - 0.75) < 0.02
    qkv.manual_seed(1)
    t = qkv.tensor(x, requires_grad=True)
    layer(t).sum().backward()
    close(t.grad, y)
    assert layer.eval()(x).numpy().tobytes() == x.tobytes()
    assert (nn.Dropout(0.0)(x).numpy() == 1).all()
    assert (nn.Dropout(1.0)(x).numpy() == 0).all()
    assert nn.Dropout().p == 0.5


def test_positional_encoding_holds_its_table_in_float64():
    layer = nn.PositionalEncoding(5, max_len=11)
    assert layer.P.shape == (1, 11, 5)
    close(layer.P, reference.sinusoidal_positions(11, 5)[None])
    assert list(layer.state_dict()) == []
    for dtype in ("float32", "float64"):
        y = layer(np.zeros((2, 7, 5), dtype))
        assert y.dtype == dtype
        assert (y.numpy()[1] == reference.sinusoidal_positions(7, 5).astype(dtype)).all()
    assert layer(np.zeros((7, 5))).shape == (7, 5)
    qkv.manual_seed(0)
    dropped = nn.PositionalEncoding(5, 0.5, 11)(np.full((2, 7, 5), 3.0))
    assert (dropped.numpy() == 0).any()
    with pytest.raises(
        ValueError,
        match=r"PositionalEncoding: x must have at most max_len = 11 positions; got x \(1, 12, 5\)",
    ):
        layer(np.zeros((1, 12, 5)))
    with pytest.raises(ValueError, match=r"x must be \(B, L, 5\) because num_hiddens = 5; got x \(1, 2, 3\)"):
        layer(np.zeros((1, 2, 3)))


def test_a_layer_computes_in_the_dtype_of_its_parameters():
    x = RNG.standard_normal((2, 7, 3))
    for make in (
        lambda: nn.Linear(3, 3),
        lambda: nn.LayerNorm(3),
        lambda: nn.RMSNorm(3),
        lambda: nn.PositionWiseFFN(3, 5),
    ):
        assert make()(x).dtype == "float32"
        assert make().to("float64")(x.astype("float32")).dtype == "float64"
        assert make()(np.ones((2, 3), int)).dtype == "float32"
        assert make()(x.astype("float16")).dtype == "float32"
    for make in (
        nn.ReLU,
        nn.GELU,
        nn.Tanh,
        lambda: nn.Dropout(0.5),
        lambda: nn.LayerNorm(3, elementwise_affine=False),
    ):
        assert make()(x).dtype == "float64"
        assert make()(x.astype("float32")).dtype == "float32"
        assert make()([[1, 2, 3]]).dtype == "float32"


def test_golden_feed_forward_and_norms(golden):
    g = golden("D3-17")
    layer = nn.PositionWiseFFN(*reversed(g["W1"].shape)).to("float64")
    layer.load_state_dict(
        {
            "linear1.weight": g["W1"],
            "linear1.bias": g["b1"],
            "linear2.weight": g["W2"],
            "linear2.bias": g["b2"],
        }
    )
    g.close_all({"out": layer(g["x"])})
    g = golden("D3-18")
    layer = nn.AddNorm(g["x"].shape[-1]).to("float64")
    layer.load_state_dict({"norm.weight": g["g"], "norm.bias": g["b"]})
    fine = nn.LayerNorm(g["x"].shape[-1], eps=1e-12).to("float64")
    fine.load_state_dict({"weight": g["g"], "bias": g["b"]})
    g.close_all(
        {"out": layer(g["x"], g["sublayer"]), "layernorm_of_x": layer.norm(g["x"]), "eps_1e-12": fine(g["x"])}
    )


REJECTIONS = [
    (lambda: nn.Linear(0, 3), r"Linear: in_features must be at least 1; got 0"),
    (lambda: nn.Linear(3, -1), r"Linear: out_features must be at least 1; got -1"),
    (lambda: nn.Embedding(0, 3), r"Embedding: num_embeddings must be at least 1; got 0"),
    (lambda: nn.Embedding(5, 0), r"Embedding: embedding_dim must be at least 1; got 0"),
    (lambda: nn.Embedding(5, 3, 5), r"Embedding: padding_idx must be from -5 to 4 .* got 5"),
    (lambda: nn.LayerNorm(()), r"LayerNorm: normalized_shape must be a number or a tuple"),
    (lambda: nn.LayerNorm((3, 0)), r"LayerNorm: normalized_shape must hold numbers from 1; got \(3, 0\)"),
    (lambda: nn.LayerNorm(3, eps=-1.0), r"LayerNorm: eps must be a number from 0; got -1"),
    (lambda: nn.RMSNorm(3, eps=np.nan), r"RMSNorm: eps must be a number from 0; got nan"),
    (lambda: nn.Dropout(1.5), r"Dropout: p must be from 0 to 1; got 1.5"),
    (lambda: nn.Dropout(np.nan), r"Dropout: p must be from 0 to 1; got nan"),
    (lambda: nn.GELU("fast"), r"GELU: approximate must be \"none\" or \"tanh\"; got \"fast\""),
    (lambda: nn.PositionWiseFFN(3, 5, activation="tanh"), r"PositionWiseFFN: activation must be "
     r"\"relu\", \"gelu\", \"gelu_tanh\" or \"silu\"; got \"tanh\""),
    (lambda: nn.PositionalEncoding(0), r"PositionalEncoding: num_hiddens and max_len must be at least 1"),
    (lambda: nn.Linear(3, 5)(np.ones((2, 7))), r"Linear: x must be \(\.\.\., 3\) because "
     r"in_features = 3; got x \(2, 7\)"),
    (lambda: nn.LayerNorm((2, 3))(np.ones((3, 2))), r"layer_norm: .*\(2, 3\).*got .*\(3, 2\)"),
    (lambda: nn.RMSNorm(3)(np.ones(5)), r"rms_norm: .*got .*\(5,\)"),
]  # fmt: skip


@pytest.mark.parametrize(("act", "text"), REJECTIONS)
def test_rejections(act, text):
    with pytest.raises(ValueError, match=text):
        act()


def test_wrong_kinds_of_input():
    for layer in (nn.Linear(3, 5), nn.LayerNorm(3), nn.ReLU(), nn.Dropout()):
        for bad in (None, "text", np.array(["a"]), object()):
            with pytest.raises(TypeError, match=f"{type(layer).__name__}: x must"):
                layer(bad)
