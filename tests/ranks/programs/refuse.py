"""Wrong arguments, on all ranks or on one: every rank gets the error that names the rank, and none waits."""

import re
import sys

import numpy as np
import pytest
from mpi4py import MPI

import qkv
from qkv import nn, optim, training
from qkv.distributed import attention, positions

COMM = MPI.COMM_WORLD
RANK, RANKS = COMM.rank, COMM.size


def refused(kind, text, call):
    with pytest.raises(kind, match=re.escape(text)):
        call()


def trainer(model=None, *, optimizer=optim.SGD, lr=0.1, loss=None, **options):
    model = model or nn.Linear(3, 1)
    loss = loss or (
        lambda model, rows: (qkv.losses.mse(model(rows), rows[:, :1], reduction="sum"), len(rows))
    )
    return training.Trainer(model, optimizer(model.parameters(), lr=lr), loss, comm=COMM, **options)


def main():
    rows = [np.ones((6, 3), "float32")]
    last = RANK == RANKS - 1
    name = f"on rank {RANKS - 1}"

    def fit(trainer, steps=2, batches=rows):
        trainer.fit(batches, steps=steps, progress=False)

    refused(ValueError, name, lambda: fit(trainer(nn.Linear(3, 1, bias=not last))))
    refused(ValueError, name, lambda: fit(trainer(optimizer=optim.Adam if last else optim.SGD)))
    refused(ValueError, name, lambda: fit(trainer(lr=0.2 if last else 0.1)))

    def grouped(params, lr):
        return optim.SGD([{"params": params[:1]}, {"params": params[1:], "lr": 0.2 if last else 0.1}], lr=lr)

    refused(ValueError, name, lambda: fit(trainer(optimizer=grouped)))
    refused(
        ValueError, "accumulate must be equal on all ranks", lambda: fit(trainer(accumulate=2 if last else 1))
    )
    refused(ValueError, "steps must be equal on all ranks", lambda: fit(trainer(), steps=3 if last else 2))
    refused(
        ValueError, "max_grad_norm must be equal", lambda: fit(trainer(max_grad_norm=1.0 if last else None))
    )

    q = qkv.randn(2, 5, 4)
    refused(
        ValueError,
        "dtype must be equal on all ranks",
        lambda: attention(*(q.astype("float64" if last else "float32"),) * 3, COMM),
    )
    refused(ValueError, "is_causal must be equal", lambda: attention(q, q, q, COMM, is_causal=last))
    refused(ValueError, "scale must be equal", lambda: attention(q, q, q, COMM, scale=0.5 if last else None))
    refused(
        ValueError, "valid_lens must be equal", lambda: attention(q, q, q, COMM, valid_lens=[3, 3 + last])
    )
    refused(
        ValueError,
        "sizes (B, H, Hkv, D, Dv) must be equal",
        lambda: attention(q[: 1 + (not last)], *(q[: 1 + (not last)],) * 2, COMM),
    )
    more = qkv.randn(2, 5 + 2 * last, 4)
    refused(ValueError, "query of rank", lambda: attention(more, more, more, COMM))
    wrong = qkv.randn(2, 5, 4 + last)
    refused(ValueError, "(B, H, Lk, D)", lambda: attention(q, wrong, q, COMM))
    refused(
        TypeError,
        "attn_mask must be boolean",
        lambda: attention(q, q, q, COMM, attn_mask=np.ones(5, int) if last else None),
    )
    refused(ValueError, "softcap must be", lambda: attention(q, q, q, COMM, softcap=-1.0 if last else 0.0))
    refused(
        ValueError,
        "keys of all ranks; got 5 keys",
        lambda: attention(q, q, q, COMM, attn_mask=np.ones((5, 5), bool)),
    )
    refused(
        ValueError,
        f"valid_lens must be from 0 to Lk = {5 * RANKS}",
        lambda: attention(q, q, q, COMM, valid_lens=[99, 1]),
    )
    refused(ValueError, "valid_lens must be (B,)", lambda: attention(q, q, q, COMM, valid_lens=[-1, 1]))
    refused(TypeError, "valid_lens must be integers", lambda: attention(q, q, q, COMM, valid_lens=[1.5, 1]))
    refused(ValueError, "return_weights must be False", lambda: attention(q, q, q, COMM, return_weights=True))
    refused(
        ValueError,
        "enable_gqa is False",
        lambda: attention(q[:, None][:, [0, 0]], q[:, None], q[:, None], COMM),
    )
    refused(ValueError, "normalizer must be equal", lambda: attention(
        q, q, q, COMM, normalizer="relu" if last else "sigmoid"))  # fmt: skip
    refused(ValueError, 'because no rank has whole rows of scores; got "entmax15"', lambda: attention(
        q, q, q, COMM, normalizer="entmax15" if last else "softmax"))  # fmt: skip
    refused(ValueError, "return_lse must be False because only softmax", lambda: attention(
        q, q, q, COMM, normalizer="relu", return_lse=True))  # fmt: skip
    refused(ValueError, "sinks must be None because they belong", lambda: attention(
        q, q, q, COMM, normalizer="relu", sinks=np.ones(1)))  # fmt: skip
    refused(ValueError, "sinks must be (H,)", lambda: attention(q, q, q, COMM, sinks=np.ones(3)))
    refused(
        ValueError,
        "attn_mask must broadcast",
        lambda: attention(q, q, q, COMM, attn_mask=np.ones((3, 5 * RANKS), bool)),
    )
    refused(
        ValueError,
        "at most the 3 axes",
        lambda: attention(q, q, q, COMM, attn_mask=np.ones((1, 1, 5, 5 * RANKS), bool)),
    )
    refused(
        ValueError,
        "at least one position on each rank",
        lambda: attention(q[:, : RANK < 1], q[:, : RANK < 1], q[:, : RANK < 1], COMM),
    )
    refused(ValueError, "L must be at least the number of ranks", lambda: positions(RANKS - 1, COMM))
    refused(TypeError, "L must be an integer", lambda: positions(2.5, COMM))
    for wrong_comm in ("world", 3, MPI):
        refused(
            TypeError, "comm must be an MPI communicator", lambda comm=wrong_comm: attention(q, q, q, comm)
        )
        refused(
            TypeError,
            "Trainer: comm must be an MPI communicator",
            lambda comm=wrong_comm: training.Trainer(None, None, None, comm=comm),
        )
        refused(
            TypeError,
            "MultiHeadAttention: comm must be",
            lambda comm=wrong_comm: nn.MultiHeadAttention(4, 2, comm=comm),
        )
    refused(ValueError, "got COMM_NULL", lambda: attention(q, q, q, MPI.COMM_NULL))
    layer = nn.MultiHeadAttention(4, 2, comm=COMM)
    refused(ValueError, "cache must not be given because comm", lambda: layer(q, cache=nn.KVCache()))
    layer = nn.MultiHeadAttention(4, 2, comm=COMM, relative_bias={})
    refused(ValueError, "relative_bias must be None because comm", lambda: layer(q))
    t = qkv.tensor(q, requires_grad=True)
    out = attention(t, t, t, COMM)
    refused(RuntimeError, "no second derivative", lambda: qkv.grad(out.sum(), t, create_graph=True))
    t.copy_(t * 2)
    refused(RuntimeError, "was changed", lambda: out.sum().backward())
    COMM.Barrier()
    if RANK == 0:
        print("done")


if __name__ == "__main__":
    sys.exit(main())
