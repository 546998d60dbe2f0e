"""Modules whose weights are read as bfloat16."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sweep import sweep

import qkv

MORE_ROWS = [1, 2, 5, 7, 13, 24, 25, 97, 211]


def rounded(x: np.ndarray) -> np.ndarray:
    """Round to the nearest bfloat16, ties to even, by the bits."""
    bits = x.astype("float32").view("uint32").astype("uint64")
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return bits.astype("uint32").view("float32")


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def apply(layer: qkv.nn.Module, *x: np.ndarray) -> np.ndarray:
    with qkv.no_grad():
        return layer(*x).numpy()


def test_parameters_are_rounded_to_even():
    layer = qkv.nn.Linear(5, 3)
    ties = (
        np.float32(1) + np.arange(15, dtype="float32").reshape(3, 5) / 256
    )  # halfway between two, or one of them
    layer.weight.copy_(ties)
    assert layer.to("bfloat16") is layer
    np.testing.assert_array_equal(layer.weight.numpy(), rounded(ties))
    assert (layer.weight.numpy() != ties).any()
    assert layer.weight.dtype == np.float32


def test_special_numbers_survive():
    layer = qkv.nn.Linear(5, 1, bias=False)
    special = np.array([[np.inf, -np.inf, np.nan, 0.0, 3.4e38]], "float32")
    layer.weight.copy_(special)
    layer.to("bfloat16")
    np.testing.assert_array_equal(layer.weight.numpy(), [[np.inf, -np.inf, np.nan, 0.0, np.inf]])
    assert np.isnan(apply(layer, np.array([[0.0, 0.0, 1.0, 0.0, 0.0]]))).all()
    assert apply(layer, np.array([[1.0, 0.0, 0.0, 1.0, 0.0]])[:, :]).shape == (1, 1)


@pytest.mark.parametrize("rows", MORE_ROWS)
@sweep("sizes", [(1, 1), (7, 5), (64, 64), (131, 67), (384, 150), (1031, 70)])
def test_products_are_those_of_the_rounded_weights(rows, sizes):
    qkv.manual_seed(rows)
    layer = qkv.nn.Linear(*sizes).to("bfloat16")
    x = draw(rows, sizes[0])
    weight, bias = (p.numpy().astype("float64") for p in (layer.weight, layer.bias))
    y = apply(layer, x)
    # Where the CPU multiplies bfloat16, the inputs are rounded too: 2^-9 of each product, which add up as the root.
    slack = 4 * 2.0**-9 * np.sqrt(((x.astype("float64")[:, None] * weight) ** 2).sum(-1)) + 1e-5
    assert (np.abs(y - (x @ weight.T + bias)) <= slack).all()


@pytest.mark.parametrize("rows", MORE_ROWS)
def test_inputs_that_are_bfloat16_give_the_float32_product(rows):
    layer = qkv.nn.Linear(131, 67).to("bfloat16")
    x = rounded(draw(rows, 131))
    y = apply(layer, x)
    weight, bias = (p.numpy().astype("float64") for p in (layer.weight, layer.bias))
    np.testing.assert_allclose(y, x @ weight.T + bias, rtol=1e-5, atol=2e-5)


def test_threads_and_rows_leave_the_bits_alone():
    layer = qkv.nn.Linear(262, 390).to("bfloat16")
    x = draw(97, 262)
    before = qkv.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            qkv.set_num_threads(threads)
            results.append(apply(layer, x))
    finally:
        qkv.set_num_threads(before)
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
    np.testing.assert_array_equal(apply(layer, x[4:5]), results[0][4:5])


def test_a_model_stays_close():
    config = qkv.models.BertConfig(
        vocab_size=101, hidden_size=96, num_hidden_layers=3, num_attention_heads=4, intermediate_size=200
    )
    model = qkv.models.BertModel(config).eval()
    ids = np.random.default_rng(0).integers(0, 101, (3, 29))
    with qkv.no_grad():
        exact = model(ids).last_hidden_state.numpy()
        half = model.to("bfloat16")(ids).last_hidden_state.numpy()
    assert not np.array_equal(half, exact)
    cosine = (exact * half).sum(-1) / np.linalg.norm(exact, axis=-1) / np.linalg.norm(half, axis=-1)
    assert cosine.min() > 0.999


def test_activation_and_all_layers_of_a_transformer():
    layer = qkv.nn.TransformerEncoderLayer(22, 2, 46, 0.0, activation="gelu").eval()
    exact = apply(layer, draw(2, 13, 22))
    half = apply(layer.to("bfloat16"), draw(2, 13, 22))
    np.testing.assert_allclose(half, exact, atol=0.05)
    assert not np.array_equal(half, exact)


def test_gradients_are_those_of_float32_with_the_rounded_weights():
    layer = qkv.nn.Linear(7, 5).to("bfloat16")
    same = qkv.nn.Linear(7, 5)
    same.load_state_dict(layer.state_dict())
    x = draw(11, 7)
    for each in (layer, same):
        (each(x) ** 2).sum().backward()
    np.testing.assert_array_equal(layer.weight.grad.numpy(), same.weight.grad.numpy())


def test_a_changed_weight_is_noticed():
    layer = qkv.nn.Linear(7, 5).to("bfloat16")
    x = draw(3, 7)
    before = apply(layer, x)
    layer.weight.copy_(-layer.weight.numpy())
    layer.bias.copy_(-layer.bias.numpy())
    np.testing.assert_array_equal(apply(layer, x), -before)


def test_float32_ends_it():
    layer = qkv.nn.Linear(131, 67).to("bfloat16")
    same = qkv.nn.Linear(131, 67)
    same.load_state_dict(layer.state_dict())
    x = draw(3, 131)
    np.testing.assert_array_equal(apply(layer.to("float32"), x), apply(same, x))
    assert layer.to("bfloat16").to("float64").weight.dtype == np.float64


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_keep_it(copied):
    model = copied(qkv.nn.Sequential(qkv.nn.Linear(131, 67), qkv.nn.ReLU()).to("bfloat16"))
    x = draw(3, 131)
    model[0].weight.copy_(np.full((67, 131), 1.001, "float32"))  # read as 1
    as_one = apply(model, x)
    model[0].weight.copy_(np.ones((67, 131), "float32"))
    np.testing.assert_array_equal(apply(model, x), as_one)


def test_names_of_the_type():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name in (ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16), "bfloat16"):
        layer = qkv.nn.Linear(7, 5)
        exact = layer.weight.numpy().copy()
        layer.to(name)
        np.testing.assert_array_equal(layer.weight.numpy(), rounded(exact))
