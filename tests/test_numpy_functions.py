"""NumPy's functions and ufuncs on Tensors: the gradient is kept, or a TypeError says what to do."""

from __future__ import annotations

import numpy as np
import pytest
from sweep import sweep

import qkv
from qkv.testing import check_gradient

RNG = np.random.default_rng(7)
X = RNG.standard_normal((2, 3, 5))
Y = RNG.standard_normal((2, 3, 5))
M = RNG.standard_normal((5, 7))
V = RNG.standard_normal(5)
POSITIVE = RNG.uniform(0.5, 2, (2, 3))
SQUARE = RNG.standard_normal((3, 3))

# What each function does with one array or several: (function of arrays, the arrays that may record).
FUNCTIONS = {
    "concatenate": (lambda a, b: np.concatenate([a, b], axis=1), X, Y),
    "concatenate with an array": (lambda a: np.concatenate([Y, a], axis=-1), X),
    "concatenate flat": (lambda a, b: np.concatenate((a, b), None), X, Y),
    "concatenate over rows of one": (lambda a: np.concatenate(a), X),
    "stack": (lambda a, b: np.stack([a, b], axis=-1), X, Y),
    "vstack": (lambda a, b: np.vstack([a, b]), V, V + 1),
    "hstack": (lambda a, b: np.hstack([a, b]), X, Y),
    "hstack of vectors": (lambda a, b: np.hstack([a, b]), V, V + 1),
    "dstack": (lambda a, b: np.dstack([a, b]), M, M + 1),
    "column_stack": (lambda a, b: np.column_stack([a, b]), V, M[:, :2]),
    "append": (lambda a, b: np.append(a, b, axis=0), X, Y),
    "where": (lambda a, b: np.where(X > 0, a, b), X, Y),
    "where with a number": (lambda a: np.where(a > 0, a, 0.1), X),
    "clip": (lambda a: np.clip(a, -0.5, 0.7), X),
    "clip by an array": (lambda a, b: np.clip(a, b, None), X, Y),
    "clip above": (lambda a: np.clip(a, None, 0.3), X),
    "repeat": (lambda a: np.repeat(a, 3, axis=1), X),
    "repeat by counts": (lambda a: np.repeat(a, [2, 0, 1], axis=1), X),
    "repeat flat": (lambda a: np.repeat(a, 2), X),
    "tile": (lambda a: np.tile(a, (2, 1, 3)), X),
    "pad": (lambda a: np.pad(a, ((0, 0), (1, 2), (3, 0))), X),
    "pad with a number": (lambda a: np.pad(a, 1, constant_values=2.5), M),
    "pad edge": (lambda a: np.pad(a, ((0, 0), (2, 1), (0, 2)), mode="edge"), X),
    "pad reflect": (lambda a: np.pad(a, ((0, 0), (2, 1), (0, 2)), "reflect"), X),
    "pad wrap": (lambda a: np.pad(a, 2, "wrap"), M),
    "pad nothing": (lambda a: np.pad(a, 0), M),
    "broadcast_to": (lambda a: np.broadcast_to(a, (2, 5, 7)), M),
    "broadcast_arrays": (lambda a, b: np.broadcast_arrays(a, b)[1], M, M[:1]),
    "squeeze": (lambda a: np.squeeze(a[:, :1], axis=1), X),
    "expand_dims": (lambda a: np.expand_dims(a, (0, 2)), X),
    "atleast_2d": (lambda a: np.atleast_2d(a), V),
    "split": (lambda a: np.split(a, [1, 2], axis=1)[1], X),
    "array_split": (lambda a: np.array_split(a, 2, axis=2)[0], X),
    "hsplit": (lambda a: np.hsplit(a, 3)[2], X),
    "swapaxes": (lambda a: np.swapaxes(a, 0, 2), X),
    "transpose": (lambda a: np.transpose(a), X),
    "transpose by axes": (lambda a: np.transpose(a, (2, 0, 1)), X),
    "moveaxis": (lambda a: np.moveaxis(a, 0, -1), X),
    "reshape": (lambda a: np.reshape(a, (5, -1)), X),
    "reshape in Fortran's order": (lambda a: np.reshape(a, (5, -1), order="F"), X),
    "ravel": (lambda a: np.ravel(a), X),
    "flip": (lambda a: np.flip(a, 1), X),
    "roll": (lambda a: np.roll(a, 2, axis=-1), X),
    "rot90": (lambda a: np.rot90(a), M),
    "take": (lambda a: np.take(a, [2, 0, 2], axis=1), X),
    "take_along_axis": (lambda a: np.take_along_axis(a, np.argsort(Y, axis=1), 1), X),
    "delete": (lambda a: np.delete(a, 1, axis=1), X),
    "diagonal": (lambda a: np.diagonal(a), SQUARE),
    "trace": (lambda a: np.trace(a), SQUARE),
    "triu": (lambda a: np.triu(a, 1), SQUARE),
    "tril": (lambda a: np.tril(a), SQUARE),
    "sort": (lambda a: np.sort(a, axis=1), X),
    "diff": (lambda a: np.diff(a, 2, axis=2), X),
    "copy": (lambda a: np.copy(a), X),
    "nan_to_num": (lambda a: np.nan_to_num(a), X),
    "sum": (lambda a: np.sum(a), X),
    "sum over axes": (lambda a: np.sum(a, axis=(0, 2), keepdims=True), X),
    "mean": (lambda a: np.mean(a, axis=1), X),
    "max": (lambda a: np.max(a, axis=-1), X),
    "min": (lambda a: np.min(a, axis=-1, keepdims=True), X),
    "amin": (lambda a: np.amin(a), X),
    "ptp": (lambda a: np.ptp(a, axis=0), X),
    "var": (lambda a: np.var(a, axis=1), X),
    "std": (lambda a: np.std(a, axis=(0, 1), ddof=1), X),
    "average": (lambda a, w: np.average(a, axis=1, weights=w), X, np.array([1.0, 2.0, 0.5])),
    "linalg.norm": (lambda a: np.linalg.norm(a, axis=-1), X),
    "linalg.norm of all": (lambda a: np.linalg.norm(a), X),
    "linalg.norm 1": (lambda a: np.linalg.norm(a, 1, axis=0), X),
    "linalg.norm 3": (lambda a: np.linalg.norm(a, 3, axis=1), X),
    "linalg.norm 0": (lambda a: np.linalg.norm(a, 0, axis=1) * a[:, 0], X),
    "linalg.norm inf": (lambda a: np.linalg.norm(a, np.inf, axis=1, keepdims=True), X),
    "linalg.norm -inf": (lambda a: np.linalg.norm(a, -np.inf), V),
    "linalg.norm of matrices": (lambda a: np.linalg.norm(a, 1, axis=(2, 0)), X),
    "linalg.norm of a matrix": (lambda a: np.linalg.norm(a, -np.inf, keepdims=True), M),
    "linalg.norm fro": (lambda a: np.linalg.norm(a, "fro", axis=(0, 1)), X),
    "dot": (lambda a, b: np.dot(a, b), M.T, V),
    "dot of many axes": (lambda a, b: np.dot(a, b), X, M[None]),
    "dot with a number": (lambda a: np.dot(a, 3.0), X),
    "vdot": (lambda a, b: np.vdot(a, b), X, Y),
    "inner": (lambda a, b: np.inner(a, b), X, M.T),
    "outer": (lambda a, b: np.outer(a, b), V, POSITIVE),
    "tensordot": (lambda a, b: np.tensordot(a, b, ([0, 2], [0, 2])), X, Y),
    "matmul": (lambda a, b: np.matmul(a, b), X, M),
    "einsum scores": (lambda a, b: np.einsum("bqd,bkd->bqk", a, b), X, Y),
    "einsum values": (lambda a, b: np.einsum("bqk,bkd->bqd", a, b), X.swapaxes(1, 2), X),
    "einsum implicit": (lambda a, b: np.einsum("ij,jk", a, b), M.T, M),
    "einsum ellipsis": (lambda a, b: np.einsum("...d,de->...e", a, b), X, M),
    "einsum diagonal": (lambda a: np.einsum("ii->i", a), SQUARE),
    "einsum trace": (lambda a: np.einsum("ii", a), SQUARE),
    "einsum of three": (lambda a, b, c: np.einsum("bij,jk,i->bk", a, b, c), X, M, np.arange(3.0)),
    "einsum interleaved": (lambda a, b: np.einsum(a, [0, 1, 2], b, [2, 3], [3, 0, 1]), X, M),
    "einsum transposed": (lambda a: np.einsum("bij->jib", a), X),
    "einsum sum": (lambda a: np.einsum("bij->j", a), X),
    "einsum broadcast": (lambda a, b: np.einsum("bij,bij->bij", a, b), X, Y[:, :1]),
    "exp": (np.exp, X),
    "exp2": (np.exp2, X),
    "expm1": (np.expm1, X),
    "log": (np.log, POSITIVE),
    "log2": (np.log2, POSITIVE),
    "log10": (np.log10, POSITIVE),
    "log1p": (np.log1p, POSITIVE),
    "sqrt": (np.sqrt, POSITIVE),
    "square": (np.square, X),
    "reciprocal": (np.reciprocal, POSITIVE),
    "sin": (np.sin, X),
    "cos": (np.cos, X),
    "tan": (np.tan, POSITIVE / 2),
    "sinh": (np.sinh, X),
    "cosh": (np.cosh, X),
    "tanh": (np.tanh, X),
    "absolute": (np.abs, X),
    "negative": (np.negative, X),
    "degrees": (np.degrees, X),
    "maximum": (np.maximum, X, Y),
    "maximum with a number": (lambda a: np.maximum(a, 0.1), X),
    "minimum": (np.minimum, X, Y),
    "fmod": (np.fmod, X, POSITIVE.reshape(2, 3, 1)),
    "minimum with an array": (lambda a: np.minimum(Y, a), X),
    "logaddexp": (np.logaddexp, X, Y),
    "add": (np.add, X, Y),
    "subtract from an array": (lambda a: np.subtract(Y, a), X),
    "divide": (np.divide, X, POSITIVE.reshape(2, 3, 1)),
    "power": (np.power, POSITIVE, 1.7 * POSITIVE),
    "add.reduce": (lambda a: np.add.reduce(a), X),
    "maximum.reduce": (lambda a: np.maximum.reduce(a, axis=1, keepdims=True), X),
    "minimum.reduce": (lambda a: np.minimum.reduce(a, axis=1), X),
}


@sweep("name", FUNCTIONS)
def test_the_numbers_are_numpy_s_and_the_gradient_is_kept(name):
    function, *arrays = FUNCTIONS[name]
    expected = function(*arrays)
    for requires in (True, False):
        result = function(*(qkv.tensor(a, requires_grad=requires) for a in arrays))
        assert isinstance(result, qkv.Tensor)
        assert result.requires_grad is requires
        assert result.shape == np.shape(expected)
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-12, atol=1e-14)
    check_gradient(function, *arrays, rtol=1e-5)


LOST = {
    "nancumprod": lambda t: np.nancumprod(t, axis=0),
    "nanmean": lambda t: np.nanmean(t),
    "median": lambda t: np.median(t),
    "percentile": lambda t: np.percentile(t, 5),
    "round": lambda t: np.round(t, 2),
    "floor": lambda t: np.floor(t),
    "sign": lambda t: np.sign(t),
    "arctan2": lambda t: np.arctan2(t, 1.0),
    "interp": lambda t: np.interp(t[0], [0.0, 1.0], [0.0, 1.0]),
    "kron": lambda t: np.kron(t, t),
    "cov": lambda t: np.cov(t),
    "linalg.inv": lambda t: np.linalg.inv(t[:2, :2]),
    "fft": lambda t: np.fft.fft(t),
    "apply_along_axis": lambda t: np.apply_along_axis(np.sum, 0, t),
    "multiply.accumulate": lambda t: np.multiply.accumulate(t),
    "logaddexp.reduce": lambda t: np.logaddexp.reduce(t),
    "add.outer": lambda t: np.add.outer(t, t),
    "sum into an array": lambda t: np.sum(t, out=np.zeros(())),
    "exp into an array": lambda t: np.exp(t, out=np.zeros(t.shape)),
    "exp in another dtype": lambda t: np.exp(t, dtype="float64"),
    "add at": lambda t: np.add.at(np.zeros(2), [0, 1, 1], t[0]),
    "array += tensor": lambda t: np.ones(t.shape).__iadd__(t),
    "copyto": lambda t: np.copyto(np.zeros(t.shape), t),
    "pad linear_ramp": lambda t: np.pad(t, 1, "linear_ramp"),
    "full_like": lambda t: np.full_like(t, t[0, 0]),
}


@pytest.mark.parametrize("name", LOST)
def test_what_would_lose_the_gradient_says_so(name):
    t = qkv.tensor(POSITIVE, requires_grad=True)
    with pytest.raises(
        TypeError, match=r"^numpy\.[a-z_0-9.]+: the gradient would be lost because .*detach\(\) the Tensor$"
    ):
        LOST[name](t)
    with qkv.no_grad():
        LOST[name](t)
    LOST[name](t.detach())


def test_the_error_names_qkv_s_function():
    t = qkv.tensor(X, requires_grad=True)
    with pytest.raises(
        TypeError, match=r"^numpy\.exp: .* because out is not known here; use qkv\.exp, or detach"
    ):
        np.exp(t, out=np.zeros(X.shape))
    with pytest.raises(
        TypeError, match=r"^numpy\.concatenate: .* because out is not known here; use qkv\.concatenate, or"
    ):
        np.concatenate([t, t], out=np.zeros((4, 3, 5)))
    with pytest.raises(
        TypeError, match=r"^numpy\.nancumprod: .* because qkv has no such operation; use qkv's operations"
    ):
        np.nancumprod(t)
    with pytest.raises(
        TypeError, match=r"^numpy\.linalg\.inv: .* because qkv has no such operation; use qkv's operations"
    ):
        np.linalg.inv(t[0, :3, :3])


@pytest.mark.parametrize("requires", [True, False])
def test_what_has_no_gradient_is_numpy_s(requires):
    t = qkv.tensor(X, requires_grad=requires)
    assert np.shape(t) == X.shape
    assert np.ndim(t) == 3
    assert np.size(t) == 30
    assert np.allclose(t, X)
    assert np.array_equal(t, t)
    assert isinstance(np.isnan(t), np.ndarray)
    assert np.isfinite(t).all()
    assert np.argmax(t) == np.argmax(X)
    assert np.argsort(t, axis=1).tolist() == np.argsort(X, axis=1).tolist()
    assert np.count_nonzero(t > 0) == np.count_nonzero(X > 0)
    assert [i.tolist() for i in np.nonzero(t > 0)] == [i.tolist() for i in np.nonzero(X > 0)]
    assert [i.tolist() for i in np.where(t > 0)] == [i.tolist() for i in np.where(X > 0)]
    assert np.array_equal(np.greater(t, Y).numpy(), X > Y)
    assert np.any(t > 0)
    assert not np.all(t > 0)
    assert np.array_str(t) == np.array_str(X)
    np.testing.assert_allclose(t, X)
    np.testing.assert_array_equal(t, X)
    assert np.asarray(t).dtype == np.float64
    zeros = np.zeros_like(t)
    assert isinstance(zeros, qkv.Tensor)
    assert (zeros.shape, zeros.requires_grad) == (X.shape, False)
    with qkv.no_grad():
        assert not np.concatenate([t, t]).requires_grad


def test_functions_of_plain_tensors_as_numpy_has_them():
    t = qkv.tensor(X)
    np.testing.assert_array_equal(np.cumsum(t, axis=1), np.cumsum(X, axis=1))
    np.testing.assert_array_equal(np.cumprod(t, axis=1), np.cumprod(X, axis=1))
    np.testing.assert_array_equal(np.floor(t), np.floor(X))
    np.testing.assert_allclose(np.median(t), np.median(X))
    for ints in (
        np.sort(qkv.tensor([3, 1, 2])),
        np.add(qkv.tensor([1]), 2),
        np.concatenate([qkv.tensor([2**62 + 1])]),
    ):
        assert isinstance(ints, qkv.Tensor)
        assert ints.dtype == np.int64
    assert np.sum(t, dtype="float32").dtype == np.float32


def test_arrays_on_the_left():
    t = qkv.tensor(X, requires_grad=True)
    for result, expected in (
        (Y + t, Y + X),
        (Y - t, Y - X),
        (np.float64(2) * t, 2 * X),
        (np.float32(2) / t, np.float32(2) / X),
        (M.T @ t.swapaxes(1, 2), M.T @ X.swapaxes(1, 2)),
        (np.abs(Y) ** t, np.abs(Y) ** X),
        (t > Y, Y < X),
        (t <= Y, Y >= X),
        (t == Y, Y == X),
    ):
        assert isinstance(result, qkv.Tensor)
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-12)
    assert (np.float64(2) * qkv.tensor([1.0])).dtype == np.float32
    with pytest.raises(TypeError, match=r"must hold numbers|unsupported"):
        np.array(["a"]) + t


def test_writing_into_tensors():
    t, u = qkv.tensor([1.0, 2.0, 3.0]), qkv.tensor([5.0, 7.0, 11.0])
    version = t.version
    assert np.add(t, u, out=t) is t
    assert t.tolist() == [6, 9, 14]
    assert t.version > version
    total = qkv.tensor(0.0)
    assert np.sum(u, out=total) is total
    assert total.item() == 23
    np.add.at(t, [0, 0], 1)
    assert t.tolist() == [8, 9, 14]
    np.copyto(t, u, where=[True, False, True])
    assert t.tolist() == [5, 9, 11]
    np.fill_diagonal(m := qkv.tensor(np.zeros((2, 2))), 3)
    assert m.tolist() == [[3, 0], [0, 3]]
    array = np.ones(3)
    array += t
    assert array.tolist() == [6, 10, 12]
    leaf = qkv.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with pytest.raises(TypeError, match="gradient would be lost"):
        np.copyto(leaf, u)
    with pytest.raises(TypeError, match="gradient would be lost"):
        np.add(leaf, u, out=t)


@pytest.mark.parametrize("x", [1e-8, -1e-8, 1e-3, 0.0, 0.4999, 0.5, 3.0, 30.0, -0.9999, -30.0])
@sweep("name", ["expm1", "log1p", "sinh"])
def test_digits_near_zero(name, x):
    if name == "log1p" and x <= -1:
        return
    function = getattr(np, name)
    close = {"float64": 4e-15, "float32": 2e-6}
    for dtype, rtol in close.items():
        number = np.array([x], dtype)
        result = function(qkv.tensor(number, requires_grad=True))
        np.testing.assert_allclose(result.numpy(), function(number), rtol=rtol)


def test_ends_of_log1p_and_expm1():
    ends = np.array([np.inf, -1.0])
    np.testing.assert_array_equal(np.log1p(qkv.tensor(ends, requires_grad=True)).numpy(), [np.inf, -np.inf])
    ends = np.array([np.inf, -np.inf])
    np.testing.assert_array_equal(np.expm1(qkv.tensor(ends, requires_grad=True)).numpy(), [np.inf, -1])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda t: np.einsum("ij,jk->ik", t, np.ones((2, 2))),
            r"^einsum: an axis must have one size in all operands; got",
        ),
        (
            lambda t: np.einsum("ij->iz", t),
            r"^einsum: the output must name axes of the operands, each once; got iz$",
        ),
        (
            lambda t: np.einsum("ij,jk->ik", t),
            r"^einsum: there must be one operand per term; got 2 terms, 1 operands$",
        ),
        (
            lambda t: np.einsum("i->i", t),
            r"^einsum: a term must name each axis of its operand; got an operand \(2, 3\)",
        ),
        (
            lambda t: np.tensordot(t, t, 1),
            r"^tensordot: axes must pair axes of equal size; got a \(2, 3\), b \(2, 3\)",
        ),
    ],
)
def test_what_products_refuse(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong(qkv.tensor(POSITIVE, requires_grad=True))


@pytest.mark.parametrize("requires", [False, True])
@pytest.mark.parametrize(
    "copied",
    {
        "take": lambda t: np.take(t, [0, 1, 2]),
        "roll": lambda t: np.roll(t, 0),
        "tile": lambda t: np.tile(t, 1),
        "delete": lambda t: np.delete(t, [], 0),
        "resize": lambda t: np.resize(t, 3),
        "clip": lambda t: np.clip(t, None, None),
        "positive": np.positive,
        "+t": lambda t: +t,
    }.items(),
    ids=lambda item: item[0],
)
def test_copies_have_memory_of_their_own(copied, requires):
    t = qkv.tensor([1.0, 2.0, 3.0], requires_grad=requires)
    result = copied[1](t)
    assert not np.shares_memory(np.asarray(result), np.asarray(t))
    assert result.requires_grad is requires


def test_a_norm_of_zeros_has_the_gradient_zero():
    x = qkv.tensor(np.array([[3.0, 4.0], [0.0, 0.0]]), requires_grad=True)
    (g,) = qkv.grad(np.linalg.norm(x, axis=1).sum(), [x])
    np.testing.assert_allclose(g.numpy(), [[0.6, 0.8], [0, 0]])
