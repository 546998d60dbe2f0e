"""A formula means the same at every level: scalars, of one index, of pairs, for all pairs at once, in gradients."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from sweep import sweep

import qkv
import qkv.torch as torch
from qkv import scores
from qkv.masks import formulas
from qkv.torch.nn.attention import flex_attention as flex

from . import cases

DTYPES = ("float32", "float64")
TURN = np.array([True, False])
SMALL, UNSIGNED = np.array([1, 2, 3, 4, 100, 120, 7], "int8"), np.arange(250, 257).astype("uint8")
X = np.array([0.3, -1.5, 2.5, np.nan, 4.0, np.inf, 0.0])


def allowed(mask, dtype="float64", shape=(2, 2, 5, 7)):
    B, H, Lq, Lk = shape
    q, k = np.zeros((B, H, Lq, 4), dtype), np.zeros((B, H, Lk, 4), dtype)
    return qkv.scaled_dot_product_attention(q, k, k, mask_mod=mask, return_weights=True)[1] > 0


def by_numpy(mask, shape=(2, 2, 5, 7)):
    with np.errstate(all="ignore"):
        return np.broadcast_to(mask(*np.ogrid[tuple(slice(n) for n in shape)]), shape)


MASKS = {
    "2 (q ^ k) < 6": lambda b, h, q, k: 2 * (q ^ k) < 6,
    "2 (q ^ k) > 3": lambda b, h, q, k: 2 * (q ^ k) > 3,
    "q % (k + 1)": lambda b, h, q, k: (q % (k + 1)) * 2 < 3,
    "squares of bits": lambda b, h, q, k: (q ^ k) ** 2 > 3,
    "differences of bits": lambda b, h, q, k: (q ^ k) - (~(q | k)) > 3,
    "shifts to the left": lambda b, h, q, k: ((q * k) << 1) * 2 < 9,
    "shifts to the right": lambda b, h, q, k: ((k * q) >> (k & 1)) * 2 < 9,
    "largest bits": lambda b, h, q, k: np.maximum(q | k, -2) * 7 > 4,
    "shifts by any count": lambda b, h, q, k: ((k + 1) >> (q * k - 3)) + (1 << (q - k * 0 - 2)) > 1,
    "powers of integers": lambda b, h, q, k: (q - 2) ** (k % 4) > 2,
    "powers of negative numbers": lambda b, h, q, k: (q - k * 1.0) ** (q % 3) > 2,
    "a table by bits": lambda b, h, q, k: TURN[(q ^ k) % 2],
    "a table by a shift": lambda b, h, q, k: TURN[((q + k) >> 1) % 2],
    "a table by a remainder": lambda b, h, q, k: TURN[(q - k) % (1 + q) % 2],
    "a table by a sine": lambda b, h, q, k: TURN[np.sin(q * k * 1.0).astype(int)],
    "roots of squares": lambda b, h, q, k: np.sqrt((q // 2 - k // 2) ** 2 + (q % 2 - k % 2) ** 2.0) <= 1.0,
    "a root as a power": lambda b, h, q, k: ((X[q] - X[k]) ** 2 + (q - k) ** 2) ** 0.5 <= 2.5,
    "logarithms of squares": lambda b, h, q, k: np.log((X[q] - X[k]) ** 2) <= 0.5,
    "roots of products": lambda b, h, q, k: np.sqrt(X[q] * X[k]) <= 2,
    "sums with a NaN": lambda b, h, q, k: X[q] + X[k] <= 1,
    "not above": lambda b, h, q, k: ~(X[q] * X[k] > 1),
    "unequal": lambda b, h, q, k: X[q] != X[k],
    "infinite quotients": lambda b, h, q, k: X[q] / (X[k] * 0.0) <= 1,
    "remainders": lambda b, h, q, k: (X[q] * X[k]) % 0.75 < 0.31,
    "remainders by infinity": lambda b, h, q, k: (q - k * 1.0) % np.inf < 3,
    "quotients": lambda b, h, q, k: (X[q] * X[k]) // 0.75 < 1,
}


@sweep("name", MASKS)
def test_masks_are_numpys(name):
    for dtype in DTYPES:
        np.testing.assert_array_equal(allowed(MASKS[name], dtype), by_numpy(MASKS[name]))
    np.testing.assert_array_equal(flex.create_mask(MASKS[name], 2, 2, 5, 7), by_numpy(MASKS[name]))


@pytest.mark.parametrize("length", [16, 300])
def test_a_round_neighbourhood_in_a_picture(length):
    width = 4 if length == 16 else 20

    def near(b, h, q, k):
        return qkv.sqrt(((q // width - k // width) ** 2 + (q % width - k % width) ** 2) * 1.0) <= 1.5

    i = np.arange(length)
    down, across = (abs(x[:, None] - x) for x in (i // width, i % width))
    wanted = (down <= 1) & (across <= 1)
    for dtype in DTYPES:
        np.testing.assert_array_equal(allowed(near, dtype, (1, 1, length, length))[0, 0], wanted)


def scores_of(score, dtype, n=7):
    x = np.zeros((1, 1, n, 4), dtype)
    weights = qkv.scaled_dot_product_attention(
        x, x, x, score_mod=score, normalizer="sigmoid", return_weights=True
    )[1][0, 0].astype("float64")
    return np.log(weights / (1 - weights))


@pytest.mark.parametrize("dtype", DTYPES)
def test_floats_have_remainders_and_quotients_as_numpys(dtype):
    i = np.arange(7).astype(dtype)
    products, tenth = i[:, None] * i, np.asarray(0.1, dtype)
    tolerance = 2e-6 if dtype == "float32" else 1e-13
    for score, wanted in (
        (lambda s, b, h, q, k: s + (q * k).float() % 0.1 * 10, products % tenth * 10),
        (lambda s, b, h, q, k: s + q.float() % 0.1 * 10 + q * k * 0, np.outer(i % tenth * 10, np.ones(7))),
        (lambda s, b, h, q, k: s + (q * k).float() // 0.1 / 100, products // tenth / 100),
        (lambda s, b, h, q, k: s + (q * k).float() % np.inf / 10, products / 10),
    ):
        np.testing.assert_allclose(scores_of(score, dtype), wanted, tolerance, tolerance)


def test_remainders_and_powers_have_gradients():
    t = np.array([0.7, -1.3, 2.1, 0.4, 1.9])
    y = np.array([1.4, 0.6, -0.9, 1.1, 0.8])

    def attention(q, k, v, a, c):
        return qkv.scaled_dot_product_attention(
            q, k, v, score_mod=lambda s, b, h, i, j: s + a[i] % c[j] + (a[i] * a[i] + j) ** c[j] * 0.3
        )

    rng = np.random.default_rng(0)
    qkv.testing.check_gradient(attention, *rng.standard_normal((3, 1, 2, 5, 4)), t, y)
    inputs = [qkv.tensor(x, requires_grad=True) for x in (*rng.standard_normal((3, 1, 2, 5, 4)), t, y)]
    loss = (attention(*inputs) ** 2).sum()
    fused = qkv.grad(loss, inputs, retain_graph=True)
    for one, other in zip(fused, qkv.grad(loss, inputs, create_graph=True), strict=True):
        np.testing.assert_allclose(one, other.detach(), 1e-10, 1e-10)


def test_leaves_of_float64_calls_are_float64():
    rng = np.random.default_rng(1)
    q, slopes = rng.standard_normal((1, 3, 5, 4)), rng.random(3).astype("float32")
    h, i, j = np.ogrid[:3, :5, :5]
    s = q @ np.swapaxes(q, -1, -2) / 2
    wanted = (
        s * (h * 0.1 + 1) + np.sin(i * 0.3) * (j / 7) + slopes.astype(float)[:, None, None] * 0.1 * (i - j)
    )
    weights = np.exp(wanted) / np.exp(wanted).sum(-1, keepdims=True)

    def score(s, b, h, q, k):
        return (
            s * (h.float() * 0.1 + 1) + np.sin(q.float() * 0.3) * (k.float() / 7) + slopes[h] * 0.1 * (q - k)
        )

    found = qkv.scaled_dot_product_attention(q, q, q, score_mod=score, return_weights=True)[1]
    np.testing.assert_allclose(found, weights, rtol=1e-12)


def test_ranges_are_those_of_the_calls_dtype():
    one, little = np.ones(300), np.full(300, -1e-9)
    mask = {"float32": False, "float64": True}
    for dtype in DTYPES:
        found = allowed(lambda b, h, q, k: one[q] + little[k] < 1, dtype, (1, 1, 300, 300))
        assert (found == mask[dtype]).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_second_derivatives_see_the_mask_of_the_dtype(dtype):
    one, little = np.ones(5), np.full(5, 1e-9)
    rng = np.random.default_rng(2)
    tensors = [qkv.tensor(x.astype(dtype), requires_grad=True) for x in rng.standard_normal((3, 1, 1, 5, 4))]
    y = qkv.scaled_dot_product_attention(
        *tensors, mask_mod=lambda b, h, q, k: (one[q] + little[k] > 1) | (q == k)
    )
    fused = qkv.grad((y * y).sum(), tensors, retain_graph=True)
    for a, b in zip(fused, qkv.grad((y * y).sum(), tensors, create_graph=True), strict=True):
        np.testing.assert_allclose(a, b.detach(), 1e-5, 1e-5)


def test_integers_beyond_32_bits_are_refused():
    for mask, worst in (
        (lambda b, h, q, k: (q * k * 1e10).astype(int) > 5, r"24\d{10}"),
        (lambda b, h, q, k: (~(q * k)) * 10**9 < 3, r"-25\d{9}"),
        (lambda b, h, q, k: (q * k) << (k * 9) > 3, r"\d{11,}"),
        (lambda b, h, q, k: (q + k) ** (q + k) > 3, r"\d{10,}"),
    ):
        with pytest.raises(ValueError, match=rf"integers of 32 bits where .*; got {worst} \(in"):
            allowed(mask)


def test_integers_of_arrays_have_64_bits_at_every_level():
    wide, high = SMALL.astype(int), UNSIGNED.astype(int)
    for mask, wanted in (
        (lambda b, h, q, k: SMALL[q] * 300 > 500, lambda b, h, q, k: wide[q] * 300 > 500),
        (
            lambda b, h, q, k: SMALL[q] * 50 + SMALL[k] * 50 > 200,
            lambda b, h, q, k: wide[q] * 50 + wide[k] * 50 > 200,
        ),
        (lambda b, h, q, k: SMALL[(q + k) % 6] * 50 > 200, lambda b, h, q, k: wide[(q + k) % 6] * 50 > 200),
        (lambda b, h, q, k: UNSIGNED[k] + 10 > q, lambda b, h, q, k: high[k] + 10 > q),
        (lambda b, h, q, k: q - UNSIGNED[k] < 0, lambda b, h, q, k: q - high[k] < 0),
    ):
        np.testing.assert_array_equal(allowed(mask), by_numpy(wanted))
    huge = np.array([2**63], "uint64")
    with pytest.raises(
        ValueError, match=r"must capture integers of 64 bits with a sign; got 9223372036854775808"
    ):
        allowed(lambda b, h, q, k: huge[q * 0] > k)


@pytest.mark.parametrize("sizes", [(0, 0), (0, 5), (5, 0)])
def test_no_queries_or_keys(sizes):
    q, k = (np.ones((1, 2, n, 4)) for n in sizes)
    table = qkv.tensor(np.ones(3), requires_grad=True)
    for mask in (
        lambda b, h, q, k: k // (1 + abs(q)) > 1,
        lambda b, h, q, k: k >> (q & 3) > 1,
        lambda b, h, q, k: (k * q) // (k ^ q) > 2,
        lambda b, h, q, k: np.sqrt(X[(q * k) % 7]) < 1,
    ):
        np.testing.assert_array_equal(
            qkv.scaled_dot_product_attention(q, k, k, mask_mod=mask), np.zeros_like(q)
        )
    y = qkv.scaled_dot_product_attention(
        q, k, k, score_mod=lambda s, b, h, q, k: s * table[k % 3] + k // (1 + abs(q))
    )
    y.sum().backward()
    np.testing.assert_array_equal(table.grad, np.zeros(3))
    np.testing.assert_array_equal(
        qkv.scaled_dot_product_attention(q, k, k, score_mod=scores.alibi([0.5, 0.2])), np.zeros_like(q)
    )


def test_an_array_without_elements_is_refused():
    none = np.zeros((0, 3))
    with pytest.raises(IndexError, match=r"must not index a captured array without elements, \(0, 3\)"):
        allowed(lambda b, h, q, k: none[q - k, 0] > 0)


def test_constants_are_told_apart_by_what_they_are():
    x = np.zeros((1, 1, 3, 4), "float32")

    def weights(zero):
        return qkv.scaled_dot_product_attention(
            x,
            x,
            x,
            score_mod=lambda s, b, h, i, j: qkv.minimum(1.0 / qkv.where(i * j > 1, zero, s + 1.0), 5.0),
            return_weights=True,
        )[1][0, 0, 2]

    for _ in range(2):
        np.testing.assert_allclose(weights(0.0), [0.00907, 0.49546, 0.49546], atol=1e-5)
        np.testing.assert_allclose(weights(-0.0), [1, 0, 0], atol=1e-5)

    def both(b, h, q, k):  # in one program
        return 1.0 / np.where(q * k > 1, 0.0, np.where(q * k > 0, -0.0, 1.0)) > 2

    np.testing.assert_array_equal(allowed(both), by_numpy(both))


READY = {
    "alibi": lambda: scores.alibi([0.5, 0.2, 0.1]),
    "soft_cap": lambda: scores.soft_cap(2.0),
    "relative_bias": lambda: scores.relative_bias(cases.arrays().table),
    "shaw": lambda: scores.shaw(cases.arrays().shaw),
    "transformer_xl": lambda: scores.transformer_xl(cases.arrays().shaw),
    "disentangled": lambda: scores.disentangled(cases.arrays().own, cases.arrays().other, 3),
    "causal": lambda: formulas.causal,
    "sliding_window": lambda: formulas.sliding_window(4, 1),
    "dilated": lambda: formulas.dilated(8, 3),
    "prefix": lambda: formulas.prefix(np.array([2, 6])),
    "documents": lambda: formulas.documents(cases.KIND),
    "neighbours": lambda: formulas.neighbours(4, 4, 1),
    "strided": lambda: formulas.strided(3),
    "global_window": lambda: formulas.global_window(2, 2),
    "block_diffusion": lambda: formulas.block_diffusion(2, 6),
    "shared_prefix": lambda: formulas.shared_prefix(3, cases.DOCUMENT),
    "and_masks": lambda: formulas.and_masks(formulas.causal, formulas.prefix(2)),
    "or_masks": lambda: formulas.or_masks(formulas.causal, formulas.documents(cases.DOCUMENT)),
    "not_mask": lambda: formulas.not_mask(formulas.strided(2)),
}


@pytest.mark.parametrize("name", READY)
def test_ready_formulas_pickle(name):
    formula, kind = READY[name](), "score_mod" if name in scores.__all__ else "mask_mod"
    wanted = qkv.scaled_dot_product_attention(*cases.inputs(), **{kind: formula})
    again = pickle.loads(pickle.dumps(formula))  # also after it was traced
    found = qkv.scaled_dot_product_attention(*cases.inputs(), **{kind: again})
    np.testing.assert_array_equal(found, wanted)
    assert again.__name__ == name
    assert "array" not in repr(formula)


def test_every_ready_formula_is_pickled():
    assert READY.keys() == {*scores.__all__, *formulas.__all__}


def test_a_first_call_imports_nothing_of_torch():
    program = (
        "import sys, numpy as np, qkv; q = np.ones((1, 1, 2, 4)); t = np.ones(4); f = lambda x: qkv.exp(x)\n"
        "qkv.scaled_dot_product_attention(q, q, q, score_mod=lambda s, b, h, i, j: f(s) + t[j])\n"
        "print(*(m for m in sys.modules if m.startswith('qkv.torch')))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (
            lambda: scores.shaw(np.ones((4, 3, 11, 5))),
            r"shaw must have query_times_table of B = 2 batch entries",
        ),
        (
            lambda: scores.shaw(np.ones((2, 3, 12, 5))),
            r"query_times_table of Lq = 11 queries as the call has; got",
        ),
        (lambda: scores.transformer_xl(np.ones((2, 3, 12, 25))), r"query_times_positions of Lq = 11 queries"),
        (
            lambda: scores.disentangled(np.ones((2, 3, 11, 6)), np.ones((2, 3, 14, 6)), 3),
            r"position_to_content of Lk = 13 keys as the call has; got position_to_content \(2, 3, 14, 6\)",
        ),
        (lambda: scores.alibi(np.ones(4)), r"slopes of H = 3 heads as the call has; got slopes \(4,\)"),
    ],
)
def test_arrays_of_other_calls_are_refused(formula, text):
    with pytest.raises(ValueError, match=text):
        qkv.scaled_dot_product_attention(*cases.inputs(), score_mod=formula())


BIAS = torch.arange(9.0)


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (
            lambda s, b, h, q, k: s + torch.zeros(9)[k],
            "must not make arrays, as zeros does; make them outside",
        ),
        (
            lambda s, b, h, q, k: s + torch.zeros(9, dtype=torch.float32)[k],
            "must not make arrays, as zeros does",
        ),
        (lambda s, b, h, q, k: s + torch.arange(9.0)[q], "must not make arrays, as arange does"),
        (lambda s, b, h, q, k: s + torch.rand(()), "must not make arrays, as rand does"),
        (lambda s, b, h, q, k: s + qkv.rand(9)[k], "must not make arrays, as rand does"),
        (
            lambda s, b, h, q, k: s + (BIAS * 2)[k],
            "got 0 indices, compute arrays as wholes outside of the formula",
        ),
        (
            lambda s, b, h, q, k: s + BIAS.exp()[k],
            "got 0 indices, compute arrays as wholes outside of the formula",
        ),
    ],
)
def test_arrays_are_made_outside_of_formulas(formula, text):
    q = torch.ones(1, 1, 9, 4)
    with pytest.raises(TypeError, match=text):
        flex.flex_attention(q, q, q, formula)


@pytest.mark.parametrize("length", [130, 256, 257])
def test_blocks_that_are_not_whole_are_mixed_as_in_pytorch(length):
    real = pytest.importorskip("torch.nn.attention.flex_attention")
    for mask in (
        formulas.sliding_window(-1),
        lambda b, h, q, k: q + k >= 0,
        lambda b, h, q, k: abs(q - k) < 150,
    ):
        theirs = real.create_block_mask(mask, None, None, length, length, device="cpu")
        ours = flex.create_block_mask(mask, None, None, length, length)
        for name in ("kv_num_blocks", "full_kv_num_blocks", "q_num_blocks", "full_q_num_blocks"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
        assert ours.sparsity() == pytest.approx(theirs.sparsity(), abs=1e-4)
    with pytest.raises(NotImplementedError, match=r"write create_block_mask\(mask_mod, ...\)"):
        flex.BlockMask.from_kv_blocks(None, None)
