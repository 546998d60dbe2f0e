"""``autograd.Function`` in programs: in modules, and what it keeps."""

from __future__ import annotations

import gc
import weakref

import qkv.torch

from .both import same
from .test_autograd_function import leaf


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
