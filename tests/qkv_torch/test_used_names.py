"""What qkv.torch holds is what programs use: each public name is in names.txt, with the programs that use it."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest

import qkv.torch as torch

NAMES = Path(__file__).parent / "names.txt"
PROGRAMS = {
    *(
        "d2l",
        "nanoGPT",
        "minGPT",
        "annotated",
        "LLMs",
        "labml",
        "UvA",
        "vit-pytorch",
        "vit-explain",
        "notebooks",
    ),
    *(f"document 00{i}" for i in range(5)),
}
# Why a name stays that no program uses: it is promised, of a family or a spelling that programs use, or the core's.
REASONS = {"contract", "sibling", "core"}
MODULES = (
    "nn nn.functional nn.init nn.utils nn.utils.rnn nn.attention nn.attention.flex_attention nn.parallel optim "
    "optim.lr_scheduler utils.data utils.data.distributed autograd autograd.functional amp distributed multiprocessing "
    "testing"
)


def listed() -> dict[str, set[str]]:
    lines = (line.split(": ") for line in NAMES.read_text(encoding="utf8").splitlines() if line[0] != "#")
    return {name: set(uses.split(", ")) for name, uses in lines}


def _of_class(prefix: str, cls: type) -> set[str]:
    return {f"{prefix}.{name}" for name in dir(cls) if not name.startswith("_")}


def _of_module(path: str) -> set[str]:
    holder: Any = torch
    for part in path.split("."):
        holder = getattr(holder, part)
    own = "qkv.torch." + path.split(".")[0]
    return {
        f"{path}.{name}"
        for name, value in vars(holder).items()
        if not name.startswith("_")
        and callable(value)
        and not isinstance(value, types.ModuleType)
        and (name in getattr(holder, "__all__", ()) or str(getattr(value, "__module__", "")).startswith(own))
    }


def public() -> set[str]:
    """Functions, methods, layers, initial values, optimizers, schedules, loaders: all that programs may name."""
    names = {f"torch.{name}" for name in torch.__all__} | _of_class("Tensor", torch.Tensor)
    names |= _of_class("Module", torch.nn.Module)
    return names.union(*map(_of_module, MODULES.split()))


def test_every_public_name_is_listed_and_every_listed_one_exists():
    names, found = listed(), public()
    assert sorted(found - names.keys()) == [], "public, but no program is listed that uses it"
    assert sorted(names.keys() - found) == [], "listed, but missing"


def test_every_name_has_a_reason():
    assert {name for name, uses in listed().items() if not uses or uses - PROGRAMS - REASONS} == set()
    assert {name for name, uses in listed().items() if uses & REASONS and len(uses) > 1} == set()


def test_the_core_alone_has_names_of_the_core():
    for name, uses in listed().items():
        place, _, short = name.rpartition(".")
        if uses == {"core"}:
            assert place in ("Tensor", "Module"), name
            assert short not in vars(torch.Tensor if place == "Tensor" else torch.nn.Module), name


@pytest.mark.parametrize(
    ("place", "name", "equal"),
    [
        ("", "elu", "qkv.elu"),
        ("nn", "ELU", "qkv.elu"),
        ("", "trace", "np.trace"),
        ("autograd", "gradcheck", "qkv.testing.check_gradient"),
        ("optim.lr_scheduler", "ReduceLROnPlateau", "qkv.optim.ReduceLROnPlateau"),
        ("nn.functional", "huber_loss", "qkv.losses.huber"),
        ("", "isin", None),
        ("nn", "Conv1d", None),
    ],
)
def test_a_name_that_is_missing_says_what_there_is_in_its_place(place, name, equal):
    holder: Any = torch
    for part in filter(None, place.split(".")):
        holder = getattr(holder, part)
    with pytest.raises(AttributeError, match=r"qkv\.torch.*\(docs/torch\.md\)") as error:
        getattr(holder, name)
    assert str(error.value).partition("; see ")[2] == (equal or "")


def test_the_list_is_sorted():
    lines = [line for line in NAMES.read_text(encoding="utf8").splitlines() if line[0] != "#"]
    assert lines == sorted(lines, key=lambda line: line.partition(":")[0])
