"""The reference layers against the golden arrays."""

from __future__ import annotations

import numpy as np
import pytest

from qkv import reference

D2L = {"W_q": "q_proj.weight", "W_k": "k_proj.weight", "W_v": "v_proj.weight", "W_o": "out_proj.weight"}
SHORT = {f"W{n}": f"{n}_proj.weight" for n in "qkv"} | {"Wo": "out_proj.weight"}
SHORT |= {old.replace("W", "b"): new.replace("weight", "bias") for old, new in SHORT.items()}


def renamed(params, table):
    return {new: params[old] for old, new in table.items() if old in params}


def flat_heads(weights):
    """(B, H, Lq, Lk) to the documents' (B * H, Lq, Lk)."""
    return weights.reshape(-1, *weights.shape[2:])


@pytest.mark.parametrize(("group", "num_keys"), [("D0-24", 6), ("D0-26", 4)])
def test_multi_head_attention_of_document_zero(golden, group, num_keys):
    g = golden(group)
    state = renamed(g.params(), D2L)
    x, y = np.ones((2, 4, 100)), np.ones((2, num_keys, 100))
    out, w = reference.multi_head_attention(state, x, y, y, g["lens"], num_heads=5, return_weights=True)
    keep = g["dropout_keep"].reshape(w.shape)
    trained = reference.multi_head_attention(
        state, x, y, y, g["lens"], num_heads=5, dropout_p=0.5, dropout_keep=keep
    )
    r_out, r_w = reference.multi_head_attention(
        state, g["r.X"], g.get("r.Y"), None, g["lens"], num_heads=5, return_weights=True
    )
    g.close_all(
        {
            "out_eval": out[:, :1],
            "weights_eval": flat_heads(w),
            "out_train": trained,
            "r.out": r_out,
            "r.weights": flat_heads(r_w),
        }
    )


def test_small_multi_head_attention(golden):
    g = golden("X-MHA")
    state = renamed(g.params(), D2L)
    results = {}
    for case in ("none", "lens1d", "lens2d"):
        out, w = reference.multi_head_attention(
            state, g["queries"], g["keys"], valid_lens=g.get(case), num_heads=5, return_weights=True
        )
        results |= {f"out.{case}": out, f"weights.{case}": flat_heads(w)}
    g.close_all(results)


def test_self_attention_ignores_order_until_positions_are_added(golden):
    g = golden("D0-27")
    state, x, order = renamed(golden("X-MHA").params(), D2L), g["x"], g["perm"]

    def f(x):
        return reference.multi_head_attention(state, x, num_heads=5)

    P = reference.sinusoidal_positions(6, 20)
    difference = np.abs(f(x[:, order] + P) - f(x + P)[:, order]).max()
    g.close_all({"out": f(x), "out_permuted": f(x[:, order]), "max_difference_with_positions": difference})


@pytest.mark.parametrize(("group", "heads"), [("D1-16", 1), ("D1-17", 2)])
def test_causal_attention_of_document_one(golden, group, heads):
    g = golden(group)
    names = {f"W_{n}.weight": f"{n[0]}_proj.weight" for n in ("query", "key", "value")}
    identity = {"out_proj.weight": np.eye(2)}  # one head has no output projection
    state = identity | renamed(g.params(), names | {k: k for k in ("out_proj.weight", "out_proj.bias")})
    out, w = reference.multi_head_attention(
        state, g["batch"], num_heads=heads, is_causal=True, return_weights=True
    )
    first = reference.multi_head_attention(state, g["batch"][:, :4], num_heads=heads, is_causal=True)
    g.close_all({"out": out, "weights": w, "float32_run": out, "out_first_4_tokens": first})


def test_stacked_projections_load(golden):
    g = golden("D1-18")
    stack = {
        f"in_proj_{k}": np.concatenate([g[f"W_{n}.{k}"] for n in ("query", "key", "value")])
        for k in ("weight", "bias")
    }
    state = stack | {k: g[k] for k in ("out_proj.weight", "out_proj.bias")}
    out, w = reference.multi_head_attention(state, g["x"], num_heads=2, is_causal=True, return_weights=True)
    g.close("out", out)
    g.close("weights", w)


def test_multi_headed_attention_of_document_four(golden):
    g = golden("D4-03")
    state = {new: g[old[0]] for old, new in SHORT.items()}
    fill = {"num_heads": 4, "masked_value": -1e9, "return_weights": True}
    out, w = reference.multi_head_attention(state, g["x"], attn_mask=g["mask"] != 0, **fill)
    cross, cross_w = reference.multi_head_attention(state, g["x"], g["y"], **fill)
    g.close_all({"self.out": out, "self.attn": w, "cross.out": cross, "cross.attn": cross_w})


def test_self_attention_of_document_four(golden):
    g = golden("D4-06")
    state = renamed(g.params(), SHORT)
    mask = (g["key_mask"] != 0)[:, None, None]
    fill = {"num_heads": 4, "masked_value": -1e10}
    out, w = reference.multi_head_attention(state, g["x"], attn_mask=mask, return_weights=True, **fill)
    trained = reference.multi_head_attention(
        state, g["x"], attn_mask=mask, dropout_p=0.1, dropout_keep=g["dropout_keep"], **fill
    )
    blocked = reference.multi_head_attention(state, g["x"], attn_mask=np.zeros((5, 5), bool), **fill)
    g.close_all({"out": out, "attn": w, "out_train": trained, "out_fully_masked": blocked})


def test_feed_forward_and_norms(golden):
    g = golden("D3-17")
    names = {"W1": "linear1.weight", "b1": "linear1.bias", "W2": "linear2.weight", "b2": "linear2.bias"}
    g.close_all({"out": reference.position_wise_ffn(renamed(g.params(), names), g["x"])})
    g = golden("D3-18")
    out = reference.add_norm({"norm.weight": g["g"], "norm.bias": g["b"]}, g["x"], g["sublayer"])
    plain = reference.layer_norm(g["x"], g["g"], g["b"])
    fine = reference.layer_norm(g["x"], g["g"], g["b"], 1e-12)
    g.close_all({"out": out, "layernorm_of_x": plain, "eps_1e-12": fine})


def torch_names(params, attentions):
    """Rename one layer's golden parameters as PyTorch's Transformer layers do."""
    state = {}
    for theirs, ours in attentions.items():
        state |= {f"{ours}.{new}": params[f"{theirs}.{old}"] for old, new in SHORT.items()}
    for i in (1, 2):
        state |= {f"linear{i}.weight": params[f"ff.W{i}"], f"linear{i}.bias": params[f"ff.b{i}"]}
    for i in range(1, len(attentions) + 2):
        state |= {f"norm{i}.weight": params[f"ln{i}.g"], f"norm{i}.bias": params[f"ln{i}.b"]}
    return state


@pytest.mark.parametrize("order", ["post", "pre"])
def test_transformer(golden, order):
    g, first = golden("D3-15"), order == "pre"
    options = {"nhead": 4, "norm_first": first, "return_weights": True}
    src_lens, tgt_lens = ((g[k] != 0).sum(-1) for k in ("src", "tgt_in"))

    def embed(table, ids):
        return g[table][ids] * np.sqrt(32) + reference.sinusoidal_positions(ids.shape[1], 32)

    x = embed("src_emb", g["src"])
    for i in range(2):
        state = torch_names(g.params(f"enc.{i}."), {"self": "self_attn"})
        x, w = reference.transformer_encoder_layer(state, x, valid_lens=src_lens, **options)
        g.close(f"{order}.attention.enc.{i}.self", w)
    memory = reference.layer_norm(x, g["enc.norm.g"], g["enc.norm.b"]) if first else x
    g.close(f"{order}.memory", memory)

    y = embed("tgt_emb", g["tgt_in"])
    for i in range(2):
        state = torch_names(g.params(f"dec.{i}."), {"self": "self_attn", "cross": "multihead_attn"})
        y, own, cross = reference.transformer_decoder_layer(
            state, y, memory, valid_lens=tgt_lens, is_causal=True, memory_valid_lens=src_lens, **options
        )
        g.close(f"{order}.attention.dec.{i}.self", own)
        g.close(f"{order}.attention.dec.{i}.cross", cross)
    y = reference.layer_norm(y, g["dec.norm.g"], g["dec.norm.b"]) if first else y
    logits = reference.linear(y, g["out.W"], g["out.b"])
    g.close(f"{order}.logits", logits)
    loss = reference.cross_entropy(logits, g["tgt_out"], ignore_index=0, label_smoothing=0.1)
    g.close(f"{order}.loss", loss)


def test_bert_is_a_stack_of_encoder_layers(golden):
    g = golden("D3-23")
    ids, types = g["input_ids"], g["token_type_ids"]
    x = g["emb.word"][ids] + g["emb.position"][: ids.shape[1]] + g["emb.type"][types]
    x = reference.layer_norm(x, g["emb.ln.g"], g["emb.ln.b"], 1e-12)
    g.close("hidden.0", x)
    for i in range(2):
        x, w = reference.transformer_encoder_layer(
            torch_names(g.params(f"layer.{i}."), {"att": "self_attn"}),
            x,
            nhead=4,
            activation="gelu",
            layer_norm_eps=1e-12,
            valid_lens=g["attention_mask"].sum(-1),
            return_weights=True,
        )
        g.close(f"hidden.{i + 1}", x)
        g.close(f"attention.{i}", w)
    pooled = reference.tanh(reference.linear(x[:, 0], g["pooler.W"], g["pooler.b"]))
    g.close("pooled", pooled)
    next_sentence = reference.linear(pooled, g["nsp.W"], g["nsp.b"])
    g.close("nsp_logits", next_sentence)
    g.close("nsp_loss", reference.cross_entropy(next_sentence, g["nsp_labels"]))


def test_norms_over_several_axes():
    x = np.random.default_rng(0).normal(2, 3, size=(5, 3, 7))
    y = reference.layer_norm(x, normalized_shape=(3, 7), eps=0.0)
    np.testing.assert_allclose(y.mean((1, 2)), 0, atol=1e-12)
    np.testing.assert_allclose(y.std((1, 2)), 1)
    r = reference.rms_norm(x, normalized_shape=(3, 7), eps=0.0)
    np.testing.assert_allclose((r**2).mean((1, 2)), 1)
    np.testing.assert_allclose(
        reference.rms_norm(x, eps=0.5), x / np.sqrt((x**2).mean(-1, keepdims=True) + 0.5)
    )
    with pytest.raises(ValueError, match=r"layer_norm: x must end in \(7, 3\) .* got x \(5, 3, 7\)"):
        reference.layer_norm(x, normalized_shape=(7, 3))


def test_rotary_heads_depend_on_distances_alone():
    rng = np.random.default_rng(1)
    state = {f"{n}_proj.weight": rng.normal(size=(12, 12)) for n in ("q", "k", "v", "out")}
    x = np.tile(rng.normal(size=12), (1, 11, 1))
    options = {"num_heads": 3, "window": (2, 2), "return_weights": True}
    _, w = reference.multi_head_attention(state, x, rotary_base=100.0, **options)
    np.testing.assert_allclose(w[0, :, 4, 2:7], w[0, :, 8, 6:11])
    assert np.ptp(w[0, :, 4, 2:7], axis=-1).min() > 1e-3
    _, plain = reference.multi_head_attention(state, x, **options)
    np.testing.assert_allclose(plain[0, :, 4, 2:7], 0.2)


def test_an_unknown_activation_is_refused():
    with pytest.raises(ValueError, match=r"activation must be 'relu' or 'gelu' .* got 'tanh'"):
        reference.position_wise_ffn({}, [[1.0]], "tanh")
