"""The steps of a layer, in the order in which it computes them, with their formulas and numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...._words.errors import counted
from ....look.names import Part, joined
from ....nn import (
    AdditiveAttention,
    BilinearAttention,
    DotProductAttention,
    MultiHeadAttention,
    RMSNorm,
    SelfAttention,
)
from .parts import Block
from .recorded import Array, Values, bits, excluded, out_of_order, vectors
from .words import ACTIVATIONS, SAYS, mask_says, scores_formula, step_of

_MAPS = MultiHeadAttention, SelfAttention
_DOTS = *_MAPS, DotProductAttention
NORMS = {
    True: "n = x / √(mean(x²) + ε) · g",
    False: "n = (x - mean(x)) / √(var(x) + ε) · g + b",
}


class Layer:
    """One layer of a page: its arrays by key, and the steps that show them."""

    def __init__(self, block: Block, values: Values) -> None:
        self.block, self.values = block, values
        self.arrays: dict[str, Any] = {}
        self.steps: list[dict[str, Any]] = []
        self.attentions: list[dict[str, Any]] = []
        self._row = ""  # the key of the row that the layer has so far

    def step(self, *texts: Any, **more: Any) -> None:
        """Add a step."""
        self.steps.append(step_of(*texts, **more))

    def keep(self, key: str, table: Array) -> str:
        """Store rows under a key."""
        self.arrays[key] = vectors(table)
        return key

    def walk(self) -> None:
        """Add all steps."""
        block = self.block
        if block.path is None:
            ((path, part),) = block.attentions
            if isinstance(part.module, _MAPS):
                table = self.values.rows(joined(path, "input"))
                rows = [("x", self.keep("x", table))]
                self.step("vectors", "Input", "x is given", self._shape("x"), SAYS["rows"], rows)
            self._attention(0, path, part)
            return
        self._row = self.keep("x", self._of_block("input"))
        post, parallel = block.placement == "post", block.placement == "parallel"
        whole = self._row
        for i, (path, part) in enumerate(block.attentions):
            if not post:
                self._norm(i + 1)
            result = self._post_norm(i + 1, self._attention(i, path, part))
            if not parallel:
                after = f"norm{i + 1}" if post else f"norm{i + 2}"
                self._residual(
                    f"x{i + 1}", result, f"{block.role(after)}.input", "attention", SAYS["residual"]
                )
                if post:
                    self._norm(i + 1)
        last = len(block.attentions) + 1
        if not post:
            self._norm(last)
        fed = self._post_norm(last, self._feed_forward())
        if parallel:
            total = self.keep("y", self._of_block("output"))
            rows = [("x", whole), ("attention", result), ("network", fed), ("sum", total)]
            self.step(
                "vectors", "Residual", "y = x + attention + network", self._shape("y"), SAYS["parallel"], rows
            )
        elif post:
            self._residual(f"x{last}", fed, f"{block.role(f'norm{last}')}.input", "network", SAYS["fed"])
            self._norm(last)
        else:
            self._residual("y", fed, self.block.named("output"), "network", SAYS["fed"])

    def _of_block(self, word: str) -> Array:
        return self.values.rows(self.block.named(word))

    def _shape(self, key: str) -> str:
        return str(tuple(self.arrays[key]["shape"]))

    def _residual(self, key: str, result: str, name: str, what: str, says: str) -> None:
        rows = [("x", self._row), (what, result), ("x + " + what, self.keep(key, self.values.rows(name)))]
        self._row = key
        self.step("vectors", "Residual", f"x ← x + {what}", self._shape(key), says, rows)

    def _norm(self, number: int) -> str:
        path = self.block.role(f"norm{number}")
        if path is None or not self.values.has(f"{path}.output"):
            return self._row
        key = self.keep(f"n{number}", self.values.rows(f"{path}.output"))
        formula = NORMS[isinstance(self.block.modules[path], RMSNorm)]
        self.step("vectors", "Norm", formula, self._shape(key), SAYS["norm"], [("x", self._row), ("n", key)])
        if self.block.placement == "post":
            self._row = key
        return key

    def _post_norm(self, number: int, result: str) -> str:
        path = self.block.role(f"post_norm{number}")
        if path is None:
            return result
        key = self.keep(f"p{number}", self.values.rows(f"{path}.output"))
        rows = [("x", result), ("n", key)]
        self.step("vectors", "Norm of the result", NORMS[True], self._shape(key), SAYS["post"], rows)
        return key

    def _feed_forward(self) -> str:
        block = self.block
        inner = self.keep("inner", self.values.rows(f"{block.role('linear2')}.input"))
        key = self.keep("fed", self.values.rows(f"{block.role('linear2')}.output"))
        act = ACTIVATIONS.get(str(block.config.get("activation")), "activation")
        gate = block.role("linear_gate")
        formula = f"f = W₂ ({act}(W_g n) ∘ W₁ n)" if gate else f"f = W₂ {act}(W₁ n)"
        (L, inside), (_, outside) = self.arrays[inner]["shape"], self.arrays[key]["shape"]
        n = "n" if block.placement != "post" else "x"
        self.step(
            *("vectors", "Feed-forward network", formula.replace(" n)", f" {n})")),
            *(f"({L}, {outside}) → ({L}, {inside}) → ({L}, {outside})", SAYS["feed"]),
            [("inside", inner), ("f", key)],
        )
        return key

    def _attention(self, number: int, path: str, part: Part) -> str:
        """Add the steps of an attention; return the key of its result."""
        names = {word: joined(path, word) for word in (*part.words, "output")}
        words: list[str] = [
            word for word in ("queries", "keys", "values", "scores", "weights", "heads") if word in part.words
        ]
        found = {w: self.values.by_heads(names[w], part) for w in words if self.values.has(names[w])}
        about = self._about(part, found)
        self.attentions.append(about)
        for word in found.keys() - {"weights"}:
            self.keep(f"{word}{number}", found[word])
        scores, weights = found.get("scores"), found["weights"]
        lost = out_of_order(weights.shape, about["causal"], about["window"])
        if scores is not None and about["normalizer"] == "softmax":  # and what the call says
            lost = excluded(scores, weights)
        about |= {"scores": scores is not None, "excluded": bits(lost)}
        H, Lq, D = found["queries"].shape
        Hk, Lk, _ = found["keys"].shape
        Dv = found["values"].shape[-1]
        of = " over the encoder" if about["crosses"] else ""
        shared = "" if Hk == H else f"; {counted(Hk, 'head')} of keys and values for {H} of queries"
        shapes = (
            f"Q ({H}, {Lq}, {D}), K ({Hk}, {Lk}, {D}), V ({Hk}, {Lk}, {Dv}): {counted(H, 'head')}{shared}"
        )
        own = "x" if self.block.placement == "post" or not self._row else "n"
        source = "m" if about["crosses"] else own
        made = f"q = W_Q {own}, k = W_K {source}, v = W_V {source}"
        made = made if isinstance(part.module, _MAPS) else "q, k, v are given"
        shapes += "; m are the encoder's rows" if about["crosses"] else ""
        self.step("projections", f"Queries, keys, values{of}", made, shapes, attention=number)
        if about["rotary"]:
            self._rotary(number, path, part, found["queries"])
        pairs, formula = f"({H}, {Lq}, {Lk})", scores_formula(about)
        added = ", b is what the model adds for each pair" if formula.endswith(" b") else ""
        self.step("scores", f"Scores of the chosen token{of}", formula, pairs + added, attention=number)
        later = np.triu(np.ones((Lq, Lk), bool), 1)
        causal = bool(lost[0][later].all()) if Lq == Lk > 1 else bool(about["causal"])
        allowed = f"{int((~lost[0]).sum())} of {lost[0].size} pairs count"
        says = mask_says(causal, about["window"], lost, about["crosses"] or Lq != Lk)
        self.step("mask", "Mask", "s = -∞ where a key must not be seen", allowed, says, attention=number)
        soft = about["normalizer"] == "softmax"
        title, formula = (
            "Softmax",
            "w = exp(s) / Σ exp(s)" + (", and exp(sink) in the sum" if about["sinks"] else ""),
        )
        if not soft:
            title, formula = "Weights", f"w = {about['normalizer']}(s)"
        says = SAYS["softmax" if soft else "weights"]
        self.step("softmax", title, formula, pairs, says, attention=number)
        self.step("sum", "Weighted sum", "z = Σ w v", f"({H}, {Lq}, {Dv})", attention=number)
        return self._output(number, path, f"heads{number}")

    def _output(self, number: int, path: str, heads: str) -> str:
        names = [self.block.role("self_attn.out_proj"), joined(path, "out_proj")]
        if number:
            del names[0]
        name = next((n for n in names if n and self.values.has(f"{n}.output")), None)
        if name is None:
            return heads
        key = self.keep(f"a{number}", self.values.rows(f"{name}.output"))
        (H, _, D), (L, M) = self.arrays[heads]["shape"], self.arrays[key]["shape"]
        rows = [("all heads", heads), ("a", key)]
        texts = "Output projection", "a = W_O [z₁ … z_h]", f"({L}, {H} · {D}) → ({L}, {M})"
        self.step("vectors", *texts, SAYS["output"], rows, attention=number)
        return key

    def _rotary(self, number: int, path: str, part: Part, turned: Array) -> None:
        """Add the turning pairs, if what they are before is recorded."""
        names = (part.module._config().get("names") or {}).get("q_proj", "q_proj"), "q_norm"
        known = [joined(path, f"{name}.output") for name in names]
        before = next((name for name in reversed(known) if self.values.has(name)), None)
        if before is None:
            return
        H, L, D = turned.shape
        table = self.values.rows(before).reshape(L, H, D).swapaxes(0, 1)
        self.keep(f"before{number}", table)
        pairs = self.attentions[-1]["rotary"] // 2
        base = part.module._config()["rotary_base"]
        self.step(
            *("rotary", "Positions: pairs turn", f"pair i at place p turns by p / {base:g}^(i/{pairs})"),
            *(f"{counted(pairs, 'pair')} of {D} features in each head", SAYS["rotary"]),
            [("before", f"before{number}"), ("after", f"queries{number}")],
            attention=number,
        )

    def _about(self, part: Part, found: dict[str, Array]) -> dict[str, Any]:
        """Return how an attention computes."""
        config, module = part.module._config(), part.module
        size = found["queries"].shape[-1]
        kinds: dict[str, Any] = {"additive": AdditiveAttention, "bilinear": BilinearAttention, "dot": _DOTS}
        kind = next((name for name, kind in kinds.items() if isinstance(module, kind)), "own")
        added = [
            words
            for name, words in (("alibi", "slope · distance"), ("relative_bias", "b[distance]"))
            if config.get(name)
        ]
        scale = config.get("scale")
        shown = found.get("scores")
        about = {
            "kind": kind if type(module).__module__.startswith("qkv") and not config.get("cosine") else "own",
            "size": size,
            "scale": 1 / math.sqrt(size) if scale is None else float(scale),
            "softcap": float(config.get("softcap") or 0),
            "added": " + ".join(added),
            "normalizer": str(config.get("normalizer") or "softmax"),
            "sinks": bool(config.get("sinks")),
            "causal": config.get("is_causal") or False,
            "window": config.get("window"),
            "crosses": part.crosses,
            "rotary": int(config.get("rotary_dim") or size) if config.get("rotary_base") else 0,
            "heads": len(found["queries"]),
            "kv": len(found["keys"]),
        }
        if about["kind"] == "dot" and not about["added"] and not about["softcap"] and shown is not None:
            keys = np.repeat(found["keys"], about["heads"] // about["kv"], 0)
            plain = about["scale"] * (found["queries"] @ keys.swapaxes(1, 2))
            if np.abs(plain - shown).max() > 1e-3 * max(float(np.abs(shown).max()), 1.0):
                about["added"] = "b"  # of a model, which its layers share
        return about
