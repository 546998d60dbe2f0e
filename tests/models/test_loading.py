"""Folders as people find them, and what is refused of them before anything is computed."""

from __future__ import annotations

import copy
import json
import pickle
import struct
import tracemalloc

import numpy as np
import pytest

import qkv
from models.folders import change, write
from qkv import models

pytest.importorskip("safetensors")
from safetensors.numpy import load_file, save_file

LLAMA = dict(
    model_type="llama", architectures=["LlamaForCausalLM"], hidden_size=24, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, intermediate_size=40, vocab_size=31, max_position_embeddings=19,
)  # fmt: skip
SIZES = dict(
    hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40, vocab_size=31,
    max_position_embeddings=19,
)  # fmt: skip
ROBERTA = dict(model_type="roberta", architectures=["RobertaForMaskedLM"], **SIZES)
IDS = np.random.default_rng(3).integers(2, 31, (2, 7))


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a small Llama."""
    qkv.manual_seed(4)
    models.from_config(LLAMA).save_pretrained(tmp_path)
    return tmp_path


def logits(folder, **changes):
    return models.from_pretrained(folder, **changes)(IDS).numpy()


def edit(folder, changed):
    arrays = load_file(folder / "model.safetensors")
    save_file(changed(arrays), folder / "model.safetensors", metadata={"format": "pt"})


def test_a_model_of_a_configuration_is_saved_and_loaded(folder):
    again = models.from_pretrained(folder)
    assert isinstance(again, models.PretrainedCausalLM)
    assert not again.training
    assert (
        repr(again) == "PretrainedCausalLM(LlamaForCausalLM, 2 layers, 24 wide, 4 heads, 10,824 parameters)"
    )
    assert again.config.hidden_size == 24
    again(IDS).sum().backward()
    assert all(p.grad is not None for p in again.parameters())


def test_one_tensor_is_held_at_a_time(tmp_path):
    sizes = {"hidden_size": 128, "num_hidden_layers": 6, "intermediate_size": 512}
    made = models.from_config({**LLAMA, **sizes})
    made.save_pretrained(tmp_path)
    models.from_pretrained(tmp_path)  # imports what it needs
    tracemalloc.start()
    models.from_pretrained(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * made.num_parameters() / 4


def test_supported_types_have_tables():
    assert len(models.supported()) == 26
    for kind in models.supported():
        if kind != "bert":
            assert models.architectures.table.architecture_of(kind).model_type == kind


def test_a_bert_of_a_configuration():
    entries = {"model_type": "bert", **SIZES, "num_labels": 3}
    assert isinstance(models.from_config(entries), models.BertModel)
    model = models.from_config({**entries, "architectures": ["BertForSequenceClassification"]})
    assert model.training
    assert model.eval()(IDS).logits.shape == (2, 3)
    with pytest.raises(
        ValueError, match=r"from_config: architectures must name one of BertModel, .*; got BertForever"
    ):
        models.from_config({**entries, "architectures": ["BertForever"]})
    with pytest.raises(TypeError, match="from_config: BertConfig: hidden_size must be an integer; got 'x'"):
        models.from_config({**entries, "hidden_size": "x"})


def test_shards_with_an_index(folder):
    expected = logits(folder)
    arrays = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(arrays)
    files = {"model-00001-of-00002.safetensors": names[:9], "model-00002-of-00002.safetensors": names[9:]}
    for file, some in files.items():
        save_file({name: arrays[name] for name in some}, folder / file, metadata={"format": "pt"})
    write(
        folder / "model.safetensors.index.json",
        {"weight_map": {name: file for file, some in files.items() for name in some}},
    )
    assert (logits(folder) == expected).all()
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"model-00002-of-00002\.safetensors: this file with the weights must exist"
    ):
        models.from_pretrained(folder)


@pytest.mark.parametrize("prefix", ["", "model.", "language_model.model."])
def test_prefixes_of_the_body(folder, prefix):
    expected = logits(folder)
    edit(
        folder,
        lambda a: {
            prefix + n.removeprefix("model.") if n.startswith("model.") else n: x for n, x in a.items()
        },
    )
    assert (logits(folder) == expected).all()


def test_stray_buffers_and_half_width(folder):
    expected = logits(folder)
    strays = {f"model.layers.{i}.self_attn.rotary_emb.inv_freq": np.ones(3, np.float32) for i in range(2)}
    edit(folder, lambda a: {**{n: x.astype(np.float16) for n, x in a.items()}, **strays})
    found = logits(folder)
    assert found.dtype == np.float32
    assert 0 < np.abs(found - expected).max() < 1e-2


def test_brain_floats(folder):
    expected = logits(folder)
    arrays = load_file(folder / "model.safetensors")
    header, body, end = {}, b"", 0
    for name, array in arrays.items():
        halves = (array.view(np.uint32) >> 16).astype("<u2").tobytes()
        header[name] = {"dtype": "BF16", "shape": list(array.shape), "data_offsets": [end, end + len(halves)]}
        body, end = body + halves, end + len(halves)
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)
    assert 0 < np.abs(logits(folder) - expected).max() < 1e-1


def test_rotary_settings_of_old_and_new_files(folder):
    base = logits(folder, rope_theta=500.0)
    assert np.abs(base - logits(folder)).max() > 1e-4
    assert (logits(folder, rope_parameters={"rope_type": "default", "rope_theta": 500.0}) == base).all()
    linear = logits(folder, rope_theta=500.0, rope_scaling={"type": "linear", "factor": 2.0})
    new = {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}
    assert (logits(folder, rope_parameters=new) == linear).all()
    assert np.abs(linear - base).max() > 1e-4


def test_old_names_of_norms(tmp_path):
    qkv.manual_seed(5)
    models.from_config(ROBERTA).save_pretrained(tmp_path)
    expected = models.from_pretrained(tmp_path)(IDS).logits.numpy()
    old = {"weight": "gamma", "bias": "beta"}

    def renamed(name):
        front, _, last = name.rpartition(".")
        return f"{front}.{old[last]}" if front.endswith("LayerNorm") else name

    edit(tmp_path, lambda a: {renamed(n): x for n, x in a.items()})
    assert (models.from_pretrained(tmp_path)(IDS).logits.numpy() == expected).all()


def test_a_file_without_the_head_gives_the_bare_body(tmp_path):
    qkv.manual_seed(5)
    models.from_config(ROBERTA).save_pretrained(tmp_path)
    edit(tmp_path, lambda a: {n: x for n, x in a.items() if not n.startswith("lm_head")})
    loaded = models.from_pretrained(tmp_path, architectures=["RobertaForMaskedLM"])
    assert loaded.head is None


def test_a_class_of_its_own_choice(tmp_path):
    models.from_config(ROBERTA).save_pretrained(tmp_path)
    body = models.from_pretrained(tmp_path, architectures=["RobertaModel"])
    assert body.head is None
    assert body(IDS).pooler_output is None  # the file has no pooler
    assert isinstance(models.from_pretrained(tmp_path)(IDS).logits, qkv.Tensor)


def test_outputs_of_all_layers(tmp_path):
    model = models.from_config({**ROBERTA, "architectures": None}).eval()
    plain, result = model(IDS), model(IDS, output_hidden_states=True)
    assert plain._fields == ("last_hidden_state", "pooler_output")
    assert result._fields == (*plain._fields, "hidden_states")
    assert len(result.hidden_states) == 3
    assert (result.hidden_states[-1].numpy() == plain.last_hidden_state.numpy()).all()
    assert [w.shape for w in model.attention_weights] == [(2, 3, 7, 7)] * 2


def test_skipped_padding_gives_the_same_rows(tmp_path):
    model = models.from_config({**ROBERTA, "architectures": None}).eval()
    padded = model(IDS, valid_lens=[7, 4]).last_hidden_state.numpy()
    skipped = model(IDS, valid_lens=[7, 4], skip_padding=True).last_hidden_state.numpy()
    np.testing.assert_allclose(skipped[1, :4], padded[1, :4], atol=2e-5)
    assert (skipped[1, 4:] == 0).all()


REFUSED = [
    ({"model_type": "mamba"}, "model_type must be one of bert, roberta, .*, vit; got 'mamba'"),
    ({"model_type": None}, "model_type must be one of bert, .*; got 'None'"),
    (
        {"architectures": ["LlamaForMultipleChoice"]},
        "must name one of LlamaModel, LlamaForCausalLM, .*; got LlamaForM",
    ),
    ({"architectures": "LlamaForCausalLM"}, "architectures must be a list of names; got LlamaForCausalLM"),
    ({"hidden_act": "xielu"}, "hidden_act must be one of gelu, .*; got 'xielu'"),
    (
        {"quantization_config": {"bits": 4}},
        "quantization_config must be .* because qkv has no other for llama; got",
    ),
    (
        {"rope_scaling": {"rope_type": "longrope"}},
        "rope_type must be one of default, linear, .*; got 'longrope'",
    ),
    ({"rope_scaling": [1]}, "rope_parameters and rope_scaling must be objects; got something else"),
    ({"hidden_size": "24"}, "hidden_size must be an integer; got '24'"),
    ({"attention_bias": 1}, "attention_bias must be true or false; got 1"),
    ({"rms_norm_eps": "small"}, "rms_norm_eps must be a number; got 'small'"),
    ({"vocab_size": 10**30}, r"vocab_size must be below 2 \*\* 31; got a number of 31 digits"),
    ({"num_labels": 0}, "num_labels must be from 1 to 1000000; got 0"),
    ({"num_hidden_layers": 2**31 - 1}, "num_hidden_layers must be at most 10000; got 2147483647"),
    ({"num_hidden_layers": 3}, "must hold 3 layers model.layers.N as config.json says; got 2"),
    ({"num_hidden_layers": 1}, "must hold 1 layers model.layers.N as config.json says; got 2"),
    ({"vocab_size": 30}, r"model.embed_tokens.weight must be \(30, 24\) as config.json says; got \(31, 24\)"),
    ({"intermediate_size": 41}, r"mlp.\w+_proj.weight must be .*41.* as config.json says; got"),
    ({"attention_bias": True}, "must hold the tensors of llama; missing: .*q_proj.bias"),
    ({"num_attention_heads": 5, "head_dim": 3}, "num_key_value_heads|num_kv_heads"),
]


@pytest.mark.parametrize(("entries", "text"), REFUSED)
def test_configurations_that_are_refused(folder, entries, text):
    change(folder / "config.json", **entries)
    with pytest.raises(ValueError, match=text) as caught:
        models.from_pretrained(folder)
    assert str(folder) in str(caught.value)


def test_options_that_other_types_have_not(tmp_path):
    for entries, text in [
        ({"model_type": "bloom", "apply_residual_connection_post_layernorm": True}, "apply_residual.* must be False"),
        ({"model_type": "roberta", "is_decoder": True}, "is_decoder must be False"),
        ({"model_type": "roberta", "position_embedding_type": "relative_key"}, "position_embedding_type must"),
        ({"model_type": "t5", "feed_forward_proj": "gated-mish"}, "feed_forward_proj must be an activation"),
        ({"model_type": "modernbert", "classifier_pooling": "max"}, "classifier_pooling must be cls or mean"),
        ({"model_type": "qwen2", "layer_types": ["linear_attention"]}, "layer_types must be 32 of full_attention"),
        ({"model_type": "vit", "image_size": 10, "patch_size": 4}, "image_size must be divisible by patch_size"),
        ({"model_type": "bart", "normalize_before": True}, "normalize_before must be False"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=f"^from_config: .*{text}"):
            models.from_config(entries)


def test_weights_in_other_formats(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(
        ValueError, match=r"pytorch_model.bin must be saved as model.safetensors .* runs code; got"
    ):
        models.from_pretrained(folder)


def test_tensors_of_layers_that_are_too_many(folder):
    edit(folder, lambda a: {**a, "model.layers.1.self_attn.q_norm.weight": np.ones(6, np.float32)})
    with pytest.raises(ValueError, match=r"got model.layers.1.self_attn.q_norm.weight beside them"):
        models.from_pretrained(folder)
    edit(folder, lambda a: {n: x for n, x in a.items() if "embed_tokens" not in n})
    with pytest.raises(
        ValueError, match=r"must hold the tensors of llama; missing: model.embed_tokens.weight"
    ):
        models.from_pretrained(folder)


def test_prompts_that_are_too_long(tmp_path):
    model = models.from_config(
        dict(model_type="gpt2", architectures=["GPT2LMHeadModel"], n_embd=24, n_layer=1, n_head=3, vocab_size=31,
             n_positions=9)
    ).eval()  # fmt: skip
    with pytest.raises(
        ValueError, match="input_ids and max_new_tokens must be at most 9 positions together; got 7 and 4"
    ):
        model.generate(IDS, max_new_tokens=4)
    assert len(model.generate(IDS, max_new_tokens=3, end_id=[])[0][0][0]) == 3


def test_models_are_made_of_configurations():
    with pytest.raises(
        TypeError,
        match=r"^PretrainedEncoder: config must be a Configuration, which from_config makes; got int",
    ):
        models.PretrainedEncoder(3)
    config = models.from_config(ROBERTA).config
    with pytest.raises(
        ValueError, match=r"^PretrainedEncoder: head must be one of the architecture's heads; got 'ForX'"
    ):
        models.PretrainedEncoder(config, "ForX")


def test_copies_and_pickles():
    model = models.from_config(LLAMA).eval()
    expected = model(IDS).numpy()
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert (again(IDS).numpy() == expected).all()
        assert again.config.to_dict() == model.config.to_dict()
