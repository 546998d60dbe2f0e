"""Gradients of models of all types beside Hugging Face's, with the losses that heads are trained with."""

from __future__ import annotations

import numpy as np
import pytest

import qkv
from models.test_architectures import BOTH_SIDES, CAUSAL, HEADS, IDS, IMAGES, PIXELS, RIGHT, TARGETS
from models.tiny_models import TINY, hugging_face
from qkv import models

torch = pytest.importorskip("torch")
pytest.importorskip("transformers", minversion="5")
pytest.importorskip("safetensors")

BOUND = 1e-3  # of a parameter's largest gradient, or a hundredth of the model's
CLASSES = [(kind, next(iter(TINY[kind][1])), name) for kind in HEADS for name in HEADS[kind]]


def both_losses(kind, name, theirs, ours):
    """Return the loss of a head of both models, or a product with anything where there is no head."""
    if "logits" not in theirs:
        y, x = theirs.last_hidden_state, ours.last_hidden_state
        if kind not in (*BOTH_SIDES, *IMAGES):  # padded rows are theirs to choose
            y, x = y[torch.tensor(RIGHT)], x[RIGHT]
        return torch.sin(y).sum(), qkv.sin(x).sum()
    y, x = theirs.logits, getattr(ours, "logits", ours)
    if name == "ElectraForPreTraining":
        y, x = y[torch.tensor(RIGHT)], x[RIGHT]
        return torch.sigmoid(y).sum(), qkv.sigmoid(x).sum()
    labels = np.random.default_rng(3).integers(0, y.shape[-1], y.shape[:-1])
    if y.ndim == 3:
        labels[:, ::3] = -100
        if kind not in BOTH_SIDES:
            labels[~RIGHT] = -100
    if kind in CAUSAL:
        y, x, labels = y[:, :-1], x[:, :-1], labels[:, 1:]
    expected = torch.nn.functional.cross_entropy(y.reshape(-1, y.shape[-1]), torch.tensor(labels).reshape(-1))
    return expected, qkv.losses.cross_entropy(x, labels)


@pytest.mark.parametrize(("kind", "variant", "name"), CLASSES)
def test_gradients_of_every_parameter(tmp_path, kind, variant, name):
    model = hugging_face(kind, variant, name, tmp_path / "values")
    loaded = models.from_pretrained(tmp_path / "values")
    if kind in IMAGES:
        theirs, ours = model(torch.tensor(PIXELS)), loaded(PIXELS)
    else:
        arguments = [IDS, TARGETS] if kind in BOTH_SIDES and not name.endswith("T5EncoderModel") else [IDS]
        mask = RIGHT.astype(np.int64)
        theirs = model(torch.tensor(IDS), attention_mask=torch.tensor(mask),
                       **({"decoder_input_ids": torch.tensor(TARGETS)} if len(arguments) > 1 else {}))  # fmt: skip
        ours = loaded(*arguments, attention_mask=mask)
    expected, loss = both_losses(kind, name, theirs, ours)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    expected.backward()
    loss.backward()
    # Their gradients take the names and shapes of qkv's parameters as values do: by a file.
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.zeros(()) if parameter.grad is None else parameter.grad)
    model.save_pretrained(tmp_path / "gradients")
    gradients = models.from_pretrained(tmp_path / "gradients").state_dict()
    added = {} if kind == "bert" else {
        own: piece.added for parts in loaded._stored().places.values() for own, piece in parts
    }  # fmt: skip
    largest = max(np.abs(np.asarray(p.grad)).max() for p in loaded.parameters() if p.grad is not None)
    trained = [n for n, p in loaded.named_parameters() if p.requires_grad]
    assert sum(loaded.state_dict()[n].size for n in trained) == sum(
        p.numel() for p in model.parameters() if p.requires_grad
    )
    for key, parameter in loaded.named_parameters():
        if not parameter.requires_grad:
            continue
        g = gradients[key].numpy() - added.get(key, 0.0)
        own = np.zeros(g.shape) if parameter.grad is None else parameter.grad.numpy()
        assert np.abs(own - g).max() <= BOUND * max(np.abs(g).max(), largest / 100), key
