"""The gradient checker accepts right gradients and is shown to fail on wrong ones."""

from __future__ import annotations

import re

import numpy as np
import pytest

import qkv
from qkv.testing import check_gradient


def draw(*shape):
    return np.random.default_rng(3).normal(size=shape)


def test_accepts_right_gradients():
    check_gradient(lambda x, y: x @ y, draw(2, 3), draw(3, 5))
    check_gradient(lambda x: qkv.exp(x) / (1 + qkv.exp(x)), draw(7))
    check_gradient(lambda x: (x * x).sum(), 1e-4 * draw(2, 3))
    check_gradient(lambda x: qkv.log(x), np.float32([1e-3, 2e-3]))


def test_checks_every_output_of_a_tuple():
    check_gradient(lambda x: (x * 2, qkv.sin(x)), draw(5))
    with pytest.raises(AssertionError, match="input 0"):
        check_gradient(lambda x: (x * 2, qkv.sin(x.detach())), draw(5))


def test_names_the_input_and_both_slopes():
    def f(queries, keys):
        return queries * keys.detach()

    with pytest.raises(AssertionError) as caught:
        check_gradient(f, draw(5), draw(5))
    number = r"-?[\d.e+-]+"
    assert re.search(
        rf"the gradient of input 1 \(keys\) \(5,\) is wrong: analytic slope 0, numeric slope {number}, ",
        str(caught.value),
    )


@pytest.mark.parametrize("factor", [0.99999, 1.0001, -1.0, 0.0])
def test_fails_on_a_wrong_factor(factor):
    def f(x):
        y = x * x
        return y * factor + y.detach() * (1 - factor)  # the value of x * x, another gradient

    with pytest.raises(AssertionError, match="analytic slope"):
        check_gradient(f, draw(3, 5))


def test_fails_on_one_wrong_entry_among_many():
    mask = np.ones(1009)
    mask[500] = 0

    def f(x):
        return x * mask + x.detach() * (1 - mask)

    with pytest.raises(AssertionError, match="analytic slope"):
        check_gradient(f, draw(1009))


def test_fails_on_a_value_that_is_not_a_number():
    with pytest.raises(AssertionError, match="numeric slope nan"):
        check_gradient(lambda x: x * np.nan, draw(3))


def test_the_tolerance_counts():
    def f(x):
        return x + 1e-3 * x.detach()

    check_gradient(f, draw(3), rtol=1e-2)
    with pytest.raises(AssertionError, match="analytic slope"):
        check_gradient(f, draw(3))


def test_integers_have_no_slope():
    with pytest.raises(TypeError, match=r"check_gradient: input 1 must be floating .* got int64"):
        check_gradient(lambda x, i: x, draw(3), np.arange(3))


def test_leaves_its_inputs_alone():
    x = draw(2, 3)
    before = x.copy()
    check_gradient(lambda t: t * t, x)
    assert (x == before).all()


class Scaled(qkv.nn.Module):
    """Multiplies by parameters, of one of which a share of the gradient is lost."""

    def __init__(self, lost):
        super().__init__()
        self.inner = qkv.nn.Linear(3, 5)
        self.scale = qkv.nn.Parameter(draw(5))
        self.lost = lost

    def forward(self, x, ids=None):
        y = self.inner(x)
        y = y * (self.scale * (1 - self.lost) + self.scale.detach() * self.lost)
        return y if ids is None else y[ids]


def test_checks_the_parameters_of_a_module():
    qkv.manual_seed(0)
    module = Scaled(0)
    before = {name: np.array(value) for name, value in module.state_dict().items()}
    check_gradient(module, draw(2, 3))
    check_gradient(module, draw(2, 3), np.array([1, 0, 1]))
    for name, value in module.state_dict().items():
        np.testing.assert_array_equal(value, before[name], strict=True)
    assert all(p.grad is None for p in module.parameters())
    with pytest.raises(
        AssertionError, match=r"the gradient of parameter scale \(5,\) is wrong: analytic slope"
    ):
        check_gradient(Scaled(0.001), draw(2, 3))


def test_checks_layers_that_learn_their_sizes():
    check_gradient(qkv.nn.AdditiveAttention(7), draw(2, 5, 3), draw(2, 4, 6), draw(2, 4, 2))
    check_gradient(qkv.nn.MultiHeadAttention(6, 2), draw(2, 5, 6), draw(2, 7, 6), draw(2, 7, 6), [3, 7])
    check_gradient(qkv.nn.Embedding(7, 3), [[1, 5], [5, 6]])


def test_an_array_has_no_gradient():
    for f in (lambda x: np.asarray(x), lambda x: (x, 1.0)):
        with pytest.raises(
            TypeError, match=r"check_gradient: f must return a Tensor or a tuple of them because .*; got "
        ):
            check_gradient(f, draw(3))
