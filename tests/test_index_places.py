"""Indices of arrays, read, written and differentiated, as NumPy takes them, in memory for the result."""

import tracemalloc

import numpy as np
import pytest

import qkv


def drawn_index(rng, shape):
    """An index that NumPy may take or refuse."""
    items, axis = [], 0
    length = int(rng.integers(1, 4))
    while axis < len(shape):
        n = shape[axis]
        kind = rng.choice(
            ["slice", "int", "array", "array", "list", "mask", "none", "zero", "wide mask", "true"]
        )
        if kind == "slice":
            begin, end = (None if rng.random() < 0.3 else int(rng.integers(-n - 2, n + 3)) for _ in range(2))
            items.append(slice(begin, end, int(rng.choice([-2, -1, 1, 2, 3]))))
        elif kind == "int":
            items.append(int(rng.integers(-n, n)) if n else 0)
        elif kind in ("array", "list"):
            size = [(length,), (1,), (2, length), (length, 1)][rng.integers(4)]
            low, high = (-n, n) if rng.random() < 0.97 else (-n - 1, n + 2)
            found = rng.integers(low, max(high, low + 1), size)
            items.append(
                found.tolist()
                if kind == "list"
                else found.astype(rng.choice(["i8", "i4", "u1" if low >= 0 else "i2"]))
            )
        elif kind == "mask":
            items.append(rng.random(n) < 0.5)
        elif kind == "zero":
            items.append(np.array(int(rng.integers(-n, n)) if n else 0))
        elif kind == "wide mask":
            if axis + 1 >= len(shape):
                continue
            items.append(rng.random(shape[axis : axis + 2]) < 0.5)
            axis += 1
        elif kind == "true":
            items.append(bool(rng.random() < 0.8))
            continue
        else:
            items.append(None)
            continue
        axis += 1
    cut = int(rng.integers(1, len(items) + 1))
    if rng.random() < 0.4:
        items[cut - 1 : cut] = [...]
    items = items[: max(cut, 1)] if rng.random() < 0.3 else items
    return items[0] if len(items) == 1 and rng.random() < 0.5 else tuple(items)


def outcome(x, index):
    try:
        return np.asarray(x[index])
    except (IndexError, ValueError) as error:
        return type(error)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_reads_as_numpy(seed, large):
    rng = np.random.default_rng([seed, large])
    for _ in range(400):
        rank = int(rng.integers(1, 5))
        shape = tuple(int(n) for n in rng.integers(0 if rng.random() < 0.1 else 1, 6, rank))
        if large:
            shape = (5000, *shape[1:])
        x = rng.standard_normal(shape).astype(rng.choice(["f4", "f8", "i8"]))
        index = drawn_index(rng, shape)
        expected = outcome(x, index)
        for given in (qkv.tensor(x), qkv.tensor(np.ascontiguousarray(x.T)).T):
            found = outcome(given, index)
            if isinstance(expected, type):
                assert isinstance(found, type), index
                continue
            assert found.shape == expected.shape, (shape, index)
            np.testing.assert_array_equal(found, expected, err_msg=str((shape, index)))


@pytest.mark.parametrize("large", [False, True])
def test_gradients_and_writes_as_numpy(large):
    rng = np.random.default_rng([9, large])
    tried = 0
    for _ in range(500):
        shape = tuple(int(n) for n in rng.integers(1, 6, int(rng.integers(1, 4))))
        if large:
            shape = (5000, *shape[1:])
        x = rng.standard_normal(shape)
        index = drawn_index(rng, shape)
        expected = outcome(x, index)
        if isinstance(expected, type):
            continue
        tried += 1
        dy = rng.standard_normal(expected.shape)
        for turned in (False, True):
            t = qkv.tensor(x, requires_grad=True)
            (dx,) = qkv.grad(((t.T.copy().T if turned else t)[index] * dy).sum(), [t])
            right = np.zeros(shape)
            np.add.at(right, index, dy)
            np.testing.assert_allclose(dx.numpy(), right, rtol=1e-12, atol=1e-12, err_msg=str((shape, index)))
        for requires_grad in (False, True):
            y = qkv.tensor(x, requires_grad=requires_grad) * 1
            y[index] = dy[:1] if dy.ndim and len(dy) else dy
            right = x.copy()
            right[index] = dy[:1] if dy.ndim and len(dy) else dy
            np.testing.assert_array_equal(y.detach().numpy(), right)
    assert tried > 200


INDICES = {
    "[:, [0]]": lambda x: x[:, [0]],
    "[[1, 2], 0:2]": lambda x: x[[1, 2], 0:2],
    "[..., [3]]": lambda x: x[..., [3]],
    "[[1, 2]]": lambda x: x[[1, 2]],
    "[2, :, [5]]": lambda x: x[2, :3, [5]],
    "[[1], [2]]": lambda x: x[[1], [2]],
    "transposed": lambda x: x.T[:, [4]],
}


@pytest.mark.parametrize("name", INDICES)
def test_memory_grows_with_the_result(name):
    # More rows than the positions of all may have: 400 kB a column.
    x = qkv.tensor(np.zeros((50000, 30, 1) if "2, :" in name else (50000, 30), "f4"))
    x = x.reshape(50000, 30) if "2, :" not in name else x.reshape(10, 5000, 30)
    INDICES[name](x)
    tracemalloc.start()
    result = INDICES[name](x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * result.numpy().size * 2 + 20000, peak
