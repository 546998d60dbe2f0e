"""Recordings of models of PyTorch: the weights of eager attention, read afterwards; measures and views take them."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from helpers import close

import qkv
from pytorch.model_cases import CASES, built

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", minversion="5")

from qkv import pytorch  # noqa: E402

BY_NAME = {case.name: case for case in CASES}
IDS = torch.randint(3, 67, (2, 13), generator=torch.Generator().manual_seed(2))


@pytest.fixture(autouse=True)
def _registered():
    transformers.utils.logging.set_verbosity_error()
    pytorch.register()


def fused(name: str):
    return built(BY_NAME[name])[1]


def real(padding: str = "left"):
    mask = torch.ones(2, 13, dtype=torch.long)
    mask[0, slice(0, 4) if padding == "left" else slice(9, None)] = 0
    return mask


@pytest.mark.parametrize("padding", ["left", "right"])
@pytest.mark.parametrize(
    "name",
    [
        "MistralForCausalLM",
        "BertModel",
        "ModernBertModel",
        "GptOssForCausalLM",
        "Gemma2ForCausalLM",
        "Llama4ForCausalLM",
    ],
)
def test_weights_are_those_of_output_attentions(name, padding):
    model = fused(name)
    with pytorch.record(model) as recording:
        output = model(IDS, attention_mask=real(padding), output_attentions=True)
    assert recording.output is output
    assert len(recording.layers()) == len(output.attentions) == 2
    for found, expected in zip(recording.layers(), output.attentions, strict=True):
        close(found, expected.detach(), "float32")
        for item, head in ((0, 0), (1, 3), (-1, -2)):
            close(found[item, head], expected.detach()[item, head], "float32")


@pytest.mark.parametrize("name", ["T5ForConditionalGeneration", "BartForConditionalGeneration"])
def test_encoders_decoders_and_cross_attention(name):
    model = fused(name)
    targets = IDS[:, :7].flip(1)
    with pytorch.record(model) as recording:
        output = model(IDS, attention_mask=real(), decoder_input_ids=targets, output_attentions=True)
    decoder = [
        w for pair in zip(output.decoder_attentions, output.cross_attentions, strict=True) for w in pair
    ]
    for found, expected in zip(recording.layers(), [*output.encoder_attentions, *decoder], strict=True):
        close(found, expected.detach(), "float32")
    measures = qkv.look.measures(recording)
    crossing = np.isnan(measures.previous).all(1)
    assert crossing.tolist() == [False, False, False, True, False, True]
    assert not np.isnan(measures.entropy).any()


def test_measures_are_those_of_the_weights():
    model = fused("LlamaForCausalLM")
    ids = torch.tensor([[5, 6, 7, 5, 6, 7, 9, 9, 5, 11, 12, 13, 14]])
    with pytorch.record(model) as recording:
        output = model(ids, output_attentions=True)
    found = qkv.look.measures(recording)
    expected = qkv.look.head_measures.measures_of(
        np.concatenate([w.detach().numpy() for w in output.attentions]), ids[0].numpy()
    )
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_measures_leave_padding_out():
    model = fused("LlamaForCausalLM")
    with pytorch.record(model) as recording:
        model(IDS, attention_mask=real("left"))
    with pytorch.record(model) as alone:
        model(IDS[:1, 4:], position_ids=torch.arange(4, 13)[None])
        model(IDS[1:])
    of_both = qkv.look.measures(recording)
    items = [qkv.look.measures(alone._part({f"model.layers.{i}.self_attn"})) for i in range(2)]
    assert of_both.entropy.shape == (2, 4)
    for layer, of_layer in enumerate(items):
        # 9 real queries of the first item and 13 of the second: the mean over all of them.
        np.testing.assert_allclose(of_both.entropy[layer], of_layer.entropy[0], rtol=1e-5)


def test_words_and_patterns():
    model = fused("LlamaForCausalLM")
    words = ("queries", "keys", "values", "weights", "heads")
    with pytorch.record(model, keep=words) as recording:
        model(IDS)
    prefix = "model.layers.0.self_attn."
    assert recording.names()[:5] == [prefix + word for word in words]
    q, k, v, weights, heads = (recording[prefix + word] for word in words)
    assert (q.shape, k.shape, v.shape) == ((2, 4, 13, 8), (2, 2, 13, 8), (2, 2, 13, 8))
    close(heads, weights @ np.repeat(v, 2, axis=1), "float32")
    with pytorch.record(model, keep="*.1.*.weights") as recording:
        model(IDS)
    assert recording.names() == ["model.layers.1.self_attn.weights"]
    assert not recording["model.layers.1.self_attn.weights"].flags.writeable


def test_generation_gives_a_list_whose_keys_were_copied():
    model = fused("LlamaForCausalLM")
    options = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0, "return_dict_in_generate": True}
    for cache in ("dynamic", "static"):
        with pytorch.record(model) as recording:
            output = model.generate(IDS, output_attentions=True, cache_implementation=cache, **options)
        calls = recording["model.layers.1.self_attn.weights"]
        assert len(calls) == len(output.attentions) == 4
        for found, expected in zip(calls, output.attentions, strict=True):
            close(found, expected[1].detach(), "float32")


def test_masks_are_copied_once_and_as_they_were(monkeypatch):
    model = fused("BertModel")
    mask = torch.zeros(2, 1, 13, 13).masked_fill(torch.rand(2, 1, 13, 13) < 0.3, -torch.inf)
    copies = []
    monkeypatch.setattr(pytorch.recording, "unexpanded", lambda t: copies.append(t) or t)
    with pytorch.record(model) as recording:
        output = model(IDS, attention_mask=mask, output_attentions=True)
    assert len(copies) == 1
    mask.zero_()
    for found, expected in zip(recording.layers(), output.attentions, strict=True):
        close(found, expected.detach(), "float32")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read as Linux tells it")
def test_memory_grows_with_the_length_alone():
    def memory():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    model, length = fused("MistralForCausalLM"), 5000
    ids = torch.randint(3, 67, (1, length))
    mask = torch.ones(1, length, dtype=torch.long)
    mask[0, :7] = 0
    with torch.no_grad():
        model(ids, attention_mask=mask)
        before = memory()
        with pytorch.record(model) as recording:
            model(ids, attention_mask=mask)
    assert memory() - before < length * length  # bytes: a quarter of one head's weights
    weights = recording.layers()[0]
    assert weights[0, 3, 100:102].shape == (2, length)
    found = recording.image("model.layers.0.self_attn", size=(20, 25))[0, 3]
    close(found, weights[0, 3].reshape(20, 250, 25, 200).max((1, 3)), "float32")


def test_views_and_rollout():
    model = fused("BertModel")
    with pytorch.record(model, keep=("queries", "keys", "weights")) as recording:
        model(IDS[:1])
    tokens = [f"t{i}" for i in range(13)]
    for view in (
        qkv.plot.head_view(recording, tokens),
        qkv.plot.layer_view(recording, tokens),
        qkv.plot.token_view(recording, tokens),
        qkv.plot.neuron_view(recording, tokens),
        qkv.plot.compare_view(recording, recording, tokens),
    ):
        assert "13 queries" in repr(view) or "13 tokens" in repr(view)
    row = qkv.look.rollout(recording, -1)
    product = np.eye(13)
    for weights in recording.layers():
        product = (0.5 * np.asarray(weights)[0].mean(0) + 0.5 * np.eye(13)) @ product
    close(row, product[-1], "float32")
    vision = fused("ViTModel")
    with pytorch.record(vision) as recording:
        vision(torch.randn(1, 3, 14, 14))
    assert qkv.plot.image_view(recording, np.zeros((14, 14, 3), np.uint8))


def test_pickles_hold_the_weights():
    model = fused("BertModel")
    with pytorch.record(model) as recording, torch.no_grad():
        model(IDS, attention_mask=real("right"))
    again = pickle.loads(pickle.dumps(recording))
    for a, b in zip(qkv.look.measures(again), qkv.look.measures(recording), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_several_recordings_and_models():
    first, second = fused("BertModel"), fused("LlamaForCausalLM")
    with pytorch.record(first) as a, pytorch.record(second) as b:
        first(IDS)
        second(IDS)
    assert all(name.startswith("encoder.") for name in a.names())
    assert all(name.startswith("model.") for name in b.names())
    first(IDS)
    assert len(a.layers()) == 2


def test_training_is_recorded_without_its_graph():
    model = fused("LlamaForCausalLM").train()
    with pytorch.record(model) as recording:
        model(IDS).logits.sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    assert isinstance(recording["model.layers.0.self_attn.weights"], np.ndarray)


def test_what_is_refused():
    model = fused("BertModel")
    with pytest.raises(TypeError, match=r"^record: model must be a torch.nn.Module; got "):
        pytorch.record(3)
    with pytest.raises(TypeError, match=r"^record: keep must hold words or patterns; got 3"):
        pytorch.record(model, keep=[3])
    with pytest.raises(ValueError, match=r"because attention alone is recorded; got 'scores'$"):
        pytorch.record(model, keep=("weights", "scores"))
    with (
        pytest.raises(ValueError, match=r"got 'wieghts'; did you mean weights\?$"),
        pytorch.record(model, keep="wieghts"),
    ):
        model(IDS)
    with (
        pytest.raises(
            ValueError,
            match=r"^record: model must call attention that goes through qkv; got none; call .*regis",
        ),
        pytorch.record(built(BY_NAME["BertModel"])[0]) as recording,
    ):
        built(BY_NAME["BertModel"])[0](IDS)
    with pytest.raises(KeyError, match=r"x\.weights"):
        recording["x.weights"]
    with pytest.raises(RuntimeError, match="own"), pytorch.record(model):
        raise RuntimeError("own")
