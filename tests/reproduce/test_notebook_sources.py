"""What the notebooks' checks are given: something that was computed, never a constant that agrees with a constant."""

import ast
import json

import pytest

from qkv.reproduce import registry

NOTEBOOKS = sorted(registry.find_notebooks().glob("*.ipynb"))
COMPARISONS = ("close", "equal", "printed", "shape", "that")


def calls(source):
    """Give the calls of ``check.close`` and so on, with the arguments that say what was found."""
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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_was_found_is_not_written_down(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert [text for source in sources for text in constants(source)] == []
