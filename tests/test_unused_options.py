"""What is accepted has its effect: every parameter of a public function or method is read by it."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import qkv
from qkv import look, models, nn, plot
from qkv._words.names import public_names

PYTHON = Path(qkv.__file__).parent
PUBLIC = {name for names in public_names().values() for name in names}
# Parameters that a protocol of others asks for, and that change nothing.
NOTHING = {
    "NadarayaWatson.get_params": {"deep"},  # scikit-learn's: of estimators in estimators, which qkv has not
    "ReduceLROnPlateau.lr_at": {"n"},  # a schedule's, whose rate depends on measurements
}


def functions():
    """Return the public functions and methods that are written in Python, with their names."""
    for file in sorted(PYTHON.rglob("*.py")):
        if file.relative_to(PYTHON).parts[0] == "torch":
            continue
        for node in ast.parse(file.read_text(encoding="utf8")).body:
            if isinstance(node, ast.FunctionDef) and node.name in PUBLIC:
                yield node.name, node
            elif isinstance(node, ast.ClassDef) and node.name in PUBLIC:
                for part in node.body:
                    if isinstance(part, ast.FunctionDef) and part.name not in ("__exit__", "__array__"):
                        yield f"{node.name}.{part.name}", part


def unread(node: ast.FunctionDef) -> set[str]:
    """Return the parameters that the body does not name; one that is only a text, or an error, has none."""
    a = node.args
    every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
    calls = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    names = {n.id for s in calls for n in ast.walk(s) if isinstance(n, ast.Name)}
    if "locals" in names or all(isinstance(s, ast.Raise) for s in calls):
        return set()
    return {p.arg for p in every} - names - {"self", "cls"}


def test_every_parameter_is_read():
    found = {name: unread(node) for name, node in functions()}
    assert len(found) > 250
    assert {name: left for name, left in found.items() if left} == NOTHING


def test_a_parameter_that_is_not_read_is_seen():
    one = "def f(x, *, shown=True, **rest):\n    'x and shown'\n    return x"
    assert unread(ast.parse(one).body[0]) == {"shown", "rest"}


SIZES = dict(vocab_size=29, hidden_size=12, num_hidden_layers=1, num_attention_heads=3, intermediate_size=17)
TAKES_MORE = {
    "BertConfig.base": lambda **o: models.BertConfig.base(**o),
    "BertConfig.large": lambda **o: models.BertConfig.large(**o),
    "BertForMaskedLM": lambda **o: models.BertForMaskedLM(models.BertConfig(**SIZES))([[2, 3]], **o),
    "BertModel.hidden_states": lambda **o: models.BertModel(models.BertConfig(**SIZES)).hidden_states(
        [[2, 3]], **o
    ),
    "record": lambda **o: look.record(nn.SelfAttention(3, 2), np.ones((5, 3)), **o),
    "measures": lambda **o: look.measures(nn.SelfAttention(3, 2), np.ones((5, 3)), **o),
    "importance": lambda **o: look.importance(
        nn.SelfAttention(3, 2), lambda y: y.sum(), np.ones((5, 3)), **o
    ),
    "show_attention": lambda **o: plot.show_attention(np.ones((5, 3)), np.ones((5, 3)), **o),
    "set_params": lambda **o: qkv.NadarayaWatson().set_params(**o),
    "SGD": lambda **o: qkv.optim.SGD([nn.Parameter([1.0])], 0.1, **o),
}


@pytest.mark.parametrize("name", TAKES_MORE)
def test_functions_of_any_keyword_refuse_those_that_mean_nothing(name):
    if name == "show_attention":
        pytest.importorskip("matplotlib").use("Agg")
    TAKES_MORE[name]()
    with pytest.raises((TypeError, ValueError), match="surprise"):
        TAKES_MORE[name](surprise=1)
