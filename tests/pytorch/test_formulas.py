"""Formulas written with torch functions: which can be traced, and what is said of those that cannot."""

from __future__ import annotations

import pytest
from sweep import sweep

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from qkv import pytorch  # noqa: E402

from .flex_cases import LK, D, H, inputs  # noqa: E402

ROW, TABLE = torch.ones(LK), torch.ones(H, LK)
EMBEDDING = torch.nn.Embedding(LK, 1)
REFUSED = {
    "function of arrays": (lambda s, b, h, q, k: torch.cumsum(s, 0), "got cumsum, call it outside of the formula"),
    "sum": (lambda s, b, h, q, k: s - s.sum(), "must not use .sum of a traced value"),
    "softmax": (lambda s, b, h, q, k: functional.softmax(s, -1), "must not use .softmax|got softmax, call it outside"),
    "layer": (lambda s, b, h, q, k: s + EMBEDDING(q), "got embedding, call it outside of the formula and capture"),
    "if": (lambda s, b, h, q, k: s if s > 0 else 0 * s, "must not decide by a traced value in if.*qkv.where"),
    "item": (lambda s, b, h, q, k: s + q.item(), "must not call .item of a traced value; compute with it as it is"),
    "list": (lambda s, b, h, q, k: s + s.tolist(), "must not call .tolist of a traced value; compute with it"),
    "float": (lambda s, b, h, q, k: s + float(q), "must not turn a traced value into a number of Python's"),
    "detach": (lambda s, b, h, q, k: s.detach(), "must not call .detach of a traced value; detach what"),
    "write": (lambda s, b, h, q, k: ROW.__setitem__(q, s), "must not write to an array"),
    "write in place": (lambda s, b, h, q, k: s + ROW[q].mul_(2.0).relu_() + ROW.mul_(2.0)[q], "must index a captured"),
    "write to an element": (lambda s, b, h, q, k: TABLE[h].mul_(s), "must index a captured array|must not write"),
    "floats into integers": (
        lambda s, b, h, q, k: s + q.mul_(0.5), "must write values of one kind in place; got floats for integers"),
    "device": (lambda s, b, h, q, k: s.to("cuda:0"), "must convert to float32, float64, int64 or bool; got cuda:0"),
    "device of a constant": (
        lambda s, b, h, q, k: s.new_zeros((), device="cuda"), "must stay on the CPU; got new_full with device cuda"),
    "size": (lambda s, b, h, q, k: s + s.new_ones(3), r"must make numbers, of size \(\); got \(3,\)"),
    "argument": (lambda s, b, h, q, k: functional.gelu(s, approximate="tanh", most=1), "must not raise; got TypeError"),
    "write to an array made in it": (lambda s, b, h, q, k: torch.ones(LK).__setitem__(q, s), "must not write to"),
    "a whole array": (lambda s, b, h, q, k: s + torch.exp(ROW)[k], "compute arrays as wholes outside of the formula"),
}  # fmt: skip


@sweep("name", REFUSED)
def test_what_cannot_be_traced_is_refused_in_one_line_with_its_name(name):
    formula, text = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=text) as caught:
        pytorch.flex_attention(*inputs(), formula)
    assert "\n" not in str(caught.value)
    assert "test_formulas.py:" in str(caught.value)


def test_captured_tensors_of_any_dtype_are_read():
    q, k, v = inputs()
    column = torch.rand(LK).round(decimals=1)
    rounded = column.to(torch.bfloat16).double()
    expected = pytorch.flex_attention(q, k, v, lambda s, b, h, i, j: s * rounded[j])
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        kept = column.to(torch.bfloat16).to(dtype)
        found = pytorch.flex_attention(q, k, v, lambda s, b, h, i, j, kept=kept: s * kept[j])
        torch.testing.assert_close(found, expected)
    for dtype in (torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool):
        kept = (column > 0.5).to(dtype)
        found = pytorch.flex_attention(q, k, v, lambda s, b, h, i, j, kept=kept: s + kept[j])
        expected = pytorch.flex_attention(q, k, v, lambda s, b, h, i, j, kept=kept.double(): s + kept[j])
        torch.testing.assert_close(found, expected)


def test_what_a_formula_captures_and_does_not_read_is_no_input():
    q, k, v = inputs(requires_grad=True)
    held = {"read": torch.ones(H, requires_grad=True), "not read": torch.ones(H, requires_grad=True)}
    far = torch.zeros(3, dtype=torch.complex64)

    def score_mod(s, b, h, i, j):
        return s * held["read"][h] if far.shape == (3,) else far[i]

    pytorch.flex_attention(q, k, v, score_mod).sum().backward()
    assert held["read"].grad is not None
    assert held["not read"].grad is None


def test_shapes_and_dtypes_of_captured_tensors_are_those_of_pytorch():
    seen = []
    note = seen.append

    def score_mod(s, b, h, q, k):
        note((TABLE.shape, TABLE.size(0), TABLE.size(), TABLE.dim(), TABLE.dtype, TABLE[h].shape, s.dim()))
        return s + (TABLE[h, k] if TABLE.dtype == torch.float32 and not s.is_cuda else 0)

    found = pytorch.flex_attention(*inputs(), score_mod)
    assert seen[0] == ((H, LK), H, (H, LK), 2, torch.float32, (LK,), 0)
    assert found.shape[-1] == D + 2


def test_a_formula_may_read_a_tensor_that_it_makes():
    q, k, v = inputs()
    row = torch.arange(LK) / 10
    found = pytorch.flex_attention(q, k, v, lambda s, b, h, i, j: s + (torch.arange(LK) / 10)[j])
    torch.testing.assert_close(found, pytorch.flex_attention(q, k, v, lambda s, b, h, i, j: s + row[j]))
