"""Folders of sentence-transformers: which parts they have, and how they are written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..._atomic import write_files
from ..architectures.table import MODEL_TYPES, architecture_of
from ..families.auto import from_pretrained
from ..files.folders import json_writer, optional_json, read_json, weights_writer
from ..text.saving import saved_files
from ..text.tokens import Tokenizer
from .dense import read_dense
from .pooling import POOLINGS
from .sentence_entries import MODULES, POOLING, SETTINGS, TRANSFORMER

CONFIG = "config_sentence_transformers.json"
ORDER = ("Transformer", "Pooling", "Dense", "Normalize")


def parts_of(folder: Path) -> list[tuple[str, Path]]:
    """Return the parts that modules.json names, in order, and their folders."""
    listing = folder / "modules.json"
    if not listing.is_file():
        return [("Transformer", folder)]
    parts: list[tuple[str, Path]] = []
    for entry in read_json(listing, list):
        kind, place = (entry.get("type"), entry.get("path")) if isinstance(entry, dict) else (None, None)
        if not isinstance(kind, str) or not isinstance(place, str):
            raise ValueError(f"{listing}: must hold objects with type and path; got {str(entry)[:100]}")
        MODULES.check(listing, entry)
        name = kind.rpartition(".")[2]
        if name == "Dropout":  # only when it is trained
            continue
        last = parts[-1][0] if parts else ""
        repeated = name == last and name != "Dense"
        late = name in ORDER and last and ORDER.index(name) < ORDER.index(last)
        if name not in ORDER or repeated or late:
            raise ValueError(
                f"{listing}: must name a Transformer, a Pooling, maybe Dense layers and maybe a Normalize, in this "
                f"order; got {kind[:100]}"
            )
        if Path(place).is_absolute() or ".." in Path(place).parts or "\0" in place:
            raise ValueError(f"{listing}: must name folders below it; got {place[:100]!r}")
        parts.append((name, folder / place))
    if not parts or parts[0][0] != "Transformer":
        raise ValueError(
            f"{listing}: must name a Transformer; got {', '.join(name for name, _ in parts) or 'nothing'}"
        )
    return parts


def read_parts(folder: Path, dtype: Any = None) -> dict[str, Any]:
    """Return the arguments of the encoder that a folder holds; `dtype` is the model's."""
    parts = parts_of(folder)
    body = parts[0][1]
    model = body_of(body, dtype)
    settings, path = transformer_settings(body)
    top = optional_json(folder / CONFIG)
    SETTINGS.check(folder / CONFIG, top)
    made: dict[str, Any] = {"model": model, "tokenizer": Tokenizer.from_pretrained(body)}
    found = dict(parts)
    if "Pooling" in found:
        made["pooling"], made["include_prompt"] = pooling_of(found["Pooling"] / "config.json", model.config)
    elif _is_decoder(body):
        made["pooling"] = "lasttoken"
    width = len(made.get("pooling", "1")) if isinstance(made.get("pooling"), tuple) else 1
    width *= model.config.hidden_size
    made["dense"] = []
    for name, place in parts:
        if name == "Dense":
            made["dense"].append(read_dense(place, width))
            width = made["dense"][-1].outputs
    made["prompts"], made["prompt"] = prompts_of(folder / CONFIG, top)
    lengths = {name: settings.get(name) for name in ("max_seq_length", "query_length", "document_length")}
    for name, length in (*lengths.items(), ("truncate_dim", top.get("truncate_dim"))):
        if length is not None and (not isinstance(length, int) or isinstance(length, bool)):
            where = folder / CONFIG if name == "truncate_dim" else path
            raise ValueError(f"{where}: {name} must be an integer; got {length!r}")
    tasks = {name.removesuffix("_length"): n for name, n in lengths.items() if n and name != "max_seq_length"}
    return {
        **made,
        "normalize": "Normalize" in found,
        "max_seq_length": lengths["max_seq_length"],
        "task_lengths": tasks,
        "lower_case": bool(settings.get("do_lower_case", False)),
        "similarity_fn_name": top.get("similarity_fn_name") or "cosine",
        "truncate_dim": top.get("truncate_dim"),
    }


def transformer_settings(body: Path) -> tuple[dict[str, Any], Path]:
    """Read the settings of the model's part, under the newest name that there is."""
    kinds = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
    paths = [body / f"sentence_{kind}_config.json" for kind in kinds]
    path = next((path for path in paths if path.is_file()), paths[0])
    settings = optional_json(path)
    TRANSFORMER.check(path, settings)
    return settings, path


def body_of(folder: Path, dtype: Any = None) -> Any:
    """Load a model of texts without a head: an encoder, a decoder, or the encoder of both."""
    kind = read_json(folder / "config.json").get("model_type")
    table = architecture_of(kind) if isinstance(kind, str) and kind in MODEL_TYPES else None
    alone = [table.classes + table.encoder_only] if table is not None and table.encoder_only else None
    model = from_pretrained(folder, dtype=dtype, architectures=alone)
    if not is_body(model):
        raise ValueError(f"{folder}: must hold an encoder of texts; got {type(model).__name__}")
    return model


def is_body(model: Any) -> bool:
    """Return whether a model makes rows of texts, and nothing else."""
    table, head = getattr(model, "architecture", None), getattr(model, "head_name", None)
    if table is None or table.kind == "image":
        return False
    if table.kind == "encoder-decoder":
        return head is not None and head == table.encoder_only
    return head is None


def _is_decoder(body: Path) -> bool:
    """Return whether a model was made to write, and each row sees what is before it."""
    config = read_json(body / "config.json")
    named = config.get("architectures")
    first = named[0] if isinstance(named, list) and named else ""
    return str(first).endswith("ForCausalLM") and config.get("is_causal", True) is not False


def pooling_of(path: Path, config: Any) -> tuple[tuple[str, ...], bool]:
    """Return how rows become an embedding, and whether those of a prompt count."""
    entries = read_json(path)
    POOLING.check(path, entries)
    width = entries.get("embedding_dimension", entries.get("word_embedding_dimension", config.hidden_size))
    if width != config.hidden_size:
        raise ValueError(f"{path}: must be for rows of hidden_size = {config.hidden_size}; got {width!r}")
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
    return tuple(names), entries.get("include_prompt", True) is not False


def prompts_of(path: Path, entries: dict[str, Any]) -> tuple[dict[str, str], str]:
    """Return the prompts by name, and the one that is written before texts unless another is asked for."""
    name, given = entries.get("default_prompt_name"), entries.get("prompts")
    prompts = (
        {k: v or "" for k, v in given.items() if isinstance(v, str) or v is None}
        if isinstance(given, dict)
        else {}
    )
    if name is not None and (not isinstance(name, str) or name not in prompts):
        raise ValueError(f"{path}: default_prompt_name must be one of prompts; got {str(name)[:100]}")
    return prompts, "" if name is None else prompts[name]


def write_parts(folder: Path, encoder: Any) -> None:
    """Write what is beside the model: its tokenizer, the list of parts, and their settings."""
    parts = [("", "Transformer"), ("1_Pooling", "Pooling")]
    parts += [(f"{i}_Dense", "Dense") for i in range(2, 2 + len(encoder.dense))]
    parts += [(f"{len(parts)}_Normalize", "Normalize")] if encoder.normalize else []
    listing = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(parts)
    ]
    for path, _ in parts[1:]:
        (folder / path).mkdir(exist_ok=True)
    chosen: dict[str, Any] = {key: name in encoder.pooling for name, key in POOLINGS.items()}
    if encoder.pooling != tuple(name for name in POOLINGS if name in encoder.pooling):  # flags have one order
        chosen = {"pooling_mode": list(encoder.pooling)}
    width = encoder.model.config.hidden_size
    pooling = {"word_embedding_dimension": width, **chosen, "include_prompt": encoder.include_prompt}
    names = [name for name, prompt in encoder.prompts.items() if prompt == encoder.prompt]
    default = names[0] if encoder.prompt and names else "default" if encoder.prompt else None
    prompts = (
        encoder.prompts if not encoder.prompt or names else {**encoder.prompts, "default": encoder.prompt}
    )
    settings: dict[str, Any] = {
        "prompts": prompts,
        "default_prompt_name": default,
        "similarity_fn_name": encoder.similarity_fn_name,
    }
    if encoder.truncate_dim is not None:
        settings["truncate_dim"] = encoder.truncate_dim
    lengths = {f"{task}_length": length for task, length in encoder.task_lengths.items()}
    body = {"max_seq_length": encoder.max_seq_length, "do_lower_case": encoder.lower_case, **lengths}
    files = [
        (folder / "modules.json", json_writer(listing)),
        (folder / "1_Pooling" / "config.json", json_writer(pooling)),
        (folder / "sentence_bert_config.json", json_writer(body)),
        (folder / CONFIG, json_writer(settings)),
        *saved_files(encoder.tokenizer, folder, encoder.max_seq_length),
    ]
    for (path, _), layer in zip(parts[2:], encoder.dense, strict=False):
        arrays: Mapping[str, Any] = {name: p.numpy() for name, p in layer.state_dict().items()}
        files.append((folder / path / "config.json", json_writer(layer.entries)))
        files.append((folder / path / "model.safetensors", weights_writer(arrays)))
    write_files(files)
