"""What the core answers itself of `qkv.torch` is what the Python functions give, which it answers for."""

import inspect

import numpy as np
import pytest

import qkv
from qkv import torch
from qkv.torch import Tensor

from .direct_cases import CALLS, INDICES, OTHERS, PLACES, X, tensors


def outcome(f, args, options):
    try:
        result = f(*args, **options)
    except Exception as error:
        return type(error), str(error)
    if not isinstance(result, Tensor):
        return type(result), str(result)
    with np.errstate(all="ignore"):
        numbers = qkv._core.Tensor.numpy(result).tobytes()
    label = type(result.grad_fn).__name__
    return (
        type(result),
        result.dtype,
        tuple(result.shape),
        result.stride(),
        result.requires_grad,
        label,
        numbers,
    )


@pytest.mark.parametrize("kind", tensors())
def test_the_core_answers_what_the_python_function_gives(kind):
    t = tensors()[kind]
    for name, args, options in CALLS:
        f = getattr(Tensor, name)
        args = tuple(t if isinstance(one, str) and one == "itself" else one for one in args)
        expected = outcome(f.__wrapped__, (t, *args), options)
        assert outcome(f, (t, *args), options) == expected, (name, args, options)


@pytest.mark.parametrize("kind", tensors())
def test_the_core_sets_what_the_python_function_sets(kind):
    values = [*OTHERS, torch.ones(3), torch.ones(2, 1), torch.ones(1, 1, 3), torch.ones(5), torch.tensor(7)]
    values += [torch.ones(3, dtype=torch.float64), torch.ones(3, requires_grad=True)]
    for index in (*INDICES, *PLACES):
        for value in values:
            results = []
            for f in (Tensor.__setitem__, Tensor.__setitem__.__wrapped__):
                t = tensors()[kind].clone() if kind != "parameter" else tensors()[kind]
                results.append(
                    [outcome(f, (t, index, value), {}), outcome(Tensor.clone, (t,), {}), t.grad_fn is None]
                )
            assert results[0] == results[1], (index, value)


IN_PLACE = [
    "pow_",
    "remainder_",
    "floor_divide_",
    "fill_",
    "copy_",
    "add_",
    "sub_",
    "mul_",
    "div_",
    "__iadd__",
    "__isub__",
    "__imul__",
    "__itruediv__",
]


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("recorded", [True, False])
def test_the_core_changes_what_the_python_function_changes(name, recorded):
    others = (
        *OTHERS,
        torch.tensor(X),
        torch.ones(3),
        torch.ones(2, 2, 3),
        torch.ones(2, 3, dtype=torch.float64),
    )
    for kind in tensors():
        for other in others:
            for part in (lambda t: t, lambda t: t[:1], lambda t: t.expand(2, *t.shape)):
                found = []
                for route in (lambda f: f, lambda f: f.__wrapped__):
                    t = tensors()[kind]
                    with torch.set_grad_enabled(recorded):
                        try:
                            changed = part(t)
                        except (IndexError, RuntimeError):
                            continue
                        version = t._version
                        result = outcome(route(getattr(Tensor, name)), (changed, other), {})
                        found.append((result, t.detach().tolist(), t._version > version))
                assert found[:1] == found[1:], (kind, other)


@pytest.mark.parametrize("name", sorted({name for name, _, _ in CALLS} | {*IN_PLACE}))
def test_the_core_has_an_answer(name):
    assert type(getattr(Tensor, name)).__module__ == "qkv._core"


def test_results_are_tensors_of_the_class_that_is_derived():
    p, core = torch.nn.Parameter(torch.tensor(X)), qkv.tensor(X)
    for result in (p + 1, 1 + p, p[0], p * p, p @ p.t(), p.exp(), core + p, p + core, core - p, core @ p.t()):
        assert type(result) is Tensor


def test_what_made_a_tensor_is_known_to_all_who_hold_it():
    x = torch.tensor(X, requires_grad=True)
    names = [
        type(y.grad_fn).__name__ for y in (1 - x, x**0.5, x[0], x[:, None], x[..., 0], x.t(), x.T, x.sum(0))
    ]
    assert names == [
        "RsubBackward1",
        "PowBackward0",
        "SelectBackward0",
        "UnsqueezeBackward0",
        "SelectBackward0",
        "TBackward0",
        "PermuteBackward0",
        "SumBackward1",
    ]
    y = x * 2
    assert (
        type(torch.as_tensor(qkv._core.instance_of(qkv._core.Tensor, y)).grad_fn).__name__ == "MulBackward0"
    )
    z = y[0]
    z += 1
    assert type(y.grad_fn).__name__ == "CopySlices"
    y.mul_(2)
    assert type(z.grad_fn).__name__ == "AsStridedBackward0"


def test_functions_show_the_name_text_and_signature_of_the_python_function():
    assert torch.sum.__name__ == "sum"
    assert torch.sum.__doc__ == "Sum over axes, or of everything."
    assert list(inspect.signature(torch.sum).parameters)[:3] == ["input", "dim", "keepdim"]
    assert repr(torch.sum).startswith("<function sum")


SIZES = [
    (),
    (3,),
    (2, 3),
    ((2, 3),),
    ([2, 0],),
    (torch.Size([2]),),
    (-1,),
    ((2, -3),),
    (True,),
    (2.0,),
    ("x",),
]
SIZES += [(torch.tensor([2, 3]),), (2**62, 2**62), (None,), ((2, 3), 4)]


@pytest.mark.parametrize("name", ["zeros", "ones"])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_filled_tensors_are_those_of_the_python_function(name, kind):
    f = getattr(torch, name)
    try:
        torch.set_default_dtype(kind)
        for sizes in SIZES:
            for options in ({}, {"dtype": torch.int8}, {"requires_grad": True}):
                assert outcome(f, sizes, options) == outcome(f.__wrapped__, sizes, options), (sizes, options)
        assert f(2).dtype is kind
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", ["gelu", "silu", "leaky_relu"])
def test_activations_are_those_of_the_python_function(name):
    f = getattr(torch.nn.functional, name)
    for kind in tensors():
        for args, options in [
            ((), {}),
            ((True,), {}),
            ((0.5,), {}),
            ((), {"inplace": True}),
            (("tanh",), {}),
        ]:
            found = []
            for g in (f, f.__wrapped__):
                t = tensors()[kind]
                found.append((outcome(g, (t, *args), options), outcome(Tensor.clone, (t,), {})))
            assert found[0] == found[1], (kind, args, options)


def test_rows_of_a_table_are_those_of_the_python_function():
    f = torch.nn.functional.embedding
    tables = [torch.ones(5, 3).requires_grad_(), torch.arange(6.0).reshape(3, 2).t(), torch.ones(3), None]
    for ids in [
        torch.tensor([[0, 1], [1, 0]]).t(),
        torch.tensor([4, -1]),
        torch.tensor([1.0]),
        torch.tensor(1),
        1,
    ]:
        for table in tables:
            for rest in [(), (None,), (1,), (-1,), (7,), (None, 1.0)]:
                assert outcome(f, (ids, table, *rest), {}) == outcome(f.__wrapped__, (ids, table, *rest), {})


def test_stacks_of_matrices_multiply_as_in_the_python_function():
    stacks = [
        torch.ones(2, 3, 5),
        torch.ones(2, 5, 7),
        torch.ones(3, 5, 7),
        torch.ones(5, 7),
        torch.ones(7),
        None,
    ]
    for name in ("bmm", "mm", "mv", "dot"):
        f = getattr(torch, name)
        for a in [*stacks, torch.ones(5).double(), torch.ones(5)]:
            for b in [*stacks, torch.ones(5).double(), torch.ones(5)]:
                assert outcome(f, (a, b), {}) == outcome(f.__wrapped__, (a, b), {}), (name, a, b)


def test_linear_maps_are_those_of_the_python_function():
    f = torch.nn.functional.linear
    others = [torch.ones(5, 3), torch.ones(5, 2), torch.ones(3), torch.ones(5, 3, dtype=torch.float64), None]
    biases = [(), (None,), (torch.arange(5.0),), (torch.arange(5.0).double(),), (torch.ones(2),), (1.0,)]
    for kind, t in tensors().items():
        for x in (t, t[None], t[:0]) if t.dim() else (t,):
            for weight in others:
                for bias in biases:
                    expected = outcome(f.__wrapped__, (x, weight, *bias), {})
                    assert outcome(f, (x, weight, *bias), {}) == expected, (kind, x.shape, weight, bias)
