"""Tokens and their numbers."""

from __future__ import annotations

import numpy as np
import pytest

import qkv
from qkv import data


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
        ([4.7], TypeError, "ids must be an integer .*; got float"),
        ("45", TypeError, "ids must be an integer .*; got str"),
    ):
        with pytest.raises(error, match=f"^decode: {words}"):
            v.decode(ids)


def test_specials_differ():
    with pytest.raises(ValueError, match=r"^Vocabulary: specials must be at least two different ones"):
        data.Vocabulary("ab", specials=("_", "_"))


def test_two_specials_are_needed():
    with pytest.raises(ValueError, match=r"specials must be at least two.*got \['_'\]"):
        data.Vocabulary("abc", ["_"])
