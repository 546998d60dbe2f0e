"""Training over ranks of modules of qkv.torch, on whose Tensors ``size`` is a method."""

from __future__ import annotations

from types import SimpleNamespace

import qkv.torch as torch
from qkv.distributed.buckets import Buckets
from qkv.training.zero import Zero


def test_parameters_are_shared_out_and_summed():
    parameters = list(torch.nn.Linear(5, 3).parameters())
    comm = SimpleNamespace(size=2, rank=0)
    owned = Zero()._shared(comm, SimpleNamespace(params=parameters))
    assert [owner for owner, _ in owned] == [0, 1]
    buckets = Buckets(comm, parameters)
    assert [bucket.spans for bucket in buckets._buckets] == [[slice(0, 3), slice(3, 18)]]
