"""Embedders whose model is a decoder or T5's encoder, prompts, layers on embeddings, fewer numbers and bits."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import subprocess
import sys

import numpy as np
import pytest
from helpers import close
from sweep import sweep

import qkv
from models.folders import change, write
from models.small_tokenizers import TEXTS, folder_of, trained
from qkv import models
from qkv.models import SentenceEncoder
from qkv.models.sentences import sentence_entries as entries

pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

ROTARY = dict(
    hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=40, head_dim=6,
    max_position_embeddings=64, initializer_range=0.3,
)  # fmt: skip
T5 = dict(d_model=24, d_kv=5, d_ff=40, num_layers=2, num_heads=3, decoder_start_token_id=0)
GPT2 = dict(n_embd=24, n_layer=2, n_head=3, n_positions=64)
BERT = dict(
    hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40, max_position_embeddings=64,
)  # fmt: skip
FAST = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "pad_token": "<pad>",
    "eos_token": "</s>",
    "bos_token": "<s>",
}
LEFT = {**FAST, "padding_side": "left"}
# Model type: the tokenizer, the configuration, tokenizer_config.json, Hugging Face's class.
KINDS = {
    "qwen3": ("bytes", {**ROTARY, "architectures": ["Qwen3ForCausalLM"]}, LEFT, "AutoModel"),
    "mistral": ("bytes", {**ROTARY, "architectures": ["MistralForCausalLM"]}, FAST, "AutoModel"),
    "gpt2": ("bytes", {**GPT2, "architectures": ["GPT2Model"]}, FAST, "AutoModel"),
    "t5": ("unigram", {**T5, "architectures": ["T5EncoderModel"]}, {**FAST, "model_max_length": 30}, "T5EncoderModel"),
    "t5 whole": ("unigram", {**T5, "architectures": ["T5ForConditionalGeneration"]}, FAST, "T5EncoderModel"),
    "bert": ("bert", BERT, {"tokenizer_class": "BertTokenizer", "pad_token": "[PAD]"}, "AutoModel"),
}  # fmt: skip
PROMPTS = {"prompts": {"query": "the dog: ", "passage": "p "}}
POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")


def make(path, kind, pooling=("mean",), dense=(), normalize=False, include_prompt=True, top=None, body=None):
    """Write a folder of sentence-transformers; without a pooling only a model and a tokenizer."""
    tokenizer, config, settings, _ = KINDS[kind]
    vocabulary = json.loads(trained(tokenizer))["model"]["vocab"]
    qkv.manual_seed(3)
    model = models.from_config(
        {"model_type": kind.split()[0], "vocab_size": len(vocabulary), **config}
    ).eval()
    for i, (_, p) in enumerate(model.named_parameters()):
        p.copy_(p.numpy() + 0.1 * np.random.default_rng(i).standard_normal(p.shape))
    folder_of(path, tokenizer, None, settings)
    model.save_pretrained(path)
    if pooling is None:
        return path
    parts = ["", "1_Pooling", *(f"{i + 2}_Dense" for i in range(len(dense))), *["9_Normalize"] * normalize]
    kinds = ["Transformer", "Pooling", *["Dense"] * len(dense), *["Normalize"] * normalize]
    write(path / "modules.json", [{"path": a, "type": f"x.{b}"} for a, b in zip(parts, kinds, strict=True)])
    (path / "1_Pooling").mkdir()
    pooled = {"embedding_dimension": 24, "pooling_mode": list(pooling), "include_prompt": include_prompt}
    write(path / "1_Pooling" / "config.json", pooled)
    from safetensors.numpy import save_file

    for place, (said, arrays) in zip(parts[2:], dense, strict=False):
        (path / place).mkdir()
        write(path / place / "config.json", said)
        save_file(arrays, path / place / "model.safetensors")
    write(path / "sentence_bert_config.json", {"max_seq_length": 20, **(body or {})})
    if top is not None:
        write(path / "config_sentence_transformers.json", top)
    return path


def rows_of(folder, kind, texts, length=20):
    """Return Hugging Face's rows of texts, one by one."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = getattr(transformers, KINDS[kind][3]).from_pretrained(folder).eval()
    rows = []
    for text in texts:
        found = tokenizer(text, truncation=True, max_length=length, return_tensors="pt")
        if "token_type_ids" in found and kind != "bert":
            found.pop("token_type_ids")
        with torch.no_grad():
            rows.append(model(**found).last_hidden_state[0].numpy())
    return rows


def pooled(name, rows, begin=0):
    kept = rows[begin:]
    if name == "weightedmean":
        weights = np.arange(begin + 1, len(rows) + 1)[:, None]
        return (kept * weights).sum(0) / weights.sum()
    if name == "mean_sqrt_len_tokens":
        return kept.sum(0) / np.sqrt(len(kept))
    return {"cls": kept[0], "lasttoken": kept[-1], "max": kept.max(0), "mean": kept.mean(0)}[name]


@sweep("kind", KINDS)
def test_models_beside_hugging_faces(kind, tmp_path_factory):
    folder = make(tmp_path_factory.mktemp("folder"), kind, ("lasttoken", "mean"))
    encoder, rows = SentenceEncoder.from_pretrained(folder), rows_of(folder, kind, TEXTS)
    found = encoder.encode(TEXTS, batch_size=4)
    close(found, [np.concatenate([row[-1], row.mean(0)]) for row in rows], "float32 deep")
    for ours, theirs in zip(encoder.encode(TEXTS, output_value="token_embeddings"), rows, strict=True):
        close(ours, theirs, "float32 deep")
    close(encoder.encode(TEXTS[0], output_value="token_embeddings"), rows[0], "float32 deep")
    encoder.save_pretrained(folder / "again")
    assert (SentenceEncoder.from_pretrained(folder / "again").encode(TEXTS) == encoder.encode(TEXTS)).all()
    encoder.forward(TEXTS[:2]).sum().backward()


@sweep("kind, name", [("qwen3", "lasttoken"), ("gpt2", "mean"), ("t5", "mean"), ("bert", "mean")])
def test_folders_of_a_model_alone(kind, name, tmp_path_factory):
    folder = make(tmp_path_factory.mktemp("folder"), kind, None)
    encoder = SentenceEncoder.from_pretrained(folder)
    assert encoder.pooling == (name,)
    expected = [pooled(name, row) for row in rows_of(folder, kind, TEXTS, encoder.max_seq_length)]
    close(encoder.encode(TEXTS), expected, "float32 deep")


@sweep("kind, name", [(kind, name) for kind in ("bert", "qwen3") for name in POOLINGS])
def test_prompts_that_do_not_count(kind, name, tmp_path_factory):
    folder = make(tmp_path_factory.mktemp("folder"), kind, (name,), include_prompt=False, top=PROMPTS)
    encoder = SentenceEncoder.from_pretrained(folder)
    texts = [text for text in TEXTS if text]
    begin = len(encoder.tokenizer.encode(PROMPTS["prompts"]["query"])) - 1
    rows = rows_of(folder, kind, [PROMPTS["prompts"]["query"] + text for text in texts])
    close(
        encoder.encode(texts, prompt_name="query"), [pooled(name, row, begin) for row in rows], "float32 deep"
    )
    close(encoder.encode(texts), [pooled(name, row) for row in rows_of(folder, kind, texts)], "float32 deep")
    encoder.save_pretrained(folder / "again")
    assert not SentenceEncoder.from_pretrained(folder / "again").include_prompt


def test_queries_and_documents(tmp_path):
    lengths = {"query_length": 5, "document_length": 7}
    encoder = SentenceEncoder.from_pretrained(
        make(tmp_path, "bert", top={**PROMPTS, "default_prompt_name": "query"}, body=lengths)
    )
    text = TEXTS[-1]
    shortened = {
        n: SentenceEncoder(encoder.model, encoder.tokenizer, max_seq_length=n) for n in lengths.values()
    }
    assert (encoder.encode_query([text]) == shortened[5].encode([text], prompt="the dog: ")).all()
    assert (encoder.encode_document([text]) == shortened[7].encode([text], prompt="p ")).all()
    assert (encoder.encode_document(text, prompt="") == shortened[7].encode(text)).all()
    assert (encoder.encode_query(text, prompt_name="passage") == shortened[5].encode(text, prompt="p ")).all()
    encoder.prompts = {"other": "x"}
    assert (
        encoder.encode_query(text) == shortened[5].encode(text, prompt="")
    ).all()  # not the default prompt
    encoder.save_pretrained(tmp_path / "again")
    assert SentenceEncoder.from_pretrained(tmp_path / "again").task_lengths == {"query": 5, "document": 7}


def layer(width, outputs, function, bias=True, residual=False):
    """Return the entries and arrays of a Dense layer."""
    rng = np.random.default_rng(outputs)
    said = {"in_features": width, "out_features": outputs, "bias": bias, "activation_function": function}
    arrays = {"linear.weight": rng.standard_normal((outputs, width)).astype(np.float32)}
    if bias:
        arrays["linear.bias"] = rng.standard_normal(outputs).astype(np.float32)
    if residual:
        said["use_residual"] = True
        if width != outputs:
            arrays["residual.weight"] = rng.standard_normal((outputs, width)).astype(np.float32)
    return said, arrays


def test_layers_on_embeddings(tmp_path):
    dense = [
        layer(24, 17, "torch.nn.modules.activation.Tanh"),
        layer(17, 17, "torch.nn.modules.linear.Identity", bias=False, residual=True),
        layer(17, 11, "torch.nn.modules.activation.ReLU", residual=True),
    ]
    encoder = SentenceEncoder.from_pretrained(make(tmp_path, "bert", dense=dense, normalize=True))
    assert encoder.dimension == 11
    y = SentenceEncoder(encoder.model, encoder.tokenizer, max_seq_length=20).encode(TEXTS)
    for said, arrays in dense:
        z = y @ arrays["linear.weight"].T + arrays.get("linear.bias", 0)
        kind = said["activation_function"].rpartition(".")[2]
        z = {"Tanh": np.tanh(z), "Identity": z, "ReLU": np.maximum(z, 0)}[kind]
        if "use_residual" in said:
            z = z + (y @ arrays["residual.weight"].T if "residual.weight" in arrays else y)
        y = z
    close(encoder.encode(TEXTS), y / np.linalg.norm(y, axis=1, keepdims=True), "float32 deep")
    encoder.save_pretrained(tmp_path / "again")
    assert (SentenceEncoder.from_pretrained(tmp_path / "again").encode(TEXTS) == encoder.encode(TEXTS)).all()
    encoder.forward(TEXTS[:2]).sum().backward()
    assert encoder.dense[0].linear.weight.grad is not None


@sweep(
    "said, told",
    [
        ({"in_features": 23}, "in_features must be 24 as the part before gives; got 23"),
        ({"out_features": 10}, r"linear.weight must be \(10, 24\) as config.json says; got \(11, 24\)"),
        ({"out_features": 2**40}, "linear.weight must be"),
        ({"out_features": "3"}, "in_features and out_features must be integers above 0; got"),
        (
            {"activation_function": "mine.Tanh"},
            "activation_function must be torch.nn.*Tanh, ReLU.*; got 'mine.Tanh'",
        ),
        ({"module_input_name": "token_embeddings"}, "module_input_name must be sentence_embedding because"),
        ({"use_residual": True}, "must hold residual.weight; there is none"),
    ],
)
def test_layers_that_do_not_fit(said, told, tmp_path_factory):
    folder = make(
        tmp_path_factory.mktemp("folder"), "bert", dense=[layer(24, 11, "torch.nn.modules.activation.Tanh")]
    )
    change(folder / "2_Dense" / "config.json", **said)
    with pytest.raises((ValueError, TypeError), match=told):
        SentenceEncoder.from_pretrained(folder)


def test_fewer_numbers_and_fewer_bits(tmp_path):
    encoder = SentenceEncoder.from_pretrained(
        make(tmp_path, "bert", normalize=True, top={"truncate_dim": 19})
    )
    whole = encoder.encode(TEXTS, truncate_dim=500)
    assert whole.shape == (len(TEXTS), 24)
    assert encoder.dimension == 19
    assert (encoder.encode(TEXTS) == whole[:, :19]).all()
    cut = whole[:, :5] / np.linalg.norm(whole[:, :5], axis=1, keepdims=True)
    close(encoder.encode(TEXTS, truncate_dim=5, normalize_embeddings=True), cut, "float32 deep")
    rows = whole[:, :19]
    first, last = rows.min(0), rows.max(0)
    bytes_ = np.clip(np.floor((rows - first) / ((last - first) / 255)), 0, 255)
    signs = ["".join("1" if x > 0 else "0" for x in row) + "00000" for row in rows]
    bits = [int(row[i : i + 8], 2) for row in signs for i in (0, 8, 16)]
    for precision, expected in {
        "uint8": bytes_.astype(np.uint8),
        "int8": (bytes_ - 128).astype(np.int8),
        "ubinary": np.reshape(bits, (-1, 3)).astype(np.uint8),
        "binary": (np.reshape(bits, (-1, 3)) - 128).astype(np.int8),
        "float32": rows,
    }.items():
        found = encoder.encode(TEXTS, precision=precision)
        assert found.dtype == expected.dtype
        assert (found == expected).all(), precision
    assert encoder.encode([], precision="int8").shape == (0, 19)
    assert encoder.encode("dog", precision="binary").shape == (3,)
    assert encoder.forward(TEXTS).shape == (len(TEXTS), 19)
    encoder.save_pretrained(tmp_path / "again")
    assert SentenceEncoder.from_pretrained(tmp_path / "again").truncate_dim == 19
    for options, error, told in (
        ({"precision": "int8"}, ValueError, "encode: texts must be several for precision int8 .*; got one"),
        ({"precision": "int4"}, ValueError, "encode: precision must be one of float32, int8, .*; got 'int4'"),
        (
            {"output_value": "x"},
            ValueError,
            "encode: output_value must be one of sentence_embedding, tok.*; got 'x'",
        ),
        ({"task": "x"}, ValueError, "encode: task must be one of query, document; got 'x'"),
        ({"truncate_dim": 0}, ValueError, "encode: truncate_dim must be at least 1; got 0"),
    ):
        with pytest.raises(error, match=told):
            encoder.encode("dog", **options)


@sweep(
    "file, said, told",
    [
        ("config_sentence_transformers.json", {"model_type": "SparseEncoder"}, "model_type must be"),
        (
            "config_sentence_transformers.json",
            {"truncate_dim": "8"},
            "truncate_dim must be an integer; got '8'",
        ),
        (
            "sentence_bert_config.json",
            {"query_expansion": {"length": 3}},
            "query_expansion must be null because",
        ),
        ("sentence_bert_config.json", {"config_args": {"a": 1}}, r"config_args must be \{\} because"),
        (
            "sentence_bert_config.json",
            {"transformer_task": "fill-mask"},
            "transformer_task must be feature-extraction",
        ),
        ("sentence_bert_config.json", {"modality_config": {"image": {}}}, "modality_config must be"),
        ("sentence_bert_config.json", {"query_length": "5"}, "query_length must be an integer; got '5'"),
    ],
)
def test_entries_that_are_refused(file, said, told, tmp_path_factory):
    folder = make(tmp_path_factory.mktemp("folder"), "bert")
    write(folder / file, said)
    with pytest.raises(ValueError, match=rf"{file}: {told}"):
        SentenceEncoder.from_pretrained(folder)


def test_every_entry_that_sentence_transformers_reads_is_in_a_table():
    if importlib.util.find_spec("sentence_transformers") is None:
        pytest.skip("needs sentence-transformers")
    from sentence_transformers import CrossEncoder, SentenceTransformer
    from sentence_transformers.base.modules.dense import Dense
    from sentence_transformers.base.modules.transformer import Transformer
    from sentence_transformers.sentence_transformer.modules.pooling import Pooling

    assert {*Pooling.config_keys, *Pooling.config_key_renames} <= entries.POOLING.known
    assert {*Dense.config_keys, *inspect.signature(Dense).parameters} <= entries.DENSE.known
    arguments = {*inspect.signature(Transformer.__init__).parameters} - {"self", "model_name_or_path"}
    assert {*Transformer.config_keys, *arguments} <= entries.TRANSFORMER.known
    read, listed = set(), set()
    for kind in {*SentenceTransformer.__mro__, *CrossEncoder.__mro__}:
        if not kind.__module__.startswith("sentence_transformers"):
            continue
        for node in ast.walk(ast.parse(inspect.getsource(sys.modules[kind.__module__]))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "get" and node.args:
                holder, name = node.func.value, node.args[0]
            elif isinstance(node, ast.Subscript):
                holder, name = node.value, node.slice
            else:
                continue
            holder, name = getattr(holder, "id", ""), getattr(name, "value", None)
            if isinstance(name, str):
                read |= {name} if holder == "model_config" else set()
                listed |= {name} if holder == "module_config" else set()
    assert {"truncate_dim", "prompts"} <= read <= entries.SETTINGS.known
    assert {"type", "path"} <= listed <= entries.MODULES.known


MEMORY = """
import resource, sys
import numpy as np
from qkv.models import SentenceEncoder
encoder = SentenceEncoder.from_pretrained(sys.argv[1])
encoder.encode(["dog"] * 40)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
texts = ["the dog"] * 10_000
texts[4321] = "the dog " * 4_000
found = encoder.encode(texts)
assert found.shape == (10_000, 192)
assert np.allclose(found[0], encoder.encode("the dog"), atol=1e-5)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the largest memory is in kilobytes on Linux"
)
def test_memory_of_many_short_texts_and_a_long_one(tmp_path):
    sizes = dict(BERT, hidden_size=192, intermediate_size=768, max_position_embeddings=8200)
    tokenizer, _, settings, _ = KINDS["bert"]
    count = len(json.loads(trained(tokenizer))["model"]["vocab"])
    models.from_config({"model_type": "bert", "vocab_size": count, **sizes}).save_pretrained(tmp_path)
    folder_of(tmp_path, tokenizer, None, settings)
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path)], capture_output=True, text=True, check=True
    )
    # 8192 rows of 192 and of 768 numbers, several at a time, and the results; never 32 texts as long as the longest.
    assert float(done.stdout) < 150
