"""Scaled dot-product attention against PyTorch's: ``python benchmarks/attention.py [repeats] [threads ...]``.

Both run on the same float32 numbers, in turn in one process. The column "of sgemm" compares the rate of qkv
with that of a 1024 x 1024 x 1024 product through OpenBLAS in the same turns. Unset OPENBLAS_CORETYPE and
OPENBLAS_L2_SIZE before, or that product runs at the rate of another CPU; attention does not depend on them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from common import interleave, machine, table

import qkv

# (B, H, Lq, Lk, D) and what the options are called in qkv and in PyTorch
FULL: dict[str, Any] = {}
CAUSAL = {"is_causal": True}
CASES = [
    ((1, 8, 1024, 1024, 64), FULL),
    ((1, 8, 1024, 1024, 64), CAUSAL),
    ((1, 8, 2048, 2048, 64), FULL),
    ((1, 8, 1024, 1024, 128), FULL),
    ((8, 12, 128, 128, 32), FULL),
    ((1, 12, 8, 8, 32), FULL),
    ((32, 12, 64, 64, 64), FULL),
    ((1, 32, 1, 2048, 64), FULL),
]
PRODUCT = 1024


def flops(shape: tuple[int, ...], options: dict[str, Any], backward: bool) -> float:
    batch, heads, queries, keys, size = shape
    allowed = queries * keys / (2 if options else 1)
    return (14.0 if backward else 4.0) * batch * heads * allowed * size


def functions(
    shape: tuple[int, ...], options: dict[str, Any], backward: bool
) -> dict[str, Callable[[], Any]]:
    """Give PyTorch's call, ours, and the product to measure both by."""
    batch, heads, queries, keys, size = shape
    random = np.random.default_rng(0)
    arrays = [
        random.standard_normal((batch, heads, n, size)).astype("float32") for n in (queries, keys, keys)
    ]
    theirs = torch.nn.functional.scaled_dot_product_attention
    ours = qkv.scaled_dot_product_attention
    square = random.standard_normal((PRODUCT, PRODUCT)).astype("float32")
    matrix = qkv.tensor(square)
    their_tensors = [torch.tensor(x, requires_grad=backward) for x in arrays]
    our_tensors = [qkv.tensor(x, requires_grad=backward) for x in arrays]
    gradient = random.standard_normal((batch, heads, queries, size)).astype("float32")
    their_gradient = torch.from_numpy(gradient)
    with torch.no_grad():
        np.testing.assert_allclose(
            ours(*arrays, **options), theirs(*their_tensors, **options).numpy(), rtol=1e-4, atol=1e-5
        )

    def run_torch() -> None:
        output = theirs(*their_tensors, **options)
        if backward:
            output.backward(their_gradient)

    def run_qkv() -> None:
        output = ours(*our_tensors, **options)
        if backward:
            output.backward(gradient)

    return {"PyTorch": run_torch, "qkv": run_qkv, "sgemm": lambda: qkv.matmul(matrix, matrix)}


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    thread_counts = [int(n) for n in sys.argv[2:]] or [1, 2]
    print("# Scaled dot-product attention, float32\n")
    print(machine() + f"\n- median (quartiles) of {repeats} interleaved repeats, in ms\n")
    rows = []
    for threads in thread_counts:
        torch.set_num_threads(threads)
        qkv.set_num_threads(threads)
        for backward in (False, True):
            for shape, options in CASES:
                times = interleave(functions(shape, options, backward), repeats)
                rate = flops(shape, options, backward) / times["qkv"].median / 1e6
                product = 2.0 * PRODUCT**3 / times["sgemm"].median / 1e6
                rows.append(
                    [
                        threads,
                        "forward + backward" if backward else "forward",
                        shape,
                        "causal" if options else "full",
                        times["PyTorch"],
                        times["qkv"],
                        f"{times['PyTorch'].median / times['qkv'].median:.2f}",
                        f"{rate:.0f}",
                        f"{rate / product:.0%}",
                    ]
                )
    header = [
        "threads",
        "pass",
        "(B, H, Lq, Lk, D)",
        "mask",
        "PyTorch",
        "qkv",
        "ratio",
        "GFLOP/s",
        "of sgemm",
    ]
    print(table(header, rows))


if __name__ == "__main__":
    main()
