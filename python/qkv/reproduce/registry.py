"""Which experiments there are, which notebook makes each, and which of them a person asks for."""

import fnmatch
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .arrays import stored
from .checks import ID

ALL = "All documents"  # the title above notebooks whose headings name no experiment

_CHECK = re.compile(r"""check\.\w+\(\s*["'](?:F-)?(D\d-\d\d|[TX]-[A-Z]+)""")


class Experiment(NamedTuple):
    """One experiment that must be reproduced; `document` is the key of its document: D0 ... D4, X or T."""

    id: str
    title: str
    document: str


class UsageError(ValueError):
    """An argument that nothing can be run with."""


class UnknownExperimentError(UsageError):
    """An id or pattern that matches no experiment."""


def _registry() -> dict[str, Any]:
    content: dict[str, Any] = stored(Path(__file__).parent / "experiments.json")
    return content


def documents() -> dict[str, str]:
    """Return the titles of the documents, by key, in order."""
    return {key: entry["title"] for key, entry in _registry()["documents"].items()}


def experiments() -> dict[str, Experiment]:
    """Return all experiments, by id, in order."""
    return {id: Experiment(id, title, id.split("-")[0]) for id, title in _registry()["experiments"].items()}


def sources() -> dict[str, dict[str, str]]:
    """Return the language of each document and what it follows, by key."""
    return {key: entry for key, entry in _registry()["documents"].items() if "follows" in entry}


def levels() -> dict[str, str]:
    """Return for whom each notebook is, by its name without ending."""
    return {name: level for level, names in _registry()["levels"].items() for name in names}


def where_to_begin() -> dict[str, dict[str, str]]:
    """Return the notebooks to begin with, with a sentence on each and the name of a picture."""
    return dict(_registry()["begin"])


def without_qkv() -> list[str]:
    """Return the ids of experiments that are arithmetic on a document's numbers, with which qkv has nothing to do."""
    return list(_registry()["without qkv"])


def find_notebooks() -> Path:
    """Return the notebooks' folder: the checkout's if this package runs from one, else the package's."""
    package = Path(__file__).resolve().parents[1]
    checkout = package.parents[1]
    if package.parent.name == "python" and (checkout / "notebooks").is_dir():
        return checkout / "notebooks"
    return package / "notebooks"


def select(patterns: Sequence[str], known: Iterable[str]) -> list[str]:
    """Return the known ids that match an id (D0-18), a document (D1) or a pattern (D3-0*); all without any.

    Raises
    ------
    UnknownExperimentError
        If a pattern matches nothing.
    """
    known = list(known)
    chosen: set[str] = set()
    for pattern in patterns:
        upper = pattern.upper()
        found = [id for id in known if fnmatch.fnmatchcase(id, upper) or id.split("-")[0] == upper]
        if not found:
            raise UnknownExperimentError(
                f"reproduce: ids must be experiments, documents or patterns of them, such as D0-18, D1 or "
                f"'D3-0*', as 'qkv reproduce --list' shows; got {pattern!r}"
            )
        chosen.update(found)
    return [id for id in known if id in chosen] if patterns else known


def heading_ids(markdown: str) -> Iterator[list[str]]:
    """Return the ids in each heading that has some."""
    for line in markdown.splitlines():
        if line.lstrip().startswith("#"):
            ids = ID.findall(line)
            if ids:
                yield ids


def named_in_headings(cells: Iterable[Any]) -> list[str]:
    """Return the ids that the headings of a notebook's cells name, in order."""
    texts = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return list(dict.fromkeys(id for text in texts for ids in heading_ids(text) for id in ids))


def main_document(ids: Iterable[str]) -> str:
    """Return the key of the document of most ids; empty without any."""
    found = Counter(id.split("-")[0] for id in ids)
    return found.most_common(1)[0][0] if found else ""


def reading_order(folder: Path) -> list[tuple[str, list[Path]]]:
    """Return the notebooks of each document under its title, as the index of the site has them."""
    groups: dict[str, list[Path]] = {key: [] for key in (*documents(), "")}
    for path in sorted(folder.glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        groups[main_document(named_in_headings(cells))].append(path)
    titles = {**documents(), "": ALL}
    return [(titles[key], paths) for key, paths in groups.items() if paths]


def cells_with_ids(cells: Iterable[Any]) -> Iterator[tuple[Any, list[str]]]:
    """Return each cell with the ids of the last heading that has some, up to and with the cell itself."""
    ids: list[str] = []
    for cell in cells:
        if cell["cell_type"] == "markdown":
            for found in heading_ids("".join(cell["source"])):
                ids = found
        yield cell, ids


def ids_of(notebook: Path) -> list[str]:
    """Return the ids that a notebook treats: those in its headings and those that its checks name."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return list(dict.fromkeys([*named_in_headings(cells), *_CHECK.findall("\n".join(code))]))


def notebooks_by_id(folder: Path) -> dict[str, list[Path]]:
    """Give, for each id, the notebooks that treat it, in the order of their names."""
    result: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*.ipynb")):
        for id in ids_of(path):
            result.setdefault(id, []).append(path)
    return result
