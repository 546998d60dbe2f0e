"""Each instruction-set level computes the same, and QKV_ISA chooses it."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import numpy as np
import pytest
from levels import LEVELS, run_at

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


def test_every_level_of_this_machine_gives_the_same_numbers():
    results = []
    for level in qkv.config()["instruction_sets"]:
        done = run_at(level, PROGRAM)
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
    done = run_at(level, "import qkv; qkv.exp([1.0])")
    assert done.returncode == 1
    assert "QKV_ISA" in done.stderr
    assert level in done.stderr
    assert "baseline" in done.stderr
    assert "Traceback" in done.stderr, "an exception, not an abort"


def test_config_offers_the_levels_up_to_the_best():
    facts = qkv.config()
    offered = facts["instruction_sets"]
    assert offered == list(LEVELS[: len(offered)])
    assert offered[-1] == facts["best_instruction_set"]
    for level in LEVELS:
        done = run_at(level, "import qkv; print(*qkv.config()['instruction_sets'])")
        if level in offered:
            assert done.stdout.split() == offered, done.stderr
        else:
            assert f"QKV_ISA: this CPU goes up to {offered[-1]}; got {level}" in done.stderr


COLLECTION = """
import json, sys
import pytest
import qkv

names = ("baseline", "avx2", "avx512")

class Collected:
    def pytest_collection_finish(self, session):
        self.items = []
        for item in session.items:
            values = list(item.callspec.params.values()) if hasattr(item, "callspec") else []
            reasons = [mark.kwargs.get("reason") for mark in item.iter_markers("skip")]
            self.items += [[item.name, v, reasons] for v in values if isinstance(v, str) and v in names]

config = qkv.config
qkv.config = lambda: {**config(), "instruction_sets": ["baseline"]}
found = Collected()
sys.stdout = sys.stderr
status = pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *sys.argv[1:]], plugins=[found])
sys.stdout = sys.__stdout__
json.dump([int(status), found.items], sys.stdout)
"""


def test_no_test_asks_for_a_level_that_is_not_offered():
    """As collected on a CPU that offers the first level alone, all other levels' tests are skipped by name."""
    tests = Path(__file__).parent
    naming = [
        str(path)
        for path in tests.rglob("test_*.py")
        if re.search(r"levels|baseline", path.read_text("utf8"))
    ]
    done = run_at(None, f"import sys; sys.argv += {naming!r}\n" + COLLECTION)
    assert done.returncode == 0, done.stderr
    status, items = json.loads(done.stdout)
    assert status == 0, done.stderr
    assert {level for _, level, _ in items} == set(LEVELS)
    for name, level, reasons in items:
        assert reasons == ([] if level == "baseline" else [f"this CPU has no {level}"]), name
    # Levels that no parameter names: only these set the variable, to "baseline", to what no CPU has, or (benchmarks)
    # where qkv is not imported.
    setters = {
        path.name
        for path in tests.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf8")))
        if (isinstance(node, ast.keyword) and node.arg == "QKV_ISA")
        or (isinstance(node, ast.Constant) and node.value == "QKV_ISA")
    }
    assert setters == {"test_benchmarks.py", "test_levels.py", "test_package.py"}
