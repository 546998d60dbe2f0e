"""Every argument of the reference layers changes what it says and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from tolerances import TOLERANCES

from qkv import reference

B, H, LQ, LK, M, F = 2, 2, 5, 7, 6, 11
EXACT = TOLERANCES["float64"]


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def attention_state(rng, prefix="", kv_heads=H):
    state = {}
    for name, width in (("q", M), ("k", kv_heads * M // H), ("v", kv_heads * M // H), ("out", M)):
        state[f"{prefix}{name}_proj.weight"] = rng.normal(size=(width, M))
        state[f"{prefix}{name}_proj.bias"] = rng.normal(size=width)
    return state


def layer_state(rng, *attentions):
    state = {}
    for prefix in attentions:
        state |= attention_state(rng, prefix)
    for name, shape in (("linear1", (F, M)), ("linear2", (M, F))):
        state |= {f"{name}.weight": rng.normal(size=shape), f"{name}.bias": rng.normal(size=shape[0])}
    for i in range(1, len(attentions) + 2):
        state |= {f"norm{i}.weight": rng.normal(size=M), f"norm{i}.bias": rng.normal(size=M)}
    return state


def test_a_mask_of_rank_three_is_one_per_sentence(rng):
    state, x = attention_state(rng), rng.normal(size=(B, LQ, M))  # B == H: the wrong axis would broadcast too
    mask = rng.random((B, LQ, LQ)) < 0.7
    _, w = reference.multi_head_attention(state, x, num_heads=H, attn_mask=mask, return_weights=True)
    assert ((w == 0) == ~mask[:, None]).all()
    per_head = rng.random((B, H, LQ, LQ)) < 0.7
    _, w = reference.multi_head_attention(state, x, num_heads=H, attn_mask=per_head, return_weights=True)
    assert ((w == 0) == ~per_head).all()


def test_values_and_scale(rng):
    state, q, k, v = attention_state(rng), *(rng.normal(size=(B, n, M)) for n in (LQ, LK, LK))
    out, w = reference.multi_head_attention(state, q, k, v, num_heads=H, scale=0.0, return_weights=True)
    np.testing.assert_allclose(w, 1 / LK, *EXACT)
    project = [v.mean(1, keepdims=True)]
    for name in ("v_proj", "out_proj"):
        project.append(reference.linear(project[-1], state[f"{name}.weight"], state[f"{name}.bias"]))
    np.testing.assert_allclose(out, np.repeat(project[-1], LQ, 1), *EXACT)
    same = reference.multi_head_attention(state, q, k, num_heads=H)
    np.testing.assert_array_equal(same, reference.multi_head_attention(state, q, k, k, num_heads=H))


def test_key_heads_are_shared(rng):
    state, x = attention_state(rng, kv_heads=1), rng.normal(size=(B, LQ, M))
    full = dict(state)
    for name in ("k_proj.weight", "k_proj.bias", "v_proj.weight", "v_proj.bias"):
        full[name] = np.concatenate([state[name]] * H)
    shared = reference.multi_head_attention(state, x, num_heads=H, num_kv_heads=1)
    np.testing.assert_allclose(shared, reference.multi_head_attention(full, x, num_heads=H), *EXACT)


@pytest.mark.parametrize("norm_first", [False, True])
def test_masks_of_the_encoder_layer(rng, norm_first):
    state, x = layer_state(rng, "self_attn."), rng.normal(size=(B, LQ, M))
    options = {"nhead": H, "norm_first": norm_first, "return_weights": True}
    for given, allowed in (
        ({"is_causal": True}, np.tri(LQ, dtype=bool)),
        ({"valid_lens": [2, 4]}, np.arange(LQ) < np.array([2, 4])[:, None, None, None]),
        ({"attn_mask": np.eye(LQ, dtype=bool)}, np.eye(LQ, dtype=bool)),
    ):
        out, w = reference.transformer_encoder_layer(state, x, **given, **options)
        assert ((w > 0) == allowed).all()
        plain = reference.transformer_encoder_layer(state, x, nhead=H, norm_first=norm_first)
        assert np.abs(out - plain).max() > 1e-3
    filled = reference.transformer_encoder_layer(state, x, valid_lens=[0, 4], masked_value=-1e9, **options)[1]
    np.testing.assert_allclose(filled[0], 1 / LQ, *EXACT)


@pytest.mark.parametrize("norm_first", [False, True])
def test_masks_of_the_decoder_layer(rng, norm_first):
    state = layer_state(rng, "self_attn.", "multihead_attn.")
    tgt, memory = rng.normal(size=(B, LQ, M)), rng.normal(size=(B, LK, M))
    mask, memory_mask = np.eye(LQ, dtype=bool), rng.random((LQ, LK)) < 0.6
    options = {"nhead": H, "norm_first": norm_first, "return_weights": True}
    _, own, cross = reference.transformer_decoder_layer(
        state, tgt, memory, attn_mask=mask, memory_attn_mask=memory_mask, **options
    )
    assert ((own > 0) == mask).all()
    assert ((cross > 0) == memory_mask).all()
    _, own, cross = reference.transformer_decoder_layer(
        state, tgt, memory, valid_lens=[2, 4], is_causal=True, memory_valid_lens=[3, 6], **options
    )
    allowed = np.tri(LQ, dtype=bool) & (np.arange(LQ) < np.array([2, 4])[:, None, None, None])
    assert ((own > 0) == allowed).all()
    assert (np.count_nonzero(cross, axis=-1) == np.array([3, 6])[:, None, None]).all()


def test_activation_and_eps(rng):
    state, x = layer_state(rng, "self_attn."), rng.normal(size=(B, LQ, M))
    hidden = reference.linear(x, state["linear1.weight"], state["linear1.bias"])
    expected = reference.linear(reference.gelu(hidden), state["linear2.weight"], state["linear2.bias"])
    np.testing.assert_allclose(reference.position_wise_ffn(state, x, "gelu"), expected, *EXACT)
    results = [
        reference.transformer_encoder_layer(state, x, nhead=H, **options)
        for options in ({}, {"activation": "gelu"}, {"layer_norm_eps": 0.5}, {"norm_first": True})
    ]
    for i, j in ((0, 1), (0, 2), (0, 3)):
        assert np.abs(results[i] - results[j]).max() > 1e-3
    np.testing.assert_allclose(
        reference.add_norm({}, x, x, eps=0.25), reference.layer_norm(2 * x, eps=0.25), *EXACT
    )
