"""Measures of heads against their definitions on stored weights; importance, rollout and the logit lens."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import close, same_bits_for_any_threads

import qkv
from qkv import look, nn

from .test_record import IDS, MODELS, B, H, L, M, V, made, numbers

SEPARATORS = {"[SEP]", "</s>", "<|endoftext|>", ".", ",", ";", ":", "!", "?"}


def by_definition(weights, tokens, real, cross=False):
    """Each measure of weights (B, H, Lq, Lk) by loops over pairs, as (8, H)."""
    found = {name: [[] for _ in range(weights.shape[1])] for name in look.Measures._fields}
    for b, h, i in np.ndindex(*weights.shape[:3]):
        w = weights[b, h, i]
        if not real[b, i] or not w.any():
            continue
        add = lambda name, value, h=h: found[name][h].append(value)  # noqa: E731
        add("entropy", -sum(x * np.log(x) for x in w if x > 0))
        add("first", w[0])
        words = None if tokens is None else tokens[b]
        separators = [
            j for j in range(len(w)) if words is not None and words[j] in SEPARATORS and (cross or real[b, j])
        ]
        if separators:
            add("separators", sum(w[j] for j in separators))
        if cross:
            continue
        add("distance", sum(x * abs(i - j) for j, x in enumerate(w)))
        if i > 0:
            add("previous", w[i - 1])
        add("self_", w[i])
        same = [] if words is None else [j for j in range(i) if words[j] == words[i]]
        if same:
            add("duplicate", sum(w[j] for j in same))
            add("induction", w[same[-1] + 1])
    return np.array([[np.mean(of) if of else np.nan for of in found[name]] for name in look.Measures._fields])


TOKENS = [["the", "cat", ",", "the", "cat"], ["a", ".", "a", "a", "[SEP]"]]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("MultiHeadAttention", {}),
        ("MultiHeadAttention", {"valid_lens": [3, 5]}),
        ("grouped", {"valid_lens": [4, 5]}),
        ("encoder", {"valid_lens": [3, 5]}),
    ],
)
def test_measures_are_what_they_say(name, options, dtype):
    model = made(MODELS[name][0]()).to(dtype)
    x = numbers(B, L, M)
    found = look.measures(model, x, tokens=TOKENS, **options)
    real = np.arange(L) < np.array(options.get("valid_lens", [L, L]))[:, None]
    weights = look.record(model, x, **options).all("*weights")
    for layer, w in enumerate(weights):
        expected = by_definition(w.astype("float64"), TOKENS, real)
        close(np.array(found)[:, layer], expected, "float64" if dtype == "float64" else "float32 deep")
    assert found.entropy.shape == (len(weights), weights[0].shape[1])
    again = look.measures(look.record(model, x, **options), tokens=TOKENS)
    np.testing.assert_array_equal(again, found)


@pytest.mark.parametrize(
    ("tokens", "lengths"),
    [
        ([["a", "b", "c", "d", "e"], ["a", ".", "a", "a", "[SEP]"]], [5, 5]),
        ([["a", "b", ".", "d", "."], ["a", "b", "c", ".", "."]], [4, 3]),
        ([["a", "b", "c", "d", "e"], ["a", "b", "c", ".", "."]], [5, 3]),
    ],
    ids=["in one row", "behind one row", "behind all rows"],
)
def test_rows_without_separators_count_nowhere(tokens, lengths):
    layer, x = made(nn.MultiHeadAttention(M, H)), numbers(B, L, M)
    found = look.measures(layer, x, valid_lens=lengths, tokens=tokens)
    w = look.record(layer, x, valid_lens=lengths)["weights"]
    close(np.array(found)[:, 0], by_definition(w, tokens, np.arange(L) < np.array(lengths)[:, None]))


def test_calls_with_formulas():
    model, x = made(nn.MultiHeadAttention(M, H)), numbers(B, L, M)
    formulas = {
        "score_mod": lambda s, b, h, q, k: s - 0.3 * abs(q - k) * (h + 1),
        "mask_mod": lambda b, h, q, k: (q >= k) & (k != 1),
    }
    found = look.measures(model, x, tokens=TOKENS, **formulas)
    w = look.record(model, x, **formulas)["weights"]
    close(np.array(found)[:, 0], by_definition(w, TOKENS, np.ones((B, L), bool)))
    assert abs(found.entropy - look.measures(model, x).entropy).min() > 1e-3
    x, formulas = numbers(1, 8192, M).astype("float32"), {"score_mod": formulas["score_mod"]}
    model.to("float32")
    before = qkv.cached_bytes()
    look.measures(model, x, **formulas)
    assert qkv.cached_bytes() - before < 64 << 20  # the weights would take 805 MB


@pytest.mark.parametrize("left", [False, True])
def test_padding_of_an_attention_mask(left):
    model = made(MODELS["BertModel"][0]())
    mask = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    mask = mask if left else mask[:, ::-1]
    found = look.measures(model, IDS, attention_mask=mask)
    for layer, w in enumerate(look.record(model, IDS, attention_mask=mask).all("*weights")):
        close(np.array(found)[:, layer], by_definition(w, IDS, mask.astype(bool)))
    if not left:
        close(look.measures(model, IDS, attention_mask=mask, skip_padding=True), found)


def test_ids_of_the_call_are_the_tokens():
    model = made(MODELS["CausalLM"][0]())
    ids = np.array([[3, 1, 4, 3, 1], [5, 5, 5, 2, 6]])
    found = look.measures(model, ids)
    for layer, w in enumerate(look.record(model, ids).all("*weights")):
        close(np.array(found)[:, layer], by_definition(w, ids, np.ones((2, 5), bool)))
    assert np.isnan(found.separators).all()
    assert not np.isnan(found.induction).any()
    assert np.isnan(look.measures(made(nn.MultiHeadAttention(M, H)), numbers(B, L, M)).induction).all()


def test_cross_attention_compares_no_places():
    model = made(MODELS["Transformer"][0]())
    src, tgt = np.array([[3, 1, 4, 3, 1]]), np.array([[2, 2, 7]])
    found = look.measures(model, src, tgt)
    names = look.record(model, src, tgt).names()
    assert [n.split(".")[-2] for n in names] == ["self_attn", "self_attn", "multihead_attn"]
    w = look.record(model, src, tgt).all("*weights")
    one = np.ones((1, 5), bool)
    close(np.array(found)[:, 0], by_definition(w[0], src, one))
    close(np.array(found)[:, 1], by_definition(w[1], tgt, one))
    close(np.array(found)[:, 2], by_definition(w[2], None, one, cross=True))


def test_stored_weights():
    layer = made(nn.AdditiveAttention(M, query_size=M, key_size=M, num_heads=H))
    x = numbers(B, L, M)
    found = look.measures(layer, x, x, x, tokens=TOKENS)
    w = look.record(layer, x, x, x)["weights"]
    close(np.array(found)[:, 0], by_definition(w, TOKENS, np.ones((B, L), bool)))
    single = made(nn.SelfAttention(M, 7))
    w = look.record(single, numbers(L, M))["weights"]
    close(
        np.array(look.measures(single, numbers(L, M), tokens=TOKENS[0]))[:, 0],
        by_definition(w[None, None], TOKENS, np.ones((1, L), bool)),
    )


def test_a_query_without_keys_counts_nowhere():
    layer = made(nn.MultiHeadAttention(M, H))
    mask = np.ones((L, L), bool)
    mask[2] = False
    found = look.measures(layer, numbers(B, L, M), attn_mask=mask, tokens=TOKENS)
    w = look.record(layer, numbers(B, L, M), attn_mask=mask)["weights"]
    close(np.array(found)[:, 0], by_definition(w, TOKENS, np.ones((B, L), bool)))


def test_threads_change_no_bit():
    layer, x = made(nn.MultiHeadAttention(M, H, is_causal=True)), numbers(B, 307, M)
    tokens = np.random.default_rng(0).integers(0, 5, (B, 307))
    same_bits_for_any_threads(lambda: look.measures(layer, x, tokens=tokens))


def test_measures_refuse():
    layer, x = made(nn.MultiHeadAttention(M, H)), numbers(B, L, M)
    with pytest.raises(
        ValueError, match=r"measures: tokens must be .* as the weights have keys; got \(1, 3\)"
    ):
        look.measures(layer, x, tokens=["a", "b", "c"])
    with pytest.raises(
        ValueError, match=r"measures: tokens must be \(L,\) or \(B, L\), strings or ids; got float64"
    ):
        look.measures(layer, x, tokens=np.ones((B, L)))
    with pytest.raises(ValueError, match=r"Recording: weights must have been kept"):
        look.measures(look.record(layer, x, keep=("heads",)))
    with pytest.raises(TypeError, match=r"measures: inputs must not be given beside a recording; got 1"):
        look.measures(look.record(layer, x), x)


@pytest.mark.parametrize("name", ["encoder", "CausalLM", "Transformer", "additive heads"])
def test_importance(name):
    make, inputs, keywords = MODELS[name]
    model = made(make())
    direction = numbers(*np.shape(model(*inputs, **keywords)), seed=8)

    def loss(y):
        return (y * direction).sum()

    ablation = look.importance(model, loss, *inputs, method="ablation", **keywords)
    base = loss(model(*inputs, **keywords)).item()
    paths = [n.rpartition(".")[0] for n in look.record(model, *inputs, **keywords).names()]
    for (row, head), value in np.ndenumerate(ablation):
        with look.without_heads(model, {paths[row]: [head]}):
            close(value, loss(model(*inputs, **keywords)).item() - base)
    gradient = look.importance(model, loss, *inputs, **keywords)
    eps = 1e-6  # the slope along switching a head off
    for (row, head), value in np.ndenumerate(gradient):
        name = f"{paths[row]}.heads" if paths[row] else "heads"
        moved = []
        for sign in (1, -1):
            factor = np.ones(H)
            factor[head] -= sign * eps
            with look.change(model, {name: lambda h, f=factor: h * f[:, None, None]}):
                moved.append(loss(model(*inputs, **keywords)).item())
        close(value, (moved[0] - moved[1]) / (2 * eps), "float64 numeric slope")
    assert all(p.grad is None for p in model.parameters())


def test_importance_refuses():
    model, x = made(nn.MultiHeadAttention(M, H)), numbers(B, L, M)
    with pytest.raises(
        ValueError, match=r"importance: loss must give a Tensor of one number; got a Tensor \(2, 5, 12\)"
    ):
        look.importance(model, lambda y: y, x)
    with pytest.raises(
        ValueError, match=r'importance: method must be "gradient" or "ablation"; got \'other\''
    ):
        look.importance(model, lambda y: y.sum(), x, method="other")
    with pytest.raises(TypeError, match=r"importance: loss must be a function of the output; got 3"):
        look.importance(model, 3, x)
    with pytest.raises(ValueError, match=r"importance: model must have an attention; got Linear"):
        look.importance(nn.Linear(3, 3), lambda y: y.sum(), np.ones((2, 3)))


@pytest.mark.parametrize("fusion", ["mean", "max", "min"])
@pytest.mark.parametrize("discard", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("item", [0, 1])
def test_rollout_of_vit_explain(fusion, discard, item):
    """The loop of jacobgil/vit-explain, written out, with what it calls in NumPy."""
    model = made(MODELS["encoder"][0]())
    r = look.record(model, numbers(B, L, M))
    result = np.eye(L)
    for weights in r.all("*weights"):
        fused = getattr(weights[item : item + 1], fusion)(axis=1)
        flat = fused.reshape(1, -1)
        indices = np.argsort(flat[0])[: int(flat.shape[-1] * discard)]
        flat[0, indices[indices != 0]] = 0
        a = (flat.reshape(1, L, L) + np.eye(L)) / 2
        result = a / a.sum(axis=-1) @ result
    for token in (0, 3):
        close(look.rollout(r, token, item=item, fusion=fusion, discard=discard), result[0, token])


def test_what_rollout_refuses():
    r = look.record(made(MODELS["encoder"][0]()), numbers(B, L, M), keep_graph=True)
    for options, words in (
        ({"fusion": "sum"}, r'fusion must be "mean", "max" or "min"; got \'sum\''),
        ({"discard": 1.5}, "discard must be a share from 0 to 1; got 1.5"),
        ({"discard": np.nan}, "discard must be a share from 0 to 1; got nan"),
        ({"discard": 0.5, "gradient": r.output.sum()}, "fusion and discard must be left out beside gradient"),
    ):
        with pytest.raises(ValueError, match=f"^rollout: {words}"):
            look.rollout(r, 0, **options)
    with pytest.raises(IndexError, match="rollout: item must be from 0 to 1; got 2"):
        look.rollout(r, 0, item=2)


def test_rollout():
    model = made(MODELS["encoder"][0]())
    x = numbers(B, L, M)
    r = look.record(model, x)
    product = np.eye(L)
    for w in r.all("*weights"):
        product = (0.5 * w[0].mean(0) + 0.5 * np.eye(L)) @ product
    for token in (0, 3, -1):
        close(look.rollout(r, token), product[token])
    close(look.rollout(r, 2).sum(), 1.0)
    graph = look.record(model, x, keep_graph=True)
    score = (graph.output[0] * numbers(L, M, seed=6)).sum()
    relevance = np.eye(L)
    for w, dw in zip(
        graph.all("*weights"), qkv.grad(score, graph.all("*weights"), retain_graph=True), strict=True
    ):
        relevance = relevance + np.maximum(np.asarray(w) * np.asarray(dw), 0)[0].mean(0) @ relevance
    close(look.rollout(graph, 1, gradient=score), relevance[1])
    with pytest.raises(IndexError, match=r"rollout: token must be from -5 to 4; got 5"):
        look.rollout(r, 5)
    with pytest.raises(ValueError, match=r"rollout: gradient must be of a recording with keep_graph=True"):
        look.rollout(r, 1, gradient=score)
    with pytest.raises(TypeError, match=r"rollout: token must be an integer .*; got 0\.5"):
        look.rollout(r, 0.5)
    with pytest.raises(
        ValueError, match=r"rollout: recording must hold self-attention over one length; got \[3, 5\]"
    ):
        look.rollout(look.record(made(MODELS["Transformer"][0]()), IDS, IDS[:, :3]), 0)


def test_logit_lens():
    model = made(MODELS["CausalLM"][0]())
    r = look.record(model, IDS, keep=("output",))
    lens = look.logit_lens(model, r)
    assert lens.shape == (2, B, L, V)
    np.testing.assert_array_equal(lens[-1], np.asarray(r.output))
    close(lens[0], model.output(model.norm(r["layers.0.output"])))
    bert = made(MODELS["BertModel"][0]())
    with pytest.raises(
        ValueError, match=r"logit_lens: model must give logits over its vocabulary; got BertModel"
    ):
        look.logit_lens(bert, look.record(bert, IDS, keep=("output",)))
    with pytest.raises(ValueError, match=r"logit_lens: recording must hold layers\.0\.output"):
        look.logit_lens(model, look.record(model, IDS))
    with pytest.raises(ValueError, match=r"logit_lens: recording must be of a call of the model"):
        look.logit_lens(bert, r)


@pytest.mark.parametrize(
    ("earlier", "words"),
    [
        ([[-1, 1, -1]], "must be earlier places, or -1; got 1 at number 1"),
        ([[-1, 0, 2**40]], "must be earlier places, or -1; got 1099511627776 at number 2"),
        ([[-2, 0, 1]], "must be earlier places, or -1; got -2 at number 0"),
        ([[-1, 0]], r"must be \(1, 3\) to match the weights; got earlier \(1, 2\)"),
    ],
)
def test_wrong_earlier_places_are_refused(earlier, words):
    weights = qkv.tensor(np.full((1, 2, 3, 3), 1 / 3))
    with pytest.raises(ValueError, match=f"^measures: earlier {words}"):
        qkv._core.measures_of(weights, np.array(earlier), None, None, 0, False)
