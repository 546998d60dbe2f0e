"""``autograd.Function`` in programs: in modules, under ``gradcheck``, and what it keeps."""

from __future__ import annotations

import gc
import weakref

import pytest

import qkv.torch

from .both import same
from .test_autograd_function import exponential, leaf, linear


def test_a_function_in_a_module_trains():
    def program(torch):
        class Straight(torch.autograd.Function):  # rounds, and passes the gradient on
            @staticmethod
            def forward(ctx, x):
                return x.round()

            @staticmethod
            def backward(ctx, dy):
                return dy.clone()

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.outer = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)

            def forward(self, x):
                return self.outer(Straight.apply(self.inner(x) * 4))

        torch.manual_seed(1)
        net, x = Net(), torch.randn(16, 4)
        optimizer, losses = torch.optim.SGD(net.parameters(), lr=0.01), []
        for _ in range(5):
            loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, dict(net.state_dict())

    same(program)


def test_nothing_is_kept_that_nobody_holds():
    torch, freed = qkv.torch, []

    class Tracked(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(x, y)
            ctx.mine = type("Mine", (), {})()
            freed.append(weakref.ref(ctx.mine))
            return y

        @staticmethod
        def backward(ctx, dy):
            return dy * ctx.saved_tensors[1]

    x = leaf(torch)
    gc.disable()
    try:
        y = Tracked.apply(x)
        del y
        assert freed[0]() is None
        Tracked.apply(x).sum().backward()
        assert freed[1]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("check", ["gradcheck", "gradgradcheck"])
def test_gradcheck(check):
    def wrong(torch):
        class Wrong(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x**3

            @staticmethod
            def backward(ctx, dy):
                (x,) = ctx.saved_tensors
                return 2.9 * x**2 * dy if check == "gradcheck" else 3 * x.detach() ** 2 * dy

        return Wrong.apply

    def program(torch):
        run = getattr(torch.autograd, check)
        x, w = leaf(torch, [0.3, 0.5], [0.7, -0.2]), leaf(torch, [1.0, 2.0])
        known = leaf(torch).detach()
        with pytest.raises(RuntimeError, match="Jacobian mismatch for output 0 with respect to input 0"):
            run(wrong(torch), (x,))
        with pytest.raises(ValueError, match="require gradient"):
            run(exponential(torch), (known,))
        return [
            run(exponential(torch), x),
            run(linear(torch), (x, w)),
            run(lambda a, b, c: (a * b, (a.tanh() @ b.t()) * c, a.argmax()), (x, w, 2.0)),
            run(torch.nn.functional.softmax, (x, -1)) if check == "gradcheck" else None,
            run(wrong(torch), (x,), raise_exception=False),
            run(wrong(torch), (x,), rtol=10.0),
        ]

    assert same(program)[4] is False
