"""Whole models of real sizes with random weights beside transformers on PyTorch: sequences and single steps."""

from __future__ import annotations

import importlib.util
import shutil
from functools import partial

from machine import peer
from peers import whole_models
from registry import Case, Skip, agree, faster_than_best, row

RIVALS = ["PyTorch", "ONNX Runtime"]
GOALS = [faster_than_best(RIVALS, 1.0)]
CAUSAL = ("GPT-2", "SmolLM2 135M")


def check_peers() -> None:
    if not peer("PyTorch") or importlib.util.find_spec("transformers") is None:
        raise Skip("transformers and PyTorch make the models")


def sequences(name: str, shape: tuple[int, int], compiled: bool, threads: int) -> Case:
    check_peers()
    if compiled and shutil.which("g++") is None:
        raise Skip("torch.compile needs g++")
    calls = whole_models.whole(name, *shape, threads, compiled)
    expected = calls["qkv"]()
    for call in calls.values():
        agree(expected, call(), atol=2e-3)
    return Case(calls, note="random weights, PyTorch behind torch.compile" if compiled else "random weights")


def steps(name: str, length: int, threads: int) -> Case:
    check_peers()
    state = whole_models.Steps(name, length, threads)
    state.begin()
    rivals = {"PyTorch": state.torch, **({} if state.graph is None else {"ONNX Runtime": state.onnx})}
    expected = state.own()
    for call in rivals.values():
        agree(expected, call(), atol=2e-3)
    calls = {"qkv": state.own, **rivals}
    return Case(calls, before=dict.fromkeys(calls, state.begin), note="random weights")


for _name in whole_models.SIZES:
    for _shape in ((1, 8), (1, 128), (8, 256)):
        row(f"{_name} {_shape}", goals=GOALS, peers=RIVALS)(partial(sequences, _name, _shape, False))
    row(f"{_name} (1, 128) beside torch.compile", goals=GOALS, peers=RIVALS, full=True)(
        partial(sequences, _name, (1, 128), True)
    )
for _name in CAUSAL:
    for _length in (1, 512):
        row(f"{_name}, a step behind {_length}", goals=GOALS, peers=RIVALS)(partial(steps, _name, _length))
