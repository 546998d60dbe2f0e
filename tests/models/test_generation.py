"""Texts of models of all types beside Hugging Face's, and the rules of a generation_config."""

from __future__ import annotations

import numpy as np
import pytest

import qkv
from models.test_architectures import BOTH_SIDES, CAUSAL, HEADS, IDS, LEFT, RIGHT
from models.tiny_models import CASES, TINY, hugging_face
from qkv import models
from qkv.models.generation import rules

torch = pytest.importorskip("torch")
pytest.importorskip("transformers", minversion="5")
pytest.importorskip("safetensors")


def new_ids(model, arguments, count, **options):
    """Return what Hugging Face's greedy decoding adds, up to the end."""
    given = {key: torch.tensor(np.ascontiguousarray(value)) for key, value in options.items()}
    ids = torch.tensor(np.ascontiguousarray(arguments[0]))
    with torch.no_grad():
        found = model.generate(ids, **given, max_new_tokens=count, do_sample=False, num_beams=1)
    before = 1 if model.config.is_encoder_decoder else ids.shape[1]
    ends = model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    texts = []
    for row in found[:, before:].tolist():
        stop = next((i + 1 for i, token in enumerate(row) if token in ends), len(row))
        texts.append(row[:stop])
    return texts


def ours_of(loaded, arguments, count, **options):
    return [ids for [(ids, _, _)] in loaded.generate(arguments[0], **options, max_new_tokens=count)]


@pytest.mark.parametrize(("kind", "variant"), [case for case in CASES if case[0] in CAUSAL + BOTH_SIDES])
def test_greedy_texts_are_equal(tmp_path, kind, variant):
    name = HEADS[kind][1]
    model = hugging_face(kind, variant, name, tmp_path)
    loaded = models.from_pretrained(tmp_path)
    assert ours_of(loaded, [IDS], 13) == new_ids(model, [IDS], 13)
    mask = (LEFT if kind in CAUSAL else RIGHT).astype(np.int64)
    ids = np.where(mask, IDS, model.config.pad_token_id)
    expected = new_ids(model, [ids], 13, attention_mask=mask)
    assert ours_of(loaded, [ids], 13, attention_mask=mask) == expected


RULES = {
    "bad words": lambda text: {"bad_words_ids": [[text[1]], [text[3], text[4]], [2]]},
    "ngrams": lambda text: {"no_repeat_ngram_size": 1},
    "repetition": lambda text: {"repetition_penalty": 5.7},
    "ends": lambda text: {"eos_token_id": [2, text[4]]},
    "shortest": lambda text: {"min_new_tokens": 6, "eos_token_id": [2, text[2]]},
    "suppressed": lambda text: {"suppress_tokens": [text[3]], "begin_suppress_tokens": [text[0], 8]},
    "suppressed beyond the words": lambda text: {
        "suppress_tokens": [text[3], 61],
        "begin_suppress_tokens": [99],
    },
    "ends beyond the words": lambda text: {"min_new_tokens": 6, "eos_token_id": [61, text[2]]},
    "forced": lambda text: {"forced_eos_token_id": 9},
    "unforced": lambda text: {"forced_eos_token_id": None, "suppress_tokens": [text[3]]},
    "forced first": lambda text: {"forced_bos_token_id": 5},
    # Both lengths: that of the new ids holds, with any other.
    "shortest twice": lambda text: {"min_new_tokens": 2, "min_length": 20, "eos_token_id": [2, text[3]]},
    "first but for the forced": lambda text: {
        "forced_bos_token_id": 5,
        "begin_suppress_tokens": [5, text[0]],
    },
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_generation_configs_are_heeded(tmp_path, kind, rule):
    variant, name = next(iter(TINY[kind][1])), HEADS[kind][1]
    model = hugging_face(kind, variant, name, tmp_path)
    plain = new_ids(model, [IDS], 13)
    for key, value in RULES[rule](plain[0]).items():
        setattr(model.generation_config, key, value)
    model.generation_config.save_pretrained(tmp_path)
    expected = new_ids(model, [IDS], 13)
    assert (expected == plain) == (rule == "forced first" and kind == "gpt2")
    assert ours_of(models.from_pretrained(tmp_path), [IDS], 13) == expected


@pytest.mark.parametrize(("start", "kind"), [(10**30, ValueError), (1.5, TypeError), (-1, ValueError)])
def test_the_first_id_of_a_decoder_is_a_word(tmp_path, start, kind):
    hugging_face("bart", "plain", "BartForConditionalGeneration", tmp_path)
    loaded = models.from_pretrained(tmp_path)
    loaded.given_generation = {"decoder_start_token_id": start}
    with pytest.raises(kind, match="generate: decoder_start_token_id must be"):
        loaded.generate(IDS, max_new_tokens=3)


def test_an_encoder_may_have_more_words():
    limits = rules.Rules({"encoder_no_repeat_ngram_size": 1}, [], 1, 5, source=np.array([[2, 9]]))
    assert limits.apply(np.array([[0]]), np.zeros((1, 5))).tolist() == [[0, 0, -np.inf, 0, 0]]


def test_generation_takes_no_unknown_rule(tmp_path):
    hugging_face("gpt2", "plain", "GPT2LMHeadModel", tmp_path)
    loaded = models.from_pretrained(tmp_path)
    loaded.given_generation = {"guidance_scale": 1.5}
    with pytest.raises(
        ValueError, match=r"guidance_scale must be unset because qkv has no rule for it; got 1\.5"
    ):
        loaded.generate(IDS, max_new_tokens=3)
    for name, value in {
        "bad_words_ids": [[3], [61]],
        "forced_eos_token_id": 61,
        "forced_bos_token_id": -1,
    }.items():
        loaded.given_generation = {name: value}
        got = value if isinstance(value, int) else 61
        message = rf"generate: {name} must have ids from 0 to vocab_size - 1 = 60; got \[{got}\]"
        with pytest.raises(ValueError, match=message):
            loaded.generate(IDS[:, :1], max_new_tokens=3)
    loaded.given_generation = {}
    with pytest.raises(ValueError, match="on_token must be None with method='beam'"):
        loaded.generate(IDS, max_new_tokens=3, method="beam", on_token=print)
    with pytest.raises(ValueError, match=r"input_ids must be integers \(B, L\) with L at least 1"):
        loaded.generate(IDS[0], max_new_tokens=3)
    with pytest.raises(ValueError, match=r"attention_mask must be \(3, 11\) as input_ids"):
        loaded.generate(IDS, attention_mask=np.ones((3, 2)), max_new_tokens=3)


def test_tokens_stream(tmp_path):
    hugging_face("llama", "plain", "LlamaForCausalLM", tmp_path)
    loaded = models.from_pretrained(tmp_path)
    plain = [ids for [(ids, _, _)] in loaded.generate(IDS, max_new_tokens=9)]
    end = next(ids[2] for ids in plain if ids[2] not in ids[:2])
    seen = []
    found = loaded.generate(IDS, max_new_tokens=9, end_id=end, on_token=seen.append)
    texts = [ids for [(ids, _, _)] in found]
    assert texts == [ids[: ids.index(end) + 1] if end in ids else ids for ids in plain]
    assert 3 in map(len, texts)
    assert len(set(map(len, texts))) > 1
    padding = loaded.generation["pad_token_id"]
    assert padding != end
    longest = max(map(len, texts))
    expected = [text + [padding] * (longest - len(text)) for text in texts]
    assert np.array(seen).T.tolist() == expected


@pytest.mark.parametrize(
    ("kind", "name"),
    [("llama", "LlamaForCausalLM"), ("gpt2", "GPT2LMHeadModel"), ("bloom", "BloomForCausalLM"),
     ("gemma2", "Gemma2ForCausalLM")],
)  # fmt: skip
def test_prompts_with_padding_anywhere(kind, name):
    base, variants = TINY[kind]
    qkv.manual_seed(5)
    entries = {"model_type": kind, "architectures": [name], **base, **next(iter(variants.values()))}
    model = models.from_config(entries).eval()
    draw = np.random.default_rng(6)
    for parameter in model.parameters():
        parameter.copy_(0.3 * draw.standard_normal(parameter.shape))
    ids = draw.integers(3, 61, (5, 7))
    mask = np.array(
        [[0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0], [1, 0, 1, 1, 0, 0, 1], [1] * 7, [1] + [0] * 6]
    )
    found = model.generate(ids, attention_mask=mask, max_new_tokens=5)
    for row, kept, [(words, score, _)] in zip(ids, mask == 1, found, strict=True):
        [[(alone, expected, _)]] = model.generate(row[None, kept], max_new_tokens=5)
        assert words == alone
        assert abs(score - expected) < 1e-3
    ragged = model.generate(
        [row[kept].tolist() for row, kept in zip(ids, mask == 1, strict=True)], max_new_tokens=5
    )
    assert [words for [(words, _, _)] in ragged] == [words for [(words, _, _)] in found]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        ({"input_ids": [[1, 2], []]}, ValueError, "must keep an id of each prompt; got none in row 1"),
        ({"input_ids": [[1, 2], [0.5]]}, ValueError, r"input_ids must be integers \(B, L\) .*; got float"),
        ({"attention_mask": [[1, 1], [0, 0]]}, ValueError, "must keep an id of each prompt; got none in row 1"),
        ({"attention_mask": [[0.0, -np.inf], [0.0, 0.0]]}, ValueError, "attention_mask must hold 1 for ids that count"),
        ({"max_new_tokens": 0}, ValueError, "generate: max_new_tokens must be at least 1; got 0"),
        ({"max_new_tokens": 2.5}, TypeError, "generate: max_new_tokens must be an integer .*; got 2.5"),
        ({"on_token": 3}, TypeError, r"generate: on_token must be a function of ids \(B,\); got 3"),
        ({"end_id": "x"}, TypeError, "generate: end_id must be "),
        ({"end_id": [1.5]}, TypeError, "generate: end_id must be "),
    ],
)  # fmt: skip
def test_calls_that_are_refused(call, error, text):
    sizes = dict(
        hidden_size=24, num_hidden_layers=1, num_attention_heads=4, intermediate_size=40, vocab_size=30
    )
    model = models.from_config({"model_type": "llama", "architectures": ["LlamaForCausalLM"], **sizes}).eval()
    with pytest.raises(error, match=text):
        model.generate(**{"input_ids": [[1, 2], [3, 4]], "max_new_tokens": 2, **call})
