"""Golden arrays for the tests: ``golden("D0-18")["queries"]``, and comparisons with the stored tolerances."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tolerances import TOLERANCES

DATA = Path(__file__).parents[1] / "python" / "qkv" / "reproduce" / "data"


@functools.cache
def _files() -> tuple[Mapping[str, np.ndarray], dict[str, Any]]:
    index = json.loads((DATA / "golden_index.json").read_text(encoding="utf8"))
    with np.load(DATA / "golden.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}, index


class Group:
    """The arrays of one group; floats come as float64 unless `dtype` says otherwise."""

    def __init__(self, name: str, dtype: str = "float64") -> None:
        arrays, index = _files()
        self.name, self.dtype, self.facts = name, dtype, index["cases"][name]
        self.entries = {k.split("/", 1)[1]: m for k, m in index["arrays"].items() if m["case"] == name}
        self.arrays = {k: arrays[f"{name}/{k}"] for k in self.entries}

    def __getitem__(self, key: str) -> np.ndarray:
        array = self.arrays[key]
        return array.astype(self.dtype) if array.dtype.kind == "f" else array

    def get(self, key: str) -> np.ndarray | None:
        return self[key] if key in self.arrays else None

    def names(self, role: str) -> list[str]:
        return [k for k, m in self.entries.items() if m["role"] == role]

    def params(self, prefix: str = "") -> dict[str, np.ndarray]:
        """Return the parameters below `prefix`, without it."""
        return {k[len(prefix) :]: self[k] for k in self.names("param") if k.startswith(prefix)}

    def close(self, key: str, actual: Any, expected: Any = None, tolerance: str | None = None) -> None:
        """Compare with the stored array, or with `expected`: the stored one in our conventions."""
        entry = self.entries[key]
        actual = np.asarray(actual)
        expected = self[key] if expected is None else np.asarray(expected)
        assert actual.shape == expected.shape, (
            f"{self.name}/{key}: {actual.shape} instead of {expected.shape}"
        )
        rtol, atol = entry["rtol"], entry["atol"]
        if tolerance is not None:
            rtol, atol = TOLERANCES[tolerance]
        elif expected.dtype.kind == "f":
            wider = TOLERANCES["float32" if "float32" in (entry["dtype"], self.dtype) else "same formula"]
            rtol, atol = max(rtol, wider[0]), max(atol, wider[1])
        np.testing.assert_allclose(actual, expected, rtol, atol, err_msg=f"{self.name}/{key}")

    def close_all(self, actual: Mapping[str, Any], without: tuple[str, ...] = ()) -> None:
        """Compare every output of the group; one that is neither in `actual` nor in `without` is an error."""
        outputs = set(self.names("output"))
        assert outputs == set(actual) | set(without), outputs ^ (set(actual) | set(without))
        for key, value in actual.items():
            self.close(key, value)


def golden(name: str, dtype: str = "float64") -> Group:
    return Group(name, dtype)
