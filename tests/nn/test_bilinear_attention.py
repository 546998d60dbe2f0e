"""Bilinear and cosine scores against their formulas."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import close

import qkv
from qkv import nn
from qkv.testing import check_gradient

RNG = np.random.default_rng(29)
Q, K, V = RNG.standard_normal((2, 3, 5)), RNG.standard_normal((2, 7, 6)), RNG.standard_normal((2, 7, 11))
LENS = [4, 7]


def bilinear(**options):
    qkv.manual_seed(1)
    return nn.BilinearAttention(5, 6, **options).to("float64")


def test_bilinear_is_its_formula():
    layer = bilinear()
    scores = Q @ np.asarray(layer.weight) @ K.swapaxes(1, 2)
    weights = qkv.masked_softmax(scores, LENS)
    y, found = layer(Q, K, V, valid_lens=LENS, return_weights=True)
    close(found, weights)
    close(y, weights @ V)
    close(layer.attention_weights, weights)
    close(layer.score(qkv.tensor(Q), qkv.tensor(K)), scores)
    assert [(n, p.shape) for n, p in layer.named_parameters()] == [("weight", (5, 6))]
    assert np.abs(np.asarray(layer.weight)).max() <= 1 / np.sqrt(5)


def test_gradients():
    layer = bilinear(window=(2, 1))
    check_gradient(lambda q, k, v: layer(q, k, v, valid_lens=LENS), Q, K, V)
    check_gradient(layer, Q, K, V)
    cosine = nn.DotProductAttention(cosine=True, scale=3.0, num_heads=3)
    check_gradient(lambda q, k, v: cosine(q, k, v, valid_lens=LENS), K[:, :3], K, K)


@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("scale", [None, 3.0])
def test_cosine_is_its_formula(heads, scale):
    layer = nn.DotProductAttention(cosine=True, scale=scale, num_heads=heads)

    def split(x):
        return x.reshape(2, x.shape[1], heads or 1, -1).swapaxes(1, 2)

    q, k = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (split(K[:, 2:5]), split(K)))
    weights = qkv.masked_softmax(
        (scale or 1.0) * q @ k.swapaxes(2, 3), mask=np.arange(7) < np.array(LENS)[:, None, None, None]
    )
    y, found = layer(K[:, 2:5], K, K, valid_lens=LENS, return_weights=True)
    close(found, weights if heads else weights[:, 0])
    close(y, (weights @ split(K)).swapaxes(1, 2).reshape(2, 3, 6))
    plain = nn.DotProductAttention(scale=0.3)(K, K, K, return_weights=True)[1]
    close(plain, qkv.softmax(0.3 * K @ K.swapaxes(1, 2)))


class Sharp(nn.BilinearAttention):
    def normalize(self, scores, allowed):
        return super().normalize(scores * 2.0, allowed)


def test_steps_of_a_subclass():
    qkv.manual_seed(1)
    layer = Sharp(5, 6).to("float64")
    close(layer(Q, K, V), qkv.softmax(2.0 * Q @ np.asarray(layer.weight) @ K.swapaxes(1, 2)) @ V)


def test_padding_is_not_read():
    keys = np.where(np.arange(7)[:, None] < 4, K, np.nan)
    for layer, q in ((bilinear(), Q), (nn.DotProductAttention(cosine=True), K[:, :3])):
        x = qkv.tensor(q, requires_grad=True)
        y = layer(x, keys, V, valid_lens=[4, 4])
        close(y, layer(q, np.nan_to_num(keys), V, valid_lens=[4, 4]))
        y.sum().backward()
        assert np.isfinite(x.grad.numpy()).all()
        assert all(np.isfinite(p.grad.numpy()).all() for p in layer.parameters())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.BilinearAttention(0, 2), "BilinearAttention: query_size must be at least 1; got 0"),
        (
            lambda: bilinear()(K, K, V),
            r"queries must be \(B, Lq, 5\) because query_size = 5; got queries \(2, 7, 6\)",
        ),
        (
            lambda: bilinear()(Q, V, V),
            r"BilinearAttention: keys must be \(B, Lk, D\) with D = 6 to match queries",
        ),
        (
            lambda: nn.DotProductAttention(scale=np.inf),
            "DotProductAttention: scale must be a finite number; got inf",
        ),
    ],
)
def test_rejections(call, message):
    with pytest.raises(ValueError, match=message):
        call()
