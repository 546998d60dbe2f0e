"""What Tensors are made of and what they are shifted, replaced and filled by: dtypes, sizes and gradients."""

from __future__ import annotations

import array
import collections
from typing import Any

import numpy as np
import pytest

import qkv.torch as torch
from qkv.torch import nn

from .both import same


@pytest.mark.parametrize(
    "data",
    [
        np.float64(1.5),
        np.float32(1.5),
        np.int32(3),
        np.uint8(3),
        np.bool_(True),
        [np.float64(1.5), 2.0],
        [np.int32(1), 2],
        [np.int16(1)],
        [[np.float32(1)], [np.float32(2)]],
        range(3),
        [range(2), range(2)],
        array.array("d", [1.5, 2.0]),
        array.array("i", [1, 2]),
        memoryview(b"ab"),
        collections.deque([1, 2]),
    ],
    ids=lambda data: type(data).__name__,
)
@pytest.mark.parametrize("name", ["tensor", "as_tensor"])
def test_numbers_of_numpy_and_python(name, data):
    same(lambda m: getattr(m, name)(data))


def test_lists_of_unequal_lengths_name_their_shapes():
    with pytest.raises(
        ValueError, match=r"lists of equal lengths; got parts of the shapes \(2,\) and \(1,\)"
    ):
        torch.tensor([[1, 2], [3]])
    for data in ("12", b"12", {1, 2}, None):
        with pytest.raises(TypeError, match="tensor: data must be numbers, lists of them or arrays"):
            torch.tensor(data)


@pytest.mark.parametrize("fill", ["masked_fill", "masked_fill_", "torch.masked_fill", "fill_"])
def test_a_learned_value_gets_its_gradient(fill):
    def program(m: Any) -> Any:
        token = m.nn.Parameter(m.tensor(0.5))
        w = m.nn.Parameter(m.ones(3))
        mask, x = m.tensor([True, False, True]), m.ones(2, 3) * w
        if fill == "fill_":
            x[0].fill_(token)
            result = x
        elif fill == "torch.masked_fill":
            result = m.masked_fill(x, mask, token)
        else:
            result = getattr(x, fill)(mask, token)
        (result**2).sum().backward()
        return token.grad, w.grad

    same(program)


def test_a_value_is_one_number():
    x, mask = torch.ones(3), torch.tensor([True, False, True])
    for value in (torch.ones(1), torch.ones(3), np.ones(3), [1.0], None, "x"):
        with pytest.raises(
            RuntimeError, match="masked_fill: value must be a number, or a Tensor without axes"
        ):
            x.masked_fill(mask, value)
    for refused in (
        lambda p: torch.full((2,), p),
        lambda p: nn.functional.pad(x, (1, 1), value=p),
        lambda p: nn.functional.softplus(x, beta=p),
        lambda p: torch.arange(p),
        lambda p: torch.zeros(2).normal_(p),
    ):
        with pytest.raises(TypeError, match="must be a number because it gets no gradient"):
            refused(nn.Parameter(torch.tensor(2.0)))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: x.index_add(0, m.tensor([0, 2]), m.ones(4)),
        lambda m, x: x.scatter(0, m.tensor([[0, 1]]), m.ones(1, 1)),
        lambda m, x: m.where(m.tensor([0.5, 0.0, 1.0, 2.0]), 1.0, 2.0),
        lambda m, x: m.where(x > 0, None, x),
        lambda m, x: m.cumsum(x, dim=None),
        lambda m, x: m.linspace(0, 1, -6),
        lambda m, x: m.nn.functional.pad(x, (-10, -10)),
        lambda m, x: m.nn.functional.dropout(x, p=None),
        lambda m, x: m.full((2,), None),
        lambda m, x: m.arange(None),
        lambda m, x: m.arange(0, None, 1),
        lambda m, x: m.cat(x),
        lambda m, x: m.abs(x > 0),
        lambda m, x: m.floor(x > 0),
        lambda m, x: m.nn.Transformer(4, 2, num_encoder_layers=-2, num_decoder_layers=1)(x[None], x[None]),
    ],
)
def test_what_pytorch_refuses_is_refused(call):
    pytorch = pytest.importorskip("torch")
    for m in (pytorch, torch):
        with pytest.raises((RuntimeError, TypeError, ValueError, IndexError)):
            call(m, m.ones(3, 4))


def test_padding_rows_are_rows():
    ids, table = torch.tensor([0, 1]), torch.ones(3, 2)
    for row in (7, 3, -4):
        with pytest.raises(AssertionError, match="Padding_idx must be within num_embeddings"):
            nn.functional.embedding(ids, table, padding_idx=row)
    assert nn.functional.embedding(ids, table, padding_idx=-3).shape == (2, 2)


def test_parts_of_modules_have_names_of_their_own():
    layer = nn.Linear(2, 2)
    for register in (
        lambda: layer.register_buffer("weight", torch.ones(2)),
        lambda: layer.register_parameter("forward", None),
        lambda: layer.add_module("bias", nn.ReLU()),
    ):
        with pytest.raises(KeyError, match="already exists"):
            register()
    with pytest.raises(AttributeError, match="backward has no hooks, forward has: register_forward_hook"):
        layer.register_full_backward_hook(print)


CHANGES = {
    "b[1] = 2": lambda b: b.__setitem__(1, 2),
    "b[0].add_(1)": lambda b: b[0].add_(1),
    "b.t()[1] = 3": lambda b: b.t().__setitem__(1, 3),
    "b[:, 1:].mul_(2)": lambda b: b[:, 1:].mul_(2),
    "b.view(-1)[2:4] *= 3": lambda b: b.view(-1)[2:4].mul_(3),
    "b.t().mul_(2)": lambda b: b.t().mul_(2),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["sigmoid", "exp", "tanh", "sqrt"])
def test_a_change_of_a_result_leaves_what_its_gradient_needs(name, change):
    found = []
    for copied in (False, True):
        a = torch.tensor([[0.5, 1.0, 2.0], [1.0, 0.3, 0.2]], requires_grad=True)
        b = getattr(torch, name)(a)
        b = b * 1 if copied else b
        CHANGES[change](b)
        (b * b).sum().backward()
        found.append((a.grad.tolist(), b.tolist()))
    assert found[0] == found[1]
