"""Entries given beside a file: each has its effect or is refused in a line; a file may hold any."""

from __future__ import annotations

import json

import numpy as np
import pytest

from qkv import models
from qkv.models.architectures.table import MODEL_TYPES, architecture_of

LLAMA = dict(
    model_type="llama", architectures=["LlamaForCausalLM"], vocab_size=29, hidden_size=24, num_hidden_layers=2,
    num_attention_heads=4, intermediate_size=37,
)  # fmt: skip
BERT = dict(vocab_size=29, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=17)


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama")
    models.from_config(LLAMA).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    models.BertModel(models.BertConfig(**BERT)).save_pretrained(folder)
    return folder


UNKNOWN = {
    "torch_dtype": ("bfloat16", r"write dtype=\"float64\" or dtype=\"bfloat16\""),
    "device_map": ("auto", "everything is computed on the CPU, leave it out"),
    "low_cpu_mem_usage": (True, "everything is computed on the CPU"),
    "load_in_4bit": (True, "models are not quantized when they are loaded"),
    "load_in_8bit": (True, "models are not quantized when they are loaded"),
    "attn_implementation": ("eager", "there is one form of attention, leave it out"),
    "trust_remote_code": (True, "models are folders of this machine"),
    "gguf_file": ("x.gguf", "write from_pretrained"),
    "num_label": (7, r"did you mean num_labels\?"),
    "vocab_sizes": (7, r"did you mean vocab_size\?"),
    "use_cache": (False, "a configuration has .*vocab_size"),
    "surprise": (1, "a configuration has .*num_hidden_layers"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_change_that_would_change_nothing_is_refused(llama, bert, name):
    value, words = UNKNOWN[name]
    message = f"from_pretrained: got an unexpected argument {name}; .*{words}"
    for load in (models.from_pretrained, models.BertModel.from_pretrained):
        for folder in {models.from_pretrained: (llama, bert)}.get(load, (bert,)):
            with pytest.raises(TypeError, match=message):
                load(folder, **{name: value})


@pytest.mark.parametrize(
    ("name", "meant"),
    [("rope_teta", "rope_theta"), ("num_attention_head", "num_attention_heads"), ("n_heads", "")],
)
def test_a_slip_names_what_was_meant(llama, name, meant):
    with pytest.raises(
        TypeError, match=f"unexpected argument {name}; did you mean {meant or 'num_attention_heads'}"
    ):
        models.from_pretrained(llama, **{name: 2})


def test_changes_have_their_effect(llama):
    assert models.from_pretrained(llama, rope_theta=5.0).config.rope_theta == 5.0
    scaled = models.from_pretrained(llama, rope_scaling={"rope_type": "linear", "factor": 2.0})
    ids = [[3, 1, 4]]
    assert not np.allclose(scaled(ids), models.from_pretrained(llama)(ids))
    windowed = models.from_pretrained(
        llama,
        model_type="mistral",
        sliding_window=1,
        num_key_value_heads=4,
        architectures=["MistralForCausalLM"],
    )
    assert not np.allclose(windowed(ids)[0, 2], models.from_pretrained(llama)(ids)[0, 2])
    tied = models.from_pretrained(llama, tie_word_embeddings=True)
    assert tied.config.tie_word_embeddings
    assert tied.num_parameters() < models.from_pretrained(llama).num_parameters()


@pytest.mark.parametrize("beside", [False, True])
def test_a_change_of_what_is_generated_by(llama, tmp_path, beside):
    """Also where generation_config.json holds these entries."""
    models.from_pretrained(llama).save_pretrained(tmp_path)
    if beside:
        (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": 2}))
    model = models.from_pretrained(tmp_path, suppress_tokens=list(range(28)))
    assert model.generate([[3]], max_new_tokens=3, end_id=0)[0][0][0] == [28, 28, 28]


@pytest.mark.parametrize("kind", MODEL_TYPES)
def test_every_default_may_be_changed(kind):
    from qkv.models.files.changes import check_changes, known_entries

    table = architecture_of(kind)
    known = known_entries(table, table.configuration({"model_type": kind}), None)
    sizes = ["hidden_size", "num_hidden_layers", "num_attention_heads"]
    check_changes("from_pretrained", [*table.defaults, *sizes], known)


def test_a_configuration_by_hand_may_hold_other_entries_but_no_slips():
    stray = {"_name_or_path": "x", "torch_dtype": "float16", "transformers_version": "5", "bos_token_id": 1}
    assert models.from_config({**LLAMA, **stray}).config.hidden_size == 24
    for entries, slip, meant in (
        (LLAMA, "hiden_size", "hidden_size"),
        (LLAMA, "rope_teta", "rope_theta"),
        ({"model_type": "bert", **BERT}, "num_atention_heads", "num_attention_heads"),
    ):
        with pytest.raises(
            TypeError, match=rf"^from_config: got an unexpected entry {slip}; did you mean {meant}\?$"
        ):
            models.from_config({**entries, slip: 12})


@pytest.mark.parametrize("kind", MODEL_TYPES)
def test_no_entry_of_hugging_faces_is_taken_for_a_slip(kind):
    transformers = pytest.importorskip("transformers")
    from qkv.models.files.changes import check_spelling, known_entries

    entries = transformers.AutoConfig.for_model(kind).to_dict()
    table = architecture_of(kind)
    for head in (None, *table.heads):
        check_spelling(entries, known_entries(table, table.configuration({"model_type": kind}), head))


@pytest.mark.parametrize("place", ["rope_parameters", "top"])
@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2", "qwen3"])
def test_a_part_of_the_features_turns_in_architectures_that_have_one(kind, place, tmp_path):
    """transformers 5 turns all features of these types, with any entry; GPT-NeoX has a part."""
    pytest.importorskip("transformers")
    from models.tiny_models import DECODER, hugging_face

    variant = "whole" if kind == "mistral" else "plain"
    theirs = hugging_face(kind, variant, f"{kind.capitalize()}ForCausalLM", tmp_path)
    path = tmp_path / "config.json"
    entries = json.loads(path.read_text())
    part = {"partial_rotary_factor": 0.5}
    entries |= {"rope_parameters": {**entries["rope_parameters"], **part}} if place != "top" else part
    path.write_text(json.dumps(entries))
    ids = np.random.default_rng(3).integers(4, DECODER["vocab_size"], (2, 7))
    expected = type(theirs).from_pretrained(tmp_path, attn_implementation="eager").eval()
    import torch

    with torch.no_grad():
        expected = expected(torch.tensor(ids)).logits.numpy()
    np.testing.assert_allclose(models.from_pretrained(tmp_path)(ids), expected, atol=1e-5)
    entries["rope_parameters"] = {"rope_type": "linear", "factor": 2.0, "rope_theta": 300.0, **part}
    path.write_text(json.dumps(entries))
    with pytest.raises(ValueError, match="partial_rotary_factor must be 1 with rope_type 'linear'"):
        models.from_pretrained(tmp_path)


OPTIONS = {"beam_size": 3, "top_k": 5, "top_p": 0.5, "temperature": 0.1}


@pytest.mark.parametrize("method", ["greedy", "beam", "sample"])
@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_other_methods_are_refused(name, method):
    """Beams want method="beam"; what draws wants "sample". Values that change nothing pass."""
    needed = "beam" if name == "beam_size" else "sample"
    causal = models.CausalLM(29, 8, 2, 1)
    whole = models.from_config(LLAMA).eval()
    seq2seq = models.Transformer(7, 11, 8, 2, 1, 1)
    calls = (
        lambda **o: causal.generate([[3, 1]], max_len=2, **o),
        lambda **o: whole.generate([[3, 1]], max_new_tokens=2, **o),
        lambda **o: seq2seq.generate([[3, 1]], start_id=1, max_len=2, **o),
        lambda **o: models.generate(seq2seq, [[3, 1]], start_id=1, max_len=2, **o),
    )
    for call in calls:
        if method == needed:
            call(method=method, **{name: OPTIONS[name]})
            continue
        call(method=method, **{name: 1.0 if name in ("temperature", "top_p") else None})
        for given in ({"method": method}, {}) if method == "greedy" else ({"method": method},):
            with pytest.raises(
                ValueError, match=f'{name} must be given with method="{needed}" because "{method}"'
            ):
                call(**given, **{name: OPTIONS[name]})


def test_a_model_without_a_head_generates_nothing():
    body = models.from_config({**LLAMA, "architectures": ["LlamaModel"]})
    for method in ("greedy", "beam", "sample"):
        with pytest.raises(
            TypeError, match=r"^generate: model must have a head .*; got PretrainedCausalLM\(LlamaModel"
        ):
            body.generate([[3, 1]], max_new_tokens=2, method=method)
