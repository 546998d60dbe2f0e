"""Words that are not used, and what is used instead: identifiers of the core, and words of prose everywhere."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from sweep import sweep

ROOT = Path(__file__).parents[1]
CPP = ROOT / "cpp"
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
    "uniform": "reproducible",
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
    """Return those of C++ code, without comments and strings."""
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


# Patterns of prose, and what is written instead.
PROSE_INSTEAD = {
    r'^r?"""gives? ': "Return, or what else the function does",
    r"\bbehind\b": "after",
    r"(?<!-)\b(stands?|stood|standing)(?! (in )?for\b| out\b)\b(?!-)": "is, are",
    r"\bwhoever\b": "the process, the caller, anyone who",
    r"\bwhatever\b": "any, even if, regardless of",
    r"\bgo(es)? on\b": "continue, run",
    r"\bwhat (is|are|has) no\b": "anything but, or those without",
    r"\bof which (there|no|none)\b": "which has none",
    r"\bforetold\b|\bspoils?\b|\bheeds?\b|\bthereby\b|\bturned round\b": "a plain verb",
    r"\bdrive each other out\b|\bfor want of\b": "a plain phrase",
    r"\bmeanwhile\b": "at the same time, since",
    r"\banew\b": "again",
    r"\bwho (asks|holds|makes|mends|needs|wants)\b|\bin vain\b": "name the one who does it; without use",
    r"\bsomebody\b|\bbut for\b|\bin one go\b|\bshall\b": "another, the user; except for; at once; is to",
    r"\bspelt\b": "spelled, written",
}


def of_python(text: str) -> Iterator[tuple[int, str]]:
    """Return lines of comments and docstrings with their numbers."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    lines = text.splitlines()
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            first, last = node.body[0].lineno, node.body[0].end_lineno
            yield from enumerate(lines[first - 1 : last], first)


def of_cpp(text: str) -> Iterator[tuple[int, str]]:
    """Return lines of comments with their numbers."""
    for part in re.finditer(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', text, re.S):
        if part[0].startswith("/"):
            yield from enumerate(part[0].splitlines(), text.count("\n", 0, part.start()) + 1)


def of_markdown(text: str) -> Iterator[tuple[int, str]]:
    """Return lines with their numbers, without blocks of code."""
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        fence = line.lstrip().startswith("```")
        code ^= fence
        if not code and not fence:
            yield number, line


def of_notebook(text: str) -> Iterator[tuple[int, str]]:
    """Return lines of Markdown cells with the numbers of the cells."""
    for number, cell in enumerate(json.loads(text)["cells"]):
        if cell["cell_type"] == "markdown":
            yield from ((number, line) for line in "".join(cell["source"]).splitlines())


READERS: dict[str, Callable[[str], Iterator[tuple[int, str]]]] = {
    ".py": of_python,
    ".h": of_cpp,
    ".cpp": of_cpp,
    ".md": of_markdown,
    ".ipynb": of_notebook,
}


@cache
def prose() -> list[tuple[str, int, str]]:
    """Return file, number and text of each line."""
    places = [f"{folder}/**/*.py" for folder in ("python/qkv", "tests", "benchmarks", "tools", "docs")]
    places += ["cpp/**/*.h", "cpp/**/*.cpp", "docs/*.md", "notebooks/*.ipynb", "*.md"]
    paths = [path for place in places for path in sorted(ROOT.glob(place))]
    return [
        (path.relative_to(ROOT).as_posix(), number, line.strip())
        for path in paths
        if path != Path(__file__)
        for number, line in READERS[path.suffix](path.read_text(encoding="utf8"))
    ]


def test_prose_is_comments_docstrings_and_pages():
    source = 'def f():\n    """Behind."""\n    x = "behind"  # after\n'
    assert list(of_python(source)) == [(3, "# after"), (2, '    """Behind."""')]
    assert list(of_cpp('f("// no");  // yes\n/* a\n b */')) == [(1, "// yes"), (2, "/* a"), (3, " b */")]
    assert list(of_markdown("a\n```\nb\n```\nc")) == [(1, "a"), (5, "c")]


@sweep("pattern", PROSE_INSTEAD)
def test_prose_is_plain(pattern):
    word = re.compile(pattern, re.IGNORECASE)
    found = [f"{path}:{number}: {text}" for path, number, text in prose() if word.search(text)]
    assert not found, "\n".join([f"instead: {PROSE_INSTEAD[pattern]}", *found])
