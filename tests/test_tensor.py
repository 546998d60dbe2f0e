"""Making, converting, indexing, printing and storing Tensors."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from helpers import layouts

import qkv

DTYPES = ["float32", "float64", "int64", "bool"]


def numbers(*shape: int, dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1.5, "float32"),
        ([1.0, 2.0], "float32"),
        ([1, 2.5], "float32"),
        ([1, 2], "int64"),
        ([True, False], "bool"),
        ([], "float32"),
        (np.float64(1.5), "float64"),
        (np.ones(3, "float32"), "float32"),
        (np.ones(3, "float64"), "float64"),
        (np.ones(3, "float16"), "float32"),
        (np.ones(3, "int8"), "int64"),
        (np.ones(3, "uint16"), "int64"),
        (np.ones(3, ">f8"), "float64"),
        (np.ones(3, ">i4"), "int64"),
        (np.ones(3, "bool"), "bool"),
    ],
)
def test_dtype_of_data(data, dtype):
    t = qkv.tensor(data)
    assert t.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(t.numpy(), np.asarray(data))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_asked_for(dtype):
    for form in (dtype, np.dtype(dtype), getattr(np, dtype.replace("bool", "bool_"))):
        t = qkv.tensor([[0, 1], [1, 0]], dtype=form)
        assert t.dtype == np.dtype(dtype)
        assert t.tolist() == np.array([[0, 1], [1, 0]], dtype).tolist()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (["a"], r"^tensor: data must hold numbers; got list of dtype <U1$"),
        ([1j], r"^tensor: data must hold numbers; got list of dtype complex128$"),
        ([object()], r"^tensor: data must hold numbers; got list of dtype object$"),
        (
            [[1], [1, 2]],
            r"^tensor: data must be an array or nested lists of equal lengths; got list of lists of different lengths; "
            r"qkv\.data\.pad fills the shorter ones up$",
        ),
    ],
)
def test_data_that_are_no_numbers(data, message):
    with pytest.raises(TypeError, match=message):
        qkv.tensor(data)


def test_dtypes_that_do_not_exist():
    with pytest.raises(
        TypeError, match=r"^tensor: dtype must be float32, float64, int64 or bool; got int32$"
    ):
        qkv.tensor([1], dtype="int32")
    with pytest.raises(TypeError, match=r"^tensor: dtype must be a NumPy dtype or its name; got 'flat'$"):
        qkv.tensor([1], dtype="flat")
    with pytest.raises(TypeError, match=r"^tensor: only floating numbers have gradients; got dtype int64$"):
        qkv.tensor([1, 2], requires_grad=True)


def test_tensor_copies():
    data = numbers(3)
    t = qkv.tensor(data)
    before = data.copy()
    data[:] = 0
    np.testing.assert_array_equal(t.numpy(), before)
    u = qkv.tensor(t)
    t.copy_(np.zeros(3))
    np.testing.assert_array_equal(u.numpy(), before)


def test_attributes():
    t = qkv.tensor(numbers(2, 3, 5))
    assert (t.shape, t.ndim, t.size, len(t)) == ((2, 3, 5), 3, 30, 2)
    assert (t.is_leaf, t.requires_grad, t.grad) == (True, False, None)
    assert t.T.shape == (5, 3, 2)
    with pytest.raises(TypeError, match=r"^len: the Tensor must have an axis; got a Tensor \(\)$"):
        len(qkv.tensor(1.0))
    with pytest.raises(TypeError, match=r"^iter: the Tensor must have an axis; got a Tensor \(\)$"):
        iter(qkv.tensor(1.0))


def test_every_layout_is_read_and_none_is_written():
    for data in layouts(numbers(3, 5)):
        before = np.array(data)
        np.testing.assert_array_equal(qkv.tensor(data).numpy(), before)
        np.testing.assert_array_equal(qkv.exp(data), np.asarray(qkv.exp(before)))
        np.testing.assert_array_equal((qkv.tensor(before) + data).numpy(), before + before)
        np.testing.assert_array_equal(data, before)
    same = np.broadcast_to(numbers(5), (3, 5))  # stride zero
    np.testing.assert_array_equal(qkv.tensor(same).numpy(), same)
    np.testing.assert_allclose(qkv.matmul(same, same.T), same @ same.T, rtol=1e-12)
    big = numbers(3, 5).astype(">f8")
    np.testing.assert_array_equal(qkv.abs(big), np.abs(big))


class HasArray:
    def __init__(self, data):
        self.data = data

    def __array__(self, dtype=None, copy=None):
        return np.array(self.data, dtype)


class HasDlpack:
    def __init__(self, data):
        self.data = data

    def __dlpack__(self, **options):
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.data.__dlpack_device__()


@pytest.mark.parametrize("wrap", [HasArray, HasDlpack, memoryview, lambda x: x.tolist(), qkv.tensor])
def test_inputs_of_other_kinds(wrap):
    x = numbers(3, 5)
    result = qkv.tensor(wrap(x), dtype="float64")
    np.testing.assert_array_equal(result.numpy(), x)
    np.testing.assert_allclose(np.asarray(qkv.exp(wrap(x))), np.exp(x), rtol=1e-6)


def test_numpy_shares_memory_and_may_be_written_for_plain_leaves_only():
    plain, learned = qkv.tensor([1.0, 2.0]), qkv.tensor([1.0, 2.0], requires_grad=True)
    view = plain.numpy()
    view[0] = 5
    assert plain.tolist() == [5, 2]
    assert np.shares_memory(np.asarray(plain), view)
    for t in (learned, learned * 2, (learned * 2).detach() * 1):
        assert np.shares_memory(t.numpy(), np.asarray(t))
    for t in (learned, learned * 2):
        assert not t.numpy().flags.writeable
        assert not np.asarray(t).flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            t.numpy()[0] = 1


def test_a_view_outlives_its_tensor():
    view = qkv.tensor(np.arange(1000.0)).numpy()
    qkv.tensor(np.zeros(1000))
    np.testing.assert_array_equal(view, np.arange(1000.0))


def test_array_protocol_converts_and_copies():
    t = qkv.tensor([1.0, 2.0], requires_grad=True)
    assert np.asarray(t, dtype="float64").dtype == np.float64
    assert not np.shares_memory(np.array(t), t.numpy())
    assert np.array(t).flags.writeable
    with pytest.raises(ValueError, match=r"^__array__: copy must not be False because the dtype changes"):
        t.__array__("float64", copy=False)


def test_dlpack_both_ways():
    t = qkv.tensor([[1.0, 2.0, 3.0]])
    out = np.from_dlpack(t)
    assert np.shares_memory(out, t.numpy())
    assert out.dtype == np.float32
    assert t.__dlpack_device__() == (1, 0)
    assert not np.from_dlpack(qkv.tensor([1.0], requires_grad=True)).flags.writeable
    assert qkv.tensor(HasDlpack(np.arange(3))).tolist() == [0, 1, 2]


def test_item_float_int_bool():
    t = qkv.tensor([[2.5]], requires_grad=True)
    assert (t.item(), float(t), int(t), bool(t)) == (2.5, 2.5, 2, True)
    assert type(qkv.tensor(3).item()) is int
    assert type(qkv.tensor(True).item()) is bool
    assert f"{qkv.tensor(1.5):.3f}" == "1.500"
    for f in (lambda t: t.item(), float, int):
        with pytest.raises(ValueError, match=r"^item: the Tensor must hold one number; got a Tensor \(3,\)$"):
            f(qkv.tensor([1.0, 2.0, 3.0]))
    with pytest.raises(
        ValueError, match=r"^bool: .* got a Tensor \(3,\); write t.any\(\) or t.all\(\), and & \| ~"
    ):
        bool(qkv.tensor([1.0, 2.0, 3.0]))


INDICES = {
    "int": 1,
    "negative": -2,
    "slice": slice(1, 3),
    "step": slice(None, None, 2),
    "negative step": slice(None, None, -2),
    "empty": slice(3, 1),
    "none": (None, slice(None), None),
    "ellipsis": (..., 1),
    "mixed": (1, ..., slice(None, None, -1), None),
    "all": (),
    "numpy int": np.int64(2),
    "integers": [0, 2, 2],
    "integers on two axes": ([0, 2], [1, -1]),
    "integers on all axes": ([0, -1, 3], [[2], [-3]], np.array([4, 0, -5])),
    "array between slices": (slice(None), np.array([[0, 1], [2, 0]]), 1),
    "boolean": np.array([True, False, True, True]),
    "boolean of two axes": np.random.default_rng(0).random((4, 3)) < 0.5,
    "one number": (1, 2, 3),
    "nothing chosen": np.zeros(4, bool),
}


@pytest.mark.parametrize("name", INDICES)
def test_indexing_follows_numpy(name):
    x, index = numbers(4, 3, 5), INDICES[name]
    for requires_grad in (False, True):
        t = qkv.tensor(x, requires_grad=requires_grad)
        np.testing.assert_array_equal(t[index].numpy(), x[index])
        assert isinstance(t[index], qkv.Tensor)
    whole = (9 * x).astype(int)
    np.testing.assert_array_equal(qkv.tensor(whole)[index], whole[index])
    y = t[index]
    G = np.random.default_rng(1).standard_normal(y.shape)
    y.backward(G)
    expected = np.zeros_like(x)
    np.add.at(expected, index, G)  # a number that was taken twice gets both gradients
    np.testing.assert_allclose(t.grad.numpy(), expected, rtol=1e-12)


def test_indexing_by_tensors():
    x = numbers(4, 3)
    np.testing.assert_array_equal(qkv.tensor(x)[qkv.tensor([2, 0])].numpy(), x[[2, 0]])
    np.testing.assert_array_equal(qkv.tensor(x)[qkv.tensor(x) > 0].numpy(), x[x > 0])


def test_wrong_indices_are_numpy_s_errors():
    t = qkv.tensor(numbers(4, 3))
    for index, message in (
        (4, "index 4 is out of bounds for axis 0 with size 4"),
        ((0, 0, 0), "too many indices"),
        (1.5, "only integers"),
        ("a", "only integers"),
        ([4], "out of bounds"),
        (([0, 3], [1, 3]), "index 3 is out of bounds for axis 1 with size 3"),
        (([0, 3], [1, 0, 2]), "shape mismatch"),
        (np.ones(3, bool), "boolean index did not match"),
    ):
        with pytest.raises(IndexError, match=message):
            t[index]


def test_iteration_gives_rows_with_gradients():
    t = qkv.tensor(numbers(3, 2), requires_grad=True)
    a, _, c = t
    (a * 2 + c).sum().backward()
    assert t.grad.tolist() == [[2, 2], [0, 0], [1, 1]]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (1.5, "tensor(1.5000)"),
        ([1.0, 2.0], "tensor([1., 2.])"),
        ([1.0, 2.5], "tensor([1.0000, 2.5000])"),
        (np.array([1.0, 2.5]), "tensor([1.0000, 2.5000], dtype=float64)"),
        ([1, -20], "tensor([  1, -20])"),
        ([True, False], "tensor([ True, False])"),
        ([1e-5, 1.0], "tensor([1.0000e-05, 1.0000e+00])"),
        ([float("nan"), 1.0, float("inf")], "tensor([nan,  1., inf])"),
        (np.zeros((0, 3), "float32"), "tensor([], size=(0, 3))"),
        (np.zeros(1001, "float32"), "tensor([0., 0., 0., ..., 0., 0., 0.])"),
    ],
)
def test_repr(data, text):
    assert repr(qkv.tensor(data)) == text
    assert str(qkv.tensor(data)) == text


def test_repr_says_what_has_a_gradient():
    t = qkv.tensor([1.0, 2.0], requires_grad=True)
    assert repr(t) == "tensor([1., 2.], requires_grad=True)"
    assert repr(t * 2) == "tensor([2., 4.], requires_grad=True)"
    assert repr(qkv.nn.Parameter([1.0, 2.0])) == "Parameter([1., 2.])"


def test_pickle_and_copies():
    t = qkv.tensor(numbers(3, 2), requires_grad=True)
    (t * 2).sum().backward()
    for other in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t)):
        np.testing.assert_array_equal(other.numpy(), t.numpy())
        assert (other.requires_grad, other.dtype, other.is_leaf) == (True, np.float64, True)
        assert not np.shares_memory(other.numpy(), t.numpy())
    with pytest.raises(
        RuntimeError, match=r"^pickle: only leaves can be stored; detach the computed Tensor first$"
    ):
        pickle.dumps(t * 2)
    with pytest.raises(RuntimeError, match=r"^deepcopy: only leaves can be copied with their gradient"):
        copy.deepcopy(t * 2)
    assert copy.deepcopy((t * 2).detach()).tolist() == (t.numpy() * 2).tolist()


def test_zero_size_arrays():
    x = np.zeros((0, 3))
    t = qkv.tensor(x, requires_grad=True)
    y = (qkv.exp(t) * 2 + np.ones(3)).reshape(3, 0).T @ np.ones((3, 5))
    assert y.shape == (0, 5)
    y.sum().backward()
    assert t.grad.shape == (0, 3)
    assert (np.ones((5, 0)) @ qkv.tensor(np.ones((0, 2)))).tolist() == np.zeros((5, 2)).tolist()
    assert qkv.concatenate([x, np.ones((2, 3))]).shape == (2, 3)


def test_an_array_as_list_of_parts():
    x = numbers(4, 3)  # rows exist only while they are looked at
    np.testing.assert_array_equal(qkv.stack(x), x)
    np.testing.assert_array_equal(qkv.concatenate(x), x.ravel())
    assert qkv.tensor(x).reshape(np.array([2, 6])).shape == (2, 6)
    assert qkv.tensor(x).reshape(np.array(12)).shape == (12,)
    assert qkv.tensor(x).sum(axis=np.array([0, 1])).item() == pytest.approx(x.sum())
    with pytest.raises(TypeError, match="integer"):
        qkv.tensor(x).reshape(np.array(12.0))


def test_exchange_with_pytorch():
    torch = pytest.importorskip("torch")
    x = torch.arange(15.0, dtype=torch.float64).reshape(3, 5)
    for given in (x, x.T, x[:, ::2]):
        np.testing.assert_array_equal(qkv.tensor(given).numpy(), given.numpy())
        np.testing.assert_array_equal(qkv.abs(given), given.numpy())
    t = qkv.tensor([[1.0, 2.0]])
    shared = torch.from_dlpack(t)
    shared[0, 1] = 7
    assert t.tolist() == [[1, 7]]
