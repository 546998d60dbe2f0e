"""Programs as textbooks have them print PyTorch's text when only their import lines are changed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .running import PROGRAMS, VERSION, differences, printed, recorded, translated


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_prints_what_pytorch_prints(program):
    text = printed(translated(program.read_text(encoding="utf8")), program.name)
    assert differences(text, recorded(program).read_text(encoding="utf8")) == []


def test_what_is_recorded_is_pytorchs():
    torch = pytest.importorskip("torch")
    if not torch.__version__.startswith(VERSION):
        pytest.skip(f"the text is that of PyTorch {VERSION}; got {torch.__version__}")
    run = [sys.executable, "-W", "ignore", str(Path(__file__).parent / "record.py"), "--show"]
    shown = subprocess.run(run, capture_output=True, text=True, check=True, timeout=300).stdout
    texts = json.loads(shown)
    assert set(texts) == {program.stem for program in PROGRAMS}
    for program in PROGRAMS:
        assert differences(texts[program.stem], recorded(program).read_text(encoding="utf8")) == []


def test_only_import_lines_are_changed():
    source = "import torch\nimport torch.nn as nn\nfrom torch import optim\nimport utils\nx = torch.ones(1)\n"
    assert translated(source) == (
        "import qkv.torch as torch\nimport qkv.torch.nn as nn\nfrom qkv.torch import optim\n"
        "from qkv.torch import d2l as utils\nx = torch.ones(1)\n"
    )


def test_differences_are_noticed():
    text = "tensor([0.1234, 5.0000], grad_fn=<AddBackward0>)\n"
    assert differences(text, text) == []
    assert differences("tensor([0.1235, 5.0000], grad_fn=<AddBackward0>)\n", text) == []
    for other in (
        "0.1237, 5.0000], grad_fn=<Add",
        "0.1234, 5.0000], grad_fn=<Mul",
        "0.1234, 5.], grad_fn=<Add",
    ):
        assert differences(f"tensor([{other}Backward0>)\n", text) != []
    assert differences(text + "\n", text) != []
    assert differences("1.2346e-05", "1.2345e-05") == []
    assert differences("1.2348e-05", "1.2345e-05") != []
