"""Jobs that are killed at random moments and continue on other numbers of ranks give what undisturbed ones give.

`python -m ranks.kills` makes as many kills as wanted.
"""

from __future__ import annotations

import pytest

from ranks import kills
from ranks.mpi import needs_mpi

pytestmark = needs_mpi


@pytest.mark.slow
def test_a_training_that_is_killed(tmp_path):
    assert len(kills.training(tmp_path, kills=3, seed=1)) == 3


@pytest.mark.parametrize("ending", ["npy", pytest.param("jsonl", marks=pytest.mark.slow)])
def test_an_embedding_that_is_killed(tmp_path, ending):
    pytest.importorskip("safetensors")
    pytest.importorskip("tokenizers")
    assert len(kills.embedding(tmp_path, kills=2, seed=2, ending=ending)) == 2
