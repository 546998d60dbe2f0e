"""Folders of sentence-transformers: which parts they have, and how they are written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..._atomic import write_files
from ..files.folders import json_writer, read_json
from .pooling import POOLINGS

SETTINGS = "config_sentence_transformers.json"


def parts_of(folder: Path) -> dict[str, Path]:
    """Return the folders of the parts that modules.json names."""
    listing = folder / "modules.json"
    if not listing.is_file():
        return {"Transformer": folder}
    parts: dict[str, Path] = {}
    order = ("Transformer", "Pooling", "Normalize")
    for entry in read_json(listing, list):
        kind, place = (entry.get("type"), entry.get("path")) if isinstance(entry, dict) else (None, None)
        if not isinstance(kind, str) or not isinstance(place, str):
            raise ValueError(f"{listing}: must hold objects with type and path; got {str(entry)[:100]}")
        name = kind.rpartition(".")[2]
        if (
            name not in order
            or name in parts
            or (parts and order.index(name) < order.index(next(reversed(parts))))
        ):
            raise ValueError(
                f"{listing}: must name a Transformer, a Pooling and maybe a Normalize; got {kind[:100]}"
            )
        if Path(place).is_absolute() or ".." in Path(place).parts or "\0" in place:
            raise ValueError(f"{listing}: must name folders below it; got {place[:100]!r}")
        parts[name] = folder / place
    if "Transformer" not in parts:
        raise ValueError(f"{listing}: must name a Transformer; got {', '.join(parts) or 'nothing'}")
    return parts


def pooling_of(path: Path, config: Any) -> tuple[str, ...]:
    entries = read_json(path)
    width = entries.get("embedding_dimension", entries.get("word_embedding_dimension", config.hidden_size))
    if width != config.hidden_size:
        raise ValueError(f"{path}: must be for rows of hidden_size = {config.hidden_size}; got {width!r}")
    if entries.get("include_prompt", True) is False:
        raise ValueError(f"{path}: include_prompt must be true; got false")
    chosen = entries.get("pooling_mode")
    if chosen is None:
        chosen = [name for name, key in POOLINGS.items() if entries.get(key)] or ["mean"]
    names = [chosen] if isinstance(chosen, str) else chosen
    if (
        not isinstance(names, list)
        or not names
        or not all(isinstance(n, str) and n in POOLINGS for n in names)
    ):
        raise ValueError(f"{path}: pooling_mode must be of {', '.join(POOLINGS)}; got {str(chosen)[:100]}")
    return tuple(names)


def prompts_of(path: Path, entries: dict[str, Any]) -> tuple[dict[str, str], str]:
    """Return the prompts by name, and the one that is written before texts unless another is asked for."""
    name, given = entries.get("default_prompt_name"), entries.get("prompts")
    prompts = {k: v for k, v in given.items() if isinstance(v, str)} if isinstance(given, dict) else {}
    if name is not None and (not isinstance(name, str) or name not in prompts):
        raise ValueError(f"{path}: default_prompt_name must be one of prompts; got {str(name)[:100]}")
    return prompts, "" if name is None else prompts[name]


def write_parts(folder: Path, encoder: Any) -> None:
    """Write what is beside the model: its tokenizer, the list of parts, and their settings."""
    parts = [
        ("", "Transformer"),
        ("1_Pooling", "Pooling"),
        *([("2_Normalize", "Normalize")] if encoder.normalize else []),
    ]
    listing = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(parts)
    ]
    for path, _ in parts[1:]:
        (folder / path).mkdir(exist_ok=True)
    chosen: dict[str, Any] = {key: name in encoder.pooling for name, key in POOLINGS.items()}
    if encoder.pooling != tuple(name for name in POOLINGS if name in encoder.pooling):  # flags have one order
        chosen = {"pooling_mode": list(encoder.pooling)}
    pooling = {"word_embedding_dimension": encoder.model.config.hidden_size, **chosen, "include_prompt": True}
    names = [name for name, prompt in encoder.prompts.items() if prompt == encoder.prompt]
    default = names[0] if encoder.prompt and names else "default" if encoder.prompt else None
    prompts = (
        encoder.prompts if not encoder.prompt or names else {**encoder.prompts, "default": encoder.prompt}
    )
    settings: Mapping[str, Any] = {
        "prompts": prompts,
        "default_prompt_name": default,
        "similarity_fn_name": encoder.similarity_fn_name,
    }
    write_files(
        [
            (folder / "modules.json", json_writer(listing)),
            (folder / "1_Pooling" / "config.json", json_writer(pooling)),
            (
                folder / "sentence_bert_config.json",
                json_writer({"max_seq_length": encoder.max_seq_length, "do_lower_case": encoder.lower_case}),
            ),
            (folder / SETTINGS, json_writer(settings)),
            *encoder.tokenizer._files(folder, encoder.max_seq_length),
        ]
    )
