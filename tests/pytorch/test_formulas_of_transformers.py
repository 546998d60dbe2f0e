"""The mask functions of transformers, as formulas."""

from __future__ import annotations

import numpy as np
import pytest
from sweep import sweep

torch = pytest.importorskip("torch")
masking = pytest.importorskip("transformers.masking_utils")

from qkv._formulas import dense  # noqa: E402

from .flex_cases import LK, B, H  # noqa: E402

REAL = torch.ones(B, LK, dtype=torch.bool)
REAL[0, 12:] = False
REAL[1, :3] = False
PACKED = (torch.arange(LK) // 6).repeat(B, 1)
POSITIONS = torch.arange(LK).repeat(B, 1) - 6 * PACKED
LONGER = torch.ones(B, 40, dtype=torch.bool)
causal = masking.causal_mask_function
TRANSFORMERS = {
    "causal": causal,
    "bidirectional": masking.bidirectional_mask_function,
    "sliding window": masking.sliding_window_causal_mask_function(4),
    "bidirectional window": masking.sliding_window_bidirectional_mask_function(4),
    "chunked": masking.chunked_causal_mask_function(5, torch.tensor([0, 3])),
    "padding": masking.padding_mask_function(REAL),
    "packed": masking.and_masks(masking.packed_sequence_mask_function(PACKED), causal),
    "either": masking.or_masks(causal, masking.padding_mask_function(REAL)),
    "offsets": masking.add_offsets_to_mask_function(
        masking.and_masks(causal, masking.padding_mask_function(LONGER)), 7, 2
    ),
    "blocks": masking.or_masks(masking.blockwise_overlay(torch.where(PACKED == 1, -1, PACKED)), causal),
    "remapped": masking.remap_positions_for_packed_sequence(causal, POSITIONS),
}  # fmt: skip


@sweep("name", TRANSFORMERS)
def test_mask_functions_of_transformers_can_be_traced(name):
    mask, shape = TRANSFORMERS[name], (B, H, LK, LK)
    b, h, q, k = torch.meshgrid(*map(torch.arange, shape), indexing="ij")
    found = dense("test", "mask_mod", mask, shape, False)
    np.testing.assert_array_equal(np.broadcast_to(found, shape), mask(b, h, q, k).numpy())
