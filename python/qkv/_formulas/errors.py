"""What is wrong with a formula, in one line that names it and its line of source."""

from __future__ import annotations

import functools
import os
import sys
from types import FrameType, TracebackType
from typing import Any

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARIES = tuple(f"{os.sep}{name}{os.sep}" for name in ("numpy", "torch"))


class FormulaError(Exception):
    """An error of a formula, before the call that it belongs to is named: ``text`` follows "score_mod"."""

    def __init__(self, kind: type[Exception], text: str, line: str | None = None) -> None:
        super().__init__(text)
        self.kind, self.text = kind, text
        self.line = source_line() if line is None else line


@functools.lru_cache(1024)
def _is_users(file: str) -> bool:
    return not file.startswith(_PACKAGE) and not any(library in file for library in _LIBRARIES)


def source_line() -> str:
    """Return file and line of the formula that is being traced, such as ``model.py:12``."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}" if frame is not None else ""


def raised_at(traceback: TracebackType | None, function: Any) -> str:
    """Return file and line of the innermost frame of a user's; of the function if there is none."""
    found = ""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if _is_users(code.co_filename):
            found = f"{os.path.basename(code.co_filename)}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return found or defined_at(function)


def defined_at(function: Any) -> str:
    """Return file and first line of a function, or nothing."""
    code = getattr(getattr(function, "func", function), "__code__", None)
    return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}" if code is not None else ""


def name_of(function: Any) -> str:
    """Return what a formula is called: its function's name, or its class's."""
    while hasattr(function, "func") and not hasattr(function, "__name__"):
        function = function.func
    return getattr(function, "__name__", type(function).__name__)
