"""What sampling draws: a plain statement of its rules in NumPy, ties and limits, frequencies."""

import numpy as np
import pytest

import qkv
from qkv import _core

RNG = np.random.default_rng(0)


def kept_by(scores, temperature=1.0, top_k=None, top_p=None):
    """The weights of the tokens, 0 where top_k and then top_p leave one out; ties go to the lower number."""
    scores = np.where(np.isnan(scores), -np.inf, scores.astype("f8"))
    best = scores.max()
    weights = np.exp((scores - best) / temperature) if np.isfinite(best) else np.ones(len(scores))
    order = np.lexsort((np.arange(len(scores)), -scores))[: len(scores) if top_k is None else top_k]
    if top_p is not None and top_p < 1:
        total = np.cumsum(weights[order])
        order = order[: 1 + int((total < top_p * total[-1]).sum())]
    kept = np.zeros(len(scores))
    kept[order] = weights[order]
    return kept


def drawn(scores, count, **options):
    rows = np.broadcast_to(scores, (count, len(scores)))
    found = _core.generate_steps(
        lambda tokens: rows[: len(tokens)],
        lambda _: None,
        [0] * count,
        method="sample",
        max_len=1,
        end_id=None,
        **options,
    )
    return np.array([sentence[0][0][0] for sentence in found])


OPTIONS = [
    {},
    {"temperature": 0.3},
    {"top_k": 1},
    {"top_k": 5},
    {"top_p": 0.5},
    {"top_p": 0.9, "temperature": 2.0},
    {"top_k": 7, "top_p": 0.6},
    {"top_k": 100000, "top_p": 1.0},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("vocab", [1, 13, 5003])
@pytest.mark.parametrize("ties", [False, True])
def test_draws_follow_the_rules(options, vocab, ties):
    scores = RNG.standard_normal(vocab) * 3
    if ties:
        scores = np.round(scores)
        scores[::7] = np.nan
        scores[-1] = 2.0
    weights = kept_by(scores, **options)
    total = np.cumsum(weights)
    qkv.manual_seed(3)
    uniform = np.array([qkv.rand(1, dtype="float64")[0] for _ in range(50)])
    expected = np.searchsorted(total, uniform * total[-1], side="right")
    qkv.manual_seed(3)
    found = drawn(scores, 50, **options)
    assert (weights[found] > 0).all()
    # A draw at the border of two tokens may fall to either: exponentials differ in the last digit.
    assert (found == expected).mean() > 0.95


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_frequencies(options):
    """Chi-square of 20,000 draws."""
    scores = np.array([0.0, 1.0, -1.0, 2.0, 2.0, 0.5, -np.inf, np.nan, 1.5, -0.5, 1.0])
    p = kept_by(scores, **options)
    p = p / p.sum()
    qkv.manual_seed(1)
    counts = np.bincount(drawn(scores, 20000, **options), minlength=len(p))
    assert (counts[p == 0] == 0).all()
    statistic = ((counts - 20000 * p)[p > 0] ** 2 / (20000 * p[p > 0])).sum()
    assert statistic < 40  # ten degrees of freedom: once in 50,000


def test_exact_borders_of_top_p():
    scores = np.log([0.25, 0.5, 0.125, 0.125])
    for top_p, kept in [(0.5, {1}), (0.50001, {0, 1}), (0.75, {0, 1}), (0.8, {0, 1, 2}), (0.9, {0, 1, 2, 3})]:
        qkv.manual_seed(0)
        assert set(drawn(scores, 400, top_p=top_p)) == kept


def test_many_tokens_near_the_border():
    scores = np.zeros(49152)
    scores[40000:] = 1e-3
    qkv.manual_seed(0)
    found = drawn(scores, 200, top_p=0.1)
    assert found.min() >= 40000
    assert found.max() <= 40000 + 4930
    assert drawn(scores, 200, top_p=1.0).min() < 20000


def test_no_chance_at_all():
    qkv.manual_seed(0)
    assert len(set(drawn(np.full(5, -np.inf), 200))) == 5
    assert set(drawn(np.array([0.0, np.inf, 1.0, np.inf]), 200)) == {1, 3}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_greedy_takes_the_first_of_the_best(dtype):
    scores = RNG.standard_normal((3, 5003)).astype(dtype)
    scores[0, [70, 4000]] = 9
    scores[1, 3] = np.nan
    found = _core.generate_steps(lambda t: scores[: len(t)], lambda _: None, [0] * 3, max_len=1, end_id=None)
    clean = np.where(np.isnan(scores), -np.inf, scores.astype("f8"))
    best = clean.argmax(1)
    assert [sentence[0][0] for sentence in found] == [[token] for token in best]
    assert best[0] == 70
    log_probs = clean.max(1) - np.log(np.exp(clean).sum(1))
    np.testing.assert_allclose([sentence[0][1] for sentence in found], log_probs, rtol=1e-12)


def test_draws_do_not_depend_on_threads():
    scores = RNG.standard_normal((64, 20011))
    results = []
    for threads in (1, 2):
        with_threads = qkv.get_num_threads()
        qkv.set_num_threads(threads)
        qkv.manual_seed(5)
        results.append(
            _core.generate_steps(
                lambda t: scores[: len(t)],
                lambda _: None,
                [0] * 64,
                method="sample",
                top_p=0.7,
                max_len=2,
                end_id=None,
            )
        )
        qkv.set_num_threads(with_threads)
    assert results[0] == results[1]
