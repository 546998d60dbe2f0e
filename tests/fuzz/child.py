"""The process that runs statements: it may die of one, and the process that started it then knows of which.

Reads statements, one a line in JSON; answers each with a line in JSON: null, or what is wrong with the answer.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import qkv
import qkv.data
import qkv.losses
import qkv.models
import qkv.random
from qkv import masks, models, nn, optim, torch  # noqa: F401  (statements speak of them)

ALLOWED = (
    ValueError,
    TypeError,
    MemoryError,
    IndexError,
    OSError,
    RuntimeError,
    AttributeError,
    OverflowError,
)
FOREIGN = [
    "Invoked with",
    "incompatible function",
    "incompatible constructor",
    "pybind11",
    "std::",
    "SupportsInt",
    "Unable to cast",
    "vector::",
    "basic_string",
    "array([",
    "bad_alloc",
]
SECONDS = 30  # for one statement
MEMORY = 3 << 30  # above what the process has at the start


class Lie(Exception):  # noqa: N818
    """Raised by the objects below: it belongs to the caller, so it may come back."""


class Wrong(Exception):  # noqa: N818
    """Raised when what came back is not what it says it is."""


class LyingArray:
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return "no array"


class LyingLength(list):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 2**40

    def __getitem__(self, index: Any) -> Any:
        raise Lie


class LyingIndex:
    def __index__(self) -> Any:
        raise Lie


class LyingFloat(float):
    def __float__(self) -> Any:
        raise Lie


class LyingEqual:
    def __eq__(self, other: object) -> Any:
        raise Lie

    __hash__ = None  # type: ignore[assignment]


class Endless:
    """A sequence that says it is empty and has any item."""

    def __len__(self) -> int:
        return 0

    def __getitem__(self, index: Any) -> Any:
        if index > 1000:
            raise IndexError
        return 1.0


def read_only(x: np.ndarray) -> np.ndarray:
    x.flags.writeable = False
    return x


def viewed(t: Any) -> Any:
    """Keep views of a Tensor alive: what changes it has to change them."""
    t.views = [t.t() if t.dim() == 2 else t.mT, t[1:], t.detach(), t.view(-1)[2:] if t.is_contiguous() else t]
    t.views += [t.views[0][1], t.views[1].unsqueeze(0)]
    return t


NAMES = dict(globals())  # what statements speak of


def touch(result: Any) -> None:
    """Read what came back: memory that is not there must not go unseen."""
    if isinstance(result, tuple | list):
        for part in result[:5]:
            touch(part)
    if isinstance(result, qkv.Tensor):
        if result.requires_grad and 0 < result.size < 10**6:
            result.sum().backward()
        if isinstance(result, torch.Tensor):
            touch_torch(result)
        result = result.detach().numpy()
    if isinstance(result, np.ndarray) and result.dtype.kind in "fiub" and result.size < 10**7:
        with np.errstate(all="ignore"):
            result.sum()


def touch_torch(t: Any) -> None:
    """Print a Tensor, and compare what is a view of another, or shown by one, with the other's numbers."""
    if repr(t) and t.numel() > 10**6:
        return
    if len(t.stride()) != t.dim():
        raise Wrong(f"strides {t.stride()} of shape {tuple(t.shape)}")
    for view in [t, *(t._children or {}).values()]:
        while view._view is not None:
            shown, own = (x.detach().numpy() for x in (torch.as_tensor(view._view.show()), view))
            if not np.array_equal(shown, own.astype(shown.dtype), equal_nan=shown.dtype.kind == "f"):
                raise Wrong(f"a view by {view._view.how!r} shows other numbers than its base has")
            view = view._view.base


def restore() -> None:
    """Set back what statements may have set for all that follow."""
    qkv.set_num_threads(2)
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.set_printoptions(profile="default")


def run(statement: str) -> str | None:
    """Return what is wrong with the statement's answer."""
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("error", DeprecationWarning)
            warnings.simplefilter("ignore", UserWarning)
            touch(eval(statement, dict(NAMES)))
    except Lie:
        return None
    except ALLOWED as error:
        text = str(error)
        for words in FOREIGN:
            if words in text:
                return f"{type(error).__name__} has {words!r}: {text[:300]}"
        if len(text) > 700:
            return f"{type(error).__name__} is {len(text)} characters long: {text[:300]}"
        says_the_name = "__delattr__('')" in statement  # alone, in Python 3.10
        if not text and not isinstance(error, MemoryError) and not says_the_name:
            return f"{type(error).__name__} has no text"
        return None
    except BaseException as error:
        if isinstance(error, KeyError | AssertionError) and " " in str(error.args[0] if error.args else ""):
            return None  # PyTorch's words, not a dictionary's
        return f"{type(error).__name__}: {str(error)[:300]}"
    finally:
        faulthandler.cancel_dump_traceback_later()
        restore()
    return None


def main() -> None:
    faulthandler.enable()
    os.chdir(tempfile.mkdtemp())
    if "QKV_SANITIZER" not in os.environ and sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY,) * 2)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what statements print is no answer
    for line in sys.stdin:
        answers.write(json.dumps(run(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
