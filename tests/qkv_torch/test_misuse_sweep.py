"""Every argument of functions, methods and modules wrong in turn: refused where PyTorch refuses it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest

from . import misuse

torch = pytest.importorskip("torch")

# What is answered, refused or different on purpose, and why: verdict, functions, arguments, mistakes (".*": any).
ON_PURPOSE: dict[str, list[tuple[str, str, str, str]]] = {
    "True is the integer 1": [("answered", ".*", ".*", "true")],
    "counts of heads and layers are integers, and True is none": [
        ("refused", r"nn\..*", r"\d|[kv]dim", "true")
    ],
    "switches are True or False": [
        ("refused", r"nn\.(MultiheadAttention|Transformer(\w+Layer)?)", "(batch|norm)_first", ".*"),
        ("refused", "sort", "stable", "none"),
    ],
    "whole numbers and booleans become floating ones": [
        (
            "answered|differs",
            r"(F\.|nn\.)(gelu|logsigmoid|silu|softplus|rms_?norm)(\(\))?",
            "0",
            "whole|places|below|truth",
        ),
        ("answered", r"(F\.|nn\.)?layer_?norm(\(\))?", "0", "double|whole|truth"),
    ],
    "dtypes are promoted as in arithmetic": [
        ("answered", "allclose|isclose|lerp", "0|1|2", "double|whole|truth"),
        ("answered", r"\.?(clamp_?|clip)", "0|1|2", "double|whole|truth|row|ones|deep"),
        ("answered", "F.binary_cross_entropy_with_logits", "pos_weight", "truth"),
        ("answered", "index_add", "3", "whole|truth"),  # scaled by alpha, which is a fraction
    ],
    "booleans have an order and a sum": [
        ("answered", "argmax|argmin|topk", "0|1", "truth"),
        ("answered", r"(F\.|nn\.)?relu(\(\))?|F.mse_loss", "0|1", "truth"),
    ],
    "a number counts as a Tensor": [
        (
            "answered",
            "eq|ne|lt|le|gt|ge|fmod|maximum|minimum|lerp|clamp|clip",
            "0|1|2",
            "negative|zero|large|fraction",
        ),
        ("answered", r"F\.scaled_dot_product_attention", "3", ".*"),
        ("answered", r"round", "0", "whole|places|below|truth"),
    ],
    "one integer is one size or axis": [
        (
            "answered",
            r"\.?(new_full|full|normal|randint|flip)",
            "0|1|2",
            "zero|large|negative|none|empty",
        )
    ],
    "a list of no sizes": [
        ("answered", r"F\.pad", "1", "nothing|places|below"),
        ("answered", "logsumexp", "1", "empty"),
    ],
    "an index without numbers has any dtype": [
        ("answered", r"\.?(index_fill_?|index_select)", "1|2", "nothing"),
        ("refused", r"\.?(gather|scatter_?|scatter_add)", "1|2", "nothing"),
    ],
    "it has no effect in PyTorch either": [("answered", r"\.?scatter_?", "reduce", "none")],
    "it would compute what nobody means": [
        ("refused", r"(F\.|nn\.)(cross_entropy|CrossEntropyLoss)", "label_smoothing", "negative"),
        ("refused", r"(F\.|nn\.)(layer_?norm|rms_?norm)", ".*", "negative"),
        ("refused", r"(F\.|nn\.)softplus", "0|1", "negative|zero"),
        ("refused", r"F\.scaled_dot_product_attention", "4", "negative"),
        ("refused", r"nn\.(MultiheadAttention|Transformer\w*)", "2|layer_norm_eps", "negative"),
        ("refused", r"F\.linear", "2", "number|ones"),
        ("refused", r"F\.embedding", "1", "whole|truth"),
    ],
    "PyTorch takes a fraction in a Tensor, or None, for an integer": [
        ("refused", "split", "1|2", "number|ones|true"),
        ("refused", r"F\.normalize", "1", "number"),
        ("refused", "meshgrid", "indexing", "none"),
        ("refused", r"\.?index_fill_?", "1|2", "below"),
    ],
    "kernels that are not strides are refused": [
        ("refused|answered", r"nn\.Conv2d", "2|3", "large|list|fraction|true")
    ],
    "the order of equal numbers is open": [("differs", "topk", "0", "wide")],
    "texts of objects differ": [("differs", r"nn\.(Identity|LazyLinear)\(\)", "0", ".*")],
    "spread of one number": [("differs", "std|var", "0", "number")],
}


def purpose(verdict: str, call: misuse.Call) -> bool:
    found = verdict, call.where, call.argument, call.mistake
    return any(
        all(re.fullmatch(p, text, re.IGNORECASE) for p, text in zip(row, found, strict=True))
        for rows in ON_PURPOSE.values()
        for row in rows
    )


def faults(calls: Iterator[misuse.Call]) -> str:
    found = ((misuse.verdict(call), call) for call in calls)
    return "\n".join(f"{v}: {c.code} WRONG={c.value}" for v, c in found if v and not purpose(v, c))


def test_functions_and_methods():
    assert faults(misuse.functions()) == ""


def test_modules():
    assert faults(misuse.modules()) == ""


# Arguments whose gradient is 0 or that have none in PyTorch, too.
NO_GRADIENT = re.compile(r"gather sparse_grad|F\.scaled_dot_product_attention enable_gqa")


def test_no_argument_loses_its_gradient_in_silence():
    import qkv.torch

    lost = []
    for call in itertools.chain(misuse.functions(misuse.RECORDING), misuse.modules(misuse.RECORDING)):
        ours, theirs = misuse.gradient(qkv.torch, call), misuse.gradient(torch, call)
        if ours == "lost" and theirs != "lost" and not NO_GRADIENT.fullmatch(f"{call.where} {call.argument}"):
            lost.append(f"{call.code} WRONG={call.value}: {theirs} in PyTorch")
    assert "\n".join(lost) == ""
