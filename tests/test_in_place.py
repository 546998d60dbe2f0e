"""Tensors that change: +=, t[index] = value, and what a graph makes of it."""

from __future__ import annotations

import numpy as np
import pytest
from sweep import sweep

import qkv
from qkv.testing import check_gradient

X = np.random.default_rng(3).standard_normal((3, 5))


def test_the_update_of_every_course():
    layer = qkv.nn.Linear(3, 2)
    x, y = qkv.randn(7, 3), qkv.randn(7, 2)
    losses = []
    for _ in range(5):
        loss = qkv.losses.mse(layer(x), y)
        loss.backward()
        losses.append(float(loss))
        before = [p.numpy().copy() for p in layer.parameters()]
        with qkv.no_grad():
            for p in layer.parameters():
                p -= 0.1 * p.grad
        for p, old in zip(layer.parameters(), before, strict=True):
            np.testing.assert_allclose(p.numpy(), old - np.float32(0.1) * p.grad.numpy(), rtol=1e-6)
            assert p.requires_grad
            assert p.is_leaf
        layer.zero_grad()
    assert losses == sorted(losses, reverse=True)


def test_packed_weights_follow():
    layer = qkv.nn.Linear(64, 64)
    x = qkv.randn(64, 64)
    with qkv.no_grad():
        for change in (
            lambda w: w.__imul__(2),
            lambda w: w.__setitem__((slice(None), 3), 0.0),
            lambda w: w.__setitem__(np.array([1, 5]), 7.0),
        ):
            layer(x)
            layer(x)
            change(layer.weight)
            expected = x @ layer.weight.numpy().T + layer.bias.numpy()
            np.testing.assert_allclose(layer(x).numpy(), expected, rtol=1e-4, atol=1e-4)
        layer.weight -= layer.weight
        np.testing.assert_array_equal(layer(x).numpy(), np.broadcast_to(layer.bias.numpy(), (64, 64)))


def add(t, u):
    t += u
    return t


def subtract(t, u):
    t -= u
    return t


def multiply(t, u):
    t *= u
    return t


def divide(t, u):
    t /= u
    return t


def power(t, u):
    t **= u
    return t


CHANGES = [add, subtract, multiply, divide, power]


@pytest.mark.parametrize("change", CHANGES)
@sweep("other", [2, 0.5, np.abs(X), np.abs(X[0]), np.float32(3), qkv.tensor(np.abs(X[:, :1]))])
def test_a_plain_leaf_changes_in_place(change, other):
    x = np.abs(X) + 1
    t = qkv.tensor(x)
    same, view, version = t, t.numpy(), t.version
    changed = change(t, other)
    assert changed is same
    assert t.version > version
    np.testing.assert_allclose(view, change(x.copy(), np.asarray(other)), rtol=1e-12)


@pytest.mark.parametrize("change", CHANGES)
def test_a_leaf_that_requires_a_gradient(change):
    t = qkv.tensor(np.abs(X), requires_grad=True)
    with pytest.raises(
        RuntimeError,
        match=rf"^{change.__name__}: a leaf that requires a gradient must be changed under .*no_grad",
    ):
        change(t, 2)
    with pytest.raises(
        RuntimeError, match=r"^Tensor: a leaf that requires a gradient must be changed under qkv\.no_grad\(\)"
    ):
        t[0] = 0
    np.testing.assert_array_equal(t.numpy(), np.abs(X))
    with qkv.no_grad():
        same = t
        assert change(t, 2) is same
        t[1] = 3
    assert t.requires_grad
    assert t.is_leaf
    assert t[1].tolist() == [3] * 5


@pytest.mark.parametrize("change", CHANGES)
def test_a_computed_tensor_changes_itself(change):
    def f(x, u):
        y = x * 2 + 5
        before, kept = y, y * 1
        z = change(y, u)
        assert z is before
        return z * kept

    check_gradient(f, np.abs(X), np.abs(X[0]) + 0.5)


def test_a_plain_leaf_takes_a_history():
    total = qkv.tensor(0.0)
    x = qkv.tensor([1.0, 2.0], requires_grad=True)
    before = total
    for _ in range(3):
        total += (x * x).sum()
    assert total.requires_grad
    assert before is total
    total.backward()
    assert x.grad.tolist() == [6, 12]


def test_what_was_saved_is_noticed():
    x, w = qkv.tensor([1.0, 2.0], requires_grad=True), qkv.tensor([3.0, 5.0])
    for change in (lambda: add(w, 1), lambda: w.__setitem__(0, 7.0)):
        y = (x * w).sum()
        change()
        with pytest.raises(RuntimeError, match="was changed by copy_"):
            y.backward()


def test_aliases():
    t = qkv.tensor([1.0, 2.0, 3.0, 5.0])
    t += t[::-1]
    assert t.tolist() == [6, 5, 5, 6]
    t[1:] = t[:-1]
    assert t.tolist() == [6, 6, 5, 5]
    t -= t
    assert t.tolist() == [0, 0, 0, 0]
    flat = t.reshape(2, 2)
    flat += 1
    assert t.tolist() == [1, 1, 1, 1]
    copy = t.astype("float32")
    copy += 1
    assert t.tolist() == [1, 1, 1, 1]


def test_dtypes_stay():
    ints = qkv.tensor([1, 2, 3])
    ints += 4
    ints *= qkv.tensor([True, False, True])
    assert (ints.tolist(), ints.dtype) == ([5, 0, 7], np.int64)
    with pytest.raises(
        TypeError,
        match=r"^add: the result must be int64 because the Tensor is changed in place; got float32$",
    ):
        ints += 0.5
    with pytest.raises(TypeError, match=r"^divide: the result must be int64 because .*; got float64$"):
        ints /= 2
    with pytest.raises(
        TypeError,
        match=r"^Tensor: value must hold int64 because the Tensor is changed in place; got float32$",
    ):
        ints[0] = 0.5
    assert ints.tolist() == [5, 0, 7]
    single = qkv.tensor([1.0, 2.0])
    single += np.array([0.1, 0.2])
    assert single.dtype == np.float32
    mask = qkv.tensor([True, True, False])
    mask[0] = 0
    mask[2] = True
    assert (mask.tolist(), mask.dtype) == ([False, True, True], np.bool_)


def test_what_changes_refuse():
    t = qkv.tensor([1.0, 2.0])
    with pytest.raises(
        ValueError,
        match=r"^add: other must broadcast to the Tensor's shape \(2,\) because .*; got other \(3, 2\)$",
    ):
        t += np.ones((3, 2))
    with pytest.raises(TypeError, match="unsupported operand"):
        t += None
    with pytest.raises(TypeError, match=r"^Tensor: value must be a number or an array; got str$"):
        t[0] = "a"
    with pytest.raises(IndexError):
        t[2] = 0
    with pytest.raises(
        ValueError, match=r"^Tensor: value must broadcast to the Tensor's shape \(2,\); got value \(3,\)$"
    ):
        t[:] = np.ones(3)
    assert t.tolist() == [1, 2]


@pytest.mark.parametrize(
    "get", [lambda t: t[0], lambda t: t.T, lambda t: t.transpose(1, 0), lambda t: t.swapaxes(0, 1)]
)
def test_views_are_written_through(get):
    t, expected = qkv.tensor(X), X.copy()
    for x in (t, expected):
        get(x)[1] = 5
        get(x)[2:] *= 2
        x[0] += 1
        x[1, 2:] *= 2
    np.testing.assert_array_equal(t.numpy(), expected)
    get(t).copy_(0)
    assert get(t).numpy().any() == 0
    assert np.shares_memory(get(t).numpy(), t.numpy())


INDICES = {
    "one": 1,
    "negative": -1,
    "slice": slice(1, None),
    "steps": (slice(None, None, 2), slice(None, None, -1)),
    "number": (2, 3),
    "none": (None, 1),
    "ellipsis": (..., 2),
    "all": ...,
    "nothing": slice(3, 3),
    "integers": [0, 2],
    "integers on two axes": ([0, 2, 1], [1, 1, 4]),
    "booleans": X > 0,
    "no booleans": X > 100,
    "row booleans": np.array([True, False, True]),
    "tensor": qkv.tensor([2, 0]),
    "mixed": (slice(None), [3, 1]),
}


@pytest.mark.parametrize("name", INDICES)
def test_assignment_by_every_index(name):
    index = INDICES[name]
    plain = (
        tuple(map(np.asarray, index))
        if name == "integers on two axes"
        else np.asarray(index)
        if name == "tensor"
        else index
    )
    shape = X[plain].shape
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape) + 0.5
    expected = X.copy()
    expected[plain] = values
    t = qkv.tensor(X)
    same = t
    t[index] = values
    assert t is same
    np.testing.assert_array_equal(t.numpy(), expected)

    def f(x, v):
        y = x * 1
        z = y * 3  # keeps the old numbers
        y[index] = v
        return y * 2 + z

    recorded = qkv.tensor(X, requires_grad=True) * 1
    recorded[index] = values
    np.testing.assert_array_equal(recorded.numpy(), expected)
    if values.size:
        check_gradient(f, X, values)
        check_gradient(lambda x: f_number(x, index), X)


def f_number(x, index):
    y = x * 1
    y[index] = 2.5
    return y * y


def test_the_last_of_several_values_stays():
    value = qkv.tensor([2.0, 3.0, 5.0], requires_grad=True)
    t = qkv.tensor([0.0, 0.0, 7.0])
    t[[1, 1, 0]] = value
    assert t.tolist() == [5, 3, 7]
    (t * qkv.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert value.grad.tolist() == [0, 10, 1]


def test_a_value_with_axes_of_size_one_in_front():
    t = qkv.tensor(X, requires_grad=True) * 1
    t[0] = np.ones((1, 1, 5))
    assert t[0].tolist() == [1] * 5
    with pytest.raises(
        ValueError, match=r"^Tensor: value must broadcast to the Tensor's shape \(5,\); got value \(2, 5\)$"
    ):
        t[0] = np.ones((2, 5))


def test_rows_are_filled_with_results():
    w = qkv.tensor(X, requires_grad=True)
    out = qkv.tensor(np.zeros((3, 5)))
    alias = out
    for i in range(3):
        out[i] = w[i] * (i + 1)
    assert out is alias
    assert out.requires_grad
    out.sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), np.repeat([[1.0], [2.0], [3.0]], 5, axis=1))


def test_a_tensor_that_stands_for_another_lives_on():
    import gc

    gc.freeze()  # what the process holds already need not be looked at each time
    w = qkv.tensor(X, requires_grad=True)
    y = w * 2
    for i in range(100):
        y[i % 3, i % 5] = w[0, 0] * i
        if i % 10 == 0:
            gc.collect()
    results = [y * 1, y + y, y[0]]
    del y
    gc.collect()
    gc.unfreeze()
    sum(r.sum() for r in results).backward()
    assert np.isfinite(w.grad.numpy()).all()


def test_a_parameter_is_no_result():
    p = qkv.nn.Parameter(np.ones(3), requires_grad=False)
    x = qkv.tensor([1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"^Tensor: a Parameter must be changed under qkv\.no_grad\(\)"):
        p[0] = x
    p[0] = 5
    assert p.tolist() == [5, 1, 1]


def test_gradients_change_in_place():
    p = qkv.tensor([3.0, 4.0], requires_grad=True)
    (p * p).sum().backward()
    p.grad *= 0.5
    assert p.grad.tolist() == [3, 4]
    p.grad[0] = 0
    assert p.grad.tolist() == [0, 4]


def test_a_gradient_without_its_history_is_no_constant():
    x = qkv.tensor([1.0, 2.0], requires_grad=True)

    def assign(t, number):
        t[()] = number
        return t

    for change in (add, assign):
        total = change(qkv.tensor(0.0), qkv.grad((x * x * x).sum(), x).sum())
        assert total.item() == 15
        with pytest.raises(RuntimeError, match="create_graph"):
            (total * x.sum()).backward()
        total = change(qkv.tensor(0.0), qkv.grad((x * x * x).sum(), x, create_graph=True).sum())
        assert qkv.grad(total, x).tolist() == [6, 12]


def test_gradients_of_several_inputs_share_no_memory():
    x, y = qkv.tensor([1.0, 2.0], requires_grad=True), qkv.tensor([1.0, 2.0], requires_grad=True)
    seed = qkv.tensor([1.0, 1.0])
    dx, dy = qkv.grad(x + y, [x, y], seed)
    dx += 1
    assert (dx.tolist(), dy.tolist(), seed.tolist()) == ([2, 2], [1, 1], [1, 1])


def test_a_caller_s_array_is_not_written_to():
    data = np.ones((2, 3), "float32")
    data.flags.writeable = False
    y = qkv.nn.Dropout(0.5).eval()(data)
    y += 1
    y[0] = 7
    assert (data == 1).all()
    y = qkv.nn.Dropout(0.5).eval()(data)
    assert not np.shares_memory(y.numpy(), data)


def test_zero_dimensions():
    t = qkv.tensor(2.0)
    t += 3
    t[()] = t * 2
    t[...] += 1
    assert t.item() == 11
    with pytest.raises(IndexError):
        t[0] = 1
