"""NumPy's functions of Tensors beside qkv's own: what the dispatch costs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from registry import Case, agree, normal, row, time_over

import qkv

SHAPE = (100, 100)
TWICE = time_over("qkv", "the method", 2.0)
# Beside operations of half a microsecond NumPy's own dispatch shows.
THRICE = time_over("qkv", "the method", 3.0)

Call = Callable[[Any, Any], Any]
FUNCTIONS: dict[str, tuple[Call, Call, bool]] = {
    "transpose": (lambda a, b: np.transpose(a), lambda a, b: a.transpose(), True),
    "swapaxes": (lambda a, b: np.swapaxes(a, 0, 1), lambda a, b: a.swapaxes(0, 1), True),
    "flip": (lambda a, b: np.flip(a, 0), lambda a, b: a[::-1], True),
    "ravel": (lambda a, b: np.ravel(a), lambda a, b: a.ravel(), True),
    "split": (lambda a, b: np.split(a, 4)[2], lambda a, b: qkv.split(a, 4)[2], False),
    "hstack": (lambda a, b: np.hstack([a, b]), lambda a, b: qkv.concatenate([a, b], 1), False),
    "concatenate": (lambda a, b: np.concatenate([a, b]), lambda a, b: qkv.concatenate([a, b]), False),
    "sum": (lambda a, b: np.sum(a, 0), lambda a, b: a.sum(0), False),
    "exp": (lambda a, b: np.exp(a), lambda a, b: qkv.exp(a), False),
    "add": (lambda a, b: np.add(a, b), lambda a, b: a + b, False),
}


def compare(called: Call, own: Call, threads: int) -> Case:
    a, b = (qkv.tensor(normal(*SHAPE, seed=seed)) for seed in (0, 1))
    agree(own(a, b), called(a, b))
    return Case({"qkv": partial(called, a, b), "the method": partial(own, a, b)})


for _name, (_called, _own, _tiny) in FUNCTIONS.items():
    row(
        f"np.{_name} of Tensors",
        goals=[THRICE if _tiny else TWICE],
        quick=_name == "transpose",
        threads="one",
    )(partial(compare, _called, _own))
