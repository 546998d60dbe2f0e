"""Recorded values of a BERT of random weights beside those that transformers gives and its hooks see."""

from __future__ import annotations

import numpy as np
import pytest

import qkv
from qkv import look

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

B, L, H, D, LAYERS = 2, 11, 3, 4, 2


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=31,
        hidden_size=H * D,
        num_hidden_layers=LAYERS,
        num_attention_heads=H,
        intermediate_size=19,
        max_position_embeddings=13,
        attn_implementation="eager",
    )
    theirs = transformers.BertModel(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(0, 0.3)
    folder = tmp_path_factory.mktemp("bert")
    theirs.save_pretrained(folder)
    return theirs, qkv.models.BertModel.from_pretrained(folder)


def test_everything_that_both_show(both):
    theirs, ours = both
    seen = {}
    for name, module in theirs.named_modules():
        module.register_forward_hook(
            lambda _, inputs, output, name=name: seen.update(
                {name: output[0] if isinstance(output, tuple) else output}
            )
        )
    ids = np.random.default_rng(0).integers(0, 31, (B, L))
    mask = np.arange(L) < np.array([[7], [11]])
    with torch.no_grad():
        expected = theirs(
            torch.from_numpy(ids),
            attention_mask=torch.from_numpy(mask.astype("int64")),
            output_attentions=True,
            output_hidden_states=True,
        )
    r = look.record(ours, ids, attention_mask=mask, keep=("weights", "output", "queries", "keys", "values"))

    def same(value, other, real=mask):
        np.testing.assert_allclose(value[real], other.numpy()[real], rtol=1e-5, atol=1e-5)

    same(r["embeddings.output"], expected.hidden_states[0])
    for i in range(LAYERS):
        path = f"encoder.layer.{i}"
        np.testing.assert_allclose(
            np.moveaxis(r[f"{path}.attention.self.weights"], 1, 2)[mask],
            np.moveaxis(expected.attentions[i].numpy(), 1, 2)[mask],
            atol=1e-5,
        )
        same(r[f"{path}.output"], expected.hidden_states[i + 1])
        for point, linear in (("queries", "query"), ("keys", "key"), ("values", "value")):
            joined = r[f"{path}.attention.self.{point}"].swapaxes(1, 2).reshape(B, L, H * D)
            same(joined, seen[f"{path}.attention.self.{linear}"])
    shared = [name for name in seen if f"{name}.output" in r and isinstance(seen[name], torch.Tensor)]
    assert len(shared) > 20
    for name in shared:
        value, other = r[f"{name}.output"], seen[name]
        if value.shape == (B, L, other.shape[-1]):
            same(value, other)


def test_heads_that_are_switched_off(both):
    theirs, ours = both
    ids = np.random.default_rng(1).integers(0, 31, (B, L))

    def off(_, inputs, output):
        heads = output[0].reshape(B, L, H, D).clone()
        heads[:, :, 1] = 0
        return (heads.reshape(B, L, H * D), *output[1:])

    handle = theirs.encoder.layer[1].attention.self.register_forward_hook(off)
    with torch.no_grad():
        expected = theirs(torch.from_numpy(ids)).last_hidden_state.numpy()
    handle.remove()
    with look.without_heads(ours, {1: [1]}):
        np.testing.assert_allclose(ours(ids).last_hidden_state, expected, rtol=1e-5, atol=1e-5)
