"""Operations that wait for memory: bytes that must move against a copy of as many bytes, and against PyTorch.

"Must move": each input is read once, each result written once. A copy has a result as large as what it reads, so an
operation that reads more than it writes can beat it. Large arrays lie far beyond the last cache. Small ones stay in a
core's own cache, whose rate no operation with an exponential reaches: there the share of a copy has no goal.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from machine import peer
from registry import Case, agree, faster_than, normal, of_copy, row

import qkv

Call = Callable[[], Any]
Made = tuple[list[np.ndarray], Callable[..., Any], Callable[[Any], Callable[..., Any]]]
SIZES = {"large": 24 << 20, "in cache": 32 << 10}  # float32 numbers: 96 MB, 128 KB


def softmax(size: int) -> Made:
    """Half of the keys of 512 are masked for every other item."""
    keys, rows = 512, size // 512
    lens = np.where(np.arange(rows // 8) % 2, keys, keys // 2).astype(np.int64)

    def theirs(torch: Any) -> Callable[..., Any]:
        allowed = (torch.arange(keys) < torch.from_numpy(lens)[:, None])[:, None]
        return lambda x: torch.softmax(x.masked_fill(~allowed, float("-inf")), -1)

    return [normal(rows // 8, 8, keys)], lambda x: qkv.masked_softmax(x, lens), theirs


def layer_norm(size: int) -> Made:
    width = 768 if size > 1 << 20 else 256
    own = qkv.nn.LayerNorm(width)
    return [normal(size // width, width)], own, lambda torch: torch.nn.LayerNorm(width)


def gelu(size: int) -> Made:
    return [normal(size // 1024, 1024)], qkv.gelu, lambda torch: torch.nn.functional.gelu


def cross_entropy(size: int) -> Made:
    classes = 30_000
    rows = max(1, size // classes)
    targets = np.random.default_rng(1).integers(0, classes, rows)

    def theirs(torch: Any) -> Callable[..., Any]:
        return lambda x: torch.nn.functional.cross_entropy(x, torch.from_numpy(targets))

    return [normal(rows, classes)], lambda x: qkv.losses.cross_entropy(x, targets), theirs


def elementwise(make: Callable[[int], Made], size: int, backward: bool, threads: int) -> Case:
    """Time a function of one array; its gradient reads input (or output) and gradient and writes another."""
    (x,), own, of_torch = make(size)
    tensor = qkv.tensor(x, requires_grad=backward)
    y = own(tensor)
    scalar = y.shape == ()
    dy = None if scalar else normal(*y.shape, seed=7)
    own_dy = None if dy is None else qkv.tensor(dy)

    def ours() -> Any:
        if not backward:
            with qkv.no_grad():
                return own(tensor)
        tensor.grad = None
        y = own(tensor)
        y.backward(own_dy)
        return y

    calls: dict[str, Call] = {"qkv": ours}
    if torch := peer("PyTorch"):
        theirs, their_x = of_torch(torch), torch.tensor(x, requires_grad=backward)
        their_dy = None if dy is None else torch.from_numpy(dy)

        def run() -> Any:
            if not backward:
                with torch.inference_mode():
                    return theirs(their_x)
            their_x.grad = None
            y = theirs(their_x)
            y.backward(their_dy)
            return y

        calls["PyTorch"] = run
        agree(ours(), run(), atol=2e-4)
    arrays = (2 if scalar else 3) if backward else 0  # read x, dy; write dx
    arrays += 1 if scalar else 2  # read x; write y
    return Case(calls, bytes=float(arrays * x.nbytes))


def embedding(size: int, backward: bool, threads: int) -> Case:
    """Rows of a table; the gradient is as large as the table, written once and the rows added."""
    width, vocabulary = 512, 8192 if size > 1 << 20 else 64
    ids = np.random.default_rng(0).integers(0, vocabulary, size // width)
    layer = qkv.nn.Embedding(vocabulary, width)
    dy = normal(len(ids), width)
    own_dy = qkv.tensor(dy)

    def ours() -> Any:
        if not backward:
            with qkv.no_grad():
                return layer(ids)
        layer.zero_grad()
        y = layer(ids)
        y.backward(own_dy)
        return y

    calls: dict[str, Call] = {"qkv": ours}
    if torch := peer("PyTorch"):
        theirs, their_ids, their_dy = (
            torch.nn.Embedding(vocabulary, width),
            torch.from_numpy(ids),
            torch.from_numpy(dy),
        )
        theirs.load_state_dict({"weight": torch.from_numpy(layer.weight.numpy().copy())})

        def run() -> Any:
            if not backward:
                with torch.inference_mode():
                    return theirs(their_ids)
            theirs.zero_grad()
            y = theirs(their_ids)
            y.backward(their_dy)
            return y

        calls["PyTorch"] = run
        agree(ours(), run())
    table = 4.0 * vocabulary * width
    return Case(calls, bytes=2.0 * dy.nbytes + (dy.nbytes + table if backward else 0.0))


def adam(size: int, threads: int) -> Case:
    """A step reads parameter, gradient and two moments, and writes three of them."""
    x, gradient = normal(size // 4), normal(size // 4, seed=1)
    parameter = qkv.nn.Parameter(x)
    parameter.grad = gradient
    own = qkv.optim.Adam([parameter], lr=1e-3)
    calls: dict[str, Call] = {"qkv": own.step}
    if torch := peer("PyTorch"):
        their_parameter = torch.nn.Parameter(torch.tensor(x))
        their_parameter.grad = torch.tensor(gradient)
        calls["PyTorch"] = _best_adam(torch, their_parameter, own, parameter)
    return Case(calls, bytes=7.0 * x.nbytes)


def _best_adam(torch: Any, parameter: Any, own: Any, own_parameter: Any) -> Call:
    theirs = torch.optim.Adam([parameter], lr=1e-3, fused=True)  # the fastest of PyTorch's three on a CPU
    for _ in range(2):
        own.step()
        theirs.step()
    agree(own_parameter, parameter)
    step: Call = theirs.step
    return step


_OPERATIONS: dict[str, Callable[[int], Made]] = {
    "masked softmax": softmax,
    "LayerNorm": layer_norm,
    "GELU": gelu,
    "cross entropy, 30,000 classes": cross_entropy,
}


def _add(name: str, size: str, make: Callable[[int], Case], backward: bool) -> None:
    goals = [of_copy(0.8 if size == "large" else None), faster_than("PyTorch", 1.0)]
    threads = "each" if size == "large" else "one"  # what fits into the cache of a core stays on it
    row(
        f"{name}, {size}, forward" + (" + backward" if backward else ""),
        goals=goals,
        peers=["PyTorch"],
        threads=threads,
        quick=size == "in cache" and not backward and name in ("LayerNorm", "masked softmax"),
    )(make)


for _size, _numbers in SIZES.items():
    for _name, _make in _OPERATIONS.items():
        for _backward in (False, True):
            _add(_name, _size, partial(elementwise, _make, _numbers, _backward), _backward)
    for _backward in (False, True):
        _add("embedding", _size, partial(embedding, _numbers, _backward), _backward)
    row(
        f"Adam step, {_size}",
        goals=[of_copy(0.8 if _size == "large" else None), faster_than("PyTorch", 1.0)],
        peers=["PyTorch"],
        threads="each" if _size == "large" else "one",
    )(partial(adam, _numbers))
