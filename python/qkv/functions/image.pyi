"""Types of image.py. Written by tools/function_stubs.py; change that."""

from __future__ import annotations

from typing import Any, Literal, overload

from numpy.typing import NDArray
from typing_extensions import Unpack

from .._core import Tensor
from .._types import Arrays, Numbers, Result
from .attention import ImageOptions

@overload
def attention_image(
    query: Tensor,
    key: Numbers,
    *,
    size: tuple[int, int] = (512, 512),
    reduce: Literal["max", "mean"] = "max",
    rows: tuple[int, int] | None = None,
    columns: tuple[int, int] | None = None,
    **options: Unpack[ImageOptions],
) -> Tensor: ...
@overload
def attention_image(
    query: Numbers,
    key: Tensor,
    *,
    size: tuple[int, int] = (512, 512),
    reduce: Literal["max", "mean"] = "max",
    rows: tuple[int, int] | None = None,
    columns: tuple[int, int] | None = None,
    **options: Unpack[ImageOptions],
) -> Tensor: ...
@overload
def attention_image(
    query: Arrays,
    key: Arrays,
    *,
    size: tuple[int, int] = (512, 512),
    reduce: Literal["max", "mean"] = "max",
    rows: tuple[int, int] | None = None,
    columns: tuple[int, int] | None = None,
    **options: Unpack[ImageOptions],
) -> NDArray[Any]: ...
@overload
def attention_image(
    query: Numbers,
    key: Numbers,
    *,
    size: tuple[int, int] = (512, 512),
    reduce: Literal["max", "mean"] = "max",
    rows: tuple[int, int] | None = None,
    columns: tuple[int, int] | None = None,
    **options: Unpack[ImageOptions],
) -> Result: ...
def picture(size: Any, reduce: Any, rows: Any, columns: Any) -> tuple[Any, ...]: ...
def _pair(name: str, pair: Any) -> tuple[int, int]: ...
