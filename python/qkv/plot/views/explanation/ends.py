"""The steps before the first layer and after the last one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...._core import Tensor
from ...._words.errors import counted
from ....nn import Embedding, RMSNorm
from ...figures.drawing import numbers
from ...figures.labels import readable
from .parts import Stack
from .recorded import Array, Values, vectors
from .steps import NORMS
from .words import SAYS, step_of

CANDIDATES = 8  # of a token's logits, the greatest
_KINDS = {"Embedding": "token", "LayerNorm": "norm", "RMSNorm": "norm", "Linear": "projection"}
_LETTERS = {"token": "E[id]", "position": "P[place]", "segment": "T[segment]"}


def before_steps(
    stack: Stack, values: Values, ids: Any, length: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the steps from the tokens to the rows of the first layer, and their arrays."""
    arrays: dict[str, Any] = {}
    given = "named" if ids is None else "tokens"
    tokens = "" if ids is None else "text → ids"
    steps = [step_of("tokens", "Tokens", tokens, f"({length},)", SAYS[given])]
    rows, parts, others = [], [], []
    for number, path in enumerate(stack.before):
        table = values.rows(f"{path}.output")
        if len(table) not in (1, length):
            continue
        name = _called(path, type(stack.modules[path]).__name__)
        key = f"e{number}"
        arrays[key] = vectors(table)
        rows.append((name, key))
        parts += [_LETTERS[name]] if name in _LETTERS else []
        others += [name] if name not in _LETTERS else []
    if rows:
        table = values.rows(stack.blocks[0].named("input"))
        arrays["start"] = vectors(table)
        rows.append(("x", "start"))
        owner = stack.modules[stack.before[0].rpartition(".")[0]]._config()
        scale = owner.get("embedding_scale", 1)
        parts[:1] = [f"{scale:.4g} {parts[0]}"] if scale != 1 and parts else parts[:1]
        parts += ["sines of the place"] if owner.get("sinusoidal") else []
        formula = "x = " + " + ".join(parts)
        for name in others:
            formula = f"{formula}, then {name}"
        size = stack.modules[stack.before[0]]._config()
        table_shape = f"E ({size.get('num_embeddings')}, {size.get('embedding_dim')})"
        shapes = f"{table_shape} → x {table.shape}"
        steps.append(step_of("vectors", "Embeddings and positions", formula, shapes, SAYS["embedding"], rows))
    return steps, arrays


def _called(path: str, kind: str) -> str:
    """Return what a module before the layers makes."""
    last = path.rpartition(".")[2].lower()
    if kind == "PositionalEncoding" or "position" in last:
        return "position" if kind == "Embedding" else "with positions"
    return "segment" if "type" in last else _KINDS[kind]


def after_steps(
    stack: Stack, values: Values, length: int, tokenizer: Any
) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any] | None]:
    """Return the steps after the last layer, their arrays, and the candidates of each token."""
    arrays: dict[str, Any] = {}
    count = len(stack.blocks)
    texts = ("All layers and heads", "x ← layer(x), again and again") if count > 1 else ("All heads", "")
    steps = [step_of("layers", *texts, counted(count, "layer"))]
    if stack.norm is not None:
        table = values.rows(f"{stack.norm}.output")
        arrays["final"] = vectors(table)
        formula = NORMS[isinstance(stack.modules[stack.norm], RMSNorm)]
        steps.append(
            step_of("vectors", "Final norm", formula, f"{table.shape}", SAYS["final"], [("n", "final")])
        )
    found = _logits(stack, values.recording.output) if stack.side != "encoder" else None
    if found is None:
        return steps, arrays, None
    table, per_token = found
    to = (
        f"({length}, {table.shape[1]})"
        if per_token
        else f"({table.shape[1]},), one answer for the whole text"
    )
    steps.append(step_of("logits", "Logits", "l = W n", to))
    steps.append(step_of("probabilities", "Probabilities", "p = exp(l) / Σ exp(l)", to))
    return steps, arrays, candidates(table, tokenizer if per_token else None, per_token and tokenizer is None)


def _logits(stack: Stack, output: Any) -> tuple[Array, bool] | None:
    """Return logits (L, V), or (1, V) of the whole text, and whether each token has its own."""
    named = {name: getattr(output, name) for name in getattr(output, "_fields", ())}
    wanted = next((x for name, x in named.items() if name.endswith("logits")), None)
    if isinstance(output, Tensor):
        tables = {m.num_embeddings for m in stack.modules.values() if isinstance(m, Embedding)}
        wanted = output if output.shape[-1] in tables else None
    if wanted is None:
        return None
    table = numbers(wanted)
    return table.reshape(-1, table.shape[-1]), table.ndim == 3


def candidates(table: Array, tokenizer: Any, are_ids: bool) -> dict[str, Any]:
    """Return the greatest logits of each row, their probabilities among all, and what they stand for."""
    rows = table.astype("float64")
    likely = np.exp(rows - rows.max(-1, keepdims=True))
    likely /= likely.sum(-1, keepdims=True)
    best = np.argsort(-rows, axis=-1, kind="stable")[:, :CANDIDATES]
    if tokenizer is not None:
        labels = [[readable(name) for name in tokenizer.tokens(row.tolist())] for row in best]
    else:
        labels = [[str(number) if are_ids else f"label {number}" for number in row] for row in best.tolist()]
    taken = [np.take_along_axis(x, best, -1) for x in (rows, likely)]
    return {
        "labels": labels,
        "logits": rounded(taken[0]),
        "probabilities": rounded(taken[1]),
        "of": rows.shape[1],
    }


def rounded(table: Array) -> Any:
    """Return numbers as lists, to six digits."""
    if table.ndim:
        return [rounded(row) for row in table]
    return float(f"{float(table):.6g}")
