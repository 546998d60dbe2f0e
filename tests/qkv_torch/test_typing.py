"""Editors and mypy know what the functions of qkv.torch give."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.test_typing import check_program

import qkv

ROOT = Path(__file__).parents[2]
PACKAGE = Path(qkv.__file__).parent
PROGRAM = """
import qkv.torch as torch
from qkv.torch import nn
from qkv.torch.nn import functional as F
from typing_extensions import assert_type

x = torch.ones(2, 3, requires_grad=True)
assert_type(x.transpose(0, 1), torch.Tensor)
assert_type(2 * x + 1, torch.Tensor)
assert_type(x[0].T, torch.Tensor)
assert_type(torch.softmax(x, dim=-1), torch.Tensor)
assert_type(x.split(1), tuple[torch.Tensor, ...])
assert_type(x.shape, torch.Size)
assert_type(x.dim(), int)
assert_type(x.requires_grad, bool)
assert_type(torch.float32, torch.dtype)
assert_type(x.to(torch.int64), torch.Tensor)
x.transpose(0)  # type: ignore[call-arg]
for row in x:
    assert_type(row, torch.Tensor)
"""


def test_the_stubs_are_those_of_the_functions():
    spec = importlib.util.spec_from_file_location("torch_stubs", ROOT / "tools" / "torch_stubs.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    for name, text in (("_tensor.pyi", tool.tensor_stub()), ("__init__.pyi", tool.module_stub())):
        written = (PACKAGE / "torch" / name).read_text(encoding="utf8")
        assert ast.dump(ast.parse(written)) == ast.dump(ast.parse(text)), "run python tools/torch_stubs.py"


def test_mypy_knows_the_types_of_a_program(tmp_path, monkeypatch):
    check_program(PROGRAM, tmp_path, monkeypatch)


COMPLETIONS = """
import sys, jedi
lines, end = "import qkv.torch as torch\\nx = torch.ones(2, 3)\\n", sys.argv[1]
script = jedi.Script(lines + end, environment=jedi.InterpreterEnvironment())
print(*(name.name for name in script.complete()))
"""


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("x.tr", "transpose"),
        ("x.transpose(0, 1).so", "softmax"),
        ("(x + 1).ma", "masked_fill"),
        ("x[0].vi", "view"),
        ("torch.nn.functional.softmax(x, -1).ar", "argmax"),
        ("torch.sof", "softmax"),
    ],
)
def test_a_name_begun_is_completed(typed, meant):
    jedi = pytest.importorskip("jedi")
    folders = [str(PACKAGE.parent), str(Path(jedi.__file__).parents[1])]
    result = subprocess.run(
        [sys.executable, "-S", "-c", COMPLETIONS, typed],  # without the hooks of an editable install
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert meant in result.stdout.split()
