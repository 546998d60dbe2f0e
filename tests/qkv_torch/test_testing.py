"""torch.testing.assert_close has PyTorch's tolerances and text."""

from __future__ import annotations

import numpy as np
import pytest

import qkv.torch

torch = pytest.importorskip("torch")
NAN, INF = float("nan"), float("inf")


def double(m, *numbers):
    return m.tensor(numbers, dtype=m.float64)


CASES = {
    "equal": lambda m: (m.ones(2, 3), m.ones(2, 3)),
    "within float32": lambda m: (m.tensor([1e3]), m.tensor([1e3 + 1e-3])),
    "beyond float32": lambda m: (m.tensor([1e3, 2.0]), m.tensor([1e3 + 2e-3, 2.0])),
    "within float64": lambda m: (double(m, 1e3), double(m, 1e3 + 9e-5)),
    "beyond float64": lambda m: (double(m, 1e3), double(m, 1e3 + 2e-4)),
    "the wider of two": lambda m: (double(m, 1.0), m.tensor([1.0 + 1e-5]), {"check_dtype": False}),
    "two axes": lambda m: (m.tensor([[1.0, 2], [3, 4]]), m.tensor([[1.0, 2], [30, 40]])),
    "from 0": lambda m: (m.tensor([0.0, 1e-6]), m.tensor([0.5, 0.0])),
    "integers": lambda m: (m.tensor([1, 2]), m.tensor([1, 3])),
    "large integers": lambda m: (m.tensor([2**60]), m.tensor([2**60 + 1])),
    "integers within": lambda m: (m.tensor([1, 2]), m.tensor([1, 3]), {"rtol": 0, "atol": 1}),
    "booleans": lambda m: (m.tensor([True, False]), m.tensor([False, False])),
    "narrow": lambda m: (m.tensor([0], dtype=m.uint8), m.tensor([200], dtype=m.uint8)),
    "no axes": lambda m: (m.tensor(1.0), m.tensor(2.0)),
    "floats": lambda m: (1.0, 2.0),
    "ints": lambda m: (1, 2),
    "kinds of numbers": lambda m: (1, 1.0),
    "bools": lambda m: (True, False),
    "None": lambda m: (None, None),
    "a list": lambda m: ([1.0, m.ones(1)], [1.0, m.zeros(1)]),
    "a tuple in a dict": lambda m: ({"a": (1.0,)}, {"a": (2.0,)}),
    "lengths": lambda m: ([1], [1, 2]),
    "keys": lambda m: ({"a": 1, "c": 2}, {"b": 1, "c": 2}),
    "shapes": lambda m: (m.ones(2), m.ones(3)),
    "dtypes": lambda m: (m.ones(2), double(m, 1.0, 1.0)),
    "dtypes aside": lambda m: (m.ones(2), m.ones(2, dtype=m.int64), {"check_dtype": False}),
    "NaN": lambda m: (m.tensor([NAN, 1.0]), m.tensor([NAN, 1.0])),
    "NaN equal": lambda m: (m.tensor([NAN, 1.0]), m.tensor([NAN, 1.0]), {"equal_nan": True}),
    "one NaN": lambda m: (m.tensor([NAN]), m.tensor([1.0]), {"equal_nan": True}),
    "infinite": lambda m: (m.tensor([INF, -INF]), m.tensor([INF, INF])),
    "one infinite": lambda m: (m.tensor([1.0]), m.tensor([INF])),
    "no tolerance": lambda m: (m.tensor([1.0]), m.tensor([1.5]), {"rtol": 0, "atol": 0}),
    "one tolerance": lambda m: (1.0, 1.0, {"rtol": 0}),
    "own text": lambda m: (1.0, 2.0, {"msg": "so not"}),
    "own words": lambda m: (m.ones(1), m.zeros(1), {"msg": lambda text: "so not: " + text}),
    "arrays": lambda m: (np.ones(2), np.zeros(2)),
    "strings": lambda m: ("a", "b"),
    "with a gradient": lambda m: (m.ones(2, requires_grad=True) * 2, m.ones(2)),
    "subclasses": lambda m: (m.nn.Parameter(m.ones(2)), m.ones(2)),
    "empty": lambda m: (m.ones(0, 3), m.ones(0, 3)),
}


def outcome(m, case):
    actual, expected, *options = case(m)
    try:
        return m.testing.assert_close(actual, expected, **(options[0] if options else {}))
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("name", CASES)
def test_the_answer_and_its_text_are_pytorchs(name):
    assert outcome(qkv.torch, CASES[name]) == outcome(torch, CASES[name])


def test_kinds_that_cannot_be_compared():
    x = qkv.torch.ones(2)
    for other in (1.0, [1.0, 1.0], np.ones(2, "float32"), "a"):
        with pytest.raises(TypeError, match="No comparison pair was able to handle inputs of type"):
            qkv.torch.testing.assert_close(x, other)
    with pytest.raises(TypeError, match="No comparison pair"):
        qkv.torch.testing.assert_close(qkv.torch.nn.Parameter(x), x, allow_subclasses=False)
    with pytest.raises(ValueError, match="check_stride must be False"):
        qkv.torch.testing.assert_close(x, x, check_stride=True)
