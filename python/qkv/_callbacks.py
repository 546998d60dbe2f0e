"""Functions that the compiled core calls: the words of errors, what objects print, NumPy's functions, other ranks.

The core imports no module of the package; it calls what is registered here. Modules that `import qkv` does not need are
imported by the first call.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from . import _core
from ._words import errors as _errors


def _later(module: str, name: str) -> Callable[..., Any]:
    """Return a function that imports its module when it is called."""

    @functools.cache
    def function() -> Callable[..., Any]:
        return getattr(importlib.import_module(module, __package__), name)  # type: ignore[no-any-return]

    return lambda *values, **options: function()(*values, **options)


def _numpy_tables() -> dict[str, Any]:
    import numpy as np

    from . import _numpy
    from ._numpy import functions, ufuncs

    return {
        "functions": functions.answers(),
        "ufuncs": ufuncs.CALLS | ufuncs.OF_ARRAYS,
        "array": np.ndarray,
        "array_function": _numpy.array_function,
        "unsupported": _numpy.UnsupportedError,
    }


def _of_piece(function: Any, first: int) -> Any:
    """Return a formula for sequences of which the first has this number."""
    from ._formulas import of_part

    if function is None or first == 0:
        return of_part(function)
    return lambda *arguments: function(*arguments[:-4], arguments[-4] + first, *arguments[-3:])


_core.register_callbacks(
    misfit=_errors.misfit,
    refusal=_errors.refusal,
    wrong_type=_errors.wrong_type,
    no_dtype=_errors.no_dtype,
    shown=_errors.shown,
    unknown_attribute=_errors.unknown_attribute,
    tensor_repr=_later("._display.format", "tensor_repr"),
    options_of=_later(".nn.options", "options_of"),
    check_assignment=_later(".nn.options", "check_assignment"),
    module_repr=_later("._display.format", "module_repr"),
    module_html=_later("._display.html", "module_html"),
    einsum=_later("._numpy.products", "einsum"),
    places=_later("._numpy.places", "places"),
    numpy_tables=_numpy_tables,
    array_ufunc=_later("._numpy", "array_ufunc"),
    refuse_list=_later("._numpy", "refuse_list"),
    split_positions=_later(".distributed.layer", "positions"),
    split_attention=_later(".distributed.layer", "attend"),
    check_communicator=_later(".distributed.layer", "check"),
    shared_communicator=_later(".distributed.layer", "Shared"),
    traced_formula=_later("._formulas", "traced_formula"),
    of_piece=_of_piece,
)
