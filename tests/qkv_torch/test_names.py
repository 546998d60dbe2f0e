"""Names that programs use beside layers: mixed precision, compile, functional calls, patches, weighted losses."""

from __future__ import annotations

import numpy as np
import pytest

import qkv
import qkv.torch

torch = pytest.importorskip("torch")
BOTH = (qkv.torch, torch)


def test_a_training_step_with_mixed_precision():
    for device in ("cpu", "cuda"):
        model = qkv.torch.compile(qkv.torch.nn.Linear(3, 1), mode="default")
        optimizer = qkv.torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = qkv.torch.amp.GradScaler(device, enabled=False)
        before = model.weight.detach().clone()
        with qkv.torch.amp.autocast(device_type=device, dtype=qkv.torch.bfloat16):
            loss = model(qkv.torch.ones(2, 3)).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        assert not qkv.torch.equal(before, model.weight)
    qkv.torch.backends.cuda.matmul.allow_tf32 = True
    qkv.torch.backends.cudnn.allow_tf32 = True

    @qkv.torch.compile(fullgraph=True)
    @qkv.torch.amp.autocast("cpu")
    def double(x):
        return x * 2

    assert double(qkv.torch.ones(1)).item() == 2
    for call, text in (
        (lambda: qkv.torch.compile(double, mod="max"), "'mod'"),
        (lambda: qkv.torch.amp.GradScaler(init_scal=1), "'init_scal'"),
        (lambda: qkv.torch.amp.autocast("cpu", dtype="half"), "dtype must be a dtype"),
        (lambda: qkv.torch.amp.autocast("cpu", dtyp=1), "dtyp"),
    ):
        with pytest.raises(TypeError, match=text):
            call()


@pytest.mark.parametrize("shape", [(2, 3, 8, 12), (3, 8, 12), (1, 3, 9, 14)])
@pytest.mark.parametrize("bias", [True, False])
def test_patches(shape, bias):
    found = []
    for m in BOTH:
        m.manual_seed(3)
        layer = m.nn.Conv2d(3, 5, (4, 3), stride=(4, 3), bias=bias)
        x = m.randn(*shape).requires_grad_()
        y = layer(x)
        y.square().sum().backward()
        found.append([y.detach(), x.grad, layer.weight.grad, *[p.detach() for p in layer.parameters()]])
        assert (
            repr(layer) == f"Conv2d(3, 5, kernel_size=(4, 3), stride=(4, 3){'' if bias else ', bias=False'})"
        )
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=1e-4)


def test_other_convolutions_are_refused():
    with pytest.raises(ValueError, match="stride must be the kernel size"):
        qkv.torch.nn.Conv2d(3, 5, 3, padding=1)
    with pytest.raises(RuntimeError, match=r"input must be \(N, 3, H, W\)"):
        qkv.torch.nn.Conv2d(3, 5, 2, 2)(qkv.torch.ones(1, 2, 4, 4))
    with pytest.raises(AttributeError, match="BatchNorm1d"):
        qkv.torch.nn.BatchNorm1d(3)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    "name",
    [
        "mse_loss",
        "l1_loss",
    ],
)
def test_weighted_losses(name, reduction):
    rng = np.random.default_rng(0)
    a, b, w = rng.normal(size=(3, 2, 5)) * 2
    found = []
    for m in BOTH:
        x = m.tensor(a, requires_grad=True)
        loss = getattr(m.nn.functional, name)(x, m.tensor(b), reduction=reduction, weight=m.tensor(abs(w)))
        (loss * loss).sum().backward()
        found.append((loss.detach().numpy(), x.grad.numpy()))
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9)
    with pytest.raises(ValueError, match="weight must have the shape of input"):
        getattr(qkv.torch.nn.functional, name)(x := qkv.torch.ones(2, 3), x, weight=qkv.torch.ones(3))


def test_inputs_without_a_part():
    for m in BOTH:
        x, y, z = (m.tensor(float(i), requires_grad=True) for i in range(1, 4))
        total = (x * y).tanh()
        with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
            m.autograd.grad(total, [x, z], retain_graph=True)
        a, b = m.autograd.grad(total, [x, z], retain_graph=True, allow_unused=True)
        assert b is None
        assert a.item() != 0
        assert m.autograd.grad(total, [z], retain_graph=True, materialize_grads=True)[0].item() == 0
        with pytest.raises(RuntimeError, match="does not require grad"):
            m.autograd.grad(total, [m.ones(1)], allow_unused=True)
        with pytest.raises(ValueError, match="Expected allow_unused"):
            m.autograd.grad(total, [x], allow_unused=False, materialize_grads=True)
        middle = x * 2
        (first,) = m.autograd.grad(middle * z + middle, middle)
        assert first.item() == 4.0
        assert m.autograd.grad([total, z * 1], [x, z])[1].item() == 1
