"""Attention by sigmoid, relu, sparsemax and entmax15: against the reference, beside every option, gradients."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import close, gradients, same_bits_for_any_threads
from levels import each_level, run_at
from second_checks import check_second
from sweep import sweep

import qkv
from qkv import reference
from qkv.testing import check_gradient

NORMALIZERS = ["sigmoid", "relu", "sparsemax", "entmax15"]
OWN = NORMALIZERS[:2]  # of each score by itself
attention = qkv.scaled_dot_product_attention
RNG = np.random.default_rng(26)
B, H, LQ, LK, D, DV = 2, 3, 37, 211, 11, 13
INF = np.inf


def numbers(*shape):
    return RNG.standard_normal(shape)


Q, K, V = 1.5 * numbers(B, H, LQ, D), numbers(B, H, LK, D), numbers(B, H, LK, DV)
BOOLEAN = RNG.random((B, H, LQ, LK)) < 0.4
FLOAT = numbers(B, H, LQ, LK)
OPTIONS = {
    "plain": {},
    "scale": {"scale": -0.7},
    "even weights": {"scale": 0.001},
    "one key": {"scale": 9.0},
    "boolean mask": {"attn_mask": BOOLEAN},
    "float mask": {"attn_mask": FLOAT[0, :1]},
    "float mask with -inf": {"attn_mask": np.where(BOOLEAN, FLOAT, -INF)},
    "causal": {"is_causal": True},
    "lower right": {"is_causal": "lower_right"},
    "lengths": {"valid_lens": [0, 131]},
    "lengths per query": {"valid_lens": RNG.integers(0, LK + 1, (B, LQ))},
    "window": {"window": (17, 3), "q_offset": [50, 7]},
    "cap and distances": {"softcap": 1.5, "alibi_slopes": [0.5, 0.25, 0.125]},
    "fill": {"masked_value": -0.5, "valid_lens": [0, 31]},
    "far fill": {"masked_value": -1e9, "attn_mask": BOOLEAN & (np.arange(LQ)[:, None] > 3)},
    "dropout": {"dropout_p": 0.3, "dropout_keep": RNG.random((B, H, LQ, LK)) < 0.7},
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", OPTIONS)
@sweep("normalizer", NORMALIZERS)
def test_options(normalizer, name, dtype):
    arrays = [x.astype(dtype) for x in (Q, K, V)]
    given = {**OPTIONS[name], "normalizer": normalizer}
    expected = reference.scaled_dot_product_attention(*arrays, **given, return_weights=True)
    output, weights = attention(*arrays, **given, return_weights=True)
    tolerance = (
        dtype if dtype == "float64" else "float32 gradient"
    )  # a threshold has the error of all its scores
    for found, wanted in zip((output, weights), expected, strict=True):
        size = max(1, abs(wanted).max())  # weights of relu are as large as scores
        close(found / size, wanted / size, tolerance)
    assert attention(*arrays, **given).tobytes() == output.tobytes(), "asking for weights changed the output"


@pytest.mark.parametrize("sizes", [(1, 5), (3, 131), (70, 7), (131, 257)])
@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_lengths(normalizer, sizes):
    arrays = numbers(2, sizes[0], 17), numbers(2, sizes[1], 17), numbers(2, sizes[1], 5)
    for scale in (0.01, 0.5, 3.0):
        expected = reference.scaled_dot_product_attention(*arrays, scale=scale, normalizer=normalizer)
        close(attention(*arrays, scale=scale, normalizer=normalizer), expected)


def test_weights_sum_to_one_and_most_are_zero():
    for normalizer in ("sparsemax", "entmax15"):
        _, weights = attention(Q, K, V, normalizer=normalizer, return_weights=True)
        close(weights.sum(axis=-1), np.ones((B, H, LQ)))
        assert (weights == 0).mean() > 0.8


def test_without_keys_or_values():
    for normalizer in NORMALIZERS:
        assert not attention(Q, K[:, :, :0], V[:, :, :0], normalizer=normalizer).any()
        assert attention(Q, K, V[..., :0], normalizer=normalizer).shape == (B, H, LQ, 0)


GRADIENTS = {
    name: OPTIONS[name]
    for name in OPTIONS
    if name not in ("scale", "float mask", "float mask with -inf", "boolean mask", "dropout")
}
GRADIENTS["boolean mask"] = {"attn_mask": BOOLEAN[:, :, :7]}
GRADIENTS["dropout"] = {"dropout_p": 0.3, "dropout_keep": BOOLEAN[:, :, :7]}
GRADIENTS["lengths per query"] = {"valid_lens": OPTIONS["lengths per query"]["valid_lens"][:, :7]}
GRADIENTS["far fill"] = {"masked_value": -1e9, "attn_mask": BOOLEAN[:, :, :7] & (np.arange(7)[:, None] > 3)}


@pytest.mark.parametrize("name", GRADIENTS)
@sweep("normalizer", NORMALIZERS)
def test_gradients(normalizer, name):
    given = {**GRADIENTS[name], "normalizer": normalizer}
    arrays = Q[:, :, :7], K, V
    check_gradient(lambda q, k, v: attention(q, k, v, **given), *arrays)
    check_gradient(lambda q, k, v: attention(q, k, v, **given, return_weights=True)[1], *arrays)


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_gradients_of_a_bias_grouped_heads_and_both_results(normalizer):
    q, k, v = numbers(2, 6, 5, 7), numbers(2, 2, 83, 7), numbers(2, 2, 83, 3)

    def both(q, k, v, bias):
        mask = qkv.where(np.arange(83) % 5 > 0, bias, -INF)
        y, w = attention(
            q,
            k,
            v,
            mask,
            enable_gqa=True,
            is_causal="lower_right",
            normalizer=normalizer,
            return_weights=True,
        )
        return (y**2).sum() + (w**3).sum()

    check_gradient(both, q, k, v, numbers(6, 5, 83))


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_float32_gradients_are_those_of_float64(normalizer):
    arrays = numbers(1, 2, 131, 16), numbers(1, 2, 307, 16), numbers(1, 2, 307, 8)
    f = lambda q, k, v: attention(q, k, v, is_causal="lower_right", normalizer=normalizer)  # noqa: E731
    for found, expected in zip(
        gradients(f, *(x.astype("float32") for x in arrays)), gradients(f, *arrays), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_second_derivatives(normalizer):
    q, k, v = numbers(2, 3, 5, 7), numbers(2, 3, 11, 7), numbers(2, 3, 11, 3)
    check_second(lambda q, k, v: attention(q, k, v, valid_lens=[0, 7], normalizer=normalizer), q, k, v)


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_formulas(normalizer):
    q, k, v, table = numbers(2, 3, 7, 5), numbers(2, 3, 150, 5), numbers(2, 3, 150, 3), numbers(3, 160)
    near = lambda b, h, q, k: abs(q - k) % 3 < 2  # noqa: E731

    def f(q, k, v, table):
        more = lambda s, b, h, i, j: s + table[h, j - i + 7]  # noqa: E731
        return attention(q, k, v, score_mod=more, mask_mod=near, normalizer=normalizer)

    rows = np.arange(150) - np.arange(7)[:, None]
    mask = np.where(abs(rows) % 3 < 2, table[:, rows + 7], -INF)
    close(f(q, k, v, table), reference.scaled_dot_product_attention(q, k, v, mask, normalizer=normalizer))
    check_gradient(f, q, k, v, table)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_what_has_no_weight_may_hold_anything(normalizer, dtype):
    q, k, v = (x.astype(dtype) for x in (Q, K, V))
    lens = np.array([0, 131])
    expected = gradients(lambda *x: attention(*x, valid_lens=lens, normalizer=normalizer), q, k, v)
    k[0], v[0], k[1, :, 131:], v[1, :, 131:], q[0, 0] = np.nan, INF, INF, np.nan, np.nan
    found = gradients(lambda *x: attention(*x, valid_lens=lens, normalizer=normalizer), q, k, v)
    for a, b in zip(found, expected, strict=True):
        close(a, b, dtype)


@pytest.mark.parametrize("normalizer", ["relu", "sparsemax", "entmax15"])
def test_allowed_values_without_weight_are_not_read(normalizer):
    output, weights = attention(Q, K, V, normalizer=normalizer, return_weights=True)
    values = V.copy()
    for (b, h), number in (((0, 0), np.nan), ((1, 2), INF)):
        key = (weights[b, h] > 0).sum(axis=0).argmax()
        values[b, h, key] = number
        untouched = weights[b, h, :, key] == 0
        assert untouched.any()
        assert not untouched.all()
        found = attention(Q, K, values, normalizer=normalizer)[b, h]
        close(found[untouched], output[b, h][untouched])
        assert not np.isfinite(found[~untouched]).any()


def test_a_score_that_is_no_number_spoils_its_row_alone():
    q = Q.copy()
    q[1, 1, 3] = np.nan
    for normalizer in NORMALIZERS:
        found = attention(q, K, V, normalizer=normalizer)
        assert np.isnan(found[1, 1, 3]).all()
        assert np.isfinite(np.delete(found[1, 1], 3, axis=0)).all()


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_the_same_bits_for_any_threads_and_draws_like_softmax(normalizer):
    q, k, v = numbers(2, 3, 150, 16), numbers(2, 3, 300, 16), numbers(2, 3, 300, 8)

    def run():
        qkv.manual_seed(3)
        return gradients(lambda *x: attention(*x, dropout_p=0.2, normalizer=normalizer), q, k, v)

    same_bits_for_any_threads(run)
    qkv.manual_seed(3)
    kept = attention(q, k, np.broadcast_to(np.eye(300), (2, 3, 300, 300)), dropout_p=0.2) != 0
    given = {"dropout_p": 0.2, "dropout_keep": kept, "normalizer": normalizer}
    close(run()[0], reference.scaled_dot_product_attention(q, k, v, **given))


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_pictures_and_pieces(normalizer):
    q, k = numbers(3, 100, 8), numbers(3, 130, 8)
    _, weights = attention(q, k, k, normalizer=normalizer, is_causal=True, return_weights=True)
    for reduce in ("max", "mean"):
        image = qkv.attention_image(q, k, size=(10, 13), reduce=reduce, is_causal=True, normalizer=normalizer)
        close(image, getattr(weights.reshape(3, 10, 10, 13, 10), reduce)(axis=(2, 4)))
    cuts = [0, 30, 30, 100]
    rows = q.swapaxes(0, 1)
    found = attention(rows, rows, rows, cu_seqlens_q=cuts, cu_seqlens_k=cuts, normalizer=normalizer)
    close(found[30:].swapaxes(0, 1), attention(q[:, 30:], q[:, 30:], q[:, 30:], normalizer=normalizer))


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_one_query_alone_and_among_others(normalizer):
    before = qkv.get_reproducible()
    qkv.set_reproducible(True)
    try:
        many = attention(Q, K, V, normalizer=normalizer)
        for i in (0, 18, LQ - 1):
            one = attention(Q[:, :, i : i + 1], K, V, normalizer=normalizer)
            assert one.tobytes() == many[:, :, i : i + 1].tobytes()
    finally:
        qkv.set_reproducible(before)


PROGRAM = """
import numpy as np
import qkv
from helpers import close, gradients
from qkv import reference
rng = np.random.default_rng(0)
arrays = [rng.standard_normal(s) for s in ((2, 3, 37, 11), (2, 3, 150, 11), (2, 3, 150, 5))]
for normalizer in ("sigmoid", "relu", "sparsemax", "entmax15"):
    f = lambda q, k, v: qkv.scaled_dot_product_attention(q, k, v, valid_lens=[150, 83], normalizer=normalizer)
    close(f(*arrays), reference.scaled_dot_product_attention(*arrays, valid_lens=[150, 83], normalizer=normalizer))
    qkv.testing.check_gradient(f, *arrays)
    for found, wanted in zip(gradients(f, *(x.astype("float32") for x in arrays)), gradients(f, *arrays)):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
print("done")
"""


@each_level()
def test_at_each_level_of_this_machine(level):
    done = run_at(level, PROGRAM)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


WRONG = [
    (
        {"normalizer": "soft"},
        ValueError,
        r'normalizer must be "softmax", "sigmoid", "relu", "sparsemax" or "entmax15"; got "soft"',
    ),
    ({"normalizer": max}, TypeError, r"normalizer must be a string; got builtin_function_or_method"),
    (
        {"normalizer": "relu", "return_lse": True},
        ValueError,
        r'return_lse must be False because only softmax has a sum of exponentials; got True with normalizer "relu"',
    ),
    (
        {"normalizer": "sparsemax", "sinks": np.zeros(H)},
        ValueError,
        r"sinks must be None because they belong to the sum of a softmax; got both sinks and normalizer "
        r'"sparsemax"',
    ),
]


@pytest.mark.parametrize(("given", "error", "text"), WRONG)
def test_rejections(given, error, text):
    with pytest.raises(error, match=f"^scaled_dot_product_attention: {text}$"):
        attention(Q, K, V, **given)


def dense(scores, normalizer):
    """Weights of all scores by the definition, in float64; a row of -inf has none."""
    scores = np.asarray(scores, "float64")
    weights = np.zeros_like(scores)
    for row, result in zip(
        scores.reshape(-1, scores.shape[-1]), weights.reshape(-1, scores.shape[-1]), strict=True
    ):
        if (row == -INF).all():
            continue
        distances = row - row.max()
        function = {
            "softmax": reference.softmax,
            "sparsemax": reference.sparsemax,
            "entmax15": reference.entmax,
        }
        result[:] = function[normalizer](np.maximum(distances, -1e6))
    return weights


@pytest.mark.parametrize("road", ["fused", "recorded"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax", "entmax15"])
def test_rows_of_the_least_float_are_rows_like_others(normalizer, dtype, road):
    least = float(np.finfo(dtype).min)
    n = 37
    mask = np.zeros((8, n), dtype)
    mask[1] = least
    mask[2, ::2] = least
    mask[3] = -INF
    mask[4], mask[4, 5], mask[4, 6] = -INF, least, least
    mask[5], mask[5, 7] = least, least / 2
    mask[6] = -1e38
    mask[7], mask[7, 3] = least, 0
    q, k, v = np.ones((8, 3), dtype), np.ones((n, 3), dtype), numbers(n, 5).astype(dtype)
    expected = dense(mask.astype("float64") + 3**0.5, normalizer)
    value = qkv.tensor(v, requires_grad=True)
    output, weights = attention(q, k, value, mask, normalizer=normalizer, return_weights=True)
    close(weights, expected, "float32")
    close(output, expected @ v, "float32")
    [dv] = qkv.grad((output * output).sum(), [value], create_graph=road == "recorded")
    close(dv, 2 * expected.T @ (expected @ v), "float32")
    filled = attention(q, k, v, mask > -1, masked_value=least, normalizer=normalizer, return_weights=True)[1]
    close(filled, dense(np.where(mask > -1, 3**0.5, least), normalizer), "float32")
