"""What the core gives to processes that share a computation: parts of random masks, finished gradients, operations."""

from __future__ import annotations

import numpy as np
import pytest

import qkv
from qkv import _core, models, nn
from qkv.distributed.recorded import recorded
from qkv.training.data_parallel import batch_part

B, L, M = 7, 5, 6


def drawn(model, x, cut=None):
    qkv.manual_seed(3)
    if cut is None:
        return np.asarray(model(x)), qkv.random.get_rng_state()
    first, end = cut
    with batch_part(first, end - first, B):
        return np.asarray(model(x[first:end])), qkv.random.get_rng_state()


def called(layer, call):
    return lambda x: call(layer, x)


LAYERS = {
    "Dropout": lambda: nn.Dropout(0.3),
    "joined axes": lambda: lambda x: nn.Dropout(0.3)(qkv.tensor(x).reshape(-1, M)).reshape(-1, L, M),
    "GRU": lambda: called(nn.GRU(M, M, 2, dropout=0.4), lambda layer, x: layer(x)[0]),
    "MultiHeadAttention": lambda: nn.MultiHeadAttention(M, 2, dropout=0.4),
    "SelfAttention": lambda: nn.SelfAttention(M, M, dropout=0.4),
    "AdditiveAttention": lambda: called(nn.AdditiveAttention(4, 0.4), lambda layer, x: layer(x, x, x)),
    "DotProductAttention": lambda: called(nn.DotProductAttention(0.4), lambda layer, x: layer(x, x, x)),
    "TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(M, 2, 11, dropout=0.2),
    "mask_tokens": lambda: (
        lambda x: models.mask_tokens(
            (np.abs(x[:, :, 0]) * 9).astype(int), vocab_size=99, mask_id=4, probability=0.5
        )[0]
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_part_of_a_batch_draws_what_the_whole_draws_for_it(name):
    qkv.manual_seed(1)
    model, x = LAYERS[name](), qkv.randn(B, L, M)
    drawn(model, x)  # makes parameters whose sizes were unknown
    whole, state = drawn(model, x)
    other, _ = drawn(model, x[::-1])
    assert not np.array_equal(whole, other[::-1])  # the draws count
    for cut in ((0, 3), (3, 4), (4, 7), (0, 7)):
        part, after = drawn(model, x, cut)
        np.testing.assert_allclose(part, whole[cut[0] : cut[1]], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(after, state)
    assert _core.batch_part() == (0, 0, 0)


def test_long_passages_are_passed_over():
    qkv.manual_seed(2)
    keep = np.asarray(nn.Dropout(0.5)(np.ones((3, 4001), "float32")))
    after = qkv.rand(3)
    for i in range(3):
        qkv.manual_seed(2)
        with batch_part(i, 1, 3):
            np.testing.assert_array_equal(nn.Dropout(0.5)(np.ones((1, 4001), "float32")), keep[i : i + 1])
        np.testing.assert_array_equal(qkv.rand(3), after)


def test_leaves_are_finished_one_by_one():
    a, b, c, unused = (qkv.tensor(qkv.randn(3, 4), requires_grad=True) for _ in range(4))

    def loss():
        return ((a * b + a) * c).sum() + (c * c).sum() + 0.0 * (b * b).sum()

    loss().backward()
    wanted = [np.array(x.grad) for x in (a, b, c)]
    for x in (a, b, c):
        x.grad = None
    seen = []

    def finished(leaf):
        seen.append((leaf, np.array(leaf.grad)))

    _core.backward_by_leaves(loss(), finished)
    assert seen[0][0] is c  # nothing else is needed for it
    assert {id(leaf) for leaf, _ in seen} == {id(a), id(b), id(c)}
    for leaf, slope in seen:
        place = [id(x) for x in (a, b, c)].index(id(leaf))
        np.testing.assert_allclose(slope, wanted[place], rtol=1e-6)
        np.testing.assert_array_equal(slope, leaf.grad)
    assert unused.grad is None
    _core.backward_by_leaves(loss(), lambda leaf: None)
    np.testing.assert_allclose(a.grad, 2 * wanted[0], rtol=1e-6)  # adds to what is there


def test_an_error_in_a_callback_arrives():
    x = qkv.tensor(np.ones(3), requires_grad=True)

    def fails(leaf):
        raise KeyError("here")

    with pytest.raises(KeyError, match="here"):
        _core.backward_by_leaves((x * x).sum(), fails)


def test_an_operation_in_python():
    x = qkv.tensor(np.arange(3.0), dtype="float64", requires_grad=True)
    (y,) = recorded("square", [x.numpy() ** 2], [x], lambda dys: [2 * x.numpy() * dys[0]])
    (y * [1.0, 2.0, 3.0]).sum().backward()
    np.testing.assert_array_equal(x.grad, [0, 4, 12])
    (y,) = recorded("square", [x.numpy() ** 2], [x], lambda dys: [np.ones(5)])
    with pytest.raises(ValueError, match=r"square: gradient must be \(3,\); got gradient \(5,\)"):
        y.sum().backward()
    (y,) = recorded("square", [x.numpy() ** 2], [x], lambda dys: [None])
    with pytest.raises(RuntimeError, match="square: has no second derivative; leave out create_graph=True"):
        qkv.grad(y.sum(), [x], create_graph=True)
    with qkv.no_grad():
        (y,) = recorded("square", [np.ones(3)], [x], lambda dys: [None])
    assert not y.requires_grad
