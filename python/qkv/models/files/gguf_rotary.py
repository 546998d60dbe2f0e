"""Scaled rotary positions of GGUF files, as the rope_scaling of a configuration."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

LOW, HIGH = (
    1.0,
    4.0,
)  # of Llama 3: how many waves its first texts hold, of those that turn slower, and that do not


def rope_scaling(path: Path, fact: Callable[[str], Any], factors: np.ndarray | None) -> dict[str, Any] | None:
    """Return the rule, or None.

    Parameters
    ----------
    path : Path
        Which errors name.
    fact : callable
        From a name after the architecture's to what the head of the file says, or None.
    factors : array, optional
        ``(D / 2,)``, by which frequencies are divided: what files have of Llama 3's rule.
    """
    factor = fact("rope.scaling.factor") or fact("rope.scale_linear")
    kind = fact("rope.scaling.type") or ("linear" if factor else "none")
    if kind not in ("none", "linear", "yarn"):
        raise ValueError(
            f"{path}: rope.scaling.type must be none, linear or yarn because qkv reads no other; got {kind}"
        )
    for name in ("alpha", "yarn_log_multiplier"):
        if fact(f"rope.scaling.{name}"):
            raise ValueError(
                f"{path}: rope.scaling.{name} must be 0 because qkv reads no other; got {fact(f'rope.scaling.{name}')}"
            )
    size = (fact("rope.scaling.attn_factor") or 1.0) * (fact("rope.scaling.yarn_attn_factor") or 1.0)
    if kind != "yarn" and size != 1:
        raise ValueError(
            f"{path}: rope.scaling.attn_factor must be 1 where rope.scaling.type is {kind}; got {size}"
        )
    if kind == "none":
        return None if factors is None else llama3(path, fact, factors)
    if factors is not None:
        raise ValueError(f"{path}: rope_freqs.weight must not be beside rope.scaling.type {kind}; got both")
    if not factor or not factor > 0:
        raise ValueError(
            f"{path}: rope.scaling.factor must be above 0 where rope.scaling.type is {kind}; got {factor}"
        )
    if kind == "linear":
        return None if factor == 1 else {"rope_type": "linear", "factor": factor}
    if fact("rope.scaling.yarn_ext_factor") not in (None, -1.0, 1.0):
        raise ValueError(
            f"{path}: rope.scaling.yarn_ext_factor must be 1; got {fact('rope.scaling.yarn_ext_factor')}"
        )
    rule = {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": fact("rope.scaling.original_context_length"),
        "beta_fast": fact("rope.scaling.yarn_beta_fast"),
        "beta_slow": fact("rope.scaling.yarn_beta_slow"),
        "attention_factor": None if size == 1 else size * (1 + 0.1 * math.log(max(factor, 1.0))),
    }
    return {name: value for name, value in rule.items() if value is not None}


def llama3(path: Path, fact: Callable[[str], Any], factors: np.ndarray) -> dict[str, Any] | None:
    """Return Llama 3's rule with these factors: for the longest one, or for a line through those between."""
    lengths = (
        2 * np.pi * (fact("rope.freq_base") or 10000.0) ** (np.arange(len(factors)) / len(factors))
    )  # of waves
    turned = factors > 1 + 1e-6
    if not turned.any():
        return None
    shares, found = 1 / factors, []
    factor = float(factors.max())
    between = turned & (factors < factor * (1 - 1e-6))
    if between.any():  # the share is 1 / factor + smooth * (1 - 1 / factor)
        smooth = (shares[between] - 1 / factor) / (1 - 1 / factor)
        found.append((factor, float(np.median((smooth * (HIGH - LOW) + LOW) * lengths[between]))))
    else:
        found.append((factor, float(lengths[turned].min() * LOW)))
    if turned.sum() > 1:
        slope, start = np.polyfit(1 / lengths[turned], shares[turned], 1)
        rest = (start * (HIGH - LOW) + LOW) / HIGH
        found += [(float(1 / rest), float(slope * (HIGH - LOW) / (1 - rest)))] if 0 < rest < 1 else []
    for factor, longest in [(f, float(round(n))) for f, n in found] + found:
        smooth = np.clip((longest / lengths - LOW) / (HIGH - LOW), 0, 1)
        if longest > 0 and np.allclose(factors, 1 / ((1 - smooth) / factor + smooth), rtol=1e-4):
            whole = int(longest) if longest == int(longest) else longest
            rule = {
                "low_freq_factor": LOW,
                "high_freq_factor": HIGH,
                "original_max_position_embeddings": whole,
            }
            return {"rope_type": "llama3", "factor": factor, **rule}
    raise ValueError(
        f"{path}: rope_freqs.weight must hold Llama 3's factors because qkv reads no others; "
        f"got {len(factors)} from {factors.min():.4g} to {factors.max():.4g}"
    )
