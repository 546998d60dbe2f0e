"""Calls that are wrong in one argument: what PyTorch and qkv.torch make of them.

Functions, methods and modules are called with good arguments, each of which is replaced in turn by values of other
sizes, ranks, dtypes, signs and kinds, or by a Tensor that requires a gradient.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .signature_samples import OF, SAMPLES, VALUES, given

# What takes an argument's place, by a name for the kind of mistake.
WRONG = {
    "none": "None",
    "text": "'x'",
    "object": "object()",
    "negative": "-2",
    "zero": "0",
    "large": "7",
    "fraction": "2.5",
    "true": "True",
    "list": "[1, 5]",
    "empty": "()",
    "number": "m.tensor(1.5)",
    "row": "m.tensor([0.5, 1.5, 2.0])",
    "ones": "m.ones(1, 1)",
    "wide": "m.ones(2, 4)",
    "tall": "m.ones(5, 3)",
    "deep": "m.ones(2, 2, 3)",
    "nothing": "m.ones(0)",
    "double": "m.ones(2, 3, dtype=m.float64)",
    "whole": "m.tensor([[0, 1, 1], [1, 0, 1]])",
    "places": "m.tensor([0, 5])",
    "below": "m.tensor([0, -1])",
    "truth": "m.ones(2, 3) > 0",
}
# What requires a gradient; "like": the good value itself.
RECORDING = {
    "number": "m.tensor(0.5, requires_grad=True)",
    "one": "m.tensor([0.5], requires_grad=True)",
    "like": "(VALUE).detach().clone().requires_grad_()",
}
# The good calls of what `SAMPLES` has not: methods, nn.functional.
METHODS = {
    "view": "x, 3, 2",
    "expand": "x[:1], 2, 3",
    "repeat": "x, 2, 1",
    "unfold": "x, 1, 2, 1",
    "fill_": "x.clone(), 2.0",
    "copy_": "x.clone(), y",
    "masked_fill_": "x.clone(), mask, 2.0",
    "add_": "x.clone(), y",
    "mul_": "x.clone(), y",
    "clamp_": "x.clone(), -1.0, 1.0",
    "scatter_": "x.clone(), 1, places, y",
    "index_add_": "x.clone(), 0, rows, y",
    "index_fill_": "x.clone(), 0, rows, 2.0",
    "normal_": "x.clone(), 0.0, 1.0",
    "uniform_": "x.clone(), 0.0, 1.0",
    "type_as": "x, y",
    "size": "x, 1",
    "stride": "x, 1",
    "view_as": "x, y",
    "expand_as": "x[:1], y",
    "new_zeros": "x, (2, 3)",
    "new_full": "x, (2, 3), 1.5",
    "__getitem__": "x, 1",
    "__add__": "x, y",
    "__pow__": "x, 2.0",
    "__matmul__": "x, square",
    "__and__": "mask, mask",
    "__lt__": "x, y",
}
LABELS = "m.tensor([2, 1])"
FUNCTIONAL = {
    **dict.fromkeys(["relu", "silu", "logsigmoid", "gelu", "tanh", "sigmoid"], "x"),
    **dict.fromkeys(["softmax", "log_softmax"], "x, 1"),
    "softplus": "x, 2.0, 20.0",
    "linear": "x, square, vector",
    "embedding": "places, x, 1",
    "one_hot": "places, 4",
    "layer_norm": "x, (3,), vector, vector, 1e-5",
    "rms_norm": "x, (3,), vector, 1e-5",
    "dropout": "x, 0.5, True",
    "normalize": "x, 2.0, 1, 1e-12",
    "pad": "x, (1, 2), 'constant', 0.5",
    "cross_entropy": f"x, {LABELS}, p[0]",
    "nll_loss": f"x, {LABELS}, p[0]",
    "mse_loss": "x, y",
    "l1_loss": "x, y",
    "binary_cross_entropy": "p, p.flip(0), p",
    "binary_cross_entropy_with_logits": "x, p, p",
    "kl_div": "x, p",
    "scaled_dot_product_attention": "stack, stack, stack, stack, 0.0",
}
KEYWORDS = {  # beyond VALUES; of nn.functional by its name
    "cross_entropy": "ignore_index=1, label_smoothing=0.1, reduction='sum'",
    "nll_loss": "ignore_index=1, reduction='sum'",
    **dict.fromkeys(["mse_loss", "l1_loss"], "reduction='sum', weight=p"),
    "binary_cross_entropy": "reduction='sum'",
    "binary_cross_entropy_with_logits": "reduction='sum', pos_weight=p",
    "kl_div": "reduction='batchmean', log_target=True",
    "scaled_dot_product_attention": "is_causal=False, scale=0.5, enable_gqa=False",
}
# Modules: how one is made, and what it is called with.
MODULES = {
    **{
        name: ("", "x")
        for name in [
            "ReLU",
            "SiLU",
            "LogSigmoid",
            "GELU",
            "Tanh",
            "Sigmoid",
            "Identity",
        ]
    },
    **{name: ("1", "x") for name in ["Softmax", "LogSoftmax"]},
    "Softplus": ("2.0, 20.0", "x"),
    "Dropout": ("0.5", "x"),
    "Flatten": ("0, 1", "x"),
    "Linear": ("3, 4", "x"),
    "LazyLinear": ("4", "x"),
    "Embedding": ("4, 3, 1", "places"),
    "LayerNorm": ("3, 1e-5", "x"),
    "RMSNorm": ("3, 1e-5", "x"),
    "Conv2d": ("3, 2, 2, 2", "m.ones(2, 3, 4, 4)"),
    "CrossEntropyLoss": ("p[0]", f"x, {LABELS}"),
    "NLLLoss": ("p[0]", f"x, {LABELS}"),
    "MSELoss": ("", "x, y"),
    "L1Loss": ("", "x, y"),
    "BCELoss": ("p", "p, p"),
    "BCEWithLogitsLoss": ("p", "x, p"),
    "KLDivLoss": ("", "x, p"),
}
# Sequences (T, B, M), masks of 3 queries and 5 keys, what begins a stack of two layers.
STATE = "m.zeros(2, 3, 4)"
LONG, SHORT = "m.linspace(-1.0, 1.0, 60).view(5, 3, 4)", "m.linspace(0.0, 1.0, 36).view(3, 3, 4)"
PADDING, AHEAD = "m.ones(3, 5).triu(3) > 0", "m.ones(3, 5).triu(3) > 0"
LAYER = "m.nn.Transformer{}Layer(4, 2, 8, 0.0)"
MODULES |= {
    **dict.fromkeys(["RNN", "GRU"], ("4, 4, 2", f"{LONG}, {STATE}")),
    "LSTM": ("4, 4, 2", f"{LONG}, ({STATE}, {STATE})"),
    "MultiheadAttention": ("4, 2, 0.0", f"{SHORT}, {LONG}, {LONG}, {PADDING}, True, {AHEAD}, True, False"),
    "TransformerEncoderLayer": ("4, 2, 8, 0.0", f"{LONG}, m.ones(5, 5).triu(1) > 0, {PADDING}, False"),
    "TransformerDecoderLayer": ("4, 2, 8, 0.0", f"{SHORT}, {LONG}, None, {AHEAD}, None, {PADDING}"),
    "TransformerEncoder": (LAYER.format("Encoder") + ", 2", f"{LONG}, m.ones(5, 5).triu(1) > 0, {PADDING}"),
    "TransformerDecoder": (
        LAYER.format("Decoder") + ", 2",
        f"{SHORT}, {LONG}, None, {AHEAD}, None, {PADDING}",
    ),
    "Transformer": (
        "4, 2, 1, 1, 8, 0.0",
        f"{LONG}, {SHORT}, None, None, {AHEAD}, {PADDING}, None, {PADDING}",
    ),
}
_MORE = "activation='gelu', layer_norm_eps=1e-5, batch_first=False, norm_first=True, bias=True"
MODULE_KEYWORDS = {
    **dict.fromkeys(["RNN", "GRU", "LSTM"], "bias=True, batch_first=False, dropout=0.0, bidirectional=False"),
    "MultiheadAttention": "bias=True, kdim=4, vdim=4, batch_first=False",
    **dict.fromkeys(["TransformerEncoderLayer", "TransformerDecoderLayer", "Transformer"], _MORE),
    **{name: "reduction='sum'" for name in MODULES if name.endswith("Loss")},
    "KLDivLoss": "reduction='sum', log_target=True",
    "GELU": "approximate='tanh'",
    "CrossEntropyLoss": "label_smoothing=0.1, ignore_index=1",
}


_given = functools.cache(given)  # no call changes them


class Call(NamedTuple):
    """One call: `code` makes it of the module `m`, with WRONG for the text `value`."""

    where: str
    argument: str
    mistake: str
    code: str
    value: str


def _parts(text: str) -> list[tuple[str, str]]:
    """Arguments of a call's text: their names, or numbers, and texts."""
    call = ast.parse(f"f({text})", mode="eval").body
    assert isinstance(call, ast.Call)
    return [(str(i), ast.unparse(a)) for i, a in enumerate(call.args)] + [
        (str(k.arg), ast.unparse(k.value)) for k in call.keywords
    ]


def _text(parts: list[tuple[str, str]]) -> str:
    return ", ".join(value if name.isdigit() else f"{name}={value}" for name, value in parts)


def _wrong(where: str, code: str, arguments: str, values: dict[str, str]) -> Iterator[Call]:
    """`code` with ARGUMENTS for its arguments, each replaced in turn."""
    parts = _parts(arguments)
    for i, (name, good) in enumerate(parts):
        for mistake, value in values.items():
            others = [*parts[:i], (name, "WRONG"), *parts[i + 1 :]]
            text = value.replace("VALUE", good)
            yield Call(where, name, mistake, code.replace("ARGUMENTS", _text(others)), text)


def _taken(name: str) -> str:
    """Keywords of `VALUES` that PyTorch's function takes."""
    import torch

    schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    found = {a.name for schema in schemas for a in schema.arguments if a.kwarg_only}
    skip = {"dtype", "device", "pin_memory", "requires_grad", "generator", "out_dtype"}
    words = [(a, OF.get(f"{name} {a}", VALUES.get(a))) for a in sorted(found - skip)]
    return "".join(f", {a}={value}" for a, value in words if value is not None)


def functions(values: dict[str, str] = WRONG) -> Iterator[Call]:
    import torch

    import qkv.torch

    for name, sample in SAMPLES.items():
        if callable(getattr(torch, name, None)) and hasattr(qkv.torch, name):
            yield from _wrong(name, f"m.{name}(ARGUMENTS)", sample + _taken(name), values)
    for name, sample in METHODS.items():
        (_, first), *rest = _parts(sample)
        yield from _wrong(f".{name}", f"({first}).{name}(ARGUMENTS)", _text(rest), values)
    for name, sample in FUNCTIONAL.items():
        more = ", " + KEYWORDS[name] if name in KEYWORDS else ""
        yield from _wrong(f"F.{name}", f"m.nn.functional.{name}(ARGUMENTS)", sample + more, values)


def modules(values: dict[str, str] = WRONG) -> Iterator[Call]:
    for name, (made, called) in MODULES.items():
        keywords = MODULE_KEYWORDS.get(name, "")
        made = ", ".join(text for text in (made, keywords) if text)
        yield from _wrong(f"nn.{name}", f"m.nn.{name}(ARGUMENTS)({called})", made, values)
        yield from _wrong(f"nn.{name}()", f"m.nn.{name}({made})(ARGUMENTS)", called, values)


REFUSALS = (TypeError, ValueError, RuntimeError, IndexError, AssertionError)


@contextlib.contextmanager
def _called(m: Any, call: Call) -> Iterator[tuple[Any, Any]]:
    """The argument and what the call returns, while warnings are ignored."""
    m.manual_seed(0)
    space = dict(_given(m))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        space["WRONG"] = eval(call.value, space)
        yield space["WRONG"], eval(call.code, space)


def outcome(m: Any, call: Call) -> Any:
    """What comes out: an exception, or results as text and arrays."""
    try:
        with _called(m, call) as (_, result):
            return numbers(result)
    except Exception as error:
        return error


def numbers(result: Any) -> Any:
    if isinstance(result, (tuple, list)):
        return [numbers(part) for part in result]
    if hasattr(result, "detach"):
        return [str(result.dtype), list(result.shape), result.detach().numpy()]
    return str(result)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
    return type(a) is type(b) and a == b


def verdict(call: Call) -> str:
    """How qkv.torch differs from PyTorch; "" not at all."""
    import torch

    import qkv.torch

    theirs, ours = outcome(torch, call), outcome(qkv.torch, call)
    if isinstance(ours, Exception) and not isinstance(ours, REFUSALS):
        return "" if type(ours) is type(theirs) else "fails"
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        if isinstance(ours, Exception) == isinstance(theirs, Exception):
            return ""
        return "refused" if isinstance(ours, Exception) else "answered"
    return "" if same(ours, theirs) else "differs"


def gradient(m: Any, call: Call) -> str:
    """What becomes of a recording argument: "refused", "kept" (it gets a gradient) or "lost"."""
    try:
        with _called(m, call) as (wrong, result):
            parts = result if isinstance(result, (tuple, list)) else [result]
            recorded = [part for part in parts if getattr(part, "requires_grad", False) is True]
            if not recorded:
                return "lost"
            sum((part * part).sum() for part in recorded).backward()
            return "lost" if wrong.grad is None else "kept"
    except (*REFUSALS, AttributeError):
        return "refused"
