"""Every argument of PyTorch's layers, functions, optimizers and loaders: it counts as there, or is refused."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import numpy as np
import pytest

import qkv.torch

from . import signature_training_cases  # noqa: F401  # adds its cases
from .signature_cases import CASES, given

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")
MODULES = [
    "nn",
    "nn.functional",
    "nn.init",
    "nn.utils",
    "nn.utils.rnn",
    "optim",
    "optim.lr_scheduler",
    "utils.data",
]
# PyTorch's built-in functions without a signature, and classes that pass all on.
_RECURRENT = "num_layers bias batch_first dropout bidirectional device dtype"
WITHOUT_SIGNATURE = {
    "nn.functional.gelu": "approximate",
    "nn.functional.linear": "bias",
    "nn.functional.logsigmoid": "",
    "nn.functional.one_hot": "num_classes",
    "nn.functional.scaled_dot_product_attention": "attn_mask dropout_p is_causal scale enable_gqa",
    "nn.functional.softplus": "beta threshold",
    "nn.functional.tanh": "",
    "nn.functional.sigmoid": "",
    "nn.Module.to": "device dtype non_blocking memory_format",
    "nn.RNN": f"nonlinearity {_RECURRENT}",
    "nn.GRU": _RECURRENT,
    "nn.LSTM": f"{_RECURRENT} proj_size",
}
# Arguments of PyTorch's that are no values of a program: containers' contents.
CONTENTS = {"nn.ModuleList", "nn.ModuleDict", "nn.ParameterList"}
INSIDE = {"Container", "RNNBase", "RNNCellBase"}  # bases
OTHER_DEFAULTS = {  # the same value, spelled otherwise
    ("utils.data.random_split", "generator"),
    ("nn.Transformer", "activation"),
    ("nn.TransformerEncoderLayer", "activation"),
    ("nn.TransformerDecoderLayer", "activation"),
}


def found(m: Any, path: str) -> Any:
    for part in path.split("."):
        m = getattr(m, part)
    return m


def public() -> list[str]:
    """Paths that both have."""
    paths = []
    for module in MODULES:
        mine, theirs = found(qkv.torch, module), found(torch, module)
        for name in dir(mine):
            value = getattr(mine, name)
            if name.startswith("_") or inspect.ismodule(value) or not callable(value):
                continue
            if hasattr(theirs, name) and str(value.__module__).startswith(
                f"qkv.torch.{module.split('.')[0]}"
            ):
                paths.append(f"{module}.{name}")
    return sorted({*paths, "nn.functional.tanh", "nn.functional.sigmoid"})


def defaults(path: str) -> dict[str, Any]:
    """PyTorch's arguments with a default."""
    if path in WITHOUT_SIGNATURE:
        return dict.fromkeys(WITHOUT_SIGNATURE[path].split(), inspect.Parameter.empty)
    parameters = inspect.signature(found(torch, path)).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty and p.name != "self"}


def by_position(parameters: Any) -> list[str]:
    return [p.name for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def cases(path: str) -> list[Any]:
    return [case for name, case in CASES.items() if name.split(",")[0] == path]


def judged() -> list[str]:
    methods = [name for name in CASES if name.split(",")[0] not in public() and "," not in name]
    return [*public(), *methods]


@pytest.mark.parametrize("path", judged())
def test_every_argument_is_judged(path):
    """Each argument of PyTorch's is in a table, and what is taken has its default."""
    if path in CONTENTS:
        return
    theirs = defaults(path)
    tables = cases(path)
    known = {name for case in tables for name in {**case.changes, **case.without_effect, **case.refused}}
    assert set(theirs) <= known, f"not judged: {set(theirs) - known}"
    parameters = inspect.signature(found(qkv.torch, path)).parameters
    refused = {name for case in tables for name in case.refused}
    if path not in WITHOUT_SIGNATURE:
        there, here = by_position(inspect.signature(found(torch, path)).parameters), by_position(parameters)
        assert here[: len(there)] == [name for name in there if name in parameters or name not in refused]
    for name, default in theirs.items():
        if name not in parameters:
            assert name in refused, f"{name} is missing"
        elif (path, name) not in OTHER_DEFAULTS and default is not inspect.Parameter.empty:
            assert parameters[name].default == default, name


def plain(value: Any) -> list[Any]:
    """The numbers of a result, with their dtypes."""
    if isinstance(value, (list, tuple)):
        return [part for one in value for part in plain(one)]
    if isinstance(value, dict):
        return plain(list(value.items()))
    if hasattr(value, "detach"):
        return [str(value.dtype), tuple(value.shape), value.detach().numpy()]
    return [value]


def outcome(case: Any, m: Any, **options: Any) -> list[Any]:
    m.manual_seed(0)
    return plain(case.call(m, **{**case.base, **options}))


@functools.cache
def plainly(path: str, m: Any) -> list[Any]:
    """The outcome of a case without any of its arguments."""
    return outcome(CASES[path], m)


def equal(mine: list[Any], theirs: list[Any], **tolerance: float) -> bool:
    if len(mine) != len(theirs):
        return False
    for a, b in zip(mine, theirs, strict=True):
        numbers = isinstance(a, (np.ndarray, float)) and isinstance(b, (np.ndarray, float))
        if not (np.allclose(a, b, equal_nan=True, **tolerance) if numbers else type(a) is type(b) and a == b):
            return False
    return True


CLOSE = {"rtol": 2e-4, "atol": 2e-5}
EXACT = {"rtol": 0.0, "atol": 0.0}


@pytest.mark.parametrize(
    ("path", "name"), [(path, name) for path, case in CASES.items() for name in ["", *case.changes]]
)
def test_what_changes_the_result(path, name):
    case = CASES[path]
    options = {name: case.changes[name]} if name else {}
    theirs = outcome(case, torch, **options)
    mine = outcome(case, qkv.torch, **options)
    assert equal(mine, theirs, **CLOSE), (mine, theirs)
    if name:
        assert not equal(plainly(path, torch), theirs, **CLOSE), "this value changes nothing"


@pytest.mark.parametrize(
    ("path", "name"), [(path, name) for path, case in CASES.items() for name in case.without_effect]
)
def test_what_changes_nothing(path, name):
    case = CASES[path]
    tolerance = {"rtol": 1e-5, "atol": 1e-7} if path.startswith("optim") else EXACT
    for m in (torch, qkv.torch):
        assert equal(plainly(path, m), outcome(case, m, **{name: case.without_effect[name]}), **tolerance), m


@pytest.mark.parametrize(
    ("path", "name"), [(path, name) for path, case in CASES.items() for name in case.refused]
)
def test_what_is_refused(path, name):
    case = CASES[path]
    with pytest.raises((TypeError, ValueError, RuntimeError, AssertionError, NotImplementedError)) as error:
        outcome(case, qkv.torch, **{name: given(qkv.torch, case.refused[name])})
    text = str(error.value)
    assert "\n" not in text
    assert name in text or name.endswith("is_causal") or name == "device", text


@pytest.mark.parametrize("path", [path for path, case in CASES.items() if "device" in case.without_effect])
def test_other_devices_are_refused(path):
    with pytest.raises(RuntimeError, match=r"^[^\n]*cuda[^\n]*$"):
        outcome(CASES[path], qkv.torch, device="cuda")


def test_causal_hints():
    """Beside the causal mask they change nothing."""
    case = CASES["nn.MultiheadAttention.forward"]
    mask = case.changes["attn_mask"]
    for m in (torch, qkv.torch):
        assert equal(
            outcome(case, m, attn_mask=mask), outcome(case, m, attn_mask=mask, is_causal=True), **CLOSE
        )
    for path, names in {
        "TransformerEncoderLayer": {"src_mask": "is_causal"},
        "TransformerDecoderLayer": {"tgt_mask": "tgt_is_causal", "memory_mask": "memory_is_causal"},
        "TransformerEncoder": {"mask": "is_causal"},
        "TransformerDecoder": {"tgt_mask": "tgt_is_causal", "memory_mask": "memory_is_causal"},
        "Transformer": {"src_mask": "src_is_causal", "tgt_mask": "tgt_is_causal"},
    }.items():
        case = CASES[f"nn.{path}.forward"]
        for name, hint in names.items():
            masked = outcome(case, qkv.torch, **{name: mask})
            assert equal(masked, outcome(case, qkv.torch, **{name: mask, hint: True}), **EXACT)
            assert equal(masked, outcome(case, torch, **{name: mask}), **CLOSE)


def test_shared_heads():
    results = []
    for m in (torch, qkv.torch):
        m.manual_seed(0)
        q, kv = m.randn(1, 4, 3, 2), m.randn(1, 2, 3, 2)
        f = m.nn.functional.scaled_dot_product_attention
        results.append([f(q, kv, kv, enable_gqa=True), f(q, kv, kv, dropout_p=0.5, enable_gqa=True)])
        with pytest.raises((RuntimeError, ValueError), match=r"."):
            f(q, kv, kv)
    assert equal(*map(plain, results), **CLOSE)


def test_names_outside_attention():
    """They are told from misspelt ones."""
    lacking = [name for name in torch.nn.modules.__all__ if not hasattr(qkv.torch.nn, name)]
    lacking = [f"nn.{name}" for name in lacking if name not in INSIDE]
    lacking += [f"optim.{name}" for name in ("Adadelta", "LBFGS", "NAdam", "RAdam", "Rprop", "SparseAdam")]
    lacking += ["nn.functional.conv1d", "nn.functional.batch_norm", "nn.functional.max_pool2d"]
    lacking += [
        "nn.utils.weight_norm",
        "nn.utils.rnn.pack_padded_sequence",
        "optim.lr_scheduler.CyclicLR",
        "distributions",
    ]
    for path in lacking:
        with pytest.raises(AttributeError, match=r"lies outside qkv\.torch, which holds attention") as error:
            found(qkv.torch, path)
        assert path.rpartition(".")[2] in str(error.value)
        assert "\n" not in str(error.value)
    for path in ("nn.Liner", "nn.functional.sofmax", "optim.Adan", "utils.data.DataLoder"):
        with pytest.raises(AttributeError, match=r"qkv\.torch has no"):
            found(qkv.torch, path)
