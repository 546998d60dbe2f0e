"""What generation_config.json says: each entry is computed as by Hugging Face's libraries, named as one that changes
nothing, or refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sweep import sweep

import qkv
from models.test_architectures import HEADS, IDS
from models.test_generation import new_ids
from models.tiny_models import TINY, hugging_face
from qkv import models
from qkv.models.generation import filters, settings

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", minversion="5")
pytest.importorskip("safetensors")

LLAMA = dict(
    model_type="llama", architectures=["LlamaForCausalLM"], vocab_size=50, hidden_size=24, num_hidden_layers=2,
    num_attention_heads=4, intermediate_size=40,
)  # fmt: skip


def test_every_entry_is_in_one_table():
    own = {name for name in vars(transformers.GenerationConfig()) if not name.startswith("_")}
    own |= set(transformers.GenerationConfig._get_default_generation_params())
    tables = [*settings.COMPUTED, *settings.REFUSED, *settings.SAME]
    assert len(tables) == len(set(tables))
    assert own - set(tables) == set()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return a model of Hugging Face's, what it writes greedily, and a folder, by type."""
    found = {}
    for kind in ("llama", "gpt2", "bart", "marian", "t5"):
        folder = tmp_path_factory.mktemp(kind)
        model = hugging_face(kind, next(iter(TINY[kind][1])), HEADS[kind][1], folder)
        found[kind] = model, new_ids(model, [IDS], 13), folder
    return found


def beams_of(model, **options):
    """Return the texts that Hugging Face finds, without what follows their ends."""
    with torch.no_grad():
        found = model.generate(torch.tensor(IDS), **options)
    before = 1 if model.config.is_encoder_decoder else IDS.shape[1]
    ends = set(np.atleast_1d(model.generation_config.eos_token_id).tolist())
    texts = []
    for row in found[:, before:].tolist():
        stop = next((i + 1 for i, token in enumerate(row) if token in ends), len(row))
        texts.append(row[:stop])
    return texts


BEAMS = {
    "plain": lambda text: {},
    "one end more": lambda text: {"eos_token_id": [2, text[4], text[1]]},
    "early": lambda text: {"early_stopping": True, "eos_token_id": [text[4], text[2]]},
    "never": lambda text: {
        "early_stopping": "never",
        "eos_token_id": [text[4], text[2]],
        "length_penalty": 1.7,
    },
    "long": lambda text: {"length_penalty": 3.0, "eos_token_id": [text[3], text[2], text[1]]},
    "short": lambda text: {"length_penalty": -2.0, "eos_token_id": [text[3], text[2]]},
    "no penalty": lambda text: {"length_penalty": 0.0, "eos_token_id": text[2]},
    "rules": lambda text: {"repetition_penalty": 1.9, "bad_words_ids": [[text[1]]], "min_new_tokens": 3},
    "renormalized": lambda text: {"renormalize_logits": True, "bad_words_ids": [[text[0]], [text[1]]]},
    "last": lambda text: {"forced_eos_token_id": 9, "no_repeat_ngram_size": 1},
    "many": lambda text: {"num_beams": 9, "eos_token_id": [text[5], 7, 11]},
    "by length": lambda text: {"max_length": 19, "max_new_tokens": None},
}


@sweep("kind, name", [(kind, name) for kind in ("llama", "gpt2", "bart", "marian", "t5") for name in BEAMS])
def test_beams_of_the_file_are_hugging_faces(folders, kind, name):
    model, plain, folder = folders[kind]
    changes = {"num_beams": 4, "max_new_tokens": 12, **BEAMS[name](plain[0])}
    before = model.generation_config
    model.generation_config = transformers.GenerationConfig(**{**before.to_diff_dict(), **changes})
    try:
        model.generation_config.save_pretrained(folder)
        expected = beams_of(model)
        loaded = models.from_pretrained(folder)
    finally:
        model.generation_config = before
        before.save_pretrained(folder)
    assert [found[0][0] for found in loaded.generate(IDS)] == expected


@pytest.mark.parametrize("kind", ["llama", "marian"])
def test_what_the_caller_says_is_done(folders, kind):
    model, plain, folder = folders[kind]
    loaded = models.from_pretrained(folder, num_beams=3, max_new_tokens=13)
    assert [found[0][0] for found in loaded.generate(IDS, method="greedy")] == plain
    searched = beams_of(model, num_beams=3, max_new_tokens=5)
    assert [found[0][0] for found in loaded.generate(IDS, max_new_tokens=5)] == searched
    wide = beams_of(model, num_beams=7, max_new_tokens=13, length_penalty=2.5)
    assert [found[0][0] for found in loaded.generate(IDS, beam_size=7, length_penalty=2.5)] == wide
    drawn = models.from_pretrained(folder, do_sample=True, top_k=1, temperature=0.01)
    assert [found[0][0] for found in drawn.generate(IDS, max_new_tokens=13)] == plain
    with pytest.raises(ValueError, match=r"top_k must be given with method=.sample."):
        loaded.generate(IDS, top_k=3)


def test_draws_have_the_files_numbers():
    model = models.from_config(LLAMA).eval()
    model.given_generation = {"do_sample": True, "temperature": 5.0}

    def firsts(**options):
        qkv.manual_seed(3)
        return {found[0][0][0] for found in model.generate([[3, 4]] * 2000, max_new_tokens=1, **options)}

    # The default top_k = 50 leaves all words.
    assert len(firsts()) == 50
    model.given_generation["top_k"] = 7
    assert len(firsts()) == 7
    assert len(firsts(top_k=11)) == 11
    assert len(firsts(method="greedy")) == 1
    model.given_generation = {"top_p": 0.2}
    few = len(firsts(method="sample", temperature=5.0))
    assert 1 < few < len(firsts(method="sample", temperature=5.0, top_p=0.6)) < 50
    assert len(firsts(method="sample", temperature=0.5, top_p=1.0, min_p=1.0)) == 1
    for entries in ({"typical_p": 0.2}, {"epsilon_cutoff": 0.021}, {"eta_cutoff": 0.9}, {"top_h": 0.2}):
        model.given_generation = {"do_sample": True, "temperature": 5.0, **entries}
        assert len(firsts()) < 50, entries
    # Scores are those of all words, also where few were drawn from.
    model.given_generation = {"do_sample": True, "min_p": 1.0}
    [[(ids, score, _)]] = model.generate([[3, 4]], max_new_tokens=4)
    [[(words, expected, _)]] = model.generate([[3, 4]], max_new_tokens=4, method="greedy")
    assert ids == words
    assert abs(score - expected) < 1e-5


@sweep("options", [
    {"min_p": 0.3}, {"typical_p": 0.6}, {"epsilon_cutoff": 0.02}, {"eta_cutoff": 0.01}, {"top_h": 0.4},
    {"top_k": 9, "top_p": 0.8, "min_p": 0.1}, {"temperature": 2.3, "top_p": 0.7, "typical_p": 0.9},
    {"temperature": 0.4, "top_k": 20, "top_h": 0.9, "min_p": 0.01, "epsilon_cutoff": 0.001, "eta_cutoff": 0.003},
])  # fmt: skip
def test_filters_leave_what_hugging_faces_leave(options):
    scores = np.random.default_rng(4).standard_normal((30, 61)) * np.arange(1, 31)[:, None] / 8
    config = transformers.GenerationConfig(do_sample=True, **{"top_k": 0, **options})
    llama = transformers.AutoModelForCausalLM.from_config(
        transformers.LlamaConfig(
            **{k: v for k, v in LLAMA.items() if k not in ("model_type", "architectures")}
        )
    )
    warpers = llama._get_logits_processor(config, input_ids_seq_length=1)
    kept = np.isfinite(warpers(torch.zeros(30, 1, dtype=torch.long), torch.tensor(scores)).numpy())
    rest = {name: value for name, value in options.items() if name in settings.FILTERS}
    found = filters.keep(
        scores, options.get("temperature", 1.0), options.get("top_k"), options.get("top_p"), rest
    )
    assert (np.isfinite(found) == kept).all()
    assert (found[kept] == scores[kept]).all()


@pytest.mark.parametrize("kind", ["llama", "gpt2", "bart"])
def test_a_mask_is_inferred_where_hugging_faces_is(folders, kind):
    model, _, folder = folders[kind]
    ids = np.where(np.arange(11) < np.array([0, 4, 6])[:, None], model.config.pad_token_id, IDS)
    loaded = models.from_pretrained(folder)
    assert [found[0][0] for found in loaded.generate(ids, max_new_tokens=13)] == new_ids(model, [ids], 13)
    ends = {"eos_token_id": [2, model.config.pad_token_id]}
    loaded = models.from_pretrained(folder, **ends)
    before = model.generation_config.eos_token_id
    model.generation_config.eos_token_id = ends["eos_token_id"]
    expected = new_ids(model, [ids], 13)
    model.generation_config.eos_token_id = before
    assert [found[0][0] for found in loaded.generate(ids, max_new_tokens=13)] == expected


def test_old_files_force_the_first_word(folders, tmp_path):
    model, _, _ = folders["bart"]
    model.save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    entries = json.loads((tmp_path / "config.json").read_text()) | {"force_bos_token_to_be_generated": True}
    (tmp_path / "config.json").write_text(json.dumps(entries))
    theirs = type(model).from_pretrained(tmp_path).eval()
    found = [found[0][0] for found in models.from_pretrained(tmp_path).generate(IDS, max_new_tokens=5)]
    assert found == new_ids(theirs, [IDS], 5)
    assert {text[0] for text in found} == {0}


@sweep("entries, error, text", [
    ({"num_beams": 2, "do_sample": True}, ValueError, "method must be given because generation_config asks for beams"),
    ({"num_beams": -1}, ValueError, "num_beams must be a whole number, 0 or more; got -1"),
    ({"num_beams": "4"}, TypeError, "num_beams must be a whole number"),
    ({"do_sample": 1}, TypeError, "do_sample must be true or false; got 1"),
    ({"temperature": "hot"}, TypeError, "temperature must be a number; got"),
    ({"do_sample": True, "temperature": 0.0}, ValueError, "temperature must be a positive number"),
    ({"top_p": 1.5}, ValueError, "top_p must be a number from 0 to 1; got 1.5"),
    ({"early_stopping": "always"}, TypeError, "early_stopping must be true, false or 'never'"),
    ({"eos_token_id": "end"}, TypeError, "eos_token_id must be ids; got"),
    ({"bad_words_ids": [3]}, TypeError, "bad_words_ids must be lists of ids"),
    ({"penalty_alpha": 0.6}, ValueError, "penalty_alpha must be unset because qkv has no rule for it; got 0.6"),
    ({"num_beam_groups": 2}, ValueError, "num_beam_groups must be unset"),
    ({"stop_strings": ["x"]}, ValueError, "stop_strings must be unset"),
    ({"max_length": 2}, ValueError, "max_new_tokens must be given because max_length of"),
    ({}, TypeError, "max_new_tokens must be given because generation_config has none"),
])  # fmt: skip
def test_entries_that_are_refused(entries, error, text):
    model = models.from_config(LLAMA).eval()
    model.given_generation = entries
    count = {} if "max_new" in text else {"max_new_tokens": 2}
    with pytest.raises(error, match=f"generate: {text}"):
        model.generate([[3, 4, 5]], **count)


@sweep("options, text", [
    ({"early_stopping": True}, "early_stopping must be given with method=.beam. because .greedy. does not use it"),
    ({"early_stopping": "x", "method": "beam"}, "early_stopping must be True, False or 'never'; got 'x'"),
    ({"min_p": 0.2}, "min_p must be given with method=.sample. because .greedy. does not use it"),
    ({"min_p": 3, "method": "sample"}, "min_p must be a number from 0 to 1; got 3"),
])  # fmt: skip
def test_calls_that_are_refused(options, text):
    with pytest.raises(ValueError, match=f"generate: {text}"):
        models.from_config(LLAMA).eval().generate([[3, 4]], max_new_tokens=2, **options)
