"""Runs a program with PyTorch and with qkv.torch, and compares all Tensors after each statement."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .generate import MOST_NUMBERS, Writer

# What is not compared, and why.
EXEMPT = {
    "numbers written through .data or detach()": "the gradient raises here; PyTorch's is wrong",
    "PyTorch's gradient is NaN": "ours is finite: 0 in a branch that is not taken",
    "changes of memory that overlaps itself": "refused here; PyTorch's result depends on the order of writing",
    "data = between forward and backward": "ours is the gradient at the numbers of the forward pass",
}


class DifferentError(AssertionError):
    """The libraries disagree; the text holds the program."""


def numbers(seed: int, count: int) -> list[float]:
    """The same numbers in both."""
    draw = random.Random(seed)
    return [draw.uniform(-2, 2) for _ in range(count)]


@dataclass
class Side:
    """One library and its Tensors."""

    torch: Any
    t: list[Any] = field(default_factory=list)

    def run(self, text: str) -> str | None:
        """The error's text, or None."""
        names = {"torch": self.torch, "t": self.t, "numbers": numbers, "deepcopy": deepcopy}
        before = len(self.t)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(text, names)
        except Exception as error:
            del self.t[before:]
            return f"{type(error).__name__}: {error}"
        return None


def flags_of(x: Any) -> tuple[bool, bool] | None:
    """Whether it requires a gradient, and is a leaf; None where PyTorch refuses to say."""
    try:
        return x.requires_grad, x.is_leaf
    except RuntimeError:
        return None


def program(seed: int, torch: Any, ours: Any, length: int, counts: Counter[str]) -> None:
    """Run one; raises DifferentError."""
    writer, theirs_side, our_side = Writer(seed, torch), Side(torch), Side(ours)
    lines: list[str] = []

    def differ(what: str) -> None:
        raise DifferentError(f"seed {seed}: {what}\n" + "\n".join(lines))

    while len(lines) < length:
        text = writer.leaf() if len(lines) < 3 else writer.statement(theirs_side.t)
        error = theirs_side.run(text)
        if error is not None:
            counts["refused by PyTorch"] += 1
            lines = lines if len(lines) >= 3 else [*lines, "pass"]
            if len(lines) + counts["refused by PyTorch"] % 50 == 49:
                break
            continue
        lines.append(text)
        counts["statements"] += 1
        if (error := our_side.run(text)) is not None:
            if "some of whose numbers are one in memory" in error:
                counts["exempt: changes of memory that overlaps itself"] += 1
                return
            differ(f"refused: {error}")
        for i, (x, y) in enumerate(zip(theirs_side.t, our_side.t, strict=True)):
            if tuple(x.shape) != tuple(y.shape) or str(x.dtype) != str(y.dtype):
                differ(f"t[{i}] is {tuple(y.shape)} {y.dtype}, not {tuple(x.shape)} {x.dtype}")
            if not np.allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-9, atol=1e-12, equal_nan=True):
                differ(f"t[{i}] holds\n{y}, not\n{x}")
            flags = flags_of(x)
            if flags is not None and flags != (y.requires_grad, y.is_leaf):
                differ(f"t[{i}] has (requires_grad, is_leaf) = {(y.requires_grad, y.is_leaf)}, not {flags}")
        if sum(x.numel() for x in theirs_side.t) > 10 * MOST_NUMBERS:
            break
    compare_gradients(theirs_side, our_side, lines, differ, counts)


def compare_gradients(theirs: Side, ours: Side, lines: list[str], differ: Any, counts: Counter[str]) -> None:
    """Of a loss over everything."""
    terms = [f"(t[{i}].tanh() * {i + 1}).sum()" for i, x in enumerate(theirs.t) if flags_of(x)]
    text = "loss = " + " + ".join(terms) + "\nif loss.requires_grad: loss.backward()"
    lines.append(text)
    error, our_error = theirs.run(text), ours.run(text)
    if error is not None:
        counts["backward refused by PyTorch"] += 1
        return
    if our_error is not None:
        written = any(".data" in line or "detach" in line or "no_grad" in line for line in lines)
        if "was changed" in our_error and written:
            counts["exempt: numbers written through .data or detach()"] += 1
            return
        differ(f"backward: {our_error}")
    counts["gradients"] += 1
    for i, (x, y) in enumerate(zip(theirs.t, ours.t, strict=True)):
        if flags_of(x) not in ((True, True), (False, True)):
            continue
        if (x.grad is None) != (y.grad is None):
            differ(f"t[{i}].grad is {y.grad}, not {x.grad}")
        if x.grad is None:
            continue
        a, b = x.grad.numpy(), y.grad.numpy()
        if np.isnan(a).any():
            counts["exempt: PyTorch's gradient is NaN"] += 1
            a, b = np.where(np.isnan(a), 0, a), np.where(np.isnan(a), 0, b)
        if not np.allclose(a, b, rtol=1e-8, atol=1e-10):
            if any(".data = " in line for line in lines):
                counts["exempt: data = between forward and backward"] += 1
                return
            differ(f"t[{i}].grad is\n{b}, not\n{a}")


def fuzz(first: int, statements: int, torch: Any, ours: Any, length: int = 14) -> Counter[str]:
    """Run programs of these seeds on until so many statements have run; the counts, and each difference's text."""
    counts: Counter[str] = Counter()
    seed = first
    while counts["statements"] < statements:
        program(seed, torch, ours, length, counts)
        counts["programs"] += 1
        seed += 1
    return counts
