"""Arguments that fit no signature: the answer names the function, the argument, what it must be and what came."""

import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sweep import sweep

import qkv
from qkv import nn

W, RAGGED = qkv.tensor([1.0]), [[1.0], [1.0, 2.0]]
CASES: list[tuple[Callable[[], Any], str]] = [
    (lambda: nn.Linear("a", 2), "Linear: in_features must be an integer of 64 bits; got str"),
    (lambda: nn.Linear(2.5, 2), "Linear: in_features must be an integer of 64 bits; got float"),
    (
        lambda: nn.Linear(2**70, 2),
        "Linear: in_features must be an integer of 64 bits; got an integer of more bits",
    ),
    (lambda: nn.Linear(None, 2), "Linear: in_features must be an integer of 64 bits; got None"),
    (lambda: nn.Linear(2), "Linear: out_features must be given; it takes in_features, out_features, bias"),
    (
        lambda: nn.Linear(2, 2, True, 1),
        "Linear: takes at most 3 arguments by position; got 4; it takes in_features",
    ),
    (
        lambda: nn.Linear(2, 2, foo=1),
        "Linear: got an unexpected argument foo; it takes in_features, out_features, bias",
    ),
    (
        lambda: nn.Linear(2, 2, in_features=1),
        "Linear: got the argument in_features twice, by position and by name",
    ),
    (
        lambda: nn.MultiHeadAttention(4, 2)(np.ones((1, 2, 4)), key_padding_mask=1),
        "MultiHeadAttention: got an unexpected argument key_padding_mask; give valid_lens",
    ),
    (lambda: nn.MultiHeadAttention(4, 2)(), "MultiHeadAttention: queries must be given"),
    (lambda: nn.GELU(3), "GELU: approximate must be a string; got int"),
    (lambda: nn.Dropout("high"), "Dropout: p must be a number; got str"),
    (lambda: nn.Linear.forward(3, W), "forward: must be called on a Linear; got int"),
    (lambda: qkv.optim.SGD([W], "fast"), "SGD: lr must be a number; got str"),
    (
        lambda: qkv.optim.SGD([W], 0.1).load_state_dict([1]),
        "SGD.load_state_dict: state_dict must be a dict; got list",
    ),
    (lambda: qkv.optim.SGD([W], lr=0.1).step(3), "SGD.step: takes at most 0 arguments by position; got 1"),
    (
        lambda: qkv.masks.formulas.documents(RAGGED),
        "documents: ids must be an array or nested lists of equal lengths",
    ),
    (
        lambda: qkv.masks.formulas.prefix(RAGGED),
        "prefix: length must be an array or nested lists of equal lengths",
    ),
    (lambda: qkv.scores.alibi(RAGGED), "alibi: slopes must be an array or nested lists of equal lengths"),
    (
        lambda: qkv.NadarayaWatson(bandwidth=RAGGED).fit([1.0], [1.0]),
        "NadarayaWatson.fit: bandwidth must be an array or nested lists of equal lengths",
    ),
    (lambda: qkv.rotary_tables([1], 4, scaling=True), "rotary_tables: scaling must be a dict; got True"),
    (
        lambda: qkv.plot.show_formula(Lq=2.5),
        "show_formula: Lq must be an integer because it counts or bounds integers; got 2.5",
    ),
    (
        lambda: qkv.plot.head_view(RAGGED, "a"),
        "plot: numbers must be an array or nested lists of equal lengths",
    ),
    (lambda: qkv.plot.head_view(np.array("a"), "a"), "plot: numbers must be numbers; got dtype <U1"),
    (
        lambda: qkv.plot.head_view(np.ones((1, 1)), None),
        "head_view: tokens must be a sequence of strings; got None",
    ),
    (
        lambda: qkv.look.record(nn.SelfAttention(2, 2), np.ones((3, 2)), keep=None),
        "record: keep must be one or several of type str; got None",
    ),
    (
        lambda: qkv.look.record(nn.SelfAttention(2, 2), np.ones((3, 2)), layers=0.5),
        "record: layers must be one or several of type int; got 0.5",
    ),
]


@sweep("call, message", CASES)
def test_the_message_names_argument_and_type(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)) as caught:
        call()
    for words in ("Invoked with", "SupportsInt", "_core", "\n"):
        assert words not in str(caught.value)


def test_no_argument_is_dumped() -> None:
    with pytest.raises(TypeError) as caught:
        nn.Linear(np.arange(1000.0), 2)
    assert len(str(caught.value)) < 100


def test_errors_of_the_callers_code_pass_unchanged() -> None:
    def raises(module: nn.Module) -> None:
        raise OverflowError("mine")

    with pytest.raises(OverflowError, match=r"^mine$"):
        nn.Linear(2, 2).apply(raises)


def test_operators_still_ask_the_other_side() -> None:
    class Other:
        def __radd__(self, other: object) -> str:
            return "theirs"

    assert W.__add__("text") is NotImplemented
    with pytest.raises(TypeError):
        W + "text"


def test_none_as_the_object_of_a_method():
    """Of every method of a Tensor, in a process of its own, which ended with a segmentation fault."""
    script = """
import qkv
for name, member in vars(qkv.Tensor).items():
    call = getattr(member, "fget", None) or member
    if name not in ("__new__", "__class__", "__dict__", "__doc__") and callable(call):
        try:
            call(None)
        except (TypeError, AttributeError) as error:
            print(f"{name}: {error}")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    for name in ("detach", "reshape", "__neg__"):
        assert f"{name}: {name}: must be called on a Tensor; got NoneType" in done.stdout
    assert "T: " in done.stdout
