"""What public modules show: their own names alone, what was meant by others, signatures after a question mark."""

from __future__ import annotations

import functools
import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest

import qkv
from qkv import losses, masks, models, nn, optim
from qkv._public import public_modules
from qkv._words import idioms as _idioms

T = qkv.tensor(np.ones((2, 3, 4), "float32"))


def test_functions_stay_what_they_were():
    assert qkv.softmax.__name__ == "softmax"
    assert qkv.softmax.__module__ == "qkv.functions.normalizers"
    assert qkv.softmax.__doc__ == inspect.unwrap(qkv.softmax).__doc__
    assert "x / temperature" in qkv.softmax.__doc__.splitlines()[0]
    assert pickle.loads(pickle.dumps(qkv.softmax)) is qkv.softmax
    assert pickle.loads(pickle.dumps(losses.mse)) is losses.mse
    assert list(inspect.signature(qkv.softmax).parameters) == ["x", "axis", "temperature"]
    assert inspect.getsource(qkv.softmax).startswith("@explained\ndef softmax(")
    assert repr(qkv.softmax).startswith("<function softmax at ")
    assert inspect.isroutine(qkv.softmax)


def test_the_body_of_a_public_function_runs():
    entered = []
    sys.setprofile(lambda frame, event, _: entered.append(frame.f_code.co_name) if event == "call" else None)
    try:
        qkv.softmax([1.0])
    finally:
        sys.setprofile(None)
    assert "softmax" in entered


def test_arguments_of_a_function():
    x = np.arange(6.0).reshape(2, 3)
    expected = qkv.softmax(x, 0, 2.0)
    for call in (
        lambda: qkv.softmax(x=x, axis=0, temperature=2.0),
        lambda: qkv.softmax(x, temperature=2.0, axis=0),
        lambda: qkv.softmax(*[x, 0], **{"temp" + "erature": 2.0}),
        lambda: functools.partial(qkv.softmax, axis=0)(x, temperature=2.0),
    ):
        np.testing.assert_array_equal(call(), expected)
    assert qkv.softmax(x)[1].sum() == pytest.approx(1.0)
    assert losses.mse([1.0, 2.0], [1.0, 4.0], reduction="sum").item() == 4.0
    with pytest.raises(TypeError, match=r"^mse: takes at most 2 arguments by position; got 3; it takes"):
        losses.mse([1.0], [1.0], "sum")
    with pytest.raises(TypeError, match=r"^softmax: got the argument axis twice, by position and by name$"):
        qkv.softmax(x, 0, axis=0)
    with pytest.raises(
        TypeError, match=r"^mse: targets must be given; it takes predictions, targets, reduction$"
    ):
        losses.mse([1.0], reduction="sum")


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


def test_every_idiom_leads_to_names_that_exist():
    public = {name for path in public_modules() for name in sys.modules[path].__all__}
    for name, idioms in _idioms.NAMES.items():
        assert all(needed <= public for needed, _ in idioms), name


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
        (
            qkv.softmax,
            "softmax",
            "softmax(x: 'Numbers', axis: 'int' = -1, temperature: 'float' = 1.0) -> 'Result'",
        ),
        (
            qkv.NadarayaWatson,
            "NW",
            "NW(\n    kernel: 'Kernel' = 'gaussian',\n    bandwidth: 'ArrayLike' = 1.0,\n    degree: 'int' = 0,\n)",
        ),
        (T.sum, "t.sum", "t.sum(axis=None, keepdims=False)"),
    ]:
        info = inspector.info(thing, oname=name)
        shown = info.get("init_definition") or info.get("definition") or info.get("call_def")
        assert (shown or "").startswith(expected), (name, info)
    shell.clear_instance()


def test_a_class_of_the_core_is_of_the_module_that_lists_it():
    assert qkv.nn.Linear.__module__ == "qkv.nn"
    assert qkv.Tensor.__module__ == "qkv"
    assert qkv.optim.Adam.__module__ == "qkv.optim"
    assert repr(qkv.nn.Linear) == "<class 'qkv.nn.Linear'>"
    assert pickle.loads(pickle.dumps(qkv.nn.Linear)) is qkv.nn.Linear


@pytest.mark.parametrize(
    "name", ["models.BertConfig", "models.Tokenizer", "plot.AttentionView", "look.Measures"]
)
def test_a_class_in_a_room_is_pickled_by_its_public_module(name):
    package, _, kind = name.partition(".")
    found = getattr(getattr(qkv, package), kind)
    assert found.__module__ == f"qkv.{package}"
    assert found.__module__.encode() + b"\x94" in pickle.dumps(found)


def test_asking_for_a_name_that_does_not_exist_imports_nothing():
    program = (
        "import sys, qkv; before = set(sys.modules); x = qkv.tensor([1.0]);"
        "assert not hasattr(qkv, 'zzz') and not hasattr(qkv.nn, 'zzz') and not hasattr(x, 'zzz');"
        "assert not hasattr(qkv.nn.Linear(2, 3), 'zzz'); print(*sorted(m for m in set(sys.modules) - before))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []
    with pytest.raises(AttributeError, match="did you mean softmax") as error:
        qkv.softmaxx  # noqa: B018
    known = pickle.loads(pickle.dumps(error.value))
    assert type(known) is AttributeError
    assert str(known) == str(error.value)
