"""The digits of PyTorch's generators: wherever numbers are in memory, in every epoch, and of a new Generator."""

from __future__ import annotations

from typing import Any

import pytest

import qkv.torch

from .both import same

LAYOUTS = {
    "packed": lambda m: m.zeros(4, 5),
    "transposed": lambda m: m.zeros(5, 4).t(),
    "fewer than 16": lambda m: m.zeros(3, 2).t(),
    "every second column": lambda m: m.zeros(4, 10)[:, ::2],
    "every second row": lambda m: m.zeros(8, 5)[::2],
    "some columns": lambda m: m.zeros(4, 8)[:, 1:6],
    "permuted": lambda m: m.zeros(2, 3, 7).permute(2, 0, 1),
    "transposed with steps": lambda m: m.zeros(10, 6).t()[::2, ::2],
    "float64 transposed": lambda m: m.zeros(5, 7, dtype=m.float64).t(),
    "many": lambda m: m.zeros(50, 40).t(),
    "none": lambda m: m.zeros(0, 3).t(),
}
FILLS = {
    "uniform_": lambda m, t: t.uniform_(-1, 2),
    "normal_": lambda m, t: t.normal_(1, 2),
    "rand_like": lambda m, t: m.rand_like(t),
    "randn_like": lambda m, t: m.randn_like(t),
    "dropout": lambda m, t: m.nn.functional.dropout(t.fill_(1), 0.3),
    "init.uniform_": lambda m, t: m.nn.init.uniform_(t),
    "init.trunc_normal_": lambda m, t: m.nn.init.trunc_normal_(t),
    "init.trunc_normal_ of tails": lambda m, t: m.nn.init.trunc_normal_(t, 0.0, 1.0, 1.0, 2.0),
    "init.kaiming_normal_": lambda m, t: m.nn.init.kaiming_normal_(t),
    "init.orthogonal_": lambda m, t: m.nn.init.orthogonal_(t) if t.dim() < 3 else t,
}


@pytest.mark.filterwarnings("ignore:Initializing zero-element")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("fill", FILLS)
def test_numbers_are_drawn_in_the_order_of_memory(fill, layout):
    def program(m: Any) -> Any:
        m.manual_seed(3)
        return FILLS[fill](m, LAYOUTS[layout](m)), m.rand(20)

    same(program)


@pytest.mark.parametrize("name", ["rand_like", "randn_like", "zeros_like", "ones_like", "empty_like"])
def test_what_is_like_another_keeps_the_order_of_its_axes(name):
    same(lambda m: list(getattr(m, name)(m.zeros(2, 3, 4).permute(2, 0, 1)).stride()))
    same(lambda m: list(m.full_like(m.zeros(5, 8).t()[::2], 2.0).stride()))


@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize("options", [{}, {"drop_last": True}])
def test_shuffled_loaders_draw_the_same_order_in_every_epoch(size, options):
    def program(m: Any) -> Any:
        g = m.Generator().manual_seed(7)
        loader = m.utils.data.DataLoader(range(7), size, shuffle=True, generator=g, **options)
        return [[batch.tolist() for batch in loader] for _ in range(4)], m.rand(3, generator=g)

    same(program)


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("count", [3, 7, 14, 40, 64])
def test_samplers_leave_the_generator_where_pytorch_leaves_it(count, replacement):
    def program(m: Any) -> Any:
        g = m.Generator().manual_seed(1)
        sampler = m.utils.data.RandomSampler(range(7), replacement, count, generator=g)
        return [list(sampler) for _ in range(2)], m.rand(2, generator=g)

    same(program)


def test_a_new_generator_has_the_numbers_of_pytorchs():
    def program(m: Any) -> Any:
        first, second = m.Generator(), m.Generator()
        return m.rand(3, generator=first), m.randn(20, generator=second)

    same(program)


@pytest.mark.parametrize(
    "call",
    [
        *(lambda D, b=b: D(range(3), batch_size=b) for b in (0, -1, 2.0, True, "2")),
        lambda D: D(range(3), batch_size=None, drop_last=True),
        lambda D: D([], shuffle=True),
    ],
)
def test_loaders_refuse_what_contradicts_itself(call):
    with pytest.raises(ValueError, match=r"must|should|exclusive"):
        call(qkv.torch.utils.data.DataLoader)


def test_what_has_no_derivative_is_refused_in_backward():
    torch = qkv.torch
    p = torch.tensor([0.3, 0.6], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"^backward: unique has no derivative"):
        torch.unique(p).sum().backward()
