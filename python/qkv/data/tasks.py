"""Three tasks for a trained language model: what a sentence is about, which word is what, do two sentences agree."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .._public import explained
from .._words.errors import count_of, shown
from .dates import babel
from .templates import ADJECTIVES, NAMES, NUMBERS, PAIRS, PLACES, TAGGED, TAGS, TOPICS

TASKS = ("topic", "tagging", "contradiction")

_SLOT = re.compile(r"\{(\w+)(?: (\d))?\}")


class Example(NamedTuple):
    """Words of one sentence or of two, and the label's number, or one for each word of ``first``."""

    first: list[str]
    second: list[str]
    label: int | list[int]


class Task(NamedTuple):
    """Examples to train with and others to test with, which have no first sentence in common."""

    name: str
    labels: tuple[str, ...]
    train: list[Example]
    test: list[Example]

    def majority(self) -> float:
        """Return the share of test labels that are the most frequent label of the training examples.

        Raises
        ------
        ValueError
            If there are no examples to train or to test with.
        """
        if not self.train or not self.test:
            raise ValueError(
                f"Task.majority: count and held_out must be above 0; got {len(self.train)} and {len(self.test)}"
            )
        frequent = Counter(_labels(self.train)).most_common(1)[0][0]
        found = _labels(self.test)
        return found.count(frequent) / len(found)

    def words(self) -> list[str]:
        """Return all words that occur, in order."""
        return sorted({w for e in (*self.train, *self.test) for w in (*e.first, *e.second)})


@explained
def task(name: str, count: int = 2000, *, held_out: int = 500, seed: int = 0) -> Task:
    """Make sentences out of templates and the names of countries, languages, months and weekdays (CLDR, through Babel).

    Parameters
    ----------
    name : "topic", "tagging" or "contradiction"
        Topic: is the sentence about travel, money, the calendar or a language. Tagging: the part of speech of each
        word. Contradiction: may two sentences both be true.
    count : int
        Number of examples to train with.
    held_out : int
        Number of examples to test with.
    seed : int

    Returns
    -------
    Task

    Raises
    ------
    ImportError
        If Babel is missing.
    ValueError
        If there is no such task, or the templates do not give so many sentences.

    Examples
    --------
    >>> found = qkv.data.task("tagging", 20, held_out=10)
    >>> example = found.train[0]
    >>> len(found.train), len(found.test), len(example.first) == len(example.label)
    (20, 10, True)
    """
    makers: dict[str, tuple[tuple[str, ...], Callable[[np.random.Generator], Example]]] = {
        "topic": (tuple(TOPICS), _topic),
        "tagging": (TAGS, _tagging),
        "contradiction": (("agrees", "contradicts"), _contradiction),
    }
    if name not in makers:
        raise ValueError(f"task: name must be one of {', '.join(TASKS)}; got {shown(name)}")
    labels, make = makers[name]
    count, held_out = count_of("task", "count", count), count_of("task", "held_out", held_out)
    random = np.random.default_rng([count_of("task", "seed", seed), TASKS.index(name)])
    wanted = count + held_out
    found: dict[tuple[str, ...], Example] = {}
    for _ in range(20 * wanted + 1000):
        if len(found) == wanted:
            break
        example = make(random)
        found.setdefault(tuple(example.first), example)
    if len(found) < wanted:
        raise ValueError(
            f"task: count and held_out must be at most about {len(found)} together because the templates of "
            f"{name!r} give no more sentences; got {count} + {held_out}"
        )
    examples = list(found.values())
    return Task(name, labels, examples[:count], examples[count:])


def _topic(random: np.random.Generator) -> Example:
    label = int(random.integers(len(TOPICS)))
    kind = list(TOPICS)[label]
    return Example(_fill(_one(TOPICS[kind], random), {}, random), [], label)


def _tagging(random: np.random.Generator) -> Example:
    filled = _fill(_one(TAGGED, random), {}, random)
    pairs = [word.rsplit("/", 1) for word in filled]
    return Example([word for word, _ in pairs], [], [TAGS.index(tag) for _, tag in pairs])


def _contradiction(random: np.random.Generator) -> Example:
    first, agree, contradict = PAIRS[random.integers(len(PAIRS))]
    label = int(random.integers(2))
    slots: dict[tuple[str, str], str] = {}
    sentence = _fill(first, slots, random)
    return Example(sentence, _fill(_one(contradict if label else agree, random), slots, random), label)


def _one(options: tuple[str, ...], random: np.random.Generator) -> str:
    return options[random.integers(len(options))]


def _fill(template: str, slots: dict[tuple[str, str], str], random: np.random.Generator) -> list[str]:
    """Put words into the slots; different slots of one kind get different words."""
    taken = {kind: {word for (k, _), word in slots.items() if k == kind} for kind, _ in slots}

    def word(match: re.Match[str]) -> str:
        kind, number = match.group(1), match.group(2)
        if number is not None and (kind, number) in slots:
            return slots[kind, number]
        used = taken.setdefault(kind, set())
        choice = _one(tuple(w for w in _words()[kind] if w not in used), random)
        used.add(choice)
        if number is not None:
            slots[kind, number] = choice
        return choice

    return _SLOT.sub(word, template).split()


@functools.cache
def _words() -> dict[str, tuple[str, ...]]:
    """Return the words for each kind of slot: own lists, and the names of CLDR that are one word in English."""
    english = babel("task", "babel.core").Locale.parse("en")

    def single(names: object) -> tuple[str, ...]:
        found = sorted({str(name) for name in names})  # type: ignore[attr-defined]
        return tuple(name.lower() for name in found if re.fullmatch(r"[A-Z][a-z]+", name))

    countries = [name for code, name in english.territories.items() if re.fullmatch(r"[A-Z]{2}", code)]
    languages = [name for code, name in english.languages.items() if re.fullmatch(r"[a-z]{2}", code)]
    return {
        "name": tuple(NAMES),
        "adjective": tuple(ADJECTIVES),
        "place": tuple(PLACES),
        "number": tuple(NUMBERS),
        "country": single(countries),
        "language": single(languages),
        "month": single(english.months["format"]["wide"].values()),
        "weekday": single(english.days["format"]["wide"].values()),
    }


def _labels(examples: list[Example]) -> list[int]:
    found: list[int] = []
    for example in examples:
        found += [example.label] if isinstance(example.label, int) else example.label
    return found
