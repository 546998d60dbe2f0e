"""One test for many small cases, which collects its failures and names them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def sweep(names: str, cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, but the cases are parts of one test: each fails by its name, and the rest run.

    For sweeps of dozens of cases that take milliseconds. Fixtures are made once for all of them, so cases that may end
    the process, or leave something for the next, are parameters.
    """
    parts = [name.strip() for name in names.split(",")]
    every = list(cases)

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def test(*this: Any, subtests: Any, **fixtures: Any) -> None:
            assert every, "a sweep of no cases tests nothing"
            for case in every:
                if isinstance(case, type(pytest.param())):
                    values, name = case.values, case.id
                else:
                    values, name = (case,) if len(parts) == 1 else case, None
                with subtests.test(str(name or " ".join(str(value)[:60] for value in values))):
                    function(*this, **dict(zip(parts, values, strict=True)), **fixtures)

        own = inspect.signature(function)
        kept = [
            p if p.name == "self" else p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for p in own.parameters.values()
            if p.name not in parts
        ]
        subtests = inspect.Parameter("subtests", inspect.Parameter.KEYWORD_ONLY)
        test.__signature__ = own.replace(parameters=[*kept, subtests])  # type: ignore[attr-defined]
        return test

    return decorate
