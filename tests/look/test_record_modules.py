"""Recording of modules that are written in Python, on the core's classes and in qkv.torch."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import close

from qkv import look, nn

from .test_record import B, D, H, L, M, numbers


def test_own_modules_in_python():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x, times=2):
            for _ in range(times):
                x = self.inner(x)
            return x, x * 2

    class Scaled(nn.Linear):
        def forward(self, x):
            return super().forward(x) * 3

    model = Twice()
    x = numbers(2, 3).astype("float32")
    r = look.record(model, x, keep=("*",))
    assert r.names() == ["input", "output", "inner.input", "inner.output"]
    assert len(r["inner.output"]) == 2
    np.testing.assert_array_equal(r["inner.output"][1], r["output"][0])
    np.testing.assert_array_equal(r["inner.input"][0], x)
    nested = nn.Sequential(Scaled(3, 3), nn.ReLU())
    r = look.record(nested, x, keep=("output",))
    np.testing.assert_array_equal(r["output"], r["1.output"])
    np.testing.assert_array_equal(np.maximum(r["0.output"], 0), r["1.output"])


def test_own_score():
    class Distance(nn.Attention):
        def score(self, queries, keys):
            return -((queries[..., :, None, :] - keys[..., None, :, :]) ** 2).sum(axis=-1)

    layer = Distance(num_heads=H)
    q, k = numbers(B, L, M), numbers(B, 7, M, seed=2)
    r = look.record(layer, q, k, k, keep=("*",), valid_lens=[4, 7])
    by_head = q.reshape(B, L, H, D).swapaxes(1, 2)
    close(r["queries"], by_head)
    close(r["scores"], -((r["queries"][..., :, None, :] - r["keys"][..., None, :, :]) ** 2).sum(-1))
    assert (r["weights"][0, :, :, 4:] == 0).all()
    close(r["heads"], r["weights"] @ r["values"])


def test_modules_of_torch():
    import qkv.torch as torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(3, 4)
            self.b = torch.nn.ReLU()

        def forward(self, x):
            return self.b(self.a(x))

    net, x = Net(), torch.ones(2, 3)
    r = look.record(net, x, keep=("*",))
    assert r.names() == ["input", "output", "a.input", "a.output", "b.input", "b.output"]
    np.testing.assert_array_equal(np.maximum(r["a.output"], 0), r["output"])
    with look.change(net, {"a.output": lambda y: y * 0 + 2}):
        y = net(x)
    assert isinstance(y, torch.Tensor)
    np.testing.assert_array_equal(np.asarray(y.detach()), np.full((2, 4), 2, "float32"))


@pytest.mark.parametrize("batched", [True, False])
def test_attention_of_torch(batched):
    import qkv.torch as torch

    layer = torch.nn.MultiheadAttention(M, H, batch_first=True).double()
    x = torch.tensor(numbers(B, L, M) if batched else numbers(L, M))
    plain, _ = layer(x, x, x)
    r = look.record(layer, x, x, x, keep=("*",), average_attn_weights=False)
    np.testing.assert_array_equal(r.output[0].detach().numpy(), plain.detach().numpy())
    assert r["weights"].shape == ((B, H, L, L) if batched else (H, L, L))
    np.testing.assert_array_equal(r["weights"], r.output[1].detach().numpy())
    close(r["scores"], r["queries"] @ np.swapaxes(r["keys"], -1, -2) / np.sqrt(D))
    close(r["heads"], r["weights"] @ r["values"])
    with look.without_heads(layer, {0: [1]}):
        fused, _ = layer(x, x, x, need_weights=False)
        slow, _ = layer(x, x, x)
    assert isinstance(fused, torch.Tensor)
    close(fused.detach().numpy(), slow.detach().numpy())
    assert abs(slow - plain).max() > 1e-3
