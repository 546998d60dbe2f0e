"""Parts that DeBERTa alone has: matrices for distances, and a convolution after the first layer."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sweep import sweep

import qkv
from models.tiny_models import DEBERTA
from qkv import models
from qkv.models.families.deberta_parts import Convolution

ENTRIES = {
    "model_type": "deberta-v2",
    **DEBERTA,
    "share_att_key": False,
    "conv_kernel_size": 3,
    "conv_groups": 2,
}
IDS = np.array([[7, 8, 9, 10, 11], [12, 13, 0, 0, 0]])
MASK = IDS > 0


def test_convolutions_by_their_sum():
    qkv.manual_seed(3)
    rng = np.random.default_rng(4)
    layer = Convolution(6, 3, 2)
    x = rng.standard_normal((2, 5, 6)).astype(np.float32)
    weight, expected = layer.weight.numpy(), np.zeros((2, 5, 6), np.float32)
    wide = np.pad(x, ((0, 0), (1, 1), (0, 0)))
    for out in range(6):
        begin = 3 * (out // 3)
        for t in range(3):
            expected[..., out] += wide[:, t : t + 5, begin : begin + 3] @ weight[out, :, t]
    np.testing.assert_allclose(layer(qkv.tensor(x)), expected, atol=1e-6)
    qkv.testing.check_gradient(lambda a: layer.to("float64")(a), rng.standard_normal((2, 5, 6)))


def test_all_parts_learn_and_padding_is_left_out():
    qkv.manual_seed(5)
    model = models.from_config(ENTRIES)
    names = {name for name, _ in model.named_parameters() if "conv" in name or "distances" in name}
    assert len(names) == 4 + 2 * 2 * 3
    (model(IDS, attention_mask=MASK).last_hidden_state ** 2).sum().backward()
    assert all(np.abs(p.grad.numpy()).max() > 0 for name, p in model.named_parameters() if name in names)
    model.eval()
    whole = model(IDS, attention_mask=MASK).last_hidden_state.numpy()
    skipped = model(IDS, attention_mask=MASK, skip_padding=True).last_hidden_state.numpy()
    np.testing.assert_allclose(skipped[MASK], whole[MASK], atol=1e-5)
    np.testing.assert_allclose(model(IDS[1:, :2]).last_hidden_state[0], whole[1, :2], atol=1e-5)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert (other(IDS, attention_mask=MASK).last_hidden_state.numpy() == whole).all()


@sweep("change, text", [
    ({"conv_kernel_size": 4}, "conv_kernel_size must be odd"), ({"conv_groups": 5}, "conv_groups divide hidden_size"),
    ({"conv_act": "mish"}, "conv_act must be one of gelu"), ({"conv_groups": "x"}, "conv_groups divide hidden_size"),
])  # fmt: skip
def test_convolutions_that_are_refused(change, text):
    with pytest.raises(ValueError, match=f"from_config: .*{text}"):
        models.from_config({**ENTRIES, **change})
