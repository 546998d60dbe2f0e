"""Answers that were wrong in silence, as PyTorch gives them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import qkv.torch as torch
from qkv.torch import nn
from qkv.torch.nn import functional as F

from .both import same

inf = math.inf
A = [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("p", "expected"),
    [(0, [2, 2]), (1, [3, 7]), (3, [9 ** (1 / 3), 91 ** (1 / 3)]), (inf, [2, 4]), (-inf, [1, 3])],
)
def test_vector_norms(p, expected):
    assert torch.norm(torch.tensor(A), p, dim=1).tolist() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.norm(),
        lambda x: x.norm(3),
        lambda x: x.norm(dim=1).sum(),
        lambda x: x.std(),
    ],
)
def test_gradients_of_roots_of_nothing_are_zero(f):
    x = torch.zeros(2, 2, requires_grad=True)
    f(x).backward()
    assert x.grad.tolist() == [[0, 0], [0, 0]]


def test_generators_run_without_gradients_step_by_step():
    closed = []

    @torch.no_grad()
    def generate():
        got = []
        try:
            for _ in range(3):
                got.append((yield torch.is_grad_enabled()))
        except ValueError:
            yield "caught"
        finally:
            closed.append(torch.is_grad_enabled())
        return got

    steps = generate()
    assert [next(steps), torch.is_grad_enabled(), steps.send(5), steps.send(6)] == [False, True, False, False]
    with pytest.raises(StopIteration) as stop:
        steps.send(7)
    assert stop.value.value == [5, 6, 7]
    steps = generate()
    next(steps)
    assert steps.throw(ValueError()) == "caught"
    steps.close()
    assert closed == [False, False]
    assert torch.is_grad_enabled()


def test_hooks_and_places_of_parts():
    layer, calls = nn.Linear(1, 1), []

    def hook(*given):
        calls.append(1)

    first = layer.register_forward_hook(hook)
    layer.register_forward_hook(hook)
    layer(torch.ones(1, 1))
    first.remove()
    layer(torch.ones(1, 1))
    assert len(calls) == 3
    layer.weight = nn.Parameter(torch.zeros(1, 1))
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    nest = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    nest[0] = nn.Linear(1, 2)
    assert [name for name, _ in nest.named_children()] == ["0", "1"]


def test_the_future_does_not_leak():
    x = torch.ones(1, 3, 8)
    encoder = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    decoder = nn.TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True)
    for call in (
        lambda: encoder(x, is_causal=True),
        lambda: nn.TransformerEncoder(encoder, 2)(x, is_causal=True),
        lambda: decoder(x, x, tgt_is_causal=True),
        lambda: decoder(x, x, memory_is_causal=True),
        lambda: nn.TransformerDecoder(decoder, 2)(x, x, tgt_is_causal=True),
        lambda: nn.Transformer(8, 2, 1, 1, 16, batch_first=True)(x, x, src_is_causal=True),
    ):
        with pytest.raises(RuntimeError, match="Need attn_mask if specifying the is_causal hint"):
            call()
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    assert encoder(x, mask, is_causal=True).shape == (1, 3, 8)
    q = torch.ones(1, 2, 3, 4)
    with pytest.raises(RuntimeError, match="attn_mask should not be set when is_causal=True"):
        F.scaled_dot_product_attention(q, q, q, mask, 0.5, is_causal=True)


def test_arguments_that_were_ignored():
    w = torch.tensor([3.0, 1.0], requires_grad=True)
    w.grad = torch.tensor([1.0, float("nan")])
    with pytest.raises(RuntimeError, match="must be finite because error_if_nonfinite"):
        nn.utils.clip_grad_norm_([w], 1.0, error_if_nonfinite=True)
    with pytest.raises(ValueError, match="scale_grad_by_freq must be False"):
        F.embedding(torch.tensor([0]), torch.ones(2, 2), scale_grad_by_freq=True)
    a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    b.load_state_dict(a.state_dict(), assign=True)
    assert b.weight.data_ptr() == a.weight.data_ptr()
    assert [name for name, _ in b.named_parameters()] == ["weight", "bias"]
    x = torch.ones(2)
    assert x.to(torch.float32, copy=True) is not x
    assert x.to("cpu", non_blocking=True) is x
    with pytest.raises(TypeError):
        x.to(dtyp=torch.float64)


def test_whole_numbers_are_not_divided_by_0():
    for f in (torch.remainder, torch.fmod, torch.floor_divide):
        with pytest.raises(RuntimeError, match="other must not be 0"):
            f(torch.tensor([5, -5]), 0)
    assert torch.fmod(torch.tensor([5, -5]), 3).tolist() == [2, -2]
    assert np.isnan(torch.remainder(torch.tensor([1.0]), 0).item())


@pytest.mark.parametrize(("f", "numpys"), [(torch.remainder, np.remainder), (torch.fmod, np.fmod)])
@pytest.mark.parametrize("divisor", [0.7, -0.3, math.inf])
def test_what_division_leaves_is_computed_in_the_dtype_of_the_result(f, numpys, divisor):
    numbers = np.arange(-70, 70, dtype=np.float32) / np.float32(10)
    x = torch.tensor(numbers.tolist(), requires_grad=True)
    by = torch.full((140,), divisor, requires_grad=True)
    expected = numpys(numbers, np.float32(divisor))
    for left in (f(x.detach(), divisor), f(x, divisor), f(x, by)):
        assert left.dtype is torch.float32
        np.testing.assert_array_equal(left.detach().numpy(), expected)
    f(x, by).sum().backward()
    assert (x.grad == 1).all()
    if np.isfinite(divisor):
        whole = -np.round((numbers - expected) / np.float32(divisor))
        np.testing.assert_allclose(by.grad.numpy(), whole, atol=1e-6)


def test_rounded_quotients_have_the_derivative_0():
    x = torch.tensor([-5.0, 5.0, inf], requires_grad=True)
    for mode, expected in (("trunc", [-2, 2, inf]), ("floor", [-3, 2, math.nan])):
        y = torch.div(x, 2, rounding_mode=mode)
        assert y.tolist() == pytest.approx(expected, nan_ok=True)
        (x.grad,) = torch.autograd.grad(y[:2].sum(), x)
        assert x.grad.tolist() == [0, 0, 0]


def test_star_imports():
    names = {}
    exec("from qkv.torch.nn.functional import *", names)
    assert {"softmax", "relu", "cross_entropy", "scaled_dot_product_attention"} <= set(names)
    assert not {"np", "math", "wrap", "Core"} & set(names)


@pytest.mark.parametrize("name", [])
def test_an_infinite_parameter_does_not_spoil_what_is_remembered_of_it(name):
    w = torch.tensor([math.inf, 1.0], requires_grad=True)
    optimizer = getattr(torch.optim, name)([w], lr=0.1)
    w.grad = torch.ones(2)
    optimizer.step()
    assert w[0].item() == math.inf
    assert w[1].item() < 1


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0), (0,), (0, 3, 2)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_with_shares_of_nothing(shape, smoothing):
    same(lambda torch: _cross_entropies(torch, torch.zeros(shape), torch.zeros(shape), smoothing))


def test_cross_entropy_of_no_rows_with_smoothing():
    same(lambda torch: _cross_entropies(torch, torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64), 0.1))


def _cross_entropies(torch, x, target, smoothing):
    loss = torch.nn.functional.cross_entropy
    return [
        loss(x, target, reduction=reduction, label_smoothing=smoothing)
        for reduction in ("mean", "sum", "none")
    ]
