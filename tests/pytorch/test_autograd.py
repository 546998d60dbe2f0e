"""Any function of qkv as one of PyTorch: memory, gradients of any order, dtypes, changes in place, refusals."""

from __future__ import annotations

import copy
import gc
import weakref

import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint

import qkv
from qkv import pytorch


def random(*shape, dtype=torch.float64, requires_grad=True):
    return torch.randn(shape, dtype=dtype, requires_grad=requires_grad)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


attend = pytorch.scaled_dot_product_attention
scaled = pytorch.function(lambda x, by: {"y": x * by, "parts": (x.sum(), [qkv.exp(by)])})


def test_results_keep_their_nesting_and_what_is_no_array_passes():
    x, by = random(2, 3), random(3)
    found = scaled(x, by=by)
    torch.testing.assert_close(found["y"], x * by)
    torch.testing.assert_close(found["parts"], (x.sum(), [by.exp()]))
    both = pytorch.function(lambda x, name, n: (x + n, name, None))(x, "name", 2)
    assert both[1:] == ("name", None)
    torch.testing.assert_close(both[0], x + 2)


def test_f_runs_once_for_both_passes():
    calls = []

    @pytorch.function
    def squared(x):
        calls.append(1)
        return x * x

    x = random(5)
    squared(x).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())
    assert len(calls) == 1


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "stepped", "expanded"])
def test_memory_is_shared_with_any_strides(layout):
    x = torch.arange(24.0).reshape(4, 6)
    x = {
        "contiguous": lambda: x,
        "transposed": lambda: x.T,
        "stepped": lambda: x[1::2, ::3],
        "expanded": lambda: x[0].expand(3, 6),
    }[layout]()
    addresses = []

    @pytorch.function
    def seen(t):
        addresses.append(np.asarray(t).__array_interface__["data"][0])
        return t + 0.0

    y = seen(x)
    assert addresses == [x.data_ptr()]
    torch.testing.assert_close(y, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
def test_dtypes_that_are_shared(dtype):
    x = torch.tensor([[1, 0, 3]]).to(dtype)
    y = pytorch.function(lambda t: t[:, ::-1])(x)
    assert y.dtype == dtype
    assert torch.equal(y, x.flip(1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_widths_are_computed_in_float32_and_come_back(dtype):
    q, k, v = (random(2, 3, 4, dtype=dtype) for _ in range(3))
    y, weights, lse = attend(q, k, v, return_weights=True, return_lse=True)
    assert (y.dtype, weights.dtype, lse.dtype) == (dtype, dtype, torch.float32)
    y.float().square().sum().backward()
    assert q.grad.dtype == dtype
    wide = [x.detach().float().requires_grad_() for x in (q, k, v)]
    expected = attend(*wide)
    torch.testing.assert_close(y, expected.to(dtype))
    expected.to(dtype).float().square().sum().backward()
    torch.testing.assert_close(q.grad, wide[0].grad.to(dtype))


def test_narrow_integers_are_converted():
    x = random(5, 3)
    for dtype in (torch.int32, torch.int16, torch.uint8):
        y = pytorch.function(lambda t, i: t[i])(x, torch.tensor([3, 1], dtype=dtype))
        torch.testing.assert_close(y, x[[3, 1]])


def test_results_own_their_memory():
    x = torch.ones(3)
    for f in (lambda t: t, lambda t: t[1:], lambda t: t.reshape(3, 1), lambda t: np.asarray(t)):
        y = pytorch.function(f)(x)
        y += 1
        assert x.tolist() == [1, 1, 1]
    a, b = pytorch.function(lambda t: (t + 1, t + 1))(x)
    a += 1
    assert b.tolist() == [2, 2, 2]


def test_tensors_live_as_long_as_their_results_need_them():
    x = random(1000)
    lives = weakref.ref(x)
    y = pytorch.function(qkv.exp)(x)
    del x
    y.sum().backward()
    del y
    gc.collect()
    assert lives() is None


def test_gradients_of_first_and_second_order():
    q, k, v = random(2, 2, 3, 4), random(2, 2, 5, 4), random(2, 2, 5, 3)
    mask, sinks = random(2, 1, 3, 5), random(2)

    def f(q, k, v, mask, sinks):
        return attend(q, k, v, mask, is_causal=True, sinks=sinks, softcap=2.0)

    assert torch.autograd.gradcheck(f, (q, k, v, mask, sinks))
    assert torch.autograd.gradgradcheck(f, (q, k, v, mask, sinks))
    x = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    y = pytorch.function(qkv.sin)(x)
    for expected in (x.cos(), -x.sin(), -x.cos(), x.sin()):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
        torch.testing.assert_close(y, expected)


def test_several_results_each_with_a_gradient_or_none():
    x = random(3)
    both = pytorch.function(lambda x: (qkv.exp(x), x * x, x > 0))
    a, b, c = both(x)
    assert not c.requires_grad
    for total, expected in ((a.sum() + b.sum(), x.exp() + 2 * x), (b.sum(), 2 * x)):
        found = torch.autograd.grad(total, x, retain_graph=True)[0]
        torch.testing.assert_close(found, expected)


def test_an_argument_given_twice_gets_both_gradients():
    x = random(2, 3, 4)
    found = torch.autograd.grad(attend(x, x, x).square().sum(), x)[0]
    y = torch.nn.functional.scaled_dot_product_attention(x, x, x)
    torch.testing.assert_close(found, torch.autograd.grad(y.square().sum(), x)[0])


def test_nothing_is_recorded_where_pytorch_records_nothing():
    x = random(2, 3, 4)
    with torch.no_grad():
        assert attend(x, x, x).grad_fn is None
    with torch.inference_mode():
        made = torch.ones(2, 3, 4, dtype=torch.float64)
        y = attend(x, made, made)
        assert y.is_inference()
    assert attend(*[x.detach()] * 3).grad_fn is None
    # Inference tensors among those that record.
    torch.testing.assert_close(attend(x, made, made).sum(), torch.tensor(24.0, dtype=torch.float64))
    torch.autograd.grad(attend(x, made, random(2, 3, 4)).sum(), x)


def test_a_backward_pass_frees_the_history_unless_it_is_retained():
    x = random(2, 3, 4)
    loss = attend(x, x, x).sum()
    first = torch.autograd.grad(loss, x, retain_graph=True)[0]
    torch.testing.assert_close(torch.autograd.grad(loss, x)[0], first)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        torch.autograd.grad(loss, x)


@pytest.mark.parametrize("which", ["query", "key without a gradient", "output"])
def test_changes_of_what_was_saved_are_found(which):
    q, k = random(2, 3, 4), random(2, 3, 4, requires_grad=False)
    y = attend(q, k, k)
    with torch.no_grad():
        {"query": q, "key without a gradient": k, "output": y}[which].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(y.sum(), q)


def test_changes_of_what_was_not_saved_are_none():
    x = random(3)
    y = pytorch.function(lambda x: x + 1.0)(x)
    y.mul_(2)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], torch.full_like(x, 2))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_give_the_same_gradients_with_dropout(reentrant):
    def block(q, k):
        return attend(q.sin(), k, k, dropout_p=0.5)

    q, k = random(2, 7, 4), random(2, 7, 4)
    found = []
    for f in (block, lambda q, k: checkpoint(block, q, k, use_reentrant=reentrant)):
        torch.manual_seed(3)
        q.grad = k.grad = None
        f(q, k).square().sum().backward()
        found.append((q.grad, k.grad))
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)


def test_what_is_saved_may_lie_elsewhere_until_the_backward_pass():
    q, k = random(2, 7, 4), random(2, 7, 4)
    expected = torch.autograd.grad(attend(q, k, k).square().sum(), (q, k))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy().copy(), torch.from_numpy):
        y = attend(q, k, k)
    torch.testing.assert_close(torch.autograd.grad(y.square().sum(), (q, k)), expected, rtol=0, atol=0)


def test_dropout_follows_pytorchs_seed_and_leaves_qkvs_stream():
    q = random(2, 7, 4)
    qkv.manual_seed(5)
    expected = qkv.rand(3)
    qkv.manual_seed(5)
    masks = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        masks.append(attend(q, q, q, dropout_p=0.5))
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])
    np.testing.assert_array_equal(qkv.rand(3), expected)
    score = random(4)
    torch.manual_seed(1)
    a = pytorch.additive_attention(q, q, q, score, dropout_p=0.5)
    torch.manual_seed(1)
    assert torch.equal(a, pytorch.additive_attention(q, q, q, score, dropout_p=0.5))


def test_modules_and_optimizers_of_pytorch_learn_through_it():
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = torch.nn.Linear(8, 24)
            self.slope = torch.nn.Parameter(torch.tensor([0.1, 0.2]))

        def forward(self, x):
            q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            bias = lambda s, b, h, i, j: s - self.slope[h] * (i - j).abs()  # noqa: E731
            return attend(q, k, v, score_mod=bias).transpose(1, 2).flatten(2)

    model = Attention()
    again = copy.deepcopy(model)
    x, target = torch.randn(2, 5, 8), torch.randn(2, 5, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(20):
        loss = torch.nn.functional.mse_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    assert not torch.equal(model.slope, again.slope)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # by PyTorch's own forward mode
def test_refusals_name_what_arrived():
    x = random(2, 3)
    with pytest.raises(TypeError, match=r"^qkv.pytorch: .* must be strided and on the CPU; got .* on meta$"):
        pytorch.softmax(torch.empty(2, 3, device="meta"))
    with pytest.raises(
        TypeError, match=r"^qkv.pytorch: .* must be strided and on the CPU; got torch.sparse_coo"
    ):
        pytorch.softmax(torch.eye(3).to_sparse())
    with pytest.raises(TypeError, match=r"^qkv.pytorch: .*; got torch.complex64$"):
        pytorch.softmax(torch.ones(3, dtype=torch.complex64))
    with pytest.raises(
        ValueError, match=r"^scaled_dot_product_attention: key must be .* got key \(2, 3, 5\)$"
    ):
        attend(torch.ones(2, 3, 4), torch.ones(2, 3, 5), torch.ones(2, 3, 5))
    with pytest.raises(
        NotImplementedError, match=r"torch.func and forward-mode derivatives are not computed"
    ):
        torch.func.grad(lambda t: pytorch.softmax(t).sum())(x.detach())
    with (
        pytest.raises(NotImplementedError, match=r"torch.func and forward-mode"),
        torch.autograd.forward_ad.dual_level(),
    ):
        pytorch.softmax(torch.autograd.forward_ad.make_dual(x.detach(), x.detach()))


def test_changes_of_a_mask_are_found_and_lengths_are_those_of_the_call():
    q, mask, lengths = random(2, 3, 4), torch.ones(2, 3, 3, dtype=torch.bool), np.array([1, 2])
    y = attend(q, q, q, mask)
    mask[:, 0, 1] = False
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(y.sum(), q)
    expected = torch.autograd.grad(attend(q, q, q, valid_lens=[1, 2]).square().sum(), q)[0]
    y = attend(q, q, q, valid_lens=lengths)
    lengths[:] = 3
    torch.testing.assert_close(torch.autograd.grad(y.square().sum(), q)[0], expected)
