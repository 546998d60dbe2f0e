"""Entries that are given beside a file or by hand: each must change what is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from ..._words.errors import closest, keyword_hint
from ..architectures.configuration import Configuration
from ..architectures.entries import NEVER, OTHER_NAMES, SAME
from ..architectures.table import Architecture
from ..generation.settings import ENTRIES as GENERATION

# That every architecture has.
COMMON = {"architectures", "id2label", "label2id", "model_type", "num_labels", *NEVER}


def known_entries(table: Architecture, config: Configuration, head: str | None) -> Set[str]:
    """Return the entries that a model of this configuration is made by, in every spelling."""
    table.bodies(config)  # asks for entries that have no defaults; so does a head
    if head is not None and head in table.heads:
        table.heads[head].options(config)
    known = config.known | COMMON | (set() if table.kind in ("encoder", "image") else set(GENERATION))
    return known | {name for name, others in OTHER_NAMES.items() if known & {name, *others}}


def check_changes(operation: str, changes: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a change that would change nothing."""
    names = sorted(known)
    for name in changes:
        if name not in names:
            meant = [other for other in names if other not in NEVER]
            hint = keyword_hint(name, meant, "ENTRIES") or f"a configuration has {', '.join(meant)}"
            raise TypeError(f"{operation}: got an unexpected argument {name}; {hint}")


def check_spelling(entries: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse an entry that is most likely another one, misspelled; a config.json may hold any others."""
    names = set(known)
    for name in entries:
        if name not in names | {*SAME} and (meant := closest(name, names)) is not None:
            raise TypeError(f"got an unexpected entry {name}; did you mean {meant}?")


def table_of_entries(table: Architecture) -> dict[str, str]:
    """Return what becomes of each entry of a type's config.json: "computed", "refused", or why it changes nothing.

    Refused are those that have one value; any others are computed.
    """
    config = table.configuration({"model_type": table.model_type})
    computed: set[str] = set()
    for head in (None, *table.heads):
        computed |= known_entries(table, config, head)
    limits = {**NEVER, **table.allowed}
    one = {name for name, values in limits.items() if len([v for v in values if v not in (None, {}, [])]) < 2}
    return {
        **SAME,
        **dict.fromkeys(computed, "computed"),
        **dict.fromkeys(one, "refused"),
    }
