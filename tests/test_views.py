"""Views: what they show, who sees a change, and where gradients go."""

from __future__ import annotations

import contextlib
import ctypes
import io
import pickle

import numpy as np
import pytest
from helpers import close

import qkv
from qkv import torch
from qkv.testing import check_gradient

X = np.arange(24.0).reshape(2, 3, 4)


def writable(view):
    """NumPy's diagonals are read-only, so far."""
    if isinstance(view, np.ndarray):
        with contextlib.suppress(ValueError):
            view.flags.writeable = True
    return view


# name: how NumPy and qkv spell it alike
VIEWS = {
    "row": lambda t: t[1],
    "steps": lambda t: t[:, ::2],
    "backwards": lambda t: t[:, ::-1],
    "column": lambda t: t[..., 2],
    "none": lambda t: t[:, None, 1:],
    "T": lambda t: t.T,
    "transpose": lambda t: t.transpose(1, 2, 0),
    "swapaxes": lambda t: t.swapaxes(0, 2),
    "reshape": lambda t: t.reshape(6, 4),
    "reshape of a part": lambda t: t[:, 1:].reshape(2, 2, 2, 2),
    "diagonal": lambda t: writable(t.diagonal(1, 1, 2)),
    "diagonal below": lambda t: writable(t.diagonal(-1, 1, 2)),
    "number": lambda t: t[1, 2, 3:4],
    "twice": lambda t: t.T[1:, ::-1],
    "nothing": lambda t: t[:, 3:],
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_show_and_change_one_memory(name):
    t, array = qkv.tensor(X), X.copy()
    for x in (t, array):
        view = VIEWS[name](x)
        view += 100
        view *= 2
        VIEWS[name](x)[...] = VIEWS[name](x) + 1
        x[0, 1] -= 7
    np.testing.assert_array_equal(t.numpy(), array)
    np.testing.assert_array_equal(VIEWS[name](t).numpy(), VIEWS[name](array))
    shown = VIEWS[name](t)
    assert shown.numpy().strides == VIEWS[name](t.numpy()).strides or shown.size <= 1
    assert np.shares_memory(shown.numpy(), t.numpy()) == (shown.size > 0)


@pytest.mark.parametrize("name", VIEWS)
def test_gradients_flow_through_views(name):
    check_gradient(lambda x: (VIEWS[name](x * 2) ** 2).sum() * 0.5 + (x**3).sum(), X * 0.1)
    w = qkv.tensor(X, requires_grad=True)
    dw = qkv.grad((VIEWS[name](w) ** 3).sum(), w, create_graph=True)
    expected = np.zeros_like(X)
    VIEWS[name](expected)[...] = 1
    close(dw, 3 * X**2 * expected)
    close(qkv.grad(dw.sum(), w), 6 * X * expected)


@pytest.mark.parametrize("name", VIEWS)
def test_recorded_changes_of_a_view_reach_base_and_views(name):
    """The gradient of a program that changes parts in place is that of the same program written without."""
    w, c = qkv.tensor(X, requires_grad=True), np.cos(X)
    y = w * 3
    other = y[:, 1]
    part = VIEWS[name](y)
    part *= VIEWS[name](w)
    other += 1
    (y * c).sum().backward()
    inside = np.zeros_like(X)
    VIEWS[name](inside)[...] = 1
    close(w.grad, np.where(inside == 1, 6 * X, 3) * c)
    values = np.where(inside == 1, 3 * X * X, 3 * X)
    values[:, 1] += 1
    close(y, values)
    close(other, values[:, 1])


def test_a_plain_base_gets_the_history_of_a_change_of_its_view():
    out, w = qkv.tensor(np.zeros((3, 4))), qkv.tensor(np.ones(4), requires_grad=True)
    first, column = out[0], out[:, 1]
    first += w * 2
    assert (out.requires_grad, out.is_leaf, column.requires_grad) == (True, False, True)
    (column * column).sum().backward()
    assert w.grad.tolist() == [0, 8, 0, 0]


def test_a_change_overwrites_what_was_there():
    w = qkv.tensor(X, requires_grad=True)
    y = w * 1
    y[0] = 5
    y.T[0, 0].copy_(np.zeros(2))
    y.sum().backward()
    expected = np.ones_like(X)
    expected[0] = expected[:, 0, 0] = 0
    close(w.grad, expected)


def test_later_changes_leave_earlier_results_alone():
    w = qkv.tensor([1.0, 2.0], requires_grad=True)
    y = w * 1
    z = y * y
    y += 10
    z.sum().backward(retain_graph=True)
    assert w.grad.tolist() == [2, 4]
    y = w * 1
    view = y[:1]
    z = view * 3
    view *= 5
    assert qkv.grad(z.sum(), w, retain_graph=True).tolist() == [3, 0]
    assert qkv.grad(y.sum(), w).tolist() == [5, 1]


def test_a_change_through_a_view_leaves_the_numbers_that_a_gradient_needs():
    w = qkv.tensor([1.0, 2.0], requires_grad=True)
    y = w * 1
    view = y[:]
    z = y * y
    view += 10
    z.sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), [2, 4])
    np.testing.assert_array_equal(y.detach().numpy(), [11, 12])


def test_what_is_refused():
    w = qkv.tensor(X, requires_grad=True)
    for change in (lambda v: v.__iadd__(1), lambda v: v.__setitem__(0, 1), lambda v: v.copy_(0)):
        with pytest.raises(
            RuntimeError, match="a view of a leaf that requires a gradient must be changed under"
        ):
            change(w[0])
    with qkv.no_grad():
        w[0][1] = 5
        early = (w * 1)[0]
    assert w[0, 1].tolist() == [5] * 4
    early += 1
    with qkv.no_grad():
        base = w * 1
        view = base[0]
    with pytest.raises(RuntimeError, match=r"made under qkv\.no_grad\(\) must be changed under it"):
        view += w[0]
    wide = qkv.tensor([1.0, 2.0]).broadcast_to(3, 2)
    assert not wide.numpy().flags.writeable
    with pytest.raises(RuntimeError, match=r"one in memory .* must be cloned before it is changed"):
        wide += 1


def test_overlapping_operands_are_read_first():
    t, array = qkv.tensor(X), X.copy()
    t[1:, 1:] = t[:1, :2]
    array[1:, 1:] = array[:1, :2].copy()
    t -= t[:, :1]
    array -= array[:, :1].copy()
    t[:, ::-1].copy_(t)
    array[:, ::-1] = array.copy()
    np.testing.assert_array_equal(t.numpy(), array)


def test_a_square_weight_and_its_transpose_have_packed_copies_of_their_own():
    rng = np.random.default_rng(0)
    weight, x = rng.standard_normal((64, 64)).astype("float32"), np.eye(64, dtype="float32")
    layer = torch.nn.Linear(64, 64, bias=False)
    layer.weight.data.copy_(torch.tensor(weight))
    with torch.no_grad():
        np.testing.assert_allclose(layer(torch.tensor(x)).numpy(), weight.T, rtol=1e-6)
        layer.weight.data = layer.weight.detach().t()
        np.testing.assert_allclose(layer(torch.tensor(x)).numpy(), weight, rtol=1e-6)


@pytest.mark.parametrize("transposed", [False, True])
def test_products_read_any_strides(transposed):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((3, 7, 10)), rng.standard_normal((3, 10, 6))
    big = qkv.tensor(rng.standard_normal((6, 40, 40)))
    shapes = [np.s_[:3, 2:9, 4:14], np.s_[::2, 5:12, ::3], np.s_[:3, 7:0:-1, 3:13], np.s_[2:3, :1, 4:14]]
    for index in shapes:
        left, right = big[index], qkv.tensor(b)[..., : b.shape[-1]]
        left = left[..., :10]
        if transposed:
            left, right = right.swapaxes(1, 2), left.swapaxes(1, 2)
        close(left @ right, left.numpy() @ right.numpy())
        check_gradient(lambda p, q, i=index: p[i][..., :10] @ q, big.numpy().copy(), b)
    close(qkv.tensor(a).swapaxes(1, 2) @ qkv.tensor(a), a.swapaxes(1, 2) @ a)


@pytest.mark.parametrize("name", [*VIEWS, "broadcast"])
def test_views_are_saved_as_what_they_show(name):
    t = qkv.tensor(X)
    view = t.broadcast_to(2, 2, 3, 4) if name == "broadcast" else VIEWS[name](t)
    expected, file = view.numpy().copy(), io.BytesIO()
    np.save(file, view)
    file.seek(0)
    np.testing.assert_array_equal(np.load(file), expected)
    assert view.tobytes() == expected.tobytes()
    address = view.ctypes  # which keeps the numbers
    if view.size:
        shown = np.ctypeslib.as_array(address.data_as(ctypes.POINTER(ctypes.c_double)), expected.shape)
        np.testing.assert_array_equal(shown, expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(view)).numpy(), expected)
    safetensors = pytest.importorskip("safetensors.numpy")
    np.testing.assert_array_equal(safetensors.load(safetensors.save({"a": view}))["a"], expected)


def test_arrays_for_arrays_stand_in_order():
    for y in (qkv.softmax(X, 1), qkv.matmul(X, X.swapaxes(1, 2)), qkv.split(X, 2, 0)[1]):
        assert isinstance(y, np.ndarray)
        assert y.flags.c_contiguous
        assert y.flags.writeable


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[[0, 1]],
        lambda x: qkv.topk(x, 2)[0],
        lambda x: qkv.softmax(x),
        lambda x: np.tile(x, (2, 1, 1)),
        lambda x: np.tile(x, 1),
        lambda x: np.roll(x, 1),
        lambda x: np.take(x, [[0, 1], [1, 0]], 1),
        lambda x: np.take(x, 3),
    ],
)
def test_a_view_of_a_result_follows_it_once_it_requires_a_gradient(f):
    y = f(qkv.tensor(np.arange(24.0).reshape(2, 3, 4)))
    part = y.reshape(-1)
    y.requires_grad = True
    with qkv.no_grad():
        y *= 1
    assert part.requires_grad
    assert not part.is_leaf
    part.sum().backward()
    assert (y.grad == 1).all()
