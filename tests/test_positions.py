"""Tables of positions: golden arrays, the reference and their defining equations."""

from __future__ import annotations

import numpy as np
import pytest
from tolerances import TOLERANCES

import qkv
from qkv import reference
from qkv.testing import check_gradient


def test_no_positions_are_no_work():
    assert qkv.sinusoidal_positions(0, 2**31 - 1).shape == (0, 2**31 - 1)


def test_sinusoidal_table(golden):
    g = golden("D0-28")
    P = qkv.sinusoidal_positions(60, 32, dtype="float64")
    g.close("P", P)
    g.close("P_1000_row_999", qkv.sinusoidal_positions(1000, 32, dtype="float64")[999])
    golden("D2-04").close("pe", qkv.sinusoidal_positions(5, 8, dtype="float64"))
    np.testing.assert_allclose(P, reference.sinusoidal_positions(60, 32), *TOLERANCES["same formula"])
    odd = qkv.sinusoidal_positions(11, 7, base=100.0, dtype="float64")
    np.testing.assert_allclose(odd, reference.sinusoidal_positions(11, 7, 100.0), *TOLERANCES["same formula"])
    assert qkv.sinusoidal_positions(0, 8).shape == (0, 8)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_tables_are_rounded_once(dtype):
    tables = {
        "sinusoidal": lambda d: qkv.sinusoidal_positions(600, 32, dtype=d),
        "rotation": lambda d: qkv.relative_rotation(500, 32, dtype=d),
        "cos": lambda d: qkv.rotary_tables(range(600), 32, dtype=d)[0],
        "sin": lambda d: qkv.rotary_tables(range(600), 32, dtype=d)[1],
        "slopes": lambda d: qkv.alibi_slopes(12, dtype=d),
    }
    for table in tables.values():
        rounded = table(dtype)
        assert rounded.dtype == dtype
        np.testing.assert_array_equal(rounded, table("float64").astype(dtype))
    assert qkv.sinusoidal_positions(2, 2).dtype == np.float32
    assert qkv.alibi_slopes(2).dtype == np.float32


@pytest.mark.parametrize("offset", [1, 5, 17, -3])
def test_relative_rotation(golden, offset):
    R = qkv.relative_rotation(offset, 32, dtype="float64")
    if offset > 0:
        blocks = np.stack([R[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] for j in range(16)])
        golden("D0-30").close(f"R_delta{offset}", blocks)
        assert np.count_nonzero(R) == np.count_nonzero(blocks)
    P = qkv.sinusoidal_positions(60, 32, dtype="float64")
    np.testing.assert_allclose(P[10:40] @ R.T, P[10 + offset : 40 + offset], *TOLERANCES["float64"])


def test_rotary_tables_and_rotation():
    cos, sin = qkv.rotary_tables([0, 3, 7], 6, 100.0, "float64")
    expected = reference.rotary_tables([0, 3, 7], 6, 100.0)
    np.testing.assert_allclose(cos, expected[0], *TOLERANCES["same formula"])
    np.testing.assert_allclose(sin, expected[1], *TOLERANCES["same formula"])
    x = np.random.default_rng(0).normal(size=(2, 5, 3, 11))
    for interleaved in (False, True):
        y = qkv.apply_rotary(x, cos, sin, interleaved=interleaved)
        np.testing.assert_allclose(
            y, reference.apply_rotary(x, cos, sin, interleaved=interleaved), *TOLERANCES["float64"]
        )
        np.testing.assert_array_equal(y[..., 6:], x[..., 6:])
        check_gradient(lambda x, i=interleaved: qkv.apply_rotary(x, cos, sin, interleaved=i), x)
        check_gradient(lambda *given, i=interleaved: qkv.apply_rotary(*given, interleaved=i), x, cos, sin)
        check_gradient(
            lambda x, sin, i=interleaved: qkv.apply_rotary(x, cos[:1], sin, interleaved=i), x, sin[:1]
        )
        learned = qkv.apply_rotary(x, qkv.tensor(cos, requires_grad=True), sin, interleaved=interleaved)
        np.testing.assert_allclose(learned.detach(), y, *TOLERANCES["float64"])
        narrow = qkv.apply_rotary(x.astype("float32"), qkv.tensor(cos, requires_grad=True), sin.tolist())
        assert narrow.dtype == np.float32


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotated_products_depend_on_the_distance_alone(interleaved):
    rng = np.random.default_rng(0)
    q, k = (np.tile(rng.normal(size=8), (23, 1)) for _ in range(2))
    tables = qkv.rotary_tables(range(23), 8, dtype="float64")
    scores = qkv.apply_rotary(q, *tables, interleaved=interleaved) @ (
        qkv.apply_rotary(k, *tables, interleaved=interleaved).T
    )
    for d in (-3, 0, 7):
        diagonal = np.diagonal(scores, d)
        np.testing.assert_allclose(diagonal, diagonal[0], *TOLERANCES["float64"])
    assert abs(scores[0, 0] - scores[0, 5]) > 1e-3


def test_alibi_slopes():
    np.testing.assert_array_equal(qkv.alibi_slopes(8, "float64"), 2.0 ** -np.arange(1, 9))
    six = [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]
    np.testing.assert_allclose(qkv.alibi_slopes(6), six)
    for heads in range(1, 41):
        ours = qkv.alibi_slopes(heads, "float64")
        np.testing.assert_allclose(ours, reference.alibi_slopes(heads), *TOLERANCES["same formula"])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: qkv.sinusoidal_positions(-1, 2), ValueError, r"max_len must be at least 0 .* max_len = -1"),
        (lambda: qkv.sinusoidal_positions(1, -2), ValueError, r"dim must be at least 0 .* got dim = -2"),
        (lambda: qkv.sinusoidal_positions(1, 2, 0.0), ValueError, r"base must be above 0 .* got base = 0"),
        (
            lambda: qkv.sinusoidal_positions(1, 2, dtype="int32"),
            TypeError,
            r"dtype must be floating .* got int32",
        ),
        (lambda: qkv.relative_rotation(1, 7), ValueError, r"relative_rotation: dim must be even .* dim = 7"),
        (lambda: qkv.rotary_tables([0], 3), ValueError, r"rotary_tables: dim must be even .* got dim = 3"),
        (lambda: qkv.rotary_tables(["a"], 2), TypeError, r"rotary_tables: positions must be numbers"),
        (lambda: qkv.alibi_slopes(0), ValueError, r"alibi_slopes: num_heads must be at least 1; .* = 0"),
    ],
)
def test_rejections(call, error, message):
    with pytest.raises(error, match=message):
        call()
