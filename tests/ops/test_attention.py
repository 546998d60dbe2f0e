"""scaled_dot_product_attention: every option, alone and mixed, against the reference; and gradients."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import close, gradients, same_bits_for_any_threads
from sweep import sweep

import qkv
from qkv import reference
from qkv.testing import check_gradient

B, H, LQ, LK, D, DV = 2, 3, 5, 7, 11, 13
attention = qkv.scaled_dot_product_attention
RNG = np.random.default_rng(20)
INF = np.inf


def qkv_arrays(rng, rank=4, sizes=(B, H, LQ, LK, D, DV), kv_heads=None):
    b, h, lq, lk, d, dv = sizes
    lead = {4: ((b, h), (b, kv_heads or h)), 3: ((b,), (b,)), 2: ((), ())}[rank]
    shapes = ((*lead[0], lq, d), (*lead[1], lk, d), (*lead[1], lk, dv))
    return tuple(rng.standard_normal(s) for s in shapes)


Q, K, V = qkv_arrays(RNG)
BOOLEAN = RNG.random((B, H, LQ, LK)) < 0.7
FLOAT = RNG.standard_normal((B, H, LQ, LK))
KEEP = RNG.random((B, H, LQ, LK)) < 0.5
OPTIONS = {
    "boolean mask": {"attn_mask": BOOLEAN},
    "boolean mask of keys": {"attn_mask": BOOLEAN[:, :1, :1]},
    "mask of heads": {"attn_mask": BOOLEAN[0]},
    "float mask": {"attn_mask": FLOAT},
    "float mask with -inf": {"attn_mask": np.where(BOOLEAN, FLOAT, -INF)},
    "float mask (Lq, Lk)": {"attn_mask": FLOAT[0, 0]},
    "causal": {"is_causal": True},
    "causal by name": {"is_causal": "upper_left"},
    "lower right": {"is_causal": "lower_right"},
    "scale": {"scale": 0.1},
    "negative scale": {"scale": -0.3},
    "lengths": {"valid_lens": [3, 6]},
    "lengths per query": {"valid_lens": RNG.integers(0, LK + 1, (B, LQ))},
    "window": {"window": (1, 2)},
    "open window": {"window": (-1, 0)},
    "softcap": {"softcap": 0.7},
    "alibi": {"alibi_slopes": [0.5, 0.25, 0.125]},
    "offset": {"q_offset": 2, "is_causal": True},
    "offsets": {"q_offset": [-1, 3], "is_causal": True},
    "offset of alibi": {"q_offset": -2, "alibi_slopes": [0.5, 0.25, 0.125]},
    "sinks": {"sinks": [0.5, -1.0, 2.0]},
    "fill": {"masked_value": -1e9, "valid_lens": [0, 4]},
    "mild fill": {"masked_value": 0.25, "attn_mask": BOOLEAN},
    "dropout": {"dropout_p": 0.3, "dropout_keep": KEEP},
    "dropout of all": {"dropout_p": 1.0},
}


def compare(arrays, options, dtype="float64"):
    ask = {"return_weights": True, "return_lse": True}
    given = [a.astype(dtype) for a in arrays]
    expected = reference.scaled_dot_product_attention(
        *given, **{**options, **ask}, **({"dropout_keep": KEEP} if options.get("dropout_p") == 1.0 else {})
    )
    actual = attention(*given, **options, **ask)
    for a, e in zip(actual, expected, strict=True):
        assert a.dtype == dtype
        close(a, e, dtype)
    plain = attention(*given, **options)
    assert type(plain) is np.ndarray
    assert plain.tobytes() == actual[0].tobytes(), "asking for weights changed the output"
    for i, flag in ((1, "return_weights"), (2, "return_lse")):
        output, other = attention(*given, **options, **{flag: True})
        assert output.tobytes() == plain.tobytes()
        assert other.tobytes() == actual[i].tobytes()
    return actual


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@sweep("name", OPTIONS)
def test_each_option_alone_changes_the_result_as_the_reference_says(name, dtype):
    changed = compare((Q, K, V), OPTIONS[name], dtype)[0]
    plain = attention(*(a.astype(dtype) for a in (Q, K, V)))
    assert np.abs(changed - plain).max() > 1e-4


def test_plain_attention_and_weights_sum_to_one():
    _, weights, lse = compare((Q, K, V), {})
    close(weights.sum(-1), np.ones((B, H, LQ)))
    close(lse, np.log(np.exp(Q @ K.swapaxes(-1, -2) / np.sqrt(D)).sum(-1)))


def random_case(seed):
    rng = np.random.default_rng(seed)
    rank = int(rng.choice([4, 4, 4, 3, 2]))
    h = int(rng.choice([1, 2, 4, 6])) if rank == 4 else 1
    b = 1 if rank == 2 else int(rng.integers(1, 4))
    lq, lk, d, dv = (int(n) for n in rng.choice([1, 2, 5, 17, 41], 4))
    if seed % 10 == 0:
        lq, lk = int(rng.integers(60, 150)), int(rng.integers(250, 600))
    kv_heads = int(rng.choice([n for n in range(1, h + 1) if h % n == 0]))
    arrays = qkv_arrays(rng, rank, (b, h, lq, lk, d, dv), kv_heads)
    full = {4: (b, h, lq, lk), 3: (b, lq, lk), 2: (lq, lk)}[rank]

    def maybe(p=0.4):
        return rng.random() < p

    def broadcastable():
        shape = [n if rng.random() < 0.6 else 1 for n in full]
        return shape[int(rng.integers(0, len(shape) - 1)) :] if maybe() else shape

    o = {"enable_gqa": bool(kv_heads != h)}
    if maybe():
        o["attn_mask"] = rng.random(broadcastable()) < 0.6
    elif maybe(0.5):
        mask = rng.standard_normal(broadcastable())
        o["attn_mask"] = np.where(rng.random(mask.shape) < 0.2, -INF, mask)
    if maybe():
        shape = {4: [(b,), (b, lq)], 3: [(b,), (b, lq)], 2: [()]}[rank]
        o["valid_lens"] = rng.integers(0, lk + 1, shape[int(rng.integers(len(shape)))])
    o["is_causal"] = [False, True, "lower_right"][int(rng.integers(3))]
    if o["is_causal"] != "lower_right" and maybe():
        o["q_offset"] = int(rng.integers(-3, lk + 3)) if maybe() else rng.integers(-3, lk + 3, b)
    if maybe(0.3):
        o["window"] = (int(rng.integers(-1, 6)), int(rng.integers(-1, 6)))
    if maybe(0.3):
        o["scale"] = float(rng.standard_normal())
    if maybe(0.3):
        o["softcap"] = float(rng.uniform(0.5, 3))
    if maybe(0.3):
        o["alibi_slopes"] = rng.uniform(0, 1, h)
    if maybe(0.3):
        o["sinks"] = rng.standard_normal(h)
    if maybe(0.25):
        o["masked_value"] = float(rng.choice([-1e9, -1.0, 0.5]))
    if maybe(0.25):
        o |= {"dropout_p": 0.25, "dropout_keep": rng.random(full) < 0.75}
    return arrays, o


# Of few keys, lengths can happen to be zeros and ones.
@pytest.mark.filterwarnings("ignore:scaled_dot_product_attention. valid_lens counts keys")
@sweep("seed", range(150))
def test_random_mixtures_of_options(seed):
    arrays, options = random_case(seed)
    compare(arrays, options, "float64")
    if seed % 3 == 0:
        ask = {"return_weights": True, "return_lse": True}
        given = [a.astype("float32") for a in arrays]
        expected = reference.scaled_dot_product_attention(*given, **options, **ask)
        for a, e in zip(attention(*given, **options, **ask), expected, strict=True):
            assert a.dtype == "float32"
            np.testing.assert_allclose(a, e, 1e-4, 2e-5)


@sweep("seed", range(0, 150, 3))
def test_gradients_of_random_mixtures(seed):
    arrays, options = random_case(seed)
    if arrays[0].shape[-2] * arrays[1].shape[-2] > 3000:
        arrays = [a[..., :37, :] for a in arrays]
        names = ("attn_mask", "dropout_keep", "valid_lens")
        if any(np.ndim(options.get(n)) and options.get(n) is not None for n in names):
            options = {k: v for k, v in options.items() if k not in (*names, "dropout_p")}
        elif options.get("valid_lens") is not None:
            options["valid_lens"] = 20
    learned = [k for k in ("attn_mask", "sinks") if k in options and np.asarray(options[k]).dtype.kind == "f"]
    excluded = {k: options[k] == -INF for k in learned}
    rest = {k: v for k, v in options.items() if k not in learned}

    def f(q, k, v, *extra):
        given = {}
        for name, x in zip(learned, extra, strict=True):
            given[name] = qkv.where(excluded[name], -INF, x) if excluded[name].any() else x
        output, weights, lse = attention(q, k, v, **rest, **given, return_weights=True, return_lse=True)
        return output, weights, qkv.where(np.isinf(lse.numpy()), 0.0, lse)

    check_gradient(f, *arrays, *(np.where(excluded[k], 0.0, options[k]) for k in learned))


@pytest.mark.parametrize("name", [n for n in OPTIONS if n != "dropout of all"])
def test_gradients_of_each_option(name):
    options = dict(OPTIONS[name])
    check_gradient(lambda q, k, v: attention(q, k, v, **options), Q, K, V)

    def lse_too(q, k, v):
        output, lse = attention(q, k, v, **options, return_lse=True)
        return output, qkv.where(np.isinf(lse.numpy()), 0.0, lse)

    check_gradient(lse_too, Q, K, V)
    check_gradient(lambda q, k, v: attention(q, k, v, **options, return_weights=True)[1], Q, K, V)


@pytest.mark.parametrize(
    "shape", [(B, H, LQ, LK), (B, 1, LQ, LK), (H, 1, LK), (LQ, 1), (LK,), (1, 1, 1, 1), ()]
)
def test_gradient_of_a_float_mask_is_summed_over_broadcast_axes(shape):
    mask = np.random.default_rng(5).standard_normal(shape)
    check_gradient(lambda mask: attention(Q, K, V, mask, softcap=2.0), mask)
    full = gradients(lambda m: attention(Q, K, V, m), np.broadcast_to(mask, (B, H, LQ, LK)).copy())[1]
    part = gradients(lambda m: attention(Q, K, V, m), mask)[1]
    summed = full.sum(tuple(range(4 - mask.ndim)))
    summed = summed.sum(tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)
    close(part, summed.reshape(shape), "float64 gradient")


def test_gradient_of_sinks_and_of_the_masks_of_other_widths():
    check_gradient(lambda sinks: attention(Q, K, V, sinks=sinks, return_lse=True), np.array([0.5, -1.0, 2.0]))
    mask = qkv.tensor(FLOAT, dtype="float32", requires_grad=True)
    y = attention(Q, K, V, mask)
    assert y.dtype == "float64"
    y.sum().backward()
    assert mask.grad.dtype == "float32"
    assert attention(*(a.astype("float32") for a in (Q, K, V)), FLOAT).dtype == "float32"


@pytest.mark.parametrize("options", [{}, {"softcap": 2.0, "is_causal": "lower_right"}, {"q_offset": -2}])
def test_gradient_of_slopes(options):
    slopes, bias = np.array([0.5, -1.0, 2.0]), RNG.standard_normal((LQ, LK))

    def f(slopes, bias):
        return attention(Q, K, V, bias, alibi_slopes=slopes, return_weights=True, **options)

    check_gradient(f, slopes, bias)
    check_gradient(lambda slopes: f(slopes, bias), slopes)


def test_gradients_in_single_precision():
    for name in ("float mask", "softcap", "lengths", "sinks", "alibi", "dropout"):

        def f(q, k, v, o=OPTIONS[name]):
            return attention(q, k, v, **o)

        wide = gradients(f, Q, K, V)
        narrow = gradients(f, *(a.astype("float32") for a in (Q, K, V)))
        for a, b in zip(narrow, wide, strict=True):
            assert a.dtype == "float32"
            np.testing.assert_allclose(a, b, 1e-4, 1e-4)


def test_grouped_heads_equal_repeated_ones():
    q, k, v = qkv_arrays(RNG, sizes=(2, 6, LQ, LK, D, DV), kv_heads=2)
    actual = compare((q, k, v), {"enable_gqa": True})
    repeated = attention(q, k.repeat(3, 1), v.repeat(3, 1))
    close(actual[0], repeated)
    assert actual[1].shape == (2, 6, LQ, LK)
    check_gradient(lambda q, k, v: attention(q, k, v, enable_gqa=True), q, k, v)


def test_dropout_is_deterministic_and_keeps_the_mean():
    q, k, v = qkv_arrays(RNG, sizes=(2, 3, 101, 211, 5, 7))

    def draw(p, seed=7):
        qkv.manual_seed(seed)
        return attention(q, k, np.ones_like(v), dropout_p=p)

    assert draw(0.5).tobytes() == draw(0.5).tobytes()
    assert draw(0.5).tobytes() != draw(0.5, 8).tobytes()
    qkv.manual_seed(7)
    first = attention(q, k, v, dropout_p=0.5)
    assert first.tobytes() != attention(q, k, v, dropout_p=0.5).tobytes(), "the second call draws anew"
    same_bits_for_any_threads(lambda: [draw(0.25)])
    assert abs(draw(0.25).mean() - 1) < 0.01
    eye = np.eye(211)[None, None].repeat(2, 0).repeat(3, 1)
    qkv.manual_seed(3)
    dropped, weights = attention(q, k, eye, dropout_p=0.25, return_weights=True)
    close(weights.sum(-1), np.ones((2, 3, 101)))
    kept = dropped != 0
    close(dropped[kept], (weights / 0.75)[kept])
    assert abs(kept.mean() - 0.75) < 0.01
    for axes in ((0, 1, 2), (0, 1, 3), (2, 3)):  # no axis repeats itself
        assert 0.001 < kept.mean(axes).std() < 0.06
    assert not (kept[0] == kept[1]).all()
    qkv.manual_seed(3)
    again = attention(q, k, v, dropout_p=0.25)
    close(again, attention(q, k, v, dropout_p=0.25, dropout_keep=kept))


def test_a_kept_pattern_needs_a_probability():
    match = r"dropout_p must be above 0 because dropout_keep stands for its draw; got dropout_p = 0$"
    with pytest.raises(ValueError, match="^scaled_dot_product_attention: " + match):
        attention(Q, K, V, dropout_keep=KEEP)
    with pytest.raises(ValueError, match="^additive_attention: " + match):
        qkv.additive_attention(Q[0], K[0], V[0], np.ones(Q.shape[-1]), dropout_keep=KEEP[0])


def test_gradient_through_drawn_dropout():
    def f(q, k, v):
        qkv.manual_seed(1)
        return attention(q, k, v, dropout_p=0.5, is_causal=True)

    check_gradient(f, Q, K, V)


def test_the_same_bits_for_any_threads():
    q, k, v = (a.astype("float32") for a in qkv_arrays(RNG, sizes=(2, 3, 131, 257, 16, 24)))
    for options in ({}, {"is_causal": True}, {"window": (9, 3)}, {"sinks": [0.0, 1.0, 2.0]}):

        def all_of_it(o=options):
            return gradients(lambda q, k, v: attention(q, k, v, **o), q, k, v)

        same_bits_for_any_threads(all_of_it)


def test_recording_and_asking_for_more_change_no_bit_of_a_drawn_dropout():
    results = []
    for options in ({}, {"return_weights": True}, {"return_lse": True, "return_weights": True}):
        for learn in (False, True):
            qkv.manual_seed(9)
            q = qkv.tensor(Q, requires_grad=learn)
            found = attention(q, K, V, dropout_p=0.4, is_causal=True, **options)
            results.append((found[0] if options else found).numpy().tobytes())
    assert len(set(results)) == 1


def test_minus_infinity_in_a_float_mask_is_filled_like_every_exclusion():
    mask = np.where(BOOLEAN, 0.0, -INF)
    mask[0, 0, 0] = -INF
    filled = attention(Q, K, V, mask, masked_value=-1e9)
    close(filled, attention(Q, K, V, mask == 0, masked_value=-1e9))
    close(filled[0, 0, 0], V[0, 0].mean(0))
    learned = gradients(lambda m: attention(Q, K, V, m, masked_value=-1.0), mask)[1]
    assert np.isfinite(learned).all()
    assert (learned[mask == -INF] == 0).all()
