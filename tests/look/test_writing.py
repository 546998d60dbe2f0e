"""Texts that are recorded while they are written: the ids of `generate`, and the values of the whole text."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from models.tiny_models import TINY

import qkv
from qkv import look, models, nn

CAUSAL = {
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "bloom": "BloomForCausalLM",
    "gpt_neox": "GPTNeoXForCausalLM",
}
BOTH = {
    "t5": "T5ForConditionalGeneration",
    "bart": "BartForConditionalGeneration",
    "marian": "MarianMTModel",
}
N = 6
PROMPTS = [[5, 9, 11, 7], [8, 13], [21, 5, 6, 30, 31]]


def tiny(kind):
    """A model of a type in float64, whose numbers are drawn."""
    common, variants = TINY[kind]
    entries = {**common, **next(iter(variants.values())), "model_type": kind}
    qkv.manual_seed(3)
    model = models.from_config({**entries, "architectures": [{**CAUSAL, **BOTH}[kind]]})
    model.to("float64")
    rng = np.random.default_rng(5)
    for parameter in model.parameters():
        parameter.copy_(rng.normal(0, 0.4, parameter.shape))
    return model.eval()


def close(actual, expected, tolerance):
    assert np.shape(actual) == np.shape(expected)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def padded(prompts, value=0):
    longest = max(map(len, prompts))
    ids = [[value] * (longest - len(row)) + list(row) for row in prompts]
    return np.array(ids), np.array([[0] * (longest - len(row)) + [1] * len(row) for row in prompts])


def same(writing, model, *given, **options):
    assert writing.output == model.generate(*given, **options)
    assert writing.ids == [[*found[0][0]] for found in writing.output]


@pytest.mark.parametrize("kind", CAUSAL)
def test_rows_are_those_of_the_whole_text(kind):
    model = tiny(kind)
    options = {"max_new_tokens": N, "method": "greedy", "end_id": 2}
    words = ("weights", "scores", "queries", "heads", "output")
    writing = look.generate(model, PROMPTS, keep=words, **options)
    same(writing, model, PROMPTS, **options)
    paths = [name.rpartition(".")[0] for name in writing.names() if name.endswith(".weights")]
    assert len(paths) == 3
    lens = writing.logit_lens()
    for item, prompt in enumerate(PROMPTS):
        assert writing.prompts[item].tolist() == prompt
        ids, n, first = [*prompt, *writing.ids[item]], len(writing.ids[item]), len(prompt) - 1
        whole = look.record(model, np.array([ids[:-1]]), keep=words)
        for path in paths:
            close(writing.rows(f"{path}.weights", item), whole[f"{path}.weights"][0, :, first:], 1e-9)
            scores = writing[f"{path}.scores"][item, :, :n, 4 - first :][..., : len(ids) - 1]
            read = np.tri(n, len(ids) - 1, first, dtype=bool)
            close(scores[:, read], whole[f"{path}.scores"][0, :, first:][:, read], 1e-9)
            for word in ("queries", "heads"):
                close(writing[f"{path}.{word}"][item, :, :n], whole[f"{path}.{word}"][0, :, first:], 1e-9)
        close(writing["body.layers.1.output"][item, :n], whole["body.layers.1.output"][0, first:], 1e-9)
        close(lens[:, item, :n], look.logit_lens(model, whole)[:, 0, first:], 1e-9)
        assert not writing["body.layers.1.output"][item, n:].any()
        assert not writing[f"{paths[0]}.weights"][item, :, n:].any()
    close(lens[1], writing.logit_lens(1), 0)


def test_padding_on_either_side_and_texts_that_end():
    model = tiny("llama")
    ids, mask = padded(PROMPTS)
    free = look.generate(model, PROMPTS, max_new_tokens=N, method="greedy")
    ends = free.ids[0][2]  # the first text ends early, its row leaves the batch
    options = {"max_new_tokens": N, "method": "greedy", "end_id": int(ends)}
    lists = look.generate(model, PROMPTS, **options)
    left = look.generate(model, ids, attention_mask=mask, **options)
    right_ids = np.array([[*row, *[0] * (5 - len(row))] for row in PROMPTS])
    right = look.generate(model, right_ids, attention_mask=mask[:, ::-1], **options)
    same(left, model, ids, attention_mask=mask, **options)
    assert len(lists.ids[0]) < N
    for writing in (left, right):
        assert writing.ids == lists.ids
        assert [row.tolist() for row in writing.prompts] == PROMPTS
        for item in range(3):
            for name in lists.names():
                close(writing.rows(name, item), lists.rows(name, item), 1e-12)
                assert writing.rows(name, item).shape[2] == len(PROMPTS[item]) + len(lists.ids[item]) - 1
    alone = look.generate(model, [PROMPTS[1]], **options)
    name = lists.names()[-1]
    close(alone.rows(name), lists.rows(name, 1), 1e-9)


@pytest.mark.parametrize("kind", BOTH)
def test_an_encoder_decoder_looks_at_its_source(kind):
    model = tiny(kind)
    sources, mask = np.array([[5, 9, 11, 7], [8, 13, 1, 1]]), np.array([[1, 1, 1, 1], [1, 1, 0, 0]])
    options = {"attention_mask": mask, "max_new_tokens": N, "method": "greedy"}
    writing = look.generate(model, sources, **options)
    same(writing, model, sources, **options)
    names = writing.names()
    crossing = [name for name in names if "cross" in name or "multihead" in name]
    assert crossing
    for item, source in enumerate(writing.prompts):
        read = [models.generation.steps.first_id(model), *writing.ids[item][:-1]]
        whole = look.record(model, source[None], np.array([read]), keep=("weights",))
        for name in names:
            if name.startswith("encoder."):
                real = np.flatnonzero(mask[item])
                close(writing[name][item][:, real][..., real], whole[name][0], 1e-9)
            else:
                close(writing.rows(name, item), whole[name][0], 1e-9)
        shapes = {writing.rows(name, item).shape[2] for name in crossing}
        assert shapes == {len(source)}
        whole = look.record(model, source[None], np.array([read]), keep=("output",))
        close(writing.logit_lens()[:, item, : len(read)], look.logit_lens(model, whole)[:, 0], 1e-9)


SAMPLED = {"method": "sample", "temperature": 0.7, "top_k": 7, "top_p": 0.9}


@pytest.mark.parametrize("options", [{"method": "greedy"}, SAMPLED, {"method": "sample", "min_p": 0.2}])
def test_candidates_are_those_of_the_choice(options):
    model = tiny("llama")
    qkv.manual_seed(8)
    writing = look.generate(model, PROMPTS, max_new_tokens=N, top=9, **options)
    qkv.manual_seed(8)
    same(writing, model, PROMPTS, max_new_tokens=N, **options)
    last = writing.logit_lens(-1)
    for item, ids in enumerate(writing.ids):
        assert [one.id for one in writing.chosen[item]] == ids
        score = sum(np.log(one.probability) for one in writing.chosen[item])
        assert score == pytest.approx(writing.output[item][0][1])
        for at, found in enumerate(writing.candidates[item]):
            logits = last[item, at]
            p = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
            order = np.argsort(-p, kind="stable")[:9]
            kept = [one for one in found if one.probability > 0]
            assert [one.id for one in kept] == order[: len(kept)].tolist()
            close([one.probability for one in kept], p[order[: len(kept)]], 1e-9)
            if options["method"] == "greedy":
                assert [one.drawn for one in found] == [one.probability for one in found]
            if options is SAMPLED:  # by hand
                hot = np.where(np.isin(np.arange(61), np.argsort(-p)[:7]), p ** (1 / 0.7), 0)
                hot /= hot.sum()
                best = np.argsort(-hot)
                some = best[: int((hot[best].cumsum() < 0.9).sum()) + 1]
                drawn = np.where(np.isin(np.arange(61), some), hot, 0)
                close([one.drawn for one in found], (drawn / drawn.sum())[order], 1e-9)
                assert writing.chosen[item][at].drawn > 0


def test_on_token_and_the_first_probability():
    model, told = tiny("gpt2"), []
    writing = look.generate(model, [[5, 9]], max_new_tokens=3, method="greedy", top=1, on_token=told.append)
    assert [int(ids[0]) for ids in told] == writing.ids[0]
    assert [found[0] for found in writing.candidates[0]] == writing.chosen[0]


def test_models_of_the_package():
    qkv.manual_seed(1)
    model = models.CausalLM(17, 8, 2, 2, num_kv_heads=1)
    writing = look.generate(model, PROMPTS_SMALL, max_new_tokens=4)
    assert writing.output == model.generate(PROMPTS_SMALL, max_len=4)
    for item, prompt in enumerate(PROMPTS_SMALL):
        whole = look.record(model, np.array([[*prompt, *writing.ids[item][:-1]]]), keep=("weights", "output"))
        for name in writing.names():
            close(writing.rows(name, item), whole[name][0, :, len(prompt) - 1 :], 1e-5)
        close(writing.logit_lens()[:, item], look.logit_lens(model, whole)[:, 0, len(prompt) - 1 :], 1e-5)
    model = models.Transformer(11, 13, 16, 4, 2, 2, pad_id=3).eval()
    sources = [[1, 2, 3, 3], [1, 2, 5, 3]]
    writing = look.generate(model, sources, max_new_tokens=5, start_id=1, end_id=2)
    expected = model.generate(sources, start_id=1, end_id=2, max_len=5)
    assert writing.ids == [found[0][0] for found in expected]
    close([found[0][2] for found in writing.output], [found[0][2] for found in expected], 0)
    assert [row.tolist() for row in writing.prompts] == [[1, 2], [1, 2, 5]]
    read = np.array([[1, *writing.ids[1][:-1]]])
    whole = look.record(model, np.array(sources[1:]), read, keep=("weights",))
    cross, own = (f"decoder.layers.1.{part}.weights" for part in ("multihead_attn", "self_attn"))
    close(writing.rows(cross, 1), whole[cross][0, ..., :3], 1e-5)
    close(writing.rows(own, 1), whole[own][0], 1e-5)
    parts = models.Seq2SeqEncoder(10, 8, 16, 2), models.Seq2SeqAttentionDecoder(10, 8, 16, 2)
    model = models.EncoderDecoder(*parts)
    options = {"start_id": 1, "end_id": 2, "src_valid_lens": [3, 4]}
    writing = look.generate(model, sources, max_new_tokens=5, **options)
    expected = models.generate(model, sources, max_len=5, **options)
    for item, [(ids, score, attention)] in enumerate(expected):
        assert writing.output[item][0][:2] == (ids, score)
        close(writing.rows("decoder.attention.weights", item)[0], attention[:, : 3 + item], 1e-6)
    with pytest.raises(ValueError, match="logit_lens: model must have layers with attention; got EncoderDec"):
        writing.logit_lens()


PROMPTS_SMALL = [[5, 9, 11, 7], [8, 13]]


def test_it_is_a_recording():
    model = tiny("llama")
    writing = look.generate(model, PROMPTS, max_new_tokens=N, method="greedy", keep=("weights", "input"))
    assert isinstance(writing, look.Recording)
    assert writing["body.embedding.input"].shape == (3, N)  # the ids that the steps read
    assert writing["body.embedding.input"][0].tolist() == [PROMPTS[0][-1], *writing.ids[0][:-1]]
    back = pickle.loads(pickle.dumps(writing))
    assert back.ids == writing.ids
    assert back.candidates == writing.candidates
    name = "body.layers.1.self_attn.weights"
    np.testing.assert_array_equal(back[name], writing[name])
    np.testing.assert_array_equal(back.rows(name, 1), writing.rows(name, 1))
    assert [weights.shape for weights in writing.layers()] == [(3, 4, N, 10)] * 3
    assert look.measures(writing).first.shape == (3, 4)
    assert repr(writing) == "Writing(6, 6, 6 tokens after 4, 2, 5)"


def test_weights_are_those_of_the_steps_though_the_model_changes():
    model = tiny("llama")
    writing = look.generate(model, [PROMPTS[0]], max_new_tokens=N, method="greedy")
    name = writing.names()[1]
    before = writing[name].copy()
    for parameter in model.parameters():
        parameter.copy_(np.zeros(parameter.shape))
    np.testing.assert_array_equal(writing[name], before)


def test_what_is_changed_is_recorded_changed():
    model = tiny("llama")
    name = "body.layers.1.self_attn.weights"
    options = {"max_new_tokens": N, "method": "greedy"}
    with look.change(model, {name: lambda w: w * 0 + 1 / w.shape[-1]}):
        writing = look.generate(model, [PROMPTS[0]], **options)
        same(writing, model, [PROMPTS[0]], **options)
    rows = writing.rows(name)
    for step in range(N):
        close(rows[:, step, : 4 + step], np.full((4, 4 + step), 1 / (4 + step)), 1e-12)
    assert writing.rows("body.layers.0.self_attn.weights").std() > 0.1


def test_keys_of_a_cache_are_kept_once():
    layer, cache = nn.MultiHeadAttention(8, 2, is_causal=True).eval(), nn.KVCache()
    x = qkv.randn(1, 9, 8)
    seen = []
    for at in range(9):
        seen.append(look.record(layer, x[:, at : at + 1], cache=cache))
        if at == 4:
            with pytest.raises(ValueError, match="attn_mask"):  # a call that fails leaves what was seen
                layer(x[:, :1], cache=cache, attn_mask=np.ones((3, 3, 3), bool))
    whole = look.record(layer, x)["weights"]
    for at, one in enumerate(seen):
        close(one["weights"][0, :, 0], whole[0, :, at, : at + 1], 1e-6)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "beam"}, ValueError, 'method must be "greedy" or "sample" because beams .*; got "beam"$'),
        ({"keep": "keys"}, ValueError, "keep must hold what has a row for each step .*; got body.layers.0"),
        ({"keep": "weight"}, ValueError, "keep must hold words .*; got 'weight'; did you mean weights"),
        ({"top": 0}, ValueError, "top must be at least 1; got 0"),
        ({"max_new_tokens": 0}, ValueError, "max_new_tokens must be at least 1; got 0"),
        ({"max_new_tokens": 40}, ValueError, "at most 37 positions together; got 2 and 40"),
        ({"nonsense": 1}, TypeError, "nonsense"),
    ],
)
def test_rejections(options, error, message):
    with pytest.raises(error, match=f"generate.*{message}"):
        look.generate(tiny("gpt2"), [[5, 9]], **{"max_new_tokens": 2, **options})


def test_models_that_do_not_write():
    with pytest.raises(TypeError, match="generate: model must have a generate method; got Linear"):
        look.generate(nn.Linear(2, 3), [[1]], max_new_tokens=2)
    with pytest.raises(TypeError, match="generate: model must be a module; got"):
        look.generate("model", [[1]], max_new_tokens=2)
    model = tiny("bart")
    model.given_generation = {**model.generation, "num_beams": 4}
    with pytest.raises(ValueError, match='got "beam", which is that of the generation_config'):
        look.generate(model, [[5, 9]], max_new_tokens=2)
    assert len(look.generate(model, [[5, 9]], max_new_tokens=2, method="greedy").ids[0]) == 2
