"""Each instruction-set level computes the same, and QKV_ISA chooses it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import qkv

PROGRAM = """
import json, sys
import numpy as np
import qkv
from golden import golden
from helpers import gradients

rng = np.random.default_rng(0)
q, k, v = (rng.standard_normal(s) for s in ((2, 3, 37, 11), (2, 3, 53, 11), (2, 3, 53, 13)))
options = dict(is_causal="lower_right", valid_lens=[53, 29], softcap=3.0)
options |= dict(sinks=np.ones(3), alibi_slopes=np.ones(3) / 8)
def attend(q, k, v):
    return qkv.scaled_dot_product_attention(q, k, v, **options)
numbers = []
for dtype in ("float64", "float32"):
    for a in gradients(attend, *(x.astype(dtype) for x in (q, k, v))):
        numbers.append(np.asarray(a, np.float64).ravel()[::17])
    x = q.astype(dtype)
    for f in (qkv.exp, qkv.tanh, qkv.gelu, qkv.softmax, qkv.sigmoid):
        numbers.append(np.asarray(f(x), np.float64).ravel()[::17])
    layer = qkv.nn.TransformerEncoderLayer(11, 1, 7, 0.0).to(dtype)
    for i, p in enumerate(layer.parameters()):
        p.copy_(np.random.default_rng(i).standard_normal(p.shape) / 3)
    numbers.append(np.asarray(layer(x[:, 0]).numpy(), np.float64).ravel()[::17])
    layer = qkv.nn.GRU(11, 23).to(dtype)
    for i, p in enumerate(layer.parameters()):
        p.copy_(np.random.default_rng(i).standard_normal(p.shape) / 3)
    for a in gradients(lambda x: layer(x, valid_lens=[37, 20])[0], x[:, 0]):
        numbers.append(np.asarray(a, np.float64).ravel()[::17])
    numbers.append(layer.weight_hh_l0.grad.numpy().astype("float64").ravel()[::17])
g = golden("D0-18")
layer = qkv.nn.DotProductAttention()
g.close("out", layer(g["queries"], g["keys"], g["values"], g["lens"]))
g.close("attention_weights", layer.attention_weights)
qkv.manual_seed(0)
draws = np.concatenate([qkv.rand(33), qkv.randn(33)])
level = qkv.config()["instruction_set"]
json.dump({"level": level, "numbers": np.concatenate(numbers).tolist(), "draws": draws.tolist()}, sys.stdout)
"""
LEVELS = ["baseline", "avx2", "avx512"]


def run(level: str, program: str = PROGRAM) -> subprocess.CompletedProcess[str]:
    tests = Path(__file__).parent
    path = os.pathsep.join([str(tests), str(Path(qkv.__file__).parents[1])])
    environment = {**os.environ, "QKV_ISA": level, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_every_level_of_this_machine_gives_the_same_numbers():
    best = LEVELS.index(qkv.config()["instruction_set"])
    results = []
    for level in LEVELS[: best + 1]:
        done = run(level)
        assert done.returncode == 0, done.stderr
        results.append(json.loads(done.stdout))
        assert results[-1]["level"] == level
    for other in results[1:]:
        np.testing.assert_allclose(other["numbers"], results[0]["numbers"], 2e-5, 2e-5)
        assert other["draws"] == results[0]["draws"]
    if len(results) > 1:
        assert results[0]["numbers"] != results[-1]["numbers"], "the levels differ in their last digits"


@pytest.mark.parametrize("level", ["avx3", "AVX", "1"])
def test_an_unknown_level_is_refused(level):
    done = run(level, "import qkv; qkv.exp([1.0])")
    assert done.returncode == 1
    assert "QKV_ISA" in done.stderr
    assert level in done.stderr
    assert "baseline" in done.stderr
    assert "Traceback" in done.stderr, "an exception, not an abort"
