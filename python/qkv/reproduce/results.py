"""What came of each notebook, and the file of results that a later run adds to."""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import figures
from .compare import FIELDS, record
from .display import MIME, line
from .registry import cells_with_ids

NAME = "results.json"
FORMAT = 1


class ResultsError(OSError):
    """Results of an earlier run that cannot be read."""


@dataclass
class Picture:
    """A figure that a notebook drew, with the experiments that it belongs to and what is seen on it."""

    name: str
    ids: list[str]
    png: bytes
    caption: str = ""


@dataclass
class Result:
    """What came of one notebook; `made` says when, how long it took and with which version of qkv."""

    path: Path
    notebook: Any
    error: str | None = None
    cell: int | None = None  # where the error was
    made: dict[str, Any] = field(default_factory=dict)
    records: list[dict[str, Any]] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)

    @property
    def failures(self) -> list[dict[str, Any]]:
        return [made for made in self.records if made["state"] == "failed"]


def outputs(notebook: Any) -> Iterator[tuple[Any, Any, list[str]]]:
    """Return each output with its cell and the experiments of the heading above it."""
    for cell, ids in cells_with_ids(notebook.cells):
        for output in cell.get("outputs", ()):
            yield cell, output, ids


def is_figure(output: Any) -> bool:
    """Say whether an output is a figure; a view with a script has a picture beside its HTML, for other readers."""
    data = output.get("data", {})
    return "image/png" in data and "text/html" not in data


def read_records(result: Result) -> None:
    """Take the checks out of the notebook's outputs."""
    place = {"notebook": result.path.name}
    result.records = [{**made, **place, "cell": cell.execution_count} for cell, made in _shown(result)]


def _shown(result: Result) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Return each check in the notebook's outputs with its cell."""
    for cell, output, _ in outputs(result.notebook):
        if MIME in output.get("data", {}):
            yield cell, output.data[MIME]


def take_pictures(result: Result) -> None:
    """Take the figures out of the notebook's outputs, and leave there what every notebook shows.

    A figure that no check of the notebook compared is a failure of its experiments.
    """
    compared = {made["picture"]: made.get("figure", "") for _, made in _shown(result) if "picture" in made}
    for cell, output, ids in list(outputs(result.notebook)):
        data = output.get("data", {})
        larger = data.pop(figures.MIME, {})
        number = int(larger.get("number", 0))
        if "number" in larger and number not in compared:
            cell.outputs += [_not_compared(id) for id in ids]
        if is_figure(output):
            png = base64.b64decode(larger.get("png", data["image/png"]))
            caption = larger.get("caption", "")
            result.pictures.append(Picture(compared.get(number, ""), ids, png, caption))


def _not_compared(id: str) -> Any:
    import nbformat

    goal = "what its panels must hold, by check.picture"
    made = record(id, "picture", "picture", goal, "a picture that nothing compares", "failed")
    jupyter: Any = nbformat
    return jupyter.v4.new_output("display_data", {MIME: made, "text/plain": line(made)})


def name_pictures(results: Iterable[Result]) -> None:
    """Name each picture that has no name of its own after its first experiment, or its notebook, and count them."""
    names = {picture.name for result in results for picture in result.pictures}
    for result in results:
        for picture in result.pictures:
            if not picture.name:
                base = picture.ids[0] if picture.ids else result.path.stem
                numbered = (f"{base}-{number}" for number in range(2, 10**6))
                picture.name = next(name for name in (base, *numbered) if name not in names)
                names.add(picture.name)


def write(folder: Path, results: Iterable[Result], about: Mapping[str, Any]) -> None:
    """Write the file of results: everything but the notebooks and the figures themselves."""
    content = {
        "format": FORMAT,
        **about,
        "notebooks": {
            result.path.name: {
                "error": result.error,
                "cell": result.cell,
                "made": result.made,
                "pictures": [{"name": p.name, "ids": p.ids, "caption": p.caption} for p in result.pictures],
                "checks": [
                    {key: made[key] for key in (*FIELDS, "cell", "hash") if key in made}
                    | {"source": made.get("source", "own")}
                    for made in result.records
                ],
            }
            for result in results
        },
    }
    text = json.dumps(content, ensure_ascii=False, indent=1)
    (folder / NAME).write_text(text + "\n", encoding="utf-8")


def about(folder: Path) -> dict[str, Any]:
    """Read the file of results; empty if there is none.

    Raises
    ------
    ResultsError
        If it is not what this version writes.
    """
    path = folder / NAME
    if not path.exists():
        return {}
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        known = content["format"] == FORMAT and isinstance(content["notebooks"], dict)
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ResultsError(_unreadable(path)) from error
    if not known:
        raise ResultsError(_unreadable(path))
    return content


def read(folder: Path, content: Mapping[str, Any]) -> list[Result]:
    """Read the notebooks and figures of an earlier run, as its file of results lists them."""
    import nbformat

    jupyter: Any = nbformat
    results = []
    try:
        for name, entry in content.get("notebooks", {}).items():
            notebook = jupyter.read(folder / "notebooks" / name, as_version=4)
            result = Result(Path(name), notebook, entry["error"], entry["cell"], entry["made"])
            for p in entry["pictures"]:
                png = (folder / "figures" / f"{p['name']}.png").read_bytes()
                result.pictures.append(Picture(p["name"], p["ids"], png, p["caption"]))
            read_records(result)
            results.append(result)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResultsError(_unreadable(folder / NAME)) from error
    return results


def _unreadable(path: Path) -> str:
    return (
        f"reproduce: results of an earlier run must be readable because this run adds to them; "
        f"got {path}, or a file that it names, which is damaged or of another version: remove it to start anew"
    )
