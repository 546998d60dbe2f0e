"""Orders of numbers, and numbers at places of an axis, beside NumPy's and PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import qkv
import qkv.torch as torch

RNG = np.random.default_rng(5)
LENGTHS = [0, 1, 2, 16, 17, 61, 95, 97, 383, 385, 1031]
WIDE = np.array([2**63 - 1, -(2**63), 0, -1, 1, 2**62], np.int64)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def rows(dtype, n):
    """Numbers of which many are equal, and the special ones."""
    x = RNG.integers(-30, 30, (3, n)) / 4
    if dtype is bool:
        return x > 0
    x = x.astype(dtype)
    if x.dtype.kind == "f":
        for special in (np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0):
            x[RNG.random(x.shape) < 0.05] = special
    elif n > 20:
        x[:, RNG.permutation(n)[:6]] = WIDE
    return x


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, bool])
def test_sort_keeps_the_order_of_equal_numbers(dtype, n, descending):
    x = rows(dtype, n)
    places = np.argsort(x[:, ::-1] if descending else x, 1, kind="stable")
    places = (n - 1 - places)[:, ::-1] if descending else places
    expected = np.take_along_axis(x, places, 1)
    for t in (
        torch.tensor(x),
        torch.tensor(np.asfortranarray(x).T).t(),
        torch.tensor(x.repeat(2, 1))[:, ::2],
    ):
        values, found = torch.sort(t, 1, descending)
        assert values.numpy().tobytes() == expected.tobytes()
        np.testing.assert_array_equal(found, places)
        np.testing.assert_array_equal(t.argsort(-1, descending), places)
        np.testing.assert_array_equal(t.t().sort(0, descending)[1].t(), places)
    np.testing.assert_array_equal(qkv.argsort(x, 1, descending=descending), places)
    assert qkv.sort(x, 1, descending=descending).tobytes() == expected.tobytes()


def test_sort_of_random_numbers_of_any_size():
    for x in (
        RNG.standard_normal(3001),
        RNG.standard_normal((7, 301)).astype(np.float32),
        RNG.integers(-(2**63), 2**63 - 1, 2003),
        np.float32(10.0) ** RNG.integers(-44, 38, 1009).astype(np.float32),
    ):
        np.testing.assert_array_equal(torch.sort(torch.tensor(x))[0], np.sort(x))


def test_results_print_their_tensors():
    assert repr(torch.tensor([3.0, 1.0, 2.0]).max(0)) == (
        "torch.return_types.max(\nvalues=tensor(3.),\nindices=tensor(0))"
    )


SHAPES = [
    ((7,), 0),
    ((5, 7), 0),
    ((5, 7), 1),
    ((3, 5, 7), 1),
    ((3, 5, 7), -1),
    ((1, 5), 0),
    ((300, 400), 0),
    ((300, 400), 1),
]


def sample(shape, axis, cut=True):
    """A Tensor's numbers, places of its axis in fewer rows, and numbers for them."""
    x = RNG.standard_normal(shape)
    size = [max(n - cut, 1) for n in shape]
    size[axis] = shape[axis] + 2
    return x, RNG.integers(0, shape[axis], size), RNG.standard_normal(size)


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_places_of_an_axis_are_those_of_pytorch(shape, axis):
    theirs = pytest.importorskip("torch")
    x, index, values = sample(shape, axis)
    results = []
    for module in (theirs, torch):
        t, v = (module.tensor(a, requires_grad=True) for a in (x, values))
        i = module.tensor(index)
        ys = [t.gather(axis, i), t.scatter_add(axis, i, v), t.scatter(axis, i, 2.5)]
        ys += [t.index_select(axis, i.reshape(-1)[:3])]
        picked = v
        picked = picked.index_select(axis, module.tensor([0, 1, 1]))
        whole = module.tensor(RNG.standard_normal(1)) * 0 + t.index_select(axis, module.tensor([0, 0, 0]))
        ys += [
            t.index_add(axis, i.reshape(-1)[:3], whole, alpha=3),
            t.index_fill(axis, i.reshape(-1)[:3], 1.5),
        ]
        loss = sum((y * y).sum() for y in ys) + picked.sum()
        loss.backward()
        results.append([a.detach().numpy() for a in [*ys, t.grad, v.grad]])
    for expected, found in zip(*results, strict=True):
        close(found, expected)


def test_strided_arguments_and_whole_numbers():
    x, index, values = sample((5, 7), 1, cut=False)
    expected = x.copy()
    for row in range(5):
        np.add.at(expected[row], index[row], values[row])
    for t, i, v in ((x, index, values), (x.T.copy().T, index.T.copy().T, values.repeat(2, 1)[:, ::2])):
        close(torch.from_numpy(t).scatter_add(1, torch.from_numpy(i), torch.from_numpy(v)), expected)
    t = torch.tensor([1, 2, 3], dtype=torch.int32)
    y = t.scatter_add(0, torch.tensor([1, 1]), torch.tensor([2**31 - 1, 1], dtype=torch.int32))
    assert y.dtype == torch.int32
    assert y.tolist() == [1, 2 - 2**31, 3]
    assert torch.zeros(3).bool().scatter_add(0, torch.tensor([1, 1]), torch.ones(2).bool()).tolist() == [
        False,
        True,
        False,
    ]
    one = torch.tensor(3.0)
    assert one.gather(0, torch.tensor([0, 0])).tolist() == [3.0, 3.0]
    assert one.scatter_add(0, torch.tensor(0), torch.tensor(2.0)).item() == 5
    assert torch.zeros(0, 3).gather(1, torch.zeros(0, 2, dtype=torch.long)).shape == (0, 2)
    assert torch.ones(2, 3).scatter(1, torch.zeros(2, 0, dtype=torch.long), 5.0).tolist() == [[1.0] * 3] * 2


def test_of_several_to_one_place_the_last_one_stays():
    v = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x = torch.ones(2, requires_grad=True)
    y = x.scatter(0, torch.tensor([1, 1, 1]), v)
    assert y.tolist() == [1.0, 3.0]
    (y * torch.tensor([5.0, 7.0])).sum().backward()
    assert v.grad.tolist() == [0.0, 0.0, 7.0]
    assert x.grad.tolist() == [5.0, 0.0]


X = torch.zeros(2, 3)
WHERE = torch.tensor([[0, 3]])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: X.gather(1, WHERE), IndexError, r"^gather: index must be from 0 to 2; got 3$"),
        (lambda: X.gather(1, -WHERE), IndexError, r"^gather: index must be from 0 to 2; got -3$"),
        (lambda: X.scatter(1, WHERE, 1.0), IndexError, r"^scatter: index must be from 0 to 2; got 3$"),
        (lambda: X.scatter_add(1, WHERE, X), IndexError, r"^scatter_add: index must be from 0 to 2; got 3$"),
        (
            lambda: X.gather(0, torch.zeros(2, 4).long()),
            RuntimeError,
            r"^gather: index must not be larger than the Tensor",
        ),
        (lambda: X.gather(0, WHERE[0]), RuntimeError, r"^gather: index must have as many axes"),
        (
            lambda: X.index_add(1, WHERE, X),
            IndexError,
            r"^index_add: index must have one axis; got shape \(1, 2\)$",
        ),
        (
            lambda: X.scatter_add(1, WHERE, X.double()),
            RuntimeError,
            r"^scatter_add: the values must have the Tensor's dtype",
        ),
    ],
)
def test_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()
