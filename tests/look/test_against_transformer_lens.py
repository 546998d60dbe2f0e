"""Recorded values of a GPT-2 of random weights beside those that TransformerLens records."""

from __future__ import annotations

import numpy as np
import pytest

import qkv
from qkv import look

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")
lens = pytest.importorskip("transformer_lens.model_bridge")

B, L, H, D, LAYERS, V = 2, 11, 3, 8, 2, 31
# What TransformerLens calls the values of a block: heads lie after the places there, but in scores and weights.
POINTS = {
    "attn.hook_q": ("self_attn.queries", True),
    "attn.hook_k": ("self_attn.keys", True),
    "attn.hook_v": ("self_attn.values", True),
    "attn.hook_pattern": ("self_attn.weights", False),
    "attn.hook_z": ("self_attn.heads", True),
    "hook_attn_out": ("self_attn.output", False),
    "hook_resid_pre": ("input", False),
    "hook_resid_post": ("output", False),
    "ln1.hook_out": ("norm1.output", False),
    "ln2.hook_out": ("norm2.output", False),
    "mlp.hook_pre": ("linear1.output", False),
    "mlp.hook_out": ("linear2.output", False),
}


def test_everything_that_both_record(tmp_path):
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=V, n_embd=H * D, n_layer=LAYERS, n_head=H, n_positions=13)
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3)
    model.save_pretrained(tmp_path)
    ours = qkv.models.from_pretrained(tmp_path)
    ids = np.random.default_rng(0).integers(0, V, (B, L))
    with torch.no_grad():
        logits, cache = lens.TransformerBridge.boot_transformers(
            str(tmp_path), hf_model=model, device="cpu"
        ).run_with_cache(torch.from_numpy(ids))
    r = look.record(ours, ids, keep="*")

    def same(value, other):
        np.testing.assert_allclose(value, other, rtol=1e-5, atol=1e-5 * np.abs(other).max())

    same(r.output, logits.numpy())
    causal = np.tril(np.ones((L, L), bool))
    for layer in range(LAYERS):
        theirs = f"blocks.{layer}"
        for point, (name, by_place) in POINTS.items():
            other = cache[f"{theirs}.{point}"].numpy()
            same(r[f"body.layers.{layer}.{name}"], np.swapaxes(other, 1, 2) if by_place else other)
        scores = cache[f"{theirs}.attn.hook_attn_scores"].numpy()  # -inf where a query may not attend
        same(r[f"body.layers.{layer}.self_attn.scores"][..., causal], scores[..., causal])
