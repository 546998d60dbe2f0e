"""The reference attention against the golden arrays of all five documents."""

from __future__ import annotations

import numpy as np
import pytest

from qkv import reference

attend = reference.scaled_dot_product_attention


def test_soft_look_up(golden):
    g = golden("D0-01")
    query, values = g["query"][None], g["values"][:, None]
    out, w = attend(query, g["keys"], values, scale=2.0, return_weights=True)
    g.close("soft_weights", w[0])
    g.close("soft_result", out[0, 0])
    without = attend(query, g["keys"], values, np.arange(6) != 2, scale=2.0)
    g.close("soft_result_without_key_2", without[0, 0])
    g.close("mean_pooling_result", attend(query, g["keys"], values, scale=0.0)[0, 0])


def test_gaussian_attention_is_dot_product_attention_for_equal_norms(golden):
    g = golden("D0-11")
    bias = -0.5 * (g["k"] ** 2).sum(-1)
    g.close("weights", attend(g["q"], g["k"], g["k"], bias, scale=1.0, return_weights=True)[1])
    g.close("plain_dot_weights", attend(g["q"], g["k"], g["k"], scale=1.0, return_weights=True)[1])
    u = g["unit_keys"]
    plain = attend(g["q"], u, u, scale=1.0, return_weights=True)[1]
    g.close("weights_unit_keys", plain)
    g.close("weights_unit_keys", reference.kernel_attention(g["q"], u, u, return_weights=True)[1])


def test_scaled_dot_product_attention(golden):
    g = golden("D0-18")
    inputs = g["queries"], g["keys"], g["values"]
    out, w = attend(*inputs, valid_lens=g["lens"], masked_value=-1e6, return_weights=True)
    trained, w_trained = attend(
        *inputs, None, 0.5, valid_lens=g["lens"], dropout_keep=g["dropout_keep"], return_weights=True
    )
    g.close_all({"attention_weights": w, "out": out, "out_train": trained})
    np.testing.assert_allclose(w_trained, w)  # the weights are those before dropout


def test_additive_attention(golden):
    g = golden("D0-20")
    q, k = g["queries"] @ g["W_q"].T, g["keys"] @ g["W_k"].T
    out, w = reference.additive_attention(
        q, k, g["values"], g["w_v"][0], valid_lens=g["lens"], return_weights=True
    )
    g.close_all({"attention_weights": w, "out": out})
    for b in range(2):
        one = reference.additive_attention(q[b], k[b], g["values"][b], g["w_v"][0], valid_lens=g["lens"][b])
        np.testing.assert_array_equal(one, out[b])


def test_context_vectors_of_words(golden):
    g = golden("D1-03")
    e = g["embeddings"]
    out, w = attend(e, e, e, scale=1.0, return_weights=True)
    g.close("all_weights", w)
    g.close("all_contexts", out)
    g.close("weights", w[1])
    g.close("context", out[1])
    g.close("context_printed", out[1])


@pytest.mark.parametrize(
    ("group", "prefix", "inputs"), [("D1-09", "", "in"), ("D1-09", "hello.", "in"), ("D1-11", "", "out")]
)
def test_self_attention(golden, group, prefix, inputs):
    g = golden(group)
    W = [g[f"W_{n}"] if inputs == "in" else g[f"W_{n}"].T for n in ("query", "key", "value")]
    q, k, v = (g[prefix + "inputs"] @ w for w in W)
    out, w = attend(q, k, v, return_weights=True)
    g.close(prefix + "weights", w)
    g.close(prefix + "context", out)
    if not prefix:
        g.close("float32_run", out)


def test_a_token_depends_on_all_or_on_earlier_tokens(golden):
    g = golden("D1-02")
    for key, causal in (("jacobian_block_norms", False), ("causal_jacobian_block_norms", True)):

        def f(x, causal=causal):
            return attend(x @ g["W_q"], x @ g["W_k"], x @ g["W_v"], is_causal=causal)

        n, d, h = *g["x"].shape, 1e-6
        jacobian = np.zeros((n, 3, n, d))
        for j, c in np.ndindex(n, d):
            e = np.zeros((n, d))
            e[j, c] = h
            jacobian[:, :, j, c] = (f(g["x"] + e) - f(g["x"] - e)) / (2 * h)
        g.close(key, np.sqrt((jacobian**2).sum((1, 3))), tolerance="float64 numeric slope")


def test_masks_of_a_batch_of_heads(golden):
    g = golden("D2-12")
    for name, width in (("sqrt_d_k", 2), ("sqrt_model_dim", 8)):
        out, w = attend(
            g["Q"], g["K"], g["V"], ~g["mask"], scale=width**-0.5, masked_value=-1e9, return_weights=True
        )
        g.close(f"{name}.prob", w)
        g.close(f"{name}.context", out)


def test_attention_without_scale(golden):
    g = golden("D3-01")
    x = g["input"]
    out, w = attend(x @ g["Q"], x @ g["K"], x @ g["V"], scale=1.0, return_weights=True)
    g.close_all({"score": w, "out": out})
    c = golden("D3-04")
    out, w = attend(c["x"] @ g["Q"], c["y"] @ g["K"], c["y"] @ g["V"], scale=1.0, return_weights=True)
    c.close_all({"score": w, "out": out})


def test_sentences(golden):
    g = golden("D3-08")
    g.close("weights", attend(g["E"], g["E"], g["E"], return_weights=True)[1])
    g = golden("D3-21")
    P = reference.sinusoidal_positions(3, 8)
    for name, order in (("bug_me_not", [0, 1, 2]), ("bug_not_me", [0, 2, 1])):
        for prefix, x in (("", g["E"][order]), ("with_positions.", g["E"][order] + P)):
            g.close(prefix + name, attend(x @ g["W_q"], x @ g["W_k"], x @ g["W_v"]))
    g = golden("D3-30")
    zeros = np.zeros((5, 6))
    g.close("attention_out", attend(zeros, zeros, g["E"] @ g["W_v"]))


def test_attention_of_document_four(golden):
    g = golden("D4-01")
    inputs = g["query"], g["key"], g["value"]
    mask, keep = g["mask"] != 0, g["dropout_keep"]
    fill = {"masked_value": -1e9, "return_weights": True}
    plain, plain_w = attend(*inputs, **fill)
    masked, masked_w = attend(*inputs, mask, **fill)
    dropped, dropped_w = attend(*inputs, mask, 0.1, dropout_keep=keep, **fill)
    g.close_all(
        {
            "plain.out": plain,
            "plain.p_attn": plain_w,
            "masked.out": masked,
            "masked.p_attn": masked_w,
            "dropout.out": dropped,
            "dropout.p_attn": dropped_w * keep / 0.9,
        }
    )
    skipped = attend(*inputs, mask)
    assert (skipped[0, :, 0] == 0).all()
    np.testing.assert_allclose(skipped[1], masked[1])
