"""scaled_dot_product_attention: excluded content, empty and odd "
"sizes, kinds of arrays, masks of every rank."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import close, gradients, layouts
from sweep import sweep

import qkv
from qkv import reference

attention = qkv.scaled_dot_product_attention
B, H, LQ, LK, D, DV = 2, 3, 5, 7, 11, 13
RNG = np.random.default_rng(21)
Q, K, V = (RNG.standard_normal(s) for s in ((B, H, LQ, D), (B, H, LK, D), (B, H, LK, DV)))
INF = np.inf
ALLOWED = np.arange(LK) < 4  # what each exclusion of this table leaves
EXCLUSIONS = {
    "lengths": {"valid_lens": [4, 4]},
    "lengths per query": {"valid_lens": np.full((B, LQ), 4)},
    "boolean": {"attn_mask": ALLOWED},
    "boolean, full": {"attn_mask": np.broadcast_to(ALLOWED, (B, H, LQ, LK))},
    "float": {"attn_mask": np.where(ALLOWED, 0.0, -INF)},
    "causal": {"is_causal": True, "q_offset": 3 - LQ + 1},
    "window": {"window": (-1, 0), "q_offset": 3 - LQ + 1},
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bad", [np.nan, INF, -INF])
@sweep("name", EXCLUSIONS)
def test_excluded_keys_and_values_reach_nothing(name, bad, dtype):
    k, v = K.copy(), V.copy()
    k[:, :, 4:], v[:, :, 4:] = bad, bad

    def f(q, k, v):
        output, weights, lse = attention(q, k, v, **EXCLUSIONS[name], return_weights=True, return_lse=True)
        finite = qkv.where(np.isinf(lse.numpy()), 0.0, lse)
        return output.sum(axis=-1, keepdims=True) + weights.sum(axis=-1, keepdims=True) + finite[..., None]

    clean = gradients(f, *(a.astype(dtype) for a in (Q, K, V)))
    dirty = gradients(f, *(a.astype(dtype) for a in (Q, k, v)))
    for a, b in zip(dirty, clean, strict=True):
        assert np.isfinite(a).all()
        assert a.tobytes() == b.tobytes()
    assert (dirty[2][:, :, 4:] == 0).all()
    assert (dirty[3][:, :, 4:] == 0).all()


@pytest.mark.parametrize(
    "options", [{}, {"softcap": 2.0}, {"sinks": np.zeros(H)}, {"alibi_slopes": np.ones(H)}]
)
@pytest.mark.parametrize(
    "empty",
    [{"valid_lens": [0, 5]}, {"attn_mask": np.zeros((1, 1), bool)}, {"attn_mask": np.full((LQ, LK), -INF)},
     {"is_causal": True, "q_offset": -3}, {"window": (0, 0), "q_offset": 100}],
)  # fmt: skip
def test_rows_without_any_key_are_zeros_with_zero_gradients(empty, options):
    output, weights, lse = attention(Q, K, V, **empty, **options, return_weights=True, return_lse=True)
    nothing = (weights == 0).all(-1)
    assert nothing.any()
    assert (output[nothing] == 0).all()
    close(lse[nothing], np.full(nothing.sum(), 0.0 if "sinks" in options else -INF))
    out, *slopes = gradients(lambda q, k, v: attention(q, k, v, **empty, **options), Q, K, V)
    close(out, output)
    assert all(np.isfinite(s).all() for s in slopes)
    assert (slopes[0][nothing] == 0).all()
    expected = reference.scaled_dot_product_attention(Q, K, V, **empty, **options)
    close(output, expected)


def test_a_filled_row_without_any_key_is_uniform():
    output, weights = attention(Q, K, V, valid_lens=[0, LK], masked_value=-1e9, return_weights=True)
    close(weights[0], np.full((H, LQ, LK), 1 / LK))
    close(output[0], np.broadcast_to(V[0].mean(-2, keepdims=True), (H, LQ, DV)))


@pytest.mark.parametrize(
    "sizes", [(2, 3, 5, 1, 7, 11), (2, 3, 5, 7, 1, 1), (0, 3, 5, 7, 11, 13), (2, 3, 0, 7, 11, 13),
              (2, 0, 5, 7, 11, 13), (2, 3, 5, 0, 11, 13), (2, 3, 5, 7, 11, 0), (2, 3, 5, 7, 0, 11)],
)  # fmt: skip
def test_sizes_of_one_and_none(sizes):
    b, h, lq, lk, d, dv = sizes
    arrays = [RNG.standard_normal(s) for s in ((b, h, lq, d), (b, h, lk, d), (b, h, lk, dv))]
    output, weights, lse = attention(*arrays, scale=0.5, return_weights=True, return_lse=True)
    assert (output.shape, weights.shape, lse.shape) == ((b, h, lq, dv), (b, h, lq, lk), (b, h, lq))
    if min(b, h, lq) > 0:
        expected = reference.scaled_dot_product_attention(*arrays, scale=0.5, return_weights=True)
        close(output, expected[0])
        close(weights, expected[1])
    _, *slopes = gradients(lambda q, k, v: attention(q, k, v, scale=0.5), *arrays)
    assert [s.shape for s in slopes] == [a.shape for a in arrays]
    assert all(np.isfinite(s).all() for s in slopes)


def test_any_layout_gives_the_same_bits_and_is_not_written_to():
    expected = attention(Q, K, V, is_causal=True)
    for q, k, v in zip(layouts(Q), layouts(K), layouts(V), strict=True):
        before = q.tobytes(), k.tobytes(), v.tobytes()
        assert attention(q, k, v, is_causal=True).tobytes() == expected.tobytes()
        assert before == (q.tobytes(), k.tobytes(), v.tobytes())
    swapped = np.ascontiguousarray(Q.swapaxes(1, 2)).swapaxes(1, 2)
    assert attention(swapped, K, V, is_causal=True).tobytes() == expected.tobytes()
    mask = RNG.random((LQ, LK)) < 0.7
    with_mask = attention(Q, K, V, mask)
    for m in layouts(mask):
        assert attention(Q, K, V, m).tobytes() == with_mask.tobytes()
    one = np.broadcast_to(Q[:1, :1], Q.shape)
    assert attention(one, K, V).tobytes() == attention(one.copy(), K, V).tobytes()


def test_half_width_comes_back_in_its_own_type():
    q, k, v = (a.astype("float16") for a in (Q, K, V))
    output, weights, lse = attention(q, k, v, return_weights=True, return_lse=True)
    assert (output.dtype, weights.dtype, lse.dtype) == ("float16", "float16", "float32")
    expected = reference.scaled_dot_product_attention(q, k, v, return_weights=True, return_lse=True)
    close(output, expected[0], "float16")
    close(weights, expected[1], "float16")
    close(lse, expected[2], "float32")
    assert attention(q, k, V.astype("float32")).dtype == "float32"
    assert attention(q, k, v, np.zeros((LQ, LK))).dtype == "float16", "the mask has no say"
    assert attention(q, k, v, sinks=np.zeros(H), alibi_slopes=np.ones(H)).dtype == "float16", "nor do these"


def test_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    q, k, v = (a.astype(ml_dtypes.bfloat16) for a in (Q, K, V))
    output, lse = attention(q, k, v, return_lse=True)
    assert output.dtype == ml_dtypes.bfloat16
    assert lse.dtype == "float32"
    close(output.astype("float64"), attention(*(a.astype("float64") for a in (q, k, v))), "bfloat16")


def test_mixed_widths_promote():
    assert attention(Q.astype("float32"), K, V).dtype == "float64"
    assert attention(Q.astype("float32"), K.astype("float32"), V.astype("float32")).dtype == "float32"


def test_tensors_give_tensors_and_lists_count_as_float32():
    output = attention(qkv.tensor(Q), K, V)
    assert isinstance(output, qkv.Tensor)
    assert not output.requires_grad
    close(output, attention(Q, K, V))
    both = attention(Q, K, V, sinks=qkv.tensor([0.0, 1.0, 2.0]), return_weights=True)
    assert isinstance(both, tuple)
    assert all(isinstance(x, qkv.Tensor) for x in both)
    lists = attention([[1, 2]], [[3, 4], [5, 6]], [[1], [2]], valid_lens=2)
    assert lists.dtype == "float32"
    close(lists, reference.scaled_dot_product_attention([[1, 2]], [[3, 4], [5, 6]], [[1], [2]]), "float32")
    integers = attention(np.array([[1, 2]]), np.array([[3, 4], [5, 6]]), np.array([[1], [2]]))
    assert integers.dtype == "float32"
    for kind in ("int8", "uint16", "int64", "uint64"):
        close(attention(Q, K, V, valid_lens=np.array([3, 6], kind)), attention(Q, K, V, valid_lens=[3, 6]))


def test_masks_beside_each_rank():
    """B == H == Lq == Lk, where only the rule decides which axis a mask means."""
    n = 5
    q, k, v = (np.random.default_rng(i).standard_normal((n, n, n, n)) for i in range(3))
    for kind in ("boolean", "float"):
        for shape in ((n,), (n, n), (n, n, n), (n, 1, n, n), (1, n, n, n), (n, n, n, n)):
            draw = np.random.default_rng(len(shape)).standard_normal(shape)
            mask = draw < 0.6 if kind == "boolean" else draw
            full = np.broadcast_to(mask, (n, n, n, n)).copy()  # NumPy's rules; rank 3 is (H, Lq, Lk)
            close(attention(q, k, v, mask), attention(q, k, v, full))
    mask = np.random.default_rng(9).random((n, n, n)) < 0.6
    per_head = attention(q, k, v, mask)
    per_batch = attention(q, k, v, mask[:, None])
    for b in range(n):
        for h in range(n):
            close(per_head[b, h], attention(q[b, h], k[b, h], v[b, h], mask[h]))
            close(per_batch[b, h], attention(q[b, h], k[b, h], v[b, h], mask[b]))
    for b in range(n):  # beside rank 3 a mask of rank 3 is one per batch entry
        close(attention(q[0], k[0], v[0], mask)[b], attention(q[0, b], k[0, b], v[0, b], mask[b]))
        close(attention(q[0], k[0], v[0], mask[0])[b], attention(q[0, b], k[0, b], v[0, b], mask[0]))


def test_lengths_beside_each_rank():
    n = 5
    q, k, v = (np.random.default_rng(i).standard_normal((n, n, n, n)) for i in range(3))
    lens = np.array([1, 5, 0, 2, 4])
    per_query = np.random.default_rng(4).integers(0, n + 1, (n, n))
    one, two = attention(q, k, v, valid_lens=lens), attention(q, k, v, valid_lens=per_query)
    for b in range(n):
        for h in range(n):
            close(one[b, h], attention(q[b, h], k[b, h], v[b, h], valid_lens=int(lens[b])))
            rows = np.arange(n) < per_query[b][:, None]
            close(two[b, h], attention(q[b, h], k[b, h], v[b, h], rows))
    close(attention(q[0], k[0], v[0], valid_lens=lens)[3], attention(q[0, 3], k[0, 3], v[0, 3], valid_lens=2))


def test_large_scores_do_not_overflow():
    q, k = Q * 1e4, K * 1e4
    for dtype in ("float32", "float64"):
        given = [a.astype(dtype) for a in (q, k, V)]
        output, weights = attention(*given, return_weights=True)
        close(weights.sum(-1), np.ones((B, H, LQ)), dtype)
        np.testing.assert_allclose(output, reference.scaled_dot_product_attention(*given), 1e-3, 1e-3)


def test_keys_and_values_permute_together():
    order = np.random.default_rng(2).permutation(LK)
    close(attention(Q, K[:, :, order], V[:, :, order]), attention(Q, K, V))
