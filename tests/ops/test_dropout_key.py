"""A key of dropout repeats its draw."""

from __future__ import annotations

import numpy as np
import pytest
from attention_call import attend

import qkv
from qkv import _core

B, H, LQ, LK, D, DV = 2, 3, 31, 37, 8, 5
RNG = np.random.default_rng(5)
ARRAYS = [
    RNG.standard_normal(size).astype("float32") for size in ((B, H, LQ, D), (B, H, LK, D), (B, H, LK, DV))
]
SLOPE = RNG.standard_normal(H).astype("float32")


def leaves(arrays=ARRAYS):
    return [qkv.tensor(x, requires_grad=True) for x in arrays]


def total(ys):
    return sum((y * np.cos(np.arange(y.size, dtype=y.dtype)).reshape(y.shape)).sum() for y in ys)


def test_a_key_repeats_the_draw_of_both_passes():
    options = {"dropout_p": 0.5, "dropout_key": 7}
    inputs = leaves()
    ys, again = attend(*inputs, **options), attend(*inputs, **options)
    np.testing.assert_array_equal(ys[0].numpy(), again[0].numpy())
    assert np.any(attend(*inputs, dropout_p=0.5, dropout_key=8)[0].numpy() != ys[0].numpy())
    for a, b in zip(qkv.grad(total(ys), inputs), qkv.grad(total(again), inputs), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    by_stream = attend(*ARRAYS, **options)[0]
    np.testing.assert_array_equal(by_stream, ys[0].numpy())


def test_a_key_repeats_the_draw_of_additive_attention():
    q, k, v = (qkv.tensor(x[:, 0, :, :5], requires_grad=True) for x in ARRAYS)
    rest = SLOPE[[0, 1, 2, 0, 1]], None, None, 0.5, None, None, True

    def both(key):
        y = _core.additive_attention(q, k, v, *rest, dropout_key=key)[0]
        return [y.numpy(), *(g.numpy() for g in qkv.grad(total([y]), [q, k, v]))]

    for a, b in zip(both(7), both(7), strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.any(both(7)[0] != both(8)[0])


def test_a_key_leaves_the_generator_where_it_is():
    qkv.manual_seed(3)
    before = qkv.rand(5)
    qkv.manual_seed(3)
    attend(*ARRAYS, dropout_p=0.5, dropout_key=7)
    np.testing.assert_array_equal(qkv.rand(5), before)


@pytest.mark.parametrize("key", [-1, 2**64, 1.0, "7"])
def test_a_key_is_a_number_of_64_bits(key):
    message = r"^scaled_dot_product_attention: dropout_key must be an integer from 0 to 2\*\*64 - 1; got "
    with pytest.raises(ValueError, match=message):
        attend(*ARRAYS, dropout_p=0.5, dropout_key=key)


def test_pieces_take_no_key():
    rows, cuts = [np.ones((3, 2, 4), "float32")] * 3, np.array([0, 3])
    message = r"^scaled_dot_product_attention: dropout_key must be None beside cu_seqlens_q; got one$"
    with pytest.raises(ValueError, match=message):
        attend(*rows, cu_seqlens_q=cuts, cu_seqlens_k=cuts, dropout_p=0.5, dropout_key=7)
