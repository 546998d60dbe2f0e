"""The page that ``qkv look`` writes."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from .. import models
from .._atomic import write_file
from ..plot import head_view, layer_view
from ..plot.measures_table import MeasuresTable
from ..plot.views import page
from .measures import Measures, measures, measures_of
from .recording import by_heads, record

#: Beyond that many tokens a page shows all heads as pictures alone.
_LONGEST = 256


def look_at_model(folder: str, text: str) -> Path:
    """Write the page of what a model's heads do with a text; give its path."""
    tokenizer = models.Tokenizer.from_pretrained(folder)
    ids = tokenizer.encode(text)
    if not ids:
        raise ValueError("look: text must have at least one token; got none")
    tokens = tokenizer.tokens(text)
    recording = record(_model(folder), np.array([ids]))
    parts = [recording._names[name][0] for name in recording.names() if name.rpartition(".")[2] == "weights"]
    weights = [by_heads(w, part)[0] for w, part in zip(recording.all("*weights"), parts, strict=True)]
    return _write(Path(folder).resolve().name, weights, tokens, measures(recording, tokens=tokens))


def look_at_weights(path: str) -> Path:
    """Write the page of weights ``(layers, H, L, L)`` and tokens that any program stored; give its path."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, zipfile.BadZipFile, AttributeError, EOFError) as error:
        raise ValueError(f"look: {path} must be an .npz file with the arrays weights and tokens") from error
    missing = [name for name in ("weights", "tokens") if name not in arrays]
    if missing:
        raise ValueError(
            f"look: {path} must hold the arrays weights and tokens; got {', '.join(sorted(arrays)) or 'none'}"
        )
    weights, tokens = arrays["weights"], arrays["tokens"]
    if weights.ndim != 4 or 0 in weights.shape or weights.shape[2] != weights.shape[3]:
        raise ValueError(f"look: weights must be (layers, H, L, L), none of them 0; got {weights.shape}")
    if weights.dtype.kind != "f" or tokens.shape != weights.shape[3:]:
        raise ValueError(
            f"look: weights must be floats and tokens ({weights.shape[3]},) to match them; got weights {weights.dtype}"
            f", tokens {tokens.shape}"
        )
    words = [str(token) for token in tokens]
    return _write(Path(path).stem, list(weights), words, measures_of(weights, words))


def _model(folder: str) -> Any:
    load = getattr(models, "from_pretrained", models.BertModel.from_pretrained)
    return load(folder)


def _write(name: str, weights: list[Any], tokens: list[str], found: Measures) -> Path:
    title = f"what the heads of {name} attend to"
    views = [MeasuresTable(found._asdict(), title), layer_view(weights, tokens)]
    if len(tokens) <= _LONGEST:
        views.append(head_view(weights, tokens))
    target = Path(f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('.-') or 'look'}.html")
    text = page(title, *(view._repr_html_() for view in views))
    write_file(target, lambda file: file.write(text.encode("utf-8")))
    return target
