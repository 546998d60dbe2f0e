"""qkv inside PyTorch; skipped without it."""

import pytest

pytest.importorskip("torch")
