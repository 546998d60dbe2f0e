"""Functions of the caller's that return an array where a gradient is recorded: one line, never a silent loss."""

from __future__ import annotations

import numpy as np
import pytest

import qkv
from qkv import losses, nn

LOST = "must return a Tensor because anything else has lost the gradient.*; got ndarray$"


def recording(*shape):
    return qkv.tensor(np.random.default_rng(0).normal(size=shape), requires_grad=True)


class Product(nn.Attention):
    def __init__(self, learns=False):
        super().__init__()
        if learns:
            self.factor = nn.Parameter(np.ones(()))

    def score(self, queries, keys):
        return np.asarray(queries) @ np.asarray(keys).swapaxes(-1, -2)


def test_a_score():
    q, k, v = (np.ones((2, n, 3)) for n in (5, 7, 7))
    for inputs in ((recording(2, 5, 3), k, v), (q, recording(2, 7, 3), v)):
        with pytest.raises(TypeError, match="^score: " + LOST):
            Product()(*inputs)
        with qkv.no_grad():
            assert Product()(*inputs).shape == (2, 5, 3)
    with pytest.raises(TypeError, match="^score: " + LOST):
        Product(learns=True)(q, k, v)
    # Nothing that is recorded reaches the score.
    values = recording(2, 7, 3)
    Product()(q, k, values).sum().backward()
    assert values.grad.numpy().any()


def test_a_kernel():
    def kernel(u):
        return np.exp(-(np.asarray(u) ** 2))

    x, plain = recording(5, 3), np.ones((5, 3))
    with pytest.raises(TypeError, match="^kernel_values: kernel " + LOST):
        qkv.kernel_values(x, kernel)
    for inputs in ((x, plain, plain), (plain, x, plain)):
        with pytest.raises(TypeError, match="^kernel_attention: kernel " + LOST):
            qkv.kernel_attention(*inputs, kernel=kernel)
    with pytest.raises(TypeError, match="^kernel_attention: kernel " + LOST):
        qkv.kernel_attention(plain, plain, plain, kernel=kernel, bandwidth=recording())
    with qkv.no_grad():
        assert qkv.kernel_attention(x, x, x, kernel=kernel).shape == (5, 3)
    assert qkv.kernel_attention(plain, plain, x, kernel=kernel).requires_grad


def test_a_function_of_jacobian():
    with pytest.raises(TypeError, match="^jacobian: f " + LOST):
        qkv.jacobian(lambda x: np.asarray(x) * 2, [1.0, 2.0])


def test_a_loss_of_trainer():
    model = nn.Linear(3, 2)
    trainer = qkv.training.Trainer(
        model, qkv.optim.SGD(model.parameters(), 0.1), lambda model, x: np.asarray(model(x)).sum()
    )
    with pytest.raises(TypeError, match=r"Trainer\.fit: loss must return a Tensor"):
        trainer.fit([np.ones((5, 3))], epochs=1)


NUMBERS = {
    "softmax: temperature": lambda t: qkv.softmax([1.0, 2.0], temperature=t),
    "log_softmax: temperature": lambda t: qkv.log_softmax([1.0, 2.0], temperature=t),
    "entmax: alpha": lambda t: qkv.entmax([1.0, 2.0], t),
    "masked_softmax: masked_value": lambda t: qkv.masked_softmax(np.ones((2, 3)), [1, 2], masked_value=t),
    "cross_entropy: label_smoothing": lambda t: losses.cross_entropy(
        np.ones((2, 3)), [0, 1], label_smoothing=t
    ),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_takes_no_gradient(name):
    number = qkv.tensor(0.5 if "alpha" not in name else 1.5, requires_grad=True)
    with pytest.raises(
        TypeError,
        match=f"^{name} must be a number because it takes no gradient; got a Tensor that requires one$",
    ):
        NUMBERS[name](number)
    with qkv.no_grad():
        expected = NUMBERS[name](float(number))
        np.testing.assert_array_equal(NUMBERS[name](number), expected)
    np.testing.assert_array_equal(NUMBERS[name](number.detach()), expected)


@pytest.mark.parametrize("loss", [losses.cross_entropy, losses.nll_loss])
def test_weights_of_classes(loss):
    with pytest.raises(
        TypeError, match=f"^{loss.__name__}: weight must be numbers because it takes no gradient; got"
    ):
        loss(np.ones((2, 3)), [0, 1], weight=recording(3))
