"""Tensors of qkv.torch: what is missing, aliasing, and life among the rest of qkv."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import qkv
import qkv.torch as torch
import qkv.torch.nn.functional as F
from qkv.torch import nn


class TestMissing:
    @pytest.mark.parametrize(
        ("thing", "where"),
        [
            (torch, "torch"),
            (nn, "torch.nn"),
            (F, "torch.nn.functional"),
            (torch.optim, "torch.optim"),
            (torch.optim.lr_scheduler, "torch.optim.lr_scheduler"),
            (torch.utils, "torch.utils"),
            (torch.utils.data, "torch.utils.data"),
            (nn.init, "torch.nn.init"),
            (torch.d2l, "d2l"),
            (torch.ones(1), "Tensor"),
        ],
    )
    def test_a_name_is_an_attribute_error_of_one_line(self, thing, where):
        with pytest.raises(
            AttributeError, match=rf"^{where}: qkv\.torch has no 'quantize'; it holds what .*$"
        ):
            thing.quantize  # noqa: B018
        assert not hasattr(thing, "quantize")

    def test_only_the_cpu(self):
        assert not torch.cuda.is_available()
        assert torch.device("cuda:1").type == "cuda"
        for move in (
            lambda: torch.ones(1, device="cuda"),
            lambda: torch.ones(1).to("cuda:0"),
            lambda: torch.ones(1).cuda(),
            lambda: nn.Linear(1, 1).to(torch.device("cuda")),
            lambda: nn.Linear(1, 1).cuda(),
        ):
            with pytest.raises(
                RuntimeError, match=r"device must be 'cpu' because qkv computes on the CPU; got 'cuda"
            ):
                move()

    def test_dtypes_that_are_not_computed_in(self):
        with pytest.raises(
            TypeError, match=r"dtype must be torch.float32 or torch.float64 .*; got torch.float16"
        ):
            torch.ones(2).half()
        with pytest.raises(TypeError, match=r"got torch.bfloat16"):
            torch.zeros(2, dtype=torch.bfloat16)
        assert torch.ones(2).dtype != torch.float16

    @pytest.mark.parametrize(
        ("call", "text"),
        [
            (lambda: torch.ones(2, 3) + torch.ones(4), "shapes must be equal or 1"),
            (
                lambda: torch.ones(2, 3).view(5),
                r"shape must hold the 6 numbers of a Tensor \(2, 3\)",
            ),
            (lambda: torch.ones(2, 3).sum(2), "dim must be from -2 to 1"),
            (lambda: torch.ones(2, 3).permute(0, 2), "dim must be from -2 to 1"),
            (
                lambda: torch.ones(2, 3).expand(2, 5),
                r"shape must be one that \(2, 3\) broadcasts to; got \(2, 5\)",
            ),
            (lambda: torch.ones(2, 3).masked_fill(torch.ones(2, 3), 0), "mask must be a Tensor of booleans"),
            (lambda: torch.ones(2, 3)[torch.ones(2)], "must be whole numbers or booleans; got torch.float32"),
            (lambda: torch.arange(3).mean(), r"must hold floating numbers; got torch.int64"),
            (lambda: F.softmax(torch.arange(3), 0), r"must hold floating numbers; got torch.int64"),
            (lambda: F.linear(torch.ones(2, 3), torch.ones(4, 5)), r"input must be \(..., 5\)"),
            (
                lambda: F.linear(torch.ones(2, 3).double(), torch.ones(4, 3)),
                r"must be \(..., 3\) of torch.float32 .*; got \(2, 3\) of torch.float64",
            ),
            (lambda: F.embedding(torch.tensor([7]), torch.ones(4, 3)), "must be in 0..3 .*; got id 7"),
            (
                lambda: F.cross_entropy(torch.ones(2, 3), torch.tensor([0, 3])),
                "must be in 0..2 .*; got target 3",
            ),
            (lambda: F.cross_entropy(torch.ones(2, 3), torch.tensor([0])), r"target must be \(2,\)"),
            (
                lambda: F.mse_loss(torch.ones(2), torch.ones(2), reduction="avg"),
                "'mean', 'sum' or 'none'; got 'avg'",
            ),
            (lambda: torch.ones(2).expand(3, 2).add_(1), "must be cloned before it is changed"),
            (lambda: torch.arange(3).mul_(0.5), "changed in place; got torch.float32"),
            (lambda: torch.ones(2).add_(torch.ones(3, 2)), r"must have the Tensor's shape \(2,\)"),
            (lambda: nn.GRU(2, 3)([1.0]), "input must be a Tensor; got list"),
            (lambda: nn.MultiheadAttention(4, 3), "must be divisible by num_heads"),
            (
                lambda: torch.optim.SGD(torch.ones(2, requires_grad=True), lr=1),
                "iterable of Tensors or dicts",
            ),
            (
                lambda: torch.optim.Adam([torch.ones(1, requires_grad=True)], amsgrad=True),
                "amsgrad must be False",
            ),
            (lambda: torch.einsum("ij,jk->ik", torch.ones(2, 3)), "names 2 operands; got 1"),
            (lambda: torch.ones(2).backward(), "must require a gradient"),
        ],
    )
    def test_errors_say_what_arrived(self, call, text):
        with pytest.raises((RuntimeError, ValueError, TypeError, IndexError, AssertionError), match=text):
            call()


class TestAliasing:
    def test_chains_of_views_see_changes_of_either_side(self):
        x = torch.arange(24.0).view(2, 3, 4)
        a = x.transpose(0, 2)
        b = a[1:, 2]
        c = b.reshape(-1) if b.is_contiguous() else b.t()
        b.mul_(0)
        assert x[:, 2, 1:].abs().sum() == 0
        assert c.abs().sum() == 0
        x.fill_(7)
        assert a[0, 0, 0] == 7
        assert b.sum() == 7 * b.numel()
        assert c[0, 0] == 7

    def test_a_change_through_a_view_carries_its_gradient(self):
        w = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
        base = torch.zeros(2, 3, dtype=torch.float64)
        base.t()[1] += w[:, 0] * 3
        assert base.requires_grad
        (base * torch.arange(6.0, dtype=torch.float64).view(2, 3)).sum().backward()
        assert w.grad.tolist() == [[3.0, 0.0, 0.0], [12.0, 0.0, 0.0]]

    def test_a_computed_tensor_changed_in_place_keeps_older_graphs_right(self):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = x * 1
        z = y.exp()
        y.mul_(10)
        (z.sum() + y.sum()).backward()
        np.testing.assert_allclose(x.grad.numpy(), np.exp([1.0, 2.0]) + 10, rtol=1e-6)

    def test_a_leaf_changed_after_it_was_saved_is_an_error_at_the_backward_pass(self):
        x, w = torch.ones(3), torch.ones(3, requires_grad=True)
        y = (x * w).sum()
        x[0] = 5
        with pytest.raises(RuntimeError, match="was changed"):
            y.backward()

    def test_views_do_not_keep_each_other_alive(self):
        x = torch.zeros(3, 4)
        part = x[1]
        gone = weakref.ref(part)
        del part
        gc.collect()
        assert gone() is None
        x += 1
        assert x[1].tolist() == [1] * 4

    def test_data_and_detach_share_memory_with_parameters(self):
        layer = nn.Linear(3, 2)
        layer.weight.data[0, 1] = 5
        layer.weight.detach()[1].fill_(-1)
        assert layer.weight[0, 1] == 5
        assert layer.weight[1].tolist() == [-1, -1, -1]
        assert layer.weight.requires_grad
        layer.weight.numpy  # noqa: B018
        assert layer(torch.ones(1, 3))[0, 1].item() == pytest.approx(-3 + layer.bias[1].item())

    def test_numpy_shares_the_memory_of_a_leaf(self):
        t = torch.zeros(3)
        t.numpy()[1] = 4
        assert t.tolist() == [0.0, 4.0, 0.0]
        assert torch.tensor([1, 2], dtype=torch.int32).numpy().dtype == np.int32

    def test_copies_and_pickles(self):
        t = torch.tensor([1, 2], dtype=torch.int16)
        p = nn.Parameter(torch.ones(2))
        for make in (copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
            assert make(t).dtype is torch.int16
            assert repr(make(p)) == repr(p)
            assert type(make(p)) is nn.Parameter
        twice = copy.deepcopy([p, p])
        assert twice[0] is twice[1]
        with pytest.raises(RuntimeError, match="only leaves"):
            copy.deepcopy(p * 2)

    def test_a_stored_state_dict_comes_back(self, tmp_path):
        net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
        torch.save(net.state_dict(), tmp_path / "net.pt")
        other = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
        assert (
            repr(other.load_state_dict(torch.load(tmp_path / "net.pt"))) == "<All keys matched successfully>"
        )
        x = torch.randn(4, 2)
        assert torch.equal(net(x), other(x))
        torch.save(net, tmp_path / "whole.pt")
        with pytest.raises(pickle.UnpicklingError, match="weights_only=False runs the code"):
            torch.load(tmp_path / "whole.pt")
        assert torch.equal(torch.load(tmp_path / "whole.pt", weights_only=False)(x), net(x))


class TestWithQkv:
    def test_functions_of_qkv_take_its_tensors_and_pass_gradients_on(self):
        q = torch.randn(2, 4, 8, requires_grad=True)
        out = qkv.scaled_dot_product_attention(q, q, q, is_causal=True)
        assert type(out) is qkv.Tensor
        torch.as_tensor(out).square().sum().backward()
        first = q.grad.clone()
        q.grad = None
        F.scaled_dot_product_attention(q, q, q, is_causal=True).square().sum().backward()
        assert torch.equal(first, q.grad)

    def test_layers_and_losses_of_qkv_take_its_tensors(self):
        layer = qkv.nn.Linear(3, 2)
        x = torch.randn(5, 3, requires_grad=True)
        y = torch.as_tensor(layer(x))
        assert isinstance(y, torch.Tensor)
        loss = qkv.losses.mse(layer(x), torch.zeros(5, 2))
        loss.backward()
        assert x.grad.shape == (5, 3)
        assert layer.weight.grad is not None

    def test_optimizers_of_qkv_take_its_parameters(self):
        w = nn.Parameter(torch.ones(2))
        optimizer = qkv.optim.SGD([w], lr=0.5)
        (w * w).sum().backward()
        optimizer.step()
        assert w.tolist() == [0.0, 0.0]

    def test_operators_between_both_kinds_give_this_one(self):
        a, b = qkv.tensor([1.0, 2.0]), torch.ones(2)
        for result in (a + b, b + a, a * b, b - a, a @ b, np.ones(2, np.float32) * b, b / np.ones(2)):
            assert type(result) is torch.Tensor

    def test_numpy_functions(self):
        t = torch.arange(4.0)
        assert isinstance(np.concatenate([t, t]), np.ndarray)
        assert type(np.exp(t)) is torch.Tensor
        assert np.mean(t) == 1.5
        assert np.asarray(t).dtype == np.float32
        assert np.allclose(t, [0, 1, 2, 3])
        w = torch.ones(2, requires_grad=True)
        assert np.sin(w).requires_grad

    def test_jacobian_of_qkv_with_functions_of_this_module(self):
        found = qkv.jacobian(lambda x: torch.softmax(torch.as_tensor(x), 0), np.zeros(2))
        np.testing.assert_allclose(found, [[0.25, -0.25], [-0.25, 0.25]])

    def test_random_numbers_are_one_stream(self):
        torch.manual_seed(3)
        a = torch.rand(2)
        qkv.manual_seed(3)
        assert np.array_equal(qkv.rand(2), a.numpy())

    def test_a_default_dtype_of_float64(self):
        torch.set_default_dtype(torch.float64)
        try:
            assert torch.ones(2).dtype is torch.float64
            assert nn.Linear(2, 2).weight.dtype is torch.float64
            assert repr(torch.ones(1)) == "tensor([1.])"
            assert (torch.arange(2) * 0.5).dtype is torch.float64
        finally:
            torch.set_default_dtype(torch.float32)


class TestOptimizers:
    def test_resumes_to_the_bit(self):
        def trained(steps, stop=None):
            torch.manual_seed(0)
            net = nn.Linear(3, 2)
            optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
            x = torch.randn(5, 3)
            for i in range(steps):
                if i == stop:
                    state = copy.deepcopy(optimizer.state_dict())
                    optimizer = torch.optim.AdamW(net.parameters(), lr=0.7)
                    optimizer.load_state_dict(state)
                optimizer.zero_grad()
                net(x).square().mean().backward()
                optimizer.step()
            return net.weight

        assert torch.equal(trained(6), trained(6, stop=3))

    def test_settings_of_a_group_can_be_changed(self):
        w = torch.ones(1, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=1.0)
        for group in optimizer.param_groups:
            group["lr"], group["weight_decay"] = 0.5, 1.0
        w.sum().backward()
        optimizer.step()
        assert w.item() == 0.0
        optimizer.add_param_group({"params": [torch.ones(1, requires_grad=True)], "lr": 0.1})
        assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.1]

    def test_a_parameter_without_gradient_stays(self):
        a, b = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
        optimizer = torch.optim.Adam([a, b])
        a.sum().backward()
        optimizer.step()
        assert a.item() != 1
        assert b.item() == 1


def test_d2l_helpers():
    from qkv.torch import d2l

    scores = torch.rand(2, 2, 4)
    kept = scores.clone()
    weights = d2l.masked_softmax(scores, torch.tensor([[1, 3], [2, 4]]))
    assert torch.equal(scores, kept)
    assert (weights == 0).sum() == 3 + 1 + 2
    assert torch.equal(d2l.masked_softmax(scores, None), torch.softmax(scores, -1))
    assert d2l.try_gpu() == torch.device("cpu")

    class Line(d2l.Module):
        def __init__(self):
            super().__init__()
            self.lr, self.net = 0.1, nn.Linear(1, 1)

        def loss(self, y_hat, y):
            return F.mse_loss(y_hat, y)

    class Data:
        def train_dataloader(self):
            x = torch.linspace(-1, 1, 8).reshape(-1, 1)
            return [(x, 2 * x)]

        val_dataloader = train_dataloader

    torch.manual_seed(0)
    model, trainer = Line(), d2l.Trainer(max_epochs=60, gradient_clip_val=1.0)
    trainer.fit(model, Data())
    assert trainer.val_losses[-1] < 0.01 < trainer.train_losses[0]
    pyplot = pytest.importorskip("matplotlib.pyplot")
    d2l.show_heatmaps(weights[None], x_label="Keys", y_label="Queries")
    axes = d2l.plot(torch.arange(4), torch.ones(2, 4), xlabel="x", legend=["a", "b"], figsize=(3, 2))
    assert len(axes.lines) == 2
    pyplot.close("all")


def test_the_tab_list_has_public_names_alone():
    names = dir(torch)
    assert {"tensor", "float32", "nn", "d2l", "einsum"} <= set(names)
    assert not {"Any", "annotations"} & set(names)
    assert all(getattr(torch, name, None) is not None or name == "newaxis" for name in names)


def test_numbers_too_large_for_the_dtype_fill_as_infinity():
    assert torch.zeros(2).fill_(1e39).tolist() == [np.inf, np.inf]
    assert torch.zeros(2).masked_fill(torch.tensor([False, True]), -1e39).tolist() == [0, -np.inf]


def test_clamp_takes_tensors_beside_one_that_records_nothing():
    x = torch.arange(4.0)
    assert x.clamp(torch.tensor(1.0), torch.full((4,), 2.0)).tolist() == [1.0, 1.0, 2.0, 2.0]
    assert torch.tensor([1, 5]).clamp(max=torch.tensor([3, 3])).tolist() == [1, 3]
