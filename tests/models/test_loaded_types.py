"""Models in the type that is asked for: the values of model.to(dtype), in the memory of the result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import qkv
from qkv import models

SIZES = {
    "hidden_size": 36,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 53,
    "vocab_size": 47,
    "max_position_embeddings": 40,
}
CASES = {
    "llama": ("LlamaForCausalLM", {}),
    "gpt2": ("GPT2LMHeadModel", {}),
    "bert": ("BertForMaskedLM", {"type_vocab_size": 2}),
    "distilbert": ("DistilBertModel", {}),
    "t5": ("T5ForConditionalGeneration", {"d_kv": 12, "max_position_embeddings": None}),
}  # fmt: skip


@pytest.fixture(scope="module", params=CASES)
def folder(request, tmp_path_factory):
    name, more = CASES[request.param]
    qkv.manual_seed(0)
    path = tmp_path_factory.mktemp(request.param)
    entries = {"model_type": request.param, "architectures": [name], **SIZES, **more}
    models.from_config({k: v for k, v in entries.items() if v is not None}).save_pretrained(path)
    return path


def numbers(model: qkv.nn.Module) -> dict[str, np.ndarray]:
    return {name: x.numpy() for name, x in model.state_dict().items()}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", np.float64, np.dtype("float32")])
def test_it_is_what_to_makes(folder, dtype):
    expected, model = models.from_pretrained(folder).to(dtype), models.from_pretrained(folder, dtype=dtype)
    assert not model.training
    ids = [[5, 6, 1]]
    inputs = (ids, [[0, 7]]) if model.config.model_type == "t5" else (ids,)
    with qkv.no_grad():
        rows, wanted = (np.asarray(m(*inputs)[0]) for m in (model, expected))
    assert rows.dtype == wanted.dtype
    assert rows.tobytes() == wanted.tobytes()
    for (name, x), y in zip(numbers(model).items(), numbers(expected).values(), strict=True):
        assert x.dtype == y.dtype, name
        assert x.tobytes() == y.tobytes(), name


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_a_new_head_has_the_type(tmp_path, dtype):
    models.BertModel(models.BertConfig(**SIZES)).save_pretrained(tmp_path)
    load = models.BertForSequenceClassification.from_pretrained
    model = load(tmp_path, new_head=True, num_labels=3, dtype=dtype)
    for name, p in model.named_parameters():
        assert p.dtype == ("float64" if dtype == "float64" else "float32"), name
        halves = p.numpy().astype("float32").view("uint32")
        assert dtype == "float64" or not (halves & 0xFFFF).any(), name


@pytest.mark.parametrize("dtype", ["float16", "int8", "auto", 7, np.int64, "torch.float17"])
def test_another_type_is_refused(tmp_path, dtype):
    models.BertModel(models.BertConfig(**SIZES)).save_pretrained(tmp_path)
    for load in (models.from_pretrained, models.BertModel.from_pretrained):
        with pytest.raises(
            TypeError, match=r"from_pretrained: dtype must be float32, float64 or bfloat16; got "
        ):
            load(tmp_path, dtype=dtype)


def test_types_of_pytorch(tmp_path):
    torch = pytest.importorskip("torch")
    models.BertModel(models.BertConfig(**SIZES)).save_pretrained(tmp_path)
    model = models.from_pretrained(tmp_path, dtype=torch.float64)
    assert {p.dtype for p in model.parameters()} == {np.dtype("float64")}


# 24 million numbers: two sixths of them in a table that is tied, the rest in matrices.
LARGE = dict(
    vocab_size=16000, hidden_size=512, num_hidden_layers=5, num_attention_heads=8, intermediate_size=1400
)
TABLE, MIB = 16000 * 512, 2**20
PROGRAM = """
import sys, numpy as np, qkv, qkv.models as models
def status(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))
def begin():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak from now on
    return status("VmRSS")
warm = models.from_config(dict(model_type="llama", architectures=["LlamaForCausalLM"], vocab_size=40, hidden_size=24,
                               num_hidden_layers=1, num_attention_heads=4, intermediate_size=40)).eval()
warm.generate([[1, 2]], max_new_tokens=3)
import safetensors.numpy
start = begin()
model = models.from_pretrained(sys.argv[1], dtype=sys.argv[2])
print(status("VmHWM") - start, status("VmRSS") - start, sum(p.size for p in model.parameters()))
begin()
model.generate([[1, 2, 3]], max_new_tokens=8)
print(status("VmHWM") - start, status("VmRSS") - start)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("large")
    entries = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "tie_word_embeddings": True,
        **LARGE,
    }
    models.from_config(entries).save_pretrained(path)
    return path


@pytest.mark.skipif("QKV_SANITIZER" in os.environ, reason="a sanitizer's allocator keeps what is freed")
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads what is resident from /proc")
@pytest.mark.parametrize(
    ("dtype", "width", "more"), [("float32", 4, 1.15), ("bfloat16", 2, 1.2), ("float64", 8, 1.15)]
)
def test_weights_are_held_once(large, dtype, width, more):
    environment = {"PYTHONPATH": str(Path(qkv.__file__).parents[1]), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(large), dtype],
        env=environment, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    peak, loaded, count, highest, stays = map(int, done.stdout.split())
    assert count == 24_192_512
    weights, table = width * count, width * TABLE
    # While a tensor is loaded it is there as the file has it, as float32 and as it is asked for.
    assert peak < weights + table + 2 * 4 * TABLE + 16 * MIB
    assert loaded < more * weights + 16 * MIB
    # The largest matrix is there twice while it is packed.
    assert highest < more * weights + table + 16 * MIB
    assert stays < more * weights + 8 * MIB, "the cache of keys, and the allocator's rest"
    assert json.loads((large / "config.json").read_text())["dtype"] == "float32"
