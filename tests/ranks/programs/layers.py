"""Layers and a language model on split sequences equal those on whole ones; writes the curve of a short training.

layers.py FILE
"""

import copy
import pickle
import sys

import numpy as np
import pytest

import qkv
from qkv import distributed, look, models, nn, optim, training

L, VOCABULARY = 29, 11


def communicator():
    if not distributed.environment.launched():
        return None
    from mpi4py import MPI

    return MPI.COMM_WORLD


def summed(comm, module):
    """Return the gradients of all ranks together."""
    found = {name: np.asarray(p.grad) for name, p in module.named_parameters()}
    return {name: comm.allreduce(slope) for name, slope in found.items()} if comm is not None else found


def check_looking(comm, whole, split, x, mine):
    """A rank sees its own rows of everything but scores and weights, whose rows no rank has."""
    points = ("queries", "keys", "values", "heads", "output")
    with look.change(whole, {"heads": np.tanh}):
        wanted = look.record(whole, x, keep=points)
    with look.change(split, {"heads": np.tanh}):
        found = look.record(split, x[:, mine], keep=points)
    for point in points:
        np.testing.assert_allclose(found[point], wanted[point][..., mine, :], rtol=1e-11, atol=1e-12)
    if comm is None or comm.size == 1:
        return
    for call in (
        lambda: look.record(split, x[:, mine]),
        lambda: look.measures(split, x[:, mine]),
        lambda: look.record(split, x[:, mine], keep="scores"),
    ):
        with pytest.raises(
            ValueError, match=r"(weights|scores) must not be recorded or changed because comm splits"
        ):
            call()
    with look.change(split, {"weights": np.tanh}), pytest.raises(ValueError, match="weights must not be"):
        split(x[:, mine])


def check_layer(comm, **options):
    causal = options.get("is_causal", False)
    qkv.manual_seed(1)
    whole = nn.MultiHeadAttention(16, 4, **options).to("float64")
    split = nn.MultiHeadAttention(16, 4, comm=comm, **options).to("float64")
    split.load_state_dict(whole.state_dict())
    assert split.comm is comm
    mine = distributed.positions(L, comm, causal)
    x = qkv.randn(2, L, 16, dtype="float64")
    mask = qkv.rand(2, L, L) < 0.7
    wanted = whole(x, valid_lens=[L, 5], attn_mask=mask)
    found = split(x[:, mine], valid_lens=[L, 5], attn_mask=mask[:, mine])
    np.testing.assert_allclose(found, np.asarray(wanted)[:, mine], rtol=1e-11, atol=1e-12)
    if comm is not None:
        assert split.attention_weights is None or comm.size == 1
    check_looking(comm, whole, split, x, mine)
    (wanted * wanted).sum().backward()
    (found * found).sum().backward()
    slopes = summed(comm, split)
    for name, parameter in whole.named_parameters():
        np.testing.assert_allclose(slopes[name], parameter.grad, rtol=1e-10, atol=1e-11, err_msg=name)
    if comm is not None:
        apart = comm.Dup()
        split.comm = apart
        assert copy.deepcopy(split).comm is apart
        split.comm = comm
        for copied in (copy.deepcopy(split), pickle.loads(pickle.dumps(split))):
            assert copied.comm == comm
            np.testing.assert_array_equal(copied(x[:, mine]), split(x[:, mine]))
    split.comm = None
    np.testing.assert_array_equal(split(x), whole(x))


def curve(comm):
    qkv.manual_seed(2)
    ids = np.cumsum(qkv.randint(1, 3, (16, L + 1)), axis=1) % VOCABULARY
    model = models.CausalLM(VOCABULARY, 16, 4, 2, num_kv_heads=2, comm=comm).to("float64")
    mine = distributed.positions(L, comm, is_causal=True)

    def loss(model, batch):
        inputs, targets = batch
        return training.token_loss(model(inputs), targets)

    def parts(batch, rank=0, size=1):
        return batch[:, mine], batch[:, mine + 1]

    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    options = {"comm": comm, "split": parts} if comm is not None else {}
    trainer = training.Trainer(model, optimizer, loss, max_grad_norm=1.0, **options)
    batches = [ids[:8], ids[8:]] if comm is not None else [parts(ids[:8]), parts(ids[8:])]
    return trainer.fit(batches, steps=12, progress=False)


def check_generation(comm):
    found = []
    for given in (None, comm):
        qkv.manual_seed(4)
        model = models.CausalLM(VOCABULARY, 16, 4, 2, comm=given)
        found.append(model.eval().generate(np.array([[1, 2, 3]]), max_len=6))
    assert repr(found[0]) == repr(found[1]), found


def main(file):
    comm = communicator()
    check_generation(comm)
    check_layer(comm)
    check_layer(comm, is_causal=True, rotary_base=100.0, num_kv_heads=2, window=(7, 0))
    check_layer(comm, sinks=True, qk_norm="rms", softcap=3.0, alibi=True, scale=0.7)
    check_layer(comm, normalizer="sigmoid")
    history = curve(comm)
    if distributed.is_main():
        np.savez(file, **history.arrays())


if __name__ == "__main__":
    main(sys.argv[1])
