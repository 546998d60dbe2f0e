"""Formulas and sentences of the steps, and what heads do in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....look.head_measures import Measures

# What a share of the weight is on.
_TARGETS = {
    "previous": "the token before",
    "self_": "the token itself",
    "first": "the first token",
    "duplicate": "the same token earlier, where there is one",
    "induction": "what followed the same token earlier, where there is one",
    "separators": "punctuation and special tokens",
}
_SHARE = 0.4  # of its weight, from which a head is said to look there
_SEEN = 0.1  # below, a share is not told
_EVEN = 0.9  # of the entropy of even weights

SAYS = {
    "tokens": "The text is cut into tokens, and each token has a number: all that the model reads.",
    "named": "A name for each row of numbers.",
    "rows": "The rows of numbers that the module was given, one for each token.",
    "embedding": "The number picks a row of a table. It says what the token means, and nothing yet of the others.",
    "norm": "Every row is brought to one size, so that no token counts more because its numbers are larger.",
    "projections": "The query says what a token looks for, a key what a token is found by, a value what it passes on.",
    "rotary": "Queries and keys are turned pair by pair, further at each place: their product then depends on the "
    "distance. An arrow is one pair, pale before and dark after.",
    "scores": "The query is compared with every key: the more their numbers agree, the higher the score.",
    "softmax": "The exponential makes scores positive, and the division makes them weights that sum to 1.",
    "weights": "What the normaliser makes of the scores: weights.",
    "sum": "The head's result: every value counts as much as its weight.",
    "output": "The results of all heads stand side by side, and one matrix mixes them.",
    "residual": "The result is added to the row: attention changes what a token was, it does not replace it.",
    "fed": "The result is added to the row, which leaves the layer.",
    "parallel": "What attention and the network found is added to the row together.",
    "post": "The result has a norm of its own before it is added.",
    "feed": "Each row goes alone through a small network: here tokens do not see each other.",
    "layers": "Rows go on from layer to layer. Unfold to see all heads of all layers; choose one to walk through.",
    "final": "A last norm, before the row is read.",
    "logits": "One number for each possible answer: how well the row fits it. The greatest are shown.",
    "probabilities": "A softmax makes probabilities of them.",
}
ACTIVATIONS = {"relu": "ReLU", "gelu": "GELU", "gelu_tanh": "GELU", "silu": "SiLU"}


def mask_says(causal: bool, window: Any, lost: Any, is_far: bool) -> str:
    """Return what is left out, for which reason."""
    if causal and window:
        return f"A token sees itself and at most {window[0]} tokens before it, never what comes after."
    if causal:
        return (
            "A token sees itself and what is before it, never what comes after: the model learns to continue."
        )
    if window:
        return f"A token sees at most {window[0]} tokens before and {window[1]} after it."
    if np.any(lost):
        return "The mask of this call leaves some keys out."
    if is_far:
        return "Nothing is left out: a token sees the whole other text."
    return "Nothing is left out: a token looks in both directions."


def scores_formula(about: dict[str, Any]) -> str:
    """Return how an attention makes its scores."""
    kind, size = about["kind"], about["size"]
    if kind == "additive":
        return "s = w · tanh(W_q q + W_k k)"
    if kind == "bilinear":
        return "s = q · W k"
    if kind == "own":
        return "s = score(q, k)"
    text = "q · k" if about["scale"] == 1 else f"{about['scale']:.4g} q · k"
    text = f"q · k / √{size}" if math.isclose(about["scale"], 1 / math.sqrt(size), rel_tol=1e-6) else text
    if about["softcap"]:
        text = f"{about['softcap']:g} tanh({text} / {about['softcap']:g})"
    return f"s = {text}" + (f" + {about['added']}" if about["added"] else "")


def head_says(measures: Measures, layer: int, head: int, keys: int) -> str:
    """Return what a head does, by its measures."""
    shares = {name: float(getattr(measures, name)[layer, head]) for name in _TARGETS}
    known = {name: share for name, share in shares.items() if math.isfinite(share)}
    entropy = float(measures.entropy[layer, head])
    spread = f"entropy {entropy:.2f} of at most {math.log(max(keys, 1)):.2f}"
    best = max(known, key=lambda name: known[name], default=None)
    if best is not None and known[best] >= _SHARE:
        return f"looks at {_TARGETS[best]}: {known[best]:.2f} of its weight ({spread})"
    if keys > 1 and entropy > _EVEN * math.log(keys):
        return f"spreads its weight evenly ({spread})"
    most = "" if best is None or known[best] < _SEEN else f", at most {known[best]:.2f} on {_TARGETS[best]}"
    return f"spreads its weight{most} ({spread})"


def step_of(
    kind: str,
    title: str,
    formula: str,
    shapes: str,
    says: str = "",
    rows: Sequence[tuple[str, str]] = (),
    attention: int | None = None,
) -> dict[str, Any]:
    """Return what a page shows of a step; `rows` are names and the keys of their numbers."""
    texts = {"kind": kind, "title": title, "formula": formula, "shapes": shapes, "says": says or SAYS[kind]}
    return {**texts, "rows": list(rows), "attention": attention}
