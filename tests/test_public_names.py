"""What public modules show: their own names alone, what was meant by others, signatures behind a question mark."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import qkv
from qkv import _names, masks, models, nn, optim
from qkv._public import public_modules

T = qkv.tensor(np.ones((2, 3, 4), "float32"))


NAMES = [
    (lambda: qkv.sofmax, "module 'qkv' has no attribute 'sofmax'; did you mean softmax?"),
    (lambda: nn.Liner, "module 'qkv.nn' has no attribute 'Liner'; did you mean Linear?"),
    (
        lambda: nn.MultiheadAttention,
        "module 'qkv.nn' has no attribute 'MultiheadAttention'; did you mean MultiHeadAttention?",
    ),
    (lambda: optim.AdamX, "module 'qkv.optim' has no attribute 'AdamX'; did you mean Adam?"),
    (lambda: qkv.Linear, "module 'qkv' has no attribute 'Linear'; did you mean qkv.nn.Linear?"),
    (lambda: nn.softmax, "module 'qkv.nn' has no attribute 'softmax'; did you mean qkv.softmax?"),
    (lambda: nn.Adam, "module 'qkv.nn' has no attribute 'Adam'; did you mean qkv.optim.Adam?"),
    (
        lambda: qkv.cat,
        "module 'qkv' has no attribute 'cat'; did you mean concatenate (called cat in PyTorch)?",
    ),
    (
        lambda: nn.CrossEntropyLoss,
        "module 'qkv.nn' has no attribute 'CrossEntropyLoss'; it is a function: "
        "qkv.losses.cross_entropy(logits, targets)",
    ),
    (lambda: masks.xyzzy, "module 'qkv.masks' has no attribute 'xyzzy'"),
    (lambda: models.Bert, "module 'qkv.models' has no attribute 'Bert'"),
]


@pytest.mark.parametrize(("ask", "message"), NAMES, ids=[message[:60] for _, message in NAMES])
def test_a_name_that_does_not_exist(ask, message):
    with pytest.raises(AttributeError) as caught:
        ask()
    assert str(caught.value) == message


def test_python_adds_no_suggestion_of_its_own():
    shown = subprocess.run(
        [sys.executable, "-c", "import qkv; qkv.sofmax"], capture_output=True, text=True
    ).stderr
    assert shown.strip().endswith(
        "AttributeError: module 'qkv' has no attribute 'sofmax'; did you mean softmax?"
    )


def test_what_is_not_there_is_not_there():
    for module in (qkv, nn):
        assert not any(hasattr(module, name) for name in ("wibble", "_wibble", "__wibble__"))


def test_every_habit_leads_to_names_that_exist():
    public = {name for path in public_modules() for name in sys.modules[path].__all__}
    for name, habits in _names.NAMES.items():
        assert all(needed <= public for needed, _ in habits), name


@pytest.mark.parametrize("path", public_modules())
def test_tab_lists_the_public_names_alone(path):
    module = sys.modules[path]
    assert dir(module) == sorted(module.__all__)
    for name in dir(module):
        assert getattr(module, name) is not None
    assert not {"Any", "np", "annotations", "TYPE_CHECKING", "Sequence", "publish"} & set(dir(module))
    completer = pytest.importorskip("rlcompleter").Completer({"module": module})
    shown = {m.removeprefix("module.").rstrip("()") for m in completer.attr_matches("module.")}
    assert shown <= set(module.__all__)


def test_question_marks_show_signatures():
    shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    inspector = shell.instance().inspector
    for thing, name, expected in [
        (nn.Linear, "Linear", "Linear(in_features, out_features, bias=True)"),
        (nn.Linear(2, 3), "layer", "layer(x)"),
        (nn.MultiHeadAttention(4, 2), "mha", "mha(\n"),
        (qkv.softmax, "softmax", "softmax(x: 'Any', axis: 'int' = -1, temperature: 'float' = 1.0) -> 'Any'"),
        (qkv.NadarayaWatson, "NW", "NW(kernel: 'Kernel' = 'gaussian', bandwidth: 'Any' = 1.0)"),
        (T.sum, "t.sum", "t.sum(axis=None, keepdims=False)"),
    ]:
        info = inspector.info(thing, oname=name)
        shown = info.get("init_definition") or info.get("definition") or info.get("call_def")
        assert (shown or "").startswith(expected), (name, info)
    shell.clear_instance()
