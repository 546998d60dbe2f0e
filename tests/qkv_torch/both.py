"""Runs a function of the module ``torch`` with `qkv.torch` and with PyTorch, and compares what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import qkv.torch

DEFAULT = {"rtol": 1e-5, "atol": 1e-6}


def same(program: Callable[[Any], Any], **tolerances: float) -> Any:
    """Compare the results, Tensors and numbers in lists, tuples and dicts, or the type of what is raised."""
    pytorch = pytest.importorskip("torch")
    found, wanted = _result(program, qkv.torch), _result(program, pytorch)
    compare(found, wanted, **{**DEFAULT, **tolerances})
    return found


def _result(program: Callable[[Any], Any], torch: Any) -> Any:
    try:
        return program(torch)
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        return type(error)


def compare(found: Any, wanted: Any, where: str = "", **tolerances: float) -> None:
    """Compare what both gave."""
    if isinstance(wanted, Mapping):
        assert list(found) == list(wanted), where
        for key in wanted:
            compare(found[key], wanted[key], f"{where}[{key!r}]", **tolerances)
    elif isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted), where
        for i, (one, other) in enumerate(zip(found, wanted, strict=True)):
            compare(one, other, f"{where}[{i}]", **tolerances)
    elif wanted is None or isinstance(wanted, (str, bool, type)):
        assert found == wanted, where
    else:
        a, b = (np.asarray(x.detach().numpy() if hasattr(x, "detach") else x) for x in (found, wanted))
        assert a.dtype == b.dtype, where
        np.testing.assert_allclose(a, b, err_msg=where, **tolerances)
