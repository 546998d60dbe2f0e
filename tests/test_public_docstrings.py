"""Every public function, class and method says what it does, and functions are functions of Python's."""

from __future__ import annotations

import importlib
import inspect

import pytest
from sweep import sweep

import qkv
from qkv._operations import OPERATIONS
from qkv._words.names import public_names

THINGS = {
    f"{path}.{name}": getattr(importlib.import_module(path), name)
    for path, names in public_names().items()
    for name in names
    if not name.startswith("_") and callable(getattr(importlib.import_module(path), name))
}
FUNCTIONS = sorted(name for name, thing in THINGS.items() if not inspect.isclass(thing))
CLASSES = sorted(name for name, thing in THINGS.items() if inspect.isclass(thing))


@sweep("name", FUNCTIONS)
def test_functions_are_pythons_and_documented(name):
    function = THINGS[name]
    assert (function.__doc__ or "").strip(), name
    if function.__module__ == "typing" or name.endswith(".Kernel"):
        return
    assert inspect.isfunction(function), name
    assert inspect.getfullargspec(function) is not None


@pytest.mark.parametrize("name", sorted(name for name in OPERATIONS if name in qkv.__all__))
def test_operations_have_the_parameters_of_their_rows(name):
    function, row = getattr(qkv, name), OPERATIONS[name]
    shown = [part.partition("=")[0] for part in row.parameters.split(", ")]
    assert list(inspect.signature(function).parameters)[: len(shown)] == shown
    assert inspect.getsource(function).startswith(f"@explained\ndef {name}(")
    for section in ("Parameters", "Returns", "Examples"):
        assert f"\n{section}\n" in inspect.getdoc(function)


def test_classes_and_their_methods_are_documented():
    missing = []
    for name in CLASSES:
        cls = THINGS[name]
        if not (cls.__doc__ or "").strip():
            missing.append(name)
        for method in dir(cls):
            home = next((c for c in cls.__mro__ if method in vars(c)), object)
            member = vars(home).get(method)
            # What is only read is told under "Attributes" and "Parameters" of its class.
            is_method = callable(member) or isinstance(member, (classmethod, staticmethod))
            ours = home.__module__.startswith("qkv") and not method.startswith("_")
            if ours and is_method and not (inspect.getdoc(getattr(cls, method)) or "").strip():
                missing.append(f"{name}.{method}")
    assert missing == []


def test_settings_have_their_effect():
    before = qkv.get_num_threads()
    qkv.set_num_threads(1)
    assert qkv.get_num_threads() == 1
    qkv.set_num_threads(before)
    del before
    qkv.empty_cache()
    assert qkv.cached_bytes() == 0
    for wrong in (1.5, "2", None, True):
        with pytest.raises(TypeError, match=r"^set_num_threads: n must be an integer"):
            qkv.set_num_threads(wrong)
    with pytest.raises(ValueError, match=r"^set_num_threads: n must be at least 1; got 0$"):
        qkv.set_num_threads(0)
