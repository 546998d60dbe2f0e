"""Files of arrays and facts that are written whole or not at all, and recognised when they are damaged.

A file is an ordinary ``.npz``: ``numpy.load`` opens it. Its entry ``facts`` holds JSON and the SHA-256 digest of
everything else. Nothing is pickled, so that opening a file from others runs no code of theirs.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from .._atomic import write_file
from .._public import explained

FORMAT = 1
FACTS = "facts"
_ENDING = ".npy"
_LONGEST_NAME = 2**16 - 1 - len(_ENDING)  # bytes


class CheckpointError(ValueError):
    """A file that is damaged, is no checkpoint, or belongs to another run."""


@explained
def save_arrays(
    path: str | os.PathLike[str], arrays: Mapping[str, Any], facts: Mapping[str, Any] | None = None
) -> None:
    """Write arrays and JSON facts to one file, atomically.

    Everything goes to a temporary file in the same folder first, is forced to the disk, and then takes the name
    ``path`` in one step: a process that is killed at any moment leaves the old file or the new one under ``path``,
    never a part. Several processes may write to one ``path``; the last one wins.

    Parameters
    ----------
    path : path
    arrays : mapping from str to array or Tensor
        Numbers and booleans, under any names but ``facts``, which is taken.
    facts : mapping, optional
        Anything that JSON can hold.

    Raises
    ------
    ValueError
        If a name is taken or a zip archive cannot hold it, or an array holds objects.
    TypeError
        If JSON cannot hold ``facts``.
    OSError
        If the file cannot be written; then ``path`` is as it was.

    Examples
    --------
    >>> qkv.training.save_arrays("numbers.npz", {"x": np.arange(3)}, {"made by": "an example"})
    >>> qkv.training.load_arrays("numbers.npz")
    ({'x': array([0, 1, 2])}, {'made by': 'an example'})
    """
    tables = {str(name): np.asarray(value) for name, value in arrays.items()}
    for name, table in tables.items():
        if name == FACTS or table.dtype.kind not in "biuf":
            raise ValueError(
                f"save_arrays: arrays must hold numbers or booleans under names other than {FACTS!r}; "
                f"got {name!r} with dtype {table.dtype}"
            )
    _check_names(arrays, tables)
    text = json.dumps({} if facts is None else facts)
    page = json.dumps({"format": FORMAT, "facts": text, "digest": _digest(tables, text)})
    entries: dict[str, Any] = {FACTS: np.frombuffer(page.encode(), np.uint8), **tables}
    write_file(path, lambda file: _write(file, entries))


@explained
def load_arrays(path: str | os.PathLike[str]) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what :func:`save_arrays` wrote.

    Parameters
    ----------
    path : path

    Returns
    -------
    arrays : dict from str to ndarray
    facts : dict

    Raises
    ------
    CheckpointError
        If the file is damaged or of another kind.
    OSError
        If there is no file or it cannot be read.

    Examples
    --------
    >>> qkv.training.save_arrays("numbers.npz", {"x": np.ones(2)}, {})
    >>> qkv.training.load_arrays("numbers.npz")[0]["x"]
    array([1., 1.])
    """
    with Path(path).open("rb") as file:
        file.seek(0, os.SEEK_END)
        size = file.tell()
        file.seek(0)
        try:
            tables = _read(file)
            page = json.loads(tables.pop(FACTS).tobytes())
            version, text, digest = page["format"], page["facts"], page["digest"]
            whole = digest == _digest(tables, text)
            facts: dict[str, Any] = json.loads(text)
        except MemoryError:  # a damaged header may claim any size
            raise _damaged(path, size, "its sizes make no sense") from None
        except Exception as error:  # anything that a damaged archive makes its readers raise
            raise _damaged(path, size, str(error) or type(error).__name__) from error
    if version != FORMAT:
        raise CheckpointError(
            f"load_arrays: {os.fspath(path)} must have format {FORMAT} because this version of qkv reads no "
            f"other; got {version!r}"
        )
    if not whole:
        raise _damaged(path, size, "its digest differs from its content")
    return tables, facts


def _check_names(arrays: Mapping[Any, Any], tables: Mapping[str, Any]) -> None:
    """Refuse what comes back under another name: an archive's are UTF-8 of at most 2^16 bytes without a zero."""
    if len(tables) != len(arrays):
        raise ValueError("save_arrays: arrays must have different names; got some that are spelled the same")
    for name in tables:
        try:
            kept = len(name.encode()) <= _LONGEST_NAME and "\0" not in name
        except UnicodeEncodeError:  # half a character
            kept = False
        if not kept:
            raise ValueError(
                f"save_arrays: names must be text of at most {_LONGEST_NAME} bytes without a zero because the archive "
                f"holds no others; got {name[:40]!r}"
            )


def _write(file: BinaryIO, entries: Mapping[str, NDArray[Any]]) -> None:
    """Write what ``np.load`` opens. ``np.savez`` takes the arrays as keywords, next to its own."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, table in entries.items():
            with archive.open(name + _ENDING, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, table, allow_pickle=False)


def _read(file: BinaryIO) -> dict[str, NDArray[Any]]:
    """Read all arrays. ``np.load`` cannot tell ``x`` from ``x.npy``."""
    tables = {}
    with zipfile.ZipFile(file) as archive:
        for place in archive.infolist():
            with archive.open(place) as member:
                tables[place.filename.removesuffix(_ENDING)] = np.lib.format.read_array(
                    member, allow_pickle=False
                )
    return tables


def _damaged(path: str | os.PathLike[str], size: int, why: str) -> CheckpointError:
    return CheckpointError(
        f"load_arrays: {os.fspath(path)} must be a whole file of save_arrays; got {size} bytes that are "
        f"damaged or of another kind ({' '.join(why.split())})"
    )


def _digest(tables: Mapping[str, NDArray[Any]], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tables):
        table = np.ascontiguousarray(tables[name])
        digest.update(f"\0{name}\0{table.dtype.str}\0{tables[name].shape}\0".encode())
        digest.update(table.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
