"""Masks of transformers that are told by positions: what they say, and that no array is made without need."""

from __future__ import annotations

import pytest

from pytorch.model_cases import CASES, built

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", minversion="5")

from transformers import masking_utils  # noqa: E402

from qkv import pytorch  # noqa: E402
from qkv.pytorch import position_masks  # noqa: E402
from qkv.pytorch import transformers as bridge  # noqa: E402

FUNCTIONS = {
    "causal": masking_utils.causal_mask_function,
    "both ways": masking_utils.bidirectional_mask_function,
    "window": masking_utils.sliding_window_causal_mask_function(3),
    "window both ways": masking_utils.sliding_window_bidirectional_mask_function(2),
    "chunks": masking_utils.chunked_causal_mask_function(3, torch.zeros(2, dtype=torch.long)),
    "own": masking_utils.or_masks(masking_utils.causal_mask_function, lambda b, h, q, k: k == 5),
}
PADDING = {
    "none": None,
    "left": torch.arange(7) >= torch.tensor([[3], [0]]),
    "right": torch.arange(7) < torch.tensor([[7], [4]]),
    "inside": torch.tensor([[1, 0, 1, 1, 1, 0, 1], [1] * 7]) == 1,
    "shorter": torch.ones(2, 5, dtype=torch.bool),
}


def masks(function, padding, queries=5, keys=7, q_offset=0, kv_offset=0, **options):
    given = (2, queries, keys, q_offset, kv_offset, FUNCTIONS[function], PADDING[padding])
    return bridge.position_mask(*given, **options), masking_utils.sdpa_mask(
        *given, allow_is_causal_skip=False
    )


@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(("q_offset", "kv_offset"), [(0, 0), (2, 0), (4, 2), (torch.tensor(2), 0)])
def test_the_same_as_that_of_sdpa(function, padding, q_offset, kv_offset):
    found, expected = masks(function, padding, q_offset=q_offset, kv_offset=kv_offset)
    assert isinstance(found, position_masks.PositionMask) == (function not in ("chunks", "own"))
    assert (found.shape, found.dtype) == (expected.shape, torch.bool)
    assert torch.equal(found & True, expected)
    # As options of attention: the same output for the same mask.
    generator = torch.Generator().manual_seed(1)
    q, k = (torch.randn(2, 3, length, 5, generator=generator) for length in (5, 7))
    module = torch.nn.Module()
    positions = masks(function, padding, q_offset=q_offset, kv_offset=kv_offset)[0]
    torch.testing.assert_close(
        bridge.attention_forward(module, q, k, k, positions)[0],
        bridge.attention_forward(module, q, k, k, expected)[0],
    )


def test_none_is_for_masks_that_exclude_nothing_on_either_side():
    assert masks("both ways", "none", allow_is_bidirectional_skip=True)[0] is None
    assert masks("both ways", "none")[0] is not None
    assert masks("both ways", "left", allow_is_bidirectional_skip=True)[0] is not None
    assert masks("causal", "none", allow_is_causal_skip=True)[0] is not None


def test_right_padding_becomes_lengths():
    assert masks("causal", "right")[0].options["valid_lens"].tolist() == [7, 4]
    assert masks("causal", "left")[0].options["attn_mask"].shape == (2, 1, 1, 7)


def test_a_change_in_place_holds():
    mask, _ = masks("causal", "none", queries=7)
    mask[:, :, :, 0] = False
    q = torch.randn(2, 3, 7, 5)
    _, weights = bridge.attention_forward(torch.nn.Module(), q, q, q, mask, output_attentions=True)
    assert float(weights[..., 0].abs().max()) == 0.0


def test_a_mask_that_is_longer_than_the_keys_is_cut():
    mask, expected = masks("causal", "left", q_offset=2)
    q, k = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 6, 4)
    torch.testing.assert_close(
        bridge.attention_forward(torch.nn.Module(), q, k, k, mask)[0],
        bridge.attention_forward(torch.nn.Module(), q, k, k, expected[..., :6])[0],
    )


@pytest.mark.parametrize(
    "name", ["BertModel", "MistralForCausalLM", "ModernBertModel", "BartForConditionalGeneration"]
)
def test_no_array_of_queries_and_keys_is_made(name, monkeypatch):
    pytorch.register()
    _, model = built(next(case for case in CASES if case.name == name))
    monkeypatch.setattr(position_masks, "array_of", None)
    ids = torch.randint(3, 67, (2, 13))
    for padding in (slice(0, 4), slice(9, None)):
        real = torch.ones(2, 13, dtype=torch.long)
        real[0, padding] = 0
        model(input_ids=ids, attention_mask=real)[0].sum().backward()
    if model.can_generate():
        model.generate(ids, attention_mask=real.flip(1), max_new_tokens=4, pad_token_id=0)
