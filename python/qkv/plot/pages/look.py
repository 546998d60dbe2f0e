"""The page that ``qkv look`` writes."""

from __future__ import annotations

import html
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ... import models
from ..._atomic import write_file
from ..._words.errors import shown
from ...functions.gradients import no_grad
from ...look.head_measures import Measures, measures, measures_of
from ...look.names import Names
from ...look.recording import Recording, record
from ...look.writing import generate
from ...models.generation.steps import first_id, positions_of
from ..figures.texts import readable
from ..views.explanation.call import refuse_images
from ..views.head_view import head_view
from ..views.layer_view import layer_view
from ..views.measures_table import MeasuresTable
from ..views.view import View, page
from ..views.writing_view import kind_that_fits, writing_view

#: Beyond that many tokens a page shows all heads as pictures alone.
_LONGEST = 256
#: What a decoder writes at most.
_WRITTEN = 64
_STYLE = (
    "<style>body{font:14px system-ui,sans-serif;margin:8px 16px;--qkv-width:none}.text{overflow-wrap:anywhere}"
    ".qkv-together{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,520px),1fr));gap:8px 24px;"
    "align-items:start}.qkv-together>:nth-child(2){grid-row:span 2}</style>"
)


def look_at_model(folder: str, text: str, target: str | None = None, output: str | None = None) -> Path:
    """Write the page of what a model's heads do with a text; return its path.

    A decoder after an encoder reads `target`, or what the model makes of the text.
    """
    path = page_file("look", output, Path(folder).resolve().name)
    model, tokenizer, rows = read_text("look", folder, text, target)
    decodes = len(rows) == 2
    tokens, written = tokenizer.tokens(rows[0]), tokenizer.tokens(rows[1]) if decodes else []
    inputs = [np.array([row]) for row in rows]
    with no_grad():
        recording = record(model, *inputs)
    name = Path(folder).resolve().name
    groups = [
        _views(title, part, queries, keys, measures(part, tokens=keys))
        for title, part, queries, keys in _sides(recording, name, decodes, tokens, written)
    ]
    texts = {"text": text} | ({"decoder": target or tokenizer.decode(rows[1])} if decodes else {})
    return _write(path, name, texts, groups)


def look_at_writing(folder: str, prompt: str, count: int, output: str | None = None) -> Path:
    """Write the page of a text that a model writes after a prompt, or of what it makes of a source; return its path."""
    if count < 1:
        raise ValueError(f"look: write must be at least 1 because so many tokens are written; got {count}")
    name = Path(folder).resolve().stem if Path(folder).is_file() else Path(folder).resolve().name
    path = page_file("look", output, name)
    model = models.from_pretrained(folder)
    if not getattr(model, "writes", False):
        raise ValueError(
            f"look: model must write text because of --write; got {type(model).__name__} of {name}"
        )
    tokenizer = models.Tokenizer.from_pretrained(folder)
    ids = tokenizer.encode(prompt)
    if not ids:
        raise ValueError("look: prompt must have at least one token; got none")
    decodes = hasattr(model, "decoder")
    positions = positions_of(model, "decoder" if decodes else "body") or model.config.get(
        "max_position_embeddings"
    )
    read = 1 if decodes else len(ids)
    if positions and read + count - 1 > positions:
        raise ValueError(
            f"look: write must be at most {max(0, positions + 1 - read)} after {read} tokens because the model has "
            f"{positions} positions; got {count}"
        )
    own = [
        part
        for path, part in Names("look", model).attentions
        if not part.crosses and path.startswith("decoder" if decodes else "")
    ]
    sides = [(1, 1), (0, len(ids))] if decodes else [(1, len(ids))]
    kind_that_fits("look", sides, sum(part.num_heads for part in own), count)  # before anything is written
    writing = generate(model, [ids], max_new_tokens=count, method="greedy")
    view = writing_view(writing, tokenizer, title=f"what {name} writes, and where it looks")
    return _write(path, name, {"prompt": prompt, "written": tokenizer.decode(writing.ids[0])}, [[view]])


def read_text(operation: str, folder: str, text: str, target: str | None) -> tuple[Any, Any, list[list[int]]]:
    """Return a model, its tokenizer, and the ids that it reads: of a decoder after an encoder its own, too."""
    model = models.from_pretrained(folder)
    refuse_images(operation, model)
    decodes = isinstance(model, models.PretrainedEncoderDecoder) and hasattr(model, "decoder")
    if target is not None and not decodes:
        raise ValueError(
            f"{operation}: target must be given for an encoder and decoder alone; got a {type(model).__name__}"
        )
    tokenizer = models.Tokenizer.from_pretrained(folder)
    ids = tokenizer.encode(text)
    if not ids:
        raise ValueError(f"{operation}: text must have at least one token; got none")
    if not decodes:
        return model, tokenizer, [ids]
    own = tokenizer.encode(target) if target else _written(operation, model, np.array([ids]))
    return model, tokenizer, [ids, [first_id(model), *own]]


def _written(operation: str, model: Any, ids: Any) -> list[int]:
    """What the model makes of a text."""
    if not model.writes:
        raise ValueError(
            f"{operation}: target must be given because the model has no head to write with; got a text alone"
        )
    [[(written, _, _)]] = model.generate(
        ids, method="greedy", max_new_tokens=min(_WRITTEN, positions_of(model, "decoder") or _WRITTEN)
    )
    return list(written[:-1])  # nothing reads the last one


def _sides(
    recording: Recording, name: str, decodes: bool, tokens: list[str], written: list[str]
) -> Iterator[tuple[str, Recording, list[str], list[str]]]:
    """Attentions over the same tokens: a title, their recording, the tokens of queries and keys."""
    title = f"what the heads of {name} attend to"
    paths = [(path, part.crosses) for path, part, _ in recording._attentions()]
    if not decodes:
        yield title, recording, tokens, tokens
        return
    for side, queries, keys, crosses in (
        ("encoder", tokens, tokens, False),
        ("decoder", written, written, False),
        ("decoder", written, tokens, True),
    ):
        chosen = [path for path, crossing in paths if path.startswith(side) and crossing == crosses]
        where = f"{title}: {side}{' over the encoder' if crosses else ''}"
        yield where, recording._part(chosen), queries, keys


def look_at_weights(path: str, output: str | None = None) -> Path:
    """Write the page of weights ``(layers, H, L, L)`` and tokens that any program stored; return its path."""
    if not Path(path).suffix and not Path(path).exists():
        raise ValueError(
            f"look: what must be an .npz file without --model; got {shown(path)}; for a text write "
            f"qkv look --model FOLDER {shlex.quote(path)}, with the folder of a model and its tokenizer"
        )
    target = page_file("look", output, Path(path).stem)
    with Path(path).open("rb") as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
        except Exception as error:  # anything that a damaged archive makes its readers raise
            raise ValueError(
                f"look: {path} must be an .npz file with the arrays weights and tokens"
            ) from error
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
    name = Path(path).stem
    title = f"what the heads of {name} attend to"
    views = _views(title, list(weights), words, words, measures_of(weights, words))
    return _write(target, name, {"tokens": " ".join(words)}, [views])


def _views(title: str, weights: Any, queries: list[str], keys: list[str], found: Measures) -> list[View]:
    """The measures of heads, a view of all of them, and their lines where there are not too many."""
    views: list[View] = [MeasuresTable(found._asdict(), title), layer_view(weights, queries, keys)]
    if max(len(queries), len(keys)) <= _LONGEST:
        views.append(head_view(weights, queries, keys))
    return views


def page_file(operation: str, output: str | None, name: str) -> Path:
    """Return where the page of a command is written: a file that is not there, or is such a page."""
    if output is None:
        output = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('.-') or operation}.html"
    path = Path(output)
    if path.is_dir():
        raise IsADirectoryError(
            f"{operation}: output must be a file because the page is one; got the folder {output}"
        )
    if path.is_file():
        with path.open("rb") as file:
            if generator(operation).encode() not in file.read(2000):
                raise FileExistsError(
                    f"{operation}: output must be a new file or a page of qkv {operation} because it is replaced; got "
                    f"{output}, another file; choose one with --output"
                )
    return path


def generator(operation: str) -> str:
    """Return by what a page of a command is known again."""
    return f'<meta name="generator" content="qkv {operation}">'


def _write(target: Path, name: str, texts: dict[str, str], groups: list[list[View]]) -> Path:
    title = f"what the heads of {name} attend to"
    told = "".join(
        f'<p class="text">{what}: {html.escape(readable(text))}</p>' for what, text in texts.items()
    )
    parts = [
        f'<div class="qkv-together">{"".join(view._repr_html_() for view in views)}</div>' for views in groups
    ]
    text = page(title, told, *parts, head=generator("look") + _STYLE)
    write_file(target, lambda file: file.write(text.encode("utf-8", "replace")))
    return target
