"""Rotary tables for sequences longer than those in training: Hugging Face's rules."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import close

import qkv
from qkv import nn, reference

RULES = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 3.0, "original_max_position_embeddings": 11},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    "yarn_more": {"type": "yarn", "factor": 8.0, "original_max_position_embeddings": 256, "beta_fast": 17.0,
                  "beta_slow": 0.5, "attention_factor": 1.3, "truncate": False},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 64},
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_tables_are_the_references(name):
    plain = qkv.rotary_tables(range(23), 14, 1000.0, "float64")
    tables = qkv.rotary_tables(range(23), 14, 1000.0, "float64", scaling=RULES[name])
    for table, expected, other in zip(
        tables, reference.rotary_tables(range(23), 14, 1000.0, scaling=RULES[name]), plain, strict=True
    ):
        close(table, expected)
        assert np.abs(table - other).max() > 0.1
    default = qkv.rotary_tables(range(5), 6, scaling={"rope_type": "default"})
    np.testing.assert_array_equal(default[0], qkv.rotary_tables(range(5), 6)[0])


@pytest.mark.parametrize("name", RULES)
def test_tables_are_hugging_faces(name):
    torch = pytest.importorskip("torch")
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    rule = RULES[name]
    most = int(rule.get("original_max_position_embeddings", 64))
    config = llama.LlamaConfig(hidden_size=28, num_attention_heads=2, max_position_embeddings=most,
                               rope_parameters=rule | {"rope_theta": 1000.0})  # fmt: skip
    cos, sin = llama.LlamaRotaryEmbedding(config)(torch.zeros(1, 23, 28), torch.arange(23)[None])
    for table, expected in zip(
        qkv.rotary_tables(range(23), 14, 1000.0, "float64", scaling=rule), (cos, sin), strict=True
    ):
        np.testing.assert_allclose(table, expected[0, :, :7].numpy(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"rotary_dim": 2}, {"rotary_scaling": RULES["llama3"]}])
def test_layers_turn_their_heads(options):
    x = np.random.default_rng(3).standard_normal((2, 5, 12))
    layer = nn.MultiHeadAttention(12, 3, rotary_base=100.0, **options).to("float64")
    tables = qkv.rotary_tables(range(5), options.get("rotary_dim", 4), 100.0, "float64",
                               scaling=options.get("rotary_scaling"))  # fmt: skip
    q, k, v = (p(x).reshape(2, 5, 3, 4).swapaxes(1, 2) for p in (layer.q_proj, layer.k_proj, layer.v_proj))
    heads = qkv.scaled_dot_product_attention(qkv.apply_rotary(q, *tables), qkv.apply_rotary(k, *tables), v)
    close(layer(x), layer.out_proj(heads.swapaxes(1, 2).reshape(2, 5, 12)))
    block = nn.TransformerEncoderLayer(12, 3, 7, 0.0, rotary_base=100.0, **options).to("float64").eval()
    block.self_attn.load_state_dict(layer.state_dict())
    y = block.norm1(x + layer(x))
    close(block(x), block.norm2(y + block.linear2(qkv.relu(block.linear1(y)))))


@pytest.mark.parametrize(
    ("scaling", "kind", "message"),
    [
        (
            {"rope_type": "longrope"},
            ValueError,
            'rope_type "default", "linear", "dynamic", "yarn" or "llama3"; got "longrope"',
        ),
        ({"factor": 2.0}, ValueError, "must have a rope_type; got none"),
        ({"rope_type": "linear", "factor": -1.0}, ValueError, "scaling must have a positive factor; got -1"),
        (
            {"rope_type": "yarn", "factor": 2.0},
            ValueError,
            "original_max_position_embeddings because yarn compares",
        ),
        ({"rope_type": "yarn", "truncate": 3}, TypeError, "a bool as truncate; got 3"),
        ({"rope_type": 3}, TypeError, "a str as rope_type; got 3"),
        (
            RULES["llama3"] | {"low_freq_factor": 5.0},
            ValueError,
            "a low_freq_factor below its high_freq_factor; got 5 and 4",
        ),
    ],
)
def test_rules_that_are_none(scaling, kind, message):
    with pytest.raises(kind, match=message):
        qkv.rotary_tables([0, 1], 4, scaling=scaling)
    with pytest.raises(kind, match="MultiHeadAttention: "):
        nn.MultiHeadAttention(8, 2, rotary_base=9.0, rotary_scaling=scaling)


def test_a_rule_must_be_a_dict():
    with pytest.raises(TypeError, match="rotary_scaling must be None or a dict with a rope_type; got 3"):
        nn.MultiHeadAttention(8, 2, rotary_base=9.0, rotary_scaling=3)
