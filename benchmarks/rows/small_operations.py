"""Operations whose arithmetic costs nothing, in the core, in `qkv.torch` and in PyTorch, and the memory of a graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from machine import peer
from measure import kept_memory
from registry import Case, Goal, Skip, agree, normal, row, time_over, value, within

import qkv
import qkv.torch

Operation = Callable[[Any, Any], Callable[[], Any]]  # of the module and of what makes a Tensor of an array
SMALL, LARGE, SQUARE = (7, 11), (61, 1031), (31, 31)
SHAPES = [(1000,), (256, 256), (1000, 1000)]
THIN = time_over("qkv.torch", "qkv", 2.0)
NEAR = time_over("qkv.torch", "PyTorch", 1.5)
FEW = [within(side, "PyTorch", 3.0, 2.0) for side in ("qkv", "qkv.torch")]
DEEP = 1000  # nodes


def recorded(tensor: Any, *shape: int, seed: int = 0) -> Any:
    t = tensor(normal(*shape, seed=seed))
    t.requires_grad = True
    return t


def binary(f: Callable[[Any, Any], Any], records: bool = False) -> Operation:
    def make(module: Any, tensor: Any) -> Callable[[], Any]:
        a = recorded(tensor, *SMALL) if records else tensor(normal(*SMALL))
        b = tensor(normal(*SMALL, seed=1))
        return lambda: f(a, b)

    return make


def unary(f: Callable[[Any, Any], Any], shape: tuple[int, ...] = SMALL) -> Operation:
    """Return a row of a function of the module and a Tensor."""

    def make(module: Any, tensor: Any) -> Callable[[], Any]:
        a = tensor(normal(*shape))
        return lambda: f(module, a)

    return make


def in_place(module: Any, tensor: Any) -> Callable[[], Any]:
    a, b = tensor(normal(*SMALL)), tensor(np.zeros(SMALL, np.float32))

    def add() -> Any:
        t = a
        t += b
        return t

    return add


def deep_backward(module: Any, tensor: Any) -> Callable[[], Any]:
    x = recorded(tensor, *SMALL)
    y = x
    for _ in range(DEEP):
        y = y * 1.001
    y = y.sum()

    def run() -> Any:
        x.grad = None
        y.backward(retain_graph=True)
        return x.grad

    return run


def places(tensor: Any, shape: tuple[int, ...]) -> Any:
    return tensor(np.random.default_rng(3).integers(0, shape[-1], shape))


def order(shape: tuple[int, ...]) -> Operation:
    return unary(lambda module, a: qkv.sort(a) if module is qkv else module.sort(a), shape)


def best(shape: tuple[int, ...]) -> Operation:
    return unary(lambda module, a: module.topk(a, 5), shape)


def largest(shape: tuple[int, ...]) -> Operation:
    return unary(lambda module, a: a.max(-1), shape)


def gather(shape: tuple[int, ...]) -> Operation:
    def make(module: Any, tensor: Any) -> Callable[[], Any]:
        x, index = tensor(normal(*shape)), places(tensor, shape)
        if module is qkv:
            return lambda: qkv.take_along_axis(x, index, -1)
        return lambda: module.gather(x, -1, index)

    return make


def scatter_add(shape: tuple[int, ...]) -> Operation:
    def make(module: Any, tensor: Any) -> Callable[[], Any]:
        x, index, zero = tensor(normal(*shape)), places(tensor, shape), tensor(np.zeros(shape, np.float32))
        if module is qkv:
            return lambda: qkv.torch.scatter_add(zero, -1, index, x)
        return lambda: module.scatter_add(zero, -1, index, x)

    return make


def products(shape: tuple[int, ...]) -> Operation:
    names = "i,i->" if len(shape) == 1 else "ij,kj->ik"
    return unary(lambda module, a: module.einsum(names, a, a), shape)


def einsum(module: Any, tensor: Any) -> Callable[[], Any]:
    a, b = tensor(normal(3, 5, 31)), tensor(normal(3, 7, 31, seed=1))
    return lambda: module.einsum("bik,bjk->bij", a, b)


def same(f: Callable[[Any], Any], shape: tuple[int, ...] = SMALL) -> Operation:
    """Return a row of what is written alike with every Tensor."""
    return unary(lambda module, a: f(a), shape)


def attention(module: Any, tensor: Any) -> Callable[[], Any]:
    q, k, v = (tensor(normal(1, 2, 3, 5, seed=i)) for i in range(3))
    if module is qkv:
        return lambda: qkv.scaled_dot_product_attention(q, k, v)
    return lambda: module.nn.functional.scaled_dot_product_attention(q, k, v)


def linear(module: Any, tensor: Any) -> Callable[[], Any]:
    x, w, b = tensor(normal(*SMALL)), tensor(normal(5, 11, seed=1)), tensor(normal(5, seed=2))
    if module is qkv:
        return lambda: qkv._core.linear(x, w, b)
    return lambda: module.nn.functional.linear(x, w, b)


def masked(module: Any, tensor: Any) -> Callable[[], Any]:
    a, mask = tensor(normal(*SMALL)), tensor(normal(*SMALL, seed=1) > 0)
    return lambda: qkv.where(mask, 0.0, a) if module is qkv else a.masked_fill(mask, 0.0)


# Those that the core, qkv.torch and PyTorch write alike, and those that they do not.
ALIKE: dict[str, Callable[[Any], Any]] = {
    "a + 2": lambda a: a + 2,
    "2 - a": lambda a: 2 - a,
    "a / 3": lambda a: a / 3,
    "-a": lambda a: -a,
    "a > 0": lambda a: a > 0,
    "a ** 2": lambda a: a**2,
    "a[0]": lambda a: a[0],
    "slice": lambda a: a[1:3],
    "a[:, 1]": lambda a: a[:, 1],
    "a.T": lambda a: a.T,
    "reshape": lambda a: a.reshape(11, 7),
    "unsqueeze": lambda a: a.unsqueeze(1),
    "sum": lambda a: a.sum(),
    "sum of an axis": lambda a: a.sum(1),
    "mean of an axis": lambda a: a.mean(1),
    "argmax": lambda a: a.argmax(1),
    "cumsum": lambda a: a.cumsum(1),
    "detach": lambda a: a.detach(),
}
UNALIKE: dict[str, Operation] = {
    "a + b": binary(lambda a, b: a + b),
    "a + b, recorded": binary(lambda a, b: a + b, records=True),
    "a * b, recorded": binary(lambda a, b: a * b, records=True),
    "a += b": in_place,
    "exp": unary(lambda module, a: module.exp(a)),
    "relu": unary(lambda module, a: module.relu(a)),
    "transpose": unary(lambda module, a: a.transpose() if module is qkv else a.transpose(0, 1), SQUARE),
    "permute": unary(lambda module, a: a.transpose(1, 0) if module is qkv else a.permute(1, 0)),
    "max of an axis": unary(lambda module, a: a.max(1)),
    "softmax": unary(lambda module, a: module.softmax(a, -1)),
    "var": unary(lambda module, a: a.var(1) if module is not qkv else a.var(1, ddof=1)),
    "concatenate": unary(lambda module, a: qkv.concatenate([a, a]) if module is qkv else module.cat([a, a])),
    "stack": unary(lambda module, a: module.stack([a, a])),
    "where": unary(lambda module, a: module.where(a > 0, a, 0.0)),
    "clamp": unary(lambda module, a: module.clip(a, -1.0, 1.0)),
    "tril": unary(lambda module, a: np.tril(a) if module is qkv else module.tril(a), SQUARE),
    "zeros": unary(lambda module, a: qkv.tensor(np.zeros(SMALL)) if module is qkv else module.zeros(SMALL)),
    "masked_fill": masked,
    "linear": linear,
}
OPERATIONS: dict[str, tuple[Operation, list[Goal]]] = {
    **{name: (same(f), FEW) for name, f in ALIKE.items()},
    **{name: (operation, FEW) for name, operation in UNALIKE.items()},
    "attention of three": (attention, [within("qkv", "PyTorch", 1.7, 0.0), FEW[1]]),
    "matmul": (unary(lambda module, a: a @ a, SQUARE), [THIN]),
    "einsum": (einsum, [NEAR]),
    "sort": (order(LARGE), [NEAR]),
    "topk": (best(LARGE), [NEAR]),
    "gather": (gather(LARGE), [NEAR]),
    "scatter_add": (scatter_add(LARGE), [NEAR]),
    f"backward through {DEEP:,} nodes": (deep_backward, [THIN]),
}
FAMILIES: dict[str, tuple[Callable[[tuple[int, ...]], Operation], list[Goal]]] = {
    "sort": (order, [NEAR]),
    "topk": (best, [NEAR]),
    "gather": (gather, [NEAR]),
    "scatter_add": (scatter_add, [NEAR]),
    "einsum": (products, [NEAR]),
    "max": (largest, [THIN]),
}
for _family, (_of_shape, _goals) in FAMILIES.items():
    for _shape in SHAPES:
        OPERATIONS[f"{_family} of {_shape}"] = (_of_shape(_shape), _goals)


def first(result: Any) -> Any:
    """Return the numbers of a result that may be a pair of them and their places."""
    return result[0] if isinstance(result, tuple) else result


def compare(operation: Operation, threads: int) -> Case:
    calls = {
        "qkv": operation(qkv, qkv.tensor),
        "qkv.torch": operation(qkv.torch, qkv.torch.tensor),
    }
    if torch := peer("PyTorch"):
        calls["PyTorch"] = operation(torch, torch.tensor)
    for name, call in calls.items():
        if name != "qkv":
            agree(first(calls["qkv"]()).detach(), first(call()))
    return Case(calls)


for _name, (_operation, _goals) in OPERATIONS.items():
    row(
        f"small: {_name}",
        goals=_goals,
        peers=["qkv.torch", "PyTorch"],
        quick=_name in ("a + b", "slice"),
        threads="one",
    )(partial(compare, _operation))


@row(
    "memory of 100 recorded additions of 4 MB",
    goals=[value("qkv", 40.0, "MB"), value("qkv.torch", 40.0, "MB"), value("PyTorch", None, "MB")],
    threads="one",
)
def memory_of_a_graph(threads: int) -> Case:
    """Measure what a graph keeps where no rule needs the numbers that were added."""

    def additions(tensor: Callable[..., Any]) -> Callable[[], Any]:
        x = tensor(np.ones(1 << 20, np.float32))
        x.requires_grad = True

        def run() -> Any:
            y = x
            for _ in range(100):
                y = y + 1.0
            return y

        return run

    makers = {"qkv": qkv.tensor, "qkv.torch": qkv.torch.tensor}
    if torch := peer("PyTorch"):
        makers["PyTorch"] = torch.tensor
    kept = {name: kept_memory(additions(tensor)) for name, tensor in makers.items()}
    if None in kept.values():
        raise Skip("the system does not tell how much memory is resident")
    return Case({}, values={name: size / 1e6 for name, size in kept.items() if size is not None})
