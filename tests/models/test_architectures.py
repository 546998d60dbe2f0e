"""Models of all types beside Hugging Face's: hidden states, scores, weights, texts, and files read back."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from models.tiny_models import CASES, TINY, hugging_face, largest_difference
from qkv import models
from qkv.models import generation_rules

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
    "bloom": ["BloomModel", "BloomForCausalLM"],
    "t5": ["T5Model", "T5ForConditionalGeneration", "T5EncoderModel"],
    "bart": ["BartModel", "BartForConditionalGeneration"],
    "marian": ["MarianModel", "MarianMTModel"],
    "vit": ["ViTModel", "ViTForImageClassification"],
}  # fmt: skip
CAUSAL = ["gpt2", "gpt_neox", "llama", "mistral", "qwen2", "qwen3", "gemma2", "bloom"]
BOTH_SIDES = ["t5", "bart", "marian"]
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
    if kind == "vit":
        return [PIXELS], {}
    ids = IDS if mask is None else np.where(mask, IDS, 1)
    options = {} if mask is None else {"attention_mask": mask.astype(np.int64)}
    if kind in BOTH_SIDES and name != "T5EncoderModel":
        return [ids, TARGETS], options
    return [ids], options


def theirs_of(model, kind, arguments, options):
    names = ["pixel_values"] if kind == "vit" else ["input_ids", "decoder_input_ids"]
    given = {name: torch.tensor(a) for name, a in zip(names, arguments, strict=False)}
    given |= {key: torch.tensor(np.ascontiguousarray(value)) for key, value in options.items()}
    if kind == "vit":
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

    whole = None if kind == "vit" or kind in BOTH_SIDES else keep
    if "logits" in result._fields:
        per_row = result.logits.ndim == 3 and kind not in BOTH_SIDES
        logits = (
            theirs.logits if theirs.logits.shape == tuple(result.logits.shape) else theirs.logits[..., None]
        )
        check("logits", result.logits, logits, whole if per_row else None)
    else:
        check("last_hidden_state", result.last_hidden_state, theirs.last_hidden_state,
              keep if name == "T5EncoderModel" else whole)  # fmt: skip
        if getattr(theirs, "pooler_output", None) is not None:
            check("pooler_output", result.pooler_output, theirs.pooler_output)
    sides = [("", keep if whole is not None else None)]
    if kind in BOTH_SIDES and name != "T5EncoderModel":
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
    if kind in BOTH_SIDES and name != "T5EncoderModel":
        for i, (a, b) in enumerate(zip(loaded.cross_attention_weights, theirs.cross_attentions, strict=True)):
            check(f"cross_attention_weights {i}", a, b)
    wrong = {label: d for label, d in found.items() if not d <= bound}
    assert not wrong, wrong
    return max(found.values())


@pytest.mark.parametrize(("kind", "variant", "name"), CLASSES)
def test_outputs_equal_hugging_face(tmp_path, kind, variant, name):
    if name == "T5EncoderModel" and variant != "plain":
        pytest.skip("one variant shows it")
    model = hugging_face(kind, variant, name, tmp_path)
    loaded = models.from_pretrained(tmp_path)
    assert not loaded.training
    masks = [None] if kind == "vit" else [None, RIGHT, LEFT] if kind in CAUSAL else [None, RIGHT]
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
    # What Hugging Face computes in float32 whatever the model's dtype (norms, angles, softmax) is float64 here.
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
    compare(kind, name, exact, loaded, None if kind == "vit" else RIGHT, bound=1e-9)


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


# Hugging Face's T5 is saved with tied words whatever its configuration says.
@pytest.mark.parametrize(("kind", "variant"), [case for case in CASES if case != ("t5", "v1_1")])
def test_configurations_that_say_little(tmp_path, kind, variant):
    name = HEADS[kind][1]
    model = hugging_face(kind, variant, name, tmp_path)
    common, variants = TINY[kind]
    entries = {"model_type": kind, "architectures": [name], **common, **variants[variant]}
    (tmp_path / "config.json").write_text(json.dumps(entries))
    compare(kind, name, model, models.from_pretrained(tmp_path), None)


@pytest.mark.parametrize("kind", CAUSAL)
def test_scores_of_a_file_that_says_it_ties_them(tmp_path, kind):
    name = HEADS[kind][1]
    hugging_face(kind, next(iter(TINY[kind][1])), name, tmp_path, tie_word_embeddings=False)
    entries = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**entries, "tie_word_embeddings": True}))
    model = getattr(transformers, name).from_pretrained(tmp_path, attn_implementation="eager").eval()
    loaded = models.from_pretrained(tmp_path)
    compare(kind, name, model, loaded, None)
    assert not loaded.config.tie_word_embeddings


def new_ids(model, arguments, count, **options):
    """Give what Hugging Face's greedy decoding adds, up to the end."""
    given = {key: torch.tensor(np.ascontiguousarray(value)) for key, value in options.items()}
    ids = torch.tensor(np.ascontiguousarray(arguments[0]))
    with torch.no_grad():
        found = model.generate(ids, **given, max_new_tokens=count, do_sample=False, num_beams=1)
    before = 1 if model.config.is_encoder_decoder else ids.shape[1]
    ends = model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    texts = []
    for row in found[:, before:].tolist():
        stop = next((i + 1 for i, token in enumerate(row) if token in ends), len(row))
        texts.append(row[:stop])
    return texts


def ours_of(loaded, arguments, count, **options):
    return [ids for [(ids, _, _)] in loaded.generate(arguments[0], **options, max_new_tokens=count)]


@pytest.mark.parametrize(("kind", "variant"), [case for case in CASES if case[0] in CAUSAL + BOTH_SIDES])
def test_greedy_texts_are_equal(tmp_path, kind, variant):
    name = HEADS[kind][1]
    model = hugging_face(kind, variant, name, tmp_path)
    loaded = models.from_pretrained(tmp_path)
    assert ours_of(loaded, [IDS], 13) == new_ids(model, [IDS], 13)
    mask = (LEFT if kind in CAUSAL else RIGHT).astype(np.int64)
    ids = np.where(mask, IDS, model.config.pad_token_id)
    expected = new_ids(model, [ids], 13, attention_mask=mask)
    assert ours_of(loaded, [ids], 13, attention_mask=mask) == expected


RULES = {
    "bad words": lambda text: {"bad_words_ids": [[text[1]], [text[3], text[4]], [2]]},
    "ngrams": lambda text: {"no_repeat_ngram_size": 1},
    "repetition": lambda text: {"repetition_penalty": 5.7},
    "ends": lambda text: {"eos_token_id": [2, text[4]]},
    "shortest": lambda text: {"min_new_tokens": 6, "eos_token_id": [2, text[2]]},
    "suppressed": lambda text: {"suppress_tokens": [text[3]], "begin_suppress_tokens": [text[0], 8]},
    "suppressed beyond the words": lambda text: {
        "suppress_tokens": [text[3], 61],
        "begin_suppress_tokens": [99],
    },
    "ends beyond the words": lambda text: {"min_new_tokens": 6, "eos_token_id": [61, text[2]]},
    "forced": lambda text: {"forced_eos_token_id": 9},
    "unforced": lambda text: {"forced_eos_token_id": None, "suppress_tokens": [text[3]]},
    "forced first": lambda text: {"forced_bos_token_id": 5},
    # Both lengths: that of the new ids holds, whatever the other is.
    "shortest twice": lambda text: {"min_new_tokens": 2, "min_length": 20, "eos_token_id": [2, text[3]]},
    "first but for the forced": lambda text: {
        "forced_bos_token_id": 5,
        "begin_suppress_tokens": [5, text[0]],
    },
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_generation_configs_are_heeded(tmp_path, kind, rule):
    variant, name = next(iter(TINY[kind][1])), HEADS[kind][1]
    model = hugging_face(kind, variant, name, tmp_path)
    plain = new_ids(model, [IDS], 13)
    for key, value in RULES[rule](plain[0]).items():
        setattr(model.generation_config, key, value)
    model.generation_config.save_pretrained(tmp_path)
    expected = new_ids(model, [IDS], 13)
    assert (expected == plain) == (rule == "forced first" and kind == "gpt2")
    assert ours_of(models.from_pretrained(tmp_path), [IDS], 13) == expected


@pytest.mark.parametrize(("start", "kind"), [(10**30, ValueError), (1.5, TypeError), (-1, ValueError)])
def test_the_first_id_of_a_decoder_is_a_word(tmp_path, start, kind):
    hugging_face("bart", "plain", "BartForConditionalGeneration", tmp_path)
    loaded = models.from_pretrained(tmp_path)
    loaded.given_generation = {"decoder_start_token_id": start}
    with pytest.raises(kind, match="generate: decoder_start_token_id must be"):
        loaded.generate(IDS, max_new_tokens=3)


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


def test_an_encoder_may_have_more_words():
    rules = generation_rules.Rules({"encoder_no_repeat_ngram_size": 1}, [], 1, 5, source=np.array([[2, 9]]))
    assert rules.apply(np.array([[0]]), np.zeros((1, 5))).tolist() == [[0, 0, -np.inf, 0, 0]]


def test_generation_takes_no_unknown_rule(tmp_path):
    hugging_face("gpt2", "plain", "GPT2LMHeadModel", tmp_path)
    loaded = models.from_pretrained(tmp_path)
    loaded.given_generation = {"guidance_scale": 1.5}
    with pytest.raises(
        ValueError, match=r"guidance_scale must be unset because qkv has no rule for it; got 1\.5"
    ):
        loaded.generate(IDS, max_new_tokens=3)
    for name, value in {
        "bad_words_ids": [[3], [61]],
        "forced_eos_token_id": 61,
        "forced_bos_token_id": -1,
    }.items():
        loaded.given_generation = {name: value}
        got = value if isinstance(value, int) else 61
        message = rf"generate: {name} must have ids from 0 to vocab_size - 1 = 60; got \[{got}\]"
        with pytest.raises(ValueError, match=message):
            loaded.generate(IDS[:, :1], max_new_tokens=3)
    loaded.given_generation = {}
    with pytest.raises(ValueError, match="on_token must be None with method='beam'"):
        loaded.generate(IDS, max_new_tokens=3, method="beam", on_token=print)
    with pytest.raises(ValueError, match=r"input_ids must be integers \(B, L\) with L at least 1"):
        loaded.generate(IDS[0], max_new_tokens=3)
    with pytest.raises(ValueError, match=r"attention_mask must be \(3, 11\) as input_ids"):
        loaded.generate(IDS, attention_mask=np.ones((3, 2)), max_new_tokens=3)


def test_tokens_stream(tmp_path):
    hugging_face("llama", "plain", "LlamaForCausalLM", tmp_path)
    loaded = models.from_pretrained(tmp_path)
    plain = [ids for [(ids, _, _)] in loaded.generate(IDS, max_new_tokens=9)]
    end = next(ids[2] for ids in plain if ids[2] not in ids[:2])
    seen = []
    found = loaded.generate(IDS, max_new_tokens=9, end_id=end, on_token=seen.append)
    texts = [ids for [(ids, _, _)] in found]
    assert texts == [ids[: ids.index(end) + 1] if end in ids else ids for ids in plain]
    assert 3 in map(len, texts)
    assert len(set(map(len, texts))) > 1
    padding = loaded.generation["pad_token_id"]
    assert padding != end
    longest = max(map(len, texts))
    expected = [text + [padding] * (longest - len(text)) for text in texts]
    assert np.array(seen).T.tolist() == expected


# Entries of transformers' configurations that change nothing of what is computed here: first values, dropout that a
# table has under another name, ids of special tokens (generation heeds them), losses, what other libraries are told.
WITHOUT_EFFECT = {
    "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "cls_token_id", "decoder_start_token_id",
    "forced_eos_token_id", "initializer_range", "initializer_factor", "initializer_cutoff_factor", "init_std",
    "use_cache", "model_type", "is_encoder_decoder", "summary_type", "summary_use_proj", "summary_activation",
    "summary_last_dropout", "summary_proj_to_labels", "summary_first_dropout", "classifier_dropout", "qa_dropout",
    "pretraining_tp", "slow_but_exact", "encoder_layerdrop", "decoder_layerdrop", "deterministic_flash_attn",
    "sparse_prediction", "sparse_pred_ignore_index", "encoder_stride", "id2label", "label2id",
}  # fmt: skip
# Entries that a table reads although they have no default of theirs.
READ = {
    "rope_parameters", "layer_types", "add_cross_attention", "pooler_hidden_size", "pooler_output_size", "dense_act_fn",
    "is_gated_act", "scale_decoder_outputs", "pos_att_type", "is_decoder",
}  # fmt: skip


@pytest.mark.parametrize("kind", TINY)
def test_every_entry_of_a_configuration_is_known(kind):
    if kind == "bert":
        known = {f.name for f in dataclasses.fields(models.BertConfig)} | set(models.configuration.NEVER)
        known |= {"tie_word_embeddings"}
    else:
        table = models.auto.architecture_of(kind)
        known = set(table.defaults) | set(table.allowed)
    common, variants = TINY[kind]
    config = transformers.AutoConfig.for_model(kind, **{**common, **next(iter(variants.values()))}).to_dict()
    plain = transformers.PretrainedConfig().to_dict()
    entries = {key for key, value in config.items() if key not in plain or plain[key] != value}
    assert entries - known - WITHOUT_EFFECT - READ == set()
