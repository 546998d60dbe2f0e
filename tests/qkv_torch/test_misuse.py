"""What PyTorch refuses and qkv.torch let pass, or answered in NumPy's words."""

from __future__ import annotations

import math
import re
import warnings

import numpy as np
import pytest

import qkv.torch as torch
import qkv.torch.nn.functional as F
from qkv.torch import nn

X = torch.arange(12.0).view(3, 4)
CASES = [
    *(
        (call, TypeError, f"expected real numbers because qkv computes in no others; got {given}")
        for call, given in (
            (lambda: torch.full((3,), 1j), "1j"),
            (lambda: torch.linspace(1j, 2, 3), "1j"),
        )
    ),
    *(
        (
            call,
            RuntimeError,
            "sub: operands must not be booleans because these have no differences; use ^ or ~",
        )
        for call in (lambda: (X > 2) - (X > 3), lambda: 1 - (X > 2), lambda: X.clone().sub_(X > 2))
    ),
    *(
        (call, RuntimeError, "alpha must be an integer because the operands are; got 2.5")
        for call in (
            lambda: torch.add(torch.arange(3), torch.arange(3), alpha=2.5),
            lambda: torch.arange(3).sub_(torch.ones(3, dtype=torch.int32), alpha=2.5),
        )
    ),
    (lambda: torch.sqrt(8), TypeError, "sqrt: input must be a Tensor; got int"),
    (lambda: X.norm(torch.ones(3)), TypeError, "norm: p must be a number or 'fro'; got "),
    (lambda: torch.exp(0.5), TypeError, "exp: input must be a Tensor; got float"),
    (
        lambda: torch.multinomial([0.5, 0.5], 3),
        TypeError,
        "multinomial: input must be a Tensor; got [0.5, 0.5]",
    ),
    (
        lambda: torch.randint(3, tuple(range(-128, 128))),
        RuntimeError,
        "randint: size must not be negative because it is a shape; got (-128, -127, -126, -125, -124, -123, ...)",
    ),
    (
        lambda: torch.zeros(tuple(range(-128, 128))),
        RuntimeError,
        "zeros: sizes must be at least 0; got (-128, -127, -126, -125, -124, -123, ...)",
    ),
    (
        lambda: nn.init.trunc_normal_(torch.ones(3), std=0.0),
        ValueError,
        "trunc_normal_: std must be above 0 because it is divided by; got 0.0",
    ),
    (lambda: X.topk(-1), RuntimeError, "topk: k must be from 0 to 4 .* axis 1; got k = -1"),
    (
        lambda: X.unfold(0, 2, 0),
        RuntimeError,
        "unfold: step must be at least 1, and size from 0 to that of the axis, 3; got step 0",
    ),
    (
        lambda: X.unfold(0, 4, 1),
        RuntimeError,
        "unfold: .* size from 0 to that of the axis, 3; got step 1, size 4",
    ),
    (
        lambda: torch.div(torch.arange(3), 0, rounding_mode="trunc"),
        RuntimeError,
        "div: other must not be 0 because integers have no infinity",
    ),
    (lambda: torch.ones(1, device=X), TypeError, "device: type must be a string such as 'cpu'; got Tensor"),
    (lambda: X.split(0), RuntimeError, "split: sections must sum to the size of axis 0, 3; got 0"),
    (lambda: torch.tensor(1j), TypeError, "tensor: data must be"),
    (lambda: torch.tensor(1j, dtype=torch.float32), TypeError, "tensor: data must be real numbers"),
    (lambda: torch.where(X > 3, X, 1j), TypeError, "expected real numbers because qkv computes in no others"),
    (
        lambda: X.isclose(X, atol=-1),
        RuntimeError,
        "isclose: rtol and atol must be at least 0; got 1e-05 and -1",
    ),
    (lambda: X.chunk(0), RuntimeError, "chunk: chunks must be at least 1; got 0"),
    (lambda: torch.tensor(1.0).split(1), RuntimeError, "split: the Tensor must have at least one axis"),
    (lambda: X.gather(0, X > 3), RuntimeError, "gather: index must hold whole numbers; got dtype torch.bool"),
    (
        lambda: X.index_select(0, torch.tensor([-1])),
        IndexError,
        "index_select: index must be from 0 to 2; got -1",
    ),
    (
        lambda: X.index_select(0, torch.tensor([[1]])),
        IndexError,
        "index_select: index must have one axis; got",
    ),
    (
        lambda: torch.tensor([1, 2]).index_add(0, torch.tensor([0]), 2**63 - 1, alpha=np.int64(2)),
        TypeError,
        "index_add: the values must be a Tensor; got 9223372036854775807",
    ),
    (
        lambda: torch.tensor([1, 2]).scatter_add(0, torch.tensor([0]), 5),
        TypeError,
        "scatter_add: the values must be a Tensor; got 5",
    ),
    (
        lambda: torch.utils.data.default_collate({}),
        TypeError,
        "default_collate: batch must be a list of entries; got dict",
    ),
    (
        lambda: torch.utils.data.default_collate([]),
        TypeError,
        "default_collate: batch must be a list of entries; got",
    ),
    (
        lambda: torch.utils.data.default_collate([[1, 2], [3]]),
        RuntimeError,
        "default_collate: entries must be equally long because their parts are put together",
    ),
    (lambda: X.index_add(0, torch.tensor([3, 0]), X[:2]), IndexError, "index_add: index must be from 0 to 2"),
    (
        lambda: X.outer(X[0]),
        RuntimeError,
        "outer: input and vec2 must have one axis; got shapes (3, 4) and (4,)",
    ),
    (
        lambda: X.diagonal(0, 1, 1),
        RuntimeError,
        "diagonal: dim1 and dim2 must be two axes; got 1 and 1",
    ),
    (lambda: torch.arange(3).var(), RuntimeError, "var: input must hold floating numbers; got torch.int64"),
    (lambda: F.one_hot(X), RuntimeError, "one_hot: tensor must hold whole numbers; got torch.float32"),
    (
        lambda: F.one_hot(torch.arange(0)),
        RuntimeError,
        "one_hot: num_classes must be given because the Tensor is",
    ),
    (
        lambda: F.binary_cross_entropy(torch.ones(3, 1), torch.ones(3)),
        ValueError,
        "binary_cross_entropy: target must have the shape of input, (3, 1); got (3,)",
    ),
    (
        lambda: nn.BCEWithLogitsLoss()(torch.ones(3, 1), torch.ones(3)),
        ValueError,
        "binary_cross_entropy_with_logits: target must have the shape of input, (3, 1); got (3,)",
    ),
    (
        lambda: nn.GRU(4, 3)(torch.ones(7, 2, 4), torch.ones(1, 2, 5)),
        RuntimeError,
        "Expected hidden size (1, 2, 3)",
    ),
    (lambda: nn.init.orthogonal_(torch.ones(3)), ValueError, "orthogonal_: tensor must have at least 2 axes"),
    (
        lambda: nn.Sequential(nn.ReLU(), 3),
        TypeError,
        "cannot assign 'int' object to module '1': Module or None",
    ),
    (
        lambda: nn.ReLU().register_parameter("a", X),
        TypeError,
        "cannot assign 'Tensor' object to parameter 'a'",
    ),
    (lambda: nn.ReLU().register_buffer(3, X), TypeError, "buffer name should be a string. Got int"),
    (lambda: nn.ReLU().register_buffer("a.b", X), KeyError, "be empty or contain"),
    (
        lambda: torch.optim.SGD([X], 0.1).add_param_group({}),
        TypeError,
        "param_group must be a dict with the key 'params'",
    ),
    (
        lambda: torch.optim.Adam([{"params": [X], "amsgrad": True}]),
        ValueError,
        "Adam: amsgrad must be False",
    ),
    (
        lambda: torch.optim.SGD([X], 0.1).load_state_dict({}),
        ValueError,
        "state_dict must be what state_dict() gave",
    ),
    (
        lambda: torch.set_printoptions(profile="long"),
        ValueError,
        "profile must be 'default', 'short' or 'full'",
    ),
    (
        lambda: torch.set_printoptions(precision=-1),
        ValueError,
        "precision must be a number from 0 on; got -1",
    ),
    (
        lambda: torch.ge(None, 0.5),
        TypeError,
        "input >= other: both must be Tensors or numbers, one a Tensor; got",
    ),
    (lambda: X.ne("a"), TypeError, "input != other: both must be .*; got Tensor and 'a'"),
]


@pytest.mark.parametrize(("call", "error", "text"), CASES, ids=range(len(CASES)))
def test_refused(call, error, text):
    pattern = ".*".join(re.escape(part) for part in text.split(".*"))
    with pytest.raises(error, match=pattern):
        call()


def test_what_is_computed_anew_is_no_view():
    for name in ("round", "sort", "max"):
        x = {
            "round": torch.arange(4),
            "sort": torch.tensor(3.0),
            "max": torch.tensor(3.0),
        }.get(name, torch.arange(9.0).view(3, 3))
        before = x.clone()
        result = (
            x.sort().values if name == "sort" else x.max(0).values if name == "max" else getattr(x, name)()
        )
        result += 7
        assert torch.equal(x, before), name


def test_shapes_and_dtypes():
    assert torch.FloatTensor().shape == (0,)
    assert torch.tensor(3).cumsum(0).shape == ()
    assert torch.ones(3).prod(dtype=torch.uint8).dtype is torch.uint8
    assert [tuple(part.shape) for part in torch.zeros(0, 2).chunk(3)] == [(0, 2)] * 3
    assert torch.tensor(5).nonzero().shape == (1, 0)
    assert torch.tensor(0).nonzero().shape == (0, 0)
    assert torch.ones(4, 4).diagonal().stride() == (5,)
    assert not torch.ones(4, 4).diagonal().is_contiguous()
    assert torch.div(torch.tensor(-(2**62) - 1), 2, rounding_mode="trunc").item() == -(2**61)
    assert torch.zeros(2, 3).argmax(keepdim=True).shape == (1, 1)
    assert [part.shape for part in torch.zeros(0).split(2)] == [(0,)]


def test_the_gradient_of_the_divisor_of_fmod():
    y = torch.tensor([3.0, 2.5], requires_grad=True)
    torch.tensor([7.0, -6.0]).fmod(y).sum().backward()
    assert y.grad.tolist() == [-2.0, 2.0]


def test_no_warning_of_numpy_comes_out():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (1e308 - torch.ones(1)).item() == np.inf
        assert torch.tensor(1e39).item() == np.inf
        torch.linspace(0, 1e308, 2)
        torch.arange(4.0, requires_grad=True).fmod(torch.zeros(4))
        torch.div(torch.ones(1), torch.zeros(1), rounding_mode="trunc")


def test_a_copy_in_order_of_memory_is_no_view():
    """The view, whose numbers are in that order already, must not share its memory with the copy."""
    x = torch.arange(6.0).view(2, 3)
    for copy in (
        lambda t: t.contiguous(),
        lambda t: t.reshape(-1),
        lambda t: t.flatten(),
        lambda t: t.clone(),
    ):
        v = x.t()
        y = copy(v)
        y += 7
        assert torch.equal(v, x.t())
        w = x.clone().requires_grad_()
        copy(w.t())[1].sum().backward()
        assert w.grad.sum() in (1, 2)


def test_bounds_that_cross_and_axes_that_are_not_there():
    assert torch.arange(4.0).clamp(2, 1).tolist() == [1.0] * 4
    assert torch.tensor(-3.0).norm(dim=0) == 3
    assert torch.arange(3).cumsum(0, dtype=torch.uint8).dtype is torch.uint8
    with pytest.raises(RuntimeError, match=r"sum: dim must name each axis once; got \(0, -2\)"):
        X.sum((0, -2))


def test_the_old_arguments_of_losses():
    a, b = torch.tensor([1.0, 4.0]), torch.zeros(2)
    assert F.mse_loss(a, b, size_average=False) == nn.MSELoss(size_average=False)(a, b) == 17
    assert nn.L1Loss(reduce=False)(a, b).tolist() == [1.0, 4.0]
    assert nn.BCEWithLogitsLoss(reduce=True, reduction="none")(a, b).shape == ()
    logits, target = torch.zeros(3, 2), torch.tensor([0, 1, 1])
    assert F.cross_entropy(logits, target, size_average=False).isclose(torch.tensor(3 * math.log(2)))
    assert nn.CrossEntropyLoss(reduce=False)(logits, target).shape == (3,)


def test_layers_without_inputs():
    assert nn.Linear(0, 3)(torch.ones(2, 0)).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("name", ["float", "double", "half", "long", "int", "bool", "bfloat16"])
def test_a_conversion_by_name_takes_no_number(name):
    with pytest.raises(TypeError):
        getattr(torch.ones(2), name)(1)
