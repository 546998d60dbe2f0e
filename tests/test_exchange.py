"""Memory shared with tensors of other libraries: who keeps whom alive, who owns, what is refused."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref

import numpy as np
import pytest
from test_view_arguments import ATTENTION, results

import qkv
from qkv import _core, nn

torch = pytest.importorskip("torch")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("this PyTorch has no table of C functions", allow_module_level=True)


def grid(*shape, dtype=torch.float32):
    return torch.arange(int(np.prod(shape))).reshape(shape).to(dtype)


LAYOUTS = {
    "packed": grid(2, 3, 5),
    "transposed": grid(2, 3, 5).transpose(0, 2),
    "repeated": grid(3, 1).expand(3, 7),
    "a part": grid(5, 7)[1:4, ::2],
    "one number": grid(1)[0],
    "nothing": grid(0, 3),
    "nothing, transposed": grid(3, 0, 5).transpose(0, 2),
}


@pytest.mark.parametrize("x", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("given", [lambda x: x, lambda x: x.numpy()], ids=["torch", "numpy"])
def test_memory_is_shared_with_any_strides(x, given):
    t = _core.shared_memory(given(x))
    assert t.shape == tuple(x.shape)
    np.testing.assert_array_equal(t.numpy(), x.numpy())
    assert x.numel() == 0 or _core.address(t) == x.data_ptr()
    np.testing.assert_array_equal((t + 1).numpy(), x.numpy() + 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
def test_dtypes_that_are_shared(dtype):
    x = (grid(3, 5) % 7).to(dtype)
    t = _core.shared_memory(x)
    assert t.dtype == x.numpy().dtype
    x.zero_()
    assert not t.numpy().any()


def test_reversed_memory_of_numpy_is_shared():
    x = np.arange(5.0)[::-1]
    t = _core.shared_memory(x)
    x[0] = 7
    assert t.tolist() == [7, 3, 2, 1, 0]


def test_a_tensor_that_requires_a_gradient_gives_its_memory():
    x = grid(3).requires_grad_()
    assert _core.shared_memory(x).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("x", "found"),
    [
        (torch.ones(2, dtype=torch.float16), "Tensor of float16"),
        (torch.ones(2, dtype=torch.int32), "Tensor of int32"),
        (torch.ones(2, dtype=torch.complex64), "Tensor of complex64"),
        (torch.ones(2, device="meta"), r"Tensor \(.*meta"),
        (torch.eye(2).to_sparse(), r"Tensor \(.*storage"),
        (np.ones(2, "float16"), "ndarray of float16"),
        (np.ones(2, ">f4"), "ndarray of >f4"),
        (3, "int, which has no __dlpack__"),
        (np.frombuffer(bytes(9), "float32", 2, 1), "ndarray of float32, whose memory is not aligned"),
        (
            torch.frombuffer(bytearray(9), dtype=torch.float32, count=2, offset=1),
            "Tensor of float32, whose memory is",
        ),
    ],
)
def test_other_dtypes_and_places_are_refused(x, found):
    message = (
        f"^shared_memory: x must be on the CPU and of dtype float32, float64, int64 or bool; got {found}"
    )
    with pytest.raises(TypeError, match=message):
        _core.shared_memory(x)


def test_the_owner_lives_as_long_as_its_memory_is_read():
    x = grid(3)
    alive = weakref.ref(x)
    t = _core.shared_memory(x)
    view = t[1:]
    del x, t
    gc.collect()
    assert alive() is not None
    assert view.tolist() == [1, 2]
    del view
    assert alive() is None


def test_a_graph_keeps_the_owner_and_frees_it():
    x = grid(3)
    alive = weakref.ref(x)
    t = _core.shared_memory(x)
    t.requires_grad = True
    y = (t * t).sum()
    del x
    assert alive() is not None
    (dt,) = qkv.grad(y, [t])
    assert dt.tolist() == [0, 2, 4]
    del t, y, dt
    assert alive() is None


def test_what_a_gradient_needs_is_neither_copied_nor_compared():
    x = grid(3)
    t = _core.shared_memory(x)
    t.requires_grad = True
    y = (t * t).sum()
    assert _core.is_saved(t)
    x += 1  # that library's own watch would find this
    assert qkv.grad(y, [t])[0].tolist() == [2, 4, 6]


def test_a_weight_in_the_memory_of_others_is_read_anew():
    x = torch.eye(37)
    t = _core.shared_memory(x)
    rows = qkv.tensor(np.ones((64, 37), "float32"))
    for _ in range(3):
        assert (rows @ t).tolist() == rows.tolist()
    x.zero_()
    assert not (rows @ t).numpy().any()


def test_shared_memory_is_freed_from_any_thread():
    x = grid(3)
    alive = weakref.ref(x)
    held = [_core.shared_memory(x)]
    del x
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert alive() is None


@pytest.mark.parametrize(
    "made", [lambda x: x * 2, lambda x: (x * 2).transpose(1, 0), lambda x: (x * 2).sum()]
)
def test_a_result_is_handed_over_without_a_copy(made):
    y = made(_core.shared_memory(grid(3, 5)))
    expected, place = y.numpy().copy(), _core.address(y)
    x = _core.handed_over(y, grid(1))
    assert type(x) is torch.Tensor
    assert x.data_ptr() == place
    del y
    gc.collect()
    np.testing.assert_array_equal(x.numpy(), expected)
    x += 1
    np.testing.assert_array_equal(x.numpy(), expected + 1)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
def test_dtypes_that_are_handed_over(dtype):
    y = qkv.tensor(np.ones((2, 3)), dtype=dtype)
    x = _core.handed_over(y, grid(1))
    assert x.numpy().dtype == dtype
    assert x.tolist() == y.tolist()


def test_an_array_without_numbers_is_handed_over():
    assert _core.handed_over(qkv.tensor(np.ones((0, 3))), grid(1)).shape == (0, 3)


SHARED = {
    "the argument": lambda x: x,
    "a view of the argument": lambda x: x[1:],
    "what another Tensor shows": lambda x, kept=[]: (kept.append(x * 2), kept[-1].detach())[1],
    "a view of another": lambda x, kept=[]: (kept.append(x * 2), kept[-1][1:])[1],
    "one number for many": lambda x: np.broadcast_to(x * 2, (7, 3)),
    "memory that NumPy shows": lambda x, kept=[]: (y := x * 2, kept.append(y.numpy()))[0],
}


@pytest.mark.parametrize("made", SHARED.values(), ids=SHARED)
def test_a_result_in_memory_of_others_is_copied(made):
    y = made(_core.shared_memory(grid(3)))
    x = _core.handed_over(y, grid(1))
    before = y.numpy().copy()
    x += 1
    np.testing.assert_array_equal(y.numpy(), before)


def test_a_recorded_result_is_handed_over_with_what_a_gradient_needs():
    t = qkv.tensor([1.0, 2.0], requires_grad=True)
    y = qkv.exp(t)
    assert _core.is_saved(y)
    x = _core.handed_over(y, grid(1))
    assert x.data_ptr() == _core.address(y)
    assert not _core.is_saved(t * 2)


def test_an_array_is_handed_over_and_freed_with_it():
    y = np.arange(3.0)
    alive = weakref.ref(y)
    x = _core.handed_over(y, grid(1))
    assert x.data_ptr() == y.ctypes.data
    del y
    assert alive() is not None
    held = [x]
    del x
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert alive() is None


def test_an_array_that_is_read_only_is_copied():
    y = np.arange(3.0)
    y.flags.writeable = False
    x = _core.handed_over(y, grid(1))
    x += 1
    assert y.tolist() == [0, 1, 2]


def test_handed_over_to_numpy():
    y = qkv.tensor([1.0, 2.0]) * 2
    x = _core.handed_over(y, np.ones(1))
    assert type(x) is np.ndarray
    assert x.flags.writeable
    assert x.ctypes.data == _core.address(y)


def test_only_results_of_ours_are_handed_over():
    with pytest.raises(TypeError, match=r"^handed_over: result must be a Tensor or a NumPy array; got "):
        _core.handed_over([1.0], grid(1))


def test_many_threads_share_and_free():
    def work():
        for i in range(200):
            x = torch.full((5,), float(i))
            y = _core.handed_over(_core.shared_memory(x) * 2, x)
            assert y.tolist() == [2.0 * i] * 5

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Header(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p)]


class Table(ctypes.Structure):
    _fields_ = [("header", Header), ("functions", ctypes.c_void_p * 5)]


def table_of_torch():
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return pointer(torch.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")


def with_table(table, name=b"dlpack_exchange_api"):
    """Return a tensor of a class with another table."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule = table if isinstance(table, int) else new(ctypes.addressof(table), name, None)
    cls = type("Other", (torch.Tensor,), {"__dlpack_c_exchange_api__": capsule})
    return torch.Tensor._make_subclass(cls, grid(3))


def tables():
    own = ctypes.cast(table_of_torch(), ctypes.POINTER(Table)).contents
    functions = list(own.functions)
    blind = [*functions[:3], None, functions[4]]
    made = {
        "another version": Table(Header(2, 0, None), own.functions),
        "none of the functions": Table(Header(1, 3, None), (ctypes.c_void_p * 5)()),
        "no view of a tensor": Table(Header(1, 3, None), (ctypes.c_void_p * 5)(*blind)),
        "an older one after it": Table(Header(2, 0, table_of_torch()), (ctypes.c_void_p * 5)()),
    }
    return {**made, "no capsule": 0}


TABLES = tables()


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_table_of_another_version_is_not_called(table):
    x = with_table(table)
    t = _core.shared_memory(x)
    assert _core.address(t) == x.data_ptr()
    assert t.tolist() == [0, 1, 2]
    x.requires_grad = True
    assert _core.address(_core.shared_memory(x)) == x.data_ptr()


def test_a_capsule_of_another_name_is_not_read():
    x = with_table(TABLES["another version"], b"other")
    assert _core.shared_memory(x).tolist() == [0, 1, 2]


def strided(array):
    """Return a tensor with the same numbers, whose axes are in another order in memory."""
    return torch.from_numpy(np.array(np.array(array).T, order="C")).permute(*reversed(range(np.ndim(array))))


@pytest.mark.parametrize(
    "make", [lambda x: torch.from_numpy(np.array(x)), strided], ids=["packed", "strided"]
)
@pytest.mark.parametrize("name", ATTENTION)
def test_plain_calls_read_tensors_where_they_lie(name, make):
    call, arrays = ATTENTION[name]
    given = {name: make(x) for name, x in arrays.items()}
    before = {name: x.clone() for name, x in given.items()}
    found = call(**given)
    for a, b in zip(results(found), results(call(**arrays)), strict=True):
        np.testing.assert_array_equal(a, b, strict=True)
    assert all(isinstance(y, np.ndarray) for y in (found if isinstance(found, tuple) else (found,)))
    assert all(torch.equal(given[name], x) for name, x in before.items())


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.float32, torch.float64, torch.int32, torch.int64, torch.bool]
)
def test_results_have_the_dtype_that_numpy_would_give(dtype):
    for f in (
        qkv.exp,
        qkv.abs,
        qkv.softmax,
        lambda x: qkv.concatenate([x, x]),
        lambda x: qkv.tensor([1.0]) + x,
    ):
        x = (grid(3, 5) % 7).to(dtype)
        a, b = np.asarray(f(x)), np.asarray(f(x.numpy()))
        np.testing.assert_array_equal(a, b, strict=True)


def test_results_never_lie_in_an_argument():
    x = grid(3, 5)
    for y in (qkv.concatenate([x]), qkv.pad(x, 0), qkv.tensor(x), nn.Dropout(0.0)(x)):
        before = np.array(y)
        x += 1
        np.testing.assert_array_equal(before, np.asarray(y))


def test_integers_and_booleans_are_exact():
    q, k, v = (qkv.randn(2, 3, 5) for _ in range(3))
    for lens in (torch.tensor([1, 2]), torch.tensor([1, 2], dtype=torch.int32)):
        found = qkv.scaled_dot_product_attention(q, k, v, valid_lens=lens)
        expected = qkv.scaled_dot_product_attention(q, k, v, valid_lens=[1, 2])
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(TypeError, match=r"valid_lens must hold integers; got dtype float32$"):
        qkv.scaled_dot_product_attention(q, k, v, valid_lens=torch.ones(2))
    with pytest.raises(TypeError, match=r"dropout_keep must be boolean; got dtype int64$"):
        qkv.scaled_dot_product_attention(q, k, v, dropout_keep=torch.ones(3, 3, dtype=torch.int64))
