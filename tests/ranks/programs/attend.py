"""Compares attention of split sequences, and all its gradients, with that of one process, in float64."""

import sys

import numpy as np
from mpi4py import MPI

import qkv
from qkv.distributed import arguments, positions
from qkv.distributed import attention as split_attention

COMM = MPI.COMM_WORLD
B, H, HKV, L, D, DV = 2, 6, 3, 23, 5, 7
RNG = np.random.default_rng(0)


def numbers(*shape):
    return RNG.normal(size=shape)


def compare(name, q, k, v, *, tolerance=2e-12, gradients=True, **options):
    """Options with an entry per query or per key are given whole, and cut here."""
    Lq, Lk = q.shape[-2], k.shape[-2]
    causal = options.get("is_causal", False)
    mine_q, mine_k = positions(Lq, COMM, causal), positions(Lk, COMM, causal)
    sinks, mask = options.pop("sinks", None), options.pop("attn_mask", None)

    def tensors(*arrays):
        if not gradients:
            return arrays
        return [
            x if x is None or x.dtype == bool else qkv.tensor(x, dtype=x.dtype, requires_grad=True)
            for x in arrays
        ]

    whole = tensors(q, k, v, mask, sinks)
    cut_mask = mask if mask is None or mask.shape[-2] == 1 else mask[..., mine_q, :]
    part = tensors(q[..., mine_q, :], k[..., mine_k, :], v[..., mine_k, :], cut_mask, sinks)
    local = dict(options)
    lens = options.get("valid_lens")
    if lens is not None and np.ndim(lens) == 2:
        local["valid_lens"] = np.asarray(lens)[:, mine_q]
    keep = options.get("dropout_keep")
    if keep is not None and keep.shape[-2] != 1:
        local["dropout_keep"] = keep[..., mine_q, :]

    has_lse = "normalizer" not in options

    def with_lse(results):
        return results if has_lse else (results, results[..., 0] * 0)

    qkv.manual_seed(5)
    wanted, wanted_lse = with_lse(
        qkv.scaled_dot_product_attention(
            *whole[:3], attn_mask=whole[3], sinks=whole[4], return_lse=has_lse, **options
        )
    )
    state = qkv.random.get_rng_state()
    qkv.manual_seed(
        5 + COMM.rank * (COMM.rank > 0 and options.get("dropout_p", 0) > 0)
    )  # rank 0's draw counts
    found, lse = with_lse(
        split_attention(*part[:3], COMM, attn_mask=part[3], sinks=part[4], return_lse=has_lse, **local)
    )
    if COMM.rank == 0:
        np.testing.assert_array_equal(qkv.random.get_rng_state(), state, err_msg=name)

    def close(a, b, what):
        np.testing.assert_allclose(
            np.asarray(a), np.asarray(b), rtol=tolerance * 10, atol=tolerance, err_msg=f"{name}: {what}"
        )

    close(found, np.asarray(wanted)[..., mine_q, :], "output")
    close(lse, np.asarray(wanted_lse)[..., mine_q], "lse")
    if not gradients:
        assert isinstance(found, np.ndarray)
        assert found.dtype == wanted.dtype
        return
    dout, dlse = numbers(*wanted.shape), numbers(*wanted_lse.shape)
    dlse[~np.isfinite(np.asarray(wanted_lse.detach()))] = 0
    finite = np.isfinite(np.asarray(wanted_lse.detach()))

    def total(out, lse, where):
        rows = qkv.where(finite[..., where], lse, 0.0)
        return (out * dout[..., where, :]).sum() + (rows * dlse[..., where]).sum()

    total(wanted, wanted_lse, np.arange(Lq)).backward()
    total(found, lse, mine_q).backward()
    for x, whole_x, where, what in zip(
        part, whole, (mine_q, mine_k, mine_k), ("query", "key", "value"), strict=False
    ):
        close(x.grad, np.asarray(whole_x.grad)[..., where, :], f"gradient of {what}")
    if mask is not None and mask.dtype != bool:
        wanted_slope = np.asarray(whole[3].grad)
        if mask.shape[-2] != 1:
            close(part[3].grad, wanted_slope[..., mine_q, :], "gradient of attn_mask")
        else:
            close(COMM.allreduce(np.asarray(part[3].grad)), wanted_slope, "gradient of attn_mask")
    if sinks is not None:
        close(COMM.allreduce(np.asarray(part[4].grad)), np.asarray(whole[4].grad), "gradient of sinks")


def steps_of(L, **options):
    """Return the steps of the ring."""
    seen = []
    made = arguments.layout_of
    arguments.layout_of = lambda *given: seen.append(made(*given)) or seen[-1]
    try:
        x = numbers(L, 3)[positions(L, COMM, options.get("is_causal", False))]
        split_attention(x, x, x, COMM, **options)
    finally:
        arguments.layout_of = made
    return seen[0].steps


def main():
    q, k, v = numbers(B, H, L, D), numbers(B, H, L, D), numbers(B, H, L, DV)
    few_k, few_v = k[:, :HKV], v[:, :HKV]
    lens = np.array([L, 4])
    rows_of_lens = RNG.integers(0, L + 1, (B, L))
    N = COMM.size  # one query a rank
    few = RNG.integers(0, N + 1, (B, N))
    compare("one query a rank", *(x[:, :, :N] for x in (q, k, v)), valid_lens=few)
    mask = RNG.random((B, 1, L, L)) < 0.6
    bias = numbers(H, L, L)
    bias[RNG.random(bias.shape) < 0.2] = -np.inf
    slopes = qkv.alibi_slopes(H)
    for causal in (False, True):
        compare("plain", q, k, v, is_causal=causal)
        compare("plain arrays", q, k, v, is_causal=causal, gradients=False)
        compare(
            "float32",
            *(x.astype("float32") for x in (q, k, v)),
            is_causal=causal,
            gradients=False,
            tolerance=2e-6,
        )
        compare("heads share keys", q, few_k, few_v, is_causal=causal, enable_gqa=True)
        compare("lengths", q, k, v, is_causal=causal, valid_lens=lens)
        compare("lengths of queries", q, k, v, is_causal=causal, valid_lens=rows_of_lens)
        compare("boolean mask", q, k, v, is_causal=causal, attn_mask=mask)
        compare("mask of keys", q, k, v, is_causal=causal, attn_mask=mask[:, :, :1])
        compare("bias", q, k, v, is_causal=causal, attn_mask=bias)
        compare("bias of keys", q, k, v, is_causal=causal, attn_mask=numbers(H, 1, L))
        compare("sinks", q, k, v, is_causal=causal, sinks=numbers(H), valid_lens=[0, 7])
        compare("slopes and cap", q, k, v, is_causal=causal, alibi_slopes=slopes, softcap=1.5, scale=-0.7)
        compare("offset", q, k, v, is_causal=causal, q_offset=[-3, 5], window=(4, 2))
        for window in ((3, 2), (0, 0), (-1, 2), (3, -1), (40, 40)):
            compare(f"window {window}", q, k, v, is_causal=causal, window=window)
        compare("filled", q, k, v, is_causal=causal, masked_value=-1e9, valid_lens=[0, 9])
        compare("filled near", q, k, v, is_causal=causal, masked_value=-1.5, attn_mask=mask)
        compare("dropout", q, k, v, is_causal=causal, dropout_p=0.4, valid_lens=lens)
        for normalizer in ("sigmoid", "relu"):
            given = {"is_causal": causal, "normalizer": normalizer}
            compare(normalizer, q, k, v, **given)
            compare(
                f"{normalizer} of some keys", q, few_k, few_v, **given,
                enable_gqa=True, attn_mask=bias, valid_lens=[0, 9], window=(9, 5), dropout_p=0.3,
            )  # fmt: skip
        keep = RNG.random((B, H, L, L)) < 0.5
        compare("dropout given", q, k, v, is_causal=causal, dropout_p=0.4, dropout_keep=keep)
        compare("everything", q, few_k, few_v, is_causal=causal, enable_gqa=True, attn_mask=bias, valid_lens=lens,
                window=(9, 5), softcap=3.0, alibi_slopes=slopes, sinks=numbers(H), dropout_p=0.3, scale=0.6,
                q_offset=1)  # fmt: skip
        compare(
            "three axes", q[:, 0], k[:, 0], v[:, 0], is_causal=causal, attn_mask=mask[:, 0], valid_lens=lens
        )
        compare("two axes", q[0, 0], k[0, 0], v[0, 0], is_causal=causal, valid_lens=4)
        shorter = k[:, :, :11], v[:, :, :11]
        compare("fewer keys", q, *shorter, is_causal=causal)
        compare("fewer queries", q[:, :, :11], k, v, is_causal=causal)
        compare("short", *(x[:, :, : COMM.size] for x in (q, k, v)), is_causal=causal)
    compare("lower right", q[:, :, :11], k, v, is_causal="lower_right")
    compare(
        "lower right, fewer keys", q, k[:, :, :11], v[:, :, :11], is_causal="lower_right", sinks=numbers(H)
    )
    compare("nobody", q, k, v, valid_lens=[0, 0])

    # What is excluded is not read, on whichever rank it lies.
    broken = v.copy()
    broken[0, :, 4:] = np.nan
    compare("NaN behind the lengths", q, k, broken, valid_lens=[4, L], gradients=False)
    assert np.isnan(
        split_attention(*(np.full((COMM.size, 3), np.nan)[positions(COMM.size, COMM)],) * 3, COMM)
    ).all()

    if COMM.size > 1:  # windows leave out whole steps
        ranks = COMM.size
        assert steps_of(64) == list(range(ranks))
        assert steps_of(64, window=(2, 2)) == sorted({0, 1, ranks - 1})
        assert steps_of(64, window=(0, 0)) == [0]
        assert steps_of(64, is_causal=True) == list(range(ranks))
        assert steps_of(64, is_causal=True, window=(0, 0)) == [0]
    if COMM.rank == 0:
        print("done")


if __name__ == "__main__":
    sys.exit(main())
