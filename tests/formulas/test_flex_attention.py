"""qkv.torch's flex_attention beside PyTorch's, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import qkv
import qkv.torch as torch
from qkv.torch.nn.attention import flex_attention as flex

from . import cases
from .cases import LK, LQ, B, H

SLOPES = np.array([0.5, 0.2, 0.1], "float32")


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def tensors(*, requires_grad=False):
    return [torch.tensor(x.astype("float32"), requires_grad=requires_grad) for x in cases.inputs()]


MASKS = {
    "causal": causal,
    "window by head": lambda b, h, q, k: abs(q - k) < 60 * (h + 1),
    "documents": lambda b, h, q, k: q // 100 == k // 90,
    "parity": lambda b, h, q, k: (q // 128 + k // 128) % 2 == b,
    "needlessly mixed by intervals": lambda b, h, q, k: (q * k) % 1000 < 20,
}


@pytest.mark.parametrize("size", [128, (64, 32)])
@pytest.mark.parametrize("name", MASKS)
def test_block_masks_are_pytorchs(name, size):
    real = pytest.importorskip("torch.nn.attention.flex_attention")
    shape = (2, 3, 384, 256)
    theirs = real.create_block_mask(MASKS[name], *shape, device="cpu", BLOCK_SIZE=size)
    ours = flex.create_block_mask(MASKS[name], *shape, BLOCK_SIZE=size)
    assert ours.shape == tuple(theirs.shape)
    assert ours.numel() == theirs.numel()
    assert ours.sparsity() == pytest.approx(theirs.sparsity(), abs=1e-4)
    assert ours.BLOCK_SIZE == theirs.BLOCK_SIZE
    np.testing.assert_array_equal(ours.to_dense(), theirs.to_dense())
    assert ours.to_string() == theirs.to_string()
    assert ours.to_string((3, 2), limit=2) == theirs.to_string((3, 2), limit=2)
    assert str(ours) == str(theirs)
    for attribute in ("kv_num_blocks", "full_kv_num_blocks", "q_num_blocks", "full_q_num_blocks"):
        np.testing.assert_array_equal(getattr(ours, attribute), getattr(theirs, attribute))
    for attribute in ("kv", "full_kv", "q", "full_q"):
        counts = np.asarray(getattr(theirs, f"{attribute}_num_blocks"))
        found, wanted = (np.asarray(getattr(m, f"{attribute}_indices")) for m in (ours, theirs))
        inside = np.arange(found.shape[-1]) < counts[..., None]
        np.testing.assert_array_equal(found[inside], wanted[inside])
    assert (
        ours[1, 2].to_string()
        == flex.create_block_mask(
            lambda b, h, q, k: MASKS[name](1, 2, q, k), 1, 1, 384, 256, BLOCK_SIZE=size
        ).to_string()
    )


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_the_result_is_pytorchs():
    real, torch_ = (pytest.importorskip(f"torch{name}") for name in (".nn.attention.flex_attention", ""))
    theirs = [torch_.tensor(x.astype("float32")) for x in cases.inputs()]
    slopes = torch_.tensor(SLOPES)
    mask = real.create_block_mask(causal, B, H, LQ, LK, device="cpu")
    wanted, aux = real.flex_attention(
        *theirs,
        lambda s, b, h, q, k: s - slopes[h] * abs(q - k),
        mask,
        return_aux=real.AuxRequest(lse=True),
    )
    mine = torch.tensor(SLOPES)
    found, sums = flex.flex_attention(
        *tensors(),
        lambda s, b, h, q, k: s - mine[h] * torch.abs(q - k),
        flex.create_block_mask(causal, B, H, LQ, LK),
        return_lse=True,
    )
    np.testing.assert_allclose(found, wanted, atol=2e-6)
    np.testing.assert_allclose(sums, aux.lse, atol=2e-6)


def test_gradients_reach_captured_tensors():
    q, k, v = tensors(requires_grad=True)
    table = torch.tensor(cases.arrays().near.astype("float32"), requires_grad=True)

    def near(score, b, h, q_idx, kv_idx):
        return score + table[h, torch.clamp(kv_idx - q_idx, -3, 3) + 3]

    y = flex.flex_attention(q, k, v, near, flex.create_block_mask(causal, None, None, LQ, LK))
    assert isinstance(y, torch.Tensor)
    assert "FlexAttentionBackward0" in repr(y)
    y.sum().backward()
    x = qkv.tensor(cases.arrays().near, requires_grad=True)
    qkv.scaled_dot_product_attention(
        *cases.inputs(),
        score_mod=lambda s, b, h, i, j: s + x[h, np.clip(j - i, -3, 3) + 3],
        mask_mod=causal,
    ).sum().backward()
    np.testing.assert_allclose(table.grad, x.grad, atol=1e-5)


def test_what_else_it_gives():
    q, k, v = tensors()
    _, aux = flex.flex_attention(q, k, v, return_aux=flex.AuxRequest(lse=True, max_scores=True))
    scores = np.einsum("bhqd,bhkd->bhqk", q.numpy(), k.numpy()) / q.shape[-1] ** 0.5
    np.testing.assert_allclose(aux.max_scores, scores.max(-1), atol=2e-6)
    np.testing.assert_allclose(aux.lse, np.log(np.exp(scores).sum(-1)), atol=2e-6)
    assert flex.flex_attention(q, k, v, return_aux=flex.AuxRequest())[1] == (None, None)
    shared = flex.flex_attention(q, k[:, :1], v[:, :1], enable_gqa=True, scale=0.3)
    wanted = qkv.scaled_dot_product_attention(q, k[:, :1], v[:, :1], enable_gqa=True, scale=0.3)
    np.testing.assert_allclose(shared, wanted, atol=1e-6)
    same = flex.flex_attention(q, k, v, block_mask=flex.create_block_mask(flex.noop_mask, None, None, LQ, LK))
    np.testing.assert_array_equal(same, flex.flex_attention(q, k, v, kernel_options={"BLOCK_M": 64}))


def test_masks_combine():
    both = flex.create_mask(flex.and_masks(causal, lambda b, h, q, k: k > 1), 2, None, 5, 7)
    either = flex.create_mask(flex.or_masks(causal, lambda b, h, q, k: k > 1), 2, None, 5, 7)
    q, k = np.arange(5)[:, None], np.arange(7)
    np.testing.assert_array_equal(both, np.broadcast_to((q >= k) & (k > 1), (2, 1, 5, 7)))
    np.testing.assert_array_equal(either, np.broadcast_to((q >= k) | (k > 1), (2, 1, 5, 7)))


def test_a_long_mask_is_made_by_intervals():
    mask = flex.create_block_mask(lambda b, h, q, k: abs(q - k) < 1000, None, None, 100_000, 100_000)
    assert mask.numel() == 10**10
    assert 97 < mask.sparsity() < 98
    assert mask.to_string().count("\n") == 21


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda q, k, v: flex.flex_attention(q[0], k, v),
            ValueError,
            r"query must be \(B, H, L, D\); got query \(3, 11, 5\)",
        ),
        (
            lambda q, k, v: flex.flex_attention(q, k, v, return_lse=True, return_aux=flex.AuxRequest()),
            ValueError,
            "return_lse must be False",
        ),
        (
            lambda q, k, v: flex.flex_attention(q, k, v, kernel_options=3),
            TypeError,
            "kernel_options must be a dict; got 3",
        ),
        (
            lambda q, k, v: flex.flex_attention(q, k, v, kernel_options={"BLOCK": 3}),
            ValueError,
            "kernel_options must be PyTorch's; got 'BLOCK'",
        ),
        (
            lambda q, k, v: flex.flex_attention(q, k, v, block_mask=causal),
            TypeError,
            "block_mask must be a BlockMask; got function",
        ),
        (
            lambda q, k, v: flex.flex_attention(
                q, k, v, block_mask=flex.create_block_mask(causal, None, None, LQ, LQ)
            ),
            ValueError,
            r"block_mask must be of \(2, 3, 11, 13\) because query and key are; got \(1, 1, 11, 11\)",
        ),
        (
            lambda q, k, v: flex.flex_attention(
                q, k, v, block_mask=flex.create_block_mask(causal, None, None, LQ, LK)[0]
            ),
            ValueError,
            "mask_mod must not raise; got ValueError: a BlockMask that was indexed has no mask_mod",
        ),
        (
            lambda q, k, v: flex.create_block_mask(causal, None, None, 0, LQ),
            ValueError,
            "Q_LEN must be an integer from 1; got 0",
        ),
        (
            lambda q, k, v: flex.create_block_mask(causal, None, None, 5, 5, BLOCK_SIZE=(1, 2, 3)),
            ValueError,
            "BLOCK_SIZE must be a number or",
        ),
        (
            lambda q, k, v: flex.create_block_mask(3, None, None, 5, 5),
            TypeError,
            "mask_mod must be a function; got 3",
        ),
        (
            lambda q, k, v: flex.create_block_mask(lambda b, h, q, k: q, 1, 1, 5, 5),
            TypeError,
            "create_block_mask: mask_mod must return a condition",
        ),
        (
            lambda q, k, v: flex.create_mask(lambda q, k: q, 1, 1, 5, 5),
            TypeError,
            "mod_fn must take .* got a function of 2 arguments",
        ),
        (lambda q, k, v: flex.create_mask(3, 1, 1, 5, 5), TypeError, "mod_fn must be a function; got 3"),
        (
            lambda q, k, v: flex.create_mask(lambda b, h, q, k: q, 1, 1, 5, 5),
            TypeError,
            "create_mask: mod_fn must return a condition",
        ),
    ],
)
def test_refusals(call, kind, text):
    with pytest.raises(kind, match=text):
        call(*tensors())
