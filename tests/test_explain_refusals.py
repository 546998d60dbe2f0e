"""What `plot.explain` refuses in one line, a text whose page would be too large among it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from models.tiny_models import TINY
from test_explanations import IDS, X, made

from qkv import models, nn, plot


def refusals():
    llama, bert = made("llama")[0], made("bert")[0]
    vit = models.from_config({"model_type": "vit", **TINY["vit"][0]})
    attention = nn.SelfAttention(12, 7)
    yield lambda: plot.explain(llama, IDS, layer=3), "layer must be from 0 to 2, .* there are 3 layers; got 3"
    yield lambda: plot.explain(llama, IDS, head=4), "head must be from 0 to 3, .* there are 4 heads; got 4"
    yield lambda: plot.explain(llama, IDS, query=7), "query must be from 0 to 6, .* there are 7 tokens; got 7"
    yield lambda: plot.explain(llama, IDS, layers=[5]), "layers must be from 0 to 2"
    yield lambda: plot.explain(llama, IDS, side="encoder"), "side must be left out .* got 'encoder'"
    yield (
        lambda: plot.explain(made("t5")[0], IDS, side="left"),
        'side must be "encoder" or "decoder"; got \'left\'',
    )
    yield (
        lambda: plot.explain(bert, [1] * 38),
        r"at most max_position_embeddings = 37 positions; got input_ids \(1, 38\)",
    )
    yield lambda: plot.explain(vit, IDS), r"model must read text .* got a model of images \(vit\)"
    yield lambda: plot.explain(llama, "a text"), "tokens_or_ids must be .*; got 'a text' without a tokenizer"
    yield lambda: plot.explain(llama, ["a", "text"]), "because the model reads numbers; got 2 words alone"
    yield lambda: plot.explain(llama, [IDS, IDS]), r"tokens_or_ids must be one text: .*; got int64 \(2, 7\)"
    yield lambda: plot.explain(attention, ["a"], inputs=X[None]), "must name 5 rows .*; got 1"
    yield lambda: plot.explain(nn.Linear(3, 2), np.eye(3)), "must have an attention .*; got Linear"


@pytest.mark.parametrize("number", range(13))
def test_what_does_not_fit(number):
    call, text = list(refusals())[number]
    with pytest.raises(ValueError, match=text):
        call()


def test_a_page_is_at_most_4_mb_and_the_length_that_fits_is_said():
    model = models.CausalLM(vocab_size=61, d_model=48, nhead=12, num_layers=12)
    ids = np.random.default_rng(0).integers(0, 61, 400)
    with pytest.raises(ValueError, match=r"must have at most \d+ tokens here .* 4 MB .*; got 400") as refused:
        plot.explain(model, ids)
    fits = int(re.search(r"at most (\d+)", str(refused.value))[1])
    page = plot.explain(model, ids[:fits])._repr_html_()
    assert 3_000_000 < len(page.encode()) < 4_000_000
    for longer in (
        fits + fits // 8,
        3 * fits,
    ):  # of which the second is refused before its weights are computed
        with pytest.raises(ValueError, match="4 MB") as refused:
            plot.explain(model, np.resize(ids, longer))
        assert int(re.search(r"at most (\d+)", str(refused.value))[1]) == pytest.approx(fits, rel=0.15)
