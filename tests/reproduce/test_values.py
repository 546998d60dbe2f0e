"""Both sides of a check in numbers: what a reader sees of arrays, scalars and texts."""

import numpy as np
import pytest

from qkv.reproduce import values
from qkv.reproduce.arrays import Tolerance
from qkv.reproduce.checks import Check


def test_a_small_array_is_shown_whole_on_both_sides():
    expected = np.array([[0.25, 0.5, 0.25], [1.0, 0.0, 0.0]])
    record = values.sides(expected + 1e-7, expected, Tolerance(1e-9, 1e-6))
    assert record["values"]["expected"]["text"] == "0.2500  0.5000  0.2500\n1.0000  0.0000  0.0000"
    assert record["values"]["got"]["text"] == record["values"]["expected"]["text"]
    assert record["values"]["got"]["form"] == "float64 (2, 3)"
    assert "part" not in record["values"]["got"]
    assert record["difference"] == {"largest": pytest.approx(1e-7), "rtol": 1e-9, "atol": 1e-6}


def test_a_large_array_shows_its_first_corner_and_says_which():
    array = np.arange(2 * 3 * 5 * 7).reshape(2, 3, 5, 7) / 8
    shown = values.shown(array)
    assert shown["form"] == "float64 (2, 3, 5, 7)"
    assert shown["part"] == "[0, 0], the first 4 × 5"
    assert shown["text"].splitlines()[0] == "0.0000  0.1250  0.2500  0.3750  0.5000  …"
    assert len(shown["text"].splitlines()) == 4
    assert values.shown(np.arange(31))["part"] == "the first 12 of 31"
    assert values.shown(np.full((5, 7), -12345.5))["part"] == "the first 4 × 3"  # as fit in a line
    assert values.shown(np.zeros((17, 2, 3)))["part"] == "[0], all 2 × 3"


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.array(3.5), "3.5"),
        (np.array(2**40), "1099511627776"),
        (np.array([1.0, -2.0, 0.0]), " 1.  -2.   0."),
        (np.array([1e-7, 2.5e-6]), "1.000e-07  2.500e-06"),
        (np.array([True, False]), " True  False"),
        (np.array([np.nan, 0.5, np.inf]), "   nan  0.5000     inf"),
        (np.zeros((0, 3)), "(empty)"),
        (np.zeros(0), "(empty)"),
        (np.arange(7) / 8, "0.0000  0.1250  0.2500  0.3750  0.5000  0.6250\n0.7500"),
        (np.arange(4).reshape(2, 1, 2), "0  1\n\n2  3"),
        (np.arange(4).reshape(2, 2, 1), "0  1\n2  3"),
    ],
)
def test_notation(array, text):
    assert values.shown(array)["text"] == text


def test_texts_keep_their_lines_and_long_ones_are_cut():
    record = values.sides(["a\n b", "c"], ["a\n b", "c"])
    assert record == {"values": {"got": {"text": "a\n b\nc"}, "expected": {"text": "a\n b\nc"}}}
    cut = values.text("\n".join(["x" * 200] * 30)).splitlines()
    assert len(cut) == values.LINES + 1
    assert cut[-1] == "…"
    assert {len(line) for line in cut[:-1]} == {values.WIDTH}


@pytest.mark.parametrize("thing", [None, {"a": 1}, [None, "b"], [[1], [2, 3]], np.array([object()]), 1j])
def test_other_objects_have_no_numbers(thing):
    assert values.sides(thing, thing) == {}


def test_the_largest_difference_is_among_finite_numbers():
    assert values.largest_difference(np.array([1.0, np.nan, 3.0]), np.array([1.5, np.nan, np.inf])) == 0.5


def test_checks_keep_them(capsys):
    check = Check()
    check.close("D0-01", "weights", [0.5, 0.25], np.array([0.5, 0.25]))
    check.equal("D0-01", "words", ["a"], ["b"])
    check.printed("D0-01", "digits", np.array([0.12345]), "tensor([0.1235])")
    check.that("D0-01", "a property", True, 1)
    close, equal, printed, that = check.records
    assert close["values"]["got"]["text"] == "0.5000  0.2500"
    assert close["difference"]["rtol"] == 1e-9
    assert equal["values"] == {"got": {"text": "a"}, "expected": {"text": "b"}}
    assert printed["values"] == {"got": {"text": "[0.1235]"}, "expected": {"text": "tensor([0.1235])"}}
    assert "values" not in that


def test_the_line_of_a_large_array_begins_with_its_numbers(capsys):
    check = Check()
    check.close("D0-01", "weights", np.full((40, 50), 0.5), np.full((40, 50), 0.5))
    line = capsys.readouterr().out
    assert "[tolerance]  0.5000 0.5000 0.5000 0.5000 0.5000 ... float64 (40, 50), no error" in line
