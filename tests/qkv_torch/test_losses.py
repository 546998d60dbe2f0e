"""Losses with targets of other shapes, dtypes and ranges: answered, refused and warned of as in PyTorch."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import qkv.torch as ours
from qkv.torch import nn

REFUSALS = (RuntimeError, ValueError, TypeError, IndexError)
# Targets of inputs (3, 4), and of (3, 4, 2) and (4,) as far as they fit.
TARGETS = {
    "labels": lambda m: m.tensor([0, 3, 1]),
    "labels uint8": lambda m: m.tensor([0, 3, 1], dtype=m.uint8),
    "labels int32": lambda m: m.tensor([0, 3, 1], dtype=m.int32),
    "labels bool": lambda m: m.tensor([True, False, True]),
    "labels float": lambda m: m.tensor([0.0, 3.0, 1.0]),
    "column float": lambda m: m.tensor([[1.0], [2.0], [0.0]]),
    "column": lambda m: m.tensor([[1], [2], [0]]),
    "too large": lambda m: m.tensor([0, 4, 1]),
    "two labels": lambda m: m.tensor([0, 1]),
    "one number": lambda m: m.tensor(1.0),
    "one label": lambda m: m.tensor(1),
    "a row": lambda m: m.ones(1, 4) / 4,
    "shares": lambda m: m.softmax(m.arange(12.0).reshape(3, 4), 1),
    "shares float64": lambda m: m.softmax(m.arange(12.0, dtype=m.float64).reshape(3, 4), 1),
    "whole shares": lambda m: m.ones(3, 4, dtype=m.int64),
    "truths": lambda m: m.ones(3, 4) > 0,
    "numbers": lambda m: m.arange(12.0).reshape(3, 4) - 5,
    "transposed": lambda m: m.ones(4, 3) / 4,
    "none": lambda m: m.ones(0),
    "deep labels": lambda m: m.tensor([[0, 1], [3, 2], [1, 1]]),
    "deep shares": lambda m: m.ones(3, 4, 2) / 4,
}
INPUTS = {
    "numbers": lambda m: m.sin(m.arange(12.0)).reshape(3, 4),
    "shares": lambda m: m.sigmoid(m.arange(12.0).reshape(3, 4) - 6),
    "float64": lambda m: m.sin(m.arange(12.0, dtype=m.float64)).reshape(3, 4),
    "whole": lambda m: m.arange(12).reshape(3, 4),
    "truths": lambda m: m.arange(12).reshape(3, 4) > 4,
    "one item": lambda m: m.ones(4) / 4,
    "a number": lambda m: m.tensor(0.5),
    "deep": lambda m: m.sin(m.arange(24.0)).reshape(3, 4, 2),
}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "cross_entropy": [{}, {"ignore_index": 1}, {"label_smoothing": 0.5}, {"reduction": "none"}],
    "nll_loss": [{}, {"reduction": "none"}],
    "kl_div": [{"reduction": "sum"}, {"reduction": "batchmean", "log_target": True}],
    "binary_cross_entropy": [{}],
    "binary_cross_entropy_with_logits": [{}],
    "mse_loss": [{}, {"reduction": "none"}],
    "l1_loss": [{}],
}


def outcome(m: Any, name: str, input: str, target: str, options: Any) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = getattr(m.nn.functional, name)(INPUTS[input](m), TARGETS[target](m), **options)
        except REFUSALS:
            return "refused"
    broadcast = any("broadcast" in str(one.message) for one in caught)
    return str(result.dtype), broadcast, result.numpy()


@pytest.mark.parametrize(("name", "input"), [*itertools.product(OPTIONS, INPUTS)])
def test_pytorch_answers_and_refuses_the_same(name, input):
    torch = pytest.importorskip("torch")
    for target, options in itertools.product(TARGETS, OPTIONS[name]):
        found, wanted = (outcome(m, name, input, target, options) for m in (ours, torch))
        words = f"{target}, {options}: {found}, {wanted}"
        if wanted == "refused" or found == "refused":
            assert (found == "refused") == (wanted == "refused"), words
            continue
        assert found[:2] == wanted[:2], words
        np.testing.assert_allclose(found[2], wanted[2], rtol=2e-5, atol=1e-6, err_msg=words)


def test_the_warning_is_of_the_line_that_called():
    for loss in (nn.functional.mse_loss, nn.MSELoss(), nn.functional.l1_loss, nn.L1Loss()):
        with pytest.warns(UserWarning, match=r"target has the shape \(3,\) and input \(3, 1\)") as caught:
            loss(ours.ones(3, 1), ours.ones(3))
        assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss", "mse_loss", "binary_cross_entropy", "kl_div"])
def test_numbers_and_lists_are_no_tensors(name):
    for target in (1.0, [0, 1, 2], None, "x"):
        with pytest.raises(TypeError, match=f"{name}: target must be a Tensor; got"):
            getattr(nn.functional, name)(ours.ones(3, 3) / 3, target)
    with pytest.raises(TypeError, match=f"{name}: input must be a Tensor; got 2"):
        getattr(nn.functional, name)(2, ours.ones(3, 3))


def test_what_probabilities_must_be():
    bce, half = nn.BCELoss(), ours.tensor([0.5])
    for input, target in ((2.0, 0.5), (-0.5, 0.5), (0.5, 1.5), (0.5, -1.0), (float("nan"), 0.5)):
        with pytest.raises(RuntimeError, match="must hold probabilities from 0 to 1"):
            bce(ours.tensor([input]), ours.tensor([target]))
    with pytest.raises(
        RuntimeError, match=r"target must have the dtype of input, torch.float32; got torch.int64"
    ):
        bce(half, ours.tensor([7]))
    with pytest.raises(RuntimeError, match="ignore_index must be below 0 because target holds probabilities"):
        nn.CrossEntropyLoss(ignore_index=0)(ours.zeros(2, 3), ours.ones(2, 3) / 3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: nn.functional.mse_loss(x, x, weight=ours.ones(1)), "weight must have the shape of input"),
        (lambda x: nn.functional.mse_loss(x, x, reduction="x"), "reduction must be"),
        (lambda x: nn.KLDivLoss(log_target="x")(x, x), "log_target must be True or False; got 'x'"),
        (
            lambda x: nn.functional.cross_entropy(x, ours.tensor([0, 1]), weight=ours.ones(3).double()),
            "weight must have the dtype of input",
        ),
    ],
)
def test_options_that_are_none(call, words):
    with pytest.raises(REFUSALS, match=words):
        call(ours.ones(2, 3))
