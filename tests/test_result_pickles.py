"""What functions and models return is pickled and copied: named tuples, recordings, results of every public class."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from sweep import sweep

import qkv
from qkv import data, look, models, nn

SIZES = dict(vocab_size=29, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=17)
LLAMA = dict(model_type="llama", architectures=["LlamaForCausalLM"], **SIZES)
T5 = dict(
    model_type="t5", architectures=["T5ForConditionalGeneration"], vocab_size=29, d_model=12, d_kv=4, d_ff=17,
    num_layers=2, num_heads=3, decoder_start_token_id=0,
)  # fmt: skip
IDS = [[2, 5, 7], [3, 1, 1]]


def made(entries, *ids, **options):
    qkv.manual_seed(0)
    return models.from_config(entries).eval()(*ids, **options)


def bert(kind):
    qkv.manual_seed(0)
    return getattr(models, kind)(models.BertConfig(**SIZES)).eval()(IDS)


RESULTS = {
    "hidden states": lambda: made(LLAMA, IDS, output_hidden_states=True),
    "bare body": lambda: made({**LLAMA, "architectures": ["LlamaModel"]}, IDS),
    "encoder and decoder": lambda: made(T5, IDS, IDS, output_hidden_states=True),
    "encoder with classes": lambda: made(
        {"model_type": "roberta", "architectures": ["RobertaForSequenceClassification"], **SIZES}, IDS
    ),
    **{
        kind: lambda kind=kind: bert(kind)
        for kind in ("BertModel", "BertForPreTraining", "BertForMaskedLM", "BertForSequenceClassification")
    },
    "padded": lambda: data.pad([[1, 2], [3]]),
    "batch": lambda: data.Batches([[1], [2, 2]], np.arange(2), batch_size=2)(0)[0],
    "measures": lambda: look.measures(nn.SelfAttention(3, 2), np.ones((5, 3))),
    "topk": lambda: qkv.topk(np.arange(6.0), 2),
    "attention": lambda: qkv.scaled_dot_product_attention(
        *[np.ones((1, 1, 3, 2))] * 3, return_weights=True, return_lse=True
    ),
}
COPIES = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}


def same(a, b):
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    return a is b is None or bool((np.asarray(a) == np.asarray(b)).all())


@pytest.mark.parametrize("how", COPIES)
@sweep("name", RESULTS)
def test_results_are_copied(name, how):
    result = RESULTS[name]()
    again = COPIES[how](result)
    assert type(again) is type(result)
    assert getattr(again, "_fields", None) == getattr(result, "_fields", None)
    if name != "measures":  # has NaN
        assert same(again, result)


def test_a_copy_keeps_gradients_and_what_is_stored_has_none():
    result = RESULTS["hidden states"]()
    assert result.logits.requires_grad
    assert copy.copy(result).logits.requires_grad
    assert not copy.deepcopy(result).logits.requires_grad


def logits_of(seed):
    qkv.manual_seed(seed)
    return models.from_config(LLAMA).eval()(IDS, output_hidden_states=True)


def test_a_pool_of_processes_returns_results():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        found = pool.submit(logits_of, 3).result()
    np.testing.assert_array_equal(found.logits, logits_of(3).logits)


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("graph", [False, True])
def test_recordings(how, graph):
    model, x = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), qkv.randn(2, 3, 8)
    recording = look.record(
        model, x, keep=("queries", "weights", "scores"), keep_graph=graph, valid_lens=[3, 2]
    )
    again = COPIES[how](recording)
    assert again.names() == recording.names()
    for name in recording.names():
        np.testing.assert_array_equal(again[name], recording[name])
    np.testing.assert_array_equal(again.output, recording.output)
    if graph:
        return
    for a, b in zip(look.measures(again), look.measures(recording), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    np.testing.assert_allclose(
        again.image("self_attn", size=(7, 5)), recording.image("self_attn", size=(7, 5))
    )
    twice = COPIES[how](again)
    np.testing.assert_array_equal(twice["self_attn.weights"], recording["self_attn.weights"])


def test_a_copied_recording_computes_nothing():
    model = nn.SelfAttention(3, 2)
    recording = look.record(model, np.ones((5, 3)))
    assert copy.copy(recording)._kept is recording._kept
