"""inspect.signature and help() of the whole public interface: real parameters and defaults, no types of C++."""

from __future__ import annotations

import ast
import importlib
import inspect
import pickle
import pydoc
import re
from collections.abc import Iterator
from typing import Any, get_type_hints

import numpy as np
import pytest
from sweep import sweep
from test_typing import CLASSES, LAYERS, STUB, functions

import qkv
from qkv import _core, nn
from qkv._public import of_core
from qkv.functions.attention import ImageOptions, SplitOptions

MODULES = [
    qkv,
    *(
        importlib.import_module(f"qkv.{name}")
        for name in [
            "nn",
            "nn.init",
            "models",
            "optim",
            "losses",
            "masks",
            "masks.formulas",
            "scores",
            "training",
            "data",
            "reference",
            "testing",
            "plot",
        ]
    ),
]
CPLUSPLUS = re.compile(
    r"Supports(Int|Float|Index)|collections\.abc\.|: object\b|self: |Overloaded|Invoked with|-> (qkv|None)"
)


def public() -> Iterator[tuple[str, Any]]:
    for module in MODULES:
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) and issubclass(thing, Exception):
                continue  # Python's own constructor
            if inspect.isclass(thing):
                yield f"{module.__name__}.{name}", thing
                for member in sorted(set(dir(thing)) - set(dir(Exception))):
                    if not member.startswith("_") and callable(getattr(thing, member, None)):
                        yield f"{module.__name__}.{name}.{member}", getattr(thing, member)
            elif callable(thing):
                yield f"{module.__name__}.{name}", thing


PUBLIC = dict(public())


def without_spaces(text: Any) -> str:
    """Python 3.13 shows long signatures with a line for each parameter."""
    return re.sub(r"\s", "", str(text))


@sweep("name", PUBLIC)
def test_every_public_callable_shows_its_parameters(name):
    thing = PUBLIC[name]
    shown = [p for p in inspect.signature(thing).parameters if p not in ("args", "kwargs")]
    assert not [p for p in shown if re.fullmatch(r"arg\d+", p)], shown
    assert not CPLUSPLUS.search(inspect.getdoc(thing) or "")
    if inspect.isclass(thing) and of_core(thing):
        text = pydoc.plain(pydoc.render_doc(thing))
        assert not CPLUSPLUS.search(text), CPLUSPLUS.search(text)


def stub_parameters(node: ast.FunctionDef, *, method: bool) -> list[tuple[str, Any, Any]]:
    a = node.args
    names = [*a.posonlyargs, *a.args]
    defaults = [inspect.Parameter.empty] * (len(names) - len(a.defaults)) + [
        ast.literal_eval(d) for d in a.defaults
    ]
    kinds = [inspect.Parameter.POSITIONAL_ONLY] * len(a.posonlyargs)
    kinds += [inspect.Parameter.POSITIONAL_OR_KEYWORD] * len(a.args)
    found = [(n.arg, k, d) for n, k, d in zip(names, kinds, defaults, strict=True)][method:]
    found += [("*", inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.empty)] * bool(a.vararg)
    for n, d in zip(a.kwonlyargs, a.kw_defaults, strict=True):
        found.append(
            (n.arg, inspect.Parameter.KEYWORD_ONLY, ast.literal_eval(d) if d else inspect.Parameter.empty)
        )
    return found + [("**", inspect.Parameter.VAR_KEYWORD, inspect.Parameter.empty)] * bool(a.kwarg)


def parameters(thing: Any, *, method: bool) -> list[tuple[str, Any, Any]]:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    found = list(inspect.signature(thing).parameters.values())[method:]
    return [(stars.get(p.kind, p.name), p.kind, p.default) for p in found]


OPERATORS = re.compile(r"__\w+__")


@pytest.mark.parametrize(
    ("function", "kind", "others"),
    [
        (qkv.attention_image, ImageOptions, "value dropout_p dropout_keep return_weights return_lse"),
        (qkv.distributed.attention, SplitOptions, ""),
    ],
)
def test_options_of_attention_have_the_types_and_defaults_of_the_function(function, kind, others):
    whole, shown = (inspect.signature(f).parameters for f in (qkv.scaled_dot_product_attention, function))
    types = get_type_hints(qkv.scaled_dot_product_attention)
    named = get_type_hints(kind)
    assert {name: types[name] for name in named} == named
    assert set(whole) - set(shown) == {*others.split(), "cu_seqlens_q", "cu_seqlens_k"}
    assert {name: shown[name].default for name in named} == {name: whole[name].default for name in named}
    assert inspect.isfunction(function)
    assert pickle.loads(pickle.dumps(function)) is function
    assert "**options" not in inspect.getdoc(function)


@sweep("name", CLASSES)
def test_signatures_are_those_of_the_stub(name):
    kind = getattr(_core, name)
    for method, nodes in functions(CLASSES[name].body).items():
        if isinstance(vars(kind).get(method), property) or (
            OPERATORS.fullmatch(method) and method not in ("__init__", "__call__")
        ):
            continue
        shown = parameters(getattr(kind, method), method=True)
        expected = [stub_parameters(node, method=True) for node in nodes]
        assert shown in expected, f"{method}{inspect.signature(getattr(kind, method))}"
        if method == "__init__":
            assert parameters(kind, method=False) == shown


def test_functions_of_the_core_are_those_of_the_stub():
    for name, nodes in functions(STUB.body).items():
        assert parameters(getattr(_core, name), method=False) in [
            stub_parameters(n, method=False) for n in nodes
        ]


@pytest.mark.parametrize("name", [name for name in LAYERS if hasattr(getattr(_core, name), "forward")])
def test_a_layer_is_called_like_its_forward(name):
    layer = LAYERS[name]()
    assert inspect.signature(layer) == inspect.signature(layer.forward)
    if of_core(type(layer)) and "forward" in vars(type(layer)):
        assert inspect.signature(layer.__call__) == inspect.signature(layer.forward)
        shown = pydoc.plain(pydoc.render_doc(layer.forward))
        assert without_spaces(inspect.signature(layer)) in without_spaces(shown)


def test_values_of_known_signatures():
    assert str(inspect.signature(nn.Linear)) == "(in_features, out_features, bias=True)"
    assert str(inspect.signature(nn.Linear(2, 3))) == "(x)"
    adam = {p.name: p.default for p in inspect.signature(qkv.optim.Adam).parameters.values()}
    assert adam == {
        "params": inspect.Parameter.empty,
        "lr": 0.001,
        "betas": (0.9, 0.999),
        "eps": 1e-8,
        "weight_decay": 0.0,
    }
    assert str(inspect.signature(nn.MultiHeadAttention(4, 2))) == (
        "(queries, keys=None, values=None, valid_lens=None, *, attn_mask=None, is_causal=None, cache=None, "
        "dropout_keep=None, return_weights=False, score_mod=None, mask_mod=None)"
    )
    assert str(inspect.signature(qkv.Tensor.backward)) == "(self, gradient=None, retain_graph=False)"
    assert nn.Linear.__doc__.strip().startswith("``y")
    assert nn.Module.train.__doc__.startswith("Training mode")


def test_subclasses_show_their_own():
    class Net(nn.Module):
        def __init__(self, width, *, depth=2):
            super().__init__()
            self.linear = nn.Linear(width, width)

        def forward(self, x, scale=1.0):
            return self.linear(x) * scale

    class Wide(nn.Linear):
        def forward(self, x, *, factor):
            return super().forward(x) * factor

    assert str(inspect.signature(Net)) == "(width, *, depth=2)"
    assert str(inspect.signature(Net(3))) == "(x, scale=1.0)"
    assert str(inspect.signature(Wide)) == "(in_features, out_features, bias=True)"
    assert str(inspect.signature(Wide(3, 2))) == "(x, *, factor)"
    assert Wide(3, 2)(np.ones((1, 3)), factor=0.0).shape == (1, 2)
    assert Net(3)(np.ones((1, 3)), 2.0).shape == (1, 3)
