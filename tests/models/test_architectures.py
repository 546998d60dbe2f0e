"""Models of all types beside Hugging Face's: hidden states, scores, weights, texts, and files read back."""

from __future__ import annotations

import json

import numpy as np
import pytest

from models.tiny_models import CASES, TINY, hugging_face, largest_difference
from qkv import models

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", minversion="5")
pytest.importorskip("safetensors")

BOUND = 2e-4
FLOAT32 = torch.float32
HEADS = {
    "roberta": [
        "RobertaModel", "RobertaForMaskedLM", "RobertaForSequenceClassification", "RobertaForTokenClassification",
    ],
    "xlm-roberta": ["XLMRobertaModel", "XLMRobertaForMaskedLM", "XLMRobertaForSequenceClassification"],
    "camembert": ["CamembertModel", "CamembertForMaskedLM", "CamembertForTokenClassification"],
    "bert": ["BertModel", "BertForMaskedLM", "BertForSequenceClassification", "BertForTokenClassification"],
    "distilbert": [
        "DistilBertModel", "DistilBertForMaskedLM", "DistilBertForSequenceClassification",
        "DistilBertForTokenClassification",
    ],
    "electra": [
        "ElectraModel", "ElectraForMaskedLM", "ElectraForPreTraining", "ElectraForSequenceClassification",
        "ElectraForTokenClassification",
    ],
    "mpnet": ["MPNetModel", "MPNetForMaskedLM", "MPNetForSequenceClassification", "MPNetForTokenClassification"],
    "modernbert": [
        "ModernBertModel", "ModernBertForMaskedLM", "ModernBertForSequenceClassification",
        "ModernBertForTokenClassification",
    ],
    "deberta-v2": [
        "DebertaV2Model", "DebertaV2ForMaskedLM", "DebertaV2ForSequenceClassification",
        "DebertaV2ForTokenClassification",
    ],
    "gpt2": ["GPT2Model", "GPT2LMHeadModel"],
    "gpt_neox": ["GPTNeoXModel", "GPTNeoXForCausalLM"],
    "llama": ["LlamaModel", "LlamaForCausalLM"],
    "mistral": ["MistralModel", "MistralForCausalLM"],
    "qwen2": ["Qwen2Model", "Qwen2ForCausalLM"],
    "qwen3": ["Qwen3Model", "Qwen3ForCausalLM"],
    "gemma2": ["Gemma2Model", "Gemma2ForCausalLM"],
    "gemma": ["GemmaModel", "GemmaForCausalLM"],
    "phi3": ["Phi3Model", "Phi3ForCausalLM"],
    "smollm3": ["SmolLM3Model", "SmolLM3ForCausalLM"],
    "mt5": ["MT5Model", "MT5ForConditionalGeneration", "MT5EncoderModel"],
    "deit": ["DeiTModel", "DeiTForImageClassification", "DeiTForImageClassificationWithTeacher"],
    "bloom": ["BloomModel", "BloomForCausalLM"],
    "t5": ["T5Model", "T5ForConditionalGeneration", "T5EncoderModel"],
    "bart": ["BartModel", "BartForConditionalGeneration"],
    "marian": ["MarianModel", "MarianMTModel"],
    "vit": ["ViTModel", "ViTForImageClassification"],
}  # fmt: skip
CAUSAL = [
    "gpt2",
    "gpt_neox",
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "gemma2",
    "bloom",
    "gemma",
    "phi3",
    "smollm3",
]
UNTIED = ["distilbert", "electra", "modernbert"]  # encoders that may score words otherwise
BOTH_SIDES = ["t5", "mt5", "bart", "marian"]
IMAGES = ["vit", "deit"]
CLASSES = [(kind, variant, name) for kind, variant in CASES for name in HEADS[kind]]
# What is compared in float64, too; all others when slow tests run.
DOUBLE = [("bert", "plain"), ("mpnet", "plain"), ("gpt2", "plain"), ("llama", "plain"), ("bart", "plain")]

rng = np.random.default_rng(5)
IDS = rng.integers(6, 50, (3, 11))
TARGETS = rng.integers(6, 50, (3, 7))
PIXELS = rng.standard_normal((3, 2, 12, 12)).astype(np.float32)
RIGHT = np.arange(11) < np.array([11, 8, 5])[:, None]
LEFT = RIGHT[:, ::-1]


def inputs_of(kind, name, mask):
    if kind in IMAGES:
        return [PIXELS], {}
    ids = IDS if mask is None else np.where(mask, IDS, 1)
    options = {} if mask is None else {"attention_mask": mask.astype(np.int64)}
    if kind in BOTH_SIDES and not name.endswith("T5EncoderModel"):
        return [ids, TARGETS], options
    return [ids], options


def theirs_of(model, kind, arguments, options):
    names = ["pixel_values"] if kind in IMAGES else ["input_ids", "decoder_input_ids"]
    given = {name: torch.tensor(a) for name, a in zip(names, arguments, strict=False)}
    given |= {key: torch.tensor(np.ascontiguousarray(value)) for key, value in options.items()}
    if kind in IMAGES:
        given["pixel_values"] = given["pixel_values"].to(model.dtype)
    elif "attention_mask" in given and kind == "gpt2":  # whose positions count padding unless they are told
        given["position_ids"] = (given["attention_mask"].cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        return model(**given, output_hidden_states=True, output_attentions=True)


def compare(kind, name, model, loaded, mask, bound=BOUND):
    """Compare everything at real positions; give the largest difference."""
    arguments, options = inputs_of(kind, name, mask)
    theirs = theirs_of(model, kind, arguments, options)
    result = loaded(*arguments, **options, output_hidden_states=True)
    keep = np.ones(IDS.shape, bool) if mask is None else mask
    found = {}

    def check(label, a, b, kept=None):
        a, b = np.asarray(a), b.numpy()
        if kept is not None:
            a, b = a[kept], b[kept]
        found[label] = largest_difference(a, b)

    whole = None if kind in IMAGES or kind in BOTH_SIDES else keep
    if "logits" in result._fields:
        per_row = result.logits.ndim == 3 and kind not in BOTH_SIDES
        logits = (
            theirs.logits if theirs.logits.shape == tuple(result.logits.shape) else theirs.logits[..., None]
        )
        check("logits", result.logits, logits, whole if per_row else None)
    else:
        check("last_hidden_state", result.last_hidden_state, theirs.last_hidden_state,
              keep if name.endswith("T5EncoderModel") else whole)  # fmt: skip
        if getattr(theirs, "pooler_output", None) is not None:
            check("pooler_output", result.pooler_output, theirs.pooler_output)
    sides = [("", keep if whole is not None else None)]
    if kind in BOTH_SIDES and not name.endswith("T5EncoderModel"):
        sides = [("encoder_", keep), ("decoder_", None)]
    for side, kept in sides:
        states = getattr(theirs, side + "hidden_states")
        ours = getattr(result, side + "hidden_states")
        assert len(ours) == len(states), (side, len(ours), len(states))
        for i, (a, b) in enumerate(zip(ours, states, strict=True)):
            check(f"{side}hidden_states {i}", a, b, kept)
        weights = getattr(theirs, side + "attentions")
        mine = getattr(loaded, side + "attention_weights")
        assert len(mine) == len(weights)
        for i, (a, b) in enumerate(zip(mine, weights, strict=True)):
            check(f"{side}attention_weights {i}", np.moveaxis(np.asarray(a), 1, 3), b.moveaxis(1, 3), kept)
    if kind in BOTH_SIDES and not name.endswith("T5EncoderModel"):
        for i, (a, b) in enumerate(zip(loaded.cross_attention_weights, theirs.cross_attentions, strict=True)):
            check(f"cross_attention_weights {i}", a, b)
    wrong = {label: d for label, d in found.items() if not d <= bound}
    assert not wrong, wrong
    return max(found.values())


@pytest.mark.parametrize(("kind", "variant", "name"), CLASSES)
def test_outputs_equal_hugging_face(tmp_path, kind, variant, name):
    if name.endswith("T5EncoderModel") and variant != "plain":
        pytest.skip("one variant shows it")
    model = hugging_face(kind, variant, name, tmp_path)
    loaded = models.from_pretrained(tmp_path)
    assert not loaded.training
    masks = [None] if kind in IMAGES else [None, RIGHT, LEFT] if kind in CAUSAL else [None, RIGHT]
    for mask in masks:
        compare(kind, name, model, loaded, mask)


@pytest.mark.parametrize(
    ("kind", "variant"),
    [
        pytest.param(kind, variant, marks=[] if (kind, variant) in DOUBLE else pytest.mark.slow)
        for kind, variant in CASES
    ],
)
def test_outputs_in_float64(tmp_path, monkeypatch, kind, variant):
    name = HEADS[kind][1]
    model = hugging_face(kind, variant, name, tmp_path)
    if kind == "gemma2":  # whose 1 + weight is rounded where a file of float32 is read
        with torch.no_grad():
            for key, p in model.named_parameters():
                p.copy_((p * 1024).round() / 1024 if "norm" in key else p)
        model.save_pretrained(tmp_path)
    # What Hugging Face computes in float32 for any dtype of the model (norms, angles, softmax) is float64 here.
    monkeypatch.setattr(torch, "float32", torch.float64)
    monkeypatch.setattr(torch, "float", torch.float64)
    monkeypatch.setattr(torch, "FloatTensor", torch.DoubleTensor)
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    monkeypatch.setattr(model.config, "dtype", None)
    torch.set_default_dtype(torch.float64)
    try:
        exact = type(model)(model.config).eval()
    finally:
        torch.set_default_dtype(FLOAT32)
    tables = exact.state_dict()
    state = {
        key: tables[key] if kind == "marian" and "embed_positions" in key else value.double()
        for key, value in model.state_dict().items()
    }
    exact.load_state_dict(state)
    loaded = models.from_pretrained(tmp_path).to("float64")
    compare(kind, name, exact, loaded, None if kind in IMAGES else RIGHT, bound=1e-9)


@pytest.mark.parametrize(("kind", "variant", "name"), CLASSES)
def test_saved_models_are_read_back(tmp_path, kind, variant, name):
    hugging_face(kind, variant, name, tmp_path / "theirs")
    loaded = models.from_pretrained(tmp_path / "theirs")
    loaded.save_pretrained(tmp_path / "ours")
    again, info = getattr(transformers, name).from_pretrained(
        tmp_path / "ours", output_loading_info=True, attn_implementation="eager"
    )
    assert not any(
        info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")
    ), info
    compare(kind, name, again.eval(), loaded, None)
    ours = models.from_pretrained(tmp_path / "ours")
    assert all(
        (a.numpy() == b.numpy()).all() and m == n
        for (m, a), (n, b) in zip(loaded.named_parameters(), ours.named_parameters(), strict=True)
    )


# Hugging Face's T5 is saved with tied words, against its configuration.
@pytest.mark.parametrize(("kind", "variant"), [case for case in CASES if case != ("t5", "v1_1")])
def test_configurations_that_say_little(tmp_path, kind, variant):
    name = HEADS[kind][1]
    model = hugging_face(kind, variant, name, tmp_path)
    common, variants = TINY[kind]
    entries = {"model_type": kind, "architectures": [name], **common, **variants[variant]}
    (tmp_path / "config.json").write_text(json.dumps(entries))
    compare(kind, name, model, models.from_pretrained(tmp_path), None)


@pytest.mark.parametrize("kind", [*CAUSAL, *UNTIED])
def test_scores_of_a_file_that_says_it_ties_them(tmp_path, kind):
    name = HEADS[kind][1]
    hugging_face(kind, next(iter(TINY[kind][1])), name, tmp_path, tie_word_embeddings=False)
    entries = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**entries, "tie_word_embeddings": True}))
    model = getattr(transformers, name).from_pretrained(tmp_path, attn_implementation="eager").eval()
    loaded = models.from_pretrained(tmp_path)
    compare(kind, name, model, loaded, None)
    assert not loaded.config.tie_word_embeddings


@pytest.mark.parametrize("name", ["image_size", "patch_size", "num_channels"])
def test_images_have_sizes(name):
    entries = {
        "model_type": "vit",
        "hidden_size": 24,
        "num_attention_heads": 3,
        "image_size": 8,
        "patch_size": 2,
    }
    with pytest.raises(ValueError, match=f"from_config: {name} must be at least 1; got 0"):
        models.from_config({**entries, name: 0})


@pytest.mark.parametrize("kind", IMAGES)
def test_positions_between_those_of_images_of_another_size(tmp_path, kind):
    model = hugging_face(kind, "plain", HEADS[kind][1], tmp_path)
    loaded = models.from_pretrained(tmp_path)
    for height, width in ((12, 12), (20, 12), (9, 31), (4, 4)):
        pixels = rng.standard_normal((2, 2, height, width)).astype(np.float32)
        with torch.no_grad():
            expected = model(torch.tensor(pixels), interpolate_pos_encoding=True).logits.numpy()
        found = loaded(pixels, interpolate_pos_encoding=True).logits
        assert largest_difference(found, expected) < 1e-5
    with pytest.raises(
        ValueError, match=r"pixel_values must be \(B, 2, 12, 12\) as config says; got .*\(2, 2, 4, 4\)"
    ):
        loaded(pixels)
    with pytest.raises(ValueError, match=r"pixel_values must be \(B, 2, 12, 12\)"):
        loaded(pixels[:, :, :3], interpolate_pos_encoding=True)


def test_images_that_are_not_square():
    config = transformers.ViTConfig(**TINY["vit"][0] | {"image_size": [8, 20], "patch_size": [4, 5]})
    model = transformers.ViTModel(config).eval()
    loaded = models.from_config(config.to_dict() | {"architectures": ["ViTModel"]}).eval()
    assert loaded(np.zeros((2, 2, 8, 20))).last_hidden_state.shape == (2, 9, 24)
    assert loaded.positions.shape == tuple(model.embeddings.position_embeddings.shape)
    for value, text in (
        ([8, 0], "at least 1; got"),
        ([8], "an integer or two; got"),
        ("8", "an integer or two"),
    ):
        with pytest.raises((ValueError, TypeError), match=f"from_config: image_size must be {text}"):
            models.from_config({"model_type": "vit", **TINY["vit"][0], "image_size": value})
