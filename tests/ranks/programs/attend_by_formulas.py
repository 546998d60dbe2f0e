"""Compares formulas of split sequences, and gradients of what they capture, with those of one process, in float64."""

import numpy as np
import pytest
from attend import COMM, B, H, L, compare, numbers
from attend import D as FEATURES

import qkv
from qkv.masks import formulas

SLOPES = np.array([0.5, 0.3, 0.2, 0.1, 0.05, 0.7])
DOCUMENTS = np.sort(np.random.default_rng(1).integers(0, 3, (B, L + 3)))


def alibi(score, b, h, q_idx, kv_idx):
    return 1.3 * np.tanh(score / 1.3) - SLOPES[h] * abs(q_idx - kv_idx)


def captured(causal):
    """Tables and slopes that take a gradient: what each rank's queries contribute adds up."""
    table, slopes = np.random.default_rng(2).standard_normal((H, 9)), SLOPES.copy()
    q, k, v = (np.random.default_rng(3).standard_normal((B, H, L, FEATURES)) for _ in range(3))
    gradients = []
    for comm in (None, COMM):
        mine = qkv.distributed.positions(L, comm, causal)
        own = [array[:, :, mine] for array in (q, k, v)]
        x, steps = (qkv.tensor(array, requires_grad=True) for array in (table, slopes))

        def near(score, b, h, i, j, x=x):
            return score * x[h, np.clip(j - i, -4, 4) + 4]

        with_table = qkv.distributed.attention(
            *own, comm, is_causal=causal, score_mod=near, alibi_slopes=steps
        )
        y = with_table + qkv.distributed.attention(*own, comm, is_causal=causal, alibi_slopes=steps)
        (y * np.arange(L)[mine, None]).sum().backward()
        gradients.append(np.concatenate([np.asarray(x.grad), np.asarray(steps.grad)[:, None]], 1))
    np.testing.assert_allclose(COMM.allreduce(gradients[1]), gradients[0], rtol=1e-9, atol=1e-11)


def refusals():
    x = numbers(1, 1, L, 2)[:, :, qkv.distributed.positions(L, COMM)]
    name = "attention" if COMM.size > 1 else "scaled_dot_product_attention"  # which one rank's call is
    with pytest.raises(TypeError, match=f"^{name}: score_mod must not decide by a traced value"):
        qkv.distributed.attention(x, x, x, COMM, score_mod=lambda s, b, h, i, j: s if s > 0 else -s)


def main():
    q, k, v = numbers(B, H, L, FEATURES), numbers(B, H, L, FEATURES), numbers(B, H, L, FEATURES)
    bias = numbers(H, L, L)
    bias[bias > 1.5] = -np.inf
    lens = np.array([L, 4])
    both = {"score_mod": alibi, "mask_mod": formulas.documents(DOCUMENTS)}
    for causal in (False, True):
        compare("score_mod", q, k, v, is_causal=causal, score_mod=alibi)
        compare("mask_mod", q, k, v, is_causal=causal, mask_mod=formulas.strided(4))
        compare("by relu", q, k, v, is_causal=causal, score_mod=alibi, normalizer="relu")
        compare("a window by its formula", q, k, v, is_causal=causal, mask_mod=formulas.sliding_window(4, 2))
        compare("both", q, k, v, is_causal=causal, valid_lens=lens, **both)
        compare("both and a bias", q, k, v, is_causal=causal, attn_mask=bias, window=(9, 3), **both)
        compare("both, moved", q, k, v, is_causal=causal, q_offset=3, **both)
        compare("both and sinks", q, k, v, is_causal=causal, sinks=numbers(H), **both)
        compare("both and dropout", q, k, v, is_causal=causal, dropout_p=0.4, **both)
        compare("both, filled", q, k, v, is_causal=causal, masked_value=-2.0, **both)
        compare("both, arrays", q, k, v, is_causal=causal, gradients=False, **both)
        compare("both, shared keys", q, k[:, :3], v[:, :3], is_causal=causal, enable_gqa=True, **both)
        captured(causal)
    refusals()
    if COMM.rank == 0:
        print("done")


if __name__ == "__main__":
    main()
