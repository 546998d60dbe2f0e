"""`nn.LinearAttention`: what it computes, trains, saves, and how it continues from a state."""

import numpy as np
import pytest

import qkv
from qkv import nn
from qkv.reference import linear_attention as expected
from qkv.testing import check_gradient

RULES = ("linear", "gated", "delta", "gated_delta")
RNG = np.random.default_rng(3)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_it_is_its_formula(rule, bias, kv_heads):
    layer = nn.LinearAttention(12, 4, update_rule=rule, num_kv_heads=kv_heads, bias=bias).to("float64")
    x, state = RNG.standard_normal((2, 9, 12)), RNG.standard_normal((2, kv_heads, 3, 3))
    y, last = layer(x, state, return_state=True)

    def project(name):
        part = getattr(layer, name)
        out = x @ part.weight.numpy().T + (part.bias.numpy() if bias else 0)
        heads = 4 if name == "q_proj" else kv_heads
        return np.moveaxis(out.reshape(2, 9, heads, -1), 2, 1)

    k, rates = project("k_proj"), {}
    if "gated" in rule:
        rates["decay"] = np.log(sigmoid(project("decay_proj")[..., 0])) / 16
    if "delta" in rule:
        rates["beta"] = sigmoid(project("beta_proj")[..., 0])
        k = k / np.linalg.norm(k, axis=-1, keepdims=True)
    heads, end = expected(project("q_proj"), k, project("v_proj"), state=state, **rates)
    joined = np.moveaxis(heads, 1, 2).reshape(2, 9, 12)
    wanted = joined @ layer.out_proj.weight.numpy().T + (layer.out_proj.bias.numpy() if bias else 0)
    np.testing.assert_allclose(y.numpy(), wanted, atol=1e-12)
    np.testing.assert_allclose(last.numpy(), end, atol=1e-12)
    assert (layer(x, state).numpy() == y.numpy()).all()


@pytest.mark.parametrize("rule", RULES)
def test_a_step_at_a_time_is_the_whole(rule):
    layer, x = nn.LinearAttention(8, 2, update_rule=rule), RNG.standard_normal((3, 6, 8)).astype("float32")
    with qkv.no_grad():
        whole, state = layer(x), None
        for t in range(6):
            y, state = layer(x[:, t : t + 1], state, return_state=True)
            np.testing.assert_allclose(y.numpy()[:, 0], whole.numpy()[:, t], atol=1e-6)


@pytest.mark.parametrize("rule", RULES)
def test_gradients_reach_all_parameters(rule):
    layer = nn.LinearAttention(6, 2, update_rule=rule, num_kv_heads=1, bias=True).to("float64")
    x = RNG.standard_normal((2, 5, 6))
    check_gradient(lambda x: (layer(x) ** 2).sum(), x)
    (layer(x) ** 2).sum().backward()
    for name, parameter in layer.named_parameters():
        assert (parameter.grad.numpy() != 0).any(), name


def test_names_sizes_and_copies():
    layer = nn.LinearAttention(12, 4, update_rule="gated_delta", num_kv_heads=2)
    sizes = {name: array.shape for name, array in layer.state_dict().items()}
    assert sizes == {
        "q_proj.weight": (12, 12),
        "k_proj.weight": (6, 12),
        "v_proj.weight": (6, 12),
        "decay_proj.weight": (2, 12),
        "beta_proj.weight": (2, 12),
        "out_proj.weight": (12, 12),
    }
    written = "embed_dim=12, num_heads=4, update_rule='gated_delta', num_kv_heads=2, bias=False"
    assert repr(layer).splitlines()[:2] == ["LinearAttention(", f"  {written}"]
    assert "decay_proj.weight" not in nn.LinearAttention(12, 4).state_dict()
    assert (layer.embed_dim, layer.num_heads, layer.num_kv_heads, layer.bias) == (12, 4, 2, False)
    assert layer.update_rule == "gated_delta"


def test_it_learns_to_recall():
    """Values are found again by their keys, which a state without correction mixes up."""
    qkv.manual_seed(0)
    rng, losses = np.random.default_rng(0), {}
    keys = np.linalg.qr(rng.standard_normal((8, 8)))[0].astype("float32")
    for rule in ("linear", "delta"):
        layer = nn.LinearAttention(16, 1, update_rule=rule)
        optimizer = qkv.optim.Adam(layer.parameters(), lr=1e-2)
        for _ in range(150):
            order = rng.integers(0, 8, (16, 12))
            values = rng.standard_normal((16, 12, 8)).astype("float32")
            x = np.concatenate([keys[order], values], -1)
            newest = np.stack(
                [[np.flatnonzero(row[: t + 1] == row[0])[-1] for t in range(12)] for row in order]
            )
            asked = np.concatenate(
                [x, np.concatenate([keys[order[:, :1]], np.zeros((16, 1, 8), "float32")], -1)], 1
            )
            target = values[np.arange(16), newest[:, -1]]
            loss = ((layer(asked)[:, -1, 8:] - target) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses[rule] = float(loss)
    assert losses["delta"] < losses["linear"] < 1.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            dict(embed_dim=10, num_heads=4),
            "embed_dim must be a multiple of num_heads; got embed_dim = 10, num_heads = 4",
        ),
        (
            dict(embed_dim=8, num_heads=4, num_kv_heads=3),
            "num_heads must be a multiple of num_kv_heads; got num_heads = 4, num_kv_heads = 3",
        ),
        (dict(embed_dim=8, num_heads=0), "num_heads must be at least 1"),
        (dict(embed_dim=8, num_heads=4, update_rule="slow"), 'update_rule must be "linear", "gated"'),
    ],
)
def test_rejections(arguments, message):
    with pytest.raises(ValueError, match=message):
        nn.LinearAttention(**arguments)


def test_a_wrong_input_or_state_is_told():
    layer = nn.LinearAttention(8, 2)
    with pytest.raises(
        ValueError, match=r"LinearAttention: x must be \(B, T, 8\) because embed_dim = 8; got x \(3, 8\)"
    ):
        layer(np.ones((3, 8)))
    with pytest.raises(ValueError, match=r"state must be \(B, Hkv, D, Dv\) = \(1, 2, 4, 4\)"):
        layer(np.ones((1, 3, 8)), np.ones((1, 2, 4)))
