"""What the tests of layers share: parameters with values of their own, and slopes by differences."""

from __future__ import annotations

import numpy as np

from qkv.testing import check_gradient


def randomised(layer, dtype="float64"):
    """Set every parameter to a value of its own, so that none is hidden by a 1 or a 0."""
    layer.to(dtype)
    for i, p in enumerate(layer.parameters()):
        p.copy_(np.random.default_rng(i).standard_normal(p.shape))
    return layer


def state(layer):
    return {k: v.numpy().astype("float64") for k, v in layer.state_dict().items()}


def check_layer(layer, *inputs):
    """Check the slopes of all inputs and parameters of a layer, in float64."""
    layer.to("float64")
    check_gradient(layer, *inputs)
    for _, p in layer.named_parameters():
        start = p.numpy().copy()

        def f(value, p=p):
            layer.zero_grad()
            p.copy_(value)
            return layer(*inputs)

        direction = np.random.default_rng(1).standard_normal(p.shape)
        G = np.random.default_rng(2).standard_normal(f(start).shape)
        layer.zero_grad()
        layer(*inputs).backward(G)
        analytic = (p.grad.numpy() * direction).sum()
        h = 1e-6
        numeric = ((f(start + h * direction).numpy() - f(start - h * direction).numpy()) * G).sum() / (2 * h)
        p.copy_(start)
        np.testing.assert_allclose(analytic, numeric, 1e-6, 1e-7)
