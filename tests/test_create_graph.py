"""Second derivatives through layers, what recorded gradients are, and the errors where there are none."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from second_checks import check_second, normal

import qkv
from qkv import nn

LAYERS = {
    "Linear": lambda: nn.Linear(5, 3),
    "LayerNorm": lambda: nn.LayerNorm(5),
    "RMSNorm": lambda: nn.RMSNorm(5),
    "GELU": nn.GELU,
    "SelfAttention": lambda: nn.SelfAttention(5, 3, is_causal=True),
    "PositionWiseFFN": lambda: nn.PositionWiseFFN(5, 7),
    "TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(5, 1, 7, dropout=0.0),
    "TransformerEncoderLayer, norm first": lambda: nn.TransformerEncoderLayer(
        5, 1, 7, dropout=0.0, norm_first=True, activation="gelu"
    ),
    "MultiHeadAttention": lambda: nn.MultiHeadAttention(5, 1, bias=True),
    "GRU": lambda: nn.GRU(5, 3, num_layers=2),
}


@pytest.mark.parametrize("name", LAYERS)
def test_gradient_penalties_of_layers(name):
    """d/dw of |dL/dx|^2, for every parameter w."""
    qkv.manual_seed(0)
    layer, x, G = LAYERS[name]().to("float64"), normal(2, 3, 5), None
    for p in layer.parameters():
        p.copy_(p.numpy() + 0.1 * normal(*p.shape))

    def penalty(create_graph):
        nonlocal G
        t = qkv.tensor(x, requires_grad=True)
        y = layer(t)[0] if name == "GRU" else layer(t)
        G = normal(*y.shape) if G is None else G
        g = qkv.grad((G * y).sum(), t, create_graph=create_graph)
        return t, (g * g).sum()

    t, p = penalty(True)
    p.backward()
    checked = [(t, x)] + [(w, None) for w in layer.parameters()]
    for w, points in checked:
        direction, h = normal(*w.shape), 1e-5
        before = w.numpy().copy()

        def at(s, w=w, points=points, before=before, direction=direction):
            if points is None:
                w.copy_(before + s * direction)
                value = float(penalty(False)[1])
                w.copy_(before)
            else:
                points += s * direction
                value = float(penalty(False)[1])
                points -= s * direction
            return value

        numeric = (at(h) - at(-h)) / (2 * h)
        analytic = 0.0 if w.grad is None else float((w.grad.numpy() * direction).sum())
        assert analytic == pytest.approx(numeric, rel=1e-5, abs=1e-7), (name, w.shape)


def test_a_gru_with_lengths():
    layer, lens = nn.GRU(5, 3).to("float64"), np.array([2, 4])

    def f(x, state):
        return layer(x, state, valid_lens=lens)

    x = normal(2, 4, 5)
    check_second(f, x, normal(1, 2, 3))
    x[0, 2:] = np.nan
    t = qkv.tensor(x, requires_grad=True)
    g = qkv.grad((layer(t, valid_lens=lens)[0] ** 2).sum(), t, create_graph=True)
    assert np.isfinite(qkv.grad((g * g).sum(), t).numpy()).all()


def test_embedding():
    layer = nn.Embedding(5, 3, padding_idx=2).to("float64")
    ids = np.array([[0, 2, 4], [4, 1, 0]])
    (g,) = qkv.grad((layer(ids) ** 3).sum(), [layer.weight], create_graph=True)
    (g * g).sum().backward()
    w, counts = layer.weight.numpy(), np.array([2, 1, 0, 0, 2])[:, None]
    np.testing.assert_allclose(g.numpy(), counts * 3 * w**2)
    np.testing.assert_allclose(layer.weight.grad.numpy(), counts**2 * 36 * w**3)


def test_dropout_uses_the_mask_of_the_forward_pass():
    layer, t = nn.Dropout(0.4), qkv.tensor(normal(7, 5), requires_grad=True)
    y = layer(t * t)
    g = qkv.grad((y * y).sum(), t, create_graph=True)
    second = qkv.grad(g.sum(), t).numpy()
    kept = (y.numpy() != 0) / 0.36
    np.testing.assert_allclose(second, 12 * kept * t.numpy() ** 2, rtol=1e-6)


def test_any_order():
    x = qkv.tensor(np.array([0.5, 2.0]), requires_grad=True)
    y, expected = (
        x**5,
        [5 * x.numpy() ** 4, 20 * x.numpy() ** 3, 60 * x.numpy() ** 2, 120 * x.numpy(), [120, 120]],
    )
    for value in expected:
        y = qkv.grad(y.sum(), x, create_graph=True)
        np.testing.assert_allclose(y.numpy(), value)


def test_third_derivatives_of_attention():
    def f(x):
        y = qkv.scaled_dot_product_attention(x, x, x, is_causal=True)
        return qkv.grad((y * y).sum(), x, create_graph=True)

    def second(x):
        if not x.requires_grad:
            x = x * 1
            x.requires_grad = True
        return f(x)

    check_second(second, normal(3, 2))


def test_a_hessian():
    x = normal(3)
    hessian = qkv.jacobian(lambda t: qkv.grad((t * t * t).sum(), t, create_graph=True), x)
    np.testing.assert_allclose(hessian, np.diag(6 * x))
    with qkv.no_grad():
        np.testing.assert_allclose(qkv.jacobian(lambda t: t * t, x), np.diag(2 * x))


MESSAGE = r"^backward: a result of qkv.grad took part, which has no history.*; pass create_graph=True to that"


def test_a_gradient_without_history_cannot_be_differentiated():
    x = normal(3)
    for f in (
        lambda t: qkv.grad((t * t * t).sum(), t),
        lambda t: qkv.grad((t * t * t).sum(), t) * 2,
        lambda t: t * qkv.grad((t * t * t).sum(), t),
        lambda t: qkv.softmax(qkv.grad((t * t * t).sum(), t)) + t,
    ):
        with pytest.raises(RuntimeError, match=MESSAGE):
            qkv.jacobian(f, x)
    t = qkv.tensor(x, requires_grad=True)
    g = qkv.grad((t * t).sum(), t)
    for y in (g, g * g, t + g):
        with pytest.raises(RuntimeError, match=MESSAGE):
            y.sum().backward()
        with pytest.raises(RuntimeError, match=MESSAGE):
            qkv.grad(y.sum(), t)
        with pytest.raises(RuntimeError, match=MESSAGE):
            qkv.grad(y.sum(), t, create_graph=True)
    assert qkv.grad((t * g.detach()).sum(), t).tolist() == g.tolist()


def test_a_gradient_without_history_is_data_otherwise():
    t = qkv.tensor(normal(3), requires_grad=True)
    g = qkv.grad((t * t).sum(), t)
    assert (g.requires_grad, g.is_leaf) == (False, True)
    g.numpy()[0] = 7
    g.copy_(g * 2)
    momentum = 0.9 * g + g
    assert (momentum.requires_grad, momentum.is_leaf) == (False, True)
    t.grad = g
    y = (t * t).sum()
    with qkv.no_grad():
        constant = qkv.grad(y, t)
    (t * constant).sum().backward()
    g.requires_grad = True
    assert qkv.grad((g * g).sum(), g).tolist() == (2 * g.numpy()).tolist()


def test_the_gradient_that_flows_in_may_have_a_history():
    t, w = (qkv.tensor(normal(3), requires_grad=True) for _ in range(2))
    g = qkv.grad(t * t, t, gradient=w * w, create_graph=True)
    np.testing.assert_allclose(qkv.grad(g.sum(), w).numpy(), 4 * t.numpy() * w.numpy())


def test_recorded_gradients_notice_changes():
    t = qkv.tensor(normal(3), requires_grad=True)
    y = (t * t * t).sum()
    t.copy_(np.ones(3))
    with pytest.raises(
        RuntimeError, match=r"^backward: a Tensor of shape \(3,\) that a gradient needs was changed by copy_"
    ):
        qkv.grad(y, t, create_graph=True)
    operand = np.full(3, 2.0)
    y = (t * t * operand).sum()
    operand[:] = 9
    np.testing.assert_array_equal(qkv.grad(y, t, create_graph=True).numpy(), np.full(3, 4.0))


def test_a_graph_that_was_freed_below_the_output_is_an_error():
    x = qkv.tensor(np.ones(3), requires_grad=True)
    y = x * 2
    z = (y * 3 * (x * 1)).sum()
    (y * 5).sum().backward()
    with pytest.raises(RuntimeError, match=r"^backward: the graph was freed by an earlier backward"):
        qkv.grad(z, x, create_graph=True)


def test_the_graph_is_kept_and_freed_in_the_end():
    t, kept = qkv.tensor(normal(3), requires_grad=True), np.ones(3)
    watched = weakref.ref(kept)
    y = (t * kept * t).sum()
    g = qkv.grad(y, t, create_graph=True)
    qkv.grad(y, t, create_graph=True)
    del kept, y
    assert watched() is None  # copied
    g.sum().backward()
    with pytest.raises(RuntimeError, match=r"^backward: the graph was freed"):
        g.sum().backward()
    del g
    gc.collect()


@pytest.mark.parametrize("name", ["MultiHeadAttention", "GELU", "softmax"])
def test_against_torch(name):
    torch = pytest.importorskip("torch")
    x, w = normal(2, 3, 4), normal(4, 4)

    def mine(t, u):
        h = t @ u
        if name == "softmax":
            return qkv.softmax(h)
        return qkv.gelu(h) if name == "GELU" else qkv.scaled_dot_product_attention(h, t, t, is_causal=True)

    def theirs(t, u):
        h = t @ u
        if name == "softmax":
            return torch.softmax(h, -1)
        if name == "GELU":
            return torch.nn.functional.gelu(h)
        s = (h @ t.transpose(1, 2) / 2).masked_fill(torch.ones(3, 3).tril() == 0, -torch.inf)
        return torch.softmax(s, -1) @ t

    a, b = qkv.tensor(x, requires_grad=True), qkv.tensor(w, requires_grad=True)
    g = qkv.grad((mine(a, b) ** 2).sum(), a, create_graph=True)
    (g * g).sum().backward()
    c, d = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
    (h,) = torch.autograd.grad((theirs(c, d) ** 2).sum(), c, create_graph=True)
    (h * h).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), c.grad.numpy(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(b.grad.numpy(), d.grad.numpy(), rtol=1e-9, atol=1e-12)


UNBOUNDED = {
    "sqrt": qkv.sqrt,
    "log": qkv.log,
    "1 / x": lambda x: 1 / x,
    "x ** -0.5": lambda x: x**-0.5,
    "x ** 0.5": lambda x: x**0.5,
}


@pytest.mark.parametrize("name", UNBOUNDED)
def test_a_branch_that_is_not_taken_has_no_derivative_of_any_order(name):
    x = qkv.tensor(np.array([-1.0, 0.0, 2.0]), requires_grad=True)
    y = qkv.where(x > 0, UNBOUNDED[name](x), 0.0)
    for _ in range(3):
        y = qkv.grad(y.sum(), x, create_graph=True)
        assert np.array_equal(np.asarray(y.detach())[:2], np.zeros(2))
        assert np.isfinite(y.item() if y.ndim == 0 else np.asarray(y.detach())).all()


def test_infinity_behind_a_mask_stays_out_of_products():
    a, b = normal(3, 5), normal(5, 2)
    a[1, 2] = np.inf
    a, b = (qkv.tensor(x, requires_grad=True) for x in (a, b))
    y = qkv.where(np.array([[True], [False], [True]]), a @ b, 0.0).sum()
    plain = qkv.grad(y, [a, b], retain_graph=True)
    recorded = qkv.grad(y, [a, b], create_graph=True)
    for one, other in zip(plain, recorded, strict=True):
        assert np.isfinite(np.asarray(one)).all()
        assert np.asarray(one).tobytes() == np.asarray(other.detach()).tobytes()
