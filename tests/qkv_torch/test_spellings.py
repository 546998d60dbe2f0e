"""Arguments by every keyword that PyTorch takes for them."""

import numpy as np
import pytest

from qkv import torch

X = torch.arange(6.0).reshape(2, 3)
SQUARE = torch.arange(9.0).reshape(3, 3)
VECTOR, STACK = torch.arange(3.0), torch.arange(18.0).reshape(2, 3, 3)

# function: positional arguments, and the same by name
FUNCTIONS = {
    "flatten": ((X, 0, 1), {"input": X, "start_dim": 0, "end_dim": 1}),
    "transpose": ((X, 0, 1), {"input": X, "dim0": 0, "dim1": 1}),
    "swapaxes": ((X, 0, 1), {"input": X, "axis0": 0, "axis1": 1}),
    "permute": ((X, (1, 0)), {"input": X, "dims": (1, 0)}),
    "reshape": ((X, (3, 2)), {"input": X, "shape": (3, 2)}),
    "unsqueeze": ((X, 1), {"input": X, "axis": 1}),
    "squeeze": ((X[:1], 0), {"input": X[:1], "dim": 0}),
    "t": ((X,), {"input": X}),
    "ravel": ((X,), {"input": X}),
    "unflatten": ((X, 1, (3, 1)), {"input": X, "dim": 1, "sizes": (3, 1)}),
    "broadcast_to": ((X, (2, 2, 3)), {"input": X, "size": (2, 2, 3)}),
    "flip": ((X, (1,)), {"input": X, "dims": (1,)}),
    "cat": (([X, X], 1), {"tensors": [X, X], "axis": 1}),
    "stack": (([X, X], 1), {"tensors": [X, X], "axis": 1}),
    "repeat_interleave": ((X, 2, 1), {"input": X, "repeats": 2, "dim": 1}),
    "diagonal": ((SQUARE, 1), {"input": SQUARE, "offset": 1}),
    "clone": ((X,), {"input": X}),
    "numel": ((X,), {"input": X}),
    "mm": ((X, SQUARE), {"input": X, "mat2": SQUARE}),
    "bmm": ((STACK, STACK), {"input": STACK, "mat2": STACK}),
    "mv": ((SQUARE, VECTOR), {"input": SQUARE, "vec": VECTOR}),
    "dot": ((VECTOR, VECTOR), {"input": VECTOR, "tensor": VECTOR}),
    "split": ((X, 2, 1), {"tensor": X, "split_size_or_sections": 2, "dim": 1}),
    "sum": ((X, 1, True), {"input": X, "axis": 1, "keepdims": True}),
    "mean": ((X, 1, True), {"input": X, "axis": 1, "keepdims": True}),
    "prod": ((X, 1, True), {"input": X, "axis": 1, "keepdims": True}),
    "var": ((X, 1, None, True), {"input": X, "axis": 1, "keepdims": True}),
    "amax": ((X, 1, True), {"input": X, "axis": 1, "keepdims": True}),
    "max": ((X, 1, True), {"input": X, "axis": 1, "keepdims": True}),
    "argmax": ((X, 1, True), {"input": X, "axis": 1, "keepdims": True}),
    "any": ((X, 1, True), {"input": X, "axis": 1, "keepdims": True}),
    "cumsum": ((X, 1), {"input": X, "axis": 1}),
    "logsumexp": ((X, 1, True), {"input": X, "axis": 1, "keepdims": True}),
    "zeros": ((2, 3), {"size": (2, 3)}),
    "ones": ((2, 3), {"size": (2, 3)}),
    "arange": ((3,), {"end": 3}),
}
METHODS = {
    "view": (((3, 2),), {"size": (3, 2)}),
    "reshape": (((3, 2),), {"shape": (3, 2)}),
    "expand": (((2, 2, 3),), {"size": (2, 2, 3)}),
    "repeat": (((2, 1),), {"repeats": (2, 1)}),
    "permute": (((1, 0),), {"dims": (1, 0)}),
    "flip": (((1,),), {"dims": (1,)}),
    "split": ((2, 1), {"split_size": 2, "dim": 1}),
    "new_zeros": (((2, 2),), {"size": (2, 2)}),
    "sum": ((1, True), {"axis": 1, "keepdims": True}),
    "copy_": ((X,), {"other": X}),
}


def numbers(result):
    parts = result if isinstance(result, tuple) else (result,)
    return [np.asarray(part).tolist() for part in parts]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    args, options = FUNCTIONS[name]
    assert numbers(getattr(torch, name)(**options)) == numbers(getattr(torch, name)(*args))


@pytest.mark.parametrize("name", METHODS)
def test_methods(name):
    args, options = METHODS[name]
    assert numbers(getattr(X.clone(), name)(**options)) == numbers(getattr(X.clone(), name)(*args))


def test_an_argument_is_given_once():
    with pytest.raises(TypeError, match="sum: dim must be given once; got axis, too"):
        torch.sum(X, dim=1, axis=1)
    with pytest.raises(TypeError, match="multiple values for argument 'dim'"):
        torch.sum(X, 1, axis=1)


@pytest.mark.parametrize(
    "name",
    [
        "zeros",
        "ones",
        "empty",
        "rand",
        "randn",
        "tensor",
        "arange",
        "zeros_like",
        "ones_like",
        "sum",
        "flip",
        "reshape",
    ],
)
def test_unknown_keywords_are_refused(name):
    with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected keyword argument 'wrong'"):
        getattr(torch, name)(
            X if name in ("zeros_like", "ones_like", "sum", "flip", "reshape") else 2, wrong=1
        )


def test_randint_takes_a_size_by_name():
    for options in ({"size": (3,)}, {"high": 5, "size": (3,)}, {"low": 0, "high": 5, "size": (3,)}):
        torch.manual_seed(0)
        args = (5,) if "high" not in options else ()
        drawn = torch.randint(*args, **options)
        torch.manual_seed(0)
        assert drawn.tolist() == torch.randint(0, 5, (3,)).tolist()
    with pytest.raises(TypeError, match="high and size must be given"):
        torch.randint(5)
    with pytest.raises(TypeError, match="end must be given"):
        torch.arange()
