"""qkv.models.CausalLM: against plain NumPy, decoding with a cache, invariants, learning."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from helpers import close

import qkv
from qkv import losses, optim, reference
from qkv.models import CausalLM
from qkv.nn import KVCache

RNG = np.random.default_rng(0)


def model_of(dtype="float64", **options):
    qkv.manual_seed(0)
    model = CausalLM(13, 24, 6, 2, **{"num_kv_heads": 3, "dim_feedforward": 40, **options}).to(dtype)
    for p in model.parameters():
        p.copy_(RNG.standard_normal(p.shape) / np.sqrt(p.shape[-1]))
    return model


def rotated(x, heads):
    """Turn the pairs (i, i + D/2) of each head by position * base^(-2i / D)."""
    batch, length, width = x.shape
    size = width // heads
    angles = np.arange(length)[:, None] * 10000.0 ** (-2 * np.arange(size // 2) / size)
    cos, sin = np.cos(angles), np.sin(angles)
    x = x.reshape(batch, length, heads, size).transpose(0, 2, 1, 3)
    a, b = x[..., : size // 2], x[..., size // 2 :]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def plain(model, ids):
    """Compute the formula in NumPy."""
    s = {k: v.numpy() for k, v in model.state_dict().items()}

    def norm(x, weight):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weight

    x = s["embedding.weight"][ids]
    batch, length, width = x.shape
    for i in range(2):
        p = f"layers.{i}."
        y = norm(x, s[p + "norm1.weight"])
        q = rotated(y @ s[p + "self_attn.q_proj.weight"].T, 6)
        k = rotated(y @ s[p + "self_attn.k_proj.weight"].T, 3).repeat(2, axis=1)
        v = (
            (y @ s[p + "self_attn.v_proj.weight"].T)
            .reshape(batch, length, 3, -1)
            .transpose(0, 2, 1, 3)
            .repeat(2, axis=1)
        )
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(4)
        scores[..., ~np.tri(length, dtype=bool)] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        heads = (weights @ v).transpose(0, 2, 1, 3).reshape(batch, length, width)
        x = x + heads @ s[p + "self_attn.out_proj.weight"].T
        inner = reference.gelu(norm(x, s[p + "norm2.weight"]) @ s[p + "linear1.weight"].T)
        x = x + inner @ s[p + "linear2.weight"].T
    return norm(x, s["norm.weight"]) @ s["output.weight"].T


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_formula(dtype):
    model, ids = model_of(dtype), RNG.integers(0, 13, (3, 7))
    close(model(ids), plain(model, ids), "float64" if dtype == "float64" else "float32 deep")
    with qkv.no_grad():
        close(model(ids), plain(model, ids), "float64" if dtype == "float64" else "float32 deep")
    assert [w.shape for w in model.attention_weights] == [(3, 6, 7, 7)] * 2


def test_the_future_has_no_influence():
    model, ids = model_of(), RNG.integers(0, 13, (1, 7))
    logits = model(ids).numpy()
    changed = ids.copy()
    changed[0, 5:] = (changed[0, 5:] + 1) % 13
    assert np.array_equal(model(changed).numpy()[:, :5], logits[:, :5])
    for t in range(1, 8):
        close(model(ids[:, :t]), logits[:, :t])


def test_cache():
    model, ids = model_of(), RNG.integers(0, 13, (2, 7))
    logits = model(ids).numpy()
    cache = [KVCache() for _ in model.layers]
    with qkv.no_grad():
        parts = [model(ids[:, a:b], cache=cache).numpy() for a, b in ((0, 3), (3, 4), (4, 7))]
    close(np.concatenate(parts, axis=1), logits)


@pytest.mark.parametrize("method", ["greedy", "beam", "sample"])
def test_generated_scores_are_those_of_the_parallel_pass(method):
    model, prompts = model_of(), RNG.integers(0, 13, (3, 4))
    for b, hypotheses in enumerate(
        model.generate(prompts, method=method, beam_size=3 if method == "beam" else None, end_id=2, max_len=6)
    ):
        for ids, score, attention in hypotheses:
            log_probs = qkv.log_softmax(model([[*prompts[b], *ids]])).numpy()[0, 3:]
            assert score == pytest.approx(sum(log_probs[t, i] for t, i in enumerate(ids)), abs=1e-9)
            assert attention is None


@pytest.mark.parametrize("make", [list, tuple, lambda rows: [np.array(row) for row in rows]])
@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_prompts_of_different_lengths_are_continued_each_as_alone(method, make):
    """Filled up on either side they would be continued after ids that were never written."""
    model, prompts = model_of(), [[3, 1, 4, 1, 5], [9, 2], [6, 5, 3, 5, 8], [7]]
    found = model.generate(make(prompts), method=method, beam_size=3 if method == "beam" else None, max_len=6)
    assert len(found) == 4
    for prompt, hypotheses in zip(prompts, found, strict=True):
        [alone] = model.generate(
            [prompt], method=method, beam_size=3 if method == "beam" else None, max_len=6
        )
        assert [ids for ids, _, _ in hypotheses] == [ids for ids, _, _ in alone]
        assert [score for _, score, _ in hypotheses] == pytest.approx([score for _, score, _ in alone])
    with pytest.raises(ValueError, match=r"^CausalLM: ids must be \(B, T\) with at least one token"):
        model.generate([[1, 2], []], max_len=3)


def test_gradients():
    model, ids = model_of(num_kv_heads=2), RNG.integers(0, 13, (2, 5))
    weights = RNG.standard_normal((2, 5, 13))
    model(ids).backward(weights)
    for name, parameter in model.named_parameters():
        start, direction = parameter.numpy().copy(), RNG.standard_normal(parameter.shape)
        values = []
        for sign in (1, -1):
            parameter.copy_(start + sign * 1e-5 * direction)
            values.append(float((model(ids).numpy() * weights).sum()))
        parameter.copy_(start)
        slope = float((parameter.grad.numpy() * direction).sum())
        assert slope == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-5, abs=1e-7), name


def test_it_learns_a_text_by_heart():
    text = "the quick brown fox jumps over the lazy dog. "
    letters = sorted(set(text))
    ids = np.array([[letters.index(c) for c in text * 2]])
    qkv.manual_seed(0)
    model = CausalLM(len(letters), 32, 4, 2)
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(120):
        optimizer.zero_grad()
        loss = losses.cross_entropy(model(ids[:, :-1]), ids[:, 1:])
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.3
    written = model.generate(ids[:, :20], max_len=40)[0][0][0]
    assert "".join(letters[i] for i in written) == (text * 2)[20:60]


def test_copies():
    model, ids = model_of(), [[1, 2, 3]]
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(twin(ids).numpy(), model(ids).numpy())


REJECTED = [
    (lambda m: m([1, 2]), ValueError, r"^CausalLM: ids must be \(B, T\); got ids \(2,\)$"),
    (lambda m: m([[13]]), ValueError, r"^embedding: ids must be in 0\.\.12"),
    (lambda m: m([[1.5]]), TypeError, r"^CausalLM: ids must hold integers"),
    (
        lambda m: m([[1]], cache=[KVCache()]),
        ValueError,
        r"^CausalLM: cache must hold one KVCache for each of the 2 layers; got 1$",
    ),
    (
        lambda m: m([[1]], cache=[]),
        ValueError,
        r"^CausalLM: cache must hold one KVCache for each of the 2 layers; got none$",
    ),
    (lambda m: m([[1]], cache=[3, 4]), TypeError, r"^CausalLM: cache must hold KVCaches; got 3$"),
    (lambda m: m([[1]], cache=3), TypeError, r"^CausalLM: cache must be a list of KVCaches"),
    (lambda m: m.generate([[0.5]]), TypeError, r"^CausalLM: ids must hold integers"),
    (
        lambda m: m.generate(np.zeros((1, 0), int)),
        ValueError,
        r"^CausalLM: ids must be \(B, T\) with at least one token; got ids \(1, 0\)$",
    ),
    (lambda m: CausalLM(0, 8, 2, 1), ValueError, r"^CausalLM: vocab_size must be at least 1; got 0$"),
    (
        lambda m: CausalLM(5, 6, 2, 1),
        ValueError,
        r"^CausalLM: d_model must be divisible by nhead into heads of even size",
    ),
    (
        lambda m: CausalLM(5, 8, 4, 1, num_kv_heads=3),
        ValueError,
        r"^CausalLM: nhead must be divisible by num_kv_heads; got nhead = 4, num_kv_heads = 3$",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), REJECTED)
def test_rejections(call, error, text):
    with pytest.raises(error, match=text):
        call(model_of())
