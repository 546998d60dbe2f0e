"""Decoding with functions of Python, against models that decode themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qkv
from qkv import _core, models, nn

V = 11


def causal() -> Any:
    qkv.manual_seed(4)
    model = models.CausalLM(V, 8, 2, 2)
    model.load_state_dict({k: 3 * v for k, v in model.state_dict().items()})
    return model.eval()


class Steps:
    """A prompt's continuation: what a model is called with, and where rows go."""

    def __init__(self, model: Any, prompts: np.ndarray) -> None:
        self.model, self.caches = model, [nn.KVCache() for _ in model.layers]
        with qkv.no_grad():
            model(prompts[:, :-1], cache=self.caches)
        self.first = prompts[:, -1]

    def step(self, tokens: np.ndarray) -> Any:
        return self.model(tokens[:, None], cache=self.caches)[:, 0]

    def reorder(self, indices: np.ndarray) -> None:
        for cache in self.caches:
            cache.reorder(indices)


@pytest.mark.parametrize(
    "options",
    [
        {"end_id": None},
        {"end_id": 3},
        {"method": "beam", "beam_size": 3, "end_id": 3, "length_penalty": 0.5},
        {"method": "sample", "top_k": 4, "temperature": 0.8},
    ],
)
def test_functions_decode_as_the_model_does(options):
    model, prompts = causal(), np.array([[1, 5, 2], [7, 7, 4]])
    qkv.manual_seed(9)
    expected = model.generate(prompts, max_len=6, **options)
    steps = Steps(model, prompts)
    qkv.manual_seed(9)
    assert _core.generate_steps(steps.step, steps.reorder, steps.first, max_len=6, **options) == expected


def test_several_tokens_may_end_a_sequence():
    scores = np.eye(V)[[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0]]  # one more each time
    found = _core.generate_steps(lambda t: scores[t], lambda _: None, [0, 5], end_id=[4, 7], max_len=9)
    assert [ids for [(ids, _, _)] in found] == [[1, 2, 3, 4], [6, 7]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first": [[0]]}, r"generate: first must be \(B,\); got first \(1, 1\)"),
        (
            {"step": lambda _: np.zeros(V)},
            r"generate: scores must be \(1, V\) because there are so many tokens; got scores \(11,\)",
        ),
        ({"end_id": [-1]}, "generate: end_id must be the number of a token, 0 or more; got -1"),
    ],
)
def test_rejections(options, message):
    given: dict[str, Any] = {"step": lambda t: np.zeros((len(t), V)), "reorder": lambda _: None, "first": [0]}
    with pytest.raises(ValueError, match=message):
        _core.generate_steps(**given | options)
