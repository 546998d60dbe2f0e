"""MultiHeadAttention and KVCache: every argument, the documents' numbers, caches against no cache."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from helpers import close
from layer_checks import check_layer, randomised, state

import qkv
from qkv import nn, reference

RNG = np.random.default_rng(50)
B, LQ, LK, M = 2, 5, 7, 12
X, Y, V = (RNG.standard_normal((B, n, M)) for n in (LQ, LK, LK))
NAMES = ("q_proj", "k_proj", "v_proj", "out_proj")
D2L = {"W_q": "q_proj.weight", "W_k": "k_proj.weight", "W_v": "v_proj.weight", "W_o": "out_proj.weight"}
SHORT = {f"W{n}": f"{n}_proj.weight" for n in "qkv"} | {"Wo": "out_proj.weight"}
SHORT |= {old.replace("W", "b"): new.replace("weight", "bias") for old, new in SHORT.items()}


def loaded(layer, params, table):
    layer.to("float64").load_state_dict({new: params[old] for old, new in table.items() if old in params})
    return layer


def flat_heads(w):
    return np.asarray(w).reshape(-1, *w.shape[2:])


@pytest.mark.parametrize(("group", "num_keys"), [("D0-24", 6), ("D0-26", 4)])
def test_document_zero(golden, group, num_keys):
    g = golden(group)
    layer = loaded(nn.MultiHeadAttention(100, 5, dropout=0.5, bias=False), g.params(), D2L)
    x, y = np.ones((2, 4, 100)), np.ones((2, num_keys, 100))
    trained = layer(x, y, y, g["lens"], dropout_keep=g["dropout_keep"].reshape(2, 5, 4, num_keys) != 0)
    layer.eval()
    out = layer(x, y, y, g["lens"])
    w = flat_heads(layer.attention_weights)
    r = layer(g["r.X"], g.get("r.Y"), valid_lens=g["lens"])
    g.close_all({
        "out_eval": out.numpy()[:, :1], "weights_eval": w, "out_train": trained,
        "r.out": r, "r.weights": flat_heads(layer.attention_weights),
    })  # fmt: skip


@pytest.mark.parametrize("case", ["none", "lens1d", "lens2d"])
def test_small_layer_with_gradients(golden, case):
    g = golden("X-MHA")
    layer = loaded(nn.MultiHeadAttention(20, 5, bias=False), g.params(), D2L)
    q, k = (qkv.tensor(g[n], requires_grad=True) for n in ("queries", "keys"))
    y = layer(q, k, k, g.get(case))
    g.close(f"out.{case}", y)
    g.close(f"weights.{case}", flat_heads(layer.attention_weights))
    y.backward(g["G"])
    g.close(f"grad.{case}.queries", q.grad)
    g.close(f"grad.{case}.keys", k.grad)
    for old, new in D2L.items():
        g.close(f"grad.{case}.{old}", dict(layer.named_parameters())[new].grad)


def test_document_one(golden):
    g = golden("D1-17")
    names = {f"W_{n}.weight": f"{n[0]}_proj.weight" for n in ("query", "key", "value")}
    names |= {n: n for n in ("out_proj.weight", "out_proj.bias")}
    layer = nn.MultiHeadAttention(3, 2, bias=False, out_bias=True, head_dim=1, out_dim=2, is_causal=True)
    loaded(layer, g.params(), names)
    out = layer(g["batch"])
    w = layer.attention_weights
    g.close_all(
        {"out": out, "weights": w, "float32_run": out, "out_first_4_tokens": layer(g["batch"][:, :4])}
    )


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_stacked_projections_load_at_any_depth(golden, depth):
    g = golden("D1-18")
    stack = {
        f"in_proj_{k}": np.concatenate([g[f"W_{n}.{k}"] for n in ("query", "key", "value")])
        for k in ("weight", "bias")
    }
    stack |= {k: g[k] for k in ("out_proj.weight", "out_proj.bias")}
    layer = model = nn.MultiHeadAttention(8, 2, is_causal=True)
    for _ in range(depth):
        model = nn.Sequential(model)
    model.to("float64").load_state_dict({"0." * depth + k: v for k, v in stack.items()})
    x = qkv.tensor(g["x"], requires_grad=True)
    y = layer(x)
    g.close("out", y)
    g.close("weights", layer.attention_weights)
    y.backward(g["G"])
    g.close("grad.x", x.grad)
    for n in ("query", "key", "value"):
        for kind in ("weight", "bias"):
            g.close(f"grad.W_{n}.{kind}", getattr(getattr(layer, f"{n[0]}_proj"), kind).grad)
    g.close("grad.out_proj.weight", layer.out_proj.weight.grad)
    g.close("grad.out_proj.bias", layer.out_proj.bias.grad)
    bad = {"0." * depth + k: v for k, v in stack.items()} | {"0." * depth + "in_proj_bias": np.zeros(5)}
    with pytest.raises(ValueError, match="in_proj_bias"):
        model.load_state_dict(bad)


def test_separate_projections_of_pytorch_load():
    layer = nn.MultiHeadAttention(M, 3, kdim=5, vdim=7)
    own = {k: RNG.standard_normal(v.shape) for k, v in layer.state_dict().items()}
    theirs = {f"{n}_weight": own[f"{n}.weight"] for n in NAMES[:3]}
    theirs["in_proj_bias"] = np.concatenate([own[f"{n}.bias"] for n in NAMES[:3]])
    theirs |= {k: own[k] for k in ("out_proj.weight", "out_proj.bias")}
    layer.load_state_dict(theirs)
    for k, v in layer.state_dict().items():
        close(v, own[k].astype("float32"))


def test_document_four(golden):
    g = golden("D4-03")
    layer = nn.MultiHeadAttention(32, 4, masked_value=-1e9).to("float64")
    layer.load_state_dict({new: g[old[0]] for old, new in SHORT.items()})
    out = layer(g["x"], attn_mask=g["mask"] != 0)
    w = layer.attention_weights
    cross = layer(g["x"], g["y"])
    g.close_all({"self.out": out, "self.attn": w, "cross.out": cross, "cross.attn": layer.attention_weights})


def test_document_four_with_gradients(golden):
    g = golden("D4-06")
    layer = loaded(nn.MultiHeadAttention(32, 4, masked_value=-1e10, dropout=0.1), g.params(), SHORT)
    mask = (g["key_mask"] != 0)[:, None, None]
    trained = layer(g["x"], attn_mask=mask, dropout_keep=g["dropout_keep"] != 0)
    layer.eval()
    x = qkv.tensor(g["x"], requires_grad=True)
    y = layer(x, attn_mask=mask)
    w = layer.attention_weights
    y.backward(g["G"])
    g.close("grad.x", x.grad)
    for old, new in SHORT.items():
        g.close(f"grad.{old}", dict(layer.named_parameters())[new].grad)
    blocked = layer(g["x"], attn_mask=np.zeros((5, 5), bool))
    g.close_all({"out": y, "attn": w, "out_train": trained, "out_fully_masked": blocked})


def test_attention_layer_of_document_three(golden):
    g, cross = golden("D3-01"), golden("D3-04")
    layer = nn.SelfAttention(6, 4, scale=1.0).to("float64")
    layer.load_state_dict({f"{n.lower()}_proj.weight": g[n].T for n in "QKV"})
    x = qkv.tensor(g["input"], requires_grad=True)
    y = layer(x)
    g.close_all({"out": y, "score": layer.attention_weights})
    y.backward(g["G"])
    g.close("grad.input", x.grad)
    for n in "QKV":
        g.close(f"grad.{n}", getattr(layer, f"{n.lower()}_proj").weight.grad.numpy().T)
    cross.close_all({"out": layer(cross["x"], cross["y"]), "score": layer.attention_weights})


@pytest.mark.parametrize("case", ["plain", "masked", "dropout"])
def test_attention_function_of_document_four(golden, case):
    g = golden("D4-01")
    options = {"masked_value": -1e9, "return_weights": True}
    if case != "plain":
        options["attn_mask"] = g["mask"] != 0
    if case == "dropout":
        options |= {"dropout_p": 0.1, "dropout_keep": g["dropout_keep"] != 0}
    q, k, v = (qkv.tensor(g[n], requires_grad=True) for n in ("query", "key", "value"))
    y, w = qkv.scaled_dot_product_attention(q, k, v, **options)
    g.close(f"{case}.out", y)
    after = w.numpy() * g["dropout_keep"] / 0.9 if case == "dropout" else w
    g.close(f"{case}.p_attn", after)
    y.backward(g["G"])
    for name, t in (("query", q), ("key", k), ("value", v)):
        g.close(f"grad.{case}.{name}", t.grad)


def test_wide_attention_of_document_four(golden):
    g = golden("D4-10")
    qkv.manual_seed(0)
    linear = nn.Linear(512, 512)
    layer = nn.MultiHeadAttention(512, 8)
    for name in NAMES:
        setattr(layer, name, copy.deepcopy(linear))
    qkv.manual_seed(1)
    x = qkv.randn(2, 10, 512).astype("float64")
    y = layer.to("float64")(x).numpy()
    g.close_all({"out_corner": y[:, :3, :8], "out_mean": y.mean(), "out_std": y.std(ddof=1),
                 "attn_head0": layer.attention_weights.numpy()[:, 0]})  # fmt: skip


ARGUMENTS = {
    "no bias": {"bias": False},
    "no out bias": {"out_bias": False},
    "out bias alone": {"bias": False, "out_bias": True},
    "fewer kv heads": {"num_kv_heads": 2},
    "head_dim": {"head_dim": 5},
    "out_dim": {"out_dim": 7},
    "causal": {"is_causal": True},
    "lower right": {"is_causal": "lower_right"},
    "scale": {"scale": 0.05},
    "fill": {"masked_value": -1.0},
    "window": {"window": (1, 2)},
    "rotary": {"rotary_base": 100.0, "head_dim": 4},
    "another rotary": {"rotary_base": 5000.0, "head_dim": 4, "num_kv_heads": 2},
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_each_argument_changes_the_result_as_the_reference_says(name):
    options = ARGUMENTS[name]
    layer = randomised(nn.MultiHeadAttention(M, 4, **options))
    rest = {k: v for k, v in options.items() if k in
            ("num_kv_heads", "is_causal", "scale", "masked_value", "window", "rotary_base")}  # fmt: skip
    for y, v, lens in ((Y, V, [3, 6]), (None, None, [2, 5])):
        out, w = reference.multi_head_attention(
            state(layer), X, y, v, lens, num_heads=4, return_weights=True, **rest
        )
        actual = layer(X, y, v, lens)
        close(actual, out)
        close(layer.attention_weights, w)
    plain = nn.MultiHeadAttention(M, 4, head_dim=options.get("head_dim")).to("float64")
    shared = {k: v for k, v in layer.state_dict().items() if dict(plain.state_dict())[k].shape == v.shape}
    zeros = {k: np.zeros(v.shape) for k, v in plain.state_dict().items()}
    if len(shared) == len(zeros) or "bias" in name:
        plain.load_state_dict({**zeros, **shared})
        if name not in ("no bias", "no out bias", "out bias alone", "head_dim"):
            assert np.abs(plain(X, None, None, [2, 5]).numpy() - actual.numpy()).max() > 1e-3
    check_layer(layer, X, Y, V)


def test_shapes_of_the_parameters():
    layer = nn.MultiHeadAttention(
        M, 4, kdim=5, vdim=7, num_kv_heads=2, head_dim=11, out_dim=13, out_bias=False
    )
    shapes = {k: v.shape for k, v in layer.state_dict().items()}
    assert shapes == {
        "q_proj.weight": (44, M), "q_proj.bias": (44,), "k_proj.weight": (22, 5), "k_proj.bias": (22,),
        "v_proj.weight": (22, 7), "v_proj.bias": (22,), "out_proj.weight": (13, 44),
    }  # fmt: skip
    assert layer(X, RNG.standard_normal((B, LK, 5)), RNG.standard_normal((B, LK, 7))).shape == (B, LQ, 13)
    assert (layer.embed_dim, layer.num_heads, layer.num_kv_heads, layer.head_dim) == (M, 4, 2, 11)
    assert layer.attention_weights.shape == (B, 4, LQ, LK)


def test_a_call_may_override_causality_and_use_every_mask():
    layer = randomised(nn.MultiHeadAttention(M, 3, is_causal=True))
    s = state(layer)
    close(layer(X, is_causal=False), reference.multi_head_attention(s, X, num_heads=3))
    close(layer(X), reference.multi_head_attention(s, X, num_heads=3, is_causal=True))
    mask, bias = RNG.random((B, LQ, LK)) < 0.7, RNG.standard_normal((B, 3, LQ, LK))
    for m in (mask, mask[0], mask[:, None], bias, bias[:, :1]):
        expected = reference.multi_head_attention(
            s, X, Y, V, [3, 6], num_heads=3, is_causal=True, attn_mask=m
        )
        close(layer(X, Y, V, [3, 6], attn_mask=m), expected)
    learned = qkv.tensor(bias, requires_grad=True)
    layer(X, Y, V, attn_mask=learned).sum().backward()
    assert learned.grad.shape == bias.shape
    assert np.abs(learned.grad.numpy()).max() > 0


def test_unbatched_inputs():
    layer = randomised(nn.MultiHeadAttention(M, 3))
    whole = layer(X, Y, V, [4, 6])
    w = layer.attention_weights.numpy()
    for lens in (4, [4], np.array(4)):
        one = layer(X[0], Y[0], V[0], lens)
        assert one.shape == (LQ, M)
        close(one, whole[0])
        assert layer.attention_weights.shape == (3, LQ, LK)
        close(layer.attention_weights, w[0])
    with pytest.raises(ValueError, match="from 0 to Lk = 7; got 8"):
        layer(X[0], Y[0], V[0], 8)


def test_future_does_not_leak_and_batch_entries_are_independent():
    layer = nn.MultiHeadAttention(M, 3, is_causal=True, rotary_base=10000.0)
    changed = X.copy()
    changed[:, 3:] += 1
    a, b = layer(X).numpy(), layer(changed).numpy()
    assert a[:, :3].tobytes() == b[:, :3].tobytes()
    assert np.abs(a[:, 3:] - b[:, 3:]).min() > 0
    close(layer(X[1:]).numpy(), a[1:], "float32")


REJECTIONS = [
    (lambda: nn.MultiHeadAttention(30, 4), r"MultiHeadAttention: embed_dim must be divisible by "
     r"num_heads; got embed_dim = 30, num_heads = 4"),
    (lambda: nn.MultiHeadAttention(12, 6, num_kv_heads=4), r"num_heads must be divisible by "
     r"num_kv_heads; got num_heads = 6, num_kv_heads = 4"),
    (lambda: nn.MultiHeadAttention(0, 1), r"embed_dim must be at least 1; got 0"),
    (lambda: nn.MultiHeadAttention(12, 0), r"num_heads must be at least 1; got 0"),
    (lambda: nn.MultiHeadAttention(12, 3, head_dim=0), r"head_dim must be at least 1"),
    (lambda: nn.MultiHeadAttention(12, 3, dropout=-0.5), r"dropout must be from 0 to 1; got -0.5"),
    (lambda: nn.MultiHeadAttention(12, 3, scale=np.nan), r"scale must be a finite number"),
    (lambda: nn.MultiHeadAttention(12, 4, rotary_base=10.0), r"head_dim must be even .* got head_dim = 3"),
    (lambda: nn.MultiHeadAttention(12, 3, rotary_base=-1.0), r"rotary_base must be a "
     r"positive number; got -1"),
    (lambda: nn.MultiHeadAttention(12, 3, window=(1,)), r"window must be \(left, right\)"),
    (lambda: nn.MultiHeadAttention(12, 3, is_causal="up"), r"is_causal must be False, True"),
    (lambda: nn.MultiHeadAttention(12, 3)(X, attn_mask=np.ones((2, 7, 5), bool)), r"^MultiHeadAttention: "
     r"attn_mask must broadcast to the weights' shape \(2, 3, 5, 5\) by NumPy's rules; a mask of three axes is "
     r"\(B, Lq, Lk\); got attn_mask \(2, 7, 5\)$"),
    (lambda: nn.MultiHeadAttention(12, 3)(X[..., :5]), r"queries must be \(B, L, 12\) because "
     r"embed_dim = 12; got queries \(2, 5, 5\)"),
    (lambda: nn.MultiHeadAttention(12, 3)(X, Y[..., :5]), r"keys must be \(B, L, 12\) because "
     r"kdim = 12; got keys \(2, 7, 5\)"),
    (lambda: nn.MultiHeadAttention(12, 3)(X, Y, V[..., :5]), r"values must be \(B, L, 12\) "
     r"because vdim = 12; got values"),
    (lambda: nn.MultiHeadAttention(12, 3)(X, Y[:1]), r"keys must have the batch size of queries "
     r"\(2, 5, 12\); got keys \(1, 7, 12\)"),
    (lambda: nn.MultiHeadAttention(12, 3)(X, Y, V[:, :3]), r"values must be \(B, Lk, vdim\) with "
     r"Lk = 7 to match keys"),
    (lambda: nn.MultiHeadAttention(12, 3)(X[0, 0]), r"queries must be \(B, L, M\) or \(L, "
     r"M\); got queries \(12,\)"),
    (lambda: nn.MultiHeadAttention(12, 3)(X, attn_mask=np.ones((3, LQ, LQ), bool)), r"attn_mask must "
     r"broadcast .* got attn_mask"),
    (lambda: nn.MultiHeadAttention(12, 3)(X, valid_lens=3), r"valid_lens must be \(B,\)"),
]  # fmt: skip


@pytest.mark.parametrize(("act", "text"), REJECTIONS)
def test_rejections(act, text):
    with pytest.raises(ValueError, match=text):
        act()


def test_same_numbers_as_an_installed_pytorch():
    torch = pytest.importorskip("torch")
    theirs = torch.nn.MultiheadAttention(M, 3, batch_first=True, dtype=torch.float64)
    ours = nn.MultiHeadAttention(M, 3).to("float64")
    ours.load_state_dict(theirs.state_dict())
    x, y, v = (torch.tensor(a) for a in (X, Y, V))
    out, w = theirs(x, y, v, average_attn_weights=False)
    close(ours(X, Y, V), out.detach().numpy())
    close(ours.attention_weights, w.detach().numpy())


def test_names_of_the_projections():
    names = {"q_proj": "query", "out_proj": "dense"}
    plain = randomised(nn.MultiHeadAttention(M, 3))
    layer = nn.MultiHeadAttention(M, 3, names=names).to("float64")
    renamed = {
        names.get(k.split(".")[0], k.split(".")[0]) + "." + k.split(".")[1]: v
        for k, v in state(plain).items()
    }
    layer.load_state_dict(renamed)
    assert list(layer.state_dict()) == ["query.weight", "query.bias", "k_proj.weight", "k_proj.bias",
                                        "v_proj.weight", "v_proj.bias", "dense.weight", "dense.bias"]  # fmt: skip
    for its in (layer, copy.deepcopy(layer)):
        np.testing.assert_array_equal(its(X, Y), plain(X, Y))
    joined = np.concatenate([state(plain)[f"{n}_proj.weight"] for n in "qkv"]) + 1
    layer.load_state_dict({"in_proj_weight": joined}, strict=False)
    np.testing.assert_array_equal(layer.query.weight, joined[:M])
    with pytest.raises(TypeError, match="query must be Linear because the layer computes with it"):
        layer.query = nn.ReLU()


def test_without_an_output_projection_the_heads_come_out():
    heads = randomised(nn.MultiHeadAttention(M, 4, head_dim=5, out_dim=0))
    assert [name for name, _ in heads._children()] == ["q_proj", "k_proj", "v_proj"]
    whole = nn.MultiHeadAttention(M, 4, head_dim=5, out_dim=20, out_bias=False).to("float64")
    whole.load_state_dict({**state(heads), "out_proj.weight": np.eye(20)})
    close(heads(X, Y), whole(X, Y))
    check_layer(heads, X, Y)


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ({"queries": "query"}, ValueError, "names must be of q_proj, k_proj, v_proj and out_proj; got one of queries"),
        ({"q_proj": "a.b"}, ValueError, 'names must be distinct names without dots; got "a.b" for q_proj'),
        ({"q_proj": ""}, ValueError, 'names must be distinct names without dots; got "" for q_proj'),
        ({"q_proj": "a", "k_proj": "a"}, ValueError, 'distinct names without dots; got "a" for k_proj'),
        ({"q_proj": "k_proj"}, ValueError, 'distinct names without dots; got "k_proj" for q_proj'),
        ({"q_proj": 3}, TypeError, "MultiHeadAttention: names must be None or a dict of strings; got dict"),
        ("query", TypeError, "MultiHeadAttention: names must be None or a dict of strings; got 'query'"),
    ],
)  # fmt: skip
def test_names_that_are_refused(names, error, message):
    with pytest.raises(error, match=message):
        nn.MultiHeadAttention(M, 3, names=names)
