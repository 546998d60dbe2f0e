"""Models of transformers by qkv's attention: outputs, gradients, weights and generated tokens are eager attention's."""

from __future__ import annotations

import sys
import warnings

import pytest
from helpers import close

from pytorch.model_cases import CASES, Case, built

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", minversion="5")

from qkv import pytorch  # noqa: E402
from qkv.pytorch import transformers as bridge  # noqa: E402

BATCH, LENGTH, TARGETS = 2, 13, 7
BY_NAME = {case.name: case for case in CASES}


@pytest.fixture(autouse=True)
def _registered():
    transformers.utils.logging.set_verbosity_error()
    pytorch.register()
    bridge._warned.update(case.name for case in CASES if case.eager)


def inputs_of(case: Case, padding: str):
    """Inputs with four padded places, and which places are real."""
    generator = torch.Generator().manual_seed(3)
    if case.kind == "images":
        size = case.config["image_size"]
        return {"pixel_values": torch.randn(BATCH, 3, size, size, generator=generator)}, None
    targets = torch.randint(3, 67, (BATCH, TARGETS), generator=generator)
    if case.kind == "sound":
        if "num_mel_bins" not in case.config:
            return {"input_values": torch.randn(BATCH, 400, generator=generator)}, None
        features = torch.randn(BATCH, case.config["num_mel_bins"], 40, generator=generator)
        return {"input_features": features, "decoder_input_ids": targets}, None
    real = torch.ones(BATCH, LENGTH, dtype=torch.bool)
    real[0, {"left": slice(0, 4), "right": slice(9, None), "none": slice(0, 0)}[padding]] = False
    ids = torch.randint(3, 67, (BATCH, LENGTH), generator=generator) * real
    inputs = {"input_ids": ids, "attention_mask": real.long()}
    if case.kind == "both":
        inputs["decoder_input_ids"] = targets
    return inputs, real


def computed(model, case: Case, padding: str):
    """Output, gradients and weights, of real places."""
    inputs, real = inputs_of(case, padding)
    result = model(**inputs, output_attentions=True)
    output = result.logits if "logits" in result else result.last_hidden_state
    output = output[real] if case.kind in ("decoder", "encoder") else output
    model.zero_grad()
    (output * torch.randn(output.shape, generator=torch.Generator().manual_seed(5))).sum().backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    weights = []
    for name in ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions"):
        for of_layer in result.get(name) or ():
            queries = real if real is not None and of_layer.shape[2] == LENGTH else None
            weights.append(of_layer if queries is None else of_layer * queries[:, None, :, None])
    assert weights
    return output.detach(), gradients, [w.detach() for w in weights]


@pytest.mark.parametrize("name", BY_NAME)
def test_equal_to_eager_attention(name):
    case = BY_NAME[name]
    eager, fused = built(case)
    assert fused.config._attn_implementation == ("eager" if case.eager else "qkv")
    for padding in ("none",) if case.kind in ("images", "sound") else ("left", "right"):
        expected, found = (computed(model, case, padding) for model in (eager, fused))
        close(found[0], expected[0], "float32 deep")
        assert found[1].keys() == expected[1].keys()
        for of, gradient in expected[1].items():
            scale = max(1.0, float(gradient.abs().max()))
            close(found[1][of] / scale, gradient / scale, "float32 deep")
        assert len(found[2]) == len(expected[2])
        for of_layer, weights in zip(found[2], expected[2], strict=True):
            close(of_layer, weights, "float32 deep")


GENERATED = [
    (case.name, cache)
    for case in CASES
    for cache in ("dynamic", "static")
    if case.kind in ("decoder", "both")
    and (case.name, cache) != ("DeepseekV4ForCausalLM", "static")  # it has none
]


@pytest.mark.parametrize(("name", "cache"), GENERATED)
def test_generates_the_same_tokens(name, cache):
    case = BY_NAME[name]
    inputs, _ = inputs_of(case, "left")
    inputs.pop("decoder_input_ids", None)
    options = {
        "max_new_tokens": 9,
        "min_new_tokens": 9,
        "do_sample": False,
        "pad_token_id": 0,
        "cache_implementation": cache,
    }
    expected, found = (model.generate(**inputs, **options) for model in built(case))
    assert found.tolist() == expected.tolist()


def test_a_class_with_an_attention_of_its_own_warns_once():
    bridge._warned.clear()
    with pytest.warns(
        UserWarning, match=r"^qkv.pytorch: BloomForCausalLM has an attention of its own; eager"
    ) as seen:
        built(BY_NAME["BloomForCausalLM"])
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        built(BY_NAME["BloomForCausalLM"])


def test_set_attn_implementation_changes_a_model_both_ways():
    eager, fused = built(BY_NAME["BertModel"])
    inputs, _ = inputs_of(BY_NAME["BertModel"], "none")
    before = fused(**inputs).last_hidden_state
    fused.set_attn_implementation("eager")
    torch.testing.assert_close(
        fused(**inputs).last_hidden_state, eager(**inputs).last_hidden_state, rtol=0, atol=0
    )
    fused.set_attn_implementation("qkv")
    torch.testing.assert_close(fused(**inputs).last_hidden_state, before, rtol=0, atol=0)


def attended(mask=None, **options):
    """The output of attention whose values are the unit vectors: the weights as they were used."""
    module = torch.nn.Module()
    q = torch.randn(1, 2, 11, 5, generator=torch.Generator().manual_seed(1))
    value = torch.eye(11).expand(1, 2, 11, 11)
    output, weights = bridge.attention_forward(module, q, q, value, mask, is_causal=False, **options)
    return output.transpose(1, 2), weights


def test_dropout_is_torchs():
    plain, _ = attended()
    torch.manual_seed(1)
    first, second = attended(dropout=0.4)[0], attended(dropout=0.4)[0]
    torch.manual_seed(1)
    torch.testing.assert_close(attended(dropout=0.4)[0], first, rtol=0, atol=0)
    assert not torch.equal(first, second)
    kept = first != 0
    assert 0.45 < float(kept.float().mean()) < 0.75
    torch.testing.assert_close(first[kept], plain[kept] / 0.6)


def test_weights_are_before_dropout():
    output, weights = attended(dropout=0.4, output_attentions=True)
    plain, none = attended()
    torch.testing.assert_close(weights, plain)
    assert none is None
    assert not torch.equal(output, weights)


def test_gradient_checkpoints_draw_the_same_dropout():
    found = []
    for checkpoints in (False, True):
        _, model = built(BY_NAME["LlamaForCausalLM"])
        model.train()
        for layer in model.model.layers:
            layer.self_attn.attention_dropout = 0.3
        if checkpoints:
            model.activation_checkpointing_enable({"use_reentrant": False})
        torch.manual_seed(4)
        inputs, _ = inputs_of(BY_NAME["LlamaForCausalLM"], "right")
        model(**inputs).logits.square().sum().backward()
        found.append([p.grad for p in model.parameters()])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b)


def test_bfloat16_stays_and_is_close():
    eager, fused = (model.to(torch.bfloat16) for model in built(BY_NAME["MistralForCausalLM"]))
    inputs, real = inputs_of(BY_NAME["MistralForCausalLM"], "left")
    with torch.no_grad():
        expected, found = (model(**inputs, output_attentions=True) for model in (eager, fused))
    assert found.logits.dtype == found.attentions[0].dtype == torch.bfloat16
    scale = float(expected.logits.abs().max())
    assert float((found.logits - expected.logits)[real].abs().max()) < 0.05 * scale


def test_keys_chosen_by_indices():
    chosen = torch.tensor([[[0, 4, 7]] * 11])
    found, _ = attended(indices=chosen)
    mask = torch.zeros(1, 1, 11, 11, dtype=torch.bool)
    mask[..., [0, 4, 7]] = True
    torch.testing.assert_close(found, attended(mask)[0], rtol=0, atol=0)
    floats = torch.zeros(1, 1, 11, 11).masked_fill(~mask, -torch.inf)
    torch.testing.assert_close(attended(floats)[0], found)
    torch.testing.assert_close(attended(torch.ones_like(mask), indices=chosen)[0], found)
    torch.testing.assert_close(attended(torch.zeros_like(floats), indices=chosen)[0], found)


def test_transformers_that_is_missing_or_too_old(monkeypatch):
    monkeypatch.setattr(sys.modules["transformers"], "__version__", "4.57.1")
    with pytest.raises(
        ImportError, match=r"^register: transformers must be 5 or newer; got 4.57.1; pip install"
    ):
        pytorch.register()
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"^register: transformers must be installed; pip install"):
        pytorch.register()


def test_a_model_on_another_device_is_refused():
    q = torch.zeros(1, 2, 3, 4, device="meta")
    with pytest.raises(TypeError, match=r"must be strided and on the CPU; got .* on meta"):
        bridge.attention_forward(torch.nn.Module(), q, q, q, None, is_causal=False)


def test_a_compiled_model_runs_with_breaks_in_its_graph():
    eager, fused = built(BY_NAME["LlamaForCausalLM"])
    inputs, real = inputs_of(BY_NAME["LlamaForCausalLM"], "left")
    with torch.no_grad():
        found = torch.compile(fused, backend="eager")(**inputs).logits
        close(found[real], eager(**inputs).logits[real], "float32 deep")


def test_register_under_another_name():
    pytorch.register("qkv_of_another_name")
    config = transformers.BertConfig(**BY_NAME["BertModel"].config)
    model = transformers.BertModel._from_config(config, attn_implementation="qkv_of_another_name")
    assert model.config._attn_implementation == "qkv_of_another_name"
