"""Writes through views that were handed out: packed weights and saved numbers are never stale."""

from __future__ import annotations

import numpy as np
import pytest

import qkv
from qkv import nn

ONES = np.ones((2, 5), "float32")


def zero_detached(weight):
    weight.detach().numpy()[:] = 0


def zero_without_gradient(weight):
    weight.requires_grad = False
    view = weight.numpy()
    weight.requires_grad = True
    view[:] = 0


def zero_through_torch(weight):
    pytest.importorskip("torch").from_dlpack(weight).zero_()


def zero_through_detached_dlpack(weight):
    view = np.from_dlpack(weight.detach())
    if not view.flags.writeable:
        pytest.skip("this NumPy gives views that cannot be written")
    view[:] = 0


WAYS = [zero_detached, zero_without_gradient, zero_through_torch, zero_through_detached_dlpack]


@pytest.mark.parametrize("zero", WAYS)
def test_a_packed_weight_is_never_stale(zero):
    layer = nn.Linear(5, 3)
    with qkv.no_grad():
        layer(ONES)
        zero(layer.weight)
        assert np.array_equal(layer(ONES).numpy(), np.broadcast_to(layer.bias.numpy(), (2, 3)))


@pytest.mark.parametrize("zero", WAYS)
def test_the_packed_weights_of_a_gru_are_never_stale(zero):
    gru, x = nn.GRU(5, 7), np.random.default_rng(0).standard_normal((2, 3, 5)).astype("float32")
    with qkv.no_grad():
        gru(x)
        for parameter in gru.parameters():
            zero(parameter)
        assert not gru(x)[0].numpy().any()


def test_a_view_that_lives_on_is_followed():
    layer = nn.Linear(5, 3, bias=False)
    view = layer.weight.detach().numpy()
    with qkv.no_grad():
        for value in (1, 2, 2, 3):
            view[:] = value
            assert np.array_equal(layer(ONES).numpy(), np.full((2, 3), 5 * value))


def test_the_version_rises_with_what_was_written_only():
    x = qkv.tensor(np.zeros((3, 37)))
    before = x.version
    view = x.numpy()
    assert x.version == before
    view[2, 36] = 5
    assert x.version == before + 1
    part = view[1:]
    del view
    part[0, 0] = 1
    del part
    assert x.version == before + 2
    np.asarray(x).sum()
    assert x.version == before + 2


@pytest.mark.parametrize("length", [1, 7, 8, 9, 63, 64, 65, 257])
def test_every_byte_counts(length):
    x = qkv.tensor(np.zeros(length, bool))
    view = x.numpy()
    for i in range(length):
        before = x.version
        view[i] = True
        assert x.version == before + 1


def test_saved_numbers_that_were_written_to_are_an_error():
    x = qkv.tensor(np.ones(3))
    view = x.numpy()
    x.requires_grad = True
    y = (x * x).sum()
    view[:] = 5
    with pytest.raises(
        RuntimeError, match=r"changed by .* after the forward pass, or through a NumPy or DLPack view"
    ):
        y.backward()


def test_reading_between_forward_and_backward_is_no_change():
    x = qkv.tensor(np.ones(3), requires_grad=True)
    h = x * x
    y = (h * h).sum()
    assert x.detach().numpy().sum() + h.detach().numpy().sum() == 6
    y.backward()
    assert x.grad.tolist() == [4, 4, 4]


def test_a_reader_of_old_dlpack_gets_a_copy_of_what_is_read_only():
    class Old:
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, **options):
            return self.tensor.__dlpack__()

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    weight = qkv.nn.Linear(3, 2).weight
    before = weight.numpy().copy()
    view = np.from_dlpack(Old(weight))
    np.testing.assert_array_equal(view, before)
    if view.flags.writeable:
        view[:] = 0
    np.testing.assert_array_equal(weight.numpy(), before)
