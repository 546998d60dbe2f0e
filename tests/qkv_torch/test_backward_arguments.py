"""What ``backward`` takes beside a gradient: ``inputs``, ``create_graph``, several Tensors."""

from __future__ import annotations

import pytest

import qkv.torch

from .both import same

pytestmark = pytest.mark.filterwarnings("ignore:Using backward.. with create_graph")


def leaves(torch):
    a = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    b = torch.tensor([0.5, 1.5, -1.0], requires_grad=True)
    return a, b


def test_inputs_get_gradients_and_others_none():
    def program(torch):
        a, b = leaves(torch)
        loss = (a * a * b).sum()
        loss.backward(inputs=[a], retain_graph=True)
        first = a.grad
        loss.backward(inputs=a)
        return a.grad, b.grad, first is a.grad

    same(program)


def test_inputs_may_be_computed():
    def program(torch):
        a, b = leaves(torch)
        c = a * b
        (c * c).sum().backward(inputs=[c, b])
        return c.grad, b.grad, a.grad

    same(program)


def test_gradients_with_a_graph():
    def program(torch):
        a, b = leaves(torch)
        (a**3 * b).sum().backward(create_graph=True)
        first = a.grad
        wanted = first.requires_grad
        slope = torch.autograd.grad(first.sum(), [a, b])
        (a * 2).sum().backward(create_graph=True)
        return a.grad, b.grad, slope, wanted, first is a.grad

    same(program)


def test_a_gradient_that_is_given_is_shared():
    def program(torch):
        a, b = leaves(torch)
        g = torch.ones(3)
        a.grad = g
        (a * b).sum().backward()
        held = a.grad is g
        a.grad.mul_(2)
        return g, a.grad, held

    same(program)


def test_several_tensors():
    def program(torch):
        a, b = leaves(torch)
        c = a * b
        torch.autograd.backward([c.sum(), (c * a).sum()], inputs=[a, b])
        torch.autograd.backward([(a * a).sum()], create_graph=True)
        return a.grad, b.grad

    same(program)


def test_no_inputs_are_refused():
    def program(torch):
        a, _ = leaves(torch)
        a.sum().backward(inputs=[])

    assert isinstance(same(program), type)
    a, _ = leaves(qkv.torch)
    with pytest.raises(RuntimeError, match="inputs must be at least one Tensor; got none"):
        a.sum().backward(inputs=[])


def test_largest_numbers_by_every_call():
    def program(torch):
        x = torch.tensor([[1.0, 5.0, 5.0], [4.0, 2.0, 0.0]], requires_grad=True)
        found = [x.max(1), x.max(dim=0, keepdim=True), torch.min(x, -1), x.min(axis=1, keepdims=True)]
        sum(one.values.sum() for one in found).backward()
        return [(tuple(one), type(one).__name__, one.indices) for one in found], x.grad

    same(program)
