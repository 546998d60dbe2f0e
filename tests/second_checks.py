"""Check second derivatives against differences of first ones."""

from __future__ import annotations

import numpy as np

import qkv

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape)


def check_second(f, *inputs, rtol=2e-6):
    """Check d<dL/dx, d>/dx, L = sum(G * f(x)), G and d random, and that recorded gradients are the plain ones."""
    random = np.random.default_rng(1)
    outputs = as_tuple(f(*(qkv.tensor(x) for x in inputs)))
    G = [random.standard_normal(y.shape) for y in outputs]
    D = [random.standard_normal(x.shape) for x in inputs]

    def first(arrays, create_graph):
        tensors = [qkv.tensor(x, requires_grad=True) for x in arrays]
        loss = sum((g * y).sum() for g, y in zip(G, as_tuple(f(*tensors)), strict=True))
        return tensors, qkv.grad(loss, tensors, create_graph=create_graph)

    tensors, recorded = first(inputs, True)
    for one, other in zip(recorded, first(inputs, False)[1], strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-11)
    slope = sum((d * g).sum() for d, g in zip(D, recorded, strict=True))
    second = qkv.grad(slope, tensors) if slope.requires_grad else [np.zeros(x.shape) for x in inputs]
    for i, x in enumerate(inputs):
        direction, h = random.standard_normal(x.shape), 1e-5
        above, below = (
            sum(
                float((d * g.numpy()).sum())
                for d, g in zip(
                    D, first([*inputs[:i], x + s * direction, *inputs[i + 1 :]], False)[1], strict=True
                )
            )
            for s in (h, -h)
        )
        analytic, numeric = float((np.asarray(second[i]) * direction).sum()), (above - below) / (2 * h)
        size = max(1.0, float(np.abs(np.asarray(second[i]) * direction).sum()))
        assert abs(analytic - numeric) <= rtol * size, (i, analytic, numeric)


def as_tuple(y):
    return tuple(y) if isinstance(y, (tuple, list)) else (y,)
