"""PyTorch's tensors among the arguments: bfloat16 is read, one that requires a gradient is an error that says why."""

from __future__ import annotations

import numpy as np
import pytest

import qkv

torch = pytest.importorskip("torch")
X = torch.arange(6.0).reshape(2, 3)
HALF = X.to(torch.bfloat16)
TAPED = X.clone().requires_grad_()
Q = torch.ones(1, 2, 4, requires_grad=True)


def test_bfloat16_is_read_as_float32():
    expected = X.numpy()
    for y in (
        qkv.tensor(HALF),
        qkv.exp(HALF),
        qkv.tensor(HALF, dtype="float64"),
        qkv.tensor([[1.0] * 3]) + HALF,
    ):
        assert np.isfinite(np.asarray(y)).all()
    np.testing.assert_array_equal(qkv.tensor(HALF).numpy(), expected, strict=True)
    assert isinstance(qkv.softmax(HALF), np.ndarray)
    assert qkv.softmax(HALF).dtype == np.float32
    np.testing.assert_array_equal(qkv.concatenate([HALF, HALF]), np.concatenate([expected, expected]))
    np.testing.assert_array_equal(qkv.sort(HALF, descending=True), expected[:, ::-1])
    linear = qkv.nn.Linear(3, 2)
    linear.load_state_dict({"weight": HALF, "bias": torch.ones(2, dtype=torch.bfloat16)})
    np.testing.assert_array_equal(linear.weight.detach().numpy(), expected)
    assert linear(HALF).shape == (2, 2)
    t = qkv.tensor(np.zeros((2, 3), "float32"))
    t[...] = HALF
    np.testing.assert_array_equal(t.numpy(), expected)


CALLS = {
    "tensor": ("data", lambda: qkv.tensor(TAPED)),
    "Parameter": ("data", lambda: qkv.nn.Parameter(TAPED)),
    "exp": ("x", lambda: qkv.exp(TAPED)),
    "softmax": ("x", lambda: qkv.softmax(TAPED)),
    "add": ("other", lambda: qkv.tensor([[1.0]]) + TAPED),
    "where": ("a", lambda: qkv.where([True], TAPED, 0.0)),
    "matmul": ("b", lambda: qkv.matmul(np.ones((3, 2)), TAPED)),
    "concatenate": ("tensors", lambda: qkv.concatenate([TAPED])),
    "sort": ("x", lambda: qkv.sort(TAPED)),
    "argsort": ("x", lambda: qkv.argsort(TAPED)),
    "topk": ("x", lambda: qkv.topk(TAPED, 1)),
    "pad": ("x", lambda: qkv.pad(TAPED, 1)),
    "einsum": ("operands", lambda: qkv.einsum("ij->j", TAPED)),
    "mse": ("predictions", lambda: qkv.losses.mse(TAPED, X)),
    "kl_div": ("targets", lambda: qkv.losses.kl_div(X, TAPED)),
    "scaled_dot_product_attention": (
        "query",
        lambda: qkv.scaled_dot_product_attention(Q, Q.detach(), Q.detach()),
    ),
    "additive_attention": ("queries", lambda: qkv.additive_attention(Q, Q.detach(), Q.detach(), np.ones(4))),
    "kernel_attention": ("queries", lambda: qkv.kernel_attention(Q, Q.detach(), Q.detach())),
    "masked_softmax": ("scores", lambda: qkv.masked_softmax(TAPED)),
    "apply_rotary": ("x", lambda: qkv.apply_rotary(Q, np.ones((2, 2)), np.ones((2, 2)))),
    "rotary_tables": ("positions", lambda: qkv.rotary_tables(TAPED[0], 4)),
    "padding": ("ids", lambda: qkv.masks.padding(TAPED)),
    "Linear": ("x", lambda: qkv.nn.Linear(3, 2)(TAPED)),
    "MultiHeadAttention": ("queries", lambda: qkv.nn.MultiHeadAttention(4, 2)(Q)),
    "copy_": ("values", lambda: qkv.tensor(np.ones((2, 3))).copy_(TAPED)),
    "list": ("data", lambda: qkv.tensor([TAPED, TAPED])),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_gradient_that_would_be_lost_is_an_error(name):
    argument, call = CALLS[name]
    with pytest.raises(
        TypeError,
        match=rf"^[\w.]+: {argument}.* must not be a \w+ of another library that requires a gradient because the "
        rf"gradient would be lost; pass {argument}.*\.detach\(\)$",
    ):
        call()
    with torch.no_grad():
        assert TAPED.requires_grad  # also where PyTorch records nothing


def test_parameters_of_pytorch_s_load():
    theirs = torch.nn.Linear(3, 2)
    ours = qkv.nn.Linear(3, 2)
    ours.load_state_dict(theirs.state_dict())
    np.testing.assert_array_equal(ours.weight.detach().numpy(), theirs.weight.detach().numpy())
    ours.load_state_dict(dict(torch.nn.Linear(3, 2).named_parameters()))
