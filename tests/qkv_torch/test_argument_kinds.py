"""What an argument is follows from its name, or from its annotation, in every function, method and layer."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import qkv.torch as torch
from qkv.torch import nn
from qkv.torch._arguments import checked

F = nn.functional
X, Q = torch.arange(12.0).view(3, 4), torch.ones(1, 2, 3, 4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: X.sum(1, keepdim=1), "sum: keepdim must be True or False; got 1"),
        (lambda: X.max(1, "yes"), "max: keepdim must be True or False; got 'yes'"),
        (lambda: torch.sort(X, descending=0), "sort: descending must be True or False; got 0"),
        (lambda: X.topk(True), "topk: k must be an integer; got True"),
        (lambda: X.topk(2, largest=None), "topk: largest must be True or False; got None"),
        (lambda: torch.triu(X, 1.0), "triu: diagonal must be an integer; got 1.0"),
        (lambda: torch.add(X, X, alpha="2"), "add: alpha must be a number; got '2'"),
        (lambda: torch.add(X, X, alpha=X), r"add: alpha must be a number; got a Tensor of shape \(3, 4\)"),
        (lambda: torch.full((2,), [1]), r"full: fill_value must be a number; got \[1\]"),
        (lambda: X.round(decimals=1.5), "round: decimals must be an integer; got 1.5"),
        (lambda: F.dropout(X, 0.5, 1), "dropout: training must be True or False; got 1"),
        (lambda: F.layer_norm(X, (4,), eps="x"), "layer_norm: eps must be a number; got 'x'"),
        (
            lambda: F.scaled_dot_product_attention(Q, Q, Q, is_causal=1),
            "scaled_dot_product_attention: is_causal must be True or False; got 1",
        ),
        (
            lambda: F.scaled_dot_product_attention(Q, Q, Q, enable_gqa=None),
            "scaled_dot_product_attention: enable_gqa must be True or False; got None",
        ),
        (lambda: nn.MultiheadAttention(4, 2.0), "MultiheadAttention: num_heads must be an integer; got 2.0"),
        (lambda: nn.GRU(3, "4"), "GRU: hidden_size must be an integer; got '4'"),
        (lambda: nn.LSTM(3, 4, bias=1), "LSTM: bias must be True or False; got 1"),
        (lambda: nn.LayerNorm(4, eps=None), "LayerNorm: eps must be a number; got None"),
        (
            lambda: nn.TransformerEncoderLayer(4, 2, norm_first="no"),
            "TransformerEncoderLayer: norm_first must be True or False; got 'no'",
        ),
        (
            lambda: nn.TransformerEncoder(nn.ReLU, 2),
            "layer must be a Module because copies of it are stacked",
        ),
        (
            lambda: nn.MultiheadAttention(4, 2)(X, X, X, attn_mask=[[True]]),
            "MultiheadAttention: attn_mask must be a Tensor; got",
        ),
    ],
)
def test_refused(call, words):
    with pytest.raises(TypeError, match=f"^{words}"):
        call()


def test_numbers_of_other_classes_are_numbers():
    assert X.topk(np.int64(2))[0].shape == (3, 2)
    assert torch.add(X, X, alpha=torch.tensor(2)).equal(3 * X)
    assert F.scaled_dot_product_attention(Q, Q, Q, scale=None).shape == Q.shape
    assert X.std(correction=np.float32(0)).item() == pytest.approx(X.numpy().std())
    assert nn.RMSNorm(4, eps=None)(X).shape == X.shape


def test_a_number_that_records_is_refused():
    recording = torch.tensor(1.0, requires_grad=True)
    for call in (
        lambda: F.softplus(X, beta=recording),
        lambda: X.std(correction=recording),
        lambda: F.cross_entropy(X, torch.tensor([0, 1, 2]), label_smoothing=recording),
        lambda: nn.Dropout(recording),
    ):
        with pytest.raises(TypeError, match="must be a number because it gets no gradient"):
            call()


def test_a_function_keeps_its_signature_and_its_own_judgement():
    def f(input, *rest, k=2, p: Any = "any", eps=None, keepdim=False, **more):
        """Words."""
        return input, rest, k, p, eps, keepdim, more

    g = checked("f", f)
    assert inspect.signature(g) == inspect.signature(f)
    assert g.__doc__ == "Words."
    assert g(1, 2, 3, k=4, other=5) == (1, (2, 3), 4, "any", None, False, {"other": 5})
    for options, words in (({"k": 1.5}, "k must be an integer"), ({"eps": "x"}, "eps must be a number")):
        with pytest.raises(TypeError, match=f"^f: {words}"):
            g(1, **options)
    assert checked("h", len) is len
