"""What attention layers keep of their last call: as it was then, and no more of it than needed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from helpers import close
from stress.program import output

import qkv

RNG = np.random.default_rng(5)
X = RNG.standard_normal((3, 7, 8)).astype("float32")


def as_array(mask: np.ndarray) -> np.ndarray:
    return mask


def as_parameter(mask: np.ndarray) -> qkv.Tensor:
    return qkv.nn.Parameter(mask)


@pytest.mark.parametrize("kind", [as_array, qkv.tensor, as_parameter])
@pytest.mark.parametrize("shape", [(7, 7), (3, 7, 7), (3, 1, 7, 7)])
def test_a_mask_that_changes_after_the_call(kind, shape):
    layer = qkv.nn.MultiHeadAttention(8, 2)
    numbers = RNG.standard_normal(shape).astype("float32")
    layer(X, attn_mask=numbers.copy())
    expected = layer.attention_weights.numpy().copy()
    mask = kind(numbers.copy())
    layer(X, attn_mask=mask)
    if isinstance(mask, qkv.Tensor):
        mask.copy_(np.zeros(shape))
    else:
        mask[:] = 0
    close(layer.attention_weights, expected)


def test_a_mask_of_a_call_without_a_batch_that_changes_after_it():
    layer = qkv.nn.MultiHeadAttention(8, 2)
    mask = qkv.nn.Parameter(RNG.standard_normal((2, 7, 7)).astype("float32"))
    out = layer(X[0], attn_mask=mask)
    layer(X[0], attn_mask=mask.numpy().copy())
    expected = layer.attention_weights.numpy().copy()
    layer(X[0], attn_mask=mask)
    mask.copy_(np.zeros((2, 7, 7)))
    close(layer.attention_weights, expected)
    out.sum().backward()
    assert np.abs(mask.grad.numpy()).max() > 0


@pytest.mark.parametrize("kind", [as_array, qkv.tensor])
def test_lengths_that_change_after_the_call(kind):
    stack = qkv.nn.TransformerEncoder(qkv.nn.TransformerEncoderLayer(8, 2, 11), 2).eval()
    lens = kind(np.array([1, 5, 7]))
    stack(X, valid_lens=lens)
    if isinstance(lens, qkv.Tensor):
        lens.copy_([7, 7, 7])
    else:
        lens[:] = 7
    for weights in stack.attention_weights:
        assert (weights.numpy()[0, :, :, 1:] == 0).all()


def test_queries_and_keys_that_change_after_the_call():
    layer, q, k = qkv.nn.DotProductAttention(), X.copy(), X[:, :5].copy()
    layer(q, k, k)
    q[:] = k[:] = 0
    scores = X @ X[:, :5].swapaxes(1, 2) / np.sqrt(8)
    close(layer.attention_weights, qkv.softmax(scores), "float32")


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="reads how much memory is resident from /proc"
)
@pytest.mark.skipif(
    os.environ.get("QKV_SANITIZER") == "thread", reason="what ThreadSanitizer notes of memory counts, too"
)
@pytest.mark.parametrize("kind", ["np.array", "qkv.tensor"])
def test_the_layers_of_a_stack_keep_one_mask(kind):
    program = f"""
stack = qkv.nn.TransformerEncoder(qkv.nn.TransformerEncoderLayer(8, 2, 11), 8).eval()
x, mask = np.ones((1, 2039, 8), "float32"), {kind}(np.ones((2039, 2039), bool))
def resident():
    qkv.empty_cache()
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20
qkv.set_num_threads(1)
with qkv.no_grad():
    stack(x[:, :2], attn_mask=np.ones((2, 2), bool))
    before = resident()
    stack(x, attn_mask=mask)
print(resident() - before)
"""
    assert int(output(program)) < 12, "MiB, of which a mask is 4, and 8 layers' queries and keys are 2"


def test_nothing_is_kept_where_nothing_is_wanted():
    layer = qkv.nn.MultiHeadAttention(8, 2)
    layer(X)
    with qkv.no_attention_record():
        layer(X)
    assert layer.attention_weights is None
