"""A name that goes works, and warns where it is called."""

from __future__ import annotations

import inspect

import pytest

from qkv._deprecated import deprecated


@deprecated("new(x)", "1.3")
def old(x: int, *, more: int = 0) -> int:
    """Return the sum."""
    return x + more


def test_it_warns_at_the_callers_line_and_computes():
    with pytest.warns(
        DeprecationWarning, match=r"^old: write new\(x\); this name ends with qkv 1\.3$"
    ) as seen:
        assert old(2, more=3) == 5
    assert seen[0].filename == __file__
    assert seen[0].lineno == inspect.currentframe().f_lineno - 2


def test_signature_and_documentation_stay():
    assert str(inspect.signature(old)) == "(x: 'int', *, more: 'int' = 0) -> 'int'"
    assert old.__doc__ == "Return the sum."
