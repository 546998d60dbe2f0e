"""A bar for long jobs, if tqdm is there."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any


def progress_bar(
    total: int | None, unit: str, show: bool | None
) -> tuple[Callable[[int], Any], Callable[[], Any]]:
    """Return what moves a bar and what closes it; with `show` None there is one on a terminal, if tqdm is there."""
    if show is False or (show is None and not sys.stderr.isatty()):
        return (lambda n: None), (lambda: None)
    try:
        tqdm = importlib.import_module("tqdm").tqdm
    except ImportError as error:
        if show is None:
            return (lambda n: None), (lambda: None)
        raise ImportError("encode: a bar needs the package tqdm; install it: pip install tqdm") from error
    bar = tqdm(total=total, unit=unit, unit_scale=True, dynamic_ncols=True)
    return bar.update, bar.close
