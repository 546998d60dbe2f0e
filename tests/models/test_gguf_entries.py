"""Entries of the heads of GGUF files: computed, without effect, or refused; rules of vocabularies that name none."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sweep import sweep

from models.test_gguf import IDS, letters_file, small_file
from qkv import models
from qkv.models.files.gguf_entries import fate

gguf = pytest.importorskip("gguf")
pytest.importorskip("tokenizers")


def test_every_entry_has_a_fate():
    keys = gguf.constants.Keys
    own = [value for group in (keys.LLM, keys.Attention, keys.Rope) for value in vars(group).values()
           if isinstance(value, str) and value.startswith("{arch}.")]  # fmt: skip
    fates = {name: fate(name.removeprefix("{arch}."), True) for name in own}
    assert len(fates) > 90
    assert sum(value == "computed" for value in fates.values()) == 23
    assert {fates[f"{{arch}}.{name}"] for name in ("expert_count", "logit_scale", "attention.scale")} == {
        "refused"
    }
    assert fate("general.name", False) != "refused"


def test_rows_see_what_follows(tmp_path):
    path, model = small_file(tmp_path, **{"attention.causal": False})
    loaded = models.from_pretrained(path)
    expected = models.from_config({**model.config.to_dict(), "is_causal": False})
    expected.load_state_dict(model.state_dict())
    np.testing.assert_allclose(loaded(IDS), expected.eval()(IDS), atol=1e-5)
    assert np.abs(loaded(IDS).numpy() - model(IDS).numpy()).max() > 1e-3


def test_lists_of_equal_numbers(tmp_path):
    path, model = small_file(tmp_path, **{"feed_forward_length": [64, 64], "attention.head_count_kv": [2, 2]})
    np.testing.assert_allclose(models.from_pretrained(path)(IDS), model(IDS), atol=1e-5)
    for numbers in ([64, 65], [64]):
        path, _ = small_file(tmp_path, feed_forward_length=numbers)
        with pytest.raises(
            ValueError, match=r"llama\.feed_forward_length must be one number for all layers because"
        ):
            models.from_pretrained(path)


def test_biases(tmp_path):
    """llama.cpp adds those that are there; the pairs of queries' and keys' are neighbours as in their matrices."""
    sizes = {"0.attn_q": 32, "1.attn_v": 16, "1.ffn_gate": 64}
    path, _ = small_file(tmp_path, biases=sizes)
    loaded = models.from_pretrained(path)
    assert loaded.config.attention_bias
    assert loaded.config.mlp_bias
    state = loaded.state_dict()
    assert {name for name, p in state.items() if name.endswith("bias") and np.abs(p.numpy()).max() > 0} == {
        f"body.layers.{name}.bias" for name in ("0.self_attn.q_proj", "1.self_attn.v_proj", "1.linear_gate")
    }
    halves = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 4, 2).swapaxes(1, 2).reshape(-1)
    assert (state["body.layers.0.self_attn.q_proj.bias"].numpy() == halves).all()
    path, _ = small_file(tmp_path, biases={"0.attn_norm": 32})
    with pytest.raises(
        ValueError, match=r"with the options of the head of the file; got blk\.0\.attn_norm\.bias"
    ):
        models.from_pretrained(path)


@sweep(
    "longest, factor, base",
    [(8192, 8.0, 500000.0), (4096, 32.0, 500000.0), (100, 4.0, 10000.0), (37, 2.0, 3e3)],
)
def test_factors_of_other_lengths(longest, factor, base, tmp_path):
    lengths = 2 * np.pi * base ** (np.arange(4) / 4)
    smooth = np.clip((longest / lengths - 1) / 3, 0, 1)
    path, model = small_file(tmp_path, base=base, freqs=1 / ((1 - smooth) / factor + smooth))
    rule = {"rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": longest}  # fmt: skip
    expected = models.from_config({**model.config.to_dict(), "rope_theta": base, "rope_scaling": rule})
    expected.load_state_dict(model.state_dict())
    np.testing.assert_allclose(models.from_pretrained(path)(IDS), expected.eval()(IDS), atol=1e-5)
    path, _ = small_file(tmp_path, freqs=[1, 7, 2, 9])
    with pytest.raises(ValueError, match=r"must hold Llama 3's factors because .*; got 4 from 1 to 9"):
        models.from_pretrained(path)


@sweep("name, value", [("logit_scale", 3), ("expert_count", 8), ("attention.value_length", 4),
                       ("attention.sliding_window", 5), ("swin_norm", True), ("made_up", "x")])  # fmt: skip
def test_entries_that_would_change_something(name, value, tmp_path):
    path, _ = small_file(tmp_path, **{name: value})
    with pytest.raises(ValueError, match=rf"{name} must be "):
        models.from_pretrained(path)
    path, _ = small_file(tmp_path, expert_count=0, **{"tensor_data_layout": "Meta AI original pth"})
    models.from_pretrained(path)


# What llama.cpp makes of "2023123 aB", with these words.
WORDS = [*"123aB", "Ġ", "0", "12", "23", "123", "ĠB"]


@sweep("pre, tokens", [
    ("", "2 0 2 3 12 3"), ("default", "2 0 2 3 12 3"), ("gpt-2", "2 0 23 123"), ("llama3", "2 0 2 3 12 3"),
    ("llama-v3", "2 0 2 3 12 3"), ("smaug-bpe", "2 0 2 3 12 3"), ("gpt-4o", "2 0 2 3 12 3"),
    ("tekken", "2 0 2 3 1 2 3"), ("deepseek-r1-qwen", "2 0 2 3 1 2 3"),
])  # fmt: skip
def test_rules_by_their_names(pre, tokens, tmp_path):
    facts = {"tokens": WORDS, "merges": ["1 2", "2 3", "12 3"], "token_type": [1] * len(WORDS), "pre": pre,
             "add_bos_token": False, "eos_token_id": 0, "bos_token_id": 0}  # fmt: skip
    path = letters_file(tmp_path, **facts)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tokenizer = models.Tokenizer.from_pretrained(path)
    assert tokenizer.tokens("2023123") == tokens.split()
    named = [str(w.message) for w in caught if "tokenizer.ggml.pre names no rule" in str(w.message)]
    assert len(named) == (pre in ("", "default"))
