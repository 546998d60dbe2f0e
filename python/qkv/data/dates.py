"""Dates as people write them, in many languages, and as machines do: a translation task that needs no corpus."""

from __future__ import annotations

import datetime
import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._public import explained
from .._words.errors import count_of, integer_of, needs, shown

LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "pl", "tr", "ru", "ja")
FORMATS = ("short", "medium", "long", "full")
FIRST, LAST = datetime.date(1950, 1, 1), datetime.date(2049, 12, 31)


class DatePair(NamedTuple):
    """One date: tokens as written in a language, and the characters of its ISO form."""

    source: list[str]
    target: list[str]

    @property
    def text(self) -> str:
        """The source as a person would write it, without the language token."""
        return "".join(token for token in self.source if len(token) == 1)


@explained
def date_pairs(
    count: int,
    *,
    held_out: int = 1000,
    languages: Sequence[str] = LANGUAGES,
    formats: Sequence[str] = FORMATS,
    seed: int = 0,
) -> tuple[list[DatePair], list[DatePair]]:
    """Draw dates of the years 1950 to 2049 and write them in Unicode's formats (CLDR, through Babel).

    The short format says neither which number is the month nor which century is meant: a token such as ``<en>`` in
    front of it names the language, and each pair of digits stands for one year in these hundred.

    Parameters
    ----------
    count : int
        Number of pairs to train with; days may repeat in other languages and formats.
    held_out : int
        Number of pairs with other days, which no language of the training pairs writes.
    languages : sequence of str, or str
        Of Babel's locales, with the Gregorian calendar.
    formats : sequence of str, or str
        Out of short, medium, long and full.
    seed : int

    Returns
    -------
    train, test : list of DatePair

    Raises
    ------
    ImportError
        If Babel is missing.
    ValueError
        If a format or language is unknown, or more days are held out than there are.

    Examples
    --------
    >>> train, test = qkv.data.date_pairs(3, held_out=1, languages=["en"], formats=["full"])
    >>> train[0].text, "".join(train[0].target)
    ('Saturday, June 20, 1964', '1964-06-20')
    """
    languages, formats = ([x] if isinstance(x, str) else list(x) for x in (languages, formats))
    unknown = [f for f in formats if f not in FORMATS]
    if unknown or not formats or not languages:
        raise ValueError(
            f"date_pairs: formats must be out of {', '.join(FORMATS)}, and there must be a language; "
            f"got formats {list(formats)} and languages {list(languages)}"
        )
    days = (LAST - FIRST).days + 1
    count = count_of("date_pairs", "count", count)
    if not 0 <= integer_of("date_pairs", "held_out", held_out) < days:
        raise ValueError(
            f"date_pairs: held_out must be in 0..{days - 1} because days to train with must be left; got {held_out}"
        )
    random = np.random.default_rng(count_of("date_pairs", "seed", seed))
    shuffled = random.permutation(days)
    test = shuffled[:held_out]
    train = shuffled[held_out + np.arange(count) % (days - held_out)]
    dates, locales = _babel(languages)

    def pair(day: int) -> DatePair:
        date = FIRST + datetime.timedelta(days=int(day))
        language = languages[int(random.integers(len(languages)))]
        kind = formats[int(random.integers(len(formats)))]
        text = " ".join(dates.format_date(date, kind, locale=locales[language]).split())
        token = [f"<{language}>"] if kind == "short" else []
        return DatePair([*token, *text], list(date.isoformat()))

    return [pair(day) for day in train], [pair(day) for day in test]


def _babel(languages: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    core, dates = babel("date_pairs", "babel.core"), babel("date_pairs", "babel.dates")
    try:
        return dates, {language: core.Locale.parse(language) for language in languages}
    except (ValueError, TypeError, core.UnknownLocaleError) as error:
        raise ValueError(
            f"date_pairs: languages must be locales that Babel knows, such as en; got {shown(languages)}"
        ) from error


def babel(operation: str, module: str) -> Any:
    """Import a module of Babel, or say how to install it."""
    words = f"{operation}: Babel must be installed because the names of Unicode's CLDR come from it"
    with needs(f'{words}; pip install "qkv[data]"'):
        return importlib.import_module(module)
