"""Every argument of PyTorch's functions of Tensors, by its schemas: it counts as there, or is refused by name."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import qkv.torch
from qkv.torch._tensor import FUNCTIONS

from .signature_samples import NO_EFFECT, NOT_PYTHON, OF, SAMPLES, TAKEN, VALUES, each, given

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")


def sample(name: str, m: Any) -> tuple[Any, ...]:
    return eval(f"({SAMPLES[name]},)", given(m))


def numbers(result: Any) -> Any:
    if isinstance(result, (tuple, list)):
        return [numbers(part) for part in result]
    if hasattr(result, "detach"):
        return [str(result.dtype), list(result.shape), bool(result.requires_grad), result.detach().numpy()]
    return str(result)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)
    return type(a) is type(b) and a == b


def outcome(name: str, m: Any, **options: str) -> Any:
    m.manual_seed(0)
    values = {key: eval(text, given(m)) for key, text in options.items()}
    return numbers(getattr(m, name)(*sample(name, m), **values))


def arguments(name: str) -> set[str]:
    """Names of PyTorch's arguments, over all that a function may be called with."""
    schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    return {argument.name for schema in schemas for argument in schema.arguments} - NOT_PYTHON


def judged() -> list[str]:
    return sorted(n for n in SAMPLES if n in FUNCTIONS and callable(getattr(torch, n, None)))


def test_every_function_has_a_sample():
    common = {name for name in FUNCTIONS if inspect.isbuiltin(getattr(torch, name, None))}
    outside = {*each("empty empty_like from_numpy is_grad_enabled", "")}
    assert sorted(common - set(SAMPLES) - outside) == []


@pytest.mark.parametrize("name", judged())
def test_arguments(name):
    plain = outcome(name, torch)
    assert same(outcome(name, qkv.torch), plain), "the sample itself"
    for argument in sorted(arguments(name)):
        value = OF.get(f"{name} {argument}", VALUES.get(argument))
        if value is None:
            continue
        options = {argument: value}
        try:
            theirs = outcome(name, torch, **options)
        except (TypeError, RuntimeError, ValueError, IndexError):
            if (name, argument) in TAKEN:
                continue
            with pytest.raises((TypeError, RuntimeError, ValueError, IndexError)):
                outcome(name, qkv.torch, **options)
            continue
        assert same(outcome(name, qkv.torch, **options), theirs), options
        assert (argument in NO_EFFECT) == same(plain, theirs), f"{argument}={value}: no effect"


@pytest.mark.parametrize("name", judged())
def test_keywords(name):
    """What PyTorch takes by name is taken by that name."""
    plain = outcome(name, torch)
    taken = 0
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
        names = [a.name if a.name != "self" else "input" for a in schema.arguments if not a.kwarg_only]
        options = [dict(zip(names, sample(name, m), strict=False)) for m in (torch, qkv.torch)]
        if len(options[0]) < len(sample(name, torch)):
            continue
        try:
            torch.manual_seed(0)
            theirs = numbers(getattr(torch, name)(**options[0]))
        except (TypeError, RuntimeError, ValueError, IndexError):
            continue
        qkv.torch.manual_seed(0)
        assert same(numbers(getattr(qkv.torch, name)(**options[1])), theirs), names
        taken += same(theirs, plain)
    if not taken:
        pytest.skip("PyTorch takes it by position alone")


@pytest.mark.parametrize("name", [n for n in judged() if "out" in arguments(n)])
def test_out(name):
    def written(m: Any) -> Any:
        m.manual_seed(0)
        wanted = getattr(m, name)(*sample(name, m))
        if not isinstance(wanted, m.Tensor):
            return None
        made = []
        for shape in (tuple(wanted.shape), (0,)):
            m.manual_seed(0)
            out = m.zeros(*shape, dtype=wanted.dtype)
            result = getattr(m, name)(*sample(name, m), out=out)
            made.append([result is out, numbers(out)])
        return made

    try:
        theirs = written(torch)
    except (TypeError, RuntimeError):
        pytest.skip("PyTorch has no out here")
    assert same(written(qkv.torch), theirs)
