"""What all tests share: the helper modules beside this file and a matplotlib that opens no window."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("MPLBACKEND", "Agg")

# Where pytest's parent ignores Ctrl-C (nohup, a shell's background), tests and their programs still hear it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Files that take longest come first, so that several workers (pytest -n 2 --dist loadfile) end together.
LONGEST = [
    "test_notebooks.py",
    "test_run.py",
    "test_site.py",
    "test_interrupts.py",
    "test_threads.py",
    "test_batch_invariance.py",
]


def pytest_collection_modifyitems(items):
    ranks = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path.name, len(LONGEST)))


@pytest.fixture(scope="session")
def golden():
    """Load a group of golden arrays by name: ``golden("D0-18")``."""
    return importlib.import_module("golden").golden


@pytest.fixture(autouse=True)
def no_open_figures():
    """Close what a test drew: pyplot counts figures in one place for all tests of a process."""
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
