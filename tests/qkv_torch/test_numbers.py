"""Numbers at the edges, beside PyTorch's values: distances, products of three, views, losses at 0 and 1."""

import math
import resource
import warnings

import numpy as np
import pytest

import qkv
import qkv.torch as torch

RNG = np.random.default_rng(0)
F = torch.nn.functional


def peak_of(f):
    """Bytes that a call adds to the highest memory of the process."""
    f()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    f()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024


EQUATIONS = [
    ("id,jd,d->ij", (7, 5), (11, 5), (5,)),
    ("d,id,jd->ij", (5,), (7, 5), (11, 5)),
    ("ij,jk,kl->il", (3, 4), (4, 5), (5, 2)),
    ("ab,bc,cd,de->ae", (2, 3), (3, 4), (4, 5), (5, 6)),
    ("bi,bj,bk->bijk", (2, 3), (2, 4), (2, 5)),
    ("i,j,k->", (3,), (4,), (5,)),
    ("ii,ij,...j->...i", (4, 4), (4, 3), (2, 1, 3)),
    ("a,ab,abc,bc,c,cd->d", (2,), (2, 3), (2, 3, 4), (3, 4), (4,), (4, 5)),
]


@pytest.mark.parametrize("equation", EQUATIONS, ids=lambda one: one[0])
def test_products_of_several(equation):
    names, *shapes = equation
    arrays = [RNG.standard_normal(shape) for shape in shapes]
    expected = np.einsum(names, *arrays)
    tensors = [qkv.tensor(a, requires_grad=True) for a in arrays]
    found = np.einsum(names, *tensors)
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(
        torch.einsum(names, *map(torch.tensor, arrays)).numpy(), expected, rtol=1e-11, atol=1e-12
    )
    whole = [np.round(a * 3).astype(int) for a in arrays]
    np.testing.assert_array_equal(np.einsum(names, *map(qkv.tensor, whole)).numpy(), np.einsum(names, *whole))
    dy = RNG.standard_normal(expected.shape)
    for at, gradient in enumerate(qkv.grad((found * dy).sum(), tensors)):
        step = RNG.standard_normal(arrays[at].shape)
        moved = [*arrays[:at], step, *arrays[at + 1 :]]
        assert (gradient.numpy() * step).sum() == pytest.approx(
            (np.einsum(names, *moved) * dy).sum(), rel=1e-9, abs=1e-9
        )


def test_a_shared_third_factor_takes_no_memory():
    a, b, w = torch.rand(900, 64), torch.rand(900, 64), torch.rand(64)
    assert peak_of(lambda: torch.einsum("id,jd,d->ij", a, b, w)) < 60e6  # all products have 207 MB


REDUCTIONS = {
    "sum": np.sum,
    "mean": np.mean,
    "amax": np.max,
    "amin": np.min,
    "prod": np.prod,
    "var": lambda x, axis=None: np.var(x, axis, ddof=1),
    "std": lambda x, axis=None: np.std(x, axis, ddof=1),
    "norm": lambda x, axis=None: np.sqrt((x**2).sum(axis)),
    "logsumexp": lambda x, axis: np.log(np.exp(x).sum(axis)),
}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_views_that_repeat_numbers(name, dtype):
    x = RNG.uniform(0.5, 1.5, 3001).astype(dtype)
    t = torch.tensor(x)
    views = {
        "windows": (t.unfold(0, 50, 1), np.lib.stride_tricks.sliding_window_view(x, 50)),
        "broadcast": (t[:40].expand(900, 40), np.broadcast_to(x[:40], (900, 40))),
        "long rows": (t.expand(12, 3001).t(), np.broadcast_to(x, (12, 3001)).T),
        "of windows": (t.unfold(0, 900, 7).unfold(1, 30, 3), None),
    }
    for view, array in views.values():
        array = view.contiguous().numpy() if array is None else array
        for dim in [None, *range(array.ndim), -1]:
            if dim is None and name == "logsumexp":
                continue
            given = () if dim is None else (2, dim) if name == "norm" else (dim,)
            if name == "prod" and (dim is None or array.shape[dim] > 100):
                continue
            found = getattr(view, name)(*given)
            expected = REDUCTIONS[name](array.astype("f8"), *(() if dim is None else (dim,)))
            np.testing.assert_allclose(
                found.numpy(), expected, rtol=1e-4 if dtype == "f4" else 1e-10, atol=1e-12
            )


def test_gradients_of_sums_of_windows():
    x = torch.rand(3001, requires_grad=True)
    (x.unfold(0, 50, 1).sum(0) * torch.arange(50.0)).sum().backward()
    at = np.arange(3001)
    counted = np.array([np.arange(max(0, i - 2951), min(49, i) + 1).sum() for i in at])
    np.testing.assert_allclose(x.grad.numpy(), counted, rtol=1e-5)


def test_sums_of_windows_take_no_memory():
    x = torch.rand(100000)
    for f in (
        lambda v: v.sum(),
        lambda v: v.sum(-1),
        lambda v: v.mean(0),
        lambda v: v.std(-1),
        lambda v: v.amax(1),
    ):
        assert peak_of(lambda f=f: f(x.unfold(0, 500, 1))) < 60e6  # all windows have 200 MB


def test_one_number_is_a_row_of_one():
    x = torch.tensor(2.0, requires_grad=True)
    for dim in (0, -1):
        assert torch.softmax(x, dim).item() == 1
        assert torch.log_softmax(x, dim).item() == 0
    torch.softmax(x, 0).backward()
    assert x.grad.item() == 0
    assert qkv.softmax(np.float32(1)) == 1
    assert np.shape(qkv.softmax(np.float32(1))) == ()
    assert qkv.log_softmax(np.float32(1)) == 0
    with pytest.raises(ValueError, match=r"^softmax: axis must be from -1 to 0 .*; got 1$"):
        qkv.softmax(np.float32(1), 1)


def test_losses_of_certain_probabilities():
    x = torch.tensor([0.0, 1.0, 0.0, 1.0, 0.25], requires_grad=True)
    loss = F.binary_cross_entropy(x, torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0]), reduction="none")
    np.testing.assert_allclose(loss.detach().numpy(), [100, 100, 0, 0, -np.log(0.25)], rtol=1e-6)
    loss.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [-1e12, 1e12, 0, 0, -4], rtol=1e-6)
    soft = torch.tensor([0.25], requires_grad=True)
    F.binary_cross_entropy(torch.tensor([0.0]), soft).backward()
    assert soft.grad.item() == 100
    inner = torch.tensor([0.3, 0.6], dtype=torch.float64, requires_grad=True)
    loss = F.binary_cross_entropy(inner, torch.tensor([0.0, 1.0]).double())
    (slope,) = torch.autograd.grad(loss, inner, create_graph=True)
    slope.sum().backward()
    np.testing.assert_allclose(inner.grad.numpy(), [0.5 / 0.7**2, 0.5 / 0.6**2], rtol=1e-9)


def test_a_mean_over_classes_without_weight():
    weight, target = torch.tensor([1.0, 0.0, 0.0]), torch.tensor([1, 2, -100])
    scores = torch.log_softmax(torch.rand(3, 3), 1)
    for f in (F.cross_entropy, F.nll_loss):
        assert f(scores, target, weight).isnan()
        assert f(scores, target, weight, reduction="sum").item() == 0
        assert not f(scores, torch.tensor([1, 0, -100]), weight).isnan()


def test_gelu_far_below_zero():
    x = np.array([-0.5, -2.9, -3.1, -4, -5, -5.5, -6, -8, -12])
    tail = np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in x])
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    cubic = x + 0.044715 * x**3
    logistic = 1 / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * cubic))
    for dtype, rtol in (("f4", 4e-5), ("f8", 1e-12)):
        for approximate, share in (("none", tail), ("tanh", logistic)):
            t = torch.tensor(x.astype(dtype), requires_grad=True)
            y = F.gelu(t, approximate=approximate)
            np.testing.assert_allclose(y.detach().numpy(), x * share, rtol=rtol, atol=1e-44)
            (slope,) = torch.autograd.grad(y.sum(), t, create_graph=True)
            if approximate == "none":
                np.testing.assert_allclose(slope.detach().numpy(), tail + x * density, rtol=rtol)
                (bend,) = torch.autograd.grad(slope.sum(), t)
                np.testing.assert_allclose(bend.numpy(), (2 - x * x) * density, rtol=rtol)
    assert F.gelu(torch.tensor([-math.inf])).item() == 0
    assert F.gelu(torch.tensor([math.nan])).isnan()


def test_squares_of_whole_numbers():
    for kind in (torch.int64, torch.int32, torch.int8, torch.uint8):
        t = torch.tensor([3, 0, 2 if kind is torch.uint8 else -2], dtype=kind)
        assert t.square().dtype is kind
        assert t.square().tolist() == [9, 0, 4]
    flags = torch.tensor([True, False])
    assert flags.square().dtype is torch.int64
    assert torch.square(flags).tolist() == [1, 0]


def test_clipping_an_exhausted_generator_warns():
    with pytest.warns(
        UserWarning, match="`parameters` is an empty generator, no gradient clipping will occur"
    ):
        assert torch.nn.utils.clip_grad_norm_((p for p in []), 1.0).item() == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.nn.utils.clip_grad_norm_([], 1.0).item() == 0


def test_a_summary_reads_no_other_numbers():
    for t in (torch.zeros(3, 1).expand(3, 2**40), torch.tensor(1.5).expand(2**20, 2**20)):
        text = repr(t)
        assert "..." in text
        assert len(text) < 2000
        assert str(t) == text == f"{t}"
    wide = torch.tensor([0.0, 1.0, 2.0])[:, None].expand(3, 2**40)
    assert repr(wide).splitlines()[1].startswith("        [1., 1., 1.,  ..., 1., 1., 1.]")
    core = qkv.tensor(np.zeros((3, 1), "f4"))
    assert "..." in repr(np.broadcast_to(core, (3, 2**40)))


@pytest.mark.parametrize("data", [2**63, -(2**63) - 1, [2**63, 1], [[1], [2**70]]])
def test_integers_beyond_int64_are_refused(data):
    with pytest.raises(
        ValueError, match=r"^tensor: data must fit in int64 because the dtype does; got -?[0-9]{19}"
    ):
        torch.tensor(data)
    assert torch.tensor([1.5, 2**70]).tolist() == [1.5, 2.0**70]
    assert torch.tensor([2**63 - 1, -(2**63)]).tolist() == [2**63 - 1, -(2**63)]
    assert torch.tensor([2**63, 1], dtype=torch.float64).tolist() == [2.0**63, 1]
