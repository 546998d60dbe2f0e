"""Parameters of public functions that take True or False, and nothing else."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sweep import sweep

import qkv
import qkv.distributed
from qkv import training
from qkv._public import _only_calls_the_core, public_modules


def flags() -> Iterator[tuple[str, Any, str]]:
    for module in public_modules():
        space = __import__(module, fromlist=["*"])
        for name in space.__all__:
            thing = getattr(space, name, None)
            members = [name for name in dir(thing) if name[0] != "_"] if inspect.isclass(thing) else []
            for path, function in [(name, thing), *((f"{name}.{m}", getattr(thing, m)) for m in members)]:
                written = function.__init__ if inspect.isclass(function) else function
                if not inspect.isfunction(getattr(written, "__wrapped__", None)):
                    continue  # one of the core, which checks the types of all arguments
                for p in inspect.signature(written).parameters.values():
                    if p.annotation in ("bool", "bool | None"):
                        yield f"{module}.{path}({p.name})", function, p.name


FLAGS = [pytest.param(function, name, id=path) for path, function, name in flags()]


@sweep("function, name", FLAGS)
def test_a_word_is_no_flag(function, name):
    """It counts as True with any value."""
    for value, kind in (("no", "str"), ([False], "list"), (np.zeros(2, bool), "ndarray")):
        with pytest.raises(TypeError, match=rf"^[\w.]+: {name} must be True or False; got {kind}$"):
            function(**{name: value})


def test_the_ones_that_count_are_there():
    found = {p.id for p in FLAGS}
    assert {
        "qkv.data.Batches(shuffle)",
        "qkv.training.Trainer(restore_best)",
        "qkv.sort(descending)",
    } <= found
    assert {"qkv.training.Trainer.fit(progress)", "qkv.models.BertModel.forward(skip_padding)"} <= found
    assert len(found) > 40


@pytest.mark.parametrize("value", [False, np.False_, 0])
def test_what_is_false_is_taken(value):
    batches = qkv.data.Batches(
        np.arange(3), batch_size=1, **{"_".join(["drop", "last"]): value}, shuffle=value
    )
    assert [x.tolist() for (x,) in batches(0)] == [[0], [1], [2]]
    assert list(qkv.sort([2.0, 1.0], -1, descending=value)) == [1.0, 2.0]
    model = qkv.nn.Linear(1, 1)
    optimizer = qkv.optim.SGD(model.parameters(), 0.1)
    trainer = training.Trainer(model, optimizer, lambda model, x: model(x).sum(), restore_best=value)
    assert len(trainer.fit([np.ones((1, 1))], epochs=1, progress=value)) == 1


def test_by_position_and_by_a_made_up_name():
    with pytest.raises(TypeError, match=re.escape("multinomial: replacement must be True or False; got str")):
        qkv.random.multinomial([1.0], 1, "no")
    with pytest.raises(TypeError, match=re.escape("Batches: shuffle must be True or False; got str")):
        qkv.data.Batches([1], batch_size=1, **{"".join(["shuf", "fle"]): "no"})


X, ROWS = np.ones((1, 2, 3)), np.ones((2, 1, 2, 3))
PASSED_ON = {
    "additive_attention": (X, X, X, X[0, 0]),
    "linear_attention": (ROWS, ROWS, ROWS),
    "scaled_dot_product_attention": (X, X, X),
    "tensor": (X,),
    "logsumexp": (X,),
    "topk": (X, 1),
    "kl_div": (X, X),
}


def test_flags_that_the_core_checks_are_refused_in_the_same_words():
    """Where a function only calls the core, Python looks at no flag before the call."""
    found = {
        name: function
        for module in public_modules()
        for name, function in vars(__import__(module, fromlist=["*"])).items()
        if hasattr(function, "__wrapped__") and _only_calls_the_core(inspect.unwrap(function))
    }
    flags = {
        name: [p.name for p in inspect.signature(f).parameters.values() if p.annotation == "bool"]
        for name, f in found.items()
    }
    assert {name for name, known in flags.items() if known} == set(PASSED_ON)
    for name, args in PASSED_ON.items():
        for flag in flags[name]:
            for value, kind in (("no", "str"), ([False], "list"), (np.zeros(2, bool), "ndarray")):
                words = rf"^{name}: {flag} must be True or False; got {kind}$"
                with pytest.raises(TypeError, match=words):
                    found[name](*args, **{flag: value})
            found[name](*args, **{flag: np.False_})


def test_an_order_that_there_is_not():
    text = r"^positions: is_causal must be False, True, .*; got 'no'$"
    with pytest.raises(ValueError, match=text):
        qkv.distributed.positions(5, None, is_causal="no")
