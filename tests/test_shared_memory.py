"""Only views show the memory of an argument: every public function and method is called."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from fuzz.statements import core_methods
from sharing import answer, answers, operands, shares
from sweep import sweep

import qkv
from qkv import losses, nn

# Functions and methods whose result shows the memory of an argument, if it has numbers.
VIEWS = """T transpose swapaxes reshape ravel squeeze unsqueeze expand_dims broadcast_to diagonal detach __getitem__
__iter__ numpy __array__ __copy__ split"""
# Methods that change their Tensor and give it.
CHANGES = "copy_ __setitem__ __delitem__ backward"
# Public functions that take no Tensor, or give none.
NONE = """tensor NadarayaWatson Generator Tensor no_grad no_attention_record manual_seed bernoulli normal rand randint
randn randperm uniform alibi_slopes relative_rotation sinusoidal_positions
cached_bytes config empty_cache get_reproducible get_num_threads set_reproducible set_num_threads show_config
grad jacobian"""
# Methods that give no Tensor.
NO_TENSOR = """item tolist tobytes __bool__ __float__ __int__ __len__ __repr__ __format__ __dlpack__ __dlpack_device__
__array_function__ __deepcopy__ _data"""

FUNCTIONS = {
    name: getattr(module, name)
    for module in (qkv, losses)
    for name in module.__all__
    if not name.startswith("_")
    and callable(getattr(module, name))
    and not inspect.ismodule(getattr(module, name))
    and name not in NONE.split()
}
METHODS = [
    name
    for name in core_methods()["Tensor"]
    if name not in f"{NO_TENSOR} {CHANGES}".split() and not name.startswith("__i")
] + ["__iter__", "__invert__"]


def special(name):
    """Arguments of functions that no general list fits."""
    o = operands(qkv.tensor, (3, 5))
    logits, x = o["x"], o["x"]
    return {
        "cross_entropy": (logits, np.array([0, 1, 4])),
        "nll_loss": (logits, np.array([0, 1, 4])),
        "rotary_tables": (np.arange(3), 4),
        "apply_rotary": (x, o["half"], o["half"]),
        "one_hot": (o["places"],),
    }.get(name)


@pytest.mark.parametrize("make", [qkv.tensor, np.array])
@sweep("name", FUNCTIONS)
def test_no_function_shows_the_memory_of_an_argument(name, make):
    found = answers(FUNCTIONS[name], make)
    if not found and (arguments := special(name)) is not None:
        found = {"special": answer(FUNCTIONS[name], arguments)}
    assert found, "none of the calls is legal; add arguments to sharing.py"
    if name not in VIEWS.split():
        assert not [call for call, shared in found.items() if shared]


@sweep("name", METHODS)
def test_no_method_but_views_shows_the_memory_of_its_tensor(name):
    def call(t, *rest):
        member = getattr(type(t), name)
        return member.fget(t) if isinstance(member, property) else _listed(member(t, *rest))

    def of_flags(t, *rest):
        return call(t > 0, *(t > 0.5 for t in rest))

    found = answers(call, qkv.tensor, method=True) or answers(of_flags, qkv.tensor, method=True)
    assert found, "none of the calls is legal; add arguments to sharing.py"
    if name in VIEWS.split():
        assert any(found.values()), "a view that copies"
    else:
        assert not [call for call, shared in found.items() if shared]


def _listed(result):
    return list(result) if inspect.isgenerator(result) or hasattr(result, "__next__") else result


def numpy_functions():
    from qkv._numpy import functions  # noqa: F401  (fills the table)
    from qkv._numpy.table import TABLE

    return {function.__name__: function for function in TABLE if function.__module__ == "numpy"}


@sweep("name", numpy_functions())
def test_functions_of_numpy_share_where_they_do_with_arrays(name):
    function = numpy_functions()[name]
    ours, theirs = answers(function, qkv.tensor), answers(function, np.array)
    assert not [call for call in ours.keys() & theirs.keys() if ours[call] and not theirs[call]]


LAYERS = {
    "Linear": lambda: nn.Linear(5, 5),
    "LayerNorm": lambda: nn.LayerNorm(5),
    "RMSNorm": lambda: nn.RMSNorm(5),
    "ReLU": nn.ReLU,
    "GELU": nn.GELU,
    "Tanh": nn.Tanh,
    "Dropout": lambda: nn.Dropout(0.5).train(),
    "PositionalEncoding": lambda: nn.PositionalEncoding(5),
    "PositionWiseFFN": lambda: nn.PositionWiseFFN(5, 7),
    "SelfAttention": lambda: nn.SelfAttention(5, 5),
    "MultiHeadAttention": lambda: nn.MultiHeadAttention(5, 1),
    "TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(5, 1, 7, dropout=0.0),
    "GRU": lambda: nn.GRU(5, 5),
    "LinearAttention": lambda: nn.LinearAttention(5, 5, update_rule="gated_delta"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_no_layer_shows_its_input_or_its_parameters(name):
    layer, x = LAYERS[name]().to("float64"), qkv.tensor(np.linspace(0.1, 0.9, 30).reshape(2, 3, 5))
    with qkv.no_grad():
        result = layer(x)
    assert not shares(result, [x, *layer.parameters()])


def test_what_leaves_nothing_out_gives_its_input():
    x = qkv.tensor(np.ones((2, 3)))
    for layer in (nn.Dropout(0.5).eval(), nn.Dropout(0.0), nn.Sequential()):
        assert shares(layer(x), x)


def test_sharing_is_noticed():
    found = answers(lambda x, *rest: x[:1] if rest else x + 1, qkv.tensor, method=True)
    assert [call for call, shared in found.items() if not shared] == ["(3, 5) 0", "(1, 1) 0", "(3, 3) 0"]
    assert len(found) > 100
