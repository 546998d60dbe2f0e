"""What errors and imports leave alone, and checks that `python -O` keeps."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import qkv
from qkv._words.names import public_names

PYTHON = Path(qkv.__file__).parent


def run(program: str, *options: str, **variables: str) -> str:
    found = subprocess.run(
        [sys.executable, *options, "-c", program],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_public_names_are_read_as_they_are():
    import importlib

    names = public_names()
    assert len(names) > 15
    for path, found in names.items():
        assert sorted(found) == sorted(importlib.import_module(path).__all__), path


TYPOS = {
    "qkv.nn.Lineer": "did you mean Linear?",
    "qkv.nn.PretrainedCausalLM": "did you mean qkv.models.PretrainedCausalLM?",
    "qkv.heat_map": "did you mean qkv.plot.heatmap?",
    "qkv.sofmax": "did you mean softmax?",
    "qkv.losses.rank": "did you mean qkv.distributed.rank?",
}


@pytest.mark.parametrize("name", TYPOS)
def test_the_text_of_a_typing_error_imports_no_module_of_names(name):
    """In a job of several ranks it starts nothing, either."""
    program = (
        f"import sys, qkv.losses; before = set(sys.modules), sys.exit, sys.excepthook\n"
        f"try: {name}\n"
        f"except AttributeError as error: print(str(error))\n"
        f"new = {{m for m in sys.modules if m.startswith('qkv')}} - before[0]\n"
        f"assert new <= {{'qkv._words.idioms', 'qkv._words.method_idioms', 'qkv._words.names'}}, new\n"
        f"assert len(sys.modules) - len(before[0]) < 25, set(sys.modules) - before[0]\n"
        f"assert (sys.exit, sys.excepthook) == before[1:]\n"
    )
    assert TYPOS[name] in run(program, PMI_SIZE="2", PMI_RANK="0")


def test_a_call_with_a_formula_imports_no_guest():
    """Nor does `import qkv`: what is beside the core is imported where it is used."""
    program = (
        "import sys, qkv; q = qkv.tensor([[[1.0, 2.0]] * 3]); before = set(sys.modules)\n"
        "guests = ('qkv.torch', 'qkv.distributed', 'qkv.reproduce', 'qkv.models', 'qkv.plot')\n"
        "assert not [name for name in sys.modules if name.startswith(guests)]\n"
        "qkv.scaled_dot_product_attention(q, q, q, score_mod=lambda s, b, h, i, j: s - qkv.exp(abs(i - j) / 9))\n"
        "assert not [name for name in sys.modules if name.startswith(guests)]\n"
        "print({name.split('.')[1] for name in set(sys.modules) - before if name.startswith('qkv.')})\n"
    )
    assert run(program) == "{'_formulas'}\n"


def test_nothing_starts_before_a_communicator_is_asked_for():
    program = (
        "import sys; before = sys.exit, sys.excepthook; import qkv, inspect; inspect.getmembers(qkv)\n"
        "from qkv.distributed import failure, launch\n"
        "assert (sys.exit, sys.excepthook) == before and failure._rank_process == 0"
    )
    run(program, PMI_SIZE="2", PMI_RANK="0", SLURM_JOB_ID=f"quiet-{os.getpid()}")


def test_no_assertion_guards_anything():
    """`python -O` removes them."""
    found = [
        f"{file.relative_to(PYTHON)}:{node.lineno}"
        for file in sorted(PYTHON.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf8")))
        if isinstance(node, ast.Assert)
    ]
    assert found == []


def test_checks_hold_without_assertions():
    program = """
import qkv
from qkv import optim, nn
w, v = nn.Parameter([1.0]), nn.Parameter([1.0])
o = optim.SGD([{"params": [w]}, {"params": [v], "lr": 0.1}], lr=1.0)
try: o.lr = 0.5
except ValueError as error: print(error)
print([group["lr"] for group in o.param_groups])
import qkv.torch.d2l as d2l
try: d2l.check_len([1], 2)
except AssertionError as error: print(error)
"""
    text = run(program, "-O")
    assert text == run(program)
    assert "groups must have one rate" in text
    assert "[1.0, 0.1]" in text
    assert "list's length 1 != expected length 2" in text
