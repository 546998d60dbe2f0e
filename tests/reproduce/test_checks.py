"""Every kind of check is seen to pass and seen to fail."""

import re

import numpy as np
import pytest

from qkv.reproduce import Check, golden


@pytest.fixture
def check(capsys):
    return Check()


def last(check):
    return check.records[-1]


def test_golden_gives_named_read_only_arrays():
    data = golden("D0-18")
    assert data["keys"].shape == (2, 10, 2)
    assert "out" in data
    assert len(data) == len(list(data))
    assert set(data.select("grad.train.")) == {"queries", "keys", "values"}
    assert golden("D1-11").about["seed"] == 789
    with pytest.raises(ValueError, match="read-only"):
        data["keys"][0] = 0
    with pytest.raises(KeyError, match=r"group D0-18 has no array 'nothing'"):
        data["nothing"]
    with pytest.raises(ValueError, match=r"group must be one of the stored groups.*got 'D9-99'"):
        golden("D9-99")


def test_close_uses_the_golden_tolerance(check):
    out = golden("D0-18")["out"]
    assert check.close("D0-18", "output", out * (1 + 5e-10), out)
    assert not check.close("D0-18", "output", out * (1 + 5e-9), out)
    grad = golden("D0-18")["grad.keys"]
    assert check.close("D0-18", "gradient", grad * (1 + 5e-9), grad)
    assert check.close("D0-18", "part of a golden array", grad[0] * (1 + 5e-9), grad[0])
    assert not check.close("D0-18", "other arrays", np.array(grad) * (1 + 5e-9), np.array(grad))
    assert check.close("D0-18", "by name", out[0] * 1, "D0-18/out[0]")


def test_close_widens_for_float32_and_only_then(check):
    out = golden("D0-18")["out"]
    assert check.close("D0-18", "output", out.astype("float32"), out)
    assert not check.close("D0-18", "output", out.astype("float32").astype("float64"), out)
    assert not check.close("D0-18", "output", (out * (1 + 1e-4)).astype("float32"), out)
    assert check.close("D0-18", "wider on request", (out * (1 + 1e-4)).astype("float32"), out, rtol=1e-3)


@pytest.mark.parametrize(
    ("got", "words"),
    [
        (np.ones((3, 2)), r"shape \(3, 2\)"),
        (np.ones(6), "shape"),
        (np.ones((2, 3), int), "integers"),
        (np.ones((2, 3), bool), "booleans"),
        (np.full((2, 3), np.nan), "nan there"),
        (np.full((2, 3), np.inf), "inf there"),
        (np.ones((2, 3), object), "objects"),
        (np.ones((2, 3)) + 1e-3, "error 0.001; 6 of 6"),
        (np.ones((2, 3), complex), "complex"),
    ],
)
def test_close_fails_on(check, got, words):
    assert not check.close("D0-18", "ones", got, np.ones((2, 3)))
    assert re.search(words, last(check)["got"])


def test_nan_is_accepted_only_where_golden_has_it(check):
    name = "D1-12/document_mask"
    mask = golden("D1-12")["document_mask"]
    assert np.isnan(mask).any()
    assert check.equal("D1-12", "the document's mask", np.array(mask), name)
    assert check.close("D1-12", "the document's mask", np.array(mask), name)
    assert not check.close("D1-12", "zeros for NaN", np.nan_to_num(mask, nan=0.0), name)
    assert not check.close("D1-12", "no golden array", np.array([np.nan]), np.array([np.nan]))
    assert not check.equal("D1-12", "no golden array", np.array([np.nan]), np.array([np.nan]))
    assert check.close("D1-12", "infinity", np.array([-np.inf, 1.0]), np.array([-np.inf, 1.0]))
    assert not check.close("D1-12", "infinity", np.array([np.inf, 1.0]), np.array([-np.inf, 1.0]))


def test_equal(check):
    assert check.equal("D0-03", "identity", np.eye(10)[None, None], "D0-03/attention_weights")
    assert not check.equal(
        "D0-03", "last bit", np.nextafter(np.eye(10), 2)[None, None], "D0-03/attention_weights"
    )
    assert not check.equal("D0-03", "kind", np.eye(3, dtype=bool), np.eye(3))
    assert not check.equal("D0-03", "shape", np.eye(3)[None], np.eye(3))
    assert check.equal("D3-05", "count", 72, 72)
    assert not check.equal("D3-05", "count", 72, 600)
    assert check.equal("D3-23", "words", ["are", "dead"], ("are", "dead"))
    assert not check.equal("D3-23", "words", ["are", "dead"], ("are", "alive"))
    assert not check.equal("D3-23", "text and number", "72", 72)
    assert not check.equal("D3-23", "none", None, 0)


PRINTED = "tensor([[-0.0739,  0.0713],\n        [-0.0748,  0.0703]], grad_fn=<MmBackward0>)"


def test_printed(check):
    values = np.array([[-0.07391, 0.07132], [-0.07484, 0.0703]])
    assert check.printed("D1-11", "text", PRINTED, PRINTED)
    assert check.printed("D1-11", "array", values, PRINTED)
    assert check.printed("D1-11", "other spacing", "[[-0.0739, 0.0713], [-0.0748, 0.0703]]", PRINTED)
    assert not check.printed("D1-11", "one digit", values + 1e-4, PRINTED)
    assert not check.printed("D1-11", "fewer digits", "[[-0.074, 0.071], [-0.075, 0.070]]", PRINTED)
    assert not check.printed("D1-11", "brackets", values.ravel(), PRINTED)
    assert not check.printed("D1-11", "transposed", values.T, PRINTED)
    assert not check.printed("D1-11", "longer", np.vstack([values, values]), PRINTED)
    assert check.printed("D2-03", "cut off", np.vstack([values, values]), PRINTED.split("]],")[0], cut=True)
    assert not check.printed("D2-03", "too short", values[:1], PRINTED.split("]],")[0], cut=True)
    assert not check.printed("D1-11", "nothing to compare", "", "")
    check.records.clear()
    assert check.printed("D1-11", "stored", PRINTED, PRINTED, source="pytorch")
    assert check.printed("D1-11", "known", PRINTED, PRINTED, source=None)
    assert check.equal("D2-07", "shown", PRINTED, PRINTED, source="document")
    assert check.equal("D2-07", "made here", PRINTED, PRINTED)
    assert [record.get("source") for record in check.records] == ["pytorch", None, "document", None]


def test_printed_in_other_notations(check):
    assert check.printed(
        "D2-05", "e-notation", np.array([9.18893e-06, 0.99991]), "tensor([9.1889e-06, 9.9991e-01])"
    )
    assert not check.printed(
        "D2-05", "e-notation", np.array([9.1896e-06, 0.99991]), "tensor([9.1889e-06, 9.9991e-01])"
    )
    assert check.printed("D2-07", "whole numbers", np.array([1.0, 0.0]), "tensor([1., 0.])")
    assert not check.printed("D2-07", "whole numbers", np.array([1.2, 0.0]), "tensor([1., 0.])")
    assert check.printed("D2-07", "booleans", np.array([True, False]), "tensor([ True, False])")
    assert check.printed("D2-01", "integers", np.array([2, 4]), "tensor([2, 4], dtype=torch.int32)")
    assert not check.printed(
        "D2-01", "real numbers", np.array([2.2, 4.1]), "tensor([2, 4], dtype=torch.int32)"
    )


def test_printed_but_for_last_digits(check):
    text = "tensor([[ 2.5000e+00, -7.6677e-04],\n        [ 3.7557e-02,  1.7761e-06]])"
    for pattern, number, accepted in (
        ("3.7557e-02", "3.7558e-02", True),
        ("3.7557e-02", "3.7560e-02", False),
        ("1.7761e-06", "1.7512e-06", True),  # 2.5e-8, the rounding of numbers near 2.5
        ("1.7761e-06", "2.7761e-06", False),
        ("2.5000e+00", "2.5002e+00", False),
        ("3.7557e-02", "3.756e-02", False),
        ("3.7557e-02", "nan", False),
    ):
        other = text.replace(pattern, number)
        assert check.printed("D0-18", "digits", other, text, last=True) is accepted, number
        assert not check.printed("D0-18", "digits", other, text)
    assert check.printed("D0-18", "the same", text, text, last=True)
    assert not check.printed("D0-18", "shorter", text.replace("2.5000e+00, ", ""), text, last=True)
    assert not check.printed("D0-18", "nothing", "", "", last=True)


def test_shape_that_and_raises(check):
    assert check.shape("D0-18", "output", np.zeros((2, 1, 4)), (2, 1, 4))
    assert check.shape("D0-18", "output", [2, 1, 4], (2, 1, 4))
    assert not check.shape("D0-18", "output", np.zeros((2, 4)), (2, 1, 4))
    assert check.that("D0-02", "sum", np.bool_(True), got=1.0)
    assert not check.that("D0-02", "sum", False, got=1.5, expected="below 1")
    assert last(check)["got"] == "1.5"
    assert last(check)["expected"] == "below 1"
    with pytest.raises(TypeError, match=r"condition must be one boolean.*got ndarray \(3,\)"):
        check.that("D0-02", "many", np.array([True, True, False]), 3)
    with pytest.raises(TypeError, match="condition must be one boolean"):
        check.that("D0-02", "an array is not a truth", 1, 1)
    with pytest.raises(TypeError, match="got"):
        check.that("D0-02", "nothing found", True)
    assert check.raises("D4-11", "refused", ValueError, "invalid literal", int, "a")
    assert not check.raises("D4-11", "other text", ValueError, "divisible", int, "a")
    assert not check.raises("D4-11", "other kind", TypeError, None, int, "a")
    assert not check.raises("D4-11", "accepted", ValueError, None, int, "1")
    assert last(check)["got"] == "no exception"


def test_nothing_agrees_with_nothing(check):
    for got, expected in ((np.ones((0, 6)), np.zeros((0, 6))), ([], np.zeros(0)), ([], []), ("", "")):
        assert not check.equal("X-GRU", "zeros behind the end", got, expected)
        assert last(check)["expected"] == "something to compare"
        assert last(check)["got"].startswith("nothing, ")
    assert not check.close("X-GRU", "zeros behind the end", np.ones((0, 6)), np.zeros((0, 6)))
    assert not check.equal("X-GRU", "an array for no text", np.ones(3), [])


def test_a_stored_array_is_not_a_result(check):
    weights = golden("D2-12")["sqrt_d_k.prob"]
    calls = (
        lambda: check.close("D2-12", "itself", weights, "D2-12/sqrt_d_k.prob"),
        lambda: check.close("D2-12", "a part", weights[4:].swapaxes(1, 2), np.zeros((4, 4, 4))),
        lambda: check.equal("D2-12", "in a list", [weights[0], weights[1]], np.zeros((2, 4, 4))),
        lambda: check.shape("D2-12", "its shape", weights, (8, 4, 4)),
        lambda: check.printed("D2-12", "its digits", weights[0, 0], "[0.25, 0.25, 0.25, 0.25]"),
    )
    for call in calls:
        with pytest.raises(
            ValueError, match=r"got must be computed.*got the golden array D2-12/sqrt_d_k\.prob"
        ):
            call()
    assert check.records == []
    assert check.equal("D2-12", "a copy that was computed", weights * 1, weights)


def test_skipped_is_neither_ok_nor_failed(check, capsys):
    assert check.skipped("T-MINILM", "everything", "the weights are not installed") is None
    assert last(check)["state"] == "skipped"
    assert last(check)["got"] == "the weights are not installed"
    assert "skip T-MINILM  everything  [skipped]  the weights are not installed" in capsys.readouterr().out
    with pytest.raises(ValueError, match="id must be an experiment's id"):
        check.skipped("MINILM", "everything", "no weights")


def test_records_and_ids(check, capsys):
    check.equal("D0-03", "count", 1, 1)
    assert {key: value for key, value in last(check).items() if key != "values"} == {
        "id": "D0-03",
        "what": "count",
        "how": "exact",
        "expected": "1",
        "got": "1",
        "state": "ok",
    }
    assert "ok   D0-03  count" in capsys.readouterr().out
    check.equal("D0-03", "count", 1, 2)
    assert "FAIL D0-03  count" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"id must be an experiment's id.*got 'D0-3'"):
        check.equal("D0-3", "count", 1, 1)
