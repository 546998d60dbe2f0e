"""Tokens and their numbers."""

from __future__ import annotations

import numpy as np
import pytest

import qkv
from qkv import data
from qkv.data import Vocabulary


def test_numbers_and_back():
    v = data.Vocabulary.of(["banana", "bandana"])
    assert v.tokens == ["<pad>", "<unk>", "<start>", "<end>", "a", "n", "b", "d"]
    ids = v.encode("bad!", start=True, end=True)
    assert ids == [2, 6, 4, 7, 1, 3]
    assert v.decode([*ids, 4, 4]) == ["b", "a", "d", "<unk>"]
    assert v.decode([0, 4, 0]) == ["a"]
    assert (len(v), v["n"], "x" in v, "d" in v, list(v)) == (8, 5, False, True, v.tokens)
    assert repr(v) == "Vocabulary(8 tokens: '<pad>' '<unk>' '<start>' '<end>' 'a' 'n' 'b' 'd')"
    with pytest.raises(KeyError):
        v["x"]


def test_rare_tokens_are_left_out():
    texts = [["x", "y", "x", "<unk>", "z", "y", "x"]]
    assert data.Vocabulary.of(texts, min_count=2, specials=("_", "?")).tokens == ["_", "?", "x", "y"]
    assert data.Vocabulary.of(texts, max_size=3, specials=("_", "?")).tokens == ["_", "?", "x"]
    assert data.Vocabulary.of(texts).tokens[4:] == ["x", "y", "z"]


def test_specials_of_bert():
    v = data.Vocabulary(["a", "b"], ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    assert v.encode("ab", start=True, end=True) == [2, 5, 6, 3]
    assert v.decode([2, 4, 5, 1, 3, 5]) == ["[MASK]", "a", "[UNK]"]


def test_specials_without_start():
    v = data.Vocabulary("ab", ["_", "?"])
    assert v.decode(v.encode("ba?")) == ["b", "a", "?"]
    with pytest.raises(ValueError, match=r"must have four specials .*; got \['_', '\?'\]"):
        v.encode("a", end=True)


def test_numbers_of_no_token():
    v = data.Vocabulary("abc")
    assert v.decode(qkv.tensor([4, 5])) == v.decode(np.array([4, 5])) == ["a", "b"]
    for ids, error, words in (
        ([-1], ValueError, "ids must be from 0 to 6; got -1"),
        ([7], ValueError, "ids must be from 0 to 6; got 7"),
        ([4.7], TypeError, "ids must be an integer .*; got 4.7"),
        ("45", TypeError, "ids must be an integer .*; got '4'"),
    ):
        with pytest.raises(error, match=f"^decode: {words}"):
            v.decode(ids)


def test_specials_differ():
    with pytest.raises(ValueError, match=r"^Vocabulary: specials must be at least two different ones"):
        data.Vocabulary("ab", specials=("_", "_"))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: Vocabulary(None), TypeError, "Vocabulary: tokens must be strings; got None"),
        (lambda: Vocabulary([["a"]]), TypeError, r"Vocabulary: tokens must be strings; got \['a'\]"),
        (lambda: Vocabulary("ab", ["<pad>", None]), TypeError, "specials must be strings; got None"),
        (lambda: Vocabulary("ab", "<pad>"), ValueError, r"specials must be at least two .*; got \['<pad>'\]"),
        (
            lambda: Vocabulary.of(3),
            TypeError,
            "Vocabulary.of: texts must be strings or lists of tokens; got 3",
        ),
        (lambda: Vocabulary.of([[1]]), TypeError, "Vocabulary.of: texts must be strings; got 1"),
        (lambda: Vocabulary.of(["ab"], max_size=3), ValueError, "max_size must be at least 4, .*; got 3"),
        (lambda: Vocabulary.of(["ab"], max_size=4.5), TypeError, "max_size must be an integer .*; got 4.5"),
        (lambda: Vocabulary.of(["ab"], min_count="2"), TypeError, "min_count must be an integer .*; got '2'"),
        (lambda: Vocabulary.of(["ab"], min_freq=2), TypeError, "did you mean min_count?"),
        (
            lambda: Vocabulary(["the", "cat"]).encode("the cat"),
            ValueError,
            "must be a list .*; got 'the cat', write",
        ),
        (lambda: Vocabulary(["the"]).encode([1]), TypeError, "encode: tokens must be strings; got 1"),
        (lambda: Vocabulary("ab").decode(4), TypeError, "decode: ids must be a list of numbers; got 4"),
        (
            lambda: Vocabulary("ab")[["a", "b"]],
            TypeError,
            r"a token must be a string; .*; write encode\(tokens\)",
        ),
        (lambda: Vocabulary("ab").to_tokens([4]), AttributeError, r"write vocabulary.decode\(ids\)"),
        (lambda: data.words(["a b"]), TypeError, r"words: text must be a string; got \['a b'\]"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_two_specials_are_needed():
    with pytest.raises(ValueError, match=r"specials must be at least two.*got \['_'\]"):
        data.Vocabulary("abc", ["_"])
