"""Who shares memory with whom, as PyTorch documents it."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import qkv.torch as torch
from qkv.torch import nn


def test_gradients_are_changed_in_place():
    p = nn.Parameter(torch.ones(3))
    (p * 2).sum().backward()
    with torch.no_grad():
        p.grad.add_(p, alpha=0.1)
    assert p.grad is p.grad
    assert p.grad.tolist() == pytest.approx([2.1] * 3)
    g = p.grad
    g.mul_(0.5)
    g += 1
    p.grad[0] = 7
    assert g.tolist() == pytest.approx([7, 2.05, 2.05])
    p.grad.data.zero_()
    assert g.tolist() == [0, 0, 0]


def test_parts_of_a_parameter_are_written_through_data():
    e = nn.Embedding(3, 2)
    e.weight[0].data.fill_(0)
    e.weight.data[1] = 1
    assert e.weight[:2].tolist() == [[0, 0], [1, 1]]
    assert (e.weight.is_leaf, e.weight.requires_grad) == (True, True)
    assert isinstance(e.weight, nn.Parameter)


def test_views_see_the_steps_of_an_optimizer():
    w = nn.Parameter(torch.ones(2, 3))
    detached, view = w.detach().t(), w.t()
    (w * 2).sum().backward()
    torch.optim.SGD([w], 1.0).step()
    assert detached.tolist() == view.tolist() == [[-1, -1]] * 3


def test_arrays_beside_numbers():
    x, array = torch.arange(24.0).reshape(2, 3, 4), np.arange(24.0).reshape(2, 3, 4)
    assert x[0, :, [0, 1]].tolist() == array[0][:, [0, 1]].tolist()
    assert x[:, 0, [0, 1]].tolist() == array[:, 0][:, [0, 1]].tolist()
    assert x[[0, 1], :, 0].tolist() == array[..., 0].tolist()
    assert x[None, 0, :, torch.tensor([0, 1])].shape == (1, 3, 2)
    assert x[..., 1, [0, 3]].tolist() == array[:, 1][:, [0, 3]].tolist()
    assert x[np.array(1), np.int64(2), np.array([0, 3])].tolist() == [20, 23]
    x[0, :, [0, 1]] = torch.tensor([-1.0, -2.0])
    assert x[0, :, :2].tolist() == [[-1, -2]] * 3


def test_copies_that_are_no_views():
    x = torch.ones(3)
    for copied in (
        x.repeat(1),
        x.flip(0),
        x.clone(),
        x.roll(0),
        x[torch.arange(3)],
    ):
        copied[0] = 5
    assert x.tolist() == [1, 1, 1]


def test_expand_to_the_own_shape_is_a_view():
    x = torch.ones(2, 3)
    y = x.expand(2, 3)
    y[0] = 5
    assert y is not x
    assert x.tolist() == [[5] * 3, [1] * 3]
    part = torch.arange(6.0).reshape(2, 3).expand(4, 2, 3)[1:3, :, 1]
    assert part.tolist() == [[1, 4]] * 2
    assert part.stride()[0] == 0


@pytest.mark.parametrize(
    "function",
    [
        torch.from_numpy,
        torch.as_tensor,
    ],
)
def test_arrays_are_shared(function):
    array = np.ones((3, 4))[:, ::2]
    t = function(array)
    array[0], t[1] = 5, 7
    assert t.tolist() == array.tolist() == [[5, 5], [7, 7], [1, 1]]
    assert t.stride() == (4, 2)
    w = torch.ones(2, dtype=torch.float64, requires_grad=True)
    y = (t * w).sum()
    array[0, 0] = 0
    with pytest.raises(RuntimeError, match="was changed"):
        y.backward()


def test_arrays_that_are_copied():
    array = np.ones(3)
    array.flags.writeable = False
    t = torch.from_numpy(array)
    t[0] = 5
    assert array.tolist() == [1, 1, 1]
    assert torch.from_numpy(np.ones(3, "int32")).dtype is torch.int32
    gradient = np.ones(2)
    w = torch.ones(2, dtype=torch.float64, requires_grad=True)
    (w * 1).backward(torch.from_numpy(gradient))
    w.grad += 1
    assert gradient.tolist() == [1, 1]
    with pytest.raises(ValueError, match="strides must not be negative"):
        torch.from_numpy(np.ones(3)[::-1])


def test_deepcopy_keeps_what_is_shared():
    x = torch.arange(6.0).reshape(2, 3)
    y, part, t = copy.deepcopy([x, x[0], x.t()])
    y[0, 0] = 5
    assert part.tolist() == [5, 1, 2]
    assert t.stride() == (1, 3)
    assert t[0, 0] == 5
    assert x[0, 0] == 0
    module = nn.Module()
    module.a = nn.Parameter(torch.ones(3))
    module.b = module.a
    other = copy.deepcopy(module)
    assert other.a is other.b
    assert other.a is not module.a


def test_flags_behind_changes():
    x = torch.ones(3, requires_grad=True) * 1
    plain = torch.zeros(3)
    plain.zero_().copy_(torch.ones(3)).fill_(2)
    assert not plain.requires_grad
    for change in (lambda t: t.copy_(x), lambda t: t.__setitem__(0, x[0]), lambda t: t.add_(x)):
        t = torch.zeros(3)
        change(t)
        assert (t.requires_grad, t.is_leaf) == (True, False)
    for change in (lambda t: t.zero_(), lambda t: t.fill_(1.0), lambda t: t.__setitem__(slice(None), 0)):
        w = torch.ones(3, requires_grad=True)
        t = w * 1
        change(t)
        t.sum().backward()
        assert w.grad.tolist() == [0, 0, 0]
    computed = torch.ones(3, requires_grad=True) * 1
    computed.data.mul_(5)
    assert (computed.tolist(), computed.is_leaf) == ([5, 5, 5], False)


def test_functions_keep_what_their_derivative_needs_alone():
    for f, slope in ((torch.abs, 1), (torch.neg, -1), (torch.exp, np.e), (torch.sqrt, 0.5), (torch.log, 1)):
        x = torch.ones(3, requires_grad=True)
        y = f(x)
        part = (y if f not in (torch.exp, torch.sqrt) else x * 1)[1:]  # what is saved may not change
        part *= 2
        y[:1].sum().backward()
        assert x.grad.tolist() == pytest.approx([slope, 0, 0])


def test_what_is_without_history():
    x = torch.ones(3, requires_grad=True)
    slope = torch.autograd.grad((x * x).sum(), x)[0]
    (x * slope).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    assert copy.deepcopy(x).grad.tolist() == [2, 2, 2]
    wide = x.expand(2, 3)
    with torch.no_grad():
        wide.fill_(0.5)
    assert x.tolist() == [0.5] * 3
    y = x * 2
    y.data += 1
    assert (y.tolist(), y.is_leaf) == ([2, 2, 2], False)
    with pytest.raises(RuntimeError, match="must keep its shape"):
        y.data = torch.ones(4)


def test_a_view_that_gets_other_memory_is_a_view_no_longer():
    base, w = torch.ones(2, 3), torch.full((2, 3), 5.0, requires_grad=True)
    part = base[1]
    part.data = torch.full((3,), 7.0)
    base[:] = w
    assert (part.requires_grad, part.tolist()) == (False, [7, 7, 7])
    part *= w[0]  # as of any Tensor, and nothing of the base's
    part.sum().backward()
    assert w.grad.tolist() == [[7] * 3, [0] * 3]
    assert base.tolist() == [[5] * 3] * 2


def test_a_quotient_that_is_rounded_down_is_computed():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x // 0.7
    assert (y.is_leaf, y.requires_grad, y.tolist()) == (False, True, [1, 2])
    with pytest.raises(RuntimeError, match=r"^backward: floor_divide has no derivative"):
        (x * y).sum().backward()
    (x * y.detach() + x % 0.7).sum().backward()
    assert x.grad.tolist() == [2, 3]
    assert (torch.tensor([3.0]) // 2).is_leaf


def test_the_pass_tells_which_inputs_have_a_part():
    x, y = (torch.ones(2, requires_grad=True) for _ in range(2))
    z = (x * x).sum()
    with pytest.raises(RuntimeError, match="appears to not have been used"):
        torch.autograd.grad(z, (x, y), retain_graph=True)
    found = torch.autograd.grad((z, (y * 3).sum()), (x, y), retain_graph=True)
    assert [t.tolist() for t in found] == [[2, 2], [3, 3]]
    for recorded in (True, False):  # the last frees the graph
        slope, nothing = torch.autograd.grad(z, (x, y), allow_unused=True, create_graph=recorded)
        assert (slope.tolist(), nothing) == ([2, 2], None)
    with pytest.raises(RuntimeError, match="the graph was freed"):
        torch.autograd.grad(z, x)
