"""Shapes of attention's inputs against PyTorch: batches that differ, broadcasting, no batch at all."""

from __future__ import annotations

import numpy as np
import pytest

import qkv.torch as torch

F = torch.nn.functional
RNG = np.random.default_rng(5)


def numbers(*shape):
    return RNG.standard_normal(shape).astype("float32")


def both(f, *arrays):
    """What qkv.torch and PyTorch give."""
    pytorch = pytest.importorskip("torch")
    return f(torch, *map(torch.tensor, arrays)), f(pytorch, *map(pytorch.tensor, arrays))


def close(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-5, atol=1e-5)


WRONG = {
    "learned queries": ((1, 3, 8), (4, 5, 8), (4, 5, 8)),
    "two of four": ((2, 3, 8), (4, 5, 8), (4, 5, 8)),
    "more queries": ((4, 3, 8), (2, 5, 8), (2, 5, 8)),
    "no batch of queries": ((3, 8), (4, 5, 8), (4, 5, 8)),
    "no batch of keys": ((4, 3, 8), (5, 8), (5, 8)),
    "value of another batch": ((2, 3, 8), (2, 5, 8), (4, 5, 8)),
    "value of another length": ((2, 3, 8), (2, 5, 8), (2, 4, 8)),
    "value of rank 4": ((1, 3, 8), (1, 5, 8), (1, 2, 5, 4)),
    "query of rank 4": ((1, 1, 3, 8), (1, 5, 8), (1, 5, 8)),
    "all of rank 4": ((1, 2, 3, 8), (1, 2, 5, 8), (1, 2, 5, 8)),
    "rank 1": ((8,), (8,), (8,)),
}


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("name", WRONG)
def test_shapes_that_do_not_fit_are_refused(name, batch_first, need_weights):
    shapes = [
        shape if batch_first or len(shape) != 3 else (shape[1], shape[0], shape[2]) for shape in WRONG[name]
    ]
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=batch_first)
    with pytest.raises((AssertionError, RuntimeError), match=r"^MultiheadAttention: .* got query "):
        layer(*(torch.zeros(shape) for shape in shapes), need_weights=need_weights)


def test_layers_refuse_batches_that_differ():
    decoder = torch.nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    with pytest.raises(RuntimeError, match=r"key must have the batch of query, 2"):
        decoder(torch.zeros(2, 3, 8), torch.zeros(4, 5, 8))
    for batch_first in (False, True):
        model = torch.nn.Transformer(8, 2, 1, 1, 16, batch_first=batch_first)
        src, tgt = ((2, 3, 8), (4, 3, 8)) if batch_first else ((3, 2, 8), (3, 4, 8))
        with pytest.raises(RuntimeError, match=r"^Transformer: src and tgt must have the same batch"):
            model(torch.zeros(src), torch.zeros(tgt))


@pytest.mark.parametrize("need_weights", [False, True])
def test_an_empty_batch_gives_an_empty_result(need_weights):
    layer = torch.nn.MultiheadAttention(8, 2)
    out, weights = layer(
        torch.zeros(3, 0, 8), torch.zeros(5, 0, 8), torch.zeros(5, 0, 8), need_weights=need_weights
    )
    assert out.shape == (3, 0, 8)
    assert weights is None if not need_weights else weights.shape == (0, 3, 5)


BROADCAST = {
    "one batch of keys": ((4, 2, 3, 8), (1, 2, 5, 8), (1, 2, 5, 7)),
    "one head of keys": ((4, 2, 3, 8), (4, 1, 5, 8), (4, 1, 5, 7)),
    "one of both": ((4, 2, 3, 8), (1, 1, 5, 8), (1, 1, 5, 7)),
    "one batch of queries": ((1, 2, 3, 8), (4, 2, 5, 8), (4, 2, 5, 7)),
    "one head of queries": ((4, 1, 3, 8), (4, 2, 5, 8), (4, 2, 5, 7)),
    "one value": ((4, 2, 3, 8), (4, 2, 5, 8), (1, 1, 5, 7)),
    "one key": ((4, 2, 3, 8), (4, 1, 5, 8), (4, 2, 5, 7)),
    "three axes": ((4, 3, 8), (1, 5, 8), (1, 5, 7)),
    "three axes, one query": ((1, 3, 8), (4, 5, 8), (4, 5, 7)),
    "five axes": ((2, 3, 2, 3, 8), (2, 3, 2, 5, 8), (2, 3, 2, 5, 7)),
    "five axes, some 1": ((2, 1, 2, 3, 8), (1, 3, 1, 5, 8), (2, 3, 1, 5, 7)),
    "fewer axes": ((4, 2, 3, 8), (2, 5, 8), (2, 5, 7)),
    "fewest axes": ((2, 2, 3, 8), (5, 8), (5, 7)),
    "an empty batch": ((0, 2, 3, 8), (1, 2, 5, 8), (1, 2, 5, 7)),
}


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}], ids=str)
@pytest.mark.parametrize("name", BROADCAST)
def test_leading_axes_broadcast(name, options):
    arrays = [numbers(*shape) for shape in BROADCAST[name]]

    def attend(package, *inputs):
        inputs = [x.requires_grad_() for x in inputs]
        y = package.nn.functional.scaled_dot_product_attention(*inputs, **options)
        (y * y).sum().backward()
        return y, [x.grad for x in inputs]

    (y, gradients), (expected, wanted) = both(attend, *arrays)
    assert tuple(y.shape) == tuple(expected.shape)
    close(y, expected)
    for a, b in zip(gradients, wanted, strict=True):
        close(a, b)


@pytest.mark.parametrize("name", ["one of both", "five axes", "five axes, some 1", "one batch of queries"])
def test_masks_broadcast_with_them(name):
    shapes = BROADCAST[name]
    arrays = [numbers(*shape) for shape in shapes]
    lead = np.broadcast_shapes(*(shape[:-2] for shape in shapes))
    for shape in ((3, 5), (lead[-1], 3, 5), (*lead, 3, 5), (*(1 for _ in lead), 1, 5)):
        y, expected = both(
            lambda package, q, k, v, m: package.nn.functional.scaled_dot_product_attention(q, k, v, m),
            *arrays,
            numbers(*shape),
        )
        close(y, expected)


def test_shapes_that_do_not_broadcast_are_refused():
    with pytest.raises(
        RuntimeError, match=r"must be equal or 1 because they broadcast; got query \(2, 3, 4, 8\)"
    ):
        F.scaled_dot_product_attention(
            torch.zeros(2, 3, 4, 8), torch.zeros(3, 3, 5, 8), torch.zeros(3, 3, 5, 8)
        )
    with pytest.raises(RuntimeError, match="at least two axes"):
        F.scaled_dot_product_attention(torch.zeros(8), torch.zeros(5, 8), torch.zeros(5, 8))


def test_grouped_heads_broadcast_over_the_batch():
    arrays = numbers(4, 6, 3, 8), numbers(1, 2, 5, 8), numbers(1, 2, 5, 7)
    close(
        *both(
            lambda package, *x: package.nn.functional.scaled_dot_product_attention(*x, enable_gqa=True),
            *arrays,
        )
    )


VIEWS = {
    "slices": lambda m: m[:3, :5],
    "steps": lambda m: m[:6:2, 1:11:2],
    "t": lambda m: m.t()[:3, :5],
    "expand": lambda m: m[:1, :5].expand(3, 5),
}


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("view", VIEWS)
def test_masks_that_are_views(view, need_weights):
    m, x, y = numbers(12, 12), numbers(2, 3, 8), numbers(2, 5, 8)
    close(
        *both(
            lambda package, m, x, y: package.nn.functional.scaled_dot_product_attention(
                x, y, y, attn_mask=VIEWS[view](m)
            ),
            m, x, y,
        )
    )  # fmt: skip
    padding = np.zeros((2, 9), "float32")
    padding[1, 3:] = -np.inf
    pytorch = pytest.importorskip("torch")
    theirs = pytorch.nn.MultiheadAttention(8, 2, batch_first=True)
    ours = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    ours.load_state_dict({k: torch.tensor(v.numpy()) for k, v in theirs.state_dict().items()})

    def call(package, m, x, y, p):
        layer = ours if package is torch else theirs
        return layer(x, y, y, key_padding_mask=p[:, :5], attn_mask=VIEWS[view](m), need_weights=need_weights)[
            0
        ]

    close(*both(call, m, x, y, padding))


def test_layers_take_masks_that_are_views():
    full = torch.nn.Transformer.generate_square_subsequent_mask(8)
    x = torch.tensor(numbers(2, 5, 8))
    for layer, name in (
        (torch.nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), "src_mask"),
        (torch.nn.TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True), "tgt_mask"),
    ):
        memory = (x,) if name == "tgt_mask" else ()
        with torch.no_grad():
            a, b = (layer(x, *memory, **{name: m}) for m in (full[:5, :5], full[:5, :5].clone()))
        close(a, b)
