"""The caches of a model's layers change together: a call that fails or is interrupted leaves them as they were."""

from __future__ import annotations

import contextlib
import threading

import numpy as np
import pytest
from helpers import close

import qkv
from qkv import models, nn

RNG = np.random.default_rng(71)
IDS = RNG.integers(0, 13, (2, 7))


class Stopping:
    """A part that stops some call once it has done its work."""

    error: type[BaseException] | None = None

    def forward(self, *arguments, **options):
        y = super().forward(*arguments, **options)
        if self.error is not None:
            raise self.error("stopped")
        return y


class StoppingLayer(Stopping, models.CausalLMLayer):
    pass


class StoppingLinear(Stopping, nn.Linear):
    pass


def model_with(part: str) -> tuple[models.CausalLM, Stopping]:
    qkv.manual_seed(3)
    model = models.CausalLM(13, 12, 2, 3)
    if part == "layer":
        stopping = StoppingLayer(12, 2)
        setattr(model.layers, "1", stopping)
    elif part == "projection":
        stopping = StoppingLinear(12, 12, bias=False)
        model.layers[2].self_attn.out_proj = stopping
    else:
        model.output = stopping = StoppingLinear(12, 13, bias=False)
    model.to("float64")
    return model, stopping


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("part", ["layer", "projection", "output"])
@pytest.mark.parametrize("recorded", [False, True])
def test_an_interrupted_call_leaves_all_layers_as_they_were(part, error, recorded):
    model, stopping = model_with(part)
    cache = [nn.KVCache() for _ in model.layers]
    with contextlib.nullcontext() if recorded else qkv.no_grad():
        model(IDS[:, :3], cache=cache)
        stopping.error = error
        with pytest.raises(error):
            model(IDS[:, 3:5], cache=cache)
        assert [len(layer) for layer in cache] == [3, 3, 3]
        stopping.error = None
        close(model(IDS[:, 3:], cache=cache), model(IDS).numpy()[:, 3:])
    assert [len(layer) for layer in cache] == [7, 7, 7]


def test_caches_of_unequal_lengths_are_refused():
    model, _ = model_with("output")
    cache = [nn.KVCache() for _ in model.layers]
    model(IDS[:, :3], cache=cache)
    cache[1].reset()
    with pytest.raises(ValueError, match=r"CausalLM: cache must hold KVCaches of one length .* got 3 and 0"):
        model(IDS[:, 3:], cache=cache)
    assert [len(layer) for layer in cache] == [3, 0, 3]


def test_a_second_thread_changes_nothing():
    model, _ = model_with("layer")
    cache = [nn.KVCache() for _ in model.layers]
    inside, go_on, errors = threading.Event(), threading.Event(), []

    class Waiting(models.CausalLMLayer):
        def forward(self, x, **options):
            y = super().forward(x, **options)
            inside.set()
            go_on.wait(60)
            return y

    setattr(model.layers, "1", Waiting(12, 2).to("float64"))
    first = threading.Thread(target=lambda: model(IDS[:, :3], cache=cache))
    first.start()
    assert inside.wait(60)
    try:
        model(IDS[:, :2], cache=cache)
    except RuntimeError as error:
        errors.append(str(error))
    go_on.set()
    first.join()
    assert "one thread at a time" in errors[0]
    assert [len(layer) for layer in cache] == [3, 3, 3]
