"""The field's words: identifiers that the core does not use, and what they use instead."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from sweep import sweep

CPP = Path(__file__).parents[1] / "cpp"
FOLDERS = ("core", "kernels", "autograd", "ops", "nn", "models", "bindings")
SOURCES = sorted(p for folder in FOLDERS for p in (CPP / folder).rglob("*.*"))
INSTEAD = {
    "Finish": "Epilogue",
    "RowsBehind": "DeferredRows",
    "Between": "Interleaved",
    "Into": "StoreMode",
    "careful": "nan_safe",
    "care_matters": "nan_safe_differs",
    "few": "is_decode",
    "few_scores": "decode_scores",
    "few_values": "decode_values",
    "small": "short, or what is small",
    "is_small": "is_short",
    "parts_of": "the divisor, or the fields of a number",
    "uniform": "batch_invariant",
    "place_of_max": "argmax",
    "place_of_min": "argmin",
    "best_places": "topk",
    "deviation": "stddev",
    "root": "safe_sqrt",
    "conjunction": "bit_and",
    "disjunction": "bit_or",
    "exclusive": "bit_xor",
    "slope": "derivative, gradient, or dx of an x",
    "slopes": "gradients",
    "meanwhile": "what is done at the same time",
    "habits": "idioms",
    "Alone": "ExclusiveAccess",
    "Restriction": "MaskSpec",
    "RestrictionNames": "MaskNames",
    "row_shift": "row_delta",
}
# Words that mean something else above operations.
LOOPS = {"Between", "parts_of", "uniform", "root", "slope", "slopes", "few", "small"}
# Files where a word means something else.
OTHERWISE = {
    "few": {"kernels/matmul/microkernel.h"},  # registers
    "uniform": {"core/random.h", "core/random.cpp", "core/random_transform.h", "core/random_transform.cpp"},
    "root": {"kernels/optimizer.h", "kernels/optimizer.cpp", "kernels/simd/power.h"},  # numbers, no operation
    "slope": {"ops/ops.h", "ops/activation.cpp"},
    "slopes": {"ops/attention/formula/options.cpp", "ops/position_tables.cpp"},
}


def identifiers(text: str) -> set[str]:
    """Give those of C++ code, without comments and strings."""
    text = re.sub(r'//[^\n]*|/\*.*?\*/|^ *#include[^\n]*|"(?:[^"\\\n]|\\.)*"', " ", text, flags=re.S | re.M)
    return set(re.findall(r"[A-Za-z_]\w*", text))


def test_comments_and_strings_are_left_out():
    assert identifiers('int few = f("small"); // careful\n#include "root/x.h"\n') == {"int", "few", "f"}


@cache
def used() -> dict[str, set[str]]:
    return {p.relative_to(CPP).as_posix(): identifiers(p.read_text(encoding="utf8")) for p in SOURCES}


def is_loop(name: str) -> bool:
    return name.startswith(("core/", "kernels/", "ops/"))


@sweep("word", INSTEAD)
def test_identifiers_are_the_fields_words(word):
    found = {name for name, words in used().items() if word in words and (word not in LOOPS or is_loop(name))}
    assert found <= OTHERWISE.get(word, set()), INSTEAD[word]
    assert OTHERWISE.get(word, set()) <= found, "exceptions that are none"
