"""The golden arrays: stored inputs, parameters, outputs and gradients of the documents' experiments."""

import functools
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._public import explained

DATA = Path(__file__).parent / "data"

_arrays: dict[str, np.ndarray] = {}
_key_of_buffer: dict[int, str] = {}


class Tolerance(NamedTuple):
    """The largest accepted error is ``atol + rtol * |expected|``."""

    rtol: float
    atol: float


# Who made a stored array, if it was not PyTorch: what a document prints, and what was counted or written by hand.
_MADE = {
    "document": "D1-03/embeddings D1-03/context_printed D3-22/embedding D3-25/document_claim",
    "hand": "D0-01/keys D0-01/values D0-01/query D0-01/hard_weights D0-01/hard_result D0-01/mean_pooling_result "
    "D0-03/attention_weights D1-01/alignment D1-03/document_error D3-05/counts D3-08/E D3-09/table "
    "D3-09/sequential_steps D3-09/max_path_length D3-09/self_attention_cheaper_than_rnn D3-25/counts D3-25/tiny_bert "
    "D3-31/tokens D3-31/epochs",
}
_made_by = {key: maker for maker, keys in _MADE.items() for key in keys.split()}

FLOAT64 = Tolerance(1e-9, 1e-11)
FLOAT32 = Tolerance(1e-5, 2e-6)


def digest(array: np.ndarray) -> str:
    """Return a hash of an array's dtype, shape and bytes: machines that give the same bits give the same."""
    head = f"{array.dtype.str} {array.shape} ".encode()
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


class Golden(Mapping[str, np.ndarray]):
    """The arrays of one group, by name, read-only; ``about`` is what the index says about the group."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.about: dict[str, Any] = dict(index()["cases"][group])
        prefix = group + "/"
        self._keys = {key[len(prefix) :]: key for key in index()["arrays"] if key.startswith(prefix)}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._keys:
            raise KeyError(
                f"golden: group {self.group} has no array {name!r}; it has {', '.join(self._keys)}"
            )
        return load(self._keys[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"golden({self.group!r}): {self.about.get('title', '')}; {', '.join(self._keys)}"

    def select(self, prefix: str) -> dict[str, np.ndarray]:
        """Return the arrays whose name starts with `prefix`, named without it."""
        return {name[len(prefix) :]: self[name] for name in self._keys if name.startswith(prefix)}


@explained
def golden(group: str) -> Golden:
    """Return the golden arrays of a group, such as ``golden("D0-18")``.

    Parameters
    ----------
    group : str
        Name of the group; the experiment's id in most cases.

    Returns
    -------
    Golden
        Mapping from names to read-only arrays. Inputs and parameters that float32 can hold are stored in
        float32: convert them with ``.astype("float64")`` to compute in float64.

    Raises
    ------
    ValueError
        If there is no such group.

    Examples
    --------
    >>> golden("D0-18")["keys"].shape
    (2, 10, 2)
    """
    if group not in index()["cases"]:
        raise ValueError(f"golden: group must be one of the stored groups, such as D0-18; got {group!r}")
    return Golden(group)


@functools.cache
def stored(path: Path) -> Any:
    """Read a file of JSON that is part of the package."""
    return json.loads(path.read_text(encoding="utf-8"))


def index() -> dict[str, Any]:
    """Read the index: per array its tolerance and description, per group its settings and printed text."""
    content: dict[str, Any] = stored(DATA / "golden_index.json")
    return content


@functools.cache
def figures() -> dict[str, dict[str, Any]]:
    """Read the descriptions of the pictures, by their id."""
    return {entry["id"]: entry for entry in stored(DATA / "figures.json")}


def load(key: str) -> np.ndarray:
    """Return the array ``"group/name"``, or a part of it: ``"group/name[0,1]"``."""
    part = re.fullmatch(r"(.+)\[([0-9, ]+)\]", key)
    if part and key not in index()["arrays"]:
        piece: np.ndarray = load(part[1])[tuple(int(i) for i in part[2].split(","))]
        return piece
    if key not in _arrays:
        if key not in index()["arrays"]:
            raise KeyError(f"golden: there is no array {key!r}")
        with np.load(DATA / "golden.npz") as archive:
            # It owns its memory, so that views lead back to it.
            array: np.ndarray = np.array(archive[key], order="C")
        array.flags.writeable = False
        _arrays[key] = array
        _key_of_buffer[id(array)] = key
    return _arrays[key]


def value(given: Any) -> np.ndarray:
    """Return an array: a golden one by its name, or a notebook's own."""
    return load(given) if isinstance(given, str) else np.asarray(given)


def key_of(array: object) -> str | None:
    """Name the golden array that this one is, or is a view of; None for any other array."""
    while array is not None:
        if id(array) in _key_of_buffer and _arrays[_key_of_buffer[id(array)]] is array:
            return _key_of_buffer[id(array)]
        array = getattr(array, "base", None)
    return None


def made_by(key: str) -> str:
    """Say who made a stored array: "document", "hand" or "pytorch"."""
    return _made_by.get(key, "pytorch")


def tolerance(dtype: np.dtype, key: str | None = None) -> Tolerance:
    """Return the tolerance for a result of type `dtype` against the golden array `key`."""
    basic = FLOAT64 if dtype.itemsize >= 8 else FLOAT32
    if key is None:
        return basic
    entry = index()["arrays"][key]
    if dtype.itemsize >= 8 and not (entry["rtol"] == 0 and entry["atol"] == 0):
        return Tolerance(entry["rtol"], entry["atol"])
    return Tolerance(max(basic.rtol, entry["rtol"]), max(basic.atol, entry["atol"]))
