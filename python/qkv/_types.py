"""What functions take and give, for annotations.

A function that gives a Tensor if an argument is one, and an array if none is, returns a ``Result``; the stub beside its
file has both cases apart, see tools/function_stubs.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._core import Tensor

Numbers: TypeAlias = Tensor | ArrayLike
Arrays: TypeAlias = NDArray[Any] | np.generic | complex | Sequence[Any]  # without Tensors
Result: TypeAlias = Any
