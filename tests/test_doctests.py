"""Every example in a docstring prints what it says, with qkv and np at hand."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import sys

import numpy as np
import pytest
from sweep import sweep

import qkv
from qkv import _core

FLAGS = doctest.NORMALIZE_WHITESPACE
PLOTS = ("qkv.plot", "qkv.reproduce")  # need matplotlib

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(qkv.__path__, "qkv.")
    if not module.name.endswith(("__main__", "._core"))
)
CLASSES = sorted(name for name, thing in vars(_core).items() if inspect.isclass(thing))


def examples(thing: object, name: str, scope: dict[str, object]) -> list[doctest.DocTest]:
    parts = doctest.DocTestParser()
    text = inspect.cleandoc(getattr(thing, "__doc__", None) or "")
    test = parts.get_doctest(text, {"qkv": qkv, "np": np, **scope}, name, None, 0)
    return [test] if test.examples else []


def run(tests: list[doctest.DocTest]) -> None:
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    printed: list[str] = []
    for test in tests:
        qkv.manual_seed(0)
        runner.run(test, out=printed.append)
    assert runner.failures == 0, "".join(printed)


def module_tests(module: object) -> list[doctest.DocTest]:
    """Return the examples of the functions and classes that the module defines."""
    scope = vars(module)
    tests = examples(module, module.__name__, scope)
    for name, thing in scope.items():
        if getattr(thing, "__module__", None) != module.__name__ or not (
            inspect.isclass(thing) or callable(thing)
        ):
            continue
        tests += examples(thing, f"{module.__name__}.{name}", scope)
        if inspect.isclass(thing):
            for method, value in vars(thing).items():
                if inspect.isfunction(inspect.unwrap(value)) or isinstance(
                    value, (property, classmethod, staticmethod)
                ):
                    tests += examples(value, f"{module.__name__}.{name}.{method}", scope)
    return tests


@sweep("name", MODULES)
def test_module(name, tmp_path, monkeypatch):
    if name.startswith(PLOTS):
        pytest.importorskip("matplotlib")
    if name.startswith("qkv.pytorch"):
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    run(module_tests(importlib.import_module(name)))
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@sweep("name", CLASSES)
def test_class_of_the_core(name):
    kind = getattr(_core, name)
    tests = examples(kind, name, {})
    for method, value in vars(kind).items():
        tests += examples(value, f"{name}.{method}", {})
    run(tests)


def test_every_public_function_has_an_example():
    without = []
    for name in qkv.__all__:
        thing = getattr(qkv, name)
        if (inspect.isfunction(inspect.unwrap(thing)) or inspect.isclass(thing)) and ">>>" not in (
            thing.__doc__ or ""
        ):
            without.append(name)
    assert without == []


def test_every_layer_has_an_example():
    layers = [getattr(qkv.nn, name) for name in qkv.nn.__all__]
    assert [x.__name__ for x in layers if inspect.isclass(x) and ">>>" not in (x.__doc__ or "")] == []


def test_a_wrong_example_is_noticed():
    def double(x):
        """Twice as much.

        >>> 2 * 2
        5
        """

    with pytest.raises(AssertionError, match="Expected"):
        run(examples(double, "double", {}))
