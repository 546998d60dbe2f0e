"""What a GGUF file says about itself, and its tensors, whose numbers stay on the disk until they are read.

The package gguf knows the types of blocks and turns them into floats. Its own reader makes views of memory of each word
of a vocabulary, which takes 40 times as long as reading the words.
"""

from __future__ import annotations

import math
import mmap
import struct
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..._words.errors import needs

# The types of single values by their numbers in the file, as struct and NumPy call them.
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
MOST_AXES = 4
ROWS = 4096  # that become floats at a time


@dataclass(frozen=True)
class GgufTensor:
    """A tensor in a file: its type, its shape, and the bytes of its rows."""

    kind: Any
    shape: tuple[int, ...]
    rows: np.ndarray


class GgufFile:
    """An open GGUF file: ``facts`` by name, strings as bytes, and ``tensors`` by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with needs("qkv.models: GGUF files need the package gguf; install it: pip install 'qkv[gguf]'"):
            self._gguf: Any = import_module(
                "gguf"
            )  # by its name: type checkers would follow it to transformers
        if not path.is_file():
            raise FileNotFoundError(f"{path}: this file must exist; there is none")
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise ValueError(f"{path}: must be a GGUF file; it does not begin with GGUF")
            self._memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._place = 4
        try:
            version, tensors, facts = self._scalar("I"), self._scalar("Q"), self._scalar("Q")
            if version not in (2, 3):
                raise ValueError(f"its version must be 2 or 3, little-endian; got {version:#x}")
            self.facts: dict[str, Any] = {}
            for _ in range(facts):
                name = self._string().decode()
                if name in self.facts:
                    raise ValueError(f"it says {name} twice")
                self.facts[name] = self._value(self._scalar("I"))
            self.tensors = self._tensors(tensors)
        except Exception as error:  # of any kind, for a file that is cut or has wrong sizes
            raise ValueError(
                f"{path}: must be a whole GGUF file; {type(error).__name__}: {str(error)[:200]}"
            ) from None
        [parts, number] = self.said("split.count", "split.no")
        if parts not in (None, 0, 1):
            raise ValueError(
                f"{path}: must hold the whole model because qkv reads no part of one; got part {number} of {parts}, "
                "which llama-gguf-split --merge joins"
            )

    def said(self, *names: str) -> list[Any]:
        """Return facts, None for those that the file lacks."""
        return [_decoded(self.facts.get(name)) for name in names]

    def numbers(self, name: str) -> np.ndarray:
        """Read a tensor as float32."""
        tensor = self.tensors[name]
        count = math.prod(tensor.shape[:-1])
        rows, array = tensor.rows.reshape(count, tensor.rows.shape[-1]), np.empty(tensor.shape, np.float32)
        lines = array.reshape(count, tensor.shape[-1] if tensor.shape else 1)
        try:
            for i in range(0, count, ROWS):  # the package makes several arrays of this size on its way
                lines[i : i + ROWS] = self._gguf.quants.dequantize(rows[i : i + ROWS], tensor.kind)
        except NotImplementedError:
            raise ValueError(
                f"{self.path}: {name} must be of a block type that gguf reads; got {tensor.kind.name}"
            ) from None
        return array

    def _scalar(self, form: str) -> Any:
        [value] = struct.unpack_from("<" + form, self._memory, self._place)
        self._place += struct.calcsize("<" + form)
        return value

    def _string(self) -> bytes:
        size = self._scalar("Q")
        end = self._place + size
        if end > len(self._memory):
            raise ValueError(f"a string of {size} bytes goes beyond its end")
        string = self._memory[self._place : end]
        self._place = end
        return string

    def _value(self, kind: int) -> Any:
        if kind == STRING:
            return self._string()
        if kind != ARRAY:
            return self._scalar(SCALARS[kind])
        kind, count = self._scalar("I"), self._scalar("Q")
        if kind not in SCALARS:
            return [self._value(kind) for _ in range(count)]
        numbers = np.frombuffer(self._memory, "<" + SCALARS[kind], count, self._place)
        self._place += numbers.nbytes
        return numbers.tolist()

    def _tensors(self, count: int) -> dict[str, GgufTensor]:
        places = {}
        for _ in range(count):
            name, axes = self._string().decode(), self._scalar("I")
            if name in places or axes > MOST_AXES:
                raise ValueError(
                    f"{name[:100]!r} must be there once, with {MOST_AXES} axes at most; got {axes}"
                )
            shape = tuple(self._scalar("Q") for _ in range(axes))[::-1]
            places[name] = (shape, self._scalar("I"), self._scalar("Q"))
        [alignment] = self.said("general.alignment")
        begin = self._place + -self._place % (32 if alignment is None else alignment)
        return {name: self._tensor(name, begin, *place) for name, place in places.items()}

    def _tensor(self, name: str, begin: int, shape: tuple[int, ...], kind: int, offset: int) -> GgufTensor:
        constants = self._gguf.constants
        block, size = constants.GGML_QUANT_SIZES[known := constants.GGMLQuantizationType(kind)]
        width = shape[-1] if shape else 1
        if width % block:
            raise ValueError(f"{name[:100]!r} must have rows of whole blocks of {block} numbers; got {width}")
        lengths = (*shape[:-1], width // block * size)
        rows = np.frombuffer(self._memory, np.uint8, math.prod(lengths), begin + offset)
        return GgufTensor(known, shape, rows.reshape(lengths))


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(part) for part in value]
    return value.decode() if isinstance(value, bytes) else value
