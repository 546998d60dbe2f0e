"""What all tests share: the helper modules beside this file and a matplotlib that opens no window."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture(scope="session")
def golden():
    """Load a group of golden arrays by name: ``golden("D0-18")``."""
    return importlib.import_module("golden").golden
