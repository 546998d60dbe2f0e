"""Runs a program of statements in PyTorch and in qkv side by side and compares all that lives after each statement."""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import qkv
import qkv.torch

from .choice import Choice
from .statements import KINDS, Kind, statement

GROWN = 1e6  # a program whose numbers are larger ends: sums in another order would differ
STATEMENTS = 15  # of a program, at most

# What counts as right although PyTorch's answer is another one, with the reason.
EXEMPT = {
    "overlapping operands": "PyTorch reads numbers that it has overwritten where an operand shares the target's memory",
    "strides of results": "PyTorch's have those of their operands, ours are packed: a reshape copies elsewhere",
    "deviation of equal numbers": "it is rounding error alone, and its gradient a quotient of two such",
    "best of equal numbers": "PyTorch leaves open which of them topk takes, and so where the gradient goes",
    "view made without gradients": "PyTorch says that it requires a gradient, but none flows through it",
    "view that is a leaf": "PyTorch forgets it, and with it its gradient, once its memory was changed",
    "view of hidden memory": "PyTorch's result is a view of what has no name, and its own views do not follow it",
    "view whose data were set": "PyTorch still takes it for a view of its former base, whose history becomes its own",
    "data written before backward": "PyTorch's gradient is wrong in silence, ours is right or an error",
    "finite gradient": "PyTorch's is NaN where 0 meets infinity behind a selection",
}

RESHAPES = ("view", "reshape", "flatten", "contiguous", "view_as")  # views or copies, as the strides are
Namespace = dict[str, Any]
BACKWARD = next(kind for kind in KINDS if kind.name == "backward once")


def _side(module: Any, make: Callable[[np.ndarray], Any]) -> Namespace:
    def new(shape: Any, seed: int, requires_grad: bool = False, dtype: str = "float64") -> Any:
        numbers = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
        t = make(np.asarray(numbers))
        t.requires_grad = requires_grad
        return t

    return {"torch": module, "copy": copy, "new": new}


def pytorch() -> Namespace:
    import torch

    return _side(torch, torch.tensor)


DIALECTS: dict[str, Callable[[], Namespace]] = {
    "qkv.torch": lambda: _side(qkv.torch, qkv.torch.tensor),
    "qkv": lambda: _side(qkv, qkv.tensor),
}


@dataclass
class Result:
    """What became of a program: of each statement, and what ended it."""

    lines: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)  # done, skipped, exempt: REASON
    refused: tuple[str, str] | None = None  # the kind of the statement, the message
    wrong: str | None = None

    def text(self) -> str:
        return "\n".join(self.lines)


class Session:
    """One program in PyTorch and in a dialect of qkv."""

    def __init__(self, dialect: str) -> None:
        self.theirs, self.ours = pytorch(), DIALECTS[dialect]()
        self.names: list[str] = []
        self.blind: dict[str, str] = {}  # views without a history, and what is made of them: the exemption
        self.leaf_views: dict[
            str, int
        ] = {}  # the version of their memory when they began to require a gradient
        self.raw: set[str] = set()  # what .data gave, whose changes PyTorch does not count
        self.data_written = self.ended = False
        self.result = Result()

    def tensors(self) -> Namespace:
        return {name: self.theirs[name] for name in self.names}

    def step(self, line: str, kind: str) -> None:
        """Run one statement on both sides and compare."""
        counts = self.result.counts
        if not self._is_change(line):
            target = line.removeprefix("with torch.no_grad(): ").split(" = ")[0]
        else:
            target = ""
            if self._overlaps(line):
                counts["exempt: overlapping operands"] += 1
                return
        if kind == "std" and any(
            _mentions(line, name) and _has_equal_numbers(self.theirs[name]) for name in self.names
        ):
            counts["exempt: deviation of equal numbers"] += 1
            return
        if kind == "topk" and any(
            _mentions(line, name) and _has_ties(self.theirs[name]) for name in self.names
        ):
            counts["exempt: best of equal numbers"] += 1
            return
        if self._depends_on_strides(line, kind):
            counts["exempt: strides of results"] += 1
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parted = self._parted(line) if kind == "set data" else []
            try:
                wanted = self._wanting() if kind.startswith("requires_grad") else set()
                exec(line, self.theirs)
                self._tell_views(wanted, kind)
            except Exception:
                counts["skipped"] += 1  # perhaps after a part of what it does
                self.ended = "backward" in line or "grad(" in line or self._difference() is not None
                return
            if target and not hasattr(self.theirs[target], "is_leaf"):
                del self.theirs[target]
                counts["skipped"] += 1
                return
            self.result.lines.append(line)
            try:
                exec(line, self.ours)
            except Exception as error:
                self.ended = True
                self._refuse(line, kind, f"{type(error).__name__}: {error}")
                return
            counts["done"] += 1
            self.data_written |= not target and (
                any(word in line for word in ("data", "detach")) or any(_mentions(line, n) for n in self.raw)
            )
            if target and (".data" in line or any(_mentions(line, n) for n in self.raw)):
                self.raw.add(target)
            if target:
                self.names.append(target)
                unrecorded = line.startswith("with ") and self.theirs[target]._is_view()
                reasons = [reason for name, reason in self.blind.items() if _mentions(line, name)]
                if unrecorded:
                    reasons.append("view made without gradients")
                if self.theirs[target]._is_view() and self._sharing(self.theirs[target]) == [target]:
                    reasons.append("view of hidden memory")
                if reasons:
                    self.blind[target] = reasons[-1]
            self.blind.update(dict.fromkeys(parted, "view whose data were set"))
            self.result.wrong = self._difference()
            self.ended |= self.result.wrong is not None

    def _wanting(self) -> set[str]:
        return {name for name, t in self.tensors().items() if t.is_leaf and t.requires_grad}

    def _tell_views(self, wanted: set[str], kind: str) -> None:
        """Let the views of what requires a gradient from now on follow it, as PyTorch's do after any change of it."""
        if not kind.startswith("requires_grad"):
            return
        for name in self._wanting() - wanted:
            t = self.theirs[name]
            if t._is_view():
                self.leaf_views[name] = t._version
            elif len(self._sharing(t)) > 1:
                with self.theirs["torch"].no_grad():
                    t.mul_(1)

    def _sharing(self, t: Any) -> list[str]:
        place = t.untyped_storage().data_ptr()
        return [n for n, u in self.tensors().items() if u.untyped_storage().data_ptr() == place]

    def _parted(self, line: str) -> list[str]:
        """Name the view whose data are set, and what shows the same memory."""
        target = self.theirs[line.removeprefix("with torch.no_grad(): ").split(".")[0]]
        return self._sharing(target) if target._is_view() else []

    def _is_change(self, line: str) -> bool:
        bare = line.removeprefix("with torch.no_grad(): ")
        return not (bare.split(" = ")[0].isidentifier() and bare.split(" = ")[0] not in self.names)

    def _refuse(self, line: str, kind: str, message: str) -> None:
        if self.data_written and "was changed" in message:
            self.result.counts["exempt: data written before backward"] += 1
        else:
            self.result.refused = (kind, message)

    def _depends_on_strides(self, line: str, kind: str) -> bool:
        used = [name for name in self.names if _mentions(line, name)]
        if kind.startswith("deepcopy"):
            return any(overlaps_itself(self.theirs[name]) for name in used)
        return kind in RESHAPES and any(
            self.theirs[name].is_contiguous() != qkv._core.is_packed(self.ours[name]) for name in used
        )

    def _overlaps(self, line: str) -> bool:
        """Whether a change reads from the memory that it writes, in another place."""
        if "backward" in line:
            return False
        used = [name for name in self.names if _mentions(line, name)]
        if not used:
            return False
        bare = line.removeprefix("with torch.no_grad(): ")
        first = min(used, key=bare.index)
        target = self.theirs[first]
        partly = bare.startswith(f"{first}[")
        for name in used:
            other = self.theirs[name]
            same = (other.data_ptr(), other.stride(), other.shape) == (
                target.data_ptr(),
                target.stride(),
                target.shape,
            )
            shared = other.untyped_storage().data_ptr() == target.untyped_storage().data_ptr()
            if name != first and shared and (partly or not same):
                return True
        return False

    def _difference(self) -> str | None:
        """Say what differs, or None; ends the program where PyTorch gives no answer."""
        precise = not any("float32" in line for line in self.result.lines)
        for name in self.names:
            theirs, ours = self.theirs[name], self.ours[name]
            try:
                facts = [theirs.is_leaf, theirs.requires_grad]
            except RuntimeError:
                self.ended = True
                return None
            if tuple(ours.shape) != tuple(theirs.shape):
                return f"{name}: shape {tuple(ours.shape)} instead of {tuple(theirs.shape)}"
            if str(ours.dtype).removeprefix("torch.") != str(theirs.dtype).removeprefix("torch."):
                return f"{name}: dtype {ours.dtype} instead of {theirs.dtype}"
            expected = theirs.detach().numpy()
            if expected.size and not np.abs(np.nan_to_num(expected, posinf=0, neginf=0)).max() < GROWN:
                self.ended = True
                return None
            if not _close(np.asarray(ours.detach()), expected, precise):
                return f"{name}: values"
            for what, fact in zip(("is_leaf", "requires_grad"), facts, strict=True):
                if getattr(ours, what) != fact and name in self.blind:
                    return self._exempt(self.blind[name])
                if getattr(ours, what) != fact:
                    return f"{name}: {what} {getattr(ours, what)} instead of {fact}"
            wrong = self._gradient_difference(name, precise) if facts[0] else None
            if wrong or self.ended:
                return wrong
        return None

    def _gradient_difference(self, name: str, precise: bool) -> str | None:
        theirs, ours = self.theirs[name].grad, self.ours[name].grad
        if theirs is None and ours is None:
            return None
        if self.leaf_views.get(name, self.theirs[name]._version) != self.theirs[name]._version:
            return self._exempt("view that is a leaf")
        if theirs is None or ours is None:
            return f"{name}: grad is {'None' if ours is None else 'there'}"
        expected, found = theirs.detach().numpy(), np.array(ours.detach())
        selected = np.isnan(expected) & np.isfinite(found)
        if selected.any():
            return self._exempt("finite gradient")
        if _close(found, expected, precise):
            return None
        if self.data_written:
            return self._exempt("data written before backward")
        return f"{name}: gradient"

    def _exempt(self, reason: str) -> None:
        self.result.counts[f"exempt: {reason}"] += 1
        self.ended = True


def _has_equal_numbers(t: Any) -> bool:
    numbers = t.detach().numpy()
    return any(not np.ptp(numbers, axis=axis).all() for axis in range(numbers.ndim))


def _has_ties(t: Any) -> bool:
    return np.unique(t.detach().numpy()).size < t.numel()


def overlaps_itself(t: Any) -> bool:
    """Whether several of a Tensor's numbers are one in memory."""
    places = np.zeros((), np.int64)
    for size, stride in zip(t.shape, t.stride(), strict=True):
        places = places[..., None] + np.arange(size) * stride
    return np.unique(places).size < places.size


def _mentions(line: str, name: str) -> bool:
    return any(part == name for part in _words(line))


def _words(line: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "_" else " " for c in line).split()


def _close(found: np.ndarray, expected: np.ndarray, precise: bool) -> bool:
    rtol, atol = (1e-7, 1e-9) if precise else (1e-4, 1e-4)
    return found.shape == expected.shape and np.allclose(found, expected, rtol, atol, equal_nan=True)


def kind_of(line: str) -> str:
    return next((kind.name for kind in KINDS if kind.name in line), "statement")


def replay(lines: Sequence[str], dialect: str) -> Result:
    """Run a given program; what PyTorch refuses is left out."""
    session = Session(dialect)
    for line in lines:
        session.step(line, kind_of(line))
        if session.ended:
            break
    return session.result


def random_program(seed: int, dialect: str, known: Callable[[Session, Kind, str], str | None]) -> Result:
    """Make a program while it runs; statements that fall under a known cause do not come into it."""
    stream = np.random.default_rng(seed)
    session = Session(dialect)
    creation = KINDS[0]
    for n in range(3):
        session.step(f"t{n} = {creation.text(Choice(stream, {}))}", creation.name)
    for n in range(3, 3 + STATEMENTS):
        if session.ended:
            break
        kind, line = statement(Choice(stream, session.tensors()), dialect == "qkv", n)
        if cause := known(session, kind, line):
            session.result.counts[f"wrong, so left out: {cause}"] += 1
        else:
            session.step(line, kind.name)
    last = f"({loss_of_all(session)}).backward()"
    if not session.ended and not known(session, BACKWARD, last):
        session.step(last, BACKWARD.name)
    return session.result


def loss_of_all(session: Session) -> str:
    floating = [name for name in session.names if session.theirs[name].is_floating_point()]
    return " + ".join(f"({k + 1} * torch.tanh({name})).sum()" for k, name in enumerate(floating))


@dataclass
class Summary:
    """What became of many programs."""

    counts: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)  # by statement and message
    wrong: dict[int, Result] = field(default_factory=dict)  # by seed

    def text(self) -> str:
        lines = [f"{count:7,} {what}" for what, count in sorted(self.counts.items())]
        lines += [f"{count:7,} refused: {what}" for what, count in self.refused.most_common()]
        return "\n".join([*lines, f"{len(self.wrong):7,} programs wrong otherwise"])


def run(
    first: int, statements: int, dialect: str, known: Callable[[Session, Kind, str], str | None]
) -> Summary:
    """Run programs, of this seed and those after it, until so many statements are done."""
    summary, seed = Summary(), first
    while summary.counts["done"] < statements:
        result = random_program(seed, dialect, known)
        summary.counts += result.counts
        summary.counts["programs"] += 1
        if result.refused:
            summary.refused[f"{result.refused[0]}: {result.refused[1][:80]}"] += 1
        if result.wrong:
            summary.wrong[seed] = result
        seed += 1
    return summary


def category(result: Result) -> str:
    """What is wrong, without the names and numbers of this program."""
    if result.wrong is None:
        return f"refused {result.refused[1][:60]}" if result.refused else ""
    return result.wrong.split(": ", 1)[1].split(" ")[0]


def shrunk(result: Result, dialect: str) -> Result:
    """Leave out statements as long as the same kind of thing goes wrong."""
    wanted, lines = category(result), list(result.lines)
    for i in range(len(lines) - 1, -1, -1):
        fewer = lines[:i] + lines[i + 1 :]
        other = replay(fewer, dialect)
        if category(other) == wanted:
            lines = list(other.lines)
    return replay(lines, dialect)
