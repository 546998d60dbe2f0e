"""Linear without gradients: computed from a packed copy of the weight."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers import close, same_bits_for_any_threads
from levels import each_level, run_at
from sweep import sweep

import qkv
from qkv import nn, optim
from qkv.testing import check_gradient

RNG = np.random.default_rng(0)
# One row, tiles of every height, more than one block of rows, of inputs (512) and of panels, pages (512, 1024).
SIZES = [
    (1, 1, 1),
    (5, 3, 2),
    (7, 31, 33),
    (12, 32, 64),
    (13, 97, 65),
    (101, 512, 31),
    (211, 1024, 37),
    (3, 1031, 129),
]


def layer_of(inputs, outputs, dtype, bias=True):
    layer = nn.Linear(inputs, outputs, bias).to(dtype)
    layer.weight.copy_(RNG.standard_normal((outputs, inputs)) / np.sqrt(inputs))
    return layer


def expected(layer, x):
    y = x.astype("float64") @ layer.weight.numpy().astype("float64").T
    return y if layer.bias is None else y + layer.bias.numpy()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bias", [True, False])
@sweep("rows, inputs, outputs", SIZES)
def test_values(rows, inputs, outputs, bias, dtype):
    layer = layer_of(inputs, outputs, dtype, bias)
    x = RNG.standard_normal((rows, inputs)).astype(dtype)
    with qkv.no_grad():
        close(layer(x), expected(layer, x), dtype)


# Every number of rows in a tile and of columns in a panel, and depths that end inside a stretch and a part; x and its
# transpose, which the gradient of the weight reads. A store that goes too far overwrites the next row.
EVERY_REST = """
import numpy as np
import qkv

rng = np.random.default_rng(0)
for dtype, tolerance in (("float32", 2e-5), ("float64", 1e-13)):
    for depth in (1, 7, 67, 199, 523):
        for rows in (1, 2, 3, 4, 5, 6, 7, 13, 53):
            x = rng.standard_normal((rows, depth)).astype(dtype)
            for columns in (*range(1, 20), 31, 67):
                layer = qkv.nn.Linear(depth, columns).to(dtype)
                w = rng.standard_normal((columns, depth)) / depth ** 0.5
                layer.weight.copy_(w)
                layer.bias.copy_(np.arange(columns) / columns)
                wide, bias = layer.weight.numpy().astype("float64"), layer.bias.numpy().astype("float64")
                with qkv.no_grad():
                    y = layer(x).numpy()
                np.testing.assert_allclose(y, x.astype("float64") @ wide.T + bias, 0, tolerance)
    for depth, rows, columns in ((199, 167, 131), (523, 53, 163)):  # as large as products that are packed
        a, b = (rng.standard_normal(s).astype(dtype) for s in ((depth, rows), (depth, columns)))
        y = qkv.matmul(qkv.tensor(a).T, b).numpy()
        np.testing.assert_allclose(y, a.astype("float64").T @ b.astype("float64"), 0, 10 * depth * tolerance)
print(qkv.config()["instruction_set"])
"""


@each_level()
def test_every_rest_at_every_level(level):
    done = run_at(level, EVERY_REST)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == level


def test_a_row_does_not_depend_on_the_others():
    layer, x = layer_of(257, 67, "float32"), RNG.standard_normal((131, 257)).astype("float32")
    with qkv.no_grad():
        whole = layer(x).numpy()
        for first, last in [(0, 1), (3, 10), (7, 120), (130, 131)]:
            assert np.array_equal(layer(x[first:last]).numpy(), whole[first:last])


@pytest.mark.parametrize("rows", [1, 9, 700])
def test_same_bits_for_any_threads(rows):
    layer, x = layer_of(384, 1536, "float32"), RNG.standard_normal((rows, 384)).astype("float32")

    def run():
        with qkv.no_grad():
            return [layer(x)]

    same_bits_for_any_threads(run)


def test_empty_batches():
    with qkv.no_grad():
        assert nn.Linear(3, 5)(np.zeros((0, 3))).shape == (0, 5)
        assert nn.Linear(3, 5)(np.zeros((2, 0, 3))).shape == (2, 0, 5)


def test_nan_and_infinity_stay_in_their_rows():
    layer, x = layer_of(19, 23, "float32"), np.ones((5, 19), "float32")
    x[1, 3], x[2, 4] = np.nan, np.inf
    with qkv.no_grad():
        y = layer(x).numpy()
    assert np.isnan(y[1]).all()
    assert np.isinf(y[2]).all()
    assert np.isfinite(y[[0, 3, 4]]).all()


def changes(layer, x):
    """Return each way to change a parameter, by its name."""
    state = {k: v.numpy() + 1 for k, v in layer.state_dict().items()}

    def step():
        layer(x).sum().backward()
        optim.SGD(layer.parameters(), lr=0.1).step()

    return {
        "copy_": lambda: layer.weight.copy_(layer.weight.numpy() * 2),
        "load_state_dict": lambda: layer.load_state_dict(state),
        "optimizer": step,
        "another parameter": lambda: setattr(layer, "weight", nn.Parameter(layer.weight.numpy() * 3)),
        "dtype": lambda: layer.to("float64"),
    }


@pytest.mark.parametrize("how", ["copy_", "load_state_dict", "optimizer", "another parameter", "dtype"])
def test_a_changed_weight_is_noticed(how):
    layer, x = layer_of(17, 29, "float32"), RNG.standard_normal((3, 17)).astype("float32")
    with qkv.no_grad():
        before = layer(x).numpy()
    changes(layer, x)[how]()
    with qkv.no_grad():
        after = layer(x).numpy()
    close(after, expected(layer, x), "float32")
    assert how == "dtype" or not np.allclose(before, after)


def test_a_weight_without_gradient_is_written_through_numpy():
    layer, x = nn.Linear(5, 3), np.ones((2, 5), "float32")
    layer.weight.requires_grad = False
    with qkv.no_grad():
        layer(x)
        layer.weight.numpy()[:] = 0
        assert np.array_equal(layer(x).numpy(), np.broadcast_to(layer.bias.numpy(), (2, 3)))


@pytest.mark.parametrize("kind", ["linear", "gru", "recurrence"])
def test_a_weight_is_written_through_a_view_that_lives_on(kind):
    """Each write counts at once, while the view lives and after its end; a view that is only read changes nothing."""
    layer = nn.Linear(3, 5) if kind == "linear" else nn.GRU(3, 5)
    weight = (
        layer.weight_hh_l0 if kind == "recurrence" else layer.weight_ih_l0 if kind == "gru" else layer.weight
    )
    for parameter in layer.parameters():
        parameter.requires_grad = False
    x = RNG.standard_normal((2, 7, 3)).astype("f4")

    def run():
        y = layer(x)
        return (y if kind == "linear" else y[0]).numpy().copy()

    def expected():
        twin = nn.Linear(3, 5) if kind == "linear" else nn.GRU(3, 5)
        twin.load_state_dict({name: value.numpy().copy() for name, value in layer.state_dict().items()})
        return np.asarray(twin(qkv.tensor(x)) if kind == "linear" else twin(qkv.tensor(x))[0])

    with qkv.no_grad():
        first = run()
        view = weight.numpy()
        np.testing.assert_allclose(run(), first, rtol=1e-5, atol=1e-6)
        for value in (2, -1):
            view[...] = value
            np.testing.assert_allclose(run(), expected(), rtol=1e-5, atol=1e-6)
            view[0, 1] += 3
            np.testing.assert_allclose(run(), expected(), rtol=1e-5, atol=1e-6)
        del view
        np.testing.assert_allclose(run(), expected(), rtol=1e-5, atol=1e-6)
        weight.numpy()[...] = 0.5
        np.testing.assert_allclose(run(), expected(), rtol=1e-5, atol=1e-6)


def test_a_weight_that_had_no_gradient_for_a_while_is_packed_again():
    layer, x = nn.Linear(5, 3), np.ones((2, 5), "float32")
    with qkv.no_grad():
        layer(x)
        layer.weight.requires_grad = False
        layer.weight.numpy()[:] = 0
        layer.weight.requires_grad = True
        assert np.array_equal(layer(x).numpy(), np.broadcast_to(layer.bias.numpy(), (2, 3)))


def test_copies_are_independent():
    layer, x = layer_of(7, 5, "float32"), np.ones((2, 7), "float32")
    with qkv.no_grad():
        before = layer(x).numpy()
        for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert np.array_equal(twin(x).numpy(), before)
            twin.weight.copy_(np.zeros((5, 7)))
            assert not np.array_equal(twin(x).numpy(), before)
        assert np.array_equal(layer(x).numpy(), before)


def test_several_python_threads():
    layer, x = layer_of(384, 128, "float32"), RNG.standard_normal((5, 384)).astype("float32")

    def run(_):
        with qkv.no_grad():
            return layer(x).numpy()

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(run, range(40)))
    assert all(np.array_equal(y, results[0]) for y in results)
    close(results[0], expected(layer, x), "float32")


def test_errors_are_those_with_gradients():
    with (
        qkv.no_grad(),
        pytest.raises(
            ValueError, match=r"^Linear: x must be \(\.\.\., 3\) because in_features = 3; got x \(2, 4\)$"
        ),
    ):
        nn.Linear(3, 5)(np.ones((2, 4)))


def test_logits_of_an_embedding():
    table, x = nn.Embedding(29, 17), RNG.standard_normal((3, 2, 17)).astype("float32")
    bias = RNG.standard_normal(29).astype("float32")
    with qkv.no_grad():
        for _ in range(2):  # a changed table is noticed
            close(table.logits(x, bias), x @ table.weight.numpy().T + bias, "float32")
            close(table.logits(x), x @ table.weight.numpy().T, "float32")
            table.weight.copy_(-2 * table.weight.numpy())
        close(table.to("float64").logits(x), x @ table.weight.numpy().T, "float32")
    table = nn.Embedding(5, 3).to("float64")
    check_gradient(table.logits, RNG.standard_normal((2, 3)), RNG.standard_normal(5))
    table.zero_grad()
    table.logits(x := RNG.standard_normal((2, 3))).sum().backward()
    close(table.weight.grad, np.broadcast_to(x.sum(0), (5, 3)))
    with pytest.raises(
        ValueError, match=r"Embedding: x must be .* because embedding_dim = 3; got x \(2, 4\)$"
    ):
        table.logits(np.ones((2, 4)))
    with pytest.raises(
        ValueError, match=r"Embedding: bias must be \(num_embeddings,\) = \(5,\); got bias \(3,\)"
    ):
        table.logits(np.ones((2, 3)), np.ones(3))
