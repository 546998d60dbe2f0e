"""Notebooks run with the same bits as on other CPUs, and hashes of arrays say whether they are."""

import json

import numpy as np
import pytest

from qkv.reproduce import arrays, kernels, results, terminal
from qkv.reproduce.checks import Check


def test_a_hash_tells_numbers_shape_and_dtype():
    x = np.arange(6.0).reshape(2, 3)
    others = [x.T.copy(), x.astype("float32"), x.reshape(3, 2), np.nextafter(x, 9)]
    assert arrays.digest(x) == arrays.digest(np.asfortranarray(x))
    assert len({arrays.digest(y) for y in [x, *others]}) == 5


def test_the_file_of_results_holds_the_hashes_of_compared_arrays(tmp_path):
    check = Check()
    got = np.float32([1, 2])
    check.close("D0-01", "numbers", got, np.float32([1, 2]))
    check.equal("D0-01", "integers", np.array([3]), np.array([3]))
    check.equal("D0-01", "words", "a", "a")
    made = [{**record, "cell": 1} for record in check.records]
    result = results.Result(tmp_path / "one.ipynb", None, records=made)
    results.write(tmp_path, [result], {})
    checks = json.loads((tmp_path / results.NAME).read_text())["notebooks"]["one.ipynb"]["checks"]
    assert [one.get("hash") for one in checks] == [arrays.digest(got), arrays.digest(np.array([3])), None]


@pytest.mark.parametrize(("fused", "value"), [(True, "1"), (False, "0")])
def test_kernels_are_told(monkeypatch, fused, value):
    monkeypatch.setattr(kernels, "config", lambda: {"fused_multiply_add": fused})
    assert kernels._environment(2)["QKV_REPRODUCIBLE"] == value


def test_a_cpu_that_cannot_is_said(capsys):
    terminal.not_reproducible("baseline")
    why = (
        "last digits may differ from those of other CPUs because the level baseline has no fused multiply-add"
    )
    assert capsys.readouterr().err == f"reproduce: {why}\n"
