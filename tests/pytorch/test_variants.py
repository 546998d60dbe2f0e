"""The core's functions as functions of PyTorch: values, gradients of any order, dtypes, layouts, dropout."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import qkv  # noqa: E402
from qkv import pytorch  # noqa: E402

B, H, LQ, LK, D = 2, 2, 3, 5, 4
LENGTHS = torch.tensor([3, 5])


def floats(*shape: int) -> Any:
    return torch.randn(shape, dtype=torch.float64)


def positive(*shape: int) -> Any:
    return torch.rand(shape, dtype=torch.float64) + 0.2


# name: the floating inputs, and the call of them
CASES: dict[str, tuple[Callable[[], list[Any]], Callable[..., Any], str]] = {
    "additive": (
        lambda: [floats(B, LQ, D), floats(B, LK, D), floats(B, LK, 3), floats(D)],
        lambda f, q, k, v, w: f(q, k, v, w, valid_lens=LENGTHS), "additive_attention"),
    "additive with weights": (
        lambda: [floats(B, LQ, D), floats(B, LK, D), floats(B, LK, 3), floats(D), floats(LQ, LK)],
        lambda f, q, k, v, w, mask: f(q, k, v, w, attn_mask=mask, return_weights=True), "additive_attention"),
    "kernel": (
        lambda: [floats(B, LQ, 2), floats(B, LK, 2), floats(B, LK, 3), positive()],
        lambda f, q, k, v, width: f(q, k, v, "gaussian", width, valid_lens=LENGTHS), "kernel_attention"),
    "linear": (
        lambda: [floats(B, H, LK, D), floats(B, H, LK, D), floats(B, H, LK, 3)],
        lambda f, q, k, v: f(q, k, v), "linear_attention"),
    "gated delta": (
        lambda: [
            floats(B, H, LK, D), 0.5 * floats(B, H, LK, D), floats(B, H, LK, 3), -positive(B, H, LK),
            positive(B, H, LK), floats(B, H, D, 3)],
        lambda f, q, k, v, decay, beta, state: f(
            q, k, v, decay=decay, beta=beta, update_rule="gated_delta", state=state, return_state=True),
        "linear_attention"),
    "softmax": (lambda: [floats(LQ, LK)], lambda f, x: f(x, 0, 0.7), "softmax"),
    "masked softmax": (lambda: [floats(B, LQ, LK)], lambda f, x: f(x, LENGTHS), "masked_softmax"),
    "sparsemax": (lambda: [floats(LQ, LK)], lambda f, x: f(x, 0), "sparsemax"),
    "entmax": (lambda: [positive(LQ, LK)], lambda f, x: f(x, 1.5, -1), "entmax"),
}  # fmt: skip
CALLS = [pytest.param(*case, id=name) for name, case in CASES.items()]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def parts(y: Any) -> tuple[Any, ...]:
    return y if isinstance(y, tuple) else (y,)


@pytest.mark.parametrize(("made", "call", "name"), CALLS)
def test_values_are_those_of_the_core(made, call, name):
    x = made()
    found, expected = call(getattr(pytorch, name), *x), call(getattr(qkv, name), *(y.numpy() for y in x))
    for one, other in zip(parts(found), parts(expected), strict=True):
        assert isinstance(one, torch.Tensor)
        np.testing.assert_allclose(one.numpy(), np.asarray(other), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("made", "call", "name"), CALLS)
def test_gradients_of_both_orders(made, call, name):
    x = [y.requires_grad_() for y in made()]
    function = getattr(pytorch, name)
    assert torch.autograd.gradcheck(lambda *y: call(function, *y), x)
    assert torch.autograd.gradgradcheck(lambda *y: call(function, *y), x, fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("made", "call", "name"), CALLS)
def test_half_dtypes_come_back_as_they_are(made, call, name, dtype):
    x = [y.to(dtype).requires_grad_() for y in made()]
    wide = [y.detach().float().requires_grad_() for y in x]
    found, expected = parts(call(getattr(pytorch, name), *x)), parts(call(getattr(pytorch, name), *wide))
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one, other.to(dtype))
    sum(y.float().sum() for y in found).backward()
    assert all(y.grad.dtype == dtype and y.grad.isfinite().all() for y in x)


@pytest.mark.parametrize(("made", "call", "name"), CALLS)
def test_strided_inputs_are_read_where_they_are(made, call, name):
    x = made()
    strided = [torch.stack([y, y + 9], -1)[..., 0].requires_grad_(False) for y in x]
    orders = [list(range(y.dim()))[::-1] for y in x]
    reversed_axes = [y.permute(o).contiguous().permute(o) for y, o in zip(x, orders, strict=True)]
    expected = parts(call(getattr(pytorch, name), *x))
    for other in (strided, reversed_axes):
        for one, y in zip(parts(call(getattr(pytorch, name), *other)), expected, strict=True):
            torch.testing.assert_close(one, y)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize(("made", "call", "name"), CALLS)
def test_nothing_is_recorded_without_gradients(made, call, name, context):
    x = [y.requires_grad_() for y in made()]
    with context():
        found = parts(call(getattr(pytorch, name), *x))
    for one, other in zip(found, parts(call(getattr(pytorch, name), *x)), strict=True):
        assert not one.requires_grad
        assert other.requires_grad
        torch.testing.assert_close(one.clone(), other.detach())


def test_dropout_is_drawn_by_the_seed_of_pytorch():
    q, k, v, w = (
        y.requires_grad_() for y in (floats(B, LQ, D), floats(B, LK, D), floats(B, LK, 3), floats(D))
    )

    def call(*x):
        torch.manual_seed(5)
        return pytorch.additive_attention(*x, dropout_p=0.4)

    y = call(q, k, v, w)
    assert torch.equal(y, call(q, k, v, w))
    assert not torch.equal(y, pytorch.additive_attention(q, k, v, w, dropout_p=0.4))
    assert not torch.equal(y, pytorch.additive_attention(q, k, v, w))
    before = qkv.random.get_rng_state()
    call(q, k, v, w)
    assert str(qkv.random.get_rng_state()) == str(before)
    assert torch.autograd.gradcheck(call, (q, k, v, w))
    assert torch.autograd.gradgradcheck(call, (q, k, v, w), fast_mode=True)


def test_an_image_of_weights():
    q, k = floats(B, H, 31, D), floats(B, H, 37, D)
    slopes = torch.rand(H, dtype=torch.float64)
    same_slopes = slopes.numpy()
    options = {"size": (8, 6), "reduce": "mean"}
    found = pytorch.attention_image(
        q, k, **options, score_mod=lambda s, b, h, i, j: s - slopes[h] * (i - j).abs()
    )
    scores = q @ k.mT / D**0.5 - slopes[:, None, None] * (torch.arange(31)[:, None] - torch.arange(37)).abs()
    expected = qkv.attention_image(
        q.numpy(), k.numpy(), **options,
        score_mod=lambda s, b, h, i, j: s - same_slopes[h] * abs(i - j),
    )  # fmt: skip
    assert found.shape == (B, H, 8, 6)
    np.testing.assert_allclose(found.numpy(), np.asarray(expected))
    whole = pytorch.attention_image(
        q, k, size=(31, 37), score_mod=lambda s, b, h, i, j: s - slopes[h] * abs(i - j)
    )
    torch.testing.assert_close(whole.double(), torch.softmax(scores, -1), rtol=1e-5, atol=1e-6)
    for dtype in (torch.float16, torch.bfloat16):
        assert pytorch.attention_image(q.to(dtype), k.to(dtype), **options).isfinite().all()


@pytest.mark.parametrize("name", sorted({name for _, _, name in CASES.values()} | {"attention_image"}))
def test_signatures_and_help_are_those_of_the_core(name):
    mine, core = getattr(pytorch, name), getattr(qkv, name)
    assert inspect.signature(mine) == inspect.signature(core)
    assert inspect.getdoc(mine) == inspect.getdoc(core)


def test_signature_of_attention_is_that_of_the_core():
    mine, core = pytorch.scaled_dot_product_attention, qkv.scaled_dot_product_attention
    assert inspect.signature(mine) == inspect.signature(core)
    assert list(inspect.signature(mine).parameters)[:8] == [
        "query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"
    ]  # fmt: skip
