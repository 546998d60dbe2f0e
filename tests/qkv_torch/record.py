"""Writes PyTorch's text of every program: ``python -W ignore tests/qkv_torch/record.py``, with PyTorch installed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from qkv_torch.running import PROGRAMS, printed, recorded

# A compiled program is C++ code for this CPU, whose digits (and compiler) differ from machine to machine.
os.environ["TORCHDYNAMO_DISABLE"] = "1"


def texts() -> dict[str, str]:
    """Run all programs with PyTorch."""
    return {program.stem: printed(program.read_text(encoding="utf8")) for program in PROGRAMS}


if __name__ == "__main__":
    if "--show" in sys.argv:
        print(json.dumps(texts()))
    else:
        for program, text in zip(PROGRAMS, texts().values(), strict=True):
            recorded(program).write_text(text, encoding="utf8")
