"""Functions that the book's text takes from d2l where PyTorch has them, most of them by the same names."""

from __future__ import annotations

from ... import torch

_FUNCTIONS = """abs arange cos cosh exp eye float32 int32 int64 linspace log matmul normal ones ones_like rand randn
sigmoid sin sinh stack tanh tensor zeros zeros_like batch_matmul:bmm concat:cat"""
_METHODS = """argmax repeat reshape swapaxes to astype:type expand_dims:unsqueeze reduce_mean:mean reduce_sum:sum
size:numel transpose:t"""


def numpy(x):
    """The numbers of a Tensor, without its history."""
    return x.detach().numpy()


def _method(name):
    def call(x, *args, **settings):
        return getattr(x, name)(*args, **settings)

    call.__doc__ = f"``x.{name}(...)``."
    return call


for _pair in _FUNCTIONS.split():
    globals()[_pair.partition(":")[0]] = getattr(torch, _pair.rpartition(":")[2])
for _pair in _METHODS.split():
    globals()[_pair.partition(":")[0]] = _method(_pair.rpartition(":")[2])
