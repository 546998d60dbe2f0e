"""Beam search and generate: the golden searches, brute force, sampling, rejections."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from golden import golden

import qkv
from qkv.models import CausalLM, Transformer, beam_search, generate

RNG = np.random.default_rng(0)


def markov(first, transition):
    def step(state, token):
        return np.log(np.maximum(first if token is None else transition[token], 1e-300)), state

    return step


@pytest.mark.parametrize("case", ["greedy_fails", "beam2_fails"])
def test_markov_tables(case):
    g = golden("D3-11")
    step = markov(g[f"{case}.first"], g[f"{case}.transition"])
    for size in (1, 2, 3):
        ids, score = beam_search(step, None, start=None, end=None, beam_size=size, max_len=3)[0]
        assert ids == g[f"{case}.beam{size}"].tolist()
        assert np.exp(score) == pytest.approx(float(g[f"{case}.beam{size}_prob"]), rel=1e-9)
    best = g[f"{case}.viterbi"].tolist()
    assert beam_search(step, None, start=None, end=None, beam_size=27, max_len=3)[0][0] == best


def table_step(vocab, seed=0):
    """Return a step whose probabilities depend on everything before: the state is the tuple of tokens."""

    def step(state, token):
        path = (*state, token)
        scores = np.random.default_rng([seed, *path]).standard_normal(vocab) * 2
        return scores - np.log(np.exp(scores).sum()), path

    return step


@pytest.mark.parametrize("penalty", [0.0, 0.75, 1.0])
def test_exhaustive_beam_is_brute_force(penalty):
    step, vocab, end, length = table_step(4), 4, 3, 3

    def log_prob(ids):
        total, state, token = 0.0, (), 0
        for i in ids:
            row, state = step(state, token)
            total, token = total + row[i], i
        return total

    every = [
        ids
        for n in range(1, length + 1)
        for ids in itertools.product(range(vocab), repeat=n)
        if end not in ids[:-1] and (n == length or ids[-1] == end)
    ]
    expected = sorted(((log_prob(ids) / len(ids) ** penalty, list(ids)) for ids in every), reverse=True)
    found = beam_search(step, (), start=0, end=end, beam_size=64, length_penalty=penalty, max_len=length)
    assert [ids for ids, _ in found] == [ids for _, ids in expected]
    np.testing.assert_allclose([score for _, score in found], [score for score, _ in expected], rtol=1e-12)


def test_finished_hypotheses_leave_the_beam():
    # Token 1 ends. Of two live ones one ends at once, so one stays and is expanded alone.
    step = markov(np.array([0.6, 0.4]), np.array([[0.9, 0.1], [0.5, 0.5]]))
    found = beam_search(step, None, start=None, end=1, beam_size=2, max_len=3)
    assert [ids for ids, _ in found] == [[0, 0, 0], [1], [0, 1], [0, 0, 1]]


def test_ties_go_to_the_earlier_hypothesis_and_token():
    step = markov(np.full(3, 1 / 3), np.full((3, 3), 1 / 3))
    found = beam_search(step, None, start=None, end=None, beam_size=3, max_len=2)
    assert [ids for ids, _ in found] == [[0, 0], [0, 1], [0, 2]]


def test_impossible_and_nan_tokens():
    step = markov(np.array([1.0, 0, 0]), np.eye(3))
    found = beam_search(
        lambda s, t: (np.array([np.nan, 0.0, -np.inf]), s), None, start=0, end=None, beam_size=1, max_len=2
    )
    assert found == [([1, 1], 0.0)]
    assert beam_search(step, None, start=None, end=None, beam_size=1, max_len=2)[0][0] == [0, 0]


BAD_STEPS = [
    (3, TypeError, r"step must be a function of \(state, token\); got 3"),
    (lambda s, t: np.zeros(3), TypeError, r"step must return \(log_probs, state\)"),
    (lambda s, t: (np.zeros((1, 3)), s), ValueError, r"log_probs must be \(V,\), .* got log_probs \(1, 3\)"),
    (lambda s, t: (np.zeros(0), s), ValueError, r"log_probs must be \(V,\)"),
]


@pytest.mark.parametrize(("step", "error", "text"), BAD_STEPS)
def test_bad_steps(step, error, text):
    with pytest.raises(error, match="^beam_search: " + text):
        beam_search(step, None, start=0, end=None, beam_size=2, max_len=3)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"beam_size": 0}, r"beam_size must be at least 1; got 0"),
        ({"max_len": 0}, r"max_len must be at least 1; got 0"),
        ({"length_penalty": np.inf}, r"length_penalty must be a finite number; got inf"),
    ],
)
def test_bad_numbers(options, text):
    arguments = {"start": 0, "end": None, "beam_size": 2, "max_len": 3, **options}
    with pytest.raises(ValueError, match="^beam_search: " + text):
        beam_search(table_step(3), (), **arguments)


def test_errors_of_the_step_come_through():
    def step(state, token):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        beam_search(step, None, start=0, end=None, beam_size=2, max_len=3)


def model(**options):
    qkv.manual_seed(3)
    return Transformer(7, 5, 8, 2, 1, 2, 16, dropout=0.0, **options).to("float64").eval()


def test_beam_of_one_is_greedy():
    m, src = model(), RNG.integers(1, 7, (6, 5))
    greedy = m.generate(src, start_id=1, end_id=2, max_len=8)
    beam = m.generate(src, start_id=1, end_id=2, max_len=8, method="beam", beam_size=1)
    assert [[h[:2] for h in s] for s in greedy] == [[h[:2] for h in s] for s in beam]


def test_batched_beam_equals_the_function_on_each_sentence():
    m, src = model(), RNG.integers(1, 7, (4, 5))
    src[2, 3:] = 0
    sentences = generate(
        m, src, start_id=1, end_id=2, method="beam", beam_size=4, length_penalty=0.6, max_len=6
    )
    for b, hypotheses in enumerate(sentences):

        def step(state, token, b=b):
            ids = [*state, token]
            return qkv.log_softmax(m(src[b : b + 1], [ids])).numpy()[0, -1], ids

        expected = beam_search(step, [], start=1, end=2, beam_size=4, length_penalty=0.6, max_len=6)
        assert [ids for ids, _, _ in hypotheses] == [ids for ids, _ in expected]
        np.testing.assert_allclose([s for _, s, _ in hypotheses], [s for _, s in expected], rtol=1e-9)


def test_no_sentences():
    assert model().generate(np.zeros((0, 5), int), start_id=1, max_len=3) == []


def first_tokens(count, **options):
    qkv.manual_seed(7)
    m = CausalLM(6, 8, 2, 1)
    m.output.weight.copy_(np.random.default_rng(5).standard_normal((6, 8)) * 2)
    qkv.manual_seed(0)
    sentences = m.generate(np.ones((count, 1), int), method="sample", max_len=1, **options)
    probabilities = np.exp(qkv.log_softmax(m([[1]])).numpy()[0, 0])
    return np.array([s[0][0][0] for s in sentences]), probabilities


def test_sampling_frequencies():
    drawn, p = first_tokens(20000)
    counts = np.bincount(drawn, minlength=6)
    # Each count is binomial: five standard deviations.
    assert (np.abs(counts - 20000 * p) < 5 * np.sqrt(20000 * p * (1 - p)) + 1).all()


def test_top_k_top_p_and_temperature():
    drawn, p = first_tokens(3000, top_k=2)
    assert set(drawn) == set(np.argsort(-p)[:2])
    order = np.argsort(-p)
    drawn, _ = first_tokens(3000, top_p=float(p[order[0]] * 0.9))
    assert set(drawn) == {order[0]}
    drawn, _ = first_tokens(3000, top_p=float(p[order[0]] + p[order[1]] / 2))
    assert set(drawn) == set(order[:2])
    drawn, _ = first_tokens(300, temperature=1e-3)
    assert set(drawn) == {order[0]}
    hot = Counter(first_tokens(6000, temperature=100.0)[0].tolist())
    assert min(hot[t] for t in range(6)) > 800


def test_sampling_follows_the_seed():
    m = CausalLM(11, 8, 2, 1)
    qkv.manual_seed(4)
    first = m.generate([[1, 2]], method="sample", max_len=20)
    qkv.manual_seed(4)
    assert m.generate([[1, 2]], method="sample", max_len=20) == first
    assert m.generate([[1, 2]], method="sample", max_len=20) != first


def test_parts_that_are_made_while_generating_are_in_training_mode_afterwards():
    class Decoder(qkv.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = qkv.nn.AdditiveAttention(5)

        def init_state(self, encoded, lens):
            return encoded

        def forward(self, tokens, state):
            assert not self.training
            x = np.ones((len(tokens), 1, 7))
            self.attention(x, x, x)
            return np.zeros((len(tokens), 1, 3)), state

    class Both(qkv.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = qkv.nn.Embedding(11, 7), Decoder()

    both = Both()
    qkv.models.generate(both, np.ones((2, 3), int), start_id=1, end_id=None, max_len=2)
    assert "decoder.attention.W_q" in dict(both.named_modules())
    assert all(part.training for part in both.modules())
