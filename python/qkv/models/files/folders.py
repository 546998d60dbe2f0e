"""Files of a pretrained model's folder; what does not fit in one is a ValueError that names it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..._atomic import Writer, write_files
from ..._words.errors import needs

# How NumPy reads the types of safetensors.
NUMBERS = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2"}
LARGEST_JSON = 200_000_000  # bytes; tokenizers of large vocabularies have some 20 million


def checked_folder(operation: str, folder: str | os.PathLike[str]) -> Path:
    """Return the folder as a path, if it is one."""
    path = Path(folder)
    if not path.exists():
        raise FileNotFoundError(f"{operation}: folder must exist; got {path}")
    if not path.is_dir():
        raise NotADirectoryError(
            f"{operation}: folder must be a folder with config.json; got the file {path}"
        )
    return path


def read_json(path: Path, kind: type = dict) -> Any:
    """Read a file that holds a JSON object (or list)."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: this file must exist; there is none")
    if path.stat().st_size > LARGEST_JSON:
        raise ValueError(f"{path}: must be at most {LARGEST_JSON} bytes of JSON; got {path.stat().st_size}")
    try:
        value = json.loads(path.read_text(encoding="utf8"))
    except RecursionError:
        raise ValueError(f"{path}: must hold JSON that is not nested without end") from None
    except ValueError as error:  # not JSON, not UTF-8, numbers of thousands of digits
        raise ValueError(f"{path}: must hold JSON; {error}") from None
    if not isinstance(value, kind):
        names: dict[Any, str] = {dict: "object", list: "list"}
        raise ValueError(f"{path}: must hold a JSON {names[kind]}; got {_what(value)}")
    return value


def optional_json(path: Path) -> dict[str, Any]:
    """Read an object of JSON from a file that may be missing."""
    found: dict[str, Any] = read_json(path) if path.is_file() else {}
    return found


def _what(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def safetensors() -> Any:
    """Import the package when it is needed."""
    with needs("qkv.models: weights need the package safetensors; install it: pip install 'qkv[models]'"):
        import safetensors
        import safetensors.numpy
    return safetensors


class Weights:
    """The tensors of model.safetensors, or of the files that model.safetensors.index.json names, read one by one."""

    told = "config.json"  # where the configuration is

    def shown(self, name: str) -> str:
        """Return the file's own name of a tensor."""
        return name

    def __init__(self, folder: Path) -> None:
        self._library = safetensors()
        single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
        self.path = single
        self._files: dict[str, Path] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        pickled = folder / "pytorch_model.bin"
        if pickled.is_file() and not single.is_file() and not index.is_file():
            raise ValueError(
                f"{folder}: pytorch_model.bin must be saved as model.safetensors because reading a pickle runs code; "
                "got no model.safetensors"
            )
        if single.is_file() or not index.is_file():
            self._list(single, None)
            return
        self.path = index
        places = read_json(index).get("weight_map")
        if not isinstance(places, dict) or not all(isinstance(v, str) for v in places.values()):
            raise ValueError(f"{index}: must hold weight_map, an object from tensors to files")
        for name in sorted(set(places.values())):
            if Path(name).name != name or not name.endswith(".safetensors"):
                raise ValueError(f"{index}: must name safetensors files beside it; got {name!r}")
            self._list(folder / name, {tensor for tensor, file in places.items() if file == name})

    def _open(self, path: Path) -> Any:
        try:
            return self._library.safe_open(path, framework="numpy")
        except FileNotFoundError:
            raise FileNotFoundError(f"{path}: this file with the weights must exist; there is none") from None
        except (self._library.SafetensorError, ValueError, OSError, MemoryError) as error:
            raise ValueError(f"{path}: must be a whole safetensors file; {error}") from None

    def _list(self, path: Path, wanted: set[str] | None) -> None:
        if not path.is_file():
            raise FileNotFoundError(f"{path}: this file with the weights must exist; there is none")
        with self._open(path) as file:
            found = set(file.keys())
            if wanted is not None and wanted - found:
                raise ValueError(
                    f"{path}: must hold all tensors of the index; missing: {listed(sorted(wanted - found))}"
                )
            for name in found if wanted is None else wanted:
                self._files[name] = path
                self.shapes[name] = tuple(file.get_slice(name).get_shape())

    def read(self, names: Mapping[str, str]) -> Iterator[tuple[str, np.ndarray]]:
        """Read the tensors under `names` (the model's name to the file's), one at a time."""
        for path in sorted({self._files[name] for name in names.values()}):
            with path.open("rb") as file:
                begin = 8 + (length := int.from_bytes(file.read(8), "little"))
                header = json.loads(file.read(length))
                for own, name in names.items():
                    if self._files[name] == path:
                        yield own, self._array(file, path, name, header[name], begin)

    def _array(
        self, file: BinaryIO, path: Path, name: str, entry: Mapping[str, Any], begin: int
    ) -> np.ndarray:
        """Read a tensor by itself: of a file that is mapped, all that was read would stay in memory."""
        if (kind := NUMBERS.get(entry["dtype"])) is None:
            raise ValueError(f"{path}: {name} must hold floating numbers; got {entry['dtype']}")
        first, last = entry["data_offsets"]
        file.seek(begin + first)
        numbers = np.fromfile(file, kind, (last - first) // np.dtype(kind).itemsize)
        if numbers.nbytes != last - first:
            raise ValueError(f"{path}: must be a whole safetensors file; got a part of {name}")
        if entry["dtype"] == "BF16":  # which NumPy has no type for
            words = numbers.astype(np.uint32)
            words <<= 16
            numbers = words.view(np.float32)
        return numbers.reshape(self.shapes[name])


def listed(names: list[str]) -> str:
    """Return the first of some names, and how many more there are."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def check_shape(weights: Any, name: str, expected: tuple[Any, ...]) -> None:
    """Compare the shape of a tensor in a file with the configuration."""
    if (held := weights.shapes[name]) != expected:
        raise ValueError(
            f"{weights.path}: {weights.shown(name)} must be {expected} as {weights.told} says; got {held}"
        )


def json_writer(value: Any) -> Writer:
    """Return what writes JSON as Hugging Face's libraries do."""
    return bytes_writer(
        (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode("utf8")
    )


def bytes_writer(content: bytes) -> Writer:
    """Return what writes a file of these bytes."""
    return lambda file: file.write(content)


def weights_writer(arrays: Mapping[str, np.ndarray]) -> Writer:
    """Return what writes a safetensors file; "pt" is what Hugging Face's libraries expect to read.

    Written here and not by the library, whose errors are not OSErrors and whose temporary files stay when it is killed.
    """
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in names:
        array = arrays[name]
        begin, end = end, end + array.nbytes
        kind = {"f": "F", "i": "I"}[array.dtype.kind] + str(8 * array.dtype.itemsize)
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # numbers begin at a multiple of 8 bytes

    def write(file: BinaryIO) -> None:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            array = np.ascontiguousarray(arrays[name], arrays[name].dtype.newbyteorder("<"))
            file.write(array.reshape(-1).view(np.uint8).data)

    return write


def write_model(
    folder: str | os.PathLike[str],
    entries: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    generation: Mapping[str, Any] | None = None,
) -> None:
    """Write the files of a model into a folder: the configuration, its parameters, how it generates."""
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"save_pretrained: folder must be a folder; got the file {path}")
    path.mkdir(parents=True, exist_ok=True)
    entries = {**entries, "dtype": str(next(iter(arrays.values())).dtype)}
    entries.pop("torch_dtype", None)
    files = [
        (path / "config.json", json_writer(entries)),
        (path / "model.safetensors", weights_writer(arrays)),
    ]
    if generation is not None:
        files.append((path / "generation_config.json", json_writer(dict(generation))))
    write_files(files)
