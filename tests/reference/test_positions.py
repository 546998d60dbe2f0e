"""The reference positions against the golden arrays and their defining equations."""

from __future__ import annotations

import numpy as np
import pytest
from tolerances import TOLERANCES

from qkv import reference


def test_sinusoidal_table(golden):
    g = golden("D0-28")
    P = reference.sinusoidal_positions(60, 32)
    g.close("P", P)
    g.close("columns_6_9", P[:, 6:10].T)
    g.close("X_plus_P", g["X"] + P[:7])
    g.close("P_1000_row_999", reference.sinusoidal_positions(1000, 32)[999])
    g.close("dot_by_offset", P @ P[0])
    g.close("max_distance_of_neighbours", np.linalg.norm(np.diff(P, axis=0), axis=1).max())
    golden("D2-04").close("pe", reference.sinusoidal_positions(5, 8))
    golden("D3-22").close("pe", reference.sinusoidal_positions(2, 4))


def test_rounded_once_to_the_dtype_asked_for(golden):
    P = reference.sinusoidal_positions(60, 32, dtype="float32")
    assert P.dtype == np.float32
    np.testing.assert_array_equal(P, reference.sinusoidal_positions(60, 32).astype("float32"))


def test_an_odd_width_ends_with_a_sine():
    odd = reference.sinusoidal_positions(11, 7, base=100.0)
    angles = np.arange(11) * 100.0 ** (-6 / 7)
    np.testing.assert_allclose(odd[:, 6], np.sin(angles), *TOLERANCES["float64"])
    np.testing.assert_allclose(odd[:, 1], np.cos(np.arange(11)), *TOLERANCES["float64"])


@pytest.mark.parametrize("offset", [1, 5, 17])
def test_relative_rotation(golden, offset):
    R = reference.relative_rotation(offset, 32)
    blocks = np.stack([R[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] for j in range(16)])
    golden("D0-30").close(f"R_delta{offset}", blocks)
    assert np.count_nonzero(R) == np.count_nonzero(blocks)
    P = reference.sinusoidal_positions(60, 32)
    np.testing.assert_allclose(P[:-offset] @ R.T, P[offset:], *TOLERANCES["float64"])


def test_rotary_scores_depend_on_the_distance_alone():
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=10), rng.normal(size=10)
    for interleaved in (False, True):
        cos, sin = reference.rotary_tables(np.arange(23), 6)  # 4 of 10 features stay
        q_all = reference.apply_rotary(np.tile(q, (23, 1)), cos, sin, interleaved=interleaved)
        k_all = reference.apply_rotary(np.tile(k, (23, 1)), cos, sin, interleaved=interleaved)
        scores = q_all @ k_all.T
        for d in (-3, 0, 7):
            diagonal = np.diagonal(scores, d)
            np.testing.assert_allclose(diagonal, diagonal[0], *TOLERANCES["float64"])
        assert abs(scores[0, 0] - scores[0, 5]) > 1e-3
        np.testing.assert_array_equal(q_all[:, 6:], np.tile(q[6:], (23, 1)))


def test_rotary_pairs():
    x = np.arange(1.0, 5.0)[None]
    cos, sin = np.zeros((1, 2)), np.ones((1, 2))  # a quarter turn: (a, b) to (-b, a)
    assert reference.apply_rotary(x, cos, sin).tolist() == [[-3.0, -4.0, 1.0, 2.0]]
    assert reference.apply_rotary(x, cos, sin, interleaved=True).tolist() == [[-2.0, 1.0, -4.0, 3.0]]
    assert x.tolist() == [[1.0, 2.0, 3.0, 4.0]]


def test_alibi_slopes():
    np.testing.assert_allclose(reference.alibi_slopes(8), 2.0 ** -np.arange(1, 9))
    six = [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]
    np.testing.assert_allclose(reference.alibi_slopes(6), six)
    assert reference.alibi_slopes(1).tolist() == [2**-8]


def test_odd_widths_cannot_rotate():
    with pytest.raises(ValueError, match=r"relative_rotation: dim must be even .* got dim = 7"):
        reference.relative_rotation(1, 7)
    with pytest.raises(ValueError, match=r"rotary_tables: dim must be even .* got dim = 3"):
        reference.rotary_tables([0], 3)
