"""What PyTorch's functions of Tensors are called with, and a value of each argument that is not its default."""

from __future__ import annotations

from typing import Any

from qkv._operations import OPERATIONS


def given(m: Any) -> dict[str, Any]:
    """What the samples below speak of."""
    x = m.tensor([[1.5, -2.0, 0.5], [3.0, 2.5, -0.25]])
    square = m.tensor([[2.0, 1.0, 0.5], [0.0, 3.0, 1.0], [1.0, 0.0, 2.0]])
    return {
        "m": m,
        "x": x,
        "y": m.tensor([[2.0, 0.5, 1.0], [-1.0, 2.0, 4.0]]),
        "p": m.tensor([[0.2, 0.5, 0.3], [0.9, 0.05, 0.05]]),
        "nans": m.tensor([[1.0, float("nan"), float("inf")], [2.0, 1.0, -float("inf")]]),
        "square": square,
        "vector": m.tensor([1.0, -2.0, 3.0]),
        "stack": m.stack([square, square.t(), 2 * square]),
        "whole": m.tensor([[3, 1, 2], [2, 2, 5]]),
        "counts": m.tensor([0, 2, 1, 2]),
        "mask": m.tensor([[True, False, True], [False, False, True]]),
        "places": m.tensor([[0, 1, 1], [1, 0, 0]]),
        "rows": m.tensor([1, 0]),
    }


def each(names: str, value: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), value)


# What each function is called with, by position.
SAMPLES = {
    **{
        name: "p" if row.samples == ("positive",) else "x"
        for row in OPERATIONS.values()
        if row.parameters == "x"
        for name in row.torch.split()
    },
    **each("isfinite isinf isnan relu square round clone detach numel", "x"),
    **each("rsqrt", "p"),
    **dict.fromkeys(
        [
            "add",
            "sub",
            "subtract",
            "mul",
            "multiply",
            "div",
            "divide",
            "true_divide",
            "pow",
            "maximum",
            "minimum",
            "fmod",
            "remainder",
        ],
        "y, p",
    ),
    **dict.fromkeys(
        [
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "floor_divide",
            "isclose",
            "allclose",
            "equal",
            "logical_and",
            "logical_or",
        ],
        "x, y",
    ),
    **dict.fromkeys(
        [
            "sum",
            "mean",
            "prod",
            "any",
            "all",
            "amax",
            "amin",
            "max",
            "min",
            "argmax",
            "argmin",
            "std",
            "var",
            "norm",
        ],
        "x",
    ),
    **each("sort argsort nonzero flatten t squeeze", "x"),
    **each("cumsum logsumexp softmax log_softmax unsqueeze unbind", "x, 1"),
    **each("zeros_like ones_like rand_like randn_like", "x"),
    **each("bitwise_and bitwise_or bitwise_xor", "whole, whole[:1]"),
    **each("cat concat concatenate stack", "[x, y]"),
    **each("diagonal tril triu", "square"),
    "ravel": "x",
    "broadcast_to": "x, (2, 2, 3)",
    **each("swapaxes transpose", "x, 0, 1"),
    **each("zeros ones rand randn", "(2, 3)"),
    "logical_not": "x",
    "squeeze": "x[:1, :1]",
    "dropout": "x, 0.5, True",
    "logical_xor": "x, mask",
    "bitwise_not": "whole",
    "mm": "x, square",
    "bmm": "stack, stack",
    "mv": "square, vector",
    "dot": "vector, vector",
    "outer": "vector, vector",
    "matmul": "x, square",
    "einsum": "'ij,jk->ik', [x, square]",
    "lerp": "x, y, 0.25",
    "clamp": "x, -1.0, 1.0",
    "clip": "x, -1.0, 1.0",
    "where": "mask, x, y",
    "masked_fill": "x, mask, 2.0",
    "gather": "x, 1, places",
    "scatter": "x, 1, places, y",
    "scatter_add": "x, 1, places, y",
    "index_add": "x, 0, rows, y",
    "index_fill": "x, 0, rows, 2.0",
    "index_select": "x, 0, rows",
    "select": "x, 1, 2",
    "split": "x, 2, 1",
    "chunk": "x, 2",
    "reshape": "x, (3, 2)",
    "permute": "x, (1, 0)",
    "unflatten": "x, 1, (3, 1)",
    "flip": "x, (1,)",
    "roll": "x, 1",
    "repeat_interleave": "x, 2",
    "topk": "x, 2",
    "unique": "whole",
    "bincount": "counts",
    "meshgrid": "[vector, vector[:2]]",
    "arange": "0, 5",
    "linspace": "0.0, 1.0, 5",
    "eye": "3",
    "full": "(2, 3), 1.5",
    "full_like": "x, 1.5",
    "randint": "0, 9, (2, 3)",
    "randperm": "5",
    "normal": "0.0, 1.0, (2, 3)",
    "multinomial": "p, 4, True",
    "tensor": "[1.5, 2.0]",
    "as_tensor": "[1.5, 2.0]",
    "layer_norm": "x, (3,)",
    "is_floating_point": "x",
}
# A value of each argument that is not its default.
VALUES = {
    "keepdim": "True",
    "dim": "0",
    "dims": "1",
    "axis": "1",
    "dtype": "m.float64",
    "out_dtype": "m.float32",
    "alpha": "2.5",
    "value": "2.5",
    "decimals": "1",
    "rounding_mode": "'floor'",
    "correction": "0",
    "unbiased": "False",
    "descending": "True",
    "stable": "True",
    "largest": "False",
    "sorted": "True",
    "rtol": "0.5",
    "atol": "2.0",
    "equal_nan": "True",
    "p": "1",
    "offset": "1",
    "start_dim": "1",
    "end_dim": "0",
    "n": "2",
    "weights": "m.tensor([0.5, 1.0, 2.0, 3.0])",
    "minlength": "9",
    "return_inverse": "True",
    "return_counts": "True",
    "indexing": "'xy'",
    "step": "2",
    "generator": "m.Generator().manual_seed(3)",
    "requires_grad": "True",
    "device": "'cpu'",
    "pin_memory": "False",
    "output_size": "12",
    "sparse_grad": "False",
    "reduce": "'add'",
    "weight": "vector",
    "bias": "vector",
    "eps": "0.5",
    "as_tuple": "True",
    "repeats": "3",
    "end": "3",
}
OF = {  # for one function
    **{f"{name} dim": "1" for name in ("chunk", "split", "unbind", "cat", "concat", "concatenate", "stack")},
    **{f"{name} out_dtype": None for name in ("mm", "bmm")},  # of a GPU
    "scatter value": None,  # beside src, which PyTorch refuses, too
    "roll dims": "1",
    "flip dims": None,
    "permute dims": None,
    "repeat_interleave dim": "1",
    "randperm dtype": "m.int32",
    "allclose atol": "20.0",
    "allclose rtol": "1e9",
    "isclose equal_nan": None,
    "allclose equal_nan": None,
}
# Arguments that change no value in PyTorch either.
NO_EFFECT = each("device pin_memory stable sorted output_size sparse_grad compute_mode assume_unique", "")
# Names in schemas that are no arguments of Python's: named axes, other languages' overloads, what goes by position.
NOT_PYTHON = {
    *each(
        "self names layout memory_format a b l path dims_self dims_other tensors t element test_element", ""
    ),
    *each("cudnn_enable scalar scalar1 scalar2 tensor tensor1 tensor2 out0 out1 out2 idx list implicit", ""),
}
# What PyTorch refuses and NumPy takes: the axes of everything kept.
TAKEN = {(name, "keepdim") for name in ("sum", "mean", "prod")}
