"""Where formulas find arrays, and whose functions they may call."""

from __future__ import annotations

import enum
import functools
from collections import deque, namedtuple
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from sweep import sweep

import qkv
import qkv.torch as torch
from qkv import exp, where
from qkv.masks import formulas
from qkv.torch.nn import functional

from . import cases
from .cases import LK, LQ, B, H

TABLE = np.linspace(0.1, 1.0, LK)
DOCUMENTS = np.arange(B * (LQ + LK)).reshape(B, -1) % 3
NESTED = {"of": [(TABLE, 2.0)]}
Pair = namedtuple("Pair", "table factor")


def helper(kv_idx):
    return TABLE[kv_idx]


class Holder:
    """Arrays as attributes, formulas as methods and as the object itself."""

    table = TABLE

    def __init__(self):
        self.own = TABLE
        self.parts = SimpleNamespace(table=TABLE)

    def formula(self, score, b, h, q_idx, kv_idx):
        return score * self.own[kv_idx] * self.parts.table[kv_idx] + self.bias(kv_idx)

    def bias(self, kv_idx):
        return self.table[kv_idx] * 0

    def __call__(self, score, b, h, q_idx, kv_idx):
        return self.formula(score, b, h, q_idx, kv_idx)

    @staticmethod
    def of_the_class(score, b, h, q_idx, kv_idx):
        return score * TABLE[kv_idx] ** 2


class Slotted:
    __slots__ = ("table",)

    def __init__(self):
        self.table = TABLE


class Inheriting(Holder):
    """What calls and indexes it is in another class."""

    def __init__(self):
        super().__init__()
        self.kind, self.half, self.dtype = Kind.SQUARE, Fraction(1, 2), torch.float64

    def __getitem__(self, index):
        return self.table[index]

    @classmethod
    def squared(cls, index):
        return cls.table[index] ** 2


class Kind(enum.Enum):
    SQUARE = 1
    OTHER = 2


def in_a_cell():
    table = TABLE.copy()
    return lambda s, b, h, q, k: s * table[k] ** 2


def in_a_default(s, b, h, q, k, table=TABLE, *, again=TABLE):
    return s * table[k] * again[k]


def by_a_nested_function(s, b, h, q, k):
    def inner(x):
        return x * TABLE[k]

    return inner(inner(s))


def recursive(s, b, h, q, k, depth=2):
    return s if depth == 0 else recursive(s * TABLE[k], b, h, q, k, depth - 1)


HOLDER, INHERITING, SLOTTED, PAIR, QUEUE = Holder(), Inheriting(), Slotted(), Pair(TABLE, 1.0), deque([TABLE])
TENSOR, PARAMETER = qkv.tensor(TABLE), qkv.nn.Parameter(TABLE)
FORMULAS = {
    "global": lambda s, b, h, q, k: s * TABLE[k] ** 2,
    "cell": in_a_cell(),
    "default": in_a_default,
    "partial": functools.partial(in_a_default, table=TABLE),
    "partial by position": functools.partial(lambda table, s, b, h, q, k: s * table[k] ** 2, TABLE),
    "method": HOLDER.formula,
    "object": HOLDER,
    "static method": HOLDER.of_the_class,
    "partial of a method": functools.partial(HOLDER.formula),
    "attribute": lambda s, b, h, q, k: s * HOLDER.own[k] * HOLDER.parts.table[k],
    "attribute of a class": lambda s, b, h, q, k: s * Holder.table[k] ** 2,
    "class method": lambda s, b, h, q, k: s * INHERITING.squared(k),
    "inherited call": INHERITING,
    "item of an object": lambda s, b, h, q, k: s * INHERITING[k] ** 2,
    "instance of a class with arrays": lambda s, b, h, q, k: (
        s * (TABLE[k] ** 2 if isinstance(INHERITING, Holder) else 0)
    ),
    "slots": lambda s, b, h, q, k: s * SLOTTED.table[k] ** 2,
    "named tuple": lambda s, b, h, q, k: s * PAIR.table[k] ** 2 * PAIR.factor,
    "queue": lambda s, b, h, q, k: s * QUEUE[0][k] ** 2,
    "list and dict": lambda s, b, h, q, k: s * NESTED["of"][0][0][k] ** 2,
    "loop over a list": lambda s, b, h, q, k: functools.reduce(lambda x, t: x * t[k], [TABLE, TABLE], s),
    "helper": lambda s, b, h, q, k: s * helper(k) * helper(k),
    "nested function": by_a_nested_function,
    "recursion": recursive,
    "tensor": lambda s, b, h, q, k: s * TENSOR[k] ** 2,
    "sizes": lambda s, b, h, q, k: (
        s * TABLE[(k + TABLE.size) % TENSOR.size] ** (TABLE.size(0) - TENSOR.shape[0] + 2)
    ),
    "parameter": lambda s, b, h, q, k: s * PARAMETER[k] ** 2,
    "0-d array": lambda s, b, h, q, k: s * TABLE[k] ** np.array(2),
    "number of NumPy": lambda s, b, h, q, k: s * TABLE[k] ** np.float64(2),
}


@sweep("name", FORMULAS)
def test_arrays_are_found(name):
    q, k, v = cases.inputs()
    found = qkv.scaled_dot_product_attention(q, k, v, score_mod=FORMULAS[name])
    wanted = cases.expected(q, k, v, lambda s, b, h, i, j: s * TABLE[j] ** 2)[0]
    tolerance = 1e-6 if name == "parameter" else 1e-13  # of float32
    np.testing.assert_allclose(np.asarray(qkv.tensor(found).detach()), wanted, atol=tolerance)


SAME = formulas.documents(DOCUMENTS)


@functools.wraps(SAME)
def decorated(*where):
    return ~SAME(*where)


def test_a_function_that_decorates_one_of_qkv_is_called():
    q, k, v = cases.inputs()
    found, wanted = (
        qkv.scaled_dot_product_attention(q, k, v, mask_mod=mask)
        for mask in (decorated, lambda b, h, i, j: DOCUMENTS[b, i] != DOCUMENTS[b, j])
    )
    np.testing.assert_array_equal(found, wanted)


CHOICES = {
    "member of an enumeration": lambda: INHERITING.kind is Kind.SQUARE and INHERITING.kind != Kind.OTHER,
    "truth of an object": lambda: HOLDER.parts and not EMPTY,
    "equal objects": lambda: EMPTY.parts == SimpleNamespace() and {EMPTY.key: 1}[Slotted] == 1,
    "text of an object": lambda: f"{EMPTY.parts}" == "namespace()",
    "names of an object": lambda: "own" in vars(HOLDER) and "other" not in vars(HOLDER),
    "fraction": lambda: float(INHERITING.half) == 0.5,
}


class Empty(Holder):
    def __init__(self):
        self.parts, self.key = SimpleNamespace(), Slotted

    def __bool__(self):
        return False


EMPTY = Empty()


@pytest.mark.parametrize("name", CHOICES)
def test_what_holds_no_array_is_as_outside_of_the_formula(name):
    q, k, v = cases.inputs()
    choice = CHOICES[name]
    found = qkv.scaled_dot_product_attention(
        q, k, v, score_mod=lambda s, b, h, i, j: s * 2 if choice() else s
    )
    np.testing.assert_allclose(found, cases.expected(q, k, v, lambda s, b, h, i, j: s * 2)[0], atol=1e-13)


FUNCTIONS = {
    "qkv": lambda s, b, h, q, k: qkv.where(s > 0, qkv.exp(-qkv.abs(s)), qkv.clip(qkv.tanh(s), -0.5, 0.5)),
    "qkv, by name": lambda s, b, h, q, k: where(s > 0, exp(-abs(s)), s.tanh().clamp(-0.5, 0.5)),
    "numpy": lambda s, b, h, q, k: np.where(s > 0, np.exp(-np.abs(s)), np.clip(np.tanh(s), -0.5, 0.5)),
    "qkv.torch": lambda s, b, h, q, k: torch.where(
        s > 0, torch.exp(-torch.abs(s)), torch.clamp(torch.tanh(s), min=-0.5, max=0.5)
    ),
    "methods": lambda s, b, h, q, k: torch.where(
        torch.logical_not(s <= 0), (-s.abs()).exp(), s.tanh().clamp(min=-0.5, max=0.5)
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_each_library(name):
    q, k, v = cases.inputs()
    found = qkv.scaled_dot_product_attention(q, k, v, score_mod=FUNCTIONS[name])
    np.testing.assert_allclose(found, cases.expected(q, k, v, FUNCTIONS["numpy"])[0], atol=1e-13)


MORE = {
    "sigmoid": (lambda s: qkv.sigmoid(s), lambda s: 1 / (1 + np.exp(-s))),
    "sigmoid of qkv.torch": (lambda s: torch.sigmoid(s), lambda s: 1 / (1 + np.exp(-s))),
    "relu": (lambda s: functional.relu(s), lambda s: np.maximum(s, 0)),
    "minimum": (lambda s: qkv.minimum(s, 0.3), lambda s: np.minimum(s, 0.3)),
    "maximum": (lambda s: torch.maximum(0.3, s), lambda s: np.maximum(s, 0.3)),
    "erf": (lambda s: qkv.erf(s) + torch.erf(s), lambda s: 2 * qkv.erf(s)),
    "silu": (lambda s: qkv.silu(s) + functional.silu(s), lambda s: 2 * s / (1 + np.exp(-s))),
    "gelu": (lambda s: qkv.gelu(s) + functional.gelu(s), lambda s: 2 * qkv.gelu(s)),
    "expm1 and log1p": (lambda s: np.expm1(s) + torch.log1p(s * s), lambda s: np.expm1(s) + np.log1p(s * s)),
    "log2 and log10": (
        lambda s: np.log2(1 + s * s) - np.log10(1 + s * s),
        lambda s: np.log2(1 + s * s) - np.log10(1 + s * s),
    ),
    "rounding": (lambda s: np.ceil(s) + torch.trunc(s), lambda s: np.ceil(s) + np.trunc(s)),
    "fmod": (lambda s: np.fmod(s, 0.3) - torch.fmod(s, -0.3), lambda s: np.fmod(s, 0.3) - np.fmod(s, -0.3)),
    "sign": (lambda s: np.sign(s), lambda s: np.sign(s)),
    "constants": (
        lambda s: np.full_like(s, 2.0) + np.ones_like(s) * s + np.zeros_like(s),
        lambda s: 2 + s,
    ),
    "log and sqrt": (lambda s: qkv.log(1 + qkv.sqrt(s * s)), lambda s: np.log(1 + np.abs(s))),
    "sin and cos": (lambda s: qkv.sin(s) * torch.cos(s), lambda s: np.sin(s) * np.cos(s)),
    "exp2": (lambda s: np.exp2(s) + qkv.exp2(s), lambda s: 2 * 2**s),
    "power": (lambda s: torch.pow(s * s, 1.5), lambda s: np.abs(s) ** 3),
    "negative power": (lambda s: (1 + s * s) ** -2, lambda s: (1 + s * s) ** -2.0),
    "number to a power": (lambda s: 2.5**s, lambda s: 2.5**s),
    "division": (lambda s: torch.div(s, 0.3, rounding_mode="floor"), lambda s: np.floor(s / 0.3)),
    "remainder": (lambda s: torch.remainder(s, 0.3), lambda s: s - np.floor(s / 0.3) * 0.3),
    "reversed": (lambda s: 1 - (2 / (1 + s * s)), lambda s: 1 - 2 / (1 + s * s)),
    "casts to qkv.torch's dtypes": (
        lambda s: (s > 0).to(torch.float32) * s.to(torch.int64) + (s < 0).type(INHERITING.dtype),
        lambda s: (s > 0) * np.trunc(s) + (s < 0),
    ),
    "casts": (lambda s: s + (s > 0).to("float32") * s.to(int), lambda s: s + (s > 0) * np.trunc(s)),
    "logic": (
        lambda s: np.where(np.logical_or(s > 1, np.logical_and(s < 0, s > -1)) ^ (s > 2), s, 0.0),
        lambda s: np.where(((s > 1) | ((s < 0) & (s > -1))) ^ (s > 2), s, 0.0),
    ),
}


@pytest.mark.parametrize("name", MORE)
def test_functions(name):
    traced, plain = MORE[name]
    q, k, v = cases.inputs()
    found = qkv.scaled_dot_product_attention(q, k, v, score_mod=lambda s, b, h, i, j: traced(s))
    wanted = cases.expected(q, k, v, lambda s, b, h, i, j: plain(s))[0]
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_pytorch_tensors():
    real = pytest.importorskip("torch")
    q, k, v = cases.inputs()
    table = real.tensor(TABLE)
    found = qkv.scaled_dot_product_attention(q, k, v, score_mod=lambda s, b, h, i, j: real.tanh(s * table[j]))
    wanted = cases.expected(q, k, v, lambda s, b, h, i, j: np.tanh(s * TABLE[j]))[0]
    np.testing.assert_allclose(found, wanted, atol=1e-13)
    learned = real.tensor(TABLE, requires_grad=True)
    with pytest.raises(
        TypeError, match=r"score_mod must not capture a PyTorch tensor that requires a gradient"
    ):
        qkv.scaled_dot_product_attention(q, k, v, score_mod=lambda s, b, h, i, j: s * learned[j])


def test_the_captured_is_not_written_and_stays_what_it_was():
    before = TABLE.copy()
    q, k, v = cases.inputs()
    for formula in FORMULAS.values():
        qkv.scaled_dot_product_attention(q, k, v, score_mod=formula)
    np.testing.assert_array_equal(TABLE, before)
    assert HOLDER.own is TABLE
    assert isinstance(NESTED["of"][0][0], np.ndarray)
    assert helper(3) == TABLE[3]


def test_equal_nodes_are_one_and_what_lies_below_pairs_is_leaves():
    from qkv._formulas.evaluation import needed
    from qkv._formulas.graph import DIAGONAL, PAIR, Graph
    from qkv._formulas.trace import trace

    graph = Graph((1, H, 5, 7))
    node = trace(
        graph, lambda s, b, h, q, k: s + TABLE[abs(q - k)] * 2 + TABLE[abs(-(k - q))] * (q + 1 - k - 1), True
    )
    at_pairs = [n for n in needed(node) if n.level == PAIR]
    assert [n.op for n in at_pairs] == ["score", "add", "add"]
    assert {n.level for n in needed(node)} == {DIAGONAL, PAIR}
    for spelling in (
        lambda s, b, h, q, k: s + (q - k),
        lambda s, b, h, q, k: s + -(k - q),
        lambda s, b, h, q, k: s + (2 * q - k + 3 - q - 3),
    ):
        assert trace(graph, spelling, True) is trace(graph, lambda s, b, h, q, k: s + (q - k), True)


def test_threads_trace_apart():
    from concurrent.futures import ThreadPoolExecutor

    q, k, v = cases.inputs()
    wanted = qkv.scaled_dot_product_attention(q, k, v, score_mod=in_a_default)
    with ThreadPoolExecutor(4) as pool:
        found = list(
            pool.map(lambda _: qkv.scaled_dot_product_attention(q, k, v, score_mod=in_a_default), range(40))
        )
    for y in found:
        np.testing.assert_array_equal(y, wanted)
