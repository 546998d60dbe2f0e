"""The table of operations: every row against PyTorch in every dtype; its views in NumPy, names and gradient."""

import inspect
import re
import warnings

import numpy as np
import pytest

import qkv
from qkv import _operations as table
from qkv import torch as ours
from qkv._operations import OPERATIONS

DTYPES = ["float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"]
ROWS = {name: row for name, row in OPERATIONS.items() if row.torch}
NUMBERS = {"any": [[0.5, -1.5, 2.0], [3.0, 1.0, -0.25]], "positive": [[0.5, 1.5, 2.0], [3.0, 1.0, 0.25]]}
NUMBERS["small"] = [[0.5, 0.25, 0.2], [0.3, 0.1, 0.25]]


def tensors(lib, row, dtype, which=0):
    numbers = np.array(NUMBERS[row.samples[which % len(row.samples)]])
    numbers = (
        np.abs(numbers) * (2 if "int" in dtype else 1) if dtype in ("uint8", "bool") or which else numbers
    )
    return lib.tensor(
        np.ascontiguousarray(
            numbers.astype(dtype if dtype != "bool" else "int64").astype(dtype)
            + (which if dtype != "bool" else 0)
        ).astype(dtype)
    )


def outcome(f, *args, **options):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            result = f(*args, **options)
        except Exception as error:
            return "refused", type(error).__name__
    return str(result.dtype), np.asarray(result.numpy())


def assert_same(one, two, words, lenient=False):
    if lenient and two in [("refused", "NotImplementedError"), ("refused", "RuntimeError")]:
        return  # of booleans some of ours give what PyTorch refuses
    assert one[0] == two[0], (words, one, two)
    if one[0] != "refused":
        np.testing.assert_allclose(one[1], two[1], rtol=2e-5, atol=1e-6, err_msg=str(words))


def calls(row, lib, dtype):
    x = tensors(lib, row, dtype)
    if row.parameters == "x":
        yield (x,), {}
    elif row.parameters == "a, b":
        for other in DTYPES:
            yield (x, tensors(lib, row, other, 1)), {}
            yield (x, tensors(lib, row, other, 1)[0, 0]), {}
            yield (tensors(lib, row, other, 1)[0, 0], x), {}
        if row.name not in ("maximum", "minimum"):
            yield from (((x, number), {}) for number in (2, 2.5, True))
    elif row.parameters.startswith("tensors"):
        yield from (
            ((([x, tensors(lib, row, other, 1)]),), {"dim": d}) for other in DTYPES for d in (0, 1, -1)
        )
    else:
        yield from (((x,), {"dim": d}) for d in (0, 1, -1, 5))
        if "None" in row.parameters and row.name not in ("amax", "amin"):
            yield (x,), {}
        if "keepdims" in row.parameters:
            yield (x, 1, True), {}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ROWS)
def test_pytorch_has_the_same(name, dtype):
    torch = pytest.importorskip("torch")
    row = ROWS[name]
    word = row.torch.split()[0]
    if name in ("any", "all") and dtype == "uint8":
        return  # which PyTorch alone keeps uint8
    for (args, options), (theirs, more) in zip(
        calls(row, ours, dtype), calls(row, torch, dtype), strict=True
    ):
        expected = outcome(getattr(torch, word), *theirs, **more)
        for other in row.torch.split():
            assert_same(
                outcome(getattr(ours, other), *args, **options),
                expected,
                (other, theirs, more),
                dtype == "bool",
            )


@pytest.mark.parametrize("name", ROWS)
def test_names_signatures_and_spellings(name):
    row = ROWS[name]
    for word in row.torch.split():
        f = getattr(ours, word)
        assert inspect.isfunction(f)
        assert f.__doc__
        assert next(iter(inspect.signature(f).parameters)) == re.match(r"\w+", row.signature)[0]
    if "axis" in row.parameters and not row.parameters.startswith("tensors"):
        x = tensors(ours, row, "float32")
        assert_same(outcome(f, x, axis=1), outcome(f, x, dim=1), name)
    x = tensors(ours, row, "float32")
    if row.parameters == "x":
        into = ours.zeros(2, 3)
        assert f(x, out=into) is into
        assert (into == f(x)).all()


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.gradient])
def test_gradients_and_their_names(name):
    torch = pytest.importorskip("torch")
    row = ROWS[name]
    for (args, options), (theirs, more) in zip(
        calls(row, ours, "float64"), calls(row, torch, "float64"), strict=True
    ):
        leaf, other = (args[0][0], theirs[0][0]) if isinstance(args[0], list) else (args[0], theirs[0])
        if not leaf.dtype.is_floating_point:
            continue
        leaf.requires_grad = other.requires_grad = True
        if "bool" in str(getattr(theirs[-1], "dtype", "")):
            continue
        try:
            expected = getattr(torch, row.torch.split()[0])(*theirs, **more)
        except (IndexError, TypeError, RuntimeError):
            continue
        found = getattr(ours, row.torch.split()[0])(*args, **options)
        if name not in ("remainder", "fmod"):  # whose name here is that of a number beside a Tensor
            assert type(found.grad_fn).__name__ == type(expected.grad_fn).__name__, (name, theirs)
        found.sum().backward()
        expected.sum().backward()
        np.testing.assert_allclose(
            leaf.grad.numpy(), other.grad.numpy(), rtol=1e-9, atol=1e-12, err_msg=f"{name} {theirs}"
        )


@pytest.mark.parametrize("name", [name for name, row in OPERATIONS.items() if row.numpy])
def test_numpys_functions(name):
    row = OPERATIONS[name]
    count = 1 if row.parameters == "x" else 2
    dtype = "int64" if row.dtype == table.BITS else "float64"
    numbers = [(np.array(NUMBERS[row.samples[i % len(row.samples)]]) + i).astype(dtype) for i in range(count)]
    with np.errstate(all="ignore"):
        expected = getattr(np, row.numpy)(*numbers)
    found = getattr(np, row.numpy)(*map(qkv.tensor, numbers))
    assert isinstance(found, qkv.Tensor)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
