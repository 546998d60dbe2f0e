"""Names that do not exist: one line that says what was meant, whether C++ or Python was asked."""

from __future__ import annotations

import inspect
import subprocess
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sweep import sweep
from test_signatures import PUBLIC

import qkv
from qkv import losses, masks, nn, optim
from qkv._public import public_modules
from qkv._words import errors as _errors
from qkv._words import idioms as _idioms

X = np.ones((2, 3, 4), "float32")
T = qkv.tensor(X)
MHA = nn.MultiHeadAttention(4, 2)
CALL, LAYER, ATTENTION, IMAGE = (
    ", ".join(inspect.signature(f).parameters)
    for f in (MHA, nn.TransformerEncoderLayer, qkv.scaled_dot_product_attention, qkv.attention_image)
)
LENGTHS = "valid_lens (how many keys of each item are real)"
ALLOWED = "attn_mask (boolean, True = may attend: the opposite of PyTorch's layers)"

ARGUMENTS = [
    (
        lambda: MHA(X, key_padding_mask=X[..., 0] > 0),
        f"MultiHeadAttention: got an unexpected argument key_padding_mask; give {LENGTHS}, or {ALLOWED}; "
        f"it takes {CALL}",
    ),
    (
        lambda: MHA(X, need_weights=True),
        "MultiHeadAttention: got an unexpected argument need_weights; the layer keeps them: read "
        f"layer.attention_weights after the call; it takes {CALL}",
    ),
    (
        lambda: nn.TransformerEncoderLayer(4, 2, batch_first=True),
        "TransformerEncoderLayer: got an unexpected argument batch_first; the batch always comes first, leave it out; "
        f"it takes {LAYER}",
    ),
    (
        lambda: nn.TransformerEncoderLayer(4, num_heads=2),
        "TransformerEncoderLayer: got an unexpected argument num_heads; did you mean nhead (called num_heads in "
        f"PyTorch)? It takes {LAYER}",
    ),
    (
        lambda: nn.TransformerEncoderLayer(4, 2)(X, src_key_padding_mask=X[..., 0] > 0),
        f"TransformerEncoderLayer: got an unexpected argument src_key_padding_mask; give {LENGTHS}; it takes "
        + ", ".join(inspect.signature(nn.TransformerEncoderLayer(4, 2)).parameters),
    ),
    (
        lambda: nn.GRU(4, 5, bidirectional=True),
        "GRU: got an unexpected argument bidirectional; a GRU reads in one direction; run another one over the "
        "reversed steps; it takes input_size, hidden_size, num_layers, bias, dropout",
    ),
    (
        lambda: nn.Linear(4, 5, dtype="float64"),
        'Linear: got an unexpected argument dtype; layers are made in float32, then write layer.to("float64") or '
        'layer.to("bfloat16"); it takes in_features, out_features, bias',
    ),
    (
        lambda: nn.Linear(4, out_feature=5),
        "Linear: got an unexpected argument out_feature; did you mean out_features? It takes in_features, "
        "out_features, bias",
    ),
    (
        lambda: nn.Linear(4, 5)(X, foo=1),
        "Linear: got an unexpected argument foo; it takes x",
    ),
    (
        lambda: T.sum(dim=1),
        "Tensor.sum: got an unexpected argument dim; did you mean axis (called dim in PyTorch)? It takes axis, "
        "keepdims",
    ),
    (
        lambda: T.mean(1, keepdim=True),
        "Tensor.mean: got an unexpected argument keepdim; did you mean keepdims (called keepdim in PyTorch)? It takes "
        "axis, keepdims",
    ),
    (
        lambda: optim.Adam([T], learning_rate=0.1),
        "Adam: got an unexpected argument learning_rate; did you mean lr (called learning_rate in Keras)? It takes "
        "params, lr, betas, eps, weight_decay",
    ),
    (
        lambda: optim.AdamW([T], amsgrad=True),
        "AdamW: got an unexpected argument amsgrad; there is one form of each optimizer, leave it out; it takes "
        "params, lr, betas, eps, weight_decay",
    ),
    # Functions and classes that are written in Python.
    (
        lambda: qkv.softmax(X, dim=2),
        "softmax: got an unexpected argument dim; did you mean axis (called dim in PyTorch)? It takes x, axis, "
        "temperature",
    ),
    (
        lambda: qkv.scaled_dot_product_attention(X, X, X, dropout=0.1, scale=1.0),
        "scaled_dot_product_attention: got an unexpected argument dropout; did you mean dropout_p (called dropout in "
        "PyTorch)? It takes query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, valid_lens, window, "
        f"softcap, {ATTENTION.partition('softcap, ')[2]}",
    ),
    (
        lambda: qkv.attention_image(X, X, dropout=0.1),
        f"attention_image: got an unexpected argument dropout; it takes {IMAGE}",
    ),
    (
        lambda: losses.cross_entropy(X, X, label_smooth=0.1),
        "cross_entropy: got an unexpected argument label_smooth; did you mean label_smoothing? It takes logits, "
        "targets, weight, ignore_index, label_smoothing, reduction",
    ),
    (
        lambda: masks.lengths([1, 2], maxlen=3),
        "lengths: got an unexpected argument maxlen; did you mean max_len? It takes valid_lens, max_len, heads_axis",
    ),
    (
        lambda: qkv.NadarayaWatson(sigma=1.0),
        "NadarayaWatson: got an unexpected argument sigma; did you mean bandwidth (called sigma in scikit-learn)? It "
        "takes kernel, bandwidth, degree",
    ),
    (
        lambda: qkv.NadarayaWatson().fit(X[0], X[0, :, 0], sample_weights=None),
        "NadarayaWatson.fit: got an unexpected argument sample_weights; did you mean sample_weight? It takes "
        "X, y, sample_weight",
    ),
    (
        lambda: optim.CosineSchedule(optim.SGD([T], 0.1), T_max=10),
        "CosineSchedule: got an unexpected argument T_max; did you mean total_steps (called T_max in PyTorch)? It "
        "takes optimizer, total_steps, warmup_steps, final",
    ),
    (lambda: qkv.Tensor([1, 2]), "Tensor: must be made by qkv.tensor(data); got a call of the class"),
    (
        lambda: optim.Optimizer([T], lr=0.1),
        "Optimizer: must be made by calling a class derived from it; got a call of the class",
    ),
    (lambda: qkv.relu(), "relu: x must be given; it takes x"),
    (lambda: qkv.relu(X, X), "relu: takes at most 1 arguments by position; got 2; it takes x"),
    (lambda: qkv.relu(X, x=X), "relu: got the argument x twice, by position and by name"),
    (
        lambda: qkv.NadarayaWatson().predict(),
        "NadarayaWatson.predict: X must be given; it takes X, return_std",
    ),
]


@sweep("call, message", ARGUMENTS)
def test_an_argument(call, message):
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value) == message


ATTRIBUTES = [
    (lambda: T.view, "'Tensor' object has no attribute 'view'; write t.reshape(shape)"),
    (lambda: T.dim, "'Tensor' object has no attribute 'dim'; write t.ndim"),
    (
        lambda: T.ndimension,
        "'Tensor' object has no attribute 'ndimension'; did you mean ndim (called ndimension in PyTorch)?",
    ),
    (lambda: T.shap, "'Tensor' object has no attribute 'shap'; did you mean shape?"),
    (lambda: T.gelu, "'Tensor' object has no attribute 'gelu'; did you mean the function qkv.gelu(t)?"),
    (
        lambda: T.device,
        "'Tensor' object has no attribute 'device'; everything is computed on the CPU, leave it out",
    ),
    (lambda: T.xyzzy, "'Tensor' object has no attribute 'xyzzy'"),
    (lambda: nn.Parameter([1.0]).numel, "'Parameter' object has no attribute 'numel'; write t.size"),
    (lambda: nn.Linear(2, 3).wieght, "'Linear' object has no attribute 'wieght'; did you mean weight?"),
    (lambda: MHA.q_porj, "'MultiHeadAttention' object has no attribute 'q_porj'; did you mean q_proj?"),
    (
        lambda: MHA.in_proj_weight,
        "'MultiHeadAttention' object has no attribute 'in_proj_weight'; the three are q_proj.weight, k_proj.weight and "
        "v_proj.weight",
    ),
    (lambda: nn.Sequential().foo, "'Sequential' object has no attribute 'foo'"),
    (
        lambda: optim.Adam([nn.Parameter([1.0])]).state,
        "'Adam' object has no attribute 'state'; write optimizer.state_dict()[\"state\"]",
    ),
    (
        lambda: optim.Adam([nn.Parameter([1.0])]).defaults,
        "'Adam' object has no attribute 'defaults'; options stand in optimizer.param_groups",
    ),
    (
        lambda: optim.Adam([nn.Parameter([1.0])]).weight_decay,
        "'Adam' object has no attribute 'weight_decay'; write group[\"weight_decay\"] for group in "
        "optimizer.param_groups",
    ),
    (
        lambda: optim.ConstantSchedule(optim.Adam([nn.Parameter([1.0])])).get_last_lr,
        "'ConstantSchedule' object has no attribute 'get_last_lr'; read optimizer.lr, or group[\"lr\"] for group in "
        "optimizer.param_groups",
    ),
    (
        lambda: optim.Adam([nn.Parameter([1.0])]).param_groups[0].lr,
        "'ParameterGroup' object has no attribute 'lr'; write group[\"lr\"]",
    ),
    (
        lambda: optim.Adam([nn.Parameter([1.0])]).param_groups[0].setdefault,
        "'ParameterGroup' object has no attribute 'setdefault'; a group has the options of its optimizer; assign "
        'group["lr"] = ...',
    ),
    (lambda: nn.KVCache().capacty, "'KVCache' object has no attribute 'capacty'; did you mean capacity?"),
    (lambda: qkv.Generator(1).sed, "'Generator' object has no attribute 'sed'"),
]


@pytest.mark.parametrize(("ask", "message"), ATTRIBUTES, ids=[message[:60] for _, message in ATTRIBUTES])
def test_an_attribute(ask, message):
    with pytest.raises(AttributeError) as caught:
        ask()
    assert str(caught.value) == message


def test_python_adds_no_suggestion_of_its_own():
    program = "import qkv\ntry: qkv.tensor([1.0]).shap\nfinally: pass"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stderr
    assert shown.strip().endswith(
        "AttributeError: 'Tensor' object has no attribute 'shap'; did you mean shape?"
    )


def test_a_class_of_ones_own_is_named():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Linear(2, 3)

    with pytest.raises(
        AttributeError, match=r"^'Net' object has no attribute 'encodr'; did you mean encoder\?$"
    ):
        _ = Net().encodr


@pytest.mark.parametrize("thing", [T, nn.Linear(2, 3), nn.KVCache(), qkv.Generator(0)])
def test_what_is_not_there_is_not_there(thing):
    assert not hasattr(thing, "wibble")
    assert not hasattr(thing, "_wibble")
    assert not hasattr(thing, "__wibble__")
    assert getattr(thing, "wibble", 7) == 7


def test_no_message_shows_an_array():
    for call in (
        lambda: MHA(np.arange(4000.0).reshape(2, 500, 4), key_padding_mask=np.zeros((2, 500))),
        lambda: qkv.softmax(np.arange(4000.0), dim=np.arange(4000)),
        lambda: nn.Linear(np.arange(4000), 3),
    ):
        with pytest.raises(TypeError) as caught:
            call()
        assert "Invoked with" not in str(caught.value)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 400


def written_in_python() -> dict[str, Any]:
    found = {}
    for path in public_modules():
        module = sys.modules[path]
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or isinstance(thing, ModuleType) or not callable(thing):
                continue
            found[f"{path}.{name}"] = thing
    return found


FUNCTIONS = written_in_python()


@sweep("name", FUNCTIONS)
def test_every_public_function_answers_in_our_words(name):
    function = FUNCTIONS[name]
    if any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values()):
        pytest.skip("takes any keyword")
    with pytest.raises(TypeError, match=r"^\w+: got an unexpected argument wibble; "):
        function(wibble=1)


@sweep("name", sorted(n for n, thing in PUBLIC.items() if inspect.isclass(thing)))
def test_every_public_class_answers_in_our_words(name):
    if name in ("qkv.Tensor", "qkv.optim.Optimizer", "qkv.optim.ParameterGroup") or issubclass(
        PUBLIC[name], tuple
    ):
        pytest.skip("is not made by its name")
    if any(p.kind is p.VAR_KEYWORD for p in inspect.signature(PUBLIC[name]).parameters.values()):
        pytest.skip("takes any keyword")
    with pytest.raises(
        TypeError, match=r"^\w+(: got an unexpected argument |: .* must be given|\(\) takes no arguments$)"
    ):
        PUBLIC[name](wibble=1)


def test_an_error_inside_a_function_stays_its_own():
    def kernel(u):
        return u.nonsense(dim=1)

    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        qkv.kernel_attention([0.0], [1.0], [2.0], kernel)

    def wrong(u):
        raise TypeError("mine")

    with pytest.raises(TypeError, match=r"^mine$"):
        qkv.kernel_attention([0.0], [1.0], [2.0], wrong)


def parameters_of_everything() -> list[set[str]]:
    found = []
    for thing in [*PUBLIC.values(), *(c.forward for c in PUBLIC.values() if hasattr(c, "forward"))]:
        parameters = inspect.signature(thing).parameters.values()  # *size cannot be given by name
        found.append({p.name for p in parameters if p.kind is not p.VAR_POSITIONAL})
    return found


def test_every_idiom_leads_to_names_that_exist_and_its_own_does_not():
    signatures = parameters_of_everything()
    for name, idioms in _idioms.KEYWORDS.items():
        unreached = [
            text for needed, text in idioms if not any(needed <= s and name not in s for s in signatures)
        ]
        assert unreached == [], name
    for kind, table in _idioms.ATTRIBUTES.items():
        homes = (module for module in (qkv, nn, optim, qkv.data) if hasattr(module, kind))
        cls = getattr(next(homes), kind)
        for name, idioms in table.items():
            assert not hasattr(cls, name), f"{kind}.{name} exists and needs no line"
            assert idioms


def test_hints_are_found_once():
    class Probe(nn.Module):
        pass

    probe = Probe()
    hasattr(probe, "iloc")
    before = _errors._attribute_hint.cache_info().misses
    for _ in range(100):
        hasattr(probe, "iloc")
    assert _errors._attribute_hint.cache_info().misses == before
