"""Options that are assigned after construction: they take effect, or are refused in words."""

from __future__ import annotations

import copy
import inspect
import pickle

import numpy as np
import pytest
from sweep import sweep

import qkv
from qkv import models, nn, optim, torch
from qkv.torch.nn.parameter import Parameter as TorchParameter

NAMES = {name for name in nn.__all__ if inspect.isclass(getattr(nn, name))}
MADE = {
    "Linear": (3, 2),
    "Embedding": (5, 2),
    "LayerNorm": (3,),
    "RMSNorm": (3,),
    "GRU": (3, 2),
    "AdditiveAttention": (3,),
    "BilinearAttention": (3, 2),
    "SelfAttention": (3, 2),
    "MultiHeadAttention": (8, 2),
    "LinearAttention": (8, 2),
    "PositionalEncoding": (8,),
    "PositionWiseFFN": (8, 16),
    "AddNorm": (8,),
    "TransformerEncoderLayer": (8, 2, 16),
    "TransformerDecoderLayer": (8, 2, 16),
}
# What a layer has under the name of an option; assigning it puts another part in its place.
PARTS = {"bias", "norm", "attention", "sinks", "relative_bias", "layer", "layers", "dropout"}


def layers():
    for name in sorted(NAMES):
        cls = getattr(nn, name)
        if not issubclass(cls, nn.Module) or name in ("Module", "ModuleList", "Sequential"):
            continue
        parameters = inspect.signature(cls).parameters.values()
        required = [p for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        if name in MADE or not required:
            yield name, cls(*MADE.get(name, ()))


LAYERS = dict(layers())
OPTIONS = [
    (name, option)
    for name, layer in LAYERS.items()
    for option in [*inspect.signature(type(layer)).parameters, "training"]
]


def is_part(layer, name):
    return any(name in layer._entries(kind) for kind in ("parameter", "module", "buffer"))


@sweep("name, option", OPTIONS)
def test_an_option_of_a_layer_is_refused_with_a_hint(name, option):
    layer = copy.deepcopy(LAYERS[name])
    if is_part(layer, option):
        with pytest.raises(TypeError, match=f"^{name}: {option} must be a "):
            setattr(layer, option, 0.25)
        return
    if option == "comm":
        layer.comm = None
        return
    hint = r"call train\(\) or eval\(\)" if option == "training" else "make the layer anew"
    with pytest.raises(AttributeError, match=rf"^{name}: {option} must be .* because .*; got .*{hint}"):
        setattr(layer, option, 0.2501)


def test_the_layers_are_there():
    assert len(LAYERS) >= 20
    assert {"Dropout", "MultiHeadAttention", "DotProductAttention", "TransformerDecoderLayer", "GRU"} <= set(
        LAYERS
    )


def test_the_reported_ones():
    attention = nn.MultiHeadAttention(8, 2)
    for name, value in {"is_causal": True, "window": (1, 1), "scale": 2.0, "dropout": 0.1}.items():
        with pytest.raises(AttributeError, match=rf"MultiHeadAttention\(..., {name}="):
            setattr(attention, name, value)
    for model in (models.Transformer(9, 9, 8, 2, 1, 1, 16), models.CausalLM(9, 8, 2, 1)):
        with pytest.raises(AttributeError, match="make the layer anew"):
            model.dropout = 0.9


def test_what_a_layer_has_already_may_be_kept_under_its_name():
    class Scaled(nn.DotProductAttention):
        def __init__(self, dropout, note):
            super().__init__(dropout)
            self.dropout, self.note = dropout, note

    layer = Scaled(0.25, "mine")
    assert (layer.dropout, layer.note) == (0.25, "mine")
    with pytest.raises(AttributeError, match=r"^Scaled: dropout must be given to the constructor"):
        layer.dropout = 0.5
    assert pickle.loads(pickle.dumps(nn.Dropout(0.25))).p == 0.25


def test_attributes_of_a_class_of_ones_own_are_free():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.p, self.scale, self.dropout = 0.1, 2.0, nn.Dropout(0.1)

    class Settable(nn.Dropout):
        factor = 1

        @property
        def p(self):
            return self.factor

        @p.setter
        def p(self, value):
            self.factor = value

    own = Own()
    own.p, own.scale, own.window = 0.2, 3.0, 5
    assert (own.p, own.scale, own.window) == (0.2, 3.0, 5)
    layer = Settable(0.5)
    layer.p = 7
    assert layer.p == 7


def optimizers(package, w):
    return [
        getattr(package, name)([w()], lr=0.5)
        for name in package.__all__
        if inspect.isclass(cls := getattr(package, name))
        and issubclass(cls, package.Optimizer)
        and cls is not package.Optimizer
    ]


@pytest.mark.parametrize("optimizer", optimizers(optim, lambda: nn.Parameter([1.0])), ids=lambda o: o._name)
def test_options_of_optimizers(optimizer):
    for option in [
        *inspect.signature(type(optimizer)).parameters,
        "learning_rate",
        "momentun",
        "param_groups",
    ]:
        before = repr(optimizer)
        if option == "lr":
            optimizer.lr = 0.25
            assert optimizer.param_groups[0]["lr"] == 0.25
            continue
        with pytest.raises(AttributeError):
            setattr(optimizer, option, 0.1)
        assert repr(optimizer) == before
    for option in optimizer.param_groups[0].keys()[2:]:
        with pytest.raises(
            AttributeError, match=rf'write group\["{option}"\] for group in optimizer.param_groups'
        ):
            setattr(optimizer, option, 0.1)
    with pytest.raises(AttributeError, match="did you mean lr"):
        optimizer.learning_rate = 0.1
    copied = pickle.loads(pickle.dumps(copy.deepcopy(optimizer)))
    assert repr(copied) == repr(optimizer)


def test_an_optimizer_of_ones_own_may_have_attributes():
    class Own(optim.SGD):
        pass

    optimizer = Own([nn.Parameter([1.0])], lr=0.5)
    optimizer.note = "mine"
    assert optimizer.note == "mine"
    with pytest.raises(AttributeError, match="momentum"):
        optimizer.momentum = 0.5


@pytest.mark.parametrize(
    "optimizer",
    optimizers(torch.optim, lambda: TorchParameter(torch.ones(1))),
    ids=lambda o: type(o).__name__,
)
def test_options_of_optimizers_of_torch(optimizer):
    for option in [*optimizer.defaults, "learning_rate"]:
        with pytest.raises(
            AttributeError, match=rf"^{type(optimizer).__name__}: {option} must be assigned in groups"
        ):
            setattr(optimizer, option, 0.1)
    optimizer._own = optimizer.note = 1
    assert repr(pickle.loads(pickle.dumps(optimizer))) == repr(optimizer)


def test_options_of_layers_of_torch():
    x = torch.ones(1000)
    drop = torch.nn.Dropout(0.0)
    drop.p = 1.0
    assert not drop(x).any()
    x = torch.arange(48.0).reshape(2, 3, 8).sin()
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    before = attention(x, x, x)[0]
    attention.dropout = 0.9
    assert not torch.allclose(attention(x, x, x)[0], before)
    attention.dropout = 0.0
    attention.num_heads = 4
    assert attention(x, x, x, average_attn_weights=False)[1].shape == (2, 4, 3, 3)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    before = layer(x)
    layer.norm_first = True
    assert not torch.allclose(layer(x), before)
    layer.activation = torch.nn.functional.gelu
    for option in ("nhead", "d_model", "dim_feedforward", "layer_norm_eps", "batch_first", "bias"):
        with pytest.raises(AttributeError, match=rf"^TransformerEncoderLayer: {option} must be given"):
            setattr(layer, option, 1)
    layer.training = False
    assert not layer.training

    class Own(torch.nn.TransformerEncoderLayer):
        def __init__(self):
            super().__init__(8, 2, 16)
            self.nhead = 2

    assert Own().nhead == 2


@pytest.mark.parametrize("cls", [nn.TransformerEncoderLayer, nn.TransformerDecoderLayer])
def test_the_seventh_argument_of_transformer_layers_is_given_by_name(cls):
    with pytest.raises(TypeError, match="norm_first"):
        cls(8, 2, 16, 0.1, "relu", 1e-5, True)
    assert "norm_first=True" in repr(cls(8, 2, 16, 0.1, "relu", 1e-5, norm_first=True)) or qkv


def test_flags_of_numpy_are_taken():
    x = np.arange(24.0).reshape(2, 3, 4)
    for flag in (np.True_, np.bool_(True), np.ones(1, bool)[0]):
        expected = qkv.scaled_dot_product_attention(x, x, x, is_causal=True, return_weights=True)
        found = qkv.scaled_dot_product_attention(x, x, x, is_causal=flag, return_weights=flag)
        np.testing.assert_array_equal(found[1], expected[1])
        layer = nn.MultiHeadAttention(4, 2, is_causal=flag, bias=flag, alibi=flag, sinks=flag)
        assert layer(x, is_causal=np.False_).shape == x.shape
    with pytest.raises(TypeError, match='is_causal must be False, True, "upper_left" or "lower_right"; got'):
        qkv.scaled_dot_product_attention(x, x, x, is_causal=np.ones(2, bool))


@pytest.mark.parametrize(
    "value", [qkv.tensor(2.7), qkv.tensor(2.0, requires_grad=True), np.float32(2.7), np.array(2.7), 2.7]
)
def test_a_fraction_is_no_whole_number(value):
    """Python's int() cuts it off, and a Tensor's gradient with it."""
    x = np.ones((2, 3, 4), "float32")
    for call in (
        lambda: nn.Linear(value, 2),
        lambda: nn.MultiHeadAttention(8, 2, out_dim=value),
        lambda: qkv.softmax(x, value),
        lambda: qkv.entmax(x, 1.5, value),
        lambda: nn.LinearAttention(8, value),
    ):
        with pytest.raises(TypeError, match=r"must be an integer|because it takes no gradient"):
            call()
    for window in (value, (value, value)):
        with pytest.raises((TypeError, ValueError), match=r"window must be|only integer scalar arrays"):
            qkv.scaled_dot_product_attention(x, x, x, window=window)


def test_whole_numbers_of_any_kind_are_taken():
    for value in (3, np.int32(3), np.uint8(3), np.array(3), qkv.tensor(3)):
        assert nn.Linear(value, 2).in_features == 3
