"""Tensors, and calls of their methods that the core may answer itself."""

import numpy as np

from qkv import torch

X = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)


def tensors():
    floats = torch.tensor(X)
    recorded = torch.tensor(X, requires_grad=True)
    return {
        "floats": floats,
        "doubles": floats.double(),
        "recorded": recorded,
        "computed": recorded * 1.5,
        "transposed": recorded.t(),
        "whole": torch.tensor([[1, 2, 3], [4, 5, 6]]),
        "narrow": torch.tensor([[1, 2, 3], [4, 5, 6]], dtype=torch.int32),
        "booleans": floats > 2,
        "number": torch.tensor(2.0, requires_grad=True),
        "empty": torch.zeros(0, 3),
        "parameter": torch.nn.Parameter(torch.tensor(X)),
    }


BINARY = "add sub mul div pow eq ne lt le gt ge __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __pow__"
BINARY += " __eq__ __ne__ __lt__ __le__ __gt__ __ge__"
UNARY = "exp log sqrt sin cos erf neg abs tanh sigmoid relu clone t unsqueeze squeeze detach __neg__ __abs__ sum mean"
UNARY += " exp2 log2 log10 square reciprocal rsqrt bitwise_not __invert__ unbind contiguous float double long bool size"
UNARY += " dim ndimension numel nelement logsumexp amax amin"
BINARY += " __rpow__ __rtruediv__ remainder __mod__ maximum minimum bitwise_and bitwise_or bitwise_xor __and__ __or__"
BINARY += " __xor__ __rand__ __ror__ __rxor__ mm mv dot bmm"
OTHERS = (2, 2.0, 0.5, True, np.float64(2), np.ones(3, np.float32), None, "x", 10**400, 2**63)
INDICES = (0, -1, 2, True, slice(1), slice(None), slice(None, None, -1), slice(0, 9, 2), None, ..., [0, 1])
INDICES += (
    (0, 1),
    (0, 1, 2),
    (..., 0),
    (..., None, slice(1)),
    (None, 0),
    (slice(None), 1),
    (..., ...),
    2**70,
)
CALLS = [(name, (), {}) for name in UNARY.split()]
CALLS += [(name, (other,), {}) for name in BINARY.split() for other in OTHERS]
CALLS += [("__getitem__", (index,), {}) for index in INDICES]
CALLS += [
    (name, args, options)
    for name in ("sum", "mean", "amax", "amin", "logsumexp")
    for args, options in [
        ((0,), {}),
        ((-1, True), {}),
        ((), {"dim": 1}),
        ((), {"axis": (0, 1), "keepdims": True}),
        (((),), {}),
        ((None, True), {}),
        ((5,), {}),
        ((0,), {"dim": 0}),
        (((0, 0),), {}),
        ((), {"dtype": torch.float64}),
        ((), {"bad": 1}),
        ((1, False, 3), {}),
    ]
]
CALLS += [
    (name, args, {})
    for name in ("view", "reshape", "expand", "permute")
    for args in [
        (6,),
        (3, 2),
        ((3, 2),),
        ([-1],),
        (2, -1),
        (1, 0),
        (7,),
        (-1, -1),
        (0, 0),
        (2, 2, 3),
        (True, 6),
        (),
    ]
]
CALLS += [
    (name, args, {})
    for name in ("transpose", "swapaxes", "unsqueeze", "squeeze", "unbind", "size", "select", "narrow")
    for args in [(0, 1), (-1, 0), (0,), (-1,), (1,), (3,), (0, 5), (None,), ("x",)]
]
CALLS += [
    (name, args, {})
    for name in ("flatten", "triu", "tril", "max", "min", "clamp")
    for args in [
        (),
        (0,),
        (-1,),
        (0, 1),
        (1, 0),
        (None,),
        (None, 1),
        (0, -1),
        (5,),
        (True,),
        (2.5, 0.5),
        ("x",),
    ]
]
CALLS += [("flatten", (), {"start_dim": 1}), ("triu", (), {"diagonal": 1}), ("clamp", (), {"max": 2})]
CALLS += [("max", (torch.tensor(1),), {}), ("min", (), {"dim": 1, "keepdim": True}), ("max", ("itself",), {})]
CALLS += [
    (name, args, {})
    for name in ("sort", "argsort", "topk", "flip")
    for args in [
        (),
        (0,),
        (-1,),
        (1, True),
        (1, 0),
        (2, -1, False),
        (0, False, True),
        (2, 1, True, False),
        ((0, 1),),
        ((),),
        (0, 0),
        (3, 0),
        (-3,),
        (5,),
        (True,),
        (None,),
        (1.0,),
        ("x",),
    ]
]
CALLS += [(name, (), {"dim": 0, "descending": True}) for name in ("sort", "argsort")]
CALLS += [("sort", (), {"stable": True, "axis": 1}), ("topk", (1,), {"largest": False, "axis": 0})]
CALLS += [("topk", (), {"k": 2, "sorted": False}), ("flip", (), {"dims": (0,)}), ("topk", (2**70,), {})]
CALLS += [
    ("narrow", args, {})
    for args in [(0, 1, 1), (1, -2, 2), (1, 2, 5), (0, 3, 0), (1, 0, -1), (-1, 3, 0), (1, 0, 3)]
]
CALLS += [("select", args, {}) for args in [(1, -3), (0, 2), (-1, 0), (1, True), (0, torch.tensor(1))]]
CALLS += [
    ("select", (), {"dim": 1, "index": 2}),
    ("narrow", (1,), {"start": 0, "length": 2}),
    ("size", (), {"dim": 1}),
]
CALLS += [
    ("unbind", (), {"dim": 1}),
    ("unbind", (), {"axis": -1}),
    ("contiguous", (1,), {}),
    ("float", (1,), {}),
]
CALLS += [
    (name, (dim, torch.tensor(index, dtype=kind)), {})
    for name in ("gather", "index_select")
    for kind in (torch.int64, torch.int8, torch.float32)
    for dim in (0, -1, 5, None)
    for index in ([0, 1, 1], [[0, 1], [1, 0]], [[0], [-1]], [2], 0, [], [[2, 1, 0]])
]
CALLS += [
    (name, args, {})
    for name in ("diagonal", "movedim", "roll", "repeat_interleave", "prod")
    for args in [
        (),
        (0,),
        (1,),
        (-1, 0),
        (2, 1),
        (0, 5),
        (1, -1, 0),
        (None,),
        ("x",),
        ((1,), (0,)),
    ]
]
CALLS += [
    (name, args, {})
    for name in ("to", "view_as", "expand_as")
    for args in [
        (),
        (torch.float64,),
        (torch.int32,),
        (torch.float16,),
        ("cpu",),
        ("cuda",),
        (2,),
        (2.5,),
        (True,),
        ("itself",),
        (torch.ones(3),),
        (torch.ones(2, 3) > 0,),
        ("x",),
    ]
]
CALLS += [
    (name, (0, torch.tensor([[1, 0, 1]]), values), {})
    for name in ("scatter", "scatter_add")
    for values in (
        torch.ones(1, 3),
        torch.ones(2, 3),
        torch.ones(3),
        2.0,
        torch.ones(1, 3, dtype=torch.int32),
        "x",
    )
]
CALLS += [
    (name, (1, torch.tensor([2, 0]), values), {})
    for name in ("index_add", "index_copy")
    for values in (torch.ones(2, 2), torch.ones(2, 3), 2.0, torch.ones(2, 2, dtype=torch.int64))
]
CALLS += [
    ("add", (1,), {"alpha": 2}),
    ("sub", ("itself",), {"alpha": 0.5}),
    ("__rsub__", (2,), {}),
    ("__floordiv__", (2,), {}),
]
CALLS += [
    ("floor_divide", ("itself",), {}),
    ("mul", (torch.tensor([[True], [False]]),), {}),
]
CALLS += [
    ("addmm", (torch.ones(2, 2), torch.ones(2, 3)), {}),
    ("addmm", (torch.ones(2, 2), torch.ones(3, 3)), {}),
]
PLACES = [
    torch.tensor(1),
    torch.tensor([1, 0]),
    torch.tensor([-1, 0], dtype=torch.int8),
    torch.tensor([7]),
    torch.tensor([1.0]),
]
PLACES += [
    torch.tensor([True, False]),
    torch.ones(2, 3) > 0,
    torch.ones(3) > 0,
    torch.zeros(0, dtype=torch.int64),
]
CALLS += [("__getitem__", (places,), {}) for places in PLACES]
CALLS += [(name, ("itself",), {}) for name in [*BINARY.split(), "matmul", "__matmul__"]]
