"""The tables of what a config.json may say, beside what Hugging Face's classes read; null and other names as there."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import re

import numpy as np
import pytest
from sweep import sweep

from models.test_architectures import HEADS
from models.test_generation import new_ids
from models.tiny_models import TINY, hugging_face
from qkv import models
from qkv.models.architectures.table import architecture_of
from qkv.models.files.changes import table_of_entries

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", minversion="5")
pytest.importorskip("safetensors")

# What Hugging Face's code sets on a configuration by itself, from other entries.
DERIVED = {"dense_act_fn", "is_gated_act", "num_labels", "sliding_window"}


SET_LATER = {"id2label", "sliding_window", "num_key_value_heads", "head_dim", "rope_parameters"}


def read_of(kind):
    """Return the names of all entries that Hugging Face's classes of a type read."""
    config = type(transformers.AutoConfig.for_model(kind))
    modules = [importlib.import_module(config.__module__.replace("configuration", part)) for part in
               ("configuration", "modeling")]  # fmt: skip
    sources = [inspect.getsource(module) for module in (*modules, transformers.masking_utils)]
    found = {field.name for field in dataclasses.fields(config)} | set(config.attribute_map)
    found |= set(re.findall(r'kwargs\.(?:get|pop)\("([a-z_0-9]+)"', sources[0]))
    for source in sources:
        found |= set(re.findall(r"config\.([a-z][a-z_0-9]+)\b(?!\()", source))
        found |= set(re.findall(r'getattr\((?:self\.)?config, "([a-z][a-z_0-9]+)"', source))
    methods = {name for name, _ in inspect.getmembers(transformers.PretrainedConfig, callable)}
    return {name for name in found if not name.endswith(("_embeds", "_hidden_states"))} - methods - DERIVED


@sweep("kind", TINY)
def test_every_entry_that_is_read_is_in_a_table(kind):
    tables = table_of_entries(architecture_of(kind))
    assert {name for name in read_of(kind) if name not in tables} == set()


@sweep("kind", TINY)
def test_defaults_are_hugging_faces(kind):
    table = architecture_of(kind)
    theirs = transformers.AutoConfig.for_model(kind)
    different = {
        name: (value, getattr(theirs, name))
        for name, value in table.configuration({"model_type": kind})._values.items()
        if hasattr(theirs, name) and name not in SET_LATER
        and getattr(theirs, name) != value and value is not None
    }  # fmt: skip
    assert different == {}


def outputs(model, kind, ids):
    """Return what a model of Hugging Face's or of ours computes."""
    sides = kind in ("t5", "mt5", "bart", "marian")
    if kind in ("vit", "deit"):
        ids = np.ones((1, 2, 12, 12), np.float32) * np.linspace(0, 1, 12, dtype=np.float32)
    own = isinstance(model, models.PretrainedEncoder | models.PretrainedCausalLM | models.PretrainedEncoderDecoder
                     | models.ImageModel)  # fmt: skip
    given = [ids, ids[:, :3]] if sides else [ids]
    if own:
        return np.asarray(model(*given).last_hidden_state)
    names = ["pixel_values" if kind in ("vit", "deit") else "input_ids", "decoder_input_ids"]
    with torch.no_grad():
        found = model(**{name: torch.tensor(array) for name, array in zip(names, given, strict=False)})
    return found.last_hidden_state.numpy()


# Null is refused by Hugging Face's libraries because of their types, and means the same as no entry here.
LAX = {"is_decoder", "legacy", "sliding_window", "classifier_dropout", "layer_types", "rope_parameters"}
IDS = np.random.default_rng(3).integers(6, 50, (2, 7))


def accepted(kind, name, folder):
    """Return a model of Hugging Face's and what it computes if an entry may be null there."""
    common, variants = TINY[kind]
    entries = {**common, **next(iter(variants.values())), name: None}
    try:
        config = transformers.AutoConfig.for_model(kind, **entries)
        config._attn_implementation = "eager"
        torch.manual_seed(3)
        model = getattr(transformers, HEADS[kind][0])(config).eval()
        found = outputs(model, kind, IDS)
        model.save_pretrained(folder)
    except Exception:
        return None
    return found


@sweep("kind", TINY)
def test_null_where_hugging_faces_is(kind, tmp_path):
    """Each entry as null: both compute the same, or ours is refused in a line."""
    fields = dataclasses.fields(type(transformers.AutoConfig.for_model(kind)))
    names = [f.name for f in fields if f.init and not f.name.endswith("_token_id")] + ["pad_token_id"]
    for name in names:
        folder = tmp_path / f"{kind} {name}"
        expected = accepted(kind, name, folder)
        common, variants = TINY[kind]
        entries = {"model_type": kind, **common, **next(iter(variants.values())), name: None}
        if expected is not None:
            saved = json.loads((folder / "config.json").read_text())
            (folder / "config.json").write_text(json.dumps({**saved, name: None}))
            found = outputs(models.from_pretrained(folder), kind, IDS)
            assert np.abs(found - expected).max() < 1e-5, name
        elif table_of_entries(architecture_of(kind)).get(name) == "computed" and name not in LAX:
            with pytest.raises((ValueError, TypeError), match=f"from_config: .*{name}"):
                models.from_config(entries)


DECODERS = [
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "gemma2",
    "gpt2",
    "gpt_neox",
    "bloom",
    "t5",
    "bart",
    "marian",
]
PADDED = np.arange(7) < np.array([7, 4])[:, None]


@sweep("kind, value", [(kind, value) for kind in DECODERS for value in (False, None, True)])
def test_rows_see_what_follows_where_is_causal_is_false(kind, value, tmp_path):
    """With windows and padding, and in texts that are continued, as in Hugging Face's libraries."""
    name = HEADS[kind][1]
    variant = {"qwen2": "windows"}.get(kind, next(iter(TINY[kind][1])))
    model = hugging_face(kind, variant, name, tmp_path, is_causal=value)
    entries = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(entries | {"is_causal": value}))
    if kind == "bloom" and not value:
        with pytest.raises(
            ValueError, match=r"is_causal must be (True because qkv has no other|true or false)"
        ):
            models.from_pretrained(tmp_path)
        return
    loaded = models.from_pretrained(tmp_path)
    ids, more = IDS, {}
    if model.config.is_encoder_decoder:
        more = {"decoder_input_ids": IDS[:, 1:6]}
    with torch.no_grad():
        given = {"input_ids": ids, **more}
        expected = model(**{key: torch.tensor(x) for key, x in given.items()}).logits.numpy()
    found = np.asarray(loaded(ids, *more.values()))
    assert np.abs(found - expected).max() < 2e-5 * np.abs(expected).max()
    follows = np.asarray(loaded(ids, *[np.where(np.arange(5) < 4, x, 9) for x in more.values()])
                         if more else loaded(np.where(np.arange(7) < 6, ids, 9)))  # fmt: skip
    assert (np.abs(follows - found)[:, 0].max() > 1e-4) == (not value)
    if value or kind not in ("mistral", "gemma2"):  # whose cache of windows there is one key narrower
        assert [text[0][0] for text in loaded.generate(ids, max_new_tokens=6)] == new_ids(model, [ids], 6)


def test_other_names_of_entries(tmp_path):
    """Names that Hugging Face's configurations read besides."""
    maps = {kind: transformers.AutoConfig.for_model(kind).attribute_map for kind in TINY}
    for kind, other in [(kind, other) for kind, names in maps.items() for other in names]:
        common, variants = TINY[kind]
        entries = {"model_type": kind, **common, **next(iter(variants.values()))}
        own = maps[kind][other]
        value = entries.pop(own, None)
        if value is not None:
            assert getattr(models.from_config({**entries, other: value}).config, own) == value
    model = hugging_face("bloom", "plain", "BloomForCausalLM", tmp_path)
    entries = json.loads((tmp_path / "config.json").read_text())
    del entries["hidden_size"]
    (tmp_path / "config.json").write_text(json.dumps(entries | {"n_embed": 24}))
    loaded = models.from_pretrained(tmp_path)
    with torch.no_grad():
        expected = model(torch.tensor(IDS)).logits.numpy()
    assert np.abs(np.asarray(loaded(IDS)) - expected).max() < 1e-5 * np.abs(expected).max()
    loaded.save_pretrained(tmp_path / "ours")
    assert models.from_pretrained(tmp_path / "ours").config.hidden_size == 24


def test_one_list_of_activations():
    from qkv.models.architectures.configuration import ACTIVATIONS

    theirs = transformers.activations.ACT2FN
    x = torch.linspace(-4, 4, 101)
    tanh_form = {"gelu_tanh": "gelu_pytorch_tanh"}
    for name, own in ACTIVATIONS.items():
        assert (theirs[name](x) - theirs[tanh_form.get(own, own)](x)).abs().max() < 1e-6, name
    for name in [*ACTIVATIONS, "mish"]:
        for kind in ("bert", "roberta", "llama", "vit"):
            entries = {"model_type": kind, "hidden_act": name, "hidden_size": 24, "num_attention_heads": 3,
                       "num_hidden_layers": 1, "vocab_size": 30, "intermediate_size": 7, "pad_token_id": 0}  # fmt: skip
            if name == "mish":
                with pytest.raises(ValueError, match=r"hidden_act must be one of gelu, .*; got 'mish'"):
                    models.from_config(entries)
            elif name not in ("sigmoid", "tanh"):
                models.from_config(entries)


def test_markers_of_positions():
    entries = {"model_type": "modernbert", **TINY["modernbert"][0]}
    models.from_config({**entries, "position_embedding_type": "sans_pos"})
    for kind in ("bert", "roberta", "electra"):
        entries = {"model_type": kind, **TINY[kind][0], "position_embedding_type": "relative_key"}
        with pytest.raises(
            ValueError, match="position_embedding_type must be absolute because qkv has no other for"
        ):
            models.from_config(entries)


def test_positions_of_mpnet_count_by_one_with_any_padding(tmp_path):
    model = hugging_face("mpnet", "plain", "MPNetModel", tmp_path, pad_token_id=0)
    entries = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(
        json.dumps(entries | {"type_vocab_size": 2})
    )  # which it does not read
    found, expected = outputs(models.from_pretrained(tmp_path), "mpnet", IDS), outputs(model, "mpnet", IDS)
    assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()
