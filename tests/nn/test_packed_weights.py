"""Matrices that inference has in packed form alone: all who ask for their numbers get them, bit by bit."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import qkv

# (in, out): below what is given back, whole panels, odd sizes.
SIZES = [(1, 1), (7, 5), (131, 67), (384, 576), (577, 193), (1031, 70)]
LARGE = [s for s in SIZES if s[0] * s[1] * 4 >= 1 << 16]


def draw(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def made(sizes: tuple[int, int], dtype: str = "float32") -> qkv.nn.Linear:
    qkv.manual_seed(sum(sizes))
    layer = qkv.nn.Linear(*sizes).to(dtype)
    if dtype != "bfloat16" and sizes[0] > 4:
        special = layer.weight.numpy().copy()
        special[0, :4] = np.nan, np.inf, -0.0, 1e-40
        layer.weight.copy_(special)
    return layer


def infer(layer: qkv.nn.Module, x: np.ndarray) -> np.ndarray:
    with qkv.no_grad():
        return layer(x).numpy()


def packed(t: qkv.Tensor) -> bool:
    return bool(qkv._core.in_panels(t))


def used(sizes: tuple[int, int], dtype: str = "float32") -> qkv.nn.Linear:
    """Return a layer after inference, whose weight is in packed form alone if it is large."""
    layer = made(sizes, dtype)
    infer(layer, draw(3, sizes[0]))
    assert packed(layer.weight) == (layer.weight.nbytes >= 1 << 16 or dtype == "bfloat16")
    return layer


def bits(x: Any) -> bytes:
    return np.ascontiguousarray(x).tobytes()


def by_state(layer: qkv.nn.Linear) -> Any:
    return layer.state_dict()["weight"].numpy()


def by_update(layer: qkv.nn.Linear) -> Any:
    layer.weight.grad = np.ones(layer.weight.shape)
    qkv.optim.SGD([layer.weight], lr=0.5).step()
    return layer.weight.numpy()


def by_loading(layer: qkv.nn.Linear) -> Any:
    other = qkv.nn.Linear(layer.in_features, layer.out_features).to(str(layer.weight.dtype))
    infer(other, draw(2, layer.in_features))  # what is loaded into is packed, too
    other.load_state_dict({"weight": layer.weight}, strict=False)
    return other.weight.numpy()


def by_number(layer: qkv.nn.Linear) -> Any:
    table = qkv.nn.Embedding(layer.out_features, layer.in_features)
    table.weight = layer.weight
    return infer(table, np.arange(layer.out_features))


def by_pickle(layer: qkv.nn.Linear) -> Any:
    return pickle.loads(pickle.dumps(layer)).weight.numpy()


CONSUMERS: dict[str, Callable[[qkv.nn.Linear], Any]] = {
    "numpy": lambda layer: layer.weight.numpy(),
    "asarray": lambda layer: np.asarray(layer.weight),
    "dlpack": lambda layer: np.from_dlpack(layer.weight.detach()),
    "ctypes": lambda layer: np.ctypeslib.as_array(
        (np.ctypeslib.as_ctypes_type(layer.weight.dtype) * layer.weight.size).from_address(
            layer.weight.ctypes.data
        )
    ),
    "tobytes": lambda layer: np.frombuffer(layer.weight.tobytes(), layer.weight.dtype),
    "state_dict": by_state,
    "load_state_dict": by_loading,
    "pickle of the module": by_pickle,
    "pickle of the parameter": lambda layer: pickle.loads(pickle.dumps(layer.weight)).numpy(),
    "deepcopy of the module": lambda layer: copy.deepcopy(layer).weight.numpy(),
    "deepcopy of the parameter": lambda layer: copy.deepcopy(layer.weight).numpy(),
    "detach": lambda layer: layer.weight.detach().numpy(),
    "transpose": lambda layer: layer.weight.T.numpy().T,
    "slices": lambda layer: np.concatenate([layer.weight[:1].numpy(), layer.weight[1:].numpy()]),
    "rows": lambda layer: np.stack([row.numpy() for row in layer.weight]),
    "an operation": lambda layer: (layer.weight * 1.0).numpy(),
    "rows by number": by_number,
    "a step of an optimizer": by_update,
    "copy_ of itself": lambda layer: layer.weight.detach().copy_(layer.weight).numpy(),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("name", CONSUMERS)
def test_every_bit_comes_back(name, dtype):
    for sizes in SIZES:
        layer = used(sizes, dtype)
        fresh = made(sizes, dtype)
        assert bits(CONSUMERS[name](layer)) == bits(CONSUMERS[name](fresh)), sizes
        assert bits(layer.weight) == bits(fresh.weight), sizes


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("wanted", ["float32", "float64", "bfloat16"])
def test_conversion_after_inference(sizes, wanted):
    fresh, layer = made(sizes), used(sizes)
    for each in (fresh, layer):
        each.to(wanted)
    x = draw(4, sizes[0], seed=1)
    assert bits(infer(layer, x)) == bits(infer(fresh, x))
    assert bits(layer.weight) == bits(fresh.weight)
    for each in (fresh, layer):
        each.to("float32")
    assert bits(infer(layer, x)) == bits(infer(fresh, x))
    assert bits(layer.weight) == bits(fresh.weight)


@pytest.mark.parametrize("sizes", LARGE)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_it_is_packed_again_where_it_is_used_again(sizes, dtype):
    layer, x = used(sizes, dtype), draw(4, sizes[0], seed=1)
    expected = bits(infer(layer, x))
    for _ in range(3):
        layer.weight.numpy()
        assert not packed(layer.weight)
        assert bits(infer(layer, x)) == expected
        assert not packed(layer.weight), "it may be asked back once more"
        assert bits(infer(layer, x)) == expected
        assert packed(layer.weight)


def test_questions_that_need_no_number_leave_it_packed():
    layer = used((384, 576))
    weight = layer.weight
    answers = weight.shape, weight.ndim, weight.size, len(weight), weight.nbytes, weight.version, weight.dtype
    assert answers == ((576, 384), 2, 576 * 384, 576, 576 * 384 * 4, weight.version, np.float32)
    assert "384" in repr(layer)
    layer.state_dict(), copy.deepcopy(layer), pickle.dumps(layer), list(layer.named_parameters())
    layer.load_state_dict({"bias": layer.bias}, strict=False)
    assert packed(weight)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_inference_between_steps_of_training_changes_nothing(name):
    def network() -> qkv.nn.Module:
        qkv.manual_seed(3)
        return qkv.nn.Sequential(qkv.nn.Linear(131, 257), qkv.nn.GELU(), qkv.nn.Linear(257, 67))

    x, y = draw(11, 131), draw(11, 67, seed=1)
    ends = []
    for infers in (0, 1, 2, 3):
        net = network()
        optimizer = getattr(qkv.optim, name)(net.parameters(), lr=0.1)
        for _ in range(4):
            for _ in range(infers):
                infer(net, x)
            optimizer.zero_grad()
            ((net(x) - y) ** 2).mean().backward()
            optimizer.step()
        ends.append([bits(p) for p in net.parameters()] + [bits(infer(net, x))])
    assert all(end == ends[0] for end in ends)


def test_gradients_after_inference():
    fresh, layer = made((384, 576)), used((384, 576))
    fresh.weight.copy_(np.nan_to_num(fresh.weight.numpy()))
    layer.weight.copy_(fresh.weight)
    infer(layer, draw(3, 384)), infer(layer, draw(3, 384))
    assert packed(layer.weight)
    x = [qkv.tensor(draw(5, 384, seed=2), requires_grad=True) for _ in range(2)]
    for each, given in zip((fresh, layer), x, strict=True):
        (each(given) ** 2).sum().backward()
    for a, b in zip((fresh.weight, fresh.bias, x[0]), (layer.weight, layer.bias, x[1]), strict=True):
        assert bits(a.grad) == bits(b.grad)


def test_a_graph_that_waits_keeps_the_memory_it_saved():
    layer = made((384, 576))
    loss = (layer(qkv.tensor(draw(5, 384), requires_grad=True)) ** 2).sum()
    expected = bits(np.asarray(layer.weight))
    for _ in range(3):
        infer(layer, draw(3, 384))
    assert not packed(layer.weight)
    loss.backward()
    assert bits(layer.weight) == expected
    del loss
    infer(layer, draw(3, 384))
    assert packed(layer.weight)


VIEWS: dict[str, Callable[[qkv.nn.Linear], Any]] = {
    "a read-only array": lambda layer: layer.weight.numpy(),
    "a part of an array": lambda layer: layer.weight.numpy()[3:5],
    "a transposed Tensor": lambda layer: layer.weight.T,
    "a row": lambda layer: layer.weight[3],
    "a detached Tensor": lambda layer: layer.weight.detach(),
    "an array of DLPack": lambda layer: np.from_dlpack(layer.weight.detach()),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("before", [False, True], ids=["before inference", "after it"])
def test_memory_that_others_hold_is_not_given_back(name, before):
    layer, x = made((384, 576)), draw(4, 384, seed=1)
    if before:
        infer(layer, x)
    view = VIEWS[name](layer)
    expected, y = bits(np.asarray(view)), infer(layer, x)
    for _ in range(3):
        assert bits(infer(layer, x)) == bits(y)
        assert not packed(layer.weight)
    assert bits(np.asarray(view)) == expected
    del view
    gc.collect()
    infer(layer, x), infer(layer, x)
    assert packed(layer.weight)
    assert bits(infer(layer, x)) == bits(y)


def test_writes_through_a_view_are_seen():
    layer, x = used((384, 576)), draw(4, 384, seed=1)
    view = layer.weight.detach().numpy()
    for value in (0.0, 1.0):
        view[:] = value
        y = np.broadcast_to(x.sum(1)[:, None] * value, (4, 576))
        np.testing.assert_allclose(infer(layer, x) - layer.bias.numpy(), y, atol=1e-3)
    del view
    infer(layer, x), infer(layer, x)
    assert packed(layer.weight)
    assert (layer.weight.numpy() == 1).all()


def test_changes_in_place_are_seen():
    layer, x = used((384, 576)), draw(4, 384, seed=1)
    with qkv.no_grad():
        layer.weight.copy_(np.ones((576, 384)))
        layer.weight[1] = 2
        layer.weight *= 3
    layer.bias.copy_(np.zeros(576))
    y = infer(layer, x)
    np.testing.assert_allclose(y[:, 0], 3 * x.sum(1), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(y[:, 1], 6 * x.sum(1), rtol=1e-4, atol=1e-3)
    version = layer.weight.version
    infer(layer, x)
    assert packed(layer.weight)
    assert layer.weight.version == version


def test_an_address_that_was_told_stays():
    layer = made((384, 576))
    address = qkv._core.fixed_address(layer.weight)
    for _ in range(3):
        infer(layer, draw(3, 384))
    assert qkv._core.fixed_address(layer.weight) == address
    assert not packed(layer.weight)


def test_one_weight_in_several_places():
    layer = made((384, 384))
    layer.weight.copy_(draw(384, 384))
    net = qkv.nn.Sequential(layer, qkv.nn.Tanh(), qkv.nn.Linear(384, 384))
    net[2].weight = layer.weight
    with qkv.no_grad():
        itself = layer(layer.weight).numpy()  # the weight is what is multiplied, too
    np.testing.assert_allclose(
        itself, layer.weight.numpy() @ layer.weight.numpy().T + layer.bias.numpy(), atol=1e-3
    )
    infer(net, draw(3, 384)), infer(net, draw(3, 384))
    assert packed(layer.weight)
    assert net[2].weight is layer.weight
    net.to("float64")
    assert net[2].weight.dtype == np.float64
    assert infer(net, draw(3, 384)).dtype == np.float64


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("sizes", [(193, 101), (1031, 67), (577, 384)])
def test_a_table_that_is_looked_up_and_multiplied(sizes, dtype):
    def tables() -> qkv.nn.Embedding:
        qkv.manual_seed(1)
        return qkv.nn.Embedding(*sizes).to(dtype)

    fresh, table, ids = tables(), tables(), np.array([[0, 5, sizes[0] - 1], [1, 1, 0]])
    x = draw(3, sizes[1])
    with qkv.no_grad():
        for _ in range(2):
            scores = table.logits(x).numpy()
        assert packed(table.weight)
        rows = table(ids).numpy()
        assert packed(table.weight), "rows are read from the packed form"
        assert bits(rows) == bits(fresh.weight.numpy()[ids])
        assert bits(scores) == bits(fresh.logits(x).numpy())
    table(ids).sum().backward()  # which needs the table
    fresh(ids).sum().backward()
    assert bits(table.weight.grad) == bits(fresh.weight.grad)
    assert bits(table.weight) == bits(fresh.weight)


def test_numbers_that_bfloat16_cannot_hold_stay():
    layer = made((384, 576), "bfloat16")
    exact = layer.weight.numpy() + np.float32(2**-20)
    layer.weight.copy_(exact)
    for _ in range(3):
        infer(layer, draw(3, 384))
    assert not packed(layer.weight)
    assert bits(layer.weight) == bits(exact)


def test_recurrent_layers():
    def layers() -> qkv.nn.GRU:
        qkv.manual_seed(1)
        return qkv.nn.GRU(131, 97)

    fresh, gru, x = layers(), layers(), draw(2, 5, 131)
    for _ in range(2):
        y = infer(lambda a: gru(a)[0], x)
    weights = dict(gru.named_parameters())
    assert packed(weights["weight_ih_l0"])
    assert bits(y) == bits(infer(lambda a: fresh(a)[0], x))
    for each in (gru, fresh):
        each(x)[0].sum().backward()
    for name, weight in fresh.named_parameters():
        assert bits(weight) == bits(weights[name])
        assert bits(weight.grad) == bits(weights[name].grad)
